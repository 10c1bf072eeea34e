package membership

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/topology"
)

const (
	interval   = 5 * time.Second
	pollLimit  = 10 * time.Second
	backoff    = 100 * time.Millisecond
	backoffMax = time.Second
)

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// shopTopology has subtopology "0" that reads orders and "1" that reads items.
func shopTopology(t testing.TB) *topology.Topology {
	t.Helper()
	var b topology.Builder
	b.AddSource("orders-source", "orders").AddProcessor("bill", "orders-source")
	b.AddSource("items-source", "items").AddProcessor("count", "items-source")
	topo, err := b.Build("shop")
	require.NoError(t, err)
	return topo
}

type sentHeartbeat struct {
	id  uint64
	req *kmsg.StreamsGroupHeartbeatRequest
}

// harness drives a member with a clock of its own. Coordinator look-ups are
// answered at once unless lookUps is manual; heartbeats and callbacks are answered
// by the test.
type harness struct {
	t       testing.TB
	m       *Member
	now     time.Duration
	version int16
	manual  bool // the test answers look-ups

	finds     int
	pushes    []*kmsg.StreamsGroupTopologyDescriptionUpdateRequest
	sources   []map[string][]string
	sent      []sentHeartbeat
	open      []sentHeartbeat // not answered yet
	callbacks []Callback      // not confirmed yet
	ran       []Callback
	errs      []error
	events    []Event
}

func newHarness(t testing.TB, change ...func(*Config)) *harness {
	t.Helper()
	cfg := Config{
		Group: "shop", MemberID: "m1", ProcessID: "p1", Topology: shopTopology(t),
		MaxPollInterval: pollLimit, RetryBackoff: backoff, RetryBackoffMax: backoffMax,
	}
	for _, f := range change {
		f(&cfg)
	}
	m, err := New(cfg)
	require.NoError(t, err)
	return &harness{t: t, m: m, version: 1}
}

func static(c *Config)        { c.InstanceID = "shop-1" }
func withPollGuard(c *Config) { c.PollGuard = true }

// step is one pass.
func (h *harness) step() {
	h.t.Helper()
	var fx Effects
	h.m.Step(h.now, &fx)
	if fx.FindCoordinator {
		h.finds++
		if !h.manual {
			h.m.CoordinatorFound(h.now, h.version)
		}
	}
	if fx.Heartbeat != nil {
		s := sentHeartbeat{fx.HeartbeatID, fx.Heartbeat}
		h.sent = append(h.sent, s)
		h.open = append(h.open, s)
	}
	if fx.Description != nil {
		h.pushes = append(h.pushes, fx.Description)
	}
	if fx.Sources != nil {
		h.sources = append(h.sources, fx.Sources)
	}
	h.callbacks = append(h.callbacks, fx.Callbacks...)
	h.ran = append(h.ran, fx.Callbacks...)
	h.errs = append(h.errs, fx.Errs...)
	h.events = append(h.events, fx.Events...)
}

// run steps until the member has nothing to do before a later time.
func (h *harness) run() {
	h.t.Helper()
	h.step()
	for range 20 {
		at, ok := h.m.NextDeadline()
		if !ok || at > h.now {
			return
		}
		h.step()
	}
	require.FailNow(h.t, "the member spins", "state %v", h.m.State())
}

// after lets time pass and runs what comes due, as a driver would.
func (h *harness) after(d time.Duration) {
	h.t.Helper()
	end := h.now + d
	for {
		at, ok := h.m.NextDeadline()
		if !ok || at > end {
			break
		}
		h.now = max(h.now, at)
		h.run()
	}
	h.now = end
	h.run()
}

func (h *harness) join() {
	h.t.Helper()
	h.m.Join(h.now)
	h.run()
	require.Equal(h.t, Joining, h.m.State())
	require.Len(h.t, h.open, 1)
	h.now += backoff // joins keep that distance
}

// heartbeat makes sure that a heartbeat is unanswered and returns it.
func (h *harness) heartbeat() *kmsg.StreamsGroupHeartbeatRequest {
	h.t.Helper()
	if len(h.open) == 0 {
		h.m.ForceHeartbeat()
		h.run()
	}
	require.NotEmpty(h.t, h.open, "no heartbeat in state %v", h.m.State())
	return h.open[len(h.open)-1].req
}

