package topics

import (
	"fmt"
	"regexp/syntax"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// The estimate is of the order of what a pattern compiles to.
func TestPatternSizeIsThatOfTheProgram(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{
		"orders", "orders-.*", "(?i)in|out", "a{1000}", "(a{30}){30}", "((a|b){2,500})", "(x?){0,900}", `\pL+`, "(ab|cd|ef)*x{3,}",
		strings.Repeat("(a|b)", 300), `\Qa.b`,
	} {
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		require.NoError(t, err)
		prog, err := syntax.Compile(parsed.Simplify())
		require.NoError(t, err)
		size := patternSize(pattern)
		assert.GreaterOrEqual(t, 4*size, len(prog.Inst), pattern)
		assert.LessOrEqual(t, size-eachPattern, 100*len(prog.Inst), pattern)
	}
}

// Hostile patterns are refused before they cost anything.
func TestPatternsOfATopologyAreBounded(t *testing.T) {
	// rule 8.1-1
	t.Parallel()
	many := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("team-%d-.*", i))
		}
		return list
	}
	for _, tt := range []struct {
		name string
		subs [][]string
		ok   bool
	}{
		{"as people write them", [][]string{many(100), {"(orders|returns)-[a-z]+-v[0-9]{1,3}"}}, true},
		{"repetitions", [][]string{{strings.Repeat("(a{1000})", 11)}}, false},
		{"too many in one", [][]string{many(1000)}, false},
		{"too many together", [][]string{many(200), many(200)}, false},
		{"too long", [][]string{{strings.Repeat("a|", 1<<20)}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			top := &record.Topology{Group: "g"}
			for i, patterns := range tt.subs {
				top.Subtopologies = append(top.Subtopologies, record.Subtopology{ID: strconv.Itoa(i), SourceTopicRegex: patterns})
			}
			err := Validate(top, Options{})
			if tt.ok {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "source patterns that are too large, or too many")
			}
		})
	}
}

// Groups that come and go while no topic does leave no patterns behind for good.
func TestMatcherIsBounded(t *testing.T) {
	t.Parallel()
	var m Matcher
	image := NewCompleteImage(1, counts{"a": 1}.topics())
	for i := range 2_500 {
		m.match(fmt.Sprintf("a{1000}|b%d", i), image)
		require.LessOrEqual(t, m.size, maxRemembered)
	}
	assert.Less(t, len(m.patterns), 1000)
	want := 0
	for pattern, p := range m.patterns {
		want += patternSize(pattern) + len(p.names)
	}
	assert.Equal(t, want, m.size)
	m.match("a", NewCompleteImage(2, counts{"a": 1, "aa": 1}.topics()))
	m.match("a+", NewCompleteImage(3, counts{"a": 1, "aaa": 1}.topics()))
	want = 0
	for pattern, p := range m.patterns {
		want += patternSize(pattern) + len(p.names)
	}
	assert.Equal(t, want, m.size)
}
