package kfakeext_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

func TestLifeOfAGroup(t *testing.T) {
	var events []coordinator.Event
	inBubble(t, func(w *wire) {
		resp := w.ok(join("g", "m1", "foo", "bar"))
		assert.Equal(w, int32(2), resp.MemberEpoch)
		assert.Equal(w, map[string][]int32{"s1": {0, 1, 2, 3, 4, 5}, "s2": {0, 1, 2}}, tasks(resp.ActiveTasks))
		assert.Equal(w, int32(5000), resp.HeartbeatIntervalMillis)

		owned := beat("g", "m1", 2)
		owned.ActiveTasks, owned.StandbyTasks, owned.WarmupTasks = resp.ActiveTasks, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		w.ok(owned)
		steady := w.ok(beat("g", "m1", 2))
		assert.Nil(w, steady.ActiveTasks)
		assert.Empty(w, steady.Status)

		d := w.describe("g")
		code(w.T, nil, d.ErrorCode)
		assert.Equal(w, "Stable", d.State)
		require.Len(w, d.Members, 1)
		assert.Equal(w, "wire", d.Members[0].ClientID)
		assert.Equal(w, "/127.0.0.1", d.Members[0].ClientHost)

		groups := w.list(nil, nil)
		require.Len(w, groups, 1)
		assert.Equal(w, kmsg.ListGroupsResponseGroup{Group: "g", ProtocolType: "streams", GroupState: "Stable", GroupType: "streams"}, groups[0])

		left := w.ok(beat("g", "m1", -1))
		assert.Equal(w, int32(-1), left.MemberEpoch)
		w.state("g", coordinator.Empty)
		w.fails(kerr.UnknownMemberID, beat("g", "m1", 2))
	}, kfakeext.OnEvent(func(e coordinator.Event) { events = append(events, e) }))
	t.Cleanup(func() {
		assert.Contains(t, events, coordinator.Event(coordinator.GroupCreated{Group: "g"}))
	})
}

func TestL05SessionExpiresToTheMillisecond(t *testing.T) {
	inBubble(t, func(w *wire) {
		w.ok(join("g", "m1", "foo"))
		time.Sleep(44_999 * time.Millisecond)
		w.state("g", coordinator.Stable)
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		w.state("g", coordinator.Empty)
		w.fails(kerr.UnknownMemberID, beat("g", "m1", 2))
	})
}

func TestL04HeartbeatsKeepTheSession(t *testing.T) {
	inBubble(t, func(w *wire) {
		epoch := w.ok(join("g", "m1", "foo")).MemberEpoch
		for range 100 {
			time.Sleep(5 * time.Second)
			w.ok(beat("g", "m1", epoch))
		}
		time.Sleep(44_999 * time.Millisecond)
		w.state("g", coordinator.Stable)
	})
}

func TestJ01UnknownGroupAndMember(t *testing.T) {
	inBubble(t, func(w *wire) {
		w.fails(kerr.GroupIDNotFound, beat("g", "m1", 100))
		w.ok(join("g", "m1", "foo"))
		w.fails(kerr.UnknownMemberID, beat("g", "m9", 1))                                      // J-02
		w.fails(kerr.UnknownMemberID, beat("g", "m9", -1))                                     // J-03
		w.fails(kerr.GroupIDNotFound, beat("other", "m9", -1))                                 // J-03
		w.fails(kerr.FencedMemberEpoch, beat("g", "m1", 200))                                  // J-06
		assert.Len(w, w.describe("g").Members, 1, "a fenced heartbeat does not remove anyone") // J-06
	})
}

