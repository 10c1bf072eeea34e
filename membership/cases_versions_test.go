package membership

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka 4.2 and 4.3 speak version 0 and refuse what they do not know; 4.4 speaks
// version 1.
func TestBrokerGenerations(t *testing.T) {
	t.Parallel()
	t.Run("BG-1 TR-3 what an old broker would refuse is left out, and said once", func(t *testing.T) {
		h := newHarness(t)
		h.version = 0
		h.m.SetTaskOffsets(offsets("0_0", 1), offsets("0_0", 2))
		h.join()
		require.Equal(t, []FeaturesLeftOut{{0, []string{"task offsets", "task end offsets", "warm-up tasks"}}}, eventsOf[FeaturesLeftOut](h))
		h.assign(active("0_0").warmups("0_1"), func(r *kmsg.StreamsGroupHeartbeatResponse) { r.TaskOffsetIntervalMillis = 0 })
		require.Equal(t, tasks("0_1"), h.done(TasksAssigned).Warmup, "an old broker assigns none, but if it does they run")
		for range 3 {
			req := h.heartbeat()
			require.Nil(t, req.TaskOffsets)
			require.Nil(t, req.TaskEndOffsets)
			require.Empty(t, req.WarmupTasks)
			require.Nil(t, req.InstanceID)
			h.answer(code(14))
			h.after(backoffMax)
		}
		h.manual = true
		h.fail(Disconnected, errors.New("reset"))
		h.after(backoffMax)
		h.m.CoordinatorFound(h.now, 0)
		h.run()
		require.Len(t, eventsOf[FeaturesLeftOut](h), 1)
	})
	t.Run("BG-2 a static member needs a newer broker", func(t *testing.T) {
		h := newHarness(t, static)
		h.version = 0
		h.m.Join(0)
		h.run()
		require.Equal(t, Fatal, h.m.State())
		var e *UnsupportedOptionError
		require.ErrorAs(t, h.errs[0], &e)
		require.Equal(t, UnsupportedOptionError{"InstanceID", 0}, *e)
		require.ErrorIs(t, h.errs[0], kerr.UnsupportedVersion)
		require.ErrorContains(t, h.errs[0], "4.4")
		require.Empty(t, h.sent)
	})
	t.Run("BG-3 the broker is upgraded under the member", func(t *testing.T) {
		h := newHarness(t)
		h.version = 0
		h.m.SetTaskOffsets(offsets("0_0", 1), offsets("0_0", 2))
		h.join()
		h.assign(active("0_0"))
		h.settle()
		h.clear()
		h.version = 1
		h.fail(Disconnected, errors.New("reset"))
		h.after(backoffMax)
		require.Equal(t, []FeaturesLeftOut{{Version: 1}}, eventsOf[FeaturesLeftOut](h))
		req := h.heartbeat()
		require.Equal(t, int16(1), req.Version)
		require.Equal(t, int32(1), req.MemberEpoch, "it is still a member")
		require.Equal(t, offsets("0_0", 1), wireOffsets(req.TaskOffsets))
		require.Equal(t, offsets("0_0", 2), wireOffsets(req.TaskEndOffsets))
		h.requireReported(active("0_0"), req)
		require.Equal(t, int16(1), h.m.Snapshot(h.now).Version)
	})
	t.Run("BG-3 the coordinator moves to a newer broker without a failure", func(t *testing.T) {
		h := newHarness(t)
		h.version = 0
		h.m.SetTaskOffsets(offsets("0_0", 1), nil)
		h.join()
		h.assign(active("0_0"))
		h.settle()
		h.m.CoordinatorFound(h.now, 1)
		require.NotNil(t, h.heartbeat().TaskOffsets)
	})
	t.Run("BG-3 the coordinator moves to an older broker", func(t *testing.T) {
		h := stable(t, active("0_0").warmups("0_1"))
		h.m.SetTaskOffsets(offsets("0_0", 1), nil)
		h.version = 0
		h.fail(Disconnected, errors.New("reset"))
		h.after(backoffMax)
		req := h.heartbeat()
		require.Equal(t, int16(0), req.Version)
		require.Nil(t, req.TaskOffsets)
		require.Empty(t, req.WarmupTasks)
		require.NotNil(t, req.WarmupTasks)

		h = stable(t, active("0_0"), static)
		h.version = 0
		h.fail(Disconnected, errors.New("reset"))
		h.after(backoffMax)
		require.Equal(t, Fatal, h.m.State())
		h.done(TasksLost)
		require.Len(t, h.sent, 1, "no leave: it would be refused as well")
	})
	t.Run("BG-3 there and back, warm-up tasks are told again", func(t *testing.T) {
		h := stable(t, active("0_0").warmups("0_1"))
		h.m.CoordinatorFound(h.now, 0)
		h.requireReported(active("0_0"), h.heartbeat())
		h.answer()
		h.requireNoTasks(h.heartbeat())
		h.answer()
		h.m.CoordinatorFound(h.now, 1)
		h.requireReported(active("0_0").warmups("0_1"), h.heartbeat())
	})
	t.Run("BG-4 the feature is switched off", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.answer(code(35))
		require.Equal(t, Fatal, h.m.State())
		require.ErrorIs(t, h.errs[0], kerr.UnsupportedVersion)
		require.ErrorContains(t, h.errs[0], "streams.version")
		require.Equal(t, tasks("0_0"), h.done(TasksLost).Active)
		h.after(interval)
		require.Len(t, h.sent, 1)
		require.True(t, h.m.LeaveDone())
	})
}

