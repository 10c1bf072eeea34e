package conformance

import (
	"time"

	"github.com/stretchr/testify/require"
)

// grown is a member at epoch 3 with s1:0, assigned in epoch 2, and s1:1, assigned
// in epoch 3.
func (c *C) grown() *Member {
	c.AtOnce()
	c.Topic("foo", 1)
	m := c.Member("m1")
	m.Join(T1()).OK(2).Has("s1:0")
	c.Grow("foo", 2)
	m.Beat().OK(3).Has("s1:0-1")
	return m
}

// emptied is a group that has had a member.
func (c *C) emptied() {
	c.Topic("foo", 2)
	m := c.Member("m1")
	m.Join(T1()).OK(2)
	m.Leave().OK(-1)
}

// committed requires the code of an OffsetCommit.
func (c *C) committed(code string, by Commit, partitions string, offset int64) {
	require.Equal(c, code, c.Commit(by, partitions, offset), "OffsetCommit of %s by %q at epoch %d", partitions, by.Member, by.Epoch)
}

// fetched requires committed offsets.
func (c *C) fetched(want, partitions string) {
	require.Equal(c, want, c.Committed(partitions), "committed offsets")
}

func (tx *Txn) committed(code string, by Commit, partitions string, offset int64) {
	require.Equal(tx.c, code, tx.Commit(by, partitions, offset), "TxnOffsetCommit of %s by %q at epoch %d", partitions, by.Member, by.Epoch)
}

