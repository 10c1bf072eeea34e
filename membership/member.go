package membership

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/topology"
)

// Config is what a Member is made of. It does not change afterwards.
type Config struct {
	Group    string
	MemberID string // rule ID-1; the driver draws it
	// InstanceID makes the member static. Empty for a dynamic member.
	InstanceID string
	RackID     string
	ProcessID  string
	Endpoint   *Endpoint
	ClientTags map[string]string
	Topology   *topology.Topology
	// MaxPollInterval is sent as the rebalance time-out when joining and is the
	// length of the poll timer.
	MaxPollInterval time.Duration
	// PollGuard arms the poll timer. Without it the member never goes stale.
	PollGuard bool
	// RetryBackoff and RetryBackoffMax bound the exponential back-off.
	RetryBackoff, RetryBackoffMax time.Duration
	// Jitter returns numbers in [0, 1) that vary the back-off by 20 %. Nil means no
	// jitter.
	Jitter func() float64
	// LeaveTimeout is how long a leave may take once the application has given up
	// its tasks: as long as that the member waits for a coordinator that is not
	// known, and repeats a leave that did not arrive. 0 means a single attempt, as
	// Kafka's client has it.
	LeaveTimeout time.Duration
	// Description is sent when the coordinator asks for it (KIP-1331). Nil: never.
	// It is not copied.
	Description *kmsg.TopologyDescription
	// FailOnStatus makes the member leave and end with a [*StatusError] where the
	// threads of Kafka Streams die: when the topics are partitioned wrongly, when
	// source topics have been missing for too long, and when the application is to
	// shut down. Without it statuses are only told.
	FailOnStatus bool
	// MissingTopicsPatience is for how long source topics may be missing before
	// FailOnStatus counts. 0 means twice the heartbeat interval, as Kafka Streams has
	// it; less than 0, for ever.
	MissingTopicsPatience time.Duration
}

// Endpoint is where this process answers interactive queries.
type Endpoint struct {
	Host string
	Port uint16
}

// State is a state of the member.
type State int8

// The states of a member, as Kafka's client names them.
const (
	Unsubscribed State = iota
	Joining
	Reconciling
	Acknowledging
	StateStable
	Fenced
	PrepareLeaving
	Leaving
	Stale
	Fatal
)

// LeaveMode says how to leave.
type LeaveMode int8

const (
	// LeaveDefault leaves for good as a dynamic member and for a moment as a
	// static one.
	LeaveDefault LeaveMode = iota
	// LeaveGroup leaves for good.
	LeaveGroup
	// RemainInGroup says nothing as a dynamic member; the session ends by itself.
	RemainInGroup
)

// FailureKind is why a request had no answer.
type FailureKind int8

const (
	// Disconnected means the connection broke: the coordinator is looked up again.
	Disconnected FailureKind = iota
	// TimedOut and other retriable failures keep the coordinator.
	TimedOut
	// Unsupported means that the broker does not know the request.
	Unsupported
	// Other failures, such as authentication, are fatal.
	Other
)

// CallbackKind is which of the three callbacks to run.
type CallbackKind int8

// The callbacks.
const (
	TasksRevoked CallbackKind = iota
	TasksAssigned
	TasksLost
)

// Callback is one call into the application. Callbacks run one after another,
// in the order given.
type Callback struct {
	// ID is handed back with CallbackDone.
	ID   uint64
	Kind CallbackKind
	// Active are the tasks to give up (TasksRevoked), all active tasks of the
	// new assignment (TasksAssigned), or those that are lost (TasksLost).
	Active []topology.TaskID
	// Standby, Warmup and Ready are set for TasksAssigned. While Ready is
	// false the application neither processes nor restores.
	Standby, Warmup []topology.TaskID
	Ready           bool
	// Epoch is the member epoch at the time, 0 if there is none.
	Epoch int32
}

// Effects is what the driver has to do after a step. The caller owns and
// reuses the value. Everything in it may be kept.
//
// The driver's duties, in this order:
//
//  1. FindCoordinator: look the coordinator up (one look-up at a time) and
//     answer with CoordinatorFound, CoordinatorFailed or CoordinatorUnsupported;
//  2. Heartbeat: send it once to the coordinator, without any retry, and answer
//     with HeartbeatAnswered or HeartbeatFailed. A leave heartbeat may be given
//     out while another one is unanswered: the driver then sends it on the
//     connection of the first, or abandons the first and ignores its answer;
//  3. Description: send it once to the coordinator, without any retry, and answer
//     with DescriptionAnswered or DescriptionFailed. It may overlap with heartbeats;
//  4. Sources: read these topics from now on. Tasks that run stay as they are;
//  5. Callbacks: run them in order and answer each with CallbackDone;
//  6. Errs: report them to the application. After a fatal one nothing is sent but
//     a leave: carry on until LeaveDone;
//  7. Events: render them where somebody listens.
//
// Then call Step again after each input and at NextDeadline.
type Effects struct {
	FindCoordinator bool
	Heartbeat       *kmsg.StreamsGroupHeartbeatRequest
	// HeartbeatID pairs the heartbeat with its answer.
	HeartbeatID uint64
	Description *kmsg.StreamsGroupTopologyDescriptionUpdateRequest
	// Sources is not nil when the topics that source patterns stand for are not
	// those of before. It maps subtopologies with patterns to what the patterns
	// match; [Member.Sources] has them, together with the topics that are named.
	Sources   map[string][]string
	Callbacks []Callback
	// Errs are for the application; fatal ones end the membership.
	Errs   []error
	Events []Event
}

