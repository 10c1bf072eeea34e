package membership

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/streamsgroup/streamsgroup/topology"
)

// hostile draws what no coordinator in its right mind would send.
type hostile struct{ *rapid.T }

func (t hostile) tasks(name string) []kmsg.TaskIDs {
	switch rapid.IntRange(0, 5).Draw(t.T, name) {
	case 0:
		return nil
	case 1:
		return []kmsg.TaskIDs{}
	}
	out := []kmsg.TaskIDs{}
	for range rapid.IntRange(1, 3).Draw(t.T, "entries") {
		w := kmsg.NewTaskIDs()
		w.SubtopologyID = rapid.SampledFrom([]string{"0", "0", "1", "1", "0", "1", "77", ""}).Draw(t.T, "subtopology")
		for range rapid.IntRange(0, 3).Draw(t.T, "partitions") {
			w.Partitions = append(w.Partitions, rapid.SampledFrom([]int32{0, 0, 1, 2, 3, 3, math.MaxInt32, -1}).Draw(t.T, "partition"))
		}
		out = append(out, w)
	}
	return out
}

var (
	oddInt32 = rapid.SampledFrom([]int32{5000, 5000, 1, 0, -1, 1000, math.MaxInt32, math.MinInt32})
	oddInt64 = rapid.SampledFrom([]int64{-1, 0, 1, 100, math.MaxInt64, math.MinInt64})
)

func (t hostile) response() *kmsg.StreamsGroupHeartbeatResponse {
	resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
	resp.Version = rapid.SampledFrom([]int16{0, 1, 1, 1, 7}).Draw(t.T, "version")
	if rapid.IntRange(0, 4).Draw(t.T, "an error") == 0 {
		resp.ErrorCode = rapid.SampledFrom([]int16{14, 15, 16, 25, 110, 69, 29, 14, 15, 16, 25, 110, 69, 29, 30, 42, 82, 111, 131, -1, 9999}).Draw(t.T, "code")
		if rapid.Bool().Draw(t.T, "with a text") {
			resp.ErrorMessage = kmsg.StringPtr("text")
		}
	}
	resp.MemberID = rapid.SampledFrom([]string{"m1", "", "another"}).Draw(t.T, "member id")
	resp.MemberEpoch = rapid.SampledFrom([]int32{1, 2, 3, 4, 5, 6, 7, 8, math.MaxInt32, 0, -1, -2, math.MinInt32}).Draw(t.T, "epoch")
	resp.HeartbeatIntervalMillis = oddInt32.Draw(t.T, "interval")
	resp.TaskOffsetIntervalMillis = oddInt32.Draw(t.T, "offset interval")
	resp.AcceptableRecoveryLag = oddInt64.Draw(t.T, "recovery lag")
	resp.EndpointInformationEpoch = oddInt32.Draw(t.T, "endpoint epoch")
	resp.TopologyDescriptionRequired = rapid.Bool().Draw(t.T, "description")
	resp.ThrottleMillis = oddInt32.Draw(t.T, "throttle")
	switch rapid.IntRange(0, 3).Draw(t.T, "lists") {
	case 0:
	case 1:
		resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks = t.tasks("active"), t.tasks("standby"), t.tasks("warm-up")
	default:
		some := func(name string) []topology.TaskID { return propertyTasks.Draw(t.T, name) }
		roles{some("active"), some("standby"), some("warm-up")}.set(resp)
	}
	if n := rapid.IntRange(-1, 2).Draw(t.T, "statuses"); n >= 0 {
		resp.Status = []kmsg.StreamsGroupHeartbeatResponseStatus{}
		for range n {
			status(rapid.SampledFrom([]int8{0, 1, 3, 5, 6, 2, 4, 7, 127, -128}).Draw(t.T, "status"))(resp)
		}
	}
	if n := rapid.IntRange(-1, 2).Draw(t.T, "endpoints"); n >= 0 {
		resp.PartitionsByUserEndpoint = []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint{}
		for range n {
			e := kmsg.NewStreamsGroupHeartbeatResponsePartitionsByUserEndpoint()
			e.UserEndpoint.Host = rapid.SampledFrom([]string{"h", "", "h"}).Draw(t.T, "host")
			e.ActivePartitions = []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpointActivePartition{{Topic: "in", Partitions: []int32{-1, 0}}, {}}
			resp.PartitionsByUserEndpoint = append(resp.PartitionsByUserEndpoint, e)
		}
	}
	switch rapid.IntRange(0, 9).Draw(t.T, "tag") {
	case 0:
		resp.UnknownTags.Set(topology.ResolutionTag, rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t.T, "garbage"))
	case 1:
		resolution(matching("late-a"))(resp)
	}
	return resp
}

