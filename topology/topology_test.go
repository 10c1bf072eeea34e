package topology_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/topology"
)

func TestFromWire(t *testing.T) {
	t.Parallel()
	top := build(t, new(topology.Builder).AddSource("a", "x", "w").AddProcessor("p", "a").AddStateStore(topology.Store{Name: "s"}, "p"))
	w := top.Wire()
	again, err := topology.FromWire(w)
	require.NoError(t, err)
	w.Subtopologies[0].SourceTopics[0] = "changed"
	assert.Equal(t, top.Wire(), again.Wire(), "the argument is copied")
	assert.Equal(t, []string{"w", "x"}, again.ExternalSources())
	assert.Nil(t, again.Description())
	assert.True(t, again.Has("0"))
	assert.False(t, again.Has("1"))
	assert.Nil(t, again.Sources("1"))

	w = top.Wire()
	w.Subtopologies = append(w.Subtopologies, w.Subtopologies[0])
	_, err = topology.FromWire(w)
	assert.ErrorContains(t, err, `subtopology "0": the id is used twice`)
}

func TestFromWireRefuses(t *testing.T) {
	t.Parallel()
	wire := func() *kmsg.StreamsGroupHeartbeatRequestTopology {
		return build(t, new(topology.Builder).AddSource("a", "x").AddSource("b", "y").AddProcessor("p", "a", "b").Copartition("a", "b")).Wire()
	}
	for name, c := range map[string]struct {
		change func(w *kmsg.StreamsGroupHeartbeatRequestTopology)
		says   string
	}{
		"negative epoch":    {func(w *kmsg.StreamsGroupHeartbeatRequestTopology) { w.Epoch = -1 }, "-1 is negative"},
		"source index":      {func(w *kmsg.StreamsGroupHeartbeatRequestTopology) { group(w).SourceTopics[0] = 2 }, `subtopology "0": a copartition group has an index`},
		"negative index":    {func(w *kmsg.StreamsGroupHeartbeatRequestTopology) { group(w).SourceTopics[0] = -1 }, "index"},
		"pattern index":     {func(w *kmsg.StreamsGroupHeartbeatRequestTopology) { group(w).SourceTopicRegex = []int16{0} }, "index"},
		"repartition index": {func(w *kmsg.StreamsGroupHeartbeatRequestTopology) { group(w).RepartitionSourceTopics = []int16{0} }, "index"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := wire()
			c.change(w)
			_, err := topology.FromWire(w)
			var e *topology.Error
			require.ErrorAs(t, err, &e)
			assert.ErrorContains(t, err, c.says)
		})
	}
	_, err := topology.FromWire(nil)
	assert.ErrorContains(t, err, "carries none")
}

func group(w *kmsg.StreamsGroupHeartbeatRequestTopology) *kmsg.StreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup {
	return &w.Subtopologies[0].CopartitionGroups[0]
}

// TP-19: the order in which another client sorts its groups is kept, since the
// broker compares it.
func TestTP19FromWireKeepsOrder(t *testing.T) {
	t.Parallel()
	w := build(t, new(topology.Builder).AddSource("a", "x").AddSource("b", "y").AddProcessor("p", "a", "b").Copartition("a", "b")).Wire()
	group(w).SourceTopics = []int16{1, 0}
	top, err := topology.FromWire(w)
	require.NoError(t, err)
	assert.Equal(t, w, top.Wire())
}

// What a caller does to a result does not reach the topology.
func TestResultsBelongToTheCaller(t *testing.T) {
	t.Parallel()
	b := new(topology.Builder).AddSource("a", "x").AddProcessor("p", "a").AddSink("s", "y", "p").
		AddStateStore(topology.Store{Name: "s"}, "p").Copartition("a")
	top, twin := build(t, b), build(t, b)
	w, d := top.Wire(), top.Description()
	sub := &w.Subtopologies[0]
	sub.SubtopologyID, sub.SourceTopics[0], group(w).SourceTopics[0] = "no", "no", 7
	sub.StateChangelogTopics[0].Topic, sub.StateChangelogTopics[0].Configs[0].Value = "no", "no"
	for i := range d.Subtopologies[0].Nodes {
		n := &d.Subtopologies[0].Nodes[i]
		n.Name = "no"
		for _, list := range [][]string{n.SourceTopics, n.Stores, n.Successors} {
			if len(list) > 0 {
				list[0] = "no"
			}
		}
		if n.SinkTopic != nil {
			*n.SinkTopic = "no"
		}
	}
	top.Sources("0")[0], top.Changelogs("0")[0], top.ExternalSources()[0], top.Subtopologies()[0] = "no", "no", "no", "no"
	assert.Equal(t, twin.Wire(), top.Wire())
	assert.Equal(t, twin.Description(), top.Description())
	assert.Equal(t, []string{"x"}, top.Sources("0"))
}

func TestDescribeFromWire(t *testing.T) {
	t.Parallel()
	top := build(t, new(topology.Builder).AddSource("a", "x").AddRepartition("r").AddSink("k", "r", "a").
		AddSource("b", "r").AddProcessor("p", "b").AddStateStore(topology.Store{Name: "s"}, "p"))
	again, err := topology.FromWire(top.Wire())
	require.NoError(t, err)
	assert.Equal(t, `Topologies:
   Sub-topology: 0
    Source topics: [x]
    Repartition sink topics: [appId-r-repartition]
   Sub-topology: 1
    Repartition source topics: [appId-r-repartition]
    Changelog topics: [appId-s-changelog]
`, again.Describe())
}

func TestDescribeSinkPerRecord(t *testing.T) {
	t.Parallel()
	top := build(t, new(topology.Builder).AddSource("a", "x").AddDynamicSink("anywhere", "a"))
	assert.Contains(t, top.Describe(), "Sink: anywhere (topic: chosen per record)\n      <-- a\n")
}
