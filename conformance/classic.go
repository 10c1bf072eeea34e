package conformance

import (
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// joinVersion is the version of JoinGroup that needs no second request for a
// member id.
const joinVersion = 3

// classicJoin sends a JoinGroup to a group.
func (c *C) classicJoin(group string, version int16) *kmsg.JoinGroupResponse {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = group, 30_000, 30_000
	req.ProtocolType = "consumer"
	proto := kmsg.NewJoinGroupRequestProtocol()
	proto.Name = "range"
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics = []string{c.Named("foo")}
	proto.Metadata = meta.AppendTo(nil)
	req.Protocols = append(req.Protocols, proto)
	resp := c.AskCoordinatorOf(group, Pin(req, version)).(*kmsg.JoinGroupResponse)
	c.note("JoinGroup v%d -> %s generation=%d member=%q", version, CodeName(resp.ErrorCode), resp.Generation, resp.MemberID)
	return resp
}

// classicSync sends a SyncGroup.
func (c *C) classicSync(group, member string, generation int32) string {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	code := CodeName(c.AskCoordinatorOf(group, Pin(req, 3)).(*kmsg.SyncGroupResponse).ErrorCode)
	c.note("SyncGroup -> %s", code)
	return code
}

// classicBeat sends a classic Heartbeat.
func (c *C) classicBeat(group, member string, generation int32) string {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	code := CodeName(c.AskCoordinatorOf(group, Pin(req, 3)).(*kmsg.HeartbeatResponse).ErrorCode)
	c.note("Heartbeat -> %s", code)
	return code
}

// classicLeave sends a LeaveGroup of one member.
func (c *C) classicLeave(group, member string) string {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = group, member
	code := CodeName(c.AskCoordinatorOf(group, Pin(req, 2)).(*kmsg.LeaveGroupResponse).ErrorCode)
	c.note("LeaveGroup -> %s", code)
	return code
}

// consumerBeat sends a ConsumerGroupHeartbeat.
func (c *C) consumerBeat(group, member string, epoch int32) string {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = group, member, epoch
	if epoch == 0 {
		req.RebalanceTimeoutMillis = 30_000
		req.SubscribedTopicNames = []string{c.Named("foo")}
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	code := CodeName(c.AskCoordinatorOf(group, req).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode)
	c.note("ConsumerGroupHeartbeat of %q at epoch %d -> %s", member, epoch, code)
	return code
}

// shareBeat sends a ShareGroupHeartbeat.
func (c *C) shareBeat(group, member string, epoch int32) string {
	req := kmsg.NewPtrShareGroupHeartbeatRequest()
	req.GroupID, req.MemberID, req.MemberEpoch = group, member, epoch
	if epoch == 0 {
		req.SubscribedTopicNames = []string{c.Named("foo")}
	}
	code := CodeName(c.AskCoordinatorOf(group, req).(*kmsg.ShareGroupHeartbeatResponse).ErrorCode)
	c.note("ShareGroupHeartbeat of %q at epoch %d -> %s", member, epoch, code)
	return code
}

// classicDescribe sends a DescribeGroups for one group.
func (c *C) classicDescribe(group string, version int16) (state, code string) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	resp := c.AskCoordinatorOf(group, Pin(req, version)).(*kmsg.DescribeGroupsResponse)
	require.Len(c, resp.Groups, 1)
	g := resp.Groups[0]
	c.note("DescribeGroups v%d -> %s %s", version, CodeName(g.ErrorCode), g.State)
	return g.State, CodeName(g.ErrorCode)
}

// typeOf is the type of a group as ListGroups has it, and its state; empty if it
// is not listed.
func (c *C) typeOf(group string) (kind, state string) {
	if mine := c.list(kmsg.NewPtrListGroupsRequest(), group); len(mine) > 0 {
		return mine[0].GroupType, mine[0].GroupState
	}
	return "", ""
}

// list sends a ListGroups to the coordinator of a group and returns what it says
// about that group.
func (c *C) list(req *kmsg.ListGroupsRequest, group string) []kmsg.ListGroupsResponseGroup {
	resp := c.AskCoordinatorOf(group, req).(*kmsg.ListGroupsResponse)
	require.Equal(c, "NONE", CodeName(resp.ErrorCode))
	var mine []kmsg.ListGroupsResponseGroup
	for _, g := range resp.Groups {
		if g.Group == group {
			mine = append(mine, g)
		}
	}
	c.note("list of groups, states %v, types %v -> it is there %d times", req.StatesFilter, req.TypesFilter, len(mine))
	return mine
}

// Has is whether the broker has a request, or a version of it.
func (c *C) Has(req kmsg.Request, version int16) bool {
	highest, ok := c.connTo(c.target.Addr).max[req.Key()]
	return ok && highest >= version
}

// NeedRequest skips the scenario at brokers that do not have a request, or not in
// this version.
func (c *C) NeedRequest(req kmsg.Request, version int16) {
	if !c.Has(req, version) {
		c.Skip("the broker does not have %s version %d", kmsg.NameForKey(req.Key()), version)
	}
}
