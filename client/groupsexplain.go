package client

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/topology"
)

// TaskCause is why an active task is where it is, as far as a description of the
// group tells.
type TaskCause int8

// The causes. A description shows what members have, not what they were asked to give
// up: a task that is being given up is with nobody.
const (
	// TaskRuns is a task that runs where it is to run.
	TaskRuns TaskCause = iota
	// TaskWarmsUp is a task that moves once the owner's copy has caught up.
	TaskWarmsUp
	// NoSuchTask is a task that the topology does not have.
	NoSuchTask
	// NoMembers is a task of an empty group.
	NoMembers
	// TopicsNotRight is a group without a topology, or with topics that are missing or
	// do not fit.
	TopicsNotRight
	// AssignmentDue is a task that nobody is to run before the next assignment.
	AssignmentDue
	// NobodyUpToDate is a task that only members with an older topology are left for:
	// they gain nothing.
	NobodyUpToDate
	// TaskUnassigned is a task that the assignor gave to nobody.
	TaskUnassigned
	// HolderBehind is a task whose holder has not acknowledged the assignment that
	// takes the task from it.
	HolderBehind
	// HolderKeeps is a task that its holder has, although it is to run elsewhere and
	// the holder has the assignment.
	HolderKeeps
	// MemberAbsent is a task that is kept for a static member that has left for a
	// moment.
	MemberAbsent
	// OwnerOutdated is a task whose owner has an older topology: it gets no task.
	OwnerOutdated
	// OthersBehind is a task that is with nobody while members have not acknowledged the
	// assignment: one of them may be giving it up.
	OthersBehind
	// SiblingHolds is a task of which another member of the owner's process has a copy.
	SiblingHolds
	// OwnerBehind is a free task whose owner has not acknowledged the assignment, for
	// example because it has others to give up first.
	OwnerBehind
	// OwnerUntold is a free task that its owner gets with its next heartbeat.
	OwnerUntold
)

// TaskCopy is a standby or warm-up task.
type TaskCopy struct {
	Member string
	Warmup bool
	// Lag is how many records of the changelogs the copy lacks, by the member's last
	// report; -1 if it has not reported.
	Lag int64
}

// TaskExplanation says what holds for one task: who has it, who is to run it, and why
// these differ.
type TaskExplanation struct {
	Task  topology.TaskID
	Cause TaskCause
	// Runner has the active task, Owner is the member that the assignment names for it;
	// empty if nobody does. They are member ids.
	Runner, Owner string
	// WaitsFor are the members of which something is expected, ascending.
	WaitsFor []string
	// Copies are those of other members and of the owner, ascending by member.
	Copies []TaskCopy
	// AssignmentEpoch is that of the assignment. A member with a lower epoch has not
	// acknowledged it.
	AssignmentEpoch int32
	// Detail is what else there is to say, for people.
	Detail string
}

// ExplainTasks says where the tasks of a group are and what they wait for, ascending.
// It needs the number of partitions of the group's source topics, by name: of a topic
// that is left out, the description's own figure counts, up to 10 000. It asks nobody: a
// moment later all may be different.
func ExplainTasks(d *GroupDescription, partitions map[string]int32) []TaskExplanation {
	x := newTaskExplainer(d, partitions)
	all := map[topology.TaskID]bool{}
	for sub, n := range x.tasks {
		for p := range n {
			all[topology.TaskID{Subtopology: sub, Partition: p}] = true
		}
	}
	for i := range d.Members {
		for _, lists := range [][]kmsg.TaskIDs{d.Members[i].Assignment.ActiveTasks, d.Members[i].TargetAssignment.ActiveTasks} {
			for _, l := range lists {
				for _, p := range l.Partitions {
					all[topology.TaskID{Subtopology: l.SubtopologyID, Partition: p}] = true
				}
			}
		}
	}
	var out []TaskExplanation
	for _, t := range slices.SortedFunc(maps.Keys(all), topology.TaskID.Compare) {
		out = append(out, x.explain(t))
	}
	return out
}

