package assignor

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strings"

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
	subByID  map[string]int32
	tasks    int32
	stateful int32 // number of tasks of stateful subtopologies

	members []int32 // position in group.Members
	fresh   []bool  // by member
	stale   []int32 // members that are not fresh, ascending

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
	x.subs = make([]indexedSub, len(x.group.Subtopologies))
	for i, s := range x.group.Subtopologies {
		x.subs[i] = indexedSub{id: s.ID, tasks: s.Tasks, stateful: s.Stateful}
	}
	slices.SortFunc(x.subs, func(a, b indexedSub) int { return strings.Compare(a.id, b.id) })
	x.subByID = make(map[string]int32, len(x.subs))
	total := int64(0)
	for i := range x.subs {
		s := &x.subs[i]
		switch {
		case i > 0 && s.id == x.subs[i-1].id:
			return &InputError{Subtopology: s.id, Reason: "appears twice"}
		case s.tasks < 0:
			return &InputError{Subtopology: s.id, Reason: "has a negative number of tasks"}
		}
		s.base = int32(total)
		if total += int64(s.tasks); total > math.MaxInt32 {
			return &InputError{Reason: "the topology has more than 2147483647 tasks"}
		}
		if s.stateful {
			x.stateful += s.tasks
		}
		x.subByID[s.id] = int32(i)
	}
	x.tasks = int32(total)
	return nil
}

func (x *index) addMembers() error {
	in := x.group.Members
	x.members = make([]int32, len(in))
	for i := range in {
		x.members[i] = int32(i)
	}
	slices.SortFunc(x.members, func(a, b int32) int { return strings.Compare(in[a].ID, in[b].ID) })
	x.fresh = make([]bool, len(in))
	for m := range x.members {
		if m > 0 && x.member(int32(m)).ID == x.member(int32(m-1)).ID {
			return &InputError{Member: x.member(int32(m)).ID, Reason: "appears twice"}
		}
		x.fresh[m] = x.member(int32(m)).TopologyEpoch == x.group.TopologyEpoch
		if !x.fresh[m] {
			x.stale = append(x.stale, int32(m))
		}
	}
	return nil
}

func (x *index) addProcesses() {
	n := len(x.members)
	x.processMembers = make([]int32, n)
	for m := range x.processMembers {
		x.processMembers[m] = int32(m)
	}
	slices.SortFunc(x.processMembers, func(a, b int32) int {
		if c := strings.Compare(x.member(a).ProcessID, x.member(b).ProcessID); c != 0 {
			return c
		}
		return cmp.Compare(a, b)
	})
	x.process = make([]int32, n)
	for i, m := range x.processMembers {
		id := x.member(m).ProcessID
		if i == 0 || id != x.processIDs[len(x.processIDs)-1] {
			x.processIDs = append(x.processIDs, id)
			x.processStart = append(x.processStart, int32(i))
		}
		x.process[m] = int32(len(x.processIDs) - 1)
	}
	x.processStart = append(x.processStart, int32(n))
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
	if i, ok := x.subByID[id]; ok {
		return &x.subs[i]
	}
	return nil
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

// find returns the number of a task, false if the topology does not have it.
func (x *index) find(t topology.TaskID) (int32, bool) {
	i, ok := x.subByID[t.Subtopology]
	if !ok || t.Partition < 0 || t.Partition >= x.subs[i].tasks {
		return 0, false
	}
	return x.subs[i].base + t.Partition, true
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

// partitionMajor appends the tasks of the chosen subtopologies by partition
// and, within a partition, by subtopology id. A member that is trimmed by a
// quota then loses the last partitions of all subtopologies alike, and the same
// partition of several subtopologies stays together.
func (x *index) partitionMajor(dst []int32, chosen func(*indexedSub) bool) []int32 {
	open := make([]*indexedSub, 0, len(x.subs))
	for i := range x.subs {
		if chosen(&x.subs[i]) {
			open = append(open, &x.subs[i])
		}
	}
	for p := int32(0); len(open) > 0; p++ {
		open = slices.DeleteFunc(open, func(s *indexedSub) bool { return s.tasks <= p })
		for _, s := range open {
			dst = append(dst, s.base+p)
		}
	}
	return dst
}
