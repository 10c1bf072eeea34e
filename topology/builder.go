package topology

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Builder collects the graph of an application. The zero value is ready to use.
// Methods return the builder, so that calls can be chained; what they find wrong
// is reported by [Builder.Build]. A Builder is not safe for concurrent use.
//
// Nodes are numbered in the order in which they are added, and with them the
// subtopologies (rule TP-2): instances that build the same graph in the same
// order get the same topology.
type Builder struct {
	nodes     []*node
	byName    map[string]*node
	stores    []*store
	byStore   map[string]*store
	internal  map[string]*internalTopic
	inOrder   []string // names of internal topics as they were added
	together  [][]string
	ids       []namedSubtopology
	errs      []error
	strangers []stranger

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
	name      string
	kind      nodeKind
	parents   []*node
	children  []*node
	topics    []string // of a source, as the user gave them
	pattern   string   // of a source that is subscribed by pattern
	topic     string   // of a sink
	perRecord bool     // a sink that chooses its topic per record
	stores    []string
	global    bool
	index     int
}

// stranger is a parent that was not there when its child was added. Build knows
// whether it came later.
type stranger struct {
	fault         int // the place in Builder.errs
	child, parent string
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
	// retention of a versioned one, in whole milliseconds. The changelog keeps
	// records longer: by [Builder.WindowRetentionExtra] or by a day. The largest
	// duration stands for ever. Key-value stores have none.
	Retention time.Duration
	// NoChangelog switches logging off: the state is lost with the process.
	NoChangelog bool
	// ChangelogConfig are topic settings for the changelog. They win over all
	// others: over the settings of [Builder.TopicConfig], and over what follows
	// from Retention.
	ChangelogConfig map[string]string
	// SourceTopic names a source topic that serves as the changelog, so that no
	// changelog of its own is needed: the store holds exactly what that topic
	// holds.
	SourceTopic string
}

type store struct {
	Store
	global bool
}

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
		b.fail(KindSetting, "epoch", fmt.Sprintf("%d is negative", epoch), "count topology epochs from 0")
	}
	b.epoch = epoch
	return b
}

// ReplicationFactor sets the replication factor of all internal topics. The
// default, -1, leaves it to the broker.
func (b *Builder) ReplicationFactor(n int16) *Builder {
	if n == 0 || n < -1 {
		b.fail(KindSetting, "replication factor", fmt.Sprintf("%d is no number of replicas", n), "want a positive number, or -1 for the broker's default")
	}
	b.replication = &n
	return b
}

// TopicConfig sets a topic setting for all internal topics, for example
// "segment.bytes", which Kafka Streams calls "topic.segment.bytes". It wins over
// the library's defaults. A store's own setting wins over it, and so does the
// retention.ms or min.compaction.lag.ms that follows from a store's retention.
func (b *Builder) TopicConfig(key, value string) *Builder {
	switch {
	case key == "":
		b.fail(KindSetting, key, "a topic setting has no name", "name one, for example segment.bytes")
	case strings.HasPrefix(key, "topic."):
		b.fail(KindSetting, key, "no topic has a setting of that name", "leave the prefix topic. out")
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
		b.fail(KindSetting, "window retention extra", d.String()+" is negative", "want a time to add")
	}
	b.extraWindow = &d
	return b
}

