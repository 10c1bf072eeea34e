package client

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Run joins the group and takes part in it until ctx ends or [Member.Leave] is
// called. It then revokes, leaves within the leave timeout on a context of its own,
// and returns nil, also if the callback for that has failed, which shows in
// [Member.Snapshot] and to hooks only. If the membership fails for good it returns the reason, a
// *[membership.Error]; if a hook or an option's function panics, it leaves in an
// orderly way and returns a *[PanicError]. It never returns before the callback
// that is running: when the time is up, its context ends. Run can be called once.
func (m *Member) Run(ctx context.Context) (err error) {
	m.mu.Lock()
	again := m.ran
	m.ran = true
	m.mu.Unlock()
	if again {
		return errors.New("client: Run was called before: make a new member")
	}
	m.proc.enter(m)
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	g := &errgroup.Group{}
	r := &runtime{m: m, ctx: own, g: g, callbacks: make(chan membership.Callback, 16)}
	g.Go(func() error { r.runCallbacks(); return nil })
	join, err := r.mayJoin(ctx)
	if join {
		err = r.loop(ctx)
	}
	cancel()
	close(r.callbacks)
	_ = g.Wait()
	r.tellRest()
	r.lastWord(ctx, err)
	err = m.explain(ctx, err)
	m.proc.exit(m)
	if rerr := m.release(); rerr != nil {
		m.log(kgo.LogLevelWarn, "cannot give the state directory back", "err", rerr)
	}
	r.observe(func() { each(m.cfg.hooks, func(h HookMemberEnded) { h.OnMemberEnded(m, err) }) })
	return err
}

// lastWord sends the leave of a member that has run out of time: its tasks are not
// to wait until the session ends.
func (r *runtime) lastWord(ctx context.Context, err error) {
	if errors.Is(err, ErrAbandoned) {
		return
	}
	m := r.m
	m.mu.Lock()
	req, node := m.core.LastLeave(m.now()), m.node
	m.mu.Unlock()
	if req != nil {
		_, err := m.send(context.WithoutCancel(ctx), m.cfg.leaveTimeout-m.cfg.orderly(), node, req)
		m.log(kgo.LogLevelWarn, "left the group at the last moment", "err", err)
	}
}

// runtime is one run of a member: the loop that owns the core's effects, and the
// goroutines that carry them out.
type runtime struct {
	m         *Member
	ctx       context.Context // ends with Run, not with the context of the user
	g         *errgroup.Group
	callbacks chan membership.Callback
	fatal     error
	leaving   bool      // told to leave, or failed
	leaveBy   time.Time // zero until then
	blind     bool      // an observer has panicked
	spoke     bool      // a heartbeat was sent
}

// tellRest tells hooks of callbacks that have returned when the time was up.
func (r *runtime) tellRest() {
	r.m.mu.Lock()
	notes := r.m.notes
	r.m.notes = nil
	r.m.mu.Unlock()
	for _, note := range notes {
		r.observe(note)
	}
}

func (r *runtime) loop(ctx context.Context) error {
	m := r.m
	m.input(func(now time.Duration) { m.core.Join(now) })
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	done := ctx.Done()
	var fx membership.Effects
	for {
		offsets, ends := r.askOffsets()
		m.mu.Lock()
		gone := m.gone
		if m.leave != nil && !r.leaving {
			r.startLeaving(*m.leave)
		}
		if r.reports() {
			m.core.SetTaskOffsets(offsets, ends)
		}
		m.core.Step(m.now(), &fx)
		next, ok := m.core.NextDeadline()
		if fx.Heartbeat != nil {
			m.unanswered++
			r.spoke = true
		}
		left := m.core.LeaveDone() && m.unanswered == 0
		// Nobody waits for the goodbye of a member that nobody knows.
		left = left || !r.spoke && m.core.State() == membership.Leaving
		notes := m.notes
		m.notes = nil
		m.mu.Unlock()
		if gone {
			return ErrAbandoned
		}
		for _, note := range notes {
			r.observe(note)
		}
		r.carryOut(&fx)
		if left && r.leaving {
			return r.fatal
		}
		wait := time.Hour
		if ok {
			wait = next - m.now()
		}
		if r.leaving {
			until := time.Until(r.leaveBy)
			if until <= 0 {
				m.log(kgo.LogLevelWarn, "did not leave the group in time", "timeout", m.cfg.leaveTimeout)
				return r.fatal
			}
			wait = min(wait, until)
		}
		timer.Reset(max(wait, 0))
		select {
		case <-done:
			done = nil
			m.Leave(m.cfg.leaveMode)
		case <-m.wake:
		case <-timer.C:
		}
	}
}

