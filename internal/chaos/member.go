package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Member is a consumer and the goroutine that polls it.
type Member struct {
	g    *Group
	name string
	wire *Wire
	c    *client.Consumer
	own  *kgo.Client // for heartbeats, if they have a client of their own
	stop context.CancelFunc
	done chan struct{}

	ended bool // of Group.mu

	mu    sync.Mutex
	held  map[int32]bool
	stall time.Duration // of the next callback or batch of records
}

// commitPatience is how long the application waits for a commit.
const commitPatience = 5 * time.Second

// Start starts a member of one of several kinds.
func (g *Group) Start(draw *rand.Rand) *Member {
	g.Helper()
	m := &Member{g: g, done: make(chan struct{}), held: map[int32]bool{}}
	g.mu.Lock()
	g.counts.Members++
	m.name = fmt.Sprintf("m%d", g.counts.Members)
	m.wire = NewWire(g.History, m.name, g.Dial)
	opts := []client.Opt{
		client.KgoOpts(g.kgoOpts(m.wire)...), client.MaxPollInterval(g.Rebalance), client.RequestTimeout(2 * time.Second),
		client.OnTasksAssigned(m.take), client.OnTasksRevoked(m.giveUp), client.OnTasksLost(m.lose),
	}
	if draw.IntN(2) == 0 {
		m.own = g.client(m.wire)
		opts = append(opts, client.GroupClient(m.own))
	}
	switch n := len(g.processes); {
	case n > 0 && draw.IntN(3) == 0:
		opts = append(opts, client.InProcess(g.processes[n-1]))
	default:
		p, err := client.NewProcess()
		if err != nil {
			g.Fatalf("process: %v", err)
		}
		g.processes = append(g.processes, p)
		opts = append(opts, client.InProcess(p))
	}
	c, err := client.NewConsumer(g.Name, g.topo, opts...)
	if err != nil {
		g.Fatalf("consumer: %v", err)
	}
	m.c = c
	g.all = append(g.all, m)
	g.mu.Unlock()
	g.History.Note("%s starts as %s", m.name, c.Member().ID())
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	go func() {
		defer close(m.done)
		m.work(ctx)
	}()
	return m
}

func (m *Member) work(ctx context.Context) {
	for {
		fetches, err := m.c.Poll(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, client.ErrAbandoned):
			return
		case err != nil:
			if _, ended := errors.AsType[*membership.Error](err); ended || errors.Is(err, client.ErrClosed) {
				m.g.fail("%s ended: %v", m.name, err)
				return
			}
			m.g.History.Note("%s cannot poll: %v", m.name, err)
			sleep(ctx, 100*time.Millisecond)
			continue
		}
		for _, f := range fetches.Tasks() {
			m.pause(ctx)
			m.process(f)
			m.c.MarkProcessed(f.Records...)
		}
		if len(fetches) > 0 {
			m.commit(ctx)
		}
	}
}

func (m *Member) commit(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitPatience)
	defer cancel()
	if err := m.c.Commit(ctx); err != nil {
		m.g.History.Note("%s cannot commit: %v", m.name, err)
	}
}

// Stall has the next callback or batch of records take its time.
func (m *Member) Stall(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stall = d
}

func (m *Member) pause(ctx context.Context) {
	m.mu.Lock()
	d := m.stall
	m.stall = 0
	m.mu.Unlock()
	if d > 0 {
		m.g.History.Note("%s stalls for %v", m.name, d)
		sleep(ctx, d)
	}
}

func (m *Member) process(f client.TaskRecords) {
	p := f.Task.Partition
	m.mu.Lock()
	held := m.held[p]
	m.mu.Unlock()
	if !held {
		m.g.fail("%s is given records of task %d, which it does not hold", m.name, p)
	}
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	for _, r := range f.Records {
		m.g.seen[r.Partition][r.Offset] = true
		m.g.counts.Processed++
	}
}

func (m *Member) take(ctx context.Context, a client.Assignment) error {
	id := m.c.Member().ID()
	now := partitions(a.Active)
	m.g.History.Note("%s: assigned %v", m.name, sorted(now))
	m.mu.Lock()
	for _, p := range sorted(m.held) {
		if !now[p] {
			m.g.fail("%s: task %d vanishes without being revoked or lost", m.name, p)
		}
	}
	m.held = now
	m.mu.Unlock()
	g := m.g
	g.mu.Lock()
	g.counts.Assigned++
	for _, p := range sorted(now) {
		for o := range g.owners[p] {
			if o != m && !g.History.MayBeOut(o.c.Member().ID()) && !g.History.MayBeOut(id) {
				g.fail("%s takes task %d while %s works on it, whose membership cannot have ended", m.name, p, o.name)
			}
		}
		if g.owners[p] == nil {
			g.owners[p] = map[*Member]bool{}
		}
		g.owners[p][m] = true
	}
	g.mu.Unlock()
	m.pause(ctx)
	return nil
}

func (m *Member) giveUp(ctx context.Context, tasks []topology.TaskID) error {
	gone := partitions(tasks)
	m.pause(ctx)
	m.mu.Lock()
	for _, p := range sorted(gone) {
		if !m.held[p] {
			m.g.fail("%s: task %d is revoked and was not assigned", m.name, p)
		}
	}
	m.mu.Unlock()
	m.commit(ctx)
	m.release("revoked", gone)
	return nil
}

func (m *Member) lose(_ context.Context, tasks []topology.TaskID) {
	m.g.mu.Lock()
	m.g.counts.Lost++
	m.g.mu.Unlock()
	m.release("lost", partitions(tasks))
}

func (m *Member) release(how string, gone map[int32]bool) {
	m.g.History.Note("%s: %s %v", m.name, how, sorted(gone))
	m.mu.Lock()
	for p := range gone {
		delete(m.held, p)
	}
	m.mu.Unlock()
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	for p := range gone {
		delete(m.g.owners[p], m)
	}
}

func partitions(tasks []topology.TaskID) map[int32]bool {
	out := map[int32]bool{}
	for _, t := range tasks {
		out[t.Partition] = true
	}
	return out
}

// end notes that a member is about to be ended. It returns whether that is news.
func (m *Member) end(how string) bool {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	if m.ended {
		return false
	}
	m.ended = true
	m.g.History.Note("%s %s", m.name, how)
	return true
}

// Leave ends a member in an orderly way, as far as the network lets it.
func (m *Member) Leave() {
	if !m.end("leaves") {
		return
	}
	m.stop()
	<-m.done
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if err := m.c.Close(ctx); err != nil {
		m.g.History.Note("%s cannot leave: %v", m.name, err)
	}
	m.bury()
}

// Crash ends a member as a dead process would.
func (m *Member) Crash() {
	if !m.end("crashes") {
		return
	}
	m.c.Abandon()
	m.stop()
	<-m.done
	m.bury()
}

// bury clears up after a member whose goroutine has ended.
func (m *Member) bury() {
	if m.own != nil {
		m.own.Close()
	}
	m.wire.Cut()
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	for _, by := range m.g.owners {
		delete(by, m)
	}
}
