package client

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Opt is an option of [NewMember] and [NewConsumer].
type Opt interface{ apply(*config) }

type optFunc func(*config)

func (f optFunc) apply(c *config) { f(c) }

type config struct {
	maxPollRecords      int // 0 for any
	memberID, processID string
	instanceID, rackID  string
	endpoint            *membership.Endpoint
	tags                map[string]string
	maxPoll             time.Duration
	guard               bool
	backoff, backoffMax time.Duration
	requestTimeout      time.Duration
	leaveTimeout        time.Duration
	leaveMode           membership.LeaveMode
	onRevoked           func(context.Context, []topology.TaskID) error
	onAssigned          func(context.Context, Assignment) error
	onLost              func(context.Context, []topology.TaskID)
	onEvent             func(membership.Event)
	offsets             func() (offsets, ends map[topology.TaskID]int64)
	dormant             func() map[topology.TaskID]int64
	stateDir            string
	process             *Process
	groupClient         *kgo.Client
	noDescription       bool
	noComparison        bool
	allowed             map[topology.FindingKind]bool // for the upgrade to allowedEpoch
	allowedEpoch        int32
	ignoreStatus        bool
	patience            time.Duration
	hooks               []Hook
	logger              kgo.Logger
	kgoOpts             []kgo.Opt
	kgoOptsGiven        bool
	exactlyOnce         bool
	transactionalID     string // empty: derived from what the member is
	errs                []error
}

func defaults() config {
	return config{
		maxPoll: 5 * time.Minute, backoff: 100 * time.Millisecond, backoffMax: time.Second,
		requestTimeout: 30 * time.Second, leaveTimeout: 10 * time.Second,
		tags: map[string]string{}, logger: nopLogger{},
	}
}

// OptionError is an option with a value that cannot be used.
type OptionError struct{ Option, Value, Reason string }

func (e *OptionError) Error() string {
	return fmt.Sprintf("client: option %s(%s): %s", e.Option, e.Value, e.Reason)
}

func (c *config) take(opts []Opt) {
	for _, o := range opts {
		if o != nil {
			o.apply(c)
		}
	}
}

func (c *config) bad(option, value, reason string) {
	c.errs = append(c.errs, &OptionError{option, value, reason})
}

func (c *config) positive(option string, d time.Duration) time.Duration {
	if d <= 0 {
		c.bad(option, d.String(), "want a time above 0")
	}
	return d
}

// Assignment is what a member is to run from now on: complete sets, not a
// difference.
type Assignment struct {
	Active, Standby, Warmup []topology.TaskID
	// Ready is whether the group processes. While it is false neither process nor
	// restore: topics are missing or the assignment is delayed. Another call comes
	// when it changes.
	Ready bool
	// Epoch is the member epoch at the time. It may rise without another call, if the
	// tasks stay the same: see [Member.Epoch].
	Epoch int32
}

// InstanceID makes the member static: its tasks wait for its return until the
// session time-out. Needs a broker that supports it (Kafka 4.4).
//
// A member that has crashed has not said that it will return: until its session has
// ended the coordinator refuses another one with its instance id, which ends with
// UNRELEASED_INSTANCE_ID. Start it again until it is let in.
func InstanceID(id string) Opt {
	return optFunc(func(c *config) {
		if c.instanceID = id; strings.TrimSpace(id) == "" {
			c.bad("InstanceID", fmt.Sprintf("%q", id), "want an id, or leave the option out")
		}
	})
}

// RackID tells the coordinator where the member runs.
func RackID(id string) ProcessOpt {
	return processFunc(func(c *config) {
		if c.rackID = id; strings.TrimSpace(id) == "" {
			c.bad("RackID", fmt.Sprintf("%q", id), "want an id, or leave the option out")
		}
	})
}

// ProcessID names the process: members with one id share a disk, and never hold
// the same task twice. The default is a fresh random UUID. Keep it across restarts
// if the process keeps its state; [StateDir] does that.
func ProcessID(id string) ProcessOpt {
	return processFunc(func(c *config) {
		if c.processID = id; strings.TrimSpace(id) == "" {
			c.bad("ProcessID", fmt.Sprintf("%q", id), "want an id, or leave the option out")
		}
	})
}