// besieged is a member whose coordinator, driver and application do what they like. It
// has no say about what is right beyond what holds whatever happens.
type besieged struct {
	*rapid.T
	m   *Member
	now time.Duration

	finding, pushing bool
	ordinary, all    []sentHeartbeat // unanswered; ever sent
	callbacks        []Callback      // that have not returned
	revoking         int             // of them, revocations
	epoch            int32           // as told
	farewell         int             // leaves since it has failed
	failed           bool
}

func (b *besieged) pump() {
	for i := 0; ; i++ {
		require.Less(b, i, 30, "the member spins in state %v", b.m.State())
		var fx Effects
		b.m.Step(b.now, &fx)
		b.take(&fx)
		at, ok := b.m.NextDeadline()
		if !ok || at > b.now {
			break
		}
	}
	b.awake()
}

func (b *besieged) take(fx *Effects) {
	if fx.FindCoordinator {
		require.False(b, b.finding, "one look-up at a time")
		b.finding = true
	}
	for _, e := range fx.Events {
		switch e := e.(type) {
		case StateChanged:
			require.Contains(b, permitted[e.To], e.From)
			require.False(b, b.failed, "a failed member stays so")
			if b.failed = e.To == Fatal; b.failed || !e.To.live() {
				b.ordinary = nil // they count for nothing any more
			}
		case EpochChanged:
			require.Equal(b, b.epoch, e.From)
			require.NotEqual(b, e.From, e.To)
			require.GreaterOrEqual(b, e.To, int32(0))
			b.epoch = e.To
		}
	}
	if req := fx.Heartbeat; req != nil {
		s := sentHeartbeat{fx.HeartbeatID, req}
		reported(b, req)
		b.all = append(b.all, s)
		switch {
		case req.MemberEpoch < 0:
			require.Contains(b, []int32{-1, -2}, req.MemberEpoch)
			b.ordinary = nil
			if b.failed {
				b.farewell++
			}
		default:
			require.False(b, b.failed, "a failed member says goodbye at most")
			require.Empty(b, b.ordinary, "one heartbeat in flight")
			require.Equal(b, req.MemberEpoch == 0, req.Topology != nil, "only a join has no epoch")
			b.ordinary = []sentHeartbeat{s}
		}
	}
	if fx.Description != nil {
		require.False(b, b.pushing, "one description at a time")
		b.pushing = true
	}
	for _, err := range fx.Errs {
		require.NotContains(b, err.Error(), "internal error")
	}
	for _, cb := range fx.Callbacks {
		switch cb.Kind {
		case TasksRevoked:
			b.revoking++
		case TasksAssigned:
			require.Zero(b, b.revoking, "tasks are assigned when those that go are revoked")
		}
		for _, l := range [][]topology.TaskID{cb.Active, cb.Standby, cb.Warmup} {
			require.True(b, slices.IsSortedFunc(l, topology.TaskID.Compare))
			for _, task := range l {
				require.Contains(b, []string{"0", "1"}, task.Subtopology, "nothing is run that the topology lacks")
				require.GreaterOrEqual(b, task.Partition, int32(0))
			}
		}
		b.callbacks = append(b.callbacks, cb)
	}
}

// awake is that the member has not fallen asleep for good: whoever it waits for exists.
func (b *besieged) awake() {
	m := b.m
	_, deadline := m.NextDeadline()
	waits := deadline || b.finding || m.inFlight != 0 || m.leaveID != 0 || len(b.callbacks) > 0
	switch s := m.State(); {
	case s.inGroup(), m.leavePending, m.fatalLeave, s == Fenced:
		require.True(b, waits, "nothing will wake the member in state %v", s)
	case s == Stale:
		require.True(b, waits || !m.polledStale, "nor this one, although the application is back")
	}
}

func (b *besieged) answer(s sentHeartbeat) {
	b.ordinary = slices.DeleteFunc(b.ordinary, func(o sentHeartbeat) bool { return o.id == s.id })
	if rapid.IntRange(0, 5).Draw(b.T, "lost") == 0 {
		kind := rapid.SampledFrom([]FailureKind{Disconnected, TimedOut, Disconnected, TimedOut, Disconnected, TimedOut, Other, Unsupported}).Draw(b.T, "kind")
		b.m.HeartbeatFailed(b.now, s.id, kind, errors.New("lost"))
		return
	}
	b.m.HeartbeatAnswered(b.now, s.id, hostile{b.T}.response())
}

