package membership

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLeave(t *testing.T) {
	t.Parallel()
	t.Run("CC-049 SM-20 SM-22 TR-5 leave with tasks", func(t *testing.T) {
		h := in(t, Acknowledging)
		regular := h.open[0]
		h.m.Leave(h.now, LeaveDefault)
		h.run()
		require.Equal(t, PrepareLeaving, h.m.State())
		h.m.Leave(h.now, LeaveGroup)
		h.run()
		require.Len(t, h.callbacks, 1, "a second leave changes nothing")
		require.Len(t, h.open, 1)
		require.Equal(t, tasks("0_0"), h.done(TasksRevoked).Active)
		require.Equal(t, Unsubscribed, h.m.State())
		require.Len(t, h.open, 2, "the leave overtakes the heartbeat in flight")
		require.Equal(t, int32(-1), h.open[1].req.MemberEpoch)
		_, ok := h.m.Epoch()
		require.False(t, ok)
		require.Empty(t, h.m.Snapshot(h.now).Active)

		h.answerTo(regular, epoch(2))
		_, ok = h.m.Epoch()
		require.False(t, ok)
		require.False(t, h.m.LeaveDone())
		require.True(t, h.m.Snapshot(h.now).InFlight)
		h.answerTo(h.open[1])
		require.True(t, h.m.LeaveDone())
		require.False(t, h.m.Snapshot(h.now).InFlight)
	})
	t.Run("CC-049 the first leave says how", func(t *testing.T) {
		h := in(t, PrepareLeaving, static)
		h.m.Leave(h.now, LeaveGroup)
		h.done(TasksRevoked)
		require.Equal(t, int32(-2), h.heartbeat().MemberEpoch)
	})
	t.Run("SM-20 SM-21 RS-7 DV-4 heartbeats go on while tasks are revoked", func(t *testing.T) {
		h := in(t, PrepareLeaving)
		for range 3 {
			n := len(h.sent)
			h.after(interval)
			require.Len(t, h.sent, n+1)
			require.Equal(t, int32(1), h.heartbeat().MemberEpoch)
			h.assign(active("0_1"), status(5))
			require.Equal(t, PrepareLeaving, h.m.State(), "what is assigned now is not run")
			require.Len(t, h.callbacks, 1)
			require.Empty(t, h.errs)
			require.Empty(t, eventsOf[TargetReceived](h))
		}
	})
	t.Run("SM-20 a member that has no epoch yet has nothing to say while it loses its tasks", func(t *testing.T) {
		h := in(t, Joining)
		h.fail(TimedOut, errors.New("timed out"))
		h.m.Leave(h.now, LeaveDefault)
		h.after(10 * interval)
		require.Empty(t, h.sent)
		h.done(TasksLost)
		require.Equal(t, int32(-1), h.heartbeat().MemberEpoch)
	})
	t.Run("DV-14 a member that has left and is refused when it comes back says nothing", func(t *testing.T) {
		h := in(t, Leaving)
		h.run()
		h.answer()
		h.join()
		h.answer(code(42))
		h.done(TasksLost)
		require.Empty(t, h.open)
		require.True(t, h.m.LeaveDone())
	})
	t.Run("CC-053 a failed revocation does not keep the member", func(t *testing.T) {
		h := in(t, PrepareLeaving)
		h.done(TasksRevoked, errors.New("boom"))
		require.Equal(t, int32(-1), h.heartbeat().MemberEpoch)
		h.answer()
		require.True(t, h.m.LeaveDone())
		require.ErrorContains(t, h.m.Snapshot(h.now).LastError, "boom")
	})
	t.Run("no tasks, no callback", func(t *testing.T) {
		h := stable(t, active())
		h.m.Leave(h.now, LeaveDefault)
		h.run()
		require.Empty(t, h.ran)
		require.Equal(t, int32(-1), h.heartbeat().MemberEpoch)
	})
	t.Run("HB-6 DV-2 B72 copies that nobody revokes are not reported in the next membership", func(t *testing.T) {
		h := stable(t, active().standbys("0_1").warmups("1_0"))
		h.m.Leave(h.now, LeaveDefault)
		h.run()
		require.Empty(t, h.ran)
		s := h.m.Snapshot(h.now)
		require.Empty(t, s.Standby)
		require.Empty(t, s.Warmup)
		h.answer()
		h.join()
		h.assign(active("0_0"))
		h.after(interval)
		h.requireReported(active("0_0"), h.heartbeat()) // what it starts, rule HB-6a
	})
	t.Run("B58 a member without an epoch loses its tasks instead", func(t *testing.T) {
		h := in(t, Joining)
		h.m.Leave(h.now, LeaveDefault)
		h.run()
		h.done(TasksLost)
		require.Equal(t, Unsubscribed, h.m.State())
		require.Equal(t, int32(-1), h.open[1].req.MemberEpoch)
	})
	for _, s := range []State{Unsubscribed, Fatal} {
		t.Run("CC-054 SM-25 leave in "+s.String(), func(t *testing.T) {
			h := in(t, s)
			h.m.Leave(h.now, LeaveDefault)
			require.True(t, h.m.LeaveDone(), "at once")
			require.False(t, h.m.Snapshot(h.now).Leaving)
			h.run()
			require.Equal(t, s, h.m.State())
			require.True(t, h.m.LeaveDone())
			require.Empty(t, h.sent)
			require.Empty(t, h.ran)
		})
	}
	t.Run("a join that was not carried out yet is taken back", func(t *testing.T) {
		h := newHarness(t)
		h.m.Join(0)
		h.m.Leave(0, LeaveDefault)
		h.run()
		require.Equal(t, Unsubscribed, h.m.State())
		require.Empty(t, h.sent)
	})
	for _, s := range []State{Fenced, Stale} {
		t.Run("CC-055 SM-24 SM-25 DV-11 leave in "+s.String(), func(t *testing.T) {
			h := in(t, s)
			h.m.Leave(h.now, LeaveDefault)
			h.run()
			require.Equal(t, Unsubscribed, h.m.State())
			h.done(TasksLost)
			h.m.Poll(h.now)
			h.after(interval)
			require.Equal(t, Unsubscribed, h.m.State(), "no rejoin")
			require.True(t, h.m.LeaveDone())
			require.Empty(t, h.sent)
		})
	}
	t.Run("CC-056 B45 answers of the past do not end a leave or disturb the next join", func(t *testing.T) {
		h := in(t, StateStable)
		h.heartbeat()
		h.m.Leave(h.now, LeaveDefault)
		h.run()
		h.done(TasksRevoked)
		regular, leave := h.open[0], h.open[1]
		h.answerTo(regular)
		require.False(t, h.m.LeaveDone())
		h.m.Join(h.now)
		h.run()
		require.Equal(t, Unsubscribed, h.m.State(), "the leave comes first")
		h.answerTo(leave)
		require.Equal(t, Joining, h.m.State())
		h.answerTo(leave)
		h.answerTo(regular, epoch(9), active("0_1").set)
		require.Equal(t, Joining, h.m.State())
		require.Empty(t, h.callbacks)
	})
	t.Run("an overtaken heartbeat without an answer does not hold up the next join", func(t *testing.T) {
		h := in(t, StateStable)
		h.heartbeat()
		h.m.Leave(h.now, LeaveDefault)
		h.run()
		h.done(TasksRevoked)
		h.answerTo(h.open[1])
		h.m.Join(h.now)
		h.run()
		require.Len(t, h.open, 3)
		require.NotNil(t, h.open[2].req.Topology)
		h.answerTo(h.open[0], epoch(9), active("0_1").set)
		require.Equal(t, Joining, h.m.State(), "the old answer is not taken for that to the join")
	})
	t.Run("CC-059 SM-23 CO-8 no coordinator while leaving", func(t *testing.T) {
		h := in(t, PrepareLeaving)
		h.manual = true
		h.fail(Disconnected, errors.New("reset"))
		h.done(TasksRevoked)
		require.Equal(t, Unsubscribed, h.m.State())
		require.True(t, h.m.LeaveDone())
		require.Equal(t, int32(1), h.sent[len(h.sent)-1].req.MemberEpoch, "no leave is sent")
		require.Equal(t, []LeftSilently{{}}, eventsOf[LeftSilently](h), "and that is told")
	})
	t.Run("CC-064 ER-2 ER-5 SM-12 DV-8 any failure ends the leave", func(t *testing.T) {
		for _, c := range []int16{69, 25, 42, 16, 15, -1} {
			h := in(t, Leaving)
			h.run()
			require.False(t, h.m.LeaveDone())
			h.answer(code(c))
			require.True(t, h.m.LeaveDone(), "code %d", c)
			require.Equal(t, Unsubscribed, h.m.State())
			require.Equal(t, c, eventsOf[HeartbeatRejected](h)[0].Code)
			require.Equal(t, int32(-1), eventsOf[HeartbeatRejected](h)[0].Epoch)
			require.Len(t, h.sent, 1, "a leave is not repeated")
			require.Equal(t, c != 16 && c != 15, h.m.coordinator)
		}
		for _, kind := range []FailureKind{Disconnected, TimedOut, Other, Unsupported} {
			h := in(t, Leaving)
			h.run()
			h.fail(kind, errors.New("x"))
			require.True(t, h.m.LeaveDone())
			require.Equal(t, Unsubscribed, h.m.State())
			require.Equal(t, kind != Disconnected, h.m.coordinator)
			require.Equal(t, []LeftSilently{{Attempts: 1}}, eventsOf[LeftSilently](h))
		}
	})
	t.Run("SM-14 fatal while preparing to leave", func(t *testing.T) {
		h := in(t, PrepareLeaving)
		h.answer(code(30))
		require.Equal(t, Fatal, h.m.State())
		h.done(TasksRevoked)
		require.True(t, h.m.LeaveDone())
		require.Empty(t, h.callbacks, "what is revoked is not lost as well")
	})
	t.Run("what was revoked already is not revoked again", func(t *testing.T) {
		h := stable(t, active("0_0", "0_1"))
		h.assign(active("0_1"))
		h.done(TasksRevoked)
		h.m.Leave(h.now, LeaveDefault)
		h.run()
		h.done(TasksAssigned)
		require.Equal(t, tasks("0_1"), h.done(TasksRevoked).Active)
		require.Equal(t, Unsubscribed, h.m.State())
	})
	t.Run("DV-14 the leave of a failed member counts until it is answered", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.answer(code(42))
		h.done(TasksLost)
		require.Equal(t, Fatal, h.m.State())
		require.Equal(t, int32(-1), h.heartbeat().MemberEpoch)
		require.False(t, h.m.LeaveDone())
		h.answer()
		require.True(t, h.m.LeaveDone())
		require.Len(t, h.sent, 2)
	})
}

