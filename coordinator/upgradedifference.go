package coordinator

import (
	"fmt"
	"slices"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// firstDifference names what differs between the group's topology and another one
// of the same epoch: the first subtopology, and in it the first topic. Whoever
// reads it has deployed two versions under one number.
func firstDifference(have, sent *record.Topology) string {
	find := func(t *record.Topology, id string) *record.Subtopology {
		if i := slices.IndexFunc(t.Subtopologies, func(s record.Subtopology) bool { return s.ID == id }); i >= 0 {
			return &t.Subtopologies[i]
		}
		return nil
	}
	for i := range have.Subtopologies {
		s := &have.Subtopologies[i]
		o := find(sent, s.ID)
		if o == nil {
			return fmt.Sprintf("subtopology %q is missing", s.ID)
		}
		if d := subtopologyDifference(s, o); d != "" {
			return fmt.Sprintf("subtopology %q %s", s.ID, d)
		}
	}
	for i := range sent.Subtopologies {
		if id := sent.Subtopologies[i].ID; find(have, id) == nil {
			return fmt.Sprintf("subtopology %q is new", id)
		}
	}
	return "a subtopology is there twice"
}

func subtopologyDifference(have, sent *record.Subtopology) string {
	for _, l := range []struct {
		what       string
		have, sent []string
	}{
		{"source topic", have.SourceTopics, sent.SourceTopics},
		{"source pattern", have.SourceTopicRegex, sent.SourceTopicRegex},
		{"repartition source topic", topicNames(have.RepartitionSourceTopics), topicNames(sent.RepartitionSourceTopics)},
		{"repartition sink topic", have.RepartitionSinkTopics, sent.RepartitionSinkTopics},
		{"changelog topic", topicNames(have.StateChangelogTopics), topicNames(sent.StateChangelogTopics)},
	} {
		if d := listDifference(l.what, l.have, l.sent); d != "" {
			return d
		}
	}
	for _, l := range [...][2][]record.TopicInfo{
		{have.RepartitionSourceTopics, sent.RepartitionSourceTopics},
		{have.StateChangelogTopics, sent.StateChangelogTopics},
	} {
		for i := range l[0] {
			if a, b := &l[0][i], &l[1][i]; a.Partitions != b.Partitions || a.ReplicationFactor != b.ReplicationFactor || !slices.Equal(a.Configs, b.Configs) {
				return fmt.Sprintf("has other settings for the topic %q", a.Name)
			}
		}
	}
	if !record.Equal(&record.Topology{Subtopologies: []record.Subtopology{*have}}, &record.Topology{Subtopologies: []record.Subtopology{*sent}}) {
		return "has other copartition groups"
	}
	return ""
}

// listDifference compares names; their order counts, too.
func listDifference(what string, have, sent []string) string {
	if slices.Equal(have, sent) {
		return ""
	}
	for _, name := range sent {
		if !slices.Contains(have, name) {
			return fmt.Sprintf("has the %s %q, which the group's has not", what, name)
		}
	}
	for _, name := range have {
		if !slices.Contains(sent, name) {
			return fmt.Sprintf("lacks the %s %q", what, name)
		}
	}
	return fmt.Sprintf("has the %ss in another order", what)
}
