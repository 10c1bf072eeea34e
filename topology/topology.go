package topology

import (
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Topology is what an application is: its subtopologies, topics and stores,
// named for one application id, at one topology epoch. It is immutable and safe
// for concurrent use. Build one with a [Builder], or read one with [FromWire] or
// [FromDescribe].
type Topology struct {
	epoch       int32
	subs        []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology // sorted by id
	byID        map[string]int
	description *kmsg.TopologyDescription
	patterns    map[string]string // of source nodes; not part of a description
	described   bool              // without patterns and copartition groups
}

func newTopology(epoch int32, subs []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology, d *kmsg.TopologyDescription) (*Topology, error) {
	t := &Topology{epoch: epoch, subs: subs, byID: make(map[string]int, len(subs)), description: d, patterns: map[string]string{}}
	slices.SortFunc(t.subs, func(a, b kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) int {
		return strings.Compare(a.SubtopologyID, b.SubtopologyID)
	})
	for i := range t.subs {
		id := t.subs[i].SubtopologyID
		if _, ok := t.byID[id]; ok {
			return nil, &Error{Kind: KindSubtopology, Name: id, Reason: "the id is used twice", Remedy: "give each subtopology an id of its own"}
		}
		t.byID[id] = i
	}
	return t, nil
}

// Epoch is the topology epoch.
func (t *Topology) Epoch() int32 { return t.epoch }

// Wire returns the topology as a heartbeat carries it. A topology that was built
// is sorted at every level (rules TP-18 and TP-19); one that was read with
// [FromWire] has its subtopologies sorted and all else as it was given. The
// caller owns the result.
func (t *Topology) Wire() *kmsg.StreamsGroupHeartbeatRequestTopology {
	w := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	w.Epoch = t.epoch
	w.Subtopologies = copySubtopologies(t.subs)
	return &w
}

// FromWire reads a topology from a heartbeat. It keeps no reference to its
// argument. The order of the lists within a subtopology stays as it is: a broker
// compares it, and Kafka's clients do not sort all of them (rule TP-19), so a
// member that takes over a topology has to repeat it. A topology read this way
// has no description.
//
// It refuses, with an [*Error], what no reader could make sense of: a missing
// topology, a negative epoch, one id for two subtopologies, and copartition
// indexes that point nowhere.
func FromWire(w *kmsg.StreamsGroupHeartbeatRequestTopology) (*Topology, error) {
	if w == nil {
		return nil, &Error{Kind: KindSetting, Name: "topology", Reason: "the heartbeat carries none", Remedy: "send the topology with the join"}
	}
	if w.Epoch < 0 {
		return nil, negativeEpoch(w.Epoch)
	}
	for i := range w.Subtopologies {
		s := &w.Subtopologies[i]
		for _, g := range s.CopartitionGroups {
			if !within(g.SourceTopics, len(s.SourceTopics)) || !within(g.SourceTopicRegex, len(s.SourceTopicRegex)) || !within(g.RepartitionSourceTopics, len(s.RepartitionSourceTopics)) {
				return nil, &Error{Kind: KindSubtopology, Name: s.SubtopologyID, Reason: "a copartition group has an index outside of the list of topics", Remedy: "count from 0 in the lists of the same subtopology"}
			}
		}
	}
	return newTopology(w.Epoch, copySubtopologies(w.Subtopologies), nil)
}

func within(indexes []int16, n int) bool {
	return !slices.ContainsFunc(indexes, func(i int16) bool { return i < 0 || int(i) >= n })
}

// Description returns what StreamsGroupTopologyDescriptionUpdate (KIP-1331)
// carries: the nodes of each subtopology. The caller owns the result. It is nil
// for a topology that was read with [FromWire], or from a group for which the
// broker has no description.
func (t *Topology) Description() *kmsg.TopologyDescription {
	if t.description == nil {
		return nil
	}
	return copyDescription(t.description)
}

// Subtopologies returns the ids in wire order.
func (t *Topology) Subtopologies() []string {
	ids := make([]string, len(t.subs))
	for i := range t.subs {
		ids[i] = t.subs[i].SubtopologyID
	}
	return ids
}

// Has is whether the topology has a subtopology of that id.
func (t *Topology) Has(subtopology string) bool {
	_, ok := t.byID[subtopology]
	return ok
}

// Sources returns the external and the repartition source topics of a
// subtopology together, ascending. A task reads its partition of each. It is
// nil for an unknown subtopology.
func (t *Topology) Sources(subtopology string) []string {
	i, ok := t.byID[subtopology]
	if !ok {
		return nil
	}
	names := slices.Concat(t.subs[i].SourceTopics, topicNames(t.subs[i].RepartitionSourceTopics))
	slices.Sort(names)
	return slices.Compact(names)
}

// ExternalSources returns the source topics that the application does not own:
// they must exist before it starts. Of all subtopologies, ascending.
func (t *Topology) ExternalSources() []string {
	names := map[string]bool{}
	for i := range t.subs {
		for _, s := range t.subs[i].SourceTopics {
			names[s] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Changelogs returns the changelog topics of a subtopology, ascending. It is nil
// for an unknown subtopology.
func (t *Topology) Changelogs(subtopology string) []string {
	i, ok := t.byID[subtopology]
	if !ok {
		return nil
	}
	names := topicNames(t.subs[i].StateChangelogTopics)
	slices.Sort(names)
	return names
}

func topicNames(infos []kmsg.TopicInfo) []string {
	names := make([]string, len(infos))
	for i := range infos {
		names[i] = infos[i].Topic
	}
	return names
}

func copySubtopologies(in []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology {
	out := make([]kmsg.StreamsGroupHeartbeatRequestTopologySubtopology, len(in))
	for i := range in {
		s := in[i]
		s.UnknownTags = kmsg.Tags{}
		s.SourceTopics = slices.Clone(s.SourceTopics)
		s.SourceTopicRegex = slices.Clone(s.SourceTopicRegex)
		s.RepartitionSinkTopics = slices.Clone(s.RepartitionSinkTopics)
		s.StateChangelogTopics = copyTopics(s.StateChangelogTopics)
		s.RepartitionSourceTopics = copyTopics(s.RepartitionSourceTopics)
		s.CopartitionGroups = slices.Clone(s.CopartitionGroups)
		for j := range s.CopartitionGroups {
			g := &s.CopartitionGroups[j]
			g.UnknownTags = kmsg.Tags{}
			g.SourceTopics = slices.Clone(g.SourceTopics)
			g.SourceTopicRegex = slices.Clone(g.SourceTopicRegex)
			g.RepartitionSourceTopics = slices.Clone(g.RepartitionSourceTopics)
		}
		out[i] = s
	}
	return out
}

func copyTopics(in []kmsg.TopicInfo) []kmsg.TopicInfo {
	out := slices.Clone(in)
	for i := range out {
		out[i].UnknownTags = kmsg.Tags{}
		out[i].Configs = slices.Clone(out[i].Configs)
	}
	return out
}

func copyDescription(d *kmsg.TopologyDescription) *kmsg.TopologyDescription {
	c := *d
	c.Subtopologies = slices.Clone(d.Subtopologies)
	for i := range c.Subtopologies {
		nodes := slices.Clone(c.Subtopologies[i].Nodes)
		for j := range nodes {
			nodes[j] = copyNode(nodes[j])
		}
		c.Subtopologies[i].Nodes = nodes
	}
	c.GlobalStores = slices.Clone(d.GlobalStores)
	for i := range c.GlobalStores {
		c.GlobalStores[i].Source = copyNode(c.GlobalStores[i].Source)
		c.GlobalStores[i].Processor = copyNode(c.GlobalStores[i].Processor)
	}
	return &c
}

func copyNode(n kmsg.TopologyDescriptionNode) kmsg.TopologyDescriptionNode {
	n.SourceTopics = slices.Clone(n.SourceTopics)
	n.Stores = slices.Clone(n.Stores)
	n.Successors = slices.Clone(n.Successors)
	if n.SinkTopic != nil {
		topic := *n.SinkTopic
		n.SinkTopic = &topic
	}
	return n
}