// Member is the state machine of one member of a streams group. It is a plain
// value without locks, goroutines or a clock: the driver calls one method at a
// time. All times are readings of one monotonic clock that is never negative.
type Member struct{ memberState }

type memberState struct {
	cfg   Config
	state State
	epoch int32
	now   time.Duration // the latest reading of the driver's clock
	// known is whether the coordinator has this member in the group as far as we
	// can tell: then a fatal error is followed by a leave.
	known bool
	// unauthorized is whether the application knows that a topic is denied to us.
	unauthorized bool

	wantJoin bool
	shutdown bool

	leaveMode    LeaveMode
	leavePending bool
	fatalLeave   bool // a failed member still says goodbye
	goodbye      goodbye

	// What the coordinator wants, what was reconciled last, and what the
	// application has confirmed.
	target, current, confirmed assignment
	running                    *pass
	calls                      map[uint64]call
	awaited                    uint64 // the callback that Fenced, Stale or PrepareLeaving waits for
	staleDone, polledStale     bool   // in Stale: "tasks lost" is over; the application is back
	disowned                   bool   // leave, lose the tasks and join again; only while the state is live

	// The coordinator.
	coordinator  bool
	finding      bool
	findAttempts int
	findAt       time.Duration
	discoveryErr *kerr.Error   // reported already
	version      int16         // -1: no coordinator was found so far
	heardAt      time.Duration // the last good answer, or the beginning of the membership
	warnedAt     time.Duration // of Unreachable

	// Heartbeats.
	lastID      uint64
	inFlight    uint64
	leaveID     uint64
	interval    time.Duration
	sentAt      time.Duration // the last heartbeat, -1 before the first
	dueAt       time.Duration
	attempts    int
	backoffTill time.Duration
	rejoinAt    time.Duration
	rejoins     int           // joins since a heartbeat as a member was answered well
	ackAt       time.Duration // not before, for an acknowledgement
	bounced     int           // coordinators in a row that were none
	pollAt      time.Duration

	// Delta memory: what the coordinator knows already.
	sent                  *assignment
	sentOffsets, sentEnds sentList
	reportedAt            time.Duration // -1: nothing was reported

	offsets, ends   map[topology.TaskID]int64
	offsetInterval  time.Duration
	recoveryLag     int64
	settings        GroupSettings
	endpointEpoch   int32
	endpoints       map[Endpoint]EndpointPartitions
	statuses        []Status
	missing         countdown
	push            push
	patterns        bool // the topology has source patterns
	resolved        *topology.Resolution
	newSources      map[string][]string
	lastErr         error
	events          []Event
	errs            []error
	queuedCallbacks []Callback
}

// New returns a member in state Unsubscribed. The error names the field at
// fault.
func New(cfg Config) (*Member, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.ClientTags = maps.Clone(cfg.ClientTags)
	m := &Member{memberState{
		cfg: cfg, target: none, current: none, confirmed: none,
		calls: map[uint64]call{}, endpointEpoch: -1, reportedAt: -1, recoveryLag: -1, offsetInterval: -1,
		sentAt: -1, ackAt: -acksAtOnce * acksApart, version: -1, settings: GroupSettings{-1, -1, -1}, patterns: hasPatterns(cfg.Topology),
	}}
	return m, nil
}

func (c *Config) check() error {
	bad := func(field, value, want string) error {
		return fmt.Errorf("membership: %s %q: %s", field, value, want)
	}
	switch {
	case strings.TrimSpace(c.Group) == "":
		return bad("Group", c.Group, "the group needs an id")
	case strings.TrimSpace(c.MemberID) == "":
		return bad("MemberID", c.MemberID, "the member needs an id")
	case c.Topology == nil:
		return bad("Topology", "", "the member needs a topology")
	case c.MaxPollInterval < time.Millisecond || c.MaxPollInterval.Milliseconds() > math.MaxInt32:
		return bad("MaxPollInterval", c.MaxPollInterval.String(), "want at least a millisecond and at most 24 days")
	case c.LeaveTimeout < 0:
		return bad("LeaveTimeout", c.LeaveTimeout.String(), "want 0 or more")
	case c.RetryBackoff <= 0 || c.RetryBackoffMax <= 0:
		return bad("RetryBackoff", c.RetryBackoff.String()+", "+c.RetryBackoffMax.String(), "want times above 0")
	}
	return nil
}

