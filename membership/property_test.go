package membership

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/streamsgroup/streamsgroup/topology"
)

// world is a member among random answers, with a model of the application and of
// what the coordinator was told.
type world struct {
	*rapid.T
	m   *Member
	now time.Duration

	epoch     int32 // as told
	granted   int32 // the greatest that was given out
	finding   bool
	ordinary  []sentHeartbeat // unanswered, and not given up for a leave
	abandoned []sentHeartbeat
	leaves    []sentHeartbeat
	callbacks []Callback

	pushing   bool
	retired   bool              // the last leave was taken: nothing more is sent
	requests  []time.Duration   // when something was sent or looked up
	runs      []topology.TaskID // the active tasks that the application runs
	confirmed roles
	told      *roles // what the coordinator was told since the join or the last failure
	ready     bool
	toldReady bool
	// news is whether something has happened that the coordinator waits to be told,
	// although the tasks may be those that it knows: rules HB-7a and AS-1a.
	news          bool
	offsets, ends offsetMap
	memory        memory
}

// untell is that the coordinator may have lost what it was told.
func (w *world) untell() {
	w.told = nil
	w.memory.forget()
}

// pump steps until nothing is due. It must come to rest.
func (w *world) pump() {
	for i := 0; ; i++ {
		require.Less(w, i, 30, "the member spins in state %v", w.m.State())
		var fx Effects
		w.m.Step(w.now, &fx)
		w.take(&fx)
		at, ok := w.m.NextDeadline()
		if !ok || at > w.now {
			return
		}
	}
}

func (w *world) take(fx *Effects) {
	if fx.FindCoordinator {
		require.False(w, w.finding, "one look-up at a time")
		w.finding = true
		w.requests = append(w.requests, w.now)
	}
	if req := fx.Heartbeat; req != nil {
		w.requests = append(w.requests, w.now)
		w.heartbeat(sentHeartbeat{fx.HeartbeatID, req})
	}
	if req := fx.Description; req != nil {
		require.False(w, w.pushing, "one description at a time")
		require.Contains(w, []State{Reconciling, Acknowledging, StateStable, Joining}, w.m.State())
		w.pushing = true
		w.requests = append(w.requests, w.now)
	}
	for _, err := range fx.Errs {
		require.NotContains(w, err.Error(), "internal error", "a forbidden transition")
	}
	for _, e := range fx.Events {
		switch e := e.(type) {
		case StateChanged:
			require.Contains(w, permitted[e.To], e.From)
			if e.From == Leaving && e.To == Unsubscribed {
				w.confirmed, w.ready = roles{}, false // copies go without a callback
			}
		case EpochChanged:
			w.epochChanged(e)
		}
	}
	w.callbacks = append(w.callbacks, fx.Callbacks...)
}

// epochChanged checks that epochs are told without a gap. The coordinator of this
// world gives out greater ones only, as a sane one does.
func (w *world) epochChanged(e EpochChanged) {
	require.Equal(w, w.epoch, e.From)
	require.NotEqual(w, e.From, e.To)
	if e.From > 0 && e.To > 0 {
		require.Greater(w, e.To, e.From, "epochs grow within a membership")
	}
	w.epoch = e.To
}

// requireNoBusyLoop is that all requests of any minute are few: at the very most one
// heartbeat and one look-up in the time of the shortest back-off, and the leaves
// that the test itself asked for.
func (w *world) requireNoBusyLoop(inputs int) {
	from := 0
	for i, at := range w.requests {
		for w.requests[from] < at-time.Minute {
			from++
		}
		require.LessOrEqual(w, i-from+1, 2*int(time.Minute/backoff)+2*inputs, "requests in the minute before %v", at)
	}
}

