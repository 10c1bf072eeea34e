package membership

import (
	"maps"
	"slices"
	"time"

	"github.com/streamsgroup/streamsgroup/topology"
)

// Snapshot is a member at one moment.
type Snapshot struct {
	Group, MemberID, InstanceID string
	State                       State
	Epoch                       int32
	// Active, Standby and Warmup are the tasks that the application confirmed.
	Active, Standby, Warmup []topology.TaskID
	// Ready is whether the group is ready to process.
	Ready bool
	// HeartbeatInterval is what the coordinator asked for; NextHeartbeat is the
	// time until the next one.
	HeartbeatInterval, NextHeartbeat time.Duration
	TaskOffsetInterval               time.Duration
	AcceptableRecoveryLag            int64
	Statuses                         []Status
	// Endpoints maps processes to what runs there.
	Endpoints map[Endpoint]EndpointPartitions
	LastError error
}

// Status is one entry of a response's status list.
type Status struct {
	Code   int8
	Detail string
}

// EndpointPartitions are partitions of source topics by role.
type EndpointPartitions struct {
	Active, Standby []TopicPartition
}

// TopicPartition is one partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// Snapshot describes the member for operators. It shares nothing with it that
// can change.
func (m *Member) Snapshot(now time.Duration) Snapshot {
	s := Snapshot{
		Group: m.cfg.Group, MemberID: m.cfg.MemberID, InstanceID: m.cfg.InstanceID, State: m.state,
		Active: slices.Clone(m.confirmed.active), Standby: slices.Clone(m.confirmed.standby), Warmup: slices.Clone(m.confirmed.warmup), Ready: m.confirmed.ready,
		HeartbeatInterval: m.interval, TaskOffsetInterval: m.offsetInterval, AcceptableRecoveryLag: m.recoveryLag,
		Statuses: slices.Clone(m.statuses), Endpoints: maps.Clone(m.endpoints), LastError: m.lastErr,
	}
	s.Epoch, _ = m.Epoch()
	if at, ok := m.heartbeatAt(); ok {
		s.NextHeartbeat = max(0, at-now)
	}
	return s
}
