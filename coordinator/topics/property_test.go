package topics

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// anyTopology draws topologies that make sense more often than not: every
// topic has one reader, groups name what is there, counts are mostly open.
func anyTopology(t *rapid.T) (*record.Topology, counts) {
	n := rapid.IntRange(0, 6).Draw(t, "subtopologies")
	subs := make([]record.Subtopology, n)
	have := counts{}
	count := rapid.SampledFrom([]int32{1, 2, 2, 2, 3, 8})
	for i := range subs {
		subs[i].ID = strconv.Itoa(i * 4)
		for j := range rapid.IntRange(0, 2).Draw(t, "sources") {
			name := "source-" + strconv.Itoa(i) + "-" + strconv.Itoa(j)
			reads(name)(&subs[i])
			if rapid.IntRange(0, 20).Draw(t, "exists") > 0 {
				have[name] = count.Draw(t, "count")
			}
			if rapid.IntRange(0, 4).Draw(t, "reuse") == 0 {
				logs(name)(&subs[i])
			}
		}
		for j := range rapid.IntRange(0, 2).Draw(t, "changelogs") {
			logs("changelog-" + strconv.Itoa(i) + "-" + strconv.Itoa(j))(&subs[i])
		}
	}
	for i := range rapid.IntRange(0, min(n, 1)*10).Draw(t, "repartition topics") {
		name := "repartition-" + strconv.Itoa(i)
		reader := &subs[rapid.IntRange(0, n-1).Draw(t, "reader")]
		fixed(name, rapid.SampledFrom([]int32{0, 0, 0, 0, 2, 3}).Draw(t, "fixed"))(reader)
		writes(name)(&subs[rapid.IntRange(0, n-1).Draw(t, "writer")])
		if rapid.IntRange(0, 20).Draw(t, "exists") == 0 {
			have[name] = count.Draw(t, "count")
		}
	}
	for i := range subs {
		s := &subs[i]
		for range rapid.IntRange(0, 3).Draw(t, "groups") {
			s.CopartitionGroups = append(s.CopartitionGroups, record.CopartitionGroup{
				SourceTopics:            indexes(len(s.SourceTopics)).Draw(t, "sources"),
				RepartitionSourceTopics: indexes(len(s.RepartitionSourceTopics)).Draw(t, "repartition"),
			})
		}
	}
	return topologyOf(subs...), have
}

func indexes(n int) *rapid.Generator[[]int16] {
	if n == 0 {
		return rapid.Just([]int16(nil))
	}
	return rapid.SliceOfN(rapid.Int16Range(0, int16(n-1)), 0, 3)
}

// Creating what is asked for makes the topology ready, and changes nothing else.
func TestCreatingTheTopicsMakesItReady(t *testing.T) {
	t.Parallel()
	outcomes := map[int8]int{}
	rapid.Check(t, func(t *rapid.T) {
		top, have := anyTopology(t)
		o := rapid.SampledFrom([]Options{kip, kafka}).Draw(t, "policy")
		c, err := Configure(top, have.image(), o)
		if invalid := Validate(top, o) != nil; o.Kafka { // which finds some faults later
			require.True(t, err != nil || !invalid)
		} else {
			require.Equal(t, err != nil, invalid)
		}
		if err != nil {
			outcomes[-1]++
			return
		}
		if c.Ready() {
			outcomes[0]++
			return
		}
		outcomes[c.Problem.Status]++
		if c.Problem.Status != StatusMissingInternalTopics {
			return
		}
		for _, topic := range c.Create {
			require.Positive(t, topic.Partitions)
			have[topic.Name] = topic.Partitions
		}
		again, err := Configure(top, have.image(), o)
		require.NoError(t, err)
		require.Nil(t, again.Problem)
		require.Equal(t, c.Subtopologies, again.Subtopologies)
	})
	for _, status := range []int8{-1, 0, StatusMissingSourceTopics, StatusIncorrectlyPartitionedTopics, StatusMissingInternalTopics} {
		assert.Positive(t, outcomes[status], "no topology with outcome %d was drawn", status)
	}
}

// Whatever a member sends, the answer is a result or a typed error.
func TestAnythingFromTheWire(t *testing.T) {
	t.Parallel()
	name := rapid.SampledFrom([]string{"a", "b", "c", "", "a b", "__consumer_offsets"})
	names := rapid.SliceOfN(name, 0, 3)
	infos := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) record.TopicInfo {
		return record.TopicInfo{Name: name.Draw(t, "name"), Partitions: rapid.SampledFrom([]int32{0, 0, 0, 1, -1, 2147483647}).Draw(t, "n"), ReplicationFactor: rapid.Int16Range(-2, 1).Draw(t, "rf")}
	}), 0, 2)
	index := rapid.SliceOfN(rapid.Int16Range(-1, 2), 0, 2)
	subs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) record.Subtopology {
		return record.Subtopology{
			ID: rapid.SampledFrom([]string{"0", "1", "x", ""}).Draw(t, "id"), SourceTopics: names.Draw(t, "sources"),
			SourceTopicRegex:     rapid.SliceOfN(rapid.SampledFrom([]string{".*", "(", "b|c", "", "(?i)A"}), 0, 2).Draw(t, "patterns"),
			StateChangelogTopics: infos.Draw(t, "changelogs"), RepartitionSinkTopics: names.Draw(t, "sinks"), RepartitionSourceTopics: infos.Draw(t, "repartition"),
			CopartitionGroups: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) record.CopartitionGroup {
				return record.CopartitionGroup{SourceTopics: index.Draw(t, "s"), SourceTopicRegex: index.Draw(t, "p"), RepartitionSourceTopics: index.Draw(t, "r")}
			}), 0, 2).Draw(t, "groups"),
		}
	}), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		top := topologyOf(subs.Draw(t, "subtopologies")...)
		have := counts{}
		for _, n := range names.Draw(t, "exist") {
			have[n] = rapid.Int32Range(0, 3).Draw(t, "count")
		}
		o := rapid.SampledFrom([]Options{kip, kafka}).Draw(t, "policy")
		c, err := Configure(top, have.image(), o)
		RequiredIn(top, have.image(), o)
		if err != nil {
			var invalid *InvalidTopologyError
			require.ErrorAs(t, err, &invalid)
			require.NotEmpty(t, invalid.Reason)
			require.Nil(t, c)
			return
		}
		require.NoError(t, Validate(top, o))
		if !c.Ready() {
			require.NotEmpty(t, c.Problem.Detail)
		}
	})
}
