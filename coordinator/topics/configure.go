package topics

import "github.com/streamsgroup/streamsgroup/coordinator/record"

// Options are the places where the policy of the coordinator decides. The zero
// value is the policy KIP1071.
type Options struct {
	// Kafka switches to Kafka's own behaviour where this project goes beyond it
	// (coordinator policy Kafka): details name at most three topics, the rule
	// for fixed repartition topics spans the whole topology, a source topic that
	// serves as changelog must have the changelog's count, a topic may be read by
	// several subtopologies, differing configs go unnoticed, and source patterns
	// are refused.
	Kafka bool
	// Describable is whether a topic may be matched by a source pattern: whether
	// the principal of the request may describe it. Nil allows all topics. It is
	// asked only about topics that a pattern matches.
	Describable func(topic string) bool
	// Matcher remembers what source patterns match, from one image to the next.
	// Nil remembers nothing.
	Matcher *Matcher
}

// The status codes of a topology that is not ready, as in a heartbeat response.
const (
	StatusMissingSourceTopics          int8 = 1
	StatusIncorrectlyPartitionedTopics int8 = 2
	StatusMissingInternalTopics        int8 = 3
)

// Problem is why a topology cannot be worked on yet.
type Problem struct {
	Status int8
	Detail string
}

// Configured is a topology matched against the cluster.
type Configured struct {
	TopologyEpoch int32
	// Problem is nil if the topology is ready.
	Problem *Problem
	// Subtopologies are sorted by id. Empty under statuses 1 and 2.
	Subtopologies []Subtopology
	// Create lists the internal topics that do not exist, sorted by name. Only
	// under status 3.
	Create []NewTopic
	// Differences are settings of existing internal topics that are not what the
	// topology asks for, sorted by topic and name. They are no problem, only
	// worth an event. Only where the image knows the topics' configs.
	Differences []ConfigDifference
}

// Ready is whether tasks can be assigned.
func (c *Configured) Ready() bool { return c.Problem == nil }

// Subtopology is one configured subtopology.
type Subtopology struct {
	ID string
	// Tasks is the number of tasks: partitions 0 to Tasks-1.
	Tasks int32
	// Stateful is whether there is a changelog topic.
	Stateful bool
	// Sources are the external and the repartition source topics together,
	// with the partition count that each has or will have, sorted by name. Those
	// matched by patterns are among them.
	Sources []TopicCount
	// Matched are the topics that the source patterns match, sorted by name.
	Matched []string
	// Repartition are the repartition source topics and Changelogs the
	// changelog topics with decided partition counts, sorted by name.
	Repartition []record.TopicInfo
	Changelogs  []record.TopicInfo
}

// TopicCount is a topic with its partition count.
type TopicCount struct {
	Name       string
	Partitions int32
}

// NewTopic is an internal topic to be created. ReplicationFactor -1 asks for
// the broker's default.
type NewTopic struct {
	Name              string
	Partitions        int32
	ReplicationFactor int16
	Configs           []record.KeyValue
}

// ConfigDifference is a setting of an existing internal topic that differs, or
// its replication factor, under the name "replication.factor".
type ConfigDifference struct {
	Topic, Name string
	Want        string
	// Have is empty if the topic itself does not set the name, which leaves it
	// to the broker's default.
	Have string
}

// InvalidTopologyError is why a topology is refused whatever topics exist. The
// answer on the wire is STREAMS_INVALID_TOPOLOGY.
type InvalidTopologyError struct {
	Subtopology string // empty if the fault is not in a single one
	Topic       string // empty if no topic is at fault
	Reason      string // names what is at fault and what to do about it
}

func (e *InvalidTopologyError) Error() string { return e.Reason }

// Configure decides partition counts and finds the first problem, in the order
// of the protocol. It does not keep references into its input other than to
// immutable record values. The error is an *InvalidTopologyError.
func Configure(t *record.Topology, image *Image, o Options) (*Configured, error) {
	p, err := newPlan(t, o)
	if err != nil {
		return nil, err
	}
	c := &Configured{TopologyEpoch: t.Epoch}
	p.lookUp(image)
	m := p.match(image)
	if c.Problem = p.missingSources(m); c.Problem != nil {
		return c, nil
	}
	if c.Problem = p.sharedMatches(m); c.Problem != nil {
		return c, nil
	}
	p.adopt(m, image)
	if err := p.validateLate(); err != nil {
		return nil, err
	}
	p.decideRepartitionCounts()
	if c.Problem, err = p.copartition(); c.Problem != nil || err != nil {
		return c.unlessInvalid(err)
	}
	if err := p.validateLast(); err != nil {
		return nil, err
	}
	subs := p.configuredSubtopologies()
	internal := p.internalTopics(subs)
	if c.Problem = p.wrongCounts(internal); c.Problem != nil {
		return c, nil
	}
	c.Subtopologies = subs
	c.Differences = differences(subs, image, o)
	c.Create, c.Problem = p.missingInternal(internal)
	return c, nil
}

func (c *Configured) unlessInvalid(err error) (*Configured, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}
