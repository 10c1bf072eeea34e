package topics

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRX07PatternsThatAreNoPatternBetweenAnchors(t *testing.T) {
	t.Parallel()
	// Text without an end, which would take the anchor in.
	got := configure(t, topologyOf(sub("0", matches(`\Qin.a`))), counts{"in.a": 1, "in-a": 1}, kip)
	assert.Equal(t, []string{"in.a"}, got.Subtopologies[0].Matched)
	// The largest repetitions that compile by themselves.
	for n := 900; n <= 1001; n++ {
		top := topologyOf(sub("0", matches(fmt.Sprintf("(a{%d}){1,3}b?", n))))
		_, err := Configure(top, counts{}.image(), kip)
		require.Equal(t, Validate(top, kip) == nil, err == nil)
	}
}

// What a matcher remembers changes nothing, whatever images and patterns come in
// what order.
func TestMatcherEqualsMatchingAfresh(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[ab_-]{1,3}`)
		pattern := rapid.SampledFrom([]string{`a.*`, `.*`, `b`, `(?i)A.`, `[ab]+`, `_?a-?`, `a|b.*`, `(`})
		var m Matcher
		have := counts{}
		images := []*Image{NewCompleteImage(0, have.topics())}
		for version := range rapid.IntRange(1, 12).Draw(t, "versions") {
			for range rapid.IntRange(0, 4).Draw(t, "changes") {
				if n := name.Draw(t, "name"); rapid.Bool().Draw(t, "create") {
					have[n] = 1
				} else {
					delete(have, n)
				}
			}
			images = append(images, NewCompleteImage(uint64(version+1), have.topics()))
			// Now and then a request comes with an image that is older.
			image := images[max(0, len(images)-1-rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "age"))]
			for range rapid.IntRange(0, 3).Draw(t, "patterns") {
				p := pattern.Draw(t, "pattern")
				top := topologyOf(sub("0", matches(p), reads("a")))
				require.Equal(t, RequiredIn(top, image, kip), RequiredIn(top, image, Options{Matcher: &m}), p)
				require.Equal(t, Matches(top, image, kip), Matches(top, image, Options{Matcher: &m}), p)
			}
		}
	})
}

func TestMatcherLooksAtNewTopicsOnly(t *testing.T) {
	t.Parallel()
	var m Matcher
	have := counts{}
	for i := range 100 {
		have[fmt.Sprintf("in-%d", i)] = 1
	}
	first := NewCompleteImage(1, have.topics())
	assert.Len(t, m.match("in-.*", first), 100)
	assert.Equal(t, m.match("in-.*", first), m.match("in-.*", NewCompleteImage(1, have.topics())), "the same version is the same image")

	// A search that finds nothing any more shows what is still looked for.
	m.patterns["in-.*"].search = search{"", regexp.MustCompile(`\Aout\z`)}
	delete(have, "in-7")
	have["in-new"], have["out"] = 1, 1
	got := m.match("in-.*", NewCompleteImage(2, have.topics()))
	assert.Len(t, got, 100)
	assert.NotContains(t, got, "in-7")
	assert.NotContains(t, got, "in-new")
	assert.Contains(t, got, "out")
	assert.Contains(t, m.match("in-.*", first), "in-7", "an older image is matched afresh")
}

func TestMatcherForgetsPatternsThatNobodyAsksFor(t *testing.T) {
	t.Parallel()
	var m Matcher
	image := func(version int) *Image { return NewCompleteImage(uint64(version), counts{"a": 1}.topics()) }
	m.match("a", image(0))
	m.match("b", image(0))
	for version := 1; version <= remembered+1; version++ {
		assert.Equal(t, []string{"a"}, m.match("a", image(version)))
	}
	assert.Len(t, m.patterns, 1)
	assert.Empty(t, m.match("b", image(remembered+1)))
}

// Whole names match between anchors exactly if the longest match is all of it.
func FuzzSearch(f *testing.F) {
	for _, seed := range []string{"a.*", `\Qa.b`, "(?i)in|out", "a|", "^a$", `\bx\b`, "(?s).", "(?m)^a$", "[[:alpha:]]+", "a{2,3}?", `\pL`, "(?U)a+"} {
		f.Add(seed, "a.b")
		f.Add(seed, "aaa")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if nameFault(name) != "" {
			return
		}
		s, err := newSearch(pattern)
		if err != nil {
			return
		}
		longest := regexp.MustCompile(pattern)
		longest.Longest()
		at := longest.FindStringIndex(name)
		whole := at != nil && at[0] == 0 && at[1] == len(name)
		require.Equal(t, whole, slices.Contains(s.in([]string{name}), name), "%q in %q", name, pattern)
	})
}

// BenchmarkPatternsWithANewTopic is what the creation of one topic costs, the
// image itself apart.
func BenchmarkPatternsWithANewTopic(b *testing.B) {
	for _, size := range []int{10_000, 100_000} {
		have := counts{}
		for i := range size {
			have[fmt.Sprintf("team-%d-topic-%d", i%100, i)] = 12
		}
		images := make([]*Image, 2)
		for i := range images {
			have[fmt.Sprintf("team-1-new-%d", i)] = 1
			images[i] = NewCompleteImage(1, have.topics())
		}
		for _, patterns := range []int{1, 100} {
			b.Run(fmt.Sprintf("topics=%d/patterns=%d", size, patterns), func(b *testing.B) {
				b.ReportAllocs()
				var m Matcher
				version := uint64(0)
				for b.Loop() {
					version++
					image := *images[version%2]
					image.version = version
					for i := range patterns {
						m.match("team-"+strconv.Itoa(i)+"-.*", &image)
					}
				}
			})
		}
	}
}
