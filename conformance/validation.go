package conformance

import (
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// refusal is a scenario of one request that must be answered with an error and
// must not create a group.
type refusal struct {
	IDs   []string
	Title string
	Code  string
	Send  func(c *C) *Answer
}

func (r refusal) scenario() Scenario {
	return Scenario{IDs: r.IDs, Title: r.Title, Run: func(c *C) {
		c.Topic("foo", 2)
		r.Send(c).Is(r.Code)
		c.Describe().Is("GROUP_ID_NOT_FOUND")
	}}
}

var validation = []Scenario{
	refusal{
		IDs: []string{"V-04", "4-3"}, Title: "a topology that reads a topic of Kafka's own", Code: "STREAMS_INVALID_TOPOLOGY",
		Send: func(c *C) *Answer {
			return c.Member("m1").Join(Topology(Sub{ID: "s1", Sources: []string{"__consumer_offsets"}, Verbatim: true}))
		},
	}.scenario(),
	refusal{
		IDs: []string{"V-05", "4-4"}, Title: "a changelog whose name is illegal", Code: "STREAMS_INVALID_TOPOLOGY",
		Send: func(c *C) *Answer {
			return c.Member("m1").Join(Topology(Sub{ID: "s1", Sources: []string{c.Named("foo")}, Changelogs: []Internal{{Word: "a b"}}, Verbatim: true}))
		},
	}.scenario(),
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
	{
		IDs: []string{"D37"}, Title: "a topic that two subtopologies read", Deviation: "D37",
		Run: func(c *C) {
			c.Topic("foo", 2)
			m := c.Member("m1")
			m.Join(Topology(Reads("s1", "foo"), Reads("s2", "foo"))).Is(Either(c, "STREAMS_INVALID_TOPOLOGY", "NONE"))
			if !c.KIP() {
				m.Leave()
			}
		},
	},
	refusal{
		IDs: []string{"4-8"}, Title: "a member id of blanks", Code: "INVALID_REQUEST",
		Send: func(c *C) *Answer { return c.Member("  ").Join(T1()) },
	}.scenario(),
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
	refusal{
		IDs: []string{"4-11"}, Title: "a rack id that is empty", Code: "INVALID_REQUEST",
		Send: func(c *C) *Answer { return c.Member("m1").Join(T1(), Rack("")) },
	}.scenario(),
	refusal{
		IDs: []string{"V-13", "4-12"}, Title: "a join without a rebalance time-out", Code: "INVALID_REQUEST",
		Send: func(c *C) *Answer {
			m := c.Member("m1")
			m.RebalanceTimeoutMillis = -1
			return m.Join(T1())
		},
	}.scenario(),
	{
		IDs: []string{"V-15", "4-13"}, Title: "a join that owns tasks",
		Run: func(c *C) {
			for _, owned := range [][3]string{{"s1:0", none, none}, {none, "s1:0", none}, {none, none, "s1:0"}, {absent, none, none}} {
				c.Member("m1").Join(T1(), OwnedAll(owned[0], owned[1], owned[2])).Is("INVALID_REQUEST")
			}
			c.Describe().Is("GROUP_ID_NOT_FOUND")
		},
	},
	refusal{
		IDs: []string{"V-16", "4-14"}, Title: "a join without a topology", Code: "INVALID_REQUEST",
		Send: func(c *C) *Answer {
			return c.Member("m1").Join(T1(), func(req *kmsg.StreamsGroupHeartbeatRequest) { req.Topology = nil })
		},
	}.scenario(),
	refusal{
		IDs: []string{"V-17", "4-15"}, Title: "a changelog with a number of partitions", Code: "STREAMS_INVALID_TOPOLOGY",
		Send: func(c *C) *Answer {
			return c.Member("m1").Join(Topology(Sub{ID: "s1", Sources: []string{"foo"}, Changelogs: []Internal{{Word: "log", Partitions: 1}}}))
		},
	}.scenario(),
	refusal{
		IDs: []string{"V-18", "4-16"}, Title: "a temporary leave without an instance id", Code: "INVALID_REQUEST",
		Send: func(c *C) *Answer { return c.Member("m1").LeaveForNow() },
	}.scenario(),
	refusal{
		IDs: []string{"V-19", "4-17"}, Title: "a member epoch of -3", Code: "INVALID_REQUEST",
		Send: func(c *C) *Answer {
			m := c.Member("m1")
			return m.Send(m.Request(-3))
		},
	}.scenario(),
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
