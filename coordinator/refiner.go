package coordinator

import (
	"cmp"
	"math"
	"slices"

	"github.com/streamsgroup/streamsgroup/topology"
)

// The refiner turns a target assignment into one that can be worked off without
// stopping a stateful task for long: the active task stays where it runs, and its
// next owner gets a warm-up, until that has caught up. It is a pure function of
// the holdings, the target and the reported offsets.

// refineInput is what the refiner sees of a group.
type refineInput struct {
	members []refineMember // ascending by id
	// stateful is whether a subtopology of the topology has changelogs.
	stateful func(subtopology string) bool
	// logEnd is the sum of the log ends of a task's changelogs, where that is
	// known. It is asked for tasks on the move whose end nobody reports.
	logEnd  func(topology.TaskID) (int64, bool)
	warmups int   // most warm-ups in the group at a time
	lag     int64 // up to which a copy counts as caught up
	// keepOrphans is whether active tasks that no target names stay where they
	// are: their target went with a member, and the next is not computed yet.
	keepOrphans bool
}

type refineMember struct {
	id, process   string
	stale         bool
	warms         warms
	held, target  roles // held without what is pending revocation
	offsets, ends map[topology.TaskID]int64
}

// warms is whether a member can be seen to catch up: from heartbeat version 1 on
// members report offsets.
type warms int8

const (
	warmsUnknown warms = iota // not heard of since the group was loaded
	warmsYes
	warmsNo
)

// refined is what the refiner makes of a target.
type refined struct {
	// tasks are what members are to have where that is not their target.
	tasks map[string]roles
	// moving are the tasks that are not on their target owner, ascending: only
	// what is reported of them can change the result.
	moving taskList
	// orphans are those of them that no target names.
	orphans taskList
}

const noMember = -1

// move is a stateful task that the target gives to somebody who does not run it.
type move struct {
	task   topology.TaskID
	order  int   // of the task among those that move
	owner  int   // by the target, or noMember
	holder int   // who runs it now, or noMember
	copies []int // who follows it now, ascending

	staged int // who runs it for now, or noMember if it is granted
	cold   bool
	class  class
	warmed bool // the owner gets a warm-up
	// standbys are the members that the target names as such, ascending.
	standbys []int
	// borrowed is the member whose standby takes the place of a warm-up, or
	// noMember.
	borrowed int
}

// class says what the process of the next owner has of a staged task.
type class int8

const (
	parked  class = iota // it waits, for a slot or for other reasons
	keep                 // a warm-up
	plant                // nothing
	borrow               // a standby on the owner itself
	sibling              // a standby on another member
)

type refiner struct {
	refineInput
	moves     []move // ascending by task
	byTask    map[topology.TaskID]*move
	process   []int   // by member
	processes [][]int // members
	load      []int   // by process: stateful tasks
	restoring []bool  // by member: some active task, computed for owners only
}

// refine computes the assignment to be worked off.
func refine(in refineInput) refined {
	r := &refiner{refineInput: in}
	if in.warmups == 0 || in.lag == math.MaxInt64 {
		return refined{}
	}
	r.findMoves()
	if len(r.moves) == 0 {
		return refined{}
	}
	r.index()
	for i := range r.moves {
		r.decide(&r.moves[i])
	}
	r.spend()
	return r.assemble()
}

// findMoves compares holdings and targets. A task that moves is in the target of
// one member and among what another has beyond its target.
func (r *refiner) findMoves() {
	for i := range r.members {
		m := &r.members[i]
		for _, t := range r.beyond(m.target.active, m.held.active) {
			r.moves = append(r.moves, move{task: t, owner: i, holder: noMember})
		}
	}
	slices.SortFunc(r.moves, func(a, b move) int { return a.task.Compare(b.task) })
	for i := range r.members {
		m := &r.members[i]
		for _, t := range r.beyond(m.held.active, m.target.active) {
			at, found := slices.BinarySearchFunc(r.moves, t, func(m move, t topology.TaskID) int { return m.task.Compare(t) })
			switch {
			case found && r.moves[at].holder == noMember:
				r.moves[at].holder = i
			case !found && r.keepOrphans:
				r.moves = slices.Insert(r.moves, at, move{task: t, owner: noMember, holder: i})
			}
		}
	}
	r.byTask = make(map[topology.TaskID]*move, len(r.moves))
	for i := range r.moves {
		m := &r.moves[i]
		m.order, m.staged, m.borrowed = i, noMember, noMember
		r.byTask[m.task] = m
	}
}

