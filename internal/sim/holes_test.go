package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/membership"
)

// The protocol promises nothing on a network that duplicates and reorders
// requests. Each test here shows one way in which it fails then. What a client
// does about it is in docs/simulation.md.

// stage is a world that the test directs.
type stage struct {
	*World
	t *testing.T
	// sent are the heartbeats of all members, in order.
	sent []*message
}

func newStage(t *testing.T, processes int) *stage {
	t.Helper()
	s := &stage{t: t}
	p := &Plan{Seed: 1, Setup: Setup{
		Nodes: 2, Processes: processes, Threads: 1, Partitions: 6, PollGuard: true,
		Session: 6 * time.Second, Heartbeat: time.Second, MaxPoll: 20 * time.Second, RequestTimeout: 3 * time.Second,
		Latency: time.Millisecond, Backoff: 100 * time.Millisecond, BackoffMaximum: time.Second, Faulty: time.Hour,
	}}
	s.World = newWorld(p, Options{Tell: true, Mutant: Mutant{Effects: func(m *member, fx *membership.Effects) {
		if h := fx.Heartbeat; h != nil {
			copied := *h
			s.sent = append(s.sent, &message{m: m, req: &copied, copied: true})
		}
	}}})
	return s
}

// until plays on until something has happened.
func (s *stage) until(what string, happened func() bool) {
	s.t.Helper()
	for end := s.now + 2*time.Minute; !happened(); {
		require.True(s.t, s.step())
		require.Nil(s.t, s.violation, "before %s", what)
		require.Less(s.t, s.now, end, "waiting for %s: %s", what, strings.Join(s.story, "\n"))
	}
}

func (s *stage) rest(members int) {
	s.t.Helper()
	s.until("rest", func() bool {
		tasks := 0
		for _, m := range s.live {
			tasks += len(m.running)
		}
		return len(s.live) == members && tasks == 6 && everyone(s.live, func(m *member) bool {
			return m.core.State() == membership.StateStable && m.busy == 0 && len(m.running) == 6/members && contains(m.confirmed[0], m.running) && len(s.table.members[m.id].pending[0]) == 0
		})
	})
}

func everyone(l []*member, is func(*member) bool) bool {
	for _, m := range l {
		if !is(m) {
			return false
		}
	}
	return true
}

// copyOf is a copy of a heartbeat that a member has sent.
func (s *stage) copyOf(m *member, is func(*kmsg.StreamsGroupHeartbeatRequest) bool) *message {
	s.t.Helper()
	for _, msg := range s.sent {
		if msg.m == m && is(msg.req) {
			return msg
		}
	}
	require.Fail(s.t, "it has not sent such a heartbeat")
	return nil
}

// add starts another process.
func (s *stage) add() {
	last := s.slots[len(s.slots)-1]
	last.wanted = true
	s.start(last)
}

// pending waits until the member is asked for a task, while its application takes
// its time to give it up.
func (s *stage) pending(m *member) {
	s.t.Helper()
	m.blockNext = 8 * time.Second
	s.add()
	s.until("the revocation", func() bool { return s.table.members[m.id] != nil && len(s.table.members[m.id].pending[0]) > 0 })
}

// broken plays on until the rule is broken.
func (s *stage) broken(rule string) {
	s.t.Helper()
	for end := s.now + 20*time.Second; s.violation == nil && s.now < end; {
		require.True(s.t, s.step())
	}
	require.NotNil(s.t, s.violation, "the hole is closed: %s", strings.Join(s.story, "\n"))
	require.Equal(s.t, rule, s.violation.Rule, s.violation)
}

func TestHoleLateJoin(t *testing.T) {
	t.Parallel()
	s := newStage(t, 2)
	s.rest(2)
	m := s.live[0]
	join := s.copyOf(m, func(r *kmsg.StreamsGroupHeartbeatRequest) bool { return r.MemberEpoch == 0 })
	s.pending(m)
	s.nodes[0].heartbeat(join) // it says that the member has nothing
	s.broken("coverage")
}

func TestHoleLateReport(t *testing.T) {
	t.Parallel()
	s := newStage(t, 2)
	s.rest(2)
	m := s.live[1] // it had nothing at first, and got its tasks in the same epoch
	report := s.copyOf(m, func(r *kmsg.StreamsGroupHeartbeatRequest) bool {
		return r.MemberEpoch > 0 && r.ActiveTasks != nil && len(r.ActiveTasks) == 0
	})
	require.Equal(t, s.table.members[m.id].epoch, report.req.MemberEpoch)
	s.pending(m)
	s.nodes[0].heartbeat(report)
	s.broken("coverage")
}

