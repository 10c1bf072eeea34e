package kfakeext

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
)

// Caller is who sends a request, as far as its connection tells. All fields are
// empty for requests too old to carry an identity.
type Caller struct {
	// Principal is "User:" and the name that the connection has authenticated
	// with, or "User:ANONYMOUS" without SASL.
	Principal string
	ClientID  string
	// Host is the peer's address with Kafka's leading slash: "/127.0.0.1".
	Host string
}

// anonymous is the principal without SASL.
const anonymous = "User:ANONYMOUS"

// noHost is the host of those within the process.
const noHost = "/127.0.0.1"

// sender is the sender of one request.
type sender struct {
	who  *caller // nil if unknown
	corr int32
}

func (s sender) authenticated() bool {
	if s.who == nil {
		return false
	}
	_, ok := s.who.conn.user()
	return ok
}

func (s sender) public() Caller {
	if s.who == nil {
		return Caller{}
	}
	c := Caller{Principal: anonymous, ClientID: s.who.clientID, Host: s.who.host}
	if name, ok := s.who.conn.user(); ok {
		c.Principal = "User:" + name
	}
	return c
}

// edit has the response to the request edited before it leaves. It returns
// false if the response cannot be told from others.
func (s sender) edit(req kmsg.Request, fn func(kmsg.Response)) bool {
	if s.who == nil {
		return false
	}
	s.who.conn.rewrite(s.corr, rewrite{key: req.Key(), version: req.GetVersion(), edit: fn})
	return true
}

// access answers the coordinator's questions about a sender.
type access struct {
	a      *adapter
	caller Caller
}

// Allowed implements [coordinator.Access].
func (x *access) Allowed(op kmsg.ACLOperation, kind kmsg.ACLResourceType, name string) bool {
	if x.a.authorize != nil {
		return x.a.authorize(x.caller, op, kind, name)
	}
	return x.a.acls.allowed(x.caller.Principal, hostOf(x.caller.Host), op, kind, name)
}

// free is whether the sender may do everything.
func (a *adapter) free(s sender) bool {
	switch {
	case a.authorize != nil:
		return false
	case a.tap.sasl.Load() && s.who != nil:
		return s.who.conn.standing() == standingFree
	}
	return standing(a.anonymous.Load()) == standingFree
}

// access returns nil if the sender may do everything.
func (a *adapter) access(s sender) coordinator.Access {
	if a.free(s) {
		return nil
	}
	who := s.public()
	if s.who == nil && !a.tap.sasl.Load() {
		who.Principal = anonymous // as everybody is; only the host is not known
	}
	return &access{a, who}
}

func (a *adapter) allowed(s sender, op kmsg.ACLOperation, kind kmsg.ACLResourceType, name string) bool {
	acl := a.access(s)
	return acl == nil || acl.Allowed(op, kind, name)
}

// memberGroup is the group of a request of kfake's that members of a group send.
func memberGroup(req kmsg.Request) (group string, ok bool) {
	switch r := req.(type) {
	case *kmsg.OffsetCommitRequest:
		return r.Group, true
	case *kmsg.TxnOffsetCommitRequest:
		return r.Group, true
	case *kmsg.JoinGroupRequest:
		return r.Group, true
	case *kmsg.SyncGroupRequest:
		return r.Group, true
	case *kmsg.HeartbeatRequest:
		return r.Group, true
	case *kmsg.LeaveGroupRequest:
		return r.Group, true
	case *kmsg.ConsumerGroupHeartbeatRequest:
		return r.Group, true
	case *kmsg.ShareGroupHeartbeatRequest:
		return r.GroupID, true
	}
	return "", false
}

// refusedByCluster is whether kfake itself refuses what members do in a group.
// Nothing that is said of the group in its place is meant for the sender.
func (a *adapter) refusedByCluster(s sender, group string) bool {
	return a.authorize == nil && !a.allowed(s, kmsg.ACLOperationRead, kmsg.ACLResourceTypeGroup, group)
}
