package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

var (
	errTimeout      = errors.New("timed out")
	errDisconnected = errors.New("disconnected")
	errCallback     = errors.New("the application failed")
)

// slot is a place where a process runs, one after the other.
type slot struct {
	i       int
	version int  // of the application that is started next
	state   int  // grows when the state on disk is lost
	wanted  bool // whether a process is to run here
	lives   int
	p       *process
	// progress is how far the state on disk has come.
	progress map[topology.TaskID]int64
}

// process is one life of a process.
type process struct {
	w          *World
	slot       *slot
	id         string
	version    *version
	clock      clock
	rnd        stream
	members    []*member
	dead       bool
	closing    bool
	pausedTill time.Duration
	queue      []event // what has to wait for the end of the pause
	restart    time.Duration
	progress   map[topology.TaskID]int64
}

// read is the process's clock.
func (p *process) read() time.Duration { return p.clock.read(p.w.now) }

func (w *World) start(s *slot) {
	if s.p != nil || !s.wanted {
		return
	}
	s.lives++
	setup := &w.plan.Setup
	p := &process{w: w, slot: s, id: fmt.Sprintf("process-%d-%d", s.i, s.state), version: w.versionOf(int32(s.version)), progress: s.progress}
	p.rnd = newStream(w.plan.Seed, 2, uint64(s.i), uint64(s.lives))
	p.clock = clock{zero: p.rnd.between(0, time.Hour)}
	if d := setup.DriftPPM; d > 0 {
		p.clock.ppm = p.rnd.below(2*d) - d
	}
	s.p = p
	w.tellf("process %d starts with version %d", s.i, s.version)
	for thread := range setup.Threads {
		p.spawn(thread)
	}
}

// crash ends a process at once.
func (p *process) crash(restart time.Duration, keepState bool) {
	if p.dead {
		return
	}
	w := p.w
	w.tellf("process %d crashes", p.slot.i)
	for _, m := range p.members {
		if w.watcher != nil && !m.gone {
			w.watcher.Halted(w.now, m.place(), "its process crashes")
		}
	}
	p.die()
	if !keepState {
		p.slot.state++
		p.slot.progress = map[topology.TaskID]int64{}
	}
	w.at(w.now+restart, nil, func() { w.start(p.slot) })
}

func (p *process) die() {
	p.dead = true
	p.queue = nil
	for _, m := range p.members {
		if m.conn != nil {
			m.breakConn(m.conn, "its process is gone")
		}
		m.over()
	}
	p.slot.p = nil
}

// close has the application leave.
func (p *process) close(how membership.LeaveMode, restart time.Duration) {
	if p.dead || p.closing {
		return
	}
	p.closing, p.restart = true, restart
	p.w.tellf("process %d closes", p.slot.i)
	for _, m := range p.members {
		if !m.gone {
			m.core.Leave(p.read(), how)
			m.pump()
		}
	}
	p.maybeClosed()
}

func (p *process) maybeClosed() {
	if !p.closing || p.dead {
		return
	}
	for _, m := range p.members {
		if !m.gone && !m.core.LeaveDone() {
			return
		}
	}
	p.w.tellf("process %d has ended", p.slot.i)
	p.die()
	w := p.w
	w.at(w.now+p.restart, nil, func() { w.start(p.slot) })
}

// member is one member with its application.
type member struct {
	p    *process
	id   string
	name string
	slot int
	core *membership.Member
	rnd  stream
	fx   membership.Effects

	coordinator *node
	conn        *conn
	outbox      []*message // requests on their way, in order
	loseAnswers int
	missed      bool // an answer with tasks was lost
	wakes       uint64
	gone        bool // it has ended, and another takes its place
	failed      bool
	noPolls     time.Duration // until when the application does not poll

	app
	lastRevoked []topology.TaskID
	works       uint64 // what the running tasks work on
	// expired means that the coordinator has ended the membership, stale that the
	// application did not poll in time. A join that the coordinator takes ends both.
	expired, stale bool
	failNext       bool
	blockNext      time.Duration
	unblock        func()

	// told are the tasks of the last report that the coordinator took.
	told  [3][]topology.TaskID
	beats int
	// heardBy took the latest heartbeat, in heardIn of its terms, at heardAt by its
	// clock.
	heardBy *node
	heardIn int
	heardAt time.Duration
	// mutation is for what a wrong variant has to remember.
	mutation any
}

