package topics

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

func TestMatches(t *testing.T) {
	t.Parallel()
	byName := map[string]Topic{}
	for _, name := range []string{"b1", "a2", "a1", "c"} {
		byName[name] = Topic{Name: name, Partitions: 1}
	}
	patterns := &record.Topology{Subtopologies: []record.Subtopology{
		{ID: "1", SourceTopicRegex: []string{"a.", ".1"}},
		{ID: "0", SourceTopics: []string{"c"}},
		{ID: "2", SourceTopicRegex: []string{"nothing"}},
		{ID: "3", SourceTopics: []string{"missing"}, SourceTopicRegex: []string{"b.*"}}, // not ready for two reasons
	}}
	image := NewCompleteImage(1, byName)
	assert.Equal(t, map[string][]string{"1": {"a1", "a2", "b1"}, "3": {"b1"}}, Matches(patterns, image, Options{}))
	assert.Nil(t, Matches(patterns, NewImage(1, byName), Options{}), "the image is not complete")
	assert.Nil(t, Matches(patterns, image, Options{Kafka: true}))
	assert.Nil(t, Matches(&record.Topology{Subtopologies: []record.Subtopology{{ID: "0", SourceTopics: []string{"c"}}}}, image, Options{}))
}
