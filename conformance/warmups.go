package conformance

import (
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// warmups are about the assignor that moves state before it moves work, which
// Kafka does not have.
var warmups = []Scenario{
	{
		IDs: []string{"D22", "D36", "25-group.streams.assignors"}, Title: "the assignor highly_available", Deviation: "D22",
		Run: func(c *C) {
			c.Need44()
			c.Topic("foo", 2)
			m := c.Member("m1")
			m.Join(T1()).OK(2)
			err := c.TryConfig("streams.assignor.name", "highly_available")
			if !c.KIP() {
				require.ErrorIs(c, err, kerr.InvalidConfig)
				return
			}
			require.NoError(c, err)
			c.AtOnce()
			m.Ack().OK(2)
			m2 := c.Member("m2")
			m2.Join(T1()).OK(3)
			c.Converge(m, m2)
			c.Even("s1:0-1", m, m2)
		},
	},
	{
		IDs: []string{"D23", "12.3", "7-12", "7-16"}, Title: "a task with state moves when its new owner has caught up", Deviation: "D23", Policy: KIP1071,
		Run: func(c *C) {
			c.AtOnce()
			c.Config("streams.assignor.name", "highly_available", "streams.num.warmup.replicas", "1", "streams.acceptable.recovery.lag", "100")
			c.Topic("foo", 2)
			c.Topic("log", 2)
			t := Topology(Keeps("s1", "foo", "log"))
			m1, m2 := c.Member("m1"), c.Member("m2")
			const end = 100_000
			running := map[string]int64{"s1:0": end, "s1:1": end}

			m1.Join(t)
			m1.Ready()
			m1.Ack(reporting(running, running)).Is("NONE")
			require.Equal(c, canonical("s1:0-1"), m1.Active)

			m2.Join(t, reporting(map[string]int64{"s1:0": 0, "s1:1": 0}, running)).Is("NONE")
			for range 10 {
				m1.Ack().Is("NONE")
				m2.Ack().Is("NONE")
			}
			require.Equal(c, canonical("s1:0-1"), m1.Active, "the owner goes on")
			require.Empty(c, m2.Active)
			warm := m2.Warmup
			require.Equal(c, 1, count(warm), "one warm-up is allowed at a time")

			for range 5 {
				m1.Ack().Is("NONE")
				m2.Ack().Is("NONE")
				require.Empty(c, m2.Active, "it has not caught up")
			}
			m2.Ack(reporting(map[string]int64{warm: end - 50}, running)).Is("NONE")
			c.Converge(m1, m2)
			require.Equal(c, warm, m2.Active)
			require.Empty(c, m2.Warmup)
			c.Even("s1:0-1", m1, m2)
		},
	},
}

// reporting reports task offsets and end offsets.
func reporting(at, ends map[string]int64) Change {
	list := func(of map[string]int64) []kmsg.TaskOffset {
		out := []kmsg.TaskOffset{}
		for task, offset := range of {
			subs, _ := parseTasks(task)
			for sub, partitions := range subs {
				out = append(out, kmsg.TaskOffset{SubtopologyID: sub, Partition: partitions[0], Offset: offset})
			}
		}
		return out
	}
	return func(req *kmsg.StreamsGroupHeartbeatRequest) {
		req.TaskOffsets, req.TaskEndOffsets = list(at), list(ends)
	}
}
