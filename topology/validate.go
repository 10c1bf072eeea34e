package topology

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// nameTopics checks the names of all topics, and who reads and writes them.
func (c *compiler) nameTopics() {
	c.readBy, c.internal, c.fed = map[string]*node{}, map[string]string{}, map[string]bool{}
	for _, name := range c.b.inOrder {
		full := c.full(name)
		if other, ok := c.internal[full]; ok {
			c.fail(KindTopic, name, fmt.Sprintf("internal topic %q has the same full name %q", other, full), "choose another name for one of them")
		}
		c.internal[full] = name
	}
	patterns := map[string]*node{}
	for _, n := range c.b.nodes {
		switch {
		case n.kind == sourceNode && n.pattern != "":
			c.checkPattern(n, patterns)
		case n.kind == sourceNode:
			c.checkSource(n)
		case n.kind == sinkNode && !n.perRecord:
			c.checkTopicName(n, n.topic)
			c.fed[c.full(n.topic)] = true
		}
	}
	for _, name := range c.b.inOrder {
		full, t := c.full(name), c.b.internal[name]
		switch {
		case c.readBy[full] == nil:
			c.fail(KindTopic, name, "no source reads the internal topic", "add a source for it, or leave the topic out")
		case c.readBy[full].global:
			c.fail(KindTopic, name, "a global store reads the internal topic", "fill global stores from a topic that the application does not own")
		case !c.fed[full] && t.partitions == 0:
			// A sink that chooses its topic per record does not count: the broker
			// does not hear of it (rule TP-7).
			c.fail(KindTopic, name, "no sink names the internal topic, so nothing decides its number of partitions", "add a sink for it, or give it a number of partitions")
		}
	}
}

func (c *compiler) checkSource(n *node) {
	for _, topic := range n.topics {
		c.checkTopicName(n, topic)
		full := c.full(topic)
		if other := c.readBy[full]; other != nil {
			// An offset committed for the topic could not be attributed to one task.
			c.fail(KindNode, n.name, fmt.Sprintf("topic %q is read by source %q already", full, other.name), "read a topic with one source and give that source more children")
			continue
		}
		c.readBy[full] = n
	}
}

func (c *compiler) checkPattern(n *node, seen map[string]*node) {
	if _, err := regexp.Compile(n.pattern); err != nil {
		c.fail(KindNode, n.name, fmt.Sprintf("its pattern is no regular expression: %v", err), "use RE2 syntax")
	}
	if other := seen[n.pattern]; other != nil {
		c.fail(KindNode, n.name, fmt.Sprintf("source %q has the same pattern %q, and a topic has one source only", other.name, n.pattern), "use one source and give it more children")
		return
	}
	seen[n.pattern] = n
}

// checkTopicName checks a topic that a node reads or writes. What looks like an
// internal topic but was not added as one would be taken for a topic of the
// cluster, and the application would wait for it for ever.
func (c *compiler) checkTopicName(n *node, topic string) {
	full := c.full(topic)
	if reason := illegalTopicName(full); reason != "" {
		c.fail(KindNode, n.name, fmt.Sprintf("topic name %q: %s", full, reason), "choose a legal topic name")
		return
	}
	if c.b.internal[topic] != nil {
		return
	}
	if name, ok := c.internal[topic]; ok {
		c.fail(KindNode, n.name, fmt.Sprintf("%q is the full name of the internal topic %q", topic, name), fmt.Sprintf("use the name %q", name))
		return
	}
	if name, ok := c.internal[c.app+"-"+topic]; ok {
		c.fail(KindNode, n.name, fmt.Sprintf("%q is not the name with which the internal topic %q was added", topic, name), fmt.Sprintf("use the name %q", name))
		return
	}
	rest, own := strings.CutPrefix(topic, c.app+"-")
	if !own {
		return
	}
	if strings.HasSuffix(rest, repartitionSuffix) {
		c.fail(KindNode, n.name, fmt.Sprintf("the internal topic %q was not added", topic), "add it with AddRepartition, and use the name that it is added with")
	}
	if s := c.b.byStore[strings.TrimSuffix(rest, changelogSuffix)]; s != nil && c.changelog(s) == topic {
		c.fail(KindNode, n.name, fmt.Sprintf("%q is the changelog of store %q", topic, s.Name), "leave the changelog to its store and choose another topic")
	}
}

func (c *compiler) checkStores() {
	for _, s := range c.b.stores {
		if s.SourceTopic != "" {
			c.checkSourceTopic(s)
			continue
		}
		name := c.changelog(s)
		if name == "" {
			continue
		}
		if reason := illegalTopicName(name); reason != "" {
			c.fail(KindStore, s.Name, fmt.Sprintf("changelog name %q: %s", name, reason), "choose another store name")
		}
		if other, ok := c.internal[name]; ok {
			c.fail(KindStore, s.Name, fmt.Sprintf("its changelog would have the same full name %q as the internal topic %q", name, other), "choose another name for one of them")
		}
	}
}

func (c *compiler) checkSourceTopic(s *store) {
	source := c.readBy[c.full(s.SourceTopic)]
	switch {
	case source == nil:
		c.fail(KindStore, s.Name, fmt.Sprintf("no source reads topic %q, which is to serve as its changelog", s.SourceTopic), "add a source for it, or let the store have a changelog")
	case source.global:
		c.fail(KindStore, s.Name, fmt.Sprintf("topic %q, which is to serve as its changelog, belongs to a global store", s.SourceTopic), "use the global store, or let the store have a changelog")
	case c.b.internal[s.SourceTopic] != nil:
		c.fail(KindStore, s.Name, fmt.Sprintf("the internal topic %q cannot serve as its changelog: what has been processed is deleted from it", s.SourceTopic), "let the store have a changelog")
	}
}

// checkCounts refuses internal topics whose number of partitions nothing
// decides: a topic takes the number from the subtopologies that write it, which
// is of no use where they feed each other in a circle only. The broker would
// refuse the join with STREAMS_INVALID_TOPOLOGY.
func (c *compiler) checkCounts(subs []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) {
	known := map[string]bool{}
	for _, name := range c.b.inOrder {
		if c.b.internal[name].partitions > 0 {
			known[c.full(name)] = true
		}
	}
	for progress := true; progress; {
		progress = false
		for i := range subs {
			anchored := len(subs[i].SourceTopics)+len(subs[i].SourceTopicRegex) > 0
			for _, t := range subs[i].RepartitionSourceTopics {
				anchored = anchored || known[t.Topic]
			}
			if !anchored {
				continue
			}
			for _, t := range subs[i].RepartitionSinkTopics {
				progress = progress || !known[t]
				known[t] = true
			}
		}
	}
	for _, name := range c.b.inOrder {
		if !known[c.full(name)] {
			c.fail(KindTopic, name, "only subtopologies that feed each other in a circle write the internal topic, so nothing decides its number of partitions", "give it a number of partitions")
		}
	}
}
