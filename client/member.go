package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Member is one member of a streams group, over a client of the user. Make one
// with [NewMember] and call [Member.Run]. Its methods are safe for concurrent use.
type Member struct {
	cl    *kgo.Client
	group string
	topo  *topology.Topology
	cfg   config
	began time.Time
	proc  *Process
	// invoke runs one callback and returns its error. A Consumer replaces it to run
	// callbacks on the goroutine that polls.
	invoke func(context.Context, membership.Callback) error
	// resolved, if there is one, is told which topics source patterns stand for,
	// before callbacks that depend on it.
	resolved func(topics map[string][]string)

	mu   sync.Mutex // guards core and what follows
	core *membership.Member
	ran  bool
	gone bool // Abandon was called
	// leave is how Leave wants the membership to end.
	leave *membership.LeaveMode
	node  int32 // the coordinator, -1 while it is not known
	// version of heartbeats that the coordinator speaks
	version int16
	// unanswered counts heartbeats on their way. Run waits for the last one: it may
	// be the goodbye of a member that has failed.
	unanswered int
	answered   chan struct{} // closed, and replaced, with the next answer to a heartbeat
	notes      []func()      // what hooks have to be told
	given      error         // what ended the membership from our side

	wake chan struct{} // has room for one
}

// NewMember makes a member of a group that runs a topology. The client must
// outlive the member; it is used for requests only and may also produce and
// consume: then its requests share one connection to the coordinator with the
// heartbeats, see [GroupClient]. The error is an *[OptionError] for a bad option.
func NewMember(cl *kgo.Client, group string, topo *topology.Topology, opts ...Opt) (*Member, error) {
	cfg := defaults()
	cfg.take(opts)
	if cfg.kgoOptsGiven {
		cfg.bad("KgoOpts", "…", "a Member uses your client: set its options there")
	}
	if cfg.maxPollRecords != 0 {
		cfg.bad("MaxPollRecords", strconv.Itoa(cfg.maxPollRecords), "a Member does not fetch: use a Consumer")
	}
	if cfg.exactlyOnce {
		cfg.bad("ExactlyOnce", strconv.Quote(cfg.transactionalID), "a Member neither fetches nor commits: use a Consumer")
	}
	return newMember(cl, group, topo, cfg)
}

func newMember(cl *kgo.Client, group string, topo *topology.Topology, cfg config) (*Member, error) {
	if cfg.process != nil {
		cfg.join()
	}
	if err := errors.Join(cfg.errs...); err != nil {
		return nil, err
	}
	if cfg.groupClient != nil {
		cl = cfg.groupClient
	}
	if cl == nil {
		return nil, errors.New("client: a member needs a *kgo.Client")
	}
	if v, _ := cl.OptValue(kgo.MaxVersions).(*kversion.Versions); v != nil && !v.HasKey(int16(kmsg.StreamsGroupHeartbeat)) {
		return nil, &OptionError{"kgo.MaxVersions", v.VersionGuess(), "the client may not send heartbeats of streams groups: want Kafka 4.2 or later"}
	}
	m := &Member{
		cl: cl, group: group, topo: topo, began: time.Now(), proc: cfg.process,
		wake: make(chan struct{}, 1), answered: make(chan struct{}), node: -1,
	}
	cfg.memberID = newMemberID()
	if m.proc == nil {
		m.proc = &Process{cfg: cfg, close: func() error { return nil }, holds: map[*Member][]topology.TaskID{}}
		if err := cfg.identify(&m.proc.close); err != nil {
			return nil, err
		}
	}
	m.cfg = cfg
	core, err := membership.New(cfg.core(group, topo, rand.Float64))
	if err != nil {
		return nil, errors.Join(err, m.release())
	}
	m.core = core
	m.invoke = m.callUser
	if err := m.introduce(); err != nil {
		return nil, errors.Join(err, m.release())
	}
	return m, nil
}

// introduce shows the member to its hooks.
func (m *Member) introduce() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicError(v)
		}
	}()
	each(m.cfg.hooks, func(h HookNewMember) { h.OnNewMember(m) })
	return nil
}

// release gives back a process that is the member's alone.
func (m *Member) release() error {
	if m.cfg.process != nil {
		return nil
	}
	return m.proc.Close()
}

// ID is the member id. It never changes.
func (m *Member) ID() string { return m.cfg.memberID }

// ProcessID is what the member sent as its process id.
func (m *Member) ProcessID() string { return m.cfg.processID }

// InstanceID is what makes the member static, and empty if it is not.
func (m *Member) InstanceID() string { return m.cfg.instanceID }

// Group is the group id.
func (m *Member) Group() string { return m.group }

// Epoch is the member epoch for commits; ok is false while there is none.
func (m *Member) Epoch() (epoch int32, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.core.Epoch()
}

// Sources are the topics of which a task of a subtopology reads its partition,
// ascending: those that the topology names, and those that its source patterns
// stand for by now. The coordinator decides that for all members; when it changes,
// an event says so, see [membership.SourcesResolved], and tasks that run go on.
func (m *Member) Sources(subtopology string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.core.Sources(subtopology)
}

// Polled says that the application's loop has come round. With a [PollGuard] call
// it at least once per max poll interval.
func (m *Member) Polled() { m.input(func(now time.Duration) { m.core.Poll(now) }) }

// RequestShutdown asks the whole application to shut down: with the next heartbeat,
// all members get status 4 and end, unless [FailOnStatus] is off. It cannot be taken
// back.
func (m *Member) RequestShutdown() { m.input(func(time.Duration) { m.core.RequestShutdown() }) }

// Leave ends Run as the end of its context does, but with a mode of leaving that
// may differ from [LeaveWith]: [membership.LeaveGroup] for an instance that will
// not come back, [membership.RemainInGroup] for one that will in a moment. It does
// not wait. After the first call, and after the end of the context, it has no
// effect.
func (m *Member) Leave(mode membership.LeaveMode) {
	m.input(func(time.Duration) {
		if m.leave == nil {
			m.leave = &mode
		}
	})
}

// suspect says that a request was refused because the member is unknown: the next
// heartbeat goes out at once and tells.
func (m *Member) suspect() { m.input(func(now time.Duration) { m.core.Suspect(now) }) }

// disown gives the tasks up as lost: the member leaves, and joins again with the next
// Polled (rule OC-5).
func (m *Member) disown() { m.input(func(now time.Duration) { m.core.Disown(now) }) }

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

// nextAnswer is closed with the next answer to a heartbeat.
func (m *Member) nextAnswer() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.answered
}

// ErrAbandoned is what Run returns after Abandon.
var ErrAbandoned = errors.New("client: the member was abandoned")
