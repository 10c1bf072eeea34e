package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/assignor"
	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
	"github.com/streamsgroup/streamsgroup/topology"
)

// The tests of the cases run against a world: a coordinator in the base setup of
// the cases, with a log, a clock, topics and an assignor that returns what the
// case says. The driver's part (append, apply) is played by the world, which
// also checks after every step what must hold always: deciding changes nothing,
// the log replayed into another coordinator gives the same state, and no task is
// active twice.

const (
	groupID    = "g"
	startWall  = int64(1_700_000_000_000)
	clientHost = "/127.0.0.1"
)

// mode says under which policies a case holds.
type mode int8

const (
	bothModes mode = iota
	kipMode
	kafkaMode
)

// testCase is one case: its id and title, where it holds, and what happens.
type testCase struct {
	name string
	mode mode
	do   func(w *world)
}

func runCases(t *testing.T, cases []testCase) {
	t.Helper()
	t.Parallel()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.mode != kafkaMode {
				t.Run("kip", func(t *testing.T) { c.do(newWorld(t, KIP1071)) })
			}
			if c.mode != kipMode {
				t.Run("kafka", func(t *testing.T) { c.do(newWorld(t, Kafka)) })
			}
		})
	}
}

type world struct {
	t      testing.TB
	policy Policy
	c      *Coordinator
	stub   *stubAssignor
	now    Now
	topics map[string]topics.Topic
	image  *topics.Image
	fx     Effects
	log    []record.Record
	topo   *kmsg.StreamsGroupHeartbeatRequestTopology // what joins send
	access Access
	kind   GroupKind
	// appendFails is the error of the next append.
	appendFails error
}

func newWorld(t testing.TB, p Policy) *world {
	w := &world{t: t, policy: p, stub: &stubAssignor{t: t, name: "stub"}, now: Now{Mono: time.Hour, WallMillis: startWall}, topics: map[string]topics.Topic{}, topo: t2()}
	w.c = w.newCoordinator()
	w.topic("foo", 6)
	w.topic("bar", 3)
	return w
}

func (w *world) newCoordinator() *Coordinator {
	c, err := New(Config{
		Policy: w.policy,
		Broker: map[string]string{
			"group.streams.initial.rebalance.delay.ms": "0",
			"group.streams.assignment.interval.ms":     "0",
			"group.streams.assignors":                  "stub",
		},
		Assignors: []assignor.Assignor{w.stub, &stubAssignor{t: w.t, name: "other"}},
	})
	require.NoError(w.t, err)
	return c
}

// stubAssignor returns the target of the case and must not be called without
// one.
type stubAssignor struct {
	t      testing.TB
	name   string
	target map[string]string // member to tasks; "standby s1:0" after a bar
	err    error
	calls  []*assignor.Group
}

func (s *stubAssignor) Name() string { return s.name }

func (s *stubAssignor) Assign(g *assignor.Group) (assignor.Assignment, error) {
	s.calls = append(s.calls, g)
	if s.err != nil {
		return nil, s.err
	}
	if s.target == nil {
		s.t.Errorf("the assignor was called, but the case has no target")
	}
	out := assignor.Assignment{}
	for _, m := range g.Members {
		r := parseRoles(s.target[m.ID])
		out[m.ID] = assignor.MemberAssignment{Active: listToSet(r.active), Standby: listToSet(r.standby)}
	}
	return out, nil
}

// target sets what the assignor returns: member and tasks alternate.
func (w *world) target(pairs ...string) {
	w.stub.target = map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		w.stub.target[pairs[i]] = pairs[i+1]
	}
}

// brokerConfig sets a broker config at run time.
func (w *world) brokerConfig(name, value string) {
	w.t.Helper()
	require.NoError(w.t, w.c.SetBrokerConfig(name, &value))
}

func (w *world) groupConfig(pairs ...string) {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	w.c.SetGroupConfig(groupID, m)
}

// topic creates a topic or changes its number of partitions; 0 deletes it.
func (w *world) topic(name string, partitions int32) {
	if partitions == 0 {
		delete(w.topics, name)
	} else {
		w.topics[name] = topics.Topic{ID: [16]byte([]byte(fmt.Sprintf("%-16.16s", name))), Name: name, Partitions: partitions}
	}
	version := uint64(1)
	if w.image != nil {
		version = w.image.Version() + 1
	}
	w.image = topics.NewCompleteImage(version, w.topics)
}

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

