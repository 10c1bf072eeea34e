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
	owner := map[topology.TaskID]string{}
	owners := newOwnerIndex()
	static := map[string]string{}
	for _, id := range g.memberIDs() {
		m := g.members[id]
		owners.add(m.meta.ProcessID, m.held())
		if i := m.instanceID(); i != "" {
			static[i] = id
		}
		for _, task := range m.held().active {
			require.Empty(t, owner[task], "task %s is active at %s and %s", task, owner[task], id)
			owner[task] = id
		}
	}
	if g.endpoints.filled && len(g.endpoints.changed) == 0 {
		require.Equal(t, g.countEndpoints(), g.endpoints.list)
	}
	require.Equal(t, owners, g.owners, "the index of owners")
	require.Equal(t, static, g.static)
	require.Equal(t, membersOnWire(g), g.encodedMembers(), "the encoded members")
}

// countEndpoints is what a list of endpoints has to say.
func (g *group) countEndpoints() []wireEndpoint {
	out := []wireEndpoint{}
	for _, id := range g.memberIDs() {
		m := g.members[id]
		if entry, ok := endpointEntry(m.meta.UserEndpoint, m.cur.assigned, g.topics.configured); ok {
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
