package kfakeext

import (
	"fmt"
	"strings"

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
		known := a.core.Has(req.Group) || a.log.has(req.Group)
		a.mu.Unlock()
		// The coordinator itself refuses blank ids, wherever they arrive.
		if strings.TrimSpace(req.Group) != "" && a.fake.CoordinatorFor(req.Group) != node {
			resp.ErrorCode = kerr.NotCoordinator.Code
			return resp, nil, true
		}
		if !known {
			kind = a.existing(req.Group)
		}
		a.mu.Lock()
		a.settle(now, req.Group, node)
		names := a.required(req.Group, req.Topology)
		a.mu.Unlock()
		a.topics.read(names)
		a.mu.Lock()
		if p = a.places[req.Group]; p != nil {
			p.topicsAt, p.topicGen = now.Mono, a.topicGen
		}
	}
	create := a.decide(now, s, req, kind, resp)
	if p == nil && a.core.Has(req.Group) {
		p = &place{node: node, placedAt: now.Mono, placeGen: a.placeGen, moved: a.moved.Load(), topicsAt: now.Mono, topicGen: a.topicGen}
		a.places[req.Group] = p
	}
	if p != nil {
		state, _ := a.core.State(req.Group)
		p.notReady = state == coordinator.NotReady
	}
	a.mu.Unlock()
	if len(create) > 0 && resp.ErrorCode == 0 {
		a.create(now, s, create, resp)
	}
	return resp, nil, true
}

// decide asks the core and keeps what it decides. The lock is held.
func (a *adapter) decide(now coordinator.Now, s sender, req *kmsg.StreamsGroupHeartbeatRequest, kind coordinator.GroupKind, resp *kmsg.StreamsGroupHeartbeatResponse) []topics.NewTopic {
	a.req = coordinator.Request{StreamsGroupHeartbeatRequest: req, ClientHost: "/127.0.0.1", Existing: kind}
	if s.who != nil {
		a.req.ClientID, a.req.ClientHost = s.who.clientID, s.who.host
	}
	if a.authorize != nil {
		a.heartbeatAccess = access{allow: a.authorize, caller: s.public()}
		a.req.Access = &a.heartbeatAccess
	}
	a.core.Handle(now, a.topics.current(), &a.req, resp, &a.fx)
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

// heartbeatResponse returns the response to fill. A connection has one request
// under way at most, and its response is encoded before the next is handled, so
// one response per connection is enough.
func heartbeatResponse(s sender, req *kmsg.StreamsGroupHeartbeatRequest) *kmsg.StreamsGroupHeartbeatResponse {
	if s.who == nil {
		return req.ResponseKind().(*kmsg.StreamsGroupHeartbeatResponse)
	}
	resp := &s.who.conn.heartbeat
	*resp = kmsg.StreamsGroupHeartbeatResponse{Version: req.Version}
	resp.Default()
	return resp
}

// topologyDescription answers as a broker without the plugin of KIP-1331.
func (a *adapter) topologyDescription(req *kmsg.StreamsGroupTopologyDescriptionUpdateRequest) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
	if err, refused := a.features.check(req); refused {
		return nil, err, err != nil
	}
	resp := req.ResponseKind().(*kmsg.StreamsGroupTopologyDescriptionUpdateResponse)
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	return resp, nil, true
}

func unsupported(key, version int16) error {
	return fmt.Errorf("kfakeext: version %d of %s is not advertised", version, kmsg.NameForKey(key))
}
