package coordinator

import (
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// absent is the member epoch of a static member that has left for a moment.
const absent = -2

// leave handles member epochs -1 and -2. The member's epoch is not compared:
// leaving always works for a member that is known.
func (h *heartbeat) leave(resp *kmsg.StreamsGroupHeartbeatResponse) *refusal {
	req, g := h.req, h.c.groups[h.req.Group]
	if g == nil {
		return refuse(kerr.GroupIDNotFound, "there is no streams group %q", req.Group)
	}
	h.g = g
	h.fx.soft.g = g
	if req.ShutdownApplication && g.shutdownBy == "" {
		h.fx.soft.shutdownBy = strings.Clone(req.MemberID)
		h.event(ShutdownRequested{Group: g.id, Member: h.fx.soft.shutdownBy})
	}
	m := g.members[req.MemberID]
	if req.InstanceID != nil {
		switch owner, known := g.static[*req.InstanceID]; {
		case !known:
			return refuse(kerr.UnknownMemberID, "instance %q is not in group %q", *req.InstanceID, g.id)
		case owner != req.MemberID:
			return fencedInstance(*req.InstanceID, owner)
		}
	}
	if m == nil {
		return refuse(kerr.UnknownMemberID, "%q is not a member of group %q", req.MemberID, g.id)
	}
	if req.MemberEpoch == absent {
		h.leaveForAMoment(m)
	} else {
		h.c.remove(g, m, Left, 0, h.fx)
	}
	emptyResponse(resp)
	resp.MemberID, resp.MemberEpoch = m.meta.Member, req.MemberEpoch
	return nil
}

// leaveForAMoment marks a static member as absent: it keeps its tasks until its
// session ends. What it was to give up is free at once.
func (h *heartbeat) leaveForAMoment(m *member) {
	c := m.cur
	c.epoch = absent
	c.epochs = make([]int32, len(c.epochs))
	c.pending, c.pendingEpochs = roles{}, nil
	h.append(c.record(h.g.id, m.meta.Member))
	h.event(MemberLeft{Group: h.g.id, Member: m.meta.Member, InstanceID: m.instanceID(), Cause: LeftTemporarily, Held: slices.Clone(m.cur.pending.active)})
}

// remove writes the end of a membership. The next heartbeat of a remaining
// member computes the new assignment.
func (c *coordinatorState) remove(g *group, m *member, cause LeaveCause, after time.Duration, fx *Effects) {
	id := m.meta.Member
	fx.Records = append(fx.Records,
		tombstone(record.TypeCurrentAssignment, g.id, id),
		tombstone(record.TypeTargetAssignment, g.id, id),
		tombstone(record.TypeMemberMetadata, g.id, id),
		g.metadata(g.epoch+1))
	if len(g.members) == 1 {
		// An empty group is up to date, so that a later join is not held back.
		fx.Records = append(fx.Records, &record.TargetAssignmentMetadata{Group: g.id, AssignmentEpoch: g.epoch + 1})
	}
	fx.soft.g = g
	if c.policy == Kafka && m.target != nil {
		fx.soft.departed = &departure{g.assignmentEpoch, id, *m.target}
	}
	// Kafka goes on telling members about the endpoint of one that is gone.
	fx.soft.endpointBump = c.policy == KIP1071 && m.meta.UserEndpoint != nil
	fx.Events = append(fx.Events,
		MemberLeft{Group: g.id, Member: id, InstanceID: m.instanceID(), Cause: cause, After: after, Held: slices.Clone(m.held().active)},
		EpochBumped{Group: g.id, Epoch: g.epoch + 1, Member: id, Reasons: []Reason{ReasonMemberLeft}})
}
