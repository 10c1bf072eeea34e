package coordinator

import (
	"cmp"
	"maps"
	"slices"

	"github.com/streamsgroup/streamsgroup/coordinator/assignor"
	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
	"github.com/streamsgroup/streamsgroup/topology"
)

// A new version of an application is rolled out member by member. Its first
// member brings the next topology, and those that still run an older one are
// behind: they keep what they work on, as far as somebody can go on with it, and
// gain nothing until they are restarted.

// behind is whether the member of this heartbeat is to be treated as one that
// runs an older topology. Kafka treats all alike.
func (h *heartbeat) behind() bool { return h.c.policy == KIP1071 && h.stale() }

// runsOlder is the same for any member of the group.
func (h *heartbeat) runsOlder(topologyEpoch int32) bool {
	return h.c.policy == KIP1071 && h.topology != nil && topologyEpoch != h.topology.Epoch
}

// upgrade is what a member had that has joined again with a newer topology. It
// runs nothing of it any more.
type upgrade struct {
	from int32 // topology epoch
	had  roles // in terms of that topology, with what it was to give up
	// prior is what it worked on, in terms of the group's topology: its claim
	// for the assignor.
	prior roles
}

// comeBackUpgraded starts a member anew that joins with a newer topology than it
// had: a join reports no tasks. What it had counts as its prior holding, under
// the new ids, and it gets it back as far as it is free.
func (h *heartbeat) comeBackUpgraded() {
	from, to := h.base.TopologyEpoch, h.meta.TopologyEpoch
	if h.c.policy == Kafka || h.joined || from == to {
		return
	}
	s := h.successionOf(h.filedAt())
	h.upgraded = &upgrade{from: h.filedAt(), had: h.cur.assigned.plus(h.cur.pending), prior: s.translate(h.cur.assigned)}
	h.event(MemberUpgraded{Group: h.g.id, Member: h.meta.Member, FromEpoch: from, ToEpoch: to, Held: slices.Clone(h.upgraded.had.active)})
	// As a member that nobody has seen before, but with something to reconcile.
	h.cur = current{state: unreleasedTasks}
	if h.target != nil {
		t := s.translate(*h.target)
		h.target = &t
	}
	h.translatePlan(s)
	// What it has reported so far was about tasks of the older topology.
	if h.fx.soft.offsets == nil {
		h.fx.soft.offsets = map[topology.TaskID]int64{}
	}
	if h.fx.soft.ends == nil {
		h.fx.soft.ends = map[topology.TaskID]int64{}
	}
}

// translatePlan puts what the plan has for the member in terms of the group's topology:
// within the assignment interval no new plan is made.
func (h *heartbeat) translatePlan(s *succession) {
	p, id := h.plan(), cmp.Or(h.replaced, h.meta.Member)
	if p == nil {
		return
	}
	if t, ok := p.tasks[id]; ok {
		out := *p
		out.settled, out.tasks = false, maps.Clone(p.tasks)
		out.tasks[id] = s.translate(t)
		h.fx.soft.refinement = &out
	}
}

// filedAt is the topology epoch under whose ids the member has its tasks.
func (h *heartbeat) filedAt() int32 {
	if h.replaced != "" {
		return h.g.members[h.replaced].filed
	}
	return h.old.filed
}

// vacated are the tasks of a topology epoch that the member of this heartbeat
// had until it came back with a newer topology.
func (h *heartbeat) vacated(epoch int32) roles {
	if u := h.upgraded; u != nil && u.from == epoch {
		return u.had
	}
	return roles{}
}

// keepTranslatedTarget writes the target of a member that came back upgraded if
// no new one was computed: the stored one names tasks of the older topology.
func (h *heartbeat) keepTranslatedTarget() {
	if h.upgraded == nil || h.target == nil || h.assignment == h.epoch {
		return
	}
	if before := h.storedTarget(h.meta.Member); before == nil || !before.equal(*h.target) {
		h.append(targetRecord(h.g.id, h.meta.Member, *h.target))
	}
}

// seen puts what an assignor sees of a member in terms of the group's topology.
func (h *heartbeat) seen(m *assignor.Member) {
	switch u := h.upgraded; {
	case u != nil && m.ID == h.meta.Member:
		m.Prior = u.prior.prior()
	case h.runsOlder(m.TopologyEpoch):
		_, cur := h.holder(m.ID)
		m.Prior = h.successionOf(h.g.filingEpoch(m.TopologyEpoch)).translate(cur.assigned).prior()
		// It can claim nothing else, and its offsets are of other tasks.
		m.PriorTarget, m.Offsets, m.EndOffsets = nil, nil, nil
	}
}

// holder is a member's topology epoch and what it has, as of this heartbeat.
func (h *heartbeat) holder(id string) (topologyEpoch int32, c current) {
	if h.meta != nil && id == h.meta.Member {
		return h.meta.TopologyEpoch, h.cur
	}
	m := h.g.members[id]
	return m.meta.TopologyEpoch, m.cur
}

