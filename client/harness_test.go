package client_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// session and interval are Kafka's defaults, which hold in the bubbles.
	session  = 45 * time.Second
	interval = 5 * time.Second

	heartbeatKey = 88
)

// world is a cluster with the topic "in" in a bubble of virtual time.
type world struct {
	*testing.T
	cl     *kfakeext.Cluster
	client *kgo.Client
}

func inBubble(t *testing.T, fn func(w *world), opts ...kfakeext.Opt) {
	t.Helper()
	t.Parallel()
	synced(t, fn, opts...)
}

func synced(t *testing.T, fn func(w *world), opts ...kfakeext.Opt) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		cl := kfakeext.Start(t, append([]kfakeext.Opt{kfakeext.Topic("in", 4)}, opts...)...)
		w := &world{T: t, cl: cl}
		w.client = w.dial()
		fn(w)
	})
}

// dial makes a client that is closed at the end of the test.
func (w *world) dial(opts ...kgo.Opt) *kgo.Client {
	w.Helper()
	cl, err := kgo.NewClient(append(w.cl.KgoOpts(), opts...)...)
	require.NoError(w, err)
	w.Cleanup(cl.Close)
	return cl
}

// pass lets virtual time pass, and all that happens in it.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// control answers heartbeats of the member in place of the coordinator, until
// stop is called.
func (w *world) control(member string, answer func(*kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool)) (stop func()) {
	var mu sync.Mutex
	stopped := false
	w.cl.ControlKey(heartbeatKey, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		w.cl.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		req, ok := kreq.(*kmsg.StreamsGroupHeartbeatRequest)
		if stopped || !ok || member != "" && req.MemberID != member {
			return nil, nil, false
		}
		return answer(req)
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
	}
}

// once has the next heartbeat of the member answered with an error code.
func (w *world) once(member string, code int16) {
	used := false
	w.control(member, func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
		if used {
			return nil, nil, false
		}
		used = true
		return refusal(req, code), nil, true
	})
}

func refusal(req *kmsg.StreamsGroupHeartbeatRequest, code int16) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.StreamsGroupHeartbeatResponse)
	resp.ErrorCode = code
	return resp
}

// heartbeats counts the heartbeats that reach the cluster, by member.
func (w *world) heartbeats() func(member string) int {
	var mu sync.Mutex
	n := map[string]int{}
	w.control("", func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
		mu.Lock()
		defer mu.Unlock()
		n[req.MemberID]++
		return nil, nil, false
	})
	return func(member string) int {
		mu.Lock()
		defer mu.Unlock()
		return n[member]
	}
}

// members are those that the coordinator knows.
func (w *world) members(group string) (ids []string) {
	for _, m := range w.cl.DescribeStreamsGroup(group).Members {
		ids = append(ids, m.MemberID)
	}
	return ids
}

// produce writes n records with the values 0 to n-1, plus from, to a partition.
func (w *world) produce(topic string, partition int32, from, n int) {
	w.Helper()
	cl := w.dial(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range n {
		r := &kgo.Record{Topic: topic, Partition: partition, Key: []byte("k"), Value: fmt.Append(nil, from+i)}
		require.NoError(w, cl.ProduceSync(w.Context(), r).FirstErr())
	}
}

// grow gives a topic more partitions.
func grow(w *world, topic string, partitions int) {
	w.Helper()
	resp, err := kadm.NewClient(w.client).UpdatePartitions(w.Context(), partitions, topic)
	require.NoError(w, err)
	require.NoError(w, resp.Error())
}

// plain is a topology with one subtopology, "0", that reads the topic "in".
func plain(t testing.TB) *topology.Topology {
	t.Helper()
	var b topology.Builder
	topo, err := b.AddSource("source", "in").AddProcessor("work", "source").Build("g")
	require.NoError(t, err)
	return topo
}

// stateful has a store as well, with the changelog g-store-changelog.
func stateful(t testing.TB) *topology.Topology {
	t.Helper()
	var b topology.Builder
	topo, err := b.AddSource("source", "in").AddProcessor("work", "source").AddStateStore(topology.Store{Name: "store"}, "work").Build("g")
	require.NoError(t, err)
	return topo
}

// app is an application that notes what it is told.
type app struct {
	mu    sync.Mutex
	lines []string
	now   map[topology.TaskID]bool

	// Replaceable, to misbehave.
	onRevoked  func(context.Context, []topology.TaskID) error
	onAssigned func(context.Context, client.Assignment) error
	onLost     func(context.Context, []topology.TaskID)
}

func (a *app) note(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines = append(a.lines, fmt.Sprintf(format, args...))
}

// took returns what was noted since the last call.
func (a *app) took() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.lines
	a.lines = nil
	return out
}

