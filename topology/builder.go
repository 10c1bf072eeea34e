package topology

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Builder collects the graph of an application. The zero value is ready to use.
// Methods return the builder, so that calls can be chained; what they find wrong
// is reported by [Builder.Build]. A Builder is not safe for concurrent use.
//
// Nodes are numbered in the order in which they are added, and with them the
// subtopologies (rule TP-2): instances that build the same graph in the same
// order get the same topology.
type Builder struct {
	nodes    []*node
	byName   map[string]*node
	stores   []*store
	byStore  map[string]*store
	internal map[string]*internalTopic
	inOrder  []string // names of internal topics as they were added
	together [][]string
	ids      []namedSubtopology
	errs     []error

	epoch       int32
	replication *int16
	topicConfig map[string]string
	extraWindow *time.Duration
}

type nodeKind int8

const (
	sourceNode    nodeKind = 1
	processorNode nodeKind = 2
	sinkNode      nodeKind = 3
)

type node struct {
	name     string
	kind     nodeKind
	parents  []*node
	children []*node
	topics   []string // of a source, as the user gave them
	pattern  string   // of a source that is subscribed by pattern
	topic    string   // of a sink
	perEvent bool     // a sink that chooses its topic per record
	stores   []string
	global   bool
	index    int
}

type namedSubtopology struct{ id, node string }

// StoreKind is the sort of a state store: it decides the settings of the
// changelog.
type StoreKind int8

const (
	// KeyValue is the default.
	KeyValue StoreKind = iota
	// Windowed stands for windows and sessions.
	Windowed
	// Versioned keeps old values for the history retention.
	Versioned
)

// Store describes a state store. Only Name is needed.
type Store struct {
	Name string
	Kind StoreKind
	// Retention is how long a windowed store keeps windows, or the history
	// retention of a versioned one. Not used for key-value stores.
	Retention time.Duration
	// NoChangelog switches logging off: the state is lost with the process.
	NoChangelog bool
	// ChangelogConfig are topic settings for the changelog. They win over all
	// others.
	ChangelogConfig map[string]string
	// SourceTopic names a source topic that serves as the changelog, so that no
	// changelog of its own is needed: the store holds exactly what that topic
	// holds.
	SourceTopic string
}

type store struct{ Store }

type internalTopic struct {
	name       string // without the application's prefix
	partitions int32  // 0: the coordinator decides
}

func (b *Builder) fail(kind Kind, name, reason, remedy string) {
	b.errs = append(b.errs, &Error{Kind: kind, Name: name, Reason: reason, Remedy: remedy})
}

// Epoch sets the topology epoch, 0 by default: the version number of the
// topology. Raise it by one with every change of the graph (KIP-1071,
// topology.epoch).
func (b *Builder) Epoch(epoch int32) *Builder {
	if epoch < 0 {
		b.fail(Setting, "epoch", fmt.Sprintf("%d is negative", epoch), "count topology epochs from 0")
	}
	b.epoch = epoch
	return b
}

// ReplicationFactor sets the replication factor of all internal topics. The
// default, -1, leaves it to the broker.
func (b *Builder) ReplicationFactor(n int16) *Builder {
	if n == 0 || n < -1 {
		b.fail(Setting, "replication factor", fmt.Sprintf("%d is no number of replicas", n), "want a positive number, or -1 for the broker's default")
	}
	b.replication = &n
	return b
}

// TopicConfig sets a topic setting for all internal topics, for example
// "segment.bytes". A store's own setting wins over it.
func (b *Builder) TopicConfig(key, value string) *Builder {
	if key == "" {
		b.fail(Setting, key, "a topic setting has no name", "name one, for example segment.bytes")
	}
	if b.topicConfig == nil {
		b.topicConfig = map[string]string{}
	}
	b.topicConfig[key] = value
	return b
}

// WindowRetentionExtra is added to the retention of windowed stores for their
// changelogs, so that clocks may differ. The default is one day; the largest
// duration stands for ever.
func (b *Builder) WindowRetentionExtra(d time.Duration) *Builder {
	if d < 0 {
		b.fail(Setting, "window retention extra", d.String()+" is negative", "want a time to add")
	}
	b.extraWindow = &d
	return b
}

