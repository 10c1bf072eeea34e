package topics

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

func TestChangelogsAndTasks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		sub       record.Subtopology
		have      counts
		tasks     int32
		stateful  bool
		changelog []record.TopicInfo
	}{
		{
			"CL-01 no changelog",
			sub("s", reads("source"), fixed("r", 3)),
			counts{"source": 3},
			3, false, nil,
		},
		{
			"CL-02 changelog",
			sub("s", reads("source"), fixed("r", 3), logs("changelog1")),
			counts{"source": 3},
			3, true,
			[]record.TopicInfo{{Name: "changelog1", Partitions: 3}},
		},
		{
			"A17 source topic serves as changelog",
			sub("s", reads("source"), logs("source")),
			counts{"source": 3},
			3, true,
			[]record.TopicInfo{{Name: "source", Partitions: 3}},
		},
		{
			"CL-04 A17 source topic serves as changelog beside another one",
			sub("s", reads("source"), logs("source", "changelog1")),
			counts{"source": 3},
			3, true,
			[]record.TopicInfo{{Name: "changelog1", Partitions: 3}, {Name: "source", Partitions: 3}},
		},
		{
			"CL-07 source topics of different size",
			sub("s", reads("a", "b"), logs("changelog1")),
			counts{"a": 3, "b": 7},
			7, true,
			[]record.TopicInfo{{Name: "changelog1", Partitions: 7}},
		},
		{
			"CL-09 store without changelog",
			sub("s", reads("a")),
			counts{"a": 3},
			3, false, nil,
		},
		{
			"T-20 external topic greater than the repartition topic",
			sub("s", reads("foo"), fixed("r", 4), logs("c")),
			counts{"foo": 6},
			6, true,
			[]record.TopicInfo{{Name: "c", Partitions: 6}},
		},
		{
			"T-20 repartition topic greater than the external topic",
			sub("s", reads("foo"), fixed("r", 8), logs("c")),
			counts{"foo": 6},
			8, true,
			[]record.TopicInfo{{Name: "c", Partitions: 8}},
		},
		{
			"a changelog named twice",
			sub("s", reads("foo"), logs("c", "c")),
			counts{"foo": 6},
			6, true,
			[]record.TopicInfo{{Name: "c", Partitions: 6}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			eachPolicy(t, func(t policyT) {
				if t.o.Kafka && c.name == "a changelog named twice" {
					assert.Equal(t, "c", refused(t.T, topologyOf(c.sub), t.o).Topic)
					return
				}
				got := configure(t, topologyOf(c.sub), c.have, t.o)
				require.Len(t, got.Subtopologies, 1)
				s := got.Subtopologies[0]
				assert.Equal(t, c.tasks, s.Tasks)
				assert.Equal(t, c.stateful, s.Stateful)
				assert.Equal(t, c.changelog, s.Changelogs)
			})
		})
	}
}

func TestA17SourceThatServesAsChangelogKeepsItsCount(t *testing.T) {
	t.Parallel()
	top := topologyOf(sub("0", reads("table", "wide"), logs("table", "c")))
	have := counts{"table": 3, "wide": 5, "c": 5}

	got := configure(t, top, have, kip)
	assert.True(t, got.Ready())
	assert.Equal(t, counts{"table": 3, "c": 5}, got.internal())
	assert.True(t, got.Subtopologies[0].Stateful)

	status, detail := problem(t, top, have, kafka)
	assert.Equal(t, StatusIncorrectlyPartitionedTopics, status)
	assert.Equal(t, "Internal topics have the wrong number of partitions: table has 3, needs 5", detail)
}

func TestA17RepartitionTopicThatServesAsChangelogIsCreatedOnce(t *testing.T) {
	t.Parallel()
	top := topologyOf(feed("r"), sub("0", reads("wide"), flex("r"), logs("r")))
	have := counts{"for-r": 2, "wide": 5}

	got := configure(t, top, have, kip)
	assert.Equal(t, []NewTopic{{Name: "r", Partitions: 2, ReplicationFactor: -1}}, got.Create)
	assert.Equal(t, counts{"r": 2}, got.internal())

	// Kafka looks at the later one only.
	status, _ := problem(t, top, have, kafka)
	assert.Equal(t, StatusMissingInternalTopics, status)
	assert.Equal(t, []NewTopic{{Name: "r", Partitions: 5, ReplicationFactor: -1}}, configure(t, top, have, kafka).Create)
	have["r"] = 5
	assert.True(t, configure(t, top, have, kafka).Ready())
}

func TestT11CL10NoSubtopologies(t *testing.T) {
	t.Parallel()
	eachPolicy(t, func(t policyT) {
		assert.Equal(t, &Configured{TopologyEpoch: 7, Subtopologies: []Subtopology{}}, configure(t, topologyOf(), nil, t.o))
	})
}

