package interop_test

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Requests of members: of streams groups as far as they make groups of every
// state, and of the other types of groups.

func (m *likeMaker) heartbeat() likeSteps {
	group, member := m.group(), m.streamsMember()
	switch m.rng.IntN(10) {
	case 0, 1, 2:
		return likeSteps{m.join(group, member, likeOneOf(m.rng, 0, 0, 0, 1, 1, 2, 3))}
	case 3:
		return likeSteps{m.leave(group, member, likeOneOf(m.rng, int32(-1), -1, -2))}
	case 4, 5:
		return likeSteps{m.beat(group, member, false)}
	default:
		return likeSteps{m.beat(group, member, true)}
	}
}

func (m *likeMaker) streamsStep(text string, fill func(s *likeSide, req *kmsg.StreamsGroupHeartbeatRequest)) likeStep {
	return likeStep{
		text: text, version: m.version(0, 1),
		request: func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
			fill(s, req)
			return req
		},
	}
}

// likeLearns learns from the answer to a heartbeat.
func likeLearns(group, member string) func(s *likeSide, resp kmsg.Response) {
	return func(s *likeSide, resp kmsg.Response) {
		r := resp.(*kmsg.StreamsGroupHeartbeatResponse)
		if r.ErrorCode != 0 {
			return
		}
		known := s.member(group, member)
		known.epoch = r.MemberEpoch
		if r.ActiveTasks != nil {
			known.active, known.standby = r.ActiveTasks, r.StandbyTasks
		}
	}
}

func (m *likeMaker) join(group, member string, topology int) likeStep {
	step := m.streamsStep(fmt.Sprintf("StreamsGroupHeartbeat %s joins %s with topology %d", member, group, topology),
		func(s *likeSide, req *kmsg.StreamsGroupHeartbeatRequest) {
			req.Group, req.MemberID, req.InstanceID = s.group(group), member, likeInstance(member)
			req.RebalanceTimeoutMillis = 60_000
			req.ProcessID = kmsg.StringPtr("process-" + member)
			req.Topology = likeTopology(topology)
			req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
			req.ClientTags = []kmsg.StreamsGroupHeartbeatRequestClientTag{}
		})
	step.learn = likeLearns(group, member)
	return step
}

// beat is a further heartbeat. If it acknowledges, it reports what the member
// was last told to have.
func (m *likeMaker) beat(group, member string, acknowledge bool) likeStep {
	which := "right"
	if m.chance(15) {
		which = likeOneOf(m.rng, "behind", "ahead", "first")
	}
	step := m.streamsStep(fmt.Sprintf("StreamsGroupHeartbeat %s of %s, epoch %s, tasks %v", member, group, which, acknowledge),
		func(s *likeSide, req *kmsg.StreamsGroupHeartbeatRequest) {
			known := s.member(group, member)
			req.Group, req.MemberID, req.InstanceID = s.group(group), member, likeInstance(member)
			req.MemberEpoch = max(1, likeEpoch(known, which))
			req.RebalanceTimeoutMillis = -1
			if acknowledge {
				req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = known.active, known.standby, []kmsg.TaskIDs{}
				if req.ActiveTasks == nil {
					req.ActiveTasks = []kmsg.TaskIDs{}
				}
				if req.StandbyTasks == nil {
					req.StandbyTasks = []kmsg.TaskIDs{}
				}
			}
		})
	step.learn = likeLearns(group, member)
	return step
}

func (m *likeMaker) leave(group, member string, epoch int32) likeStep {
	step := m.streamsStep(fmt.Sprintf("StreamsGroupHeartbeat %s leaves %s, epoch %d", member, group, epoch),
		func(s *likeSide, req *kmsg.StreamsGroupHeartbeatRequest) {
			req.Group, req.MemberID, req.MemberEpoch, req.InstanceID = s.group(group), member, epoch, likeInstance(member)
			req.RebalanceTimeoutMillis = -1
		})
	step.learn = func(s *likeSide, resp kmsg.Response) {
		likeLearns(group, member)(s, resp)
		s.member(group, member).active = nil
	}
	return step
}

