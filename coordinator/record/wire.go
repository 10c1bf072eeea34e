package record

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FromWire makes the topology record of what a member sent. It shares no memory
// with its argument, strings included. Nothing is checked.
func FromWire(group string, w *kmsg.StreamsGroupHeartbeatRequestTopology) *Topology {
	return &Topology{
		Group:         group,
		Epoch:         w.Epoch,
		Subtopologies: convert(w.Subtopologies, subtopologyFromWire),
	}
}

func subtopologyFromWire(s kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) Subtopology {
	return Subtopology{
		ID:                      strings.Clone(s.SubtopologyID),
		SourceTopics:            convert(s.SourceTopics, strings.Clone),
		SourceTopicRegex:        convert(s.SourceTopicRegex, strings.Clone),
		StateChangelogTopics:    convert(s.StateChangelogTopics, topicInfoFromWire),
		RepartitionSinkTopics:   convert(s.RepartitionSinkTopics, strings.Clone),
		RepartitionSourceTopics: convert(s.RepartitionSourceTopics, topicInfoFromWire),
		CopartitionGroups:       convert(s.CopartitionGroups, copartitionGroupFromWire),
	}
}

func topicInfoFromWire(t kmsg.TopicInfo) TopicInfo {
	return TopicInfo{
		Name:              strings.Clone(t.Topic),
		Partitions:        t.NumPartitions,
		ReplicationFactor: t.ReplicationFactor,
		Configs: convert(t.Configs, func(c kmsg.TopicInfoConfig) KeyValue {
			return KeyValue{Key: strings.Clone(c.Key), Value: strings.Clone(c.Value)}
		}),
	}
}

func copartitionGroupFromWire(g kmsg.StreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup) CopartitionGroup {
	same := func(i int16) int16 { return i }
	return CopartitionGroup{
		SourceTopics:            convert(g.SourceTopics, same),
		SourceTopicRegex:        convert(g.SourceTopicRegex, same),
		RepartitionSourceTopics: convert(g.RepartitionSourceTopics, same),
	}
}

// convert returns nil for an empty list, as decoding a record does.
func convert[A, B any](in []A, one func(A) B) []B {
	if len(in) == 0 {
		return nil
	}
	out := make([]B, len(in))
	for i := range in {
		out[i] = one(in[i])
	}
	return out
}

// Equal is whether two topologies have the same epoch and the same
// subtopologies, in any order, each with the same lists in the same order: the
// comparison that decides whether a member may join. Group and OlderEpochs do
// not count, and a nil list equals an empty one.
func Equal(a, b *Topology) bool {
	return a.Epoch == b.Epoch && len(a.Subtopologies) == len(b.Subtopologies) &&
		slices.EqualFunc(byID(a), byID(b), equalSubtopology)
}

func byID(t *Topology) []*Subtopology {
	list := make([]*Subtopology, len(t.Subtopologies))
	for i := range list {
		list[i] = &t.Subtopologies[i]
	}
	slices.SortStableFunc(list, func(a, b *Subtopology) int { return strings.Compare(a.ID, b.ID) })
	return list
}

func equalSubtopology(a, b *Subtopology) bool {
	return a.ID == b.ID &&
		slices.Equal(a.SourceTopics, b.SourceTopics) &&
		slices.Equal(a.SourceTopicRegex, b.SourceTopicRegex) &&
		slices.EqualFunc(a.StateChangelogTopics, b.StateChangelogTopics, equalTopicInfo) &&
		slices.Equal(a.RepartitionSinkTopics, b.RepartitionSinkTopics) &&
		slices.EqualFunc(a.RepartitionSourceTopics, b.RepartitionSourceTopics, equalTopicInfo) &&
		slices.EqualFunc(a.CopartitionGroups, b.CopartitionGroups, equalCopartitionGroup)
}

func equalTopicInfo(a, b TopicInfo) bool {
	return a.Name == b.Name && a.Partitions == b.Partitions && a.ReplicationFactor == b.ReplicationFactor &&
		slices.Equal(a.Configs, b.Configs)
}

func equalCopartitionGroup(a, b CopartitionGroup) bool {
	return slices.Equal(a.SourceTopics, b.SourceTopics) &&
		slices.Equal(a.SourceTopicRegex, b.SourceTopicRegex) &&
		slices.Equal(a.RepartitionSourceTopics, b.RepartitionSourceTopics)
}
