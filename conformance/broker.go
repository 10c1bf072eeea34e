package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// broker is what a run learns about the broker before its scenarios.
type broker struct {
	controller       string
	heartbeatVersion int16
}

var errNoStreams = errors.New("the broker does not have StreamsGroupHeartbeat (key 88): " +
	"Apache Kafka has it from 4.2 on, a cluster upgraded from an older release once streams.version is 1")

// inspect connects, waits until groups can be coordinated, and finds out what
// the broker is.
func inspect(ctx context.Context, t Target) (*broker, error) {
	cn, err := dial(ctx, t, t.Addr, clientID)
	if err != nil {
		return nil, err
	}
	defer func() { _ = cn.Close() }()
	b := &broker{}
	var ok bool
	if b.heartbeatVersion, ok = cn.max[int16(kmsg.StreamsGroupHeartbeat)]; !ok {
		return nil, errNoStreams
	}
	b.heartbeatVersion = min(b.heartbeatVersion, 1)
	if b.controller, err = findController(ctx, cn); err != nil {
		return nil, err
	}
	if err := awaitCoordinator(ctx, t, cn); err != nil {
		return nil, err
	}
	return b, nil
}

func findController(ctx context.Context, cn *conn) (string, error) {
	meta := kmsg.NewPtrMetadataRequest()
	meta.Topics = []kmsg.MetadataRequestTopic{}
	kresp, err := cn.send(ctx, meta)
	if err != nil {
		return "", err
	}
	resp := kresp.(*kmsg.MetadataResponse)
	for _, b := range resp.Brokers {
		if b.NodeID == resp.ControllerID {
			return net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), nil
		}
	}
	return "", fmt.Errorf("the controller, node %d, is not among the brokers", resp.ControllerID)
}

func findCoordinator(ctx context.Context, cn *conn, group string) (string, error) {
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey, find.CoordinatorKeys = group, []string{group}
	kresp, err := cn.send(ctx, find)
	if err != nil {
		return "", err
	}
	resp := kresp.(*kmsg.FindCoordinatorResponse)
	if len(resp.Coordinators) != 1 {
		return "", fmt.Errorf("FindCoordinator of one group has %d answers", len(resp.Coordinators))
	}
	at := resp.Coordinators[0]
	if err := kerr.ErrorForCode(at.ErrorCode); err != nil {
		return "", fmt.Errorf("FindCoordinator: %w", err)
	}
	return net.JoinHostPort(at.Host, strconv.Itoa(int(at.Port))), nil
}

// awaitCoordinator waits until the broker coordinates groups: a fresh Kafka
// creates the topic behind them only when the first one is asked for.
func awaitCoordinator(ctx context.Context, t Target, cn *conn) error {
	const patience = time.Minute
	began := t.Clock.Now()
	for {
		err := probeCoordinator(ctx, t, cn)
		if err == nil {
			return nil
		}
		if t.Clock.Now().Sub(began) > patience {
			return fmt.Errorf("no coordinator within %s: %w", patience, err)
		}
		if err := t.Clock.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func probeCoordinator(ctx context.Context, t Target, cn *conn) error {
	group := "conf-" + t.Run + "-nobody"
	addr, err := findCoordinator(ctx, cn, group)
	if err != nil {
		return err
	}
	to, err := dial(ctx, t, addr, clientID)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }()
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = group, "nobody", 1
	kresp, err := to.send(ctx, req)
	if err != nil {
		return err
	}
	err = kerr.ErrorForCode(kresp.(*kmsg.StreamsGroupHeartbeatResponse).ErrorCode)
	switch {
	case errors.Is(err, kerr.GroupIDNotFound):
		return nil
	case errors.Is(err, kerr.UnsupportedVersion):
		return fmt.Errorf("streams groups are switched off at the broker: %w", err)
	}
	return fmt.Errorf("heartbeat of a member of an unknown group: %w", err)
}