// otherMembers are members of classic, consumer and share groups.
func (m *likeMaker) otherMembers() likeSteps {
	group := m.anyGroup()
	switch m.rng.IntN(9) {
	case 0, 1:
		return m.classicJoin(group)
	case 2:
		generation := likeOneOf(m.rng, int32(-1), 0, 1, 2)
		return likeSteps{m.classic("SyncGroup", group, m.version(0, 5), func(id string, s *likeSide) kmsg.Request {
			req := kmsg.NewPtrSyncGroupRequest()
			req.Group, req.MemberID, req.Generation = s.group(group), id, generation
			req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
			assignment := kmsg.NewSyncGroupRequestGroupAssignment()
			assignment.MemberID, assignment.MemberAssignment = id, []byte("x")
			req.GroupAssignment = append(req.GroupAssignment, assignment)
			return req
		})}
	case 3:
		generation := likeOneOf(m.rng, int32(-1), 0, 1, 2)
		return likeSteps{m.classic("Heartbeat", group, m.version(0, 4), func(id string, s *likeSide) kmsg.Request {
			req := kmsg.NewPtrHeartbeatRequest()
			req.Group, req.MemberID, req.Generation = s.group(group), id, generation
			return req
		})}
	case 4:
		step := m.classic("LeaveGroup", group, m.version(0, 5), nil)
		several, version := m.chance(30), step.version
		step.request = func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrLeaveGroupRequest()
			req.Group, req.MemberID = s.group(group), s.madeID("classic-"+group)
			member := kmsg.NewLeaveGroupRequestMember()
			member.MemberID = req.MemberID
			if version >= 3 {
				req.Members = append(req.Members, member)
				if several {
					member.MemberID, member.InstanceID = "", kmsg.StringPtr("instance")
					req.Members = append(req.Members, member)
				}
			}
			return req
		}
		return likeSteps{step}
	case 5, 6:
		return m.consumerHeartbeat(group)
	default:
		return m.shareHeartbeat(group)
	}
}

func (m *likeMaker) classic(kind, group string, version int16, of func(id string, s *likeSide) kmsg.Request) likeStep {
	unknown := m.chance(20)
	return likeStep{
		group: group, text: fmt.Sprintf("%s v%d of %q, stranger %v", kind, version, group, unknown), version: version, settle: true,
		request: func(s *likeSide) kmsg.Request {
			id := s.madeID("classic-" + group)
			if unknown {
				id = "stranger"
			}
			return of(id, s)
		},
	}
}

// classicJoin has the broker make a member id, and joins with it. There is one
// member, so that nobody waits for another.
func (m *likeMaker) classicJoin(group string) likeSteps {
	step := func(text string, version int16, id func(s *likeSide) string) likeStep {
		return likeStep{
			group: group, text: fmt.Sprintf("JoinGroup v%d %s %q", version, text, group), version: version, settle: true,
			request: func(s *likeSide) kmsg.Request {
				req := kmsg.NewPtrJoinGroupRequest()
				req.Group, req.MemberID, req.ProtocolType = s.group(group), id(s), "consumer"
				req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30_000, 30_000
				protocol := kmsg.NewJoinGroupRequestProtocol()
				protocol.Name, protocol.Metadata = "range", []byte{0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}
				req.Protocols = append(req.Protocols, protocol)
				return req
			},
		}
	}
	if m.chance(15) {
		return likeSteps{step("as a stranger", m.version(0, 9), func(*likeSide) string { return "stranger" })}
	}
	version := m.version(4, 9)
	first := step("asks for an id of", version, func(*likeSide) string { return "" })
	first.learn = func(s *likeSide, resp kmsg.Response) {
		if id := resp.(*kmsg.JoinGroupResponse).MemberID; id != "" && s.made["classic-"+group] == "" {
			s.made["classic-"+group] = id
		} else if id != "" {
			s.made[fmt.Sprintf("classic-%s-%d", group, len(s.made))] = id
		}
	}
	second := step("joins", version, func(s *likeSide) string { return s.madeID("classic-" + group) })
	if m.chance(30) {
		return likeSteps{first}
	}
	return likeSteps{first, second}
}

