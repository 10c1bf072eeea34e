package coordinator

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// resolveGroup finds the group of a heartbeat or makes a scratch one. A scratch
// group is not part of the state: applying its records creates the real one.
func (h *heartbeat) resolveGroup() *refusal {
	if h.g = h.c.groups[h.req.Group]; h.g == nil {
		switch {
		case h.req.MemberEpoch > 0:
			return refuse(kerr.GroupIDNotFound, "there is no streams group %q", h.req.Group)
		case h.req.Existing == ClassicGroup:
			return refuse(kerr.GroupIDNotFound, "%q is a classic group with members: stop them first, or use another group id", h.req.Group)
		case h.req.Existing == OtherGroup:
			return refuse(kerr.GroupIDNotFound, "%q is a group of another type: use another group id", h.req.Group)
		}
		h.g, h.created = newGroup(strings.Clone(h.req.Group), h.c.policy), true
	}
	if h.cfg = h.g.config; h.cfg == nil {
		h.cfg = h.c.effectiveConfig(h.g.id)
		h.fx.soft.config = h.cfg
		for _, e := range h.cfg.clamped {
			h.event(e)
		}
	}
	return h.checkCapacity()
}

// checkCapacity keeps a group from growing beyond its limit. A member that is in
// already may always come back.
func (h *heartbeat) checkCapacity() *refusal {
	g, req := h.g, h.req
	if req.MemberEpoch != 0 || g.members[req.MemberID] != nil || req.InstanceID != nil && g.static[*req.InstanceID] != "" {
		return nil
	}
	if limit := h.c.broker.ints[cfgMaxSize]; int64(len(g.members)) >= limit {
		return refuse(kerr.GroupMaxSizeReached, "group %q has %d members, which is the limit (%s)", g.id, len(g.members), cfgMaxSize)
	}
	return nil
}

// resolveMember finds the member of a heartbeat and checks its epoch.
func (h *heartbeat) resolveMember() *refusal {
	g, req := h.g, h.req
	if req.InstanceID == nil {
		h.old = g.members[req.MemberID]
		if h.old == nil && req.MemberEpoch > 0 {
			return refuse(kerr.UnknownMemberID, "%q is not a member of group %q", req.MemberID, g.id)
		}
	} else if r := h.resolveStatic(*req.InstanceID); r != nil {
		return r
	}
	switch {
	case h.replaced != "":
		// The replacement is a copy under the new id that starts at epoch 0.
		m := g.members[h.replaced]
		h.base, h.cur, h.target = m.meta, m.cur, m.target
		h.cur.epoch, h.cur.previousEpoch = 0, 0
	case h.old != nil:
		h.base, h.cur, h.target = h.old.meta, h.old.cur, h.old.target
		return h.checkEpoch()
	default:
		m := newMember(g, "")
		h.base, h.cur, h.joined = m.meta, m.cur, true
	}
	return nil
}

func (h *heartbeat) resolveStatic(instance string) *refusal {
	g, req := h.g, h.req
	owner, known := g.static[instance]
	switch {
	case req.MemberEpoch == 0 && !known:
		h.old = g.members[req.MemberID]
	case req.MemberEpoch == 0 && g.members[owner].cur.epoch == absent:
		h.replaced = owner
	case req.MemberEpoch == 0 && owner == req.MemberID && h.c.policy == KIP1071:
		// A member that was fenced joins again. To Kafka the instance is taken, by the
		// member itself, which ends it.
		h.old = g.members[owner]
	case req.MemberEpoch == 0:
		return refuse(kerr.UnreleasedInstanceID, "instance %q is held by member %q, which has not left: wait until it leaves or its session ends", instance, owner)
	case !known:
		return refuse(kerr.UnknownMemberID, "instance %q is not in group %q", instance, g.id)
	case owner != req.MemberID:
		return fencedInstance(instance, owner)
	default:
		h.old = g.members[owner]
	}
	return nil
}

func fencedInstance(instance, owner string) *refusal {
	return refuse(kerr.FencedInstanceID, "instance %q is held by member %q: is a second process using it?", instance, owner)
}

// checkEpoch fences a member whose epoch is not the coordinator's. The epoch
// before is accepted if the member runs nothing that it was not given: the
// answer with the new epoch may have been lost. A refused member is not removed.
func (h *heartbeat) checkEpoch() *refusal {
	e, m := h.req.MemberEpoch, h.cur
	switch {
	case e == 0, e == m.epoch:
		return nil
	case e < m.epoch && e == m.previousEpoch && h.owned != nil && h.owned.subsetOf(m.assigned):
		return nil
	}
	h.fenced()
	return refuse(kerr.FencedMemberEpoch, "member epoch %d is not the coordinator's %d: join again with epoch 0", e, m.epoch)
}

func (h *heartbeat) fenced() {
	h.event(MemberFenced{Group: h.g.id, Member: h.base.Member, RequestEpoch: h.req.MemberEpoch, MemberEpoch: h.cur.epoch, PreviousMemberEpoch: h.cur.previousEpoch})
}

