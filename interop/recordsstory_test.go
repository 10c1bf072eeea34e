package interop_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// heartbeats sends a heartbeat to a coordinator, whichever it is.
type heartbeats func(*kmsg.StreamsGroupHeartbeatRequest) *kmsg.StreamsGroupHeartbeatResponse

// member is a member that does what it is told.
type member struct {
	t         testing.TB
	send      heartbeats
	group, id string
	epoch     int32
	instance  *string
	process   string
	rack      *string
	endpoint  *kmsg.StreamsGroupHeartbeatRequestUserEndpoint
	tags      []kmsg.StreamsGroupHeartbeatRequestClientTag

	active, standby, warmup []kmsg.TaskIDs
}

func (m *member) request(epoch int32) *kmsg.StreamsGroupHeartbeatRequest {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.InstanceID = m.group, m.id, epoch, m.instance
	req.RebalanceTimeoutMillis = -1
	return req
}

func (m *member) ask(req *kmsg.StreamsGroupHeartbeatRequest) {
	m.t.Helper()
	resp := m.send(req)
	message := ""
	if resp.ErrorMessage != nil {
		message = *resp.ErrorMessage
	}
	require.NoError(m.t, kerr.ErrorForCode(resp.ErrorCode), "%s of %s: %s", m.id, m.group, message)
	m.epoch = resp.MemberEpoch
	if resp.ActiveTasks != nil {
		m.active, m.standby, m.warmup = resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks
	}
}

func (m *member) join(topology *kmsg.StreamsGroupHeartbeatRequestTopology) {
	m.t.Helper()
	req := m.request(0)
	req.RebalanceTimeoutMillis, req.ProcessID = 60_000, &m.process
	req.RackID, req.UserEndpoint, req.ClientTags = m.rack, m.endpoint, m.tags
	if m.tags == nil {
		req.ClientTags = []kmsg.StreamsGroupHeartbeatRequestClientTag{}
	}
	req.Topology = topology
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	m.ask(req)
}

// beat says nothing but that the member is there.
func (m *member) beat() {
	m.t.Helper()
	m.ask(m.request(m.epoch))
}

// report says that the member has what it was told to have.
func (m *member) report() {
	m.t.Helper()
	own := func(ids []kmsg.TaskIDs) []kmsg.TaskIDs { return append([]kmsg.TaskIDs{}, ids...) }
	req := m.request(m.epoch)
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = own(m.active), own(m.standby), own(m.warmup)
	m.ask(req)
}

func (m *member) leave(epoch int32) {
	m.t.Helper()
	m.ask(m.request(epoch))
}

// settle has members report until all of them have what they are to have.
func settle(members ...*member) {
	for range 4 + 2*len(members) {
		for _, m := range members {
			m.report()
		}
	}
}

func subtopology(id string, sources ...string) kmsg.StreamsGroupHeartbeatRequestTopologySubtopology {
	s := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
	s.SubtopologyID, s.SourceTopics = id, sources
	return s
}

// pipeline reads "in", repartitions it and keeps state on both sides.
func pipeline(group string) *kmsg.StreamsGroupHeartbeatRequestTopology {
	internal := func(name string, configs ...kmsg.TopicInfoConfig) kmsg.TopicInfo {
		t := kmsg.NewTopicInfo()
		t.Topic, t.ReplicationFactor, t.Configs = group+"-"+name, 1, configs
		return t
	}
	compact := kmsg.NewTopicInfoConfig()
	compact.Key, compact.Value = "cleanup.policy", "compact"
	first, second := subtopology("0", "in"), subtopology("1")
	first.StateChangelogTopics = []kmsg.TopicInfo{internal("seen-changelog", compact)}
	first.RepartitionSinkTopics = []string{group + "-words-repartition"}
	words := internal("words-repartition")
	words.NumPartitions = 3
	second.RepartitionSourceTopics = []kmsg.TopicInfo{words}
	second.StateChangelogTopics = []kmsg.TopicInfo{internal("counts-changelog", compact)}
	return &kmsg.StreamsGroupHeartbeatRequestTopology{Subtopologies: []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{first, second}}
}

func reads(topic string) *kmsg.StreamsGroupHeartbeatRequestTopology {
	return &kmsg.StreamsGroupHeartbeatRequestTopology{Subtopologies: []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{subtopology("0", topic)}}
}

// storyTopics are the topics of the story, with their partitions.
var storyTopics = map[string]int32{
	"in": 4, "other": 3,
	"standbys-seen-changelog": 4, "standbys-words-repartition": 3, "standbys-counts-changelog": 3,
}

// standbyGroup is the group whose tasks are to have a standby each.
const standbyGroup = "standbys"

// tellStory is a story of groups in every state: it has a coordinator write all
// kinds of records. It returns a member of each group that has live ones.
func tellStory(t testing.TB, send heartbeats) map[string]*member {
	of := func(group, id string) *member {
		return &member{t: t, send: send, group: group, id: id, process: "process-of-" + id}
	}
	alive := make(map[string]*member)

	// Standbys, racks, tags, endpoints; one member leaves.
	a, b, c := of(standbyGroup, "a"), of(standbyGroup, "b"), of(standbyGroup, "c")
	a.rack, a.endpoint = new("rack-1"), &kmsg.StreamsGroupHeartbeatRequestUserEndpoint{Host: "host-a", Port: 65535}
	tag := func(k, v string) kmsg.StreamsGroupHeartbeatRequestClientTag {
		tag := kmsg.NewStreamsGroupHeartbeatRequestClientTag()
		tag.Key, tag.Value = k, v
		return tag
	}
	a.tags = []kmsg.StreamsGroupHeartbeatRequestClientTag{tag("zone", "z1"), tag("cluster", "c1")}
	for _, m := range []*member{a, b, c} {
		m.join(pipeline(standbyGroup))
	}
	settle(a, b, c)
	b.leave(-1)
	settle(a, c)
	alive[standbyGroup] = a

	// A static member is replaced, another one is away for a while.
	a, b, c = of("static", "a"), of("static", "b"), of("static", "c")
	a.instance, b.instance = new("i-1"), new("i-2")
	for _, m := range []*member{a, b, c} {
		m.join(reads("in"))
	}
	settle(a, b, c)
	a.leave(-2)
	a2 := of("static", "a2")
	a2.instance, a2.process = a.instance, a.process
	a2.join(reads("in"))
	settle(a2, b, c)
	b.leave(-2)
	c.beat()
	alive["static"] = c

	// A member holds on to what it is to give up.
	a, b = of("revoking", "a"), of("revoking", "b")
	a.join(reads("in"))
	settle(a)
	b.join(reads("in"))
	a.beat()
	b.beat()
	alive["revoking"] = a

	// A topic is missing.
	a = of("missing", "a")
	a.join(reads("nowhere"))
	a.beat()
	alive["missing"] = a

	// Everybody has gone.
	a, b = of("empty", "a"), of("empty", "b")
	a.join(reads("other"))
	settle(a)
	b.join(reads("other"))
	settle(a, b)
	a.leave(-1)
	b.leave(-1)

	// One that is to be deleted.
	a = of("deleted", "a")
	a.join(reads("other"))
	settle(a)
	a.leave(-1)
	return alive
}