func TestVGate(t *testing.T) {
	with := func(req *kmsg.StreamsGroupHeartbeatRequest, change func(*kmsg.StreamsGroupHeartbeatRequest)) *kmsg.StreamsGroupHeartbeatRequest {
		change(req)
		return req
	}
	type request = kmsg.StreamsGroupHeartbeatRequest
	some := []kmsg.TaskIDs{{SubtopologyID: "s1", Partitions: []int32{0}}}
	inBubble(t, func(w *wire) {
		for _, tt := range []struct {
			name string
			req  *request
			want *kerr.Error
		}{
			{"V-04", join("g", "m", "__consumer_offsets"), kerr.StreamsInvalidTopology},
			{"V-05", with(join("g", "m", "foo"), func(r *request) {
				r.Topology.Subtopologies[0].StateChangelogTopics = []kmsg.TopicInfo{{Topic: "a b"}}
			}), kerr.StreamsInvalidTopology},
			{"V-08", with(join("g", "", "foo"), func(r *request) {
				r.Topology.Subtopologies[0].SourceTopicRegex = []string{"foo.*"}
			}), kerr.InvalidRequest},
			{"V-10 empty", join("", "m", "foo"), kerr.InvalidRequest},
			{"V-10 blank", join("  ", "m", "foo"), kerr.InvalidRequest},
			{"V-11 join", with(join("g", "m", "foo"), func(r *request) { r.InstanceID = kmsg.StringPtr("") }), kerr.InvalidRequest},
			{"V-11 leave", with(beat("g", "m", -1), func(r *request) { r.InstanceID = kmsg.StringPtr("") }), kerr.InvalidRequest},
			{"V-13", with(join("g", "m", "foo"), func(r *request) { r.RebalanceTimeoutMillis = -1 }), kerr.InvalidRequest},
			{"V-15 active", with(join("g", "m", "foo"), func(r *request) { r.ActiveTasks = some }), kerr.InvalidRequest},
			{"V-15 standby", with(join("g", "m", "foo"), func(r *request) { r.StandbyTasks = some }), kerr.InvalidRequest},
			{"V-15 warm-up", with(join("g", "m", "foo"), func(r *request) { r.WarmupTasks = some }), kerr.InvalidRequest},
			{"V-16", with(join("g", "m"), func(r *request) { r.Topology = nil }), kerr.InvalidRequest},
			{"V-17", with(join("g", "m", "foo"), func(r *request) {
				r.Topology.Subtopologies[0].StateChangelogTopics = []kmsg.TopicInfo{{Topic: "c", NumPartitions: 1}}
			}), kerr.StreamsInvalidTopology},
			{"V-18", beat("g", "m", -2), kerr.InvalidRequest},
			{"V-19", beat("g", "m", -3), kerr.InvalidRequest},
			{"V-20", with(beat("g", "m", 1), func(r *request) { r.ActiveTasks = []kmsg.TaskIDs{} }), kerr.InvalidRequest},
			{"V-21", with(beat("g", "m", 1), func(r *request) { r.Topology = join("g", "m", "foo").Topology }), kerr.InvalidRequest},
		} {
			// A request is looked at before it matters who coordinates the group.
			for node := range int32(3) {
				resp := w.ask(node, tt.req).(*kmsg.StreamsGroupHeartbeatResponse)
				assert.ErrorIs(w, kerr.ErrorForCode(resp.ErrorCode), tt.want, "%s on node %d", tt.name, node)
				assert.NotEmpty(w, text(resp.ErrorMessage), tt.name)
			}
			assert.Empty(w, w.list(nil, nil), "%s: no group comes of it", tt.name)
		}
	}, kfakeext.Nodes(3))
}

func TestRightsComeBeforeTheCoordinator(t *testing.T) {
	inBubble(t, func(w *wire) {
		for node := range int32(3) {
			resp := w.ask(node, join("g", "m", "a b")).(*kmsg.StreamsGroupHeartbeatResponse)
			code(w.T, kerr.GroupAuthorizationFailed, resp.ErrorCode) // V-03
		}
	}, kfakeext.Nodes(3), kfakeext.Authorize(func(kfakeext.Caller, kmsg.ACLOperation, kmsg.ACLResourceType, string) bool { return false }))
}

func TestV02ProtocolNotEnabled(t *testing.T) {
	t.Parallel()
	_, err := kfakeext.NewCluster(kfakeext.InProcess(), kfakeext.BrokerConfig("group.streams.num.standby.replicas", "99"))
	require.ErrorContains(t, err, "group.streams.num.standby.replicas")
}

