package membership

import (
	"maps"
	"slices"
	"time"

	"github.com/streamsgroup/streamsgroup/topology"
)

// Snapshot is a member at one moment. Times are relative to that moment.
type Snapshot struct {
	Group, MemberID, InstanceID, ProcessID string
	State                                  State
	Epoch, TopologyEpoch                   int32
	// Active, Standby and Warmup are the tasks that the application confirmed.
	Active, Standby, Warmup []topology.TaskID
	// Target is what the coordinator wants the member to run. It is nil without an
	// assignment.
	Target *TaskSet
	// Ready is whether the group is ready to process.
	Ready bool
	// Callbacks are running, or wait for the one that runs.
	Callbacks []CallbackRunning

	// Coordinator is whether the coordinator is known, Version the highest version
	// of the heartbeat that it speaks, -1 before the first was found.
	Coordinator bool
	Version     int16
	// LastHeartbeat is how long ago the last one was sent, less than 0 if none was.
	// InFlight is whether it is unanswered. SilentFor is how long ago the last good
	// answer came, or the membership began; Failures counts failed heartbeats since.
	LastHeartbeat, SilentFor time.Duration
	InFlight                 bool
	Failures                 int
	// HeartbeatInterval is what the coordinator asked for; NextHeartbeat is the
	// time until the next one, 0 if it is due or if none is planned.
	HeartbeatInterval, NextHeartbeat time.Duration
	TaskOffsetInterval               time.Duration
	AcceptableRecoveryLag            int64
	Statuses                         []Status
	// Endpoints maps processes to what runs there. EndpointEpoch is the version of
	// the map, -1 before the first.
	Endpoints     map[Endpoint]EndpointPartitions
	EndpointEpoch int32
	// TaskOffsets and TaskEndOffsets are what was sent last, nil if nothing was since
	// the last failure.
	TaskOffsets, TaskEndOffsets map[topology.TaskID]int64
	// Sources are the topics that source patterns stand for, by subtopology.
	Sources map[string][]string

	ShutdownRequested bool
	Leaving           bool // a leave is under way
	LastError         error
}

// TaskSet are tasks by role.
type TaskSet struct{ Active, Standby, Warmup []topology.TaskID }

// CallbackRunning is a callback that has not returned.
type CallbackRunning struct {
	Kind CallbackKind
	For  time.Duration // since it was asked for
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
	c := &m.confirmed
	s := Snapshot{
		Group: m.cfg.Group, MemberID: m.cfg.MemberID, InstanceID: m.cfg.InstanceID, ProcessID: m.cfg.ProcessID,
		State: m.state, TopologyEpoch: m.cfg.Topology.Epoch(),
		Active: slices.Clone(c.active), Standby: slices.Clone(c.standby), Warmup: slices.Clone(c.warmup), Ready: c.ready,
		Coordinator: m.coordinator, Version: m.version,
		LastHeartbeat: -1, InFlight: m.inFlight != 0 || m.leaveID != 0, Failures: m.attempts,
		HeartbeatInterval: m.interval, TaskOffsetInterval: m.offsetInterval, AcceptableRecoveryLag: m.recoveryLag,
		Statuses: slices.Clone(m.statuses), Endpoints: cloneEndpoints(m.endpoints), EndpointEpoch: m.endpointEpoch,
		TaskOffsets: maps.Clone(m.sentOffsets.list), TaskEndOffsets: maps.Clone(m.sentEnds.list),
		ShutdownRequested: m.shutdown, Leaving: m.leavePending, LastError: m.lastErr,
	}
	s.Epoch, _ = m.Epoch()
	if t := &m.target; t.counter >= 0 {
		s.Target = &TaskSet{slices.Clone(t.active), slices.Clone(t.standby), slices.Clone(t.warmup)}
	}
	for _, id := range slices.Sorted(maps.Keys(m.calls)) {
		s.Callbacks = append(s.Callbacks, CallbackRunning{m.calls[id].cb.Kind, now - m.calls[id].asked})
	}
	if m.sentAt >= 0 {
		s.LastHeartbeat = now - m.sentAt
	}
	if m.state.inGroup() {
		s.SilentFor = now - m.heardAt
	}
	if at, ok := m.heartbeatAt(); ok {
		s.NextHeartbeat = max(0, at-now)
	}
	if m.resolved != nil {
		s.Sources = cloneTopics(m.resolved.Topics)
	}
	return s
}

func cloneEndpoints(in map[Endpoint]EndpointPartitions) map[Endpoint]EndpointPartitions {
	out := maps.Clone(in)
	for at, p := range out {
		out[at] = EndpointPartitions{slices.Clone(p.Active), slices.Clone(p.Standby)}
	}
	return out
}
