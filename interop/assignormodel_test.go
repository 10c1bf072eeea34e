package interop_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/coordinator/assignor"
	"github.com/streamsgroup/streamsgroup/topology"
)

// stickyModel is what the sticky assignor of Apache Kafka 4.4 does, with each
// choice that it leaves to the order of hash maps and heaps left open. It is
// written for clarity: everything is looked up by walking over it.
type stickyModel struct {
	tasks    []topology.TaskID // by subtopology, then partition
	stateful []bool            // by task
	visits   []int             // tasks by partition, then subtopology
	replicas int

	members  []string
	process  []int   // by member
	capacity []int   // by process
	owners   [][]int // by task: the members that claim to run it
	// copies are by task the members that may have its state: standbys before
	// mere reports, then by offset. Those of one list are equals.
	copies [][][]int

	// The state of a run.
	choices *choices
	wanted  *modelAssignment // if the run is to come to that, else nil
	given   modelAssignment
	owner   []int // by task: which claim was taken
	count   []int // by member
	load    []int // by process
	all     modelQuota
	active  modelQuota
}

// modelAssignment is by task the member that runs it (-1 for none), and those
// that stand by.
type modelAssignment struct {
	active  []int
	standby [][]int
}

type modelQuota struct{ tasks, members, limit int }

func newModelQuota(tasks, members int) modelQuota {
	q := modelQuota{tasks: tasks, members: members}
	q.update()
	return q
}

func (q *modelQuota) update() {
	q.limit = 0
	if q.members > 0 {
		q.limit = (q.tasks + q.members - 1) / q.members
	}
}

func (q *modelQuota) told(count int) {
	if q.members > 0 && count == q.limit {
		q.members--
		q.tasks -= count
		q.update()
	}
}

func newStickyModel(g *assignor.Group) *stickyModel {
	s := &stickyModel{replicas: g.StandbyReplicas}
	subs := slices.SortedFunc(slices.Values(g.Subtopologies), func(a, b assignor.Subtopology) int { return strings.Compare(a.ID, b.ID) })
	number := make(map[topology.TaskID]int)
	for _, sub := range subs {
		for p := range sub.Tasks {
			id := topology.TaskID{Subtopology: sub.ID, Partition: p}
			number[id] = len(s.tasks)
			s.visits = append(s.visits, len(s.tasks))
			s.tasks, s.stateful = append(s.tasks, id), append(s.stateful, sub.Stateful)
		}
	}
	slices.SortStableFunc(s.visits, func(a, b int) int { return cmp.Compare(s.tasks[a].Partition, s.tasks[b].Partition) })
	s.owners, s.copies = make([][]int, len(s.tasks)), make([][][]int, len(s.tasks))
	processes := make(map[string]int)
	claims := make([][]modelClaim, len(s.tasks))
	for m := range g.Members {
		in := &g.Members[m]
		p, ok := processes[in.ProcessID]
		if !ok {
			p = len(processes)
			processes[in.ProcessID] = p
			s.capacity = append(s.capacity, 0)
		}
		s.members, s.process = append(s.members, in.ID), append(s.process, p)
		s.capacity[p]++
		for _, id := range in.Prior.Active {
			if t, ok := number[id]; ok {
				s.owners[t] = append(s.owners[t], m)
			}
		}
		for _, id := range in.Prior.Standby {
			if t, ok := number[id]; ok {
				claims[t] = append(claims[t], modelClaim{member: m, offset: in.Offsets[id]})
			}
		}
		for id, offset := range in.Offsets {
			if t, ok := number[id]; ok && !slices.Contains(in.Prior.Standby, id) {
				claims[t] = append(claims[t], modelClaim{member: m, offset: offset, report: true})
			}
		}
	}
	for t := range claims {
		s.copies[t] = rankClaims(claims[t])
	}
	return s
}

type modelClaim struct {
	member int
	offset int64
	report bool
}

