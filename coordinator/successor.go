package coordinator

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
	"github.com/streamsgroup/streamsgroup/topology"
)

// olderTopology is what is remembered of a topology that was replaced while
// members ran it.
type olderTopology struct {
	epoch      int32
	footprints []topology.Footprint
	readers    map[string]string // source topic to subtopology
}

func newOlderTopology(epoch int32, footprints []topology.Footprint) olderTopology {
	o := olderTopology{epoch, footprints, map[string]string{}}
	for i := range footprints {
		for _, topic := range footprints[i].Sources {
			o.readers[topic] = footprints[i].ID
		}
	}
	return o
}

// olderFromRecord restores what a topology record says of older ones.
func olderFromRecord(t *record.Topology) []olderTopology {
	if len(t.OlderEpochs) == 0 {
		return nil
	}
	out := make([]olderTopology, len(t.OlderEpochs))
	for i, e := range t.OlderEpochs {
		footprints := make([]topology.Footprint, len(e.Subtopologies))
		for j, s := range e.Subtopologies {
			footprints[j] = topology.Footprint(s)
		}
		out[i] = newOlderTopology(e.Epoch, footprints)
	}
	return out
}

func (o *olderTopology) record() record.OlderEpoch {
	e := record.OlderEpoch{Epoch: o.epoch, Subtopologies: make([]record.OlderSubtopology, len(o.footprints))}
	for i, f := range o.footprints {
		e.Subtopologies[i] = record.OlderSubtopology(f)
	}
	return e
}

// footprintsOf says what each subtopology works on, ascending by id. matches are
// the topics that source patterns stand for, by subtopology.
func footprintsOf(t *record.Topology, matches map[string][]string) []topology.Footprint {
	out := make([]topology.Footprint, len(t.Subtopologies))
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		out[i] = topology.Footprint{
			ID:         s.ID,
			Sources:    sortedSet(s.SourceTopics, topicNames(s.RepartitionSourceTopics), matches[s.ID]),
			Changelogs: sortedSet(topicNames(s.StateChangelogTopics)),
		}
	}
	slices.SortFunc(out, func(a, b topology.Footprint) int { return strings.Compare(a.ID, b.ID) })
	return out
}

func sortedSet(lists ...[]string) []string {
	out := slices.Concat(lists...)
	slices.Sort(out)
	return slices.Compact(out)
}

func matchesOf(c *topics.Configured) map[string][]string {
	var out map[string][]string
	for i := range c.Subtopologies {
		if s := &c.Subtopologies[i]; len(s.Matched) > 0 {
			if out == nil {
				out = map[string][]string{}
			}
			out[s.ID] = s.Matched
		}
	}
	return out
}

// succession relates the tasks of an older topology to those of the group's. The
// zero value but for the epoch is of a topology of which nothing is known.
type succession struct {
	epoch int32
	// known is whether the older topology is. One that is not, from a log that
	// something else has written, counts as working on everything.
	known        bool
	successors   map[string]topology.Successor // by older subtopology
	predecessors map[string]topology.Successor // by newer one: the older
	// overlaps are pairs that work on common topics without being the same
	// subtopology, by the newer one.
	overlaps map[string][]topology.Overlap
	// overlapped are the same, by the older one.
	overlapped map[string][]topology.Overlap
	// status is what its members are told with every heartbeat.
	status []wireStatus
	// subtopologies are those of which somebody holds tasks; only set if the
	// topology is not known.
	subtopologies []string
}

func newSuccession(o *olderTopology, group []topology.Footprint) *succession {
	s := &succession{epoch: o.epoch, known: true, successors: topology.Successors(o.footprints, group)}
	s.predecessors = make(map[string]topology.Successor, len(s.successors))
	for was, now := range s.successors {
		s.predecessors[now.ID] = topology.Successor{ID: was, SameChangelogs: now.SameChangelogs}
	}
	s.overlaps, s.overlapped = map[string][]topology.Overlap{}, map[string][]topology.Overlap{}
	for _, o := range topology.Overlaps(o.footprints, group) {
		s.overlaps[o.Newer] = append(s.overlaps[o.Newer], o)
		s.overlapped[o.Older] = append(s.overlapped[o.Older], o)
	}
	return s
}

// unknownSuccession is that of holders whose topology is not known.
func unknownSuccession(f *filing) *succession {
	s := &succession{epoch: f.epoch}
	for t := range f.active {
		if i, found := slices.BinarySearch(s.subtopologies, t.Subtopology); !found {
			s.subtopologies = slices.Insert(s.subtopologies, i, t.Subtopology)
		}
	}
	return s
}

// predecessor is the task under the id that it has in the older topology.
func (s *succession) predecessor(t topology.TaskID) (was topology.TaskID, ok bool) {
	p, ok := s.predecessors[t.Subtopology]
	return topology.TaskID{Subtopology: p.ID, Partition: t.Partition}, ok
}

// predecessorCopy is the same for standbys and warm-up tasks: they go on only if
// the changelogs are the same.
func (s *succession) predecessorCopy(t topology.TaskID) (was topology.TaskID, ok bool) {
	p := s.predecessors[t.Subtopology]
	return topology.TaskID{Subtopology: p.ID, Partition: t.Partition}, p.SameChangelogs
}

