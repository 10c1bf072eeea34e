package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
)

func TestRulesOffsets(t *testing.T) {
	str := func(s string) *string { return &s }
	group := func(w *world) {
		w.topic("r", 6)
		w.topo = topo(0, sub("0", reads("foo"), writes("r")), sub("1", repartition("r", 6)))
		w.g10(
			memberSpec{id: "m", me: 10, pme: 10, state: unrevokedTasks, tasks: "0:0@10 0:1@7 1:2@7 | standby 0:5", pending: "0:3@8", target: "0:0,1 1:2"},
			memberSpec{id: "a", instance: "i", tasks: "0:4"})
	}
	var cases []testCase
	for _, c := range []struct {
		name       string
		c          Commit
		partitions string
		plain, txn *kerr.Error // version 9, version 6
	}{
		{"rule 17.1-4 from outside of the group", Commit{Epoch: -1}, "foo:0", kerr.UnknownMemberID, nil},
		{"rule 17.1-4 with a member id", Commit{Epoch: -1, Member: "x"}, "foo:0", kerr.UnknownMemberID, kerr.UnknownMemberID},
		{"rule 17.1-4 with an instance id", Commit{Epoch: -1, InstanceID: str("i")}, "foo:0", kerr.UnknownMemberID, kerr.UnknownMemberID},
		{"rule 17.1-5", Commit{Member: "x", Epoch: 10}, "foo:0", kerr.UnknownMemberID, kerr.UnknownMemberID},
		{"rule 17.1-7", Commit{Member: "m", Epoch: 10}, "foo:0 foo:5 bar:1 nowhere:3", nil, nil},
		{"rule 17.1-8", Commit{Member: "m", Epoch: 11}, "foo:0", kerr.StaleMemberEpoch, kerr.StaleMemberEpoch},
		{"rule 17.1-9 held since then", Commit{Member: "m", Epoch: 7}, "foo:1", nil, nil},
		{"rule 17.1-9 a repartition topic", Commit{Member: "m", Epoch: 9}, "r:2", nil, nil},
		{"rule 17.1-9 given later", Commit{Member: "m", Epoch: 9}, "foo:0", kerr.StaleMemberEpoch, kerr.StaleMemberEpoch},
		{"rule 17.1-9 before it was given", Commit{Member: "m", Epoch: 6}, "foo:1", kerr.StaleMemberEpoch, kerr.StaleMemberEpoch},
		{"rule 17.1-9 pending", Commit{Member: "m", Epoch: 8}, "foo:3", nil, nil},
		{"rule 17.1-9 pending, before", Commit{Member: "m", Epoch: 7}, "foo:3", kerr.StaleMemberEpoch, kerr.StaleMemberEpoch},
		{"rule 17.1-9 a standby", Commit{Member: "m", Epoch: 9}, "foo:5", kerr.StaleMemberEpoch, kerr.StaleMemberEpoch},
		{"rule 17.1-9 another member's", Commit{Member: "m", Epoch: 9}, "foo:4", kerr.StaleMemberEpoch, kerr.StaleMemberEpoch},
		{"rule 17.1-9 unknown topic", Commit{Member: "m", Epoch: 9}, "bar:1", kerr.StaleMemberEpoch, kerr.StaleMemberEpoch},
		{"rule 17.1-9 one bad partition", Commit{Member: "m", Epoch: 9}, "foo:1,3,5", kerr.StaleMemberEpoch, kerr.StaleMemberEpoch},
		{"rule 17.1-9 no partitions", Commit{Member: "m", Epoch: 1}, "", nil, nil},
		{"rule 17.1-10 another instance id", Commit{Member: "a", Epoch: 10, InstanceID: str("other")}, "foo:4", nil, nil},
	} {
		cases = append(cases, testCase{c.name, bothModes, func(w *world) {
			group(w)
			before := w.c.stateOf(groupID)
			w.wantCommit(c.plain, c.c, c.partitions)
			txn := c.c
			txn.Transactional, txn.Version = true, 6
			w.wantCommit(c.txn, txn, c.partitions)
			if c.txn == kerr.StaleMemberEpoch {
				txn.Version = 5
				w.wantCommit(kerr.IllegalGeneration, txn, c.partitions)
			}
			assert.Equal(w.t, before, w.c.stateOf(groupID))
		}})
	}
	runCases(t, append(
		cases,
		testCase{"rules 17.1-1 17.1-2 17.2-4 no group: left to the driver", bothModes, func(w *world) {
			for _, epoch := range []int32{-1, 0, 5} {
				_, handled := w.c.CheckCommit(Commit{Group: groupID, Member: "m", Epoch: epoch, Version: 9})
				assert.False(w.t, handled)
				_, handled = w.c.CheckFetch(groupID, str("m"), epoch)
				assert.False(w.t, handled)
			}
		}},
		testCase{"rule 17.1-3 no members", bothModes, func(w *world) {
			w.g10()
			for _, epoch := range []int32{-1, -2, -9} {
				w.wantCommit(nil, Commit{Epoch: epoch, Version: 2}, "foo:0")
				w.wantCommit(nil, Commit{Epoch: epoch, Member: "x", Transactional: true}, "foo:0")
			}
			w.wantCommit(kerr.UnknownMemberID, Commit{Epoch: 0}, "foo:0")
			w.wantCommit(kerr.UnknownMemberID, Commit{Epoch: 0, Transactional: true}, "foo:0")
		}},
		testCase{"rule 17.1-6 old versions", bothModes, func(w *world) {
			group(w)
			for v := int16(1); v < 9; v++ {
				w.wantCommit(kerr.UnsupportedVersion, Commit{Member: "m", Epoch: 10, Version: v}, "foo:0")
				w.wantCommit(kerr.UnsupportedVersion, Commit{Member: "m", Epoch: 99, Version: v}, "foo:0")
				w.wantCommit(kerr.UnknownMemberID, Commit{Member: "x", Epoch: 10, Version: v}, "foo:0")
			}
			w.wantCommit(nil, Commit{Member: "m", Epoch: 10, Transactional: true, Version: 1}, "foo:0")
		}},
		testCase{"rule 17.1-7 an absent static member", bothModes, func(w *world) {
			group(w)
			w.hb("a", -2, inst("i")).ok(-2)
			w.wantCommit(nil, Commit{Member: "a", Epoch: -2}, "foo:4")
			w.wantCommit(kerr.StaleMemberEpoch, Commit{Member: "a", Epoch: 10}, "foo:4")
		}},
		testCase{"rule 17.1-10 a commit does not prolong the session", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m", tasks: allNine})
			w.hb("m", 10).ok(10)
			w.after(44 * time.Second)
			w.wantCommit(nil, Commit{Member: "m", Epoch: 10}, "foo:0")
			w.after(time.Second).records("t22", "t21", "t19", "17", "20")
		}},
		testCase{"rules 17.2-1 17.2-2 17.2-3 fetch", bothModes, func(w *world) {
			group(w)
			for _, c := range []struct {
				member *string
				epoch  int32
				want   *kerr.Error
			}{
				{nil, -1, nil},
				{nil, -7, nil},
				{nil, 10, kerr.UnknownMemberID},
				{str("x"), -1, kerr.UnknownMemberID},
				{str(""), 10, kerr.UnknownMemberID},
				{str("m"), 10, nil},
				{str("m"), 9, kerr.StaleMemberEpoch},
				{str("m"), 11, kerr.StaleMemberEpoch},
				{str("m"), -1, kerr.StaleMemberEpoch},
			} {
				code, handled := w.c.CheckFetch(groupID, c.member, c.epoch)
				assert.True(w.t, handled)
				w.wantCode(c.want, code)
			}
		}},
		testCase{"rules 17.3-1 17.3-2 subscribed", bothModes, func(w *world) {
			w.topic("r", 6)
			w.topic("c", 6)
			w.topo = topo(0, sub("0", reads("foo"), writes("r", "sink"), changelog("c")), sub("1", repartition("r", 6)))
			w.g10(memberSpec{id: "m", tasks: "0:0-5 1:0-5"})
			for topic, want := range map[string]bool{"foo": true, "r": true, "c": false, "sink": false, "bar": false} {
				assert.Equal(w.t, want, w.c.Subscribed(groupID, topic), topic)
			}
			w.hb("m", -1).ok(-1)
			assert.False(w.t, w.c.Subscribed(groupID, "foo"))
			assert.False(w.t, w.c.Subscribed("none", "foo"))
		}},
	))
}