// answer answers the oldest open heartbeat.
func (h *harness) answer(change ...func(*kmsg.StreamsGroupHeartbeatResponse)) {
	h.t.Helper()
	h.heartbeat()
	s := h.open[0]
	h.open = h.open[1:]
	h.answerTo(s, change...)
}

func (h *harness) answerTo(s sentHeartbeat, change ...func(*kmsg.StreamsGroupHeartbeatResponse)) {
	h.t.Helper()
	resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
	resp.Version = s.req.Version
	resp.MemberID, resp.HeartbeatIntervalMillis, resp.Status = "m1", 5000, []kmsg.StreamsGroupHeartbeatResponseStatus{}
	resp.TaskOffsetIntervalMillis, resp.AcceptableRecoveryLag = 60000, -1
	resp.MemberEpoch = max(s.req.MemberEpoch, 1)
	if s.req.MemberEpoch < 0 {
		resp.MemberEpoch, resp.HeartbeatIntervalMillis, resp.TaskOffsetIntervalMillis = s.req.MemberEpoch, 0, 0
	}
	for _, f := range change {
		f(resp)
	}
	h.m.HeartbeatAnswered(h.now, s.id, resp)
	h.run()
}

func (h *harness) fail(kind FailureKind, err error) {
	h.t.Helper()
	h.heartbeat()
	s := h.open[0]
	h.open = h.open[1:]
	h.m.HeartbeatFailed(h.now, s.id, kind, err)
	h.run()
}

func (h *harness) assign(a roles, change ...func(*kmsg.StreamsGroupHeartbeatResponse)) {
	h.t.Helper()
	h.answer(append([]func(*kmsg.StreamsGroupHeartbeatResponse){a.set}, change...)...)
}

// done confirms the oldest callback, which has to be of the given kind.
func (h *harness) done(kind CallbackKind, err ...error) Callback {
	h.t.Helper()
	require.NotEmpty(h.t, h.callbacks, "no callback is outstanding")
	cb := h.callbacks[0]
	require.Equal(h.t, kind, cb.Kind)
	h.callbacks = h.callbacks[1:]
	h.finish(cb, err...)
	return cb
}

func (h *harness) finish(cb Callback, err ...error) {
	h.t.Helper()
	var failure error
	if len(err) > 0 {
		failure = err[0]
	}
	h.m.CallbackDone(h.now, cb.ID, failure)
	h.run()
}

// settle confirms callbacks and acknowledges until the member is stable.
func (h *harness) settle() {
	h.t.Helper()
	for range 20 {
		switch {
		case len(h.callbacks) > 0:
			h.done(h.callbacks[0].Kind)
		case len(h.open) > 0:
			h.answer()
		case h.m.State() == StateStable:
			return
		}
	}
	require.FailNow(h.t, "the member does not settle", "state %v", h.m.State())
}

// stable is a member that has acknowledged an assignment.
func stable(t testing.TB, a roles, change ...func(*Config)) *harness {
	t.Helper()
	h := newHarness(t, change...)
	h.join()
	h.assign(a)
	h.settle()
	h.clear()
	return h
}

// clear forgets what was recorded so far.
func (h *harness) clear() {
	h.sent, h.ran, h.errs, h.events, h.finds, h.pushes, h.sources = nil, nil, nil, nil, 0, nil, nil
}

