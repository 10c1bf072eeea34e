package conformance

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Topo is a topology to join with. Topics are words that [C.Named] turns into
// names.
type Topo struct {
	Epoch int32
	Subs  []Sub
}

// Sub is one subtopology. Repartition topics and changelogs are written
// "word" or "word=partitions".
type Sub struct {
	ID           string
	Sources      []string
	Patterns     []string
	Sinks        []string // repartition sink topics
	Repartitions []Internal
	Changelogs   []Internal
	Copartition  []kmsg.StreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup
	// Verbatim keeps the names as they are, for names that must be illegal.
	Verbatim bool
}

// Internal is a repartition source or changelog topic.
type Internal struct {
	Word       string
	Partitions int32 // 0: the broker decides
	Replicas   int16
	Configs    [][2]string
}

// Reads is a subtopology without state that reads topics.
func Reads(id string, sources ...string) Sub { return Sub{ID: id, Sources: sources} }

// Keeps is a subtopology that reads a topic and keeps a changelog.
func Keeps(id, source, changelog string) Sub {
	return Sub{ID: id, Sources: []string{source}, Changelogs: []Internal{{Word: changelog}}}
}

// Topology makes a topology of epoch 0.
func Topology(subs ...Sub) Topo { return Topo{Subs: subs} }

// At is the same topology at another epoch.
func (t Topo) At(epoch int32) Topo { t.Epoch = epoch; return t }

// T1 reads the topic foo.
func T1() Topo { return Topology(Reads("s1", "foo")) }

// T2 reads foo and bar in two subtopologies.
func T2() Topo { return Topology(Reads("s1", "foo"), Reads("s2", "bar")) }

func (c *C) wire(t Topo) *kmsg.StreamsGroupHeartbeatRequestTopology {
	w := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	w.Epoch = t.Epoch
	w.Subtopologies = []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{}
	for _, s := range t.Subs {
		name := c.Named
		if s.Verbatim {
			name = func(word string) string { return word }
		}
		names := func(words []string) []string {
			out := []string{}
			for _, word := range words {
				out = append(out, name(word))
			}
			return out
		}
		infos := func(list []Internal) []kmsg.TopicInfo {
			out := []kmsg.TopicInfo{}
			for _, i := range list {
				info := kmsg.NewTopicInfo()
				info.Topic, info.NumPartitions, info.ReplicationFactor = name(i.Word), i.Partitions, i.Replicas
				for _, kv := range i.Configs {
					cfg := kmsg.NewTopicInfoConfig()
					cfg.Key, cfg.Value = kv[0], kv[1]
					info.Configs = append(info.Configs, cfg)
				}
				out = append(out, info)
			}
			return out
		}
		sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		sub.SubtopologyID = s.ID
		sub.SourceTopics = names(s.Sources)
		sub.SourceTopicRegex = names(s.Patterns)
		sub.RepartitionSinkTopics = names(s.Sinks)
		sub.RepartitionSourceTopics = infos(s.Repartitions)
		sub.StateChangelogTopics = infos(s.Changelogs)
		sub.CopartitionGroups = s.Copartition
		w.Subtopologies = append(w.Subtopologies, sub)
	}
	return &w
}

// Copartitioned is a copartition group of source topics and repartition source
// topics, by their index.
func Copartitioned(sources, repartitions []int16) kmsg.StreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup {
	g := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup()
	g.SourceTopics, g.RepartitionSourceTopics = sources, repartitions
	return g
}
