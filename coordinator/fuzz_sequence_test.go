package coordinator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
	"github.com/streamsgroup/streamsgroup/topology"
)

// play is what a fuzzer makes a coordinator go through, a few bytes a step. Unlike the
// clients of a swarm its members may say anything.
type play struct {
	*world
	rest    []byte
	members [6]actor
	// epoch and assignmentEpoch are the group's after the last step.
	epoch, assignmentEpoch int32
}

type actor struct {
	id, process, instance string
	epoch                 int32
	told                  roles
}

// next takes a byte and returns a number below n; 0 if the play is over.
func (s *play) next(n int) int {
	if len(s.rest) == 0 {
		return 0
	}
	b := s.rest[0]
	s.rest = s.rest[1:]
	return int(b) % n
}

func newPlay(t tester, p Policy, data []byte) *play {
	w := newWorld(t, p)
	w.brokerConfig("group.streams.assignors", "sticky")
	if p == KIP1071 {
		w.brokerConfig("group.streams.assignors", "sticky,highly_available")
	}
	w.brokerConfig("group.streams.rack.aware.assignment.tags", "zone")
	w.brokerConfig("group.streams.max.size", "5")
	w.topic("log", 3)
	withStore(w)
	s := &play{world: w, rest: data}
	for i := range s.members {
		m := &s.members[i]
		m.id, m.process = fmt.Sprintf("m%d", i), fmt.Sprintf("p%d", i/2)
		if i > 3 {
			m.instance = "i" + m.process // two members claim the same
		}
	}
	return s
}

var playSteps = []func(s *play){
	(*play).heartbeat, (*play).heartbeat, (*play).heartbeat,
	(*play).joins, (*play).joins,
	(*play).leaves, (*play).strays, (*play).time, (*play).topicChanges, (*play).configs,
	(*play).commits, (*play).queries, (*play).removal, (*play).takeover, (*play).failure,
	(*play).describes, (*play).works,
}

func (s *play) run() {
	for len(s.rest) > 0 {
		playSteps[s.next(len(playSteps))](s)
		s.checkProgress()
	}
	s.after(10 * time.Minute)
	for _, g := range s.c.groups {
		require.Empty(s.t, g.members, "everybody has been silent for long")
	}
	require.Empty(s.t, s.c.timers)
}

// checkProgress checks that epochs of a group only grow.
func (s *play) checkProgress() {
	g := s.c.groups[groupID]
	if g == nil {
		s.epoch, s.assignmentEpoch = 0, 0
		return
	}
	require.GreaterOrEqual(s.t, g.epoch, s.epoch, "group epoch")
	require.GreaterOrEqual(s.t, g.assignmentEpoch, s.assignmentEpoch, "assignment epoch")
	s.epoch, s.assignmentEpoch = g.epoch, g.assignmentEpoch
}

func (s *play) member() *actor { return &s.members[s.next(len(s.members))] }

// say fills in what a request may say besides.
func (s *play) say(m *actor, r *Request) {
	r.Version = int16(s.next(2))
	if m.instance != "" && s.next(8) > 0 {
		r.InstanceID = &m.instance
	}
	what := s.next(256)
	if what&1 != 0 {
		rack(fmt.Sprint("r", s.next(2)))(r)
	}
	if what&2 != 0 {
		endpoint(fmt.Sprint("h:", s.next(3)))(r)
	}
	if what&4 != 0 {
		tags(fmt.Sprint("zone=", s.next(3)))(r)
	}
	if what&8 != 0 {
		task := fmt.Sprint("a_", s.next(6))
		offsets(task + "=1")(r)
		ends(task+"=2", task+"=3")(r)
		if what&16 != 0 {
			ends(task + "=2")(r)
		}
	}
	if what&32 != 0 {
		shutdown()(r)
	}
	if what&64 != 0 {
		seen(int32(s.next(4)))(r)
	}
	if what&128 != 0 {
		r.Existing = GroupKind(s.next(5))
	}
}

func (s *play) report(m *actor, r *Request) {
	o := m.told
	switch s.next(5) {
	case 0:
		return
	case 1:
		o = roles{}
	case 2:
		o.active = o.active.filter(func(t topology.TaskID) bool { return t.Partition%2 == 0 })
	case 3:
		o.standby = o.standby.plus(taskList{{Subtopology: "a", Partition: int32(s.next(8)) - 1}})
	}
	r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = listToWire(o.active), listToWire(o.standby), listToWire(o.warmup)
}

