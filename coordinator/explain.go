package coordinator

import (
	"math"
	"slices"
	"time"

	"github.com/streamsgroup/streamsgroup/coordinator/topics"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Explanation says what holds for one task at a moment: who has it, who is to run
// it, and what has to happen before these agree.
type Explanation struct {
	Group string
	Task  topology.TaskID
	// State is that of the group.
	State State
	Cause Cause
	// Owner is the member that the target assignment names for the active task,
	// empty if it names nobody.
	Owner string
	// Holders have the task in some role, ascending by member id.
	Holders []Holding
	// WaitsFor are the members of which something is expected before the task is
	// where it is to be, ascending: a heartbeat, a revocation, a departure.
	WaitsFor []string
	// Within is when at the latest the coordinator goes on without all of them: the
	// rebalance time-outs of those that were asked to give up tasks end then, the
	// sessions of others unless they are heard of, or a delay. A member that was asked
	// is removed earlier if it is not heard of for a session. Zero if nothing ends by
	// itself.
	Within time.Duration
	// Conflicts are the members that work on the topics of the task by an older
	// topology.
	Conflicts []Conflict
	// Status and Detail are those of topics that are missing or wrong.
	Status int8
	Detail string
	// Lag is how many records the owner's copy of a task that warms up lacks, -1 if
	// that is not known or there is none. Acceptable is how many it may lack to take
	// over.
	Lag, Acceptable int64
}

// Holding is a member that has a task.
type Holding struct {
	Member, ProcessID, InstanceID string
	Role                          Role
	// As is the task under the id that it has in the topology of the member.
	As topology.TaskID
	// Epoch is the member's.
	Epoch int32
	// Revoking is whether the member was asked to give the task up.
	Revoking bool
	// Absent is whether it is a static member that has left for a moment: it does
	// not work on the task, but the task is kept for it.
	Absent bool
}

// Cause is why an active task is where it is.
type Cause int8

// The causes, and what is waited for in each.
const (
	// TaskRuns is a task that runs where it is to run. Nothing is waited for.
	TaskRuns Cause = iota + 1
	// TaskWarmsUp is a task that runs, and moves once its owner has caught up.
	TaskWarmsUp
	// NoSuchTask is a task that the topology does not have.
	NoSuchTask
	// NoMembers is a task of an empty group.
	NoMembers
	// TopicsUnseen is a group that was loaded, or is new: the next heartbeat looks
	// at its topics.
	TopicsUnseen
	// TopicsNotRight are topics that are missing or wrong.
	TopicsNotRight
	// InitialDelay is the delay in which more members are awaited.
	InitialDelay
	// AssignmentInterval is the least time between two assignments.
	AssignmentInterval
	// TargetOutdated is an assignment that the next heartbeat of anybody computes.
	TargetOutdated
	// VersionsCollide is a task whose topics a member works on by an older topology.
	VersionsCollide
	// NobodyUpToDate is a task that only members with an older topology are left for:
	// they gain nothing.
	NobodyUpToDate
	// TaskUnassigned is a task that the assignor gave to nobody.
	TaskUnassigned
	// HolderUnasked is a task whose holder learns with its next heartbeat that it is
	// to give it up.
	HolderUnasked
	// HolderRevokes is a task that its holder was asked to give up.
	HolderRevokes
	// HolderAbsent is a task that is kept for a static member that is absent.
	HolderAbsent
	// SiblingHolds is a task of which another member of the owner's process has a
	// copy.
	SiblingHolds
	// OwnerRevokes is a task whose owner has to give up others first.
	OwnerRevokes
	// OwnerUntold is a task that is free: its owner gets it with its next heartbeat.
	OwnerUntold
)

// Explain says what holds for a task, by its id in the group's topology: why it
// runs where it does, or what it waits for, for whom, and until when at the latest.
// ok is false if there is no such group. It changes nothing and loops over the
// members of the group: it is for people, not for heartbeats.
func (c *Coordinator) Explain(now Now, group string, task topology.TaskID) (e Explanation, ok bool) {
	g := c.groups[group]
	if g == nil {
		return Explanation{}, false
	}
	x := explainer{h: heartbeat{c: &c.coordinatorState, now: now, fx: &Effects{}, g: g, cfg: c.effectiveConfig(group), topology: g.topology, configured: g.configured()}, task: task}
	x.out = Explanation{Group: group, Task: task, State: g.state(), Lag: -1}
	x.find()
	x.out.Cause = x.cause()
	return x.out, true
}

// explainer collects what there is to say about one task.
type explainer struct {
	h    heartbeat // an empty one, for what it knows of upgrades
	task topology.TaskID
	out  Explanation

	runner *member // has the active task, assigned or to be revoked
	owner  *member // is to have it in the end
	keeper *member // is to have it in this assignment epoch
	fresh  bool    // some member runs the group's topology
}

// as is the task under its id in the topology of a member.
func (x *explainer) as(m *member, role Role) (topology.TaskID, bool) {
	if !x.h.runsOlder(m.filed) {
		return x.task, true
	}
	s := x.h.successionOf(m.filed)
	if role == Active {
		return s.predecessor(x.task)
	}
	return s.predecessorCopy(x.task)
}

func (x *explainer) find() {
	g := x.h.g
	for _, id := range g.memberIDs() {
		m := g.members[id]
		x.fresh = x.fresh || !x.h.runsOlder(m.meta.TopologyEpoch)
		for _, role := range allRoles {
			x.hold(m, role)
		}
		was, ok := x.as(m, Active)
		if !ok || x.h.runsOlder(m.meta.TopologyEpoch) && !m.held().active.has(was) {
			continue // whatever a target of old says: it gains nothing
		}
		target := roles{}
		if m.target != nil {
			target = *m.target
		}
		if target.active.has(was) {
			x.owner, x.out.Owner = m, id
		}
		if x.h.plan().slice(id, target).active.has(was) {
			x.keeper = m
		}
	}
}

// hold notes that the member has the task in a role.
func (x *explainer) hold(m *member, role Role) {
	was, ok := x.as(m, role)
	if !ok {
		return
	}
	revoking := m.cur.pending.of(role).has(was)
	if !revoking && !m.cur.assigned.of(role).has(was) {
		return
	}
	x.out.Holders = append(x.out.Holders, Holding{
		Member: m.meta.Member, ProcessID: m.meta.ProcessID, InstanceID: m.instanceID(),
		Role: role, As: was, Epoch: m.cur.epoch, Revoking: revoking, Absent: m.cur.epoch == absent,
	})
	if role == Active {
		x.runner = m
	}
}

// cause goes from what is visible to what is expected.
func (x *explainer) cause() Cause {
	g := x.h.g
	if len(g.members) == 0 {
		return NoMembers
	}
	if x.runner != nil {
		if c, ok := x.held(); ok {
			return c
		}
	}
	if c, ok := x.impossible(); ok {
		return c
	}
	if x.keeper == nil {
		return x.unowned()
	}
	return x.waiting()
}

// held is the cause if the task is where it is to be for now, or about to leave.
func (x *explainer) held() (Cause, bool) {
	was, _ := x.as(x.runner, Active)
	switch {
	case x.runner.cur.epoch == absent:
		x.waitFor(x.runner)
		return HolderAbsent, true
	case x.runner.cur.pending.active.has(was):
		x.waitFor(x.runner)
		return HolderRevokes, true
	case x.runner == x.keeper && x.owner != nil && x.owner != x.keeper:
		x.warmUp()
		return TaskWarmsUp, true
	case x.runner == x.keeper:
		return TaskRuns, true
	}
	return 0, false
}

// warmUp says how far the owner is.
func (x *explainer) warmUp() {
	x.waitFor(x.owner)
	x.out.Within = 0 // it takes as long as it takes
	x.out.Acceptable = x.h.cfg.lag
	copied, ok := x.owner.offsets[x.task]
	end, known := x.owner.ends[x.task]
	if (!known || end == math.MaxInt64) && x.h.configured != nil {
		end, known = x.h.logEnd(x.task)
	}
	if ok && known && copied != math.MaxInt64 && end != math.MaxInt64 {
		x.out.Lag = max(0, end-copied)
	}
}

// impossible is the cause if nobody can run the task as things are.
func (x *explainer) impossible() (Cause, bool) {
	switch c := x.h.configured; {
	case x.h.topology == nil || c == nil:
		return TopicsUnseen, true
	case !c.Ready():
		x.out.Status, x.out.Detail = c.Problem.Status, c.Problem.Detail
		return TopicsNotRight, true
	case !taskExists(c, x.task):
		x.out.Detail = tasksOf(c)
		return NoSuchTask, true
	}
	return 0, false
}

// unowned is the cause if nobody is to run the task in this epoch.
func (x *explainer) unowned() Cause {
	g := x.h.g
	switch {
	case g.initial.armed():
		x.until(g.initial.at)
		return InitialDelay
	case g.epoch > g.assignmentEpoch && !x.h.intervalElapsed():
		x.out.Within = time.Duration(g.assignmentMillis+x.h.cfg.interval.Milliseconds()-x.h.now.WallMillis) * time.Millisecond
		return AssignmentInterval
	case g.epoch > g.assignmentEpoch:
		return TargetOutdated
	case x.collides():
		return VersionsCollide
	case !x.fresh:
		return NobodyUpToDate
	case x.runner != nil:
		x.waitFor(x.runner)
		return HolderUnasked
	}
	return TaskUnassigned
}

// collides notes who works on the topics of the task by an older topology.
func (x *explainer) collides() bool {
	x.out.Conflicts = x.h.ownership().conflicts(x.task)
	for _, c := range x.out.Conflicts {
		for _, id := range x.h.g.memberIDs() {
			if m := x.h.g.members[id]; m.filed == c.TopologyEpoch && m.held().active.has(c.As) {
				x.waitFor(m)
			}
		}
	}
	x.out.Within = 0 // a member that stays alive keeps its tasks
	return len(x.out.Conflicts) > 0
}

// waiting is the cause if somebody is to run the task and does not yet.
func (x *explainer) waiting() Cause {
	switch {
	case x.runner != nil:
		x.waitFor(x.runner)
		return HolderUnasked
	case x.collides():
		return VersionsCollide
	case x.siblings():
		return SiblingHolds
	case x.keeper.cur.state == unrevokedTasks:
		x.waitFor(x.keeper)
		return OwnerRevokes
	}
	x.waitFor(x.keeper)
	return OwnerUntold
}

// siblings notes the other members of the process that have a copy of the task:
// the copy is given up first.
func (x *explainer) siblings() bool {
	found := false
	for _, h := range x.out.Holders {
		if m := x.h.g.members[h.Member]; m != x.keeper && m.meta.ProcessID == x.keeper.meta.ProcessID {
			x.waitFor(m)
			found = true
		}
	}
	return found
}

// waitFor notes a member, and the timer that ends the wait for it. A heartbeat puts
// its session off, but not a revocation.
func (x *explainer) waitFor(m *member) {
	if i, found := slices.BinarySearch(x.out.WaitsFor, m.meta.Member); !found {
		x.out.WaitsFor = slices.Insert(x.out.WaitsFor, i, m.meta.Member)
	}
	switch {
	case m.rebalance.armed() && m.rebalance.epoch == m.cur.epoch:
		x.until(m.rebalance.at)
	case m.session.armed():
		x.until(m.session.at)
	}
}

// until notes a deadline. All members are waited for, so that the last one counts.
func (x *explainer) until(at time.Duration) {
	x.out.Within = max(x.out.Within, at-x.h.now.Mono)
}

// tasksOf says which tasks a topology has.
func tasksOf(c *topics.Configured) string {
	var b []byte
	for i := range c.Subtopologies {
		if s := &c.Subtopologies[i]; s.Tasks > 0 {
			if len(b) > 0 {
				b = append(b, ' ')
			}
			b = append(b, topology.TaskID{Subtopology: s.ID}.String()...)
			if s.Tasks > 1 {
				b = append(b, " to "...)
				b = append(b, topology.TaskID{Subtopology: s.ID, Partition: s.Tasks - 1}.String()...)
			}
		}
	}
	return string(b)
}
