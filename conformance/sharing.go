package conformance

import (
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var sharing = []Scenario{
	{
		IDs: []string{"G-01", "G-02", "G-03", "6.1-3", "6.1-4", "19-6", "D21"}, Title: "a classic group, with members and empty",
		Run: func(c *C) {
			c.Topic("foo", 1)
			classic := c.classicJoin(c.group, joinVersion)
			require.Equal(c, "NONE", CodeName(classic.ErrorCode))
			m := c.Member("m1")
			m.Join(T1()).Is("GROUP_ID_NOT_FOUND")
			require.Equal(c, "NONE", c.classicSync(c.group, classic.MemberID, classic.Generation))
			m.Join(T1()).Is("GROUP_ID_NOT_FOUND")
			m.Send(m.Request(5)).Is("GROUP_ID_NOT_FOUND")
			c.committed("NONE", Commit{Member: classic.MemberID, Epoch: classic.Generation, Version: 8}, "foo:0", 7)
			require.Equal(c, "NONE", c.classicLeave(c.group, classic.MemberID))
			m.Send(m.Request(5)).Is("GROUP_ID_NOT_FOUND")
			m.Leave().Is("GROUP_ID_NOT_FOUND")
			m.Join(T1()).OK(2).Has("s1:0")
			c.Describe().In("Stable", 2)
			c.fetched("foo:0=7", "foo:0")
		},
	},
	{
		IDs: []string{"G-04", "6.1-5"}, Title: "a consumer group, with members and empty",
		Run: func(c *C) {
			c.NeedRequest(kmsg.NewPtrConsumerGroupHeartbeatRequest(), 1)
			c.Topic("foo", 1)
			require.Equal(c, "NONE", c.consumerBeat(c.group, "c1", 0))
			m := c.Member("m1")
			m.Join(T1()).Is("GROUP_ID_NOT_FOUND")
			require.Equal(c, "NONE", c.consumerBeat(c.group, "c1", -1))
			m.Join(T1()).Is("GROUP_ID_NOT_FOUND")
			m.Send(m.Request(5)).Is("GROUP_ID_NOT_FOUND")
			m.Leave().Is("GROUP_ID_NOT_FOUND")
			c.Describe().Is("GROUP_ID_NOT_FOUND")
		},
	},
	{
		IDs: []string{"6.1-5"}, Title: "a share group, with members and empty",
		Run: func(c *C) {
			c.NeedRequest(kmsg.NewPtrShareGroupHeartbeatRequest(), 1)
			c.Topic("foo", 1)
			const id = "AAAAAAAAAAAAAAAAAAAAAQ" // must look like a UUID
			require.Equal(c, "NONE", c.shareBeat(c.group, id, 0))
			m := c.Member("m1")
			m.Join(T1()).Is("GROUP_ID_NOT_FOUND")
			require.Equal(c, "NONE", c.shareBeat(c.group, id, -1))
			m.Send(m.Request(5)).Is("GROUP_ID_NOT_FOUND")
			if kind, _ := c.typeOf(c.group); kind == "share" { // a broker may forget one without members
				m.Join(T1()).Is("GROUP_ID_NOT_FOUND")
			}
		},
	},
	{
		IDs: []string{"G-06", "G-09", "G-10", "19-1", "19-2", "19-3", "19-4", "19-5"}, Title: "requests of other group types to a streams group with members",
		Run: func(c *C) {
			c.Topic("foo", 1)
			m := c.Member("m1")
			m.Join(T1()).OK(2)
			c.otherTypesAreRefused()
			join := c.classicJoin(c.group, joinVersion)
			require.Equal(c, "INCONSISTENT_GROUP_PROTOCOL", CodeName(join.ErrorCode))
			require.Empty(c, join.MemberID)
			c.classicRequestsAreRefused()
			m.Beat().OK(2)
			c.Describe().In("Stable", 2)
		},
	},
	{
		IDs: []string{"G-06", "G-10", "19-1", "19-3", "19-4", "19-5"}, Title: "requests of other group types to an empty streams group",
		Run: func(c *C) {
			c.emptied()
			c.otherTypesAreRefused()
			c.classicRequestsAreRefused()
			c.Describe().In("Empty", 3)
		},
	},
	{
		IDs: []string{"G-08", "19-2", "19-6"}, Title: "an empty streams group becomes classic",
		Run: func(c *C) {
			c.emptied()
			c.committed("NONE", Commit{Epoch: -1}, "foo:0", 7)
			require.Equal(c, "MEMBER_ID_REQUIRED", CodeName(c.classicJoin(c.group, 5).ErrorCode))
			c.await("the end of the streams group", func() bool { return CodeName(c.Describe().ErrorCode) == "GROUP_ID_NOT_FOUND" })
			kind, _ := c.typeOf(c.group)
			require.Equal(c, "classic", kind)
			c.fetched("foo:0=7", "foo:0")
			m := c.Member("m1")
			m.Send(m.Request(3)).Is("GROUP_ID_NOT_FOUND")
		},
	},
	{
		IDs: []string{"G-14", "6.1-3", "19-6"}, Title: "a group of commits only becomes a streams group",
		Run: func(c *C) {
			c.Topic("foo", 1)
			c.committed("NONE", Commit{Epoch: -1}, "foo:0", 7)
			m := c.Member("m1")
			m.Send(m.Request(5)).Is("GROUP_ID_NOT_FOUND")
			m.Join(T1()).OK(2).Has("s1:0")
			kind, _ := c.typeOf(c.group)
			require.Equal(c, "streams", kind)
			c.fetched("foo:0=7", "foo:0")
		},
	},
}

// otherTypesAreRefused has members of newer group types come to the scenario's
// group.
func (c *C) otherTypesAreRefused() {
	for _, epoch := range []int32{0, 2, -1} {
		if c.Has(kmsg.NewPtrConsumerGroupHeartbeatRequest(), 1) {
			require.Equal(c, "GROUP_ID_NOT_FOUND", c.consumerBeat(c.group, "m1", epoch))
		}
		if c.Has(kmsg.NewPtrShareGroupHeartbeatRequest(), 1) {
			require.Equal(c, "GROUP_ID_NOT_FOUND", c.shareBeat(c.group, "m1", epoch))
		}
	}
	if consumers := kmsg.NewPtrConsumerGroupDescribeRequest(); c.Has(consumers, 0) {
		consumers.Groups = []string{c.group}
		resp := c.AskCoordinator(consumers).(*kmsg.ConsumerGroupDescribeResponse)
		require.Equal(c, "GROUP_ID_NOT_FOUND", CodeName(resp.Groups[0].ErrorCode), "ConsumerGroupDescribe")
	}
	if shares := kmsg.NewPtrShareGroupDescribeRequest(); c.Has(shares, 1) {
		shares.GroupIDs = []string{c.group}
		resp := c.AskCoordinator(shares).(*kmsg.ShareGroupDescribeResponse)
		require.Equal(c, "GROUP_ID_NOT_FOUND", CodeName(resp.Groups[0].ErrorCode), "ShareGroupDescribe")
	}
}

// classicRequestsAreRefused sends those requests of classic members that need a
// group.
func (c *C) classicRequestsAreRefused() {
	require.Equal(c, "UNKNOWN_MEMBER_ID", c.classicSync(c.group, "m1", 2))
	require.Equal(c, "UNKNOWN_MEMBER_ID", c.classicBeat(c.group, "m1", 2))
	require.Equal(c, "UNKNOWN_MEMBER_ID", c.classicLeave(c.group, "m1"))
	state, code := c.classicDescribe(c.group, 5)
	require.Equal(c, []string{"Dead", "NONE"}, []string{state, code}, "DescribeGroups version 5")
	if c.Has(kmsg.NewPtrDescribeGroupsRequest(), 6) {
		state, code = c.classicDescribe(c.group, 6)
		require.Equal(c, []string{"Dead", "GROUP_ID_NOT_FOUND"}, []string{state, code}, "DescribeGroups version 6")
	}
}
