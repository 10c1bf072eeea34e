package conformance

import (
	"time"

	"github.com/stretchr/testify/require"
)

// kip limits a scenario to what KIP-1071 has and Kafka does not.
func kip(deviation string, s Scenario) Scenario {
	s.Policy, s.Deviation = KIP1071, deviation
	return s
}

// subset requires that all tasks of a list are in another one.
func (c *C) subset(part, whole, what string) {
	require.Empty(c, without(part, whole), "%s: %q within %q", what, part, whole)
}

// bounced brings a group of nine tasks to the middle of a roll-out: A and B have
// the old topology, C has come back with the new one.
func (c *C) bounced() (ma, mb, mc *Member) {
	c.AtOnce()
	c.Topic("foo", 9)
	ma, mb, mc = c.Member("A"), c.Member("B"), c.Member("C")
	ma.Join(T1()).OK(2)
	mb.Join(T1()).OK(3)
	mc.Join(T1()).OK(4)
	c.Converge(ma, mb, mc)
	c.Even("s1:0-8", ma, mb, mc)
	mc.Leave().OK(-1)
	c.Converge(ma, mb)
	c.Even("s1:0-8", ma, mb)
	hadA, hadB := ma.Active, mb.Active
	mc.Join(T1().At(1)).Is("NONE").Says("-")
	c.Converge(ma, mb, mc)
	c.subset(ma.Active, hadA, "A only loses")
	c.subset(mb.Active, hadB, "B only loses")
	c.Even("s1:0-8", ma, mb, mc)
	ma.Beat().Is("NONE").Says("0")
	mb.Beat().Is("NONE").Says("0")
	mc.Beat().Is("NONE").Says("-")
	return ma, mb, mc
}

// t1Bar reads the topic bar under the id that T1 uses for foo.
func t1Bar() Topo { return Topology(Reads("s1", "bar")) }

