package sim

import (
	"fmt"
	"slices"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/topology"
)

// table is what the log says about the group. It is built from records alone, so
// that what is checked does not depend on how the coordinator keeps its state.
type table struct {
	exists                 bool
	epoch, assignmentEpoch int32
	configs                []record.KeyValue
	topologyEpoch          int32 // -1 without a topology
	members                map[string]*row
	// lives counts how often the group was deleted: its epochs begin again.
	lives int
}

// row is one member. Sets of tasks are never changed in place.
type row struct {
	id              string
	meta            *record.MemberMetadata
	epoch, previous int32
	state           int8
	held            [3][]topology.TaskID // by role: active, standby, warm-up
	pending         [3][]topology.TaskID
	target          [3][]topology.TaskID
	// replaced means that it took the place of a static member, with what that had.
	replaced bool
}

func newTable() *table { return &table{topologyEpoch: -1, members: map[string]*row{}} }

func (t *table) row(id string) *row {
	r := t.members[id]
	if r == nil {
		r = &row{id: id, epoch: -1}
		t.members[id] = r
	}
	return r
}

// apply takes over a record. The error says what must not have happened.
func (t *table) apply(rec record.Record) error {
	key := rec.RecordKey()
	if _, gone := rec.(record.Tombstone); gone {
		switch key.Type {
		case record.TypeGroupMetadata:
			lives := t.lives + 1
			*t = *newTable()
			t.lives = lives
		case record.TypeMemberMetadata:
			delete(t.members, key.Member)
		case record.TypeTargetAssignment:
			if r := t.members[key.Member]; r != nil {
				r.target = [3][]topology.TaskID{}
			}
		case record.TypeCurrentAssignment:
			if r := t.members[key.Member]; r != nil {
				r.held, r.pending, r.epoch = [3][]topology.TaskID{}, [3][]topology.TaskID{}, -1
			}
		case record.TypeTopology:
			t.topologyEpoch = -1
		case record.TypeTargetAssignmentMetadata:
			t.assignmentEpoch = 0
		}
		return nil
	}
	switch rec := rec.(type) {
	case *record.GroupMetadata:
		if rec.Epoch < t.epoch {
			return fmt.Errorf("the group epoch falls from %d to %d", t.epoch, rec.Epoch)
		}
		t.exists, t.epoch, t.configs = true, rec.Epoch, rec.LastAssignmentConfigs
	case *record.MemberMetadata:
		t.row(key.Member).meta = rec
	case *record.TargetAssignmentMetadata:
		if rec.AssignmentEpoch < t.assignmentEpoch {
			return fmt.Errorf("the assignment epoch falls from %d to %d", t.assignmentEpoch, rec.AssignmentEpoch)
		}
		t.assignmentEpoch = rec.AssignmentEpoch
	case *record.TargetAssignment:
		t.row(key.Member).target = [3][]topology.TaskID{tasksOf(rec.Active), tasksOf(rec.Standby), tasksOf(rec.Warmup)}
	case *record.CurrentAssignment:
		r := t.row(key.Member)
		if rec.MemberEpoch >= 0 && rec.MemberEpoch < r.epoch {
			return fmt.Errorf("the epoch of %s falls from %d to %d", key.Member, r.epoch, rec.MemberEpoch)
		}
		r.epoch, r.previous, r.state = rec.MemberEpoch, rec.PreviousMemberEpoch, rec.State
		r.held = [3][]topology.TaskID{activeTasksOf(rec.Active), tasksOf(rec.Standby), tasksOf(rec.Warmup)}
		r.pending = [3][]topology.TaskID{activeTasksOf(rec.ActivePendingRevocation), tasksOf(rec.StandbyPendingRevocation), tasksOf(rec.WarmupPendingRevocation)}
	case *record.Topology:
		t.topologyEpoch = rec.Epoch
	}
	return nil
}

func tasksOf(in []record.TaskIDs) (out []topology.TaskID) {
	for _, s := range in {
		for _, p := range s.Partitions {
			out = append(out, topology.TaskID{Subtopology: s.Subtopology, Partition: p})
		}
	}
	return out
}

func activeTasksOf(in []record.ActiveTaskIDs) (out []topology.TaskID) {
	for _, s := range in {
		for _, p := range s.Partitions {
			out = append(out, topology.TaskID{Subtopology: s.Subtopology, Partition: p})
		}
	}
	return out
}

// has is whether the member holds an active task, or has not given it up yet.
func (r *row) has(t topology.TaskID) bool {
	return r != nil && (slices.Contains(r.held[0], t) || slices.Contains(r.pending[0], t))
}

func contains(set, of []topology.TaskID) bool {
	for _, t := range of {
		if !slices.Contains(set, t) {
			return false
		}
	}
	return true
}

func without(set, of []topology.TaskID) (out []topology.TaskID) {
	for _, t := range set {
		if !slices.Contains(of, t) {
			out = append(out, t)
		}
	}
	return out
}
