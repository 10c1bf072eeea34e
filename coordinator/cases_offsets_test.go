package coordinator

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// wantCommit checks a commit of the partitions, as in "input:0,1".
func (w *world) wantCommit(want *kerr.Error, c Commit, partitions string) {
	w.t.Helper()
	c.Group = groupID
	if c.Version == 0 {
		c.Version = 9
	}
	c.Partitions = func(yield func(string, int32) bool) {
		for _, p := range parseTasks(partitions) {
			if !yield(p.Subtopology, p.Partition) {
				return
			}
		}
	}
	code, handled := w.c.CheckCommit(c)
	assert.True(w.t, handled)
	w.wantCode(want, code)
}

func TestOffsets(t *testing.T) {
	group := func(w *world, m memberSpec) {
		w.topic("input", 2)
		w.topo = topo(0, sub("0", reads("input")))
		m.id = "m"
		w.group(groupSpec{ge: 10, members: []memberSpec{m}})
	}
	str := func(s string) *string { return &s }
	check := func(name string, m memberSpec, want *kerr.Error, c Commit, partitions string) testCase {
		return testCase{name, bothModes, func(w *world) {
			group(w, m)
			w.wantCommit(want, c, partitions)
		}}
	}
	runCases(t, []testCase{
		{"O-01 empty group, no epoch", bothModes, func(w *world) {
			w.g10()
			w.wantCommit(nil, Commit{Epoch: -1}, "foo:0")
		}},
		{"O-02 empty group, a member", bothModes, func(w *world) {
			w.g10()
			w.wantCommit(kerr.UnknownMemberID, Commit{Member: "m", Epoch: 0}, "foo:0")
		}},
		check("O-03 members exist, no member id", memberSpec{me: 2}, kerr.UnknownMemberID, Commit{Epoch: -1}, "input:0"),
		check("O-03 members exist, no member id, empty instance", memberSpec{me: 2}, kerr.UnknownMemberID, Commit{Epoch: -1, InstanceID: str("")}, "input:0"),
		check("O-04 current epoch", memberSpec{me: 2}, nil, Commit{Member: "m", Epoch: 2}, "input:0"),
		check("O-05 epoch ahead", memberSpec{me: 1}, kerr.StaleMemberEpoch, Commit{Member: "m", Epoch: 10}, "input:0"),
		check("O-06 version too old", memberSpec{me: 2}, kerr.UnsupportedVersion, Commit{Member: "m", Epoch: 2, Version: 8}, "input:0"),
		check("O-07 behind the assignment epoch", memberSpec{me: 2, tasks: "0:0@2 0:1@1"}, kerr.StaleMemberEpoch, Commit{Member: "m", Epoch: 1}, "input:0"),
		check("O-08 not behind the assignment epoch", memberSpec{me: 2, tasks: "0:0@2 0:1@1"}, nil, Commit{Member: "m", Epoch: 1}, "input:1"),
		check("O-09 one bad partition", memberSpec{me: 2, tasks: "0:0@2 0:1@1"}, kerr.StaleMemberEpoch, Commit{Member: "m", Epoch: 1}, "input:0,1"),
		check("O-09 one bad partition, first good", memberSpec{me: 2, tasks: "0:0@1 0:1@2"}, kerr.StaleMemberEpoch, Commit{Member: "m", Epoch: 1}, "input:0,1"),
		check("O-10 transactional, one bad partition", memberSpec{me: 2, tasks: "0:0@2 0:1@1"}, kerr.StaleMemberEpoch, Commit{Member: "m", Epoch: 1, Transactional: true}, "input:0,1"),
		check("O-11 unknown topic", memberSpec{me: 2, tasks: "0:0@1"}, kerr.StaleMemberEpoch, Commit{Member: "m", Epoch: 1}, "unknown:0"),
		check("O-12 task not held", memberSpec{me: 2, tasks: "0:0@1"}, kerr.StaleMemberEpoch, Commit{Member: "m", Epoch: 1}, "input:1"),
		check("O-13 well behind, tasks held all along", memberSpec{me: 5, tasks: "0:0,1@2"}, nil, Commit{Member: "m", Epoch: 2}, "input:0,1"),
		check("O-14 pending revocation", memberSpec{me: 5, state: unrevokedTasks, tasks: "-", pending: "0:0@2"}, nil, Commit{Member: "m", Epoch: 2}, "input:0"),
		check("O-15 standbys commit nothing", memberSpec{me: 5, tasks: "- | standby 0:0"}, kerr.StaleMemberEpoch, Commit{Member: "m", Epoch: 2}, "input:0"),
		check("O-16 transactional, outside of the group", memberSpec{me: 2}, nil, Commit{Epoch: -1, Transactional: true}, "input:0"),
		check("O-16 transactional, with an instance id", memberSpec{me: 2}, kerr.UnknownMemberID, Commit{Epoch: -1, Transactional: true, InstanceID: str("i")}, "input:0"),
		check("O-17 transactional, ahead, version 5", memberSpec{me: 1}, kerr.IllegalGeneration, Commit{Member: "m", Epoch: 10, Transactional: true, Version: 5}, "input:0"),
		check("O-17 transactional, ahead, version 6", memberSpec{me: 1}, kerr.StaleMemberEpoch, Commit{Member: "m", Epoch: 10, Transactional: true, Version: 6}, "input:0"),
		{"O-18 no group", bothModes, func(w *world) {
			_, handled := w.c.CheckCommit(Commit{Group: groupID, Member: "m", Epoch: 5, Version: 9})
			assert.False(w.t, handled)
		}},
		{"an absent static member commits", bothModes, func(w *world) {
			group(w, memberSpec{me: 2, instance: "i", tasks: "0:0,1"})
			w.hb("m", -2, inst("i")).ok(-2)
			w.wantCommit(nil, Commit{Member: "m", Epoch: -2}, "input:0")
		}},
		{"O-19 O-20 O-21 O-22 fetch", bothModes, func(w *world) {
			group(w, memberSpec{me: 2})
			fetch := func(member *string, epoch int32, want *kerr.Error) {
				w.t.Helper()
				code, handled := w.c.CheckFetch(groupID, member, epoch)
				assert.True(w.t, handled)
				w.wantCode(want, code)
			}
			fetch(nil, -1, nil)
			fetch(str("other"), 2, kerr.UnknownMemberID)
			fetch(str("m"), 10, kerr.StaleMemberEpoch)
			fetch(str("m"), 1, kerr.StaleMemberEpoch)
			fetch(str("m"), 2, nil)
			_, handled := w.c.CheckFetch("none", str("m"), 2)
			assert.False(w.t, handled)
		}},
		{"O-20 a member that is not yet committed", bothModes, func(w *world) {
			w.topo = topo(0)
			w.g10()
			w.appendFails = kerr.NotEnoughReplicas
			w.target()
			w.join("m").err(kerr.CoordinatorNotAvailable)
			code, _ := w.c.CheckFetch(groupID, str("m"), 0)
			w.wantCode(kerr.UnknownMemberID, code)
		}},
		{"O-23 subscribed topics", bothModes, func(w *world) {
			w.topo = topo(0, sub("0", reads("foo"), writes("r"), changelog("c")), sub("1", repartition("r", 6)))
			w.topic("r", 6)
			w.topic("c", 6)
			w.g10(memberSpec{id: "m1", tasks: "0:0-5 1:0-5"})
			assert.True(w.t, w.c.Subscribed(groupID, "foo"))
			assert.True(w.t, w.c.Subscribed(groupID, "r"))
			assert.False(w.t, w.c.Subscribed(groupID, "c"))
			assert.False(w.t, w.c.Subscribed(groupID, "bar"))
			assert.False(w.t, w.c.Subscribed("none", "foo"))
			w.hb("m1", -1).ok(-1)
			assert.False(w.t, w.c.Subscribed(groupID, "foo"), "an empty group reads nothing")
		}},
		{"O-24 topics that patterns match are subscribed", kipMode, func(w *world) {
			w.topo = topo(0, sub("0", pattern("fo+")))
			w.target("m1", "0:0-5")
			w.join("m1").ok(2)
			assert.True(w.t, w.c.Subscribed(groupID, "foo"))
			w.target("m1", "0:0,1", "m2", "0:2-5")
			w.join("m2").ok(3)
			w.hb("m1", 2, owned("0:0,1")).ok(3)
			w.wantCommit(nil, Commit{Member: "m1", Epoch: 2}, "foo:0")
		}},
	})
}

