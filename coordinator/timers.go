package coordinator

import (
	"cmp"
	"strings"
	"time"
)

type timerKind int8

const (
	sessionTimer timerKind = iota
	rebalanceTimer
	initialTimer
)

// timer is a deadline of a member or, in the case of the initial delay, of a
// group. It lives there.
type timer struct {
	kind timerKind
	g    *group
	m    *member // nil for a timer of the group

	at    time.Duration
	after time.Duration // the time-out, for the event
	// epoch is the member epoch when a rebalance timer was armed: it strikes only
	// if that is still the epoch.
	epoch int32
	slot  int // in the heap, counted from 1; 0 if the timer is not armed
	// slotAt is the time of the slot. It is kept here as well so that a heartbeat
	// need not reach for the heap, which in a large group is not in the cache.
	slotAt time.Duration
}

func (t *timer) armed() bool { return t.slot > 0 }

// before orders timers that are due at the same time, so that the order in which
// they strike does not depend on the order in which they were armed.
func (t *timer) before(o *timer) bool {
	member := func(t *timer) string {
		if t.m == nil {
			return ""
		}
		return t.m.meta.Member
	}
	return cmp.Or(strings.Compare(t.g.id, o.g.id), strings.Compare(member(t), member(o)), cmp.Compare(t.kind, o.kind)) < 0
}

// timerHeap orders the armed timers by time, with four children to a node: the
// heap is as large as the groups are, and reaching for memory is what it costs.
//
// The time of a slot may be earlier than that of its timer. Pushing a deadline
// back, as every heartbeat does with the session, leaves the heap alone; the slot
// moves when its own time has come.
type timerHeap []timerSlot

type timerSlot struct {
	at time.Duration
	t  *timer
}

func (s timerSlot) before(o timerSlot) bool {
	return s.at < o.at || s.at == o.at && s.t.before(o.t)
}

func (h timerHeap) put(i int, s timerSlot) {
	h[i] = s
	s.t.slot, s.t.slotAt = i+1, s.at
}

func (h timerHeap) up(i int, s timerSlot) {
	for i > 0 {
		parent := (i - 1) / 4
		if !s.before(h[parent]) {
			break
		}
		h.put(i, h[parent])
		i = parent
	}
	h.put(i, s)
}

func (h timerHeap) down(i int, s timerSlot) {
	for {
		first := 4*i + 1
		if first >= len(h) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(h)); c++ {
			if h[c].before(h[least]) {
				least = c
			}
		}
		if !h[least].before(s) {
			break
		}
		h.put(i, h[least])
		i = least
	}
	h.put(i, s)
}

// move gives the slot i to s, which may have to go up or down.
func (h timerHeap) move(i int, s timerSlot) {
	if i > 0 && s.before(h[(i-1)/4]) {
		h.up(i, s)
	} else {
		h.down(i, s)
	}
}

func (c *coordinatorState) arm(t *timer, at, after time.Duration) {
	t.at, t.after = at, after
	switch s := (timerSlot{at, t}); {
	case !t.armed():
		c.timers = append(c.timers, s)
		c.timers.up(len(c.timers)-1, s)
	case at < t.slotAt:
		c.timers.up(t.slot-1, s)
	}
}

func (c *coordinatorState) disarm(t *timer) {
	if !t.armed() {
		return
	}
	i, last := t.slot-1, len(c.timers)-1
	t.slot = 0
	s := c.timers[last]
	c.timers[last] = timerSlot{}
	c.timers = c.timers[:last]
	if i < last {
		c.timers.move(i, s)
	}
	if room := cap(c.timers); room > 64 && last < room/4 {
		c.timers = append(make(timerHeap, 0, room/2), c.timers...) // many members have gone
	}
}

func (c *coordinatorState) dropTimers(g *group) {
	c.disarm(&g.initial)
	for _, m := range g.members {
		c.disarm(&m.session)
		c.disarm(&m.rebalance)
	}
}

// NextDeadline is the time before which Tick has nothing to do. It may be earlier
// than the next timer, never later.
func (c *Coordinator) NextDeadline() (mono time.Duration, ok bool) {
	if len(c.timers) == 0 {
		return 0, false
	}
	return c.timers[0].at, true
}

// Tick runs one timer that is due: a session, a rebalance or an initial delay. It
// returns false if there was none. The driver handles fx as for a request and
// calls again until it returns false.
func (c *Coordinator) Tick(now Now, fx *Effects) bool {
	fx.reset()
	for len(c.timers) > 0 && c.timers[0].at <= now.Mono {
		switch t := c.timers[0].t; {
		case t.at > c.timers[0].at:
			c.timers.down(0, timerSlot{t.at, t}) // it was pushed back
		case c.strike(now, t, fx):
			fx.soft.timer = t
			return true
		default:
			c.disarm(t)
		}
	}
	return false
}

// strike decides what a timer does that is due. It returns false if that is
// nothing.
func (c *coordinatorState) strike(now Now, t *timer, fx *Effects) bool {
	switch t.kind {
	case sessionTimer:
		c.remove(t.g, t.m, SessionExpired, t.after, fx)
		return true
	case rebalanceTimer:
		if t.m.cur.epoch != t.epoch {
			return false // it has given up its tasks, or is absent
		}
		c.remove(t.g, t.m, RebalanceExpired, t.after, fx)
		return true
	}
	return c.endInitialDelay(now, t.g, fx)
}

// endInitialDelay computes the first assignment of a group, if that is possible
// already: else, or if the assignor fails, the next heartbeat does it.
func (c *coordinatorState) endInitialDelay(now Now, g *group, fx *Effects) bool {
	if len(g.members) == 0 || g.configured() == nil || g.unseen || g.assignmentEpoch >= g.epoch {
		return false
	}
	h := &c.scratch
	*h = heartbeat{c: c, now: now, fx: fx, g: g, cfg: c.effectiveConfig(g.id).asStored(g.lastConfigs), topology: g.topology, configured: g.configured(), epoch: g.epoch, assignment: g.assignmentEpoch, reasons: h.reasons[:0]}
	due := h.intervalElapsed()
	if due {
		fx.soft.g = g
		h.assign() // what may fail is told by an event
	}
	*h = heartbeat{reasons: h.reasons[:0]}
	return due
}