// in brings a member with active task 0_0 into a state.
func in(t testing.TB, s State, change ...func(*Config)) *harness {
	t.Helper()
	h := newHarness(t, change...)
	if s == Unsubscribed {
		h.run()
		return h
	}
	h.join()
	switch s {
	case Joining:
	case Reconciling:
		h.assign(active("0_0"))
	case Acknowledging:
		// A heartbeat in flight keeps the acknowledgement back.
		h.assign(active("0_0"))
		h.heartbeat()
		h.done(TasksAssigned)
	case Fatal:
		h.answer(code(30))
		h.done(TasksLost)
	case StateStable:
		h.assign(active("0_0"))
		h.settle()
	case Fenced:
		h.assign(active("0_0"))
		h.settle()
		h.answer(code(110))
	case PrepareLeaving:
		h.assign(active("0_0"))
		h.settle()
		h.m.Leave(h.now, LeaveDefault)
		h.run()
	case Stale:
		h.assign(active("0_0"))
		h.settle()
		h.m.cfg.PollGuard = true
		h.now = max(h.now, h.m.pollAt)
		h.run()
	case Leaving:
		h.assign(active("0_0"))
		h.settle()
		h.m.Leave(h.now, LeaveDefault)
		h.run()
		cb := h.callbacks[0]
		h.callbacks = nil
		h.m.CallbackDone(h.now, cb.ID, nil) // without the step that sends the leave
	}
	require.Equal(t, s, h.m.State())
	h.clear()
	return h
}

func (h *harness) kinds() []CallbackKind {
	var out []CallbackKind
	for _, cb := range h.ran {
		out = append(out, cb.Kind)
	}
	return out
}

// roles are tasks by role.
type roles struct{ active, standby, warmup []topology.TaskID }

func tasks(names ...string) []topology.TaskID {
	var out []topology.TaskID
	for _, n := range names {
		id, err := topology.ParseTaskID(n)
		if err != nil {
			panic(err)
		}
		out = append(out, id)
	}
	slices.SortFunc(out, topology.TaskID.Compare)
	return out
}

func active(names ...string) roles             { return roles{active: tasks(names...)} }
func (r roles) standbys(names ...string) roles { r.standby = tasks(names...); return r }
func (r roles) warmups(names ...string) roles  { r.warmup = tasks(names...); return r }

func (r roles) set(resp *kmsg.StreamsGroupHeartbeatResponse) {
	resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks = toWire(r.active), toWire(r.standby), toWire(r.warmup)
}

// reported are the tasks of a heartbeat; ok is false if it carries none of the
// three lists.
func reported(t require.TestingT, req *kmsg.StreamsGroupHeartbeatRequest) (r roles, ok bool) {
	lists := 0
	for _, l := range [][]kmsg.TaskIDs{req.ActiveTasks, req.StandbyTasks, req.WarmupTasks} {
		if l != nil {
			lists++
		}
	}
	require.Contains(t, []int{0, 3}, lists, "task lists go out together")
	return roles{fromWire(req.ActiveTasks), fromWire(req.StandbyTasks), fromWire(req.WarmupTasks)}, lists == 3
}

func (h *harness) requireReported(want roles, req *kmsg.StreamsGroupHeartbeatRequest) {
	h.t.Helper()
	got, ok := reported(h.t, req)
	require.True(h.t, ok, "the heartbeat carries no tasks")
	require.Equal(h.t, want, got)
}

func (h *harness) requireNoTasks(req *kmsg.StreamsGroupHeartbeatRequest) {
	h.t.Helper()
	_, ok := reported(h.t, req)
	require.False(h.t, ok, "the heartbeat repeats tasks")
}

func code(c int16, text ...string) func(*kmsg.StreamsGroupHeartbeatResponse) {
	return func(r *kmsg.StreamsGroupHeartbeatResponse) {
		*r = kmsg.NewStreamsGroupHeartbeatResponse()
		r.ErrorCode, r.Version = c, 1
		if len(text) > 0 {
			r.ErrorMessage = &text[0]
		}
	}
}

func epoch(e int32) func(*kmsg.StreamsGroupHeartbeatResponse) {
	return func(r *kmsg.StreamsGroupHeartbeatResponse) { r.MemberEpoch = e }
}

func status(codes ...int8) func(*kmsg.StreamsGroupHeartbeatResponse) {
	return func(r *kmsg.StreamsGroupHeartbeatResponse) {
		for _, c := range codes {
			s := kmsg.NewStreamsGroupHeartbeatResponseStatus()
			s.StatusCode, s.StatusDetail = c, "detail"
			r.Status = append(r.Status, s)
		}
	}
}

// eventsOf are the recorded events of one type.
func eventsOf[E Event](h *harness) []E {
	var out []E
	for _, e := range h.events {
		if e, ok := e.(E); ok {
			out = append(out, e)
		}
	}
	return out
}