func TestNotCoordinator(t *testing.T) {
	// rule 4-20
	inBubble(t, func(w *wire) {
		home := w.cl.CoordinatorFor("g")
		w.ok(join("g", "m1", "foo"))
		for node := range int32(3) {
			resp := w.ask(node, beat("g", "m1", 2)).(*kmsg.StreamsGroupHeartbeatResponse)
			req := kmsg.NewPtrStreamsGroupDescribeRequest()
			req.Groups = []string{"g"}
			described := w.ask(node, req).(*kmsg.StreamsGroupDescribeResponse).Groups[0]
			if node == home {
				code(w.T, nil, resp.ErrorCode)
				code(w.T, nil, described.ErrorCode)
				continue
			}
			code(w.T, kerr.NotCoordinator, resp.ErrorCode)
			code(w.T, kerr.NotCoordinator, described.ErrorCode)
		}
	}, kfakeext.Nodes(3))
}

// A moved coordinator builds the group again from the log. Nobody has to rejoin,
// no epoch moves, and sessions start anew.
func TestMovedCoordinator(t *testing.T) {
	t.Parallel()
	move := map[string]func(*wire){
		"told":      func(w *wire) { w.cl.RehashCoordinators() },
		"found out": func(w *wire) { w.cl.Cluster.RehashCoordinators() },
	}
	for name, rehash := range move {
		t.Run(name, func(t *testing.T) {
			var events []coordinator.Event
			inBubble(t, func(w *wire) {
				w.ok(join("g", "m1", "foo", "bar"))
				w.ok(beat("g", "m1", 2))
				before := w.describe("g")
				home := w.cl.CoordinatorFor("g")
				for w.cl.CoordinatorFor("g") == home {
					rehash(w)
				}
				time.Sleep(time.Second)
				code(w.T, kerr.NotCoordinator, w.ask(home, beat("g", "m1", 2)).(*kmsg.StreamsGroupHeartbeatResponse).ErrorCode)
				events = nil
				resp := w.ok(beat("g", "m1", 2))
				assert.Equal(w, int32(2), resp.MemberEpoch)
				assert.Nil(w, resp.ActiveTasks)
				assert.Equal(w, before, w.describe("g"))
				for _, e := range events {
					_, bumped := e.(coordinator.EpochBumped)
					assert.False(w, bumped, "%+v", e)
				}
				time.Sleep(44 * time.Second)
				w.state("g", coordinator.Stable)
				time.Sleep(2 * time.Second)
				w.state("g", coordinator.Empty)
			}, kfakeext.Nodes(3), kfakeext.OnEvent(func(e coordinator.Event) { events = append(events, e) }))
		})
	}
}

func TestTopicsComeAndGo(t *testing.T) {
	inBubble(t, func(w *wire) {
		resp := w.ok(join("g", "m1", "late")) // T-01
		require.Len(w, resp.Status, 1)
		assert.Equal(w, int8(1), resp.Status[0].StatusCode)
		assert.Contains(w, resp.Status[0].StatusDetail, "late")
		w.state("g", coordinator.NotReady)

		require.NoError(w, w.cl.CreateTopic("late", 2, nil)) // T-02
		time.Sleep(time.Second)                              // the assignment interval
		resp = w.ok(beat("g", "m1", resp.MemberEpoch))
		assert.Empty(w, resp.Status)
		assert.Equal(w, map[string][]int32{"s1": {0, 1}}, tasks(resp.ActiveTasks))

		// T-23, by a call that nobody sees: it shows after a moment.
		require.NoError(w, w.cl.Cluster.DeleteTopic("late"))
		time.Sleep(time.Second)
		resp = w.ok(beat("g", "m1", resp.MemberEpoch))
		require.Len(w, resp.Status, 1)
		assert.NotNil(w, resp.ActiveTasks)
		assert.Empty(w, resp.ActiveTasks)

		// By a request: at once.
		create := kmsg.NewPtrCreateTopicsRequest()
		create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "late", NumPartitions: 1, ReplicationFactor: 1}}
		w.ask(0, create)
		time.Sleep(time.Second)
		owned := beat("g", "m1", resp.MemberEpoch)
		owned.ActiveTasks, owned.StandbyTasks, owned.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		resp = w.ok(owned)
		assert.Empty(w, resp.Status)
	})
}

