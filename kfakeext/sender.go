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
	c := Caller{Principal: "User:ANONYMOUS", ClientID: s.who.clientID, Host: s.who.host}
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
	allow  func(Caller, kmsg.ACLOperation, kmsg.ACLResourceType, string) bool
	caller Caller
}

// Allowed implements [coordinator.Access].
func (a *access) Allowed(op kmsg.ACLOperation, kind kmsg.ACLResourceType, name string) bool {
	return a.allow(a.caller, op, kind, name)
}

// access returns nil if everybody may do everything.
func (a *adapter) access(s sender) coordinator.Access {
	if a.authorize == nil {
		return nil
	}
	return &access{allow: a.authorize, caller: s.public()}
}

func (a *adapter) allowed(s sender, op kmsg.ACLOperation, kind kmsg.ACLResourceType, name string) bool {
	return a.authorize == nil || a.authorize(s.public(), op, kind, name)
}
