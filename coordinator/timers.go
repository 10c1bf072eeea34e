package coordinator

import (
	"cmp"
	"container/heap"
	"strings"
	"time"
)

// timer is a deadline. The heap of the coordinator holds an entry for it that may
// be earlier, so that pushing a deadline back costs nothing.
type timer struct {
	armed bool
	at    time.Duration
	after time.Duration // the time-out, for the event
	// epoch is the member epoch when a rebalance timer was armed: it strikes only
	// if that is still the epoch.
	epoch int32
	entry *timerEntry
}

type timerKind int8

const (
	noTimer timerKind = iota
	sessionTimer
	rebalanceTimer
	initialTimer
)

// timerKey names a timer. It is what the heap holds: timers live in their group
// or member and may be pushed back without touching the heap.
type timerKey struct {
	kind   timerKind
	group  string
	member string
}

type timerEntry struct {
	at  time.Duration
	key timerKey
	i   int
}

type timerHeap []*timerEntry

func (h timerHeap) Len() int { return len(h) }

// Less orders by time, and equal times by name, so that the order in which
// timers strike does not depend on the order in which they were armed.
func (h timerHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.key.group, b.key.group),
		strings.Compare(a.key.member, b.key.member), cmp.Compare(a.key.kind, b.key.kind)) < 0
}

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].i, h[j].i = i, j
}

func (h *timerHeap) Push(x any) {
	e := x.(*timerEntry)
	e.i = len(*h)
	*h = append(*h, e)
}

func (h *timerHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	e.i = -1
	return e
}

// arm sets a timer. Pushing a deadline back, as every heartbeat does with the
// session, leaves the heap alone: the entry finds out when its time comes.
func (c *coordinatorState) arm(t *timer, key timerKey, at, after time.Duration) {
	t.armed, t.at, t.after = true, at, after
	switch {
	case t.entry == nil:
		t.entry = &timerEntry{at: at, key: key}
		heap.Push(&c.timers, t.entry)
	case at < t.entry.at:
		t.entry.at = at
		heap.Fix(&c.timers, t.entry.i)
	}
}

func (c *coordinatorState) disarm(t *timer) {
	if t.entry != nil {
		heap.Remove(&c.timers, t.entry.i)
	}
	*t = timer{}
}

func (c *coordinatorState) dropTimers(g *group) {
	c.disarm(&g.initial)
	for _, m := range g.members {
		c.disarm(&m.session)
		c.disarm(&m.rebalance)
	}
}

func (c *coordinatorState) timerOf(key timerKey) *timer {
	g := c.groups[key.group]
	if g == nil {
		return nil
	}
	if key.kind == initialTimer {
		return &g.initial
	}
	m := g.members[key.member]
	switch {
	case m == nil:
		return nil
	case key.kind == sessionTimer:
		return &m.session
	case key.kind == rebalanceTimer:
		return &m.rebalance
	}
	return nil
}

// NextDeadline is the time before which Tick has nothing to do. It may be
// earlier than the next timer, never later.
func (c *Coordinator) NextDeadline() (mono time.Duration, ok bool) {
	if len(c.timers) == 0 {
		return 0, false
	}
	return c.timers[0].at, true
}

// Tick runs one timer that is due: a session, a rebalance or an initial delay.
// It returns false if there was none. The driver handles fx as for a request and
// calls again until it returns false.
func (c *Coordinator) Tick(now Now, fx *Effects) bool {
	fx.reset()
	for len(c.timers) > 0 && c.timers[0].at <= now.Mono {
		e := c.timers[0]
		t := c.timerOf(e.key)
		if t.at > e.at {
			e.at = t.at // it was pushed back
			heap.Fix(&c.timers, 0)
			continue
		}
		if c.strike(now, e.key, t, fx) {
			fx.soft.timer, fx.soft.group = e.key, e.key.group
			return true
		}
		c.disarm(t)
	}
	return false
}

// strike decides what a timer does that is due. It returns false if that is
// nothing.
func (c *coordinatorState) strike(now Now, key timerKey, t *timer, fx *Effects) bool {
	g := c.groups[key.group]
	m := g.members[key.member]
	switch key.kind {
	case sessionTimer:
		c.remove(g, m, SessionExpired, t.after, fx)
		return true
	case rebalanceTimer:
		if m.cur.epoch != t.epoch {
			return false // it has given up its tasks, or is absent
		}
		c.remove(g, m, RebalanceExpired, t.after, fx)
		return true
	case initialTimer:
		return c.endInitialDelay(now, g, fx)
	case noTimer:
	}
	return false
}

// endInitialDelay computes the first assignment of a group, if that is possible
// already: else the next heartbeat does it.
func (c *coordinatorState) endInitialDelay(now Now, g *group, fx *Effects) bool {
	if len(g.members) == 0 || g.configured() == nil || g.assignmentEpoch >= g.epoch {
		return false
	}
	h := &c.scratch
	*h = heartbeat{c: c, now: now, fx: fx, g: g, cfg: c.effectiveConfig(g.id), topology: g.topology, configured: g.configured(), epoch: g.epoch, assignment: g.assignmentEpoch, reasons: h.reasons[:0]}
	done := h.intervalElapsed() && h.assign() == nil
	*h = heartbeat{reasons: h.reasons[:0]}
	if !done {
		fx.reset()
	}
	return done
}
