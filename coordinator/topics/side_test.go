package topics

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Two versions are compared with what the topics of a cluster make of them.
func TestSideTellsTasksAndMatches(t *testing.T) {
	t.Parallel()
	build := func(b *topology.Builder) (*topology.Topology, *record.Topology) {
		top, err := b.Build("app")
		require.NoError(t, err)
		return top, record.FromWire("app", top.Wire())
	}
	flow := func(b *topology.Builder) *topology.Builder {
		return b.AddSource("orders", "orders").AddRepartition("hop").AddSink("to-hop", "hop", "orders").AddSource("hopped", "hop").
			AddProcessor("count", "hopped").AddStateStore(topology.Store{Name: "counts"}, "count").AddSourcePattern("logs", "log-.*")
	}
	older, olderRecord := build(flow(new(topology.Builder).Epoch(1)))
	newer, newerRecord := build(flow(new(topology.Builder).Epoch(2).AddSource("audit", "audit")))
	have := counts{"orders": 4, "audit": 2, "log-a": 1, "log-b": 3}
	before, after := configure(t, olderRecord, have, kip).Side(), configure(t, newerRecord, have, kip).Side()
	assert.Equal(t, map[string]int32{"orders": 4, "app-hop-repartition": 4, "app-counts-changelog": 4, "log-a": 1, "log-b": 3}, before.Partitions)
	assert.Equal(t, map[string][]string{"2": {"log-a", "log-b"}}, before.Matches)

	d := topology.Cluster{Older: before, Newer: after}.Diff(older, newer)
	assert.True(t, d.SafeToRoll(), "%s", d)
	kinds := map[topology.ChangeKind]int{}
	for task := range d.Tasks() {
		kinds[task.Kind]++
	}
	assert.Equal(t, map[topology.ChangeKind]int{topology.Renumbered: 4 + 4 + 3, topology.Added: 2}, kinds)

	// Topics that are missing make nothing known.
	none := configure(t, olderRecord, counts{}, kip).Side()
	assert.Empty(t, none.Partitions)
	assert.Nil(t, none.Matches)
}
