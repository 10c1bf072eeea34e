package membership

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const leaveTimeout = 3 * time.Second

func patient(c *Config) { c.LeaveTimeout = leaveTimeout }

// leaving is a member whose leave is unanswered.
func leaving(t *testing.T, change ...func(*Config)) *harness {
	h := stable(t, active("0_0"), append(change, patient)...)
	h.m.Leave(h.now, LeaveDefault)
	h.run()
	h.done(TasksRevoked)
	require.Len(t, h.open, 1)
	return h
}

func TestLeaveIsRepeated(t *testing.T) {
	t.Parallel()
	for _, c := range []int16{16, 15, 14} {
		t.Run(fmt.Sprintf("LV-1 code %d", c), func(t *testing.T) {
			h := leaving(t)
			h.answer(code(c))
			require.False(t, h.m.LeaveDone())
			require.Equal(t, c != 14, h.finds == 1, "whether the coordinator is looked up again")
			if c == 14 {
				require.Empty(t, h.open)
				h.after(backoff)
			}
			require.Len(t, h.open, 1)
			require.Equal(t, int32(-1), h.heartbeat().MemberEpoch)
			h.answer()
			require.True(t, h.m.LeaveDone())
			require.Len(t, h.sent, 2)
		})
	}
	for _, kind := range []FailureKind{Disconnected, TimedOut} {
		t.Run(fmt.Sprintf("LV-1 failure %d", kind), func(t *testing.T) {
			h := leaving(t)
			h.fail(kind, errors.New("lost"))
			require.False(t, h.m.LeaveDone())
			require.ErrorContains(t, h.m.Snapshot(h.now).LastError, "lost")
			h.after(backoff - 1)
			require.Empty(t, h.open)
			h.after(1)
			require.Len(t, h.open, 1)
			h.answer(code(25)) // the first one did arrive
			require.True(t, h.m.LeaveDone())
			require.Empty(t, h.errs)
		})
	}
	t.Run("LV-1 other errors end it", func(t *testing.T) {
		for _, c := range []int16{69, 25, 110, 42, 30, -1} {
			h := leaving(t)
			h.answer(code(c))
			require.True(t, h.m.LeaveDone(), c)
		}
		for _, kind := range []FailureKind{Unsupported, Other} {
			h := leaving(t)
			h.fail(kind, errors.New("x"))
			require.True(t, h.m.LeaveDone(), kind)
		}
	})
	t.Run("LV-2 until the time is over", func(t *testing.T) {
		h := leaving(t)
		begin := h.now
		for !h.m.LeaveDone() {
			if len(h.open) > 0 {
				h.answer(code(14))
			}
			at, ok := h.m.NextDeadline()
			if !ok {
				break
			}
			h.now = max(h.now, at)
			h.run()
		}
		require.True(t, h.m.LeaveDone())
		require.LessOrEqual(t, h.now-begin, leaveTimeout)
		require.Greater(t, h.now-begin, leaveTimeout-2*backoffMax)
		require.Less(t, len(h.sent), 8, "with the back-off between them")
		require.Equal(t, []LeftSilently{{Attempts: len(h.sent)}}, eventsOf[LeftSilently](h))
		require.Equal(t, Unsubscribed, h.m.State())
	})
	t.Run("LV-3 a leave waits for the coordinator", func(t *testing.T) {
		h := stable(t, active("0_0"), patient)
		h.manual = true
		h.fail(Disconnected, errors.New("reset"))
		h.m.Leave(h.now, LeaveDefault)
		h.after(backoff)
		h.done(TasksRevoked)
		require.Equal(t, 1, h.finds)
		require.Equal(t, Leaving, h.m.State())
		h.m.CoordinatorFailed(h.now, errors.New("refused"))
		h.after(backoffMax)
		require.Equal(t, 2, h.finds)
		h.m.CoordinatorFound(h.now, 1)
		h.run()
		require.Equal(t, int32(-1), h.heartbeat().MemberEpoch)
		require.Equal(t, Unsubscribed, h.m.State())
	})
	t.Run("LV-3 and not for ever", func(t *testing.T) {
		h := stable(t, active("0_0"), patient)
		h.manual = true
		h.fail(Disconnected, errors.New("reset"))
		h.m.Leave(h.now, LeaveDefault)
		h.after(backoff)
		h.done(TasksRevoked)
		h.after(leaveTimeout - 1)
		require.False(t, h.m.LeaveDone())
		h.after(1)
		require.True(t, h.m.LeaveDone())
		require.Equal(t, Unsubscribed, h.m.State())
		n := h.finds
		h.m.CoordinatorFailed(h.now, errors.New("refused"))
		h.after(interval)
		require.Equal(t, n, h.finds)
	})
	t.Run("LV-3 a coordinator that cannot be used ends it", func(t *testing.T) {
		h := leaving(t)
		h.manual = true
		h.answer(code(16))
		require.Equal(t, 1, h.finds)
		h.m.CoordinatorUnsupported(errors.New("old"))
		h.run()
		require.True(t, h.m.LeaveDone())
	})
	t.Run("LV-4 a failed member, too", func(t *testing.T) {
		h := stable(t, active("0_0"), patient)
		h.answer(code(42))
		h.done(TasksLost)
		h.answer(code(16))
		require.False(t, h.m.LeaveDone())
		require.Equal(t, int32(-1), h.heartbeat().MemberEpoch)
		h.answer()
		require.True(t, h.m.LeaveDone())
		require.Equal(t, Fatal, h.m.State())
	})
	t.Run("LV-4 LV-3 a failed member waits for the coordinator", func(t *testing.T) {
		h := stable(t, active("0_0"), patient)
		h.assign(active())
		h.after(interval)
		h.manual = true
		h.fail(Disconnected, errors.New("reset"))
		h.done(TasksRevoked, errors.New("boom"))
		require.Equal(t, Fatal, h.m.State())
		h.m.CoordinatorFailed(h.now, errors.New("refused"))
		h.after(backoffMax)
		require.False(t, h.m.LeaveDone())
		n := h.finds
		h.done(TasksLost)
		h.after(backoffMax)
		require.Equal(t, n+1, h.finds, "it is looked up for the leave")
		h.m.CoordinatorFound(h.now, 1)
		h.run()
		require.Equal(t, int32(-1), h.heartbeat().MemberEpoch)
		h.answer()
		require.True(t, h.m.LeaveDone())
		require.Equal(t, Fatal, h.m.State())
	})
	t.Run("LV-4 a failed member does not wait for ever", func(t *testing.T) {
		for _, limit := range []time.Duration{0, leaveTimeout} {
			h := stable(t, active("0_0"), func(c *Config) { c.LeaveTimeout = limit })
			h.assign(active())
			h.after(interval)
			h.manual = true
			h.fail(Disconnected, errors.New("reset"))
			h.done(TasksRevoked, errors.New("boom"))
			h.done(TasksLost)
			require.Equal(t, limit == 0, h.m.LeaveDone())
			h.after(limit)
			require.True(t, h.m.LeaveDone())
			require.Len(t, h.sent, 2, "no leave")
			_, ok := h.m.NextDeadline()
			require.False(t, ok)
		}
	})
	t.Run("LV-5 a join waits for the leave", func(t *testing.T) {
		h := leaving(t)
		h.answer(code(14))
		h.m.Join(h.now)
		h.run()
		require.Equal(t, Unsubscribed, h.m.State())
		h.after(backoff)
		h.answer()
		require.Equal(t, Joining, h.m.State())
		h.assign(active("0_0"))
		h.settle()
	})
	t.Run("LV-1 who remains in the group has nothing to repeat", func(t *testing.T) {
		h := stable(t, active("0_0"), patient)
		h.m.Leave(h.now, RemainInGroup)
		h.run()
		h.done(TasksRevoked)
		require.True(t, h.m.LeaveDone())
		require.Empty(t, h.sent)
	})
}

