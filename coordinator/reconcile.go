package coordinator

import (
	"slices"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/topology"
)

// reconciliation state of a member, as records store it.
type memberState int8

const (
	stable          memberState = 1
	unrevokedTasks  memberState = 2
	unreleasedTasks memberState = 3
	unknownState    memberState = 127
)

// current is the current assignment of a member: what it holds, what it has been
// asked to give up, and the epochs. Its lists are immutable.
type current struct {
	epoch, previousEpoch int32
	state                memberState
	assigned             roles
	// epochs are the assignment epochs of assigned.active, one for one.
	epochs  []int32
	pending roles
	// pendingEpochs are those of pending.active.
	pendingEpochs []int32
}

func (c current) equal(o current) bool {
	return c.epoch == o.epoch && c.previousEpoch == o.previousEpoch && c.state == o.state &&
		c.assigned.equal(o.assigned) && c.pending.equal(o.pending) &&
		slices.Equal(c.epochs, o.epochs) && slices.Equal(c.pendingEpochs, o.pendingEpochs)
}

// sameTasks is whether the tasks that a response would list are the same,
// including the assignment epochs.
func (c current) sameTasks(o current) bool {
	sameEpochs := len(c.epochs) == len(o.epochs) && (len(c.epochs) == 0 || &c.epochs[0] == &o.epochs[0] || slices.Equal(c.epochs, o.epochs))
	return sameEpochs && c.assigned.equal(o.assigned)
}

// has is whether the member has the task in some role, or is to give it up.
func (c current) has(t topology.TaskID) bool {
	for _, role := range allRoles {
		if c.assigned.of(role).has(t) || c.pending.of(role).has(t) {
			return true
		}
	}
	return false
}

// assignmentEpoch is the epoch in which an active task was given to the member.
func (c current) assignmentEpoch(t topology.TaskID) (int32, bool) {
	if i, ok := c.assigned.active.index(t); ok {
		return c.epochs[i], true
	}
	if i, ok := c.pending.active.index(t); ok {
		return c.pendingEpochs[i], true
	}
	return 0, false
}

// goal is what a member is to be moved to.
type goal struct {
	epoch int32
	tasks roles
	// stale is whether the member runs an older topology: it gains nothing.
	stale bool
	// exists says whether the configured topology has a task. Nil for all.
	exists func(topology.TaskID) bool
	// slots is how many warm-ups more there may be in the group. Nil for any
	// number.
	slots func() int
}

// reconciled is the outcome of one step.
type reconciled struct {
	current
	// fenced means that the member's state is unknown and it holds tasks.
	fenced bool
	// waiting are tasks that somebody else still holds.
	waiting roles
}

// reconcile moves a member one step towards its goal. owned are the tasks that
// the member reported, nil if it did not.
func reconcile(c current, to goal, owned *roles, owners ownership, process string) reconciled {
	switch c.state {
	case stable:
		if c.epoch == to.epoch {
			return reconciled{current: c}
		}
		return compute(c, c.epoch, to, owned, owners, process)
	case unrevokedTasks:
		if owned == nil || owned.overlaps(c.pending) {
			return reconciled{current: c} // also if the goal has moved on meanwhile
		}
		return compute(c, c.epoch+1, to, owned, owners, process)
	case unreleasedTasks:
		return compute(c, c.epoch, to, owned, owners, process)
	}
	if owned == nil || !owned.empty() {
		return reconciled{current: c, fenced: true}
	}
	return compute(c, to.epoch, to, owned, owners, process)
}