// exempt is whether the protocol promises nothing for what the member runs.
func (m *member) exempt() bool { return m.expired || m.stale }

func (p *process) spawn(thread int) {
	w := p.w
	w.spawned++
	setup := &w.plan.Setup
	m := &member{p: p, slot: thread, id: fmt.Sprintf("member-%d-%d-%d-%d", p.slot.i, thread, p.slot.lives, len(p.members)), rnd: newStream(p.rnd.next(), uint64(thread))}
	m.name = strings.TrimPrefix(m.id, "member-")
	if w.mutant.OneID {
		m.id = fmt.Sprintf("member-%d", p.slot.i)
	}
	cfg := membership.Config{
		Group: application, MemberID: m.id, ProcessID: p.id, Topology: p.version.topo,
		MaxPollInterval: setup.MaxPoll, PollGuard: setup.PollGuard, RetryBackoff: setup.Backoff, RetryBackoffMax: setup.BackoffMaximum,
		LeaveTimeout: setup.LeaveTimeout, Jitter: func() float64 { return float64(m.rnd.below(1000)) / 1000 },
	}
	if setup.Static {
		cfg.InstanceID = fmt.Sprintf("instance-%d-%d", p.slot.i, thread)
	}
	core, err := membership.New(cfg)
	if err != nil {
		panic(err)
	}
	m.core = core
	p.members = append(p.members, m)
	w.members[m.id] = m
	w.live = append(w.live, m)
	if w.watcher != nil {
		w.watcher.Started(w.now, m.id, m.place())
	}
	m.core.Join(p.read())
	m.pump()
	m.poll()
}

// place is where the member runs.
func (m *member) place() string { return fmt.Sprintf("process %d/%d", m.p.slot.i, m.slot) }

// over forgets a member that has ended with all that it ran.
func (m *member) over() {
	m.gone = true
	m.running, m.works = nil, 0
	m.p.w.live = remove(m.p.w.live, m)
}

func remove(l []*member, m *member) []*member {
	for i, o := range l {
		if o == m {
			return append(l[:i:i], l[i+1:]...)
		}
	}
	return l
}

// pump steps the core until it has nothing to do, and plans when to come back.
func (m *member) pump() {
	w, p := m.p.w, m.p
	if p.dead || m.gone {
		return
	}
	now := p.read()
	for i := 0; ; i++ {
		if i > 50 {
			w.failf("spin", "%s finds something to do again and again in state %v", m.name, m.core.State())
			return
		}
		m.core.Step(now, &m.fx)
		m.take(&m.fx, now)
		if w.violation != nil || p.dead || m.gone {
			return
		}
		if at, ok := m.core.NextDeadline(); !ok || at > now {
			break
		}
	}
	m.wakes++
	if at, ok := m.core.NextDeadline(); ok {
		wake := m.wakes
		w.at(p.clock.when(at), p, func() {
			if wake == m.wakes && !m.gone {
				m.pump()
			}
		})
	}
	switch {
	case p.closing:
		p.maybeClosed()
	case m.failed && m.core.LeaveDone():
		m.replace()
	}
}

// replace has the process put another member in the place of a failed one, as an
// application does that carries on.
func (m *member) replace() {
	m.over()
	if m.conn != nil {
		m.breakConn(m.conn, "the member has ended")
	}
	p := m.p
	p.w.at(p.w.now+p.rnd.between(500*time.Millisecond, 2*time.Second), p, func() {
		if !p.closing {
			p.spawn(m.slot)
		}
	})
}

