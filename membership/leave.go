package membership

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Leave starts to leave: the active tasks are revoked, then the coordinator is
// told. LeaveDone reports the end. A second call while a leave is under way
// changes nothing.
func (m *Member) Leave(now time.Duration, mode LeaveMode) {
	m.now = now
	m.wantJoin = false
	if m.leavePending {
		return
	}
	m.leaveMode = mode
	switch {
	case m.state == Fenced:
		m.forget()
		m.to(Unsubscribed)
		return
	case m.state == Stale:
		m.forget()
		m.staleDone, m.polledStale = false, false
		m.to(Unsubscribed)
		return
	case !m.state.live():
		return
	}
	m.leavePending = true
	revoke := m.mayRun()
	running := m.running != nil
	m.dropPass()
	m.to(PrepareLeaving)
	switch {
	case m.epoch > 0 && (len(revoke) > 0 || running):
		m.ask(revokeLeaving, nil, Callback{Kind: TasksRevoked, Active: revoke})
	case m.epoch <= 0:
		m.ask(lostLeaving, nil, Callback{Kind: TasksLost, Active: revoke})
	default:
		m.startLeaving()
	}
}

// startLeaving is the step from the last callback to the leave heartbeat.
func (m *Member) startLeaving() {
	m.forget()
	m.confirmed = none // copies are not revoked
	m.setEpoch(m.leaveEpoch())
	m.to(Leaving)
	m.sayGoodbye()
}

// goodbye is a leave that has to be sent.
type goodbye struct {
	wanted   bool
	attempts int
	at, till time.Duration
}

// sayGoodbye begins to tell the coordinator that the member leaves.
func (m *Member) sayGoodbye() {
	m.leavePending = true
	m.goodbye = goodbye{wanted: true, at: m.now, till: m.now + m.cfg.LeaveTimeout}
}

// leaveStep sends the leave, or gives it up: because the member is to remain in the
// group, or because there is no coordinator and no time left.
func (m *Member) leaveStep(now time.Duration, fx *Effects) {
	g := &m.goodbye
	switch {
	case m.skipsLeave():
		m.leaveFinished()
	case now >= g.till && (!m.coordinator || g.attempts > 0):
		m.leaveGivenUp()
	case m.coordinator && now >= g.at:
		fx.Heartbeat, fx.HeartbeatID = m.buildLeave(now), m.nextID()
		m.leaveID = fx.HeartbeatID
		g.wanted = false
		g.attempts++
	default:
		return
	}
	if m.state == Leaving {
		m.clearBackoff() // an answer to what the leave overtook says nothing about the next membership
		m.to(Unsubscribed)
	}
}

// next is when leaveStep has something to do.
func (g *goodbye) next(m *Member) time.Duration {
	switch {
	case m.skipsLeave():
		return 0
	case m.coordinator:
		return g.at
	}
	return g.till
}

func (m *Member) buildLeave(now time.Duration) *kmsg.StreamsGroupHeartbeatRequest {
	epoch := m.epoch
	m.epoch = m.leaveEpoch()
	req := m.build(now)
	m.epoch, m.known, m.sentAt = epoch, false, now
	return req
}

// leaveLost plans to repeat a leave that the coordinator does not know of. One that
// it has acted upon already does no harm: it is not known any more.
func (m *Member) leaveLost(now, wait time.Duration) {
	if now+wait >= m.goodbye.till {
		m.leaveGivenUp()
		return
	}
	m.leaveID = 0
	m.goodbye.wanted, m.goodbye.at = true, now+wait
}

// LastLeave is for a driver that has to stop before the leave is over: it returns
// the leave to be sent without waiting for an answer, or nil if there is nothing to
// tell. The membership has ended then.
func (m *Member) LastLeave(now time.Duration) *kmsg.StreamsGroupHeartbeatRequest {
	m.now = now
	leaving := m.state == PrepareLeaving || m.state == Leaving || m.goodbye.wanted || m.fatalLeave
	if !leaving {
		return nil
	}
	var req *kmsg.StreamsGroupHeartbeatRequest
	if m.coordinator && !m.skipsLeave() {
		req = m.buildLeave(now)
	}
	m.fatalLeave = false
	m.leaveFinished()
	m.clearBackoff()
	m.forget()
	if m.state != Fatal {
		m.setEpoch(m.leaveEpoch())
		m.to(Unsubscribed)
	}
	return req
}

