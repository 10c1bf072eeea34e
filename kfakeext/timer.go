package kfakeext

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/coordinator"
)

// timer is the one timer of the coordinator. A deadline that moves back leaves
// it alone: it fires early, finds nothing to do and is armed again.
type timer struct {
	t     *time.Timer
	armed bool
	at    time.Duration
	gen   uint64 // a timer that fired cannot be taken back; it compares this
	fx    coordinator.Effects
}

func (t *timer) stop() {
	if t.t != nil {
		t.t.Stop()
	}
	t.armed = false
	t.gen++
}

// arm sets the timer to the core's next deadline. The lock is held.
func (a *adapter) arm(now coordinator.Now) {
	if a.closed {
		return
	}
	at, ok := a.core.NextDeadline()
	if !ok || a.timer.armed && a.timer.at <= at {
		return
	}
	a.timer.stop()
	a.timer.armed, a.timer.at = true, at
	gen := a.timer.gen
	a.timer.t = time.AfterFunc(max(at-now.Mono, 0), func() { a.fire(gen) })
}

// fire runs the timers that are due. It must not call the cluster, which may be
// closed: its methods would never return.
func (a *adapter) fire(gen uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || gen != a.timer.gen {
		return
	}
	a.timer.armed = false
	now := a.now()
	for a.core.Tick(now, &a.timer.fx) {
		if err := a.commit(now, &a.timer.fx); err != nil {
			a.logf(kgo.LogLevelError, "timer: append failed: %v", err)
			break
		}
	}
	a.arm(now)
}
