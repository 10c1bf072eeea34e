package assignor

import "github.com/streamsgroup/streamsgroup/topology"

// Assignor computes a target assignment. Implementations must be safe for
// concurrent use and must not keep or change anything reachable from the input.
type Assignor interface {
	// Name is what the group config streams.assignor.name selects.
	Name() string
	// Assign returns the active and standby tasks of every member. The
	// coordinator refuses a result that breaks the rules of [Verify].
	Assign(*Group) (Assignment, error)
}

// Warming is implemented by assignors whose stateful tasks are to move by way of
// warm-up tasks: the old owner goes on until the new one has caught up. Without
// it tasks move at once, as with Kafka.
type Warming interface {
	Assignor
	WarmsUp() bool
}

// Group is what an assignor sees.
type Group struct {
	// TopologyEpoch is the group's. A member whose own epoch differs is stale:
	// it may keep what it holds and gains nothing.
	TopologyEpoch int32
	// StandbyReplicas is the number of standbys wanted per stateful task.
	StandbyReplicas int
	// RackAwareTags are client tag keys, highest priority first.
	RackAwareTags []string
	Subtopologies []Subtopology
	Members       []Member
}

// Subtopology is the part of a configured subtopology that placement needs.
type Subtopology struct {
	ID string
	// Tasks is the number of tasks: partitions 0 to Tasks-1.
	Tasks int32
	// Stateful is whether the subtopology has a changelog topic.
	Stateful bool
}

// Member is one member of the group, with what it runs now.
type Member struct {
	ID            string
	ProcessID     string
	InstanceID    string // empty for a dynamic member
	RackID        string
	TopologyEpoch int32
	ClientTags    map[string]string
	// Prior holds the tasks granted to the member now, not those it has been
	// told to give up.
	Prior Tasks
	// PriorTarget holds the active tasks of the target assignment that is
	// about to be replaced. It breaks the tie for a task that is in nobody's
	// hands. Nil where that rule is switched off.
	PriorTarget TaskSet
	// Offsets and EndOffsets are the member's last reports: per task the sum
	// of its changelog positions and ends. math.MaxInt64 means unknown.
	Offsets, EndOffsets map[topology.TaskID]int64
}

// TaskSet is a set of tasks: ascending, without duplicates. Sets of the input may
// be shared with whoever made them; nobody may change them.
type TaskSet []topology.TaskID

// Tasks are the tasks of one member by role.
type Tasks struct {
	Active, Standby, Warmup TaskSet
}

// MemberAssignment is what an assignor gives to one member.
type MemberAssignment struct {
	Active, Standby TaskSet
}

// Assignment maps member ids to what they get. A member without an entry gets
// nothing.
type Assignment map[string]MemberAssignment