func (b *Builder) add(n *node, parents []string) {
	if n.name == "" || !utf8.ValidString(n.name) {
		b.fail(KindNode, n.name, "the name of a node is empty or no UTF-8 text", "name it")
		return
	}
	if b.byName[n.name] != nil {
		b.fail(KindNode, n.name, "the name is taken by another node", "choose another name")
		return
	}
	if n.kind != sourceNode && len(parents) == 0 {
		b.fail(KindNode, n.name, "it has no parent", "name the nodes whose records it takes")
	}
	for _, p := range parents {
		parent := b.byName[p]
		switch {
		case p == n.name:
			b.fail(KindNode, n.name, "it is its own parent, and a graph must not have a cycle", "let records go round through a repartition topic")
		case parent == nil:
			b.fail(KindNode, n.name, fmt.Sprintf("its parent %q does not exist", p), "add parents before their children")
			b.strangers = append(b.strangers, stranger{len(b.errs) - 1, n.name, p})
		case parent.kind == sinkNode:
			b.fail(KindNode, n.name, fmt.Sprintf("its parent %q is a sink", p), "a sink has no children: name a source or a processor")
		case parent.global && !n.global:
			b.fail(KindNode, n.name, fmt.Sprintf("its parent %q belongs to a global store, which makes no tasks", p), "name a source or a processor that is no part of a global store")
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
		b.fail(KindNode, name, "a source reads no topic", "name at least one")
	}
	b.add(&node{name: name, kind: sourceNode, topics: slices.Clone(topics)}, nil)
	return b
}

// AddSourcePattern adds a node that reads all topics whose whole name matches
// the pattern (RE2 syntax). The coordinator resolves it. Apache Kafka up to 4.4
// refuses topologies with patterns; the coordinator of this project takes them.
func (b *Builder) AddSourcePattern(name, pattern string) *Builder {
	if pattern == "" {
		b.fail(KindNode, name, "the source pattern is empty", "give a regular expression for topic names")
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
		b.fail(KindNode, name, "a sink has no topic", "name one, or use AddDynamicSink")
	}
	b.add(&node{name: name, kind: sinkNode, topic: topic}, parents)
	return b
}

// AddDynamicSink adds a sink that chooses its topic for each record.
func (b *Builder) AddDynamicSink(name string, parents ...string) *Builder {
	b.add(&node{name: name, kind: sinkNode, perRecord: true}, parents)
	return b
}

// AddStateStore adds a store and connects it with processors. Processors that
// share a store belong to one subtopology. A store that no processor uses is
// left out of the topology.
func (b *Builder) AddStateStore(s Store, processors ...string) *Builder {
	switch {
	case s.Name == "" || !utf8.ValidString(s.Name):
		b.fail(KindStore, s.Name, "the name of a store is empty or no UTF-8 text", "name it")
		return b
	case b.byStore[s.Name] != nil:
		b.fail(KindStore, s.Name, "the name is taken by another store", "choose another name, or connect more processors with ConnectStore")
		return b
	}
	switch {
	case s.Kind < KeyValue || s.Kind > Versioned:
		b.fail(KindStore, s.Name, fmt.Sprintf("%d is no kind of store", s.Kind), "want KeyValue, Windowed or Versioned")
	case s.Kind == KeyValue && s.Retention != 0:
		b.fail(KindStore, s.Name, "a key-value store has no retention", "want the kind Windowed or Versioned, or no retention")
	case s.Retention < 0:
		b.fail(KindStore, s.Name, "the retention "+s.Retention.String()+" is negative", "want a time")
	}
	switch {
	case len(s.ChangelogConfig) == 0:
	case s.SourceTopic != "":
		b.fail(KindStore, s.Name, "it has settings for a changelog, but a source topic takes the place of the changelog", "leave the settings out, or let the store have a changelog")
	case s.NoChangelog:
		b.fail(KindStore, s.Name, "it has settings for a changelog, but no changelog", "leave one of the two out")
	default:
		if _, nameless := s.ChangelogConfig[""]; nameless {
			b.fail(KindStore, s.Name, "a changelog setting has no name", "name it, for example segment.bytes")
		}
	}
	s.ChangelogConfig = maps.Clone(s.ChangelogConfig)
	if b.byStore == nil {
		b.byStore = map[string]*store{}
	}
	st := &store{Store: s}
	b.stores = append(b.stores, st)
	b.byStore[s.Name] = st
	return b.ConnectStore(s.Name, processors...)
}

// ConnectStore connects a store with more processors.
func (b *Builder) ConnectStore(name string, processors ...string) *Builder {
	switch s := b.byStore[name]; {
	case s == nil:
		b.fail(KindStore, name, "the store does not exist", "add it before it is connected")
		return b
	case s.global:
		b.fail(KindStore, name, "it is a global store", "leave the connection out: every processor may read every global store")
		return b
	}
	for _, p := range processors {
		n := b.byName[p]
		switch {
		case n == nil:
			b.fail(KindStore, name, fmt.Sprintf("it is connected with %q, which does not exist", p), "add processors before their stores")
		case n.kind != processorNode:
			b.fail(KindStore, name, fmt.Sprintf("it is connected with %q, which is no processor", p), "connect stores with processors")
		case n.global:
			b.fail(KindStore, name, fmt.Sprintf("it is connected with %q, which belongs to a global store", p), "connect stores with processors that belong to tasks")
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
	if b.byStore[storeName] != nil || storeName == "" || !utf8.ValidString(storeName) {
		b.fail(KindStore, storeName, "the name of a global store is empty, taken or no UTF-8 text", "choose another name")
		return b
	}
	b.add(&node{name: source, kind: sourceNode, topics: []string{topic}, global: true}, nil)
	b.add(&node{name: processor, kind: processorNode, stores: []string{storeName}, global: true}, []string{source})
	if b.byStore == nil {
		b.byStore = map[string]*store{}
	}
	b.byStore[storeName] = &store{Store: Store{Name: storeName, NoChangelog: true}, global: true}
	return b
}

// AddRepartition adds an internal topic through which records are passed on to
// another subtopology. Its full name is <application id>-<name>-repartition; the
// ending is not doubled. Sources and sinks use the name given here.
//
// At most one number of partitions may follow. Without it, or with 0, the
// coordinator decides: as many as the topics have that the writing subtopologies
// read.
func (b *Builder) AddRepartition(name string, partitions ...int32) *Builder {
	return b.addInternal(name, repartitionName(name), partitions)
}

// AddInternalTopic adds an internal topic with the full name
// <application id>-<name>, without an ending; in all else it is a repartition
// topic ([Builder.AddRepartition]).
func (b *Builder) AddInternalTopic(name string, partitions ...int32) *Builder {
	return b.addInternal(name, name, partitions)
}

func (b *Builder) addInternal(name, rest string, partitions []int32) *Builder {
	var n int32
	if len(partitions) > 0 {
		n = partitions[0]
	}
	switch {
	case name == "":
		b.fail(KindTopic, name, "an internal topic has no name", "name it")
		return b
	case b.internal[name] != nil:
		b.fail(KindTopic, name, "the internal topic has been added before", "add it once")
		return b
	case len(partitions) > 1:
		b.fail(KindTopic, name, fmt.Sprintf("%d numbers of partitions are given", len(partitions)), "want one, or none to let the coordinator decide")
	case n < 0:
		b.fail(KindTopic, name, fmt.Sprintf("%d is no number of partitions", n), "want a positive number, or 0 to let the coordinator decide")
	}
	if b.internal == nil {
		b.internal = map[string]*internalTopic{}
	}
	b.internal[name] = &internalTopic{name: rest, partitions: n}
	b.inOrder = append(b.inOrder, name)
	return b
}

// Copartition says that the topics of these sources must have the same number of
// partitions, as a join needs. Sets that share a topic are united. Processors may
// stand among the sources and count for nothing: the stream DSL of Kafka Streams
// names some, of suppressed tables for example, and Kafka ignores them.
func (b *Builder) Copartition(sources ...string) *Builder {
	named := false
	for _, s := range sources {
		switch n := b.byName[s]; {
		case n == nil:
			b.fail(KindCopartition, s, "there is no source of that name", "add sources before they are copartitioned")
		case n.kind == sinkNode:
			b.fail(KindCopartition, s, "it is a sink", "name the sources that are joined")
		}
		named = named || b.byName[s] == nil || b.byName[s].kind != processorNode
	}
	if !named {
		b.fail(KindCopartition, strings.Join(sources, ", "), "it names no source", "name the sources that are joined")
	}
	b.together = append(b.together, slices.Clone(sources))
	return b
}

// Subtopology gives the subtopology that a node belongs to an id of its own
// instead of a number. Ids that do not depend on the order of nodes keep
// upgrades smooth: adding a source renumbers nothing. Any text will do that is
// not empty and not the id of another subtopology; underscores are fine, since
// the partition of a task is what follows the last one ([ParseTaskID]).
func (b *Builder) Subtopology(id, node string) *Builder {
	if id == "" || !utf8.ValidString(id) {
		b.fail(KindSubtopology, id, "the id is empty or no UTF-8 text", "choose a name")
	}
	b.ids = append(b.ids, namedSubtopology{id, node})
	return b
}

// Build checks the graph and names its topics for an application id, which is
// also the group id. The error joins every fault found, each an [*Error].
func (b *Builder) Build(applicationID string) (*Topology, error) {
	c := compiler{b: b, app: applicationID, errs: b.faults()}
	t := c.compile()
	if len(c.errs) > 0 {
		return nil, errors.Join(c.errs...)
	}
	return t, nil
}

// faults are what the calls found wrong, in the light of the calls that came
// after: a parent that was added too late may close a cycle.
func (b *Builder) faults() []error {
	errs := slices.Clone(b.errs)
	for _, s := range b.strangers {
		parent := b.byName[s.parent]
		if parent == nil {
			continue
		}
		e := &Error{Kind: KindNode, Name: s.child, Reason: fmt.Sprintf("its parent %q was added after it", s.parent), Remedy: "add parents before their children"}
		if parent.descendsFrom(s.child, map[*node]bool{}) {
			e.Reason = fmt.Sprintf("its parent %q takes records from it, and a graph must not have a cycle", s.parent)
			e.Remedy = "let records go round through a repartition topic"
		}
		errs[s.fault] = e
	}
	return errs
}

func (n *node) descendsFrom(name string, seen map[*node]bool) bool {
	if n.name == name {
		return true
	}
	if seen[n] {
		return false
	}
	seen[n] = true
	return slices.ContainsFunc(n.parents, func(p *node) bool { return p.descendsFrom(name, seen) })
}
