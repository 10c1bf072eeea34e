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
	m.setEpoch(m.leaveEpoch())
	m.to(Leaving)
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

// leaveFinished completes a pending leave, whatever its outcome: it is not
// repeated.
func (m *Member) leaveFinished() {
	m.leavePending = false
	m.leaveID = 0
}

// leaveAnswered handles the answer to a leave. Any answer ends it, an error too:
// GROUP_ID_NOT_FOUND, for example, says that there is nothing left to leave.
func (m *Member) leaveAnswered(resp *kmsg.StreamsGroupHeartbeatResponse) {
	m.leaveFinished()
	m.known = false
	if resp.ErrorCode == 0 {
		return
	}
	code := kerr.TypedErrorForCode(resp.ErrorCode)
	if code == kerr.NotCoordinator || code == kerr.CoordinatorNotAvailable {
		m.forgetCoordinator(code.Message)
	}
	m.event(HeartbeatRejected{Code: resp.ErrorCode, Message: code.Message + ": " + messageOf(resp), Epoch: m.epoch})
}

// LeaveDone is whether the member is out of the group, no leave is under way, and
// all callbacks have returned.
func (m *Member) LeaveDone() bool {
	return !m.leavePending && !m.fatalLeave && (m.state == Unsubscribed || m.state == Fatal) && len(m.calls) == 0
}

// goStale leaves because the application did not come round in time: rules
// HB-2, SM-16 and SM-17. The answer to this leave does not matter.
func (m *Member) goStale(now time.Duration, fx *Effects) {
	m.event(PollTimerExpired{Limit: m.cfg.MaxPollInterval})
	lost := m.mayRun()
	m.dropPass()
	m.to(PrepareLeaving)
	m.setEpoch(m.leaveEpoch())
	m.to(Leaving)
	fx.Heartbeat, fx.HeartbeatID = m.build(now), m.nextID()
	m.to(Stale)
	m.clearBackoff()
	m.forgetSent()
	m.forget()
	m.known = false
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