// replaceStatic writes the six records of a static member that returns under a
// new id, or under its old one.
func (h *heartbeat) replaceStatic() {
	if h.replaced == "" {
		return
	}
	g, from := h.g, h.replaced
	meta := *h.base
	meta.Member = strings.Clone(h.req.MemberID)
	h.base = &meta
	h.append(tombstone(record.TypeCurrentAssignment, g.id, from))
	h.append(tombstone(record.TypeTargetAssignment, g.id, from))
	h.append(tombstone(record.TypeMemberMetadata, g.id, from))
	h.append(&meta)
	h.append(targetRecord(g.id, meta.Member, h.targetTasks()))
	h.append(h.cur.record(g.id, meta.Member))
	h.event(MemberReplaced{Group: g.id, InstanceID: deref(meta.InstanceID), Old: from, New: meta.Member})
	if h.c.policy == KIP1071 && from != meta.Member && g.members[meta.Member] != nil {
		// The new id was a member before: what that one held is free now. Kafka
		// leaves it to nobody until something else asks for an assignment.
		h.bump(ReasonMemberChanged)
	}
}

func tombstone(t record.Type, group, member string) record.Record {
	return record.Tombstone{Key: record.Key{Type: t, Group: group, Member: member}}
}

// overlayMetadata applies what the request says of the member and decides
// whether that asks for a new assignment.
func (h *heartbeat) overlayMetadata() {
	req, m := h.req, h.base
	if h.sameMetadata() {
		h.meta = m
		return
	}
	meta := *m
	meta.Member, meta.ClientID, meta.ClientHost = strings.Clone(req.MemberID), strings.Clone(req.ClientID), strings.Clone(req.ClientHost)
	if req.InstanceID != nil {
		meta.InstanceID = cloned(req.InstanceID)
	}
	if req.RackID != nil {
		meta.RackID = cloned(req.RackID)
	}
	if req.RebalanceTimeoutMillis != -1 {
		meta.RebalanceTimeoutMillis = req.RebalanceTimeoutMillis
	}
	if req.Topology != nil {
		meta.TopologyEpoch = req.Topology.Epoch
	}
	if req.ProcessID != nil {
		meta.ProcessID = strings.Clone(*req.ProcessID)
	}
	switch {
	case req.UserEndpoint != nil:
		meta.UserEndpoint = &record.Endpoint{Host: strings.Clone(req.UserEndpoint.Host), Port: req.UserEndpoint.Port}
	case req.MemberEpoch == 0:
		meta.UserEndpoint = nil
	}
	if req.ClientTags != nil {
		meta.ClientTags = tagsFromWire(req.ClientTags)
	}
	h.meta = &meta
	h.append(&meta)
	if h.joined {
		h.event(MemberJoined{Group: h.g.id, Member: meta.Member, InstanceID: deref(meta.InstanceID), ProcessID: meta.ProcessID, ClientID: meta.ClientID, TopologyEpoch: meta.TopologyEpoch})
	}
	// A static member may return from elsewhere without anybody being moved.
	if req.InstanceID == nil || m.TopologyEpoch != meta.TopologyEpoch || m.ProcessID != meta.ProcessID ||
		!equalOptional(m.RackID, meta.RackID) || !slices.Equal(m.ClientTags, meta.ClientTags) {
		if h.joined {
			h.bump(ReasonMemberJoined)
		} else {
			h.bump(ReasonMemberChanged)
		}
	}
}

// sameMetadata is whether the request says nothing new of the member.
func (h *heartbeat) sameMetadata() bool {
	req, m := h.req, h.base
	return m.Member == req.MemberID && m.ClientID == req.ClientID && m.ClientHost == req.ClientHost &&
		(req.InstanceID == nil || equalOptional(m.InstanceID, req.InstanceID)) &&
		(req.RackID == nil || equalOptional(m.RackID, req.RackID)) &&
		(req.RebalanceTimeoutMillis == -1 || m.RebalanceTimeoutMillis == req.RebalanceTimeoutMillis) &&
		(req.Topology == nil || m.TopologyEpoch == req.Topology.Epoch) &&
		(req.ProcessID == nil || m.ProcessID == *req.ProcessID) &&
		sameEndpoint(m.UserEndpoint, req) &&
		(req.ClientTags == nil || sameTags(m.ClientTags, req.ClientTags))
}

// sameEndpoint: a join without an endpoint takes it away, a heartbeat without
// one leaves it.
func sameEndpoint(e *record.Endpoint, req *Request) bool {
	if req.UserEndpoint == nil {
		return req.MemberEpoch != 0 || e == nil
	}
	return e != nil && e.Host == req.UserEndpoint.Host && e.Port == req.UserEndpoint.Port
}

func sameTags(have []record.KeyValue, sent []wireTag) bool {
	for i := range sent {
		if t := findTag(have, sent[i].Key); t == nil || t.Value != sent[i].Value {
			return false
		}
	}
	return len(have) == len(sent)
}

func findTag(tags []record.KeyValue, key string) *record.KeyValue {
	i, ok := slices.BinarySearchFunc(tags, key, func(t record.KeyValue, key string) int { return strings.Compare(t.Key, key) })
	if !ok {
		return nil
	}
	return &tags[i]
}

// tagsFromWire sorts client tags by key.
func tagsFromWire(in []wireTag) []record.KeyValue {
	var out []record.KeyValue
	for _, t := range in {
		out = append(out, record.KeyValue{Key: strings.Clone(t.Key), Value: strings.Clone(t.Value)})
	}
	slices.SortFunc(out, func(a, b record.KeyValue) int { return strings.Compare(a.Key, b.Key) })
	return out
}

func cloned(s *string) *string {
	c := strings.Clone(*s)
	return &c
}

func equalOptional(a, b *string) bool {
	return (a == nil) == (b == nil) && deref(a) == deref(b)
}
