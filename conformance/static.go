package conformance

import (
	"time"

	"github.com/stretchr/testify/require"
)

// a1 joins a static member to a group that reads four partitions.
func (c *C) a1() *Member {
	c.Need44()
	c.AtOnce()
	c.Topic("foo", 4)
	m := c.Static("a1", "i1")
	m.Join(T1()).OK(2).Has("s1:0-3")
	return m
}

// a1AndWaiting has a1 learn that it has to give up tasks, for which m2 waits.
func (c *C) a1AndWaiting() (a1, m2 *Member) {
	a1 = c.a1()
	m2 = c.Member("m2")
	m2.Join(T1()).OK(3).Has(none)
	require.Equal(c, 2, countTasks(a1.Beat().OK(2).Active()), "what a1 keeps")
	return a1, m2
}

var static = []Scenario{
	{
		IDs: []string{"S-01", "S-02", "6.2-5", "6.2-10", "2.1-3"}, Title: "a static member joins and heartbeats",
		Run: func(c *C) {
			a1 := c.a1()
			a1.Ack().OK(2).NoLists()
			m := c.Describe().In("Stable", 2).Member("a1")
			require.NotNil(c, m.InstanceID)
			require.Equal(c, "i1", *m.InstanceID)
		},
	},
	{
		IDs: []string{"S-03", "6.2-8"}, Title: "a heartbeat of an instance that nobody knows",
		Run: func(c *C) {
			c.a1()
			zz := c.Static("zz", "unknown")
			zz.Send(zz.Request(1)).Is("UNKNOWN_MEMBER_ID")
			a1 := c.Static("a1", "unknown")
			a1.Send(a1.Request(2)).Is("UNKNOWN_MEMBER_ID")
		},
	},
	{
		IDs: []string{"S-07", "6.2-6", "Q13"}, Title: "an instance that is present cannot join again, but as the member that has it",
		Run: func(c *C) {
			a1 := c.a1()
			if again := a1.Join(T1()); c.KIP() {
				again.OK(2).Has("s1:0-3")
			} else {
				again.Is("UNRELEASED_INSTANCE_ID")
			}
			c.Static("n", "i1").Join(T1()).Is("UNRELEASED_INSTANCE_ID")
			d := c.Describe().In("Stable", 2)
			require.Equal(c, []string{"a1"}, d.IDs())
			a1.Beat().OK(2)
		},
	},
	{
		IDs: []string{"S-08", "S-09", "6.2-9", "5-6"}, Title: "another member id under the instance",
		Run: func(c *C) {
			a1 := c.a1()
			other := c.Static("other", "i1")
			other.Send(other.Request(2)).Is("FENCED_INSTANCE_ID")
			other.LeaveForNow().Is("FENCED_INSTANCE_ID")
			other.Leave().Is("FENCED_INSTANCE_ID")
			a1.Beat().OK(2)
		},
	},
	{
		IDs: []string{"S-11", "6.3-4", "6.3-5", "6.2-10"}, Title: "the previous epoch of a static member",
		Run: func(c *C) {
			a1, _ := c.a1AndWaiting()
			given := without("s1:0-3", a1.Active)
			a1.Ack().OK(3)
			a1.Send(a1.Request(2), Owned(union(a1.Active, given))).Is("FENCED_MEMBER_EPOCH")
			a1.Send(a1.Request(2), Owned(a1.Active)).OK(3)
			a1.Send(a1.Request(2)).Is("FENCED_MEMBER_EPOCH")
		},
	},
	{
		IDs: []string{"S-12", "6.3-6"}, Title: "an absent member is fenced",
		Run: func(c *C) {
			a1 := c.a1()
			a1.LeaveForNow().OK(-2)
			a1.Beat().Is("FENCED_MEMBER_EPOCH")
			a1.Send(a1.Request(1), Owned("s1:0")).Is("FENCED_MEMBER_EPOCH")
			require.Equal(c, int32(-2), c.Describe().Member("a1").MemberEpoch)
		},
	},
	{
		IDs: []string{"S-20", "5-7"}, Title: "a static member leaves for good",
		Run: func(c *C) {
			a1 := c.a1()
			a1.Leave().isGoodbye("a1", -1)
			c.Describe().In("Empty", 3)
			c.Static("b1", "i1").Join(T1()).OK(4).Has("s1:0-3")
		},
	},
	{
		IDs: []string{"S-21", "S-22", "5-8", "5-14", "5-17", "5-18", "3-4"}, Title: "a static member leaves for a moment, twice",
		Run: func(c *C) {
			a1 := c.a1()
			for range 2 {
				a1.LeaveForNow().isGoodbye("a1", -2)
				d := c.Describe().In("Reconciling", 2)
				require.Equal(c, int32(-2), d.Member("a1").MemberEpoch)
				require.Equal(c, "s1:0,1,2,3", d.AssignedActive("a1"))
			}
		},
	},
	{
		IDs: []string{"S-25", "5-16", "2.3-3"}, Title: "what an absent member had to give up is free at once",
		Run: func(c *C) {
			a1, m2 := c.a1AndWaiting()
			m2.Beat().OK(3).NoLists()
			a1.LeaveForNow().OK(-2)
			m2.Beat().OK(3).Has(without("s1:0-3", a1.Active))
			d := c.Describe().In("Reconciling", 3)
			require.Equal(c, a1.Active, d.AssignedActive("a1"))
		},
	},
	{
		IDs: []string{"S-26", "6.4", "6.2-7", "11-2", "D27"}, Title: "an absent member comes back under another member id",
		Run: func(c *C) {
			a1 := c.a1()
			a1.LeaveForNow().OK(-2)
			b1 := c.Static("b1", "i1")
			b1.Process = a1.Process
			b1.Join(T1()).OK(2).Has("s1:0-3")
			d := c.Describe().In("Stable", 2)
			require.Equal(c, []string{"b1"}, d.IDs())
			require.Equal(c, "s1:0,1,2,3", responseTasks(d.Member("b1").TargetAssignment.ActiveTasks), "target")
			a1.Beat().Is("FENCED_INSTANCE_ID")
			b1.Ack().OK(2).NoLists()
		},
	},
	{
		IDs: []string{"S-27", "6.4", "6.2-7", "Q13"}, Title: "an absent member comes back under its member id",
		Run: func(c *C) {
			a1 := c.a1()
			a1.LeaveForNow().OK(-2)
			a1.Join(T1()).OK(2).Has("s1:0-3")
			c.Describe().In("Stable", 2)
		},
	},
	{
		IDs: []string{"S-28", "6.4"}, Title: "the session of the replaced member id does not end the new one",
		Run: func(c *C) {
			c.Session(4 * time.Second)
			a1 := c.a1()
			c.Sleep(2 * time.Second)
			a1.LeaveForNow().OK(-2)
			b1 := c.Static("b1", "i1")
			b1.Process = a1.Process
			b1.Join(T1()).OK(2)
			c.Sleep(2500 * time.Millisecond)
			b1.Beat().OK(2)
		},
	},
	{
		IDs: []string{"S-30", "7-3", "D27"}, Title: "an absent member comes back with another rack",
		Run: func(c *C) {
			a1 := c.a1()
			a1.LeaveForNow().OK(-2)
			b1 := c.Static("b1", "i1")
			b1.Process = a1.Process
			b1.Join(T1(), Rack("r2")).OK(3).Has("s1:0-3")
			m := c.Describe().In("Stable", 3).Member("b1")
			require.NotNil(c, m.RackID)
			require.Equal(c, "r2", *m.RackID)
		},
	},
	{
		IDs: []string{"S-31", "6.4"}, Title: "an absent member that waited for tasks comes back",
		Run: func(c *C) {
			c.Need44()
			c.AtOnce()
			c.Topic("foo", 2)
			m2, a1 := c.Member("m2"), c.Static("a1", "i1")
			m2.Join(T1()).OK(2).Has("s1:0-1")
			a1.Join(T1()).OK(3).Has(none)
			a1.LeaveForNow().OK(-2)
			b1 := c.Static("b1", "i1")
			b1.Process = a1.Process
			b1.Join(T1()).OK(3).Has(none)
			c.Describe().In("Reconciling", 3)
			m2.Beat().OK(2)
			m2.Ack().OK(3)
			b1.Beat().OK(3).Has(without("s1:0-1", m2.Active))
			c.Describe().In("Stable", 3)
		},
	},
	{
		IDs: []string{"S-33", "2.1-3"}, Title: "a member joins with another instance id, and the first is free",
		Run: func(c *C) {
			a1 := c.a1()
			a1.Join(T1(), Instance("i2")).Has("s1:0-3")
			a1.Beat().Is("UNKNOWN_MEMBER_ID")
			a1.Beat(Instance("i2")).Is("NONE")
			c.Static("b1", "i1").Join(T1()).Is("NONE")
			require.Equal(c, []string{"a1", "b1"}, c.Describe().IDs())
		},
	},
	{
		IDs: []string{"S-34", "7-3", "D27"}, Title: "what a static member may change without a new epoch, and what it may not",
		Run: func(c *C) {
			a1 := c.a1()
			a1.Beat(Endpoint("h", 1)).OK(2)
			a1.Beat(Instance(""), Endpoint("h", 2)).OK(3)
			c.Describe().In("Stable", 3)
			a1.Beat(ProcessID("other")).OK(4)
			a1.Beat(Tags("zone", "a")).OK(5)
			a1.Beat(Rack("r")).OK(6)
		},
	},
	{
		IDs: []string{"S-35", "5-15", "13-1"}, Title: "an absence ends with the session",
		Run: func(c *C) {
			c.Session(1500 * time.Millisecond)
			a1 := c.a1()
			a1.LeaveForNow().OK(-2)
			d := c.AwaitState("Empty").In("Empty", 3)
			require.Equal(c, int32(3), d.AssignmentEpoch)
			a1.LeaveForNow().Is("UNKNOWN_MEMBER_ID")
		},
	},
	{
		IDs: []string{"S-36", "5-15", "13-2"}, Title: "the rebalance time-out of an absent member does nothing",
		Run: func(c *C) {
			c.Need44()
			c.AtOnce()
			c.Topic("foo", 2)
			a1, m2 := c.Static("a1", "i1"), c.Member("m2")
			a1.RebalanceTimeoutMillis = 1500
			a1.Join(T1()).OK(2)
			m2.Join(T1()).OK(3)
			a1.Beat().OK(2)
			a1.LeaveForNow().OK(-2)
			c.Sleep(3 * time.Second)
			require.Equal(c, []string{"a1", "m2"}, c.Describe().IDs())
		},
	},
	{
		IDs: []string{"S-37", "5-14"}, Title: "an absent member keeps its tasks",
		Run: func(c *C) {
			c.Need44()
			c.AtOnce()
			c.Topic("foo", 4)
			a1, m2 := c.Static("a1", "i1"), c.Member("m2")
			a1.Join(T1()).OK(2)
			m2.Join(T1()).OK(3)
			c.Converge(a1, m2)
			a1.LeaveForNow().OK(-2)
			m2.Ack().OK(3).NoLists()
			d := c.Describe().In("Reconciling", 3)
			require.Equal(c, a1.Active, d.AssignedActive("a1"))
		},
	},
}