func (w *world) wantCode(want *kerr.Error, code int16) {
	w.t.Helper()
	if want == nil {
		assert.Zero(w.t, code, "%v", kerr.ErrorForCode(code))
		return
	}
	assert.Equal(w.t, want, kerr.ErrorForCode(code))
}

func TestSharingAGroupID(t *testing.T) {
	joinOver := func(k GroupKind, want *kerr.Error) func(w *world) {
		return func(w *world) {
			w.kind = k
			w.target("m1", allNine)
			if want != nil {
				refusedWithoutTrace(w, want, func() *answer { return w.join("m1") })
				return
			}
			w.join("m1").ok(2).tasks(allNine)
		}
	}
	runCases(t, []testCase{
		{"G-01 empty classic group", bothModes, joinOver(EmptyClassicGroup, nil)},
		{"G-02 classic group with members", bothModes, joinOver(ClassicGroup, kerr.GroupIDNotFound)},
		{"G-03 empty classic group, a regular heartbeat", bothModes, func(w *world) {
			w.kind = EmptyClassicGroup
			refusedWithoutTrace(w, kerr.GroupIDNotFound, func() *answer { return w.hb("m1", 5) })
		}},
		{"G-04 consumer group", bothModes, joinOver(OtherGroup, kerr.GroupIDNotFound)},
		{"G-14 group of commits", bothModes, joinOver(SimpleGroup, nil)},
		{"G-08 an empty streams group becomes classic", bothModes, func(w *world) {
			w.g10()
			code, handled := w.c.Convert(groupID, &w.fx)
			assert.True(w.t, handled)
			assert.Zero(w.t, code)
			a := &answer{w: w}
			w.finish(a, nil)
			a.records("t20", "t17", "t23")
			assert.Equal(w.t, GroupDeleted{Group: groupID}, the[GroupDeleted](a))
			assert.False(w.t, w.c.Has(groupID))
		}},
		{"G-09 a streams group with members does not", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			code, handled := w.c.Convert(groupID, &w.fx)
			assert.True(w.t, handled)
			w.wantCode(kerr.InconsistentGroupProtocol, code)
			assert.Empty(w.t, w.fx.Records)
			_, handled = w.c.Convert("none", &w.fx)
			assert.False(w.t, handled)
		}},
	})
}

