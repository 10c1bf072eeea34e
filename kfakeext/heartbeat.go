package kfakeext

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
)

// StreamsGroupHeartbeat: v0-1 (KIP-1071)
//
// Version notes:
//   - v1: task offsets, rack-aware client tags, STALE_TOPOLOGY
func (a *adapter) heartbeat(s sender, req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
	if err, refused := a.features.check(req); refused {
		return nil, err, err != nil
	}
	resp := heartbeatResponse(s, req)
	if a.features.off() {
		resp.ErrorCode = kerr.UnsupportedVersion.Code
		return resp, nil, true
	}
	node := a.fake.CurrentNode()
	now := a.now()
	kind := coordinator.NoGroup

	a.mu.Lock()
	p := a.places[req.Group]
	if req.MemberEpoch <= 0 || !a.settled(p, now, node) {
		a.mu.Unlock()
		if !a.listTopics(now, node, req) {
			return nil, ErrClosed, true
		}
		if a.fake.CoordinatorFor(req.Group) != node {
			a.elsewhere(s, req, resp)
			return resp, nil, true
		}
		now = a.now()
		kind = a.look(now, node, req)
		a.mu.Lock()
	}
	create := a.decide(now, s, req, kind, resp)
	if p = a.places[req.Group]; p == nil && a.core.Has(req.Group) {
		p = &place{node: node, placedAt: now.Mono, placeGen: a.placeGen, moved: a.moved.Load(), topicsAt: now.Mono, topicGen: a.topicGen}
		a.places[req.Group] = p
	}
	var out kmsg.Response = resp
	if p != nil {
		out = p.shareEndpoints(resp)
		state, _ := a.core.State(req.Group)
		p.notReady = state == coordinator.NotReady
		if req.Topology != nil {
			p.patterns = a.core.HasPatterns(req.Group)
		}
	}
	a.mu.Unlock()
	if len(create) > 0 && resp.ErrorCode == 0 {
		a.create(now, s, create, resp)
	}
	return out, nil, true
}

// look asks the cluster what it holds under the group's id and about the topics
// that a heartbeat needs. The group is loaded if it has moved to this node.
func (a *adapter) look(now coordinator.Now, node int32, req *kmsg.StreamsGroupHeartbeatRequest) (kind coordinator.GroupKind) {
	a.mu.Lock()
	known := a.core.Has(req.Group) || a.log.has(req.Group)
	a.mu.Unlock()
	if !known {
		kind = a.existing(req.Group)
	}
	a.mu.Lock()
	a.settle(now, req.Group, node)
	names := a.required(req.Group, req.Topology)
	a.mu.Unlock()
	a.topics.read(names)
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.places[req.Group]; p != nil {
		p.topicsAt, p.topicGen = now.Mono, a.topicGen
		p.patterns = a.core.HasPatterns(req.Group)
	}
	return kind
}

// decide asks the core and keeps what it decides. The lock is held, but not all
// the time.
func (a *adapter) decide(now coordinator.Now, s sender, req *kmsg.StreamsGroupHeartbeatRequest, kind coordinator.GroupKind, resp *kmsg.StreamsGroupHeartbeatResponse) []topics.NewTopic {
	a.prepare(s, req, kind)
	a.logEnds.now = now.Mono
	a.core.Handle(now, a.topics.current(), &a.req, resp, &a.fx)
	// What a decision depends on may depend on what the one before did not know.
	for tries := 0; tries < 3 && a.lookUpLogEnds(); tries++ {
		now = a.now()
		a.logEnds.now = now.Mono
		blank(resp, req.Version)
		a.core.Handle(now, a.topics.current(), &a.req, resp, &a.fx)
	}
	a.req = coordinator.Request{}
	if err := a.commit(now, &a.fx); err != nil {
		coordinator.AppendFailed(resp, err)
	}
	a.arm(now)
	if len(a.fx.CreateTopics) == 0 {
		return nil
	}
	return append([]topics.NewTopic(nil), a.fx.CreateTopics...)
}

// prepare fills the request of the core. The lock is held.
func (a *adapter) prepare(s sender, req *kmsg.StreamsGroupHeartbeatRequest, kind coordinator.GroupKind) {
	a.req = coordinator.Request{StreamsGroupHeartbeatRequest: req, ClientHost: noHost, Existing: kind}
	if s.who != nil {
		a.req.ClientID, a.req.ClientHost = s.who.clientID, s.who.host
	}
	if !a.free(s) {
		a.heartbeatAccess = access{a, s.public()}
		a.req.Access = &a.heartbeatAccess
	}
}

// elsewhere answers a heartbeat of a group that another node coordinates. An
// unfit request is refused as such: that comes first in Kafka.
func (a *adapter) elsewhere(s sender, req *kmsg.StreamsGroupHeartbeatRequest, resp *kmsg.StreamsGroupHeartbeatResponse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.prepare(s, req, coordinator.NoGroup)
	if a.core.Check(&a.req, resp) {
		resp.ErrorCode = kerr.NotCoordinator.Code
	}
	a.req = coordinator.Request{}
}

// heartbeatResponse returns the response to fill. A connection has one request
// under way at most, and its response is encoded before the next is handled, so
// one response per connection is enough.
func heartbeatResponse(s sender, req *kmsg.StreamsGroupHeartbeatRequest) *kmsg.StreamsGroupHeartbeatResponse {
	var resp *kmsg.StreamsGroupHeartbeatResponse
	if s.who != nil {
		resp = &s.who.conn.heartbeat
	} else {
		resp = new(kmsg.StreamsGroupHeartbeatResponse)
	}
	blank(resp, req.Version)
	return resp
}

func blank(resp *kmsg.StreamsGroupHeartbeatResponse, version int16) {
	*resp = kmsg.StreamsGroupHeartbeatResponse{Version: version}
	resp.Default()
	resp.Status = noStatuses
}

// noStatuses is an empty list, which is not the same as null on the wire. It has
// no room, so appending to it copies.
var noStatuses = []kmsg.StreamsGroupHeartbeatResponseStatus{}

func unsupported(key, version int16) error {
	return fmt.Errorf("kfakeext: version %d of %s is not advertised", version, kmsg.NameForKey(key))
}