// A topic that is listed as source and as repartition source counts as the
// latter, but as a listed source it has to exist.
func TestTopicListedAsSourceAndRepartitionSource(t *testing.T) {
	t.Parallel()
	top := topologyOf(feed("r"), sub("0", reads("r", "a"), flex("r"), together("r", "a")))
	eachPolicy(t, func(t policyT) {
		status, detail := problem(t, top, counts{"for-r": 4, "a": 2}, t.o)
		assert.Equal(t, StatusMissingSourceTopics, status)
		assert.Equal(t, "Source topics do not exist: r", detail)

		got := configure(t, top, counts{"for-r": 4, "a": 2, "r": 2}, t.o)
		assert.True(t, got.Ready())
		assert.Equal(t, []TopicCount{{"a", 2}, {"r", 2}}, got.Subtopologies[0].Sources)
	})
}

func TestSubtopologiesAreSortedByIDAsText(t *testing.T) {
	t.Parallel()
	top := topologyOf(sub("2", reads("b", "a")), sub("10", reads("c")), sub("1", fixed("z", 1), fixed("y", 2)))
	got := configure(t, top, counts{"a": 1, "b": 2, "c": 3}, kip)
	assert.Equal(t, []Subtopology{
		{
			ID: "1", Tasks: 2, Sources: []TopicCount{{"y", 2}, {"z", 1}},
			Repartition: []record.TopicInfo{{Name: "y", Partitions: 2}, {Name: "z", Partitions: 1}},
		},
		{ID: "10", Tasks: 3, Sources: []TopicCount{{"c", 3}}},
		{ID: "2", Tasks: 2, Sources: []TopicCount{{"a", 1}, {"b", 2}}},
	}, got.Subtopologies)
}

// What a real Kafka Streams sends is valid, and ready once the topics that it
// asks for are there.
func TestTopologiesOfKafkaStreams(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/kafka-streams.jsonl")
	require.NoError(t, err)
	n := 0
	for text := range bytes.Lines(file) {
		n++
		var line struct {
			Name     string
			Topology struct {
				Epoch         int32
				Subtopologies []struct {
					SubtopologyID           string
					SourceTopics            []string
					SourceTopicRegex        []string
					StateChangelogTopics    []topicJSON
					RepartitionSinkTopics   []string
					RepartitionSourceTopics []topicJSON
					CopartitionGroups       []record.CopartitionGroup
				}
			}
		}
		require.NoError(t, json.Unmarshal(text, &line))
		top := &record.Topology{Epoch: line.Topology.Epoch}
		have := counts{}
		for _, s := range line.Topology.Subtopologies {
			top.Subtopologies = append(top.Subtopologies, record.Subtopology{
				ID: s.SubtopologyID, SourceTopics: s.SourceTopics, SourceTopicRegex: s.SourceTopicRegex,
				StateChangelogTopics: topicInfos(s.StateChangelogTopics), RepartitionSinkTopics: s.RepartitionSinkTopics,
				RepartitionSourceTopics: topicInfos(s.RepartitionSourceTopics), CopartitionGroups: s.CopartitionGroups,
			})
			for _, source := range s.SourceTopics {
				have[source] = 6
			}
		}
		for policy, o := range both {
			require.NoError(t, Validate(top, o), "%s, %s", line.Name, policy)
			got, err := Configure(top, have.image(), o)
			require.NoError(t, err)
			if got.Problem != nil && got.Problem.Status == StatusIncorrectlyPartitionedTopics {
				continue // a fixed count of the topology does not fit our 6
			}
			created := have.topics()
			for _, c := range got.Create {
				created[c.Name] = Topic{Name: c.Name, Partitions: c.Partitions}
			}
			again, err := Configure(top, NewImage(2, created), o)
			require.NoError(t, err)
			assert.True(t, again.Ready(), "%s, %s: %+v", line.Name, policy, again.Problem)
			assert.Equal(t, got.Subtopologies, again.Subtopologies, line.Name)
		}
	}
	assert.Greater(t, n, 90)
}

type topicJSON struct {
	Name              string
	Partitions        int32
	ReplicationFactor int16
	TopicConfigs      []record.KeyValue
}

func topicInfos(list []topicJSON) []record.TopicInfo {
	infos := make([]record.TopicInfo, 0, len(list))
	for _, i := range list {
		infos = append(infos, record.TopicInfo{Name: i.Name, Partitions: i.Partitions, ReplicationFactor: i.ReplicationFactor, Configs: i.TopicConfigs})
	}
	return infos
}