func (b *Builder) add(n *node, parents []string) {
	if n.name == "" {
		b.fail(Nodes, n.name, "a node has no name", "name it")
		return
	}
	if b.byName[n.name] != nil {
		b.fail(Nodes, n.name, "the name is taken by another node", "choose another name")
		return
	}
	if n.kind != sourceNode && len(parents) == 0 {
		b.fail(Nodes, n.name, "it has no parent", "name the nodes whose records it takes")
	}
	for _, p := range parents {
		parent := b.byName[p]
		switch {
		case parent == nil:
			b.fail(Nodes, n.name, fmt.Sprintf("its parent %q does not exist", p), "add parents before their children")
		case parent.kind == sinkNode:
			b.fail(Nodes, n.name, fmt.Sprintf("its parent %q is a sink", p), "a sink has no children: name a source or a processor")
		case slices.Contains(n.parents, parent):
		default:
			n.parents = append(n.parents, parent)
			parent.children = append(parent.children, n)
		}
	}
	if b.byName == nil {
		b.byName = map[string]*node{}
	}
	n.index = len(b.nodes)
	b.nodes = append(b.nodes, n)
	b.byName[n.name] = n
}

// AddSource adds a node that reads topics: topics of the cluster, or internal
// topics by the name that they were added with.
func (b *Builder) AddSource(name string, topics ...string) *Builder {
	if len(topics) == 0 {
		b.fail(Nodes, name, "a source reads no topic", "name at least one")
	}
	b.add(&node{name: name, kind: sourceNode, topics: slices.Clone(topics)}, nil)
	return b
}

// AddSourcePattern adds a node that reads all topics whose whole name matches
// the pattern (RE2 syntax). The coordinator resolves it. Apache Kafka up to 4.4
// refuses topologies with patterns; the coordinator of this project takes them.
func (b *Builder) AddSourcePattern(name, pattern string) *Builder {
	if pattern == "" {
		b.fail(Nodes, name, "the source pattern is empty", "give a regular expression for topic names")
	}
	b.add(&node{name: name, kind: sourceNode, pattern: pattern}, nil)
	return b
}

// AddProcessor adds a node that takes the records of its parents.
func (b *Builder) AddProcessor(name string, parents ...string) *Builder {
	b.add(&node{name: name, kind: processorNode}, parents)
	return b
}

// AddSink adds a node that writes the records of its parents to a topic: one of
// the cluster, or an internal one by the name that it was added with.
func (b *Builder) AddSink(name, topic string, parents ...string) *Builder {
	if topic == "" {
		b.fail(Nodes, name, "a sink has no topic", "name one, or use AddDynamicSink")
	}
	b.add(&node{name: name, kind: sinkNode, topic: topic}, parents)
	return b
}

// AddDynamicSink adds a sink that chooses its topic for each record.
func (b *Builder) AddDynamicSink(name string, parents ...string) *Builder {
	b.add(&node{name: name, kind: sinkNode, perEvent: true}, parents)
	return b
}

// AddStateStore adds a store and connects it with processors. Processors that
// share a store belong to one subtopology. A store that no processor uses is
// left out of the topology.
func (b *Builder) AddStateStore(s Store, processors ...string) *Builder {
	switch {
	case s.Name == "":
		b.fail(Stores, s.Name, "a store has no name", "name it")
		return b
	case b.byStore[s.Name] != nil:
		b.fail(Stores, s.Name, "the name is taken by another store", "choose another name, or connect more processors with ConnectStore")
		return b
	case s.Kind != KeyValue && s.Retention < 0:
		b.fail(Stores, s.Name, "the retention "+s.Retention.String()+" is negative", "want a time")
	}
	s.ChangelogConfig = maps.Clone(s.ChangelogConfig)
	if b.byStore == nil {
		b.byStore = map[string]*store{}
	}
	st := &store{s}
	b.stores = append(b.stores, st)
	b.byStore[s.Name] = st
	return b.ConnectStore(s.Name, processors...)
}

