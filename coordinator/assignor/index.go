package assignor

import (
	"math"
	"sort"

	"github.com/streamsgroup/streamsgroup/topology"
)

// nobody stands for "no member" wherever members are numbers.
const nobody = int32(-1)

// indexedSub is a subtopology with the number of its first task.
type indexedSub struct {
	id       string
	base     int32
	tasks    int32
	stateful bool
}

// index numbers what a group consists of, so that the algorithms work on
// arrays instead of maps: members ascending by id, processes ascending by id,
// tasks by subtopology id and then partition. The input's order is gone from
// here on.
type index struct {
	group *Group

	subs     []indexedSub
	byID     subTable
	tasks    int32
	stateful int32 // number of tasks of stateful subtopologies

	members []int32 // position in group.Members
	fresh   []bool  // by member
	stale   []int32 // members that are not fresh, ascending
	held    holdings

	process        []int32  // by member
	processIDs     []string // by process
	processStart   []int32  // by process, into processMembers; one more at the end
	processMembers []int32  // members by process, ascending within each
}

func newIndex(g *Group) (*index, error) {
	x := &index{group: g}
	if err := x.addSubtopologies(); err != nil {
		return nil, err
	}
	if err := x.addMembers(); err != nil {
		return nil, err
	}
	x.addProcesses()
	return x, nil
}

func (x *index) addSubtopologies() error {
	in := x.group.Subtopologies
	x.subs = make([]indexedSub, len(in))
	sorted := sortByText(len(in), func(i int32) string { return in[i].ID })
	total := int64(0)
	for i := range x.subs {
		from := &in[sorted.order[i]]
		switch {
		case sorted.same[i]:
			return &InputError{Subtopology: from.ID, Reason: "appears twice"}
		case from.Tasks < 0:
			return &InputError{Subtopology: from.ID, Reason: "has a negative number of tasks"}
		}
		x.subs[i] = indexedSub{id: from.ID, base: int32(total), tasks: from.Tasks, stateful: from.Stateful}
		if total += int64(from.Tasks); total > math.MaxInt32 {
			return &InputError{Reason: "the topology has more than 2147483647 tasks"}
		}
		if from.Stateful {
			x.stateful += from.Tasks
		}
	}
	x.tasks = int32(total)
	x.byID = newSubTable(x.subs)
	return nil
}

func (x *index) addMembers() error {
	in := x.group.Members
	sorted := sortByText(len(in), func(i int32) string { return in[i].ID })
	x.members = sorted.order
	x.fresh = make([]bool, len(in))
	for m, i := range x.members {
		if sorted.same[m] {
			return &InputError{Member: in[i].ID, Reason: "appears twice"}
		}
		x.fresh[m] = in[i].TopologyEpoch == x.group.TopologyEpoch
		if !x.fresh[m] {
			x.stale = append(x.stale, int32(m))
		}
		x.held.add(&in[i])
	}
	return nil
}

func (x *index) addProcesses() {
	if !x.groupByProcess() {
		x.sortByProcess()
	}
}

// sortByProcess finds the processes where most members have one of their own, or
// where members are in the order of their processes.
func (x *index) sortByProcess() {
	n := len(x.members)
	sorted := sortByText(n, func(m int32) string { return x.member(m).ProcessID })
	x.processMembers = sorted.order
	processes := 0
	for _, same := range sorted.same {
		if !same {
			processes++
		}
	}
	x.process, x.processIDs, x.processStart = make([]int32, n), make([]string, 0, processes), make([]int32, 0, processes+1)
	for i, m := range x.processMembers {
		if !sorted.same[i] {
			x.processIDs = append(x.processIDs, x.member(m).ProcessID)
			x.processStart = append(x.processStart, int32(i))
		}
		x.process[m] = int32(len(x.processIDs) - 1)
	}
	x.processStart = append(x.processStart, int32(n))
}

// groupByProcess finds the processes where they have many members each, so that
// only their ids have to be put in order. It returns false if they have not.
func (x *index) groupByProcess() bool {
	n := len(x.members)
	const few, many = 16, 8
	found := make(map[string]int32, few)
	process, ids, sizes := make([]int32, n), []string(nil), []int32(nil)
	last, at := "", nobody
	for m := range process {
		id := x.member(int32(m)).ProcessID
		if at == nobody || id != last {
			var known bool
			if at, known = found[id]; !known {
				if len(ids) > few+m/many {
					return false
				}
				at = int32(len(ids))
				found[id] = at
				ids, sizes = append(ids, id), append(sizes, 0)
			}
			last = id
		}
		process[m] = at
		sizes[at]++
	}
	sorted := sortByText(len(ids), func(i int32) string { return ids[i] })
	x.processIDs, x.processStart = make([]string, len(ids)), make([]int32, len(ids)+1)
	number, next := make([]int32, len(ids)), make([]int32, len(ids))
	start := int32(0)
	for p, i := range sorted.order {
		x.processIDs[p], number[i], next[p] = ids[i], int32(p), start
		start += sizes[i]
		x.processStart[p+1] = start
	}
	x.process, x.processMembers = process, make([]int32, n)
	for m, i := range process {
		p := number[i]
		process[m] = p
		x.processMembers[next[p]] = int32(m)
		next[p]++
	}
	return true
}