func (w *world) heartbeat(s sentHeartbeat) {
	require.False(w, w.retired, "nothing is sent after the last leave")
	got, carries := reported(w, s.req)
	if s.req.MemberEpoch < 0 {
		require.Nil(w, s.req.Topology)
		w.abandoned = append(w.abandoned, w.ordinary...)
		w.ordinary = nil
		w.leaves = append(w.leaves, s)
		return
	}
	require.Empty(w, w.ordinary, "one heartbeat in flight")
	w.ordinary = append(w.ordinary, s)
	require.Equal(w, s.req.MemberEpoch == 0, s.req.Topology != nil)
	switch {
	case s.req.MemberEpoch == 0:
		require.Equal(w, roles{}, got)
		w.told = nil
	case carries:
		require.True(w, w.told == nil || w.news, "nothing is told without need")
		var starting []topology.TaskID
		for _, cb := range w.callbacks {
			starting = append(starting, cb.Active...)
		}
		must := slices.Concat(w.confirmed.active, starting)
		for _, task := range must {
			require.Contains(w, got.active, task, "what is confirmed or being started is reported")
		}
		may := slices.Concat(must, w.m.target.active)
		if w.m.running != nil {
			may = append(may, w.m.running.goal.active...)
		}
		for _, task := range got.active {
			require.Contains(w, may, task, "nothing else is")
		}
		require.Equal(w, minus(w.confirmed.standby, got.active), got.standby)
		if s.req.Version > 0 {
			require.Equal(w, minus(w.confirmed.warmup, got.active), got.warmup)
		} else {
			require.Empty(w, got.warmup)
		}
		told := w.confirmed
		w.told, w.toldReady, w.news = &told, w.ready, false
	default:
		require.NotNil(w, w.told, "the coordinator does not know the tasks")
		require.False(w, w.news, "it waits for a report")
		require.Equal(w, w.confirmed, *w.told)
		require.Equal(w, w.ready, w.toldReady)
	}
	w.memory.check(w, w.now, s.req, w.offsets, w.ends, w.confirmed.warmup)
}

// finish returns from the oldest callback.
func (w *world) finish(err error) {
	if len(w.callbacks) == 0 {
		return
	}
	cb := w.callbacks[0]
	w.callbacks = w.callbacks[1:]
	why := w.m.calls[cb.ID].purpose
	switch cb.Kind {
	case TasksRevoked:
		w.runs = minus(w.runs, cb.Active)
		if why == revokeLeaving {
			require.Empty(w, w.runs, "all tasks are revoked before the member leaves")
			w.confirmed, w.ready = roles{}, false
		}
	case TasksLost:
		require.Empty(w, minus(w.runs, cb.Active), "all tasks are lost")
		w.runs = nil
		w.confirmed, w.ready = roles{}, false
	case TasksAssigned:
		require.Empty(w, minus(w.runs, cb.Active), "tasks that go are revoked before others are assigned")
		require.Empty(w, minus(cb.Standby, minus(cb.Standby, cb.Active)), "a task runs in one role")
		w.runs = cb.Active
		if err == nil {
			w.confirmed, w.ready, w.news = roles{cb.Active, cb.Standby, cb.Warmup}, cb.Ready, true
		}
	}
	w.m.CallbackDone(w.now, cb.ID, err)
}

var propertyTasks = rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) topology.TaskID {
	return topology.TaskID{Subtopology: rapid.SampledFrom([]string{"0", "1"}).Draw(t, "subtopology"), Partition: rapid.Int32Range(0, 3).Draw(t, "partition")}
}), 0, 4, func(t topology.TaskID) topology.TaskID { return t })

func (w *world) drawResponse(t *rapid.T, req *kmsg.StreamsGroupHeartbeatRequest) *kmsg.StreamsGroupHeartbeatResponse {
	resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
	resp.Version = req.Version
	resp.Status = []kmsg.StreamsGroupHeartbeatResponseStatus{}
	kind := rapid.IntRange(0, 9).Draw(t, "kind of response")
	if kind >= 8 {
		resp.ErrorCode = rapid.SampledFrom([]int16{14, 15, 16, 25, 110, 25, 110, 69, 29, 42, -1}).Draw(t, "code")
		return resp
	}
	switch {
	case req.MemberEpoch < 0:
		resp.MemberEpoch = req.MemberEpoch
	case w.granted == 0 || rapid.IntRange(0, 3).Draw(t, "another epoch") == 0:
		w.granted++
		fallthrough
	default:
		resp.MemberEpoch = w.granted
	}
	resp.TopologyDescriptionRequired = rapid.IntRange(0, 9).Draw(t, "description required") == 0
	resp.AcceptableRecoveryLag = rapid.SampledFrom([]int64{-1, 0, 100}).Draw(t, "recovery lag")
	if rapid.IntRange(0, 5).Draw(t, "resolution") == 0 {
		resolution(matching(rapid.SampledFrom([]string{"late-a", "late-b"}).Draw(t, "topic")))(resp)
	}
	resp.HeartbeatIntervalMillis = rapid.SampledFrom([]int32{5000, 5000, 1000, 0, -1}).Draw(t, "interval")
	resp.TaskOffsetIntervalMillis = rapid.SampledFrom([]int32{7000, 7000, 7000, 60_000, 0}).Draw(t, "offset interval")
	resp.EndpointInformationEpoch = rapid.SampledFrom([]int32{3, 3, 3, 3, 3, 4, 5, 0, leap + 10, math.MaxInt32}).Draw(t, "endpoint epoch")
	if rapid.IntRange(0, 2).Draw(t, "with a status") == 0 {
		status(rapid.SampledFrom([]int8{5, 5, 5, 3, 1, 1, 0, 6, 99, 2, 4}).Draw(t, "status"))(resp)
	}
	if kind < 4 || req.MemberEpoch == 0 {
		sorted := func(name string) []topology.TaskID {
			l := propertyTasks.Draw(t, name)
			slices.SortFunc(l, topology.TaskID.Compare)
			return l
		}
		roles{sorted("active"), sorted("standby"), sorted("warmup")}.set(resp)
	}
	return resp
}

