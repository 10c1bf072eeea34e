package membership

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDisown(t *testing.T) {
	t.Parallel()
	for _, s := range []State{Joining, Reconciling, Acknowledging, StateStable} {
		t.Run("OC-5 the tasks are lost in "+s.String(), func(t *testing.T) {
			h := in(t, s)
			h.m.Disown(h.now)
			h.run()
			require.Equal(t, Stale, h.m.State())
			require.Equal(t, int32(-1), h.open[len(h.open)-1].req.MemberEpoch)
			require.Empty(t, eventsOf[PollTimerExpired](h), "the application did come round")
			_, ok := h.m.Epoch()
			require.False(t, ok)
		})
	}
	t.Run("OC-5 it joins again once the tasks are lost and the application is back", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.m.Disown(h.now)
		at, ok := h.m.NextDeadline()
		require.True(t, ok)
		require.LessOrEqual(t, at, h.now)
		h.run()
		require.Equal(t, tasks("0_0"), h.done(TasksLost).Active)
		require.Equal(t, Stale, h.m.State())
		h.m.Poll(h.now)
		h.run()
		require.Equal(t, Joining, h.m.State())
		require.Zero(t, h.heartbeat().MemberEpoch)
	})
	t.Run("a static member is away for a moment", func(t *testing.T) {
		h := stable(t, active("0_0"), static)
		h.m.Disown(h.now)
		h.run()
		require.Equal(t, int32(-2), h.open[len(h.open)-1].req.MemberEpoch)
	})
	t.Run("what is lost anyway is lost once", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.after(h.m.interval)
		h.m.Disown(h.now)
		h.answer(code(25))
		h.run()
		h.done(TasksLost)
		require.Equal(t, Joining, h.m.State())
		h.run()
		require.Equal(t, Joining, h.m.State())
	})
	t.Run("a member that is not in the group", func(t *testing.T) {
		for _, s := range []State{Unsubscribed, Fenced, Stale, Fatal} {
			h := in(t, s)
			h.m.Disown(h.now)
			h.run()
			require.Equal(t, s, h.m.State())
		}
	})
}