func (s *play) tell(m *actor, r *Request) {
	a := s.send(r)
	switch {
	case a.resp.ErrorCode == 0:
		m.epoch = a.resp.MemberEpoch
		if a.resp.ActiveTasks != nil {
			m.told = roles{listFromWire(a.resp.ActiveTasks), listFromWire(a.resp.StandbyTasks), listFromWire(a.resp.WarmupTasks)}
		}
	case a.resp.ErrorCode == kerr.UnknownServerError.Code:
		require.Fail(s.t, "the coordinator is at a loss", "%s %v", deref(a.resp.ErrorMessage), a.events)
	case a.resp.ErrorCode != kerr.CoordinatorNotAvailable.Code:
		require.NotNil(s.t, a.resp.ErrorMessage, "%v without a text", kerr.ErrorForCode(a.resp.ErrorCode))
	}
}

func (s *play) heartbeat() {
	m := s.member()
	r := s.request(m.id, m.epoch)
	if m.epoch <= 0 {
		r = s.joinRequest(m.id, process(m.process), with(versionOf(s.newest())))
	} else {
		s.report(m, r)
	}
	s.say(m, r)
	s.tell(m, r)
}

// newest is the topology epoch of the group.
func (s *play) newest() int32 {
	if g := s.c.groups[groupID]; g != nil && g.topology != nil {
		return g.topology.Epoch
	}
	return 0
}

func (s *play) joins() {
	m := s.member()
	top := versionOf(max(s.newest()+int32(s.next(4))-1, 0))
	switch s.next(6) {
	case 0:
		top = topo(0, sub("a", pattern("fo+|extra"), repartition("rep", 0), changelog("log")), sub("b", reads("bar"), writes("rep"), copartitioned([]int16{0}, nil)))
	case 1:
		top.Subtopologies = append(top.Subtopologies, top.Subtopologies[0])
	}
	r := s.joinRequest(m.id, process(m.process), timeout(int32(s.next(4))*500), with(top))
	s.say(m, r)
	s.tell(m, r)
}

func (s *play) leaves() {
	m := s.member()
	r := s.request(m.id, -1-int32(s.next(2)))
	s.say(m, r)
	s.tell(m, r)
	m.epoch, m.told = 0, roles{}
}

func (s *play) strays() {
	m := s.member()
	r := s.request(m.id, m.epoch+int32(int8(s.next(256))))
	s.say(m, r)
	s.report(m, r)
	if e := r.MemberEpoch; e == 0 || e == m.epoch {
		return
	}
	s.send(r)
}

func (s *play) time() {
	s.after(time.Duration([]int{1, 400, 1000, 5000, 20000, 61000}[s.next(6)]) * time.Millisecond)
}

func (s *play) topicChanges() {
	s.topic([]string{"foo", "bar", "log", "extra", "rep"}[s.next(5)], int32(s.next(7)))
}

func (s *play) configs() {
	switch s.next(5) {
	case 4:
		name := []string{"sticky", "highly_available"}[s.next(2)]
		s.groupConfig("streams.assignor.name", name, "streams.num.warmup.replicas", strconv.Itoa(s.next(4)), "streams.acceptable.recovery.lag", strconv.Itoa(s.next(3)*50))
	case 0:
		s.groupConfig("streams.num.standby.replicas", strconv.Itoa(s.next(4)))
	case 1:
		s.groupConfig("streams.assignment.interval.ms", strconv.Itoa(s.next(20)*1000))
	case 2:
		s.brokerConfig("group.streams.initial.rebalance.delay.ms", strconv.Itoa(s.next(3)*1000))
	case 3:
		s.groupConfig("streams.session.timeout.ms", "no number", "streams.rack.aware.assignment.tags", "zone,rack")
	}
}

func (s *play) commits() {
	m := s.member()
	r := Commit{Group: groupID, Member: m.id, Epoch: m.epoch - int32(s.next(5)) + 2, Version: int16(s.next(12)), Transactional: s.next(2) == 0}
	r.Partitions = func(yield func(string, int32) bool) {
		for range s.next(4) {
			if !yield([]string{"foo", "bar", "nowhere"}[s.next(3)], int32(s.next(8))-1) {
				return
			}
		}
	}
	before := s.c.stateOf(groupID)
	s.c.CheckCommit(r)
	s.c.CheckFetch(groupID, &m.id, r.Epoch)
	s.c.CheckFetch(groupID, nil, r.Epoch)
	s.c.Subscribed(groupID, "foo")
	require.Equal(s.t, before, s.c.stateOf(groupID))
}