// holdings say how much there is of what members may hold.
type holdings struct {
	active, targets, copies int
	// twice is whether a member may name a task in two ways.
	twice bool
}

func (h *holdings) add(m *Member) {
	h.active += len(m.Prior.Active)
	h.targets += len(m.PriorTarget)
	h.copies += len(m.Prior.Standby) + len(m.Prior.Warmup) + len(m.Offsets)
	h.twice = h.twice || len(m.Prior.Warmup)+len(m.Offsets) > 0
}

func (x *index) member(m int32) *Member { return &x.group.Members[x.members[m]] }

// membersOf returns the members of a process, ascending.
func (x *index) membersOf(p int32) []int32 {
	return x.processMembers[x.processStart[p]:x.processStart[p+1]]
}

func (x *index) capacity(p int32) int64 { return int64(x.processStart[p+1] - x.processStart[p]) }

// freshProcesses is how many processes have a fresh member.
func (x *index) freshProcesses() int {
	n := 0
	for p := range x.processIDs {
		if x.hasFresh(int32(p)) {
			n++
		}
	}
	return n
}

func (x *index) hasFresh(p int32) bool {
	for _, m := range x.membersOf(p) {
		if x.fresh[m] {
			return true
		}
	}
	return false
}

// replicas is how many standbys per stateful task are wanted.
func (x *index) replicas() int { return max(0, x.group.StandbyReplicas) }

// placeable is how many standbys of one task there is room for at most: one per
// process that does not run the task.
func (x *index) placeable() int { return max(0, min(x.replicas(), len(x.processIDs)-1)) }

// subtopology returns the subtopology of that id, nil if there is none.
func (x *index) subtopology(id string) *indexedSub {
	return x.byID.find(x.subs, id)
}

// each calls f for every task of the set that the topology has, ascending.
func (x *index) each(s TaskSet, f func(task int32, stateful bool)) {
	var sub *indexedSub
	for i := range s {
		if id := s[i].Subtopology; i == 0 || id != s[i-1].Subtopology {
			sub = x.subtopology(id)
		}
		if p := s[i].Partition; sub != nil && p >= 0 && p < sub.tasks {
			f(sub.base+p, sub.stateful)
		}
	}
}

// appendNumbers appends the numbers of the tasks that the topology has.
func (x *index) appendNumbers(dst []int32, s TaskSet) []int32 {
	var sub *indexedSub
	for i := range s {
		if id := s[i].Subtopology; i == 0 || id != s[i-1].Subtopology {
			sub = x.byID.find(x.subs, id)
		}
		if p := s[i].Partition; sub != nil && p >= 0 && p < sub.tasks {
			dst = append(dst, sub.base+p)
		}
	}
	return dst
}

// find returns the number of a task, false if the topology does not have it.
func (x *index) find(t topology.TaskID) (int32, bool) {
	s := x.byID.find(x.subs, t.Subtopology)
	if s == nil || t.Partition < 0 || t.Partition >= s.tasks {
		return 0, false
	}
	return s.base + t.Partition, true
}

// subOf is the subtopology of a task.
func (x *index) subOf(task int32) *indexedSub {
	i := sort.Search(len(x.subs), func(i int) bool { return x.subs[i].base+x.subs[i].tasks > task })
	return &x.subs[i]
}

func (x *index) taskID(task int32) topology.TaskID {
	s := x.subOf(task)
	return topology.TaskID{Subtopology: s.id, Partition: task - s.base}
}

// partitionMajor appends the tasks of the chosen subtopologies in the order of
// visit.
func (x *index) partitionMajor(dst []int32, chosen func(*indexedSub) bool) []int32 {
	x.visit(chosen, func(t int32) { dst = append(dst, t) })
	return dst
}

// visit calls f with the tasks of the chosen subtopologies by partition and,
// within a partition, by subtopology id. A member that is trimmed by a quota then
// loses the last partitions of all subtopologies alike, and the same partition of
// several subtopologies stays together.
func (x *index) visit(chosen func(*indexedSub) bool, f func(task int32)) {
	open := x.chosen(chosen)
	for p := int32(0); len(open) > 0; p++ {
		left := open[:0]
		for _, s := range open {
			if s.tasks > p {
				f(s.first + p)
				left = append(left, s)
			}
		}
		open = left
	}
}

// tasksOf are the tasks of one subtopology.
type tasksOf struct{ first, tasks int32 }

func (x *index) chosen(chosen func(*indexedSub) bool) []tasksOf {
	out := make([]tasksOf, 0, len(x.subs))
	for i := range x.subs {
		if s := &x.subs[i]; chosen(s) {
			out = append(out, tasksOf{s.base, s.tasks})
		}
	}
	return out
}