func TestCC066LastLeave(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*Config)
		epoch  int32
	}{{"dynamic", func(*Config) {}, -1}, {"static", static, -2}} {
		t.Run("CC-066 while tasks are revoked, "+c.name, func(t *testing.T) {
			h := in(t, PrepareLeaving, c.change)
			req := h.m.LastLeave(h.now)
			require.Equal(t, c.epoch, req.MemberEpoch)
			if c.epoch == -2 {
				require.Equal(t, "shop-1", *req.InstanceID)
			}
			require.Equal(t, Unsubscribed, h.m.State())
			_, ok := h.m.Epoch()
			require.False(t, ok)
			require.Nil(t, h.m.Snapshot(h.now).Target)
			h.run()
			h.done(TasksRevoked)
			require.True(t, h.m.LeaveDone())
			require.Empty(t, h.sent)
			require.Nil(t, h.m.LastLeave(h.now))
		})
	}
	t.Run("CC-066 while a leave is put off", func(t *testing.T) {
		h := leaving(t)
		h.answer(code(14))
		require.Equal(t, int32(-1), h.m.LastLeave(h.now).MemberEpoch)
		require.True(t, h.m.LeaveDone())
		h.after(interval)
		require.Len(t, h.sent, 1)
	})
	t.Run("CC-066 of a member that has failed", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.answer(code(42))
		require.Equal(t, int32(-1), h.m.LastLeave(h.now).MemberEpoch)
		h.done(TasksLost)
		require.True(t, h.m.LeaveDone())
		require.Len(t, h.sent, 1)
	})
	t.Run("CC-066 nothing to tell", func(t *testing.T) {
		for _, s := range []State{Unsubscribed, Joining, Reconciling, StateStable, Fenced, Stale, Fatal} {
			h := in(t, s)
			require.Nil(t, h.m.LastLeave(h.now), s)
			require.Equal(t, s, h.m.State())
		}
		h := stable(t, active("0_0"))
		h.m.Leave(h.now, RemainInGroup)
		require.Nil(t, h.m.LastLeave(h.now))
		require.Equal(t, Unsubscribed, h.m.State())
		h = in(t, PrepareLeaving)
		h.manual = true
		h.fail(Disconnected, errors.New("x"))
		require.Nil(t, h.m.LastLeave(h.now), "no coordinator")
	})
}