func TestRulesDescribe(t *testing.T) {
	runCases(t, []testCase{
		{"rules 18.1-2 18.1-3 18.1-4 18.1-12 D19 errors", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			for _, c := range []struct {
				group  string
				access Access
				want   *kerr.Error
				text   bool
			}{
				{groupID, denials{"DESCRIBE GROUP g"}, kerr.GroupAuthorizationFailed, false},
				{"", denials{"DESCRIBE GROUP"}, kerr.GroupAuthorizationFailed, false},
				{"", nil, kerr.InvalidGroupID, false},
				{"none", nil, kerr.GroupIDNotFound, true},
				{groupID, denials{"DESCRIBE TOPIC bar"}, kerr.TopicAuthorizationFailed, true},
			} {
				d := w.c.Describe(c.group, c.access)
				w.wantCode(c.want, d.ErrorCode)
				assert.Equal(w.t, c.text, d.ErrorMessage != nil)
				d.ErrorMessage, d.ErrorCode = nil, 0
				want := kmsg.NewStreamsGroupDescribeResponseGroup()
				want.Group, want.Members = c.group, []kmsg.StreamsGroupDescribeResponseGroupMember{}
				assert.Equal(w.t, want, d, "an error carries nothing else")
			}
		}},
		{"rule 18.1-6 state and epochs", bothModes, func(w *world) {
			w.group(groupSpec{ge: 12, ae: 11, members: []memberSpec{{id: "m1", tasks: allNine}}})
			d := w.describe()
			assert.Equal(w.t, "Assigning", d.State)
			assert.EqualValues(w.t, 12, d.Epoch)
			assert.EqualValues(w.t, 11, d.AssignmentEpoch)
		}},
		{"rules 18.1-7 D18 Q14 the topology", bothModes, func(w *world) {
			w.topo = topo(0,
				sub("z", repartition("r", 0), changelog("c2"), changelog("c1")),
				sub("a", reads("foo", "bar"), writes("s", "r")))
			w.target("m1", "a:0-5 z:0-5")
			w.join("m1").ok(2).status(3)
			show := func() []kmsg.StreamsGroupDescribeResponseGroupTopologySubtopology {
				return w.describe().Topology.Subtopologies
			}
			s := show()
			assert.Equal(w.t, []string{"a", "z"}, []string{s[0].SubtopologyID, s[1].SubtopologyID})
			assert.Equal(w.t, []string{"bar", "foo"}, s[0].SourceTopics)
			assert.Equal(w.t, []string{"r", "s"}, s[0].RepartitionSinkTopics)
			assert.Equal(w.t, "c1", s[1].StateChangelogTopics[0].Topic)
			assert.Zero(w.t, s[1].RepartitionSourceTopics[0].NumPartitions, "as stored")
			for _, topic := range []string{"r", "c1", "c2"} {
				w.topic(topic, 6)
			}
			w.hb("m1", 2).ok(3).status()
			assert.EqualValues(w.t, 6, show()[1].RepartitionSourceTopics[0].NumPartitions, "as decided")
			// A loaded group shows them as soon as a heartbeat has looked at the
			// topics, although it writes nothing.
			w.move()
			assert.Zero(w.t, show()[1].RepartitionSourceTopics[0].NumPartitions)
			w.hb("m1", 3).ok(3).records()
			assert.EqualValues(w.t, 6, show()[1].RepartitionSourceTopics[0].NumPartitions)
		}},
		{"rules 18.1-7 Q12 no topology", bothModes, func(w *world) {
			w.replay(&record.GroupMetadata{Group: groupID, Epoch: 2, ValidatedTopologyEpoch: -1, StoredDescriptionTopologyEpoch: -1, FailedDescriptionTopologyEpoch: -1})
			assert.Nil(w.t, w.describe().Topology)
		}},
		{"rule 18.1-8 members", bothModes, func(w *world) {
			w.g10(
				memberSpec{id: "m2", instance: "i", rack: "r", tags: "a=1 b=2", endpoint: "h:7", timeout: 9, state: unrevokedTasks, tasks: "s1:2,0 s2:1 | standby s1:1 | warmup s2:0", pending: "s1:3", target: "s1:4"},
				memberSpec{id: "m1", tasks: "-", target: "-"})
			w.hb("m2", 10, offsets("s2_0=5", "s1_0=6")).ok(10)
			d := w.describe()
			require.Len(w.t, d.Members, 2)
			assert.Equal(w.t, "m1", d.Members[0].MemberID)
			assert.Nil(w.t, d.Members[0].UserEndpoint)
			assert.Nil(w.t, d.Members[0].InstanceID)
			assert.Equal(w.t, []kmsg.TaskIDs{}, d.Members[0].TargetAssignment.ActiveTasks)
			m := d.Members[1]
			assert.Equal(w.t, [3]string{"i", "r", "h"}, [3]string{*m.InstanceID, *m.RackID, m.UserEndpoint.Host})
			assert.Equal(w.t, []string{"a", "b"}, []string{m.ClientTags[0].Key, m.ClientTags[1].Key})
			assert.Equal(w.t, []kmsg.TaskIDs{{SubtopologyID: "s1", Partitions: []int32{0, 2}}, {SubtopologyID: "s2", Partitions: []int32{1}}}, m.Assignment.ActiveTasks)
			assert.Equal(w.t, []kmsg.TaskIDs{{SubtopologyID: "s1", Partitions: []int32{1}}}, m.Assignment.StandbyTasks)
			assert.Equal(w.t, []kmsg.TaskIDs{{SubtopologyID: "s2", Partitions: []int32{0}}}, m.Assignment.WarmupTasks)
			assert.Equal(w.t, []kmsg.TaskIDs{{SubtopologyID: "s1", Partitions: []int32{4}}}, m.TargetAssignment.ActiveTasks)
			assert.Equal(w.t, []string{"s1", "s2"}, []string{m.TaskOffsets[0].SubtopologyID, m.TaskOffsets[1].SubtopologyID})
			assert.False(w.t, m.IsClassic)
		}},
		{"rules 18.1-10 25-7 the assignor", bothModes, func(w *world) {
			w.g10()
			for _, c := range [][2]string{{"other", "other"}, {"gone", "stub"}} {
				w.groupConfig("streams.assignor.name", c[0])
				assert.Equal(w.t, c[1], *w.describe().AssignorName)
			}
		}},
		{"rule 18.1-13 not before it is appended", bothModes, func(w *world) {
			w.target("m1", allNine)
			w.appendFails = kerr.RequestTimedOut
			w.join("m1").err(kerr.CoordinatorNotAvailable)
			w.wantCode(kerr.GroupIDNotFound, w.c.Describe(groupID, nil).ErrorCode)
			w.join("m1").ok(2)
			require.Len(w.t, w.describe().Members, 1)
			w.appendFails = kerr.RequestTimedOut
			w.target("m1", "s1:0-5", "m2", "s2:0-2")
			w.join("m2").err(kerr.CoordinatorNotAvailable)
			assert.Len(w.t, w.describe().Members, 1)
			assert.EqualValues(w.t, 2, w.describe().Epoch)
		}},
		{"rules 18.2 Q11 list", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.target("m1", allNine)
			w.join("m1", func(r *Request) { r.Group = "a" })
			assert.Equal(w.t, []Listed{{"a", Stable}, {groupID, Stable}}, w.c.List())
		}},
		{"rules 18.3-2 18.3-3 18.3-5 18.3-6 24.1-14 delete", bothModes, func(w *world) {
			_, handled := w.c.Delete(groupID, &w.fx)
			assert.False(w.t, handled)
			w.g10(memberSpec{id: "m1", tasks: allNine})
			code, _ := w.delete()
			w.wantCode(kerr.NonEmptyGroup, code)
			w.hb("m1", -1).ok(-1)
			code, handled = w.c.Delete(groupID, &w.fx)
			assert.True(w.t, handled)
			assert.Zero(w.t, code)
			a := &answer{w: w}
			w.finish(a, nil)
			a.records("t20", "t17", "t23")
			// What is left is as if it had never been.
			w.target("m1", allNine)
			w.join("m1").ok(2)
		}},
		{"rules 19-2 19-6 the id becomes classic", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			code, handled := w.c.Convert(groupID, &w.fx)
			assert.True(w.t, handled)
			w.wantCode(kerr.InconsistentGroupProtocol, code)
			w.hb("m1", -1).ok(-1)
			code, handled = w.c.Convert(groupID, &w.fx)
			assert.True(w.t, handled)
			assert.Zero(w.t, code)
			a := &answer{w: w}
			w.finish(a, nil)
			a.records("t20", "t17", "t23")
			// And back.
			w.kind = EmptyClassicGroup
			w.target("m1", allNine)
			w.join("m1", endpoint("h:1")).ok(2).endpointEpoch(0) // Q7
		}},
	})
}