// startLeaving begins the end. The caller holds the lock.
func (r *runtime) startLeaving(mode membership.LeaveMode) {
	r.leaving = true
	r.leaveBy = time.Now().Add(r.m.cfg.orderly())
	r.m.core.Leave(r.m.now(), mode)
}

// give ends the membership from our side, in an orderly way.
func (r *runtime) give(err error) {
	m := r.m
	m.log(kgo.LogLevelError, "membership", "err", err)
	if r.fatal == nil {
		r.fatal = err
	}
	m.input(func(time.Duration) { m.given = r.fatal })
	m.Leave(m.cfg.leaveMode)
}

func (r *runtime) reports() bool {
	return r.m.cfg.offsets != nil || r.m.proc.cfg.dormant != nil
}

// askOffsets asks the application for the positions of its tasks, without the
// lock: it may ask the member in turn.
func (r *runtime) askOffsets() (offsets, ends map[topology.TaskID]int64) {
	r.observe(func() {
		if r.m.cfg.offsets != nil {
			offsets, ends = r.m.cfg.offsets()
		}
		if dormant := r.m.proc.dormantFor(r.m); len(dormant) > 0 {
			maps.Copy(dormant, offsets)
			offsets = dormant
		}
	})
	return offsets, ends
}

// tell logs an event and shows it to observers.
func (r *runtime) tell(e membership.Event) {
	m := r.m
	m.logEvent(e)
	if len(m.cfg.hooks) > 0 {
		r.observe(func() { r.observeEvent(e) })
	}
	if m.cfg.onEvent != nil {
		r.observe(func() { m.cfg.onEvent(e) })
	}
}

// carryOut does what the core wants done.
func (r *runtime) carryOut(fx *membership.Effects) {
	m := r.m
	for _, e := range fx.Events {
		if _, lost := e.(membership.CoordinatorLost); lost {
			m.mu.Lock()
			m.node = -1
			m.mu.Unlock()
		}
		r.tell(e)
	}
	for _, err := range fx.Errs {
		if e, ok := errors.AsType[*membership.Error](err); ok && e.Fatal {
			if r.fatal == nil {
				r.fatal = err
			}
			if !r.leaving {
				r.leaving = true
				r.leaveBy = time.Now().Add(m.cfg.orderly())
			}
		}
		m.log(kgo.LogLevelError, "membership", "err", err)
	}
	if fx.FindCoordinator {
		r.g.Go(func() error { r.findCoordinator(); return nil })
	}
	if req := fx.Heartbeat; req != nil {
		id, node := fx.HeartbeatID, m.coordinatorNode()
		if len(m.cfg.hooks) > 0 {
			r.observe(func() { each(m.cfg.hooks, func(h HookHeartbeatSent) { h.OnHeartbeatSent(m.meta(), req) }) })
		}
		r.g.Go(func() error { r.heartbeat(node, id, req); return nil })
	}
	if req := fx.Description; req != nil {
		node := m.coordinatorNode()
		r.g.Go(func() error { r.describe(node, req); return nil })
	}
	if fx.Sources != nil && m.resolved != nil {
		m.resolved(fx.Sources)
	}
	for _, cb := range fx.Callbacks {
		r.callbacks <- cb
	}
}
