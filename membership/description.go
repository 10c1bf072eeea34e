package membership

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// push is the state of sending the description of the topology (KIP-1331).
type push struct {
	wanted   bool // the coordinator has asked for it
	running  bool
	attempts int
	at       time.Duration // not before
}

// pushAt is when the description goes out. Kafka's client does not look at the
// member's state; we send it only as a member, since nobody else is listened to.
func (m *Member) pushAt() (at time.Duration, ok bool) {
	p := m.push
	return p.at, p.wanted && !p.running && m.coordinator && m.state.live() && m.epoch > 0
}

func (m *Member) pushStep(now time.Duration, fx *Effects) {
	if at, ok := m.pushAt(); !ok || now < at {
		return
	}
	m.push.running = true
	req := kmsg.NewPtrStreamsGroupTopologyDescriptionUpdateRequest()
	req.Group, req.MemberID, req.TopologyEpoch = m.cfg.Group, m.cfg.MemberID, m.cfg.Topology.Epoch()
	req.TopologyDescription = *m.cfg.Description
	fx.Description = req
}

// DescriptionAnswered answers Effects.Description. No outcome matters to the
// membership (TD-5): the coordinator asks again when it wants to.
func (m *Member) DescriptionAnswered(now time.Duration, resp *kmsg.StreamsGroupTopologyDescriptionUpdateResponse) {
	m.now = now
	m.push.running = false
	e := DescriptionSent{Err: m.descriptionError(resp)}
	switch code := kerr.TypedErrorForCode(resp.ErrorCode); code {
	case kerr.CoordinatorNotAvailable, kerr.NotCoordinator:
		m.forgetCoordinator(code.Message)
		e.Retry = m.pushFailed(now)
	case kerr.CoordinatorLoadInProgress:
		e.Retry = m.pushFailed(now)
	default:
		m.push = push{}
	}
	if throttle := time.Duration(resp.ThrottleMillis) * time.Millisecond; throttle > 0 {
		m.push.at = max(m.push.at, now+throttle)
	}
	m.event(e)
}

// DescriptionFailed says that the description has no answer.
func (m *Member) DescriptionFailed(now time.Duration, kind FailureKind, err error) {
	m.now = now
	m.push.running = false
	e := DescriptionSent{Err: err}
	switch kind {
	case Disconnected:
		m.forgetCoordinator("connection lost")
		e.Retry = m.pushFailed(now)
	case TimedOut:
		e.Retry = m.pushFailed(now)
	default:
		m.push = push{}
	}
	m.event(e)
}

// pushFailed puts the description off. The answer may come when it is not wanted
// any more.
func (m *Member) pushFailed(now time.Duration) (wait time.Duration) {
	if !m.push.wanted {
		return 0
	}
	wait = m.backoff(m.push.attempts)
	m.push.attempts++
	m.push.at = now + wait
	return wait
}

func (m *Member) descriptionError(resp *kmsg.StreamsGroupTopologyDescriptionUpdateResponse) error {
	if resp.ErrorCode == 0 {
		return nil
	}
	reason := "the coordinator did not take the description of the topology"
	if resp.ErrorMessage != nil && *resp.ErrorMessage != "" {
		reason += " (" + *resp.ErrorMessage + ")"
	}
	return m.problem(kerr.TypedErrorForCode(resp.ErrorCode), reason, "nothing depends on it but the description that operators see")
}