// beyond are the stateful tasks of a that are not in b.
func (r *refiner) beyond(a, b taskList) taskList {
	var out taskList
	for _, t := range a {
		for len(b) > 0 && b[0].Compare(t) < 0 {
			b = b[1:]
		}
		if len(b) > 0 && b[0] == t {
			b = b[1:]
			continue
		}
		if r.stateful(t.Subtopology) {
			out = append(out, t)
		}
	}
	return out
}

// index says who has copies of the tasks on the move, and how loaded processes
// are.
func (r *refiner) index() {
	r.process, r.restoring = make([]int, len(r.members)), make([]bool, len(r.members))
	numbers := map[string]int{}
	for i := range r.members {
		m := &r.members[i]
		p, ok := numbers[m.process]
		if !ok {
			p = len(r.processes)
			numbers[m.process] = p
			r.processes, r.load = append(r.processes, nil), append(r.load, 0)
		}
		r.process[i] = p
		r.processes[p] = append(r.processes[p], i)
		for _, l := range []taskList{m.held.standby, m.held.warmup} {
			for _, t := range l {
				if mv := r.byTask[t]; mv != nil {
					mv.copies = append(mv.copies, i)
				}
			}
		}
		for _, t := range m.target.standby {
			if mv := r.byTask[t]; mv != nil {
				mv.standbys = append(mv.standbys, i)
			}
		}
		for _, l := range []taskList{m.held.active, m.held.standby, m.held.warmup} {
			r.load[p] += r.countStateful(l)
		}
	}
	for i := range r.moves {
		if o := r.moves[i].owner; o != noMember && !r.restoring[o] {
			r.restoring[o] = slices.ContainsFunc(r.members[o].held.active, func(t topology.TaskID) bool {
				return r.stateful(t.Subtopology) && r.members[o].restoring(t)
			})
		}
	}
}

func (r *refiner) countStateful(l taskList) int {
	n := 0
	for i := 0; i < len(l); {
		k := sameSubtopology(l[i:])
		if r.stateful(l[i].Subtopology) {
			n += k
		}
		i += k
	}
	return n
}

// started is whether the member reports how far it is.
func (m *refineMember) started(t topology.TaskID) bool {
	o, ok := m.offsets[t]
	return ok && o != math.MaxInt64
}

// restoring is whether the member is not done with restoring an active task:
// offsets of running ones are not reported. Who has reported nothing counts as
// running, which at worst makes a move wait.
func (m *refineMember) restoring(t topology.TaskID) bool {
	_, ok := m.offsets[t]
	return ok
}

// caughtUp is whether a copy is close enough to the end of the changelogs. A
// member reports no end for a copy that was complete on disk until a new record
// comes, and none for one that lies about.
func (r *refineInput) caughtUp(m *refineMember, t topology.TaskID) bool {
	if !m.started(t) {
		return false
	}
	end, ok := m.ends[t]
	if !ok || end == math.MaxInt64 {
		if r.logEnd == nil {
			return false
		}
		if end, ok = r.logEnd(t); !ok {
			return false
		}
	}
	return end-m.offsets[t] <= r.lag
}

// onDisk is whether some member of the process reports a task that none of them
// holds.
func (r *refiner) onDisk(process int, t topology.TaskID) bool {
	reported := false
	for _, i := range r.processes[process] {
		m := &r.members[i]
		if m.held.active.has(t) || m.held.standby.has(t) || m.held.warmup.has(t) {
			return false
		}
		_, here := m.offsets[t]
		reported = reported || here
	}
	return reported
}