func rankClaims(claims []modelClaim) [][]int {
	compare := func(a, b modelClaim) int {
		if a.report != b.report {
			if a.report {
				return 1
			}
			return -1
		}
		return cmp.Compare(b.offset, a.offset)
	}
	slices.SortStableFunc(claims, compare)
	var out [][]int
	for i, c := range claims {
		if i == 0 || compare(claims[i-1], c) != 0 {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], c.member)
	}
	return out
}

// run assigns. It returns false if what is wanted cannot be reached with the
// choices made so far.
func (s *stickyModel) run() bool {
	n := len(s.members)
	s.given = modelAssignment{active: make([]int, len(s.tasks)), standby: make([][]int, len(s.tasks))}
	s.owner = make([]int, len(s.tasks))
	stateful := 0
	for t := range s.tasks {
		s.given.active[t], s.owner[t] = -1, -1
		if s.stateful[t] {
			stateful++
		}
	}
	s.count, s.load = make([]int, n), make([]int, len(s.capacity))
	s.active, s.all = newModelQuota(len(s.tasks), n), newModelQuota(len(s.tasks)+s.replicas*stateful, n)
	return s.assignActive() && s.assignStandbys()
}

func (s *stickyModel) assignActive() bool {
	for _, t := range s.visits {
		if len(s.owners[t]) == 0 {
			continue
		}
		m, ok := s.choices.one(s.owners[t], func(m int) bool { return s.count[m] >= s.active.limit || s.mayRun(t, m) })
		if !ok {
			return false
		}
		s.owner[t] = m
		if s.count[m] < s.active.limit {
			s.giveActive(t, m)
		}
	}
	for _, t := range s.visits {
		if s.given.active[t] >= 0 || len(s.copies[t]) == 0 {
			continue
		}
		m, ok := s.choices.one(s.bestCopies(t, false), func(m int) bool { return s.count[m] >= s.active.limit || s.mayRun(t, m) })
		if !ok {
			return false
		}
		if s.count[m] < s.active.limit {
			s.giveActive(t, m)
		}
	}
	for t := range s.tasks {
		if s.given.active[t] >= 0 {
			continue
		}
		m, ok := s.choices.one(s.leastLoaded(-1), func(m int) bool { return s.mayRun(t, m) })
		if !ok {
			return false
		}
		s.giveActive(t, m)
	}
	return true
}

func (s *stickyModel) assignStandbys() bool {
	var deferred []int
	for _, t := range slices.Backward(s.visits) {
		for s.stateful[t] && len(s.given.standby[t]) < s.replicas {
			m := s.owner[t]
			if m < 0 || s.holds(s.process[m], t) || s.count[m] >= s.all.limit {
				candidates := s.bestCopies(t, true)
				if len(candidates) == 0 {
					deferred = append(deferred, t)
					break
				}
				var ok bool
				m, ok = s.choices.one(candidates, func(m int) bool { return s.count[m] >= s.all.limit || s.mayStandBy(t, m) })
				if !ok {
					return false
				}
				if s.count[m] >= s.all.limit {
					deferred = append(deferred, t)
					break
				}
			} else if !s.mayStandBy(t, m) {
				return false
			}
			s.giveStandby(t, m)
		}
	}
	slices.Sort(deferred)
	for _, t := range slices.Backward(deferred) {
		for len(s.given.standby[t]) < s.replicas {
			candidates := s.leastLoaded(t)
			if len(candidates) == 0 {
				break
			}
			m, ok := s.choices.one(candidates, func(m int) bool { return s.mayStandBy(t, m) })
			if !ok {
				return false
			}
			s.giveStandby(t, m)
		}
	}
	return true
}

// mayRun is whether it is wanted that a member runs a task.
func (s *stickyModel) mayRun(t, m int) bool { return s.wanted == nil || s.wanted.active[t] == m }

func (s *stickyModel) mayStandBy(t, m int) bool {
	return s.wanted == nil || slices.Contains(s.wanted.standby[t], m)
}

func (s *stickyModel) giveActive(t, m int) {
	s.given.active[t] = m
	s.grow(m)
	s.active.told(s.count[m])
}

