package topology

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// compiler turns the graph of a Builder into a Topology. It collects every fault
// rather than stopping at the first.
type compiler struct {
	b    *Builder
	app  string
	errs []error

	group    []int             // union-find over node indexes
	readBy   map[string]*node  // source topic, full name, to the source that reads it
	internal map[string]string // full name of an internal topic to its registered name
	fed      map[string]bool   // repartition topics, full name, that some sink writes
}

func (c *compiler) fail(kind Kind, name, reason, remedy string) {
	c.errs = append(c.errs, &Error{Kind: kind, Name: name, Reason: reason, Remedy: remedy})
}

func (c *compiler) compile() *Topology {
	if reason := illegalTopicName(c.app); reason != "" {
		c.fail(KindApplication, c.app, reason, "it becomes the beginning of topic names: choose a legal one")
	}
	c.nameTopics()
	c.checkStores()
	if len(c.errs) > 0 {
		return nil // what follows relies on a sound graph
	}
	parts := c.cut()
	if len(parts) == 0 {
		c.fail(KindApplication, c.app, "the topology reads nothing", "add at least one source")
		return nil
	}
	subs := make([]kmsg.StreamsGroupHeartbeatRequestTopologySubtopology, 0, len(parts))
	for _, p := range parts {
		if p.readsSomething() {
			subs = append(subs, c.subtopology(p))
		}
	}
	if len(subs) == 0 {
		c.fail(KindApplication, c.app, "the topology has no task: it reads global topics only", "add a source that is not global")
		return nil
	}
	c.checkCounts(subs)
	c.copartition(subs)
	t, err := newTopology(c.b.epoch, subs, c.describe(parts))
	if err != nil {
		c.errs = append(c.errs, err)
		return nil
	}
	for _, n := range c.b.nodes {
		if n.pattern != "" {
			t.patterns[n.name] = n.pattern
		}
	}
	return t
}

// full is the name of a topic on the cluster.
func (c *compiler) full(topic string) string {
	if t := c.b.internal[topic]; t != nil {
		return c.app + "-" + t.name
	}
	return topic
}

// changelog is the full name of a store's changelog, empty if there is none.
func (c *compiler) changelog(s *store) string {
	switch {
	case s.SourceTopic != "":
		return c.full(s.SourceTopic)
	case s.NoChangelog:
		return ""
	}
	return c.app + "-" + s.Name + changelogSuffix
}

// part is one connected part of the graph.
type part struct {
	id    string
	named bool    // the user chose the id
	nodes []*node // in the order in which they were added
}

func (p part) readsSomething() bool {
	return slices.ContainsFunc(p.nodes, func(n *node) bool { return n.kind == sourceNode && !n.global })
}

// global is whether the part is a global store.
func (p part) global() bool {
	return slices.ContainsFunc(p.nodes, func(n *node) bool { return n.global })
}

func (c *compiler) root(i int) int {
	for c.group[i] != i {
		c.group[i] = c.group[c.group[i]]
		i = c.group[i]
	}
	return i
}

// cut finds the connected parts (rule TP-1) and numbers them in the order of
// their first nodes (rule TP-2). Global stores use up a number (rule TP-3).
func (c *compiler) cut() []part {
	c.group = make([]int, len(c.b.nodes))
	for i := range c.group {
		c.group[i] = i
	}
	join := func(a, b *node) { c.group[c.root(b.index)] = c.root(a.index) }
	user := map[string]*node{}
	for _, n := range c.b.nodes {
		for _, p := range n.parents {
			join(p, n)
		}
		for _, s := range n.stores {
			if u := user[s]; u != nil {
				join(u, n)
			}
			user[s] = n
		}
	}
	number := map[int]int{}
	var parts []part
	for _, n := range c.b.nodes {
		root := c.root(n.index)
		i, ok := number[root]
		if !ok {
			i = len(parts)
			number[root] = i
			parts = append(parts, part{id: strconv.Itoa(i)})
		}
		parts[i].nodes = append(parts[i].nodes, n)
	}
	for _, want := range c.b.ids {
		n := c.b.byName[want.node]
		if n == nil {
			c.fail(KindSubtopology, want.id, fmt.Sprintf("it is to be the subtopology of node %q, which does not exist", want.node), "name a node that was added")
			continue
		}
		p := &parts[number[c.root(n.index)]]
		switch {
		case p.global():
			c.fail(KindSubtopology, want.id, fmt.Sprintf("it is to be the subtopology of node %q, which belongs to a global store", want.node), "name a node that is no part of a global store")
		case p.named && p.id != want.id:
			c.fail(KindSubtopology, want.id, fmt.Sprintf("the subtopology of node %q is called %q already", want.node, p.id), "give a subtopology one id")
		default:
			p.id, p.named = want.id, true
		}
	}
	return parts
}

// subtopology makes the metadata of one part: rules TP-5 to TP-8 and TP-18.
func (c *compiler) subtopology(p part) kmsg.StreamsGroupHeartbeatRequestTopologySubtopology {
	s := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
	s.SubtopologyID = p.id
	s.SourceTopics, s.SourceTopicRegex, s.RepartitionSinkTopics = []string{}, []string{}, []string{}
	s.StateChangelogTopics, s.RepartitionSourceTopics = []kmsg.TopicInfo{}, []kmsg.TopicInfo{}
	s.CopartitionGroups = []kmsg.StreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup{}
	sinks, changelogs := map[string]bool{}, map[string]*store{}
	for _, n := range p.nodes {
		switch n.kind {
		case sourceNode:
			if n.global {
				continue
			}
			if n.pattern != "" {
				s.SourceTopicRegex = append(s.SourceTopicRegex, n.pattern)
			}
			for _, topic := range n.topics {
				if t := c.b.internal[topic]; t != nil {
					s.RepartitionSourceTopics = append(s.RepartitionSourceTopics, c.b.topicInfo(c.full(topic), t.partitions, c.b.repartitionSettings()))
				} else {
					s.SourceTopics = append(s.SourceTopics, topic)
				}
			}
		case sinkNode:
			if c.b.internal[n.topic] != nil {
				sinks[c.full(n.topic)] = true
			}
		case processorNode:
			for _, name := range n.stores {
				st := c.b.byStore[name]
				topic := c.changelog(st)
				if topic == "" {
					continue
				}
				if other := changelogs[topic]; other != nil && other != st {
					c.fail(KindStore, st.Name, fmt.Sprintf("topic %q serves as the changelog of store %q already", topic, other.Name), "let one of the two have a changelog")
				}
				if st.SourceTopic != "" && c.root(c.readBy[topic].index) != c.root(n.index) {
					c.fail(KindStore, st.Name, fmt.Sprintf("another subtopology reads topic %q, which is to serve as its changelog", topic), "connect the store below that source, or let it have a changelog")
				}
				changelogs[topic] = st
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(changelogs)) {
		s.StateChangelogTopics = append(s.StateChangelogTopics, c.b.topicInfo(name, 0, c.b.changelogSettings(changelogs[name])))
	}
	s.RepartitionSinkTopics = append(s.RepartitionSinkTopics, slices.Sorted(maps.Keys(sinks))...)
	slices.Sort(s.SourceTopics)
	slices.Sort(s.SourceTopicRegex)
	slices.SortFunc(s.RepartitionSourceTopics, func(a, b kmsg.TopicInfo) int { return strings.Compare(a.Topic, b.Topic) })
	return s
}
