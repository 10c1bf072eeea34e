package conformance

import "github.com/stretchr/testify/require"

// capacity is about groups that are full.
var capacity = []Scenario{
	{
		IDs: []string{"J-16", "S-06", "S-13", "6.1-6"}, Title: "a group that is full",
		Run: func(c *C) {
			c.Need44() // before, nobody can join a full group again
			c.Topic("foo", 2)
			away := c.Static("away", "i1")
			away.Join(T1()).OK(2)
			away.LeaveForNow().OK(-2)
			here := c.Static("here", "i2")
			here.Join(T1()).Is("NONE")

			// Those who are away count.
			const limit = 100
			n := 2
			for ; n < limit; n++ {
				if a := c.Member(memberID(n)).Join(T1()); a.ErrorCode != 0 {
					a.Is("GROUP_MAX_SIZE_REACHED")
					break
				}
			}
			if n == limit {
				c.Skip("a group of the broker takes more than %d members (group.streams.max.size)", limit)
			}
			require.Len(c, c.Describe().Members, n)

			// Members and instances that the group knows are not turned away.
			c.Member(memberID(2)).Join(T1()).Is("NONE")
			c.Static("other", "i2").Join(T1()).Is("UNRELEASED_INSTANCE_ID")
			c.Static("back", "i1").Join(T1()).Is("NONE")
			c.Static("new", "i3").Join(T1()).Is("GROUP_MAX_SIZE_REACHED")
			require.Len(c, c.Describe().Members, n)
		},
	},
}

func memberID(n int) string { return "m" + string(rune('0'+n/10)) + string(rune('0'+n%10)) }
