package membership

import (
	"errors"
	"time"

	"github.com/streamsgroup/streamsgroup/topology"
)

// pass is one run of callbacks towards a target that is frozen meanwhile.
type pass struct {
	goal assignment
	// dropped means that the member's state has moved on: the outcome counts for
	// nothing, and no further step is started. Only the running pass is not.
	dropped bool
	// assigning means that "tasks assigned" was asked for.
	assigning bool
	// void means that what was assigned has been taken away before "tasks assigned" has
	// returned.
	void bool
}

// purpose is what is to happen when a callback has returned.
type purpose int8

const (
	passRevoke purpose = iota
	passAssign
	lostFenced
	lostStale
	lostFatal
	lostLeaving
	revokeLeaving
)

type call struct {
	purpose purpose
	pass    *pass
	cb      Callback
	asked   time.Duration
}

// ask queues a callback. Callbacks run one after another in this order.
func (m *Member) ask(why purpose, p *pass, cb Callback) {
	cb.ID = m.nextID()
	cb.Epoch = max(m.epoch, 0)
	m.calls[cb.ID] = call{purpose: why, pass: p, cb: cb, asked: m.now}
	m.queuedCallbacks = append(m.queuedCallbacks, cb)
	if why >= lostFenced {
		m.awaited = cb.ID
	}
}

// startPass begins to work towards the target: revoke first, then assign.
func (m *Member) startPass() {
	p := &pass{goal: m.target}
	m.running = p
	if revoke := minus(m.current.active, p.goal.active); len(revoke) > 0 {
		m.ask(passRevoke, p, Callback{Kind: TasksRevoked, Active: revoke})
		return
	}
	m.askAssign(p)
}

// askAssign hands over the complete sets, not a difference.
func (m *Member) askAssign(p *pass) {
	p.assigning = true
	g := p.goal.withoutOverlaps()
	m.ask(passAssign, p, Callback{Kind: TasksAssigned, Active: g.active, Standby: g.standby, Warmup: g.warmup, Ready: g.ready})
}

// dropPass makes a running pass irrelevant: the member was fenced, leaves, or has
// joined again.
func (m *Member) dropPass() {
	if m.running != nil {
		m.running.dropped = true
		m.running = nil
	}
}

// CallbackDone says that a callback has returned.
func (m *Member) CallbackDone(now time.Duration, id uint64, err error) {
	m.now = now
	c, ok := m.calls[id]
	if !ok {
		return
	}
	delete(m.calls, id)
	m.event(CallbackFinished{Kind: c.cb.Kind, Tasks: c.cb.Active, Took: now - c.asked, Err: err})
	if c.purpose == passRevoke || c.purpose == passAssign {
		m.passReturned(c, err)
		return
	}
	// Whatever the outcome, the tasks are gone and the member goes on.
	m.confirmed = none
	for before, o := range m.calls { // none, if callbacks return in their order
		if before < id && o.pass != nil {
			o.pass.void = true
		}
	}
	if m.state == Fatal {
		m.forget()
	}
	if err != nil {
		m.report(m.callbackError(c.cb, err))
	}
	if id != m.awaited {
		return // of a membership that is over
	}
	switch {
	case c.purpose == lostFenced && m.state == Fenced:
		m.join()
	case c.purpose == lostStale:
		m.staleDone = true
		m.rejoinStale()
	case (c.purpose == lostLeaving || c.purpose == revokeLeaving) && m.state == PrepareLeaving:
		m.startLeaving()
	}
}

func (m *Member) passReturned(c call, err error) {
	p := c.pass
	if err == nil && c.purpose == passAssign && !p.void {
		m.confirmed = p.goal.withoutOverlaps()
	}
	switch {
	case p.dropped:
		if err != nil {
			m.report(m.callbackError(c.cb, err))
		}
	case err != nil:
		// The application is neither in the old state nor in the new one: going on
		// would be a guess.
		m.fail(m.callbackError(c.cb, err), true)
	case c.purpose == passRevoke:
		m.askAssign(p)
	default:
		m.running = nil
		m.current = p.goal
		m.to(Acknowledging)
	}
}

func (m *Member) callbackError(cb Callback, err error) error {
	return m.problem(err, "the callback \""+cb.Kind.String()+"\" failed", "mend the application: after a failed callback nobody knows what it runs")
}

// take stores what the coordinator sent as the target.
func (m *Member) take(a assignment) {
	switch {
	case m.target.counter >= 0 && m.target.sameContent(a):
		// AS-1: nothing new. But the coordinator says so only when something has changed
		// for it: it may take back what it has given in an answer that was lost, and
		// wait for a report without that.
		m.sent = nil
	default:
		a.counter = m.target.counter + 1
		m.target = a
		m.event(TargetReceived{Active: a.active, Standby: a.standby, Warmup: a.warmup, Ready: a.ready, Revoke: minus(m.current.active, a.active)})
		if o := a.overlaps(); len(o.Ignored)+len(o.Merged) > 0 {
			m.event(o)
		}
	}
	if m.target.same(m.current) {
		if m.state == Joining || m.state == Reconciling && m.running == nil {
			m.to(StateStable)
		}
		return
	}
	m.to(Reconciling)
}

// lose asks for "tasks lost" with what the application may be running: what it
// confirmed, and what it is being given right now.
func (m *Member) lose(why purpose) {
	m.ask(why, nil, Callback{Kind: TasksLost, Active: m.mayRun()})
}

// mayRun are the active tasks that the application runs or is about to run. While
// tasks are being assigned those that had to go have been revoked already, and
// what remains is part of the assignment.
func (m *Member) mayRun() []topology.TaskID {
	if m.running != nil && m.running.assigning {
		return m.running.goal.active
	}
	return m.confirmed.active
}

// errNoTasks is the fault of a broker that answers a join without task lists.
var errNoTasks = errors.New("the coordinator answered a join without tasks")
