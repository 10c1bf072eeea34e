package conformance

import (
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pair joins two members to a group that reads foo and lets them share its
// partitions.
func (c *C) pair(partitions int32) (m1, m2 *Member) {
	c.AtOnce()
	c.Topic("foo", partitions)
	m1, m2 = c.Member("m1"), c.Member("m2")
	m1.Join(T1()).OK(2)
	m2.Join(T1()).OK(3)
	c.Converge(m1, m2)
	return m1, m2
}

// isGoodbye requires the answer to a leave: nothing but the ids.
func (a *Answer) isGoodbye(member string, epoch int32) {
	a.OK(epoch).NoLists().Says("-")
	require.Equal(a.c, member, a.MemberID, "member id")
	require.Zero(a.c, a.HeartbeatIntervalMillis, "heartbeat interval")
	require.Zero(a.c, a.TaskOffsetIntervalMillis, "task offset interval")
	if a.Version >= 1 {
		require.Equal(a.c, int64(-1), a.AcceptableRecoveryLag, "acceptable recovery lag")
	}
	require.Zero(a.c, a.EndpointInformationEpoch, "endpoint epoch")
	require.Nil(a.c, a.PartitionsByUserEndpoint, "endpoints")
	require.False(a.c, a.TopologyDescriptionRequired)
}

var leaving = []Scenario{
	{
		IDs: []string{"L-01", "L-03", "5-4", "5-10", "5-13", "5-18", "3-3", "3-5"}, Title: "one of two leaves, and the other takes over",
		Run: func(c *C) {
			m1, m2 := c.pair(4)
			before := m1.Active
			require.Equal(c, 2, countTasks(before), "tasks of m1")
			m2.Leave().isGoodbye("m2", -1)
			d := c.Describe().In("Assigning", 4)
			require.Equal(c, int32(3), d.AssignmentEpoch)
			require.Equal(c, []string{"m1"}, d.IDs())
			require.Equal(c, before, d.AssignedActive("m1"), "nothing is assigned before a heartbeat")
			m1.Beat().OK(4).Has("s1:0-3")
			c.Describe().In("Stable", 4)
		},
	},
	{
		IDs: []string{"L-02", "5-11", "3-1"}, Title: "the last member leaves, and the next is not held up",
		Run: func(c *C) {
			c.Seldom()
			c.Topic("foo", 2)
			c.Member("m1").Join(T1()).OK(2).Has("s1:0-1")
			c.Member("m1").Leave().isGoodbye("m1", -1)
			d := c.Describe().In("Empty", 3)
			require.Equal(c, int32(3), d.AssignmentEpoch)
			require.Empty(c, d.IDs())
			c.Member("m2").Join(T1()).OK(4).Has("s1:0-1").Says("-")
		},
	},
	{
		IDs: []string{"L-04", "13-1"}, Title: "a heartbeat starts the session anew",
		Run: func(c *C) {
			c.Session(4 * time.Second)
			c.Topic("foo", 1)
			m := c.Member("m1")
			m.Join(T1()).OK(2)
			c.Sleep(2500 * time.Millisecond)
			m.Beat().OK(2)
			c.Sleep(2500 * time.Millisecond)
			m.Beat().OK(2)
			m.Leave().Is("NONE")
			c.Describe().In("Empty", 3)
		},
	},
	{
		IDs: []string{"L-05", "13-1", "5-10", "5-11"}, Title: "a member that is silent is gone after its session",
		Run: func(c *C) {
			c.NeedShortSession()
			c.Topic("foo", 1)
			m := c.Member("m1")
			m.Join(T1()).OK(2)
			d := c.AwaitState("Empty").In("Empty", 3)
			require.Equal(c, int32(3), d.AssignmentEpoch)
			m.Beat().Is("UNKNOWN_MEMBER_ID")
			m.Join(T1()).OK(4).Has("s1:0")
		},
	},
	{
		IDs: []string{"L-06", "13-2", "12.2-16"}, Title: "a revocation that is acknowledged in time",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 2)
			m1, m2 := c.Member("m1"), c.Member("m2")
			m1.RebalanceTimeoutMillis = 4000
			m1.Join(T1()).OK(2)
			m2.Join(T1()).OK(3)
			require.Equal(c, 1, countTasks(m1.Beat().OK(2).Active()))
			m1.Ack().OK(3)
			c.Sleep(5 * time.Second)
			m1.Beat().OK(3)
			require.Equal(c, []string{"m1", "m2"}, c.Describe().IDs())
		},
	},
	{
		IDs: []string{"L-07", "L-08", "13-2", "13-4"}, Title: "a revocation that is not acknowledged ends the member, however often it heartbeats",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 2)
			m1, m2 := c.Member("m1"), c.Member("m2")
			m1.RebalanceTimeoutMillis = 1500
			m1.Join(T1()).OK(2)
			m2.Join(T1()).OK(3)
			began := c.target.Clock.Now()
			m1.Beat().OK(2)
			m1.BeatUntil("UNKNOWN_MEMBER_ID", 100*time.Millisecond)
			require.GreaterOrEqual(c, c.target.Clock.Now().Sub(began), 1500*time.Millisecond, "the member was ended before its time-out")
			require.Equal(c, []string{"m2"}, c.Describe().In("Assigning", 4).IDs())
			m2.Beat().OK(4).Has("s1:0-1")
		},
	},
	{
		IDs: []string{"L-10", "13-1"}, Title: "a refused heartbeat does not prolong the session",
		Run: func(c *C) {
			c.NeedShortSession()
			c.Topic("foo", 1)
			m := c.Member("m1")
			m.Join(T1()).OK(2)
			c.await("the end of m1", func() bool {
				a := m.Send(m.Request(999))
				if CodeName(a.ErrorCode) == "UNKNOWN_MEMBER_ID" {
					return true
				}
				a.Is("FENCED_MEMBER_EPOCH")
				c.Sleep(100 * time.Millisecond)
				return false
			})
		},
	},
	{
		IDs: []string{"L-11", "5-9"}, Title: "a leave does not look at anything but the ids",
		Run: func(c *C) {
			c.Topic("foo", 1)
			m := c.Member("m1")
			m.Join(T1()).OK(2)
			m.Leave(OwnedAll("s9:7", "s9:8", none), ProcessID("other"), Rack("r"), Endpoint("h", 1), func(req *kmsg.StreamsGroupHeartbeatRequest) {
				req.RebalanceTimeoutMillis, req.EndpointInformationEpoch = -7, 99
			}).isGoodbye("m1", -1)
			c.Describe().In("Empty", 3)
		},
	},
	{
		IDs: []string{"L-11", "5-4"}, Title: "a static member leaves for good without its instance id",
		Run: func(c *C) {
			c.Need44()
			c.Topic("foo", 1)
			m := c.Static("m1", "i1")
			m.Join(T1()).OK(2)
			m.Leave(Instance("")).isGoodbye("m1", -1)
			c.Describe().In("Empty", 3)
		},
	},
	{
		IDs: []string{"L-12", "13-8"}, Title: "a running session keeps its time-out",
		Run: func(c *C) {
			c.Session(2 * time.Second)
			c.Topic("foo", 1)
			c.Member("m1").Join(T1()).OK(2)
			c.Session(40 * time.Second)
			c.AwaitState("Empty")
		},
	},
	{
		IDs: []string{"5-1", "5-3", "5-5"}, Title: "leaves of groups, members and instances that nobody knows",
		Run: func(c *C) {
			m := c.Member("m1")
			m.Leave().Is("GROUP_ID_NOT_FOUND")
			c.Topic("foo", 1)
			m.Join(T1()).OK(2)
			c.Member("m2").Leave().Is("UNKNOWN_MEMBER_ID")
			if c.HasRelease44() {
				m.Leave(Instance("i1")).Is("UNKNOWN_MEMBER_ID")
				m.LeaveForNow(Instance("i1")).Is("UNKNOWN_MEMBER_ID")
			}
			c.Describe().In("Stable", 2)
		},
	},
}
