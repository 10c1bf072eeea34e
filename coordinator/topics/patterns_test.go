package topics

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRX01KafkaRefusesPatterns(t *testing.T) {
	t.Parallel()
	top := topologyOf(sub("0", matches("in-.*")))
	assert.Equal(t, `subtopology "0" has the source pattern "in-.*", which Kafka does not support: name the source topics`, refused(t, top, kafka).Reason)
	assert.Equal(t, []string{}, append([]string{}, RequiredIn(top, counts{"in-a": 1}.image(), kafka)...))
}

func TestMatchesJoinTheSourceTopics(t *testing.T) {
	t.Parallel()
	top := topologyOf(sub("0", reads("extra"), matches("in-[a-z]", "other|in-b"), logs("c")))
	have := counts{"in-a": 2, "in-b": 5, "in-c1": 9, "other": 1, "extra": 3, "c": 5}
	got := configure(t, top, have, kip)
	require.True(t, got.Ready())
	s := got.Subtopologies[0]
	assert.Equal(t, []TopicCount{{"extra", 3}, {"in-a", 2}, {"in-b", 5}, {"other", 1}}, s.Sources)
	assert.Equal(t, []string{"in-a", "in-b", "other"}, s.Matched)
	assert.Equal(t, int32(5), s.Tasks)
	assert.Equal(t, []string{"c", "extra", "in-a", "in-b", "other"}, RequiredIn(top, have.image(), kip))
	assert.Equal(t, []string{"c", "extra"}, Required(top))
}

func TestRX03NoMatch(t *testing.T) {
	t.Parallel()
	top := topologyOf(sub("0", reads("b", "a"), matches("y.+", "x.+")), sub("1", matches("in.*")))
	status, detail := problem(t, top, counts{"in": 1, "y": 1}, kip)
	assert.Equal(t, StatusMissingSourceTopics, status)
	assert.Equal(t, "Source topics do not exist: a, b. Source patterns match no topic: x.+, y.+", detail)
}

func TestRX04WhatPatternsNeverMatch(t *testing.T) {
	t.Parallel()
	top := topologyOf(
		sub("0", reads("foo"), writes("r", "sink")),
		sub("1", matches(".*"), flex("r"), logs("c")),
	)
	have := counts{
		"foo": 1, "r": 1, "sink": 1, "c": 3, "__consumer_offsets": 50, "__transaction_state": 50, "__share_group_state": 50,
		"bar": 3, "__private": 1,
	}
	got := configure(t, top, have, kip)
	assert.Equal(t, []string{"__private", "bar"}, got.Subtopologies[1].Matched)
	assert.Empty(t, got.Subtopologies[0].Matched)
}

func TestPatternsMatchOnlyWhatMayBeDescribed(t *testing.T) {
	t.Parallel()
	top := topologyOf(sub("0", matches("in-.*")))
	asked := []string{}
	o := Options{Describable: func(topic string) bool {
		asked = append(asked, topic)
		return topic != "in-secret"
	}}
	got, err := Configure(top, counts{"in-a": 1, "in-secret": 9, "out": 1}.image(), o)
	require.NoError(t, err)
	assert.Equal(t, []string{"in-a"}, got.Subtopologies[0].Matched)
	assert.Equal(t, []string{"in-a", "in-secret"}, asked)
}

func TestRX06AnchoredAtBothEnds(t *testing.T) {
	t.Parallel()
	have := counts{"in-a": 1, "my-in": 1}
	for _, pattern := range []string{"in", "in|a", "^in$", "n-a|i"} {
		status, _ := problem(t, topologyOf(sub("0", matches(pattern))), have, kip)
		assert.Equal(t, StatusMissingSourceTopics, status, pattern)
	}
	for pattern, want := range map[string]string{"in-a|x": "in-a", "^in-a$": "in-a", "(?i)MY-IN": "my-in", "(?m)^in-.$": "in-a"} {
		got := configure(t, topologyOf(sub("0", matches(pattern))), have, kip)
		assert.Equal(t, []string{want}, got.Subtopologies[0].Matched, pattern)
	}
}