var offsets = []Scenario{
	{
		IDs: []string{"O-01", "O-02", "17.1-3", "17.1-5"}, Title: "commits to an empty group",
		Run: func(c *C) {
			c.emptied()
			c.committed("NONE", Commit{Epoch: -1}, "foo:0-1", 5)
			c.committed("UNKNOWN_MEMBER_ID", Commit{Member: "m1", Epoch: 0}, "foo:0", 6)
			c.fetched("foo:0=5 foo:1=5", "foo:0-1")
		},
	},
	{
		IDs: []string{"O-03", "17.1-5", "17.1-4"}, Title: "commits without a member id while there are members",
		Run: func(c *C) {
			c.Topic("foo", 2)
			c.Member("m1").Join(T1()).OK(2)
			empty := ""
			c.committed("UNKNOWN_MEMBER_ID", Commit{Epoch: -1}, "foo:0", 5)
			c.committed("UNKNOWN_MEMBER_ID", Commit{Epoch: -1, Instance: &empty}, "foo:0", 5)
			c.fetched("foo:0=-1", "foo:0")
		},
	},
	{
		IDs: []string{"O-04", "O-05", "O-06", "17.1-6", "17.1-7", "17.1-8", "17.1-10"}, Title: "the current epoch, one that is ahead, an old version",
		Run: func(c *C) {
			c.Topic("foo", 2)
			c.Member("m1").Join(T1()).OK(2)
			nobody := "no-instance-of-this-group"
			c.committed("NONE", Commit{Member: "m1", Epoch: 2}, "foo:0", 5)
			c.committed("NONE", Commit{Member: "m1", Epoch: 2, Instance: &nobody}, "foo:1", 6)
			c.committed("STALE_MEMBER_EPOCH", Commit{Member: "m1", Epoch: 10}, "foo:0", 7)
			c.committed("UNSUPPORTED_VERSION", Commit{Member: "m1", Epoch: 2, Version: 8}, "foo:0", 8)
			c.committed("UNKNOWN_MEMBER_ID", Commit{Member: "m2", Epoch: 2}, "foo:0", 9)
			c.fetched("foo:0=5 foo:1=6", "foo:0-1")
		},
	},
	{
		IDs: []string{"17.1-7", "17.1-9"}, Title: "commits of a static member that is absent",
		Run: func(c *C) {
			a1 := c.a1()
			a1.LeaveForNow().OK(-2)
			c.committed("NONE", Commit{Member: "a1", Epoch: -2, Instance: a1.Instance}, "foo:0", 5)
			c.committed("STALE_MEMBER_EPOCH", Commit{Member: "a1", Epoch: 2, Instance: a1.Instance}, "foo:0", 6)
			c.fetched("foo:0=5", "foo:0")
		},
	},
	{
		IDs: []string{"O-07", "O-08", "O-09", "17.1-9", "12.2-14"}, Title: "an epoch behind that of the member, and of the tasks",
		Run: func(c *C) {
			c.grown()
			by := Commit{Member: "m1", Epoch: 2}
			c.committed("STALE_MEMBER_EPOCH", by, "foo:1", 5)
			c.committed("NONE", by, "foo:0", 6)
			c.committed("STALE_MEMBER_EPOCH", by, "foo:0-1", 7)
			c.committed("STALE_MEMBER_EPOCH", Commit{Member: "m1", Epoch: 1}, "foo:0", 8)
			c.fetched("foo:0=6 foo:1=-1", "foo:0-1")
		},
	},
	{
		IDs: []string{"O-10", "O-16", "O-17", "17.1-4", "17.1-5", "17.1-7", "17.1-8", "17.1-9"}, Title: "commits within a transaction",
		Run: func(c *C) {
			c.grown()
			tx := c.Txn()
			tx.committed("NONE", Commit{Member: "m1", Epoch: 3}, "foo:0-1", 5)
			tx.committed("NONE", Commit{Member: "m1", Epoch: 2}, "foo:0", 6)
			tx.committed("STALE_MEMBER_EPOCH", Commit{Member: "m1", Epoch: 2}, "foo:1", 7)
			tx.committed("STALE_MEMBER_EPOCH", Commit{Member: "m1", Epoch: 2}, "foo:0-1", 8)
			tx.committed("ILLEGAL_GENERATION", Commit{Member: "m1", Epoch: 2, Version: 5}, "foo:1", 9)
			tx.committed("STALE_MEMBER_EPOCH", Commit{Member: "m1", Epoch: 10}, "foo:0", 9)
			tx.committed("ILLEGAL_GENERATION", Commit{Member: "m1", Epoch: 10, Version: 5}, "foo:0", 9)
			tx.committed("UNKNOWN_MEMBER_ID", Commit{Member: "m2", Epoch: 3}, "foo:0", 9)
			tx.committed("NONE", Commit{Epoch: -1}, "foo:0", 10)
			// One bad partition was enough to refuse both.
			require.Equal(c, "NONE", tx.end(true))
			c.await("the commits of the transaction", func() bool { return c.Committed("foo:0-1") == "foo:0=10 foo:1=5" })
		},
	},
	{
		IDs: []string{"O-11", "O-12", "O-13", "17.1-9"}, Title: "topics that the topology lacks, tasks of others, tasks held all along",
		Run: func(c *C) {
			m1, m2 := c.pair(4)
			c.Topic("bar", 1)
			m1.Beat(Rack("r1")).OK(4)
			m1.Beat(Rack("r2")).OK(5) // m1 is at 5, its tasks are from 2
			mine, other := topicOf(m1), topicOf(m2)
			by := Commit{Member: "m1", Epoch: 2}
			c.committed("STALE_MEMBER_EPOCH", by, "bar:0", 5)
			c.committed("STALE_MEMBER_EPOCH", by, other, 5)
			c.committed("NONE", by, mine, 6)
			c.committed("NONE", Commit{Member: "m1", Epoch: 5}, "bar:0", 7) // the current epoch may commit anything
			c.committed("NONE", Commit{Member: "m1", Epoch: 5}, other, 8)
		},
	},
	{
		IDs: []string{"O-14", "17.1-9", "12.2-14"}, Title: "a task whose revocation is pending",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 2)
			m1, m2 := c.Member("m1"), c.Member("m2")
			m1.Join(T1()).OK(2)
			m1.Beat(Rack("r1")).OK(3)
			m2.Join(T1()).OK(4)
			require.Equal(c, 1, countTasks(m1.Beat().OK(3).Active()), "what m1 keeps")
			c.committed("NONE", Commit{Member: "m1", Epoch: 2}, "foo:0-1", 5)
			m1.Ack().OK(4)
			gone := "foo:" + without("s1:0-1", m1.Active)[len("s1:"):]
			c.committed("STALE_MEMBER_EPOCH", Commit{Member: "m1", Epoch: 2}, gone, 6)
		},
	},
	{
		IDs: []string{"17.1-9"}, Title: "partitions of a repartition topic",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 1)
			c.Topic("r", 1)
			m := c.Member("m1")
			m.Join(Topology(Sub{ID: "s1", Sources: []string{"foo"}, Sinks: []string{"r"}}, Sub{ID: "s2", Repartitions: []Internal{{Word: "r", Partitions: 1}}})).OK(2).Has("s1:0 s2:0")
			m.Beat(Rack("r1")).OK(3)
			c.committed("NONE", Commit{Member: "m1", Epoch: 2}, "foo:0 r:0", 5)
		},
	},
	{
		IDs: []string{"O-18", "17.1-1", "17.1-2", "17.2-4"}, Title: "commits and fetches of a group that does not exist",
		Run: func(c *C) {
			c.Topic("foo", 1)
			c.committed("GROUP_ID_NOT_FOUND", Commit{Member: "m1", Epoch: 5}, "foo:0", 5)
			c.committed("ILLEGAL_GENERATION", Commit{Member: "m1", Epoch: 5, Version: 8}, "foo:0", 5)
			require.Equal(c, "foo:0=-1", c.Fetch(c.group, "", -1, "foo:0"))
			require.Equal(c, "foo:0=-1", c.Fetch(c.group, "m1", 7, "foo:0"))
			c.committed("NONE", Commit{Epoch: -1}, "foo:0", 6)
			c.fetched("foo:0=6", "foo:0")
		},
	},
	{
		IDs: []string{"17.1-2", "17.1-1"}, Title: "commits of a transaction to a group that does not exist",
		Run: func(c *C) {
			c.Topic("foo", 1)
			tx := c.Txn()
			tx.committed("GROUP_ID_NOT_FOUND", Commit{Member: "m1", Epoch: 5}, "foo:0", 5)
			tx.committed("ILLEGAL_GENERATION", Commit{Member: "m1", Epoch: 5, Version: 5}, "foo:0", 5)
			tx.committed("NONE", Commit{Epoch: -1}, "foo:0", 6)
		},
	},
	{
		IDs: []string{"O-19", "O-21", "O-22", "17.2-1", "17.2-2", "17.2-3"}, Title: "fetches with and without a member",
		Run: func(c *C) {
			c.Topic("foo", 1)
			c.Member("m1").Join(T1()).OK(2)
			c.committed("NONE", Commit{Member: "m1", Epoch: 2}, "foo:0", 5)
			require.Equal(c, "foo:0=5", c.Fetch(c.group, "", -1, "foo:0"))
			require.Equal(c, "foo:0=5", c.Fetch(c.group, "m1", 2, "foo:0"))
			require.Equal(c, "STALE_MEMBER_EPOCH", c.Fetch(c.group, "m1", 10, "foo:0"))
			require.Equal(c, "STALE_MEMBER_EPOCH", c.Fetch(c.group, "m1", 1, "foo:0"))
			require.Equal(c, "UNKNOWN_MEMBER_ID", c.Fetch(c.group, "m2", 2, "foo:0"))
		},
	},
	{
		IDs: []string{"17.1-10"}, Title: "commits do not prolong the session",
		Run: func(c *C) {
			c.NeedShortSession()
			c.Topic("foo", 1)
			c.Member("m1").Join(T1()).OK(2)
			c.await("the end of m1", func() bool {
				code := c.Commit(Commit{Member: "m1", Epoch: 2}, "foo:0", 5)
				if code == "UNKNOWN_MEMBER_ID" {
					return true
				}
				require.Equal(c, "NONE", code)
				c.Sleep(100 * time.Millisecond)
				return false
			})
		},
	},
	{
		IDs: []string{"17.3-1", "17.3-2"}, Title: "offsets of subscribed topics cannot be deleted",
		Run: func(c *C) {
			c.Topic("foo", 1)
			c.Topic("r", 1)
			c.Topic("bar", 1)
			m := c.Member("m1")
			m.Join(Topology(Sub{ID: "s1", Sources: []string{"foo"}, Sinks: []string{"r"}}, Sub{ID: "s2", Repartitions: []Internal{{Word: "r", Partitions: 1}}})).OK(2)
			c.committed("NONE", Commit{Member: "m1", Epoch: 2}, "foo:0 r:0 bar:0", 5)
			require.Equal(c, "GROUP_SUBSCRIBED_TO_TOPIC", c.DeleteOffset("foo"))
			require.Equal(c, "GROUP_SUBSCRIBED_TO_TOPIC", c.DeleteOffset("r"))
			require.Equal(c, "NONE", c.DeleteOffset("bar"))
			c.fetched("bar:0=-1 foo:0=5 r:0=5", "foo:0 r:0 bar:0")
			m.Leave().OK(-1)
			require.Equal(c, "NONE", c.DeleteOffset("foo"))
			c.fetched("foo:0=-1 r:0=5", "foo:0 r:0")
		},
	},
	{
		IDs: []string{"O-24", "D20", "17.3-2"}, Title: "topics that patterns match are subscribed", Policy: KIP1071, Deviation: "D20",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 1)
			m := c.Member("m1")
			m.Join(Topology(Sub{ID: "s1", Patterns: []string{"fo+"}})).OK(2).Has("s1:0")
			m.Beat(Rack("r1")).OK(3)
			c.committed("NONE", Commit{Member: "m1", Epoch: 2}, "foo:0", 5)
			require.Equal(c, "GROUP_SUBSCRIBED_TO_TOPIC", c.DeleteOffset("foo"))
		},
	},
}

// topicOf are the partitions of foo that a member's tasks of s1 read.
func topicOf(m *Member) string {
	return formatTopic("foo", partitionsOf(m.Active, "s1"))
}
