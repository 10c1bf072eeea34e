package membership

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Error is what goes wrong with a membership. It wraps the cause: for an error
// code of the broker that is a *kerr.Error, so that errors.Is(err,
// kerr.GroupAuthorizationFailed) works.
type Error struct {
	Group, MemberID string
	// Epoch is the member epoch at the time.
	Epoch int32
	// Reason says what happened, Remedy what the reader can do.
	Reason, Remedy string
	// Fatal is whether the membership ends because of it. It is over when LeaveDone
	// says so.
	Fatal bool
	// Cause may be nil.
	Cause error
}

func (e *Error) Error() string {
	s := fmt.Sprintf("streams group %q, member %q at epoch %d: %s", e.Group, e.MemberID, e.Epoch, e.Reason)
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s + ": " + e.Remedy
}

func (e *Error) Unwrap() error { return e.Cause }

func (m *Member) problem(cause error, reason, remedy string) *Error {
	return &Error{Group: m.cfg.Group, MemberID: m.cfg.MemberID, Epoch: m.epoch, Cause: cause, Reason: reason, Remedy: remedy}
}

// fail ends the membership: the error goes to the application, tasks are lost,
// and nothing is sent any more, except for one leave if the coordinator may still
// count on the member: once the application has let go of its tasks, so that nobody
// runs them twice and they do not wait for the session to end. Kafka's client leaves
// that to the session time-out.
func (m *Member) fail(err error, leave bool) {
	var e *Error
	if errors.As(err, &e) {
		e.Fatal = true
	}
	m.report(err)
	was := m.state
	leave = leave && m.known && was != Unsubscribed
	if was == PrepareLeaving || was == Leaving || was == Unsubscribed {
		m.leaveFinished()
	}
	if was.live() {
		m.lose(lostFatal)
	}
	m.dropPass()
	m.inFlight, m.wantJoin = 0, false
	m.fatalLeave = leave && !m.skipsLeave()
	m.to(Fatal)
	m.setEpoch(0)
}

// rejected handles an error code in a response. For every code the delta memory
// is cleared, and the next body is built afresh (ER-6).
func (m *Member) rejected(now time.Duration, resp *kmsg.StreamsGroupHeartbeatResponse) {
	code := kerr.TypedErrorForCode(resp.ErrorCode)
	text := messageOf(resp)
	if code == kerr.UnknownServerError && resp.ErrorCode != code.Code {
		text = strings.TrimSpace(fmt.Sprintf("error code %d %s", resp.ErrorCode, text)) // newer than this library
	}
	epoch := m.epoch
	wait := m.failed(now)
	positive := epoch > 0
	switch code {
	case kerr.CoordinatorLoadInProgress:
		// The same coordinator will know us in a moment.
		m.warnUnreachable(now, code)
	case kerr.CoordinatorNotAvailable, kerr.NotCoordinator:
		m.warnUnreachable(now, code)
		m.bounced++
		m.clearBackoff()
		m.forgetCoordinator(code.Message)
		wait = 0
	case kerr.UnknownMemberID, kerr.FencedMemberEpoch:
		// The coordinator of a fenced epoch still has the member, with another one.
		m.known = code == kerr.FencedMemberEpoch
		m.push.wanted = false
		m.clearBackoff()
		m.fenced()
		wait = 0
	case kerr.TopicAuthorizationFailed:
		// The member goes on: the right may be granted. Told once until something else
		// is answered.
		err := m.codeProblem(code, text)
		if m.lastErr = err; !m.unauthorized {
			m.unauthorized = true
			m.report(err)
		}
	case kerr.GroupIDNotFound:
		// A broker that has lost its state does not know the group any more: join
		// again, as an unknown member does. In answer to a join it is fatal.
		if positive {
			m.clearBackoff()
			m.known = false
			m.fenced()
			wait = 0
			break
		}
		m.fail(m.codeProblem(code, text), false)
	case kerr.GroupAuthorizationFailed, kerr.UnsupportedVersion, kerr.UnreleasedInstanceID, kerr.FencedInstanceID, kerr.GroupMaxSizeReached:
		m.fail(m.codeProblem(code, text), false)
	default:
		m.fail(m.codeProblem(code, text), true)
	}
	if m.state == Fatal {
		wait = 0
	}
	m.event(HeartbeatRejected{Code: resp.ErrorCode, Message: code.Message + ": " + text, Epoch: epoch, Retry: wait})
}