// rivals are the tasks of the older topology that work on some topic of the task
// and are not the same task, with those topics. Whether the topic has that partition is not asked:
// topics grow.
func (s *succession) rivals(t topology.TaskID) iter.Seq2[topology.TaskID, []string] {
	return func(yield func(was topology.TaskID, topics []string) bool) {
		for _, o := range s.overlaps[t.Subtopology] {
			if !yield(topology.TaskID{Subtopology: o.Older, Partition: t.Partition}, o.Topics) {
				return
			}
		}
		for _, id := range s.subtopologies {
			if !yield(topology.TaskID{Subtopology: id, Partition: t.Partition}, nil) {
				return
			}
		}
	}
}

// translate puts tasks of the older topology in terms of the group's. Those
// without a successor are missing.
func (s *succession) translate(r roles) roles {
	move := func(l taskList, copies bool) taskList {
		var out taskList
		for _, t := range l {
			if now := s.successors[t.Subtopology]; now.ID != "" && (now.SameChangelogs || !copies) {
				out = append(out, topology.TaskID{Subtopology: now.ID, Partition: t.Partition})
			}
		}
		return out.sorted()
	}
	return roles{move(r.active, false), move(r.standby, true), move(r.warmup, true)}
}

// restrict returns those tasks of the older topology whose successors are in
// kept, which is in terms of the group's topology.
func (s *succession) restrict(had, kept roles) roles {
	in := func(kept taskList, copies bool) func(topology.TaskID) bool {
		return func(t topology.TaskID) bool {
			now := s.successors[t.Subtopology]
			return now.ID != "" && (now.SameChangelogs || !copies) && kept.has(topology.TaskID{Subtopology: now.ID, Partition: t.Partition})
		}
	}
	return roles{had.active.filter(in(kept.active, false)), had.standby.filter(in(kept.standby, true)), had.warmup.filter(in(kept.warmup, true))}
}

// withoutRivals leaves out active tasks that have to leave and in whose way other
// tasks of the group's topology wait: they must not be kept for a warm-up.
func (s *succession) withoutRivals(had, target roles) roles {
	had.active = had.active.filter(func(t topology.TaskID) bool {
		return len(s.overlapped[t.Subtopology]) == 0 || target.active.has(t)
	})
	return had
}

// findSuccessions relates every older topology that somebody holds tasks of to
// the group's. It is done when the topics are looked at, not in heartbeats.
func (h *heartbeat) findSuccessions() []*succession {
	if h.c.policy == Kafka || len(h.g.owners) == 0 || len(h.g.owners) == 1 && h.g.owners[0].epoch == h.topology.Epoch {
		return nil
	}
	older := h.olderTopologies()
	group := footprintsOf(h.topology, matchesOf(h.configured))
	var out []*succession
	for _, f := range h.g.owners {
		if f.epoch == h.topology.Epoch {
			continue
		}
		if i := slices.IndexFunc(older, func(o olderTopology) bool { return o.epoch == f.epoch }); i >= 0 {
			out = append(out, newSuccession(&older[i], group))
		} else {
			out = append(out, unknownSuccession(f))
		}
	}
	for _, s := range out {
		status := kmsg.NewStreamsGroupHeartbeatResponseStatus()
		status.StatusCode, status.StatusDetail = statusStaleTopology, fmt.Sprintf(staleDetail, s.epoch, h.topology.Epoch)
		s.status = []wireStatus{status}
	}
	return out
}

// behindStatus is the status of a member that is behind, made when the topics were
// looked at. It is shared, and has no room: whoever appends to it gets a list of
// his own.
func (h *heartbeat) behindStatus() []wireStatus {
	if !h.behind() || h.g.topology == nil {
		return nil
	}
	for _, s := range h.view().successions {
		if s.epoch == h.meta.TopologyEpoch {
			return s.status
		}
	}
	return nil
}

// olderTopologies are those that are remembered, with the one that this request
// replaces.
func (h *heartbeat) olderTopologies() []olderTopology {
	if !h.replacesTopology() {
		return h.g.older
	}
	return append(slices.Clip(h.g.older), newOlderTopology(h.g.topology.Epoch, h.replacedFootprints()))
}

// replacedFootprints freezes what the topology that is being replaced works on.
// Its source patterns stand for the topics that its members were last told.
func (h *heartbeat) replacedFootprints() []topology.Footprint {
	var matches map[string][]string
	if c := h.g.configured(); c != nil && len(c.Subtopologies) > 0 {
		matches = matchesOf(c)
	} else {
		matches = topics.Matches(h.g.topology, h.image, h.c.topicOptions())
	}
	return footprintsOf(h.g.topology, matches)
}

// rememberOlder adds to a topology that replaces another what other members go on
// working on: the coordinator may move before they are restarted. Older epochs
// that nobody runs any more are forgotten; they cannot join again.
func (h *heartbeat) rememberOlder() {
	self := h.old
	if h.replaced != "" {
		self = h.g.members[h.replaced]
	}
	h.topology.OlderEpochs = nil
	for _, o := range h.olderTopologies() {
		f := h.g.owners.at(o.epoch)
		if f == nil || f.members == 1 && self != nil && self.filed == o.epoch {
			continue
		}
		h.topology.OlderEpochs = append(h.topology.OlderEpochs, o.record())
	}
}

// view is how the topics look once this heartbeat is applied.
func (h *heartbeat) view() *topicView {
	if h.fx.soft.topics.configured != nil {
		return &h.fx.soft.topics
	}
	return &h.g.topics
}

// successionOf never returns nil.
func (h *heartbeat) successionOf(epoch int32) *succession {
	for _, s := range h.view().successions {
		if s.epoch == epoch {
			return s
		}
	}
	if f := h.g.owners.at(epoch); f != nil {
		return unknownSuccession(f)
	}
	return &succession{epoch: epoch}
}
