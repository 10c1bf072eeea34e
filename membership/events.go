package membership

import (
	"time"

	"github.com/streamsgroup/streamsgroup/topology"
)

// String is the name of a state, for example "RECONCILING".
func (s State) String() string {
	switch s {
	case Unsubscribed:
		return "UNSUBSCRIBED"
	case Joining:
		return "JOINING"
	case Reconciling:
		return "RECONCILING"
	case Acknowledging:
		return "ACKNOWLEDGING"
	case StateStable:
		return "STABLE"
	case Fenced:
		return "FENCED"
	case PrepareLeaving:
		return "PREPARE_LEAVING"
	case Leaving:
		return "LEAVING"
	case Stale:
		return "STALE"
	case Fatal:
		return "FATAL"
	}
	return "UNKNOWN"
}

// String is the name of a callback, for example "tasks revoked".
func (k CallbackKind) String() string {
	switch k {
	case TasksRevoked:
		return "tasks revoked"
	case TasksAssigned:
		return "tasks assigned"
	case TasksLost:
		return "tasks lost"
	}
	return "unknown"
}

// Event says that something changed on the member's side and why. It is one of
// the types below.
type Event interface{ memberEvent() }

type (
	// StateChanged is a transition.
	StateChanged struct {
		From, To State
		Epoch    int32
	}
	// EpochChanged is a new member epoch; 0 means none.
	EpochChanged struct{ From, To int32 }
	// TargetReceived is an assignment that differs from the one before.
	TargetReceived struct {
		Active, Standby, Warmup []topology.TaskID
		Ready                   bool
		Revoke                  []topology.TaskID // active tasks to be given up
	}
	// CallbackFinished is a callback that has returned.
	CallbackFinished struct {
		Kind  CallbackKind
		Tasks []topology.TaskID // active tasks concerned
		Took  time.Duration
		Err   error
	}
	// StatusChanged is a status list that differs from the one before.
	StatusChanged struct{ Statuses []Status }
	// HeartbeatRejected is an error code in a response.
	HeartbeatRejected struct {
		Code    int16
		Message string
		Epoch   int32 // the epoch that was sent
		Retry   time.Duration
	}
	// HeartbeatLost is a heartbeat without an answer.
	HeartbeatLost struct {
		Kind  FailureKind
		Err   error
		Retry time.Duration
	}
	// CoordinatorLost is a coordinator that has to be looked up again.
	CoordinatorLost struct{ Reason string }
	// CoordinatorKnown is a coordinator that was found.
	CoordinatorKnown struct{ Version int16 }
	// LookUpFailed is a look-up of the coordinator that brought nothing.
	LookUpFailed struct {
		Err   error
		Retry time.Duration
	}
	// Unreachable says, once a minute at most, that the member has had no good answer
	// for so long. It goes on trying.
	Unreachable struct {
		For time.Duration
		Err error // the latest failure
	}
	// FeaturesLeftOut is what the member does not tell a coordinator of an old
	// version. Without features: it tells everything again.
	FeaturesLeftOut struct {
		Version  int16
		Features []string
	}
	// RolesOverlap is an assignment with tasks in several roles: copies of active
	// tasks are ignored, and tasks that are standby and warm-up are run once.
	RolesOverlap struct{ Ignored, Merged []topology.TaskID }
	// SourcesResolved is a change of the topics that source patterns stand for.
	SourcesResolved struct{ Topics map[string][]string }
	// DescriptionSent is a description of the topology that was sent, with the
	// error if it was not taken. Retry is 0 if it is not sent again unless the
	// coordinator asks.
	DescriptionSent struct {
		Err   error
		Retry time.Duration
	}
	// TopologyCompared is a member that brings a newer topology than the group has. It
	// comes before the join. Unread are the records that are left in repartition topics
	// which the newer topology does not read, by topic. What Difference finds did not
	// keep the member from joining if Refused is empty. Difference is nil, and Err says
	// why, where there was nothing to compare with.
	TopologyCompared struct {
		Difference *topology.Difference
		Unread     map[string]int64
		Refused    []topology.Finding
		Err        error
	}
	// PollTimerExpired is an application that did not poll in time.
	PollTimerExpired struct{ Limit time.Duration }
	// ShutdownRequested is a member that was asked to have the whole application shut
	// down.
	ShutdownRequested struct{}
	// LeftSilently is a member that has left and could not make sure that the
	// coordinator knows: it finds out when the session ends.
	LeftSilently struct{ Attempts int }
	// PolledLate is an application that comes round after the poll timer has expired.
	PolledLate struct{ By, Limit time.Duration }
	// GroupSettings are the intervals that the coordinator asked for.
	GroupSettings struct {
		HeartbeatInterval, TaskOffsetInterval time.Duration
		AcceptableRecoveryLag                 int64
	}
)

func (StateChanged) memberEvent()      {}
func (EpochChanged) memberEvent()      {}
func (TargetReceived) memberEvent()    {}
func (CallbackFinished) memberEvent()  {}
func (StatusChanged) memberEvent()     {}
func (HeartbeatRejected) memberEvent() {}
func (HeartbeatLost) memberEvent()     {}
func (CoordinatorLost) memberEvent()   {}
func (CoordinatorKnown) memberEvent()  {}
func (LookUpFailed) memberEvent()      {}
func (Unreachable) memberEvent()       {}
func (FeaturesLeftOut) memberEvent()   {}
func (RolesOverlap) memberEvent()      {}
func (SourcesResolved) memberEvent()   {}
func (DescriptionSent) memberEvent()   {}
func (TopologyCompared) memberEvent()  {}
func (PollTimerExpired) memberEvent()  {}
func (ShutdownRequested) memberEvent() {}
func (LeftSilently) memberEvent()      {}
func (PolledLate) memberEvent()        {}
func (GroupSettings) memberEvent()     {}