func TestInvariants(t *testing.T) {
	t.Parallel()
	plain, withPattern := shopTopology(t), patternTopology(t)
	rapid.Check(t, func(t *rapid.T) {
		topo := plain
		if rapid.Bool().Draw(t, "source patterns") {
			topo = withPattern
		}
		cfg := Config{
			Group: "shop", MemberID: "m1", Topology: topo, MaxPollInterval: pollLimit, RetryBackoff: backoff, RetryBackoffMax: backoffMax,
			PollGuard: rapid.Bool().Draw(t, "poll guard"), Description: topo.Description(),
			FailOnStatus: rapid.Bool().Draw(t, "fail on status"),
			LeaveTimeout: time.Duration(rapid.SampledFrom([]int{0, 3}).Draw(t, "leave timeout")) * time.Second,
		}
		if rapid.Bool().Draw(t, "static") {
			cfg.InstanceID = "i"
		}
		m, err := New(cfg)
		require.NoError(t, err)
		w := &world{T: t, m: m, memory: newMemory()}
		answer := func(from *[]sentHeartbeat, name string) {
			if len(*from) == 0 {
				return
			}
			i := rapid.IntRange(0, len(*from)-1).Draw(t, name)
			s := (*from)[i]
			*from = slices.Delete(*from, i, i+1)
			lost := rapid.IntRange(0, 5).Draw(t, "lost") == 0
			counts := s.id == m.inFlight
			if lost {
				m.HeartbeatFailed(w.now, s.id, rapid.SampledFrom([]FailureKind{Disconnected, TimedOut}).Draw(t, "failure"), errors.New("lost"))
				if counts {
					w.untell()
				}
				return
			}
			resp := w.drawResponse(t, s.req)
			before, known := m.State(), m.target.counter
			m.HeartbeatAnswered(w.now, s.id, resp)
			switch {
			case !counts:
			case resp.ErrorCode != 0:
				w.untell()
			default:
				w.memory.heard(resp)
				if resp.ActiveTasks != nil && before != PrepareLeaving && m.target.counter == known {
					w.news = true
				}
			}
		}
		m.Join(0)
		steps := rapid.IntRange(1, 120).Draw(t, "steps")
		for range steps {
			switch rapid.IntRange(0, 17).Draw(t, "input") {
			case 0, 1, 2, 3:
				answer(&w.ordinary, "which")
			case 4, 5, 6, 7:
				var err error
				if rapid.IntRange(0, 30).Draw(t, "callback fails") == 0 {
					err = errors.New("callback")
				}
				w.finish(err)
			case 8:
				answer(&w.leaves, "which leave")
			case 9:
				answer(&w.abandoned, "which abandoned")
			case 10:
				m.Leave(w.now, rapid.SampledFrom([]LeaveMode{LeaveDefault, LeaveGroup, RemainInGroup}).Draw(t, "mode"))
			case 11:
				if m.State() != Fatal && !w.retired {
					m.Join(w.now)
				}
			case 12:
				m.Poll(w.now)
			case 13:
				m.Suspect(w.now)
			case 14:
				w.answerDescription()
			case 15:
				w.offsets, w.ends = drawOffsets(t, "offset"), drawOffsets(t, "end")
				m.SetTaskOffsets(w.offsets, w.ends)
			case 16:
				if rapid.IntRange(0, 9).Draw(t, "the driver has to stop") > 0 {
					continue
				}
				if m.Leave(w.now, LeaveDefault); m.State() == PrepareLeaving || m.State() == Leaving {
					m.LastLeave(w.now)
					w.retired = true
				}
			default:
				w.now += time.Duration(rapid.IntRange(1, 6000).Draw(t, "ms")) * time.Millisecond
			}
			if w.finding && rapid.IntRange(0, 3).Draw(t, "look-up") > 0 {
				w.finding = false
				if rapid.IntRange(0, 4).Draw(t, "look-up fails") == 0 {
					m.CoordinatorFailed(w.now, errors.New("no coordinator"))
				} else {
					version := int16(1)
					if rapid.IntRange(0, 5).Draw(t, "old broker") == 0 {
						version = 0
					}
					if version != m.version {
						w.untell()
					}
					m.CoordinatorFound(w.now, version)
				}
			}
			if s := m.State(); s == Stale || s == Fatal || s == Unsubscribed {
				w.abandoned = append(w.abandoned, w.ordinary...)
				w.ordinary = nil
			}
			w.pump()
			if m.LeaveDone() {
				require.Empty(t, w.runs, "a member that has left runs nothing")
				require.Empty(t, w.callbacks)
			}
			if got, ok := m.Epoch(); ok {
				require.Positive(t, got)
			}
		}
		w.requireNoBusyLoop(steps)
	})
}

