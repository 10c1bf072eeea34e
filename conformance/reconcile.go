package conformance

import (
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// How members come from what they have to what they are to have.
var reconcile = []Scenario{
	{
		IDs: []string{
			"R-01", "R-02", "R-03", "R-04", "R-05", "R-06", "R-07", "R-08", "R-09", "R-10", "R-11", "R-35",
			"2.3-3", "3-4", "3-5", "7-15", "7-16", "7-17", "12.1-1", "12.1-4", "12.2-6", "12.2-9", "12.2-10", "12.2-11", "14-6", "14-7",
		},
		Title: "a third member joins two",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 6)
			c.Topic("bar", 3)
			m1, m2, m3 := c.Member("m1"), c.Member("m2"), c.Member("m3")
			m1.Join(T2()).OK(2)
			m2.Join(T2()).OK(3)
			c.Converge(m1, m2)
			c.Even("s1:0-5 s2:0-2", m1, m2)
			had1, had2 := m1.Active, m2.Active

			m3.Join(T2()).OK(4).Has(none).Says("-")
			d := c.Describe().In("Reconciling", 4)
			goal1, goal2, goal3 := d.Goal("m1").Active, d.Goal("m2").Active, d.Goal("m3").Active
			for _, goal := range []string{goal1, goal2, goal3} {
				require.Equal(c, 3, count(goal), "target of a member: %s", goal)
			}
			require.Equal(c, goal1, common(goal1, had1), "m1 keeps")
			require.Equal(c, goal2, common(goal2, had2), "m2 keeps")

			m1.Beat().OK(3).Has(goal1)
			m2.Beat().OK(3).Has(goal2)
			m3.Beat().OK(4).NoLists()
			m1.Ack().OK(4).NoLists()
			m2.Beat(Owned(had2)).OK(3).NoLists()
			m3.Ack().OK(4).Has(common(goal3, had1))
			m3.Ack().OK(4).NoLists()
			c.Describe().In("Reconciling", 4)
			m2.Ack().OK(4).NoLists()
			m3.Ack().OK(4).Has(goal3)
			c.Describe().In("Stable", 4)
			for _, m := range []*Member{m1, m2, m3} {
				m.Ack().OK(4).NoLists().Says("-")
			}
			c.Describe().In("Stable", 4)
			c.Even("s1:0-5 s2:0-2", m1, m2, m3)
		},
	},
	{
		IDs:   []string{"R-70", "R-21", "R-27", "R-32", "R-33", "12.1-3", "12.1-7", "12.2-12", "12.2-15"},
		Title: "one member has all, a second joins",
		Run: func(c *C) {
			m1, m2 := pair(c)
			goal1, goal2 := c.Describe().Goal("m1").Active, c.Describe().Goal("m2").Active
			m2.Beat().OK(3).NoLists()
			m1.Beat().OK(2).Has(goal1)
			for range 2 {
				m2.Ack().OK(3).NoLists()
			}
			m1.Ack().OK(3).NoLists()
			m2.Ack().OK(3).Has(goal2)
			for range 2 {
				m1.Ack().OK(3).NoLists()
				m2.Ack().OK(3).NoLists()
			}
			c.Even("s1:0-5", m1, m2)
			c.Describe().In("Stable", 3)
		},
	},
	{
		IDs: []string{"R-71", "R-25", "12.2-17"}, Title: "tasks given up before the revocation is seen",
		Run: func(c *C) {
			m1, m2 := pair(c)
			goal := c.Describe().Goal("m1").Active
			m1.Beat(Owned(goal)).OK(3).Has(goal)
			m2.Ack().OK(3).Has(minus("s1:0-5", goal))
			c.Describe().In("Stable", 3)
		},
	},
	{
		IDs: []string{"R-72", "R-40", "Q9", "2.3-4", "12.1-2", "12.2-11"}, Title: "a task that is to be revoked comes back",
		Run: func(c *C) {
			m1, m2 := pair(c)
			m1.Beat().OK(2)
			require.Equal(c, 3, count(m1.Active))
			m2.Leave().OK(-1)
			m1.Beat().OK(2).NoLists()
			c.Describe().In("Reconciling", 4)
			require.Equal(c, "s1:0,1,2,3,4,5", c.Describe().Goal("m1").Active)
			m1.Beat(Owned("s1:0-5")).OK(2).NoLists()
			m1.Ack().OK(4).NoLists()
			c.Describe().In("Reconciling", 4)
			m1.Ack().OK(4).Has("s1:0-5")
			c.Describe().In("Stable", 4)
		},
	},
	{
		IDs: []string{"4-24", "R-27"}, Title: "a partition that is reported twice counts once",
		Run: func(c *C) {
			m1, m2 := pair(c)
			m1.Beat().OK(2)
			twice := func(req *kmsg.StreamsGroupHeartbeatRequest) {
				ps := req.ActiveTasks[0].Partitions
				req.ActiveTasks[0].Partitions = append(ps, ps[0], ps[1])
			}
			m1.Ack(twice).OK(3).NoLists().Says("-")
			m1.Ack(twice).OK(3).NoLists()
			m2.Ack().OK(3).Has(minus("s1:0-5", m1.Active))
			c.Describe().In("Stable", 3)
		},
	},
	{
		IDs: []string{"R-28", "12.1-2", "12.2-9", "D9"}, Title: "a revocation that is not acknowledged, or in part", Deviation: "D9",
		Run: func(c *C) {
			m1, m2 := pair(c)
			m1.Beat().OK(2)
			kept := m1.Active
			pending := minus("s1:0-5", kept)
			for range 2 {
				m1.Beat().OK(2).NoLists()
				m1.Beat(Owned("s1:0-5")).OK(2).NoLists()
			}
			a := m1.Beat(Owned(union(kept, first(1, pending)))).OK(2)
			if c.KIP() {
				a.Has(kept)
			} else {
				a.NoLists()
			}
			m2.Ack().OK(3).NoLists()
			d := c.Describe().In("Reconciling", 3)
			require.Equal(c, kept, d.Assigned("m1").Active)
			require.Empty(c, d.Assigned("m2").Active)
			m1.Ack().OK(3).NoLists()
		},
	},
	{
		IDs: []string{"R-29", "Q9", "Q10", "12.1-3", "12.2-9", "12.2-13"}, Title: "acknowledged, while the newest target wants more",
		Run: func(c *C) {
			m1, m2 := pair(c)
			m3 := c.Member("m3")
			m1.Beat().OK(2)
			require.Equal(c, 3, count(m1.Active))
			m3.Join(T1()).OK(4).Has(none)
			goal := c.Describe().Goal("m1").Active
			require.Equal(c, 2, count(goal))
			m1.Beat().OK(2).NoLists()
			m1.Ack().OK(3).Has(goal)
			// As if that answer was lost: it was at 2 before, and at 3 from then on.
			m1.Send(m1.Request(2), Owned(goal)).OK(4).NoLists()
			m1.Send(m1.Request(2), Owned(goal)).Is("FENCED_MEMBER_EPOCH")
			m1.Send(m1.Request(3), Owned(goal)).OK(4)
			c.Converge(m1, m2, m3)
			c.Even("s1:0-5", m1, m2, m3)
		},
	},
	{
		IDs: []string{"Q10", "12.2-13", "6.3-5"}, Title: "the previous epoch is overwritten by every step",
		Run: func(c *C) {
			m1, m2 := pair(c)
			c.Converge(m1, m2)
			m1.Send(m1.Request(2), Owned(m1.Active)).OK(3)
			m3 := c.Member("m3")
			m3.Join(T1()).OK(4)
			m1.Beat().OK(3) // to be revoked; the epoch stays
			require.Equal(c, 2, count(m1.Active))
			m1.Send(m1.Request(2), Owned(m1.Active)).Is("FENCED_MEMBER_EPOCH")
			m1.Ack().OK(4)
			m1.Send(m1.Request(3), Owned(m1.Active)).OK(4)
		},
	},
	{
		IDs: []string{"R-31", "12.1-4", "12.2-12"}, Title: "what a member waits for is not meant for it any more",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 2)
			m1, m2 := c.Member("m1"), c.Member("m2")
			m1.Join(T1()).OK(2).Has("s1:0-1")
			m2.Join(T1()).OK(3).Has(none)
			m2.Ack().OK(3).NoLists()
			c.DeleteTopic("foo")
			c.Topic("foo", 1)
			m2.Ack().OK(4).NoLists()
			require.Empty(c, c.Describe().Goal("m2").Active)
			m1.Beat().OK(2).Has("s1:0")
			c.Converge(m1, m2)
			require.Equal(c, "s1:0", m1.Active)
		},
	},
	{
		IDs: []string{"12.2-1", "12.2-7", "R-58", "R-59", "R-60"}, Title: "an active task becomes a standby",
		Run: func(c *C) {
			c.AtOnce()
			c.Config("streams.num.standby.replicas", "1")
			c.Topic("foo", 6)
			c.Topic("log", 6)
			m1, m2 := c.Member("m1"), c.Member("m2")
			t := Topology(Keeps("s1", "foo", "log"))
			m1.Join(t).OK(2).HasAll("s1:0-5", none, none)
			a := m2.Join(t).OK(3)
			d := c.Describe()
			goal1, goal2 := d.Goal("m1"), d.Goal("m2")
			require.Equal(c, 3, count(goal1.Active))
			require.Equal(c, goal2.Active, goal1.Standby)
			require.Equal(c, goal1.Active, goal2.Standby)
			// What is active at another process does not stand in the way.
			a.HasAll(none, goal2.Standby, none)

			// The standby at once, the active task has to be given up.
			m1.Beat().OK(2).HasAll(goal1.Active, goal1.Standby, none)
			m1.Beat(Owned("s1:0-5")).OK(2)
			m2.Ack().OK(3).NoLists()
			m1.Ack().OK(3).NoLists()
			m2.Ack().OK(3).HasAll(goal2.Active, goal2.Standby, none)
			c.Describe().In("Stable", 3)
		},
	},
	{
		IDs: []string{"12.2-4", "12.2-5", "R-55", "R-56"}, Title: "a standby becomes an active task",
		Run: func(c *C) {
			c.AtOnce()
			c.Config("streams.num.standby.replicas", "1")
			c.Topic("foo", 4)
			c.Topic("log", 4)
			bar := func(partitions int32) {
				c.Topic("bar", partitions)
				c.Topic("log2", partitions)
			}
			bar(1)
			t := Topology(Keeps("s1", "foo", "log"), Keeps("s2", "bar", "log2"))
			m1, m2 := c.Member("m1"), c.Member("m2")
			m1.Join(t).OK(2).HasAll("s1:0-3 s2:0", none, none)
			c.Grow("bar", 6)
			c.Grow("log2", 6)
			m2.Join(t).OK(3)
			c.Converge(m1, m2)
			require.Equal(c, "s1:0,1,2,3 s2:0", m1.Active)
			require.Equal(c, "s2:1,2,3,4,5", m2.Active)
			require.Equal(c, m1.Active, m2.Standby)

			// Five tasks are left, and m1 has them all: m2 is to get two of them.
			c.DeleteTopic("bar")
			c.DeleteTopic("log2")
			bar(1)
			epoch := m2.Epoch
			a := m2.Beat().OK(epoch)
			goal := c.Describe().Goal("m2")
			require.Equal(c, 2, count(goal.Active))
			require.Equal(c, "s1:0,1,2,3 s2:0", union(goal.Active, goal.Standby))
			// Kept while it has to give up others, and while the active task is
			// elsewhere.
			a.HasAll(none, "s1:0-3 s2:0", none)
			m2.Ack().OK(epoch + 1).NoLists()
			m2.Ack().OK(epoch + 1).NoLists()
			m1.Beat().OK(epoch)
			require.Equal(c, goal.Standby, m1.Active)
			require.Equal(c, goal.Active, m1.Standby)
			m2.Ack().OK(epoch + 1).NoLists()
			m1.Ack().OK(epoch + 1)
			m2.Ack().OK(epoch+1).HasAll(goal.Active, goal.Standby, none)

			// And at once where nothing stands in the way.
			m1.Leave().OK(-1)
			m2.Ack().OK(epoch+2).HasAll("s1:0-3 s2:0", none, none)
		},
	},
	{
		IDs: []string{"12.2-6", "12.2-7", "R-57"}, Title: "a process does not have a task twice",
		Run: func(c *C) {
			c.AtOnce()
			c.Config("streams.num.standby.replicas", "1")
			c.Topic("foo", 12)
			c.Topic("log", 12)
			t := Topology(Keeps("s1", "foo", "log"))
			member := func(id, process string) *Member {
				m := c.Member(id)
				m.Process = process
				return m
			}
			m1, m2, m3, m4 := member("m1", "p1"), member("m2", "p2"), member("m3", "p2"), member("m4", "p1")
			m1.Join(t).Is("NONE")
			m2.Join(t).Is("NONE")
			m3.Join(t).Is("NONE")
			c.Converge(m1, m2, m3)
			require.Equal(c, union(m2.Active, m3.Active), m1.Standby, "with two processes, p1 has the standbys of p2's tasks")
			held := m1.Standby

			m4.Join(t).Is("NONE")
			goal := c.Describe().Goal("m4")
			require.NotEmpty(c, common(goal.Standby, held), "standbys that are to move from m1 to m4")
			require.NotEmpty(c, common(goal.Active, held), "active tasks of m4 that m1 has as standby")
			require.Empty(c, common(union(m4.Active, m4.Standby), held), "tasks of m4 that its process has already")

			// The former owners give up the active tasks; m1 still has the standbys.
			for _, m := range []*Member{m2, m3} {
				m.Beat().Is("NONE")
				m.Ack().Is("NONE")
			}
			m4.Ack().Is("NONE")
			require.Empty(c, common(union(m4.Active, m4.Standby), held), "tasks of m4 that its process has already")
			m1.Beat().Is("NONE")
			m4.Ack().Is("NONE")
			require.Empty(c, common(union(m4.Active, m4.Standby), held), "tasks of m4 that its process has already")
			m1.Ack().Is("NONE")
			m4.Ack().Is("NONE")
			require.Equal(c, goal.Active, m4.Active)
			require.Equal(c, goal.Standby, m4.Standby)
			c.Converge(m1, m2, m3, m4)
			c.Even("s1:0-11", m1, m2, m3, m4)
		},
	},
	{
		IDs: []string{"12.2-16", "13-4"}, Title: "the time to revoke begins with the step and ends with the acknowledgement",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 6)
			m1, m2 := c.Member("m1"), c.Member("m2")
			m1.RebalanceTimeoutMillis = 2000
			m1.Join(T1()).OK(2)
			m2.Join(T1()).OK(3)
			m1.Beat().OK(2)
			m1.Ack().OK(3)
			c.Sleep(3 * time.Second)
			m1.Ack().OK(3)
			c.Describe().In("Reconciling", 3)
		},
	},
}
