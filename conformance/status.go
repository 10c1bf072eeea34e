package conformance

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// tagged has the broker ask the group's members for client tags.
func (c *C) tagged(tags string) {
	c.Need44()
	c.Config("streams.rack.aware.assignment.tags", tags)
}

// two joins two members to a group that reads one partition: the first has it.
func (c *C) two() (m1, m2 *Member) {
	c.AtOnce()
	c.Topic("foo", 1)
	m1, m2 = c.Member("m1"), c.Member("m2")
	m1.Join(T1()).OK(2).Has("s1:0")
	m2.Join(T1()).OK(3).Has(none)
	m1.Beat().OK(3)
	return m1, m2
}

var status = []Scenario{
	{
		IDs: []string{"14-1", "14-2", "14-3", "14-4", "14-5", "D10", "D14", "D15"}, Title: "the fields of an answer",
		Run: func(c *C) {
			c.Need44()
			c.Config("streams.heartbeat.interval.ms", "7000", "streams.task.offset.interval.ms", "70000", "streams.acceptable.recovery.lag", "777")
			c.Topic("foo", 1)
			m := c.Member("m1")
			for _, a := range []*Answer{m.Join(T1()), m.Beat()} {
				a.OK(2).Says("-")
				require.Equal(c, "m1", a.MemberID)
				require.Equal(c, int32(7000), a.HeartbeatIntervalMillis)
				require.Equal(c, int32(70000), a.TaskOffsetIntervalMillis)
				require.Equal(c, int64(777), a.AcceptableRecoveryLag)
				require.Zero(c, a.AcceptableRecoveryLagLegacy)
			}
		},
	},
	{
		IDs: []string{"14-4", "14.1-6", "D15"}, Title: "version 0 of the heartbeat",
		Run: func(c *C) {
			c.tagged("zone")
			c.Config("streams.acceptable.recovery.lag", "777")
			c.Topic("foo", 1)
			m := c.Member("m1")
			m.Join(T1()).OK(2).Says("6")
			req := m.Request(2)
			resp := c.AskCoordinator(Pin(req, 0)).(*kmsg.StreamsGroupHeartbeatResponse)
			a := (&Answer{resp, c}).OK(2)
			require.Zero(c, a.AcceptableRecoveryLagLegacy)
			a.Says("-") // clients of version 0 do not know status 6
		},
	},
	{
		IDs: []string{"14-6", "14-7"}, Title: "task lists come with a join and with a change, and without what is to be given up",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 4)
			m1, m2 := c.Member("m1"), c.Member("m2")
			a := m1.Join(T1()).OK(2).Has("s1:0-3")
			require.Len(c, a.ActiveTasks, 1)
			require.Equal(c, []int32{0, 1, 2, 3}, a.ActiveTasks[0].Partitions, "ascending")
			m1.Beat().OK(2).NoLists()
			m1.Ack().OK(2).NoLists()
			m1.Join(T1()).OK(2).Has("s1:0-3")
			m2.Join(T1()).OK(3).Has(none)
			require.Equal(c, 2, countTasks(m1.Beat().OK(2).Active()), "without what m1 has to give up")
			m1.Beat().OK(2).NoLists()
			m1.Ack().OK(3).NoLists()
			m2.Beat().OK(3).Has(without("s1:0-3", m1.Active))
			m2.Beat().OK(3).NoLists()
		},
	},
	{
		IDs: []string{"14-10", "14-5", "14-2"}, Title: "an error carries nothing but its code and a text",
		Run: func(c *C) {
			m := c.Member("m1")
			a := m.Send(m.Request(5)).Is("GROUP_ID_NOT_FOUND").NoLists().Says("-")
			require.NotNil(c, a.ErrorMessage)
			require.NotEmpty(c, *a.ErrorMessage)
			want := &kmsg.StreamsGroupHeartbeatResponse{Version: a.Version}
			want.Default()
			want.ErrorCode, want.ErrorMessage, want.Status = a.ErrorCode, a.ErrorMessage, a.Status
			require.Equal(c, want, a.StreamsGroupHeartbeatResponse)
		},
	},
	{
		IDs: []string{"14.1-6", "6.1-2"}, Title: "missing client tags are named in the configured order",
		Run: func(c *C) {
			c.AtOnce()
			c.tagged("zone,cluster")
			c.Topic("foo", 1)
			m := c.Member("m1")
			require.Regexp(c, "zone.*cluster", m.Join(T1()).OK(2).Says("6").Detail(6))
			detail := m.Beat(Tags("cluster", "c1")).OK(3).Says("6").Detail(6)
			require.Contains(c, detail, "zone")
			require.NotContains(c, detail, "cluster")
			m.Beat(Tags("cluster", "c1", "zone", "a")).OK(4).Says("-")
		},
	},
	{
		IDs: []string{"14.1-1", "14.1-4", "14.1-6", "14.1-7", "D7"}, Title: "the order of statuses: missing topics, shutdown, tags",
		Run: func(c *C) {
			c.AtOnce()
			c.tagged("zone")
			m1 := c.Member("m1")
			m1.Join(T1()).OK(2).Says("1,6")
			m1.Beat(Shutdown).OK(2).Says("1,4,6")
			a := c.Member("m2").Join(T1()).OK(3).Says("1,4,6")
			require.Contains(c, a.Detail(1), "foo")
			require.Contains(c, a.Detail(4), "m1")
			require.Contains(c, a.Detail(6), "zone")
		},
	},
	{
		IDs: []string{"14.1-0", "14.1-4", "14.1-5", "14.1-6", "14.1-7", "11-4", "D5", "D30"}, Title: "the order of statuses: stale, delayed, shutdown, tags", Deviation: "D5",
		Run: func(c *C) {
			c.Seldom()
			c.tagged("zone")
			c.Topic("foo", 1)
			stale, m2, m3 := c.Member("stale"), c.Member("m2"), c.Member("m3")
			if c.KIP() { // an update leaves a member behind
				stale.Join(T1()).OK(2).Says("6")
				m2.Join(T1().At(1), Shutdown).OK(3).Says("4,6")
			} else { // a member comes in with an older topology
				m2.Join(T1().At(1)).OK(2).Says("6")
				m2.Beat(Shutdown).OK(2).Says("4,6")
				stale.Join(T1()).OK(2).Says("0,5,4,6")
			}
			m3.Join(T1().At(1)).Is("NONE").Says("5,4,6")
			stale.Beat().Is("NONE").Says("0,5,4,6")
		},
	},
	{
		IDs: []string{"X-01", "X-02", "15", "7-19", "14.1-4", "D35"}, Title: "one member asks for shutdown, and then another",
		Run: func(c *C) {
			m1, m2 := c.two()
			require.Contains(c, m1.Beat(Shutdown).OK(3).Says("4").Detail(4), "m1")
			require.Contains(c, m2.Beat().OK(3).Says("4").Detail(4), "m1")
			detail := m2.Beat(Shutdown).OK(3).Says("4").Detail(4)
			require.Contains(c, detail, "m1")
			require.NotContains(c, detail, "m2")
			require.Contains(c, m1.Beat().OK(3).Says("4").Detail(4), "m1")
		},
	},
	{
		IDs: []string{"X-03", "15", "5-2", "5-18"}, Title: "a leave asks for shutdown",
		Run: func(c *C) {
			m1, m2 := c.two()
			m1.Leave(Shutdown).isGoodbye("m1", -1)
			a := m2.Beat().OK(4).Has("s1:0").Says("4")
			require.Contains(c, a.Detail(4), "m1")
		},
	},
	{
		IDs: []string{"X-04", "15", "3-1"}, Title: "an empty group has forgotten the shutdown",
		Run: func(c *C) {
			m1, m2 := c.two()
			m1.Beat(Shutdown).OK(3).Says("4")
			m1.Leave().OK(-1)
			m2.Leave(Shutdown).OK(-1)
			c.Describe().In("Empty", 5)
			m1.Join(T1()).OK(6).Says("-")
			m1.Beat().OK(6).Says("-")
		},
	},
	{
		IDs: []string{"X-05", "15", "5-2", "Q6"}, Title: "the leave of an unknown member asks for shutdown",
		Run: func(c *C) {
			m1, _ := c.two()
			c.Member("nobody").Leave(Shutdown).Is("UNKNOWN_MEMBER_ID")
			require.Contains(c, m1.Beat().OK(3).Says("4").Detail(4), "nobody")
		},
	},
	{
		IDs: []string{"X-06", "15"}, Title: "a refused heartbeat does not ask for shutdown",
		Run: func(c *C) {
			m1, m2 := c.two()
			m1.Send(m1.Request(999), Shutdown).Is("FENCED_MEMBER_EPOCH")
			m1.Beat().OK(3).Says("-")
			m2.Beat().OK(3).Says("-")
		},
	},
	{
		IDs: []string{"15", "Q5"}, Title: "the join that creates the group asks for shutdown", Deviation: "Q5",
		Run: func(c *C) {
			c.Topic("foo", 1)
			m := c.Member("m1")
			m.Join(T1(), Shutdown).OK(2).Says("4")
			// Kafka forgets it with this answer; policy KIP1071 keeps it.
			require.Contains(c, []string{"4", "-"}, m.Beat().OK(2).Statuses())
		},
	},
	{
		IDs: []string{"15", "7-19"}, Title: "a join asks for shutdown",
		Run: func(c *C) {
			m1, _ := c.two()
			c.Member("m3").Join(T1(), Shutdown).OK(4).Says("4")
			require.Contains(c, m1.Beat().OK(4).Says("4").Detail(4), "m3")
		},
	},
	{
		IDs: []string{"15", "5-2"}, Title: "a leave for a moment asks for shutdown",
		Run: func(c *C) {
			c.Need44()
			m1, _ := c.two()
			s := c.Static("s", "i1")
			s.Join(T1()).OK(4)
			s.LeaveForNow(Shutdown).isGoodbye("s", -2)
			require.Contains(c, m1.Beat().OK(4).Says("4").Detail(4), "s")
		},
	},
	{
		IDs: []string{"14.1-5", "11-1", "D30"}, Title: "statuses while the initial delay runs",
		Run: func(c *C) {
			c.Config("streams.initial.rebalance.delay.ms", "2000")
			c.Topic("foo", 1)
			m := c.Member("m1")
			m.Join(T1()).OK(1).Has(none).Says("5")
			m.Beat().OK(1).NoLists().Says("5")
			c.await("tasks", func() bool {
				a := m.Beat().Is("NONE")
				c.Sleep(100 * time.Millisecond)
				return slices.Contains([]string{"-"}, a.Statuses()) && m.Active == "s1:0"
			})
			require.Equal(c, int32(2), m.Epoch)
		},
	},
}
