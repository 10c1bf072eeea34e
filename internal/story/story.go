// Package story renders the event streams of the two cores as text, one line
// for each event that a person wants to read.
package story

import (
	"fmt"
	"strings"
	"time"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Teller renders events. The zero value uses ids as they are. It is safe for
// concurrent use if Name is.
type Teller struct {
	// Name gives a member or process id the name that the reader knows it by.
	// Nil, or an empty result, leaves the id.
	Name func(id string) string
}

func (t Teller) name(id string) string {
	if t.Name != nil {
		if n := t.Name(id); n != "" {
			return n
		}
	}
	return id
}

func (t Teller) names(ids []string) string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = t.name(id)
	}
	return strings.Join(out, ", ")
}

// Tasks renders a list of tasks with runs of one subtopology put together:
// "0_0-3 1_2,5".
func Tasks(ids []topology.TaskID) string {
	if len(ids) == 0 {
		return "none"
	}
	var b strings.Builder
	for i := 0; i < len(ids); {
		if i > 0 {
			b.WriteByte(' ')
		}
		sub := ids[i].Subtopology
		fmt.Fprintf(&b, "%s_", sub)
		for first := true; i < len(ids) && ids[i].Subtopology == sub; first = false {
			from := i
			for i+1 < len(ids) && ids[i+1].Subtopology == sub && ids[i+1].Partition == ids[i].Partition+1 {
				i++
			}
			if !first {
				b.WriteByte(',')
			}
			if fmt.Fprintf(&b, "%d", ids[from].Partition); i > from {
				fmt.Fprintf(&b, "-%d", ids[i].Partition)
			}
			i++
		}
	}
	return b.String()
}

