package topics

import (
	"fmt"
	"strconv"
	"strings"
)

// copartition makes the topics of each copartition group have equal counts where
// it may and reports the first group where it may not. A count changed here is
// not passed on to topics whose count followed from it before; a mismatch among
// them is found when tasks read them. The error is an *InvalidTopologyError.
func (p *plan) copartition() (*Problem, error) {
	for i := range p.subs {
		s := &p.subs[i]
		for j := range s.CopartitionGroups {
			group := p.groupTopics(s, j)
			if len(group) == 0 {
				continue
			}
			if problem, err := p.copartitionGroup(s, group); problem != nil || err != nil {
				return problem, err
			}
		}
	}
	return nil, nil
}

// groupTopics returns the topics of a copartition group, sorted by name. A
// pattern stands for all its matches.
func (p *plan) groupTopics(s *subtopology, group int) []int {
	g := &s.CopartitionGroups[group]
	lists := make([][]int, 0, 1+len(g.SourceTopicRegex))
	lists = append(lists, pick(s.listed, g.SourceTopics), pick(s.repartition, g.RepartitionSourceTopics))
	if p.options.Kafka {
		return p.byName(lists...)
	}
	for _, pattern := range g.SourceTopicRegex {
		lists = append(lists, s.matches[pattern])
	}
	return p.byName(lists...)
}

func pick(from []int, indexes []int16) []int {
	picked := make([]int, len(indexes))
	for i, index := range indexes {
		picked[i] = from[index]
	}
	return picked
}

// copartitionGroup applies the rules to one group. If it has external topics,
// these decide; else the repartition topics whose count is fixed; else the
// greatest count.
func (p *plan) copartitionGroup(s *subtopology, group []int) (*Problem, error) {
	var external, fixed, open []int
	for _, n := range group {
		switch t := &p.topics[n]; {
		case t.count() == absent:
			return nil, invalid(s.Subtopology, t.name, "has %s in a copartition group, a repartition topic without a partition count: ask for a count", t.name)
		case t.info == nil:
			external = append(external, n)
		case t.fixed != 0:
			fixed = append(fixed, n)
		default:
			open = append(open, n)
		}
	}
	deciding := fixed
	if p.options.Kafka {
		// All fixed topics of the topology decide, those that have nothing to do
		// with the group too.
		deciding = p.fixed
	}

	var want int32
	switch {
	case len(external) > 0:
		if !p.equalCounts(external) {
			return incorrectlyPartitioned("Source topics", s, "must have the same number of partitions: "+p.counts(external)), nil
		}
		want = p.topics[external[0]].count()
	case len(deciding) > 0:
		if !p.equalCounts(deciding) {
			return incorrectlyPartitioned("Internal topics", s, "must have the same number of partitions: "+p.counts(p.byName(group, deciding))), nil
		}
		want = p.topics[deciding[0]].count()
	default:
		for _, n := range open {
			want = max(want, p.topics[n].count())
		}
		if want == 0 {
			return nil, invalid(s.Subtopology, p.topics[open[0]].name, "copartitions repartition topics that all have 0 partitions: %s", p.counts(open))
		}
	}
	for _, n := range fixed {
		if t := &p.topics[n]; t.count() != want {
			return incorrectlyPartitioned("Internal topics", s, fmt.Sprintf("do not fit the topics that they are read together with: %s has %d partitions, %d are needed", t.name, t.count(), want)), nil
		}
	}
	for _, n := range open {
		p.topics[n].decided = want
	}
	return nil, nil
}

// incorrectlyPartitioned says first what kind of topics is concerned: the status
// of the protocol does not tell.
func incorrectlyPartitioned(kind string, s *subtopology, what string) *Problem {
	return &Problem{
		Status: StatusIncorrectlyPartitionedTopics,
		Detail: kind + " of subtopology " + strconv.Quote(s.ID) + " " + what,
	}
}

func (p *plan) equalCounts(numbers []int) bool {
	for _, n := range numbers {
		if p.topics[n].count() != p.topics[numbers[0]].count() {
			return false
		}
	}
	return true
}

func (p *plan) counts(numbers []int) string {
	items := make([]string, len(numbers))
	for i, n := range numbers {
		items[i] = p.topics[n].name + "=" + strconv.Itoa(int(p.topics[n].count()))
	}
	return strings.Join(items, ", ")
}
