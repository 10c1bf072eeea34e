package coordinator

import (
	"fmt"
	"strings"
	"time"

	"github.com/streamsgroup/streamsgroup/topology"
)

// State is the state of a streams group.
type State int8

// The states of a group, in the order in which the first that applies is taken.
const (
	Empty State = iota
	NotReady
	Assigning
	Reconciling
	Stable
	Dead
)

// String is the name that responses carry, for example "NotReady".
func (s State) String() string {
	switch s {
	case Empty:
		return "Empty"
	case NotReady:
		return "NotReady"
	case Assigning:
		return "Assigning"
	case Reconciling:
		return "Reconciling"
	case Stable:
		return "Stable"
	case Dead:
		return "Dead"
	}
	return "Unknown"
}

// Role is how a member holds a task.
type Role int8

// The roles. Only the holder of the active task processes records; the others
// follow its changelogs.
const (
	Active Role = iota
	Standby
	Warmup
)

func (r Role) String() string {
	switch r {
	case Active:
		return "active"
	case Standby:
		return "standby"
	}
	return "warm-up"
}

// Event says that something changed and why. It is one of the types below. The
// order of events in [Effects] is the order in which things happened. Events
// are values: they hold no reference into the core.
type Event interface{ GroupID() string }

type (
	// GroupCreated is the first join under an id.
	GroupCreated struct{ Group string }
	// GroupDeleted is the removal of an empty group.
	GroupDeleted struct{ Group string }
	// StateChanged is a change of the group's state.
	StateChanged struct {
		Group    string
		From, To State
	}
	// EpochBumped is a new group epoch.
	EpochBumped struct {
		Group   string
		Epoch   int32
		Member  string // whose request or departure led to it; empty for a timer of the group
		Reasons []Reason
	}
	// TargetComputed is a new target assignment.
	TargetComputed struct {
		Group string
		Epoch int32
		// Assignor is empty if it was not asked because the topics are not
		// ready: then everybody gets nothing.
		Assignor string
		Members  int
		Tasks    int // active tasks handed out
		// Unassigned are tasks that nobody eligible can take.
		Unassigned []topology.TaskID
		// HeldBack says of some of these why: a member that is behind keeps a task
		// that works on the same topics. They are given out when it has left.
		HeldBack []Conflict
	}
	// AssignmentFailed is an assignor that could not do its work, or whose
	// result breaks the rules and is refused. The member that asked is answered
	// with UNKNOWN_SERVER_ERROR, and the next heartbeat tries again.
	AssignmentFailed struct {
		Group    string
		Epoch    int32 // group epoch that it was for
		Assignor string
		Reason   string
	}
	// RefinementRefused is a plan for warm-up tasks that would have lost an active
	// task or given it out twice: the target is worked off as it is. It tells of
	// a defect of the coordinator.
	RefinementRefused struct {
		Group string
		Epoch int32 // assignment epoch that it was for
	}
	// AssignmentDelayed says that a computation waits, at the latest for Wait.
	AssignmentDelayed struct {
		Group string
		Wait  time.Duration
		// Initial is whether it is the initial rebalance delay of a new group
		// rather than the assignment interval.
		Initial bool
	}
	// MemberJoined is a new member.
	MemberJoined struct {
		Group, Member, InstanceID, ProcessID, ClientID string
		TopologyEpoch                                  int32
	}
	// MemberReplaced is a static member that returned under a new member id.
	MemberReplaced struct{ Group, InstanceID, Old, New string }
	// MemberLeft is the end of a membership, or a temporary absence.
	MemberLeft struct {
		Group, Member, InstanceID string
		Cause                     LeaveCause
		// After is the time-out that struck, for the two causes that have one.
		After time.Duration
		// Held are the active tasks that became free, with those whose
		// revocation was pending. A temporary absence frees only the latter.
		Held []topology.TaskID
	}
	// MemberFenced is a heartbeat that was refused because of its epoch.
	MemberFenced struct {
		Group, Member             string
		RequestEpoch, MemberEpoch int32
		PreviousMemberEpoch       int32
	}
	// EpochReached is a member that moved to a new member epoch.
	EpochReached struct {
		Group, Member string
		Epoch         int32
	}
	// TasksGranted are tasks that a member may work on from now on.
	TasksGranted struct {
		Group, Member string
		Role          Role
		Epoch         int32 // the assignment epoch of the grant
		Tasks         []topology.TaskID
	}
	// RevocationAsked are tasks that a member must give up.
	RevocationAsked struct {
		Group, Member string
		Role          Role
		Tasks         []topology.TaskID
		Within        time.Duration // the member's rebalance time-out
	}
	// RevocationAcknowledged are tasks that a member has given up.
	RevocationAcknowledged struct {
		Group, Member string
		Role          Role
		Tasks         []topology.TaskID
	}
	// TasksWaiting are tasks that a member is to get once the holders have
	// given them up.
	TasksWaiting struct {
		Group, Member string
		Role          Role
		Tasks         []topology.TaskID
		// Holders are the processes that must let go of them first, ascending:
		// those that hold an active task, or the member's own process if
		// another of its members has the task in some role.
		Holders []string
		// Conflicts says which of the tasks wait for a member that is behind and
		// works on the same topics in another task.
		Conflicts []Conflict
	}
	// MemberUpgraded is a member that has come back with a newer topology. It runs
	// nothing at first.
	MemberUpgraded struct {
		Group, Member      string
		FromEpoch, ToEpoch int32 // topology epochs
		// Held are the active tasks that it had, under their former ids.
		Held []topology.TaskID
	}
	// TopologySet is the first topology of a group, or one that replaces it.
	TopologySet struct {
		Group         string
		Epoch         int32
		Replaced      bool
		OldEpoch      int32
		Subtopologies int
		// Orphaned are internal topics of the replaced topology that this one does
		// not use, ascending. They are left alone: members that are behind may
		// work on them, and unread records may be in them.
		Orphaned []string
	}
	// TopicsNotReady says that topics are missing or wrong.
	TopicsNotReady struct {
		Group  string
		Status int8
		Detail string
	}
	// TopicsReady says that all topics are as they should be.
	TopicsReady struct {
		Group string
		Tasks int
	}
	// TopicsRequested are internal topics that are to be created.
	TopicsRequested struct {
		Group  string
		Topics []string
	}
	// TopicSettingDiffers is a setting of an existing internal topic that is
	// not what the topology asks for. It is left as it is.
	TopicSettingDiffers struct {
		Group, Topic, Name string
		Want, Have         string
	}
	// ShutdownRequested is a member asking the whole application to stop.
	ShutdownRequested struct{ Group, Member string }
	// DescriptionRequested is a member that is asked for the description of its
	// topology (KIP-1331).
	DescriptionRequested struct {
		Group, Member string
		TopologyEpoch int32
	}
	// DescriptionStored is a description that the store has taken.
	DescriptionStored struct {
		Group         string
		TopologyEpoch int32
	}
	// DescriptionFailed is a call of the store that failed. TopologyEpoch is -1
	// if it was to forget the group; else Permanent is whether members will not
	// be asked for this epoch again.
	DescriptionFailed struct {
		Group         string
		TopologyEpoch int32
		Permanent     bool
		Reason        string
	}
	// ConfigClamped is a group config that is used with another value because
	// it lies outside the broker's bounds.
	ConfigClamped struct{ Group, Name, Value, Used string }
)

