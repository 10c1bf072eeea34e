package coordinator

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamsgroup/streamsgroup/topology"
)

// reconcile moves the member one step towards what it is to have.
func (h *heartbeat) reconcile() *refusal {
	h.next = h.cur
	if h.cur.state == stable && h.cur.epoch == h.assignment {
		return nil
	}
	to := goal{epoch: h.assignment, tasks: h.goal}
	if h.c.policy == Kafka {
		if r := h.checkReported(); r != nil {
			return r
		}
	} else {
		to.stale = h.behind()
		to.exists = func(t topology.TaskID) bool { return h.configured != nil && taskExists(h.configured, t) }
		to.slots = h.warmupSlots
	}
	owners := h.ownership()
	r := reconcile(h.cur, to, h.owned, owners, h.meta.ProcessID)
	if r.fenced {
		h.fenced()
		return refuse(kerr.FencedMemberEpoch, "the coordinator does not know what the member holds: join again with epoch 0")
	}
	h.next = r.current
	if h.next.equal(h.cur) {
		return nil
	}
	h.append(h.next.record(h.g.id, h.meta.Member))
	if h.next.state == unrevokedTasks {
		h.fx.soft.rebalance = armTimer
	} else {
		h.fx.soft.rebalance = cancelTimer
	}
	h.stepEvents(r, owners)
	return nil
}

// stepEvents tells what a step changed for the member.
func (h *heartbeat) stepEvents(r reconciled, owners ownership) {
	id, member := h.g.id, h.meta.Member
	for _, role := range allRoles {
		if given := h.cur.pending.of(role).minus(*r.pending.of(role)); len(given) > 0 {
			h.event(RevocationAcknowledged{Group: id, Member: member, Role: role, Tasks: slices.Clone(given)})
		}
	}
	for _, role := range allRoles {
		if asked := r.pending.of(role).minus(*h.cur.pending.of(role)); len(asked) > 0 {
			h.event(RevocationAsked{Group: id, Member: member, Role: role, Tasks: slices.Clone(asked), Within: rebalanceTimeout(h.meta)})
		}
	}
	for _, role := range allRoles {
		if granted := r.assigned.of(role).minus(*h.cur.assigned.of(role)); len(granted) > 0 {
			h.event(TasksGranted{Group: id, Member: member, Role: role, Epoch: h.assignment, Tasks: slices.Clone(granted)})
		}
	}
	if r.state == unreleasedTasks && (h.cur.state != unreleasedTasks || h.cur.epoch != r.epoch) {
		h.waitingEvents(r, owners)
	}
	if r.epoch != h.cur.epoch {
		h.event(EpochReached{Group: id, Member: member, Epoch: r.epoch})
	}
}

func (h *heartbeat) waitingEvents(r reconciled, owners ownership) {
	for _, role := range allRoles {
		waiting := *r.waiting.of(role)
		if len(waiting) == 0 {
			continue
		}
		var holders []string
		var conflicts []Conflict
		for _, t := range waiting {
			holders = append(holders, owners.holders(role, t, h.meta.ProcessID)...)
			if role == Active {
				conflicts = append(conflicts, owners.conflicts(t)...)
			}
		}
		slices.Sort(holders)
		h.event(TasksWaiting{Group: h.g.id, Member: h.meta.Member, Role: role, Tasks: slices.Clone(waiting), Holders: slices.Compact(holders), Conflicts: conflicts})
	}
}
