package conformance

var joining = []Scenario{
	{
		IDs: []string{"J-01", "6.1-1"}, Title: "a heartbeat to an unknown group",
		Run: func(c *C) {
			m := c.Member("m1")
			m.Send(m.Request(100)).Is("GROUP_ID_NOT_FOUND")
		},
	},
	{
		IDs: []string{"J-02", "J-03", "6.2-3", "5-1"}, Title: "unknown members and groups",
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
		IDs: []string{"J-06", "J-12", "6.3-2", "6.3-3"}, Title: "a member epoch that is too high, and the current one",
		Run: func(c *C) {
			c.Topic("foo", 2)
			m := c.Member("m1")
			m.Join(T1()).OK(2).Has("s1:0-1")
			m.Send(m.Request(200)).Is("FENCED_MEMBER_EPOCH")
			m.Beat(Owned("s1:0")).OK(2)
			c.Describe().In("Stable", 2)
		},
	},
}