// ConnectStore connects a store with more processors.
func (b *Builder) ConnectStore(name string, processors ...string) *Builder {
	if b.byStore[name] == nil {
		b.fail(Stores, name, "the store does not exist", "add it before it is connected")
		return b
	}
	for _, p := range processors {
		n := b.byName[p]
		switch {
		case n == nil:
			b.fail(Stores, name, fmt.Sprintf("it is connected with %q, which does not exist", p), "add processors before their stores")
		case n.kind != processorNode:
			b.fail(Stores, name, fmt.Sprintf("it is connected with %q, which is no processor", p), "connect stores with processors")
		case !slices.Contains(n.stores, name):
			n.stores = append(n.stores, name)
		}
	}
	return b
}

// AddGlobalStore adds a store that every instance fills with the whole of a
// topic. It makes no tasks. source and processor name the two nodes that it
// consists of.
func (b *Builder) AddGlobalStore(storeName, source, topic, processor string) *Builder {
	if b.byStore[storeName] != nil || storeName == "" {
		b.fail(Stores, storeName, "the name of a global store is empty or taken", "choose another name")
		return b
	}
	b.AddSource(source, topic).AddProcessor(processor, source)
	if s, p := b.byName[source], b.byName[processor]; s != nil && p != nil {
		s.global, p.global = true, true
		p.stores = append(p.stores, storeName)
	}
	if b.byStore == nil {
		b.byStore = map[string]*store{}
	}
	b.byStore[storeName] = &store{Store{Name: storeName, NoChangelog: true}}
	return b
}

// AddRepartition adds an internal topic through which records are passed on to
// another subtopology. Its full name is <application id>-<name>-repartition; the
// ending is not doubled. Partitions 0 lets the coordinator decide.
func (b *Builder) AddRepartition(name string, partitions int32) *Builder {
	return b.addInternal(name, repartitionName(name), partitions)
}

// AddInternalTopic adds an internal topic with the full name
// <application id>-<name>, without an ending. Partitions 0 lets the coordinator
// decide.
func (b *Builder) AddInternalTopic(name string, partitions int32) *Builder {
	return b.addInternal(name, name, partitions)
}

func (b *Builder) addInternal(name, full string, partitions int32) *Builder {
	switch {
	case name == "":
		b.fail(Topics, name, "an internal topic has no name", "name it")
		return b
	case b.internal[name] != nil:
		b.fail(Topics, name, "the internal topic has been added before", "add it once")
		return b
	case partitions < 0:
		b.fail(Topics, name, fmt.Sprintf("%d is no number of partitions", partitions), "want a positive number, or 0 to let the coordinator decide")
	}
	if b.internal == nil {
		b.internal = map[string]*internalTopic{}
	}
	b.internal[name] = &internalTopic{name: full, partitions: partitions}
	b.inOrder = append(b.inOrder, name)
	return b
}

// Copartition says that the topics of these sources must have the same number of
// partitions, as a join needs. Sets that share a topic are united.
func (b *Builder) Copartition(sources ...string) *Builder {
	if len(sources) == 0 {
		b.fail(Copartition, "", "it names no source", "name the sources that are joined")
	}
	for _, s := range sources {
		if n := b.byName[s]; n == nil || n.kind != sourceNode {
			b.fail(Copartition, s, "there is no source of that name", "add sources before they are copartitioned")
		}
	}
	b.together = append(b.together, slices.Clone(sources))
	return b
}

// Subtopology gives the subtopology that a node belongs to an id of its own
// instead of a number. Ids that do not depend on the order of nodes keep
// upgrades smooth: adding a source renumbers nothing.
func (b *Builder) Subtopology(id, node string) *Builder {
	if id == "" {
		b.fail(Subtopologies, id, "the id is empty", "choose a name")
	}
	b.ids = append(b.ids, namedSubtopology{id, node})
	return b
}

// Build checks the graph and names its topics for an application id, which is
// also the group id. The error joins every fault found, each an [*Error].
func (b *Builder) Build(applicationID string) (*Topology, error) {
	c := compiler{b: b, app: applicationID, errs: slices.Clone(b.errs)}
	t := c.compile()
	if len(c.errs) > 0 {
		return nil, errors.Join(c.errs...)
	}
	return t, nil
}
