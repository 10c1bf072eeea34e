package conformance

import (
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// refused is a scenario of one request that must be answered with an error and
// must not create a group.
func refused(ids []string, title, code string, send func(c *C) *Answer) Scenario {
	return Scenario{IDs: ids, Title: title, Run: func(c *C) {
		c.Topic("foo", 2)
		send(c).Is(code)
		c.Describe().Is("GROUP_ID_NOT_FOUND")
	}}
}

var validation = []Scenario{
	refused([]string{"V-04", "4-3"}, "a topology that reads a topic of Kafka's own", "STREAMS_INVALID_TOPOLOGY", func(c *C) *Answer {
		return c.Member("m1").Join(Topology(Sub{ID: "s1", Sources: []string{"__consumer_offsets"}, Verbatim: true}))
	}),
	refused([]string{"V-05", "4-4"}, "a changelog whose name is illegal", "STREAMS_INVALID_TOPOLOGY", func(c *C) *Answer {
		return c.Member("m1").Join(Topology(Sub{ID: "s1", Sources: []string{c.Named("foo")}, Changelogs: []Internal{{Word: "a b"}}, Verbatim: true}))
	}),
	{
		IDs: []string{"V-08", "4-7", "D20"}, Title: "a pattern of source topics, and no member id", Deviation: "D20",
		Run: func(c *C) {
			c.Topic("foo", 2)
			t := Topology(Sub{ID: "s1", Patterns: []string{"foo"}})
			c.Member("").Join(t).Is("INVALID_REQUEST")
			c.Describe().Is("GROUP_ID_NOT_FOUND")
			m := c.Member("m1")
			m.Join(t).Is(Either(c, "NONE", "INVALID_REQUEST"))
			if c.KIP() {
				m.Leave()
			}
		},
	},
	refused([]string{"4-8"}, "a member id of blanks", "INVALID_REQUEST", func(c *C) *Answer { return c.Member("  ").Join(T1()) }),
	{
		IDs: []string{"V-10", "4-9"}, Title: "a group id that is empty or of blanks",
		Run: func(c *C) {
			for _, group := range []string{"", "  "} {
				m := c.Member("m1")
				m.Group = group
				m.Join(T1()).Is("INVALID_REQUEST")
			}
		},
	},
	{
		IDs: []string{"V-11", "4-10"}, Title: "an instance id that is empty",
		Run: func(c *C) {
			c.Need44()
			m := c.Static("m1", "")
			m.Join(T1()).Is("INVALID_REQUEST")
			m.Send(m.Request(1)).Is("INVALID_REQUEST")
			m.Leave().Is("INVALID_REQUEST")
			c.Describe().Is("GROUP_ID_NOT_FOUND")
		},
	},
	refused([]string{"4-11"}, "a rack id that is empty", "INVALID_REQUEST", func(c *C) *Answer { return c.Member("m1").Join(T1(), Rack("")) }),
	refused([]string{"V-13", "4-12"}, "a join without a rebalance time-out", "INVALID_REQUEST", func(c *C) *Answer {
		m := c.Member("m1")
		m.RebalanceTimeoutMillis = -1
		return m.Join(T1())
	}),
	{
		IDs: []string{"V-15", "4-13"}, Title: "a join that owns tasks",
		Run: func(c *C) {
			for _, owned := range [][3]string{{"s1:0", none, none}, {none, "s1:0", none}, {none, none, "s1:0"}, {absent, none, none}} {
				c.Member("m1").Join(T1(), OwnedAll(owned[0], owned[1], owned[2])).Is("INVALID_REQUEST")
			}
			c.Describe().Is("GROUP_ID_NOT_FOUND")
		},
	},
	refused([]string{"V-16", "4-14"}, "a join without a topology", "INVALID_REQUEST", func(c *C) *Answer {
		return c.Member("m1").Join(T1(), func(req *kmsg.StreamsGroupHeartbeatRequest) { req.Topology = nil })
	}),
	refused([]string{"V-17", "4-15"}, "a changelog with a number of partitions", "STREAMS_INVALID_TOPOLOGY", func(c *C) *Answer {
		return c.Member("m1").Join(Topology(Sub{ID: "s1", Sources: []string{"foo"}, Changelogs: []Internal{{Word: "log", Partitions: 1}}}))
	}),
	refused([]string{"V-18", "4-16"}, "a temporary leave without an instance id", "INVALID_REQUEST", func(c *C) *Answer { return c.Member("m1").LeaveForNow() }),
	refused([]string{"V-19", "4-17"}, "a member epoch of -3", "INVALID_REQUEST", func(c *C) *Answer {
		m := c.Member("m1")
		return m.Send(m.Request(-3))
	}),
	{
		IDs: []string{"V-20", "4-18"}, Title: "some lists of owned tasks, not all",
		Run: func(c *C) {
			m := c.Member("m1")
			m.Send(m.Request(1), OwnedAll(none, absent, absent)).Is("INVALID_REQUEST")
		},
	},
	{
		IDs: []string{"V-21", "4-19"}, Title: "a topology outside of a join",
		Run: func(c *C) {
			m := c.Member("m1")
			m.Send(m.Request(1), func(req *kmsg.StreamsGroupHeartbeatRequest) { req.Topology = c.wire(T1()) }).Is("INVALID_REQUEST")
		},
	},
	{
		IDs: []string{"V-27", "7-9"}, Title: "offsets and warm-up tasks are accepted",
		Run: func(c *C) {
			c.Need44()
			c.Topic("foo", 2)
			m := c.Member("m1")
			m.Join(T1()).OK(2).Has("s1:0-1")
			m.Beat(OwnedAll("s1:0", none, "s1:1"), func(req *kmsg.StreamsGroupHeartbeatRequest) {
				req.TaskOffsets = []kmsg.TaskOffset{{SubtopologyID: "s1", Partition: 0, Offset: 5}}
				req.TaskEndOffsets = []kmsg.TaskOffset{{SubtopologyID: "s1", Partition: 0, Offset: 9}}
			}).OK(2)
			d := c.Describe().Member("m1")
			require.Equal(c, "s1:0=5", FormatOffsets(d.TaskOffsets))
			require.Equal(c, "s1:0=9", FormatOffsets(d.TaskEndOffsets))
		},
	},
}
