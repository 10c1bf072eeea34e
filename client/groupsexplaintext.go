package client

import (
	"fmt"
	"strings"
)

// String is a sentence for people, with member ids as they are.
func (e TaskExplanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", e.Task, e.sentence())
	for _, c := range e.Copies {
		role := "standby"
		if c.Warmup {
			role = "warm-up"
		}
		fmt.Fprintf(&b, "; %s has a copy (%s%s)", c.Member, role, lagText(c.Lag))
	}
	return b.String()
}

func lagText(lag int64) string {
	if lag < 0 {
		return ""
	}
	return fmt.Sprintf(", lacks %d records", lag)
}

func (e TaskExplanation) sentence() string {
	next := "then nobody is to have it"
	if e.Owner != "" {
		next = "then it goes to " + e.Owner
	}
	waits := strings.Join(e.WaitsFor, ", ")
	switch e.Cause {
	case TaskRuns:
		return "runs at " + e.Runner + e.Detail
	case TaskWarmsUp:
		return fmt.Sprintf("runs at %s and moves to %s when that has caught up", e.Runner, e.Owner)
	case NoSuchTask:
		return "does not exist: " + e.Detail
	case NoMembers:
		return "does not run: the group has no members"
	case TopicsNotRight:
		return "does not run: the group is not ready: it has no topology yet, or topics are missing or do not fit: its members are told which, with their heartbeats"
	case AssignmentDue:
		return fmt.Sprintf("waits for the next assignment: %s, the assignment at %d: it is computed with a heartbeat, once delays are over", e.Detail, e.AssignmentEpoch)
	case NobodyUpToDate:
		return fmt.Sprintf("waits for a member with the group's topology, %s: those with an older one gain nothing", e.Detail)
	case TaskUnassigned:
		return "is unassigned: the assignor gave it to nobody"
	case HolderBehind:
		return fmt.Sprintf("runs at %s, which is %s and has not acknowledged epoch %d, with which it gives the task up; %s", e.Runner, e.Detail, e.AssignmentEpoch, next)
	case HolderKeeps:
		return fmt.Sprintf("runs at %s, which hears with its next heartbeat that it is to give it up; %s", e.Runner, next)
	case MemberAbsent:
		return fmt.Sprintf("is kept for %s, a static member that is absent", waits)
	case OwnerOutdated:
		return fmt.Sprintf("is to go to %s, which gets nothing before it runs the group's topology: it has %s", e.Owner, e.Detail)
	case OthersBehind:
		return fmt.Sprintf("is with nobody: it may still be given up by %s, not at epoch %d yet; %s", waits, e.AssignmentEpoch, next)
	case SiblingHolds:
		return fmt.Sprintf("waits for %s, of the same process as %s, to give up its copy", waits, e.Owner)
	case OwnerBehind:
		return fmt.Sprintf("is free, and goes to %s, which is %s and may have others to give up before it acknowledges epoch %d", e.Owner, e.Detail, e.AssignmentEpoch)
	case OwnerUntold:
		return fmt.Sprintf("is free, and goes to %s with its next heartbeat", e.Owner)
	}
	return "is in an unknown situation"
}
