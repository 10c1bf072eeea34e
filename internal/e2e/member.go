package e2e

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Member is a consumer with the goroutine that polls it.
type Member struct {
	w    *World
	name string
	c    *client.Consumer
	stop context.CancelFunc
	done chan struct{}
	err  error // that ended the goroutine, once done is closed
	dead bool

	mu     sync.Mutex
	held   map[topology.TaskID]bool
	taken  int // how many times tasks were assigned
	lost   int // how many times tasks were lost
	inside bool

	// To misbehave. They run inside the callbacks.
	onAssigned func(context.Context, client.Assignment) error
	onRevoked  func(context.Context, []topology.TaskID) error
	onLost     func()
}

// start runs a member that is expected to end in good order.
func (w *World) start(name string, opts ...client.Opt) *Member {
	w.Helper()
	return w.startAs(&Member{name: name}, w.topo, opts...)
}

// startAs runs a prepared member.
func (w *World) startAs(m *Member, topo *topology.Topology, opts ...client.Opt) *Member {
	w.Helper()
	m.w, m.done, m.held = w, make(chan struct{}), map[topology.TaskID]bool{}
	c, err := client.NewConsumer(w.group, topo, append([]client.Opt{
		client.KgoOpts(w.opts...),
		client.OnTasksAssigned(m.take),
		client.OnTasksRevoked(m.giveUp),
		client.OnTasksLost(m.lose),
	}, opts...)...)
	require.NoError(w, err)
	m.c = c
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	w.mu.Lock()
	w.members = append(w.members, m)
	w.mu.Unlock()
	go func() {
		defer close(m.done)
		m.err = m.work(ctx)
	}()
	return m
}

func (m *Member) work(ctx context.Context) error {
	for {
		fetches, err := m.c.Poll(ctx)
		if err != nil {
			return err
		}
		for _, f := range fetches.Tasks() {
			m.process(f)
			m.c.MarkProcessed(f.Records...)
		}
		if err := m.c.Commit(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, client.ErrFenced) && !passing(err) {
			return err
		}
	}
}

func (m *Member) process(f client.TaskRecords) {
	m.mu.Lock()
	assert.True(m.w, m.held[f.Task], "%s works on %s, which it does not hold", m.name, f.Task)
	m.mu.Unlock()
	m.w.tally(f.Records)
}

// enter and exit assert that callbacks run one after another.
func (m *Member) enter() {
	m.mu.Lock()
	defer m.mu.Unlock()
	assert.False(m.w, m.inside, "%s: two callbacks at once", m.name)
	m.inside = true
}

func (m *Member) exit() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inside = false
}

func (m *Member) take(ctx context.Context, a client.Assignment) error {
	m.enter()
	defer m.exit()
	m.mu.Lock()
	m.taken++
	for t := range m.held {
		assert.Contains(m.w, a.Active, t, "%s: %s vanishes without being revoked or lost", m.name, t)
	}
	for _, t := range a.Active {
		m.held[t] = true
	}
	m.mu.Unlock()
	w := m.w
	w.mu.Lock()
	for _, t := range a.Active {
		if o := w.owner[t]; o != "" && o != m.name {
			assert.Fail(w, "active twice", "%s takes %s from %s", m.name, t, o)
		}
		w.owner[t] = m.name
	}
	w.mu.Unlock()
	if m.onAssigned != nil {
		return m.onAssigned(ctx, a)
	}
	return nil
}

func (m *Member) giveUp(ctx context.Context, tasks []topology.TaskID) error {
	m.enter()
	defer m.exit()
	defer m.release(tasks)
	m.mu.Lock()
	for _, t := range tasks {
		assert.True(m.w, m.held[t], "%s: %s is revoked and was not assigned", m.name, t)
	}
	m.mu.Unlock()
	err := m.c.Commit(ctx)
	if m.onRevoked != nil {
		return m.onRevoked(ctx, tasks)
	}
	return err
}

func (m *Member) lose(_ context.Context, tasks []topology.TaskID) {
	m.enter()
	defer m.exit()
	m.release(tasks)
	m.mu.Lock()
	m.lost++
	m.mu.Unlock()
	if m.onLost != nil {
		m.onLost()
	}
}

func (m *Member) release(tasks []topology.TaskID) {
	m.mu.Lock()
	for _, t := range tasks {
		delete(m.held, t)
	}
	m.mu.Unlock()
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	for _, t := range tasks {
		if m.w.owner[t] == m.name {
			delete(m.w.owner, t)
		}
	}
}

// expel releases tasks of a member that is cut off, at the moment when its session
// is over: the application cannot know, and the next owner is right to begin.
func (m *Member) expel() {
	m.mu.Lock()
	held := make([]topology.TaskID, 0, len(m.held))
	for t := range m.held {
		held = append(held, t)
	}
	m.mu.Unlock()
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	for _, t := range held {
		if m.w.owner[t] == m.name {
			delete(m.w.owner, t)
		}
	}
}

// leave ends a member in an orderly way.
func (m *Member) leave() {
	m.w.Helper()
	if m.dead {
		return
	}
	m.dead = true
	m.stop()
	<-m.done
	require.ErrorIs(m.w, m.err, context.Canceled, m.name)
	require.NoError(m.w, m.c.Close(context.Background()), m.name)
}

// ended waits for a member to end by itself and returns why.
func (m *Member) ended() error {
	m.w.Helper()
	m.w.eventually(m.name+" ends", func() bool {
		select {
		case <-m.done:
			return true
		default:
			return false
		}
	})
	m.dead = true
	_ = m.c.Close(context.Background())
	m.expel()
	return m.err
}

// Crash ends a member as a dead process would.
func (m *Member) Crash() {
	if m.dead {
		return
	}
	m.dead = true
	m.c.Abandon()
	m.stop()
	<-m.done
	m.expel()
}

// tasks are what a member holds by its own callbacks.
func (m *Member) tasks() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.held)
}

func (m *Member) times() (taken, lost int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.taken, m.lost
}

func (m *Member) active() []topology.TaskID {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]topology.TaskID, 0, len(m.held))
	for t := range m.held {
		out = append(out, t)
	}
	slices.SortFunc(out, topology.TaskID.Compare)
	return out
}

// passing is whether the next commit may succeed.
func passing(err error) bool {
	k, ok := kerrOf(err)
	return !ok && !errors.Is(err, kgo.ErrClientClosed) || ok && k.Retriable
}
