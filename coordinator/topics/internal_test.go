package topics

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// tb is the base topology of the IT cases.
func tb() *record.Topology {
	return topologyOf(
		sub("sub1", reads("source_topic1"), writes("repartition_topic"), changelog(record.TopicInfo{
			Name: "changelog1", Configs: []record.KeyValue{{Key: "cleanup.policy", Value: "compact"}},
		})),
		sub("sub2", reads("source_topic2"), repartition(record.TopicInfo{Name: "repartition_topic", ReplicationFactor: 3}),
			logs("changelog2"), together("source_topic2", "repartition_topic")),
	)
}

func TestIT01MissingInternalTopics(t *testing.T) {
	t.Parallel()
	eachPolicy(t, func(t policyT) {
		got := configure(t, tb(), counts{"source_topic1": 2, "source_topic2": 2, "changelog2": 2}, t.o)
		assert.Equal(t, &Problem{StatusMissingInternalTopics, "Internal topics do not exist: changelog1, repartition_topic"}, got.Problem)
		assert.Equal(t, counts{"sub1": 2, "sub2": 2}, got.tasks())
		assert.Equal(t, []NewTopic{
			{Name: "changelog1", Partitions: 2, ReplicationFactor: -1, Configs: []record.KeyValue{{Key: "cleanup.policy", Value: "compact"}}},
			{Name: "repartition_topic", Partitions: 2, ReplicationFactor: 3},
		}, got.Create)
	})
}

func TestIT03EverythingExists(t *testing.T) {
	t.Parallel()
	eachPolicy(t, func(t policyT) {
		got := configure(t, tb(), counts{"source_topic1": 2, "source_topic2": 2, "repartition_topic": 2, "changelog1": 2, "changelog2": 2}, t.o)
		assert.True(t, got.Ready())
		assert.Empty(t, got.Create)
		assert.Equal(t, counts{"sub1": 2, "sub2": 2}, got.tasks())
	})
}

func TestIT04ChangelogWithAnotherCount(t *testing.T) {
	t.Parallel()
	eachPolicy(t, func(t policyT) {
		got := configure(t, tb(), counts{"source_topic1": 2, "source_topic2": 2, "changelog2": 3}, t.o)
		assert.Equal(t, &Problem{StatusIncorrectlyPartitionedTopics, "Internal topics have the wrong number of partitions: changelog2 has 3, needs 2"}, got.Problem)
		assert.Empty(t, got.Create)
	})
}

func TestIT05GroupNarrowsTheRepartitionTopic(t *testing.T) {
	t.Parallel()
	eachPolicy(t, func(t policyT) {
		got := configure(t, tb(), counts{"source_topic1": 4, "source_topic2": 2}, t.o)
		assert.Equal(t, counts{"sub1": 4, "sub2": 2}, got.tasks())
		assert.Equal(t, counts{"repartition_topic": 2, "changelog1": 4, "changelog2": 2}, got.internal())
	})
}

func TestIT06OnlyTheFirstProblem(t *testing.T) {
	t.Parallel()
	eachPolicy(t, func(t policyT) {
		status, detail := problem(t, tb(), counts{"source_topic2": 2, "changelog2": 3}, t.o)
		assert.Equal(t, StatusMissingSourceTopics, status)
		assert.Equal(t, "Source topics do not exist: source_topic1", detail)
	})
}

func TestT01IT07MissingSourceTopic(t *testing.T) {
	t.Parallel()
	eachPolicy(t, func(t policyT) {
		top := topologyOf(sub("s1", reads("foo")), sub("s2", reads("bar")))
		status, detail := problem(t, top, counts{"foo": 6}, t.o)
		assert.Equal(t, StatusMissingSourceTopics, status)
		assert.Equal(t, "Source topics do not exist: bar", detail)

		got := configure(t, top, counts{"foo": 6, "bar": 3}, t.o) // T-02
		assert.True(t, got.Ready())
		assert.Equal(t, counts{"s1": 6, "s2": 3}, got.tasks())
	})
}

func TestT03IT08MissingChangelog(t *testing.T) {
	t.Parallel()
	for _, factor := range []int16{0, -1} { // both are the broker's default
		top := topologyOf(sub("s1", reads("foo"), changelog(record.TopicInfo{Name: "bar", ReplicationFactor: factor})))
		got := configure(t, top, counts{"foo": 6}, kip)
		assert.Equal(t, &Problem{StatusMissingInternalTopics, "Internal topics do not exist: bar"}, got.Problem)
		assert.Equal(t, []NewTopic{{Name: "bar", Partitions: 6, ReplicationFactor: -1}}, got.Create)
		assert.Equal(t, counts{"s1": 6}, got.tasks())
		assert.False(t, got.Ready())

		assert.True(t, configure(t, top, counts{"foo": 6, "bar": 6}, kip).Ready()) // IT-09
	}
}

