package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/internal/story"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/topology"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	group      = "shop"
	partitions = 6
	session    = 3 * time.Second
	interval   = 500 * time.Millisecond
)

// world is a cluster with one group that reads the topic "orders" and keeps a
// store, so that there is an internal topic to create. It checks throughout that
// no task is held by two live members at once.
type world struct {
	t       *testing.T
	cluster *kfakeext.Cluster
	topo    *topology.Topology

	mu      sync.Mutex
	owner   map[topology.TaskID]string
	seen    map[string]int // payload to the number of times it was processed
	account []string
}

func run(t *testing.T, test func(w *world), opts ...kfakeext.Opt) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, owner: map[topology.TaskID]string{}, seen: map[string]int{}}
		began := time.Now()
		opts := append([]kfakeext.Opt{
			kfakeext.Topic("orders", partitions),
			kfakeext.OnEvent(func(e coordinator.Event) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.account = append(w.account, fmt.Sprintf("%8s %s", time.Since(began), story.Teller{}.Coordinator(e)))
			}),
		}, opts...)
		w.cluster = kfakeext.Start(t, opts...)
		require.NoError(t, w.cluster.SetGroupConfig(group, map[string]string{
			"streams.session.timeout.ms":     strconv.Itoa(int(session.Milliseconds())),
			"streams.heartbeat.interval.ms":  strconv.Itoa(int(interval.Milliseconds())),
			"streams.assignment.interval.ms": "0",
		}))
		var err error
		w.topo, err = new(topology.Builder).AddSource("orders", "orders").AddProcessor("total", "orders").
			AddStateStore(topology.Store{Name: "totals"}, "total").Build(group)
		require.NoError(t, err)
		defer func() {
			if t.Failed() {
				for _, line := range w.account {
					t.Log(line)
				}
			}
		}()
		test(w)
	})
}

// member is a consumer with the goroutine that polls it.
type member struct {
	w    *world
	name string
	c    *client.Consumer
	stop context.CancelFunc
	done chan struct{}
	dead bool
}

func (w *world) start(name string, opts ...client.Opt) *member {
	w.t.Helper()
	m := &member{w: w, name: name, done: make(chan struct{})}
	c, err := client.NewConsumer(group, w.topo, append([]client.Opt{
		client.KgoOpts(w.cluster.KgoOpts()...),
		client.OnTasksAssigned(func(_ context.Context, a client.Assignment) error { m.take(a.Active); return nil }),
		client.OnTasksRevoked(func(ctx context.Context, tasks []topology.TaskID) error {
			defer m.drop(tasks)
			return m.c.Commit(ctx)
		}),
		client.OnTasksLost(func(_ context.Context, tasks []topology.TaskID) { m.drop(tasks) }),
	}, opts...)...)
	require.NoError(w.t, err)
	m.c = c
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	go func() {
		defer close(m.done)
		assert.NoError(w.t, m.work(ctx), name)
	}()
	return m
}

func (m *member) work(ctx context.Context) error {
	for {
		fetches, err := m.c.Poll(ctx)
		if ctx.Err() != nil || errors.Is(err, client.ErrAbandoned) {
			return nil //nolint:nilerr // the error is that we were told to stop
		}
		if err != nil {
			return err
		}
		for _, f := range fetches.Tasks() {
			m.process(f)
			m.c.MarkProcessed(f.Records...)
		}
		if err := m.c.Commit(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, client.ErrFenced) {
			return err
		}
	}
}

func (m *member) process(f client.TaskRecords) {
	w := m.w
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Equal(w.t, m.name, w.owner[f.Task], "%s works on %s", m.name, f.Task)
	for _, r := range f.Records {
		w.seen[string(r.Value)]++
	}
}

func (m *member) take(tasks []topology.TaskID) {
	w := m.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range tasks {
		if o := w.owner[t]; o != "" && o != m.name {
			assert.Fail(w.t, "active twice", "%s takes %s from %s", m.name, t, o)
		}
		w.owner[t] = m.name
	}
}

func (m *member) drop(tasks []topology.TaskID) {
	w := m.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range tasks {
		if w.owner[t] == m.name {
			delete(w.owner, t)
		}
	}
}

// leave ends a member in an orderly way.
func (m *member) leave() {
	if m.dead {
		return
	}
	m.dead = true
	m.stop()
	<-m.done
	require.NoError(m.w.t, m.c.Close(context.Background()), m.name)
}

// crash ends a member as a dead process would.
func (m *member) crash() {
	m.dead = true
	m.c.Abandon()
	m.stop()
	<-m.done
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	for t, o := range m.w.owner {
		if o == m.name {
			delete(m.w.owner, t)
		}
	}
}

// tasks are what a member holds by its own callbacks.
func (m *member) tasks() int {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	n := 0
	for _, o := range m.w.owner {
		if o == m.name {
			n++
		}
	}
	return n
}

// settle lets virtual time pass until the group is stable and every task has an
// owner.
func (w *world) settle(members ...*member) {
	w.t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(50 * time.Millisecond) {
		if s, ok := w.cluster.StreamsGroupState(group); !ok || s != coordinator.Stable {
			continue
		}
		n := 0
		for _, m := range members {
			n += m.tasks()
		}
		if n == partitions && len(w.cluster.DescribeStreamsGroup(group).Members) == len(members) {
			return
		}
	}
	require.Fail(w.t, "the group does not settle")
}

// produce writes a few records per partition and returns their payloads.
func (w *world) produce(label string) []string {
	w.t.Helper()
	cl, err := kgo.NewClient(append(w.cluster.KgoOpts(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	require.NoError(w.t, err)
	defer cl.Close()
	var payloads []string
	var records []*kgo.Record
	for i := range 5 * partitions {
		p := fmt.Sprintf("%s-%d", label, i)
		payloads = append(payloads, p)
		records = append(records, &kgo.Record{Topic: "orders", Partition: int32(i % partitions), Value: []byte(p)})
	}
	require.NoError(w.t, cl.ProduceSync(context.Background(), records...).FirstErr())
	return payloads
}

// processed waits until all payloads have been seen, each once.
func (w *world) processed(payloads []string) {
	w.t.Helper()
	missing := func() []string {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.DeleteFunc(slices.Clone(payloads), func(p string) bool { return w.seen[p] > 0 })
	}
	for began := time.Now(); len(missing()) > 0 && time.Since(began) < time.Minute; {
		time.Sleep(50 * time.Millisecond)
	}
	require.Empty(w.t, missing(), "never processed")
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range payloads {
		assert.Equal(w.t, 1, w.seen[p], p)
	}
}
