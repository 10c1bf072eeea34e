package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/streamsgroup/streamsgroup/client"
)

// topologyText is the graph of a group's topology, in the layout of Kafka's own
// library.
func topologyText(g *client.GroupDescription) (string, error) {
	switch g.DescriptionStatus() {
	case client.DescriptionAvailable:
	case client.DescriptionFailed:
		return "", fmt.Errorf("group %q: the broker failed to fetch the topology description: look at the log of its plug-in, and try again", g.Group)
	default:
		return "", fmt.Errorf("group %q: no topology description is stored: the broker needs a plug-in that stores it, and a member of Apache Kafka 4.4 or this library", g.Group)
	}
	var b strings.Builder
	b.WriteString("Topologies:\n")
	for _, s := range g.Description.Subtopologies {
		fmt.Fprintf(&b, "   Sub-topology: %s\n", s.ID)
		for i := range s.Nodes {
			writeNode(&b, &s.Nodes[i])
		}
		b.WriteString("\n")
	}
	for i, s := range g.Description.GlobalStores {
		fmt.Fprintf(&b, "   Sub-topology: %d for global store (will not generate tasks)\n", len(g.Description.Subtopologies)+i)
		writeNode(&b, &s.Source)
		writeNode(&b, &s.Processor)
		b.WriteString("\n")
	}
	return b.String(), nil
}

func writeNode(b *strings.Builder, n *client.TopologyNode) {
	after, before := "      --> "+nameList(n.Successors)+"\n", "      <-- "+nameList(n.Predecessors)+"\n"
	switch n.NodeType {
	case client.SourceNode:
		fmt.Fprintf(b, "    Source: %s (topics: [%s])\n%s", n.Name, sorted(n.SourceTopics), after)
	case client.SinkNode:
		topic := "null" // chosen for each record
		if n.SinkTopic != nil {
			topic = *n.SinkTopic
		}
		fmt.Fprintf(b, "    Sink: %s (topic: %s)\n%s", n.Name, topic, before)
	default:
		fmt.Fprintf(b, "    Processor: %s (stores: [%s])\n%s%s", n.Name, sorted(n.Stores), after, before)
	}
}

func sorted(names []string) string {
	return strings.Join(slices.Sorted(slices.Values(names)), ", ")
}

func nameList(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return sorted(names)
}
