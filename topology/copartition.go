package topology

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// copartition attaches the sets of sources that must be equally partitioned to
// their subtopologies, as indexes into the sorted lists there (rules TP-13 to
// TP-17 and TP-19).
func (c *compiler) copartition(subs []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) {
	for _, set := range c.copartitionSets() {
		c.checkFixedCounts(set)
		attached := false
		for i := range subs {
			g, ok := indexes(&subs[i], set)
			if !ok {
				continue
			}
			subs[i].CopartitionGroups = append(subs[i].CopartitionGroups, g)
			attached = true
			if most := max(len(subs[i].SourceTopics), len(subs[i].SourceTopicRegex), len(subs[i].RepartitionSourceTopics)); most > math.MaxInt16+1 {
				c.fail(KindSubtopology, subs[i].SubtopologyID, fmt.Sprintf("it reads %d topics, and the protocol can copartition the first %d only", most, math.MaxInt16+1), "read fewer topics, or copartition none of them")
			}
			break // a topic has one reader, so there is no second
		}
		if !attached {
			c.fail(KindCopartition, strings.Join(set.names(), ", "), "no subtopology reads all of it", "copartition sources that feed the same processor: for a re-keyed input name the source of the repartition topic")
		}
	}
	for i := range subs {
		slices.SortFunc(subs[i].CopartitionGroups, func(a, b kmsg.StreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup) int {
			return cmp.Or(
				slices.Compare(a.SourceTopics, b.SourceTopics),
				slices.Compare(a.RepartitionSourceTopics, b.RepartitionSourceTopics),
				slices.Compare(a.SourceTopicRegex, b.SourceTopicRegex),
			)
		})
	}
}

// copartitionSet holds full topic names and patterns.
type copartitionSet struct{ topics, patterns map[string]bool }

func (s copartitionSet) names() []string {
	return slices.Concat(slices.Sorted(maps.Keys(s.topics)), slices.Sorted(maps.Keys(s.patterns)))
}

func (s copartitionSet) overlaps(o copartitionSet) bool {
	for t := range s.topics {
		if o.topics[t] {
			return true
		}
	}
	for p := range s.patterns {
		if o.patterns[p] {
			return true
		}
	}
	return false
}

// copartitionSets unites sets that share a topic. Kafka unites a set only with
// one that it overlaps, and which one follows from Java's hashing; the true
// closure gives the same task counts wherever those can be satisfied (rule
// TP-14).
func (c *compiler) copartitionSets() []copartitionSet {
	var sets []copartitionSet
	for _, sources := range c.b.together {
		set := copartitionSet{map[string]bool{}, map[string]bool{}}
		for _, name := range sources {
			n := c.b.byName[name]
			if n.kind != sourceNode {
				continue
			}
			for _, topic := range n.topics {
				set.topics[c.full(topic)] = true
			}
			if n.pattern != "" {
				set.patterns[n.pattern] = true
			}
		}
		sets = slices.DeleteFunc(sets, func(other copartitionSet) bool {
			if !set.overlaps(other) {
				return false
			}
			maps.Copy(set.topics, other.topics)
			maps.Copy(set.patterns, other.patterns)
			return true
		})
		sets = append(sets, set)
	}
	return sets
}

// indexes expresses a set as positions in the lists of a subtopology, if all of
// it is there.
func indexes(s *kmsg.StreamsGroupHeartbeatRequestTopologySubtopology, set copartitionSet) (kmsg.StreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup, bool) {
	g := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup()
	g.SourceTopics, g.SourceTopicRegex, g.RepartitionSourceTopics = []int16{}, []int16{}, []int16{}
	for i, t := range s.SourceTopics {
		if set.topics[t] {
			g.SourceTopics = append(g.SourceTopics, int16(i))
		}
	}
	for i, t := range s.RepartitionSourceTopics {
		if set.topics[t.Topic] {
			g.RepartitionSourceTopics = append(g.RepartitionSourceTopics, int16(i))
		}
	}
	for i, p := range s.SourceTopicRegex {
		if set.patterns[p] {
			g.SourceTopicRegex = append(g.SourceTopicRegex, int16(i))
		}
	}
	complete := len(g.SourceTopics)+len(g.RepartitionSourceTopics) == len(set.topics) && len(g.SourceTopicRegex) == len(set.patterns)
	return g, complete
}

// checkFixedCounts refuses a set in which every topic has a number of partitions
// fixed by the user and two of them differ (rule TP-17).
func (c *compiler) checkFixedCounts(set copartitionSet) {
	if len(set.patterns) > 0 {
		return
	}
	names := set.names()
	counts := make([]string, len(names))
	equal, first := true, int32(0)
	for i, full := range names {
		t := c.b.internal[c.internal[full]]
		if t == nil || t.partitions == 0 {
			return
		}
		if first == 0 {
			first = t.partitions
		}
		equal = equal && t.partitions == first
		counts[i] = fmt.Sprintf("%s=%d", full, t.partitions)
	}
	if !equal {
		c.fail(KindCopartition, strings.Join(names, ", "), "the fixed numbers of partitions differ: "+strings.Join(counts, ", "), "fix the same number for all, or leave it to the coordinator for one of them")
	}
}