func (s *play) queries() {
	before := s.c.stateOf(groupID)
	d := kmsg.NewPtrStreamsGroupDescribeResponse()
	d.Version = int16(s.next(2))
	d.Groups = append(d.Groups, s.c.Describe(groupID, nil))
	encoded := d.AppendTo(nil)
	again := kmsg.NewPtrStreamsGroupDescribeResponse()
	again.Version = d.Version
	require.NoError(s.t, again.ReadFrom(encoded))
	s.c.List()
	s.c.GroupConfigs(groupID)
	s.c.Required(groupID, func(string) {})
	require.Equal(s.t, before, s.c.stateOf(groupID))
}

// removal deletes the group or makes it a classic one, if it is empty.
func (s *play) removal() {
	decide, conversion := s.c.Delete, s.next(2) == 0
	if conversion {
		decide = s.c.Convert
	}
	if s.next(2) == 0 {
		s.removeDescription(conversion, []error{nil, errors.New("broken")}[s.next(2)])
	}
	if code, ok := decide(groupID, &s.fx); ok && code == 0 {
		s.finish(&answer{w: s.world}, func(error) {})
	}
}

// takeover gives the group to another coordinator, which finds the log whole or
// compacted.
func (s *play) takeover() {
	log := s.log
	if len(s.batches) > 0 && s.next(2) == 0 {
		log = compacted(log, s.batches[s.next(len(s.batches))], s.next(2) == 0)
	}
	if s.c.Has(groupID) {
		s.c = s.loaded(log)
		s.check()
	}
}

// describes pushes a description to a store with a mind of its own, which may
// take so long that other things happen meanwhile.
func (s *play) describes() {
	m := s.member()
	if !s.c.Has(groupID) {
		return
	}
	req := push(m.id, s.newest()+int32(s.next(3))-1)
	outcome := []error{nil, errors.New("broken"), &DescriptionRefusedError{Reason: "no"}}[s.next(3)]
	if _, ok := s.beginPush(req); !ok {
		return
	}
	for range s.next(3) {
		[]func(*play){(*play).heartbeat, (*play).leaves, (*play).joins, (*play).takeover, (*play).failure}[s.next(5)](s)
	}
	s.endPush(req, outcome)
}

// works has a member do what a good client does, for a while: without that few
// plays would get beyond a rebalance.
func (s *play) works() {
	for range 1 + s.next(12) {
		m := s.member()
		r := s.request(m.id, m.epoch)
		if m.epoch <= 0 {
			r = s.joinRequest(m.id, process(m.process), with(versionOf(s.newest())))
		} else {
			r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = listToWire(m.told.active), listToWire(m.told.standby), listToWire(m.told.warmup)
		}
		if m.instance != "" {
			r.InstanceID = &m.instance
		}
		if s.next(2) == 0 { // what it restores comes along
			for _, tasks := range []taskList{m.told.active, m.told.standby, m.told.warmup} {
				for _, t := range tasks {
					o := kmsg.TaskOffset{SubtopologyID: t.Subtopology, Partition: t.Partition, Offset: int64(s.next(3)) * 50}
					r.TaskOffsets = append(r.TaskOffsets, o)
					o.Offset = 100
					r.TaskEndOffsets = append(r.TaskEndOffsets, o)
				}
			}
			r.Version = 1
		}
		s.tell(m, r)
		s.after(time.Duration(s.next(3)) * time.Second)
	}
}

func (s *play) failure() { s.appendFails = kerr.NotEnoughReplicas }

// FuzzSequence runs plays. What must hold after every step is checked by the
// world; here it is only added that epochs grow and that nothing stays behind.
func FuzzSequence(f *testing.F) {
	f.Add(uint8(0), []byte("\x03\x00\x01\x02\x00\x00\x00\x00\x03\x01\x01\x02\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x01\x04\x00\x00\x07\x03\x05\x00\x00"))
	f.Add(uint8(1), []byte("\x04\x04\x01\x02\x03\x00\x01\x00\x05\x04\x01\x00\x01\x00\x04\x05\x01\x02\x03\x00\x01\x00\x0d\x00\x00\x00\x07\x05\x0c\x00"))
	rng := rand.New(rand.NewPCG(9, 9))
	for i := range 40 { // deep from the start
		data := make([]byte, 600)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		f.Add(uint8(i), data)
	}
	f.Fuzz(func(t *testing.T, policy uint8, data []byte) {
		if len(data) > 600 {
			return // more of the same
		}
		newPlay(t, Policy(policy&1), data).run()
	})
}

// packed writes records in the form that FuzzReplay reads.
func packed(records []record.Record) []byte {
	var out []byte
	for _, r := range records {
		key, value := record.AppendKey(nil, r.RecordKey()), record.AppendValue(nil, r)
		out = append(binary.AppendUvarint(out, uint64(len(key))), key...)
		out = append(binary.AppendUvarint(out, uint64(len(value))), value...)
	}
	return out
}