func TestIT12DifferingConfigsAreNoProblem(t *testing.T) {
	t.Parallel()
	top := tb()
	have := counts{"source_topic1": 2, "source_topic2": 2, "repartition_topic": 2, "changelog1": 2, "changelog2": 2}.topics()

	set := func(name string, configs map[string]string) *Image {
		topic := have[name]
		topic.Configs = configs
		have[name] = topic
		return NewImage(1, have)
	}
	for _, c := range []struct {
		topic   string
		configs map[string]string
		want    []ConfigDifference
	}{
		{"changelog1", map[string]string{"cleanup.policy": "delete", "retention.ms": "1"}, []ConfigDifference{{"changelog1", "cleanup.policy", "compact", "delete"}}},
		{"changelog1", map[string]string{}, []ConfigDifference{{"changelog1", "cleanup.policy", "compact", ""}}},
		{"changelog1", map[string]string{"cleanup.policy": "compact", "retention.ms": "1"}, nil},
		{"changelog1", nil, nil},
		{"changelog2", map[string]string{"retention.ms": "1"}, nil},
		{"source_topic1", map[string]string{"cleanup.policy": "delete"}, nil},
	} {
		image := set(c.topic, c.configs)
		got, err := Configure(top, image, kip)
		require.NoError(t, err)
		assert.True(t, got.Ready())
		assert.Equal(t, c.want, got.Differences)

		got, err = Configure(top, image, kafka)
		require.NoError(t, err)
		assert.True(t, got.Ready())
		assert.Empty(t, got.Differences)
		set(c.topic, nil)
	}
	for _, c := range []struct {
		wanted, actual int16
		differs        bool
	}{{3, 3, false}, {3, 2, true}, {0, 2, false}, {-1, 2, false}, {3, 0, false}} {
		topic := have["repartition_topic"]
		topic.ReplicationFactor = c.actual
		have["repartition_topic"] = topic
		for i := range top.Subtopologies {
			for j := range top.Subtopologies[i].RepartitionSourceTopics {
				top.Subtopologies[i].RepartitionSourceTopics[j].ReplicationFactor = c.wanted
			}
		}
		got, err := Configure(top, NewImage(1, have), kip)
		require.NoError(t, err)
		assert.Equal(t, c.differs, len(got.Differences) == 1, "%+v", c)
	}
}

func TestT21DetailLength(t *testing.T) {
	t.Parallel()
	sources := topologyOf(sub("0", reads("e", "b")), sub("1", reads("d", "a", "c", "f")))
	logged := topologyOf(sub("0", reads("in"), logs("e", "b", "d", "a", "c")))

	status, detail := problem(t, sources, counts{"f": 1}, kafka)
	assert.Equal(t, StatusMissingSourceTopics, status)
	assert.Equal(t, "Source topics do not exist: a, b, c and 2 more", detail)
	_, detail = problem(t, sources, counts{"f": 1}, kip)
	assert.Equal(t, "Source topics do not exist: a, b, c, d, e", detail)
	_, detail = problem(t, sources, counts{"f": 1, "d": 1, "e": 1}, kafka)
	assert.Equal(t, "Source topics do not exist: a, b, c", detail)

	status, detail = problem(t, logged, counts{"in": 1}, kafka)
	assert.Equal(t, StatusMissingInternalTopics, status)
	assert.Equal(t, "Internal topics do not exist: a, b, c and 2 more", detail)
	_, detail = problem(t, logged, counts{"in": 1}, kip)
	assert.Equal(t, "Internal topics do not exist: a, b, c, d, e", detail)
	assert.Len(t, configure(t, logged, counts{"in": 1}, kafka).Create, 5)
}

func TestIT18IT19GrowingSourceTopic(t *testing.T) {
	t.Parallel()
	eachPolicy(t, func(t policyT) {
		stateless := topologyOf(sub("0", reads("foo")))
		assert.Equal(t, counts{"0": 6}, configure(t, stateless, counts{"foo": 6}, t.o).tasks())
		assert.Equal(t, counts{"0": 8}, configure(t, stateless, counts{"foo": 8}, t.o).tasks())

		stateful := topologyOf(sub("0", reads("foo"), logs("c")))
		assert.True(t, configure(t, stateful, counts{"foo": 6, "c": 6}, t.o).Ready())
		status, detail := problem(t, stateful, counts{"foo": 8, "c": 6}, t.o)
		assert.Equal(t, StatusIncorrectlyPartitionedTopics, status)
		assert.Equal(t, "Internal topics have the wrong number of partitions: c has 6, needs 8", detail)
	})
}

func TestIT23PureSinkIsIgnored(t *testing.T) {
	t.Parallel()
	eachPolicy(t, func(t policyT) {
		got := configure(t, topologyOf(sub("0", reads("a"), writes("nobody-reads-it"))), counts{"a": 3}, t.o)
		assert.True(t, got.Ready())
		assert.Empty(t, got.Create)
	})
}

func TestTwoSubtopologiesWantOneChangelog(t *testing.T) {
	t.Parallel()
	top := topologyOf(sub("0", reads("a"), logs("c")), sub("1", reads("b"), logs("c")))
	eachPolicy(t, func(t policyT) {
		status, detail := problem(t, top, counts{"a": 2, "b": 3}, t.o)
		if t.o.Kafka { // the later count holds for both
			assert.Equal(t, StatusMissingInternalTopics, status)
			assert.Equal(t, []NewTopic{{Name: "c", Partitions: 3, ReplicationFactor: -1}}, configure(t, top, counts{"a": 2, "b": 3}, t.o).Create)
			got := configure(t, top, counts{"a": 2, "b": 3, "c": 3}, t.o)
			assert.True(t, got.Ready())
			assert.EqualValues(t, 3, got.Subtopologies[0].Changelogs[0].Partitions)
			status, detail = problem(t, top, counts{"a": 2, "b": 3, "c": 2}, t.o)
			assert.Equal(t, StatusIncorrectlyPartitionedTopics, status)
			assert.Equal(t, "Internal topics have the wrong number of partitions: c has 2, needs 3", detail)
			return
		}
		assert.Equal(t, StatusIncorrectlyPartitionedTopics, status)
		assert.Equal(t, `Internal topics have the wrong number of partitions: c needs 2 for subtopology "0" and 3 for subtopology "1"`, detail)
		assert.Len(t, configure(t, top, counts{"a": 2, "b": 2}, t.o).Create, 1)
	})
}
