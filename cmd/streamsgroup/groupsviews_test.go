package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
)

// rule CLI-7
func TestTopologyText(t *testing.T) {
	t.Parallel()
	n := func(kind int8, name string, change func(*client.TopologyNode)) client.TopologyNode {
		out := client.TopologyNode{TopologyDescriptionNode: kmsg.NewTopologyDescriptionNode()}
		out.NodeType, out.Name = kind, name
		change(&out)
		return out
	}
	g := &client.GroupDescription{Description: &client.TopologyDescription{
		Subtopologies: []client.SubtopologyDescription{{ID: "0", Nodes: []client.TopologyNode{
			n(client.SourceNode, "in", func(n *client.TopologyNode) {
				n.SourceTopics, n.Successors = []string{"z", "a"}, []string{"work", "drop"}
			}),
			n(client.ProcessorNode, "work", func(n *client.TopologyNode) {
				n.Stores, n.Predecessors = []string{"s2", "s1"}, []string{"in"}
			}),
			n(client.SinkNode, "drop", func(n *client.TopologyNode) { n.Predecessors = []string{"in"} }),
		}}},
		GlobalStores: []client.GlobalStoreDescription{{
			Source:    n(client.SourceNode, "rates", func(n *client.TopologyNode) { n.SourceTopics, n.Successors = []string{"r"}, []string{"fill"} }),
			Processor: n(client.ProcessorNode, "fill", func(n *client.TopologyNode) { n.Stores, n.Predecessors = []string{"r"}, []string{"rates"} }),
		}},
	}}
	g.TopologyDescriptionStatus = int8(client.DescriptionAvailable)
	text, err := topologyText(g)
	require.NoError(t, err)
	assert.Equal(t, `Topologies:
   Sub-topology: 0
    Source: in (topics: [a, z])
      --> drop, work
    Processor: work (stores: [s1, s2])
      --> none
      <-- in
    Sink: drop (topic: null)
      <-- in

   Sub-topology: 1 for global store (will not generate tasks)
    Source: rates (topics: [r])
      --> fill
    Processor: fill (stores: [r])
      --> none
      <-- rates

`, text)
	for status, says := range map[client.DescriptionStatus]string{
		client.DescriptionNotStored: "no topology description is stored", client.DescriptionFailed: "failed to fetch",
	} {
		g.TopologyDescriptionStatus = int8(status)
		_, err := topologyText(g)
		require.ErrorContains(t, err, says)
	}
}

// rules CLI-5, CLI-6
func TestMemberTable(t *testing.T) {
	t.Parallel()
	tasks := func(sub string, ps ...int32) []kmsg.TaskIDs {
		ids := kmsg.NewTaskIDs()
		ids.SubtopologyID, ids.Partitions = sub, ps
		return []kmsg.TaskIDs{ids}
	}
	m := kmsg.NewStreamsGroupDescribeResponseGroupMember()
	m.MemberID, m.MemberEpoch, m.ProcessID, m.ClientID, m.IsClassic, m.TopologyEpoch = "m", 3, "p", "c", true, 1
	m.Assignment.ActiveTasks = append(tasks("0", 0, 2), tasks("1", 1)...)
	m.Assignment.WarmupTasks = tasks("1", 0)
	m.TargetAssignment.ActiveTasks, m.TargetAssignment.StandbyTasks, m.TargetAssignment.WarmupTasks = tasks("0", 0), tasks("0", 1), tasks("0", 2)
	g := &client.GroupDescription{}
	g.Group, g.AssignmentEpoch, g.Members = "g", 4, append(g.Members, m)
	topo := kmsg.NewStreamsGroupDescribeResponseGroupTopology()
	topo.Epoch = 2
	g.Topology = &topo
	var b bytes.Buffer
	writeMembers(&b, g, true)
	assert.Equal(t, ""+
		"GROUP           TARGET-ASSIGNMENT-EPOCH   TOPOLOGY-EPOCH  MEMBER          MEMBER-PROTOCOL MEMBER-EPOCH    PROCESS         CLIENT-ID       ASSIGNMENTS\n"+
		"g               4                         2               m               classic         3               p               c               "+
		"ACTIVE: 0:[0,2]; 1:[1]; WARMUP: 1:[0]; TARGET-ACTIVE: 0:[0]; TARGET-STANDBY: 0:[1]; TARGET-WARMUP: 0:[2];\n", b.String())
	b.Reset()
	g.State, g.Coordinator.Host, g.Coordinator.Port, g.Coordinator.NodeID = "Brandnew", "kafka-1", 9092, 7
	writeState(&b, g, false)
	assert.Contains(t, b.String(), "g               kafka-1:9092 (7)                          Unknown                   1\n", "CLI-4 an assignor that is not known is blank")
}
