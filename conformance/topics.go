package conformance

import (
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Topologies, and how they fit the topics that there are.
var topics = []Scenario{
	{
		IDs:   []string{"T-01", "T-02", "9-1", "9.2-1", "9.2-2", "3-2", "7-7", "7-10", "14.1-1"},
		Title: "a missing source topic, which then appears",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 6)
			m := c.Member("m1")
			require.Contains(c, m.Join(T2()).OK(2).Has(none).Says("1").Detail(1), "bar")
			d := c.Describe().In("NotReady", 2)
			require.Equal(c, int32(2), d.AssignmentEpoch)
			m.Beat().OK(2).NoLists().Says("1")
			c.Topic("bar", 3)
			m.Beat().OK(3).Has("s1:0-5 s2:0-2").Says("-")
			c.Describe().In("Stable", 3)
		},
	},
	{
		IDs:   []string{"T-03", "T-20", "9-4", "9-5", "9-7", "9-9", "14.1-3", "9.2-1", "9.2-2"},
		Title: "a missing changelog topic, which the broker creates",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 6)
			c.Expect("log")
			m := c.Member("m1")
			require.Contains(c, m.Join(Topology(Keeps("s1", "foo", "log"))).OK(2).Has(none).Says("3").Detail(3), "log")
			require.Equal(c, int32(2), c.Describe().In("NotReady", 2).AssignmentEpoch)
			c.Created("log", 6)
			m.Ready().OK(3).Has("s1:0-5").Says("-")
			c.Describe().In("Stable", 3)
		},
	},
	{
		IDs:   []string{"T-04", "9-3", "9.1-2", "14.1-2", "D7", "7-7"},
		Title: "copartitioned source topics with different numbers of partitions",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 6)
			c.Topic("bar", 3)
			s := Reads("s1", "foo", "bar")
			s.Copartition = append(s.Copartition, Copartitioned([]int16{0, 1}, nil))
			m := c.Member("m1")
			detail := m.Join(Topology(s)).OK(2).Has(none).Says("2").Detail(2)
			require.Contains(c, detail, "6")
			require.Contains(c, detail, "3")
			c.Describe().In("NotReady", 2)
			c.Grow("bar", 6)
			m.Beat().OK(3).Has("s1:0-5").Says("-")
		},
	},
	{
		IDs:   []string{"T-06", "10.1-3", "10.3", "7-5", "14.1-0", "14.1-7", "D1", "D5", "21.1-3", "21.1-6"},
		Title: "a join with a lower topology epoch", Deviation: "D1",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 6)
			m1, m2 := c.Member("m1"), c.Member("m2")
			m1.Join(T1().At(1)).OK(2).Has("s1:0-5").Says("-")
			// The content does not matter: no topic other is missed.
			stale := Topology(Reads("s9", "other"))
			if c.KIP() {
				m2.Join(stale).Is("STREAMS_TOPOLOGY_FENCED")
				require.Equal(c, []string{"m1"}, c.Describe().In("Stable", 2).IDs())
				return
			}
			m2.Join(stale).OK(3).Has(none).Says("0")
			c.Converge(m1, m2)
			c.Even("s1:0-5", m1, m2)
			d := c.Describe()
			require.Equal(c, int32(1), d.Topology.Epoch)
			require.Equal(c, int32(0), d.Member("m2").TopologyEpoch)
			m2.Beat().OK(3).Says("0")
			m1.Beat().OK(3).Says("-")
		},
	},
	{
		IDs:   []string{"T-08", "10.1-4", "10.1-5", "10.1-7", "D2", "21.1-1", "21.1-2", "21.1-6"},
		Title: "another topology of the same epoch", Deviation: "D2",
		Run: func(c *C) {
			c.Topic("foo", 2)
			c.Topic("bar", 2)
			changelog := func(change func(*Internal)) Sub {
				s := Keeps("s1", "foo", "log")
				s.Sources = append(s.Sources, "bar")
				s.Changelogs[0].Replicas = 1
				s.Changelogs[0].Configs = [][2]string{{"cleanup.policy", "compact"}}
				change(&s.Changelogs[0])
				return s
			}
			same := changelog(func(*Internal) {})
			swapped := changelog(func(*Internal) {})
			swapped.Sources = []string{"bar", "foo"}
			c.Expect("log")
			c.Member("m1").Join(Topology(same)).OK(2)
			for _, other := range []Topo{
				Topology(Reads("s1", "foo", "bar")),
				Topology(Reads("s2", "foo", "bar")),
				Topology(same, Reads("s2", "foo")),
				Topology(),
				Topology(swapped),
				Topology(changelog(func(i *Internal) { i.Word = "other" })),
				Topology(changelog(func(i *Internal) { i.Replicas = 2 })),
				Topology(changelog(func(i *Internal) { i.Configs = nil })),
				Topology(changelog(func(i *Internal) { i.Configs = [][2]string{{"cleanup.policy", "delete"}} })),
			} {
				c.Member("m2").Join(other).Is(Either(c, "STREAMS_INVALID_TOPOLOGY_EPOCH", "INVALID_REQUEST"))
			}
			require.Equal(c, []string{"m1"}, c.Describe().IDs())
			c.Member("m2").Join(Topology(same)).Is("NONE")
		},
	},
	{
		IDs:   []string{"T-12", "10.1-4", "10.1-7", "21.1-1"},
		Title: "the order of subtopologies does not matter",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 2)
			c.Topic("bar", 2)
			c.Member("m1").Join(T2()).OK(2)
			c.Member("m2").Join(Topology(Reads("s2", "bar"), Reads("s1", "foo"))).OK(3)
		},
	},
	{
		IDs:   []string{"T-09", "10.1-6", "D3", "D4", "21.1-4", "21.1-5"},
		Title: "a join with a higher topology epoch", Deviation: "D3",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 2)
			c.Topic("bar", 2)
			c.Member("m1").Join(T1()).OK(2)
			c.Member("m2").Join(T1().At(5)).Is(Either(c, "STREAMS_INVALID_TOPOLOGY_EPOCH", "INVALID_REQUEST"))
			c.Member("m2").Join(T1().At(2)).Is(Either(c, "STREAMS_INVALID_TOPOLOGY_EPOCH", "INVALID_REQUEST"))
			c.Member("m2").Join(T1().At(1)).Is(Either(c, "NONE", "INVALID_REQUEST"))
			c.Member("m3").Join(T2().At(Either[int32](c, 2, 1))).Is(Either(c, "NONE", "INVALID_REQUEST"))
			require.Len(c, c.Describe().Members, Either(c, 3, 1))
			require.Equal(c, Either[int32](c, 2, 0), c.Describe().Topology.Epoch)
		},
	},
	{
		IDs:   []string{"T-10", "10.2", "5-11", "3-1"},
		Title: "the topology outlives the members", Deviation: "D3",
		Run: func(c *C) {
			c.Topic("foo", 2)
			m := c.Member("m1")
			m.Join(T1().At(3)).OK(2)
			m.Leave().OK(-1)
			d := c.Describe().In("Empty", 3)
			require.Equal(c, int32(3), d.Topology.Epoch)
			m2 := c.Member("m2")
			m2.Join(T1().At(5)).Is(Either(c, "STREAMS_INVALID_TOPOLOGY_EPOCH", "INVALID_REQUEST"))
			m2.Join(T1().At(4)).Is(Either(c, "NONE", "INVALID_REQUEST"))
			if c.KIP() {
				m2.Leave().OK(-1)
			}
			c.DeleteGroup()
			m2.Join(T1().At(5)).OK(2).Says("-")
		},
	},
	{
		IDs: []string{"T-11", "9-10", "D33", "3-5"}, Title: "a topology without subtopologies",
		Run: func(c *C) {
			c.Member("m1").Join(Topology()).OK(2).Has(none).Says("-")
			c.Describe().In("Stable", 2)
		},
	},
	{
		IDs: []string{"T-14", "9-2", "9-5", "9-9"}, Title: "repartition topics without a count take that of what is written to them",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("source1", 3)
			c.Expect("r1", "r2", "rx")
			m := c.Member("m1")
			s0 := Reads("s0", "source1")
			s0.Repartitions = []Internal{{Word: "r2", Partitions: 2}}
			s0.Sinks = []string{"r1", "rx"}
			s1 := Sub{ID: "s1", Repartitions: []Internal{{Word: "r1", Partitions: 4}, {Word: "rx"}}}
			m.Join(Topology(s0, s1)).OK(2).Says("3")
			c.Created("r1", 4)
			c.Created("r2", 2)
			c.Created("rx", 3)
			m.Ready().OK(3).Has("s0:0-2 s1:0-3")
		},
	},
	{
		IDs: []string{"T-15", "9-2"}, Title: "the count of a repartition topic reaches the next one",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("source1", 3)
			c.Expect("r1", "rx")
			m := c.Member("m1")
			s0 := Reads("s0", "source1")
			s0.Repartitions = []Internal{{Word: "r1", Partitions: 4}}
			s0.Sinks = []string{"rx"}
			s1 := Sub{ID: "s1", Repartitions: []Internal{{Word: "rx"}}, Sinks: []string{"r1"}}
			m.Join(Topology(s0, s1)).OK(2).Says("3")
			c.Created("rx", 4)
			c.Created("r1", 4)
			m.Ready().OK(3).Has("s0:0-3 s1:0-3")
		},
	},
	{
		IDs: []string{"T-16", "9-2", "9-4", "9-8", "21.1-6"}, Title: "topologies whose partitions cannot be counted",
		Run: func(c *C) {
			c.Topic("foo", 2)
			ra, rb := []Internal{{Word: "ra"}}, []Internal{{Word: "rb"}}
			for _, t := range []Topo{
				// In circles.
				Topology(Sub{ID: "s0", Repartitions: ra, Sinks: []string{"rb"}}, Sub{ID: "s1", Repartitions: rb, Sinks: []string{"ra"}}),
				// Nobody writes it.
				Topology(Reads("s0", "foo"), Sub{ID: "s1", Repartitions: ra}),
				// No source.
				Topology(Sub{ID: "s0", Changelogs: []Internal{{Word: "log"}}}),
			} {
				c.Member("m1").Join(t).Is("STREAMS_INVALID_TOPOLOGY")
				c.Describe().Is("GROUP_ID_NOT_FOUND")
			}
			require.Zero(c, c.partitions("log"))
		},
	},
	{
		IDs: []string{"T-20", "9-4", "9-5"}, Title: "a changelog has as many partitions as there are tasks",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 6)
			c.Topic("bar", 2)
			c.Expect("log", "r")
			m := c.Member("m1")
			s1 := Keeps("s1", "foo", "log")
			s1.Repartitions = []Internal{{Word: "r", Partitions: 4}}
			s1.Sinks = []string{"r"}
			m.Join(Topology(s1, Reads("s2", "bar"))).OK(2).Says("3")
			c.Created("r", 4)
			c.Created("log", 6)
			m.Ready().OK(3).Has("s1:0-5 s2:0-1")
		},
	},
	{
		IDs: []string{"T-21", "9-1", "D31"}, Title: "five missing source topics", Deviation: "D31",
		Run: func(c *C) {
			m := c.Member("m1")
			detail := m.Join(Topology(Reads("s1", "e", "c", "a"), Reads("s2", "d", "b"))).OK(2).Says("1").Detail(1)
			named := "a, b, c"
			if c.KIP() {
				named = "a, b, c, d, e"
			}
			require.Contains(c, detail, named)
			if !c.KIP() {
				require.Contains(c, detail, "2")
				require.NotContains(c, detail, "c, d")
			}
		},
	},
	{
		IDs: []string{"T-22", "8-4", "8-6", "J-25", "7-6"}, Title: "whom a change of a topic concerns",
		Run: func(c *C) {
			c.Topic("foo", 2)
			c.Topic("bar", 2)
			c.Topic("baz", 2)
			written := Reads("s1", "bar")
			written.Sinks = []string{"foo"}
			groups := map[string]Topo{
				"source":      Topology(Reads("s1", "foo")),
				"repartition": Topology(written, Sub{ID: "s2", Repartitions: []Internal{{Word: "foo", Partitions: 2}}}),
				"changelog":   Topology(Keeps("s1", "bar", "foo")),
				"other":       Topology(Reads("s1", "baz")),
			}
			members := map[string]*Member{}
			for name, t := range groups {
				m := c.Member("m1")
				m.Group = c.Named(name)
				m.Join(t).OK(2).Says("-")
				m.Ack().OK(2).Says("-")
				members[name] = m
				c.onEnd(func() { m.Leave() })
			}
			shows := func(name string, epoch int32, code string) {
				a := members[name].Ack().Is("NONE")
				require.Equal(c, epoch, c.DescribeGroup(members[name].Group).Epoch, "epoch of group %s", name)
				if code != "" {
					require.Contains(c, a.Statuses(), code, "statuses of group %s", name)
				}
			}
			c.Grow("foo", 3)
			shows("source", 3, "")
			shows("repartition", 3, "2")
			shows("changelog", 3, "2")
			shows("other", 2, "-")
			c.DeleteTopic("foo")
			shows("source", 4, "1")
			shows("other", 2, "-")
		},
	},
	{
		IDs: []string{"J-25", "J-27", "7-6", "8-4", "R-22", "12.2-10", "12.2-14"}, Title: "a source topic grows",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 6)
			c.Topic("bar", 3)
			m := c.Member("m1")
			m.Join(T2()).OK(2).Has("s1:0-5 s2:0-2")
			m.Ack().OK(2)
			c.Grow("bar", 6)
			m.Ack().OK(3).Has("s1:0-5 s2:0-5").Says("-")
			for range 2 {
				m.Ack().OK(3).NoLists().Says("-")
			}
			c.Describe().In("Stable", 3)
		},
	},
	{
		IDs: []string{"T-23", "R-24", "9.2-1", "12.1-2", "12.1-3", "12.2-9", "3-4"}, Title: "a source topic of a running group is deleted",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 6)
			c.Topic("bar", 3)
			m := c.Member("m1")
			m.Join(T2()).OK(2).Has("s1:0-5 s2:0-2")
			m.Ack().OK(2)
			c.DeleteTopic("bar")
			require.Contains(c, m.Beat().OK(2).Has(none).Says("1").Detail(1), "bar")
			c.Describe().In("NotReady", 3)
			m.Beat(Owned("s1:0-5 s2:0-2")).OK(2).NoLists().Says("1")
			m.Ack().OK(3).NoLists().Says("1")
			c.Describe().In("NotReady", 3)
			c.Topic("bar", 1)
			m.Ack().OK(4).Has("s1:0-5 s2:0").Says("-")
		},
	},
	{
		IDs: []string{"9-6", "14.1-2", "D34", "D7"}, Title: "an internal topic with another number of partitions",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 3)
			c.Topic("bar", 3)
			c.Topic("log", 2)
			m := c.Member("m1")
			require.Contains(c, m.Join(Topology(Keeps("s1", "foo", "log"), Keeps("s2", "bar", "log2"))).OK(2).Has(none).Says("2").Detail(2), "log")
			c.Describe().In("NotReady", 2)
			m.Ack().OK(2).Says("2")
			require.Zero(c, c.partitions("log2"), "internal topics are created in spite of one with a wrong count")
			c.Expect("log2")
			c.Grow("log", 3)
			m.Ack().Says("3")
			c.Created("log2", 3)
			m.Ready().Has("s1:0-2 s2:0-2")
		},
	},
	{
		IDs: []string{"9-11"}, Title: "a source topic that is a repartition topic as well must exist",
		Run: func(c *C) {
			c.Topic("foo", 3)
			s0 := Reads("s0", "foo")
			s0.Sinks = []string{"r"}
			s1 := Reads("s1", "r")
			s1.Repartitions = []Internal{{Word: "r", Partitions: 2}}
			require.Contains(c, c.Member("m1").Join(Topology(s0, s1)).OK(2).Says("1").Detail(1), "r")
			c.Member("m1").Beat()
			require.Zero(c, c.partitions("r"))
		},
	},
	{
		IDs: []string{"9.1-1", "T-19"}, Title: "an empty copartition group",
		Run: func(c *C) {
			c.Topic("foo", 6)
			c.Topic("bar", 3)
			s := Reads("s1", "foo", "bar")
			s.Copartition = append(s.Copartition, Copartitioned(nil, nil))
			c.Member("m1").Join(Topology(s)).OK(2).Has("s1:0-5").Says("-")
		},
	},
	copartition{IDs: []string{"T-19", "9.1-2"}, Title: "T-19 a: source topics of 2 and 1", Sources: []int32{2, 1}}.scenario(),
	copartition{IDs: []string{"T-19", "9.1-2", "9.1-5"}, Title: "T-19 b: an open repartition topic follows the source topics", Sources: []int32{2, 2}, Open: []int32{10}, Want: "o0=2"}.scenario(),
	copartition{IDs: []string{"T-19", "9.1-4", "9.1-5"}, Title: "T-19 c: open repartition topics follow the largest", Open: []int32{1, 15, 5}, Want: "o0=15 o1=15 o2=15"}.scenario(),
	copartition{IDs: []string{"T-19", "9.1-3"}, Title: "T-19 d: fixed repartition topics of 10 and 5", Fixed: []int32{10, 5}}.scenario(),
	copartition{IDs: []string{"T-19", "9.1-3"}, Title: "T-19 e: fixed repartition topics of 10 and 10", Fixed: []int32{10, 10}, Want: "f0=10 f1=10"}.scenario(),
	copartition{IDs: []string{"T-19", "9.1-5"}, Title: "T-19 f: a fixed repartition topic of 10 and a source topic of 2", Fixed: []int32{10}, Sources: []int32{2}}.scenario(),
	copartition{IDs: []string{"T-19", "9.1-5"}, Title: "T-19 g: a fixed repartition topic of 2 and a source topic of 2", Fixed: []int32{2}, Sources: []int32{2}, Want: "f0=2"}.scenario(),
	copartition{IDs: []string{"T-19", "9.1-3", "9.1-5"}, Title: "T-19 h: an open repartition topic follows the fixed ones", Fixed: []int32{2, 2}, Open: []int32{5}, Want: "f0=2 f1=2 o0=2"}.scenario(),
	{
		IDs: []string{"Q4", "9.1-3"}, Title: "a fixed repartition topic outside of the copartition group", Deviation: "Q4",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 3)
			c.Expect("fixed", "open")
			s0 := Reads("s0", "foo")
			s0.Sinks = []string{"fixed", "open"}
			s1 := Sub{ID: "s1", Repartitions: []Internal{{Word: "open"}}}
			s1.Copartition = append(s1.Copartition, Copartitioned(nil, []int16{0}))
			s2 := Sub{ID: "s2", Repartitions: []Internal{{Word: "fixed", Partitions: 5}}}
			m := c.Member("m1")
			m.Join(Topology(s0, s1, s2)).OK(2).Says("3")
			c.Created("fixed", 5)
			c.Created("open", Either(c, 3, 5))
		},
	},
	{
		IDs: []string{"Q1", "21.1-6"}, Title: "topologies that contradict themselves", Deviation: "Q1",
		Run: func(c *C) {
			c.Topic("foo", 2)
			m := c.Member("m1")
			m.Join(T1().At(-1)).mended("INVALID_REQUEST")
			m.Join(Topology(Reads("s1", "foo"), Reads("s1", "foo"))).mended("STREAMS_INVALID_TOPOLOGY")
			written := Reads("s1", "foo")
			written.Sinks = []string{"r"}
			m.Join(Topology(written, Sub{ID: "s2", Repartitions: []Internal{{Word: "r", Partitions: -1}}})).mended("STREAMS_INVALID_TOPOLOGY")
			c.Describe().Is("GROUP_ID_NOT_FOUND")
		},
	},
	{
		IDs: []string{"Q2", "21.1-6"}, Title: "a copartition group of a topic that is not listed", Deviation: "Q2",
		Run: func(c *C) {
			c.Topic("foo", 2)
			for _, g := range []kmsg.StreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup{
				Copartitioned([]int16{1}, nil), Copartitioned([]int16{-1}, nil), Copartitioned(nil, []int16{0}),
			} {
				s := Reads("s1", "foo")
				s.Copartition = append(s.Copartition, g)
				c.Member("m1").Join(Topology(s)).mended("STREAMS_INVALID_TOPOLOGY")
			}
			c.Describe().Is("GROUP_ID_NOT_FOUND")
		},
	},
}

// Ready heartbeats until the answer has no status, for brokers learn of new
// topics with a delay.
func (m *Member) Ready() *Answer {
	var a *Answer
	m.c.await("an answer without a status", func() bool {
		a = m.Ack().Is("NONE")
		return len(a.Status) == 0
	})
	return a
}

// mended requires an error that tells what is wrong, or what Kafka answers by
// mistake.
func (a *Answer) mended(code string) {
	require.Contains(a.c, []string{code, "UNKNOWN_SERVER_ERROR"}, CodeName(a.ErrorCode), "error code of %s", a)
}