func TestRX07PatternsThatAreNotRE2(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"(a", "(?=a)b", "a)(b", `\1`, "(x{1000}){1000}"} {
		err := refused(t, topologyOf(sub("0", matches(pattern))), kip)
		assert.Equal(t, "0", err.Subtopology)
		assert.Contains(t, err.Reason, "no RE2 regular expression")
	}
}

func TestRX08TopicMatchedTwice(t *testing.T) {
	t.Parallel()
	top := topologyOf(sub("1", matches("in-.*", "in-a")), sub("0", matches(".*-a")), sub("2", matches("in-a|x")))
	status, detail := problem(t, top, counts{"in-a": 1, "in-b": 1}, kip)
	assert.Equal(t, StatusIncorrectlyPartitionedTopics, status)
	assert.Equal(t, `Source topics are matched by the patterns of several subtopologies: in-a (subtopologies "0", "1", "2")`, detail)
}

func TestPatternInACopartitionGroup(t *testing.T) {
	t.Parallel()
	top := topologyOf(feed("r"), sub("0", reads("a"), matches("in-.*"), flex("r"), together("a", "in-.*", "r")))
	got := configure(t, top, counts{"for-r": 9, "a": 2, "in-a": 2, "in-b": 2}, kip)
	assert.Equal(t, counts{"r": 2}, got.internal())

	status, detail := problem(t, top, counts{"for-r": 9, "a": 2, "in-a": 2, "in-b": 3}, kip)
	assert.Equal(t, StatusIncorrectlyPartitionedTopics, status)
	assert.Equal(t, `Source topics of subtopology "0" must have the same number of partitions: a=2, in-a=2, in-b=3`, detail)
}

func TestPatternAnchorsRepartitionCounts(t *testing.T) {
	t.Parallel()
	top := topologyOf(sub("0", matches("in-.*"), flex("x"), writes("y")), sub("1", flex("y"), writes("x")))
	assert.Equal(t, counts{"x": 4, "y": 4}, configure(t, top, counts{"in-a": 4, "in-b": 3}, kip).internal())
}

func TestPatternsNeedACompleteImage(t *testing.T) {
	t.Parallel()
	top := topologyOf(sub("0", matches("in-.*")))
	got, err := Configure(top, NewImage(1, counts{"in-a": 1}.topics()), kip)
	require.NoError(t, err)
	assert.Equal(t, &Problem{
		StatusMissingSourceTopics,
		"Source patterns cannot be resolved, the topics of the cluster are not all known yet: in-.*",
	}, got.Problem)
	assert.Empty(t, RequiredIn(top, NewImage(1, counts{"in-a": 1}.topics()), kip))
}

// Only names with the literal prefix of a pattern are looked at.
func TestPrefixSearchEqualsLookingAtAllNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		have := counts{}
		for _, name := range rapid.SliceOfN(rapid.StringMatching(`[ab.-]{1,4}`), 1, 20).Draw(t, "names") {
			if name != "." && name != ".." {
				have[name] = 1
			}
		}
		pattern := rapid.SampledFrom([]string{`a.*`, `ab|b`, `.*`, `(?i)AB.*`, `ab+`, `a[ab]b?`, `\.a.*`, `(a|b)+`, `aa(-|b).*`, `^a.*`, `b`, ``}).Draw(t, "pattern")
		whole := regexp.MustCompile(`^(` + pattern + `)$`)
		var want []string
		for _, name := range have.image().Names() {
			if whole.MatchString(name) {
				want = append(want, name)
			}
		}
		got := RequiredIn(topologyOf(sub("0", matches(pattern))), have.image(), kip)
		require.True(t, slices.Equal(want, got), fmt.Sprint(pattern, want, got))
	})
}
