package topology

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Footprint is what the tasks of one subtopology work on.
type Footprint struct {
	ID string
	// Sources are the source and the repartition source topics. Source patterns
	// are in it as the topics that they stand for.
	Sources []string
	// Changelogs are the changelog topics. A source topic that serves as a
	// changelog is in both lists.
	Changelogs []string
}

// Footprints returns the footprint of each subtopology, ascending by id, with
// topics ascending and once each. matches says which topics the source patterns
// of a subtopology stand for ([Resolution.Topics]); it may be nil.
func (t *Topology) Footprints(matches map[string][]string) []Footprint {
	out := make([]Footprint, len(t.subs))
	for i := range t.subs {
		s := &t.subs[i]
		out[i] = Footprint{
			ID:         s.SubtopologyID,
			Sources:    set(s.SourceTopics, topicNames(s.RepartitionSourceTopics), matches[s.SubtopologyID]),
			Changelogs: set(topicNames(s.StateChangelogTopics)),
		}
	}
	return out
}

// Successor is the subtopology of a newer topology that goes on with the work of
// an older one.
type Successor struct {
	ID string
	// SameChangelogs is whether both have the same changelog topics: only then is
	// what a standby or a warm-up task has copied of any use to the successor.
	SameChangelogs bool
}

// Successors finds, by id, the successors of the subtopologies of an older
// topology. An id says nothing about content: a source that is added in front
// renumbers all that follow. So the successor is the one that reads exactly the
// same topics; failing that, the one with the same id if they have a source
// topic in common; else there is none, and the subtopology is missing from the
// result.
//
// This is the rule by which a coordinator carries work over while a new version
// of an application is rolled out. No two have the same successor: one topic is
// read by one subtopology, and where that does not hold, the first one by id
// has it. The order of the lists does not matter.
func Successors(older, newer []Footprint) map[string]Successor {
	older, newer = byID(older), byID(newer)
	taken := make(map[string]bool, len(newer))
	successors := make(map[string]Successor, len(older))
	succeed := func(o, n *Footprint) {
		taken[n.ID] = true
		successors[o.ID] = Successor{ID: n.ID, SameChangelogs: slices.Equal(o.Changelogs, n.Changelogs)}
	}
	reading := make(map[string][]*Footprint, len(newer))
	named := make(map[string]*Footprint, len(newer))
	for i := range newer {
		n := &newer[i]
		named[n.ID] = n
		if len(n.Sources) > 0 {
			key := strings.Join(n.Sources, "\x00")
			reading[key] = append(reading[key], n)
		}
	}
	for i := range older {
		o := &older[i]
		equal := reading[strings.Join(o.Sources, "\x00")]
		at := slices.IndexFunc(equal, func(n *Footprint) bool { return n.ID == o.ID })
		if at < 0 {
			at = slices.IndexFunc(equal, func(n *Footprint) bool { return !taken[n.ID] })
		}
		if at >= 0 && !taken[equal[at].ID] {
			succeed(o, equal[at])
		}
	}
	for i := range older {
		o := &older[i]
		if _, has := successors[o.ID]; has {
			continue
		}
		if n := named[o.ID]; n != nil && !taken[n.ID] && len(common(o.Sources, n.Sources)) > 0 {
			succeed(o, n)
		}
	}
	return successors
}

// Overlap is a pair of subtopologies that work on the same topics although the
// newer one is not the successor of the older one: a topic has moved from one to
// the other, two have become one, or one has become two. While a member still
// runs partition p of the older one, nobody may run partition p of the newer.
type Overlap struct {
	Older, Newer string
	// Topics are the sources and changelogs that both have, ascending.
	Topics []string
}

// Overlaps returns the overlaps of two topologies, ascending by the older id,
// then by the newer.
func Overlaps(older, newer []Footprint) []Overlap {
	successors := Successors(older, newer)
	older, newer = byID(older), byID(newer)
	workers := map[string][]int{} // by topic, positions in newer
	all := make([][]string, len(newer))
	for i := range newer {
		all[i] = newer[i].topics()
		for _, topic := range all[i] {
			workers[topic] = append(workers[topic], i)
		}
	}
	var out []Overlap
	for i := range older {
		o := &older[i]
		topics := o.topics()
		met := map[int]bool{}
		for _, topic := range topics {
			for _, n := range workers[topic] {
				met[n] = true
			}
		}
		successor, has := successors[o.ID]
		for _, n := range slices.Sorted(maps.Keys(met)) {
			if has && newer[n].ID == successor.ID {
				continue
			}
			out = append(out, Overlap{Older: o.ID, Newer: newer[n].ID, Topics: common(topics, all[n])})
		}
	}
	return out
}

func (f *Footprint) topics() []string { return set(f.Sources, f.Changelogs) }

// byID sorts footprints and the lists in them, without a change to the argument.
func byID(in []Footprint) []Footprint {
	out := slices.Clone(in)
	for i := range out {
		out[i].Sources, out[i].Changelogs = set(out[i].Sources), set(out[i].Changelogs)
	}
	slices.SortStableFunc(out, func(a, b Footprint) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// set unites lists into one that is sorted and has everything once. A single
// list that is so already is returned as it is.
func set(lists ...[]string) []string {
	if len(lists) == 1 && strictlyAscending(lists[0]) {
		return lists[0]
	}
	out := slices.Concat(lists...)
	slices.Sort(out)
	return slices.Compact(out)
}

func strictlyAscending(s []string) bool {
	for i := 1; i < len(s); i++ {
		if s[i-1] >= s[i] {
			return false
		}
	}
	return true
}

// common returns what is in both of two sorted lists.
func common(a, b []string) []string {
	var out []string
	for len(a) > 0 && len(b) > 0 {
		switch strings.Compare(a[0], b[0]) {
		case -1:
			a = a[1:]
		case 1:
			b = b[1:]
		default:
			out = append(out, a[0])
			a, b = a[1:], b[1:]
		}
	}
	return out
}

// without returns what is in a sorted list and not in another.
func without(a, b []string) []string {
	var out []string
	for _, s := range a {
		if _, found := slices.BinarySearch(b, s); !found {
			out = append(out, s)
		}
	}
	return out
}
