package conformance

import (
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// descriptions are about topology descriptions (KIP-1331) at brokers that have a
// plug-in for them; see [DescriptionPlugin].
var descriptions = []Scenario{
	{
		IDs: []string{"20-1", "20-2", "20-3", "20-5", "20-6", "18.1-11"}, Title: "a topology description is asked for, pushed, shown and forgotten",
		Run: func(c *C) {
			c.Need44()
			c.AtOnce()
			c.Topic("foo", 1)
			m := c.Member("m1")
			first := m.Join(T1()).OK(2)
			if !first.TopologyDescriptionRequired {
				c.Skip("the broker has no plug-in for topology descriptions")
			}
			const notStored, available = int8(1), int8(3)
			require.Equal(c, notStored, c.described().TopologyDescriptionStatus)
			require.False(c, m.Ack().OK(2).TopologyDescriptionRequired, "asked again before the back-off is over")

			for _, wrong := range []struct {
				code   string
				change func(*kmsg.StreamsGroupTopologyDescriptionUpdateRequest)
			}{
				{"INVALID_REQUEST", func(r *kmsg.StreamsGroupTopologyDescriptionUpdateRequest) { r.TopologyEpoch = 1 }},
				{"INVALID_REQUEST", func(r *kmsg.StreamsGroupTopologyDescriptionUpdateRequest) { r.MemberID = "" }},
				{"UNKNOWN_MEMBER_ID", func(r *kmsg.StreamsGroupTopologyDescriptionUpdateRequest) { r.MemberID = "m9" }},
				{"GROUP_ID_NOT_FOUND", func(r *kmsg.StreamsGroupTopologyDescriptionUpdateRequest) { r.Group = c.beside("nobody") }},
			} {
				push := c.description("m1")
				wrong.change(push)
				require.Equal(c, wrong.code, c.push(push))
			}
			require.Equal(c, notStored, c.described().TopologyDescriptionStatus)

			require.Equal(c, "NONE", c.push(c.description("m1")))
			d := c.described()
			require.Equal(c, available, d.TopologyDescriptionStatus)
			require.NotNil(c, d.TopologyDescription)
			require.Len(c, d.TopologyDescription.Subtopologies, 1)
			require.Equal(c, "s1", d.TopologyDescription.Subtopologies[0].SubtopologyID)
			require.Len(c, d.TopologyDescription.Subtopologies[0].Nodes, 1)
			require.Equal(c, "in", d.TopologyDescription.Subtopologies[0].Nodes[0].Name)
			require.Equal(c, int32(2), d.Epoch, "the group epoch does not change")

			m2 := c.Member("m2")
			require.False(c, m2.Join(T1()).OK(3).TopologyDescriptionRequired, "it is stored")
			m.Leave()
			m2.Leave()
			c.DeleteGroup()
			require.True(c, c.Member("m3").Join(T1()).OK(2).TopologyDescriptionRequired, "it went with the group")
			require.Equal(c, notStored, c.described().TopologyDescriptionStatus)
		},
	},
}

// description is a description of T1 that a member pushes.
func (c *C) description(member string) *kmsg.StreamsGroupTopologyDescriptionUpdateRequest {
	node := kmsg.NewTopologyDescriptionNode()
	const source = 1
	node.Name, node.NodeType, node.SourceTopics, node.Successors = "in", source, []string{c.Named("foo")}, []string{}
	sub := kmsg.NewTopologyDescriptionSubtopology()
	sub.SubtopologyID, sub.Nodes = "s1", []kmsg.TopologyDescriptionNode{node}
	req := kmsg.NewPtrStreamsGroupTopologyDescriptionUpdateRequest()
	req.Group, req.MemberID = c.group, member
	req.TopologyDescription.Subtopologies = []kmsg.TopologyDescriptionSubtopology{sub}
	req.TopologyDescription.GlobalStores = []kmsg.TopologyDescriptionGlobalStore{}
	return req
}

func (c *C) push(req *kmsg.StreamsGroupTopologyDescriptionUpdateRequest) string {
	code := CodeName(c.AskCoordinator(req).(*kmsg.StreamsGroupTopologyDescriptionUpdateResponse).ErrorCode)
	c.note("%s: topology description of epoch %d -> %s", req.MemberID, req.TopologyEpoch, code)
	return code
}

// described is the group with its topology description.
func (c *C) described() kmsg.StreamsGroupDescribeResponseGroup {
	return c.describeWith(func(req *kmsg.StreamsGroupDescribeRequest) { req.IncludeTopologyDescription = true }, c.group)[0]
}
