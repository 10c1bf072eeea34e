package coordinator

import (
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/topology"
)

// checkInvariants compares what is kept by counting with a count, and checks what
// no sequence of requests may bring about.
func checkInvariants(t tester, g *group) {
	t.Helper()
	checkCounters(t, g)
	owner := map[filedTask]string{}
	static := map[string]string{}
	for _, id := range g.memberIDs() {
		m := g.members[id]
		if i := m.instanceID(); i != "" {
			static[i] = id
		}
		require.Equal(t, g.filingEpoch(m.meta.TopologyEpoch), m.filed, "where the tasks of %s are filed", id)
		for _, task := range m.held().active {
			k := filedTask{m.filed, task}
			require.Empty(t, owner[k], "task %s is active at %s and %s", task, owner[k], id)
			owner[k] = id
		}
	}
	if g.endpoints.filled && len(g.endpoints.changed) == 0 {
		require.Equal(t, g.countEndpoints(), g.endpoints.list)
	}
	have := g.owners
	g.fileAll()
	require.Equal(t, g.owners, have, "the index of owners")
	g.owners = have
	checkOneWorker(t, g)
	require.Equal(t, static, g.static)
	require.Equal(t, membersOnWire(g), g.encodedMembers(), "the encoded members")
}

// countEndpoints is what a list of endpoints has to say.
func (g *group) countEndpoints() []wireEndpoint {
	out := []wireEndpoint{}
	for _, id := range g.memberIDs() {
		m := g.members[id]
		if entry, ok := endpointEntry(m.meta.UserEndpoint, m.cur.assigned, g.topics.sources(m.meta.TopologyEpoch)); ok {
			out = append(out, entry)
		}
	}
	return out
}

// checkTimers checks that the heap holds the armed timers of members and groups and
// nothing else, in order.
func checkTimers(t tester, c *Coordinator) {
	t.Helper()
	armed := 0
	count := func(timer *timer) {
		if timer.armed() {
			armed++
		}
	}
	for _, g := range c.groups {
		count(&g.initial)
		for _, m := range g.members {
			count(&m.session)
			count(&m.rebalance)
		}
	}
	require.Len(t, c.timers, armed)
	for i, s := range c.timers {
		if s.t.slot != i+1 || s.t.slotAt != s.at || s.at > s.t.at || i > 0 && s.before(c.timers[(i-1)/4]) {
			require.Fail(t, "the timers are out of order", "%d: %v, %+v", i, s.at, s.t)
		}
	}
}

// checkEpochs checks that nobody is ahead of the group.
func checkEpochs(t tester, g *group) {
	t.Helper()
	require.LessOrEqual(t, g.assignmentEpoch, g.epoch)
	for id, m := range g.members {
		require.LessOrEqual(t, max(m.cur.epoch, m.cur.previousEpoch), g.epoch, "member %s", id)
	}
}

// checkCounters checks what holds whatever the records were.
func checkCounters(t tester, g *group) {
	t.Helper()
	settled := map[int32]int{}
	for id, m := range g.members {
		require.Equal(t, id, m.meta.Member)
		require.Len(t, m.cur.epochs, len(m.cur.assigned.active))
		require.Len(t, m.cur.pendingEpochs, len(m.cur.pending.active))
		if m.cur.state == stable {
			settled[m.cur.epoch]++
		}
	}
	require.Equal(t, settled, g.stableAt)
	for instance, id := range g.static {
		require.Contains(t, g.members, id)
		require.Equal(t, instance, g.members[id].instanceID())
	}
}

// filedTask is a task under the id that it has in the topology of an epoch.
type filedTask struct {
	epoch int32
	topology.TaskID
}

// activeOwners are the processes of all active tasks.
func (g *group) activeOwners() map[filedTask]string {
	out := map[filedTask]string{}
	for _, f := range g.owners {
		for t, process := range f.active {
			out[filedTask{f.epoch, t}] = process
		}
	}
	return out
}

// checkOneWorker checks that no partition of a source or changelog topic is
// worked on under two topology epochs at once.
func checkOneWorker(t tester, g *group) {
	t.Helper()
	if g.policy == Kafka || g.topology == nil || len(g.owners) < 2 {
		return
	}
	type worker struct {
		member string
		filedTask
	}
	type partition struct {
		topic string
		n     int32
	}
	footprints := map[int32][]topology.Footprint{}
	var matches map[string][]string
	if c := g.configured(); c != nil {
		matches = matchesOf(c)
	}
	footprints[g.topology.Epoch] = footprintsOf(g.topology, matches)
	for _, o := range g.older {
		footprints[o.epoch] = o.footprints
	}
	workers := map[partition]worker{}
	for _, id := range g.memberIDs() {
		m := g.members[id]
		if m.cur.epoch == absent && m.filed != g.topology.Epoch {
			continue
		}
		for _, task := range m.held().active {
			w := worker{id, filedTask{m.filed, task}}
			for _, f := range footprints[m.filed] {
				if f.ID != task.Subtopology {
					continue
				}
				for _, topic := range sortedSet(f.Sources, f.Changelogs) {
					p := partition{topic, task.Partition}
					if o, found := workers[p]; found && o.epoch != w.epoch {
						require.Fail(t, "two versions work on a partition", "%v: %v and %v", p, o, w)
					}
					workers[p] = w
				}
			}
		}
	}
}
