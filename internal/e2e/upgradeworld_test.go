package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// upgrade is a world in which versions of an application follow one another. It asserts
// throughout that no partition of a source topic is worked on by two members at once,
// whichever version they run and whatever the subtopology is called there.
type upgrade struct {
	*fake
	audit string

	readMu  sync.Mutex
	readers map[string]string // source partition to who works on it
}

func inUpgrade(t *testing.T, test func(u *upgrade), opts ...kfakeext.Opt) {
	t.Helper()
	run(t, uncapped(), func(f *fake) {
		u := &upgrade{fake: f, audit: f.group + "-audit", readers: map[string]string{}}
		u.createTopic(u.audit, partitions)
		test(u)
	}, opts...)
}

// version builds the application at an epoch.
func (u *upgrade) version(epoch int32, parts ...func(*topology.Builder)) *topology.Topology {
	u.Helper()
	b := new(topology.Builder).Epoch(epoch)
	for _, part := range parts {
		part(b)
	}
	topo, err := b.Build(u.group)
	require.NoError(u, err)
	return topo
}

// totals reads the orders, and keeps a store.
func (u *upgrade) totals(stores ...string) func(*topology.Builder) {
	return func(b *topology.Builder) {
		b.AddSource("orders", u.orders).AddProcessor("total", "orders")
		for _, s := range append([]string{"totals"}, stores...) {
			b.AddStateStore(topology.Store{Name: s}, "total")
		}
	}
}

// audits reads another topic into a store. In front of others, it shifts their numbers.
func (u *upgrade) audits(b *topology.Builder) {
	b.AddSource("audit", u.audit).AddProcessor("audited", "audit").AddStateStore(topology.Store{Name: "audits"}, "audited")
}

// worker is a member of some version.
type worker struct {
	u    *upgrade
	name string
	topo *topology.Topology
	c    *client.Consumer
	stop context.CancelFunc
	done chan struct{}
	err  error // once done is closed
	over bool

	mu      sync.Mutex
	held    map[topology.TaskID]bool
	revoked int
	linger  time.Duration // of a revocation
	events  []membership.Event
}

func (u *upgrade) work(name string, topo *topology.Topology, opts ...client.Opt) *worker {
	u.Helper()
	k := &worker{u: u, name: name, topo: topo, done: make(chan struct{}), held: map[topology.TaskID]bool{}}
	c, err := client.NewConsumer(u.group, topo, append([]client.Opt{
		client.KgoOpts(u.opts...),
		client.OnTasksAssigned(k.assigned),
		client.OnTasksRevoked(k.giveUp),
		client.OnTasksLost(func(_ context.Context, tasks []topology.TaskID) { k.release(tasks) }),
		client.OnEvent(k.event),
	}, opts...)...)
	require.NoError(u, err)
	k.c = c
	ctx, stop := context.WithCancel(context.Background())
	k.stop = stop
	u.Cleanup(func() {
		stop()
		c.Abandon()
		<-k.done
	})
	go func() {
		defer close(k.done)
		k.err = k.loop(ctx)
	}()
	return k
}

func (k *worker) loop(ctx context.Context) error {
	for {
		fetches, err := k.c.Poll(ctx)
		if err != nil {
			return err
		}
		for _, f := range fetches.Tasks() {
			k.mu.Lock()
			assert.True(k.u, k.held[f.Task], "%s works on %s, which it does not hold", k.name, f.Task)
			k.mu.Unlock()
			k.u.tally(f.Records)
			k.c.MarkProcessed(f.Records...)
		}
		if err := k.c.Commit(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, client.ErrFenced) && !passing(err) {
			return err
		}
	}
}

func (k *worker) event(e membership.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, e)
}

// sources are what a task works on.
func (k *worker) sources(t topology.TaskID) (out []string) {
	for _, topic := range k.topo.Sources(t.Subtopology) {
		out = append(out, fmt.Sprintf("%s-%d", topic, t.Partition))
	}
	return out
}