func TestDescribeListDelete(t *testing.T) {
	runCases(t, []testCase{
		{"Q-01 state sequence", bothModes, func(w *world) {
			meta := func(te, vte, ge int32) *record.GroupMetadata {
				return &record.GroupMetadata{Group: groupID, Epoch: ge, ValidatedTopologyEpoch: vte, StoredDescriptionTopologyEpoch: -1, FailedDescriptionTopologyEpoch: -1}
			}
			w.replay(meta(0, -1, 1))
			w.wantState(Empty)
			w.replay(memberSpec{id: "m1", tasks: "-", target: "-", me: 2}.records(1)[0])
			w.wantState(NotReady)
			w.replay(record.FromWire(groupID, topo(1)), meta(1, 1, 1), &record.TargetAssignmentMetadata{Group: groupID, AssignmentEpoch: 1})
			w.replay(memberSpec{id: "m1", tasks: "-", me: 2}.records(1)[1])
			w.wantState(Reconciling)
			w.replay(meta(1, 1, 2))
			w.wantState(Assigning)
			w.replay(&record.TargetAssignmentMetadata{Group: groupID, AssignmentEpoch: 2})
			w.wantState(Stable)
			for _, typ := range []record.Type{record.TypeCurrentAssignment, record.TypeTargetAssignment, record.TypeMemberMetadata} {
				w.replay(tombstone(typ, groupID, "m1"))
			}
			w.wantState(Empty)
			w.check()
		}},
		{"Q-02 Q-03 describe", bothModes, func(w *world) {
			w.target("m1", allNine)
			w.appendFails = kerr.NotEnoughReplicas
			w.join("m1").err(kerr.CoordinatorNotAvailable)
			assert.Equal(w.t, kerr.GroupIDNotFound.Code, w.c.Describe(groupID, nil).ErrorCode)
			w.join("m1", rack("r"), endpoint("h:1"), tags("b=2", "a=1")).ok(2)
			w.hb("m1", 2, offsets("s1_0=3"), ends("s1_0=5")).ok(2).records()
			d := w.describe()
			assert.Equal(w.t, "Stable", d.State)
			assert.EqualValues(w.t, 2, d.Epoch)
			assert.EqualValues(w.t, 2, d.AssignmentEpoch)
			require.Len(w.t, d.Members, 1)
			m := d.Members[0]
			assert.Equal(w.t, "m1", m.MemberID)
			assert.EqualValues(w.t, 2, m.MemberEpoch)
			assert.Nil(w.t, m.InstanceID)
			assert.Equal(w.t, "r", *m.RackID)
			assert.Equal(w.t, "client", m.ClientID)
			assert.Equal(w.t, clientHost, m.ClientHost)
			assert.Zero(w.t, m.TopologyEpoch)
			assert.Equal(w.t, "p1", m.ProcessID)
			assert.Equal(w.t, "h", m.UserEndpoint.Host)
			assert.EqualValues(w.t, 1, m.UserEndpoint.Port)
			require.Len(w.t, m.ClientTags, 2)
			assert.Equal(w.t, "a", m.ClientTags[0].Key, "sorted")
			assert.EqualValues(w.t, 3, m.TaskOffsets[0].Offset)
			assert.EqualValues(w.t, 5, m.TaskEndOffsets[0].Offset)
			assert.Equal(w.t, allNine, showTasks(listFromWire(m.Assignment.ActiveTasks)))
			assert.Equal(w.t, allNine, showTasks(listFromWire(m.TargetAssignment.ActiveTasks)))
			assert.NotNil(w.t, m.TargetAssignment.StandbyTasks)
			assert.False(w.t, m.IsClassic)
		}},
		{"Q-04 topology source", bothModes, func(w *world) {
			w.topo = topo(0, sub("s2", repartition("r", 0), changelog("c")), sub("s1", reads("foo"), writes("r")))
			w.join("m1").ok(2).status(3)
			describedCount := func() (int32, int32) {
				s := w.describe().Topology.Subtopologies
				require.Len(w.t, s, 2)
				assert.Equal(w.t, "s1", s[0].SubtopologyID)
				return s[1].RepartitionSourceTopics[0].NumPartitions, s[1].StateChangelogTopics[0].NumPartitions
			}
			r, c := describedCount()
			assert.Zero(w.t, r)
			assert.Zero(w.t, c)
			w.topic("r", 6)
			w.topic("c", 6)
			w.target("m1", "s1:0-5 s2:0-5")
			w.hb("m1", 2).ok(3).status()
			r, c = describedCount()
			assert.EqualValues(w.t, 6, r)
			assert.EqualValues(w.t, 6, c)
		}},
		{"Q-04 D20 patterns and what they match", kipMode, func(w *world) {
			w.topo = topo(0, sub("s1", reads("bar"), pattern("fo+")))
			w.target("m1", "s1:0-5")
			w.join("m1").ok(2)
			s := w.describe().Topology.Subtopologies[0]
			assert.Equal(w.t, []string{"bar", "foo"}, s.SourceTopics)
		}},
		{"Q-06 Q-07 errors", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			assert.Equal(w.t, kerr.InvalidGroupID.Code, w.c.Describe("", nil).ErrorCode)
			d := w.c.Describe("unknown", nil)
			assert.Equal(w.t, kerr.GroupIDNotFound.Code, d.ErrorCode)
			assert.NotNil(w.t, d.ErrorMessage)
			assert.Equal(w.t, kerr.GroupAuthorizationFailed.Code, w.c.Describe(groupID, grants{"DESCRIBE TOPIC foo"}).ErrorCode)
			d = w.c.Describe(groupID, grants{"DESCRIBE GROUP g", "DESCRIBE TOPIC foo"})
			assert.Equal(w.t, kerr.TopicAuthorizationFailed.Code, d.ErrorCode)
			assert.Empty(w.t, d.Members)
			assert.Nil(w.t, d.Topology)
			assert.Zero(w.t, d.Epoch)
			assert.Nil(w.t, d.AssignorName)
			assert.Zero(w.t, w.c.Describe(groupID, grants{"DESCRIBE GROUP g", "DESCRIBE TOPIC foo", "DESCRIBE TOPIC bar"}).ErrorCode)
		}},
		{"Q-08 list", bothModes, func(w *world) {
			w.group(groupSpec{ge: 11, members: []memberSpec{{id: "m1", me: 10, tasks: allNine}}})
			assert.Equal(w.t, []Listed{{groupID, Reconciling}}, w.c.List())
			assert.Equal(w.t, "reconciling", Reconciling.FilterName())
			assert.Equal(w.t, "not_ready", NotReady.FilterName())
			assert.Equal(w.t, "NotReady", NotReady.String())
		}},
		{"Q-09 delete", bothModes, func(w *world) {
			w.topic("bar", 0)
			w.join("m1").ok(2)
			w.wantState(NotReady)
			refused := func() {
				w.t.Helper()
				code, _ := w.delete()
				w.wantCode(kerr.NonEmptyGroup, code)
			}
			refused()
			w.topic("bar", 3)
			w.target("m1", allNine)
			w.hb("m1", 2).ok(3)
			refused()
			w.hb("m1", -1).ok(-1)
			w.brokerConfig("group.streams.initial.rebalance.delay.ms", "1000")
			w.join("m1").ok(4).status(5)
			w.wantState(Assigning)
			refused()
			w.hb("m1", -1).ok(-1)
			code, handled := w.c.Delete(groupID, &w.fx)
			assert.True(w.t, handled)
			assert.Zero(w.t, code)
			assert.Len(w.t, w.c.timers, 1, "the initial delay")
			a := &answer{w: w}
			w.finish(a, nil)
			a.records("t20", "t17", "t23")
			assert.Empty(w.t, w.c.timers)
			assert.Empty(w.t, w.c.List())
			_, handled = w.c.Delete(groupID, &w.fx)
			assert.False(w.t, handled)
		}},
		{"Q-10 selected assignor", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			assert.Equal(w.t, "stub", *w.describe().AssignorName)
			w.groupConfig("streams.assignor.name", "other")
			assert.Equal(w.t, "other", *w.describe().AssignorName)
			w.groupConfig("streams.assignor.name", "gone")
			assert.Equal(w.t, "stub", *w.describe().AssignorName)
		}},
		{"Q-11 authorized operations are not asked for", bothModes, func(w *world) {
			w.g10()
			assert.Equal(w.t, kmsg.NewStreamsGroupDescribeResponseGroup().AuthorizedOperations, w.describe().AuthorizedOperations)
		}},
		{"Q-12 a group without topology", bothModes, func(w *world) {
			w.replay(memberSpec{id: "m1", tasks: "-", target: "-", me: 1}.records(1)...)
			assert.Nil(w.t, w.describe().Topology)
			assert.Equal(w.t, "NotReady", w.describe().State)
			// Its members hold on, and a join brings a topology.
			w.c.Loaded(w.now, groupID)
			w.hb("m1", 1, owned("-"), seen(9)).ok(2).noLists().status().endpoints(nobody...).records("17(GE 2 VTE -1)", "21(m1 -)", "20(2, now)", "22(m1 STABLE ME 2 PME 1 -)")
			w.hb("m1", 2, owned("-")).ok(2).noLists().status().records()
			w.target("m1", allNine)
			w.join("m1").ok(3).tasks(allNine).status().records("23(TE 0)", "17(GE 3 VTE 0)", "21(m1 s1:0-5 s2:0-2)", "20(3, now)", "22(m1 STABLE ME 3 PME 2 s1:0-5@3 s2:0-2@3)")
		}},
	})
}