// Join asks to become a member at the next step. It has no effect on a member.
func (m *Member) Join(now time.Duration) {
	m.now = now
	switch m.state {
	case Fatal:
		m.report(m.problem(nil, "a member that has failed cannot join again", "make a new one"))
	case Unsubscribed:
		m.wantJoin = true
		m.restartPollTimer(now)
	default:
	}
}

// Poll says that the application's loop has come round: it restarts the poll
// timer and lets a stale member rejoin.
func (m *Member) Poll(now time.Duration) {
	m.now = now
	if late := now - m.pollAt; late > 0 && m.cfg.PollGuard && (m.state.live() || m.state == Fenced || m.state == Stale) {
		m.event(PolledLate{By: late, Limit: m.cfg.MaxPollInterval})
	}
	m.restartPollTimer(now)
	if m.state == Stale {
		m.polledStale = true
		m.rejoinStale()
	}
}

func (m *Member) restartPollTimer(now time.Duration) { m.pollAt = now + m.cfg.MaxPollInterval }

// RequestShutdown asks the whole application to shut down, with the next
// heartbeat. It cannot be taken back.
func (m *Member) RequestShutdown() {
	if !m.shutdown {
		m.shutdown = true
		m.event(ShutdownRequested{})
	}
}

// ForceHeartbeat makes a heartbeat due now, for tests.
func (m *Member) ForceHeartbeat() { m.dueAt = -1 }

// Suspect says that another answer of the coordinator, such as that to a commit,
// denies the membership. A heartbeat goes out at once and its answer decides: the
// coordinator may know better by now. Calling it often does no harm.
func (m *Member) Suspect(now time.Duration) {
	m.now = now
	m.dueAt = min(m.dueAt, max(now, m.sentAt+m.backoff(0)))
}

// Step runs one pass: it appends to fx, after emptying it, what is to be done
// now. A pass without anything to do does not allocate.
func (m *Member) Step(now time.Duration, fx *Effects) {
	*fx = Effects{}
	m.now = now
	if m.mayJoin() {
		m.wantJoin = false
		m.join()
	}
	if len(m.statuses) > 0 && m.cfg.FailOnStatus {
		m.actOnStatuses(now)
	}
	m.discover(now, fx)
	m.heartbeatStep(now, fx)
	if m.push.wanted {
		m.pushStep(now, fx)
	}
	if m.state == Reconciling && m.running == nil && !m.target.same(m.current) {
		m.startPass()
	}
	if m.somethingToTell() {
		fx.Callbacks, fx.Errs, fx.Events, fx.Sources = m.queuedCallbacks, m.errs, m.events, m.newSources
		m.queuedCallbacks, m.errs, m.events, m.newSources = nil, nil, nil, nil
	}
}

func (m *Member) somethingToTell() bool {
	return len(m.queuedCallbacks)+len(m.errs)+len(m.events) > 0 || m.newSources != nil
}

// mayJoin is whether a join that was asked for can begin: the former membership
// is over, and so are its callbacks. A join says that the member owns nothing.
func (m *Member) mayJoin() bool {
	return m.wantJoin && m.state == Unsubscribed && !m.leavePending && len(m.calls) == 0
}

// join starts a membership from nothing.
func (m *Member) join() {
	m.setEpoch(0)
	m.current, m.target = none, none
	m.leaveMode = LeaveDefault
	m.heardAt, m.warnedAt = m.now, m.now
	m.push = push{running: m.push.running} // the coordinator asks again
	m.clearStatuses()
	m.to(Joining)
	m.checkVersion()
}

func (m *Member) event(e Event) { m.events = append(m.events, e) }

// report hands an error to the application.
func (m *Member) report(err error) {
	m.lastErr = err
	m.errs = append(m.errs, err)
}

func (m *Member) setEpoch(epoch int32) {
	if epoch == m.epoch {
		return
	}
	before := max(m.epoch, 0)
	m.epoch = epoch
	if after := max(epoch, 0); after != before {
		m.event(EpochChanged{From: before, To: after})
	}
}

// State is the member's state.
func (m *Member) State() State { return m.state }

// Epoch is the member epoch as it may be used in commits; ok is false while the
// member has none.
func (m *Member) Epoch() (epoch int32, ok bool) {
	if m.epoch > 0 && m.state != Fatal {
		return m.epoch, true
	}
	return 0, false
}
