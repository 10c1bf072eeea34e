package e2e

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

func TestJoinScaleOutScaleIn(t *testing.T) {
	run(t, func(w *world) {
		a := w.start("a")
		w.settle(a)
		w.processed(w.produce("one"))

		b, c := w.start("b"), w.start("c")
		w.settle(a, b, c)
		for _, m := range []*member{a, b, c} {
			assert.Equal(w.t, 2, m.tasks(), m.name)
		}
		w.processed(w.produce("three"))

		b.leave()
		w.settle(a, c)
		assert.Equal(w.t, 3, a.tasks())
		w.processed(w.produce("two"))

		a.leave()
		c.leave()
		state, ok := w.cluster.StreamsGroupState(group)
		assert.True(w.t, ok)
		assert.Equal(w.t, coordinator.Empty, state)
	})
}

func TestCrashIsNoticedBySessionTimeout(t *testing.T) {
	run(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		w.settle(a, b)
		w.processed(w.produce("before"))
		a.crash()
		crashed := time.Now()
		payloads := w.produce("after")
		w.settle(b)
		assert.GreaterOrEqual(w.t, time.Since(crashed), session-interval, "not before the session ends")
		assert.Less(w.t, time.Since(crashed), session+2*interval)
		w.processed(payloads)
		b.leave()
	})
}

func TestCoordinatorMoves(t *testing.T) {
	run(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		w.settle(a, b)
		before := w.cluster.DescribeStreamsGroup(group)
		for range 5 {
			w.cluster.RehashCoordinators()
			time.Sleep(3 * interval)
			w.settle(a, b)
		}
		after := w.cluster.DescribeStreamsGroup(group)
		assert.Equal(w.t, before.Epoch, after.Epoch, "a move is no rebalance")
		assert.Len(w.t, after.Members, 2)
		w.processed(w.produce("moved"))
		a.leave()
		b.leave()
	}, kfakeext.Nodes(3))
}

func TestBrokenConnectionIsRepairedWithoutRebalance(t *testing.T) {
	run(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		w.settle(a, b)
		epoch := w.cluster.DescribeStreamsGroup(group).Epoch
		left := 8
		w.cluster.Intercept(func(r kmsg.Request) (kmsg.Response, error, bool) {
			if _, ok := r.(*kmsg.StreamsGroupHeartbeatRequest); ok && left > 0 {
				left--
				return nil, errors.New("cut"), true
			}
			return nil, nil, false
		})
		time.Sleep(10 * interval)
		assert.Zero(w.t, left, "the cuts happened")
		w.settle(a, b)
		assert.Equal(w.t, epoch, w.cluster.DescribeStreamsGroup(group).Epoch)
		w.processed(w.produce("repaired"))
		a.leave()
		b.leave()
	})
}

func TestStaticMemberReturns(t *testing.T) {
	run(t, func(w *world) {
		a := w.start("a", client.InstanceID("i1"), client.ProcessID("p1"))
		b := w.start("b", client.InstanceID("i2"), client.ProcessID("p2"))
		w.settle(a, b)
		epoch := w.cluster.DescribeStreamsGroup(group).Epoch
		a.leave()
		time.Sleep(session / 2)
		again := w.start("a", client.InstanceID("i1"), client.ProcessID("p1"))
		w.settle(again, b)
		assert.Equal(w.t, epoch, w.cluster.DescribeStreamsGroup(group).Epoch, "nobody else moved")
		w.processed(w.produce("back"))
		again.leave()
		b.leave()
	})
}

// A group whose source topic vanishes gives up all tasks, and takes them up again
// when the topic is back (statuses 1 and none).
func TestSourceTopicVanishesAndReturns(t *testing.T) {
	run(t, func(w *world) {
		a := w.start("a")
		w.settle(a)
		require.NoError(w.t, w.cluster.DeleteTopic("orders"))
		time.Sleep(3 * interval)
		assert.Zero(w.t, a.tasks())
		state, _ := w.cluster.StreamsGroupState(group)
		assert.Equal(w.t, coordinator.NotReady, state)
		assert.Equal(w.t, int8(1), a.c.Member().Snapshot().Statuses[0].Code)
		require.NoError(w.t, w.cluster.CreateTopic("orders", partitions, nil))
		w.settle(a)
		w.processed(w.produce("again"))
		a.leave()
	})
}