func (w *world) answerDescription() {
	if !w.pushing {
		return
	}
	w.pushing = false
	code := rapid.SampledFrom([]int16{0, 0, 14, 15, 16, 25, 42, -1}).Draw(w.T, "description")
	if code < 0 {
		w.m.DescriptionFailed(w.now, Disconnected, errors.New("lost"))
		return
	}
	resp := kmsg.NewPtrStreamsGroupTopologyDescriptionUpdateResponse()
	resp.ErrorCode = code
	w.m.DescriptionAnswered(w.now, resp)
}

// TestHeartbeatsAreBounded lets a coordinator that always behaves in the same way
// answer at once, and an application that confirms at once: the member must not
// send more than the back-off permits.
func TestHeartbeatsAreBounded(t *testing.T) {
	t.Parallel()
	topo := shopTopology(t)
	rapid.Check(t, func(t *rapid.T) {
		m, err := New(Config{Group: "shop", MemberID: "m1", Topology: topo, MaxPollInterval: pollLimit, RetryBackoff: backoff, RetryBackoffMax: backoffMax})
		require.NoError(t, err)
		joinsFail := rapid.Bool().Draw(t, "joins fail as well")
		errorCode := rapid.SampledFrom([]int16{0, 14, 15, 16, 25, 110, 69, 29}).Draw(t, "code")
		failure := rapid.SampledFrom([]FailureKind{-1, Disconnected, TimedOut}).Draw(t, "failure")
		every := rapid.SampledFrom([]int32{0, -1, 1, 1000, 5000}).Draw(t, "interval")
		var now time.Duration
		sent := 0
		m.Join(0)
		for now < time.Minute && m.State() != Fatal {
			var fx Effects
			m.Step(now, &fx)
			if fx.FindCoordinator {
				m.CoordinatorFound(now, 1)
			}
			for _, cb := range fx.Callbacks {
				m.CallbackDone(now, cb.ID, nil)
			}
			if fx.Heartbeat != nil {
				sent++
				require.Less(t, sent, 600+10, "at %v", now)
				resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
				joining := fx.Heartbeat.MemberEpoch == 0
				switch {
				case joining && !joinsFail:
					resp.MemberEpoch, resp.HeartbeatIntervalMillis = 1, every
					active("0_0").set(resp)
					m.HeartbeatAnswered(now, fx.HeartbeatID, resp)
				case failure >= 0:
					m.HeartbeatFailed(now, fx.HeartbeatID, failure, errors.New("lost"))
				default:
					resp.ErrorCode, resp.HeartbeatIntervalMillis, resp.MemberEpoch = errorCode, every, 1
					if joining {
						active().set(resp)
					}
					m.HeartbeatAnswered(now, fx.HeartbeatID, resp)
				}
			}
			at, ok := m.NextDeadline()
			require.True(t, ok || m.State() == Fatal)
			now = max(now, at)
		}
	})
}
