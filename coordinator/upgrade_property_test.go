package coordinator

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/topology"
)

// upgrades is a swarm whose versions have nothing to do with each other but the
// topics: from one to the next they renumber their subtopologies, move topics,
// merge, split, and take up and drop stores.
type upgrades struct {
	*swarm
	versions []*kmsg.StreamsGroupHeartbeatRequestTopology
	sources  []string
	stores   []string
	// before is what members that were behind had at the last look.
	before map[string]behindBefore
}

type behindBefore struct {
	epoch    int32
	assigned roles
}

func newUpgrades(rt *rapid.T) *upgrades {
	u := &upgrades{swarm: newSwarmOf(rt, KIP1071), before: map[string]behindBefore{}}
	u.brokerConfig("group.streams.assignors", rapid.SampledFrom([]string{"sticky", "highly_available"}).Draw(rt, "assignor"))
	for i := range 5 {
		name := "T" + strconv.Itoa(i)
		u.sources = append(u.sources, name)
		u.topic(name, int32(rapid.IntRange(1, 4).Draw(rt, name)))
	}
	for i := range 3 {
		u.stores = append(u.stores, "S"+strconv.Itoa(i))
	}
	u.swarm.version = u.version
	return u
}

// version draws a topology when it is needed first.
func (u *upgrades) version(epoch int32) *kmsg.StreamsGroupHeartbeatRequestTopology {
	for int(epoch) >= len(u.versions) {
		u.versions = append(u.versions, u.draw(int32(len(u.versions))))
	}
	return u.versions[epoch]
}

func (u *upgrades) draw(epoch int32) *kmsg.StreamsGroupHeartbeatRequestTopology {
	ids := rapid.Permutation([]string{"0", "1", "2", "3"}).Draw(u.rt, "ids")
	subs := make([]wireSub, rapid.IntRange(1, len(ids)).Draw(u.rt, "subtopologies"))
	for i := range subs {
		subs[i] = sub(ids[i])
	}
	for _, topic := range u.sources {
		if i := rapid.IntRange(-1, len(subs)-1).Draw(u.rt, topic); i >= 0 {
			reads(topic)(&subs[i])
		}
	}
	subs = slices.DeleteFunc(subs, func(s wireSub) bool { return len(s.SourceTopics) == 0 })
	if len(subs) == 0 {
		subs = []wireSub{sub("0", reads(u.sources[0]))}
	}
	for _, store := range u.stores {
		if i := rapid.IntRange(-1, len(subs)-1).Draw(u.rt, store); i >= 0 {
			changelog(store)(&subs[i])
		}
	}
	return topo(epoch, subs...)
}

// check looks for what must never be, after every action.
func (u *upgrades) check() {
	u.checkRunning()
	g := u.c.groups[groupID]
	now := map[string]behindBefore{}
	if g == nil || g.topology == nil {
		u.before = now
		return
	}
	for id, m := range g.members {
		if before, ok := u.before[id]; ok && before.epoch == m.meta.TopologyEpoch {
			require.True(u.rt, m.cur.assigned.subsetOf(before.assigned), "%s runs an older version and has gained something: %v, before %v", id, m.cur, before.assigned)
		}
		if m.meta.TopologyEpoch < g.topology.Epoch {
			now[id] = behindBefore{m.meta.TopologyEpoch, m.cur.assigned}
		}
	}
	u.before = now
	if g.state() == Stable && g.configured() != nil && g.configured().Ready() {
		u.checkReaders(g)
	}
}

type topicPartition struct {
	topic     string
	partition int32
}

// checkRunning checks what the members really work on: no partition of a source
// or of a changelog under two versions.
func (u *upgrades) checkRunning() {
	type runner struct {
		member string
		filedTask
	}
	runners := map[topicPartition]runner{}
	for _, c := range u.clients {
		if !u.known(c) {
			continue
		}
		feet := footprintsOf(record.FromWire(groupID, u.version(c.topologyEpoch)), nil)
		for _, t := range c.running.active {
			i := slices.IndexFunc(feet, func(f topology.Footprint) bool { return f.ID == t.Subtopology })
			require.GreaterOrEqual(u.rt, i, 0, "%s runs %s, which its version does not have", c.id, t)
			me := runner{c.id, filedTask{c.topologyEpoch, t}}
			for _, topic := range sortedSet(feet[i].Sources, feet[i].Changelogs) {
				p := topicPartition{topic, t.Partition}
				o, found := runners[p]
				require.False(u.rt, found, "%v is worked on by %v and %v", p, o, me)
				runners[p] = me
			}
		}
	}
}

// checkReaders checks in a group at rest that every task is with somebody, unless
// a member that is behind works on its topics or nobody eligible is there.
func (u *upgrades) checkReaders(g *group) {
	had := map[topology.TaskID]bool{}
	work := map[topicPartition]bool{} // of members that are behind
	eligible := false
	group := footprintsOf(g.topology, nil)
	for _, m := range g.members {
		if m.meta.TopologyEpoch == g.topology.Epoch {
			eligible = true
			for _, t := range m.cur.assigned.active {
				had[t] = true
			}
			continue
		}
		o := g.olderAt(m.meta.TopologyEpoch)
		require.NotNil(u.rt, o, "epoch %d is not remembered", m.meta.TopologyEpoch)
		successors := topology.Successors(o.footprints, group)
		for _, t := range m.cur.assigned.active {
			had[topology.TaskID{Subtopology: successors[t.Subtopology].ID, Partition: t.Partition}] = true
			if m.cur.epoch == absent {
				continue
			}
			for _, f := range o.footprints {
				if f.ID == t.Subtopology {
					for _, topic := range sortedSet(f.Sources, f.Changelogs) {
						work[topicPartition{topic, t.Partition}] = true
					}
				}
			}
		}
	}
	for _, t := range allTasks(g.configured()) {
		if had[t] || !eligible {
			continue
		}
		i := slices.IndexFunc(group, func(f topology.Footprint) bool { return f.ID == t.Subtopology })
		inTheWay := slices.ContainsFunc(sortedSet(group[i].Sources, group[i].Changelogs), func(topic string) bool {
			return work[topicPartition{topic, t.Partition}]
		})
		require.True(u.rt, inTheWay, "nobody has %s, and nobody is in the way", t)
	}
}