func TestLeaveModes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		mode    LeaveMode
		dynamic int32 // 0: nothing is sent
		static  int32
	}{
		{"B60 SI-2 default", LeaveDefault, -1, -2},
		{"B60 leave the group", LeaveGroup, -1, -1},
		{"CC-060 CC-061 SI-2 HB-3 B60 remain in the group", RemainInGroup, 0, -2},
	} {
		for _, instance := range []string{"", "shop-1"} {
			t.Run(c.name+" "+instance, func(t *testing.T) {
				h := stable(t, active("0_0"), func(cfg *Config) { cfg.InstanceID = instance })
				h.m.Leave(h.now, c.mode)
				h.run()
				h.done(TasksRevoked)
				require.Equal(t, Unsubscribed, h.m.State())
				want := c.dynamic
				if instance != "" {
					want = c.static
				}
				if want == 0 {
					require.Empty(t, h.sent)
					require.Empty(t, eventsOf[LeftSilently](h), "as it was told to")
					require.True(t, h.m.LeaveDone())
					return
				}
				require.Len(t, h.sent, 1)
				require.Equal(t, want, h.sent[0].req.MemberEpoch)
				if instance != "" {
					require.Equal(t, instance, *h.sent[0].req.InstanceID)
				}
			})
		}
	}
	t.Run("CC-063 joining resets the mode", func(t *testing.T) {
		h := stable(t, active("0_0"), static, withPollGuard)
		h.m.Leave(h.now, LeaveGroup)
		h.run()
		h.done(TasksRevoked)
		h.answer()
		h.join()
		h.assign(active("0_0"))
		h.settle()
		h.clear()
		h.after(pollLimit)
		require.Equal(t, Stale, h.m.State())
		require.Equal(t, int32(-2), h.sent[len(h.sent)-1].req.MemberEpoch)
	})
	t.Run("a failed member that is to remain says nothing", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.m.Leave(h.now, RemainInGroup)
		h.run()
		h.answer(code(42))
		h.done(TasksRevoked)
		require.Empty(t, h.sent[1:])
		require.True(t, h.m.LeaveDone())
	})
}

