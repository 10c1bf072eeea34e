package topics

import (
	"cmp"
	"slices"
	"strings"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// configuredSubtopologies returns the result per subtopology, sorted by id.
func (p *plan) configuredSubtopologies() []Subtopology {
	list := make([]Subtopology, len(p.subs))
	for i := range p.subs {
		list[i] = p.configuredSubtopology(&p.subs[i])
	}
	slices.SortFunc(list, func(a, b Subtopology) int { return strings.Compare(a.ID, b.ID) })
	return list
}

func (p *plan) configuredSubtopology(s *subtopology) Subtopology {
	c := Subtopology{ID: s.ID, Stateful: len(s.changelogs) > 0}
	sources := p.byName(s.external, s.repartition)
	c.Sources = make([]TopicCount, len(sources))
	for i, n := range sources {
		t := &p.topics[n]
		c.Sources[i] = TopicCount{Name: t.name, Partitions: t.count()}
		c.Tasks = max(c.Tasks, t.count())
	}
	if len(s.matches) > 0 {
		c.Matched = p.namesOf(slices.Concat(s.matches...))
	}
	c.Repartition = withCounts(s.RepartitionSourceTopics, func(i int) int32 { return p.topics[s.repartition[i]].decided })
	c.Changelogs = withCounts(s.StateChangelogTopics, func(i int) int32 {
		if t := &p.topics[s.changelogs[i]]; p.options.servesAsChangelog(&c, t.name) {
			return t.count()
		}
		return c.Tasks
	})
	return c
}

// servesAsChangelog is whether a changelog topic is a source topic of the same
// subtopology, which then has no changelog of its own for that store. It belongs
// to whoever made it: its count is not ours to ask for. Kafka wants it to have
// the count of the greatest source topic.
func (o Options) servesAsChangelog(c *Subtopology, changelog string) bool {
	_, found := slices.BinarySearchFunc(c.Sources, changelog, func(s TopicCount, name string) int {
		return strings.Compare(s.Name, name)
	})
	return found && !o.Kafka
}

// withCounts copies the entries with their decided counts, sorted by name. Of a
// topic with two entries the first stays.
func withCounts(infos []record.TopicInfo, count func(i int) int32) []record.TopicInfo {
	if len(infos) == 0 {
		return nil
	}
	list := slices.Clone(infos)
	for i := range list {
		list[i].Partitions = count(i)
	}
	slices.SortStableFunc(list, func(a, b record.TopicInfo) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(list, func(a, b record.TopicInfo) bool { return a.Name == b.Name })
}