func (m *likeMaker) consumerHeartbeat(group string) likeSteps {
	epoch := likeOneOf(m.rng, int32(0), 0, 0, 1, -1, 5)
	return likeSteps{{
		group: group, text: fmt.Sprintf("ConsumerGroupHeartbeat of %q with epoch %d", group, epoch), version: m.version(0, 1), settle: true,
		request: func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = s.group(group), "consumer-member", epoch, 30_000
			if epoch == 0 {
				req.SubscribedTopicNames, req.Topics = []string{"other"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			}
			return req
		},
	}}
}

func (m *likeMaker) shareHeartbeat(group string) likeSteps {
	epoch := likeOneOf(m.rng, int32(0), 0, 1, -1)
	return likeSteps{{
		group: group, text: fmt.Sprintf("ShareGroupHeartbeat of %q with epoch %d", group, epoch), version: 1, settle: true,
		request: func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrShareGroupHeartbeatRequest()
			req.GroupID, req.MemberID, req.MemberEpoch = s.group(group), "share-member", epoch
			if epoch == 0 {
				req.SubscribedTopicNames = []string{"other"}
			}
			return req
		},
	}}
}

// likeCleanUp are the steps that leave no group of a program.
func likeCleanUp(s *likeSide) (steps likeSteps) {
	m := &likeMaker{}
	for name := range s.producers {
		steps = append(steps, m.endTransaction(name, false, 4))
	}
	groups := []string{"A", "B", "C", "none"}
	for key := range s.members {
		group, member, _ := strings.Cut(key, "/")
		leave := likeStep{version: 0, request: func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
			req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = s.group(group), member, -1, -1
			return req
		}}
		steps = append(steps, leave)
	}
	for _, group := range groups {
		steps = append(steps, likeStep{version: 4, request: func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrLeaveGroupRequest()
			req.Group = s.group(group)
			member := kmsg.NewLeaveGroupRequestMember()
			member.MemberID = s.madeID("classic-" + group)
			req.Members = append(req.Members, member)
			return req
		}}, likeStep{version: 0, request: func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			req.Group, req.MemberID, req.MemberEpoch = s.group(group), "consumer-member", -1
			return req
		}}, likeStep{version: 1, request: func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrShareGroupHeartbeatRequest()
			req.GroupID, req.MemberID, req.MemberEpoch = s.group(group), "share-member", -1
			return req
		}})
	}
	for _, node := range []string{"", "1"} {
		reset := likeStep{version: 1, request: func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrIncrementalAlterConfigsRequest()
			r := kmsg.NewIncrementalAlterConfigsRequestResource()
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, likeResource(s, kmsg.ConfigResourceTypeBroker, node)
			for _, name := range []string{"group.streams.assignment.interval.ms", "group.streams.assignor.offload.enable"} {
				rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
				rc.Name, rc.Op = name, kmsg.IncrementalAlterConfigOpDelete
				r.Configs = append(r.Configs, rc)
			}
			req.Resources = append(req.Resources, r)
			return req
		}}
		if node == "1" {
			reset.learn = func(s *likeSide, _ kmsg.Response) { s.configsSeen() }
		}
		steps = append(steps, reset)
	}
	return append(steps, likeStep{version: 2, request: func(s *likeSide) kmsg.Request {
		req := kmsg.NewPtrDeleteGroupsRequest()
		for _, group := range append(groups, "") {
			req.Groups = append(req.Groups, s.group(group))
		}
		return req
	}})
}