// compute is one step from the member epoch base.
func compute(c current, base int32, to goal, owned *roles, owners ownership, process string) reconciled {
	a := c.assigned
	want := roles{to.tasks.active.minus(a.active), to.tasks.standby.minus(a.standby), to.tasks.warmup.minus(a.warmup)}
	if to.exists != nil {
		for _, role := range allRoles {
			l := want.of(role)
			*l = l.filter(to.exists)
		}
	}
	if to.stale {
		want = roles{}
	}
	keep := roles{a.active.intersect(to.tasks.active), a.standby.intersect(to.tasks.standby), a.warmup.intersect(to.tasks.warmup)}
	drop := roles{a.active.minus(keep.active), a.standby.minus(keep.standby), a.warmup.minus(keep.warmup)}
	grant := roles{
		want.active.filter(func(t topology.TaskID) bool { return !owners.activeTaken(t, process, a) }),
		want.standby.filter(func(t topology.TaskID) bool { return !owners.standbyTaken(t, process, a) }),
		want.warmup.filter(func(t topology.TaskID) bool { return !owners.warmupTaken(t, process, a) }),
	}
	if to.slots != nil && len(grant.warmup) > 0 {
		grant.warmup = grant.warmup[:min(len(grant.warmup), max(0, to.slots()))]
	}
	waiting := roles{want.active.minus(grant.active), want.standby.minus(grant.standby), want.warmup.minus(grant.warmup)}

	// Role changes in place, in this order. Active to standby: the copy is there
	// already, but the active role must still be acknowledged as given up.
	inPlace := grant.standby.intersect(a.active)
	grant.standby, keep.standby = grant.standby.minus(inPlace), keep.standby.plus(inPlace)
	// Standby and warm-up are run alike: nothing to acknowledge.
	inPlace = grant.warmup.intersect(a.standby)
	grant.warmup, keep.warmup, drop.standby = grant.warmup.minus(inPlace), keep.warmup.plus(inPlace), drop.standby.minus(inPlace)
	inPlace = grant.standby.intersect(a.warmup)
	grant.standby, keep.standby, drop.warmup = grant.standby.minus(inPlace), keep.standby.plus(inPlace), drop.warmup.minus(inPlace)
	// Standby or warm-up to active: the replica is not given up on its own.
	promotedStandby := drop.standby.intersect(want.active)
	promotedWarmup := drop.warmup.intersect(want.active)
	drop.standby, drop.warmup = drop.standby.minus(promotedStandby), drop.warmup.minus(promotedWarmup)

	blocked := !drop.empty() && (owned == nil || owned.overlaps(drop))
	// The replica stays until the active task is really granted.
	notYet := func(t topology.TaskID) bool { return blocked || !grant.active.has(t) }
	keep.standby = keep.standby.plus(promotedStandby.filter(notYet))
	keep.warmup = keep.warmup.plus(promotedWarmup.filter(notYet))

	out := reconciled{waiting: waiting}
	out.previousEpoch = c.epoch
	switch {
	case blocked:
		out.state, out.epoch, out.assigned, out.pending = unrevokedTasks, base, keep, drop
	case !grant.empty():
		out.state, out.epoch, out.assigned = stable, to.epoch, keep.plus(grant)
	default:
		out.state, out.epoch, out.assigned = stable, to.epoch, keep
	}
	if !blocked && !waiting.empty() {
		out.state = unreleasedTasks
	}
	out.epochs = epochsOf(out.assigned.active, c, to.epoch)
	out.pendingEpochs = epochsOf(out.pending.active, c, to.epoch)
	return out
}

// epochsOf gives tasks that the member held before their old epochs, and new
// ones the given one.
func epochsOf(l taskList, before current, granted int32) []int32 {
	if len(l) == 0 {
		return nil
	}
	out := make([]int32, len(l))
	for i, t := range l {
		out[i] = granted
		if j, ok := before.assigned.active.index(t); ok {
			out[i] = before.epochs[j]
		}
	}
	return out
}

var allRoles = [...]Role{Active, Standby, Warmup}

// ownerIndex says which processes hold a task, assigned or pending revocation.
type ownerIndex struct {
	active          map[topology.TaskID]string
	standby, warmup map[topology.TaskID][]string // ascending
}

func newOwnerIndex() ownerIndex {
	return ownerIndex{map[topology.TaskID]string{}, map[topology.TaskID][]string{}, map[topology.TaskID][]string{}}
}

// activeTaken is whether an active task cannot be granted to a member of the
// process that holds a: it has one owner in the group, and the process may not
// hold it elsewhere.
func (x *ownerIndex) activeTaken(t topology.TaskID, process string, a roles) bool {
	if _, ok := x.active[t]; ok {
		return true
	}
	return x.copyElsewhere(t, process, a)
}

func (x *ownerIndex) copyElsewhere(t topology.TaskID, process string, a roles) bool {
	return x.standbyAt(t, process) && !a.standby.has(t) || x.warmupAt(t, process) && !a.warmup.has(t)
}

// standbyTaken is whether a standby cannot be granted: only holders in the same
// process block it.
func (x *ownerIndex) standbyTaken(t topology.TaskID, process string, a roles) bool {
	return x.activeAt(t, process) && !a.active.has(t) || x.standbyAt(t, process) ||
		x.warmupAt(t, process) && !a.warmup.has(t)
}

// warmupTaken is whether a warm-up cannot be granted. An active task never turns
// into one in place.
func (x *ownerIndex) warmupTaken(t topology.TaskID, process string, a roles) bool {
	return x.activeAt(t, process) || x.standbyAt(t, process) && !a.standby.has(t) || x.warmupAt(t, process)
}

func (x *ownerIndex) activeAt(t topology.TaskID, process string) bool {
	p, ok := x.active[t]
	return ok && p == process
}

func (x *ownerIndex) standbyAt(t topology.TaskID, process string) bool {
	_, ok := slices.BinarySearch(x.standby[t], process)
	return ok
}