var kips = []Scenario{
	kip("D1", Scenario{IDs: []string{"K-01", "D1", "21.1-3", "21.1-6"}, Title: "a join with an older topology", Run: func(c *C) {
		c.Topic("foo", 2)
		c.Member("m1").Join(T1().At(1)).OK(2)
		c.Member("m3").Join(T1()).Is("STREAMS_TOPOLOGY_FENCED")
		require.Equal(c, []string{"m1"}, c.Describe().In("Stable", 2).IDs())
	}}),
	kip("D2", Scenario{IDs: []string{"K-02", "D2", "21.1-1", "21.1-2", "21.1-6"}, Title: "a join with another topology at the same epoch", Run: func(c *C) {
		c.Topic("foo", 2)
		c.Topic("bar", 2)
		both := Topology(Reads("s1", "foo", "bar"))
		c.Member("m1").Join(both).OK(2)
		for _, other := range []Topo{Topology(Reads("s1", "bar", "foo")), T1(), Topology(Reads("s9", "foo", "bar"))} {
			c.Member("m3").Join(other).Is("STREAMS_INVALID_TOPOLOGY_EPOCH")
		}
		require.Equal(c, []string{"m1"}, c.Describe().In("Stable", 2).IDs())
	}}),
	kip("D4", Scenario{IDs: []string{"K-03", "D4", "21.1-4", "21.1-6"}, Title: "a join with an epoch that skips one", Run: func(c *C) {
		c.Topic("foo", 2)
		c.Member("m1").Join(T1()).OK(2)
		c.Member("m3").Join(T1().At(2)).Is("STREAMS_INVALID_TOPOLOGY_EPOCH")
		d := c.Describe().In("Stable", 2)
		require.Zero(c, d.Topology.Epoch)
		require.Equal(c, []string{"m1"}, d.IDs())
	}}),
	kip("D3", Scenario{IDs: []string{"K-04", "D3", "D5", "21.1-5", "21.1-9", "21.1-11", "21.1-15", "14.1-0"}, Title: "an update", Run: func(c *C) {
		c.AtOnce()
		c.Topic("foo", 2)
		c.Topic("bar", 2)
		c.Topic("baz", 2)
		m1, m3 := c.Member("m1"), c.Member("m3")
		m1.Join(T2()).OK(2)
		m3.Join(Topology(Reads("s1", "foo"), Reads("s2", "bar"), Reads("s3", "baz")).At(1)).OK(3).Has("s3:0-1").Says("-")
		d := c.Describe()
		require.Equal(c, int32(3), d.Epoch, "one new epoch")
		require.Equal(c, int32(3), d.AssignmentEpoch)
		require.Equal(c, int32(1), d.Topology.Epoch)
		require.Equal(c, int32(1), d.Member("m3").TopologyEpoch)
		require.Zero(c, d.Member("m1").TopologyEpoch)
		m1.Beat().Is("NONE").Says("0")
		m3.Beat().OK(3).Says("-")
		c.Converge(m1, m3)
		require.Equal(c, canonical("s1:0-1 s2:0-1 s3:0-1"), union(m1.Active, m3.Active))
		c.subset(m1.Active, "s1:0-1 s2:0-1", "the stale member gets nothing new")
	}}),
	kip("D3", Scenario{IDs: []string{"K-05", "21.1-8", "21.1-9"}, Title: "an update that needs the same topics", Run: func(c *C) {
		c.AtOnce()
		c.Topic("foo", 2)
		c.Topic("bar", 1)
		m := c.Member("m1")
		m.Join(T2()).OK(2).Has("s1:0-1 s2:0")
		m.Join(Topology(Reads("s1", "foo"), Reads("s3", "bar")).At(1)).OK(3).Has("s1:0-1 s3:0").Says("-")
		c.Describe().In("Stable", 3)
	}}),
	kip("D3", Scenario{IDs: []string{"K-06", "21.1-11"}, Title: "the assignment interval does not hold up an update", Run: func(c *C) {
		c.Seldom()
		c.Topic("foo", 2)
		c.Topic("bar", 1)
		c.Member("m1").Join(T1()).OK(2).Has("s1:0-1")
		c.Member("m2").Join(T2().At(1)).OK(3).Has("s2:0").Says("-")
		require.Equal(c, int32(3), c.Describe().AssignmentEpoch)
	}}),
	kip("D3", Scenario{IDs: []string{"K-06", "21.1-11"}, Title: "the initial delay holds up an update", Run: func(c *C) {
		c.Config("streams.initial.rebalance.delay.ms", "15000")
		c.Topic("foo", 2)
		c.Member("m1").Join(T1()).OK(1).Has(none).Says("5")
		c.Member("m2").Join(T1().At(1)).OK(1).Has(none).Says("5")
		require.Equal(c, int32(1), c.Describe().AssignmentEpoch)
	}}),
	kip("D6", Scenario{IDs: []string{"K-07", "D6", "21.2-1", "21.1-15"}, Title: "a rolling bounce of three members", Run: func(c *C) {
		ma, mb, mc := c.bounced()
		had := ma.Active
		mb.Leave().OK(-1)
		c.Converge(ma, mc)
		require.Equal(c, had, ma.Active, "A has exactly what it had")
		require.Equal(c, without("s1:0-8", had), mc.Active)
		mb.Join(T1().At(1)).Is("NONE").Says("-")
		c.Converge(ma, mb, mc)
		c.subset(ma.Active, had, "A only loses")
		c.Even("s1:0-8", ma, mb, mc)
		ma.Leave().OK(-1)
		ma.Join(T1().At(1)).Is("NONE").Says("-")
		c.Converge(ma, mb, mc)
		c.Even("s1:0-8", ma, mb, mc)
		for _, m := range []*Member{ma, mb, mc} {
			m.Beat().Is("NONE").Says("-")
		}
	}}),
	kip("D6", Scenario{IDs: []string{"K-08", "D6", "21.2-1", "21.2-3"}, Title: "tasks that nobody may take", Run: func(c *C) {
		ma, mb, mc := c.bounced()
		a, b, lost := ma.Active, mb.Active, mc.Active
		mc.Leave().OK(-1)
		c.Converge(ma, mb)
		require.Equal(c, []string{a, b}, []string{ma.Active, mb.Active}, "A and B get nothing new")
		mc.Join(T1().At(1)).Is("NONE")
		c.Converge(ma, mb, mc)
		require.Equal(c, lost, mc.Active)
	}}),
	{
		IDs: []string{"K-09", "K-10", "D9", "14-6"}, Title: "tasks are sent again to a member that does not report them", Deviation: "D9",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 2)
			m1, m2 := c.Member("m1"), c.Member("m2")
			m1.Join(T1()).OK(2)
			if a := m1.Beat(Owned("s1:0")).OK(2); c.KIP() {
				a.Has("s1:0-1")
			} else {
				a.NoLists()
			}
			m1.Beat(Owned("s1:0-1")).OK(2).NoLists()
			c.Describe().In("Stable", 2)
			m2.Join(T1()).OK(3)
			m1.Beat(Owned("s1:0-1")).OK(2)
			m1.Beat(Owned("s1:0-1")).OK(2).NoLists() // not while what it has to give up is still there
		},
	},
	kip("D3", Scenario{IDs: []string{"K-11", "21.1-16", "21.1-6"}, Title: "an update that fails leaves no trace", Run: func(c *C) {
		c.AtOnce()
		c.Topic("foo", 2)
		m := c.Member("m1")
		m.Join(T1()).OK(2)
		loop := Topology(
			Sub{ID: "s1", Sinks: []string{"r2"}, Repartitions: []Internal{{Word: "r1"}}},
			Sub{ID: "s2", Sinks: []string{"r1"}, Repartitions: []Internal{{Word: "r2"}}},
		).At(1)
		c.Member("m3").Join(loop).Is("STREAMS_INVALID_TOPOLOGY")
		m.Beat().OK(2).Says("-")
		d := c.Describe().In("Stable", 2)
		require.Zero(c, d.Topology.Epoch)
		require.Equal(c, []string{"m1"}, d.IDs())
		c.Member("m3").Join(T1().At(1)).OK(3)
	}}),
	kip("D3", Scenario{IDs: []string{"K-13", "21.1-12", "21.1-14", "21.2-2"}, Title: "tasks that the new topology lacks are revoked", Run: func(c *C) {
		c.AtOnce()
		c.Topic("foo", 2)
		c.Topic("bar", 2)
		m1, m2 := c.Member("m1"), c.Member("m2")
		m1.Join(T2()).OK(2).Has("s1:0-1 s2:0-1")
		m2.Join(T1().At(1)).OK(3)
		m1.Beat(Owned("s1:0-1 s2:0-1")).OK(2).Says("0")
		c.subset(m1.Active, "s1:0-1", "what m1 keeps")
		m1.Beat(Owned("s1:0-1 s2:0-1")).OK(2) // still busy with what it was given
		m1.Beat(Owned("s1:0-1 s2:0-1 s3:0")).Is("INVALID_REQUEST")
		c.Converge(m1, m2)
		require.Equal(c, canonical("s1:0-1"), union(m1.Active, m2.Active))
	}}),
	kip("D6", Scenario{IDs: []string{"K-14", "21.2-2", "D6"}, Title: "a stale member does not wait for a task of an older target", Run: func(c *C) {
		c.AtOnce()
		c.Topic("foo", 2)
		m1, m2, m3 := c.Member("m1"), c.Member("m2"), c.Member("m3")
		m1.Join(T1()).OK(2)
		m2.Join(T1()).OK(3).Has(none) // waits for a task of m1
		m1.Beat().OK(2)
		m3.Join(T1().At(1)).OK(4)
		m2.Beat().OK(4).Says("0")
		m1.Ack().Is("NONE")
		m2.Beat().OK(4)
		require.Empty(c, m2.Active)
		c.Converge(m1, m2, m3)
		require.Empty(c, m2.Active)
		require.Equal(c, canonical("s1:0-1"), union(m1.Active, m3.Active))
	}}),
	kip("D6", Scenario{IDs: []string{"K-26", "21.1-11", "21.2-2"}, Title: "an update within the assignment interval, while a stale member waits for a task", Run: func(c *C) {
		c.AtOnce()
		c.Topic("foo", 2)
		m1, m2, m3 := c.Member("m1"), c.Member("m2"), c.Member("m3")
		m1.Join(T1()).OK(2)
		m2.Join(T1()).OK(3).Has(none) // waits for a task of m1
		m1.Beat().OK(2)
		c.Seldom()
		m3.Join(T1().At(1)).OK(4).Says("-")
		require.Equal(c, int32(4), c.Describe().AssignmentEpoch)
		m1.Ack().Is("NONE").Says("0")
		m2.Beat().OK(4).Says("0")
		require.Empty(c, m2.Active)
		c.Converge(m1, m2, m3)
		require.Empty(c, m2.Active)
		require.Equal(c, canonical("s1:0-1"), union(m1.Active, m3.Active))
	}}),
	kip("D3", Scenario{IDs: []string{"K-15", "21.1-7", "7-3"}, Title: "a stale member comes back with the new topology", Run: func(c *C) {
		c.AtOnce()
		c.Topic("foo", 2)
		m1, m2 := c.Member("m1"), c.Member("m2")
		m1.Join(T1()).OK(2)
		m2.Join(T1().At(1)).OK(3)
		m1.Beat().Is("NONE").Says("0")
		m1.Join(T1().At(1)).Is("NONE").Says("-")
		require.Equal(c, int32(4), c.Describe().Epoch)
		require.Equal(c, int32(1), c.Describe().Member("m1").TopologyEpoch)
		c.Converge(m1, m2)
		m1.Beat().OK(4).Says("-")
		c.Even("s1:0-1", m1, m2)
	}}),
	kip("D1", Scenario{IDs: []string{"K-16", "21.1-7", "D1"}, Title: "a stale member whose session has ended comes back with the old topology", Run: func(c *C) {
		c.NeedShortSession()
		c.AtOnce()
		c.Topic("foo", 2)
		m1, m2 := c.Member("m1"), c.Member("m2")
		m1.Join(T1()).OK(2)
		m2.Join(T1().At(1)).OK(3)
		c.await("the end of m1", func() bool {
			c.Sleep(100 * time.Millisecond)
			m2.Beat()
			for _, id := range c.Describe().IDs() {
				if id == "m1" {
					return false
				}
			}
			return true
		})
		m1.Beat().Is("UNKNOWN_MEMBER_ID")
		m1.Join(T1()).Is("STREAMS_TOPOLOGY_FENCED")
	}}),
	kip("D1", Scenario{IDs: []string{"K-17", "21.1-7", "21.1-6", "D1"}, Title: "an absent static member comes back with the old topology, and with the new one", Run: func(c *C) {
		a1 := c.a1()
		a1.LeaveForNow().OK(-2)
		c.Member("m2").Join(T1().At(1)).OK(3)
		b1 := c.Static("b1", "i1")
		b1.Process = a1.Process
		b1.Join(T1()).Is("STREAMS_TOPOLOGY_FENCED")
		require.Equal(c, []string{"a1", "m2"}, c.Describe().IDs())
		b1.Join(T1().At(3)).Is("STREAMS_INVALID_TOPOLOGY_EPOCH")
		b1.Join(T1().At(1)).Is("NONE").Says("-")
		d := c.Describe()
		require.Equal(c, []string{"b1", "m2"}, d.IDs())
		require.Equal(c, int32(1), d.Member("b1").TopologyEpoch)
	}}),
	kip("D3", Scenario{IDs: []string{"K-18", "21.1-5", "10.2"}, Title: "an update of an empty group", Run: func(c *C) {
		c.AtOnce()
		c.Topic("foo", 2)
		c.Topic("bar", 2)
		m := c.Member("m1")
		m.Join(T1()).OK(2)
		m.Leave().OK(-1)
		c.Member("m2").Join(T2().At(2)).Is("STREAMS_INVALID_TOPOLOGY_EPOCH")
		c.Member("m2").Join(T2().At(1)).OK(4).Has("s1:0-1 s2:0-1").Says("-")
	}}),
	kip("D3", Scenario{IDs: []string{"21.1-10", "8-6"}, Title: "topics concern the group by what the new topology requires", Run: func(c *C) {
		c.AtOnce()
		c.Topic("foo", 1)
		c.Topic("bar", 1)
		m := c.Member("m1")
		m.Join(T1()).OK(2)
		m.Join(t1Bar().At(1)).OK(3).Has("s1:0")
		c.Grow("foo", 2)
		m.Beat().OK(3).NoLists()
		c.Grow("bar", 2)
		m.Beat().OK(4).Has("s1:0-1")
	}}),
	kip("D3", Scenario{IDs: []string{"21.1-13", "16-5"}, Title: "endpoints are listed by the new topology", Run: func(c *C) {
		c.AtOnce()
		c.Topic("foo", 1)
		c.Topic("bar", 1)
		m := c.Member("m1")
		m.Join(T1(), Endpoint("h", 1)).OK(2).Lists(0, "h:1 active=foo:0 standby=")
		m.Join(t1Bar().At(1), Endpoint("h", 1), NoEndpointEpoch).OK(3)
		require.Equal(c, "h:1 active=bar:0 standby=", m.Beat(NoEndpointEpoch).OK(3).Endpoints())
	}}),
	kip("D6", Scenario{IDs: []string{"21.2-5"}, Title: "a stale member heartbeats and commits like any other", Run: func(c *C) {
		c.AtOnce()
		c.Topic("foo", 2)
		m1, m2 := c.Member("m1"), c.Member("m2")
		m1.Join(T1()).OK(2)
		m2.Join(T1().At(1)).OK(3)
		m1.Beat().OK(2).Says("0")
		c.committed("NONE", Commit{Member: "m1", Epoch: 2}, "foo:0-1", 5)
		m1.Ack().OK(3).Says("0")
		c.committed("NONE", Commit{Member: "m1", Epoch: 2}, topicOf(m1), 6)
		m2.Beat().OK(3).Has(without("s1:0-1", m1.Active))
		c.Describe().In("Stable", 3)
	}}),
	{
		IDs: []string{"25-group.streams.assignors", "25-2"}, Title: "the assignors that a group may choose",
		Run: func(c *C) {
			c.Need44()
			require.NoError(c, c.TryConfig("streams.assignor.name", "sticky"))
			require.Error(c, c.TryConfig("streams.assignor.name", "no-such-assignor"))
		},
	},
}
