package coordinator

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Clone returns an independent copy.
func (c *Coordinator) Clone() *Coordinator {
	out := &Coordinator{coordinatorState{
		policy: c.policy, descriptions: c.descriptions, logEnds: c.logEnds, broker: c.broker, assignors: c.assignors, builtin: c.builtin,
		groups: map[string]*group{}, overrides: maps.Clone(c.overrides),
	}}
	for _, id := range slices.Sorted(maps.Keys(c.groups)) {
		out.groups[id] = out.cloneGroup(c.groups[id])
	}
	return out
}

func (c *coordinatorState) cloneGroup(g *group) *group {
	n := *g
	n.members, n.static = map[string]*member{}, maps.Clone(g.static)
	n.stableAt, n.readers = maps.Clone(g.stableAt), maps.Clone(g.readers)
	n.endpoints.changed = slices.Clone(g.endpoints.changed)
	n.owners = g.owners.clone()
	n.departed.targets = maps.Clone(g.departed.targets)
	n.initial.g = &n
	c.cloneTimer(&n.initial)
	for _, id := range g.memberIDs() {
		m := *g.members[id]
		for _, t := range []*timer{&m.session, &m.rebalance} {
			t.g, t.m = &n, &m
			c.cloneTimer(t)
		}
		n.members[id] = &m
	}
	return &n
}

// cloneTimer arms the copy of an armed timer here.
func (c *coordinatorState) cloneTimer(t *timer) {
	if t.armed() {
		t.slot = 0
		c.arm(t, t.at, t.after)
	}
}

func cloneLists(m map[topology.TaskID][]string) map[topology.TaskID][]string {
	out := make(map[topology.TaskID][]string, len(m))
	for k, v := range m {
		out[k] = slices.Clone(v)
	}
	return out
}

// AppendState appends a canonical encoding of a group's durable state (what
// replay rebuilds) or of its soft state (what is lost in a move).
func (c *Coordinator) AppendState(dst []byte, id string, soft bool) []byte {
	g := c.groups[id]
	if g == nil {
		return dst
	}
	if soft {
		return g.appendSoft(dst)
	}
	for _, r := range g.records() {
		key := record.AppendKey(nil, r.RecordKey())
		dst = append(binary.AppendUvarint(dst, uint64(len(key))), key...)
		value := record.AppendValue(nil, r)
		dst = append(binary.AppendUvarint(dst, uint64(len(value))), value...)
	}
	return dst
}

// records are the group's durable state as the shortest log that gives it.
func (g *group) records() []record.Record {
	out := []record.Record{g.metadata(g.epoch), &record.TargetAssignmentMetadata{Group: g.id, AssignmentEpoch: g.assignmentEpoch, AssignmentTimestampMillis: g.assignmentMillis}}
	if g.topology != nil {
		out = append(out, g.topology)
	}
	for _, id := range g.memberIDs() {
		m := g.members[id]
		out = append(out, m.meta)
		if m.target != nil {
			out = append(out, targetRecord(g.id, id, *m.target))
		}
		out = append(out, m.cur.record(g.id, id))
	}
	return out
}

func (g *group) appendSoft(dst []byte) []byte {
	dst = fmt.Appendf(dst, "endpoints %d shutdown %q initial %v %d image %d\n", g.endpointEpoch, g.shutdownBy, g.initial.armed(), g.initial.at, g.topics.version)
	if d := g.departed; d.targets != nil && d.epoch == g.assignmentEpoch {
		for _, id := range slices.Sorted(maps.Keys(d.targets)) {
			dst = fmt.Appendf(dst, "departed %q %v\n", id, d.targets[id])
		}
	}
	if g.unseen {
		dst = append(dst, "unseen\n"...)
	}
	if g.topics.again {
		dst = fmt.Appendf(dst, "patterns resolved again %d, to be resolved %v\n", g.topics.resolvedAt, g.topics.unresolved)
	}
	if r := g.descriptionRetry; r.attempts > 0 {
		dst = fmt.Appendf(dst, "description of %d asked for %d times, not before %d\n", r.epoch, r.attempts, r.until)
	}
	if p := g.refinement; p != nil && p.epoch == g.assignmentEpoch {
		dst = fmt.Appendf(dst, "refinement of %d settled %v remade %v %d %d moving %v\n", p.epoch, p.settled, p.remade, p.warmups, p.lag, p.moving)
		for _, id := range slices.Sorted(maps.Keys(p.tasks)) {
			dst = fmt.Appendf(dst, "%q %v\n", id, p.tasks[id])
		}
	}
	if c := g.configured(); c != nil {
		dst = fmt.Appendf(dst, "configured %d %+v\n", c.TopologyEpoch, c.Problem)
		for _, s := range c.Subtopologies {
			dst = fmt.Appendf(dst, "%+v\n", s)
		}
	}
	for _, id := range g.memberIDs() {
		m := g.members[id]
		dst = fmt.Appendf(dst, "member %q session %v %d rebalance %v %d %d version %d %v\n", id, m.session.armed(), m.session.at, m.rebalance.armed(), m.rebalance.at, m.rebalance.epoch, m.version, m.heard)
		for _, l := range []map[topology.TaskID]int64{m.offsets, m.ends} {
			for _, t := range slices.SortedFunc(maps.Keys(l), topology.TaskID.Compare) {
				dst = fmt.Appendf(dst, "%s=%d ", t, l[t])
			}
			dst = append(dst, '\n')
		}
	}
	return dst
}
