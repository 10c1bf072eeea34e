package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/streamsgroup/streamsgroup/membership"
)

func TestClock(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := clock{zero: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "zero")), ppm: rapid.IntRange(-20000, 20000).Draw(t, "ppm")}
		at := time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "at"))
		reading := c.read(at)
		assert.LessOrEqual(t, c.when(reading), at+time.Millisecond, "a timer strikes when it is due")
		assert.GreaterOrEqual(t, c.read(c.when(reading)), reading, "and not before")
	})
}

func TestAgendaKeepsOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var a agenda
		times := rapid.SliceOfN(rapid.IntRange(0, 20), 1, 100).Draw(t, "times")
		for i, at := range times {
			a.push(event{at: time.Duration(at), seq: uint64(i)})
		}
		last := a.pop()
		for len(a) > 0 {
			next := a.pop()
			require.True(t, last.before(&next))
			last = next
		}
	})
}

// TestCloneMember lets members and copies of them go separate ways.
func TestCloneMember(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 5; seed++ {
		copies := 0
		w := newWorld(NewPlan(seed), Options{})
		for w.violation == nil && w.step() {
			if w.steps%50 != 0 || len(w.live) == 0 {
				continue
			}
			m := w.live[w.steps%len(w.live)]
			before := appendMember(nil, m.core)
			c := cloneMember(m.core)
			require.Equal(t, before, appendMember(nil, c))
			copies++
			now := m.p.read() + time.Hour
			for range 5 {
				var fx membership.Effects
				c.Step(now, &fx)
				if fx.FindCoordinator {
					c.CoordinatorFound(now, 1)
				}
				for _, cb := range fx.Callbacks {
					c.CallbackDone(now, cb.ID, nil)
				}
				c.Leave(now, membership.LeaveGroup)
			}
			require.Equal(t, before, appendMember(nil, m.core), "what the copy does changes the original")
		}
		require.NotZero(t, copies)
	}
}
