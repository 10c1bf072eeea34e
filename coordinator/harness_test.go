package coordinator

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/assignor"
	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
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

// tester is what a world reports to: a test, a benchmark or a property.
type tester interface {
	require.TestingT
	Helper()
}

type world struct {
	t      tester
	policy Policy
	c      *Coordinator
	stub   *stubAssignor
	now    Now
	topics map[string]topics.Topic
	image  *topics.Image
	fx     Effects
	log    []record.Record
	// batches are the lengths that the log had: what is appended at once is
	// never torn.
	batches []int
	// shadow is a coordinator that knows nothing but the log, up to shadowed.
	shadow   *Coordinator
	shadowed int
	topo     *kmsg.StreamsGroupHeartbeatRequestTopology // what joins send
	access   Access
	kind     GroupKind
	// appendFails is the error of the next append.
	appendFails error
	// What was configured, for another coordinator.
	broker       map[string]string
	groupConfigs map[string]string
}

func newWorld(t tester, p Policy) *world {
	w := &world{t: t, policy: p, stub: &stubAssignor{t: t, name: "stub"}, now: Now{Mono: time.Hour, WallMillis: startWall}, topics: map[string]topics.Topic{}, topo: t2()}
	w.broker = map[string]string{
		"group.streams.initial.rebalance.delay.ms": "0",
		"group.streams.assignment.interval.ms":     "0",
		"group.streams.assignors":                  "stub",
	}
	w.c = w.newCoordinator()
	w.topic("foo", 6)
	w.topic("bar", 3)
	return w
}

func (w *world) newCoordinator() *Coordinator {
	c, err := New(Config{
		Policy: w.policy, Broker: w.broker,
		Assignors: []assignor.Assignor{w.stub, &stubAssignor{t: w.t, name: "other"}},
	})
	require.NoError(w.t, err)
	c.SetGroupConfig(groupID, w.groupConfigs)
	return c
}

// stubAssignor returns the target of the case and must not be called without
// one.
type stubAssignor struct {
	t      tester
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
	w.broker[name] = value
}

func (w *world) groupConfig(pairs ...string) {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	w.c.SetGroupConfig(groupID, m)
	w.groupConfigs = m
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
	w.batches = append(w.batches, len(w.log))
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

// send plays the driver: decide, append, apply.
func (w *world) send(r *Request) *answer {
	w.t.Helper()
	rehearsed := w.rehearse(r)
	a := &answer{w: w, req: r, member: strings.Clone(r.MemberID), resp: w.decide(r)}
	require.Equal(w.t, rehearsed, w.decision(&a.resp), "a request that could not be written gets another answer when it is repeated")
	w.finish(a, func(err error) { AppendFailed(&a.resp, err) })
	if list := a.resp.PartitionsByUserEndpoint; list != nil {
		require.Equal(w.t, w.c.groups[r.Group].countEndpoints(), list)
	}
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
	if len(w.fx.Records) > 0 {
		w.batches = append(w.batches, len(w.log))
	}
	a.create = append(a.create, w.fx.CreateTopics...)
	w.c.Apply(w.now, &w.fx)
	a.events = append(a.events, w.fx.Events...)
	w.check()
}

// decide lets the coordinator decide about a request into a response that has
// been used before.
func (w *world) decide(r *Request) kmsg.StreamsGroupHeartbeatResponse {
	w.t.Helper()
	before := w.c.stateOf(r.Group)
	resp := kmsg.NewStreamsGroupHeartbeatResponse()
	resp.Version = r.Version
	resp.MemberID, resp.ActiveTasks = "left from before", []kmsg.TaskIDs{{SubtopologyID: "left from before"}}
	w.c.Handle(w.now, w.image, r, &resp, &w.fx)
	require.Equal(w.t, before, w.c.stateOf(r.Group), "deciding must not change the state")
	return resp
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
		w.rehearseTick()
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
	if w.shadow == nil {
		w.shadow, w.shadowed = w.newCoordinator(), 0
	}
	other := w.shadow
	for ; w.shadowed < len(w.log); w.shadowed++ {
		r := w.log[w.shadowed]
		key, value := record.AppendKey(nil, r.RecordKey()), record.AppendValue(nil, r)
		decoded, err := record.Decode(key, value)
		require.NoError(w.t, err)
		require.NoError(w.t, other.Replay(decoded))
	}
	w.rehearseRemoval()
	checkTimers(w.t, w.c)
	for _, g := range w.c.List() {
		require.Equal(w.t, string(w.c.AppendState(nil, g.Group, false)), string(other.AppendState(nil, g.Group, false)), "the log gives another state")
		checkInvariants(w.t, w.c.groups[g.Group])
		checkEpochs(w.t, w.c.groups[g.Group])
		checkExplained(w.t, w.c, w.now, w.c.groups[g.Group])
	}
	require.Len(w.t, other.List(), len(w.c.List()))
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