// UserEndpoint is where this process answers interactive queries. It is told to
// the other members.
func UserEndpoint(host string, port uint16) ProcessOpt {
	return processFunc(func(c *config) {
		if host == "" || port == 0 {
			c.bad("UserEndpoint", fmt.Sprintf("%q, %d", host, port), "want a host and a port")
		}
		c.endpoint = &membership.Endpoint{Host: host, Port: port}
	})
}

// ClientTag adds a tag for the rack-aware placement of standbys (group config
// streams.rack.aware.assignment.tags). Kafka's limits hold: five tags, keys of 20
// characters, values of 30.
func ClientTag(key, value string) ProcessOpt {
	return processFunc(func(c *config) {
		if strings.TrimSpace(key) == "" || strings.TrimSpace(value) == "" {
			c.bad("ClientTag", fmt.Sprintf("%q, %q", key, value), "want a key and a value")
		}
		if utf8.RuneCountInString(key) > 20 || utf8.RuneCountInString(value) > 30 {
			c.bad("ClientTag", fmt.Sprintf("%q, %q", key, value), "want a key of at most 20 characters and a value of at most 30")
		}
		if c.tags[key] = value; len(c.tags) == 6 {
			c.bad("ClientTag", fmt.Sprintf("%q, %q", key, value), "want at most five tags")
		}
	})
}

// MaxPollInterval is how long the application may take between two calls of Poll
// or [Member.Polled], and how long the coordinator waits for it to give up tasks:
// it is sent as the rebalance time-out. The default is 5 minutes. Whether the
// member leaves when it is exceeded is up to [PollGuard].
func MaxPollInterval(d time.Duration) Opt {
	return optFunc(func(c *config) {
		if c.maxPoll = d; d < time.Millisecond || d.Milliseconds() > 1<<31-1 {
			c.bad("MaxPollInterval", d.String(), "want at least a millisecond and at most 24 days")
		}
	})
}

// PollGuard makes the member leave when the application does not come round within
// the max poll interval, and join again when it does. It is on by default for a
// Consumer and off for a Member, which has no loop of its own to watch.
func PollGuard(on bool) Opt { return optFunc(func(c *config) { c.guard = on }) }

// RetryBackoff bounds the exponential back-off of heartbeats and coordinator
// look-ups: 100 ms and 1 s by default, with a jitter of 20 %.
func RetryBackoff(base, limit time.Duration) Opt {
	return optFunc(func(c *config) {
		c.backoff, c.backoffMax = c.positive("RetryBackoff", base), c.positive("RetryBackoff", limit)
	})
}

// RequestTimeout is how long an answer to a heartbeat is waited for: 30 s by
// default. The client's own limit, kgo.RequestTimeoutOverhead, holds as well.
func RequestTimeout(d time.Duration) Opt {
	return optFunc(func(c *config) { c.requestTimeout = c.positive("RequestTimeout", d) })
}

// LeaveTimeout bounds what happens after the context of Run has ended: revoke,
// commit, leave. The default is 10 s, well below the grace period of 30 s that
// Kubernetes gives. A callback that is still running when nine tenths of it are
// over finds its context ended; the rest is for telling the coordinator.
func LeaveTimeout(d time.Duration) Opt {
	return optFunc(func(c *config) { c.leaveTimeout = c.positive("LeaveTimeout", d) })
}

// LeaveWith says how to leave at the end. The default leaves for good as a dynamic
// member and for a moment as a static one.
func LeaveWith(mode membership.LeaveMode) Opt {
	return optFunc(func(c *config) {
		if c.leaveMode = mode; mode < membership.LeaveDefault || mode > membership.RemainInGroup {
			c.bad("LeaveWith", strconv.Itoa(int(mode)), "want membership.LeaveDefault, LeaveGroup or RemainInGroup")
		}
	})
}

// OnTasksRevoked is called with active tasks to give up: finish and commit their
// work before you return; the coordinator hears of it afterwards. It runs on the
// member's callback goroutine (for a Consumer: inside Poll), may block up to the
// max poll interval while heartbeats go on, and ctx ends when the member does. An
// error ends the member.
func OnTasksRevoked(fn func(ctx context.Context, active []topology.TaskID) error) Opt {
	return optFunc(func(c *config) { c.onRevoked = fn })
}

