package client

import (
	"fmt"
	"strings"
)

// GroupState is the state of a streams group, by Kafka's name.
type GroupState string

// The states of a streams group.
const (
	// GroupEmpty has no members.
	GroupEmpty GroupState = "Empty"
	// GroupNotReady lacks a topology or topics, or they do not fit.
	GroupNotReady GroupState = "NotReady"
	// GroupAssigning waits for an assignment.
	GroupAssigning GroupState = "Assigning"
	// GroupReconciling has members that are not yet where the assignment wants them.
	GroupReconciling GroupState = "Reconciling"
	// GroupStable has members that all run what they are to run.
	GroupStable GroupState = "Stable"
	// GroupDead is gone, or about to be.
	GroupDead GroupState = "Dead"
	// GroupUnknown stands for what a newer broker may call a state.
	GroupUnknown GroupState = "Unknown"
)

var groupStates = []GroupState{GroupEmpty, GroupNotReady, GroupAssigning, GroupReconciling, GroupStable, GroupDead}

// groupState is the state that a broker means.
func groupState(name string) GroupState {
	name = strings.ReplaceAll(name, "_", "")
	for _, s := range groupStates {
		if strings.EqualFold(name, string(s)) {
			return s
		}
	}
	return GroupUnknown
}

// GroupStateError is a name that is not one of a state of streams groups.
type GroupStateError struct{ Name string }

func (e *GroupStateError) Error() string {
	names := make([]string, len(groupStates))
	for i, s := range groupStates {
		names[i] = string(s)
	}
	return fmt.Sprintf("client: %q is no state of a streams group: use %s", e.Name, strings.Join(names, ", "))
}

// ParseGroupStates reads names of states: comma-separated, in letters of any case,
// with or without an underscore. The error is a *[GroupStateError].
func ParseGroupStates(names string) ([]GroupState, error) {
	var states []GroupState
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		s := groupState(name)
		if s == GroupUnknown {
			return nil, &GroupStateError{name}
		}
		states = append(states, s)
	}
	return states, nil
}

// filterNames are the texts that find a state. A broker lower-cases the filter and
// compares it with "not_ready", but calls the state "NotReady".
func filterNames(states []GroupState) []string {
	var names []string
	for _, s := range states {
		names = append(names, string(s))
		if s == GroupNotReady {
			names = append(names, "NOT_READY")
		}
	}
	return names
}
