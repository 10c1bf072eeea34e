package membership

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestSchedule(t *testing.T) {
	t.Parallel()
	t.Run("CC-067 CO-1 HB-1 nothing is sent without a coordinator", func(t *testing.T) {
		h := newHarness(t)
		h.manual = true
		h.m.Join(0)
		h.after(interval)
		require.Equal(t, 1, h.finds, "one look-up at a time")
		require.Empty(t, h.sent)
		_, ok := h.m.NextDeadline()
		require.False(t, ok, "nothing to wait for but the answer")
	})
	t.Run("CC-068 HB-1 nothing is sent outside the group", func(t *testing.T) {
		h := in(t, Fenced)
		h.after(interval)
		require.Empty(t, h.sent)
	})
	t.Run("CC-071 HB-4 HB-5 joining and acknowledging do not wait for the timer", func(t *testing.T) {
		h := in(t, Joining)
		require.Len(t, h.open, 1)
		h.after(interval)
		require.Len(t, h.open, 1, "one heartbeat in flight")
		h.assign(active("0_0"))
		h.done(TasksAssigned)
		require.Len(t, h.open, 1)

		h = in(t, Acknowledging)
		h.after(3 * interval)
		require.Len(t, h.open, 1)
		require.Equal(t, Acknowledging, h.m.State())
		h.answer()
		require.Len(t, h.open, 1)
	})
	t.Run("CC-072 HB-4 HB-5 a stable member sends every interval", func(t *testing.T) {
		h := in(t, StateStable)
		at, ok := h.m.NextDeadline()
		require.True(t, ok)
		require.Equal(t, h.now+interval, at)
		require.Equal(t, interval, h.m.Snapshot(h.now).NextHeartbeat)
		h.after(interval - 1)
		require.Empty(t, h.sent)
		h.after(1)
		require.Len(t, h.sent, 1)
		h.after(2 * interval)
		require.Len(t, h.sent, 1, "one heartbeat in flight")
	})
	t.Run("CC-076 TM-8 how long the driver may sleep", func(t *testing.T) {
		h := newHarness(t, withPollGuard)
		h.m.Join(0)
		at, _ := h.m.NextDeadline()
		require.Zero(t, at, "there is a join to be sent")
		h.run()
		at, _ = h.m.NextDeadline()
		require.Equal(t, h.m.pollAt, at, "while it is in flight nothing but the poll timer counts")
		h.now += backoff
		h.assign(active("0_0"))
		h.settle()
		h.m.Poll(h.now)
		at, _ = h.m.NextDeadline()
		require.Equal(t, h.m.dueAt, at, "the heartbeat comes first")
		h.after(ms(1))
		h.m.dueAt = h.now + 2*pollLimit
		at, _ = h.m.NextDeadline()
		require.Equal(t, h.m.pollAt, at, "the poll timer comes first")
		h.now = at
		at, _ = h.m.NextDeadline()
		require.LessOrEqual(t, at, h.now, "no sleep when it has expired")
	})
	t.Run("TM-1 the timer runs from the moment of sending", func(t *testing.T) {
		h := in(t, StateStable)
		h.after(interval)
		h.after(ms(300))
		h.answer()
		h.after(interval - ms(300) - 1)
		require.Len(t, h.sent, 1)
		h.after(1)
		require.Len(t, h.sent, 2)
	})
	t.Run("TM-1 another interval restarts it", func(t *testing.T) {
		h := in(t, StateStable)
		h.after(interval)
		h.after(ms(300))
		h.answer(func(r *kmsg.StreamsGroupHeartbeatResponse) { r.HeartbeatIntervalMillis = 2000 })
		h.after(ms(1999))
		require.Len(t, h.sent, 1)
		h.after(ms(1))
		require.Len(t, h.sent, 2)
	})
	t.Run("TM-4 an interval too short does not make the member spin", func(t *testing.T) {
		h := in(t, StateStable)
		for range 50 {
			h.answer(heartbeatInterval(1))
			h.after(backoff - 1)
			require.Empty(t, h.open)
			h.after(1)
			require.Len(t, h.open, 1)
		}
		require.Len(t, h.sent, 51)
	})
	for _, n := range []int32{0, -5} {
		t.Run("B77 an interval that makes no sense", func(t *testing.T) {
			h := in(t, StateStable)
			h.answer(heartbeatInterval(2000))
			h.clear()
			for range 10 {
				h.answer(heartbeatInterval(n))
				h.after(ms(2000))
			}
			require.Len(t, h.sent, 11, "the last good one holds")

			h = newHarness(t)
			h.join()
			h.answer(active().set, heartbeatInterval(n))
			require.Equal(t, fallbackInterval, h.m.Snapshot(h.now).HeartbeatInterval, "Kafka's default, if there was none")
		})
	}
	t.Run("CC-078 TM-2 after a failure the wait is the back-off", func(t *testing.T) {
		h := in(t, StateStable)
		h.heartbeat()
		h.fail(TimedOut, errors.New("timeout"))
		require.Len(t, h.sent, 1)
		require.Equal(t, backoff, h.m.Snapshot(h.now).NextHeartbeat)
		h.after(backoff)
		require.Len(t, h.sent, 2)
	})
	t.Run("DV-1 the back-off holds for joins as well", func(t *testing.T) {
		h := in(t, Joining)
		h.answer(code(14))
		h.after(backoff - 1)
		require.Len(t, h.sent, 0)
		h.after(1)
		require.Len(t, h.sent, 1)
	})
	t.Run("CC-079 TM-3 TM-4 the back-off sequence", func(t *testing.T) {
		h := in(t, StateStable)
		for _, want := range []int{100, 200, 400, 800, 1000, 1000} {
			h.heartbeat()
			n := len(h.sent)
			h.fail(TimedOut, errors.New("timeout"))
			h.after(ms(want) - 1)
			require.Len(t, h.sent, n)
			h.after(1)
			require.Len(t, h.sent, n+1)
		}
		h.answer()
		h.heartbeat()
		h.fail(TimedOut, errors.New("timeout"))
		require.Equal(t, backoff, h.m.Snapshot(h.now).NextHeartbeat, "a success resets it")
	})
	t.Run("CC-079 TM-3 B46 jitter and odd bounds", func(t *testing.T) {
		for _, j := range []float64{0, 0.25, 0.5, 0.999} {
			h := newHarness(t, func(c *Config) { c.Jitter = func() float64 { return j } })
			for k, want := range []int{100, 200, 400, 800, 1000, 1000} {
				got := h.m.backoff(k)
				require.InDelta(t, float64(ms(want)), float64(got), 0.2*float64(ms(want))+1)
				require.LessOrEqual(t, got, backoffMax)
				require.InDelta(t, min(0.8+0.4*j, float64(backoffMax)/float64(ms(want)))*float64(ms(want)), float64(got), 1, "what the source says")
			}
		}
		h := newHarness(t, func(c *Config) {
			c.RetryBackoff, c.RetryBackoffMax = ms(500), ms(300)
			c.Jitter = func() float64 { return 0.9 }
		})
		for k := range 100 {
			require.Equal(t, ms(300), h.m.backoff(k))
		}
	})
	t.Run("CC-082 HB-6 TM-1 an acknowledgement is built before the state moves", func(t *testing.T) {
		h := in(t, Reconciling)
		h.after(ms(700))
		cb := h.callbacks[0]
		h.m.CallbackDone(h.now, cb.ID, nil)
		require.Equal(t, Acknowledging, h.m.State())
		h.step()
		require.Equal(t, StateStable, h.m.State())
		require.Len(t, h.sent, 1)
		h.requireReported(active("0_0"), h.sent[0].req)
		require.True(t, h.m.Snapshot(h.now).InFlight)
		at, _ := h.m.NextDeadline()
		require.Zero(t, at, "no deadline while it is unanswered")
		require.Equal(t, []StateChanged{{Acknowledging, StateStable, 1}}, eventsOf[StateChanged](h)[1:])
		h.after(ms(50))
		h.answer()
		require.Equal(t, interval-ms(50), h.m.Snapshot(h.now).NextHeartbeat, "sending it has restarted the timer")
	})
	t.Run("HB-4 DV-22 a coordinator that never comes to rest is not acknowledged in a tight loop", func(t *testing.T) {
		for name, change := range map[string]func(n int) func(*kmsg.StreamsGroupHeartbeatResponse){
			"tasks": func(n int) func(*kmsg.StreamsGroupHeartbeatResponse) {
				return active([]string{"0_0", "0_1"}[n%2]).set
			},
			"readiness": func(n int) func(*kmsg.StreamsGroupHeartbeatResponse) {
				return status([][]int8{{5}, {}}[n%2]...)
			},
		} {
			h := stable(t, active("0_1"))
			start := h.now
			atOnce := 0
			for n := 0; h.now-start < time.Minute; n++ {
				h.answer(change(n))
				for len(h.callbacks) > 0 {
					h.done(h.callbacks[0].Kind)
				}
				if len(h.open) > 0 {
					atOnce++
				}
				for len(h.open) == 0 {
					at, ok := h.m.NextDeadline()
					require.True(t, ok, name)
					h.now = max(h.now, at)
					h.run()
				}
				require.LessOrEqual(t, len(h.sent), 70, "%s: at %v", name, h.now-start)
			}
			require.Equal(t, acksAtOnce-1, atOnce, "beside the one of before: a rebalance of some steps is not slowed down")
		}
	})
	t.Run("CC-168 SM-4 HB-7 an overtaken acknowledgement", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.assign(active("0_0", "0_1"))
		h.heartbeat()
		h.done(TasksAssigned)
		require.Equal(t, Acknowledging, h.m.State())
		h.assign(active("0_1"))
		require.Equal(t, Reconciling, h.m.State())
		require.Empty(t, h.open, "no acknowledgement")
		h.after(interval)
		h.requireReported(active("0_0", "0_1"), h.heartbeat())
		h.answer()
		require.Equal(t, tasks("0_0"), h.done(TasksRevoked).Active)
		h.done(TasksAssigned)
		require.Len(t, h.open, 1)
		h.requireReported(active("0_1"), h.heartbeat())
		require.Equal(t, StateStable, h.m.State())
	})
	t.Run("CC-169 TM-2 HB-7 B68 a lost acknowledgement is repeated as an ordinary heartbeat", func(t *testing.T) {
		h := in(t, Reconciling)
		h.done(TasksAssigned)
		require.Equal(t, StateStable, h.m.State())
		h.fail(TimedOut, errors.New("timeout"))
		h.after(ms(100))
		req := h.heartbeat()
		require.Equal(t, int32(1), req.MemberEpoch)
		h.requireReported(active("0_0"), req)
		h.answer()
		h.after(interval - 1)
		require.Empty(t, h.open)
		h.after(1)
		h.requireNoTasks(h.heartbeat())
	})
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	manual := func(t *testing.T) *harness {
		h := newHarness(t)
		h.manual = true
		h.m.Join(0)
		h.run()
		require.Equal(t, 1, h.finds)
		return h
	}
	t.Run("CC-080 CO-2 a coordinator that is lost at once", func(t *testing.T) {
		h := manual(t)
		h.m.CoordinatorFound(h.now, 1)
		h.run()
		h.answer(code(16))
		h.after(backoff - 1)
		require.Equal(t, 1, h.finds)
		h.after(1)
		require.Equal(t, 2, h.finds)
		require.Empty(t, h.open)
		h.m.CoordinatorFound(h.now, 1)
		h.run()
		require.Len(t, h.open, 1, "the heartbeat itself does not back off")
	})
	t.Run("CC-069 CC-081 CO-3 CO-4 CO-5 errors", func(t *testing.T) {
		h := manual(t)
		h.m.CoordinatorFailed(h.now, kerr.CoordinatorLoadInProgress)
		h.run()
		require.Equal(t, []LookUpFailed{{Err: kerr.CoordinatorLoadInProgress, Retry: backoff}}, eventsOf[LookUpFailed](h))
		require.Equal(t, kerr.CoordinatorLoadInProgress, h.m.Snapshot(h.now).LastError)
		at, ok := h.m.NextDeadline()
		require.True(t, ok)
		require.Equal(t, h.now+backoff, at, "the driver is woken for it")
		h.after(ms(99))
		require.Equal(t, 1, h.finds)
		h.after(ms(1))
		require.Equal(t, 2, h.finds)
		require.Empty(t, h.errs, "retried silently")
		h.m.CoordinatorFailed(h.now, kerr.GroupAuthorizationFailed)
		h.after(ms(199))
		require.Equal(t, 2, h.finds)
		require.Len(t, h.errs, 1)
		require.ErrorIs(t, h.errs[0], kerr.GroupAuthorizationFailed)
		require.ErrorContains(t, h.errs[0], `"shop"`)
		require.ErrorContains(t, h.errs[0], "grant READ")
		require.Equal(t, Joining, h.m.State())
		h.after(ms(1))
		h.m.CoordinatorFailed(h.now, kerr.GroupAuthorizationFailed)
		h.after(ms(400))
		require.Len(t, h.errs, 1, "reported once")
		h.m.CoordinatorFailed(h.now, kerr.CoordinatorNotAvailable)
		h.after(ms(800))
		h.m.CoordinatorFailed(h.now, kerr.GroupAuthorizationFailed)
		h.after(ms(1000))
		require.Len(t, h.errs, 2, "reported again after another answer")
		h.m.CoordinatorFailed(h.now, errors.New("timeout"))
		h.after(ms(1000))
		require.Equal(t, 7, h.finds)
		require.Len(t, h.errs, 2)
		h.m.CoordinatorFound(h.now, 1)
		h.run()
		require.Len(t, h.open, 1)
		require.Equal(t, []CoordinatorKnown{{Version: 1}}, eventsOf[CoordinatorKnown](h))
		h.answer(code(16))
		h.after(backoffMax)
		h.m.CoordinatorFailed(h.now, kerr.ClusterAuthorizationFailed)
		h.run()
		require.Len(t, h.errs, 3)
		require.NotContains(t, h.errs[2].Error(), "grant READ")
		require.Equal(t, backoff, h.m.findAt-h.now, "a success has reset the back-off")
		h.after(backoff)
		h.m.CoordinatorFound(h.now, 1)
		h.run()
		h.answer(code(16))
		h.after(backoffMax)
		h.m.CoordinatorFailed(h.now, kerr.ClusterAuthorizationFailed)
		h.run()
		require.Len(t, h.errs, 4, "and what was told")
	})
	t.Run("CO-2 a coordinator that was good in between", func(t *testing.T) {
		h := stable(t, active("0_0"))
		for range 6 {
			h.answer(code(16))
			h.after(backoffMax)
		}
		h.answer()
		h.after(interval)
		h.manual = true
		h.answer(code(16))
		n := h.finds
		h.m.CoordinatorFound(h.now, 1)
		h.run()
		h.answer(code(16))
		h.after(2 * backoff)
		require.Equal(t, n+1, h.finds, "it is looked up after the shortest back-offs again")
	})
	t.Run("CC-081 CO-1 a look-up that takes a minute", func(t *testing.T) {
		h := manual(t)
		h.after(time.Minute)
		require.Equal(t, 1, h.finds)
	})
	t.Run("CO-6 the coordinator is forgotten on a disconnect and not on a time-out", func(t *testing.T) {
		for kind, forgotten := range map[FailureKind]bool{Disconnected: true, TimedOut: false} {
			h := in(t, StateStable)
			h.manual = true
			h.heartbeat()
			h.fail(kind, errors.New("x"))
			h.after(backoff)
			require.Equal(t, forgotten, h.finds == 1)
			require.Equal(t, StateStable, h.m.State())
		}
	})
}

func heartbeatInterval(n int32) func(*kmsg.StreamsGroupHeartbeatResponse) {
	return func(r *kmsg.StreamsGroupHeartbeatResponse) { r.HeartbeatIntervalMillis = n }
}
