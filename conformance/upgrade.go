package conformance

import (
	"github.com/stretchr/testify/require"
)

// Updates of the topology by content: what the scenarios of kip.go have in common
// is that both versions use the same ids for the same thing. Here they do not.

// upgraded has a member of the first version hold everything, and one of the
// second join. The topics A, B and C have two partitions each.
func (c *C) upgraded(first, second Topo) (older, newer *Member) {
	c.AtOnce()
	for _, word := range []string{"A", "B", "C"} {
		c.Topic(word, 2)
	}
	older, newer = c.Member("old"), c.Member("new")
	older.Join(first).OK(2).Says("-")
	newer.Join(second.At(1)).OK(3)
	return older, newer
}

// read requires that the members together read each partition of the topics once
// and no other. Each has its version's topology: what a task reads depends on it.
func (c *C) read(want string, versions ...versionOf) {
	all := none
	for _, v := range versions {
		for _, s := range v.topo.Subs {
			for _, topic := range s.Sources {
				for _, p := range partitionsOf(present(v.member.Active), s.ID) {
					part := formatTasks(map[string][]int32{topic: {p}})
					require.Empty(c, common(all, part), "partition with two readers")
					all = union(all, part)
				}
			}
		}
	}
	require.Equal(c, canonical(want), all, "partitions with a reader")
}

// versionOf is a member and what it runs.
type versionOf struct {
	member *Member
	topo   Topo
}