func TestTwoMembersShareTheTasks(t *testing.T) {
	inBubble(t, func(w *wire) {
		w.ok(join("g", "m1", "foo"))
		time.Sleep(time.Second)
		two := w.ok(join("g", "m2", "foo"))
		assert.Empty(w, two.ActiveTasks)
		one := w.ok(beat("g", "m1", 2))
		assert.Len(w, tasks(one.ActiveTasks)["s1"], 3)
		owned := beat("g", "m1", one.MemberEpoch)
		owned.ActiveTasks, owned.StandbyTasks, owned.WarmupTasks = one.ActiveTasks, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		assert.Equal(w, int32(3), w.ok(owned).MemberEpoch)
		two = w.ok(beat("g", "m2", two.MemberEpoch))
		assert.Len(w, tasks(two.ActiveTasks)["s1"], 3)
		w.state("g", coordinator.Stable)
	})
}

func TestVirtualNetwork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		vn := new(kfake.VirtualNetwork)
		cl := kfakeext.Start(t, kfakeext.VirtualNetwork(vn), kfakeext.Nodes(2), kfakeext.Topic("foo", 1))
		assert.Equal(t, []string{"localhost:9092", "localhost:9093"}, cl.Addrs())
		client, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:9093"), kgo.Dialer(vn.DialContext))
		require.NoError(t, err)
		t.Cleanup(client.Close)
		w := &wire{T: t, cl: cl, client: client}
		w.ok(join("g", "m1", "foo"))
	})
}

func TestAttach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		vn := new(kfake.VirtualNetwork)
		tap := kfakeext.NewTap()
		fake, err := kfake.NewCluster(kfake.ListenFn(tap.ListenFn(vn.Listen)), kfake.Ports(9092), kfake.SeedTopics(2, "foo"))
		require.NoError(t, err)
		defer fake.Close() // by its owner; the coordinator notices
		cl, err := kfakeext.Attach(fake, tap, kfakeext.BrokerConfig("group.streams.initial.rebalance.delay.ms", "0"))
		require.NoError(t, err)
		w := connect(t, cl, kgo.Dialer(vn.DialContext))
		w.ok(join("g", "m1", "foo"))
		w.client.Close()

		_, err = kfakeext.Attach(fake, tap)
		require.ErrorContains(t, err, "another cluster")
		_, err = kfakeext.Attach(fake, kfakeext.NewTap())
		require.ErrorContains(t, err, "through the tap")
		_, err = kfakeext.Attach(fake, tap, kfakeext.Nodes(3))
		require.ErrorContains(t, err, "Nodes")
	})
}

func TestControlsOfTestsRunFirst(t *testing.T) {
	inBubble(t, func(w *wire) {
		w.ok(join("g", "m1", "foo"))
		w.cl.ControlKey(88, func(req kmsg.Request) (kmsg.Response, error, bool) {
			r := req.ResponseKind().(*kmsg.StreamsGroupHeartbeatResponse)
			r.ErrorCode = kerr.FencedMemberEpoch.Code
			return r, nil, true
		})
		w.fails(kerr.FencedMemberEpoch, beat("g", "m1", 2))
		w.ok(beat("g", "m1", 2))

		seen := 0
		w.cl.Intercept(func(req kmsg.Request) (kmsg.Response, error, bool) {
			if req.Key() != 88 {
				return nil, nil, false
			}
			seen++
			if seen > 1 {
				return nil, nil, false
			}
			r := req.ResponseKind().(*kmsg.StreamsGroupHeartbeatResponse)
			r.ErrorCode = kerr.CoordinatorLoadInProgress.Code
			return r, nil, true
		})
		w.fails(kerr.CoordinatorLoadInProgress, beat("g", "m1", 2))
		w.ok(beat("g", "m1", 2))
		w.cl.Intercept(func(kmsg.Request) (kmsg.Response, error, bool) { panic("boom") })
		_, err := w.try(w.cl.CoordinatorFor("g"), beat("g", "m1", 2))
		require.Error(w, err, "the connection breaks, the process does not")
	})
}
