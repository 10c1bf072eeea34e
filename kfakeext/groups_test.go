package kfakeext_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

func (w *wire) delete(groups ...string) (codes []int16) {
	w.Helper()
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = groups
	for i, g := range w.home(groups[0], req).(*kmsg.DeleteGroupsResponse).Groups {
		assert.Equal(w, groups[i], g.Group)
		codes = append(codes, g.ErrorCode)
	}
	require.Len(w, codes, len(groups))
	return codes
}

func (w *wire) commit(group, member string, epoch int32, version int16, topic string, partitions ...int32) int16 {
	w.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = group, member, epoch
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	if info := w.cl.TopicInfo(topic); info != nil {
		t.TopicID = info.TopicID
	}
	for _, p := range partitions {
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset = p, 100+int64(p)
		t.Partitions = append(t.Partitions, rp)
	}
	req.Topics = append(req.Topics, t)
	resp := w.home(group, pinned{req, version}).(*kmsg.OffsetCommitResponse)
	require.Len(w, resp.Topics, 1)
	require.Len(w, resp.Topics[0].Partitions, len(partitions))
	for _, p := range resp.Topics[0].Partitions {
		require.Equal(w, resp.Topics[0].Partitions[0].ErrorCode, p.ErrorCode)
	}
	return resp.Topics[0].Partitions[0].ErrorCode
}

func joinClassic(group string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = group, "consumer", 10_000, 10_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name = "range"
	req.Protocols = append(req.Protocols, p)
	return req
}