func (s *stickyModel) giveStandby(t, m int) {
	s.given.standby[t] = append(s.given.standby[t], m)
	s.grow(m)
}

func (s *stickyModel) grow(m int) {
	s.count[m]++
	s.load[s.process[m]]++
	s.all.told(s.count[m])
}

func (s *stickyModel) holds(p, t int) bool {
	has := func(m int) bool { return s.process[m] == p }
	return s.given.active[t] >= 0 && has(s.given.active[t]) || slices.ContainsFunc(s.given.standby[t], has)
}

// lighter is whether a member is less loaded than another in both respects.
func (s *stickyModel) lighter(a, b int) bool {
	return s.count[a] < s.count[b] && s.compareLoads(s.process[a], s.process[b]) < 0
}

func (s *stickyModel) compareLoads(p, q int) int {
	return cmp.Compare(s.load[p]*s.capacity[q], s.load[q]*s.capacity[p])
}

// bestCopies are the members that a walk over the copies may end with, for the
// orders in which equals may be visited: it begins with the first and changes to
// another that is lighter.
func (s *stickyModel) bestCopies(t int, unlessHeld bool) []int {
	var ends []int
	for _, equals := range s.copies[t] {
		equals = slices.DeleteFunc(slices.Clone(equals), func(m int) bool { return unlessHeld && s.holds(s.process[m], t) })
		var next []int
		// Whoever is lighter than the end so far, and than whom no equal is
		// lighter, can be visited first; nobody replaces it.
		lightest := slices.DeleteFunc(slices.Clone(equals), func(m int) bool {
			return slices.ContainsFunc(equals, func(o int) bool { return s.lighter(o, m) })
		})
		for _, end := range ends {
			kept := true
			for _, m := range lightest {
				if s.lighter(m, end) {
					next, kept = append(next, m), false
				}
			}
			if kept {
				next = append(next, end)
			}
		}
		if len(ends) == 0 {
			next = lightest
		}
		slices.Sort(next)
		ends = slices.Compact(next)
	}
	return ends
}

// leastLoaded are the members of the least loaded processes that have fewest
// tasks in their process. Processes that hold a task are left out if one is given.
func (s *stickyModel) leastLoaded(unlessHeld int) []int {
	var best, out []int
	for p := range s.capacity {
		switch {
		case unlessHeld >= 0 && s.holds(p, unlessHeld):
		case len(best) == 0 || s.compareLoads(p, best[0]) < 0:
			best = append(best[:0], p)
		case s.compareLoads(p, best[0]) == 0:
			best = append(best, p)
		}
	}
	for _, p := range best {
		least := -1
		for m := range s.members {
			if s.process[m] == p && (least < 0 || s.count[m] < least) {
				least = s.count[m]
			}
		}
		for m := range s.members {
			if s.process[m] == p && s.count[m] == least {
				out = append(out, m)
			}
		}
	}
	return out
}

// choices makes the choices of a run: at random, or as they were made before and
// from there on in order, so that all runs can be tried one after the other.
type choices struct {
	rng  *rand.Rand
	made []choice
	next int
	tied bool // there was something to choose
}

type choice struct{ taken, of int }

func (c *choices) one(options []int, possible func(int) bool) (int, bool) {
	c.tied = c.tied || len(options) > 1
	var open []int
	for _, o := range options {
		if possible(o) {
			open = append(open, o)
		}
	}
	switch {
	case len(open) == 0:
		return 0, false
	case len(open) == 1:
		return open[0], true
	case c.rng != nil:
		return open[c.rng.IntN(len(open))], true
	}
	if c.next == len(c.made) {
		c.made = append(c.made, choice{of: len(open)})
	}
	taken := c.made[c.next].taken
	c.next++
	return open[taken], true
}

// again prepares the next run, false if all have been tried.
func (c *choices) again() bool {
	c.next = 0
	for len(c.made) > 0 {
		last := &c.made[len(c.made)-1]
		if last.taken++; last.taken < last.of {
			return true
		}
		c.made = c.made[:len(c.made)-1]
	}
	return false
}

// verdict is what the model says of an assignment.
type verdict int