// Groups that exist already.

// memberSpec is a member of a group that exists already. What is empty has the
// values of the base setup.
type memberSpec struct {
	id, process, instance, rack, tags, endpoint string
	state                                       memberState // default STABLE
	me, pme                                     int32       // default the group's assignment epoch and one below
	tasks                                       string      // "s1:0,1@9 | standby s2:0 | warmup s2:1", default epoch ME
	pending                                     string
	target                                      string // default tasks; "-" for none
	timeout                                     int32  // default 1500
	topologyEpoch                               int32
}

type groupSpec struct {
	ge, ae  int32 // default 10
	members []memberSpec
	configs []record.KeyValue // default {num.standby.replicas: 0}
	// loaded leaves the group as a coordinator has it that has just taken over.
	loaded bool
}

// g10 makes the group G10 with w.topo.
func (w *world) g10(members ...memberSpec) { w.t.Helper(); w.group(groupSpec{members: members}) }

func (w *world) group(s groupSpec) {
	w.t.Helper()
	if s.ge == 0 {
		s.ge = 10
	}
	if s.ae == 0 {
		s.ae = s.ge
	}
	if s.configs == nil {
		s.configs = []record.KeyValue{{Key: "num.standby.replicas", Value: "0"}}
	}
	top := record.FromWire(groupID, w.topo)
	hash := topics.Hash(topics.RequiredIn(top, w.image, w.c.topicOptions()), w.image)
	records := []record.Record{
		top,
		&record.GroupMetadata{Group: groupID, Epoch: s.ge, MetadataHash: hash, ValidatedTopologyEpoch: w.topo.Epoch, LastAssignmentConfigs: s.configs, StoredDescriptionTopologyEpoch: -1, FailedDescriptionTopologyEpoch: -1},
	}
	for _, m := range s.members {
		records = append(records, m.records(s.ae)...)
	}
	records = append(records, &record.TargetAssignmentMetadata{Group: groupID, AssignmentEpoch: s.ae})
	w.replay(records...)
	w.c.Loaded(w.now, groupID)
	if !s.loaded {
		// As in a group that has lived here from the start.
		w.c.groups[groupID].endpointEpoch = 0
	}
	w.check()
}

func (w *world) replay(records ...record.Record) {
	w.t.Helper()
	for _, r := range records {
		require.NoError(w.t, w.c.Replay(r))
	}
	w.log = append(w.log, records...)
}

func (m memberSpec) records(ae int32) []record.Record {
	if m.process == "" {
		m.process = processOf(m.id)
	}
	if m.state == 0 {
		m.state = stable
	}
	if m.me == 0 {
		m.me = ae
	}
	if m.pme == 0 {
		m.pme = m.me - 1
	}
	if m.timeout == 0 {
		m.timeout = 1500
	}
	if m.target == "" {
		m.target = m.tasks
	}
	meta := &record.MemberMetadata{Group: groupID, Member: m.id, InstanceID: optional(m.instance), RackID: optional(m.rack), ClientID: "client", ClientHost: clientHost, RebalanceTimeoutMillis: m.timeout, TopologyEpoch: m.topologyEpoch, ProcessID: m.process}
	if m.endpoint != "" {
		host, port, _ := strings.Cut(m.endpoint, ":")
		n, _ := strconv.Atoi(port)
		meta.UserEndpoint = &record.Endpoint{Host: host, Port: uint16(n)}
	}
	for _, kv := range strings.Fields(m.tags) {
		k, v, _ := strings.Cut(kv, "=")
		meta.ClientTags = append(meta.ClientTags, record.KeyValue{Key: k, Value: v})
	}
	cur := parseCurrent(m.tasks, m.pending, m.me)
	cur.epoch, cur.previousEpoch, cur.state = m.me, m.pme, m.state
	out := []record.Record{meta, cur.record(groupID, m.id)}
	if m.target != "-" {
		out = append(out, targetRecord(groupID, m.id, parseRoles(m.target)))
	}
	return out
}

