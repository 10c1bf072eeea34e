package membership

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/topology"
)

// build makes the body of a heartbeat in the present state. Topology and
// identity go out with every join and never else; tasks and offsets only if they
// changed since they were sent last.
func (m *Member) build(now time.Duration) *kmsg.StreamsGroupHeartbeatRequest {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Version = m.version
	req.Group, req.MemberID, req.MemberEpoch = m.cfg.Group, m.cfg.MemberID, m.epoch
	req.EndpointInformationEpoch = m.endpointEpoch
	req.InstanceID = optional(m.cfg.InstanceID)
	req.ShutdownApplication = m.shutdown
	if m.state == Joining {
		m.buildJoin(req)
	} else if m.sent == nil || !m.sent.same(m.confirmed) {
		// Counters count: a task that was given and taken away again between two
		// reports leaves the same lists behind, and the coordinator waits for them.
		sent := m.confirmed
		m.sent = &sent
		c := m.withStarting(m.confirmed)
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = toWire(c.active), toWire(c.standby), toWire(c.warmup)
	}
	if m.version > 0 {
		m.buildOffsets(now, req)
	} else if req.WarmupTasks != nil {
		req.WarmupTasks = []kmsg.TaskIDs{} // refused by brokers of this version
	}
	if m.patterns {
		m.buildResolution(req)
	}
	return req
}

// withStarting adds to what the application has confirmed what it may be starting
// right now, or will be by the time the coordinator reads this. Kafka's client
// reports the confirmed tasks only. But a coordinator that has meanwhile asked for
// a task back takes a report without it for the acknowledgement and gives the
// task to another member, while the application here is about to run it. What is
// reported in excess has no such effect: it is asked for again.
func (m *Member) withStarting(c assignment) assignment {
	var starting []topology.TaskID
	for _, o := range m.calls { // those to be revoked, too: they may come from a start that failed
		starting = append(starting, o.cb.Active...)
	}
	switch m.state {
	case Reconciling, Acknowledging, StateStable:
		starting = append(starting, m.target.active...)
		if m.running != nil {
			starting = append(starting, m.running.goal.active...)
		}
	}
	if len(starting) == 0 {
		return c
	}
	c.active = append(starting, c.active...)
	slices.SortFunc(c.active, topology.TaskID.Compare)
	c.active = slices.Compact(c.active)
	return c.withoutOverlaps()
}

func (m *Member) buildJoin(req *kmsg.StreamsGroupHeartbeatRequest) {
	req.Topology = m.cfg.Topology.Wire()
	req.RebalanceTimeoutMillis = int32(m.cfg.MaxPollInterval.Milliseconds())
	req.ProcessID = optional(m.cfg.ProcessID)
	req.RackID = optional(m.cfg.RackID)
	if e := m.cfg.Endpoint; e != nil {
		w := kmsg.NewStreamsGroupHeartbeatRequestUserEndpoint()
		w.Host, w.Port = e.Host, e.Port
		req.UserEndpoint = &w
	}
	req.ClientTags = []kmsg.StreamsGroupHeartbeatRequestClientTag{}
	for _, k := range slices.Sorted(maps.Keys(m.cfg.ClientTags)) {
		w := kmsg.NewStreamsGroupHeartbeatRequestClientTag()
		w.Key, w.Value = k, m.cfg.ClientTags[k]
		req.ClientTags = append(req.ClientTags, w)
	}
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	m.sent = nil // the first heartbeat after a join reports what the join brought
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	c := strings.Clone(s) // not s: it would be allocated for the empty string too
	return &c
}

func toWire(l []topology.TaskID) []kmsg.TaskIDs {
	out := []kmsg.TaskIDs{}
	for i := 0; i < len(l); {
		w := kmsg.NewTaskIDs()
		w.SubtopologyID = l[i].Subtopology
		for ; i < len(l) && l[i].Subtopology == w.SubtopologyID; i++ {
			w.Partitions = append(w.Partitions, l[i].Partition)
		}
		out = append(out, w)
	}
	return out
}

func fromWire(in []kmsg.TaskIDs) []topology.TaskID {
	var out []topology.TaskID
	for _, s := range in {
		id := strings.Clone(s.SubtopologyID) // responses are not kept
		for _, p := range s.Partitions {
			out = append(out, topology.TaskID{Subtopology: id, Partition: p})
		}
	}
	slices.SortFunc(out, topology.TaskID.Compare)
	return slices.Compact(out)
}