func (e GroupCreated) GroupID() string           { return e.Group }
func (e GroupDeleted) GroupID() string           { return e.Group }
func (e StateChanged) GroupID() string           { return e.Group }
func (e EpochBumped) GroupID() string            { return e.Group }
func (e TargetComputed) GroupID() string         { return e.Group }
func (e AssignmentFailed) GroupID() string       { return e.Group }
func (e RefinementRefused) GroupID() string      { return e.Group }
func (e AssignmentDelayed) GroupID() string      { return e.Group }
func (e MemberJoined) GroupID() string           { return e.Group }
func (e MemberReplaced) GroupID() string         { return e.Group }
func (e MemberLeft) GroupID() string             { return e.Group }
func (e MemberFenced) GroupID() string           { return e.Group }
func (e EpochReached) GroupID() string           { return e.Group }
func (e TasksGranted) GroupID() string           { return e.Group }
func (e RevocationAsked) GroupID() string        { return e.Group }
func (e RevocationAcknowledged) GroupID() string { return e.Group }
func (e TasksWaiting) GroupID() string           { return e.Group }
func (e MemberUpgraded) GroupID() string         { return e.Group }
func (e TopologySet) GroupID() string            { return e.Group }
func (e TopicsNotReady) GroupID() string         { return e.Group }
func (e TopicsReady) GroupID() string            { return e.Group }
func (e TopicsRequested) GroupID() string        { return e.Group }
func (e TopicSettingDiffers) GroupID() string    { return e.Group }
func (e ShutdownRequested) GroupID() string      { return e.Group }
func (e DescriptionRequested) GroupID() string   { return e.Group }
func (e DescriptionStored) GroupID() string      { return e.Group }
func (e DescriptionFailed) GroupID() string      { return e.Group }
func (e ConfigClamped) GroupID() string          { return e.Group }