// OnTasksAssigned is called with all tasks to run from now on. It runs where
// OnTasksRevoked does, and always after it. An error ends the member.
func OnTasksAssigned(fn func(ctx context.Context, a Assignment) error) Opt {
	return optFunc(func(c *config) { c.onAssigned = fn })
}

// OnTasksLost is called with active tasks that belong to somebody else by now:
// drop them without committing. It runs where OnTasksRevoked does.
func OnTasksLost(fn func(ctx context.Context, active []topology.TaskID)) Opt {
	return optFunc(func(c *config) { c.onLost = fn })
}

// OnEvent is called with what changes, in order, from the goroutine of Run. It must
// not block and must not call the member.
func OnEvent(fn func(membership.Event)) Opt { return optFunc(func(c *config) { c.onEvent = fn }) }

// TaskOffsets is asked before each heartbeat, and more often than that, for the sums
// of changelog offsets and ends of the tasks whose state is on this process, active
// tasks that have caught up left out. What was in memory only is gone after a restart,
// and so must its position be. It runs on the goroutine of Run, must be quick and may
// not change the maps afterwards.
func TaskOffsets(fn func() (offsets, ends map[topology.TaskID]int64)) Opt {
	return optFunc(func(c *config) { c.offsets = fn })
}

// MaxPollRecords bounds how many records one Poll of a [Consumer] returns, and with it the
// time between two commits, for example. The default, 0, is whatever has been fetched.
func MaxPollRecords(n int) Opt {
	return optFunc(func(c *config) {
		if c.maxPollRecords = n; n < 0 {
			c.bad("MaxPollRecords", strconv.Itoa(n), "want a number of records, or 0 for any")
		}
	})
}

// WithHooks adds hooks, which observe the member, see [Hook].
func WithHooks(hooks ...Hook) Opt {
	return optFunc(func(c *config) {
		for _, h := range hooks {
			switch {
			case h == nil:
			case observes(h):
				c.hooks = append(c.hooks, h)
			default:
				c.bad("WithHooks", fmt.Sprintf("%T", h), "it has none of the methods of hooks: compare their names and signatures")
			}
		}
	})
}

// observes is whether a hook implements one of the interfaces.
func observes(h Hook) bool {
	switch h.(type) {
	case HookNewMember, HookMemberEnded, HookStateChanged, HookHeartbeatSent, HookHeartbeatAnswered, HookTasksRevoked,
		HookTasksAssigned, HookTasksLost, HookStatusChanged, HookCoordinatorChanged, HookRetry:
		return true
	}
	return false
}

// GroupClient has heartbeats and look-ups of the coordinator go through a client of
// their own, which must outlive the member and which it does not close. On one client
// all requests to a broker that neither produce nor fetch share a connection, on
// which answers come in order: while a commit takes 300 ms at the coordinator, a
// heartbeat that comes after it waits 300 ms, on a client of its own nothing. Use
// it where commits or transactions are slow or many; the price is one connection
// per broker. A [Member] makes no other requests, so it does not use its first
// client then.
func GroupClient(cl *kgo.Client) Opt {
	return optFunc(func(c *config) {
		if c.groupClient = cl; cl == nil {
			c.bad("GroupClient", "nil", "want a client, or leave the option out")
		}
	})
}

// FailOnStatus says whether the member ends, after it has left in good order, when
// the coordinator reports what the application cannot recover from: topics whose
// partitions do not fit together (status 2), somebody's request to shut the whole
// application down (status 4), and source topics that are missing for longer than
// [MissingTopicsPatience] (status 1). It does by default, as Kafka Streams; the
// cause of the error is a *[membership.StatusError]. Without it the application
// sees to the statuses itself: in snapshots, events and hooks.
func FailOnStatus(on bool) Opt { return optFunc(func(c *config) { c.ignoreStatus = !on }) }