// Coordinator renders an event of the coordinator, without a newline.
func (t Teller) Coordinator(e coordinator.Event) string {
	switch e := e.(type) {
	case coordinator.GroupCreated:
		return fmt.Sprintf("group %s is created", e.Group)
	case coordinator.GroupDeleted:
		return fmt.Sprintf("group %s is deleted", e.Group)
	case coordinator.StateChanged:
		return fmt.Sprintf("group is %s (was %s)", e.To, e.From)
	case coordinator.EpochBumped:
		reasons := make([]string, len(e.Reasons))
		for i, r := range e.Reasons {
			reasons[i] = r.String()
		}
		by := ""
		if e.Member != "" {
			by = " by " + t.name(e.Member)
		}
		return fmt.Sprintf("group epoch %d%s: %s", e.Epoch, by, strings.Join(reasons, ", "))
	case coordinator.TargetComputed:
		if e.Assignor == "" {
			if e.Tasks > 0 {
				return fmt.Sprintf("target for epoch %d: the topics are not ready, members that are behind keep their %s", e.Epoch, plural(e.Tasks, "active task"))
			}
			return fmt.Sprintf("target for epoch %d: nothing for anybody, the topics are not ready", e.Epoch)
		}
		s := fmt.Sprintf("target for epoch %d by %s: %s over %s", e.Epoch, e.Assignor, plural(e.Tasks, "active task"), plural(e.Members, "member"))
		if len(e.Unassigned) > 0 {
			s += "; nobody can take " + Tasks(e.Unassigned)
		}
		return s + t.conflicts(e.HeldBack)
	case coordinator.AssignmentFailed:
		return fmt.Sprintf("no target for epoch %d: the assignor %s failed: %s", e.Epoch, e.Assignor, e.Reason)
	case coordinator.TopicSettingDiffers:
		return fmt.Sprintf("topic %s has %s=%s where the topology asks for %s: it is left as it is", e.Topic, e.Name, e.Have, e.Want)
	case coordinator.RefinementRefused:
		return fmt.Sprintf("the warm-up plan for epoch %d is refused: tasks move at once", e.Epoch)
	case coordinator.AssignmentDelayed:
		if e.Initial {
			return fmt.Sprintf("assignment waits %s for more members", e.Wait)
		}
		return fmt.Sprintf("assignment waits %s (assignment interval)", e.Wait)
	case coordinator.MemberJoined:
		s := t.name(e.Member) + " joins"
		if e.InstanceID != "" {
			s += " as instance " + e.InstanceID
		}
		return fmt.Sprintf("%s with topology epoch %d", s, e.TopologyEpoch)
	case coordinator.MemberReplaced:
		return fmt.Sprintf("%s takes the place of %s as instance %s", t.name(e.New), t.name(e.Old), e.InstanceID)
	case coordinator.MemberLeft:
		return t.left(e)
	case coordinator.MemberFenced:
		return fmt.Sprintf("%s is fenced: its epoch is %d, the coordinator has %d", t.name(e.Member), e.RequestEpoch, e.MemberEpoch)
	case coordinator.EpochReached:
		return fmt.Sprintf("%s is at epoch %d", t.name(e.Member), e.Epoch)
	case coordinator.TasksGranted:
		return fmt.Sprintf("%s gets %s %s at epoch %d", t.name(e.Member), e.Role, Tasks(e.Tasks), e.Epoch)
	case coordinator.RevocationAsked:
		return fmt.Sprintf("%s is asked to give up %s %s within %s", t.name(e.Member), e.Role, Tasks(e.Tasks), e.Within)
	case coordinator.RevocationAcknowledged:
		return fmt.Sprintf("%s has given up %s %s", t.name(e.Member), e.Role, Tasks(e.Tasks))
	case coordinator.TasksWaiting:
		if e.Role == coordinator.Warmup && len(e.Holders) == 0 {
			return fmt.Sprintf("%s waits with warm-up %s until others are done", t.name(e.Member), Tasks(e.Tasks))
		}
		gives := "gives"
		if len(e.Holders) > 1 {
			gives = "give"
		}
		return fmt.Sprintf("%s waits for %s %s until %s %s it up", t.name(e.Member), e.Role, Tasks(e.Tasks), t.names(e.Holders), gives) + t.conflicts(e.Conflicts)
	case coordinator.MemberUpgraded:
		s := fmt.Sprintf("%s comes back with topology epoch %d (had %d)", t.name(e.Member), e.ToEpoch, e.FromEpoch)
		if len(e.Held) > 0 {
			s += " and starts anew what it had as " + Tasks(e.Held)
		}
		return s
	case coordinator.TopologySet:
		if e.Replaced {
			s := fmt.Sprintf("topology epoch %d replaces %d: %s", e.Epoch, e.OldEpoch, plural(e.Subtopologies, "subtopology"))
			if len(e.Orphaned) > 0 {
				s += fmt.Sprintf("; nothing in it uses %s any more, which is left alone", strings.Join(e.Orphaned, ", "))
			}
			return s
		}
		return fmt.Sprintf("topology epoch %d: %s", e.Epoch, plural(e.Subtopologies, "subtopology"))
	case coordinator.TopicsNotReady:
		return "not ready: " + e.Detail
	case coordinator.TopicsReady:
		return "all topics are there: " + plural(e.Tasks, "task")
	case coordinator.TopicsRequested:
		return "creating " + strings.Join(e.Topics, ", ")
	case coordinator.ShutdownRequested:
		return t.name(e.Member) + " asks the whole application to shut down"
	case coordinator.DescriptionRequested:
		return fmt.Sprintf("%s is asked for the description of topology epoch %d", t.name(e.Member), e.TopologyEpoch)
	case coordinator.DescriptionStored:
		return fmt.Sprintf("the description of topology epoch %d is stored", e.TopologyEpoch)
	case coordinator.DescriptionFailed:
		return describeFailure(e)
	case coordinator.ConfigClamped:
		return fmt.Sprintf("config %s=%s is out of bounds: %s is used", e.Name, e.Value, e.Used)
	}
	return fmt.Sprintf("%T", e)
}

func describeFailure(e coordinator.DescriptionFailed) string {
	switch {
	case e.TopologyEpoch < 0:
		return "the description of the topology could not be deleted: " + e.Reason
	case e.Permanent:
		return fmt.Sprintf("the description of topology epoch %d is refused: %s", e.TopologyEpoch, e.Reason)
	}
	return fmt.Sprintf("the description of topology epoch %d could not be stored: %s; members are asked again later", e.TopologyEpoch, e.Reason)
}

func (t Teller) left(e coordinator.MemberLeft) string {
	who := t.name(e.Member)
	var what string
	switch e.Cause {
	case coordinator.Left:
		what = who + " leaves"
	case coordinator.LeftTemporarily:
		return fmt.Sprintf("%s leaves for a moment and keeps %s", who, Tasks(e.Held))
	case coordinator.SessionExpired:
		what = fmt.Sprintf("%s was not heard of for %s and is out", who, e.After)
	case coordinator.RebalanceExpired:
		what = fmt.Sprintf("%s did not give up its tasks within %s and is out", who, e.After)
	}
	if len(e.Held) == 0 {
		return what
	}
	return what + "; free now: " + Tasks(e.Held)
}

