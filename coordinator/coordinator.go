package coordinator

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/assignor"
	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
)

// Policy decides between Kafka's behaviour and what KIP-1071 asks for beyond it.
type Policy int8

const (
	// KIP1071 is the default: topology updates, source patterns, warm-ups.
	KIP1071 Policy = iota
	// Kafka does only what Apache Kafka 4.4 does.
	Kafka
)

// Now is a moment as the core sees it. Deadlines use Mono only; WallMillis is used
// only where a record stores it.
type Now struct {
	// Mono is a monotonic clock with any origin.
	Mono time.Duration
	// WallMillis is milliseconds since the Unix epoch.
	WallMillis int64
}

// Config is what a Coordinator is made of.
type Config struct {
	Policy Policy
	// Broker holds broker-level configs by their Kafka name (group.streams.*,
	// group.coordinator.rebalance.protocols). Missing ones have Kafka's defaults;
	// others are ignored.
	Broker map[string]string
	// Assignors are registered in addition to the built-in ones, or in place of
	// one with the same name.
	Assignors []assignor.Assignor
	// LogEnds tells where changelogs end, nil if nobody knows. Without it a member
	// that reports no end offset for a task that it is to take over never counts
	// as caught up.
	LogEnds LogEnds
	// Descriptions is whether the driver keeps descriptions of topologies.
	Descriptions bool
}

// GroupKind is what else, other than a streams group, may live under an id.
type GroupKind int8

// The kinds of groups that the core must know of.
const (
	NoGroup GroupKind = iota
	// SimpleGroup exists only because offsets were committed.
	SimpleGroup
	EmptyClassicGroup
	ClassicGroup // with members
	OtherGroup   // consumer or share group, with or without members
)

// Access answers whether the sender of a request may do something. The names are
// Kafka's. A nil Access allows everything.
type Access interface {
	Allowed(op kmsg.ACLOperation, kind kmsg.ACLResourceType, name string) bool
}

// Request is one heartbeat with what its connection says about the sender. The
// core keeps no reference to it or into it.
type Request struct {
	*kmsg.StreamsGroupHeartbeatRequest
	ClientID   string
	ClientHost string // with the leading slash of Kafka, for example "/127.0.0.1"
	// Existing is what the broker holds under this group id outside of the core.
	// It is looked at only if the core has no group of this id.
	Existing GroupKind
	Access   Access
}

// Effects is what the driver has to do for a request or a tick. The caller owns
// and reuses it; each use empties it first. Its content is valid until then.
//
// The driver's duties, in this order:
//
//  1. append Records to the log, all or none;
//  2. if that worked call [Coordinator.Apply], else [Coordinator.Discard] and
//     answer with [AppendFailed];
//  3. create the topics of CreateTopics, without waiting;
//  4. render Events where somebody listens.
//
// Nothing else may be asked of the same Coordinator between Handle and Apply.
type Effects struct {
	Records      []record.Record
	CreateTopics []topics.NewTopic
	Events       []Event

	soft softChanges
}

// Coordinator is the state of the streams groups that one node coordinates. It is
// a plain value without locks, goroutines or a clock: the driver calls one method
// at a time.
type Coordinator struct{ coordinatorState }

type coordinatorState struct {
	policy       Policy
	descriptions bool // of topologies are kept
	broker       brokerConfig
	assignors    map[string]assignor.Assignor
	logEnds      LogEnds
	builtin      []string // names of the built-in ones, the default first
	groups       map[string]*group
	overrides    map[string]map[string]string // by group, which need not exist
	timers       timerHeap
	matcher      topics.Matcher // what source patterns match, for all groups
	scratch      heartbeat
}

// New returns an empty coordinator. The error names the config at fault.
func New(cfg Config) (*Coordinator, error) {
	c := &Coordinator{coordinatorState{
		policy: cfg.Policy, descriptions: cfg.Descriptions, logEnds: cfg.LogEnds, assignors: map[string]assignor.Assignor{},
		groups: map[string]*group{}, overrides: map[string]map[string]string{},
	}}
	builtin := []assignor.Assignor{assignor.NewSticky(), assignor.NewHighlyAvailable()}
	if cfg.Policy == Kafka {
		builtin = []assignor.Assignor{assignor.NewSticky(assignor.StrictKafka())}
	}
	for _, a := range builtin {
		c.builtin = append(c.builtin, a.Name())
	}
	for _, a := range slices.Concat(builtin, cfg.Assignors) {
		c.assignors[a.Name()] = a
	}
	b, err := newBrokerConfig(cfg.Broker, c.builtin)
	if err != nil {
		return nil, err
	}
	if err := c.checkAssignors(b); err != nil {
		return nil, err
	}
	c.broker = b
	return c, nil
}

func (c *coordinatorState) topicOptions() topics.Options {
	return topics.Options{Kafka: c.policy == Kafka, Matcher: &c.matcher}
}

// runAssignor runs an assignor and refuses a result that breaks the rules: an
// assignor may be the user's.
func (c *coordinatorState) runAssignor(name string, in *assignor.Group) (assignor.Assignment, error) {
	out, err := c.assignors[name].Assign(in)
	if err != nil {
		return nil, err
	}
	if err := assignor.Verify(in, out); err != nil {
		return nil, err
	}
	return out, nil
}

// ConfigEntry is one setting in force.
type ConfigEntry struct {
	Name, Value string
	// Override is whether the group itself sets it.
	Override bool
}