// Conflict says why a task cannot be worked on yet: a member works on the same
// topics by an older topology, in which they belong to another task. Two versions
// must not read one partition, nor write one changelog.
type Conflict struct {
	Task topology.TaskID
	// Holder is the process of that member, TopologyEpoch what it runs, and As
	// its task.
	Holder        string
	TopologyEpoch int32
	As            topology.TaskID
	// Topics are what both work on. Empty if the older topology is not known.
	Topics []string
}

// String names the task, who is in its way, and why.
func (c Conflict) String() string {
	what := "works on unknown topics"
	if len(c.Topics) > 0 {
		what = "works on " + strings.Join(c.Topics, ", ")
	}
	return fmt.Sprintf("%s: %s %s as %s of topology epoch %d", c.Task, c.Holder, what, c.As, c.TopologyEpoch)
}

// LeaveCause is why a membership ended.
type LeaveCause int8

const (
	// Left is a member that said goodbye.
	Left LeaveCause = iota
	// LeftTemporarily is a static member that means to return.
	LeftTemporarily
	// SessionExpired is a member that was not heard of for the session time-out.
	SessionExpired
	// RebalanceExpired is a member that did not give up its tasks in time.
	RebalanceExpired
)

func (c LeaveCause) String() string {
	switch c {
	case Left:
		return "left"
	case LeftTemporarily:
		return "left for a moment"
	case SessionExpired:
		return "session expired"
	case RebalanceExpired:
		return "rebalance time-out"
	}
	return "unknown"
}

// Reason is one cause of a new group epoch.
type Reason int8

// The reasons for a new group epoch.
const (
	ReasonMemberJoined Reason = iota
	ReasonMemberLeft
	ReasonMemberChanged
	ReasonTopology
	ReasonTopicsChanged
	ReasonReadiness
	ReasonAssignmentConfig
	ReasonRefinement
)

func (r Reason) String() string {
	switch r {
	case ReasonMemberJoined:
		return "member joined"
	case ReasonMemberLeft:
		return "member left"
	case ReasonMemberChanged:
		return "member changed"
	case ReasonTopology:
		return "topology"
	case ReasonTopicsChanged:
		return "topics changed"
	case ReasonReadiness:
		return "readiness changed"
	case ReasonAssignmentConfig:
		return "assignment config changed"
	case ReasonRefinement:
		return "warm-up step"
	}
	return "unknown"
}
