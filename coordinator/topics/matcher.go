package topics

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// Matcher remembers which topics the source patterns match, for all groups
// together, so that a topic is held against a pattern once and not with every
// new version of the image: of a newer complete image only the topics are looked
// at that the one before did not have. What is remembered changes no result.
//
// The zero value is ready to use. It is not safe for concurrent use.
type Matcher struct {
	image    *Image // the newest complete one
	patterns map[string]*matching
	size     int // of all patterns and names that are remembered
	// turn counts the images. A pattern that no group has asked for in a while is
	// forgotten.
	turn uint64
}

// matching is what is known of one pattern.
type matching struct {
	search search
	names  []string // ascending; never written to
	asked  uint64   // turn
}

// remembered is for how many images a pattern is kept up that nobody asks for.
const remembered = 64

// maxRemembered bounds what is remembered, as many groups as may come and go
// while the topics stay the same. Beyond it everything is forgotten.
const maxRemembered = 100 * maxPatterns

// match returns the topics of a complete image that match a pattern, ascending.
// The caller must not change them. A pattern that does not compile has none.
func (m *Matcher) match(pattern string, image *Image) []string {
	if m == nil || m.image != nil && image.version < m.image.version {
		s, _ := newSearch(pattern)
		return s.in(image.names)
	}
	m.advance(image)
	p := m.patterns[pattern]
	if p == nil {
		s, _ := newSearch(pattern)
		p = &matching{search: s, names: s.in(image.names)}
		size := patternSize(pattern) + len(p.names)
		if m.size += size; m.size > maxRemembered || m.patterns == nil {
			m.patterns, m.size = make(map[string]*matching), size
		}
		m.patterns[pattern] = p
	}
	p.asked = m.turn
	return p.names
}

// advance brings what is known up to a newer image.
func (m *Matcher) advance(image *Image) {
	if m.image == nil {
		m.image = image
	}
	if m.image.version == image.version {
		return
	}
	m.turn++
	added, deleted := changes(m.image.names, image.names)
	m.image = image
	for pattern, p := range m.patterns {
		if m.turn-p.asked > remembered {
			delete(m.patterns, pattern)
			m.size -= patternSize(pattern) + len(p.names)
			continue
		}
		m.size -= len(p.names)
		if more := p.search.in(added); len(more) > 0 {
			p.names = slices.Concat(p.names, more)
			slices.Sort(p.names)
		}
		if gone := func(name string) bool { _, is := slices.BinarySearch(deleted, name); return is }; len(deleted) > 0 && slices.ContainsFunc(p.names, gone) {
			p.names = slices.DeleteFunc(slices.Clone(p.names), gone)
		}
		m.size += len(p.names)
	}
}

// changes returns what is in only one of two ascending lists.
func changes(before, after []string) (added, deleted []string) {
	for len(before) > 0 && len(after) > 0 {
		switch b, a := before[0], after[0]; {
		case b == a:
			before, after = before[1:], after[1:]
		case b < a:
			deleted, before = append(deleted, b), before[1:]
		default:
			added, after = append(added, a), after[1:]
		}
	}
	return append(added, after...), append(deleted, before...)
}

// search looks for names that match a pattern. Patterns are RE2, as Go's, and
// must match a whole name. Topics that are internal to the cluster never match.
type search struct {
	prefix string
	whole  *regexp.Regexp // nil for a pattern that does not compile: it matches nothing
}

func newSearch(pattern string) (search, error) {
	alone, err := regexp.Compile(pattern)
	if err != nil {
		return search{}, err
	}
	// The pattern is put between anchors in the form that it has been understood
	// in: a \Q without an end would take the anchor for text.
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return search{}, err
	}
	whole, err := regexp.Compile(`\A(?:` + parsed.String() + `)\z`)
	if err != nil {
		return search{}, err // it is too large together with the anchors
	}
	// The prefix is that of the pattern by itself: anchors hide it.
	prefix, _ := alone.LiteralPrefix()
	return search{prefix, whole}, nil
}

// in returns the names of an ascending list that match.
func (s search) in(names []string) []string {
	if s.whole == nil {
		return nil
	}
	var found []string
	from, _ := slices.BinarySearch(names, s.prefix)
	for _, name := range names[from:] {
		if !strings.HasPrefix(name, s.prefix) {
			break
		}
		if s.whole.MatchString(name) && !IsInternal(name) {
			found = append(found, name)
		}
	}
	return found
}
