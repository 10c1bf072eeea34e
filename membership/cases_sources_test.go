package membership

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/topology"
)

// patternTopology has subtopology "0" that reads orders and whatever begins with
// "late-", and "1" that reads items.
func patternTopology(t testing.TB) *topology.Topology {
	t.Helper()
	var b topology.Builder
	b.AddSource("orders-source", "orders").AddSourcePattern("late-source", "late-.*").AddProcessor("bill", "orders-source", "late-source")
	b.AddSource("items-source", "items").AddProcessor("count", "items-source")
	topo, err := b.Build("shop")
	require.NoError(t, err)
	return topo
}

func patterns(t testing.TB) func(*Config) {
	return func(c *Config) { c.Topology = patternTopology(t) }
}

func matching(topics ...string) topology.Resolution {
	return topology.NewResolution(map[string][]string{"0": topics})
}

func resolution(r topology.Resolution) func(*kmsg.StreamsGroupHeartbeatResponse) {
	return func(resp *kmsg.StreamsGroupHeartbeatResponse) {
		resp.UnknownTags.Set(topology.ResolutionTag, r.Append(nil))
	}
}

// seen is the resolution that a request names.
func seen(req *kmsg.StreamsGroupHeartbeatRequest) (epoch int64, ok bool) {
	req.UnknownTags.Each(func(tag uint32, value []byte) {
		if tag == topology.ResolutionTag {
			epoch, ok = topology.ParseResolutionEpoch(value)
		}
	})
	return epoch, ok
}

func TestSources(t *testing.T) {
	t.Parallel()
	t.Run("CC-014 AS-5 AS-6 a task reads its partition of all sources, repartition topics included", func(t *testing.T) {
		var b topology.Builder
		b.AddSource("orders-source", "orders").AddSink("by-sku-sink", "by-sku", "orders-source")
		b.AddRepartition("by-sku").AddSource("again", "orders-too", "by-sku").AddProcessor("count", "again")
		topo, err := b.Build("shop")
		require.NoError(t, err)
		h := newHarness(t, func(c *Config) { c.Topology = topo })
		require.Equal(t, []string{"orders-too", "shop-by-sku-repartition"}, h.m.Sources("1"))
		require.Nil(t, h.m.Sources("9"))
	})
	t.Run("PT-1 TP-9 the coordinator says what the patterns stand for", func(t *testing.T) {
		h := newHarness(t, patterns(t))
		h.join()
		_, ok := seen(h.heartbeat())
		require.False(t, ok, "nothing is known yet")
		require.Equal(t, []string{"late-.*"}, h.heartbeat().Topology.Subtopologies[0].SourceTopicRegex)
		require.Equal(t, []string{"orders"}, h.m.Sources("0"))
		first := matching("late-a", "late-b")
		h.assign(active("0_0"), resolution(first))
		require.Equal(t, []map[string][]string{first.Topics}, h.sources)
		require.Equal(t, []SourcesResolved{{first.Topics}}, eventsOf[SourcesResolved](h))
		require.Equal(t, []string{"late-a", "late-b", "orders"}, h.m.Sources("0"))
		require.Equal(t, []string{"items"}, h.m.Sources("1"))
		h.settle()
		for range 2 {
			epoch, ok := seen(h.heartbeat())
			require.True(t, ok)
			require.Equal(t, first.Epoch, epoch)
			h.answer()
		}
		h.clear()
		h.answer(resolution(first))
		require.Empty(t, h.sources, "the same again")

		second := matching("late-b")
		h.answer(resolution(second))
		require.Equal(t, []map[string][]string{second.Topics}, h.sources)
		require.Empty(t, h.ran, "PT-2: the tasks stay as they are")
		require.Equal(t, StateStable, h.m.State())
		require.Equal(t, []string{"late-b", "orders"}, h.m.Sources("0"))
		require.Equal(t, second.Topics, h.m.Snapshot(h.now).Sources)
		epoch, _ := seen(h.heartbeat())
		require.Equal(t, second.Epoch, epoch)
	})
	t.Run("PT-1 tasks come with the field, with the same again, and without it", func(t *testing.T) {
		h := newHarness(t, patterns(t))
		h.join()
		for _, a := range []roles{active("0_0"), active("0_0", "0_1"), active("0_1")} {
			if len(a.active) == 1 && h.m.resolved != nil {
				h.assign(a)
			} else {
				h.assign(a, resolution(matching("late-a")))
			}
			for len(h.callbacks) > 0 {
				h.done(h.callbacks[0].Kind)
			}
			require.Equal(t, a.active, h.m.Snapshot(h.now).Active)
			require.Equal(t, []string{"late-a", "orders"}, h.m.Sources("0"))
		}
	})
	t.Run("PT-1 a first answer without the field", func(t *testing.T) {
		h := newHarness(t, patterns(t))
		h.join()
		h.assign(active("0_0"))
		require.Equal(t, tasks("0_0"), h.done(TasksAssigned).Active)
	})
	t.Run("PT-3 the epoch survives fencing and goes out with the next join", func(t *testing.T) {
		h := newHarness(t, patterns(t))
		h.join()
		r := matching("late-a")
		h.assign(active("0_0"), resolution(r))
		h.settle()
		h.answer(code(110))
		h.done(TasksLost)
		req := h.heartbeat()
		require.NotNil(t, req.Topology)
		epoch, ok := seen(req)
		require.True(t, ok)
		require.Equal(t, r.Epoch, epoch)
	})
	t.Run("PT-4 a broker that refuses patterns", func(t *testing.T) {
		h := newHarness(t, patterns(t))
		h.join()
		h.answer(code(42, "text m"))
		require.Equal(t, Fatal, h.m.State())
		require.ErrorContains(t, h.errs[0], "source patterns")
		require.ErrorContains(t, h.errs[0], "text m")
	})
	t.Run("PT-4 whose patterns were resolved, or who has none, is not told so", func(t *testing.T) {
		h := newHarness(t, patterns(t))
		h.join()
		h.assign(active("0_0"), resolution(matching("late-a")))
		h.settle()
		h.answer(code(110))
		h.done(TasksLost)
		h.answer(code(42))
		require.NotContains(t, h.errs[0].Error(), "source patterns")
		h = newHarness(t, patterns(t))
		h.join()
		h.assign(active("0_0"))
		h.answer(code(42))
		require.NotContains(t, h.errs[0].Error(), "source patterns")
		h = in(t, Joining)
		h.answer(code(42))
		require.NotContains(t, h.errs[0].Error(), "source patterns")
	})
	t.Run("PT-5 a field that cannot be read breaks the protocol", func(t *testing.T) {
		h := newHarness(t, patterns(t))
		h.join()
		h.assign(active("0_0"), func(r *kmsg.StreamsGroupHeartbeatResponse) { r.UnknownTags.Set(topology.ResolutionTag, []byte{1, 2}) })
		require.Equal(t, Fatal, h.m.State())
		require.Len(t, h.errs, 1)
		h.done(TasksLost)
		require.Equal(t, int32(-1), h.heartbeat().MemberEpoch)
	})
	t.Run("PT-1 without patterns the field is ignored and not sent", func(t *testing.T) {
		h := newHarness(t)
		h.join()
		h.assign(active("0_0"), resolution(matching("late-a")))
		h.settle()
		require.Empty(t, h.sources)
		require.Zero(t, h.heartbeat().UnknownTags.Len())
	})
}
