package coordinator

import (
	"maps"
	"math"
	"slices"

	"github.com/streamsgroup/streamsgroup/coordinator/assignor"
	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Between the target assignment and reconciliation stands the refined assignment:
// it has warm-up tasks where stateful tasks are to move to, and the active tasks
// still where they run. It belongs to one assignment epoch and is frozen for that,
// so that members that are reconciled early and late see the same plan. When a
// stable group has something new to work off, that is a new epoch with the same
// target: a refinement step.

// LogEnds answers where the logs of topics end. An implementation must be fast:
// it is asked within heartbeats, for the changelogs of tasks that are on the move.
type LogEnds interface {
	// LogEnd is the offset after the last record of a partition, false if it is
	// not known.
	LogEnd(topic string, partition int32) (int64, bool)
}

// refinement is the plan of one assignment epoch. It is immutable.
type refinement struct {
	refined
	epoch int32 // assignment epoch
	// settled is whether members hold what the plan says and nothing has been
	// reported since that could change it.
	settled bool
	// remade is whether the plan was made again while its epoch was under way: by a
	// coordinator that has loaded the group, for example. Members that are through
	// with the epoch may hold what another plan said, and would keep it.
	remade bool
	// What it was made with.
	warmups int
	lag     int64
}

// slice is what a member is to have, given its target.
func (p *refinement) slice(member string, target roles) roles {
	if p != nil {
		if t, ok := p.tasks[member]; ok {
			return t
		}
	}
	return target
}

// refines is whether moves of the group go by way of warm-up tasks. Kafka 4.4 has
// the hook and moves tasks at once.
func (h *heartbeat) refines() bool {
	if h.c.policy == Kafka || h.cfg.warmups == 0 || h.cfg.lag == math.MaxInt64 {
		return false
	}
	w, ok := h.c.assignors[h.cfg.assignor].(assignor.Warming)
	return ok && w.WarmsUp()
}

// budget is how many warm-ups there may be, and how far behind they may be when
// they are done.
func (h *heartbeat) budget() (warmups int, lag int64) {
	if !h.refines() {
		return 0, 0
	}
	return h.cfg.warmups, h.cfg.lag
}

// plan is the refinement of the present assignment epoch, nil if there is none.
func (h *heartbeat) plan() *refinement {
	if p := h.fx.soft.refinement; p != nil {
		return p
	}
	if p := h.g.refinement; p != nil && p.epoch == h.g.assignmentEpoch {
		return p
	}
	return nil
}

// probe looks whether a stable group has something new to work off, and asks for
// a new epoch if so. In a group at rest, and as long as reports change nothing
// that matters, it costs nothing.
func (h *heartbeat) probe() {
	p := h.plan()
	if p == nil && !h.refines() || h.c.policy == Kafka {
		return
	}
	if p != nil && h.replaced != "" {
		p = p.renamed(h.replaced, h.meta.Member)
		h.fx.soft.refinement = p
		return
	}
	warmups, lag := h.budget()
	if p != nil && p.settled && p.warmups == warmups && p.lag == lag {
		if !h.matters(p) {
			return
		}
		unsettled := *p
		unsettled.settled = false
		p, h.fx.soft.refinement = &unsettled, &unsettled
	}
	if len(h.reasons) > 0 || h.old == nil || h.upgraded != nil || h.g.state() != Stable {
		return
	}
	next := h.derive(h.g.assignmentEpoch)
	if h.holdsAll(next) || p != nil && !p.remade && next.sameTasks(p) {
		next.settled = true
		h.fx.soft.refinement = next
		return
	}
	h.fx.soft.refinement = next
	h.bump(ReasonRefinement)
}

// onlyRefines is whether the request leads to a new epoch for nothing but a
// refinement step: then the target stays.
func (h *heartbeat) onlyRefines() bool {
	return len(h.reasons) == 1 && h.reasons[0] == ReasonRefinement && h.g.assignmentEpoch >= h.g.epoch
}

// stepOnly moves the assignment epoch on without a new target.
func (h *heartbeat) stepOnly() {
	h.append(&record.TargetAssignmentMetadata{Group: h.g.id, AssignmentEpoch: h.epoch, AssignmentTimestampMillis: h.g.assignmentMillis})
	h.assignment, h.goal = h.epoch, h.targetTasks()
	p := *h.fx.soft.refinement
	p.epoch = h.epoch
	h.fx.soft.refinement = &p
}

// refine puts the plan of the epoch in the place of the target. A plan that is
// not there yet, or no longer, is made.
func (h *heartbeat) refine() {
	p := h.plan()
	if p == nil || p.epoch != h.assignment || h.targets != nil {
		if !h.refines() {
			return
		}
		remade := p == nil && h.targets == nil && h.assignment == h.g.assignmentEpoch
		p = h.derive(h.assignment)
		if p.remade = remade; remade {
			p.settled = false
		}
		h.fx.soft.refinement = p
	}
	h.goal = p.slice(h.meta.Member, h.goal)
}

// warmupSlots is how many warm-ups more there may be now. A plan stays within the
// budget, but warm-ups of the plan before may not be given up yet.
func (h *heartbeat) warmupSlots() int {
	p := h.plan()
	if p == nil {
		return math.MaxInt32 // what the target says, whoever has written that
	}
	slots := p.warmups
	for _, f := range h.g.owners {
		for _, processes := range f.warmup {
			slots -= len(processes)
		}
	}
	return slots
}

// derive makes the plan for an assignment epoch from what the members hold, with
// this request applied.
func (h *heartbeat) derive(epoch int32) *refinement {
	p := &refinement{epoch: epoch}
	p.warmups, p.lag = h.budget()
	in := h.refineInput()
	p.refined = refine(in)
	if !in.sameActive(p.refined) {
		p.refined = refined{} // never lose a task to a plan
		h.event(RefinementRefused{Group: h.g.id, Epoch: epoch})
	}
	h.inOwnTerms(p)
	p.settled = len(p.moving) == 0
	return p
}

func (h *heartbeat) refineInput() refineInput {
	in := refineInput{logEnd: h.logEnd, keepOrphans: h.epoch > h.assignment}
	in.warmups, in.lag = h.budget()
	in.stateful = func(id string) bool {
		if h.configured == nil || !h.configured.Ready() {
			return false
		}
		s := subtopology(h.configured, id)
		return s != nil && s.Stateful
	}
	ids := make([]string, 0, len(h.g.members)+1)
	for id := range h.g.members {
		if id != h.replaced && id != h.meta.Member {
			ids = append(ids, id)
		}
	}
	ids = append(ids, h.meta.Member)
	slices.Sort(ids)
	in.members = make([]refineMember, len(ids))
	for i, id := range ids {
		in.members[i] = h.refineMember(id)
	}
	return in
}

func (h *heartbeat) refineMember(id string) refineMember {
	if id == h.meta.Member {
		m := h.self()
		m.target = h.targetOf(id, h.target)
		h.translate(&m, h.meta)
		return m
	}
	m := h.g.members[id]
	out := refineMember{id: id, process: m.meta.ProcessID, warms: m.warms(), held: m.cur.assigned, offsets: m.offsets, ends: m.ends, target: h.targetOf(id, m.target)}
	h.translate(&out, m.meta)
	return out
}

// self is the member of this request, with what it reports.
func (h *heartbeat) self() refineMember {
	m := refineMember{id: h.meta.Member, process: h.meta.ProcessID, warms: warmsOf(h.req.Version), held: h.cur.assigned}
	if h.old != nil {
		m.offsets, m.ends = h.old.offsets, h.old.ends
	}
	if h.fx.soft.offsets != nil {
		m.offsets = h.fx.soft.offsets
	}
	if h.fx.soft.ends != nil {
		m.ends = h.fx.soft.ends
	}
	return m
}

func warmsOf(version int16) warms {
	if version == 0 {
		return warmsNo
	}
	return warmsYes
}

func (m *member) warms() warms {
	if !m.heard {
		return warmsUnknown
	}
	return warmsOf(m.version)
}

// targetOf is a member's target: the one just computed, or else the stored one.
func (h *heartbeat) targetOf(id string, stored *roles) roles {
	if t, ok := h.targets[id]; ok {
		return t
	}
	if stored == nil {
		return roles{}
	}
	return *stored
}

// translate puts a member that runs an older topology in terms of the group's. Its
// offsets are of other tasks.
func (h *heartbeat) translate(m *refineMember, meta *record.MemberMetadata) {
	if !h.runsOlder(meta.TopologyEpoch) {
		return
	}
	s := h.successionOf(h.g.filingEpoch(meta.TopologyEpoch))
	m.stale, m.held, m.target = true, s.translate(s.withoutRivals(m.held, m.target)), s.translate(m.target)
	m.offsets, m.ends = nil, nil
}

// inOwnTerms puts the slices of members that run an older topology back in terms
// of that.
func (h *heartbeat) inOwnTerms(p *refinement) {
	for _, id := range slices.Sorted(maps.Keys(p.tasks)) {
		epoch, c := h.holder(id)
		if h.runsOlder(epoch) {
			p.tasks[id] = h.successionOf(h.g.filingEpoch(epoch)).restrict(c.assigned, p.tasks[id])
		}
	}
}

// logEnd adds up the log ends of a task's changelogs. It asks for all of them even if
// one is not known: who looks them up can do that at once then.
func (h *heartbeat) logEnd(t topology.TaskID) (int64, bool) {
	ends := h.c.logEnds
	s := subtopology(h.configured, t.Subtopology)
	if ends == nil || s == nil {
		return 0, false
	}
	sum, known := int64(0), true
	for i := range s.Changelogs {
		end, ok := ends.LogEnd(s.Changelogs[i].Name, t.Partition)
		sum, known = sum+end, known && ok
	}
	if !known {
		return 0, false
	}
	return sum, true
}

// matters is whether what this request reports can change the plan: for a task on
// the move, whether a copy is there, has started or has caught up, and for those
// that tasks go to, whether they are busy restoring.
func (h *heartbeat) matters(p *refinement) bool {
	if len(p.moving) == 0 || h.old == nil {
		return false
	}
	now := h.self()
	if h.old.warms() != now.warms {
		return true
	}
	if h.fx.soft.offsets == nil && h.fx.soft.ends == nil {
		return false
	}
	before := now
	before.offsets, before.ends = h.old.offsets, h.old.ends
	in := refineInput{logEnd: h.logEnd, lag: h.cfg.lag}
	for _, t := range p.moving {
		if before.started(t) != now.started(t) || before.restoring(t) != now.restoring(t) || in.caughtUp(&before, t) != in.caughtUp(&now, t) {
			return true
		}
	}
	if !h.targetTasks().active.overlaps(p.moving) {
		return false
	}
	busy := func(m *refineMember) bool { return slices.ContainsFunc(h.cur.assigned.active, m.restoring) }
	return busy(&before) != busy(&now)
}

// holdsAll is whether every member has what the plan says.
func (h *heartbeat) holdsAll(p *refinement) bool {
	for id, m := range h.g.members {
		target := roles{}
		if m.target != nil {
			target = *m.target
		}
		if !p.slice(id, target).equal(m.cur.assigned) {
			return false
		}
	}
	return true
}

func (p *refinement) sameTasks(o *refinement) bool {
	return maps.EqualFunc(p.tasks, o.tasks, roles.equal)
}

// renamed is the plan after a static member has come back, under another id
// perhaps.
func (p *refinement) renamed(from, to string) *refinement {
	out := *p
	out.settled = false
	t, ok := p.tasks[from]
	if !ok {
		return &out
	}
	out.tasks = maps.Clone(p.tasks)
	delete(out.tasks, from)
	out.tasks[to] = t
	return &out
}
