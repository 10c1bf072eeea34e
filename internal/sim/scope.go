package sim

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
	"github.com/streamsgroup/streamsgroup/membership"
)

// Scope is a world that is small enough to be searched completely, and how often
// what may go wrong in it does. Time plays no part: whatever may happen at some
// time may happen at any.
type Scope struct {
	// Members is at most 3, Tasks of each subtopology at most 16.
	Members, Tasks int
	Standbys       int
	// Warmups is how many there may be at once; more than 0 has tasks with state move
	// by way of them. When a copy has caught up is left open.
	Warmups int
	// Family is the line of topologies; Upgrades members start again with the next.
	Family, Upgrades int
	// Lives is how often members start, all together; at least Members.
	Lives int
	// Breaks of connections, crashes and leaves of members, sessions of members
	// that end although they live, moves of the group.
	Breaks, Crashes, Leaves, Expiries, Moves int
	// Copies are requests that arrive twice, the second time at any later moment.
	// Members may then work on the same.
	Copies int
	// ReportConfirmed is the mutant of that name, SilentOffsets the one that does not
	// repeat offsets.
	ReportConfirmed, SilentOffsets bool
}

// Model is the scope as something to search.
func (s Scope) Model() Model[small] {
	m := &smallModel{
		scope: s, core: s.core(), image: s.image(), steps: map[memberStep]int32{}, heard: map[[2]int32]reply{}, moved: map[int32]int32{},
		timers: map[int32][]strike{},
	}
	m.members.add("", nil)
	m.requests.add("", nil)
	m.answers.add("", nil)
	m.groups.add("", &groupState{core: m.core.Clone(), table: newTable()})
	return m
}

func (s *Scope) image() *topics.Image {
	byName := map[string]topics.Topic{}
	for i, name := range worked {
		byName[name] = topics.Topic{Name: name, ID: [16]byte{1: byte(i + 1)}, Partitions: int32(s.Tasks)}
	}
	return topics.NewCompleteImage(1, byName)
}

func (s *Scope) core() *coordinator.Coordinator {
	broker := map[string]string{
		"group.streams.initial.rebalance.delay.ms": "0", "group.streams.assignment.interval.ms": "0",
		"group.streams.num.standby.replicas": strconv.Itoa(s.Standbys), "group.streams.num.warmup.replicas": strconv.Itoa(s.Warmups),
	}
	if s.Warmups > 0 {
		broker["group.streams.assignors"] = "highly_available,sticky"
	}
	c, err := coordinator.New(coordinator.Config{Broker: broker, LogEnds: ends{}})
	if err != nil {
		panic(err)
	}
	return c
}

const (
	smallMembers = 3
	smallCopies  = 2
)

// small is a state: numbers of states of its parts, and what may still happen.
type small struct {
	group   int32
	members [smallMembers]int32
	copies  [smallCopies]int32 // requests
	version int8
	budget  budget
}

type budget struct{ lives, breaks, crashes, leaves, expiries, moves, copies, upgrades int8 }

// smallModel knows the states of the parts by number. A part in a state is
// immutable, and what becomes of it is worked out once.
type smallModel struct {
	scope    Scope
	core     *coordinator.Coordinator // without a group
	image    *topics.Image
	members  numbers[*smallMember]
	groups   numbers[*groupState]
	requests numbers[*request]
	answers  numbers[*answer]

	steps  map[memberStep]int32
	heard  map[[2]int32]reply // by group and request
	moved  map[int32]int32
	timers map[int32][]strike
}

// numbers gives a number to whatever is told apart by an encoding.
type numbers[T any] struct {
	byKey map[string]int32
	all   []T
}

func (t *numbers[T]) add(key string, v T) int32 {
	if t.byKey == nil {
		t.byKey = map[string]int32{}
	}
	if n, ok := t.byKey[key]; ok {
		return n
	}
	n := int32(len(t.all))
	t.byKey[key] = n
	t.all = append(t.all, v)
	return n
}

// The steps.
const (
	stepStart uint8 = iota
	stepDue
	stepReturn
	stepHeard
	stepLost
	stepAnswered
	stepEnd
	stepCrash
	stepLeave
	stepStray
	stepStrayLost
	stepCopy
	stepCopied
	stepMove
	stepExpire
	stepCatchUp
)

