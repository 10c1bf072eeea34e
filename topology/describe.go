package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Describe returns the topology as text for people, in the style of Kafka
// Streams' TopologyDescription: parents before children, arrows for what a node
// passes records to (-->) and takes them from (<--), topics with their full
// names. Of a topology that was read with [FromWire], which has no nodes, it
// lists topics. The form of the text is not part of the API.
func (t *Topology) Describe() string {
	var b strings.Builder
	b.WriteString("Topologies:\n")
	if t.description == nil {
		for i := range t.subs {
			describeTopics(&b, &t.subs[i])
		}
		return b.String()
	}
	for _, s := range t.description.Subtopologies {
		fmt.Fprintf(&b, "   Sub-topology: %s\n", s.SubtopologyID)
		t.describeNodes(&b, s.Nodes)
	}
	for _, g := range t.description.GlobalStores {
		fmt.Fprintf(&b, "   Global store (no tasks): %s\n", strings.Join(g.Processor.Stores, ", "))
		t.describeNodes(&b, []kmsg.TopologyDescriptionNode{g.Source, g.Processor})
	}
	return b.String()
}

func (t *Topology) describeNodes(b *strings.Builder, nodes []kmsg.TopologyDescriptionNode) {
	parents := map[string][]string{}
	byName := map[string]*kmsg.TopologyDescriptionNode{}
	for i := range nodes {
		byName[nodes[i].Name] = &nodes[i]
		for _, child := range nodes[i].Successors {
			parents[child] = append(parents[child], nodes[i].Name)
		}
	}
	// The longest way to a leaf puts every parent before its children.
	height := map[string]int{}
	var climb func(name string) int
	climb = func(name string) int {
		if h := height[name]; h > 0 {
			return h
		}
		h := 1
		for _, child := range byName[name].Successors {
			h = max(h, climb(child)+1)
		}
		height[name] = h
		return h
	}
	for i := range nodes {
		climb(nodes[i].Name)
	}
	ordered := slices.Clone(nodes)
	slices.SortFunc(ordered, func(a, b kmsg.TopologyDescriptionNode) int {
		return cmp.Or(cmp.Compare(height[b.Name], height[a.Name]), strings.Compare(a.Name, b.Name))
	})
	for i := range ordered {
		n := &ordered[i]
		fmt.Fprintf(b, "    %s\n", t.describeOne(n))
		if nodeKind(n.NodeType) != sinkNode {
			fmt.Fprintf(b, "      --> %s\n", listOrNone(n.Successors))
		}
		if nodeKind(n.NodeType) != sourceNode {
			slices.Sort(parents[n.Name])
			fmt.Fprintf(b, "      <-- %s\n", listOrNone(parents[n.Name]))
		}
	}
}

func (t *Topology) describeOne(n *kmsg.TopologyDescriptionNode) string {
	switch nodeKind(n.NodeType) {
	case sourceNode:
		if pattern, ok := t.patterns[n.Name]; ok {
			return fmt.Sprintf("Source: %s (topics: all that match %s)", n.Name, pattern)
		}
		return fmt.Sprintf("Source: %s (topics: [%s])", n.Name, strings.Join(n.SourceTopics, ", "))
	case sinkNode:
		if n.SinkTopic == nil {
			return fmt.Sprintf("Sink: %s (topic: chosen per record)", n.Name)
		}
		return fmt.Sprintf("Sink: %s (topic: %s)", n.Name, *n.SinkTopic)
	default:
		return fmt.Sprintf("Processor: %s (stores: [%s])", n.Name, strings.Join(n.Stores, ", "))
	}
}

func describeTopics(b *strings.Builder, s *kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) {
	fmt.Fprintf(b, "   Sub-topology: %s\n", s.SubtopologyID)
	for _, list := range []struct {
		title string
		names []string
	}{
		{"Source topics", s.SourceTopics},
		{"Source topic patterns", s.SourceTopicRegex},
		{"Repartition source topics", topicNames(s.RepartitionSourceTopics)},
		{"Repartition sink topics", s.RepartitionSinkTopics},
		{"Changelog topics", topicNames(s.StateChangelogTopics)},
	} {
		if len(list.names) > 0 {
			fmt.Fprintf(b, "    %s: [%s]\n", list.title, strings.Join(list.names, ", "))
		}
	}
}

func listOrNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