func TestSuspect(t *testing.T) {
	t.Parallel()
	t.Run("B80 a denied commit makes the member ask at once", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.after(ms(2000))
		h.m.Suspect(h.now)
		h.run()
		require.Len(t, h.open, 1)
		h.answer(code(25))
		require.Equal(t, tasks("0_0"), h.done(TasksLost).Active)
		require.Zero(t, h.heartbeat().MemberEpoch)
	})
	t.Run("B80 a healthy membership stays", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.after(ms(2000))
		h.m.Suspect(h.now)
		h.run()
		h.answer()
		require.Empty(t, h.ran)
		require.Equal(t, StateStable, h.m.State())
	})
	t.Run("asking all the time does no harm", func(t *testing.T) {
		h := stable(t, active("0_0"))
		for range 1000 {
			h.m.Suspect(h.now)
			h.after(ms(1))
			for len(h.open) > 0 {
				h.answer()
			}
		}
		require.LessOrEqual(t, len(h.sent), 11, "one in the time of a back-off")
	})
	t.Run("it does not bring a silent member to speak", func(t *testing.T) {
		for _, s := range []State{Unsubscribed, Fenced, Stale, Fatal} {
			h := in(t, s)
			h.m.Suspect(h.now)
			h.after(interval)
			require.Empty(t, h.sent, s)
		}
	})
}
