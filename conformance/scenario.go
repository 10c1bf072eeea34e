package conformance

import (
	"slices"
	"strings"
)

// Policy is whose rules a broker follows where KIP-1071 and Apache Kafka differ.
type Policy int

// The policies.
const (
	// Detect finds out by joining with a pattern, which Kafka refuses.
	Detect Policy = iota
	// KIP1071 is the protocol as the KIP has it: topology updates, patterns,
	// warm-ups.
	KIP1071
	// Kafka is what Apache Kafka does.
	Kafka
)

func (p Policy) String() string { return [...]string{"detect", "kip1071", "kafka"}[p] }

// Scenario is one independent check of a broker.
type Scenario struct {
	// IDs are the rules and cases that the scenario shows.
	IDs []string
	// Title says in a few words what happens.
	Title string
	// Policy limits the scenario to brokers of one policy; Detect is for both.
	Policy Policy
	// Deviation names the deviation by which the expectation depends on the
	// policy, and empty if it does not.
	Deviation string
	// Alone keeps all other scenarios from running meanwhile: it changes
	// something that the whole broker shares.
	Alone bool
	// Run does the scenario. It ends early with a failed requirement, or with
	// the reason to skip it, if the broker does not allow what it needs.
	Run func(c *C)
}

// Name is unique among the scenarios: the IDs and the title.
func (s Scenario) Name() string { return strings.Join(s.IDs, " ") + ": " + s.Title }

// Scenarios are all scenarios, in the order of the rules they show.
func Scenarios() []Scenario {
	return slices.Concat(
		validation,
		joining,
		capacity,
		topics,
		creation,
		reconcile,
		assignment,
		warmups,
		configs,
		leaving,
		static,
		status,
		endpoints,
		offsets,
		sharing,
		listing,
		descriptions,
		kips,
		upgrades,
		quirks,
		access,
	)
}