// decide stages a task or grants it to its target owner. The first rule that
// applies decides.
func (r *refiner) decide(m *move) {
	hot := m.holder != noMember && r.hot(&r.members[m.holder], m.task)
	if m.owner == noMember || r.members[m.owner].stale {
		// The owner is no longer there, or may not take anything.
		if m.staged = m.holder; m.staged == noMember {
			m.staged = r.bestCopy(m)
		}
		return
	}
	owner := &r.members[m.owner]
	in := func(i int) bool { return r.process[i] == r.process[m.owner] }
	switch {
	case owner.warms == warmsNo: // it could never be seen to catch up
		m.cold = !slices.ContainsFunc(m.copies, in)
	case m.holder != noMember && in(m.holder): // the state is on the same disk
	case slices.ContainsFunc(m.copies, func(i int) bool { return in(i) && r.caughtUp(&r.members[i], m.task) }):
	case hot:
		m.staged = m.holder
	case m.holder == noMember && r.onDisk(r.process[m.owner], m.task): // a restarted process opens what it has
	default:
		if m.staged = r.bestCopy(m); m.staged == noMember {
			m.cold = true
		}
	}
	if m.staged == noMember {
		r.moveLoad(m)
		r.restoring[m.owner] = r.restoring[m.owner] || m.cold
		return
	}
	m.class = r.classify(m)
}

// hot is whether the member has the active task up and running, or nearly so.
func (r *refiner) hot(m *refineMember, t topology.TaskID) bool {
	return !m.restoring(t) || r.caughtUp(m, t)
}

// moveLoad counts what a grant changes.
func (r *refiner) moveLoad(m *move) {
	to := r.process[m.owner]
	if m.holder != noMember {
		if r.process[m.holder] == to {
			return
		}
		r.load[r.process[m.holder]]--
	}
	if !slices.ContainsFunc(m.copies, func(i int) bool { return r.process[i] == to }) {
		r.load[to]++
	}
}

func (r *refiner) compareLoads(p, q int) int {
	return cmp.Compare(r.load[p]*len(r.processes[q]), r.load[q]*len(r.processes[p]))
}

// bestCopy is the fresh member with a caught-up copy that is least missed as a
// standby, then in the least loaded process.
func (r *refiner) bestCopy(m *move) int {
	best := noMember
	for _, i := range m.copies {
		c := &r.members[i]
		if c.stale || !r.caughtUp(c, m.task) {
			continue
		}
		if best == noMember {
			best = i
			continue
		}
		named, bestNamed := slices.Contains(m.standbys, i), slices.Contains(m.standbys, best)
		if named != bestNamed {
			if bestNamed {
				best = i
			}
			continue
		}
		if r.compareLoads(r.process[i], r.process[best]) < 0 {
			best = i
		}
	}
	return best
}

// classify says what there is of a staged task in its next owner's process. Who
// was not heard of yet gets nothing new.
func (r *refiner) classify(m *move) class {
	owner := &r.members[m.owner]
	found := plant
	for _, i := range m.copies {
		c := &r.members[i]
		if r.process[i] != r.process[m.owner] || i == m.staged {
			continue
		}
		switch {
		case c.held.warmup.has(m.task):
			return keep
		case i == m.owner:
			found, m.borrowed = borrow, i
		case found == plant:
			found, m.borrowed = sibling, i
		}
	}
	if owner.warms == warmsUnknown {
		switch found {
		case plant:
			return parked
		case sibling:
			return borrow
		}
	}
	return found
}

// spend hands out the warm-ups.
func (r *refiner) spend() {
	for range r.warmups {
		var best *move
		bestTier := 0
		for i := range r.moves {
			m := &r.moves[i]
			if m.warmed || m.class != keep && m.class != plant && m.class != sibling {
				continue
			}
			if tier := r.tier(m); best == nil || cmp.Or(cmp.Compare(tier, bestTier), r.compareCandidates(m, best)) < 0 {
				best, bestTier = m, tier
			}
		}
		if best == nil {
			return
		}
		best.warmed = true
		switch best.class {
		case plant:
			r.load[r.process[best.owner]]++
		case sibling:
			best.borrowed = noMember
		}
	}
}

// tier prefers warm-ups that are under way or can be, and those that exist. A
// client restores active tasks before it warms anything up.
func (r *refiner) tier(m *move) int {
	tier := 0
	if m.class != keep {
		tier = 1
	}
	if r.restoring[m.owner] && (m.class != keep || !r.members[m.owner].started(m.task)) {
		tier += 2
	}
	return tier
}

func (r *refiner) compareCandidates(a, b *move) int {
	if sa, sb := a.class == sibling, b.class == sibling; sa != sb {
		if sb {
			return -1
		}
		return 1
	}
	return cmp.Or(
		r.compareLoads(r.process[a.owner], r.process[b.owner]),
		r.compareLoads(r.process[b.staged], r.process[a.staged]),
		cmp.Compare(a.order, b.order))
}
