package kfakeext

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
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
		resp.ErrorCode = kerr.GroupIDNotFound.Code
		return resp, nil, true
	}
	a.noteKind(req.Group)
	return nil, nil, false
}

// ShareGroupHeartbeat: v0-1
func (a *adapter) shareHeartbeat(req *kmsg.ShareGroupHeartbeatRequest) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
	if !a.owns(req.GroupID) {
		return nil, nil, false
	}
	resp := req.ResponseKind().(*kmsg.ShareGroupHeartbeatResponse)
	resp.ErrorCode = kerr.GroupIDNotFound.Code
	return resp, nil, true
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
