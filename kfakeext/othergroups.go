package kfakeext

import (
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
)

// One id belongs to one type of group. These are the requests of the other
// types.

// JoinGroup: v0-9. An empty streams group makes room for a classic one and
// leaves it the offsets.
func (a *adapter) joinGroup(s sender, req *kmsg.JoinGroupRequest) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
	if !a.owns(req.Group) || !a.allowed(s, kmsg.ACLOperationRead, kmsg.ACLResourceTypeGroup, req.Group) {
		return nil, nil, false
	}
	if !a.forgetDescriptions([]string{req.Group}, true) {
		return nil, ErrClosed, true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	code, handled := a.core.Convert(req.Group, &a.fx)
	if handled && code == 0 {
		if err := a.commit(now, &a.fx); err != nil {
			code = kerr.UnknownServerError.Code
		}
		a.drop(req.Group)
		a.arm(now)
	}
	if !handled || code == 0 {
		return nil, nil, false
	}
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.ErrorCode, resp.MemberID, resp.Generation = code, "", -1
	return resp, nil, true
}

// SyncGroup: v0-5
func (a *adapter) syncGroup(req *kmsg.SyncGroupRequest) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
	if !a.owns(req.Group) {
		return nil, nil, false
	}
	resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
	resp.ErrorCode = kerr.UnknownMemberID.Code
	return resp, nil, true
}

// Heartbeat: v0-4
func (a *adapter) classicHeartbeat(req *kmsg.HeartbeatRequest) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
	if !a.owns(req.Group) {
		return nil, nil, false
	}
	resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
	resp.ErrorCode = kerr.UnknownMemberID.Code
	return resp, nil, true
}

// LeaveGroup: v0-5. Since v3 many members leave at once, each with its own
// answer.
func (a *adapter) leaveGroup(req *kmsg.LeaveGroupRequest) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
	if !a.owns(req.Group) {
		return nil, nil, false
	}
	resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
	if req.Version < 3 {
		resp.ErrorCode = kerr.UnknownMemberID.Code
		return resp, nil, true
	}
	for _, m := range req.Members {
		rm := kmsg.NewLeaveGroupResponseMember()
		rm.MemberID, rm.InstanceID, rm.ErrorCode = m.MemberID, m.InstanceID, kerr.UnknownMemberID.Code
		resp.Members = append(resp.Members, rm)
	}
	return resp, nil, true
}

// ConsumerGroupHeartbeat: v0-1. Unlike a classic group, a consumer group never
// takes the id of a streams group, not even of an empty one.
func (a *adapter) consumerHeartbeat(req *kmsg.ConsumerGroupHeartbeatRequest) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
	if a.owns(req.Group) {
		resp := req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
		resp.ErrorCode, resp.ErrorMessage = kerr.GroupIDNotFound.Code, streamsGroupText(req.Group)
		return resp, nil, true
	}
	if req.MemberEpoch != 0 && req.Group != "" && a.mayBecomeConsumers(req.Group) {
		// kfake makes a group for everybody, and a streams group could not have
		// the id any more. In Kafka only a join makes one.
		resp := req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
		resp.ErrorCode, resp.ErrorMessage = kerr.GroupIDNotFound.Code, kmsg.StringPtr("there is no group "+req.Group)
		return resp, nil, true
	}
	a.noteKind(req.Group)
	return nil, nil, false
}

// mayBecomeConsumers is whether a consumer group can have the id, and there is none
// yet. This node coordinates it.
func (a *adapter) mayBecomeConsumers(group string) bool {
	if a.fake.CoordinatorFor(group) != a.fake.CurrentNode() {
		return false
	}
	switch a.existing(group) {
	case coordinator.NoGroup, coordinator.SimpleGroup, coordinator.EmptyClassicGroup:
		return true
	case coordinator.ClassicGroup, coordinator.OtherGroup:
	}
	return false
}

// ShareGroupHeartbeat: v0-1
func (a *adapter) shareHeartbeat(req *kmsg.ShareGroupHeartbeatRequest) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
	if !a.owns(req.GroupID) {
		return nil, nil, false
	}
	resp := req.ResponseKind().(*kmsg.ShareGroupHeartbeatResponse)
	resp.ErrorCode, resp.ErrorMessage = kerr.GroupIDNotFound.Code, streamsGroupText(req.GroupID)
	return resp, nil, true
}

// streamsGroupText tells those who take an id for one of another type of group.
func streamsGroupText(group string) *string {
	return kmsg.StringPtr("group " + group + " is a streams group")
}

// ConsumerGroupDescribe: v0-1. kfake finds no consumer group under the id of a
// streams group; Kafka says which type of group there is.
func (a *adapter) consumerGroupDescribe(s sender, req *kmsg.ConsumerGroupDescribeRequest) {
	ours := a.owned(req.Groups)
	if len(ours) == 0 {
		return
	}
	s.edit(req, func(resp kmsg.Response) {
		r, ok := resp.(*kmsg.ConsumerGroupDescribeResponse)
		if !ok {
			return
		}
		for i := range r.Groups {
			if g := &r.Groups[i]; ours[g.Group] && g.ErrorCode == kerr.GroupIDNotFound.Code {
				g.ErrorMessage, g.AuthorizedOperations = streamsGroupText(g.Group), noOperations
			}
		}
	})
}

// ShareGroupDescribe: v0-1, the same.
func (a *adapter) shareGroupDescribe(s sender, req *kmsg.ShareGroupDescribeRequest) {
	ours := a.owned(req.GroupIDs)
	if len(ours) == 0 {
		return
	}
	s.edit(req, func(resp kmsg.Response) {
		r, ok := resp.(*kmsg.ShareGroupDescribeResponse)
		if !ok {
			return
		}
		for i := range r.Groups {
			if g := &r.Groups[i]; ours[g.GroupID] && g.ErrorCode == kerr.GroupIDNotFound.Code {
				g.ErrorMessage, g.AuthorizedOperations = streamsGroupText(g.GroupID), noOperations
			}
		}
	})
}

// noOperations stands for operations that were not asked for, or are not told
// because of an error.
const noOperations = math.MinInt32

// owned are those of the groups that are ours.
func (a *adapter) owned(groups []string) map[string]bool {
	ours := make(map[string]bool)
	for _, group := range groups {
		if a.owns(group) {
			ours[group] = true
		}
	}
	return ours
}

// forgetKind is for a group that is about to be deleted, unless it has members.
func (a *adapter) forgetKind(group string) {
	a.mu.Lock()
	noted := a.kinds[group]
	a.mu.Unlock()
	if !noted {
		return
	}
	if info := a.fake.GroupInfo(group); info != nil && len(info.Members) > 0 {
		return
	}
	a.mu.Lock()
	delete(a.kinds, group)
	a.mu.Unlock()
}

// noteKind remembers that kfake is about to make a consumer group of an id:
// unless there is a classic group with members, any heartbeat does that, and the
// group stays one until it is deleted.
func (a *adapter) noteKind(group string) {
	a.mu.Lock()
	noted := a.kinds[group]
	a.mu.Unlock()
	if noted || a.fake.CoordinatorFor(group) != a.fake.CurrentNode() {
		return
	}
	if info := a.fake.GroupInfo(group); info != nil && (len(info.Members) > 0 || info.Commits == nil) {
		return
	}
	a.mu.Lock()
	a.kinds[group] = true
	a.mu.Unlock()
}