// consumerBeat is a heartbeat of a consumer group with the id g.
func consumerBeat(member string, epoch int32) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = "g", member, epoch
	if epoch == 0 {
		req.RebalanceTimeoutMillis = 10_000
		req.SubscribedTopicNames, req.Topics = []string{"foo"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	return req
}

// One group of each kind that kfake knows, and a join that meets it.
func TestGJoinMeetsGroupsOfOtherKinds(t *testing.T) {
	t.Parallel()
	t.Run("G-14 offsets only", func(t *testing.T) {
		inBubble(t, func(w *wire) {
			code(w.T, nil, w.commit("g", "", -1, 9, "foo", 0))
			w.ok(join("g", "m1", "foo"))
			info := w.cl.GroupInfo("g")
			require.NotNil(w, info)
			assert.EqualValues(w, 100, info.Commits["foo"][0].Offset, "the offsets stay")
			groups := w.list(nil, nil)
			require.Len(w, groups, 1)
			assert.Equal(w, "streams", groups[0].GroupType)
		})
	})
	t.Run("G-02 classic group that is rebalancing", func(t *testing.T) {
		inBubble(t, func(w *wire) {
			w.classicMember("g")
			w.fails(kerr.GroupIDNotFound, join("g", "m1", "foo"))
		})
	})
	t.Run("G-01 empty classic group", func(t *testing.T) {
		inBubble(t, func(w *wire) {
			member := w.classicMember("g")
			leave := kmsg.NewPtrLeaveGroupRequest()
			leave.Group, leave.Members = "g", []kmsg.LeaveGroupRequestMember{{MemberID: member}}
			w.home("g", leave)
			w.fails(kerr.GroupIDNotFound, beat("g", "m1", 5)) // G-03
			w.ok(join("g", "m1", "foo"))
		})
	})
	t.Run("G-04 consumer group", func(t *testing.T) {
		inBubble(t, func(w *wire) {
			code(w.T, nil, w.home("g", consumerBeat("c1", 0)).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode)
			w.fails(kerr.GroupIDNotFound, join("g", "m1", "foo"))
			code(w.T, nil, w.home("g", consumerBeat("c1", -1)).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode)
			require.Empty(w, w.cl.GroupInfo("g").Members)
			w.fails(kerr.GroupIDNotFound, join("g", "m1", "foo"))
			code(w.T, nil, w.delete("g")[0])
			w.ok(join("g", "m1", "foo"))
		})
	})
	t.Run("share group", func(t *testing.T) {
		inBubble(t, func(w *wire) {
			req := shareBeat("g")
			code(w.T, nil, w.home("g", req).(*kmsg.ShareGroupHeartbeatResponse).ErrorCode)
			w.fails(kerr.GroupIDNotFound, join("g", "m1", "foo"))
		})
	})
}

func shareBeat(group string) *kmsg.ShareGroupHeartbeatRequest {
	req := kmsg.NewPtrShareGroupHeartbeatRequest()
	req.GroupID, req.MemberID, req.SubscribedTopicNames = group, "s1", []string{"foo"}
	return req
}

// classicMember joins a classic group for good.
func (w *wire) classicMember(group string) string {
	w.Helper()
	req := joinClassic(group)
	first := w.home(group, req).(*kmsg.JoinGroupResponse)
	code(w.T, kerr.MemberIDRequired, first.ErrorCode)
	req.MemberID = first.MemberID
	second := w.home(group, req).(*kmsg.JoinGroupResponse)
	code(w.T, nil, second.ErrorCode)
	return second.MemberID
}

func TestGOtherKindsMeetAStreamsGroup(t *testing.T) {
	// rules 19-1, 19-3, 19-4, 19-5
	t.Parallel()
	for _, tt := range []struct {
		name  string
		empty bool
	}{{"with members", false}, {"empty", true}} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(w *wire) {
				w.ok(join("g", "m1", "foo"))
				if tt.empty {
					w.ok(beat("g", "m1", -1))
				}
				for _, epoch := range []int32{0, 1, -1} { // G-06
					code(w.T, kerr.GroupIDNotFound, w.home("g", consumerBeat("c1", epoch)).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode)
				}
				code(w.T, kerr.GroupIDNotFound, w.home("g", shareBeat("g")).(*kmsg.ShareGroupHeartbeatResponse).ErrorCode)

				sync := kmsg.NewPtrSyncGroupRequest() // G-10
				sync.Group, sync.MemberID = "g", "x"
				code(w.T, kerr.UnknownMemberID, w.home("g", sync).(*kmsg.SyncGroupResponse).ErrorCode)
				beating := kmsg.NewPtrHeartbeatRequest()
				beating.Group, beating.MemberID = "g", "x"
				code(w.T, kerr.UnknownMemberID, w.home("g", beating).(*kmsg.HeartbeatResponse).ErrorCode)
				leave := kmsg.NewPtrLeaveGroupRequest()
				leave.Group, leave.Members = "g", []kmsg.LeaveGroupRequestMember{{MemberID: "x"}}
				left := w.home("g", leave).(*kmsg.LeaveGroupResponse)
				require.Len(w, left.Members, 1)
				code(w.T, kerr.UnknownMemberID, left.Members[0].ErrorCode)
				old := w.home("g", pinned{leave, 2}).(*kmsg.LeaveGroupResponse)
				code(w.T, kerr.UnknownMemberID, old.ErrorCode)

				for version, want := range map[int16]*kerr.Error{6: kerr.GroupIDNotFound, 5: nil} {
					describe := kmsg.NewPtrDescribeGroupsRequest()
					describe.Groups = []string{"g"}
					described := w.home("g", pinned{describe, version}).(*kmsg.DescribeGroupsResponse).Groups[0]
					assert.Equal(w, "g", described.Group)
					assert.Equal(w, "Dead", described.State)
					code(w.T, want, described.ErrorCode)
				}
				consumers := kmsg.NewPtrConsumerGroupDescribeRequest()
				consumers.Groups = []string{"g"}
				code(w.T, kerr.GroupIDNotFound, w.home("g", consumers).(*kmsg.ConsumerGroupDescribeResponse).Groups[0].ErrorCode)

				joined := w.home("g", joinClassic("g")).(*kmsg.JoinGroupResponse)
				if tt.empty { // G-08
					code(w.T, kerr.MemberIDRequired, joined.ErrorCode)
					code(w.T, kerr.GroupIDNotFound, w.describe("g").ErrorCode)
					_, ok := w.cl.StreamsGroupState("g")
					assert.False(w, ok)
				} else { // G-09
					code(w.T, kerr.InconsistentGroupProtocol, joined.ErrorCode)
					assert.Empty(w, joined.MemberID)
					w.ok(beat("g", "m1", 2))
				}
			})
		})
	}
}

