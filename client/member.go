package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"golang.org/x/sync/errgroup"

	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Member is one member of a streams group, over a client of the user. Make one
// with [NewMember] and call [Member.Run]. Its methods are safe for concurrent use.
type Member struct {
	cl    *kgo.Client
	group string
	cfg   config
	began time.Time
	// invoke runs one callback and returns its error. A Consumer replaces it to run
	// callbacks on the goroutine that polls.
	invoke func(context.Context, membership.Callback) error

	mu   sync.Mutex // guards core and what follows
	core *membership.Member
	ran  bool
	gone bool  // Abandon was called
	node int32 // the coordinator
	// unanswered counts heartbeats on their way. Run waits for the last one: it may
	// be the goodbye of a member that has failed.
	unanswered int

	wake chan struct{} // has room for one
}

// NewMember makes a member of a group that runs a topology. The client must
// outlive the member; it is used for requests only and may also produce and
// consume. The error is an *[OptionError] for a bad option.
func NewMember(cl *kgo.Client, group string, topo *topology.Topology, opts ...Opt) (*Member, error) {
	cfg := defaults()
	cfg.take(opts)
	if cfg.kgoOptsGiven {
		cfg.bad("KgoOpts", "…", "a Member uses your client: set its options there")
	}
	return newMember(cl, group, topo, cfg)
}

func newMember(cl *kgo.Client, group string, topo *topology.Topology, cfg config) (*Member, error) {
	if err := errors.Join(cfg.errs...); err != nil {
		return nil, err
	}
	if cl == nil {
		return nil, errors.New("client: a member needs a *kgo.Client")
	}
	if v, _ := cl.OptValue(kgo.MaxVersions).(*kversion.Versions); v != nil && !v.HasKey(int16(kmsg.StreamsGroupHeartbeat)) {
		return nil, &OptionError{"kgo.MaxVersions", v.VersionGuess(), "the client may not send heartbeats of streams groups: want Kafka 4.2 or later"}
	}
	cfg.memberID = newMemberID()
	if cfg.processID == "" {
		cfg.processID = newProcessID()
	}
	core, err := membership.New(cfg.core(group, topo, rand.Float64))
	if err != nil {
		return nil, err
	}
	m := &Member{cl: cl, group: group, cfg: cfg, began: time.Now(), core: core, wake: make(chan struct{}, 1), node: -1}
	m.invoke = m.callUser
	return m, nil
}

// ID is the member id. It never changes.
func (m *Member) ID() string { return m.cfg.memberID }

// ProcessID is what the member sent as its process id.
func (m *Member) ProcessID() string { return m.cfg.processID }

// Group is the group id.
func (m *Member) Group() string { return m.group }

// Epoch is the member epoch for commits; ok is false while there is none.
func (m *Member) Epoch() (epoch int32, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.core.Epoch()
}

// Snapshot describes the member as it is now.
func (m *Member) Snapshot() membership.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.core.Snapshot(m.now())
}

// Polled says that the application's loop has come round. With a [PollGuard] call
// it at least once per max poll interval.
func (m *Member) Polled() { m.input(func(now time.Duration) { m.core.Poll(now) }) }

// RequestShutdown asks the whole application to shut down: with the next heartbeat,
// all members get status 4. It cannot be taken back.
func (m *Member) RequestShutdown() { m.input(func(time.Duration) { m.core.RequestShutdown() }) }

// ForceHeartbeat sends a heartbeat as soon as none is in flight, for tests.
func (m *Member) ForceHeartbeat() { m.input(func(time.Duration) { m.core.ForceHeartbeat() }) }

// Abandon ends Run at once, without callbacks, commit or leave, as if the process
// had died: the coordinator finds out when the session ends. For tests and
// demonstrations of fail-over.
func (m *Member) Abandon() {
	m.input(func(time.Duration) { m.gone = true })
}

func (m *Member) now() time.Duration { return time.Since(m.began) }

