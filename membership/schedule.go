package membership

import (
	"errors"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// discover looks for the coordinator whenever it is needed and not known, one
// look-up at a time (CO-1).
func (m *Member) discover(now time.Duration, fx *Effects) {
	if !m.needsCoordinator() || m.finding || now < m.findAt {
		return
	}
	m.finding = true
	fx.FindCoordinator = true
}

// needsCoordinator is whether a coordinator is missing: of a member, or of a leave
// that has time left.
func (m *Member) needsCoordinator() bool {
	if m.coordinator {
		return false
	}
	if m.goodbye.wanted {
		return !m.skipsLeave() && m.now < m.goodbye.till
	}
	return m.state.inGroup() && m.state != Leaving
}

// CoordinatorFound answers FindCoordinator. version is the highest heartbeat
// version that the coordinator and the client both know.
func (m *Member) CoordinatorFound(now time.Duration, version int16) {
	m.now = now
	m.finding, m.coordinator = false, true
	m.takeVersion(version)
	m.findAttempts = 0
	m.findAt = now + m.backoff(m.bounced) // a coordinator that is lost at once is not looked up in a tight loop (CO-2)
	m.discoveryErr = nil
	m.event(CoordinatorKnown{Version: version})
	if m.state.inGroup() {
		m.checkVersion()
	}
}

// CoordinatorFailed answers FindCoordinator. It is tried again after a back-off,
// whatever the error. One that will hardly go away by itself is reported to the
// application, once until the answer changes (CO-3 to CO-5).
func (m *Member) CoordinatorFailed(now time.Duration, err error) {
	m.now = now
	m.finding = false
	wait := m.backoff(m.findAttempts)
	m.findAt = now + wait
	m.findAttempts++
	m.lastErr = err
	m.event(LookUpFailed{Err: err, Retry: wait})
	m.warnUnreachable(now, err)
	code, _ := errors.AsType[*kerr.Error](err)
	if code == nil || code.Retriable {
		m.discoveryErr = nil
		return
	}
	if code != m.discoveryErr {
		m.discoveryErr = code
		remedy := "see the broker's log; the member goes on trying"
		if code == kerr.GroupAuthorizationFailed {
			remedy = "grant READ on the group; the member goes on trying"
		}
		m.report(m.problem(err, "cannot look the coordinator up", remedy))
	}
}

func (m *Member) forgetCoordinator(reason string) {
	if m.coordinator {
		m.coordinator = false
		m.event(CoordinatorLost{Reason: reason})
	}
}

// backoff is the wait after attempt k, counted from 0: exponential, with jitter,
// never above the maximum (TM-3).
func (m *Member) backoff(k int) time.Duration {
	base, limit := m.cfg.RetryBackoff, m.cfg.RetryBackoffMax
	if limit <= base {
		return limit
	}
	d := float64(base) * math.Pow(2, float64(min(k, 40)))
	d = min(d, float64(limit))
	if m.cfg.Jitter != nil {
		d *= 0.8 + 0.4*min(max(m.cfg.Jitter(), 0), 1)
	}
	return time.Duration(min(d, float64(limit)))
}

// failed notes a heartbeat without success: the next one is due as soon as the
// back-off is over, and repeats everything (TM-2, rule 7.4 on the delta memory).
func (m *Member) failed(now time.Duration) (wait time.Duration) {
	m.now = now
	wait = m.backoff(m.attempts)
	m.attempts++
	m.backoffTill = now + wait
	m.dueAt = now
	m.forgetSent()
	return wait
}

// clearBackoff makes the next heartbeat possible at once.
func (m *Member) clearBackoff() {
	m.inFlight, m.attempts, m.backoffTill = 0, 0, 0
}

func (m *Member) forgetSent() {
	m.sent = nil
	m.forgetOffsets()
}

// heartbeatStep decides whether a heartbeat goes out now: rules HB-1 to HB-5.
func (m *Member) heartbeatStep(now time.Duration, fx *Effects) {
	if m.fatalLeave && len(m.calls) == 0 {
		m.fatalLeave = false
		m.sayGoodbye()
	}
	switch {
	case m.goodbye.wanted:
		m.leaveStep(now, fx)
	case !m.coordinator || !m.state.inGroup():
	case m.pollExpired(now):
		m.event(PollTimerExpired{Limit: m.cfg.MaxPollInterval})
		m.goStale(now, fx)
	case m.disowned:
		m.goStale(now, fx)
	case m.mayHeartbeat(now):
		fx.Heartbeat, fx.HeartbeatID = m.build(now), m.nextID()
		m.inFlight = fx.HeartbeatID
		m.sentAt, m.dueAt = now, now+m.interval
		if m.state == Joining {
			m.rejoinAt = now + m.backoff(m.rejoins) // a coordinator that takes members in and fences them at once is not run into in a tight loop
			m.rejoins++
		}
		if m.state == Acknowledging {
			m.spaceAcks(now)
			if m.target.same(m.current) {
				m.to(StateStable)
			} else {
				m.to(Reconciling)
			}
		}
	}
}

// acksAtOnce is how many acknowledgements in a row go out at once. A rebalance has
// two or three steps.
const (
	acksAtOnce = 8
	acksApart  = time.Second
)

// spaceAcks keeps acknowledgements apart if there is no end of them: a coordinator
// whose every answer brings another assignment would get them as fast as it answers.
func (m *Member) spaceAcks(now time.Duration) {
	m.ackAt = max(m.ackAt, now-(acksAtOnce-1)*acksApart) + acksApart
}

func (m *Member) nextID() uint64 {
	m.lastID++
	return m.lastID
}

// mayHeartbeat is whether an ordinary heartbeat is to go out.
func (m *Member) mayHeartbeat(now time.Duration) bool {
	at, ok := m.heartbeatAt()
	return ok && at <= now
}

// heartbeatAt is when the next ordinary heartbeat goes out, if nothing happens
// before.
func (m *Member) heartbeatAt() (at time.Duration, ok bool) {
	switch {
	case !m.coordinator || m.inFlight != 0:
		return 0, false
	case m.state == Joining:
		return max(m.backoffTill, m.rejoinAt), true
	case m.state == Acknowledging:
		return max(m.backoffTill, m.ackAt), true
	case m.state == StateStable || m.state == Reconciling || m.state == PrepareLeaving && m.epoch > 0:
		return max(m.dueAt, m.backoffTill), true
	}
	return 0, false
}

// pollExpired is whether the application has not come round in time.
func (m *Member) pollExpired(now time.Duration) bool {
	return m.cfg.PollGuard && m.state.live() && now >= m.pollAt
}

// NextDeadline is when Step has something to do if no input comes first.
func (m *Member) NextDeadline() (at time.Duration, ok bool) {
	earliest := func(t time.Duration) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	if m.somethingToTell() || m.mayJoin() || m.fatalLeave && len(m.calls) == 0 ||
		m.state == Reconciling && m.running == nil && !m.target.same(m.current) {
		earliest(0)
	}
	if m.goodbye.wanted {
		earliest(m.goodbye.next(m))
	}
	if m.needsCoordinator() && !m.finding {
		earliest(m.findAt)
	}
	if t, due := m.heartbeatAt(); due {
		earliest(t)
	}
	if m.cfg.PollGuard && m.state.live() && m.coordinator {
		earliest(m.pollAt)
	}
	if m.disowned && m.coordinator {
		earliest(0)
	}
	if t, due := m.patienceEnds(); due {
		earliest(t)
	}
	if t, due := m.pushAt(); due {
		earliest(t)
	}
	return at, ok
}

// CoordinatorUnsupported answers FindCoordinator: the coordinator was found and
// cannot be worked with. The membership, if there is one, ends with the error.
func (m *Member) CoordinatorUnsupported(err error) {
	m.finding = false
	if !m.state.inGroup() {
		m.lastErr = err
		m.leaveFinished()
		return
	}
	m.fail(m.problem(err, "the coordinator cannot be used", "see the cause"), false)
}
