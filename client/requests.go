package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/streamsgroup/streamsgroup/membership"
)

// findTimeout bounds one look-up of the coordinator.
const findTimeout = 10 * time.Second

// findCoordinator looks the coordinator up and learns which version of the
// heartbeat it speaks.
func (r *runtime) findCoordinator() {
	m := r.m
	ctx, cancel := context.WithTimeout(r.ctx, findTimeout)
	defer cancel()
	node, err := findCoordinator(ctx, m.cl, m.group)
	version := int16(-1)
	if err == nil {
		version, err = heartbeatVersion(ctx, m.cl, node)
	}
	if r.ctx.Err() != nil {
		return
	}
	m.input(func(now time.Duration) {
		_, unsupported := errors.AsType[*UnsupportedError](err)
		switch {
		case unsupported, errors.Is(err, kgo.ErrClientClosed):
			m.core.CoordinatorUnsupported(err)
		case err != nil:
			m.core.CoordinatorFailed(now, err)
		default:
			m.node, m.version = node, version
			m.core.CoordinatorFound(now, version)
		}
	})
}

func (m *Member) coordinatorNode() int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.node
}

// findCoordinator asks any broker for the coordinator of a group.
func findCoordinator(ctx context.Context, cl *kgo.Client, group string) (int32, error) {
	c, err := coordinatorOf(ctx, cl, group)
	return c.NodeID, err
}

func coordinatorOf(ctx context.Context, cl *kgo.Client, group string) (kgo.BrokerMetadata, error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = group, []string{group}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return kgo.BrokerMetadata{NodeID: -1}, err
	}
	if len(resp.Coordinators) > 0 {
		c := resp.Coordinators[0]
		return kgo.BrokerMetadata{NodeID: c.NodeID, Host: c.Host, Port: c.Port}, kerr.ErrorForCode(c.ErrorCode)
	}
	return kgo.BrokerMetadata{NodeID: resp.NodeID, Host: resp.Host, Port: resp.Port}, kerr.ErrorForCode(resp.ErrorCode)
}

// UnsupportedError is a broker that does not speak the protocol.
type UnsupportedError struct{ Node int32 }

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("broker %d does not support streams groups: use Apache Kafka 4.2 or later with the feature streams.version at 1", e.Node)
}

const maxHeartbeatVersion = 1

// heartbeatVersion is the highest version of StreamsGroupHeartbeat that the broker,
// the client and this package speak.
func heartbeatVersion(ctx context.Context, cl *kgo.Client, node int32) (int16, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "streamsgroup", "v0"
	kresp, err := cl.Broker(int(node)).Request(ctx, req)
	if err != nil {
		return -1, err
	}
	resp := kresp.(*kmsg.ApiVersionsResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return -1, err
	}
	for _, k := range resp.ApiKeys {
		if k.ApiKey == int16(kmsg.StreamsGroupHeartbeat) {
			version := min(k.MaxVersion, maxHeartbeatVersion)
			if v, _ := cl.OptValue(kgo.MaxVersions).(*kversion.Versions); v != nil {
				if limit, ok := v.LookupMaxKeyVersion(k.ApiKey); ok {
					version = min(version, limit)
				}
			}
			return version, nil
		}
	}
	return -1, &UnsupportedError{Node: node}
}

// heartbeat sends one heartbeat to the coordinator, once: the core owns retries.
func (r *runtime) heartbeat(node int32, id uint64, req *kmsg.StreamsGroupHeartbeatRequest) {
	m := r.m
	began := time.Now()
	timeout := m.cfg.requestTimeout
	if req.MemberEpoch < 0 {
		timeout = min(timeout, m.cfg.leaveTimeout/3) // there is little time to leave, and a chance to repeat it
	}
	resp, err := m.send(r.ctx, timeout, node, req)
	took := time.Since(began)
	m.input(func(now time.Duration) {
		m.unanswered--
		m.note(func() {
			each(m.cfg.hooks, func(h HookHeartbeatAnswered) { h.OnHeartbeatAnswered(m.meta(), took, resp, err) })
		})
		switch {
		case r.ctx.Err() != nil:
			return
		case err != nil:
			m.core.HeartbeatFailed(now, id, classify(err), err)
		default:
			m.core.HeartbeatAnswered(now, id, resp)
			if resp.ErrorCode == 0 && req.MemberEpoch >= 0 && m.node == node && m.version != resp.Version {
				// The broker was replaced by a newer or an older one so quickly that
				// nobody noticed.
				m.version = resp.Version
				m.core.CoordinatorFound(now, resp.Version)
			}
		}
		close(m.answered)
		m.answered = make(chan struct{})
	})
}

func (m *Member) send(ctx context.Context, timeout time.Duration, node int32, req *kmsg.StreamsGroupHeartbeatRequest) (*kmsg.StreamsGroupHeartbeatResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	kresp, err := m.cl.Broker(int(node)).Request(ctx, adaptable{req})
	if err != nil {
		return nil, err
	}
	return kresp.(*kmsg.StreamsGroupHeartbeatResponse), nil
}

// describe sends the description of the topology, once.
func (r *runtime) describe(node int32, req *kmsg.StreamsGroupTopologyDescriptionUpdateRequest) {
	m := r.m
	ctx, cancel := context.WithTimeout(r.ctx, m.cfg.requestTimeout)
	defer cancel()
	kresp, err := m.cl.Broker(int(node)).Request(ctx, req)
	m.input(func(now time.Duration) {
		switch {
		case r.ctx.Err() != nil:
		case err != nil:
			m.core.DescriptionFailed(now, classify(err), err)
		default:
			m.core.DescriptionAnswered(now, kresp.(*kmsg.StreamsGroupTopologyDescriptionUpdateResponse))
		}
	})
}

// adaptable is a heartbeat that was built for the version of the coordinator that was
// looked up, and is sent in the one that the connection turns out to have.
type adaptable struct {
	*kmsg.StreamsGroupHeartbeatRequest
}

// MaxVersion is the highest version that this package speaks.
func (adaptable) MaxVersion() int16 { return maxHeartbeatVersion }

// SetVersion is called with what the connection negotiated. A broker would refuse, for
// good, what its version does not have. What a body for an old version leaves out means
// "unchanged" in a new one.
func (a adaptable) SetVersion(v int16) {
	if v == 0 {
		a.TaskOffsets, a.TaskEndOffsets = nil, nil
	}
	a.StreamsGroupHeartbeatRequest.SetVersion(v)
}

// rejection is an answer with an error code, as an error.
func rejection(e membership.HeartbeatRejected) error {
	return fmt.Errorf("client: heartbeat refused: %w", kerr.ErrorForCode(e.Code))
}

// classify tells the core what a missing answer means. A broken connection, an
// unknown broker and the like are all one: look the coordinator up again.
func classify(err error) membership.FailureKind {
	var k *kerr.Error
	var network net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return membership.TimedOut
	case errors.Is(err, kgo.ErrClientClosed):
		return membership.Other
	case errors.As(err, &k) && !k.Retriable:
		return membership.Other
	case errors.Is(err, io.EOF), errors.As(err, &network):
		return membership.Disconnected
	case strings.Contains(err.Error(), "SASL"):
		return membership.Other
	}
	return membership.Disconnected
}