func TestStale(t *testing.T) {
	t.Parallel()
	for _, s := range []State{Joining, Reconciling, Acknowledging, StateStable} {
		t.Run("SM-16 SM-17 HB-2 CC-073 B63 the poll timer expires in "+s.String(), func(t *testing.T) {
			h := in(t, s, withPollGuard)
			ordinary := h.open
			h.now = h.m.pollAt
			h.run()
			require.Equal(t, Stale, h.m.State())
			leave := h.open[len(h.open)-1]
			require.Equal(t, int32(-1), leave.req.MemberEpoch)
			require.Equal(t, []PollTimerExpired{{Limit: pollLimit}}, eventsOf[PollTimerExpired](h))
			_, ok := h.m.Epoch()
			require.False(t, ok)
			require.Nil(t, h.m.Snapshot(h.now).Target)
			require.Nil(t, h.m.Snapshot(h.now).TaskOffsets, "nothing counts as told")
			require.Zero(t, h.m.Snapshot(h.now).LastHeartbeat)
			for _, o := range ordinary[:len(ordinary)-min(1, len(ordinary))] {
				require.NotEqual(t, o.id, leave.id)
			}
			require.NotZero(t, leave.id)
			h.clear()
			before := h.m.interval
			h.answerTo(leave)
			for _, o := range ordinary {
				if o.id != leave.id {
					h.answerTo(o, epoch(9), active("0_1").set)
				}
			}
			require.Equal(t, Stale, h.m.State())
			require.Equal(t, before, h.m.interval)
			h.after(pollLimit)
			require.Empty(t, h.sent, "a stale member is silent")
			for len(h.callbacks) > 0 {
				h.done(h.callbacks[0].Kind)
			}
			require.Equal(t, Stale, h.m.State(), "until the application is back")
			require.Empty(t, h.errs)
			h.m.Poll(h.now)
			h.run()
			require.Equal(t, Joining, h.m.State())
			require.NotNil(t, h.heartbeat().Topology)
		})
	}
	t.Run("SM-18 the application is back before the tasks are lost", func(t *testing.T) {
		h := in(t, Stale)
		h.m.Poll(h.now)
		h.run()
		require.Equal(t, Stale, h.m.State())
		require.Equal(t, tasks("0_0"), h.done(TasksLost).Active)
		require.Equal(t, Joining, h.m.State())
	})
	for _, s := range []State{Fatal, Unsubscribed} {
		t.Run("CC-047 SM-19 expiry without effect in "+s.String(), func(t *testing.T) {
			h := in(t, s, withPollGuard)
			h.after(3 * pollLimit)
			require.Equal(t, s, h.m.State())
			require.Empty(t, h.sent)
		})
	}
	t.Run("CC-067 the poll timer is not looked at without a coordinator", func(t *testing.T) {
		h := newHarness(t, withPollGuard)
		h.manual = true
		h.m.Join(0)
		h.after(3 * pollLimit)
		require.Equal(t, Joining, h.m.State())
		require.Empty(t, h.sent)
	})
	t.Run("CC-075 TM-6 polling restarts the timer", func(t *testing.T) {
		h := in(t, StateStable, withPollGuard)
		h.m.Poll(h.now)
		for range 5 {
			h.after(pollLimit - 1)
			h.m.Poll(h.now)
			for len(h.open) > 0 {
				h.answer()
			}
			require.Equal(t, StateStable, h.m.State())
		}
		h.after(pollLimit)
		require.Equal(t, Stale, h.m.State())
	})
	t.Run("CC-075 TM-6 an application that polls too late is told by how much", func(t *testing.T) {
		for _, coordinator := range []bool{true, false} {
			h := in(t, StateStable, withPollGuard)
			if !coordinator {
				h.manual = true
				h.fail(Disconnected, errors.New("reset"))
			}
			h.m.Poll(h.now)
			h.after(pollLimit + ms(700))
			require.Equal(t, coordinator, h.m.State() == Stale)
			require.Empty(t, eventsOf[PolledLate](h))
			h.m.Poll(h.now)
			h.run()
			require.Equal(t, []PolledLate{{By: ms(700), Limit: pollLimit}}, eventsOf[PolledLate](h))
			h.after(pollLimit - 1)
			h.m.Poll(h.now)
			h.run()
			require.Len(t, eventsOf[PolledLate](h), 1, "the timer was restarted")
		}
		h := in(t, Fenced, withPollGuard)
		h.now = h.m.pollAt + ms(5)
		h.m.Poll(h.now)
		h.run()
		require.Equal(t, []PolledLate{{By: ms(5), Limit: pollLimit}}, eventsOf[PolledLate](h))
		for _, s := range []State{Unsubscribed, Fatal} {
			h := in(t, s, withPollGuard)
			h.now += 3 * pollLimit
			h.m.Poll(h.now)
			h.run()
			require.Empty(t, eventsOf[PolledLate](h), s)
		}
		h = in(t, StateStable)
		h.now += 3 * pollLimit
		h.m.Poll(h.now)
		h.run()
		require.Empty(t, eventsOf[PolledLate](h), "without a poll guard nobody has to poll")
	})
	t.Run("the duration of a callback is measured", func(t *testing.T) {
		h := in(t, Stale)
		h.now += ms(70)
		h.done(TasksLost)
		require.Equal(t, ms(70), eventsOf[CallbackFinished](h)[0].Took)
		h = in(t, StateStable)
		h.answer(code(30))
		h.now += ms(30)
		h.done(TasksLost)
		require.Equal(t, ms(30), eventsOf[CallbackFinished](h)[0].Took)
	})
}

