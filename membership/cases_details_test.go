package membership

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestUnreachable(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(h *harness){
		"no answer": func(h *harness) { h.fail(TimedOut, errors.New("timed out")) },
		"loading":   func(h *harness) { h.answer(code(14)) },
	} {
		t.Run("CO-7 "+name, func(t *testing.T) {
			h := stable(t, active("0_0"))
			for range 120 { // ten good minutes
				h.heartbeat()
				h.answer()
				h.after(interval)
			}
			h.clear()
			began := h.now
			for h.now-began < 5*time.Minute {
				trouble(h)
				if h.now-began < unreachableAfter-interval {
					require.Empty(t, eventsOf[Unreachable](h), "not before it has lasted")
				}
				h.after(backoffMax)
			}
			told := eventsOf[Unreachable](h)
			require.InDelta(t, 5, len(told), 1, "once a minute")
			require.Greater(t, told[len(told)-1].For, 3*unreachableAfter)
			require.Error(t, told[0].Err)
		})
	}
	t.Run("CO-7 time that passed before the membership does not count", func(t *testing.T) {
		h := newHarness(t)
		h.manual = true
		h.now = time.Hour
		h.m.Join(h.now)
		h.run()
		h.m.CoordinatorFailed(h.now, errors.New("refused"))
		h.run()
		require.Empty(t, eventsOf[Unreachable](h))
		require.Zero(t, h.m.Snapshot(h.now).SilentFor)
		h.after(unreachableAfter)
		h.m.CoordinatorFailed(h.now, errors.New("refused"))
		h.run()
		require.Equal(t, []Unreachable{{For: unreachableAfter, Err: errors.New("refused")}}, eventsOf[Unreachable](h))
	})
	t.Run("CO-7 who has left does not care", func(t *testing.T) {
		h := newHarness(t)
		h.manual = true
		h.m.Join(0)
		h.run()
		h.m.Leave(0, LeaveDefault)
		h.run()
		h.done(TasksLost)
		h.now = time.Hour
		h.m.CoordinatorFailed(h.now, errors.New("refused"))
		h.run()
		require.Empty(t, eventsOf[Unreachable](h))
	})
}

// A coordinator that takes a member in, and throws it out with its first heartbeat.
func TestDV1TakenInAndFenced(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.join()
	var last time.Duration
	for n := range 8 {
		joined := h.now
		h.assign(active("0_0"))
		h.done(TasksAssigned)
		h.answer(code(25)) // the acknowledgement
		h.done(TasksLost)
		for len(h.open) == 0 {
			at, ok := h.m.NextDeadline()
			require.True(t, ok)
			h.now = max(h.now, at)
			h.run()
		}
		if n > 0 {
			require.GreaterOrEqual(t, h.now-joined, min(last, backoffMax), "the distance does not shrink")
		}
		last = h.now - joined
	}
	require.Equal(t, backoffMax, last)
}

func TestEffectsAreEmptied(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.m.Join(0)
	var fx Effects
	h.m.Step(0, &fx)
	require.True(t, fx.FindCoordinator)
	require.NotEmpty(t, fx.Events)
	h.m.CoordinatorFound(0, 1)
	h.m.Step(0, &fx)
	require.False(t, fx.FindCoordinator)
	require.NotNil(t, fx.Heartbeat)
	h.m.Step(0, &fx)
	require.Equal(t, Effects{}, fx)
}

// ID 0 is no heartbeat.
func TestAnswersToNothing(t *testing.T) {
	t.Parallel()
	h := stable(t, active("0_0"))
	h.m.HeartbeatFailed(h.now, 0, Other, errors.New("x"))
	h.answerTo(sentHeartbeat{0, h.heartbeat()}, code(42))
	require.Equal(t, StateStable, h.m.State())
	require.Empty(t, h.errs)
}

func TestAS4AllUnknownSubtopologiesAreNamed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.join()
	h.assign(active("9_0", "9_1").standbys("77_0", "9_0").warmups("8_0"))
	require.ErrorContains(t, h.errs[0], "subtopologies 77, 8, 9, and", "sorted, each once")
}