func unpack(data []byte) (key, value, rest []byte) {
	take := func() []byte {
		n, width := binary.Uvarint(data)
		if width <= 0 {
			data = nil
			return nil
		}
		data = data[width:]
		n = min(n, uint64(len(data)))
		part := data[:n:n]
		data = data[n:]
		return part
	}
	key, value = take(), take()
	if len(value) == 0 {
		value = nil
	}
	return key, value, data
}

// FuzzReplay loads a log of any content: a record is refused or applied whole,
// what was applied is found again in the state, and a coordinator that has loaded
// it answers requests.
func FuzzReplay(f *testing.F) {
	w := newWorld(f, KIP1071)
	w.brokerConfig("group.streams.assignors", "sticky")
	w.join("m1", endpoint("h:1"), tags("zone=a"))
	w.join("m2", rack("r"), inst("i"))
	w.hb("m1", 2, owned("s1:0-5 s2:0-2"))
	w.hb("m1", 3, owned("s1:0-2 s2:0,1"))
	f.Add(packed(w.log))
	w.hb("m1", -1)
	w.hb("m2", -2, inst("i"))
	w.join("m3", inst("i"))
	w.after(time.Hour)
	w.c.Delete(groupID, &w.fx)
	w.finish(&answer{w: w}, func(error) {})
	f.Add(packed(w.log))
	f.Add(packed(compacted(w.log, len(w.log), false)))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, p := range []Policy{KIP1071, Kafka} {
			w := newWorld(t, p)
			w.brokerConfig("group.streams.assignors", "sticky")
			replayAnything(t, w.c, data)
			for _, id := range slices.Sorted(maps.Keys(w.c.groups)) {
				liveOn(t, w, id)
			}
			for w.advance(10 * time.Minute); w.c.Tick(w.now, &w.fx); {
				w.c.Apply(w.now, &w.fx)
			}
		}
	})
}

func replayAnything(t *testing.T, c *Coordinator, data []byte) {
	t.Helper()
	for len(data) > 0 {
		var key, value []byte
		key, value, data = unpack(data)
		r, err := record.Decode(key, value)
		if err != nil {
			continue // FuzzDecode looks at these
		}
		before := c.stateOf(r.RecordKey().Group)
		if err := c.Replay(r); err != nil {
			var refused *ReplayError
			require.True(t, errors.As(err, &refused), "%v", err)
			require.Equal(t, before, c.stateOf(r.RecordKey().Group))
		}
		if g := c.groups[r.RecordKey().Group]; g != nil {
			checkCounters(t, g)
			require.NotPanics(t, func() { g.state() })
		}
	}
	again, err := New(Config{})
	require.NoError(t, err)
	for id, g := range c.groups {
		for _, r := range g.records() {
			require.NoError(t, again.Replay(r))
		}
		require.Equal(t, c.AppendState(nil, id, false), again.AppendState(nil, id, false))
	}
}

// liveOn loads a group and lets each member send a heartbeat, and a new one join.
func liveOn(t *testing.T, w *world, group string) {
	t.Helper()
	w.c.Loaded(w.now, group)
	var resp kmsg.StreamsGroupHeartbeatResponse
	send := func(r *Request) {
		w.c.Handle(w.now, w.image, r, &resp, &w.fx)
		resp.Version = 1
		resp.AppendTo(nil)
		w.c.Apply(w.now, &w.fx)
		if g := w.c.groups[group]; g != nil {
			checkCounters(t, g)
		}
	}
	for _, id := range w.c.groups[group].memberIDs() {
		for range 2 {
			m := w.c.groups[group].members[id]
			if m == nil {
				break
			}
			r := w.request(id, m.cur.epoch)
			r.Group = group
			r.InstanceID = m.meta.InstanceID
			r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = listToWire(m.cur.assigned.active), listToWire(m.cur.assigned.standby), listToWire(m.cur.assigned.warmup)
			send(r)
			w.c.CheckCommit(Commit{Group: group, Member: id, Epoch: m.cur.epoch - 1, Version: 9, Partitions: func(yield func(string, int32) bool) { yield("foo", 0) }})
		}
	}
	join := w.joinRequest("new", func(r *Request) { r.Group = group })
	send(join)
	w.c.Describe(group, nil)
	w.topics["extra"] = topics.Topic{Name: "extra", Partitions: 2}
	w.topic("foo", 3)
	send(join)
}