// forget drops what the member was assigned.
func (m *Member) forget() { m.current, m.target = none, none }

// leaveEpoch is what the leave heartbeat carries: -2 keeps a static member's
// tasks for its return.
func (m *Member) leaveEpoch() int32 {
	if m.cfg.InstanceID != "" && m.leaveMode != LeaveGroup {
		return -2
	}
	return -1
}

// skipsLeave is whether the member goes without a word: the broker notices by
// the session time-out.
func (m *Member) skipsLeave() bool {
	return m.leaveMode == RemainInGroup && m.cfg.InstanceID == ""
}

// leaveFinished completes a pending leave, whatever its outcome.
func (m *Member) leaveFinished() {
	m.leavePending = false
	m.leaveID = 0
	m.goodbye.wanted = false
}

// leaveGivenUp completes a leave of which the coordinator may not know.
func (m *Member) leaveGivenUp() {
	m.event(LeftSilently{Attempts: m.goodbye.attempts})
	m.leaveFinished()
}

// leaveAnswered handles the answer to a leave. An error ends it, too:
// GROUP_ID_NOT_FOUND, for example, says that there is nothing left to leave. But a
// coordinator that has moved, or is loading, has not taken note of it.
func (m *Member) leaveAnswered(now time.Duration, resp *kmsg.StreamsGroupHeartbeatResponse) {
	if resp.ErrorCode == 0 {
		m.leaveFinished()
		return
	}
	code := kerr.TypedErrorForCode(resp.ErrorCode)
	var wait time.Duration
	switch code {
	case kerr.NotCoordinator, kerr.CoordinatorNotAvailable:
		m.forgetCoordinator(code.Message)
		m.leaveLost(now, 0)
	case kerr.CoordinatorLoadInProgress:
		wait = m.backoff(m.goodbye.attempts - 1)
		m.leaveLost(now, wait)
	default:
		m.leaveFinished()
	}
	m.event(HeartbeatRejected{Code: resp.ErrorCode, Message: code.Message + ": " + messageOf(resp), Epoch: m.leaveEpoch(), Retry: wait})
}

// leaveFailed handles a leave without an answer.
func (m *Member) leaveFailed(now time.Duration, kind FailureKind, err error) {
	m.lastErr = err
	wait := m.backoff(m.goodbye.attempts - 1)
	switch kind {
	case Disconnected:
		m.forgetCoordinator("connection lost")
		m.leaveLost(now, wait)
	case TimedOut:
		m.leaveLost(now, wait)
	default:
		m.leaveGivenUp()
	}
}

// LeaveDone is whether the member is out of the group, no leave is under way, and
// all callbacks have returned.
func (m *Member) LeaveDone() bool {
	return !m.leavePending && !m.fatalLeave && (m.state == Unsubscribed || m.state == Fatal) && len(m.calls) == 0
}

// Disown says that the tasks can be somebody else's although the coordinator has not
// said so: the producer that goes with them was replaced, or a commit has failed for
// good. The member leaves, loses its active tasks, and joins again at the next Poll:
// rule OC-5. It has no effect on a member that is not in the group.
func (m *Member) Disown(now time.Duration) {
	m.now = now
	m.disowned = m.state.live()
}

// goStale leaves because the application did not come round in time, or because its
// tasks were disowned: rules HB-2, SM-16, SM-17 and OC-5. The answer to this leave does
// not matter.
func (m *Member) goStale(now time.Duration, fx *Effects) {
	lost := m.mayRun()
	m.dropPass()
	m.to(PrepareLeaving)
	m.setEpoch(m.leaveEpoch())
	m.to(Leaving)
	fx.Heartbeat, fx.HeartbeatID = m.buildLeave(now), m.nextID()
	m.to(Stale)
	m.clearBackoff()
	m.forgetSent()
	m.forget()
	m.staleDone, m.polledStale = false, false
	m.ask(lostStale, nil, Callback{Kind: TasksLost, Active: lost})
}

// rejoinStale joins again once "tasks lost" is over and the application is back.
func (m *Member) rejoinStale() {
	if m.state == Stale && m.staleDone && m.polledStale {
		m.staleDone, m.polledStale = false, false
		m.join()
	}
}