// What happens to the group and its topics under the member.
func TestSurvives(t *testing.T) {
	t.Parallel()
	t.Run("SV-1 the group is deleted", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.answer(code(69))
		h.done(TasksLost)
		require.Zero(t, h.heartbeat().MemberEpoch)
		h.assign(active("0_0"), epoch(2))
		h.settle()
		require.Empty(t, h.errs)
	})
	t.Run("SV-1 a group of another type has taken the id", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.answer(code(69))
		h.done(TasksLost)
		h.answer(code(69))
		require.Equal(t, Fatal, h.m.State())
		require.ErrorContains(t, h.errs[0], "another type")
		h.done(TasksLost)
		h.after(interval)
		require.True(t, h.m.LeaveDone())
	})
	t.Run("SV-2 DV-9 authorization is withdrawn and given back", func(t *testing.T) {
		h := stable(t, active("0_0"))
		for range 4 {
			h.answer(code(29, "m"))
			h.after(backoffMax)
		}
		require.Len(t, h.errs, 1, "told once, until it changes")
		require.ErrorIs(t, h.m.Snapshot(h.now).LastError, kerr.TopicAuthorizationFailed)
		require.NotSame(t, h.errs[0], h.m.Snapshot(h.now).LastError, "the latest of them")
		require.Equal(t, StateStable, h.m.State())
		h.requireReported(active("0_0"), h.heartbeat())
		h.answer()
		require.Empty(t, h.ran, "no task was lost")
		h.answer(code(29, "m"))
		require.Len(t, h.errs, 2)

		h = stable(t, active("0_0"))
		h.answer(code(30))
		require.Equal(t, Fatal, h.m.State(), "for the group it is fatal")
	})
	t.Run("SV-3 a topic is deleted and created again", func(t *testing.T) {
		h := stable(t, active("0_0", "0_1"))
		h.answer(status(1)) // Kafka keeps the tasks of a group that is not ready
		cb := h.done(TasksAssigned)
		require.False(t, cb.Ready)
		require.Equal(t, tasks("0_0", "0_1"), cb.Active)
		for len(h.open) > 0 {
			h.answer(status(1))
		}
		h.assign(active("0_0"), epoch(2))
		require.Equal(t, tasks("0_1"), h.done(TasksRevoked).Active, "it is smaller now")
		require.True(t, h.done(TasksAssigned).Ready)
		h.settle()
	})
	t.Run("SV-3 a topic grows", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.assign(active("0_0", "0_1", "0_2"), epoch(2))
		require.Equal(t, tasks("0_0", "0_1", "0_2"), h.done(TasksAssigned).Active)
		require.Equal(t, []CallbackKind{TasksAssigned}, h.kinds())
	})
	t.Run("SV-4 the coordinator is away for longer than the session", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.manual = true
		h.fail(Disconnected, errors.New("reset"))
		for range 300 {
			h.after(backoffMax)
			if h.finds > 0 {
				h.finds--
				h.m.CoordinatorFailed(h.now, errors.New("refused"))
			}
		}
		require.Equal(t, StateStable, h.m.State(), "nobody says that the tasks are gone")
		require.Empty(t, h.errs)
		require.Empty(t, h.ran)
		told := eventsOf[Unreachable](h)
		require.InDelta(t, 5, len(told), 1, "CO-7 B76: a warning a minute")
		require.InDelta(t, unreachableAfter+interval, told[0].For, float64(interval+backoffMax), "since the last good answer")
		require.ErrorContains(t, told[0].Err, "refused")
		require.Greater(t, h.m.Snapshot(h.now).SilentFor, 4*unreachableAfter)
		h.after(backoffMax)
		h.m.CoordinatorFound(h.now, 1)
		h.run()
		h.requireReported(active("0_0"), h.heartbeat())
		h.answer(code(25))
		require.Equal(t, tasks("0_0"), h.done(TasksLost).Active)
		require.Zero(t, h.heartbeat().MemberEpoch)
	})
	t.Run("SV-5 the clock jumps", func(t *testing.T) {
		h := stable(t, active("0_0"), withPollGuard)
		h.m.Poll(h.now)
		h.now += 24 * 60 * unreachableAfter // the machine slept
		h.m.Poll(h.now)
		h.run()
		require.Equal(t, StateStable, h.m.State())
		require.Len(t, h.sent, 1, "one heartbeat, not those that were missed")
		h.answer(code(25))
		h.done(TasksLost)
		require.Len(t, h.sent, 2)
	})
	t.Run("SV-6 the context ends while a rebalance is under way", func(t *testing.T) {
		for _, s := range allStates {
			h := in(t, s)
			h.m.Leave(h.now, LeaveDefault)
			h.run()
			for len(h.callbacks) > 0 {
				h.done(h.callbacks[0].Kind)
			}
			for len(h.open) > 0 {
				h.answer()
			}
			require.True(t, h.m.LeaveDone(), s)
			require.Empty(t, h.m.Snapshot(h.now).Active, s)
			require.Nil(t, h.m.Snapshot(h.now).Target, s)
			require.Empty(t, h.errs, s)
			_, ok := h.m.Epoch()
			require.False(t, ok, s)
			n := len(h.sent)
			h.after(10 * interval)
			require.Len(t, h.sent, n, s)
		}
	})
	t.Run("SV-7 a duplicated answer", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.heartbeat()
		s := h.open[0]
		h.answer(active("0_1").set, epoch(2))
		h.answerTo(s, epoch(9), active("1_0").set)
		require.Equal(t, tasks("0_1"), h.m.target.active)
		require.Equal(t, int32(2), h.m.epoch)
	})
	t.Run("SI-4 ID-4 two members with one static id", func(t *testing.T) {
		for _, c := range []int16{82, 111} {
			h := in(t, Joining, static)
			h.answer(code(c, "m"))
			require.Equal(t, Fatal, h.m.State())
			require.ErrorContains(t, h.errs[0], "shop-1")
			h.done(TasksLost)
			h.after(10 * interval)
			require.Empty(t, h.open, "no waiting and no retrying, and the other member is not thrown out")
		}
	})
}
