package topology

import (
	"iter"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Side is what is known of the topics of one of two topologies that are
// compared. The zero value knows nothing.
type Side struct {
	// Partitions are the numbers of partitions by topic: for the older topology
	// those that the topics have, for the newer one those that they will need.
	// Without it only numbers that are fixed in the topology are known.
	Partitions map[string]int32
	// Matches are the topics that the source patterns stand for, by subtopology
	// ([Resolution.Topics]). If it is nil on either side, patterns are compared
	// instead of topics.
	Matches map[string][]string
}

// Cluster is what is known of a cluster when two topologies are compared. The
// zero value knows nothing, and then much can be said all the same.
type Cluster struct {
	Older, Newer Side
	// EndOffsets and Committed are log end offsets and the offsets that the group
	// has committed, by topic and partition. They tell whether there are records
	// left in a repartition topic that is not read any more. Only such topics
	// need be there.
	EndOffsets, Committed map[string]map[int32]int64
}

// ChangeKind says what becomes of a subtopology, or of a task.
type ChangeKind string

const (
	// Stays is a subtopology with the same id that reads the same topics.
	Stays ChangeKind = "stays"
	// Renumbered is one that reads the same topics under another id. Its tasks
	// stay with the members that have them.
	Renumbered ChangeKind = "renumbered"
	// Changed is one with the same id that reads other topics, some as before.
	Changed ChangeKind = "changed"
	// Orphaned is one of the older topology that none of the newer succeeds.
	Orphaned ChangeKind = "orphaned"
	// Added is one of the newer topology that succeeds none.
	Added ChangeKind = "new"
)

// UnknownTasks is a number of tasks that does not follow from what is known.
const UnknownTasks int32 = -1

// SubtopologyChange is what becomes of one subtopology. All lists are ascending.
type SubtopologyChange struct {
	Kind ChangeKind
	// Older and Newer are its ids. An added one has no older id, an orphaned one
	// no newer.
	Older, Newer string
	// OlderTasks and NewerTasks are its numbers of tasks, or UnknownTasks.
	OlderTasks, NewerTasks int32
	// Sources are source and repartition source topics. Patterns that are not
	// resolved are among them, between slashes.
	SourcesGained, SourcesLost       []string
	SinksGained, SinksLost           []string
	ChangelogsGained, ChangelogsLost []string
	// Copartition is whether other topics must have equal numbers of partitions
	// than before.
	Copartition bool
}

// same is whether nothing of a subtopology has changed.
func (c *SubtopologyChange) same() bool {
	return c.Kind == Stays && c.OlderTasks == c.NewerTasks && !c.Copartition &&
		len(c.SourcesGained)+len(c.SourcesLost)+len(c.SinksGained)+len(c.SinksLost)+len(c.ChangelogsGained)+len(c.ChangelogsLost) == 0
}

// TaskChange is what becomes of one task. An added one has no older id, an
// orphaned one no newer: there it is the zero value.
type TaskChange struct {
	Kind         ChangeKind
	Older, Newer TaskID
}

// Difference is what a change of the topology means for an application that is
// running. It is data: nothing in it changes when it is read.
type Difference struct {
	OlderEpoch, NewerEpoch int32
	// Subtopologies are those of the older topology, ascending by id, then the
	// added ones, ascending by id. Those that stay are among them.
	Subtopologies []SubtopologyChange
	// Topics are the topics that come, go or change, ascending.
	Topics []TopicChange
	// Overlaps are topics that move between subtopologies.
	Overlaps []Overlap
	// Findings are what to know before the change is rolled out, the worst first.
	Findings []Finding
}

// Diff compares two topologies, of which the cluster is not known.
func Diff(older, newer *Topology) *Difference { return Cluster{}.Diff(older, newer) }

// Diff compares two topologies of one application: what becomes of its work when
// members with the newer one replace those with the older one by and by, under a
// coordinator that lets topologies be replaced (KIP-1071; Apache Kafka up to 4.4
// refuses every change). Both may come from a [Builder], [FromWire] or
// [FromDescribe]. What one of them does not know is left out of the comparison.
func (c Cluster) Diff(older, newer *Topology) *Difference {
	k := comparison{cluster: c, older: older, newer: newer}
	k.resolved = c.Older.Matches != nil && c.Newer.Matches != nil
	k.olderPrints, k.newerPrints = k.footprints(older, c.Older), k.footprints(newer, c.Newer)
	k.olderCounts, k.newerCounts = c.Older.counts(older), c.Newer.counts(newer)
	k.successors = Successors(k.olderPrints, k.newerPrints)
	d := &Difference{OlderEpoch: older.epoch, NewerEpoch: newer.epoch}
	d.Subtopologies = k.subtopologies()
	d.Topics = k.topics()
	d.Overlaps = Overlaps(k.olderPrints, k.newerPrints)
	d.Findings = k.findings(d)
	return d
}

// Empty is whether nothing has changed but, possibly, the epoch.
func (d *Difference) Empty() bool {
	return len(d.Topics)+len(d.Overlaps) == 0 &&
		!slices.ContainsFunc(d.Subtopologies, func(c SubtopologyChange) bool { return !c.same() })
}

// Tasks yields what becomes of each task, subtopology by subtopology. Tasks of
// subtopologies whose numbers of tasks are not known are left out.
func (d *Difference) Tasks() iter.Seq[TaskChange] {
	return func(yield func(TaskChange) bool) {
		for i := range d.Subtopologies {
			c := &d.Subtopologies[i]
			if c.OlderTasks == UnknownTasks || c.NewerTasks == UnknownTasks {
				continue
			}
			for p := range max(c.OlderTasks, c.NewerTasks) {
				t := TaskChange{Kind: c.Kind, Older: TaskID{c.Older, p}, Newer: TaskID{c.Newer, p}}
				switch {
				case p >= c.OlderTasks:
					t.Kind, t.Older = Added, TaskID{}
				case p >= c.NewerTasks:
					t.Kind, t.Newer = Orphaned, TaskID{}
				}
				if !yield(t) {
					return
				}
			}
		}
	}
}

// comparison is the work of a Diff.
type comparison struct {
	cluster                  Cluster
	older, newer             *Topology
	resolved                 bool // patterns are known as topics on both sides
	olderPrints, newerPrints []Footprint
	olderCounts, newerCounts map[string]int32
	successors               map[string]Successor
}

// footprints puts unresolved patterns between slashes, which no topic has in its
// name.
func (k *comparison) footprints(t *Topology, side Side) []Footprint {
	if k.resolved {
		return t.Footprints(side.Matches)
	}
	patterns := map[string][]string{}
	for i := range t.subs {
		for _, p := range t.subs[i].SourceTopicRegex {
			patterns[t.subs[i].SubtopologyID] = append(patterns[t.subs[i].SubtopologyID], "/"+p+"/")
		}
	}
	return t.Footprints(patterns)
}

func (k *comparison) subtopologies() []SubtopologyChange {
	var out []SubtopologyChange
	succeeds := map[string]bool{}
	for i := range k.olderPrints {
		o := &k.olderPrints[i]
		successor, ok := k.successors[o.ID]
		if !ok {
			out = append(out, k.change(Orphaned, o, &Footprint{}))
			continue
		}
		succeeds[successor.ID] = true
		n := &k.newerPrints[k.newer.byID[successor.ID]]
		kind := Stays
		switch {
		case o.ID != n.ID:
			kind = Renumbered
		case !slices.Equal(o.Sources, n.Sources):
			kind = Changed
		}
		out = append(out, k.change(kind, o, n))
	}
	for i := range k.newerPrints {
		if n := &k.newerPrints[i]; !succeeds[n.ID] {
			out = append(out, k.change(Added, &Footprint{}, n))
		}
	}
	return out
}

func (k *comparison) change(kind ChangeKind, o, n *Footprint) SubtopologyChange {
	c := SubtopologyChange{
		Kind: kind, Older: o.ID, Newer: n.ID,
		SourcesGained: without(n.Sources, o.Sources), SourcesLost: without(o.Sources, n.Sources),
		ChangelogsGained: without(n.Changelogs, o.Changelogs), ChangelogsLost: without(o.Changelogs, n.Changelogs),
	}
	var before, after *kmsg.StreamsGroupHeartbeatRequestTopologySubtopology
	if kind != Added {
		before = &k.older.subs[k.older.byID[o.ID]]
		c.OlderTasks = tasks(o, k.olderCounts)
	}
	if kind != Orphaned {
		after = &k.newer.subs[k.newer.byID[n.ID]]
		c.NewerTasks = tasks(n, k.newerCounts)
	}
	c.SinksGained, c.SinksLost = without(sinks(after), sinks(before)), without(sinks(before), sinks(after))
	if before != nil && after != nil && !k.older.described && !k.newer.described {
		c.Copartition = !slices.EqualFunc(copartitionedTopics(before), copartitionedTopics(after), slices.Equal)
	}
	return c
}

func sinks(s *kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) []string {
	if s == nil {
		return nil
	}
	return set(s.RepartitionSinkTopics)
}

// copartitionedTopics returns the topics of each copartition group, in an order
// that does not depend on that of the groups.
func copartitionedTopics(s *kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) [][]string {
	groups := make([][]string, 0, len(s.CopartitionGroups))
	for _, g := range s.CopartitionGroups {
		var names []string
		for _, i := range g.SourceTopics {
			names = append(names, s.SourceTopics[i])
		}
		for _, i := range g.SourceTopicRegex {
			names = append(names, "/"+s.SourceTopicRegex[i]+"/")
		}
		for _, i := range g.RepartitionSourceTopics {
			names = append(names, s.RepartitionSourceTopics[i].Topic)
		}
		groups = append(groups, set(names))
	}
	slices.SortFunc(groups, slices.Compare)
	return groups
}

// tasks is the greatest number of partitions of what a subtopology reads.
func tasks(f *Footprint, counts map[string]int32) int32 {
	most := int32(0)
	for _, topic := range f.Sources {
		n := counts[topic]
		if n <= 0 {
			return UnknownTasks
		}
		most = max(most, n)
	}
	return most
}

// counts are the numbers of partitions that are known, or fixed by the topology.
func (s Side) counts(t *Topology) map[string]int32 {
	counts := map[string]int32{}
	for i := range t.subs {
		for _, r := range t.subs[i].RepartitionSourceTopics {
			if r.NumPartitions > 0 {
				counts[r.Topic] = r.NumPartitions
			}
		}
	}
	for topic, n := range s.Partitions {
		if n > 0 {
			counts[topic] = n
		}
	}
	return counts
}