const (
	impossible verdict = iota
	possible
	undecided // too many ways to look at
)

// judge says whether the rules allow an assignment: whether at every tie one of
// the equals was taken.
func (s *stickyModel) judge(a *modelAssignment) verdict {
	const runs = 2000
	s.wanted, s.choices = a, &choices{}
	defer func() { s.wanted = nil }()
	for range runs {
		if s.run() && s.given.equal(a) {
			return possible
		}
		if !s.choices.again() {
			return impossible
		}
	}
	return undecided
}

// sample is one of the possible assignments. It also says whether it is the only
// one because there was no tie.
func (s *stickyModel) sample(rng *rand.Rand) (modelAssignment, bool) {
	s.choices = &choices{rng: rng}
	s.run()
	return s.given, !s.choices.tied
}

func (a *modelAssignment) equal(b *modelAssignment) bool {
	return slices.Equal(a.active, b.active) && slices.EqualFunc(a.standby, b.standby, func(x, y []int) bool {
		return slices.Equal(slices.Sorted(slices.Values(x)), slices.Sorted(slices.Values(y)))
	})
}

// assignment puts what an assignor said in the model's terms.
func (s *stickyModel) assignment(a assignor.Assignment) *modelAssignment {
	number := make(map[topology.TaskID]int)
	out := &modelAssignment{active: make([]int, len(s.tasks)), standby: make([][]int, len(s.tasks))}
	for t, id := range s.tasks {
		number[id] = t
		out.active[t] = -1
	}
	for m, id := range s.members {
		for _, t := range a[id].Active {
			out.active[number[t]] = m
		}
		for _, t := range a[id].Standby {
			out.standby[number[t]] = append(out.standby[number[t]], m)
		}
	}
	return out
}

// most is the largest number of active tasks of a member, of all and of those
// with state.
func (s *stickyModel) most(a *modelAssignment) (active, stateful int) {
	all, sf := make([]int, len(s.members)), make([]int, len(s.members))
	for t, m := range a.active {
		if m >= 0 {
			all[m]++
			if s.stateful[t] {
				sf[m]++
			}
		}
	}
	return slices.Max(all), slices.Max(sf)
}

// The judgement can say no: what one member of a possible answer gets is swapped
// with what another one gets.
func TestStickyModelRefuses(t *testing.T) {
	t.Parallel()
	set := func(partitions ...int32) (out assignor.TaskSet) {
		for _, p := range partitions {
			out = append(out, topology.TaskID{Subtopology: "s", Partition: p})
		}
		return out
	}
	member := func(id string, active, standby assignor.TaskSet) assignor.Member {
		return assignor.Member{ID: id, ProcessID: id, Prior: assignor.Tasks{Active: active, Standby: standby}}
	}
	model := newStickyModel(&assignor.Group{
		StandbyReplicas: 1, Subtopologies: []assignor.Subtopology{{ID: "s", Tasks: 4, Stateful: true}},
		Members: []assignor.Member{member("m1", set(0, 1), set(2, 3)), member("m2", set(2, 3), set(0, 1)), member("m3", nil, nil)},
	})
	judge := func(m1, m2, m3 assignor.MemberAssignment) verdict {
		return model.judge(model.assignment(assignor.Assignment{"m1": m1, "m2": m2, "m3": m3}))
	}
	m1, m2, m3 := assignor.MemberAssignment{Active: set(0, 1), Standby: set(2)}, assignor.MemberAssignment{Active: set(2), Standby: set(1, 3)}, assignor.MemberAssignment{Active: set(3), Standby: set(0)}
	require.Equal(t, possible, judge(m1, m2, m3))
	_, certain := model.sample(rand.New(rand.NewPCG(1, 2)))
	require.True(t, certain)
	require.Equal(t, impossible, judge(m2, m1, m3))
	require.Equal(t, impossible, judge(m1, m3, m2))
	swapped := m3
	swapped.Standby, m1.Standby = m1.Standby, m3.Standby
	require.Equal(t, impossible, judge(m1, m2, swapped))
}