// input changes the core and lets Run look at it.
func (m *Member) input(fn func(now time.Duration)) {
	m.mu.Lock()
	fn(m.now())
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// ErrAbandoned is what Run returns after Abandon.
var ErrAbandoned = errors.New("client: the member was abandoned")

// Run joins the group and takes part in it until ctx ends. It then revokes, leaves
// within the leave timeout on a context of its own, and returns nil. If the
// membership fails for good it returns the reason, a *[membership.Error]. It never
// returns before the callback that is running: when the time is up, its context
// ends. Run can be called once.
func (m *Member) Run(ctx context.Context) error {
	m.mu.Lock()
	again := m.ran
	m.ran = true
	m.mu.Unlock()
	if again {
		return errors.New("client: Run was called before: make a new member")
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	g := &errgroup.Group{}
	r := &runtime{m: m, ctx: own, g: g, callbacks: make(chan membership.Callback, 16)}
	g.Go(func() error { r.runCallbacks(); return nil })
	err := r.loop(ctx)
	cancel()
	close(r.callbacks)
	_ = g.Wait()
	return err
}

// runtime is one run of a member: the loop that owns the core's effects, and the
// goroutines that carry them out.
type runtime struct {
	m         *Member
	ctx       context.Context // ends with Run, not with the context of the user
	g         *errgroup.Group
	callbacks chan membership.Callback
	fatal     error
	leaveBy   time.Time // zero while the user's context lives
}

func (r *runtime) loop(ctx context.Context) error {
	m := r.m
	m.input(func(now time.Duration) { m.core.Join(now) })
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	done := ctx.Done()
	var fx membership.Effects
	for {
		var offsets, ends map[topology.TaskID]int64
		if m.cfg.offsets != nil {
			offsets, ends = m.cfg.offsets() // without the lock: it may ask the member
		}
		m.mu.Lock()
		gone := m.gone
		if m.cfg.offsets != nil {
			m.core.SetTaskOffsets(offsets, ends)
		}
		m.core.Step(m.now(), &fx)
		next, ok := m.core.NextDeadline()
		if fx.Heartbeat != nil {
			m.unanswered++
		}
		left := m.core.LeaveDone() && m.unanswered == 0
		m.mu.Unlock()
		if gone {
			return ErrAbandoned
		}
		r.carryOut(&fx)
		if left && (r.fatal != nil || done == nil) {
			return r.fatal
		}
		wait := time.Hour
		if ok {
			wait = next - m.now()
		}
		if !r.leaveBy.IsZero() {
			if wait = min(wait, time.Until(r.leaveBy)); time.Until(r.leaveBy) <= 0 {
				m.log(kgo.LogLevelWarn, "did not leave the group in time", "timeout", m.cfg.leaveTimeout)
				return r.fatal
			}
		}
		if wait <= 0 {
			continue
		}
		timer.Reset(wait)
		select {
		case <-done:
			done = nil
			r.leaveBy = time.Now().Add(m.cfg.leaveTimeout)
			m.input(func(now time.Duration) { m.core.Leave(now, m.cfg.leaveMode) })
		case <-m.wake:
		case <-timer.C:
		}
	}
}

// carryOut does what the core wants done.
func (r *runtime) carryOut(fx *membership.Effects) {
	m := r.m
	for _, e := range fx.Events {
		m.logEvent(e)
		if m.cfg.onEvent != nil {
			m.cfg.onEvent(e)
		}
	}
	for _, err := range fx.Errs {
		var e *membership.Error
		if errors.As(err, &e) && e.Fatal && r.fatal == nil {
			r.fatal = err
			r.leaveBy = time.Now().Add(m.cfg.leaveTimeout)
		}
		m.log(kgo.LogLevelError, "membership", "err", err)
	}
	if fx.FindCoordinator {
		r.g.Go(func() error { r.findCoordinator(); return nil })
	}
	if req := fx.Heartbeat; req != nil {
		id, node := fx.HeartbeatID, m.coordinatorNode()
		r.g.Go(func() error { r.heartbeat(node, id, req); return nil })
	}
	for _, cb := range fx.Callbacks {
		r.callbacks <- cb
	}
}

// runCallbacks runs the application's callbacks one after another, while heartbeats
// go on.
func (r *runtime) runCallbacks() {
	for cb := range r.callbacks {
		if r.ctx.Err() != nil {
			continue
		}
		err := r.m.safely(r.ctx, cb)
		r.m.input(func(now time.Duration) { r.m.core.CallbackDone(now, cb.ID, err) })
	}
}

// PanicError is a callback that panicked. The member ends with it.
type PanicError struct {
	Value any
	// Stack is that of the panic. It is not part of the message.
	Stack []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("client: a callback panicked: %v", e.Value)
}

// Unwrap is the value of the panic, if it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

func panicError(v any) error { return &PanicError{Value: v, Stack: debug.Stack()} }

func (m *Member) safely(ctx context.Context, cb membership.Callback) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicError(v)
		}
	}()
	return m.invoke(ctx, cb)
}

// callUser runs the callback that the user registered.
func (m *Member) callUser(ctx context.Context, cb membership.Callback) error {
	switch {
	case cb.Kind == membership.TasksRevoked && m.cfg.onRevoked != nil:
		return m.cfg.onRevoked(ctx, cb.Active)
	case cb.Kind == membership.TasksAssigned && m.cfg.onAssigned != nil:
		return m.cfg.onAssigned(ctx, Assignment{Active: cb.Active, Standby: cb.Standby, Warmup: cb.Warmup, Ready: cb.Ready, Epoch: cb.Epoch})
	case cb.Kind == membership.TasksLost && m.cfg.onLost != nil:
		m.cfg.onLost(ctx, cb.Active)
	}
	return nil
}
