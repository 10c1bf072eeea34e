package client_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/topology"
)

func patterned(t testing.TB) *topology.Topology {
	t.Helper()
	topo, err := new(topology.Builder).AddSourcePattern("source", "logs-.*").AddProcessor("work", "source").Build("g")
	require.NoError(t, err)
	return topo
}

// A topic that begins to match is read by the tasks that run, without a rebalance,
// and one that vanishes is let go of.
func TestSourcePatternFollowsTheTopics(t *testing.T) {
	inBubble(t, func(w *world) {
		require.NoError(w, w.cl.CreateTopic("logs-a", 2, nil))
		w.produce("logs-a", 1, 0, 3)
		wk := w.workOn(patterned(w), new(app))
		pass(time.Second)
		assert.Equal(w, map[string][]string{"0_1": numbers(0, 3)}, wk.got())
		assert.Equal(w, []string{"logs-a"}, wk.c.Member().Sources("0"))
		wk.took()

		require.NoError(w, w.cl.CreateTopic("logs-b", 2, nil))
		w.produce("logs-b", 0, 10, 2)
		pass(3 * interval)
		assert.Equal(w, map[string][]string{"0_0": numbers(10, 12)}, wk.got())
		assert.Equal(w, []string{"logs-a", "logs-b"}, wk.c.Member().Sources("0"))
		assert.Equal(w, 2, wk.owns(), "it is running the same tasks")
		for _, line := range wk.took() {
			assert.NotContains(w, line, "revoked", "no task was taken away for it")
		}

		require.NoError(w, w.cl.DeleteTopic("logs-a"))
		pass(4 * interval)
		assert.Equal(w, []string{"logs-b"}, wk.c.Member().Sources("0"))
		w.produce("logs-b", 1, 20, 2)
		pass(3 * interval)
		assert.Equal(w, map[string][]string{"0_1": numbers(20, 22)}, wk.got())
		wk.halt()
		require.NoError(w, wk.c.Commit(w.Context()), "nothing of the topic that is gone is committed")
		require.NoError(w, wk.c.Close(w.Context()))
	})
}

// Every member reads what the coordinator resolved, so that two of them never
// disagree about a task.
func TestSourcePatternIsTheSameForAll(t *testing.T) {
	inBubble(t, func(w *world) {
		require.NoError(w, w.cl.CreateTopic("logs-a", 2, nil))
		one, two := w.workOn(patterned(w), new(app)), w.workOn(patterned(w), new(app))
		pass(4 * interval)
		require.Equal(w, 1, one.owns())
		require.Equal(w, 1, two.owns())
		require.NoError(w, w.cl.CreateTopic("logs-b", 4, nil))
		pass(6 * interval)
		assert.Equal(w, 2, one.owns())
		assert.Equal(w, 2, two.owns())
		for p := range int32(4) {
			w.produce("logs-b", p, int(p), 1)
		}
		pass(2 * interval)
		union := one.got()
		for task, values := range two.got() {
			assert.NotContains(w, union, task)
			union[task] = values
		}
		assert.Equal(w, map[string][]string{"0_0": {"0"}, "0_1": {"1"}, "0_2": {"2"}, "0_3": {"3"}}, union)
	})
}

// A broker without source patterns says so at the join, and the member passes it on.
func TestSourcePatternOnABrokerThatDoesNotKnowThem(t *testing.T) {
	inBubble(t, func(w *world) {
		c := w.consumer(patterned(w), new(app))
		_, err := c.Poll(w.Context())
		require.ErrorIs(w, err, kerr.InvalidRequest)
		assert.ErrorContains(w, err, "pattern")
	}, kfakeext.Policy(coordinator.Kafka), kfakeext.KfakeOpts(kfake.MaxVersions(kversion.V4_3_0())))
}

// The source topics of a subtopology may differ in size. When the smaller one grows,
// no task changes, and nobody but the member could notice.
func TestAS06SmallerTopicGrows(t *testing.T) {
	inBubble(t, func(w *world) {
		topo, err := new(topology.Builder).AddSource("source", "in", "small").AddProcessor("work", "source").Build("g")
		require.NoError(w, err)
		require.NoError(w, w.cl.CreateTopic("small", 2, nil))
		wk := w.workOn(topo, new(app))
		pass(time.Second)
		wk.took()
		grow(w, "small", 4)
		w.produce("small", 3, 0, 4)
		pass(time.Minute)
		assert.Equal(w, map[string][]string{"0_3": numbers(0, 4)}, wk.got())
		for _, line := range wk.took() {
			assert.Equal(w, "assigned "+all, line, "the tasks are the same")
		}
		w.produce("small", 2, 0, 1)
		pass(time.Second)
		assert.Equal(w, map[string][]string{"0_2": numbers(0, 1)}, wk.got())
		wk.halt()
		require.NoError(w, wk.c.Close(w.Context()))
	})
}
