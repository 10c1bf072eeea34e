package conformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Endpoints are the listed endpoints, one after the other in order of host and
// port, as "host:port active=foo:0,1 standby=foo:2", or "null".
func (a *Answer) Endpoints() string {
	if a.PartitionsByUserEndpoint == nil {
		return absent
	}
	lines := []string{}
	for _, e := range a.PartitionsByUserEndpoint {
		active, standby := []string{}, []string{}
		for _, t := range e.ActivePartitions {
			active = append(active, formatTopic(a.c.Short(t.Topic), t.Partitions))
		}
		for _, t := range e.StandbyPartitions {
			standby = append(standby, formatTopic(a.c.Short(t.Topic), t.Partitions))
		}
		slices.Sort(active)
		slices.Sort(standby)
		lines = append(lines, fmt.Sprintf("%s:%d active=%s standby=%s", e.UserEndpoint.Host, e.UserEndpoint.Port, strings.Join(active, " "), strings.Join(standby, " ")))
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

func formatTopic(topic string, partitions []int32) string {
	return formatTasks(map[string][]int32{topic: partitions})
}

// Lists requires the endpoint epoch of the answer and its list of endpoints.
func (a *Answer) Lists(epoch int32, endpoints ...string) *Answer {
	slices.Sort(endpoints)
	require.Equal(a.c, strings.Join(endpoints, "; "), a.Endpoints(), "endpoints")
	require.Equal(a.c, epoch, a.EndpointInformationEpoch, "endpoint epoch")
	return a
}

// ListsNothing requires that the answer has no list of endpoints, and its
// endpoint epoch.
func (a *Answer) ListsNothing(epoch int32) *Answer { return a.Lists(epoch, absent) }

// served is the line for an endpoint whose member holds tasks of the one
// subtopology s1, for topics of these sizes.
func served(endpoint string, m *Member, sizes map[string]int32) string {
	of := func(tasks ...string) string {
		topics := []string{}
		for topic, size := range sizes {
			var ps []int32
			for _, list := range tasks {
				for _, p := range partitionsOf(list, "s1") {
					if p < size {
						ps = append(ps, p)
					}
				}
			}
			if len(ps) > 0 {
				topics = append(topics, formatTopic(topic, ps))
			}
		}
		slices.Sort(topics)
		return strings.Join(topics, " ")
	}
	return endpoint + " active=" + of(m.Active) + " standby=" + of(m.Standby, m.Warmup)
}

// returned is a static member that leaves for a moment and comes back under
// another member id.
func returned(title string, first, second Change, firstLists, secondLists func(*Answer), cleared bool) Scenario {
	return Scenario{IDs: []string{"S-38", "16-1", "16-2", "D17"}, Title: "a static member comes back, " + title, Run: func(c *C) {
		c.Need44()
		c.AtOnce()
		c.Topic("foo", 3)
		seed := c.Member("seed") // a new group always answers with epoch 0
		seed.Join(T1()).OK(2)
		seed.Leave().OK(-1)
		a1, b1 := c.Static("a1", "i1"), c.Static("b1", "i1")
		b1.Process = a1.Process
		firstLists(a1.Join(T1(), first).OK(4))
		a1.LeaveForNow().OK(-2)
		secondLists(b1.Join(T1(), second).OK(4).Has("s1:0-2"))
		require.Equal(c, cleared, c.Describe().Member("b1").UserEndpoint == nil, "the endpoint is cleared")
	}}
}

func nothing(epoch int32) func(*Answer) { return func(a *Answer) { a.ListsNothing(epoch) } }

func lists(epoch int32, endpoints ...string) func(*Answer) {
	return func(a *Answer) { a.Lists(epoch, endpoints...) }
}

func unchanged(*kmsg.StreamsGroupHeartbeatRequest) {}

var endpoints = []Scenario{
	{
		IDs: []string{"P-01", "P-02", "P-04", "16-2", "16-3", "14-8", "Q5"}, Title: "the first member has an endpoint",
		Run: func(c *C) {
			c.Topic("foo", 2)
			const line = "localhost:9092 active=foo:0,1 standby="
			m := c.Member("m1")
			m.Join(T1(), Endpoint("localhost", 9092)).OK(2).Lists(0, line)
			m.Beat().OK(2).ListsNothing(0)
			m.Beat(func(req *kmsg.StreamsGroupHeartbeatRequest) { req.EndpointInformationEpoch = 7 }).OK(2).Lists(0, line)
			m.Beat(NoEndpointEpoch).OK(2).Lists(0, line)
		},
	},
	{
		IDs: []string{"P-03", "16-1", "16-4"}, Title: "a second member with an endpoint",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 4)
			sizes := map[string]int32{"foo": 4}
			m1, m2 := c.Member("m1"), c.Member("m2")
			m1.Join(T1(), Endpoint("host1", 9092)).OK(2).Lists(0, "host1:9092 active=foo:0,1,2,3 standby=")
			m2.Join(T1(), Endpoint("host2", 9093)).OK(3).Lists(1, "host1:9092 active=foo:0,1,2,3 standby=", "host2:9093 active= standby=")
			a := m1.Beat().OK(2) // its tasks changed
			a.Lists(2, served("host1:9092", m1, sizes), "host2:9093 active= standby=")
			m1.Ack().OK(3).ListsNothing(2)
			m2.Ack().OK(3).Lists(3, served("host1:9092", m1, sizes), served("host2:9093", m2, sizes))
			m1.Ack().OK(3).Lists(3, served("host1:9092", m1, sizes), served("host2:9093", m2, sizes))
			require.Equal(c, "s1:0,1,2,3", union(m1.Active, m2.Active))
		},
	},
	{
		IDs: []string{"P-05", "16-1"}, Title: "members without an endpoint do not raise the endpoint epoch",
		Run: func(c *C) {
			m1, m2 := c.pair(4)
			m1.Beat().OK(3).ListsNothing(0)
			m2.Beat(NoEndpointEpoch).OK(3).Lists(0, "")
		},
	},
	{
		IDs: []string{"P-06", "16-1", "Q8"}, Title: "an endpoint moves",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 1)
			m := c.Member("m1")
			m.Join(T1(), Endpoint("h", 1)).OK(2)
			m.Beat(Endpoint("h", 2)).OK(3).Lists(1, "h:2 active=foo:0 standby=")
			m.Beat(Endpoint("g", 2)).OK(4).Lists(2, "g:2 active=foo:0 standby=")
			m.Beat(Endpoint("g", 2)).OK(4).ListsNothing(2)
			m.Beat().OK(4).ListsNothing(2)
		},
	},
	{
		IDs: []string{"D17", "16-1", "7-3"}, Title: "a join without an endpoint clears it, a heartbeat without one does not",
		Run: func(c *C) {
			c.Need44()
			c.AtOnce()
			c.Topic("foo", 1)
			m := c.Member("m1")
			m.Join(T1(), Endpoint("h", 1)).OK(2)
			m.Beat().OK(2)
			e := c.Describe().Member("m1").UserEndpoint
			require.NotNil(c, e)
			require.Equal(c, "h", e.Host)
			require.Equal(c, uint16(1), e.Port)
			m.Join(T1()).OK(3).Lists(1, "")
			require.Nil(c, c.Describe().Member("m1").UserEndpoint)
		},
	},
	{
		IDs: []string{"P-07", "D32", "16-1"}, Title: "a member with an endpoint leaves", Deviation: "D32",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 1)
			m1, m2 := c.Member("m1"), c.Member("m2")
			m1.Join(T1(), Endpoint("h", 1)).OK(2)
			m2.Join(T1(), Endpoint("h", 2)).OK(3)
			m1.Beat().OK(3).Lists(1, "h:1 active=foo:0 standby=", "h:2 active= standby=")
			m2.Leave().OK(-1)
			a := m1.Beat().OK(4).NoLists()
			if c.KIP() {
				a.Lists(2, "h:1 active=foo:0 standby=")
			} else {
				a.ListsNothing(1)
			}
		},
	},
	{
		IDs: []string{"P-08", "16-5"}, Title: "topics of different size",
		Run: func(c *C) {
			c.Need44()
			c.Topic("a", 5)
			c.Topic("b", 2)
			c.Member("m1").Join(Topology(Reads("s1", "a", "b")), Endpoint("h", 1)).OK(2).Has("s1:0-4").
				Lists(0, "h:1 active=a:0,1,2,3,4 b:0,1 standby=")
		},
	},
	{
		IDs: []string{"P-08", "16-4", "16-5"}, Title: "standby partitions of topics of different size",
		Run: func(c *C) {
			c.Need44()
			c.AtOnce()
			c.Config("streams.num.standby.replicas", "1")
			c.Topic("a", 5)
			c.Topic("b", 2)
			c.Topic("log", 5)
			sizes := map[string]int32{"a": 5, "b": 2}
			t := Topology(Sub{ID: "s1", Sources: []string{"a", "b"}, Changelogs: []Internal{{Word: "log"}}})
			m1, m2 := c.Member("m1"), c.Member("m2")
			m1.Join(t, Endpoint("h", 1)).OK(2)
			m2.Join(t, Endpoint("h", 2)).OK(3)
			c.Converge(m1, m2)
			require.Equal(c, 5, countTasks(m1.Standby, m2.Standby), "standbys")
			for _, m := range []*Member{m1, m2} {
				require.Equal(c, served("h:1", m1, sizes)+"; "+served("h:2", m2, sizes), m.Beat(NoEndpointEpoch).OK(3).Endpoints())
			}
		},
	},
	{
		IDs: []string{"P-10", "16-5"}, Title: "partitions of repartition topics",
		Run: func(c *C) {
			c.Topic("foo", 2)
			c.Topic("r", 3)
			c.Member("m1").Join(Topology(
				Sub{ID: "s1", Sources: []string{"foo"}, Sinks: []string{"r"}},
				Sub{ID: "s2", Repartitions: []Internal{{Word: "r", Partitions: 3}}},
			), Endpoint("h", 1)).OK(2).Has("s1:0-1 s2:0-2").Lists(0, "h:1 active=foo:0,1 r:0,1,2 standby=")
		},
	},
	{
		IDs: []string{"P-11", "16-4", "6.4"}, Title: "the endpoint of a replaced static member is not listed",
		Run: func(c *C) {
			c.Need44()
			c.AtOnce()
			c.Topic("foo", 3)
			a1, b1 := c.Static("a1", "i1"), c.Static("b1", "i1")
			b1.Process = a1.Process
			a1.Join(T1(), Endpoint("h", 1)).OK(2)
			a1.LeaveForNow().OK(-2)
			b1.Join(T1(), Endpoint("h", 2), NoEndpointEpoch).OK(2).Lists(1, "h:2 active=foo:0,1,2 standby=")
		},
	},
	{
		IDs: []string{"16-4"}, Title: "equal endpoints are not merged",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 2)
			m1, m2 := c.Member("m1"), c.Member("m2")
			m1.Join(T1(), Endpoint("h", 1)).OK(2)
			m2.Join(T1(), Endpoint("h", 1)).OK(3)
			require.Len(c, m1.Beat(NoEndpointEpoch).Is("NONE").PartitionsByUserEndpoint, 2)
		},
	},
	returned("now with an endpoint", unchanged, Endpoint("bar.com", 8080), nothing(0), lists(1, "bar.com:8080 active=foo:0,1,2 standby="), false),
	returned("never with an endpoint", unchanged, unchanged, nothing(0), nothing(0), true),
	returned("now without its endpoint", Endpoint("foo.com", 8080), unchanged, lists(1, "foo.com:8080 active=foo:0,1,2 standby="), lists(2, ""), true),
	returned("with the same endpoint", Endpoint("foo.com", 8080), Endpoint("foo.com", 8080), lists(1, "foo.com:8080 active=foo:0,1,2 standby="), lists(1, "foo.com:8080 active=foo:0,1,2 standby="), false),
	returned("with another endpoint", Endpoint("foo.com", 8080), Endpoint("bar.com", 8080), lists(1, "foo.com:8080 active=foo:0,1,2 standby="), lists(2, "bar.com:8080 active=foo:0,1,2 standby="), false),
}
