package topics

import (
	"fmt"
	"slices"
	"strings"
)

// matched is what the source patterns of a topology match.
type matched struct {
	bySubtopology [][][]string // by position in plan.subs and in SourceTopicRegex
	// without are the patterns without a match and unresolved those that could
	// not be looked up because the image is not complete, both ascending.
	without, unresolved []string
}

// match resolves the source patterns. They never match a topic that is internal
// to the cluster or that the topology names: explicit sources keep their
// subtopology, and an application must not read its own changelogs because of a
// pattern.
func (p *plan) match(image *Image) matched {
	m := matched{bySubtopology: make([][][]string, len(p.subs))}
	for i := range p.subs {
		patterns := p.subs[i].SourceTopicRegex
		if len(patterns) == 0 {
			continue
		}
		if !image.complete {
			m.unresolved = append(m.unresolved, patterns...)
			continue
		}
		m.bySubtopology[i] = make([][]string, len(patterns))
		for j, pattern := range patterns {
			names := p.matchOne(pattern, image)
			if m.bySubtopology[i][j] = names; len(names) == 0 {
				m.without = append(m.without, pattern)
			}
		}
	}
	slices.Sort(m.without)
	slices.Sort(m.unresolved)
	m.without, m.unresolved = slices.Compact(m.without), slices.Compact(m.unresolved)
	return m
}

func (p *plan) matchOne(pattern string, image *Image) []string {
	var names []string
	for _, name := range p.options.Matcher.match(pattern, image) {
		if _, named := p.numbers[name]; named {
			continue
		}
		if p.options.Describable == nil || p.options.Describable(name) {
			names = append(names, name)
		}
	}
	return names
}

// sharedMatches is the problem of a topic that patterns of two subtopologies
// match: it would be read twice.
func (p *plan) sharedMatches(m matched) *Problem {
	readers := make(map[string][]int)
	var shared []string
	for i, patterns := range m.bySubtopology {
		for _, names := range patterns {
			for _, name := range names {
				switch r := readers[name]; {
				case len(r) > 0 && r[len(r)-1] == i:
				case len(r) == 1:
					shared = append(shared, name)
					fallthrough
				default:
					readers[name] = append(r, i)
				}
			}
		}
	}
	if len(shared) == 0 {
		return nil
	}
	slices.Sort(shared)
	for i, name := range shared {
		ids := make([]string, 0, len(readers[name]))
		for _, r := range readers[name] {
			ids = append(ids, fmt.Sprintf("%q", p.subs[r].ID))
		}
		shared[i] = name + " (subtopologies " + strings.Join(ids, ", ") + ")"
	}
	return &Problem{
		Status: StatusIncorrectlyPartitionedTopics,
		Detail: "Source topics are matched by the patterns of several subtopologies: " + p.options.enumerate(shared),
	}
}

// adopt makes the matches source topics of their subtopologies.
func (p *plan) adopt(m matched, image *Image) {
	for i, patterns := range m.bySubtopology {
		if len(patterns) == 0 {
			continue
		}
		s := &p.subs[i]
		s.matches = make([][]int, len(patterns))
		for j, names := range patterns {
			s.matches[j] = p.addAll(names)
			for _, n := range s.matches[j] {
				p.lookUpTopic(&p.topics[n], image)
			}
		}
		s.external = p.external(slices.Concat(append([][]int{s.listed}, s.matches...)...), s.repartition)
	}
}
