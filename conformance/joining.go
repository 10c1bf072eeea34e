package conformance

import (
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Groups and members: which of them a heartbeat is about, and whether its epoch
// is the right one.
var joining = []Scenario{
	{
		IDs: []string{"J-01", "6.1-1", "7-1"}, Title: "a heartbeat to an unknown group",
		Run: func(c *C) {
			m := c.Member("m1")
			m.Send(m.Request(100)).Is("GROUP_ID_NOT_FOUND")
		},
	},
	{
		IDs:   []string{"6.1-2", "6.2-2", "6.2-4", "2.1-1", "10.1-1", "10.1-2", "7-4", "7-20", "8-2", "8-3", "14-1", "14-2", "14-5", "D10", "D14"},
		Title: "the first join makes a group of epoch 2",
		Run: func(c *C) {
			c.Topic("foo", 2)
			c.Describe().Is("GROUP_ID_NOT_FOUND")
			m := c.Member("m1")
			a := m.Join(T1()).OK(2).Has("s1:0-1").Says("-")
			require.Equal(c, "m1", a.MemberID)
			d := c.Describe().In("Stable", 2)
			require.Equal(c, int32(2), d.AssignmentEpoch)
			for range 2 {
				a = m.Ack().OK(2).NoLists().Says("-")
				require.Equal(c, "m1", a.MemberID)
			}
			c.Describe().In("Stable", 2)
		},
	},
	{
		IDs: []string{"J-02", "J-03", "6.2-3", "5-1", "5-3"}, Title: "unknown members and groups",
		Run: func(c *C) {
			c.Topic("foo", 2)
			c.Member("m1").Join(T1()).OK(2)
			m9 := c.Member("m9")
			m9.Send(m9.Request(1)).Is("UNKNOWN_MEMBER_ID")
			m9.Leave().Is("UNKNOWN_MEMBER_ID")
			m9.Group = c.Named("nobody")
			m9.Leave().Is("GROUP_ID_NOT_FOUND")
		},
	},
	{
		IDs: []string{"J-06", "J-12", "6.3-2", "6.3-3", "6.3-6", "D8"}, Title: "a member epoch that is too high, and the current one",
		Run: func(c *C) {
			c.Topic("foo", 2)
			m := c.Member("m1")
			m.Join(T1()).OK(2).Has("s1:0-1")
			m.Send(m.Request(200)).Is("FENCED_MEMBER_EPOCH")
			m.Beat(Owned("s1:0")).OK(2)
			c.Describe().In("Stable", 2)
		},
	},
	{
		IDs: []string{"J-09", "J-10", "J-11", "6.3-4", "6.3-5", "7-2"}, Title: "the previous member epoch",
		Run: func(c *C) {
			m1, m2 := pair(c)
			m1.Ack().OK(2).HasAll(c.Describe().Goal("m1").Active, none, none)
			m1.Ack().OK(3).NoLists()
			m2.Ack().OK(3)
			mine, theirs := m1.Active, m2.Active
			some, stranger := first(2, mine), first(1, theirs)

			before := func(changes ...Change) *Answer {
				req := m1.Request(2)
				return m1.Send(req, changes...)
			}
			before(Owned(some)).OK(3)
			before(Owned(mine)).OK(3)
			before(Owned(none)).OK(3)
			before(Owned(union(some, stranger))).Is("FENCED_MEMBER_EPOCH")
			before(OwnedAll(none, some, none)).Is("FENCED_MEMBER_EPOCH")
			before(OwnedAll(none, none, some)).Is("FENCED_MEMBER_EPOCH")
			before().Is("FENCED_MEMBER_EPOCH")
			m1.Send(m1.Request(1), Owned(mine)).Is("FENCED_MEMBER_EPOCH")
			m1.Beat().OK(3)
			require.Equal(c, []string{"m1", "m2"}, c.Describe().In("Stable", 3).IDs())
		},
	},
	{
		IDs: []string{"J-13", "6.2-1", "6.3-1"}, Title: "a member joins again and has what it had",
		Run: func(c *C) {
			c.Topic("foo", 3)
			m := c.Member("m1")
			m.Join(T1()).OK(2).Has("s1:0-2")
			m.Ack().OK(2)
			m.Join(T1()).OK(2).Has("s1:0-2").Says("-")
			c.Describe().In("Stable", 2)
		},
	},
	{
		IDs: []string{"J-14", "6.2-1", "12.1-3"}, Title: "joining again gives up what was to be revoked",
		Run: func(c *C) {
			m1, _ := pair(c)
			goal := c.Describe().Goal("m1").Active
			m1.Beat().OK(2).Has(goal)
			m1.Join(T1()).OK(3).Has(goal)
			require.Equal(c, goal, c.Describe().Assigned("m1").Active)
		},
	},
	{
		IDs: []string{"J-17", "J-18", "7-8"}, Title: "owned tasks that do not exist",
		Run: func(c *C) {
			c.Topic("foo", 2)
			m := c.Member("m1")
			m.Join(T1()).OK(2)
			offsets := func(req *kmsg.StreamsGroupHeartbeatRequest) {
				if c.HasRelease44() {
					req.TaskOffsets = []kmsg.TaskOffset{{SubtopologyID: "s1", Partition: 0, Offset: 5}}
				}
			}
			for _, wrong := range []string{"s9:0", "s1:2", "s1:0-5"} {
				m.Beat(OwnedAll(wrong, none, none), offsets).Is("INVALID_REQUEST")
				m.Beat(OwnedAll(none, wrong, none), offsets).Is("INVALID_REQUEST")
				if c.HasRelease44() {
					m.Beat(OwnedAll(none, none, wrong), offsets).Is("INVALID_REQUEST")
				}
			}
			require.Empty(c, FormatOffsets(c.Describe().Member("m1").TaskOffsets))
			m.Beat(Owned("s1:0-1"), offsets).OK(2)
		},
	},
	{
		IDs: []string{"7-8", "D13"}, Title: "owned tasks are not looked at while topics are missing",
		Run: func(c *C) {
			m := c.Member("m1")
			m.Join(T1()).OK(2).Says("1")
			m.Beat(Owned("s9:0")).OK(2).Says("1")
		},
	},
	{
		IDs: []string{"D12"}, Title: "a task that is owned in two roles", Deviation: "D12",
		Run: func(c *C) {
			c.Need44()
			c.Topic("foo", 2)
			m := c.Member("m1")
			m.Join(T1()).OK(2)
			code := Either(c, "INVALID_REQUEST", "NONE")
			m.Beat(OwnedAll("s1:0", "s1:0", none)).Is(code)
			m.Beat(OwnedAll("s1:0", none, "s1:0")).Is(code)
			m.Beat(OwnedAll(none, "s1:1", "s1:1")).Is(code)
			m.Beat(OwnedAll("s1:0", "s1:1", none)).Is("NONE")
		},
	},
	{
		IDs: []string{"D11"}, Title: "a join with a rebalance time-out of 0 or less", Deviation: "D11",
		Run: func(c *C) {
			c.Topic("foo", 2)
			for _, millis := range []int32{0, -2} {
				m := c.Member("m1")
				m.RebalanceTimeoutMillis = millis
				m.Join(T1()).Is(Either(c, "INVALID_REQUEST", "NONE"))
			}
		},
	},
	{
		IDs: []string{"J-19", "7-9"}, Title: "offsets of one task twice",
		Run: func(c *C) {
			c.Need44()
			c.Topic("foo", 3)
			m := c.Member("m1")
			m.Join(T1()).OK(2)
			twice := []kmsg.TaskOffset{{SubtopologyID: "s1", Offset: 10}, {SubtopologyID: "s1", Offset: 20}}
			m.Beat(func(req *kmsg.StreamsGroupHeartbeatRequest) { req.TaskOffsets = twice }).Is("INVALID_REQUEST")
			m.Beat(func(req *kmsg.StreamsGroupHeartbeatRequest) { req.TaskEndOffsets = twice }).Is("INVALID_REQUEST")
			d := c.Describe().Member("m1")
			require.Empty(c, d.TaskOffsets)
			require.Empty(c, d.TaskEndOffsets)
		},
	},
	{
		IDs: []string{"J-20", "J-21", "7-9"}, Title: "offsets are replaced, kept if null, and go with the member",
		Run: func(c *C) {
			c.Need44()
			c.Topic("foo", 3)
			m := c.Member("m1")
			m.Join(T1()).OK(2)
			report := func(offset, end int64) Change {
				return func(req *kmsg.StreamsGroupHeartbeatRequest) {
					if offset >= 0 {
						req.TaskOffsets = []kmsg.TaskOffset{{SubtopologyID: "s1", Offset: offset}}
					}
					if end >= 0 {
						req.TaskEndOffsets = []kmsg.TaskOffset{{SubtopologyID: "s1", Offset: end}}
					}
				}
			}
			shows := func(offsets, ends string) {
				d := c.Describe().In("Stable", 2).Member("m1")
				require.Equal(c, offsets, FormatOffsets(d.TaskOffsets))
				require.Equal(c, ends, FormatOffsets(d.TaskEndOffsets))
			}
			m.Beat(report(10, 20)).OK(2).NoLists()
			shows("s1:0=10", "s1:0=20")
			m.Beat(report(12, -1)).OK(2)
			shows("s1:0=12", "s1:0=20")
			m.Beat(func(req *kmsg.StreamsGroupHeartbeatRequest) {
				req.TaskEndOffsets = []kmsg.TaskOffset{{SubtopologyID: "nobody", Partition: 9, Offset: 1}}
			}).OK(2)
			shows("s1:0=12", "nobody:9=1")
			m.Leave().Is("NONE")
			m.Join(T1()).Is("NONE")
			d := c.Describe().Member("m1")
			require.Empty(c, d.TaskOffsets)
			require.Empty(c, d.TaskEndOffsets)
		},
	},
	{
		IDs: []string{"J-22", "7-3", "R-20", "12.1-1", "12.2-12", "14-6"}, Title: "another process id is a new epoch with the same tasks",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 3)
			m := c.Member("m1")
			m.Join(T1()).OK(2).Has("s1:0-2")
			m.Beat(ProcessID("px")).OK(3).NoLists()
			require.Equal(c, "px", c.Describe().In("Stable", 3).Member("m1").ProcessID)
			m.Beat(ProcessID("px")).OK(3)
		},
	},
	{
		IDs: []string{"7-22", "7-13"}, Title: "several reasons at once are one new epoch",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 3)
			m := c.Member("m1")
			m.Join(T1()).OK(2).Has("s1:0-2")
			c.Grow("foo", 5)
			c.Config("streams.num.standby.replicas", "1")
			m.Beat(ProcessID("px"), Rack("r9")).OK(3).Has("s1:0-4")
			m.Ack().OK(3).NoLists()
			c.Describe().In("Stable", 3)
		},
	},
	{
		IDs: []string{"J-24", "7-3", "D16", "D17"}, Title: "null leaves as it is, only a join clears the endpoint",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 2)
			m := c.Member("m1")
			m.Join(T1(), Rack("r1"), Tags("zone", "a"), Endpoint("host", 9000)).OK(2)
			m.Beat().OK(2)
			d := c.Describe().In("Stable", 2).Member("m1")
			require.Equal(c, "r1", *d.RackID)
			require.Equal(c, "p-m1", d.ProcessID)
			require.Len(c, d.ClientTags, 1)
			require.NotNil(c, d.UserEndpoint)
			require.Equal(c, "host", d.UserEndpoint.Host)
			require.Equal(c, uint16(9000), d.UserEndpoint.Port)

			m.Beat(Rack("r2")).OK(3)
			m.Beat(Tags("zone", "b")).OK(4)
			m.Beat(Endpoint("host", 65535)).OK(5)
			m.Beat(func(req *kmsg.StreamsGroupHeartbeatRequest) { req.RebalanceTimeoutMillis = 90_000 }).OK(6)
			m.Join(T1(), func(req *kmsg.StreamsGroupHeartbeatRequest) { req.RebalanceTimeoutMillis = 90_000 }).OK(7)
			d = c.Describe().In("Stable", 7).Member("m1")
			require.Equal(c, "r2", *d.RackID)
			require.Equal(c, "b", d.ClientTags[0].Value)
			require.Nil(c, d.UserEndpoint)
		},
	},
	{
		IDs: []string{"J-31", "7-18", "13-1", "13-8", "25-8", "25-group.streams.session.timeout.ms"}, Title: "another session time-out holds from the next heartbeat",
		Run: func(c *C) {
			c.Topic("foo", 2)
			m := c.Member("m1")
			m.Join(T1()).OK(2)
			c.Session(3 * time.Second)
			c.Sleep(4 * time.Second)
			for range 4 {
				m.Ack().OK(2)
				c.Sleep(time.Second)
			}
			m.Ack().OK(2)
			c.AwaitState("Empty")
			m.Ack().Is("UNKNOWN_MEMBER_ID")
		},
	},
	{
		IDs: []string{"4-20"}, Title: "a broker that does not coordinate the group",
		Run: func(c *C) {
			meta := kmsg.NewPtrMetadataRequest()
			meta.Topics = []kmsg.MetadataRequestTopic{}
			other := ""
			for _, b := range c.Ask(meta).(*kmsg.MetadataResponse).Brokers {
				if addr := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))); addr != c.coordinator(c.group) {
					other = addr
				}
			}
			if other == "" {
				c.Skip("the cluster has one broker only")
			}
			m := c.Member("m1")
			resp := c.askAt(other, m.Request(1)).(*kmsg.StreamsGroupHeartbeatResponse)
			(&Answer{resp, c}).Is("NOT_COORDINATOR")
		},
	},
	{
		IDs: []string{"J-40"}, Title: "a join without a process id",
		Run: func(c *C) {
			c.Topic("foo", 2)
			c.Member("m1").Join(T1(), func(req *kmsg.StreamsGroupHeartbeatRequest) { req.ProcessID = nil }).OK(2).Has("s1:0-1")
			require.Empty(c, c.Describe().Member("m1").ProcessID)
		},
	},
	{
		IDs: []string{"2.1-4", "Q8", "D27", "7-3"}, Title: "another client id is a new epoch",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 2)
			m := c.Member("m1")
			m.Join(T1()).OK(2)
			d := c.Describe().Member("m1")
			require.Equal(c, clientID, d.ClientID)
			require.True(c, strings.HasPrefix(d.ClientHost, "/"), "client host %q", d.ClientHost)
			c.As("other")
			m.Ack().OK(3).NoLists()
			m.Ack().OK(3).NoLists()
			require.Equal(c, "other", c.Describe().In("Stable", 3).Member("m1").ClientID)
		},
	},
	{
		IDs: []string{"D27", "7-3"}, Title: "a static member that moves is no new epoch",
		Run: func(c *C) {
			c.Need44()
			c.AtOnce()
			c.Topic("foo", 2)
			m := c.Static("m1", "i1")
			m.Join(T1()).OK(2)
			c.As("other")
			m.Ack().OK(2)
			m.Beat(Endpoint("host", 9000)).OK(2)
			m.Beat(func(req *kmsg.StreamsGroupHeartbeatRequest) { req.RebalanceTimeoutMillis = 90_000 }).OK(2)
			require.Equal(c, "other", c.Describe().In("Stable", 2).Member("m1").ClientID)
			m.Beat(Rack("r1")).OK(3)
			m.Beat(Tags("zone", "a")).OK(4)
			m.Beat(ProcessID("px")).OK(5)
			// Without its instance id it is treated as any other member.
			m.Instance = nil
			c.As(clientID)
			m.Ack().OK(6)
		},
	},
	{
		IDs: []string{"6.2-5", "6.2-6", "6.2-8", "6.2-9", "6.2-10", "2.1-3"}, Title: "which member an instance id means",
		Run: func(c *C) {
			c.Need44()
			c.AtOnce()
			c.Topic("foo", 2)
			m1 := c.Static("m1", "i1")
			m1.Join(T1()).OK(2)
			m1.Ack().OK(2)
			if again := m1.Join(T1()); c.KIP() {
				again.OK(2)
			} else {
				again.Is("UNRELEASED_INSTANCE_ID")
			}
			c.Static("m2", "i1").Join(T1()).Is("UNRELEASED_INSTANCE_ID")
			foreign := c.Static("m2", "i1")
			foreign.Send(foreign.Request(2)).Is("FENCED_INSTANCE_ID")
			unknown := c.Static("m1", "i9")
			unknown.Send(unknown.Request(2)).Is("UNKNOWN_MEMBER_ID")
			m1.Send(m1.Request(7)).Is("FENCED_MEMBER_EPOCH")

			// An instance id that nobody has: the member of that id takes it.
			m1.Instance = unknown.Instance
			m1.Join(T1()).OK(2).Has("s1:0-1")
			c.Static("m3", "i1").Join(T1()).OK(3)
			require.Equal(c, []string{"m1", "m3"}, c.Describe().IDs())
		},
	},
	{
		IDs: []string{"6.2-7", "6.4", "6.3-6", "3-4", "11-2"}, Title: "an absent static member is replaced under another id",
		Run: func(c *C) {
			c.Need44()
			c.AtOnce()
			c.Topic("foo", 2)
			m1 := c.Static("m1", "i1")
			m1.Join(T1()).OK(2).Has("s1:0-1")
			m1.LeaveForNow().OK(-2)
			c.Describe().In("Reconciling", 2)
			m1.Send(m1.Request(2)).Is("FENCED_MEMBER_EPOCH")
			m2 := c.Static("m2", "i1")
			m2.Process = m1.Process
			m2.Join(T1()).OK(2).Has("s1:0-1")
			require.Equal(c, []string{"m2"}, c.Describe().In("Stable", 2).IDs())
			m1.Send(m1.Request(2)).Is("FENCED_INSTANCE_ID")
		},
	},
}

// pair is a group of epoch 3 in which m1 has the six tasks of [T1] and has not
// heard yet that m2 has joined.
func pair(c *C) (m1, m2 *Member) {
	c.AtOnce()
	c.Topic("foo", 6)
	m1, m2 = c.Member("m1"), c.Member("m2")
	m1.Join(T1()).OK(2).Has("s1:0-5")
	m2.Join(T1()).OK(3).Has(none)
	return m1, m2
}