func TestStaticOnVersion0(t *testing.T) {
	t.Parallel()
	h := newHarness(t, static)
	h.version = 0
	h.m.Join(0)
	h.run()
	require.Equal(t, Fatal, h.m.State())
	require.ErrorContains(t, h.errs[0], "static members")
	require.Empty(t, h.sent)

	t.Run("a look-up that ends after the member has left", func(t *testing.T) {
		h := newHarness(t, static)
		h.manual = true
		h.m.Join(0)
		h.run()
		h.m.Leave(0, LeaveDefault)
		h.run()
		h.done(TasksLost)
		h.m.CoordinatorFound(0, 0)
		require.Equal(t, Unsubscribed, h.m.State())
		h.m.Join(0)
		h.run()
		require.Equal(t, Fatal, h.m.State())
		require.Empty(t, h.sent)
	})
	t.Run("an unusable coordinator that is found after the member has left", func(t *testing.T) {
		h := newHarness(t)
		h.manual = true
		h.m.Join(0)
		h.run()
		h.m.Leave(0, LeaveDefault)
		h.run()
		h.done(TasksLost)
		h.m.CoordinatorUnsupported(errors.New("old"))
		h.run()
		require.Equal(t, Unsubscribed, h.m.State())
		require.Empty(t, h.errs)
		require.ErrorContains(t, h.m.Snapshot(h.now).LastError, "old")
		h.m.Join(0)
		h.after(backoff)
		require.Equal(t, 2, h.finds, "it is looked up again")
		h.m.CoordinatorUnsupported(errors.New("old"))
		h.run()
		require.Equal(t, Fatal, h.m.State())
	})
}
