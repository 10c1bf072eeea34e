package membership

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestSnapshot(t *testing.T) {
	t.Parallel()
	t.Run("before anything has happened", func(t *testing.T) {
		s := newHarness(t).m.Snapshot(0)
		require.Equal(t, "shop", s.Group)
		require.Equal(t, "m1", s.MemberID)
		require.Equal(t, "p1", s.ProcessID)
		require.Equal(t, Unsubscribed, s.State)
		require.Nil(t, s.Target)
		require.Equal(t, int16(-1), s.Version)
		require.Equal(t, int32(-1), s.EndpointEpoch)
		require.Negative(t, s.LastHeartbeat)
		require.Equal(t, int64(-1), s.AcceptableRecoveryLag)
		require.Negative(t, s.TaskOffsetInterval)
		require.Zero(t, s.NextHeartbeat)
		require.False(t, s.InFlight)
	})
	t.Run("IQ-6 a member at work", func(t *testing.T) {
		h := stable(t, active("0_0").standbys("0_1").warmups("1_0"))
		h.m.SetTaskOffsets(offsets("0_1", 5), offsets("0_1", 7))
		h.heartbeat()
		h.answer(code(14))
		h.after(backoff)
		h.answer(endpointEpoch(4))
		h.after(ms(700))
		h.m.RequestShutdown()
		s := h.m.Snapshot(h.now)
		require.Equal(t, active("0_0").standbys("0_1").warmups("1_0"), roles{s.Active, s.Standby, s.Warmup})
		require.Equal(t, TaskSet{tasks("0_0"), tasks("0_1"), tasks("1_0")}, *s.Target)
		require.Equal(t, int32(1), s.Epoch)
		require.True(t, s.Ready)
		require.True(t, s.Coordinator)
		require.Equal(t, int16(1), s.Version)
		require.Equal(t, ms(700), s.LastHeartbeat)
		require.Equal(t, ms(700), s.SilentFor)
		require.Equal(t, interval-ms(700), s.NextHeartbeat)
		require.False(t, s.InFlight)
		require.Equal(t, offsets("0_1", 5), s.TaskOffsets)
		require.Equal(t, offsets("0_1", 7), s.TaskEndOffsets)
		require.Equal(t, int32(4), s.EndpointEpoch)
		require.True(t, s.ShutdownRequested)
		require.Empty(t, s.Callbacks)
	})
	t.Run("a member in trouble", func(t *testing.T) {
		h := stable(t, active("0_0"))
		boom := errors.New("boom")
		for range 3 {
			h.fail(TimedOut, boom)
			require.Nil(t, h.m.Snapshot(h.now).TaskOffsets, "who knows what has arrived")
			h.after(backoffMax)
		}
		s := h.m.Snapshot(h.now)
		require.Equal(t, 3, s.Failures)
		require.Equal(t, boom, s.LastError)
		require.True(t, s.InFlight)
		h.assign(active("0_1"))
		h.after(ms(50))
		s = h.m.Snapshot(h.now)
		require.Equal(t, []CallbackRunning{{TasksRevoked, ms(50)}}, s.Callbacks)
		require.Equal(t, tasks("0_1"), s.Target.Active)
		require.Equal(t, tasks("0_0"), s.Active)
		h.m.Leave(h.now, LeaveDefault)
		require.True(t, h.m.Snapshot(h.now).Leaving)
	})
	t.Run("SM-13 a member that has failed has nothing", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.answer(code(30))
		require.NotNil(t, h.m.Snapshot(h.now).Target)
		h.done(TasksLost)
		s := h.m.Snapshot(h.now)
		require.Nil(t, s.Target)
		require.Empty(t, s.Active)
		require.Zero(t, s.Epoch)
		require.ErrorIs(t, s.LastError, kerr.GroupAuthorizationFailed)
	})
	t.Run("it shares nothing with the member", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.answer(status(6))
		s := h.m.Snapshot(h.now)
		s.Active[0].Partition, s.Target.Active[0].Partition, s.Statuses[0].Code = 9, 9, 9
		s = h.m.Snapshot(h.now)
		require.Equal(t, tasks("0_0"), s.Active)
		require.Equal(t, tasks("0_0"), s.Target.Active)
		require.Equal(t, int8(6), s.Statuses[0].Code)
	})
}
