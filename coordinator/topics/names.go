package topics

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

const maxTopicName = 249

// IsInternal is whether a topic belongs to the cluster itself. A topology must
// not name such a topic, and no source pattern matches one.
func IsInternal(topic string) bool {
	switch topic {
	case "__consumer_offsets", "__transaction_state", "__share_group_state":
		return true
	}
	return false
}

// ValidateNames checks that all topics of the topology have legal names and none
// is internal to the cluster. [Validate] does so too; a broker asks this first,
// before it looks at what the principal may do. The error is an
// *[InvalidTopologyError].
func ValidateNames(t *record.Topology) error {
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		for name := range namedBy(s) {
			if fault := nameFault(name); fault != "" {
				return &InvalidTopologyError{
					Subtopology: s.ID,
					Topic:       name,
					Reason:      fmt.Sprintf("subtopology %q names the topic %q, which %s", s.ID, name, fault),
				}
			}
		}
	}
	return nil
}

func nameFault(name string) string {
	switch {
	case IsInternal(name):
		return "is internal to the cluster: use another topic"
	case name == "":
		return "is no topic name: it is empty"
	case name == "." || name == "..":
		return "is no topic name: use letters too"
	case len(name) > maxTopicName:
		return fmt.Sprintf("is too long: %d characters, at most %d are allowed", len(name), maxTopicName)
	case strings.IndexFunc(name, illegalInName) >= 0:
		return "is no legal topic name: use letters, digits, '.', '_' and '-' only"
	}
	return ""
}

func illegalInName(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
		return false
	}
	return true
}

// namedBy yields the topics that a subtopology names, repeated if it does so.
func namedBy(s *record.Subtopology) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, list := range [...][]string{s.SourceTopics, s.RepartitionSinkTopics} {
			for _, name := range list {
				if !yield(name) {
					return
				}
			}
		}
		for _, list := range [...][]record.TopicInfo{s.RepartitionSourceTopics, s.StateChangelogTopics} {
			for i := range list {
				if !yield(list[i].Name) {
					return
				}
			}
		}
	}
}

// Named returns the names of all topics that the topology names, pure sinks
// included, ascending, without duplicates: those that the principal of a join
// must be allowed to describe.
func Named(t *record.Topology) []string {
	var names []string
	for i := range t.Subtopologies {
		names = slices.AppendSeq(names, namedBy(&t.Subtopologies[i]))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Required returns the names of the topics that the topology needs to exist:
// source, repartition source and changelog topics, ascending, without
// duplicates. Topics that source patterns match are not among them, see
// [RequiredIn].
func Required(t *record.Topology) []string {
	var names []string
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		names = append(names, s.SourceTopics...)
		for j := range s.RepartitionSourceTopics {
			names = append(names, s.RepartitionSourceTopics[j].Name)
		}
		for j := range s.StateChangelogTopics {
			names = append(names, s.StateChangelogTopics[j].Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// RequiredIn returns what [Required] does and the topics of the image that the
// source patterns match. The image decides only if it is complete.
func RequiredIn(t *record.Topology, image *Image, o Options) []string {
	names := Required(t)
	if o.Kafka || !hasPatterns(t) {
		return names
	}
	for _, matches := range numberTopics(t, o).match(image).bySubtopology {
		for _, m := range matches {
			names = append(names, m...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func hasPatterns(t *record.Topology) bool {
	return slices.ContainsFunc(t.Subtopologies, func(s record.Subtopology) bool { return len(s.SourceTopicRegex) > 0 })
}
