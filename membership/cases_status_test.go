package membership

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func failOnStatus(c *Config) { c.FailOnStatus = true }

// requireStatusError is that the member ends because of a status, after how long.
func (h *harness) requireStatusError(code int8) (after time.Duration) {
	h.t.Helper()
	require.Len(h.t, h.errs, 1)
	var e *Error
	require.ErrorAs(h.t, h.errs[0], &e)
	require.True(h.t, e.Fatal)
	var s *StatusError
	require.ErrorAs(h.t, e, &s)
	require.Equal(h.t, code, s.Status.Code)
	require.ErrorContains(h.t, e, "detail", "the broker's words are passed on")
	return s.After
}

// requireLeaves is that the member gives up its tasks and says goodbye.
func (h *harness) requireLeaves() {
	h.t.Helper()
	require.Equal(h.t, tasks("0_0"), h.done(TasksRevoked).Active)
	leave := h.open[len(h.open)-1]
	require.Equal(h.t, int32(-1), leave.req.MemberEpoch)
	h.answerTo(leave)
	require.True(h.t, h.m.LeaveDone())
	require.Equal(h.t, Unsubscribed, h.m.State())
	n := len(h.sent)
	h.after(10 * interval)
	require.Len(h.t, h.sent, n)
	require.Len(h.t, h.errs, 1)
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	t.Run("CC-140 ST-3 topics that are partitioned wrongly", func(t *testing.T) {
		h := stable(t, active("0_0"), failOnStatus)
		h.answer(status(1, 2))
		h.requireStatusError(StatusIncorrectlyPartitionedTopics)
		h.requireLeaves()
	})
	t.Run("CC-137 ST-4 DV-10 B20 the application is to shut down", func(t *testing.T) {
		h := stable(t, active("0_0"), failOnStatus)
		h.answer(status())
		require.Empty(t, h.errs)
		h.answer(status(4))
		h.requireStatusError(StatusShutdownApplication)
		h.answer(status(4)) // while the tasks are given up
		h.requireLeaves()
	})
	t.Run("ST-3 ST-4 the first code that ends it is the reason, and the only one", func(t *testing.T) {
		for _, codes := range [][]int8{{2, 4}, {4, 2}, {1, 4, 4}} {
			h := stable(t, active("0_0"), failOnStatus)
			h.answer(status(codes...))
			want := codes[0]
			if want == 1 {
				want = 4
			}
			require.Zero(t, h.requireStatusError(want))
			h.requireLeaves()
		}
	})
	t.Run("SD-3 who asks for the shutdown shuts down as well", func(t *testing.T) {
		h := stable(t, active("0_0"), failOnStatus)
		h.m.RequestShutdown()
		require.True(t, h.heartbeat().ShutdownApplication)
		h.answer(status(4))
		require.Equal(t, PrepareLeaving, h.m.State())
		h.after(interval)
		require.True(t, h.heartbeat().ShutdownApplication, "SD-4: it is not taken back")
		h.done(TasksRevoked)
		require.True(t, h.open[len(h.open)-1].req.ShutdownApplication)
	})
	t.Run("a group that shuts down when the member joins", func(t *testing.T) {
		h := newHarness(t, failOnStatus)
		h.join()
		h.answer(active().set, status(4))
		h.requireStatusError(StatusShutdownApplication)
		require.Empty(t, h.callbacks, "nothing is assigned any more")
		require.Equal(t, int32(-1), h.heartbeat().MemberEpoch)
	})
	t.Run("ST-2 source topics that stay missing", func(t *testing.T) {
		h := stable(t, active("0_0"), failOnStatus)
		h.answer(status(1))
		h.done(TasksAssigned)
		h.answer(status(1))
		h.after(interval)
		h.answer(status(1), heartbeatInterval(1000)) // the countdown keeps the interval that it began with
		h.after(interval - 1)
		require.Empty(t, h.errs)
		at, ok := h.m.NextDeadline()
		require.True(t, ok)
		require.Equal(t, h.now+1, at, "the driver is woken for it")
		h.after(1)
		require.Equal(t, 2*interval, h.requireStatusError(StatusMissingSourceTopics))
		require.ErrorContains(t, h.errs[0], "for 10s")
		h.requireLeaves()
	})
	t.Run("CC-139 ST-2 source topics that come and go", func(t *testing.T) {
		h := stable(t, active("0_0"), failOnStatus)
		beat := func(codes ...int8) {
			h.answer(status(codes...))
			for len(h.callbacks) > 0 {
				h.done(TasksAssigned)
			}
			for len(h.open) > 0 {
				h.answer(status(codes...))
			}
		}
		beat(1)
		h.after(interval)
		beat(1)
		beat()
		beat(3, 1)
		h.after(ms(6000))
		require.Empty(t, h.errs)
		require.Equal(t, StateStable, h.m.State())
	})
	t.Run("RS-6 B06 no status list keeps the statuses, an empty one clears them", func(t *testing.T) {
		h := stable(t, active("0_0"), failOnStatus)
		h.answer(status(1))
		h.done(TasksAssigned)
		h.answer(func(r *kmsg.StreamsGroupHeartbeatResponse) { r.Status = nil })
		require.Equal(t, []Status{{1, "detail"}}, h.m.Snapshot(h.now).Statuses)
		for len(h.callbacks) > 0 {
			h.done(TasksAssigned)
		}
		h.answer()
		require.Empty(t, h.m.Snapshot(h.now).Statuses)
		h.after(3 * interval)
		require.Empty(t, h.errs)
	})
	for name, change := range map[string]func(*Config){
		"patience for ever":        func(c *Config) { c.FailOnStatus, c.MissingTopicsPatience = true, -1 },
		"statuses are only told":   func(*Config) {},
		"patience longer than yet": func(c *Config) { c.FailOnStatus, c.MissingTopicsPatience = true, 100*interval },
	} {
		t.Run("ST-2 "+name, func(t *testing.T) {
			h := stable(t, active("0_0"), change)
			h.answer(status(1))
			h.done(TasksAssigned)
			h.after(50 * interval)
			require.Empty(t, h.errs)
			require.Equal(t, []StatusChanged{{[]Status{{1, "detail"}}}}, eventsOf[StatusChanged](h))
		})
	}
	t.Run("statuses of a membership that is over do not count", func(t *testing.T) {
		h := stable(t, active("0_0"), failOnStatus)
		h.answer(status(1))
		h.done(TasksAssigned)
		h.answer(code(25))
		h.clear()
		h.done(TasksLost)
		require.Equal(t, []StatusChanged{{}}, eventsOf[StatusChanged](h))
		require.Empty(t, h.m.Snapshot(h.now).Statuses)
		h.after(5 * interval)
		require.Equal(t, Joining, h.m.State())
		require.Empty(t, h.errs)
	})
	t.Run("codes that do nothing", func(t *testing.T) {
		h := stable(t, active("0_0"), failOnStatus)
		for _, c := range []int8{0, 3, 5, 6, 99, -7} {
			h.answer(status(c))
			for len(h.callbacks) > 0 {
				h.done(TasksAssigned)
			}
			h.after(4 * interval)
			require.Empty(t, h.errs, "code %d", c)
		}
	})
	t.Run("names", func(t *testing.T) {
		require.Equal(t, "STALE_TOPOLOGY", Status{Code: StatusStaleTopology}.String())
		require.Equal(t, "MISSING_CLIENT_TAGS: zone", Status{StatusMissingClientTags, "zone"}.String())
		require.Equal(t, "status 99: x", Status{99, "x"}.String())
	})
}
