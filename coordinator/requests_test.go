package coordinator

import (
	"strconv"
	"strings"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/topics"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Topologies.

func t2() *kmsg.StreamsGroupHeartbeatRequestTopology {
	return topo(0, sub("s1", reads("foo")), sub("s2", reads("bar")))
}

// t1 makes joins send a topology with only s1, which reads foo with n partitions.
func (w *world) t1(n int32) {
	w.topic("foo", n)
	w.topo = topo(0, sub("s1", reads("foo")))
}

type wireSub = kmsg.StreamsGroupHeartbeatRequestTopologySubtopology

func topo(epoch int32, subs ...wireSub) *kmsg.StreamsGroupHeartbeatRequestTopology {
	t := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	t.Epoch, t.Subtopologies = epoch, subs
	return &t
}

func sub(id string, parts ...func(*wireSub)) wireSub {
	s := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
	s.SubtopologyID = id
	for _, p := range parts {
		p(&s)
	}
	return s
}

func reads(names ...string) func(*wireSub) {
	return func(s *wireSub) { s.SourceTopics = append(s.SourceTopics, names...) }
}

func pattern(p string) func(*wireSub) {
	return func(s *wireSub) { s.SourceTopicRegex = append(s.SourceTopicRegex, p) }
}

func writes(names ...string) func(*wireSub) {
	return func(s *wireSub) { s.RepartitionSinkTopics = append(s.RepartitionSinkTopics, names...) }
}

// repartition is a repartition source topic, with 0 for an open count.
func repartition(name string, partitions int32) func(*wireSub) {
	return func(s *wireSub) {
		s.RepartitionSourceTopics = append(s.RepartitionSourceTopics, kmsg.TopicInfo{Topic: name, NumPartitions: partitions})
	}
}

func changelog(name string) func(*wireSub) {
	return func(s *wireSub) {
		s.StateChangelogTopics = append(s.StateChangelogTopics, kmsg.TopicInfo{Topic: name})
	}
}

func copartitioned(sources, repartitions []int16) func(*wireSub) {
	return func(s *wireSub) {
		g := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup()
		g.SourceTopics, g.RepartitionSourceTopics = sources, repartitions
		s.CopartitionGroups = append(s.CopartitionGroups, g)
	}
}

// Requests.

type requestOption func(*Request)

// hb is a heartbeat that says nothing but who sends it.
func (w *world) hb(member string, epoch int32, opts ...requestOption) *answer {
	w.t.Helper()
	r := w.request(member, epoch)
	for _, o := range opts {
		o(r)
	}
	return w.send(r)
}

// join is a member with its process id, the topology and three empty lists.
func (w *world) join(member string, opts ...requestOption) *answer {
	w.t.Helper()
	return w.send(w.joinRequest(member, opts...))
}

func (w *world) joinRequest(member string, opts ...requestOption) *Request {
	r := w.request(member, 0)
	process := processOf(member)
	r.RebalanceTimeoutMillis, r.ProcessID, r.Topology = 1500, &process, w.topo
	r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	for _, o := range opts {
		o(r)
	}
	return r
}

func (w *world) request(member string, epoch int32) *Request {
	r := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.MemberEpoch = 1, groupID, member, epoch
	return &Request{StreamsGroupHeartbeatRequest: r, ClientID: "client", ClientHost: clientHost, Access: w.access, Existing: w.kind}
}

// owned reports tasks: all three lists, as in "s1:0,1 | standby s2:0".
func owned(s string) requestOption {
	return func(r *Request) {
		o := parseRoles(s)
		r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = listToWire(o.active), listToWire(o.standby), listToWire(o.warmup)
	}
}

func inst(id string) requestOption { return func(r *Request) { r.InstanceID = &id } }
func process(id string) requestOption {
	return func(r *Request) { r.ProcessID = &id }
}
func rack(id string) requestOption { return func(r *Request) { r.RackID = &id } }
func timeout(ms int32) requestOption {
	return func(r *Request) { r.RebalanceTimeoutMillis = ms }
}
func version(v int16) requestOption { return func(r *Request) { r.Version = v } }
func shutdown() requestOption       { return func(r *Request) { r.ShutdownApplication = true } }
func seen(endpointEpoch int32) requestOption {
	return func(r *Request) { r.EndpointInformationEpoch = endpointEpoch }
}

func with(t *kmsg.StreamsGroupHeartbeatRequestTopology) requestOption {
	return func(r *Request) { r.Topology = t }
}

func endpoint(hostPort string) requestOption {
	return func(r *Request) {
		host, port, _ := strings.Cut(hostPort, ":")
		n, _ := strconv.Atoi(port)
		e := kmsg.NewStreamsGroupHeartbeatRequestUserEndpoint()
		e.Host, e.Port = host, uint16(n)
		r.UserEndpoint = &e
	}
}

func tags(pairs ...string) requestOption {
	return func(r *Request) {
		r.ClientTags = []kmsg.StreamsGroupHeartbeatRequestClientTag{}
		for _, p := range pairs {
			t := kmsg.NewStreamsGroupHeartbeatRequestClientTag()
			t.Key, t.Value, _ = strings.Cut(p, "=")
			r.ClientTags = append(r.ClientTags, t)
		}
	}
}

// offsets and ends report "s1_0=10" and so on.
func offsets(list ...string) requestOption {
	return func(r *Request) { r.TaskOffsets = parseOffsets(list) }
}

func ends(list ...string) requestOption {
	return func(r *Request) { r.TaskEndOffsets = parseOffsets(list) }
}

func parseOffsets(list []string) []kmsg.TaskOffset {
	out := []kmsg.TaskOffset{}
	for _, s := range list {
		task, n, _ := strings.Cut(s, "=")
		id, err := topology.ParseTaskID(task)
		if err != nil {
			panic(err)
		}
		o := kmsg.NewTaskOffset()
		o.SubtopologyID, o.Partition = id.Subtopology, id.Partition
		o.Offset, _ = strconv.ParseInt(n, 10, 64)
		out = append(out, o)
	}
	return out
}

type describedGroup = kmsg.StreamsGroupDescribeResponseGroup

// unsafeString returns a string that shares memory with buf.
func unsafeString(buf *[]byte, s string) string {
	if s == "" {
		return s
	}
	if cap(*buf) == 0 {
		*buf = make([]byte, 0, 1<<16)
	}
	from := len(*buf)
	*buf = append(*buf, s...)
	return unsafe.String(&(*buf)[from], len(s))
}

type topicOfImage = topics.Topic

// parseTopology reads one subtopology a line, as in
// "0 reads lines writes words" or "1 repartition words changelog counts".
func parseTopology(text string) *kmsg.StreamsGroupHeartbeatRequestTopology {
	t := topo(0)
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		f := strings.Fields(line)
		s := sub(f[0])
		for i := 1; i+1 < len(f); i += 2 {
			switch name := f[i+1]; f[i] {
			case "reads":
				reads(name)(&s)
			case "writes":
				writes(name)(&s)
			case "repartition":
				repartition(name, 0)(&s)
			case "changelog":
				changelog(name)(&s)
			default:
				panic("no part of a subtopology: " + f[i])
			}
		}
		t.Subtopologies = append(t.Subtopologies, s)
	}
	return t
}
