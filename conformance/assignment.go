package conformance

import (
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

// assigned heartbeats until the answer does not say that the assignment is
// delayed.
func (m *Member) assigned() *Answer {
	var a *Answer
	m.c.await("an assignment of "+m.ID, func() bool {
		a = m.Ack().Is("NONE")
		return !a.hasStatus(5)
	})
	return a
}

// delayed sets the initial rebalance delay of the group. Scenarios that expect
// something to happen within the delay need one that outlasts a busy machine.
func (c *C) delayed(millis string) {
	c.AtOnce()
	c.Config("streams.initial.rebalance.delay.ms", millis)
}

// When targets are computed.
var assignment = []Scenario{
	{
		IDs: []string{
			"D-01", "D-02", "D30", "3-3", "7-14", "11-1", "11.1-4", "13-3", "14.1-5",
			"25-group.streams.initial.rebalance.delay.ms",
		},
		Title: "the first join waits for more members",
		Run: func(c *C) {
			c.delayed("3000")
			c.Topic("foo", 2)
			m := c.Member("m1")
			a := m.Join(T1()).OK(1).Has(none).Says("5")
			require.Zero(c, a.EndpointInformationEpoch)
			require.Equal(c, int32(1), c.Describe().In("Assigning", 2).AssignmentEpoch)
			c.Sleep(500 * time.Millisecond)
			m.Beat().OK(1).NoLists().Says("5")
			// The delay ends without a heartbeat.
			d := c.AwaitState("Reconciling")
			require.Equal(c, int32(2), d.AssignmentEpoch)
			require.Equal(c, "s1:0,1", d.Goal("m1").Active)
			m.Ack().OK(2).Has("s1:0-1").Says("-")
			c.Describe().In("Stable", 2)
		},
	},
	{
		IDs: []string{"D-03", "11-1", "11.1-4"}, Title: "joins are collected, and nothing has to be revoked",
		Run: func(c *C) {
			c.delayed("4000")
			c.Topic("foo", 6)
			members := []*Member{c.Member("m1"), c.Member("m2"), c.Member("m3")}
			for i, m := range members {
				m.Join(T1()).OK(1).Has(none).Says("5")
				c.Describe().In("Assigning", int32(i)+2)
				c.Sleep(300 * time.Millisecond)
			}
			c.AwaitState("Reconciling")
			for _, m := range members {
				m.Ack().OK(4).Says("-")
				require.Equal(c, 2, count(m.Active))
			}
			c.Even("s1:0-5", members...)
			c.Describe().In("Stable", 4)
		},
	},
	{
		IDs: []string{"D-04", "7-14", "11-1"}, Title: "an empty group with a history waits, too",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 2)
			m := c.Member("m1")
			m.Join(T1()).OK(2).Has("s1:0-1")
			m.Leave().OK(-1)
			c.Describe().In("Empty", 3)
			c.Config("streams.initial.rebalance.delay.ms", "2000")
			m.Join(T1()).OK(3).Has(none).Says("5")
			m.assigned().OK(4).Has("s1:0-1").Says("-")
		},
	},
	{
		IDs: []string{"D-05", "13-6"}, Title: "the delay outlives the members",
		Run: func(c *C) {
			const delay = 6 * time.Second
			c.delayed("6000")
			c.Topic("foo", 2)
			m1, m2 := c.Member("m1"), c.Member("m2")
			m1.Join(T1()).OK(1).Says("5")
			m1.Leave().OK(-1)
			c.Sleep(delay / 2)
			c.Describe().In("Empty", 3)
			m2.Join(T1()).OK(3).Has(none).Says("5")
			joined := c.target.Clock.Now()
			m2.assigned().OK(4).Has("s1:0-1")
			require.Less(c, c.target.Clock.Now().Sub(joined), delay-time.Second, "the delay began anew")
		},
	},
	{
		IDs: []string{"D-10", "11.1-4"}, Title: "the delay ends before a second heartbeat",
		Run: func(c *C) {
			c.delayed("1000")
			c.Topic("foo", 2)
			m := c.Member("m1")
			m.Join(T1()).OK(1).Has(none).Says("5")
			c.Sleep(1500 * time.Millisecond)
			m.Ack().OK(2).Has("s1:0-1").Says("-")
		},
	},
	{
		IDs: []string{
			"D-07", "D-08", "D30", "11-4", "11-5", "14.1-5", "3-3", "R-01",
			"25-group.streams.assignment.interval.ms",
		},
		Title: "the next assignment waits for the interval",
		Run: func(c *C) {
			c.Config("streams.assignment.interval.ms", "4000")
			c.Topic("foo", 6)
			m1, m2 := c.Member("m1"), c.Member("m2")
			m1.Join(T1()).OK(2).Has("s1:0-5").Says("-")
			m2.Join(T1()).OK(2).Has(none).Says("5")
			require.Equal(c, int32(2), c.Describe().In("Assigning", 3).AssignmentEpoch)
			m1.Beat().OK(2).NoLists().Says("5")
			m2.assigned().OK(3).NoLists().Says("-")
			d := c.Describe().In("Reconciling", 3)
			require.Equal(c, int32(3), d.AssignmentEpoch)
			m1.Beat().OK(2).Has(d.Goal("m1").Active).Says("-")
			m1.Ack().OK(3)
			m2.Ack().OK(3).Has(d.Goal("m2").Active)
			c.Even("s1:0-5", m1, m2)
		},
	},
	{
		IDs: []string{"11-4", "5-13"}, Title: "the interval holds up what a leave has left behind",
		Run: func(c *C) {
			c.Seldom()
			c.Topic("foo", 6)
			m1, m2 := c.Member("m1"), c.Member("m2")
			m1.Join(T1()).OK(2)
			m2.Join(T1()).OK(2).Says("5")
			m2.Leave().OK(-1)
			c.Describe().In("Assigning", 4)
			m1.Ack().OK(2).NoLists().Says("5")
			c.AtOnce()
			m1.Ack().OK(4).NoLists().Says("-")
			c.Describe().In("Stable", 4)
		},
	},
	{
		IDs: []string{"11-2", "11-5", "7-15"}, Title: "without a new epoch no new target",
		Run: func(c *C) {
			m1, m2 := pair(c)
			c.Converge(m1, m2)
			before := c.Describe().In("Stable", 3)
			for range 3 {
				m1.Ack().OK(3).NoLists()
				m2.Ack().OK(3).NoLists()
			}
			after := c.Describe().In("Stable", 3)
			for _, id := range []string{"m1", "m2"} {
				require.Equal(c, before.Goal(id), after.Goal(id))
				require.Equal(c, after.Goal(id), after.Assigned(id))
			}
		},
	},
	{
		IDs: []string{
			"11-10", "25-group.streams.assignors", "25-group.streams.assignor.offload.enable", "25-5",
		},
		Title: "another choice of assignor is no new epoch",
		Run: func(c *C) {
			c.Need44()
			require.Equal(c, "sticky", c.GroupConfigs()["streams.assignor.name"])
			c.Topic("foo", 2)
			m := c.Member("m1")
			m.Join(T1()).OK(2)
			require.ErrorIs(c, c.TryConfig("streams.assignor.name", "no-such-assignor"), kerr.InvalidConfig)
			m.Ack().OK(2)
			c.Config("streams.assignor.name", "sticky")
			c.Config("streams.assignor.offload.enable", "false")
			m.Ack().OK(2).Says("-")
			c.Describe().In("Stable", 2)
			c.AtOnce()
			c.Member("m2").Join(T1()).OK(3).Says("-")
		},
	},
}
