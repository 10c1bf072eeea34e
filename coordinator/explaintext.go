package coordinator

import (
	"fmt"
	"strings"
	"time"
)

var causeNames = [...]string{
	TaskRuns: "TaskRuns", TaskWarmsUp: "TaskWarmsUp", NoSuchTask: "NoSuchTask", NoMembers: "NoMembers", TopicsUnseen: "TopicsUnseen",
	TopicsNotRight: "TopicsNotRight", InitialDelay: "InitialDelay", AssignmentInterval: "AssignmentInterval", TargetOutdated: "TargetOutdated",
	VersionsCollide: "VersionsCollide", NobodyUpToDate: "NobodyUpToDate", TaskUnassigned: "TaskUnassigned", HolderUnasked: "HolderUnasked",
	HolderRevokes: "HolderRevokes", HolderAbsent: "HolderAbsent", SiblingHolds: "SiblingHolds", OwnerRevokes: "OwnerRevokes", OwnerUntold: "OwnerUntold",
}

// String is the name of the constant.
func (c Cause) String() string {
	if c > 0 && int(c) < len(causeNames) {
		return causeNames[c]
	}
	return "Unknown"
}

// String is one sentence or two for people, with member ids as they are.
func (e Explanation) String() string {
	if e.Cause == 0 {
		return "there is no such group"
	}
	var s strings.Builder
	fmt.Fprintf(&s, "%s %s", e.Task, e.sentence())
	for _, h := range e.Holders {
		if h.Role != Active {
			fmt.Fprintf(&s, "; %s has a copy (%s)", h.Member, h.Role)
		}
	}
	return s.String()
}

// runner is the member that has the active task, empty if there is none.
func (e Explanation) runner() string {
	for _, h := range e.Holders {
		if h.Role == Active {
			return h.Member
		}
	}
	return ""
}

func (e Explanation) sentence() string {
	next := "then nobody has it"
	if e.Owner != "" {
		next = "then it goes to " + e.Owner
	}
	switch e.Cause {
	case TaskRuns:
		return "runs at " + e.runner() + e.under()
	case TaskWarmsUp:
		lag := "it is not known how far it is"
		if e.Lag >= 0 {
			lag = fmt.Sprintf("its copy lacks %d records, and may lack %d", e.Lag, e.Acceptable)
		}
		return fmt.Sprintf("runs at %s and moves to %s when that has caught up: %s", e.runner(), e.Owner, lag)
	case NoSuchTask:
		return fmt.Sprintf("does not exist: the topology has %s%s", e.Detail, e.stillHeld())
	case NoMembers:
		return "does not run: the group has no members"
	case TopicsUnseen:
		return "waits for a heartbeat: the coordinator has not looked at the topics yet"
	case TopicsNotRight:
		return fmt.Sprintf("does not run, because of the topics: %s%s", e.Detail, e.stillHeld())
	case InitialDelay:
		return "waits for more members to join" + e.within("it is assigned within %s")
	case AssignmentInterval:
		return "waits for the next assignment" + e.within("it is computed with the first heartbeat in %s")
	case TargetOutdated:
		return "waits for a heartbeat of any member, with which the assignment is computed"
	case VersionsCollide:
		conflicts := make([]string, len(e.Conflicts))
		for i, c := range e.Conflicts {
			conflicts[i] = c.String()
		}
		return "must not run beside another version: " + strings.Join(conflicts, "; ") + ". It is given out when that has been replaced"
	case NobodyUpToDate:
		return "waits for a member with the group's topology: those with an older one gain nothing"
	case TaskUnassigned:
		return "is unassigned: the assignor gave it to nobody"
	case HolderUnasked:
		return fmt.Sprintf("runs at %s%s, which hears with its next heartbeat that it is to give it up; %s", e.runner(), e.under(), next)
	case HolderRevokes:
		return fmt.Sprintf("is being given up by %s%s; %s", e.runner(), e.within("which is removed in %s if it does not"), next)
	case HolderAbsent:
		return fmt.Sprintf("is kept for %s, a static member that is absent%s", e.runner(), e.within("for another %s"))
	case SiblingHolds:
		return fmt.Sprintf("waits for %s, of the same process as %s, to give up its copy", strings.Join(e.WaitsFor, ", "), e.Owner)
	case OwnerRevokes:
		return fmt.Sprintf("waits until %s has given up other tasks%s", strings.Join(e.WaitsFor, ", "), e.within("it is removed in %s if it does not"))
	case OwnerUntold:
		return fmt.Sprintf("is free, and goes to %s with its next heartbeat%s", strings.Join(e.WaitsFor, ", "), e.within("it is removed if none comes for %s"))
	}
	return "is in an unknown situation"
}

// under says which id the task has in an older topology.
func (e Explanation) under() string {
	for _, h := range e.Holders {
		if h.Role == Active && h.As != e.Task {
			return fmt.Sprintf(" as %s of an older topology", h.As)
		}
	}
	return ""
}

func (e Explanation) stillHeld() string {
	if r := e.runner(); r != "" {
		return "; " + r + " has it until it hears of that"
	}
	return ""
}

func (e Explanation) within(format string) string {
	if e.Within == 0 {
		return ""
	}
	return ", " + fmt.Sprintf(format, e.Within.Round(time.Millisecond))
}