func TestHoleLateLeave(t *testing.T) {
	t.Parallel()
	s := newStage(t, 2)
	s.rest(2)
	m := s.live[0]
	m.noPolls = s.now + 21*time.Second
	s.until("the leave", func() bool { return m.core.State() == membership.Stale })
	leave := s.copyOf(m, func(r *kmsg.StreamsGroupHeartbeatRequest) bool { return r.MemberEpoch == -1 })
	s.rest(2)
	s.nodes[0].heartbeat(leave) // the member has joined again under the same id
	s.broken("coverage")
}

// TestHoleReportWithoutWhatIsStarting is what Kafka's client does on any network.
func TestHoleReportWithoutWhatIsStarting(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	s.mutant.ReportConfirmed = true
	s.until("a member", func() bool { return len(s.live) == 1 })
	s.live[0].blockNext = 8 * time.Second
	s.until("the first callback", func() bool { return len(s.live[0].running) == 6 })
	s.add()
	s.broken("report")
}

func TestHoleCommitIntoTheNextLifeOfAGroup(t *testing.T) {
	t.Parallel()
	s := newStage(t, 2)
	s.rest(2)
	m, o := s.live[1], s.live[0]
	epoch := s.table.members[m.id].epoch
	o.p.pausedTill, m.p.pausedTill = s.now+8*time.Second, s.now+9*time.Second
	s.at(o.p.pausedTill, nil, o.p.wake)
	s.at(m.p.pausedTill, nil, m.p.wake)
	s.until("the end of the sessions", func() bool { return len(s.table.members) == 0 })
	require.True(t, s.operate(&Fault{Do: DeleteGroup}))
	s.until("the same epoch", func() bool {
		r := s.table.members[m.id]
		return r != nil && r.epoch == epoch && len(s.table.members[o.id].held[0]) == 6
	})
	code := s.nodes[0].commit(m, "orders", 0, epoch) // sent when the group lived before
	require.Zero(t, code)
	s.checkCommit(m, "orders", 0)
	s.broken("commit")
}

// TestHoleFormerCoordinator has a member join at a node that does not know that the
// group has moved: it remembers the member and answers without writing anything.
func TestHoleFormerCoordinator(t *testing.T) {
	t.Parallel()
	s := newStage(t, 2)
	s.rest(2)
	m, o := s.live[0], s.live[1]
	former, now := s.nodes[0], s.nodes[1]
	s.owner = now.i
	s.truncate(false)
	now.load(0) // and nobody tells the former one
	o.coordinator = now
	m.p.pausedTill = s.now + 25*time.Second
	s.at(m.p.pausedTill, nil, m.p.wake)
	s.until("the end of the session", func() bool {
		return len(o.confirmed[0]) == 6 && s.now > m.p.pausedTill-time.Second
	})
	s.until("work", func() bool { return m.core.State() == membership.StateStable && len(m.running) > 0 && m.busy == 0 })
	require.Same(t, former, m.coordinator)
	require.NotZero(t, m.works&o.works, "both work on the same")
}

// TestOffsetsForgottenByAMove has a group loaded again while no heartbeat is under
// way, so that no member sees it. What they have said of their offsets is lost;
// that they repeat it although nothing has changed ends the warm-up.
func TestOffsetsForgottenByAMove(t *testing.T) {
	t.Parallel()
	p := &Plan{Seed: 1018642, Setup: Setup{
		Nodes: 1, Processes: 1, Threads: 1, Partitions: 2, Family: 1, Available: true, Standbys: 2, Warmups: 2, Idle: true,
		Session: 12 * time.Second, Heartbeat: time.Second, MaxPoll: 30 * time.Second, RequestTimeout: time.Second,
		Latency: 20 * time.Millisecond, Backoff: 100 * time.Millisecond, BackoffMaximum: time.Second, Faulty: 41 * time.Second,
	}, Faults: []Fault{
		{At: 30497 * time.Millisecond, For: 1470 * time.Millisecond, Do: CrashProcess},
		{At: 37558 * time.Millisecond, Do: MoveGroup},
	}}
	require.Nil(t, Run(p, Options{}).Violation)
	v := Run(p, Options{Mutant: mutant(t, "does not repeat offsets after a move")}).Violation
	require.NotNil(t, v, "the scenario does not show it any more")
	require.Equal(t, "liveness", v.Rule)
}
