package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/membership"
)

// heal mends everything: from now on nothing goes wrong, and within Bound the
// group has to come to rest.
func (w *World) heal() {
	w.tellf("everything is mended")
	w.healed = true
	w.slowTill, w.slowDiskTill, w.slowNetTill, w.slowLoadTill = 0, 0, 0, 0
	for _, c := range w.cuts {
		clear(c)
	}
	for _, n := range w.nodes {
		w.revive(n)
		n.pausedTill, n.failAppends, n.image = 0, 0, w.image
		if n.core != nil {
			n.planTick()
		}
	}
	partitions := int32(1)
	for _, name := range worked[:externals] {
		if t, ok := w.topics[name]; ok {
			partitions = max(partitions, t.Partitions)
		}
	}
	for i, name := range worked {
		switch t, ok := w.topics[name]; {
		case i < externals && t.Partitions != partitions:
			w.setTopic(name, partitions)
		case i >= externals && ok && t.Partitions != partitions:
			w.setTopic(name, 0) // the coordinator creates it as it must be
		}
	}
	for _, s := range w.slots {
		s.wanted = true
		if p := s.p; p != nil {
			p.mend()
			if s.version != w.version {
				s.version = w.version
				p.close(membership.LeaveGroup, 0)
			}
		}
		s.version = w.version
		w.start(s)
	}
	if w.plan.Setup.FreeNetwork {
		w.at(w.now+30*time.Second, nil, func() { w.agenda = nil })
		return
	}
	w.at(w.now+Bound(&w.plan.Setup), nil, w.late)
	w.lookSettled(w.now)
}

func (p *process) mend() {
	p.pausedTill = 0
	p.wake()
	if p.closing {
		p.restart = 0
	}
	for _, m := range p.members {
		m.loseAnswers, m.noPolls, m.blockNext, m.failNext = 0, 0, 0, false
		if m.gone {
			continue
		}
		p.w.at(p.w.now, p, func() {
			m.core.Poll(p.read())
			m.pump()
		})
		if m.busy != 0 {
			// The callback that blocks returns at last.
			p.w.at(p.w.now, p, func() {
				if m.unblock != nil && !m.gone {
					m.unblock()
				}
			})
		}
	}
}

// Bound is the time after the last fault within which a group has come to rest:
// every ready task active once, nobody waiting for anything. Sessions of those
// who died have to end, those who hang have their tasks taken away, and the rest
// are a few heartbeats.
func Bound(s *Setup) time.Duration {
	d := max(s.Session, 9*time.Second) + s.MaxPoll + 2*s.RequestTimeout + s.LeaveTimeout + s.InitialDelay + 2*max(s.Interval, 2*time.Second) + 15*max(s.Heartbeat, 1300*time.Millisecond) + 2*slowness*s.Latency + 5*time.Second
	if s.Available {
		d += 40 * time.Second // warm-ups, one after the other
	}
	return d + d/25
}

// lookSettled looks now and then whether the group has come to rest: for as long as
// everybody needs to speak twice, and not before what was under way in a slow
// network has arrived or was given up.
func (w *World) lookSettled(since time.Duration) {
	if ok, _ := w.settled(); !ok {
		since = w.now
	}
	setup := &w.plan.Setup
	calm := setup.Faulty + setup.RequestTimeout + 2*slowness*setup.Latency
	if w.now >= calm && w.now-since >= 2*w.interval() {
		w.settledAfter = since - setup.Faulty + 1
		w.tellf("the group has come to rest")
		w.watchRest()
		return
	}
	w.at(w.now+100*time.Millisecond, nil, func() { w.lookSettled(since) })
}

// late is the end of the time to come to rest in.
func (w *World) late() {
	if w.settledAfter > 0 {
		return
	}
	_, why := w.settled()
	w.failf("liveness", "the group has not come to rest in %v: %s", Bound(&w.plan.Setup), why)
}

// settled is whether the group is at rest: stable, every task active once, and
// whoever runs anything is a member.
func (w *World) settled() (ok bool, why string) {
	n := w.nodes[w.owner]
	if n.core == nil {
		return false, "nobody coordinates"
	}
	if s, _ := n.core.State(application); s != coordinator.Stable {
		return false, "the group is " + s.String()
	}
	want := uint64(0)
	v := w.versionOf(int32(w.version))
	for _, sub := range v.topo.Subtopologies() {
		works := slices.Concat(v.works[sub], v.matches[sub])
		partitions := int32(0)
		for _, topic := range works {
			if topic < externals {
				partitions = max(partitions, w.topics[worked[topic]].Partitions)
			}
		}
		for _, topic := range works {
			for p := range partitions {
				want |= 1 << (topic*maxPartitions + int(p))
			}
		}
	}
	got, forgotten := uint64(0), false
	for _, s := range w.slots {
		if s.p == nil || s.p.closing {
			return false, "a process is not up"
		}
	}
	if len(w.live) != len(w.slots)*w.plan.Setup.Threads {
		return false, "a member is not up"
	}
	for _, m := range w.live {
		r := w.table.members[m.id]
		switch {
		case m.core.State() != membership.StateStable:
			return false, m.name + " is " + m.core.State().String()
		case m.exempt():
			return false, m.name + " works without being a member"
		case r == nil:
			return false, m.name + " is not in the table"
		case got&m.works != 0:
			return false, "two work on " + describeMask(got&m.works)
		}
		got |= m.works
		if m.missed && w.plan.Setup.Policy == coordinator.Kafka {
			forgotten = true // Kafka does not repeat an assignment whose answer was lost
			continue
		}
		for role := range r.held {
			if !contains(r.target[role], r.held[role]) || !contains(r.held[role], r.target[role]) {
				return false, m.name + " has not all of its target, or more"
			}
			if !contains(m.confirmed[role], r.held[role]) || !contains(r.held[role], m.confirmed[role]) {
				return false, m.name + " runs something else than it was assigned"
			}
		}
	}
	if len(w.table.members) != len(w.live) {
		return false, "there are members that nobody is"
	}
	if got != want && !forgotten {
		return false, fmt.Sprintf("somebody should work on [%s], and nobody on [%s]", describeMask(want&^got), describeMask(got&^want))
	}
	return true, ""
}

// watchRest watches a group at rest: it stays so, and there is one heartbeat for
// each interval and member.
func (w *World) watchRest() {
	beats, bumps := w.beats, w.bumps
	const intervals = 6
	interval := w.interval()
	w.at(w.now+intervals*interval, nil, func() {
		most := len(w.live) * (intervals + 3)
		switch sent := w.beats - beats; {
		case sent > most:
			w.failf("storm", "%d heartbeats in %d intervals of %d members at rest", sent, intervals, len(w.live))
		case w.bumps != bumps:
			w.failf("rest", "the group epoch grows although nothing happens")
		}
		if ok, why := w.settled(); !ok {
			w.failf("rest", "the group does not stay at rest: %s", why)
		}
		w.agenda = nil
	})
}

// interval is what the coordinator asks for now.
func (w *World) interval() time.Duration {
	if v, ok := w.configs["streams.heartbeat.interval.ms"]; ok {
		d, _ := time.ParseDuration(v + "ms")
		return d
	}
	return w.plan.Setup.Heartbeat
}
