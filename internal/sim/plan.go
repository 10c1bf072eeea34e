package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/streamsgroup/streamsgroup/coordinator"
)

// Plan is a world and what goes wrong in it.
type Plan struct {
	Seed  uint64
	Setup Setup
	// Faults happen until Setup.Faulty; then everything is mended.
	Faults []Fault
}

// Setup is a world before anything goes wrong.
type Setup struct {
	Policy coordinator.Policy
	// Nodes are brokers that may coordinate; Processes run Threads members each.
	Nodes, Processes, Threads int
	Partitions                int
	// Family is the line of topologies that the application goes through.
	Family int
	// Late are topics that do not exist at first, a bit for each.
	Late int
	// Static has members with instance ids.
	Static bool
	// PollGuard has members leave that do not poll for MaxPoll.
	PollGuard bool
	// FreeNetwork duplicates and reorders requests at will, as no TCP connection
	// would. Much less can be promised then.
	FreeNetwork bool

	// Available moves tasks with state by way of warm-ups, as many at once as
	// Warmups says.
	Available         bool
	Standbys, Warmups int
	// Idle changelogs do not grow.
	Idle                    bool
	Session, Heartbeat      time.Duration
	MaxPoll                 time.Duration
	InitialDelay, Interval  time.Duration // of the group; Interval between assignments
	RequestTimeout          time.Duration
	LeaveTimeout            time.Duration
	Latency, Flush          time.Duration // the usual upper bounds
	DriftPPM                int           // how much clocks may differ, in millionths
	Faulty                  time.Duration // how long things go wrong
	Backoff, BackoffMaximum time.Duration
}

// Action is what a fault does.
type Action uint8

// The actions. What it is done to and how long it lasts is in the fault.
const (
	PauseProcess Action = iota
	CrashProcess
	RestartProcess // crash, with the state lost
	CloseProcess   // leave as the application does, come back later
	AddProcess
	CutConnection
	LoseAnswer
	Partition
	SlowCallbacks
	BlockCallback
	FailCallback
	StopPolling
	ForceHeartbeats
	MoveGroup
	CrashNode
	PauseNode
	SlowLoads
	SlowDisk
	FailAppends
	GrowTopic
	DeleteTopic
	ChangeConfig
	Upgrade
	DeleteGroup
	SlowNetwork
	numActions
)

var actionNames = [numActions]string{
	"pause process", "crash process", "crash process, its state is lost", "close process", "add process",
	"cut connection", "lose answer", "partition", "slow callbacks", "block callback", "fail callback", "stop polling",
	"force heartbeats", "move group", "crash node", "pause node", "slow loads", "slow disk", "fail appends",
	"grow topic", "delete topic", "change config", "upgrade", "delete group", "slow network",
}

func (a Action) String() string { return actionNames[a] }

// Fault is one thing that goes wrong, or that an operator does.
type Fault struct {
	At, For time.Duration
	Do      Action
	// What and How choose among what there is.
	What, How int
}

func (f Fault) String() string {
	return fmt.Sprintf("%s %v #%d/%d for %v", stamp(f.At), f.Do, f.What, f.How, f.For.Round(time.Millisecond))
}

// String lists the plan, one line for the world and one for each fault.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %+v\n", p.Seed, p.Setup)
	for _, f := range p.Faults {
		fmt.Fprintf(&b, "  %v\n", f)
	}
	return b.String()
}

// NewPlan draws a world and its faults.
func NewPlan(seed uint64) *Plan {
	r := newStream(seed, 1)
	s := Setup{
		Policy: pick(&r, coordinator.KIP1071, coordinator.KIP1071, coordinator.Kafka),
		Nodes:  1 + r.below(3), Processes: 1 + r.below(4), Threads: 1 + r.below(2), Partitions: 1 + r.below(4),
		Family: r.below(2 * len(families)), Static: r.one(4), PollGuard: r.one(2),
		Standbys: pick(&r, 0, 0, 1, 2), Warmups: pick(&r, 0, 2),
		Session: pick[time.Duration](&r, 5, 8, 12) * time.Second, Heartbeat: pick[time.Duration](&r, 300, 1000, 2000) * time.Millisecond,
		MaxPoll:      pick[time.Duration](&r, 4, 10, 30) * time.Second,
		InitialDelay: pick[time.Duration](&r, 0, 0, 500, 3000) * time.Millisecond, Interval: pick[time.Duration](&r, 0, 0, 1000, 3000) * time.Millisecond,
		RequestTimeout: pick[time.Duration](&r, 1, 3, 10) * time.Second, LeaveTimeout: pick[time.Duration](&r, 0, 2, 5) * time.Second,
		Latency: pick[time.Duration](&r, 2, 20, 200) * time.Millisecond, Flush: pick[time.Duration](&r, 0, 1, 20) * time.Millisecond,
		DriftPPM: pick(&r, 0, 100, 20000), Backoff: 100 * time.Millisecond, BackoffMaximum: time.Second,
		Faulty: time.Duration(20+r.below(70)) * time.Second,
	}
	s.Available = s.Policy == coordinator.KIP1071 && r.one(2)
	s.Family = min(s.Family, drawn) // half of the worlds have topologies that are drawn
	s.Idle = r.one(2)
	if r.one(4) {
		s.Late = r.below(1 << externals)
	}
	p := &Plan{Seed: seed, Setup: s}
	deploys := s.Policy == coordinator.KIP1071 && r.one(3)
	// A swarm: most plans lack most kinds of faults, so that the others meet more
	// often.
	var kinds []Action
	for a := range numActions {
		if r.one(3) || deploys && (a == Upgrade || a == GrowTopic) {
			kinds = append(kinds, a)
		}
	}
	if len(kinds) == 0 {
		return p
	}
	for range r.below(40) {
		f := Fault{
			At: r.between(0, s.Faulty), Do: kinds[r.below(len(kinds))], What: r.below(1 << 16), How: r.below(1 << 16),
			For: r.between(0, pick[time.Duration](&r, 1, 5, 20)*time.Second),
		}
		if deploys && r.one(3) {
			f.Do = pick(&r, Upgrade, Upgrade, GrowTopic)
		}
		p.Faults = append(p.Faults, f)
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return int(a.At - b.At) })
	return p
}

func stamp(t time.Duration) string { return fmt.Sprintf("%9.3fs", t.Seconds()) }
