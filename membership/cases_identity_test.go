package membership

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/topology"
)

func TestSM3NothingLeftToDo(t *testing.T) {
	t.Parallel()
	for _, s := range []State{Joining, Reconciling} {
		h := newHarness(t)
		h.m.state = s
		h.m.current = assignment{active: tasks("0_0"), ready: true}
		h.m.target = h.m.current
		h.m.take(assignment{active: tasks("0_0"), ready: true})
		require.Equal(t, StateStable, h.m.State())
	}
}

func TestSM26EpochIsTold(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.join()
	h.assign(active("0_0"), epoch(3))
	h.settle()
	h.answer(epoch(4))
	h.answer(code(110))
	h.done(TasksLost)
	h.assign(active("0_0"), epoch(5))
	h.settle()
	h.answer(code(30))
	require.Equal(t, []EpochChanged{{0, 3}, {3, 4}, {4, 0}, {0, 5}, {5, 0}}, eventsOf[EpochChanged](h))

	h = stable(t, active("0_0"))
	h.m.Leave(h.now, LeaveDefault)
	h.run()
	_, ok := h.m.Epoch()
	require.True(t, ok, "tasks that are revoked may be committed")
	h.done(TasksRevoked)
	require.Equal(t, []EpochChanged{{1, 0}}, eventsOf[EpochChanged](h), "the epoch of the leave is nobody's business")
}

func TestSI3StaticMemberReturns(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"m1", "m2"} { // each start draws another member id
		h := newHarness(t, static, func(c *Config) { c.MemberID = id })
		h.join()
		require.Zero(t, h.heartbeat().MemberEpoch)
		require.Equal(t, id, h.heartbeat().MemberID)
		require.Equal(t, "shop-1", *h.heartbeat().InstanceID)
		h.assign(active("0_0"))
		h.done(TasksAssigned)
		h.m.Leave(h.now, LeaveDefault)
		h.run()
		h.done(TasksRevoked)
		require.Equal(t, int32(-2), h.open[len(h.open)-1].req.MemberEpoch)
	}
}

func TestTopologyOfAJoin(t *testing.T) {
	t.Parallel()
	var b topology.Builder
	b.AddSource("orders-source", "orders").AddSink("by-sku-sink", "by-sku", "orders-source")
	b.AddGlobalStore("rates", "rates-source", "exchange-rates", "rates-processor")
	b.AddRepartition("by-sku").AddSource("again", "by-sku").AddProcessor("count", "again")
	b.AddStateStore(topology.Store{Name: "counts"}, "count")
	topo, err := b.Build("shop")
	require.NoError(t, err)
	h := newHarness(t, func(c *Config) { c.Topology = topo })
	h.join()
	subs := h.heartbeat().Topology.Subtopologies
	require.Len(t, subs, 2, "TP-4: what a repartition topic connects are two subtopologies")
	require.Equal(t, "0", subs[0].SubtopologyID)
	require.Equal(t, "2", subs[1].SubtopologyID, "TP-3: a global store uses a number up")
	require.Equal(t, "shop-by-sku-repartition", subs[1].RepartitionSourceTopics[0].Topic)
	require.Equal(t, "shop-counts-changelog", subs[1].StateChangelogTopics[0].Topic)
	require.Zero(t, subs[1].StateChangelogTopics[0].NumPartitions, "TP-11: the coordinator decides")
	require.Zero(t, subs[1].RepartitionSourceTopics[0].NumPartitions, "TP-11")
	require.Equal(t, topo.Epoch(), h.heartbeat().Topology.Epoch, "TP-21")

	b = topology.Builder{}
	b.AddSource("b", "items").AddSource("a", "orders").AddProcessor("join", "a", "b").Copartition("a", "b")
	topo, err = b.Build("shop")
	require.NoError(t, err)
	h = newHarness(t, func(c *Config) { c.Topology = topo })
	h.join()
	sub := h.heartbeat().Topology.Subtopologies[0]
	require.Equal(t, []string{"items", "orders"}, sub.SourceTopics)
	require.Len(t, sub.CopartitionGroups, 1)
	require.Equal(t, []int16{0, 1}, sub.CopartitionGroups[0].SourceTopics, "TP-13: nodes stand for their topics")
}
