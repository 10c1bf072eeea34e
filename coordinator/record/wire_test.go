package record

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func sampleWire() *kmsg.StreamsGroupHeartbeatRequestTopology {
	return &kmsg.StreamsGroupHeartbeatRequestTopology{
		Epoch: 3,
		Subtopologies: []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{
			{
				SubtopologyID: "0", SourceTopics: []string{"lines", "more-lines"}, SourceTopicRegex: []string{"in-.*"},
				RepartitionSinkTopics: []string{"app-words-repartition"},
			},
			{
				SubtopologyID: "1", SourceTopics: []string{"users"}, SourceTopicRegex: []string{},
				StateChangelogTopics: []kmsg.TopicInfo{{
					Topic: "app-counts-changelog", ReplicationFactor: -1,
					Configs: []kmsg.TopicInfoConfig{{Key: "cleanup.policy", Value: "compact"}, {Key: "segment.bytes", Value: "52428800"}},
				}},
				RepartitionSourceTopics: []kmsg.TopicInfo{{Topic: "app-words-repartition", NumPartitions: 6, ReplicationFactor: 3}},
				CopartitionGroups: []kmsg.StreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup{
					{SourceTopics: []int16{0}, SourceTopicRegex: []int16{32767}, RepartitionSourceTopics: []int16{0}},
					{},
				},
			},
		},
	}
}

func TestFromWireCopiesDeeply(t *testing.T) {
	t.Parallel()
	w := sampleWire()
	got := FromWire("app", w)
	assert.Equal(t, sampleTopology(), got)

	s := &w.Subtopologies[1]
	s.SourceTopics[0] = "changed"
	s.StateChangelogTopics[0].Topic = "changed"
	s.StateChangelogTopics[0].Configs[0].Value = "changed"
	s.RepartitionSourceTopics[0].NumPartitions = 99
	s.CopartitionGroups[0].SourceTopics[0] = 99
	w.Subtopologies[0].SourceTopicRegex[0] = "changed"
	w.Subtopologies[0].RepartitionSinkTopics[0] = "changed"
	assert.Equal(t, sampleTopology(), got)

	assert.Equal(t, &Topology{Group: "app"}, FromWire("app", &kmsg.StreamsGroupHeartbeatRequestTopology{}))
}

func TestT12EqualIgnoresTheOrderOfSubtopologies(t *testing.T) {
	t.Parallel()
	a, b := sampleTopology(), sampleTopology()
	require.True(t, Equal(a, b))
	slices.Reverse(b.Subtopologies)
	assert.True(t, Equal(a, b))
	assert.Equal(t, "1", b.Subtopologies[0].ID, "the arguments stay as they are")

	b.Group = "other"
	b.OlderEpochs = []OlderEpoch{{Epoch: 2}}
	b.Subtopologies[0].SourceTopicRegex = []string{}
	assert.True(t, Equal(a, b), "group, older epochs and nil lists do not count")
}

func TestT12EqualSeesEveryDifference(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Topology){
		"epoch":                   func(t *Topology) { t.Epoch++ },
		"a subtopology less":      func(t *Topology) { t.Subtopologies = t.Subtopologies[:1] },
		"another id":              func(t *Topology) { t.Subtopologies[0].ID = "2" },
		"the same id twice":       func(t *Topology) { t.Subtopologies[0] = t.Subtopologies[1] },
		"order of source topics":  func(t *Topology) { slices.Reverse(t.Subtopologies[0].SourceTopics) },
		"pattern":                 func(t *Topology) { t.Subtopologies[0].SourceTopicRegex[0] = "in-.+" },
		"sink":                    func(t *Topology) { t.Subtopologies[0].RepartitionSinkTopics[0] = "x" },
		"changelog name":          func(t *Topology) { t.Subtopologies[1].StateChangelogTopics[0].Name = "x" },
		"replication factor":      func(t *Topology) { t.Subtopologies[1].StateChangelogTopics[0].ReplicationFactor = 0 },
		"order of configs":        func(t *Topology) { slices.Reverse(t.Subtopologies[1].StateChangelogTopics[0].Configs) },
		"config value":            func(t *Topology) { t.Subtopologies[1].StateChangelogTopics[0].Configs[0].Value = "delete" },
		"repartition count":       func(t *Topology) { t.Subtopologies[1].RepartitionSourceTopics[0].Partitions = 7 },
		"order of copartitioning": func(t *Topology) { slices.Reverse(t.Subtopologies[1].CopartitionGroups) },
		"copartitioned source":    func(t *Topology) { t.Subtopologies[1].CopartitionGroups[0].SourceTopics[0] = 1 },
		"copartitioned pattern":   func(t *Topology) { t.Subtopologies[1].CopartitionGroups[0].SourceTopicRegex = nil },
		"copartitioned internal":  func(t *Topology) { t.Subtopologies[1].CopartitionGroups[0].RepartitionSourceTopics[0] = 1 },
	} {
		a, b := sampleTopology(), sampleTopology()
		change(b)
		assert.False(t, Equal(a, b), name)
		assert.False(t, Equal(b, a), name)
	}
}