// owns is how many tasks the application runs.
func (a *app) owns() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.now)
}

func (a *app) set(tasks []topology.TaskID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = map[topology.TaskID]bool{}
	for _, t := range tasks {
		a.now[t] = true
	}
}

func (a *app) drop(tasks []topology.TaskID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range tasks {
		delete(a.now, t)
	}
}

func (a *app) opts() []client.Opt {
	return []client.Opt{
		client.OnTasksRevoked(func(ctx context.Context, tasks []topology.TaskID) error {
			a.note("revoked %s", list(tasks))
			a.drop(tasks)
			if a.onRevoked != nil {
				return a.onRevoked(ctx, tasks)
			}
			return nil
		}),
		client.OnTasksAssigned(func(ctx context.Context, as client.Assignment) error {
			what := ""
			if !as.Ready {
				what = " not ready"
			}
			a.note("assigned %s%s", list(as.Active), what)
			a.set(as.Active)
			if a.onAssigned != nil {
				return a.onAssigned(ctx, as)
			}
			return nil
		}),
		client.OnTasksLost(func(ctx context.Context, tasks []topology.TaskID) {
			a.note("lost %s", list(tasks))
			a.drop(tasks)
			if a.onLost != nil {
				a.onLost(ctx, tasks)
			}
		}),
	}
}

func list(tasks []topology.TaskID) string {
	s := make([]string, 0, len(tasks))
	for _, t := range tasks {
		s = append(s, t.String())
	}
	return "[" + strings.Join(s, " ") + "]"
}

// run is a running member.
type run struct {
	*app
	m     *client.Member
	w     *world
	leave context.CancelFunc
	ended chan struct{}
	err   error // once ended is closed
}

// start runs a member of the group "g" with a client of its own.
func (w *world) start(a *app, opts ...client.Opt) *run {
	w.Helper()
	return w.startOn(w.dial(), "g", a, opts...)
}

func (w *world) startOn(cl *kgo.Client, group string, a *app, opts ...client.Opt) *run {
	w.Helper()
	m, err := client.NewMember(cl, group, plain(w), append(a.opts(), opts...)...)
	require.NoError(w, err)
	ctx, cancel := context.WithCancel(w.Context())
	r := &run{app: a, m: m, w: w, leave: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = m.Run(ctx)
	}()
	w.Cleanup(func() {
		m.Abandon()
		cancel()
		<-r.ended
	})
	return r
}

// joined starts a member and waits until it is stable.
func (w *world) joined(a *app, opts ...client.Opt) *run {
	w.Helper()
	r := w.start(a, opts...)
	pass(time.Second)
	require.Equal(w, membership.StateStable, r.state(), "%+v", r.m.Snapshot())
	return r
}

func (r *run) state() membership.State { return r.m.Snapshot().State }

// result is what Run returned; it must have.
func (r *run) result() error {
	r.w.Helper()
	synctest.Wait()
	select {
	case <-r.ended:
		return r.err
	default:
		require.FailNow(r.w, "Run has not returned", "%+v", r.m.Snapshot())
		return nil
	}
}

// goesOn requires that Run has not returned.
func (r *run) goesOn() {
	r.w.Helper()
	synctest.Wait()
	select {
	case <-r.ended:
		require.FailNow(r.w, "Run has returned", "%v", r.err)
	default:
	}
}

// balanced requires that the members' applications run all four tasks, each once.
func balanced(t testing.TB, runs ...*run) {
	t.Helper()
	owner := map[topology.TaskID]string{}
	for _, r := range runs {
		r.mu.Lock()
		for task := range r.now {
			assert.Empty(t, owner[task], "task %s has two owners", task)
			owner[task] = r.m.ID()
		}
		r.mu.Unlock()
	}
	assert.Len(t, owner, 4)
}