// ExplainTask says the same of one task, which need not exist.
func ExplainTask(d *GroupDescription, partitions map[string]int32, task topology.TaskID) TaskExplanation {
	return newTaskExplainer(d, partitions).explain(task)
}

// maxUnseen bounds the number of tasks that a topic stands for which nobody has looked at.
// A member chooses the figure in the description, and the topic need not exist. Kafka
// creates no more partitions than that at a time.
const maxUnseen = 10_000

type taskExplainer struct {
	d *GroupDescription
	// tasks is how many tasks each subtopology has, as far as that is known.
	tasks map[string]int32
}

func newTaskExplainer(d *GroupDescription, partitions map[string]int32) *taskExplainer {
	x := &taskExplainer{d, map[string]int32{}}
	for _, s := range d.Subtopologies() {
		n := int32(0)
		for _, t := range s.SourceTopics {
			n = max(n, partitions[t])
		}
		for _, t := range s.RepartitionSourceTopics {
			if known, ok := partitions[t.Topic]; ok {
				n = max(n, known)
			} else {
				n = max(n, min(t.NumPartitions, maxUnseen))
			}
		}
		x.tasks[s.SubtopologyID] = n
	}
	return x
}

func hasTask(lists []kmsg.TaskIDs, t topology.TaskID) bool {
	return slices.ContainsFunc(lists, func(l kmsg.TaskIDs) bool {
		return l.SubtopologyID == t.Subtopology && slices.Contains(l.Partitions, t.Partition)
	})
}

func (x *taskExplainer) explain(t topology.TaskID) TaskExplanation {
	e := TaskExplanation{Task: t, AssignmentEpoch: x.d.AssignmentEpoch}
	var runner, owner *kmsg.StreamsGroupDescribeResponseGroupMember
	for i := range x.d.Members {
		m := &x.d.Members[i]
		if hasTask(m.Assignment.ActiveTasks, t) {
			runner, e.Runner = m, m.MemberID
		}
		if hasTask(m.TargetAssignment.ActiveTasks, t) {
			owner, e.Owner = m, m.MemberID
		}
		standby, warmup := hasTask(m.Assignment.StandbyTasks, t), hasTask(m.Assignment.WarmupTasks, t)
		if standby || warmup {
			e.Copies = append(e.Copies, TaskCopy{m.MemberID, warmup, reportedLag(m, t)})
		}
	}
	slices.SortFunc(e.Copies, func(a, b TaskCopy) int { return strings.Compare(a.Member, b.Member) })
	switch {
	case len(x.d.Members) == 0:
		e.Cause = NoMembers
	case runner != nil:
		x.held(&e, runner, owner)
	case owner != nil:
		x.waiting(&e, owner)
	default:
		x.unowned(&e)
	}
	slices.Sort(e.WaitsFor)
	return e
}

// reportedLag is by how much a copy is behind, as its member has said.
func reportedLag(m *kmsg.StreamsGroupDescribeResponseGroupMember, t topology.TaskID) int64 {
	find := func(offsets []kmsg.TaskOffset) int64 {
		for _, o := range offsets {
			if o.SubtopologyID == t.Subtopology && o.Partition == t.Partition {
				return o.Offset
			}
		}
		return -1
	}
	at, end := find(m.TaskOffsets), find(m.TaskEndOffsets)
	if at < 0 || end < 0 {
		return -1
	}
	return max(0, end-at)
}

// absentEpoch is the epoch of a static member that has left for a moment.
const absentEpoch = -2

func (x *taskExplainer) behind(m *kmsg.StreamsGroupDescribeResponseGroupMember) bool {
	return m.MemberEpoch < x.d.AssignmentEpoch && m.MemberEpoch != absentEpoch
}

func (x *taskExplainer) outdated(m *kmsg.StreamsGroupDescribeResponseGroupMember) bool {
	return m.TopologyEpoch < x.d.TopologyEpoch()
}

