package coordinator

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/assignor"
	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
	"github.com/streamsgroup/streamsgroup/topology"
)

// taskList is a set of tasks: ascending, without duplicates. Lists are immutable
// once they are part of the state.
type taskList []topology.TaskID

func (l taskList) has(t topology.TaskID) bool {
	_, ok := slices.BinarySearchFunc(l, t, topology.TaskID.Compare)
	return ok
}

func (l taskList) index(t topology.TaskID) (int, bool) {
	return slices.BinarySearchFunc(l, t, topology.TaskID.Compare)
}

// filter returns the tasks for which keep is true. It returns l itself if those
// are all.
func (l taskList) filter(keep func(topology.TaskID) bool) taskList {
	for i, t := range l {
		if keep(t) {
			continue
		}
		out := slices.Clone(l[:i])
		for _, t := range l[i+1:] {
			if keep(t) {
				out = append(out, t)
			}
		}
		return out
	}
	return l
}

// equal costs nothing for a list and itself, which is what a heartbeat that
// changes nothing compares.
func (l taskList) equal(o taskList) bool {
	return len(l) == len(o) && (len(l) == 0 || &l[0] == &o[0] || slices.Equal(l, o))
}

func (l taskList) intersect(o taskList) taskList { return l.filter(o.has) }

func (l taskList) minus(o taskList) taskList {
	if len(o) == 0 {
		return l
	}
	return l.filter(func(t topology.TaskID) bool { return !o.has(t) })
}

func (l taskList) overlaps(o taskList) bool { return slices.ContainsFunc(l, o.has) }

func (l taskList) subsetOf(o taskList) bool {
	return !slices.ContainsFunc(l, func(t topology.TaskID) bool { return !o.has(t) })
}

// plus returns the union.
func (l taskList) plus(o taskList) taskList {
	if len(o) == 0 {
		return l
	}
	out := slices.Concat(l, o)
	slices.SortFunc(out, topology.TaskID.Compare)
	return slices.Compact(out)
}

// roles are tasks by role.
type roles struct{ active, standby, warmup taskList }

func (r *roles) of(role Role) *taskList {
	switch role {
	case Active:
		return &r.active
	case Standby:
		return &r.standby
	}
	return &r.warmup
}

func (r roles) empty() bool { return len(r.active)+len(r.standby)+len(r.warmup) == 0 }

func (r roles) equal(o roles) bool {
	return r.active.equal(o.active) && r.standby.equal(o.standby) && r.warmup.equal(o.warmup)
}

// overlaps is whether some task is in both in the same role.
func (r roles) overlaps(o roles) bool {
	return r.active.overlaps(o.active) || r.standby.overlaps(o.standby) || r.warmup.overlaps(o.warmup)
}

func (r roles) subsetOf(o roles) bool {
	return r.active.subsetOf(o.active) && r.standby.subsetOf(o.standby) && r.warmup.subsetOf(o.warmup)
}

func (r roles) plus(o roles) roles {
	return roles{r.active.plus(o.active), r.standby.plus(o.standby), r.warmup.plus(o.warmup)}
}

// disjoint is whether no task is in two roles.
func (r roles) disjoint() bool {
	return !r.active.overlaps(r.standby) && !r.active.overlaps(r.warmup) && !r.standby.overlaps(r.warmup)
}

func listFromWire(in []kmsg.TaskIDs) taskList {
	var out taskList
	for _, s := range in {
		for _, p := range s.Partitions {
			out = append(out, topology.TaskID{Subtopology: s.SubtopologyID, Partition: p})
		}
	}
	slices.SortFunc(out, topology.TaskID.Compare)
	return slices.Compact(out)
}

// listToWire never returns nil: an empty list means "no tasks", null "unchanged".
func listToWire(l taskList) []kmsg.TaskIDs {
	out := []kmsg.TaskIDs{}
	for i := 0; i < len(l); {
		n := sameSubtopology(l[i:])
		w := kmsg.NewTaskIDs()
		w.SubtopologyID, w.Partitions = l[i].Subtopology, partitions(l[i:i+n])
		out = append(out, w)
		i += n
	}
	return out
}

// sameSubtopology counts the tasks at the start of l that share a subtopology.
func sameSubtopology(l taskList) int {
	n := 1
	for n < len(l) && l[n].Subtopology == l[0].Subtopology {
		n++
	}
	return n
}

func partitions(l taskList) []int32 {
	out := make([]int32, len(l))
	for i, t := range l {
		out[i] = t.Partition
	}
	return out
}

func listToRecord(l taskList) []record.TaskIDs {
	var out []record.TaskIDs
	for i := 0; i < len(l); {
		n := sameSubtopology(l[i:])
		out = append(out, record.TaskIDs{Subtopology: l[i].Subtopology, Partitions: partitions(l[i : i+n])})
		i += n
	}
	return out
}

func listFromRecord(in []record.TaskIDs) taskList {
	var out taskList
	for _, s := range in {
		for _, p := range s.Partitions {
			out = append(out, topology.TaskID{Subtopology: s.Subtopology, Partition: p})
		}
	}
	slices.SortFunc(out, topology.TaskID.Compare)
	return slices.Compact(out)
}

// listToSet shares the list: lists are immutable, and so are sets.
func listToSet(l taskList) assignor.TaskSet {
	if len(l) == 0 {
		return nil
	}
	return assignor.TaskSet(l)
}

// listFromSet copies: an assignor may be the user's.
func listFromSet(s assignor.TaskSet) taskList { return taskList(slices.Clone(s)) }

func (l taskList) sorted() taskList {
	slices.SortFunc(l, topology.TaskID.Compare)
	return l
}

// allTasks are the tasks of a configured topology.
func allTasks(c *topics.Configured) taskList {
	var out taskList
	for i := range c.Subtopologies {
		for p := range c.Subtopologies[i].Tasks {
			out = append(out, topology.TaskID{Subtopology: c.Subtopologies[i].ID, Partition: p})
		}
	}
	return out.sorted()
}