func messageOf(resp *kmsg.StreamsGroupHeartbeatResponse) string {
	if resp.ErrorMessage == nil {
		return ""
	}
	return strings.Clone(*resp.ErrorMessage)
}

// codeProblem says what an error code means for the reader.
func (m *Member) codeProblem(code *kerr.Error, text string) *Error {
	reason, remedy := text, "see the broker's log"
	switch code {
	case kerr.GroupAuthorizationFailed:
		reason, remedy = "not authorized for the group", "grant READ on the group"
	case kerr.TopicAuthorizationFailed:
		reason, remedy = "not authorized for a topic of the topology in state "+m.state.String()+" ("+text+")", "grant DESCRIBE on its topics; the member goes on trying"
	case kerr.InvalidRequest:
		if m.patterns && m.state == Joining && m.resolved == nil {
			remedy = "the topology has source patterns, and this broker does not seem to support them: name the source topics"
			break
		}
		remedy = "compare the members' topologies: an old broker refuses what differs from the group's"
	case kerr.GroupMaxSizeReached:
		remedy = "run fewer members, or raise group.streams.max.size"
	case kerr.UnreleasedInstanceID:
		remedy = fmt.Sprintf("instance %q is in use: wait until its member has left or its session has ended", m.cfg.InstanceID)
	case kerr.FencedInstanceID:
		remedy = fmt.Sprintf("instance %q was taken over: does a second process use it?", m.cfg.InstanceID)
	case kerr.StreamsInvalidTopology:
		remedy = "mend the topology"
	case kerr.StreamsInvalidTopologyEpoch:
		remedy = "raise the topology epoch by one with every change of the topology"
	case kerr.StreamsTopologyFenced:
		remedy = "deploy the newer topology; to go back, deploy the old one with the next epoch"
	case kerr.UnsupportedVersion:
		reason, remedy = "the cluster does not support the streams rebalance protocol in versions 0 to 1", "use Apache Kafka 4.2 or later with the feature streams.version at 1"
	case kerr.GroupIDNotFound:
		if reason == "" {
			reason = "a group of another type has this id"
		}
		remedy = "choose another group id, or delete the other group"
	}
	if reason == "" {
		reason = "the coordinator refused a heartbeat"
	}
	return m.problem(code, reason, remedy)
}

// HeartbeatFailed says that a heartbeat has no answer.
func (m *Member) HeartbeatFailed(now time.Duration, id uint64, kind FailureKind, err error) {
	m.now = now
	switch id {
	case 0:
		return
	case m.leaveID:
		m.leaveFailed(now, kind, err)
		return
	case m.inFlight:
		m.inFlight = 0
	default:
		return
	}
	m.known = true // the heartbeat may have arrived
	wait := m.failed(now)
	m.lastErr = err
	m.warnUnreachable(now, err)
	switch kind {
	case Disconnected:
		m.forgetCoordinator("connection lost")
	case TimedOut:
	case Unsupported:
		m.fail(m.problem(err, "the broker does not support the streams rebalance protocol in versions 0 to 1", "use Apache Kafka 4.2 or later with the feature streams.version at 1"), false)
	case Other:
		m.fail(m.problem(err, "the heartbeat failed for good", "mend the cause and make a new member"), false)
	}
	if m.state == Fatal {
		wait = 0
	}
	m.event(HeartbeatLost{Kind: kind, Err: err, Retry: wait})
}

// fenced handles a member that the coordinator does not know, or not with this
// epoch: rules SM-8, SM-10 to SM-12.
func (m *Member) fenced() {
	switch {
	case m.state.live():
		m.setEpoch(0)
		m.lose(lostFenced)
		m.dropPass()
		m.to(Fenced)
	case m.state == PrepareLeaving, m.state == Leaving:
		m.setEpoch(m.leaveEpoch())
		m.forget()
		m.leaveFinished()
		m.to(Unsubscribed)
	default: // the answer to a leave, or too late
	}
}
