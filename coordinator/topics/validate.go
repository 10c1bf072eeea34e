package topics

import (
	"fmt"
	"slices"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// Validate checks what can be checked without the cluster: topic names, unique
// ids, legal counts and indexes, sources everywhere, no topic with two readers,
// patterns that compile, repartition counts that can be determined. The error is
// an *[InvalidTopologyError].
func Validate(t *record.Topology, o Options) error {
	_, err := newPlan(t, o)
	return err
}

func invalid(s *record.Subtopology, topic, format string, args ...any) error {
	return &InvalidTopologyError{
		Subtopology: s.ID,
		Topic:       topic,
		Reason:      fmt.Sprintf("subtopology %q ", s.ID) + fmt.Sprintf(format, args...),
	}
}

// validateSubtopologies checks each subtopology by itself.
func validateSubtopologies(t *record.Topology, o Options) error {
	if err := ValidateNames(t); err != nil {
		return err
	}
	ids := make(map[string]struct{}, len(t.Subtopologies))
	patterns := 0
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		if _, twice := ids[s.ID]; twice {
			return invalid(s, "", "is there twice: give each subtopology an id of its own")
		}
		ids[s.ID] = struct{}{}
		if patterns += patternsSize(s); patterns > maxPatterns && !o.Kafka {
			return invalid(s, "", "has source patterns that are too large, or too many, together with those of the subtopologies before it (above %d steps of matching): make them simpler", maxPatterns)
		}
		if err := validateSubtopology(s, o); err != nil {
			return err
		}
	}
	return nil
}

func validateSources(s *record.Subtopology) error {
	if len(s.SourceTopics)+len(s.SourceTopicRegex)+len(s.RepartitionSourceTopics) == 0 {
		return invalid(s, "", "has no source: add a source topic, a source pattern or a repartition topic")
	}
	return nil
}

func validateSubtopology(s *record.Subtopology, o Options) error {
	if !o.Kafka { // which looks at that only once all source topics exist
		if err := validateSources(s); err != nil {
			return err
		}
	}
	for i := range s.StateChangelogTopics {
		if c := &s.StateChangelogTopics[i]; c.Partitions != 0 {
			return invalid(s, c.Name, "asks for %d partitions of the changelog topic %s: ask for 0, the number follows from the source topics", c.Partitions, c.Name)
		}
	}
	for i := range s.RepartitionSourceTopics {
		if r := &s.RepartitionSourceTopics[i]; r.Partitions < 0 {
			return invalid(s, r.Name, "asks for %d partitions of the repartition topic %s: ask for a positive number, or for 0 to leave it open", r.Partitions, r.Name)
		}
	}
	for _, list := range [...][]record.TopicInfo{s.RepartitionSourceTopics, s.StateChangelogTopics} {
		for i := range list {
			if list[i].ReplicationFactor < -1 && !o.Kafka {
				return invalid(s, list[i].Name, "asks for the replication factor %d of the topic %s: ask for a positive number, or for -1 to take the broker's default", list[i].ReplicationFactor, list[i].Name)
			}
		}
	}
	if err := validatePatterns(s, o); err != nil {
		return err
	}
	return validateCopartitionGroups(s, o)
}

func validatePatterns(s *record.Subtopology, o Options) error {
	for _, pattern := range s.SourceTopicRegex {
		if o.Kafka {
			return invalid(s, "", "has the source pattern %q, which Kafka does not support: name the source topics", pattern)
		}
		if _, err := newSearch(pattern); err != nil {
			return invalid(s, "", "has a source pattern that is no RE2 regular expression: %v", err)
		}
	}
	return nil
}

func validateCopartitionGroups(s *record.Subtopology, o Options) error {
	for i, g := range s.CopartitionGroups {
		for _, list := range [...]struct {
			what    string
			indexes []int16
			length  int
		}{
			{"source topics", g.SourceTopics, len(s.SourceTopics)},
			{"source patterns", g.SourceTopicRegex, len(s.SourceTopicRegex)},
			{"repartition source topics", g.RepartitionSourceTopics, len(s.RepartitionSourceTopics)},
		} {
			if o.Kafka && list.what == "source patterns" {
				continue // it does not look at them
			}
			outside := func(index int16) bool { return index < 0 || int(index) >= list.length }
			if j := slices.IndexFunc(list.indexes, outside); j >= 0 {
				return invalid(s, "", "has a copartition group (number %d) with index %d into its %d %s", i, list.indexes[j], list.length, list.what)
			}
		}
	}
	return nil
}
