package topology

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// describe makes the description that KIP-1331 sends to the broker: rules TD-7
// to TD-10. Subtopologies are in the order of their numbers.
func (c *compiler) describe(parts []part) *kmsg.TopologyDescription {
	d := kmsg.NewTopologyDescription()
	d.Subtopologies = []kmsg.TopologyDescriptionSubtopology{}
	d.GlobalStores = []kmsg.TopologyDescriptionGlobalStore{}
	for _, p := range parts {
		if p.global() {
			g := kmsg.NewTopologyDescriptionGlobalStore()
			for _, n := range p.nodes {
				if n.kind == sourceNode {
					g.Source = c.describeNode(n)
				} else {
					g.Processor = c.describeNode(n)
				}
			}
			d.GlobalStores = append(d.GlobalStores, g)
			continue
		}
		s := kmsg.NewTopologyDescriptionSubtopology()
		s.SubtopologyID = p.id
		for _, n := range p.nodes {
			s.Nodes = append(s.Nodes, c.describeNode(n))
		}
		slices.SortFunc(s.Nodes, func(a, b kmsg.TopologyDescriptionNode) int { return compareText(a.Name, b.Name) })
		d.Subtopologies = append(d.Subtopologies, s)
	}
	return &d
}

func (c *compiler) describeNode(n *node) kmsg.TopologyDescriptionNode {
	out := kmsg.NewTopologyDescriptionNode()
	out.Name = n.name
	out.NodeType = int8(n.kind)
	out.SourceTopics, out.Stores, out.Successors = []string{}, []string{}, []string{}
	for _, t := range n.topics {
		out.SourceTopics = append(out.SourceTopics, c.full(t))
	}
	if n.kind == sinkNode && !n.perRecord {
		full := c.full(n.topic)
		out.SinkTopic = &full
	}
	out.Stores = append(out.Stores, n.stores...)
	for _, child := range n.children {
		out.Successors = append(out.Successors, child.name)
	}
	slices.Sort(out.SourceTopics)
	slices.SortFunc(out.Stores, compareText)
	slices.SortFunc(out.Successors, compareText)
	return out
}