func TestQ08List(t *testing.T) {
	inBubble(t, func(w *wire) {
		w.ok(join("ready", "m1", "foo"))
		time.Sleep(time.Second)
		w.ok(join("ready", "m2", "foo"))
		w.ok(join("waiting", "m1", "missing"))
		w.ok(join("stable", "m1", "foo"))
		code(w.T, nil, w.commit("stable", "m1", 2, 10, "foo", 0)) // kfake lists a group of its own for this
		code(w.T, nil, w.commit("offsets", "", -1, 9, "foo", 0))
		w.state("ready", coordinator.Reconciling)

		names := func(states, types []string) (names []string) {
			for _, g := range w.list(states, types) {
				names = append(names, g.Group)
			}
			return names
		}
		assert.ElementsMatch(w, []string{"ready", "waiting", "stable", "offsets"}, names(nil, nil))
		assert.ElementsMatch(w, []string{"ready"}, names([]string{"reconciling"}, nil))
		assert.ElementsMatch(w, []string{"ready"}, names([]string{" Reconciling "}, nil))
		assert.ElementsMatch(w, []string{"waiting"}, names([]string{"not_ready"}, nil))
		assert.ElementsMatch(w, []string{"waiting"}, names([]string{"NOT_READY"}, nil))
		assert.Empty(w, names([]string{"NotReady"}, nil))
		assert.ElementsMatch(w, []string{"stable", "ready"}, names([]string{"Stable", "Reconciling"}, []string{"Streams"}))
		assert.ElementsMatch(w, []string{"offsets"}, names(nil, []string{"classic"}))
		for _, g := range w.list(nil, []string{"streams"}) {
			assert.Equal(w, "streams", g.ProtocolType)
			assert.Equal(w, "streams", g.GroupType)
		}

		// Every group is listed by its coordinator only.
		for node := range int32(2) {
			for _, g := range w.ask(node, kmsg.NewPtrListGroupsRequest()).(*kmsg.ListGroupsResponse).Groups {
				assert.Equal(w, node, w.cl.CoordinatorFor(g.Group), g.Group)
			}
		}
		// A version without tags gets kfake's own list.
		old := kmsg.NewPtrListGroupsRequest()
		w.ask(0, pinned{old, 2})
	}, kfakeext.Nodes(2))
}

