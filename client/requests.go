package client

import (
	"context"
	"errors"
	"fmt"
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
	if err != nil {
		m.log(kgo.LogLevelWarn, "cannot find the coordinator", "group", m.group, "err", err)
	}
	m.input(func(now time.Duration) {
		var unsupported *UnsupportedError
		switch {
		case errors.As(err, &unsupported), errors.Is(err, kgo.ErrClientClosed):
			m.core.CoordinatorUnsupported(err)
		case err != nil:
			m.core.CoordinatorFailed(now, err)
		default:
			m.node = node
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
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = group, []string{group}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return -1, err
	}
	if len(resp.Coordinators) > 0 {
		c := resp.Coordinators[0]
		return c.NodeID, kerr.ErrorForCode(c.ErrorCode)
	}
	return resp.NodeID, kerr.ErrorForCode(resp.ErrorCode)
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
	ctx, cancel := context.WithTimeout(r.ctx, m.cfg.requestTimeout)
	defer cancel()
	kresp, err := m.cl.Broker(int(node)).Request(ctx, pinned{req, req.Version})
	m.input(func(now time.Duration) {
		m.unanswered--
		if r.ctx.Err() != nil {
			return
		}
		if err != nil {
			m.core.HeartbeatFailed(now, id, classify(err), err)
			return
		}
		m.core.HeartbeatAnswered(now, id, kresp.(*kmsg.StreamsGroupHeartbeatResponse))
	})
}

// pinned caps the version of one request: the core has chosen it and built the body
// for it.
type pinned struct {
	kmsg.Request
	version int16
}

func (p pinned) MaxVersion() int16 { return p.version }

// classify tells the core what a missing answer means. A broken connection, an
// unknown broker and the like are all one: look the coordinator up again.
func classify(err error) membership.FailureKind {
	var k *kerr.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return membership.TimedOut
	case errors.Is(err, kgo.ErrClientClosed):
		return membership.Other
	case errors.As(err, &k) && !k.Retriable:
		return membership.Other
	case strings.Contains(err.Error(), "SASL"):
		return membership.Other
	}
	return membership.Disconnected
}
