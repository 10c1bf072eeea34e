package conformance

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// broken is an internal topic that no broker can create.
func broken(word string) Internal { return Internal{Word: word, Replicas: 99} }

// Creation of internal topics.
var creation = []Scenario{
	{
		IDs: []string{"9-9", "9.3-1", "9.3-2", "D24", "D26"}, Title: "internal topics are created as the topology says",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 3)
			c.Expect("log1", "log2", "r")
			s1 := Sub{ID: "s1", Sources: []string{"foo"}, Sinks: []string{"r"}, Changelogs: []Internal{
				{Word: "log1", Replicas: 1, Configs: [][2]string{{"cleanup.policy", "compact"}, {"segment.bytes", "2000000"}}},
				{Word: "log2", Configs: [][2]string{{"retention.ms", "123456"}}},
			}}
			s2 := Sub{ID: "s2", Repartitions: []Internal{{Word: "r", Partitions: 5, Configs: [][2]string{{"cleanup.policy", "delete"}}}}}
			m := c.Member("m1")
			m.Join(Topology(s1, s2)).OK(2).Says("3")
			c.Created("log1", 3)
			c.Created("log2", 3)
			c.Created("r", 5)
			shown := c.TopicConfigs("log1")
			require.Equal(c, "compact", shown["cleanup.policy"])
			require.Equal(c, "2000000", shown["segment.bytes"])
			require.Equal(c, "123456", c.TopicConfigs("log2")["retention.ms"])
			require.Equal(c, "delete", c.TopicConfigs("r")["cleanup.policy"])
			m.Ready().OK(3).Has("s1:0-2 s2:0-4")
			m.Ack().OK(3).Says("-")
		},
	},
	{
		IDs: []string{"9.3-3", "9.3-4", "D24"}, Title: "a failed creation is told in the next answers",
		Run: func(c *C) {
			c.Topic("foo", 3)
			m := c.Member("m1")
			short := m.Join(Topology(Sub{ID: "s1", Sources: []string{"foo"}, Changelogs: []Internal{broken("log")}})).OK(2).Says("3").Detail(3)
			require.NotContains(c, strings.ToLower(short), "replication")
			detail := m.failed(c)
			require.Contains(c, detail, "log")
			// It is not done again within two heartbeat intervals, 10 s.
			require.Equal(c, detail, m.Beat().OK(2).Says("3").Detail(3))
		},
	},
	{
		IDs: []string{"9.3-4", "D31"}, Title: "five failed creations", Deviation: "D31",
		Run: func(c *C) {
			c.Topic("foo", 3)
			m := c.Member("m1")
			words := []string{"log-a", "log-b", "log-c", "log-d", "log-e"}
			s := Reads("s1", "foo")
			for _, word := range words {
				s.Changelogs = append(s.Changelogs, broken(word))
			}
			named := func(detail string) int {
				n := 0
				for _, word := range words {
					if strings.Contains(detail, word) {
						n++
					}
				}
				return n
			}
			require.Equal(c, Either(c, 5, 3), named(m.Join(Topology(s)).OK(2).Says("3").Detail(3)))
			detail := m.failed(c)
			c.note("%s", detail)
			require.Contains(c, detail, "2 more")
		},
	},
	{
		IDs: []string{"9.3-3", "9.3-2", "I-13", "D24"}, Title: "after two heartbeat intervals the creation is tried again",
		Run: func(c *C) {
			// A group that asks for the topic with settings that cannot be had,
			// and one with settings that can.
			const interval = 2 * time.Second
			c.AtOnce()
			c.Config("streams.heartbeat.interval.ms", "2000")
			c.Topic("foo", 3)
			c.Topic("bar", 3)
			c.Expect("log")
			bad, good := c.Member("m1"), c.Member("m1")
			good.Group = c.Named("good")
			bad.Join(Topology(Sub{ID: "s1", Sources: []string{"foo"}, Changelogs: []Internal{broken("log")}})).OK(2).Says("3")
			bad.failed(c)
			began := c.target.Clock.Now()
			detail := strings.ToLower(good.Join(Topology(Keeps("s1", "bar", "log"))).OK(2).Says("3").Detail(3))
			if c.target.Clock.Now().Sub(began) < interval {
				require.Contains(c, detail, "replication")
			}
			c.await("another attempt", func() bool {
				good.Ack().Is("NONE")
				return c.partitions("log") == 3
			})
			require.Greater(c, c.target.Clock.Now().Sub(began), interval/2, "pause before another attempt")
			good.Ready()
			good.Leave()
		},
	},
}

// failed heartbeats until the answer tells that internal topics could not be
// created, and returns the detail.
func (m *Member) failed(c *C) string {
	detail := ""
	c.await("a failed creation", func() bool {
		detail = m.Beat().Is("NONE").Says("3").Detail(3)
		return strings.Contains(strings.ToLower(detail), "replication")
	})
	c.note("detail: %s", detail)
	return detail
}