func (u *upgrades) actions() map[string]func(*rapid.T) {
	a := u.swarm.actions()
	a["topic"] = func(rt *rapid.T) { // topics grow
		name := rapid.SampledFrom(u.sources).Draw(rt, "topic")
		if n := u.topics[name].Partitions; n < 4 {
			u.topic(name, n+1)
		}
	}
	a["create"] = func(*rapid.T) {
		for _, n := range u.wanted {
			u.topic(n.Name, n.Partitions)
		}
		u.wanted = nil
	}
	a["update"] = func(rt *rapid.T) { // one member brings the next version
		if g := u.c.groups[groupID]; g == nil || g.topology.Epoch == u.updates {
			u.updates++
			u.deploy(rt, u.pick())
		}
	}
	a["bounce"] = func(rt *rapid.T) { // another one that is behind gets it, too
		c := u.pick()
		if c.in && c.topologyEpoch < u.updates {
			u.deploy(rt, c)
		}
	}
	a["settle for now"] = func(*rapid.T) { u.settleForNow() }
	a["roll on"] = func(rt *rapid.T) {
		a["create"](rt)
		a["update"](rt)
		u.settleForNow()
		a["create"](rt)
		u.settleForNow()
	}
	a[""] = func(*rapid.T) { u.check() }
	return a
}

// deploy replaces a process by one of the newest version.
func (u *upgrades) deploy(rt *rapid.T, c *client) {
	goodbye := rapid.Bool().Draw(rt, "goodbye")
	if c.in && (goodbye || c.instance != "") {
		r := u.request(c)
		r.MemberEpoch = -1
		if c.instance != "" {
			r.MemberEpoch = -2
		}
		u.send(r)
	}
	c.restart()
	u.heartbeat(c, true, false)
	if rapid.Bool().Draw(rt, "obey") {
		c.running = c.told
	}
}

// settleForNow lets the members live on without anybody being upgraded, until
// those that have died are forgotten and nothing happens any more. The group comes
// to rest then, however many are behind.
func (u *upgrades) settleForNow() {
	quiet, epoch := 0, int32(0)
	for range 60 {
		u.after(2 * time.Second)
		for _, c := range u.clients {
			if c.in {
				u.heartbeat(c, true, false)
				c.running = c.told
				u.check()
			}
		}
		g := u.c.groups[groupID]
		switch {
		case g == nil || g.state() == Empty:
			return
		case g.epoch != epoch || u.waitsForSomebody(g):
			quiet, epoch = 0, g.epoch
		default:
			quiet++
		}
		if quiet == 9 { // longer than the assignment interval
			require.Contains(u.rt, []State{Stable, NotReady}, g.state(), "the group does not come to rest")
			return
		}
	}
	require.Fail(u.rt, "the group epoch does not come to rest")
}

// waitsForSomebody is whether some member is absent, or has died unnoticed.
func (u *upgrades) waitsForSomebody(g *group) bool {
	for id, m := range g.members {
		if m.cur.epoch == absent || !slices.ContainsFunc(u.clients, func(c *client) bool { return c.in && c.id == id }) {
			return true
		}
	}
	return false
}

// settle deploys the newest version everywhere and wants every task to run.
func (u *upgrades) settle() {
	u.appendFails = nil
	for _, name := range slices.Concat(u.sources, u.stores) {
		u.topic(name, 4)
	}
	for range 60 {
		u.after(2 * time.Second)
		batches := len(u.batches)
		for _, c := range u.clients {
			if c.topologyEpoch != u.updates {
				c.restart()
			}
			u.heartbeat(c, true, false)
			c.running = c.told
			u.check()
		}
		out := slices.ContainsFunc(u.clients, func(c *client) bool { return !c.in })
		if len(u.batches) == batches && u.state() == Stable && !out {
			break
		}
	}
	g := u.c.groups[groupID]
	require.Equal(u.rt, Stable, g.state())
	var all taskList
	for _, id := range g.memberIDs() {
		all = append(all, g.members[id].cur.assigned.active...)
	}
	require.Equal(u.rt, showTasks(allTasks(g.configured())), showTasks(all.sorted()))
	for _, c := range u.clients {
		require.Equal(u.rt, showRoles(g.members[c.id].cur.assigned, nil), showRoles(c.running, nil), c.id)
	}
}

func propertyUpgrades(rt *rapid.T) {
	u := newUpgrades(rt)
	for range 3 {
		for _, c := range u.clients[:rapid.IntRange(0, len(u.clients)).Draw(rt, "members")] {
			u.heartbeat(c, true, false)
			c.running = c.told
		}
	}
	rt.Repeat(u.actions())
	u.settle()
}

// TestUpgradesX1X2X3X4X6 rolls out versions that have little in common while
// members come, go and are moved to another coordinator: no partition is ever
// worked on by two versions, members that are behind gain nothing, no task waits
// without a reason, and when everybody is up to date everything runs.
func TestUpgradesX1X2X3X4X6(t *testing.T) {
	t.Parallel()
	rapid.Check(t, propertyUpgrades)
}

func FuzzUpgrades(f *testing.F) { f.Fuzz(rapid.MakeFuzz(propertyUpgrades)) }