// MissingTopicsPatience is how long source topics may be missing before
// [FailOnStatus] ends the member. The default is two heartbeat intervals; a time
// below 0 is for ever.
func MissingTopicsPatience(d time.Duration) Opt {
	return optFunc(func(c *config) {
		if c.patience = d; d == 0 {
			c.bad("MissingTopicsPatience", "0s", "want a time above 0, or one below 0 for ever")
		}
	})
}

// PushDescription says whether the member describes its topology to the coordinator
// when it asks for that (KIP-1331), for operators to see. It does by default.
func PushDescription(on bool) Opt { return optFunc(func(c *config) { c.noDescription = !on }) }

// CompareTopology says whether a member with a topology epoch above 0 asks for the
// topology that the group has before it joins, and compares: see [UpgradeError] for
// what keeps it from joining, and [AllowUpgrade] for how to go on all the same. It does
// by default. That costs a look-up of the coordinator and one StreamsGroupDescribe before
// the first join, and a few requests more in the members that bring a new topology; the
// right to DESCRIBE the group comes with the right to READ it. Where there is no group yet, or it may not be
// described, the member joins, and an event says so: [membership.TopologyCompared].
func CompareTopology(on bool) Opt { return optFunc(func(c *config) { c.noComparison = !on }) }

// AllowUpgrade lets a member bring a new topology to the group in spite of findings of
// these kinds, which are then logged as warnings. It holds for the topology epoch that
// is named, and for no later one, so that it may stay in the program: what was right for
// one upgrade need not be for the next. Where it is given several times, the last one
// counts.
func AllowUpgrade(epoch int32, kinds ...topology.FindingKind) Opt {
	return optFunc(func(c *config) {
		c.allowedEpoch, c.allowed = epoch, map[topology.FindingKind]bool{}
		for _, k := range kinds {
			if !slices.Contains(refusable, k) {
				c.bad("AllowUpgrade", fmt.Sprintf("%d, %q", epoch, k), "want kinds of findings that an upgrade is refused for: "+quoted(refusable))
			}
			c.allowed[k] = true
		}
		if epoch < 1 || len(kinds) == 0 {
			c.bad("AllowUpgrade", fmt.Sprintf("%d, %s", epoch, quoted(kinds)), "want the epoch of the new topology, which is above 0, and what to allow")
		}
	})
}

// WithLogger logs what happens. The default logs nothing. For a *slog.Logger use
// franz-go's own adapter, github.com/twmb/franz-go/plugin/kslog:
//
//	client.WithLogger(kslog.New(slog.Default()))
func WithLogger(l kgo.Logger) Opt {
	return optFunc(func(c *config) {
		if c.logger = l; l == nil {
			c.logger = nopLogger{}
		}
	})
}

// KgoOpts are the options of the clients that a Consumer builds: seed brokers,
// security, producer settings. Options that choose what to consume (group, topics,
// partitions, patterns) are refused: the tasks do that.
func KgoOpts(opts ...kgo.Opt) Opt {
	return optFunc(func(c *config) { c.kgoOpts, c.kgoOptsGiven = append(c.kgoOpts, opts...), true })
}

func (c *config) core(group string, topo *topology.Topology, jitter func() float64) membership.Config {
	out := membership.Config{
		Group: group, MemberID: c.memberID, InstanceID: c.instanceID, RackID: c.rackID, ProcessID: c.processID,
		Endpoint: c.endpoint, ClientTags: maps.Clone(c.tags), Topology: topo,
		MaxPollInterval: c.maxPoll, PollGuard: c.guard, RetryBackoff: c.backoff, RetryBackoffMax: c.backoffMax, Jitter: jitter,
		LeaveTimeout: c.orderly(), FailOnStatus: !c.ignoreStatus, MissingTopicsPatience: c.patience,
	}
	if !c.noDescription && topo != nil {
		out.Description = topo.Description()
	}
	return out
}

// orderly is the part of the leave time-out in which everything is done in its
// order. The rest is for a last leave heartbeat if that was not enough.
func (c *config) orderly() time.Duration { return c.leaveTimeout - c.leaveTimeout/10 }

type nopLogger struct{}

func (nopLogger) Level() kgo.LogLevel              { return kgo.LogLevelNone }
func (nopLogger) Log(kgo.LogLevel, string, ...any) {}
