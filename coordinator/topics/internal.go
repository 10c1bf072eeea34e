package topics

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// internalTopic is a topic that the application owns, with the entry that says
// which count it must have, and the subtopology that has the entry.
type internalTopic struct {
	*topic
	info  *record.TopicInfo
	of    *Subtopology
	order int
	// changelog is whether the entry is one of a changelog.
	changelog bool
}

// internalTopics returns the repartition source and the changelog topics of all
// subtopologies, sorted by name. A topic that several subtopologies name, or
// that is both, is there several times.
func (p *plan) internalTopics(subs []Subtopology) []internalTopic {
	n := 0
	for i := range subs {
		n += len(subs[i].Repartition) + len(subs[i].Changelogs)
	}
	list := make([]internalTopic, 0, n)
	add := func(s *Subtopology, info *record.TopicInfo, changelog bool) {
		list = append(list, internalTopic{topic: &p.topics[p.numbers[info.Name]], info: info, of: s, order: len(list), changelog: changelog})
	}
	for i := range subs {
		s := &subs[i]
		for j := range s.Repartition {
			add(s, &s.Repartition[j], false)
		}
		for j := range s.Changelogs {
			if info := &s.Changelogs[j]; !p.options.servesAsChangelog(s, info.Name) {
				add(s, info, true)
			}
		}
	}
	slices.SortFunc(list, func(a, b internalTopic) int {
		return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(a.order, b.order))
	})
	if p.options.Kafka {
		shareCounts(list)
	}
	return list
}

// shareCounts gives a changelog topic of several subtopologies the count of the last one,
// as Kafka does.
func shareCounts(list []internalTopic) {
	for i := len(list) - 2; i >= 0; i-- {
		if t, next := &list[i], &list[i+1]; t.topic == next.topic && t.changelog && next.changelog {
			t.info.Partitions = next.info.Partitions
		}
	}
}

// wrongCounts is the problem of internal topics that exist with another count
// than they must have, or of which two counts are wanted at once.
func (p *plan) wrongCounts(list []internalTopic) *Problem {
	var wrong []string
	for i := range list {
		t := &list[i]
		want := t.info.Partitions
		if p.options.Kafka && i+1 < len(list) && list[i+1].topic == t.topic {
			continue // Kafka looks at the last one
		}
		if t.exists != absent && t.exists != want {
			wrong = append(wrong, fmt.Sprintf("%s has %d, needs %d", t.name, t.exists, want))
		} else if i > 0 && !p.options.Kafka && list[i-1].topic == t.topic && list[i-1].info.Partitions != want {
			wrong = append(wrong, fmt.Sprintf("%s needs %d for subtopology %q and %d for subtopology %q",
				t.name, list[i-1].info.Partitions, list[i-1].of.ID, want, t.of.ID))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return &Problem{
		Status: StatusIncorrectlyPartitionedTopics,
		Detail: "Internal topics have the wrong number of partitions: " + p.options.enumerate(slices.Compact(wrong)),
	}
}

// missingInternal returns the internal topics that do not exist.
func (p *plan) missingInternal(list []internalTopic) ([]NewTopic, *Problem) {
	missing := 0
	for i := range list {
		if list[i].exists == absent {
			missing++
		}
	}
	create, names := make([]NewTopic, 0, missing), make([]string, 0, missing)
	for i := range list {
		t := &list[i]
		if t.exists != absent || len(names) > 0 && names[len(names)-1] == t.name && !p.options.Kafka {
			continue
		}
		if p.options.Kafka && i+1 < len(list) && list[i+1].topic == t.topic {
			continue // Kafka has the last one created
		}
		factor := t.info.ReplicationFactor
		if factor == 0 {
			factor = -1 // both ask for the broker's default
		}
		create = append(create, NewTopic{Name: t.name, Partitions: t.info.Partitions, ReplicationFactor: factor, Configs: t.info.Configs})
		names = append(names, t.name)
	}
	if len(create) == 0 {
		return nil, nil
	}
	return create, &Problem{
		Status: StatusMissingInternalTopics,
		Detail: "Internal topics do not exist: " + p.options.enumerate(names),
	}
}

// replicationFactor is what a difference of replication factors is called.
const replicationFactor = "replication.factor"

// DifferencesIn compares the internal topics of a configured topology with the
// image: see Differences, which it does not change. It is cheaper than to
// configure the topology again where only settings of topics can have changed.
func (c *Configured) DifferencesIn(image *Image, o Options) []ConfigDifference {
	return differences(c.Subtopologies, image, o)
}

// differences returns the settings of existing internal topics that are not what
// the topology asks for. Kafka never looks at them.
func differences(subs []Subtopology, image *Image, o Options) []ConfigDifference {
	if o.Kafka {
		return nil
	}
	var found []ConfigDifference
	for i := range subs {
		s := &subs[i]
		for j := range s.Repartition {
			found = appendDifferences(found, &s.Repartition[j], image)
		}
		for j := range s.Changelogs {
			if info := &s.Changelogs[j]; !o.servesAsChangelog(s, info.Name) {
				found = appendDifferences(found, info, image)
			}
		}
	}
	slices.SortFunc(found, func(a, b ConfigDifference) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), strings.Compare(a.Name, b.Name), strings.Compare(a.Want, b.Want))
	})
	return slices.Compact(found)
}

func appendDifferences(found []ConfigDifference, want *record.TopicInfo, image *Image) []ConfigDifference {
	t, ok := image.Topic(want.Name)
	if !ok {
		return found
	}
	if factor := want.ReplicationFactor; factor > 0 && t.ReplicationFactor > 0 && factor != t.ReplicationFactor {
		found = append(found, ConfigDifference{
			Topic: want.Name, Name: replicationFactor,
			Want: strconv.Itoa(int(factor)), Have: strconv.Itoa(int(t.ReplicationFactor)),
		})
	}
	if t.Configs == nil {
		return found
	}
	for _, kv := range want.Configs {
		if have := t.Configs[kv.Key]; have != kv.Value {
			found = append(found, ConfigDifference{Topic: want.Name, Name: kv.Key, Want: kv.Value, Have: have})
		}
	}
	return found
}