var upgrades = []Scenario{
	kip("D3", Scenario{IDs: []string{"K-20", "X6"}, Title: "an update that adds a store", Run: func(c *C) {
		c.Expect("S")
		v1, v2 := Topology(Reads("0", "A")), Topology(Keeps("0", "A", "S")).At(1)
		older, newer := c.upgraded(v1, v2)
		least := count(older.Active)
		for range 100 {
			newer.Ack().Is("NONE")
			older.Ack().Is("NONE").Says("0") // never a status of the new topology
			least = min(least, count(older.Active))
			state := c.Describe().State
			if state == "Stable" {
				break
			}
			if state == "NotReady" {
				require.Equal(c, canonical("0:0-1"), older.Active, "old keeps what it has until the store is there")
			}
		}
		c.Created("S", 2)
		c.Converge(older, newer)
		c.Even("0:0-1", older, newer)
		require.Equal(c, 1, least, "old is never asked for more than one task")
		newer.Beat().Is("NONE").Says("-")
	}}),
	kip("D3", Scenario{IDs: []string{"X6", "14.1-3"}, Title: "a version that never becomes ready does not harm the old one", Run: func(c *C) {
		v1 := Topology(Reads("0", "A"), Reads("1", "B"))
		older, newer := c.upgraded(v1, Topology(Reads("0", "A"), Reads("1", "missing")))
		newer.Beat().Is("NONE").Says("1")
		for range 3 {
			older.Ack().Is("NONE").NoLists().Says("0")
		}
		require.Equal(c, canonical("0:0-1 1:0-1"), older.Active)
		require.Equal(c, Tasks{Active: older.Active}, c.Describe().In("NotReady", 3).Goal("old"))
		newer.Leave().OK(-1)
		back := c.Member("back") // the old version again, as the next epoch
		back.Join(v1.At(2)).Is("NONE").Says("-")
		c.Converge(older, back)
		c.Even("0:0-1 1:0-1", older, back)
	}}),
	kip("D3", Scenario{IDs: []string{"K-21", "X2"}, Title: "subtopologies that get other numbers", Run: func(c *C) {
		v1 := Topology(Reads("0", "A"), Reads("1", "B"), Reads("2", "C"))
		v2 := Topology(Reads("0", "B"), Reads("1", "C"))
		older, newer := c.upgraded(v1, v2)
		newer.Ack().OK(3)
		require.Empty(c, newer.Active, "everything is still with old")
		older.Beat().OK(2).Says("0")
		c.subset(older.Active, "1:0-1 2:0-1", "old goes on under its own numbers")
		require.Equal(c, 2, count(older.Active))
		newer.Ack().OK(3)
		require.Empty(c, newer.Active)
		older.Ack().OK(3)
		newer.Ack().OK(3)
		c.read("B:0-1 C:0-1", versionOf{older, v1}, versionOf{newer, v2})
		c.Describe().In("Stable", 3)
		older.Leave().OK(-1)
		newer.Ack().Is("NONE").Has("0:0-1 1:0-1")
	}}),
	kip("D3", Scenario{IDs: []string{"K-22", "X2"}, Title: "subtopologies that change places", Run: func(c *C) {
		v1, v2 := Topology(Reads("0", "A"), Reads("1", "B")), Topology(Reads("0", "B"), Reads("1", "A"))
		older, newer := c.upgraded(v1, v2)
		older.Beat().OK(2)
		require.Equal(c, 2, count(older.Active), "its share")
		kept := older.Active
		c.ConvergeVersions(versionOf{older, v1}, versionOf{newer, v2})
		require.Equal(c, kept, older.Active)
		c.read("A:0-1 B:0-1", versionOf{older, v1}, versionOf{newer, v2})
	}}),
	kip("D3", Scenario{IDs: []string{"K-23", "X1", "21.2-3"}, Title: "a topic that moves to another subtopology", Run: func(c *C) {
		v1, v2 := Topology(Reads("x", "B", "C")), Topology(Reads("0", "A", "C"), Reads("x", "B"))
		older, newer := c.upgraded(v1, v2)
		c.ConvergeVersions(versionOf{older, v1}, versionOf{newer, v2})
		for _, p := range partitionsOf(older.Active, "x") {
			require.NotContains(c, partitionsOf(newer.Active, "0"), p, "old still reads this partition of C")
		}
		c.Describe().In("Stable", 3)
		older.Leave().OK(-1)
		newer.Ack().Is("NONE").Has("0:0-1 x:0-1")
	}}),
	kip("D3", Scenario{IDs: []string{"K-24", "X1"}, Title: "a changelog that moves to another subtopology", Run: func(c *C) {
		c.Topic("S", 2)
		v1, v2 := Topology(Keeps("0", "A", "S")), Topology(Reads("0", "B"), Keeps("1", "C", "S"))
		older, newer := c.upgraded(v1, v2)
		require.Equal(c, canonical("0:0-1"), newer.Active, "nobody reads B")
		older.Beat().OK(2).Has(none).Says("0") // nothing goes on with what it does
		newer.Ack().OK(3).NoLists()            // old has not given S up yet
		older.Ack().OK(3)
		newer.Ack().OK(3).Has("0:0-1 1:0-1")
	}}),
	kip("D3", Scenario{IDs: []string{"K-25", "X1"}, Title: "a topic that could grow into the way", Run: func(c *C) {
		c.AtOnce()
		c.Topic("A", 2)
		c.Topic("B", 4)
		c.Topic("C", 4)
		v1, v2 := Topology(Reads("0", "A", "B")), Topology(Reads("0", "B"), Reads("1", "A", "C")).At(1)
		older, newer := c.Member("old"), c.Member("new")
		older.Join(v1).OK(2)
		newer.Join(v2).OK(3)
		c.ConvergeVersions(versionOf{older, v1}, versionOf{newer, v2})
		kept := partitionsOf(older.Active, "0")
		require.NotEmpty(c, kept)
		for _, p := range kept {
			require.NotContains(c, partitionsOf(newer.Active, "1"), p, "old has partition %d of what reads A, whether A has it or not", p)
		}
	}}),
	kip("D3", Scenario{IDs: []string{"K-27", "X3"}, Title: "a member comes back with a newer topology", Run: func(c *C) {
		c.AtOnce()
		c.Topic("A", 2)
		m := c.Member("old")
		m.Join(Topology(Reads("0", "A"))).OK(2).Has("0:0-1")
		m.Join(Topology(Reads("0", "A")).At(1)).OK(3).Has("0:0-1").Says("-")
		c.committed("STALE_MEMBER_EPOCH", Commit{Member: "old", Epoch: 2}, "A:0-1", 5)
		c.committed("NONE", Commit{Member: "old", Epoch: 3}, "A:0-1", 5)
	}}),
	kip("D3", Scenario{IDs: []string{"K-27", "X3"}, Title: "a static member comes back with a newer topology that has other numbers", Run: func(c *C) {
		c.Need44()
		c.AtOnce()
		c.Topic("A", 2)
		c.Topic("B", 2)
		v1, v2 := Topology(Reads("0", "A"), Reads("1", "B")), Topology(Reads("0", "B"), Reads("1", "A")).At(1)
		a, m := c.Static("a", "i"), c.Member("m")
		a.Join(v1).OK(2)
		m.Join(v1).OK(3)
		c.Converge(a, m)
		held := a.Active
		a.LeaveForNow().OK(-2)
		b := c.Static("b", "i")
		answer := b.Join(v2).Is("NONE").Says("-")
		require.Equal(c, count(held), count(answer.Active()), "it gets back what it had")
		c.read("A:0-1 B:0-1", versionOf{b, v2}, versionOf{m, v1})
		c.ConvergeVersions(versionOf{b, v2}, versionOf{m, v1})
		c.read("A:0-1 B:0-1", versionOf{b, v2}, versionOf{m, v1})
	}}),
	kip("D3", Scenario{IDs: []string{"X5", "17.1-9"}, Title: "commits of a member are looked up in its own topology", Run: func(c *C) {
		v1, v2 := Topology(Reads("0", "A"), Reads("1", "B"), Reads("2", "C")), Topology(Reads("0", "B"), Reads("1", "C"))
		older, newer := c.upgraded(v1, v2)
		c.ConvergeVersions(versionOf{older, v1}, versionOf{newer, v2})
		for _, s := range v1.Subs {
			for _, p := range []int32{0, 1} {
				part := formatTasks(map[string][]int32{s.Sources[0]: {p}})
				has := count(common(older.Active, formatTasks(map[string][]int32{s.ID: {p}}))) > 0
				c.committed(map[bool]string{true: "NONE", false: "STALE_MEMBER_EPOCH"}[has], Commit{Member: "old", Epoch: 2}, part, 7)
			}
		}
	}}),
	kip("D3", Scenario{IDs: []string{"X7", "16-5", "17.3-2"}, Title: "topics that only members of an older topology read", Run: func(c *C) {
		c.AtOnce()
		for _, word := range []string{"A", "B", "C"} {
			c.Topic(word, 1)
		}
		older, newer := c.Member("old"), c.Member("new")
		older.Join(Topology(Reads("0", "A"), Reads("1", "B"), Reads("2", "C")), Endpoint("h", 1)).OK(2)
		newer.Join(Topology(Reads("0", "B"), Reads("1", "C")).At(1), Endpoint("h", 2)).OK(3)
		c.committed("NONE", Commit{Member: "old", Epoch: 2}, "A:0", 5)
		require.Equal(c, "GROUP_SUBSCRIBED_TO_TOPIC", c.DeleteOffset("A"))
		for range 4 {
			older.Ack().Is("NONE")
			newer.Ack().Is("NONE")
		}
		require.Equal(c, 1, count(older.Active))
		olds := map[string]string{"1:0": "B:0", "2:0": "C:0"}[older.Active]
		news := map[string]string{"0:0": "B:0", "1:0": "C:0"}[newer.Active]
		require.Equal(c, "h:1 active="+olds+" standby=; h:2 active="+news+" standby=", newer.Beat(NoEndpointEpoch).OK(3).Endpoints())
		require.Equal(c, "GROUP_SUBSCRIBED_TO_TOPIC", c.DeleteOffset("A"))
		older.Leave().OK(-1)
		newer.Ack().Is("NONE")
		require.Equal(c, "NONE", c.DeleteOffset("A"))
	}}),
}

// ConvergeVersions is [C.Converge] for members that run different versions: the
// ids of their tasks mean different things.
func (c *C) ConvergeVersions(versions ...versionOf) {
	const rounds = 20
	for range rounds {
		quiet := true
		for _, v := range versions {
			epoch := v.member.Epoch
			a := v.member.Ack().Is("NONE")
			quiet = quiet && a.ActiveTasks == nil && v.member.Epoch == epoch
		}
		if quiet && c.Describe().State == "Stable" {
			return
		}
	}
	require.Fail(c, "the group is not stable", "after %d heartbeats of each member", rounds)
}
