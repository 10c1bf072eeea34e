package conformance

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Defects of Kafka that others need not have: either answer is right.

var quirks = []Scenario{
	{
		IDs: []string{"Q1"}, Title: "a client tag twice", Deviation: "Q1",
		Run: func(c *C) {
			c.Need44()
			c.Topic("foo", 1)
			m := c.Member("m1")
			m.Join(T1(), Tags("zone", "a", "zone", "b")).mended("INVALID_REQUEST")
			c.Describe().Is("GROUP_ID_NOT_FOUND")
			m.Join(T1(), Tags("zone", "a")).OK(2)
			m.Beat(Tags("zone", "a", "zone", "b")).mended("INVALID_REQUEST")
			c.Describe().In("Stable", 2)
		},
	},
	{
		IDs: []string{"Q1"}, Title: "a subtopology twice among the owned tasks", Deviation: "Q1",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 4)
			m1, m2 := c.Member("m1"), c.Member("m2")
			m1.Join(T1()).OK(2)
			m2.Join(T1()).OK(3)
			m1.Beat().OK(2) // from here on, what it owns is compared with what it has to give up
			m1.Ack(func(req *kmsg.StreamsGroupHeartbeatRequest) {
				req.ActiveTasks = append(req.ActiveTasks, req.ActiveTasks...)
			}).mended("INVALID_REQUEST")
			m1.Ack().OK(3)
		},
	},
	{
		IDs: []string{"Q3", "P-12"}, Title: "a member with an endpoint while source topics are missing", Deviation: "Q3",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 1)
			m := c.Member("m1")
			a := m.Join(T2(), Endpoint("h", 1))
			if a.ErrorCode == 0 {
				a.OK(2).Has(none).Says("1").Lists(0, "h:1 active= standby=")
				c.Topic("bar", 1)
				m.Beat().OK(3).Has("s1:0 s2:0").Lists(1, "h:1 active=bar:0 foo:0 standby=")
				return
			}
			a.Is("UNKNOWN_SERVER_ERROR")
			c.Describe().Is("GROUP_ID_NOT_FOUND")
			c.Topic("bar", 1)
			m.Join(T2(), Endpoint("h", 1)).OK(2).Has("s1:0 s2:0")
		},
	},
	{
		IDs: []string{"Q3", "P-12", "9.2-1"}, Title: "a source topic of members with an endpoint is deleted", Deviation: "Q3",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 1)
			c.Topic("bar", 1)
			m := c.Member("m1")
			m.Join(T2(), Endpoint("h", 1)).OK(2).Has("s1:0 s2:0")
			c.DeleteTopic("bar")
			a := m.Beat()
			if a.ErrorCode != 0 {
				a.Is("UNKNOWN_SERVER_ERROR")
				c.Describe().In("Stable", 2)
				return
			}
			a.OK(2).Has(none).Says("1")
			m.Ack().OK(3).Says("1")
			c.Describe().In("NotReady", 3)
		},
	},
}
