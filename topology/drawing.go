package topology

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// drawing is a picture of a topology, whatever language it is written in. Its
// order follows from that of the topology.
type drawing struct {
	outside []drawnNode  // topics, and boxes that stand for subtopologies
	groups  []drawnGroup // subtopologies and global stores with their nodes
	edges   []drawnEdge

	topicIDs map[string]string
	internal map[string]bool
	numbered int // nodes, stores and boxes so far
}

// next returns an id for anything but a topic.
func (d *drawing) next() string {
	d.numbered++
	return "node" + strconv.Itoa(d.numbered-1)
}

type drawnGroup struct {
	label string
	nodes []drawnNode
}

type drawnNode struct {
	id    string
	label string
	shape shape
}

type drawnEdge struct {
	from, to string
	dashed   bool // between a processor and its store, or what stands for it
}

type shape int8

const (
	sourceShape shape = iota
	processorShape
	sinkShape
	storeShape
	topicShape
	internalTopicShape
)

// draw makes the picture: topics outside, nodes and stores inside of their
// subtopologies. Where there is no description, one box stands for the nodes of
// a subtopology, and changelogs for its stores.
func (t *Topology) draw() *drawing {
	d := &drawing{topicIDs: map[string]string{}, internal: map[string]bool{}}
	for i := range t.subs {
		for _, r := range t.subs[i].RepartitionSourceTopics {
			d.internal[r.Topic] = true
		}
	}
	if t.description == nil {
		for i := range t.subs {
			d.addSubtopology(&t.subs[i])
		}
		return d
	}
	for i := range t.description.Subtopologies {
		s := &t.description.Subtopologies[i]
		d.addNodes("Sub-topology "+s.SubtopologyID, s.Nodes, t.patterns)
	}
	for i := range t.description.GlobalStores {
		g := &t.description.GlobalStores[i]
		d.addNodes("Global store "+strings.Join(g.Processor.Stores, ", "), []kmsg.TopologyDescriptionNode{g.Source, g.Processor}, t.patterns)
	}
	return d
}

func (d *drawing) topic(name string) string {
	id, ok := d.topicIDs[name]
	if !ok {
		id = "topic" + strconv.Itoa(len(d.topicIDs))
		d.topicIDs[name] = id
		shape := topicShape
		if d.internal[name] {
			shape = internalTopicShape
		}
		d.outside = append(d.outside, drawnNode{id, name, shape})
	}
	return id
}

func (d *drawing) connect(from, to string) { d.edges = append(d.edges, drawnEdge{from, to, false}) }

func (d *drawing) attach(from, to string) { d.edges = append(d.edges, drawnEdge{from, to, true}) }

func (d *drawing) addNodes(label string, nodes []kmsg.TopologyDescriptionNode, patterns map[string]string) {
	g := drawnGroup{label: label}
	ids := make(map[string]string, len(nodes))
	for i := range nodes {
		ids[nodes[i].Name] = d.next()
	}
	stores := map[string]string{}
	for i := range nodes {
		for _, name := range nodes[i].Stores {
			stores[name] = ""
		}
	}
	storeNames := slices.Sorted(maps.Keys(stores))
	for _, name := range storeNames {
		stores[name] = d.next()
	}
	for i := range nodes {
		node, id := &nodes[i], ids[nodes[i].Name]
		shape := processorShape
		switch nodeKind(node.NodeType) {
		case sourceNode:
			shape = sourceShape
			for _, topic := range node.SourceTopics {
				d.connect(d.topic(topic), id)
			}
			if p, ok := patterns[node.Name]; ok {
				d.connect(d.topic("/"+p+"/"), id)
			}
		case sinkNode:
			shape = sinkShape
			if node.SinkTopic != nil {
				d.connect(id, d.topic(*node.SinkTopic))
			}
		case processorNode:
		}
		g.nodes = append(g.nodes, drawnNode{id, node.Name, shape})
		for _, child := range node.Successors {
			d.connect(id, ids[child])
		}
		for _, store := range node.Stores {
			d.attach(id, stores[store])
		}
	}
	for _, name := range storeNames {
		g.nodes = append(g.nodes, drawnNode{stores[name], name, storeShape})
	}
	d.groups = append(d.groups, g)
}

func (d *drawing) addSubtopology(s *kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) {
	id := d.next()
	d.outside = append(d.outside, drawnNode{id, "Sub-topology " + s.SubtopologyID, processorShape})
	patterns := make([]string, len(s.SourceTopicRegex))
	for i, p := range s.SourceTopicRegex {
		patterns[i] = "/" + p + "/"
	}
	for _, topic := range set(s.SourceTopics, topicNames(s.RepartitionSourceTopics), patterns) {
		d.connect(d.topic(topic), id)
	}
	for _, topic := range set(s.RepartitionSinkTopics) {
		d.connect(id, d.topic(topic))
	}
	for _, topic := range set(topicNames(s.StateChangelogTopics)) {
		d.internal[topic] = true
		d.attach(id, d.topic(topic))
	}
}