// take does what the core wants done.
func (m *member) take(fx *membership.Effects, now time.Duration) {
	w := m.p.w
	if f := w.mutant.Effects; f != nil {
		f(m, fx)
	}
	for _, e := range fx.Events {
		switch e := e.(type) {
		case membership.TargetReceived:
			m.target = e.Active
		case membership.PollTimerExpired:
			m.stale = true
		case membership.CoordinatorLost:
			m.coordinator = nil
		}
		w.tellMember(m, e)
	}
	if fx.Sources != nil && len(m.running) > 0 {
		m.run(m.running)
	}
	if fx.FindCoordinator {
		m.lookUp()
	}
	if fx.Heartbeat != nil && m.coordinator != nil {
		if w.mutant.ReportConfirmed {
			m.reportConfirmed(fx.Heartbeat)
		}
		m.checkHeartbeat(fx.Heartbeat)
		m.beats++
		w.beats++
		m.send(fx.HeartbeatID, fx.Heartbeat, now)
	}
	for _, err := range fx.Errs {
		w.tellf("%s reports: %v", m.name, err)
		if e, ok := errors.AsType[*membership.Error](err); ok && e.Fatal {
			m.failed = true
		}
		if r := w.table.members[m.id]; r != nil && r.meta != nil && r.epoch != -2 && errors.Is(err, kerr.UnreleasedInstanceID) && w.plan.Setup.Policy == coordinator.KIP1071 {
			w.failf("own instance", "%s cannot join because of itself: %v", m.name, err)
		}
		if strings.Contains(err.Error(), "internal error") {
			w.failf("internal error", "%s reports: %v", m.name, err)
		}
	}
	m.queue(fx.Callbacks)
	m.startCallback()
}

// lookUp asks who coordinates the group.
func (m *member) lookUp() {
	w := m.p.w
	w.at(w.now+w.latency(&m.rnd)+w.latency(&m.rnd), m.p, func() {
		if m.gone {
			return
		}
		n := w.nodes[w.owner]
		if w.faulty() && m.rnd.one(10) {
			n = pick(&m.rnd, w.nodes...) // who was asked does not know of the latest move
		}
		if !n.up || w.cut(m.p, n) > w.now {
			m.core.CoordinatorFailed(m.p.read(), kerr.CoordinatorNotAvailable)
		} else {
			m.coordinator = n
			m.core.CoordinatorFound(m.p.read(), 1)
		}
		m.pump()
	})
}

// poll is the application's loop.
func (m *member) poll() {
	w, p := m.p.w, m.p
	every := min(w.plan.Setup.MaxPoll/4, 2*time.Second)
	w.at(w.now+p.rnd.between(every/2, every), p, func() {
		if m.gone {
			return
		}
		if w.now >= m.noPolls && m.busy == 0 {
			m.core.Poll(p.read())
			m.work()
			m.pump()
		}
		m.poll()
	})
}

// work commits now and then, and catches up with changelogs.
func (m *member) work() {
	w, p := m.p.w, m.p
	if epoch, ok := m.core.Epoch(); ok && w.mutant.CommitLate && len(m.lastRevoked) > 0 && m.coordinator != nil {
		m.commit(m.lastRevoked[0], epoch)
	}
	if epoch, ok := m.core.Epoch(); ok && len(m.running) > 0 && m.coordinator != nil {
		m.commit(m.running[m.rnd.below(len(m.running))], epoch)
	}
	if !w.plan.Setup.Available {
		return
	}
	offsets, ends := map[topology.TaskID]int64{}, map[topology.TaskID]int64{}
	for _, role := range m.confirmed[1:] {
		for _, t := range role {
			p.progress[t] = min(p.progress[t]+changelogEnd/3, changelogEnd)
		}
	}
	for _, t := range m.running {
		p.progress[t] = changelogEnd
	}
	for t, n := range p.progress { // those on disk that nobody here runs, too
		if !slices.Contains(m.running, t) && len(p.version.topo.Changelogs(t.Subtopology)) > 0 {
			offsets[t], ends[t] = n+w.trickle(), changelogEnd
		}
	}
	m.core.SetTaskOffsets(offsets, ends)
}

// trickle is how much a changelog grows all the time. A member repeats a report
// only if something has changed; with idle changelogs a coordinator that has just
// loaded the group would not learn how far warm-ups are.
func (w *World) trickle() int64 {
	if w.plan.Setup.Idle {
		return 0
	}
	return int64(w.now / (5 * time.Second))
}
