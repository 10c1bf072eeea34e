package coordinator

import (
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamsgroup/streamsgroup/coordinator/assignor"
	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
)

// findTarget decides which assignment epoch the member is moved to and with
// which tasks, and runs the assignor if it has to.
func (h *heartbeat) findTarget(initial bool) *refusal {
	switch {
	case initial:
		// Nobody gets anything until the initial delay is over.
		h.goal, h.delayed = roles{}, true
		return nil
	case h.onlyRefines():
		h.stepOnly()
		return nil
	case h.assignment >= h.epoch:
		h.goal = h.frozenTarget()
		return nil
	case !h.intervalElapsed() && !h.replacesTopology():
		// A target older than the topology must not be worked off; any other may.
		h.goal, h.delayed = h.frozenTarget(), true
		if len(h.reasons) > 0 {
			h.event(AssignmentDelayed{Group: h.g.id, Wait: h.cfg.interval - time.Duration(h.now.WallMillis-h.g.assignmentMillis)*time.Millisecond})
		}
		return nil
	}
	return h.assign()
}

// targetTasks is the stored target of the member.
func (h *heartbeat) targetTasks() roles {
	if h.target == nil {
		return roles{}
	}
	return *h.target
}

// intervalElapsed counts a stored time that lies in the future as elapsed: the
// clock of another node may have been ahead.
func (h *heartbeat) intervalElapsed() bool {
	last := h.g.assignmentMillis
	return last == 0 || h.cfg.interval == 0 || last > h.now.WallMillis || h.now.WallMillis >= last+h.cfg.interval.Milliseconds()
}

// assign runs the assignor for the group, with the member of this request (if
// there is one) in its new form, and writes what changed.
func (h *heartbeat) assign() *refusal {
	targets, r := h.computeTargets()
	if r != nil {
		return r
	}
	g := h.g
	tasks := 0
	for _, id := range slices.Sorted(maps.Keys(targets)) {
		t := targets[id]
		tasks += len(t.active)
		before := h.storedTarget(id)
		if before == nil || !before.equal(t) {
			h.append(targetRecord(g.id, id, t))
		}
	}
	h.append(&record.TargetAssignmentMetadata{Group: g.id, AssignmentEpoch: h.epoch, AssignmentTimestampMillis: h.now.WallMillis})
	h.assignment, h.targets = h.epoch, targets
	if h.meta != nil {
		h.goal = targets[h.meta.Member]
	}
	e := TargetComputed{Group: g.id, Epoch: h.epoch, Members: len(targets), Tasks: tasks}
	if h.configured != nil && h.configured.Ready() {
		e.Assignor, e.Unassigned, e.HeldBack = h.cfg.assignor, h.unassigned, h.heldBack
	}
	h.event(e)
	return nil
}

func targetRecord(group, member string, t roles) *record.TargetAssignment {
	return &record.TargetAssignment{Group: group, Member: member, Active: listToRecord(t.active), Standby: listToRecord(t.standby), Warmup: listToRecord(t.warmup)}
}

// storedTarget is what is stored for a member, under its new id if it replaces a
// static one.
func (h *heartbeat) storedTarget(id string) *roles {
	if h.replaced != "" && id == h.meta.Member {
		if t := h.g.members[h.replaced].target; t != nil {
			return t // the replacement has written it
		}
		return &roles{}
	}
	if m := h.g.members[id]; m != nil {
		return m.target
	}
	return nil
}

// computeTargets returns what every member is to have.
func (h *heartbeat) computeTargets() (map[string]roles, *refusal) {
	g, self := h.g, h.meta
	targets := make(map[string]roles, len(g.members)+1)
	for id := range g.members {
		if id != h.replaced {
			targets[id] = roles{}
		}
	}
	if self != nil {
		targets[self.Member] = roles{}
	}
	if h.configured == nil || !h.configured.Ready() {
		h.keepWhileNotReady(targets)
		return targets, nil // everybody else gets nothing until the topics are right
	}
	in := &assignor.Group{TopologyEpoch: h.topology.Epoch, StandbyReplicas: h.cfg.standbys, RackAwareTags: h.cfg.tags}
	for i := range h.configured.Subtopologies {
		s := &h.configured.Subtopologies[i]
		in.Subtopologies = append(in.Subtopologies, assignor.Subtopology{ID: s.ID, Tasks: s.Tasks, Stateful: s.Stateful})
	}
	for _, id := range slices.Sorted(maps.Keys(targets)) {
		if self != nil && id == self.Member {
			m := h.describeMember(self, h.cur, h.target)
			if h.old != nil {
				m.Offsets, m.EndOffsets = h.old.offsets, h.old.ends
			}
			if h.fx.soft.offsets != nil {
				m.Offsets = h.fx.soft.offsets
			}
			if h.fx.soft.ends != nil {
				m.EndOffsets = h.fx.soft.ends
			}
			h.seen(&m)
			in.Members = append(in.Members, m)
			continue
		}
		m := g.members[id]
		d := h.describeMember(m.meta, m.cur, m.target)
		d.Offsets, d.EndOffsets = m.offsets, m.ends
		h.seen(&d)
		in.Members = append(in.Members, d)
	}
	out, err := h.c.runAssignor(h.cfg.assignor, in)
	if err != nil {
		h.event(AssignmentFailed{Group: g.id, Epoch: h.epoch, Assignor: h.cfg.assignor, Reason: err.Error()})
		return nil, refuse(kerr.UnknownServerError, "%v", err)
	}
	for id := range targets {
		a := out[id]
		targets[id] = roles{active: listFromSet(a.Active), standby: listFromSet(a.Standby)}
	}
	h.settleOlder(targets)
	return targets, nil
}

func (h *heartbeat) describeMember(meta *record.MemberMetadata, c current, target *roles) assignor.Member {
	m := assignor.Member{
		ID: meta.Member, ProcessID: meta.ProcessID, InstanceID: deref(meta.InstanceID), RackID: deref(meta.RackID),
		TopologyEpoch: meta.TopologyEpoch,
		Prior:         c.assigned.prior(),
	}
	if h.c.policy == Kafka {
		m.TopologyEpoch = h.topology.Epoch // Kafka's assignors know nothing of stale members
	} else if target != nil {
		m.PriorTarget = listToSet(target.active)
	}
	if len(meta.ClientTags) > 0 {
		m.ClientTags = make(map[string]string, len(meta.ClientTags))
		for _, t := range meta.ClientTags {
			m.ClientTags[t.Key] = t.Value
		}
	}
	return m
}

// unassigned are the tasks of a ready topology that nobody got, ascending.
func unassigned(c *topics.Configured, targets map[string]roles) taskList {
	n := 0
	for i := range c.Subtopologies {
		n += int(c.Subtopologies[i].Tasks)
	}
	for _, t := range targets {
		n -= len(t.active)
	}
	if n <= 0 {
		return nil
	}
	var given taskList
	for _, t := range targets {
		given = append(given, t.active...)
	}
	return allTasks(c).minus(given.sorted())
}