func (b *besieged) input() {
	m, t := b.m, b.T
	some := func(n int, what string) bool { return rapid.IntRange(0, n).Draw(t, what) == 0 }
	switch rapid.IntRange(0, 19).Draw(t, "input") {
	case 0, 1, 2, 3, 4:
		if len(b.ordinary) > 0 {
			b.answer(b.ordinary[0])
		}
	case 5, 6, 7, 8: // in any order
		if len(b.callbacks) == 0 {
			m.CallbackDone(b.now, math.MaxUint64, nil)
			break
		}
		i := rapid.IntRange(0, len(b.callbacks)-1).Draw(t, "which")
		cb := b.callbacks[i]
		b.callbacks = slices.Delete(b.callbacks, i, i+1)
		if cb.Kind == TasksRevoked {
			b.revoking--
		}
		var err error
		if some(20, "fails") {
			err = errors.New("callback")
		}
		m.CallbackDone(b.now, cb.ID, err)
		m.CallbackDone(b.now, cb.ID, nil) // twice does no harm
	case 9: // of any time, a second time, or to nothing at all
		if len(b.all) == 0 || some(9, "unknown") {
			m.HeartbeatAnswered(b.now, rapid.SampledFrom([]uint64{0, 1 << 60}).Draw(t, "id"), hostile{t}.response())
			break
		}
		b.answer(b.all[rapid.IntRange(max(0, len(b.all)-3), len(b.all)-1).Draw(t, "late")])
	case 10:
		if some(2, "leave") {
			m.Leave(b.now, rapid.SampledFrom([]LeaveMode{LeaveDefault, LeaveGroup, RemainInGroup}).Draw(t, "mode"))
		}
	case 11:
		m.Join(b.now)
	case 12:
		m.Poll(b.now)
	case 13:
		switch rapid.IntRange(0, 2).Draw(t, "nudge") {
		case 0:
			m.Suspect(b.now)
		case 1:
			m.ForceHeartbeat()
		case 2:
			m.RequestShutdown()
		}
	case 14:
		resp := kmsg.NewPtrStreamsGroupTopologyDescriptionUpdateResponse()
		resp.ErrorCode, resp.ThrottleMillis = rapid.SampledFrom([]int16{0, 14, 15, 16, 25, 135, 999}).Draw(t, "description"), oddInt32.Draw(t, "throttle")
		if b.pushing = false; some(2, "failed") {
			m.DescriptionFailed(b.now, rapid.SampledFrom([]FailureKind{Disconnected, TimedOut, Unsupported, Other}).Draw(t, "kind"), errors.New("lost"))
		} else {
			m.DescriptionAnswered(b.now, resp)
		}
	case 15:
		task := topology.TaskID{Subtopology: "0", Partition: rapid.Int32Range(0, 2).Draw(t, "partition")}
		m.SetTaskOffsets(map[topology.TaskID]int64{task: oddInt64.Draw(t, "offset")}, map[topology.TaskID]int64{task: oddInt64.Draw(t, "end")})
	case 16:
		if some(9, "the driver has to stop") {
			m.LastLeave(b.now)
		}
	case 17:
		m.Disown(b.now)
	case 18:
		b.now += time.Duration(rapid.IntRange(1, 100_000).Draw(t, "seconds")) * time.Second
	default:
		b.now += time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond
	}
	if b.finding && some(1, "look-up ends") {
		b.finding = false
		switch rapid.IntRange(0, 9).Draw(t, "how") {
		case 0:
			m.CoordinatorFailed(b.now, errors.New("refused"))
		case 1:
			m.CoordinatorFailed(b.now, kerr.GroupAuthorizationFailed)
		case 2:
			if some(9, "unusable") {
				m.CoordinatorUnsupported(errors.New("old"))
				break
			}
			fallthrough
		default:
			m.CoordinatorFound(b.now, rapid.SampledFrom([]int16{1, 1, 1, 0, 7}).Draw(t, "version"))
		}
	}
}