func (x *ownerIndex) warmupAt(t topology.TaskID, process string) bool {
	_, ok := slices.BinarySearch(x.warmup[t], process)
	return ok
}

// holders are the processes that keep a task from being granted to the process
// in a role, ascending.
func (x *ownerIndex) holders(role Role, t topology.TaskID, process string) []string {
	var out []string
	if p, ok := x.active[t]; ok && (role == Active || p == process) {
		out = append(out, p)
	}
	if x.standbyAt(t, process) || x.warmupAt(t, process) {
		out = append(out, process)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// add and remove keep the index in step with a member's assigned and pending
// tasks. They tolerate what compaction can bring about: the last writer owns an
// active task, and only its own process takes it away again.
func (x *ownerIndex) add(process string, r roles) {
	for _, t := range r.active {
		x.active[t] = process
	}
	for _, t := range r.standby {
		addProcess(x.standby, t, process)
	}
	for _, t := range r.warmup {
		addProcess(x.warmup, t, process)
	}
}

func (x *ownerIndex) remove(process string, r roles) {
	for _, t := range r.active {
		if x.active[t] == process {
			delete(x.active, t)
		}
	}
	for _, t := range r.standby {
		removeProcess(x.standby, t, process)
	}
	for _, t := range r.warmup {
		removeProcess(x.warmup, t, process)
	}
}

func addProcess(m map[topology.TaskID][]string, t topology.TaskID, process string) {
	if i, ok := slices.BinarySearch(m[t], process); !ok {
		m[t] = slices.Insert(m[t], i, process)
	}
}

func removeProcess(m map[topology.TaskID][]string, t topology.TaskID, process string) {
	i, ok := slices.BinarySearch(m[t], process)
	switch {
	case !ok:
	case len(m[t]) == 1:
		delete(m, t)
	default:
		m[t] = slices.Delete(m[t], i, i+1)
	}
}

func currentFromRecord(r *record.CurrentAssignment) current {
	c := current{
		epoch: r.MemberEpoch, previousEpoch: r.PreviousMemberEpoch, state: unknownState,
		assigned: roles{standby: listFromRecord(r.Standby), warmup: listFromRecord(r.Warmup)},
		pending:  roles{standby: listFromRecord(r.StandbyPendingRevocation), warmup: listFromRecord(r.WarmupPendingRevocation)},
	}
	if s := memberState(r.State); s == stable || s == unrevokedTasks || s == unreleasedTasks {
		c.state = s
	}
	c.assigned.active, c.epochs = activeFromRecord(r.Active, r.MemberEpoch)
	c.pending.active, c.pendingEpochs = activeFromRecord(r.ActivePendingRevocation, r.MemberEpoch)
	return c
}

// activeFromRecord gives tasks without an epoch of their own the member epoch of
// the record, which is how records from before those epochs read.
func activeFromRecord(in []record.ActiveTaskIDs, memberEpoch int32) (taskList, []int32) {
	type held struct {
		t     topology.TaskID
		epoch int32
	}
	var all []held
	for _, s := range in {
		for i, p := range s.Partitions {
			h := held{topology.TaskID{Subtopology: s.Subtopology, Partition: p}, memberEpoch}
			if len(s.Epochs) == len(s.Partitions) {
				h.epoch = s.Epochs[i]
			}
			all = append(all, h)
		}
	}
	slices.SortStableFunc(all, func(a, b held) int { return a.t.Compare(b.t) })
	all = slices.CompactFunc(all, func(a, b held) bool { return a.t == b.t })
	var l taskList
	var epochs []int32
	for _, h := range all {
		l, epochs = append(l, h.t), append(epochs, h.epoch)
	}
	return l, epochs
}

func (c current) record(group, member string) *record.CurrentAssignment {
	return &record.CurrentAssignment{
		Group: group, Member: member,
		MemberEpoch: c.epoch, PreviousMemberEpoch: c.previousEpoch, State: int8(c.state),
		Active: activeToRecord(c.assigned.active, c.epochs), Standby: listToRecord(c.assigned.standby), Warmup: listToRecord(c.assigned.warmup),
		ActivePendingRevocation:  activeToRecord(c.pending.active, c.pendingEpochs),
		StandbyPendingRevocation: listToRecord(c.pending.standby),
		WarmupPendingRevocation:  listToRecord(c.pending.warmup),
	}
}

func activeToRecord(l taskList, epochs []int32) []record.ActiveTaskIDs {
	var out []record.ActiveTaskIDs
	for i := 0; i < len(l); {
		n := sameSubtopology(l[i:])
		out = append(out, record.ActiveTaskIDs{Subtopology: l[i].Subtopology, Partitions: partitions(l[i : i+n]), Epochs: slices.Clone(epochs[i : i+n])})
		i += n
	}
	return out
}
