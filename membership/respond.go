package membership

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// HeartbeatAnswered hands over a response, whatever its error code. The response
// is not kept.
func (m *Member) HeartbeatAnswered(now time.Duration, id uint64, resp *kmsg.StreamsGroupHeartbeatResponse) {
	m.now = now
	switch id {
	case 0:
	case m.leaveID:
		m.leaveAnswered(now, resp)
	case m.inFlight:
		m.inFlight = 0
		if resp.ErrorCode != 0 {
			m.rejected(now, resp)
			return
		}
		m.accepted(now, resp)
	default: // of a membership that is over
	}
}

// accepted handles a good response: rules RS-1 to RS-7.
func (m *Member) accepted(now time.Duration, resp *kmsg.StreamsGroupHeartbeatResponse) {
	m.attempts, m.backoffTill = 0, 0
	if resp.MemberEpoch < 0 || !m.state.inGroup() || m.state == Leaving {
		return // the answer to something that was overtaken
	}
	m.heardAt, m.warnedAt, m.bounced, m.unauthorized = now, now, 0, false
	if m.state != Joining {
		m.rejoins = 0
	}
	m.takeInterval(now, time.Duration(resp.HeartbeatIntervalMillis)*time.Millisecond)
	m.dueAt = max(m.dueAt, now+m.backoff(0)) // whatever the interval (TM-4)
	m.takeEndpointEpoch(resp.EndpointInformationEpoch)
	m.takeSettings(resp)
	if resp.PartitionsByUserEndpoint != nil {
		m.takeEndpoints(resp.PartitionsByUserEndpoint)
	}
	if resp.Status != nil {
		m.takeStatuses(resp.Status)
	}
	if resp.TopologyDescriptionRequired && m.cfg.Description != nil {
		m.push.wanted = true
	}
	if m.patterns && !m.takeResolution(resp) {
		return
	}
	m.takeTasks(resp)
}

// fallbackInterval is Kafka's default, for a broker that never says a usable one.
const fallbackInterval = 5 * time.Second

// takeInterval keeps the last interval if the broker sends one that makes no sense.
func (m *Member) takeInterval(now, interval time.Duration) {
	if interval <= 0 {
		if interval = m.interval; interval == 0 {
			interval = fallbackInterval
		}
	}
	if interval != m.interval {
		m.interval = interval
		m.dueAt = now + interval
	}
}

func (m *Member) takeSettings(resp *kmsg.StreamsGroupHeartbeatResponse) {
	s := GroupSettings{
		HeartbeatInterval:     m.interval,
		TaskOffsetInterval:    time.Duration(resp.TaskOffsetIntervalMillis) * time.Millisecond,
		AcceptableRecoveryLag: resp.AcceptableRecoveryLag,
	}
	if resp.Version == 0 {
		s.AcceptableRecoveryLag = -1 // the old 32-bit field is not meant to be read
	}
	m.offsetInterval, m.recoveryLag = s.TaskOffsetInterval, s.AcceptableRecoveryLag
	if s != m.settings {
		m.settings = s
		m.event(s)
	}
}

func (m *Member) takeTasks(resp *kmsg.StreamsGroupHeartbeatResponse) {
	m.known = true
	lists := 0
	for _, l := range [][]kmsg.TaskIDs{resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks} {
		if l != nil {
			lists++
		}
	}
	switch {
	case lists == 0 && m.state == Joining:
		m.fail(m.problem(errNoTasks, "the answer to a join breaks the protocol", "check what the broker is"), true)
		return
	case resp.MemberEpoch == 0:
		m.fail(m.problem(nil, "the coordinator accepted a heartbeat and gave no member epoch, which breaks the protocol", "check what the broker is"), true)
		return
	case lists != 0 && lists != 3:
		m.fail(m.problem(nil, "the coordinator sent some task lists and left out others, which breaks the protocol", "check what the broker is"), true)
		return
	}
	m.setEpoch(resp.MemberEpoch) // as it is: the coordinator is the authority
	if m.state == PrepareLeaving {
		return // what is assigned now will not be run
	}
	a := assignment{ready: ready(resp.Status)}
	if lists == 0 {
		if m.target.counter < 0 || m.target.ready == a.ready {
			return
		}
		a.active, a.standby, a.warmup = m.target.active, m.target.standby, m.target.warmup
	} else {
		a.active, a.standby, a.warmup = fromWire(resp.ActiveTasks), fromWire(resp.StandbyTasks), fromWire(resp.WarmupTasks)
	}
	if a.hasNegative() {
		m.fail(m.problem(nil, "the coordinator assigned partitions below 0, which breaks the protocol", "check what the broker is"), true)
		return
	}
	if unknown := m.unknownSubtopologies(a); len(unknown) > 0 {
		m.fail(m.problem(nil, "the coordinator assigned tasks of subtopologies "+strings.Join(unknown, ", ")+", and this member's topology has only "+strings.Join(m.cfg.Topology.Subtopologies(), ", "),
			"run the same topology on all members, or raise its epoch"), true)
		return
	}
	m.take(a)
}

// takeEndpoints replaces the endpoint map. There is an entry per member: those of
// one process are merged.
func (m *Member) takeEndpoints(in []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint) {
	m.endpoints = map[Endpoint]EndpointPartitions{}
	for _, e := range in {
		at := Endpoint{Host: strings.Clone(e.UserEndpoint.Host), Port: e.UserEndpoint.Port}
		p := m.endpoints[at]
		for _, t := range e.ActivePartitions {
			p.Active = appendPartitions(p.Active, strings.Clone(t.Topic), t.Partitions)
		}
		for _, t := range e.StandbyPartitions {
			p.Standby = appendPartitions(p.Standby, strings.Clone(t.Topic), t.Partitions)
		}
		m.endpoints[at] = p
	}
}

func appendPartitions(dst []TopicPartition, topic string, partitions []int32) []TopicPartition {
	for _, p := range partitions {
		dst = append(dst, TopicPartition{Topic: topic, Partition: p})
	}
	return dst
}