func TestWhateverHappens(t *testing.T) {
	t.Parallel()
	plain, withPattern := shopTopology(t), patternTopology(t)
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Group: "shop", MemberID: "m1", Topology: plain, MaxPollInterval: pollLimit, RetryBackoff: backoff, RetryBackoffMax: backoffMax,
			PollGuard: rapid.Bool().Draw(t, "poll guard"), FailOnStatus: rapid.Bool().Draw(t, "fail on status"),
			LeaveTimeout: time.Duration(rapid.SampledFrom([]int{0, 3}).Draw(t, "leave timeout")) * time.Second,
		}
		if rapid.Bool().Draw(t, "patterns") {
			cfg.Topology = withPattern
		}
		cfg.Description = cfg.Topology.Description()
		if rapid.Bool().Draw(t, "static") {
			cfg.InstanceID = "i"
		}
		m, err := New(cfg)
		require.NoError(t, err)
		b := &besieged{T: t, m: m}
		m.Join(0)
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			b.input()
			b.pump()
			m.Snapshot(b.now)
			got, ok := m.Epoch()
			require.Equal(t, ok, got > 0)
			require.Equal(t, b.epoch, got, "what was told is what a commit may use")
		}
		b.end()
	})
}

// end leaves with everybody well-behaved from now on, and requires that this comes to an
// end from wherever the member was.
func (b *besieged) end() {
	b.m.Leave(b.now, LeaveDefault)
	for range 100 {
		b.pump()
		for _, cb := range b.callbacks {
			b.m.CallbackDone(b.now, cb.ID, nil)
		}
		b.callbacks, b.revoking = nil, 0
		if b.finding {
			b.finding = false
			b.m.CoordinatorFound(b.now, 1)
		}
		b.pump()
		if id := b.m.leaveID; id != 0 {
			resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
			resp.MemberEpoch = -1
			b.m.HeartbeatAnswered(b.now, id, resp)
		}
		if b.m.LeaveDone() {
			break
		}
		b.now += backoffMax
	}
	require.True(b, b.m.LeaveDone(), "the member cannot leave in state %v", b.m.State())
	n := len(b.all)
	for range 20 {
		b.now += interval
		b.pump()
	}
	require.Len(b, b.all, n, "who has left is silent")
	require.False(b, b.finding)
	s := b.m.Snapshot(b.now)
	require.Empty(b, slices.Concat(s.Active, s.Standby, s.Warmup))
	require.LessOrEqual(b, b.farewell, 6, "the goodbye of a failed member is repeated with a back-off")
}

// TestNoAnswerMakesItSpin has everything answered at once, with whatever: requests per
// minute stay within what the back-offs allow.
func TestNoAnswerMakesItSpin(t *testing.T) {
	t.Parallel()
	topo := patternTopology(t)
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Group: "shop", MemberID: "m1", Topology: topo, MaxPollInterval: pollLimit, RetryBackoff: backoff, RetryBackoffMax: backoffMax, Description: topo.Description()}
		m, err := New(cfg)
		require.NoError(t, err)
		b := &besieged{T: t, m: m}
		var requests []time.Duration
		m.Join(0)
		script := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *kmsg.StreamsGroupHeartbeatResponse {
			return hostile{t}.response()
		}), 1, 5).Draw(t, "answers, over and over")
		for next := 0; b.now < 2*time.Minute && m.State() != Fatal; {
			var fx Effects
			m.Step(b.now, &fx)
			b.take(&fx)
			if fx.FindCoordinator {
				requests = append(requests, b.now)
				b.finding = false
				m.CoordinatorFound(b.now, 1)
			}
			if fx.Description != nil {
				requests = append(requests, b.now)
				b.pushing = false
				m.DescriptionAnswered(b.now, kmsg.NewPtrStreamsGroupTopologyDescriptionUpdateResponse())
			}
			for _, cb := range b.callbacks {
				m.CallbackDone(b.now, cb.ID, nil)
			}
			b.callbacks, b.revoking = nil, 0
			if fx.Heartbeat != nil {
				requests = append(requests, b.now)
				b.ordinary = nil
				m.HeartbeatAnswered(b.now, fx.HeartbeatID, script[next%len(script)])
				next++
			}
			at, ok := m.NextDeadline()
			require.True(t, ok || m.State() == Fatal, "asleep in state %v", m.State())
			b.now = max(b.now, at)
		}
		from := 0
		for i, at := range requests {
			for requests[from] < at-time.Minute {
				from++
			}
			// In the time of the shortest back-off: a join, a heartbeat, a description after
			// each of the two, and a look-up. And acknowledgements, of which there is one a
			// second.
			require.LessOrEqual(t, i-from+1, 5*int(time.Minute/backoff)+2*acksAtOnce+60, "requests in the minute before %v", at)
		}
	})
}
