package topics

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

var (
	kip   = Options{}
	kafka = Options{Kafka: true}
	both  = map[string]Options{"kip1071": kip, "kafka": kafka}
)

type part func(*record.Subtopology)

func sub(id string, parts ...part) record.Subtopology {
	s := record.Subtopology{ID: id}
	for _, p := range parts {
		p(&s)
	}
	return s
}

func topologyOf(subs ...record.Subtopology) *record.Topology {
	return &record.Topology{Group: "app", Epoch: 7, Subtopologies: subs}
}

func reads(topics ...string) part {
	return func(s *record.Subtopology) { s.SourceTopics = append(s.SourceTopics, topics...) }
}

func matches(patterns ...string) part {
	return func(s *record.Subtopology) { s.SourceTopicRegex = append(s.SourceTopicRegex, patterns...) }
}

func writes(topics ...string) part {
	return func(s *record.Subtopology) { s.RepartitionSinkTopics = append(s.RepartitionSinkTopics, topics...) }
}

// flex adds repartition source topics without a count, fixed one with a count.
func flex(topics ...string) part {
	return func(s *record.Subtopology) {
		for _, t := range topics {
			s.RepartitionSourceTopics = append(s.RepartitionSourceTopics, record.TopicInfo{Name: t})
		}
	}
}

func fixed(topic string, partitions int32) part {
	return func(s *record.Subtopology) {
		s.RepartitionSourceTopics = append(s.RepartitionSourceTopics, record.TopicInfo{Name: topic, Partitions: partitions})
	}
}

func logs(topics ...string) part {
	return func(s *record.Subtopology) {
		for _, t := range topics {
			s.StateChangelogTopics = append(s.StateChangelogTopics, record.TopicInfo{Name: t})
		}
	}
}

// together adds a copartition group of topics and patterns named before.
func together(names ...string) part {
	return func(s *record.Subtopology) {
		var g record.CopartitionGroup
		for _, name := range names {
			if i := slices.Index(s.SourceTopics, name); i >= 0 {
				g.SourceTopics = append(g.SourceTopics, int16(i))
			} else if i := slices.Index(s.SourceTopicRegex, name); i >= 0 {
				g.SourceTopicRegex = append(g.SourceTopicRegex, int16(i))
			} else if i := slices.IndexFunc(s.RepartitionSourceTopics, func(t record.TopicInfo) bool { return t.Name == name }); i >= 0 {
				g.RepartitionSourceTopics = append(g.RepartitionSourceTopics, int16(i))
			} else {
				panic(name + " is no source of " + s.ID)
			}
		}
		s.CopartitionGroups = append(s.CopartitionGroups, g)
	}
}

type counts map[string]int32

// image is an image of topics that have nothing but a count.
func (c counts) image() *Image { return NewCompleteImage(1, c.topics()) }

func (c counts) topics() map[string]Topic {
	topics := make(map[string]Topic, len(c))
	for name, n := range c {
		topics[name] = Topic{ID: [16]byte{1}, Name: name, Partitions: n}
	}
	return topics
}

func configure(tb testing.TB, top *record.Topology, c counts, o Options) *Configured {
	tb.Helper()
	require.NoError(tb, Validate(top, o))
	got, err := Configure(top, c.image(), o)
	require.NoError(tb, err)
	require.Equal(tb, top.Epoch, got.TopologyEpoch)
	if got.Problem != nil && got.Problem.Status != StatusMissingInternalTopics {
		require.Empty(tb, got.Subtopologies)
		require.Empty(tb, got.Differences)
	}
	if got.Problem == nil || got.Problem.Status != StatusMissingInternalTopics {
		require.Empty(tb, got.Create)
	}
	return got
}

// problem returns status and detail of a topology that is not ready.
func problem(tb testing.TB, top *record.Topology, c counts, o Options) (int8, string) {
	tb.Helper()
	got := configure(tb, top, c, o)
	require.False(tb, got.Ready())
	return got.Problem.Status, got.Problem.Detail
}

// internal returns the counts of all repartition source and changelog topics.
func (c *Configured) internal() counts {
	found := counts{}
	for _, s := range c.Subtopologies {
		for _, list := range [][]record.TopicInfo{s.Repartition, s.Changelogs} {
			for _, i := range list {
				found[i.Name] = i.Partitions
			}
		}
	}
	return found
}

func (c *Configured) tasks() counts {
	found := counts{}
	for _, s := range c.Subtopologies {
		found[s.ID] = s.Tasks
	}
	return found
}

// refused returns why Validate and Configure refuse a topology. Kafka finds some
// faults only once all source topics exist.
func refused(tb testing.TB, top *record.Topology, o Options) *InvalidTopologyError {
	tb.Helper()
	var first, second *InvalidTopologyError
	if o.Kafka && Validate(top, o) == nil {
		there := counts{}
		for i := range top.Subtopologies {
			for _, name := range top.Subtopologies[i].SourceTopics {
				there[name] = 1
			}
		}
		_, err := Configure(top, there.image(), o)
		require.ErrorAs(tb, err, &second)
		return second
	}
	require.True(tb, errors.As(Validate(top, o), &first))
	_, err := Configure(top, counts{}.image(), o)
	require.ErrorAs(tb, err, &second)
	require.Equal(tb, first, second)
	require.Equal(tb, first.Reason, first.Error())
	return first
}

// policyT is a test under one policy.
type policyT struct {
	*testing.T
	o Options
}

func eachPolicy(t *testing.T, test func(t policyT)) {
	t.Helper()
	for name, o := range both {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(policyT{t, o})
		})
	}
}