func TestRulesDeviations(t *testing.T) {
	runCases(t, []testCase{
		{"D7 status codes", bothModes, func(*world) {
			assert.Equal(t, [7]int8{0, 1, 2, 3, 4, 5, 6}, [7]int8{
				statusStaleTopology, topics.StatusMissingSourceTopics, topics.StatusIncorrectlyPartitionedTopics, topics.StatusMissingInternalTopics,
				statusShutdown, statusAssignmentDelayed, statusMissingClientTags,
			})
		}},
		{"D8 a fenced member stays", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.hb("m1", 11).err(kerr.FencedMemberEpoch)
			w.hb("m1", 10).ok(10)
		}},
		{"D10 the client makes the member id", bothModes, func(w *world) {
			refusedWithoutTrace(w, kerr.InvalidRequest, func() *answer { return w.join("") })
			w.g10(memberSpec{id: "m1", tasks: allNine})
			assert.Equal(w.t, "m1", w.hb("m1", 10).ok(10).resp.MemberID)
		}},
		{"D14 D15 D16 the wire format", bothModes, func(w *world) {
			r := w.joinRequest("m1", endpoint("h:65535"), tags("k=v"), offsets("s1_0=3"), seen(7))
			r.Topology.Subtopologies[0].StateChangelogTopics = []kmsg.TopicInfo{{Topic: "c", ReplicationFactor: 3}}
			r.Topology.Subtopologies[0].CopartitionGroups = []kmsg.StreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup{{SourceTopics: []int16{0}}}
			read := kmsg.NewPtrStreamsGroupHeartbeatRequest()
			read.Version = r.Version
			require.NoError(w.t, read.ReadFrom(r.AppendTo(nil)))
			assert.EqualValues(w.t, 65535, read.UserEndpoint.Port)
			assert.EqualValues(w.t, 7, read.EndpointInformationEpoch)
			assert.EqualValues(w.t, 3, read.Topology.Subtopologies[0].StateChangelogTopics[0].ReplicationFactor)
			w.topic("c", 6)
			w.target("m1", allNine)
			a := w.send(&Request{StreamsGroupHeartbeatRequest: read, ClientID: "client", ClientHost: clientHost}).ok(2)
			resp := kmsg.NewStreamsGroupHeartbeatResponse()
			resp.Version = 1
			require.NoError(w.t, resp.ReadFrom(a.resp.AppendTo(nil)))
			assert.Equal(w.t, a.resp.AppendTo(nil), resp.AppendTo(nil), "every field survives the wire")
			quiet := w.hb("m1", 2).ok(2).resp
			resp = kmsg.NewStreamsGroupHeartbeatResponse()
			resp.Version = 1
			require.NoError(w.t, resp.ReadFrom(quiet.AppendTo(nil)))
			assert.NotNil(w.t, resp.Status, "not null")
			assert.Nil(w.t, resp.ActiveTasks)
		}},
		{"D12 reported lists that overlap", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			for _, tasks := range []string{"s1:0-5 | standby s1:5", "s1:1 | warmup s1:0,1", "- | standby s2:0 | warmup s2:0"} {
				a := w.hb("m1", 10, owned(tasks))
				if w.policy == Kafka {
					a.ok(10)
				} else {
					a.err(kerr.InvalidRequest)
				}
			}
			w.hb("m1", 10, owned("s1:0 | standby s1:1 | warmup s2:0")).ok(10)
		}},
		{"D21 a classic group with members is not migrated", bothModes, func(w *world) {
			w.kind = ClassicGroup
			refusedWithoutTrace(w, kerr.GroupIDNotFound, func() *answer { return w.join("m1") })
		}},
		{"D25 another setting of an internal topic is told once", kipMode, func(w *world) {
			w.topic("c", 6)
			topic := w.topics["c"]
			topic.Configs = map[string]string{"cleanup.policy": "delete"}
			w.topics["c"] = topic
			w.topic("unrelated", 1)
			w.topo = topo(0, sub("s1", reads("foo"), func(s *wireSub) {
				s.StateChangelogTopics = []kmsg.TopicInfo{{Topic: "c", Configs: []kmsg.TopicInfoConfig{{Key: "cleanup.policy", Value: "compact"}}}}
			}))
			w.target("m1", "s1:0-5")
			a := w.join("m1").ok(2).status()
			assert.Equal(w.t, TopicSettingDiffers{Group: groupID, Topic: "c", Name: "cleanup.policy", Want: "compact", Have: "delete"}, the[TopicSettingDiffers](a))
			w.topic("another", 1)
			assert.Empty(w.t, w.hb("m1", 2).ok(2).events)
		}},
		{"D26 D34 no right to create and inconsistent topics are statuses", bothModes, func(w *world) {
			w.access = denials{"CREATE CLUSTER", "CREATE TOPIC"}
			w.topo = topo(0, sub("s1", reads("foo"), changelog("c")))
			w.join("m1").ok(2).status(3)
			w.topic("c", 1)
			w.hb("m1", 2).ok(3).status(2)
		}},
		{"D28 a topic change is seen by its hash", bothModes, func(w *world) {
			w.target("m1", allNine)
			a := w.join("m1").ok(2)
			assert.Equal(w.t, topics.Hash([]string{"bar", "foo"}, w.image), a.recs[2].(*record.GroupMetadata).MetadataHash)
			assert.EqualValues(w.t, 0, a.recs[2].(*record.GroupMetadata).ValidatedTopologyEpoch)
		}},
		{"D30 the defaults delay", bothModes, func(w *world) {
			w.broker = map[string]string{"group.streams.assignors": "stub"}
			w.c = w.newCoordinator()
			w.join("m1").ok(1).status(5)
			w.target("m1", allNine)
			w.hb("m1", 1)
			w.after(2999 * time.Millisecond).records()
			w.after(time.Millisecond).records("21", "20(2, now)")
			w.target("m1", "s1:0-5", "m2", "s2:0-2")
			w.join("m2").ok(2).status(5)
			w.after(999 * time.Millisecond)
			w.hb("m2", 2).ok(2).status(5)
			w.after(time.Millisecond)
			w.hb("m2", 2).ok(3).status()
		}},
		{"rule 9-1 D31 how many topics the details name", bothModes, func(w *world) {
			w.topo = topo(0, sub("s1", reads("e", "c", "a", "d", "b")))
			a := w.join("m1").ok(2).status(1).detail(1, "a", "b", "c")
			w.topo = topo(0, sub("s1", reads("foo"), changelog("y5"), changelog("y1"), changelog("y4"), changelog("y2"), changelog("y3")))
			b := w.join("m1", func(r *Request) { r.Group = "other" }).ok(2).status(3)
			if w.policy == KIP1071 {
				a.detail(1, "a", "b", "c", "d", "e")
				b.detail(3, "y1", "y2", "y3", "y4", "y5")
				return
			}
			a.detail(1, "c", "2")
			b.detail(3, "2")
			assert.NotContains(w.t, a.resp.Status[0].StatusDetail, "e,")
		}},
		{"rule 9-10 D33 an empty topology", bothModes, func(w *world) {
			w.topo = topo(0)
			w.target()
			w.join("m1").ok(2).tasks("-").status()
			w.wantState(Stable)
		}},
		{"D35 shutdown with a regular heartbeat", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.hb("m1", 10, shutdown()).ok(10).status(4)
		}},
		{"Q4 rule 9.1-3 which fixed topics count", bothModes, func(w *world) {
			// A group of open topics while another topic of the topology has a
			// count.
			w.topic("six", 6)
			w.topic("two", 2)
			w.topo = topo(0,
				sub("w1", reads("six"), writes("o1")), sub("w2", reads("two"), writes("o2", "f")),
				sub("r1", repartition("o1", 0), repartition("o2", 0), copartitioned(nil, []int16{0, 1})),
				sub("r2", repartition("f", 4)))
			want := map[string]int32{"o1": 6, "o2": 6, "f": 4}
			if w.policy == Kafka {
				want["o1"], want["o2"] = 4, 4
			}
			got := map[string]int32{}
			for _, n := range w.join("m1").ok(2).status(3).create {
				got[n.Name] = n.Partitions
			}
			assert.Equal(w.t, want, got)
		}},
		{"rule 9.1-1 an empty copartition group", bothModes, func(w *world) {
			w.topo = topo(0, sub("s1", reads("foo", "bar"), copartitioned(nil, nil)))
			w.target("m1", "s1:0-5")
			w.join("m1").ok(2).status()
		}},
		{"Q8 host, port and client id", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine, endpoint: "h:1"})
			w.target("m1", allNine)
			w.hb("m1", 10, endpoint("h:2")).ok(11)
			w.hb("m1", 11, func(r *Request) { r.ClientID = "other" }).ok(12)
		}},
	})
}