func processOf(member string) string {
	if rest, ok := strings.CutPrefix(member, "m"); ok {
		return "p" + rest
	}
	return "p-" + member
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Task lists in the notation of the cases: "s1:0,1 s2:0-2".

func parseTasks(s string) taskList { l, _ := parseActive(s, 0); return l }

// parseActive reads "s1:0,1@9 s1:2@8"; tasks without an epoch get the given one.
func parseActive(s string, epoch int32) (taskList, []int32) {
	epochs := map[topology.TaskID]int32{}
	for _, f := range strings.Fields(s) {
		e := epoch
		f, at, ok := strings.Cut(f, "@")
		if ok {
			n, err := strconv.Atoi(at)
			if err != nil {
				panic(err)
			}
			e = int32(n)
		}
		id, list, ok := strings.Cut(f, ":")
		if !ok {
			panic("no task: " + f)
		}
		for _, p := range strings.Split(list, ",") {
			from, to, ranged := strings.Cut(p, "-")
			if !ranged {
				to = from
			}
			a, err1 := strconv.Atoi(from)
			b, err2 := strconv.Atoi(to)
			if err1 != nil || err2 != nil {
				panic("no partition: " + p)
			}
			for i := a; i <= b; i++ {
				epochs[topology.TaskID{Subtopology: id, Partition: int32(i)}] = e
			}
		}
	}
	var l taskList
	var out []int32
	for _, t := range slices.SortedFunc(maps.Keys(epochs), topology.TaskID.Compare) {
		l, out = append(l, t), append(out, epochs[t])
	}
	return l, out
}

// parseRoles reads "s1:0 | standby s2:0 | warmup s2:1".
func parseRoles(s string) roles { return parseCurrent(s, "", 0).assigned }

func parseCurrent(tasks, pending string, epoch int32) current {
	var c current
	read := func(s string, r *roles, epochs *[]int32) {
		for _, part := range strings.Split(s, "|") {
			part = strings.TrimSpace(part)
			if rest, ok := strings.CutPrefix(part, "standby"); ok {
				r.standby = parseTasks(rest)
			} else if rest, ok := strings.CutPrefix(part, "warmup"); ok {
				r.warmup = parseTasks(rest)
			} else if part != "-" {
				r.active, *epochs = parseActive(part, epoch)
			}
		}
	}
	read(tasks, &c.assigned, &c.epochs)
	read(pending, &c.pending, &c.pendingEpochs)
	return c
}

func showTasks(l taskList) string { return showActive(l, nil) }

func showActive(l taskList, epochs []int32) string {
	var out []string
	for i := 0; i < len(l); {
		j := i + 1
		for j < len(l) && l[j].Subtopology == l[i].Subtopology && (epochs == nil || epochs[j] == epochs[i]) {
			j++
		}
		var ps []string
		for k := i; k < j; {
			n := k + 1
			for n < j && l[n].Partition == l[n-1].Partition+1 {
				n++
			}
			switch {
			case n-k > 2:
				ps = append(ps, fmt.Sprintf("%d-%d", l[k].Partition, l[n-1].Partition))
			default:
				for m := k; m < n; m++ {
					ps = append(ps, strconv.Itoa(int(l[m].Partition)))
				}
			}
			k = n
		}
		s := l[i].Subtopology + ":" + strings.Join(ps, ",")
		if epochs != nil {
			s += fmt.Sprintf("@%d", epochs[i])
		}
		out = append(out, s)
		i = j
	}
	return strings.Join(out, " ")
}

func showRoles(r roles, epochs []int32) string {
	var out []string
	if len(r.active) > 0 {
		out = append(out, showActive(r.active, epochs))
	}
	if len(r.standby) > 0 {
		out = append(out, "standby "+showTasks(r.standby))
	}
	if len(r.warmup) > 0 {
		out = append(out, "warmup "+showTasks(r.warmup))
	}
	if out == nil {
		return "-"
	}
	return strings.Join(out, " | ")
}

func (s memberState) String() string {
	switch s {
	case stable:
		return "STABLE"
	case unrevokedTasks:
		return "UNREVOKED_TASKS"
	case unreleasedTasks:
		return "UNRELEASED_TASKS"
	case unknownState:
		return "UNKNOWN"
	}
	return fmt.Sprint(int8(s))
}

func (c current) String() string {
	s := fmt.Sprintf("%s ME %d PME %d %s", c.state, c.epoch, c.previousEpoch, showRoles(c.assigned, c.epochs))
	if !c.pending.empty() {
		s += " pending " + showRoles(c.pending, c.pendingEpochs)
	}
	return s
}

// showRecord is the notation of the cases: "17(GE 11)", "22(m1 STABLE …)",
// "t22(m1)".
func showRecord(r record.Record, now int64) string {
	key := r.RecordKey()
	switch r := r.(type) {
	case record.Tombstone:
		if key.Member == "" {
			return fmt.Sprintf("t%d", key.Type)
		}
		return fmt.Sprintf("t%d(%s)", key.Type, key.Member)
	case *record.GroupMetadata:
		return fmt.Sprintf("17(GE %d VTE %d)", r.Epoch, r.ValidatedTopologyEpoch)
	case *record.TargetAssignmentMetadata:
		at := strconv.FormatInt(r.AssignmentTimestampMillis, 10)
		if r.AssignmentTimestampMillis == now {
			at = "now"
		}
		return fmt.Sprintf("20(%d, %s)", r.AssignmentEpoch, at)
	case *record.TargetAssignment:
		return fmt.Sprintf("21(%s %s)", r.Member, showRoles(roles{listFromRecord(r.Active), listFromRecord(r.Standby), listFromRecord(r.Warmup)}, nil))
	case *record.CurrentAssignment:
		return fmt.Sprintf("22(%s %s)", r.Member, currentFromRecord(r))
	case *record.Topology:
		return fmt.Sprintf("23(TE %d)", r.Epoch)
	}
	return fmt.Sprintf("%d(%s)", key.Type, key.Member)
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

// send plays the driver: decide, append, apply.
func (w *world) send(r *Request) *answer {
	w.t.Helper()
	before := w.c.stateOf(r.Group)
	resp := kmsg.NewStreamsGroupHeartbeatResponse()
	resp.Version = r.Version
	resp.MemberID, resp.ActiveTasks = "left from before", []kmsg.TaskIDs{{SubtopologyID: "left from before"}}
	w.c.Handle(w.now, w.image, r, &resp, &w.fx)
	require.Equal(w.t, before, w.c.stateOf(r.Group), "deciding must not change the state")
	a := &answer{w: w, resp: resp}
	w.finish(a, func(err error) { AppendFailed(&a.resp, err) })
	return a
}

// finish appends and applies, or discards.
func (w *world) finish(a *answer, failed func(error)) {
	w.t.Helper()
	if err := w.appendFails; err != nil && len(w.fx.Records) > 0 {
		w.appendFails = nil
		w.c.Discard(w.now, &w.fx)
		failed(err)
		return
	}
	a.recs = append(a.recs, w.fx.Records...)
	w.log = append(w.log, w.fx.Records...)
	a.create = append(a.create, w.fx.CreateTopics...)
	w.c.Apply(w.now, &w.fx)
	a.events = append(a.events, w.fx.Events...)
	w.check()
}

func (c *Coordinator) stateOf(group string) string {
	return string(c.AppendState(c.AppendState(nil, group, false), group, true))
}

// after lets time pass and runs the timers that are due, each at its time.
func (w *world) after(d time.Duration) *answer {
	w.t.Helper()
	a := &answer{w: w}
	end := w.now.Mono + d
	for {
		at, ok := w.c.NextDeadline()
		if !ok || at > end {
			break
		}
		w.advance(max(at-w.now.Mono, 0))
		if w.c.Tick(w.now, &w.fx) {
			w.finish(a, func(error) {})
		}
	}
	w.advance(end - w.now.Mono)
	return a
}

func (w *world) advance(d time.Duration) {
	w.now.Mono += d
	w.now.WallMillis += d.Milliseconds()
}

// check verifies what must hold after every step.
func (w *world) check() {
	w.t.Helper()
	other := w.newCoordinator()
	for _, r := range w.log {
		key, value := record.AppendKey(nil, r.RecordKey()), record.AppendValue(nil, r)
		decoded, err := record.Decode(key, value)
		require.NoError(w.t, err)
		require.NoError(w.t, other.Replay(decoded))
	}
	for _, g := range w.c.List() {
		require.Equal(w.t, string(w.c.AppendState(nil, g.Group, false)), string(other.AppendState(nil, g.Group, false)), "the log gives another state")
		checkInvariants(w.t, w.c.groups[g.Group])
	}
	require.Len(w.t, other.List(), len(w.c.List()))
}

// checkInvariants compares what is kept by counting with a count.
func checkInvariants(t testing.TB, g *group) {
	t.Helper()
	owner := map[topology.TaskID]string{}
	owners := newOwnerIndex()
	settled := map[int32]int{}
	static := map[string]string{}
	for _, id := range g.memberIDs() {
		m := g.members[id]
		owners.add(m.meta.ProcessID, m.held())
		if m.cur.state == stable {
			settled[m.cur.epoch]++
		}
		if i := m.instanceID(); i != "" {
			static[i] = id
		}
		for _, task := range m.held().active {
			require.Empty(t, owner[task], "task %s is active at %s and %s", task, owner[task], id)
			owner[task] = id
		}
	}
	require.Equal(t, owners, g.owners, "the index of owners")
	require.Equal(t, settled, g.stableAt)
	require.Equal(t, static, g.static)
}

// state returns the group's state.
func (w *world) state() State {
	s, _ := w.c.State(groupID)
	return s
}

func (w *world) wantState(s State) { w.t.Helper(); assert.Equal(w.t, s, w.state()) }

// wantMember checks a member's current assignment, for example
// "STABLE ME 11 PME 10 s1:0@11".
func (w *world) wantMember(id, want string) {
	w.t.Helper()
	g := w.c.groups[groupID]
	require.NotNil(w.t, g)
	if want == "" {
		assert.NotContains(w.t, g.members, id)
		return
	}
	require.Contains(w.t, g.members, id)
	assert.Equal(w.t, want, g.members[id].cur.String(), "member %s", id)
}

func (w *world) wantEpoch(ge int32) { w.t.Helper(); assert.Equal(w.t, ge, w.c.groups[groupID].epoch) }

// answer is what came of a request or of some time: the response, the records
// and the events.
type answer struct {
	w      *world
	resp   kmsg.StreamsGroupHeartbeatResponse
	recs   []record.Record
	create []topics.NewTopic
	events []Event
}

// ok expects a member epoch and no error.
func (a *answer) ok(epoch int32) *answer {
	a.w.t.Helper()
	require.Zero(a.w.t, a.resp.ErrorCode, "%v: %s", kerr.ErrorForCode(a.resp.ErrorCode), deref(a.resp.ErrorMessage))
	assert.Equal(a.w.t, epoch, a.resp.MemberEpoch, "member epoch")
	assert.NotNil(a.w.t, a.resp.Status)
	return a
}

// err expects a refusal that carries nothing else and appends nothing.
func (a *answer) err(want *kerr.Error) *answer {
	a.w.t.Helper()
	require.Equal(a.w.t, want, kerr.ErrorForCode(a.resp.ErrorCode), "%s", deref(a.resp.ErrorMessage))
	rest := a.resp
	rest.ErrorCode, rest.ErrorMessage = 0, nil
	empty := kmsg.NewStreamsGroupHeartbeatResponse()
	empty.Version, empty.AcceptableRecoveryLag, empty.Status = rest.Version, -1, []kmsg.StreamsGroupHeartbeatResponseStatus{}
	assert.Equal(a.w.t, empty, rest, "an error carries only the code")
	assert.Empty(a.w.t, a.recs)
	return a
}

// tasks expects all three lists.
func (a *answer) tasks(want string) *answer {
	a.w.t.Helper()
	require.NotNil(a.w.t, a.resp.ActiveTasks, "active list")
	require.NotNil(a.w.t, a.resp.StandbyTasks, "standby list")
	require.NotNil(a.w.t, a.resp.WarmupTasks, "warm-up list")
	got := roles{listFromWire(a.resp.ActiveTasks), listFromWire(a.resp.StandbyTasks), listFromWire(a.resp.WarmupTasks)}
	assert.Equal(a.w.t, showRoles(parseRoles(want), nil), showRoles(got, nil), "tasks")
	return a
}

func (a *answer) noLists() *answer {
	a.w.t.Helper()
	assert.Nil(a.w.t, a.resp.ActiveTasks)
	assert.Nil(a.w.t, a.resp.StandbyTasks)
	assert.Nil(a.w.t, a.resp.WarmupTasks)
	return a
}

// status expects exactly these codes, in this order.
func (a *answer) status(codes ...int8) *answer {
	a.w.t.Helper()
	got := []int8{}
	for _, s := range a.resp.Status {
		got = append(got, s.StatusCode)
	}
	assert.Equal(a.w.t, append([]int8{}, codes...), got, "status %v", a.resp.Status)
	return a
}

// detail expects texts in the detail of a status, in this order.
func (a *answer) detail(code int8, texts ...string) *answer {
	a.w.t.Helper()
	for _, s := range a.resp.Status {
		if s.StatusCode != code {
			continue
		}
		rest := s.StatusDetail
		for _, text := range texts {
			_, after, ok := strings.Cut(rest, text)
			require.True(a.w.t, ok, "%q does not name %q (in this order)", s.StatusDetail, text)
			rest = after
		}
		return a
	}
	require.Fail(a.w.t, "no such status", "%d in %v", code, a.resp.Status)
	return a
}

// records expects these records in this order. A number alone stands for any
// record of the type.
func (a *answer) records(want ...string) *answer {
	a.w.t.Helper()
	got := make([]string, len(a.recs))
	for i, r := range a.recs {
		got[i] = showRecord(r, a.w.now.WallMillis)
		switch {
		case i >= len(want):
		case !strings.Contains(want[i], "("):
			got[i], _, _ = strings.Cut(got[i], "(")
		case strings.HasPrefix(want[i], "17(") && !strings.Contains(want[i], "VTE"):
			got[i], _, _ = strings.Cut(got[i], " VTE")
			got[i] += ")"
		}
	}
	assert.Equal(a.w.t, append([]string{}, want...), got, "records")
	return a
}

// endpointEpoch expects the endpoint epoch of the response.
func (a *answer) endpointEpoch(n int32) *answer {
	a.w.t.Helper()
	assert.Equal(a.w.t, n, a.resp.EndpointInformationEpoch, "endpoint epoch")
	return a
}

// endpoints expects the list, as in "host1:9092 foo:0,1 | standby bar:2"; no
// arguments expect null.
func (a *answer) endpoints(want ...string) *answer {
	a.w.t.Helper()
	if want == nil {
		assert.Nil(a.w.t, a.resp.PartitionsByUserEndpoint)
		return a
	}
	require.NotNil(a.w.t, a.resp.PartitionsByUserEndpoint, "endpoint list")
	got := []string{}
	for _, e := range a.resp.PartitionsByUserEndpoint {
		var active, standby taskList
		for _, p := range e.ActivePartitions {
			for _, n := range p.Partitions {
				active = append(active, topology.TaskID{Subtopology: p.Topic, Partition: n})
			}
		}
		for _, p := range e.StandbyPartitions {
			for _, n := range p.Partitions {
				standby = append(standby, topology.TaskID{Subtopology: p.Topic, Partition: n})
			}
		}
		got = append(got, fmt.Sprintf("%s:%d %s", e.UserEndpoint.Host, e.UserEndpoint.Port, showRoles(roles{active: active, standby: standby}, nil)))
	}
	assert.ElementsMatch(a.w.t, want, got)
	return a
}

// nobody is the endpoint list that is there and empty.
var nobody = []string{}

// count is how many events of a type there are.
func count[E Event](a *answer) int {
	n := 0
	for _, e := range a.events {
		if _, ok := e.(E); ok {
			n++
		}
	}
	return n
}

// the returns the only event of a type.
func the[E Event](a *answer) E {
	a.w.t.Helper()
	require.Equal(a.w.t, 1, count[E](a), "%#v", a.events)
	for _, e := range a.events {
		if e, ok := e.(E); ok {
			return e
		}
	}
	panic("unreachable")
}

type describedGroup = kmsg.StreamsGroupDescribeResponseGroup