// Initial is a world in which nobody has started.
func (m *smallModel) Initial() small {
	o := &m.scope
	return small{budget: budget{
		int8(max(o.Lives, o.Members)), int8(o.Breaks), int8(o.Crashes), int8(o.Leaves), int8(o.Expiries), int8(o.Moves), int8(o.Copies), int8(o.Upgrades),
	}}
}

// Hash mixes all fields.
func (m *smallModel) Hash(s small) uint64 {
	h := uint64(uint32(s.group))<<32 | uint64(uint8(s.version))
	mix := func(a uint64) {
		h = (h ^ a) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	mix(uint64(uint32(s.members[0]))<<32 | uint64(uint32(s.members[1])))
	mix(uint64(uint32(s.members[2]))<<32 | uint64(uint32(s.copies[0])))
	b := &s.budget
	mix(uint64(uint32(s.copies[1]))<<32 | uint64(uint8(b.lives))<<24 | uint64(uint8(b.breaks))<<16 | uint64(uint8(b.crashes))<<8 | uint64(uint8(b.leaves)))
	mix(uint64(uint8(b.expiries))<<24 | uint64(uint8(b.moves))<<16 | uint64(uint8(b.copies))<<8 | uint64(uint8(b.upgrades)))
	mix(h >> 32)
	return h
}

// Next yields all that may happen.
func (m *smallModel) Next(s small, yield func(Step, small)) {
	for i := range m.scope.Members {
		x := m.members.all[s.members[i]]
		if x == nil || x.core == nil {
			m.start(s, i, x, yield)
		} else {
			m.live(s, i, x, yield)
		}
	}
	if s.budget.moves > 0 && s.group != 0 {
		n := s
		n.budget.moves--
		n.group = m.move(s.group)
		yield(Step{Fault: true, What: stepMove}, n)
	}
	for i, r := range s.copies {
		if r != 0 {
			n := s
			n.copies[i] = 0
			n.group = m.hear(s.group, r).group
			yield(Step{Fault: true, What: stepCopied, With: r}, n)
		}
	}
	m.expire(s, yield)
}

func (m *smallModel) start(s small, i int, x *smallMember, yield func(Step, small)) {
	if x != nil && x.last != 0 {
		// What it sent before its crash arrives, or not.
		n := s
		n.members[i] = m.step(s.members[i], stepStrayLost, 0)
		yield(Step{What: stepStrayLost, Who: int8(i)}, n)
		n.group = m.hear(s.group, x.last).group
		yield(Step{What: stepStray, Who: int8(i)}, n)
		return
	}
	if s.budget.lives == 0 {
		return
	}
	n := s
	n.budget.lives--
	who := int32(i) << 8
	// In the end everybody has started once.
	n.members[i] = m.step(s.members[i], stepStart, who|int32(n.version))
	yield(Step{What: stepStart, Who: int8(i), Fault: x != nil, With: int32(n.version)}, n)
	if s.budget.upgrades > 0 && m.groups.all[s.group].table.topologyEpoch == int32(s.version) {
		n.budget.upgrades--
		n.version++
		n.members[i] = m.step(s.members[i], stepStart, who|int32(n.version))
		yield(Step{What: stepStart, Who: int8(i), Fault: true, With: int32(n.version)}, n)
	}
}

func (m *smallModel) live(s small, i int, x *smallMember, yield func(Step, small)) {
	who := int8(i)
	to := func(fault bool, what uint8, with int32) {
		n := s
		n.members[i] = m.step(s.members[i], what, with)
		yield(Step{What: what, Who: who, Fault: fault, With: with}, n)
	}
	if x.request == 0 && !x.core.LeaveDone() {
		n := s
		n.members[i] = m.step(s.members[i], stepDue, 0)
		yield(Step{What: stepDue, Who: who, Idle: m.idle(s.group, s.members[i], n.members[i])}, n)
	}
	if x.busy != 0 {
		to(false, stepReturn, 0)
	}
	if m.scope.Warmups > 0 {
		for _, t := range x.copies() {
			if !slices.Contains(x.caughtUp, t) {
				to(false, stepCatchUp, t.Partition)
			}
		}
	}
	if x.request != 0 && x.answer == 0 {
		r := m.hear(s.group, x.request)
		n := s
		n.group, n.members[i] = r.group, m.step(s.members[i], stepHeard, r.answer)
		yield(Step{What: stepHeard, Who: who, With: r.answer}, n)
		if slot := freeSlot(s.copies); s.budget.copies > 0 && slot >= 0 {
			n.budget.copies--
			n.copies[slot] = x.request
			yield(Step{What: stepCopy, Who: who, Fault: true}, n)
		}
	}
	if x.answer != 0 {
		to(false, stepAnswered, 0)
	}
	if x.request == 0 && x.busy == 0 && x.core.LeaveDone() {
		to(false, stepEnd, 0)
	}
	before := s
	if x.request != 0 && s.budget.breaks > 0 {
		s.budget.breaks--
		to(true, stepLost, 0)
		s = before
	}
	if s.budget.crashes > 0 {
		s.budget.crashes--
		to(true, stepCrash, 0)
		s = before
	}
	if st := x.core.State(); s.budget.leaves > 0 && st != membership.Unsubscribed && st != membership.Fatal {
		s.budget.leaves--
		to(true, stepLeave, 0)
	}
}

// idle is whether the heartbeat that a member sends, and its answer, change nothing.
func (m *smallModel) idle(group, from, due int32) bool {
	x := m.members.all[due]
	if x.request == 0 || x.busy != 0 {
		return false
	}
	r := m.hear(group, x.request)
	return r.group == group && m.step(m.step(due, stepHeard, r.answer), stepAnswered, 0) == from
}

func freeSlot(copies [smallCopies]int32) int {
	for i, c := range copies {
		if c == 0 {
			return i
		}
	}
	return -1
}

// expire has sessions end: of those who are gone, and of those who are not as
// often as may be.
func (m *smallModel) expire(s small, yield func(Step, small)) {
	for at, st := range m.strikes(s.group) {
		n := s
		n.group = st.group
		fault := false
		for i, k := range s.members {
			if x := m.members.all[k]; x != nil && x.core != nil && x.id == st.member {
				fault = true
				n.budget.expiries--
				n.members[i] = m.step(k, stepExpire, 0)
			}
		}
		if n.budget.expiries >= 0 {
			yield(Step{What: stepExpire, With: int32(at), Fault: fault}, n)
		}
	}
}

// Describe names a step.
func (m *smallModel) Describe(from small, step Step) string {
	who := fmt.Sprintf("member %d", step.Who)
	x := m.members.all[from.members[max(step.Who, 0)]]
	if x != nil && step.What != stepStart {
		who = x.id
	}
	switch step.What {
	case stepStart:
		return fmt.Sprintf("%s starts with version %d", who, step.With)
	case stepDue:
		return who + " sends a heartbeat"
	case stepCatchUp:
		return fmt.Sprintf("the copy of task %d of %s has caught up", step.With, who)
	case stepReturn:
		return fmt.Sprintf("%s: %v %v returns", who, x.callbacks[0].Kind, x.callbacks[0].Active)
	case stepHeard:
		return fmt.Sprintf("the coordinator hears %s: %v", who, m.requests.all[x.request])
	case stepLost:
		if x.answer != 0 {
			return "the answer to " + who + " is lost"
		}
		return "the heartbeat of " + who + " is lost"
	case stepAnswered:
		return fmt.Sprintf("%s is answered: %v", who, m.answers.all[x.answer])
	case stepEnd:
		return who + " has ended"
	case stepCrash:
		return who + " crashes"
	case stepLeave:
		return who + " is closed"
	case stepStray:
		return "what " + who + " sent before its crash arrives"
	case stepStrayLost:
		return "what " + who + " sent before its crash is lost"
	case stepCopy:
		return fmt.Sprintf("the coordinator hears %s: %v; a copy is still under way", who, m.requests.all[x.request])
	case stepCopied:
		return fmt.Sprintf("the copy arrives: %v", m.requests.all[step.With])
	case stepMove:
		return "the group moves"
	case stepExpire:
		return "the session of " + m.strikes(from.group)[step.With].member + " ends"
	}
	return "?"
}