func (k *worker) assigned(_ context.Context, a client.Assignment) error {
	k.u.readMu.Lock()
	defer k.u.readMu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	for t := range k.held {
		assert.Contains(k.u, a.Active, t, "%s: %s vanishes without being revoked or lost", k.name, t)
	}
	for _, t := range a.Active {
		k.held[t] = true
		for _, s := range k.sources(t) {
			if o := k.u.readers[s]; o != "" && o != k.name {
				assert.Fail(k.u, "two readers", "%s begins with %s as %s while %s is at it", k.name, s, t, o)
			}
			k.u.readers[s] = k.name
		}
	}
	return nil
}

func (k *worker) giveUp(ctx context.Context, tasks []topology.TaskID) error {
	defer k.release(tasks)
	if k.linger > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(k.linger):
		}
	}
	k.mu.Lock()
	k.revoked += len(tasks)
	k.mu.Unlock()
	return k.c.Commit(ctx)
}

func (k *worker) release(tasks []topology.TaskID) {
	k.u.readMu.Lock()
	defer k.u.readMu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, t := range tasks {
		delete(k.held, t)
		for _, s := range k.sources(t) {
			if k.u.readers[s] == k.name {
				delete(k.u.readers, s)
			}
		}
	}
}

// active are the tasks it holds, ascending.
func (k *worker) active() (out []topology.TaskID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for t := range k.held {
		out = append(out, t)
	}
	slices.SortFunc(out, topology.TaskID.Compare)
	return out
}

// revocations are how many tasks were taken from it since the last call.
func (k *worker) revocations() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer func() { k.revoked = 0 }()
	return k.revoked
}

func (k *worker) statuses() (codes []int8) {
	for _, s := range k.c.Member().Snapshot().Statuses {
		codes = append(codes, s.Code)
	}
	return codes
}

// leave ends a worker in good order.
func (k *worker) leave() {
	k.u.Helper()
	k.over = true
	k.stop()
	<-k.done
	require.ErrorIs(k.u, k.err, context.Canceled, k.name)
	require.NoError(k.u, k.c.Close(context.Background()), k.name)
}

// crash ends a worker as a dead process would, and waits until the group knows.
func (k *worker) crash() {
	k.over = true
	k.c.Abandon()
	k.stop()
	<-k.done
	id := k.c.Member().ID()
	k.u.eventually(k.name+" is missed", func() bool {
		for _, m := range k.u.describe().Members {
			if m.MemberID == id {
				k.release(k.active()) // its session is over before the next owner begins
				return false
			}
		}
		return true
	})
}

// ended waits for a worker to end by itself and returns why.
func (k *worker) ended() error {
	k.u.Helper()
	k.u.eventually(k.name+" ends", func() bool {
		select {
		case <-k.done:
			return true
		default:
			return false
		}
	})
	k.over = true
	_ = k.c.Close(context.Background())
	k.release(k.active())
	return k.err
}

// bounce is one step of a rolling upgrade: the worker leaves, and comes back with
// another version.
func (k *worker) bounce(topo *topology.Topology, opts ...client.Opt) *worker {
	k.u.Helper()
	k.leave()
	return k.u.work(k.name, topo, opts...)
}

// rest lets time pass until the group is stable with these workers, who hold so many
// tasks.
func (u *upgrade) rest(tasks int, workers ...*worker) {
	u.Helper()
	u.eventually(fmt.Sprintf("the group is stable with %d tasks", tasks), func() bool {
		n := 0
		for _, k := range workers {
			n += len(k.active())
		}
		if n != tasks {
			return false
		}
		g := u.describe()
		return g.ErrorCode == 0 && g.State == "Stable" && len(g.Members) == len(workers)
	})
}

// flow lets records come in all the time, until stopped; stop returns their payloads.
func (u *upgrade) flow(topics ...string) (stop func() []string) {
	u.Helper()
	cl, err := kgo.NewClient(append(slices.Clone(u.opts), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	require.NoError(u, err)
	u.Cleanup(cl.Close)
	ctx, cancel := context.WithCancel(context.Background())
	var payloads []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			for _, topic := range topics {
				p := fmt.Sprintf("%s-%d", topic, i)
				r := &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: []byte(p)}
				assert.NoError(u, cl.ProduceSync(context.WithoutCancel(ctx), r).FirstErr())
				payloads = append(payloads, p)
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	end := sync.OnceFunc(func() {
		cancel()
		<-done
	})
	u.Cleanup(end)
	return func() []string {
		end()
		return payloads
	}
}