func TestQ09Delete(t *testing.T) {
	inBubble(t, func(w *wire) {
		w.ok(join("used", "m1", "foo"))
		w.ok(join("waiting", "m1", "missing"))
		w.ok(join("empty", "m1", "foo"))
		code(w.T, nil, w.commit("empty", "m1", 2, 10, "foo", 0))
		w.ok(beat("empty", "m1", -1))
		w.ok(join("bare", "m1", "foo"))
		w.ok(beat("bare", "m1", -1))
		code(w.T, nil, w.commit("offsets", "", -1, 9, "foo", 0))
		got := w.delete("used", "empty", "nobody", "bare", "waiting", "offsets")
		for i, want := range []*kerr.Error{kerr.NonEmptyGroup, nil, kerr.GroupIDNotFound, nil, kerr.NonEmptyGroup, nil} {
			code(w.T, want, got[i])
		}
		code(w.T, kerr.GroupIDNotFound, w.describe("empty").ErrorCode)
		assert.Nil(w, w.cl.GroupInfo("empty"), "the offsets are gone")
		code(w.T, kerr.NonEmptyGroup, w.delete("used")[0])

		old := kmsg.NewPtrDeleteGroupsRequest() // no tags in this version
		old.Groups = []string{"used"}
		code(w.T, kerr.NonEmptyGroup, w.home("used", pinned{old, 1}).(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode)
		w.ok(beat("used", "m1", 2))
	})
}

func TestQ06DescribeErrorsAndV03Q07Authorization(t *testing.T) {
	// rules 18.1-5, 18.1-9, 18.3-1
	denied := map[string]kmsg.ACLOperation{}
	var seen kfakeext.Caller
	inBubble(t, func(w *wire) {
		w.ok(join("g", "m1", "foo", "bar"))
		denied["secret"] = kmsg.ACLOperationDescribe
		req := kmsg.NewPtrStreamsGroupDescribeRequest()
		req.Groups = []string{"", "unknown", "g", "secret"}
		req.IncludeAuthorizedOperations = true
		got := w.ask(0, req).(*kmsg.StreamsGroupDescribeResponse).Groups
		require.Len(w, got, 4)
		for i, want := range []struct {
			group string
			err   *kerr.Error
		}{{"secret", kerr.GroupAuthorizationFailed}, {"", kerr.InvalidGroupID}, {"unknown", kerr.GroupIDNotFound}, {"g", nil}} {
			assert.Equal(w, want.group, got[i].Group)
			code(w.T, want.err, got[i].ErrorCode)
		}
		assert.EqualValues(w, 1<<3|1<<6|1<<8|1<<10|1<<11, got[3].AuthorizedOperations)
		assert.EqualValues(w, -2147483648, w.describe("g").AuthorizedOperations)
		assert.Equal(w, kfakeext.Caller{Principal: "User:ANONYMOUS", ClientID: "wire", Host: "/127.0.0.1"}, seen)

		denied["bar"] = kmsg.ACLOperationDescribe
		hidden := w.describe("g")
		code(w.T, kerr.TopicAuthorizationFailed, hidden.ErrorCode)
		assert.Empty(w, hidden.Members)
		assert.Nil(w, hidden.Topology)
		w.fails(kerr.TopicAuthorizationFailed, join("h", "m1", "bar")) // V-06

		denied["h"] = kmsg.ACLOperationRead // V-03
		w.fails(kerr.GroupAuthorizationFailed, join("h", "m1", "__consumer_offsets"))
		denied["g"] = kmsg.ACLOperationDelete
		code(w.T, kerr.GroupAuthorizationFailed, w.delete("g")[0])
	}, kfakeext.Authorize(func(who kfakeext.Caller, op kmsg.ACLOperation, _ kmsg.ACLResourceType, name string) bool {
		seen = who
		return denied[name] != op
	}))
}

func TestLoadedGroupsOfOtherKinds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cl := kfakeext.Start(t, kfakeext.Topic("foo", 1), kfakeext.DataDir(dir))
	w := connect(t, cl)
	code(t, nil, w.home("g", consumerBeat("c1", 0)).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode)
	code(t, nil, w.home("g", consumerBeat("c1", -1)).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode)
	code(t, nil, w.commit("offsets", "", -1, 9, "foo", 0))
	w.client.Close()
	cl.Close()

	w = connect(t, kfakeext.Start(t, kfakeext.Topic("foo", 1), kfakeext.DataDir(dir)))
	w.fails(kerr.GroupIDNotFound, join("g", "m1", "foo"))
	w.ok(join("offsets", "m1", "foo"))
	assert.EqualValues(t, 100, w.cl.GroupInfo("offsets").Commits["foo"][0].Offset)
}

func TestClosedCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cl := kfakeext.Start(t, kfakeext.Topic("foo", 1))
		w := connect(t, cl, kgo.DisableClientMetrics())
		w.ok(join("g", "m1", "foo"))
		w.client.Close()
		cl.Close()
		cl.Close()
		require.ErrorIs(t, cl.CreateTopic("bar", 1, nil), kfakeext.ErrClosed)
		require.ErrorIs(t, cl.DeleteTopic("foo"), kfakeext.ErrClosed)
		require.ErrorIs(t, cl.SetGroupConfig("g", nil), kfakeext.ErrClosed)
		time.Sleep(time.Minute)
		state, _ := cl.StreamsGroupState("g")
		assert.Equal(t, coordinator.Stable, state, "no session ends after Close")
	})
}