// keepWhileNotReady leaves members that are behind what they have: a new version
// that never becomes ready must not harm the old one.
func (h *heartbeat) keepWhileNotReady(targets map[string]roles) {
	for id := range targets {
		if epoch, c := h.holder(id); h.runsOlder(epoch) {
			targets[id] = c.assigned
		}
	}
}

// settleOlder finishes targets that are in terms of the group's topology: it
// takes from them what members that are behind stand in the way of, and puts the
// targets of those members in their own terms.
func (h *heartbeat) settleOlder(targets map[string]roles) {
	older := h.older(targets)
	own := make([]roles, len(older))
	rivals := map[topology.TaskID]Conflict{}
	for i, id := range older {
		epoch, c := h.holder(id)
		s := h.successionOf(h.g.filingEpoch(epoch))
		own[i] = s.restrict(c.assigned, targets[id])
		if len(s.overlapped) == 0 || c.epoch == absent {
			continue
		}
		for _, t := range own[i].active {
			for _, o := range s.overlapped[t.Subtopology] {
				blocked := topology.TaskID{Subtopology: o.Newer, Partition: t.Partition}
				if _, already := rivals[blocked]; !already {
					rivals[blocked] = Conflict{Task: blocked, Holder: h.processOf(id), TopologyEpoch: epoch, As: t, Topics: o.Topics}
				}
			}
		}
	}
	if len(rivals) > 0 {
		h.holdBack(targets, rivals)
	}
	h.unassigned = unassigned(h.configured, targets)
	for _, t := range h.unassigned {
		if c, ok := rivals[t]; ok {
			h.heldBack = append(h.heldBack, c)
		}
	}
	for i, id := range older {
		targets[id] = own[i]
	}
}

// holdBack gives tasks to nobody that would wait until a member is restarted: the
// group is to come to rest meanwhile.
func (h *heartbeat) holdBack(targets map[string]roles, rivals map[topology.TaskID]Conflict) {
	free := func(t topology.TaskID) bool { _, taken := rivals[t]; return !taken }
	for id, t := range targets {
		if epoch, _ := h.holder(id); !h.runsOlder(epoch) {
			targets[id] = roles{active: t.active.filter(free), standby: t.standby.filter(free)}
		}
	}
}

// older are the members of the targets that are behind, ascending.
func (h *heartbeat) older(targets map[string]roles) []string {
	if len(h.view().successions) == 0 {
		return nil
	}
	var out []string
	for id := range targets {
		if epoch, _ := h.holder(id); h.runsOlder(epoch) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

func (h *heartbeat) processOf(id string) string {
	if h.meta != nil && id == h.meta.Member {
		return h.meta.ProcessID
	}
	return h.g.members[id].meta.ProcessID
}

// reader is the subtopology that reads a topic in the group's topology.
func (g *group) reader(topic string) (subtopology string, ok bool) {
	if s, ok := g.readers[topic]; ok {
		return s, true
	}
	s, ok := g.topics.readers[topic]
	return s, ok
}

// readerFor is the subtopology that reads a topic in the topology that a member
// runs. A topology that is not remembered reads nothing here: the member learns
// its latest epoch with the next heartbeat.
func (g *group) readerFor(m *member, topic string) (subtopology string, ok bool) {
	if g.policy == Kafka || g.topology == nil || m.filed == g.topology.Epoch {
		return g.reader(topic)
	}
	if o := g.olderAt(m.filed); o != nil {
		subtopology, ok = o.readers[topic]
	}
	return subtopology, ok
}

func (g *group) olderAt(epoch int32) *olderTopology {
	for i := range g.older {
		if g.older[i].epoch == epoch {
			return &g.older[i]
		}
	}
	return nil
}

// committable is whether the member may commit an offset of the partition with a
// member epoch that is not its latest: it must have held the task since then.
func (g *group) committable(m *member, topic string, partition, epoch int32) bool {
	s, ok := g.readerFor(m, topic)
	if !ok {
		return false
	}
	given, held := m.cur.assignmentEpoch(topology.TaskID{Subtopology: s, Partition: partition})
	return held && epoch >= given
}

// subscribed is whether some member reads the topic, or will.
func (g *group) subscribed(topic string) bool {
	if _, ok := g.reader(topic); ok {
		return true
	}
	for i := range g.older {
		if _, reads := g.older[i].readers[topic]; reads && g.owners.at(g.older[i].epoch) != nil {
			return true
		}
	}
	return false
}

// orphaned are the internal topics that a topology has and its replacement does
// not use.
func orphaned(older, newer *record.Topology) []string {
	var had []string
	for i := range older.Subtopologies {
		s := &older.Subtopologies[i]
		had = append(had, topicNames(s.RepartitionSourceTopics)...)
		had = append(had, topicNames(s.StateChangelogTopics)...)
	}
	used := topics.Named(newer)
	return slices.DeleteFunc(sortedSet(had), func(topic string) bool {
		_, found := slices.BinarySearch(used, topic)
		return found
	})
}
