package topology

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FromDescribe reads a topology from a group of a StreamsGroupDescribe response,
// with its nodes where the broker has stored a description (KIP-1331). It keeps
// no reference to its argument.
//
// The response says nothing of source patterns and copartition groups, so what
// is returned is for comparing ([Diff]) and drawing, not for joining a group.
//
// It refuses, with an [*Error], a group without a topology, what [FromWire]
// refuses, and a description that is no graph: a name used twice, a successor
// that does not exist or comes earlier too, a node of no kind.
func FromDescribe(g *kmsg.StreamsGroupDescribeResponseGroup) (*Topology, error) {
	if g == nil || g.Topology == nil {
		return nil, &Error{Kind: KindSetting, Name: "topology", Reason: "the group has none", Remedy: "describe a group that a member has joined"}
	}
	if g.Topology.Epoch < 0 {
		return nil, negativeEpoch(g.Topology.Epoch)
	}
	subs := make([]kmsg.StreamsGroupHeartbeatRequestTopologySubtopology, len(g.Topology.Subtopologies))
	for i, s := range g.Topology.Subtopologies {
		subs[i] = kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		subs[i].SubtopologyID = s.SubtopologyID
		subs[i].SourceTopics = s.SourceTopics
		subs[i].RepartitionSinkTopics = s.RepartitionSinkTopics
		subs[i].StateChangelogTopics = s.StateChangelogTopics
		subs[i].RepartitionSourceTopics = s.RepartitionSourceTopics
	}
	var description *kmsg.TopologyDescription
	if d := g.TopologyDescription; d != nil {
		description = copyDescription(&kmsg.TopologyDescription{Subtopologies: d.Subtopologies, GlobalStores: d.GlobalStores})
		if err := checkDescription(description); err != nil {
			return nil, err
		}
	}
	t, err := newTopology(g.Topology.Epoch, copySubtopologies(subs), description)
	if err != nil {
		return nil, err
	}
	t.described = true
	return t, nil
}

func negativeEpoch(epoch int32) error {
	return &Error{Kind: KindSetting, Name: "epoch", Reason: fmt.Sprintf("%d is negative", epoch), Remedy: "count topology epochs from 0"}
}

// checkDescription checks that the nodes of each subtopology are a graph without
// cycles, which the walks over it rely on.
func checkDescription(d *kmsg.TopologyDescription) error {
	seen := map[string]bool{}
	for i := range d.Subtopologies {
		if err := checkNodes(d.Subtopologies[i].Nodes, seen); err != nil {
			return err
		}
	}
	for i := range d.GlobalStores {
		g := &d.GlobalStores[i]
		if err := checkNodes([]kmsg.TopologyDescriptionNode{g.Source, g.Processor}, seen); err != nil {
			return err
		}
	}
	return nil
}

func checkNodes(nodes []kmsg.TopologyDescriptionNode, seen map[string]bool) error {
	fault := func(n *kmsg.TopologyDescriptionNode, reason string) error {
		return &Error{Kind: KindNode, Name: n.Name, Reason: reason, Remedy: "ask the member that pushed the description: what describes a topology is a graph of sources, processors and sinks"}
	}
	here := make(map[string]int, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		if kind := nodeKind(n.NodeType); kind < sourceNode || kind > sinkNode {
			return fault(n, fmt.Sprintf("%d is no kind of node", n.NodeType))
		}
		if seen[n.Name] {
			return fault(n, "the name is taken by another node")
		}
		seen[n.Name] = true
		here[n.Name] = i
	}
	// Nodes whose parents have all been met are taken off; what is left is on a
	// cycle or behind one.
	parents := make([]int, len(nodes))
	for i := range nodes {
		for _, child := range nodes[i].Successors {
			at, ok := here[child]
			if !ok {
				return fault(&nodes[i], fmt.Sprintf("its successor %q is no node of the same subtopology", child))
			}
			parents[at]++
		}
	}
	var free []int
	for i, n := range parents {
		if n == 0 {
			free = append(free, i)
		}
	}
	for next := 0; next < len(free); next++ {
		for _, child := range nodes[free[next]].Successors {
			at := here[child]
			if parents[at]--; parents[at] == 0 {
				free = append(free, at)
			}
		}
	}
	for i, n := range parents {
		if n > 0 {
			return fault(&nodes[i], "it comes after itself: the graph has a cycle")
		}
	}
	return nil
}
