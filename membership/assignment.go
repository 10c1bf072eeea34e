package membership

import (
	"slices"

	"github.com/streamsgroup/streamsgroup/topology"
)

// assignment is a set of tasks by role with the group's readiness, and a counter
// that tells two assignments with equal content apart (AS-2, AS-3).
type assignment struct {
	counter                 int
	active, standby, warmup []topology.TaskID
	ready                   bool
}

// none is no assignment at all, which differs from an empty one.
var none = assignment{counter: -1}

func (a assignment) sameContent(o assignment) bool {
	return a.ready == o.ready && slices.Equal(a.active, o.active) && slices.Equal(a.standby, o.standby) && slices.Equal(a.warmup, o.warmup)
}

func (a assignment) same(o assignment) bool { return a.counter == o.counter && a.sameContent(o) }

// withoutOverlaps is what the application runs: a task that is active is not run
// as a copy, and a copy is run once, as a standby.
func (a assignment) withoutOverlaps() assignment {
	a.standby = minus(a.standby, a.active)
	a.warmup = minus(minus(a.warmup, a.active), a.standby)
	return a
}

func (a assignment) hasNegative() bool {
	return slices.ContainsFunc([][]topology.TaskID{a.active, a.standby, a.warmup}, func(l []topology.TaskID) bool {
		return slices.ContainsFunc(l, func(t topology.TaskID) bool { return t.Partition < 0 })
	})
}

// overlaps are the tasks that have several roles.
func (a assignment) overlaps() RolesOverlap {
	copies := slices.Concat(a.standby, a.warmup)
	slices.SortFunc(copies, topology.TaskID.Compare)
	return RolesOverlap{
		Ignored: both(a.active, slices.Compact(copies)),
		Merged:  both(a.standby, a.warmup),
	}
}

// both are the elements of a that are in b.
func both(a, b []topology.TaskID) []topology.TaskID { return minus(a, minus(a, b)) }

func minus(a, b []topology.TaskID) []topology.TaskID {
	var out []topology.TaskID
	for _, t := range a {
		if _, ok := slices.BinarySearchFunc(b, t, topology.TaskID.Compare); !ok {
			out = append(out, t)
		}
	}
	return out
}

// unknownSubtopologies are those that the member's own topology lacks.
func (m *Member) unknownSubtopologies(a assignment) []string {
	var out []string
	for _, l := range [][]topology.TaskID{a.active, a.standby, a.warmup} {
		for _, t := range l {
			if !m.cfg.Topology.Has(t.Subtopology) && !slices.Contains(out, t.Subtopology) {
				out = append(out, t.Subtopology)
			}
		}
	}
	slices.Sort(out)
	return out
}