// Member renders an event of one member, without a newline. It returns ""
// for events that only repeat what the coordinator's story tells.
func (t Teller) Member(id string, e membership.Event) string {
	who := t.name(id)
	switch e := e.(type) {
	case membership.StateChanged:
		if e.To == membership.Fatal || e.To == membership.Fenced || e.To == membership.Stale || e.To == membership.Joining {
			return fmt.Sprintf("%s is %s (was %s)", who, e.To, e.From)
		}
		return ""
	case membership.EpochChanged:
		if e.To <= 0 {
			return ""
		}
		return fmt.Sprintf("%s is at epoch %d", who, e.To)
	case membership.TargetReceived:
		s := fmt.Sprintf("%s is to run %s", who, Tasks(e.Active))
		if len(e.Standby) > 0 {
			s += ", standby " + Tasks(e.Standby)
		}
		if len(e.Warmup) > 0 {
			s += ", warm-up " + Tasks(e.Warmup)
		}
		if len(e.Revoke) > 0 {
			s += ", and to give up " + Tasks(e.Revoke)
		}
		if !e.Ready {
			s += " (group not ready)"
		}
		return s
	case membership.CallbackFinished:
		return t.callback(who, e)
	case membership.StatusChanged:
		if len(e.Statuses) == 0 {
			return who + ": no status any more"
		}
		parts := make([]string, len(e.Statuses))
		for i, s := range e.Statuses {
			parts[i] = fmt.Sprintf("%s (%s)", StatusName(s.Code), s.Detail)
		}
		return who + ": " + strings.Join(parts, "; ")
	case membership.HeartbeatRejected:
		return fmt.Sprintf("%s: heartbeat with epoch %d is answered with error %d %s", who, e.Epoch, e.Code, e.Message)
	case membership.HeartbeatLost:
		return fmt.Sprintf("%s: no answer to a heartbeat: %v", who, e.Err)
	case membership.CoordinatorLost:
		return fmt.Sprintf("%s looks for the coordinator: %s", who, e.Reason)
	case membership.TopologyCompared:
		return compared(who, e)
	case membership.PollTimerExpired:
		return fmt.Sprintf("%s did not poll for %s", who, e.Limit)
	case membership.PolledLate:
		return fmt.Sprintf("%s polls %s after the limit of %s", who, e.By, e.Limit)
	case membership.ShutdownRequested:
		return who + " asks the whole application to shut down"
	case membership.LeftSilently:
		return fmt.Sprintf("%s has left, and the coordinator may not know (%s)", who, plural(e.Attempts, "attempt"))
	}
	return ""
}

// compared says nothing of a group that has nothing to compare with yet, as every
// first start does.
func compared(who string, e membership.TopologyCompared) string {
	switch d := e.Difference; {
	case d == nil:
		return ""
	case len(e.Refused) > 0:
		reasons := make([]string, len(e.Refused))
		for i, f := range e.Refused {
			reasons[i] = f.Reason
		}
		return fmt.Sprintf("%s does not join: topology epoch %d is not safe to replace %d: %s", who, d.NewerEpoch, d.OlderEpoch, strings.Join(reasons, "; "))
	default:
		return fmt.Sprintf("%s may replace topology epoch %d by %d", who, d.OlderEpoch, d.NewerEpoch)
	}
}

func (t Teller) callback(who string, e membership.CallbackFinished) string {
	var what string
	switch e.Kind {
	case membership.TasksRevoked:
		what = "has given up"
	case membership.TasksAssigned:
		what = "runs"
	case membership.TasksLost:
		what = "has lost"
	}
	s := fmt.Sprintf("%s %s %s", who, what, Tasks(e.Tasks))
	if e.Took >= time.Millisecond {
		s += fmt.Sprintf(" after %s", e.Took.Round(time.Millisecond))
	}
	if e.Err != nil {
		s += fmt.Sprintf(" (error: %v)", e.Err)
	}
	return s
}

// StatusName is the name of a status code, as in KIP-1071 and its successors.
func StatusName(code int8) string {
	names := [...]string{
		"STALE_TOPOLOGY", "MISSING_SOURCE_TOPICS", "INCORRECTLY_PARTITIONED_TOPICS",
		"MISSING_INTERNAL_TOPICS", "SHUTDOWN_APPLICATION", "ASSIGNMENT_DELAYED", "MISSING_CLIENT_TAGS",
	}
	if code >= 0 && int(code) < len(names) {
		return names[code]
	}
	return fmt.Sprintf("status %d", code)
}

func plural(n int, one string) string {
	switch {
	case n == 1:
		return "1 " + one
	case strings.HasSuffix(one, "y"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(one, "y"))
	}
	return fmt.Sprintf("%d %ss", n, one)
}
