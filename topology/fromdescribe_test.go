package topology_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/topology"
)

// describeResponse is what a broker answers for a group with this topology.
func describeResponse(top *topology.Topology) *kmsg.StreamsGroupDescribeResponseGroup {
	g := kmsg.NewStreamsGroupDescribeResponseGroup()
	w := top.Wire()
	t := kmsg.NewStreamsGroupDescribeResponseGroupTopology()
	t.Epoch = w.Epoch
	for _, s := range w.Subtopologies {
		d := kmsg.NewStreamsGroupDescribeResponseGroupTopologySubtopology()
		d.SubtopologyID = s.SubtopologyID
		d.SourceTopics, d.RepartitionSinkTopics = s.SourceTopics, s.RepartitionSinkTopics
		d.StateChangelogTopics, d.RepartitionSourceTopics = s.StateChangelogTopics, s.RepartitionSourceTopics
		t.Subtopologies = append(t.Subtopologies, d)
	}
	g.Topology = &t
	if description := top.Description(); description != nil {
		d := kmsg.NewStreamsGroupDescribeResponseGroupTopologyDescription()
		d.Subtopologies, d.GlobalStores = description.Subtopologies, description.GlobalStores
		g.TopologyDescription = &d
	}
	return &g
}

func TestFromDescribe(t *testing.T) {
	t.Parallel()
	top := build(t, counted(new(topology.Builder)).AddGlobalStore("g", "gs", "gt", "gp").Epoch(3))
	got, err := topology.FromDescribe(describeResponse(top))
	require.NoError(t, err)
	assert.Equal(t, int32(3), got.Epoch())
	assert.Equal(t, top.Describe(), got.Describe())
	assert.Equal(t, top.DOT(), got.DOT())
	assert.Equal(t, top.Description(), got.Description())
	assert.Equal(t, top.Footprints(nil), got.Footprints(nil))

	bare := describeResponse(top)
	bare.TopologyDescription = nil
	got, err = topology.FromDescribe(bare)
	require.NoError(t, err)
	assert.Nil(t, got.Description())
	assert.Contains(t, got.Mermaid(), "Sub-topology 1")

	// Nothing is shared with the response.
	shared := describeResponse(top)
	got, err = topology.FromDescribe(shared)
	require.NoError(t, err)
	shared.Topology.Subtopologies[0].SourceTopics[0] = "changed"
	shared.TopologyDescription.Subtopologies[0].Nodes[0].Name = "changed"
	assert.Equal(t, top.Describe(), got.Describe())
	assert.Equal(t, []string{"orders"}, got.Sources("0"))
}

func TestFromDescribeNamesTheFault(t *testing.T) {
	t.Parallel()
	type group = kmsg.StreamsGroupDescribeResponseGroup
	nodes := func(g *group) []kmsg.TopologyDescriptionNode { return g.TopologyDescription.Subtopologies[1].Nodes }
	for name, c := range map[string]struct {
		change func(*group)
		at     string
		says   string
	}{
		"no topology":         {func(g *group) { g.Topology = nil }, "topology", "has none"},
		"negative epoch":      {func(g *group) { g.Topology.Epoch = -1 }, "epoch", "-1 is negative"},
		"an id twice":         {func(g *group) { g.Topology.Subtopologies[1].SubtopologyID = "0" }, "0", "used twice"},
		"unknown kind":        {func(g *group) { nodes(g)[0].NodeType = 9 }, "count", "9 is no kind of node"},
		"a name twice":        {func(g *group) { nodes(g)[0].Name = "orders" }, "orders", "taken"},
		"unknown successor":   {func(g *group) { nodes(g)[0].Successors = []string{"orders"} }, "count", `"orders" is no node of the same subtopology`},
		"its own successor":   {func(g *group) { nodes(g)[0].Successors = []string{"count"} }, "count", "cycle"},
		"a cycle":             {func(g *group) { nodes(g)[0].Successors = []string{"hopped"} }, "count", "cycle"},
		"a global store too":  {func(g *group) { g.TopologyDescription.GlobalStores[0].Source.Name = "count" }, "count", "taken"},
		"a global store, two": {func(g *group) { g.TopologyDescription.GlobalStores[0].Processor.NodeType = 0 }, "gp", "no kind"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := describeResponse(build(t, counted(new(topology.Builder)).AddGlobalStore("g", "gs", "gt", "gp")))
			c.change(g)
			top, err := topology.FromDescribe(g)
			assert.Nil(t, top)
			var e *topology.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, c.at, e.Name)
			assert.Contains(t, e.Error(), c.says)
			assert.NotEmpty(t, e.Remedy)
		})
	}
	_, err := topology.FromDescribe(nil)
	require.Error(t, err)
}