// held is for a task that somebody has.
func (x *taskExplainer) held(e *TaskExplanation, runner, owner *kmsg.StreamsGroupDescribeResponseGroupMember) {
	switch {
	case runner.MemberEpoch == absentEpoch:
		e.Cause, e.WaitsFor = MemberAbsent, []string{e.Runner}
	case runner == owner:
		e.Cause = TaskRuns
		if x.outdated(runner) {
			e.Detail = fmt.Sprintf(", by topology epoch %d, and the group's is %d: in the newer one the task may have another id", runner.TopologyEpoch, x.d.TopologyEpoch())
		}
	case owner != nil && (hasTask(owner.Assignment.WarmupTasks, e.Task) || hasTask(owner.TargetAssignment.WarmupTasks, e.Task)):
		e.Cause, e.WaitsFor = TaskWarmsUp, []string{e.Owner}
	case x.behind(runner):
		e.Cause, e.WaitsFor = HolderBehind, []string{e.Runner}
		e.Detail = fmt.Sprintf("at epoch %d", runner.MemberEpoch)
	default:
		e.Cause, e.WaitsFor = HolderKeeps, []string{e.Runner}
	}
}

// waiting is for a task that somebody is to get.
func (x *taskExplainer) waiting(e *TaskExplanation, owner *kmsg.StreamsGroupDescribeResponseGroupMember) {
	if owner.MemberEpoch == absentEpoch {
		e.Cause, e.WaitsFor = MemberAbsent, []string{e.Owner}
		return
	}
	if x.outdated(owner) {
		e.Cause, e.WaitsFor = OwnerOutdated, []string{e.Owner}
		e.Detail = fmt.Sprintf("topology epoch %d, and the group's is %d", owner.TopologyEpoch, x.d.TopologyEpoch())
		return
	}
	var siblings []string
	for i := range x.d.Members {
		m := &x.d.Members[i]
		switch {
		case m == owner:
		case m.ProcessID == owner.ProcessID && (hasTask(m.Assignment.StandbyTasks, e.Task) || hasTask(m.Assignment.WarmupTasks, e.Task)):
			siblings = append(siblings, m.MemberID)
		case x.behind(m):
			e.WaitsFor = append(e.WaitsFor, m.MemberID)
		}
	}
	switch {
	case len(siblings) > 0:
		e.Cause, e.WaitsFor = SiblingHolds, siblings
	case len(e.WaitsFor) > 0:
		e.Cause = OthersBehind
	case x.behind(owner):
		e.Cause, e.WaitsFor = OwnerBehind, []string{e.Owner}
		e.Detail = fmt.Sprintf("at epoch %d", owner.MemberEpoch)
	default:
		e.Cause, e.WaitsFor = OwnerUntold, []string{e.Owner}
	}
}

// unowned is for a task that nobody has and nobody is to get.
func (x *taskExplainer) unowned(e *TaskExplanation) {
	n, known := x.tasks[e.Task.Subtopology]
	current := func(m kmsg.StreamsGroupDescribeResponseGroupMember) bool { return !x.outdated(&m) }
	switch s := x.d.GroupState(); {
	case s == GroupNotReady, len(x.tasks) == 0:
		e.Cause = TopicsNotRight
	case !known:
		e.Cause, e.Detail = NoSuchTask, "there is no subtopology "+e.Task.Subtopology
	case e.Task.Partition < 0 || e.Task.Partition >= n:
		e.Cause, e.Detail = NoSuchTask, fmt.Sprintf("subtopology %s has %d tasks", e.Task.Subtopology, n)
	case s == GroupAssigning, x.d.Epoch > x.d.AssignmentEpoch:
		e.Cause = AssignmentDue
		e.Detail = fmt.Sprintf("the group is at epoch %d", x.d.Epoch)
	case !slices.ContainsFunc(x.d.Members, current):
		e.Cause, e.Detail = NobodyUpToDate, fmt.Sprintf("epoch %d", x.d.TopologyEpoch())
	default:
		e.Cause = TaskUnassigned
	}
}
