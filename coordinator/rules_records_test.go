package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// TestRulesRecords are the records as the coordinator writes them. That their
// bytes are Kafka's is for package record to show.
func TestRulesRecords(t *testing.T) {
	only := func(w *world, a *answer, typ record.Type) record.Record {
		w.t.Helper()
		var found record.Record
		for _, r := range a.recs {
			if r.RecordKey().Type == typ {
				require.Nil(w.t, found, "one of the type")
				found = r
			}
		}
		require.NotNil(w.t, found)
		decoded, err := record.Decode(record.AppendKey(nil, found.RecordKey()), record.AppendValue(nil, found))
		require.NoError(w.t, err)
		assert.Equal(w.t, found.RecordKey(), decoded.RecordKey())
		return decoded
	}
	// full is a first heartbeat that says everything.
	full := func(w *world) *answer {
		w.brokerConfig("group.streams.rack.aware.assignment.tags", "zone")
		w.topic("c", 6)
		w.topo = topo(4,
			sub("s2", repartition("r", 3)),
			sub("s1", reads("foo", "bar"), writes("r"), copartitioned([]int16{0}, nil), func(s *wireSub) {
				s.StateChangelogTopics = []kmsg.TopicInfo{{Topic: "c", ReplicationFactor: 2, Configs: []kmsg.TopicInfoConfig{{Key: "k", Value: "v"}}}}
			}))
		w.topic("r", 3)
		w.target("m1", "s1:0-5 s2:0-2")
		return w.join("m1", inst("i"), rack("r"), timeout(77), process("p"), endpoint("h:8"), tags("zone=z", "a=b")).ok(2)
	}
	runCases(t, []testCase{
		{"rule 24-17 D29 group metadata", bothModes, func(w *world) {
			g := only(w, full(w), 17).(*record.GroupMetadata)
			assert.NotZero(w.t, g.MetadataHash)
			g.MetadataHash = 0
			assert.Equal(w.t, &record.GroupMetadata{
				Group: groupID, Epoch: 2, ValidatedTopologyEpoch: 4,
				LastAssignmentConfigs:          []record.KeyValue{{Key: "num.standby.replicas", Value: "0"}, {Key: "rack.aware.assignment.tags", Value: "zone"}},
				StoredDescriptionTopologyEpoch: -1, FailedDescriptionTopologyEpoch: -1,
			}, g)
		}},
		{"rule 24-18 not used", bothModes, func(w *world) {
			_, err := record.Decode(record.AppendKey(nil, record.Key{Type: 18, Group: groupID}), nil)
			require.Error(w.t, err)
		}},
		{"rule 24-19 member metadata", bothModes, func(w *world) {
			assert.Equal(w.t, &record.MemberMetadata{
				Group: groupID, Member: "m1", InstanceID: optional("i"), RackID: optional("r"), ClientID: "client", ClientHost: clientHost,
				RebalanceTimeoutMillis: 77, TopologyEpoch: 4, ProcessID: "p", UserEndpoint: &record.Endpoint{Host: "h", Port: 8},
				ClientTags: []record.KeyValue{{Key: "a", Value: "b"}, {Key: "zone", Value: "z"}},
			}, only(w, full(w), 19))
		}},
		{"rule 24-20 target assignment metadata", bothModes, func(w *world) {
			assert.Equal(w.t, &record.TargetAssignmentMetadata{Group: groupID, AssignmentEpoch: 2, AssignmentTimestampMillis: startWall}, only(w, full(w), 20))
		}},
		{"rule 24-21 target assignment", bothModes, func(w *world) {
			assert.Equal(w.t, &record.TargetAssignment{
				Group: groupID, Member: "m1",
				Active: []record.TaskIDs{{Subtopology: "s1", Partitions: []int32{0, 1, 2, 3, 4, 5}}, {Subtopology: "s2", Partitions: []int32{0, 1, 2}}},
			}, only(w, full(w), 21))
		}},
		{"rule 24-22 current assignment", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", me: 10, pme: 9, tasks: "s1:0@4 s1:1@5 s2:2@6 | standby s2:0 | warmup s2:1", target: "s1:1"})
			w.assignedAt(11, 0)
			w.replay(&record.GroupMetadata{Group: groupID, Epoch: 11, MetadataHash: w.c.groups[groupID].hash, LastAssignmentConfigs: w.c.groups[groupID].lastConfigs, StoredDescriptionTopologyEpoch: -1, FailedDescriptionTopologyEpoch: -1})
			assert.Equal(w.t, &record.CurrentAssignment{
				Group: groupID, Member: "m1", MemberEpoch: 10, PreviousMemberEpoch: 10, State: 2,
				Active:                   []record.ActiveTaskIDs{{Subtopology: "s1", Partitions: []int32{1}, Epochs: []int32{5}}},
				ActivePendingRevocation:  []record.ActiveTaskIDs{{Subtopology: "s1", Partitions: []int32{0}, Epochs: []int32{4}}, {Subtopology: "s2", Partitions: []int32{2}, Epochs: []int32{6}}},
				StandbyPendingRevocation: []record.TaskIDs{{Subtopology: "s2", Partitions: []int32{0}}},
				WarmupPendingRevocation:  []record.TaskIDs{{Subtopology: "s2", Partitions: []int32{1}}},
			}, only(w, w.hb("m1", 10).ok(10), 22))
			assert.Equal(w.t, [4]memberState{1, 2, 3, 127}, [4]memberState{stable, unrevokedTasks, unreleasedTasks, unknownState})
		}},
		{"rule 24-23 D29 topology", bothModes, func(w *world) {
			a := full(w)
			assert.True(w.t, record.Equal(record.FromWire(groupID, w.topo), only(w, a, 23).(*record.Topology)))
		}},
	})
}

func TestRulesEvents(t *testing.T) {
	runCases(t, []testCase{
		{"rule 24.1-1", bothModes, func(w *world) {
			w.target("m1", allNine)
			w.join("m1").records("19(m1)", "23(TE 0)", "17(GE 2)", "21(m1 s1:0-5 s2:0-2)", "20(2, now)", "22(m1 STABLE ME 2 PME 0 s1:0-5@2 s2:0-2@2)")
		}},
		{"rules 24.1-2 24.1-3", bothModes, func(w *world) {
			w.brokerConfig("group.streams.initial.rebalance.delay.ms", "1000")
			w.join("m1").records("19(m1)", "23(TE 0)", "17(GE 2)", "22(m1 STABLE ME 1 PME 0 -)")
			w.join("m2").records("19(m2)", "17(GE 3)", "22(m2 STABLE ME 1 PME 0 -)")
			w.target("m1", "s1:0-5", "m2", "s2:0-2")
			w.after(time.Second).records("21(m1 s1:0-5)", "21(m2 s2:0-2)", "20(3, now)")
		}},
		{"rule 24.1-4", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.target("m1", allNine, "m2", "-")
			w.join("m2").records("19(m2)", "17(GE 11)", "21(m2 -)", "20(11, now)", "22(m2 STABLE ME 11 PME 0 -)")
			w.brokerConfig("group.streams.assignment.interval.ms", "9000")
			w.join("m3").records("19(m3)", "17(GE 12)", "22(m3 STABLE ME 11 PME 0 -)")
		}},
		{"rules 24.1-5 24.1-6", bothModes, func(w *world) {
			w.t1(2)
			w.g10(memberSpec{id: "m1", state: unrevokedTasks, me: 9, pme: 9, tasks: "s1:0", pending: "s1:1", target: "s1:0"})
			w.hb("m1", 9).records()
			w.hb("m1", 9, offsets("s1_0=1"), shutdown(), seen(8)).records()
			w.hb("m1", 9, owned("s1:0")).records("22(m1 STABLE ME 10 PME 9 s1:0@9)")
			w.hb("m1", 10).records()
		}},
		{"rule 24.1-7", bothModes, func(w *world) {
			w.t1(2)
			w.g10(memberSpec{id: "m1", tasks: "s1:0,1"})
			w.topic("foo", 3)
			w.brokerConfig("group.streams.assignment.interval.ms", "9000")
			w.assignedAt(10, w.now.WallMillis)
			w.hb("m1", 10).records("17(GE 11)")
			w.after(9 * time.Second)
			w.target("m1", "s1:0-2")
			w.hb("m1", 10).records("21(m1 s1:0-2)", "20(11, now)", "22(m1 STABLE ME 11 PME 10 s1:0,1@10 s1:2@11)")
		}},
		{"rules 24.1-8 24.1-9", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, memberSpec{id: "m2", tasks: "s2:0-2"}, memberSpec{id: "m3", tasks: "-"})
			w.hb("m2", -1).records("t22(m2)", "t21(m2)", "t19(m2)", "17(GE 11)")
			w.target("m1", "s1:0-5", "m3", "s2:0-2")
			w.hb("m1", 10).records("21(m3 s2:0-2)", "20(11, now)", "22(m1 STABLE ME 11 PME 10 s1:0-5@10)")
			w.hb("m3", 10).records("22(m3 STABLE ME 11 PME 10 s2:0-2@11)")
			w.hb("m1", -1).records("t22(m1)", "t21(m1)", "t19(m1)", "17(GE 12)")
			w.hb("m3", -1).records("t22(m3)", "t21(m3)", "t19(m3)", "17(GE 13)", "20(13, 0)")
		}},
		{"rules 24.1-10 24.1-11", bothModes, func(w *world) {
			w.t1(2)
			w.g10(memberSpec{id: "a", instance: "i", process: "p", tasks: "s1:0,1"})
			w.hb("a", -2, inst("i")).records("22(a STABLE ME -2 PME 9 s1:0,1@0)")
			w.join("b", inst("i"), process("p")).records("t22(a)", "t21(a)", "t19(a)", "19(b)", "21(b s1:0,1)", "22(b STABLE ME 0 PME 0 s1:0,1@0)", "22(b STABLE ME 10 PME 0 s1:0,1@0)")
		}},
	})
}

// last keeps the last record of each key, in the order of the log, as compaction
// does once tombstones may go as well.
func last(log []record.Record, tombstones bool) []record.Record {
	at := map[record.Key]int{}
	for i, r := range log {
		at[r.RecordKey()] = i
	}
	var out []record.Record
	for i, r := range log {
		_, dead := r.(record.Tombstone)
		if at[r.RecordKey()] == i && (tombstones || !dead) {
			out = append(out, r)
		}
	}
	return out
}

func TestRulesReplay(t *testing.T) {
	g := func(w *world) *group { return w.c.groups[groupID] }
	refused := func(w *world, r record.Record) {
		w.t.Helper()
		before := w.c.stateOf(groupID)
		var e *ReplayError
		require.ErrorAs(w.t, w.c.Replay(r), &e)
		assert.Equal(w.t, r.RecordKey(), e.Key)
		assert.Equal(w.t, before, w.c.stateOf(groupID))
	}
	t17, t20, t23 := tombstone(17, groupID, ""), tombstone(20, groupID, ""), tombstone(23, groupID, "")
	t19, t21, t22 := tombstone(19, groupID, "m"), tombstone(21, groupID, "m"), tombstone(22, groupID, "m")
	runCases(t, []testCase{
		{"rule 24.2-1 what is missing", bothModes, func(w *world) {
			for _, r := range []record.Record{t17, t19, t20, t21, t22, t23} {
				require.NoError(w.t, w.c.Replay(r))
				assert.False(w.t, w.c.Has(groupID))
			}
			for _, r := range []record.Record{
				&record.GroupMetadata{Group: groupID}, &record.MemberMetadata{Group: groupID, Member: "m"}, &record.TargetAssignmentMetadata{Group: groupID},
				&record.TargetAssignment{Group: groupID, Member: "m"}, &record.CurrentAssignment{Group: groupID, Member: "m"}, &record.Topology{Group: groupID},
			} {
				x := newWorld(w.t, w.policy)
				require.NoError(w.t, x.c.Replay(r))
				assert.True(w.t, x.c.Has(groupID), "%T", r)
			}
		}},
		{"rule 24.2-17", bothModes, func(w *world) {
			w.replay(&record.GroupMetadata{Group: groupID, Epoch: 7, MetadataHash: 8, ValidatedTopologyEpoch: 9, LastAssignmentConfigs: []record.KeyValue{{Key: "a", Value: "b"}}, StoredDescriptionTopologyEpoch: 3, FailedDescriptionTopologyEpoch: 4})
			assert.Equal(w.t, [5]int64{7, 8, 9, 3, 4}, [5]int64{int64(g(w).epoch), g(w).hash, int64(g(w).validatedEpoch), int64(g(w).storedDescription), int64(g(w).failedDescription)})
			assert.Len(w.t, g(w).lastConfigs, 1)
			w.replay(&record.GroupMetadata{Group: groupID, Epoch: 8, StoredDescriptionTopologyEpoch: -1, FailedDescriptionTopologyEpoch: -1})
			assert.Empty(w.t, g(w).lastConfigs)
			refused(w, t17) // the tombstone of 20 is missing
			w.replay(t20, &record.MemberMetadata{Group: groupID, Member: "m"})
			refused(w, t17) // a member is left
			w.replay(t22, t21, t19, t17)
			assert.False(w.t, w.c.Has(groupID))
		}},
		{"rule 24.2-19", bothModes, func(w *world) {
			w.replay(&record.MemberMetadata{Group: groupID, Member: "m", ProcessID: "p", InstanceID: optional("i")})
			assert.Equal(w.t, "p", g(w).members["m"].meta.ProcessID)
			w.replay(&record.MemberMetadata{Group: groupID, Member: "m", ProcessID: "q"})
			assert.Equal(w.t, "q", g(w).members["m"].meta.ProcessID)
			assert.Empty(w.t, g(w).static)
			refused(w, t19)
			w.replay(&record.TargetAssignment{Group: groupID, Member: "m"}, t22)
			refused(w, t19)
			w.replay(t21, t19)
			assert.Empty(w.t, g(w).members)
		}},
		{"rule 24.2-20", bothModes, func(w *world) {
			w.replay(&record.TargetAssignmentMetadata{Group: groupID, AssignmentEpoch: 6, AssignmentTimestampMillis: 99})
			assert.Equal(w.t, [2]int64{6, 99}, [2]int64{int64(g(w).assignmentEpoch), g(w).assignmentMillis})
			w.replay(&record.TargetAssignment{Group: groupID, Member: "m"})
			refused(w, t20)
			w.replay(t21, t20)
			assert.Equal(w.t, [2]int64{-1, 0}, [2]int64{int64(g(w).assignmentEpoch), g(w).assignmentMillis})
		}},
		{"rule 24.2-21", bothModes, func(w *world) {
			w.replay(targetRecord(groupID, "m", parseRoles("s1:0 | standby s1:1 | warmup s1:2")))
			assert.Equal(w.t, "s1:0 | standby s1:1 | warmup s1:2", showRoles(*g(w).members["m"].target, nil))
			w.replay(t21)
			assert.Nil(w.t, g(w).members["m"].target)
		}},
		{"rule 24.2-22", bothModes, func(w *world) {
			w.replay(&record.MemberMetadata{Group: groupID, Member: "m", ProcessID: "p"}, &record.CurrentAssignment{
				Group: groupID, Member: "m", MemberEpoch: 9, PreviousMemberEpoch: 7, State: 2,
				Active:                  []record.ActiveTaskIDs{{Subtopology: "a", Partitions: []int32{0, 1}, Epochs: []int32{3, 4}}, {Subtopology: "b", Partitions: []int32{0, 1}}, {Subtopology: "c", Partitions: []int32{0}, Epochs: []int32{1, 2}}},
				ActivePendingRevocation: []record.ActiveTaskIDs{{Subtopology: "d", Partitions: []int32{0}, Epochs: []int32{2}}},
			})
			w.wantMember("m", "UNREVOKED_TASKS ME 9 PME 7 a:0@3 a:1@4 b:0,1@9 c:0@9 pending d:0@2")
			assert.Len(w.t, g(w).activeOwners(), 6)
			for _, state := range []int8{0, 4, 77, -1, 127} {
				w.replay(&record.CurrentAssignment{Group: groupID, Member: "m", MemberEpoch: 9, State: state})
				assert.Equal(w.t, unknownState, g(w).members["m"].cur.state)
			}
			w.replay(&record.CurrentAssignment{Group: groupID, Member: "m", MemberEpoch: 9, State: 1, Active: []record.ActiveTaskIDs{{Subtopology: "a", Partitions: []int32{0}}}}, t22)
			c := g(w).members["m"].cur
			assert.Equal(w.t, [2]int32{-1, -1}, [2]int32{c.epoch, c.previousEpoch})
			assert.True(w.t, c.assigned.empty())
			assert.Empty(w.t, g(w).activeOwners())
		}},
		{"rule 24.2-23", bothModes, func(w *world) {
			w.replay(&record.MemberMetadata{Group: groupID, Member: "m"}, record.FromWire(groupID, t2()))
			assert.True(w.t, w.c.Subscribed(groupID, "bar"))
			w.replay(record.FromWire(groupID, topo(1, sub("s1", reads("foo")))))
			assert.False(w.t, w.c.Subscribed(groupID, "bar"))
			assert.EqualValues(w.t, 1, g(w).topology.Epoch)
			w.replay(t23)
			assert.Nil(w.t, g(w).topology)
			assert.False(w.t, w.c.Subscribed(groupID, "foo"))
		}},
		{"rule 24.2-2 a compacted log", bothModes, func(w *world) {
			everything(w, func() {
				for _, tombstones := range []bool{true, false} {
					x := newWorld(w.t, w.policy)
					x.replay(last(w.log, tombstones)...)
					require.Equal(w.t, string(w.c.AppendState(nil, groupID, false)), string(x.c.AppendState(nil, groupID, false)))
					if x.c.Has(groupID) {
						checkInvariants(w.t, x.c.groups[groupID])
					}
				}
			})
		}},
		{"rule 24.2-3 after loading", bothModes, func(w *world) {
			w.group(groupSpec{loaded: true, members: []memberSpec{{id: "m1", tasks: "s1:0-5"}, {id: "m2", tasks: "s2:0-2"}}})
			assert.Nil(w.t, g(w).configured())
			assert.Len(w.t, w.c.timers, 2)
			w.hb("m1", 10).ok(10).noLists().records()
			assert.NotNil(w.t, g(w).configured())

			x := newWorld(w.t, w.policy)
			x.group(groupSpec{loaded: true, members: []memberSpec{{id: "m1", tasks: allNine}}})
			x.topic("bar", 4) // while nobody coordinated
			x.target("m1", "s1:0-5 s2:0-3")
			x.hb("m1", 10).ok(11).records("17(GE 11)", "21", "20", "22")
		}},
		{"rule 24.2-4 a move after every step", bothModes, func(w *world) {
			stays := newWorld(w.t, w.policy)
			var logs [2][]string
			for i, x := range []*world{stays, w} {
				everything(x, func() {
					if x == w {
						x.move()
					}
					for _, r := range x.log[len(logs[i]):] {
						logs[i] = append(logs[i], showRecord(r, -1))
					}
				})
			}
			assert.Equal(w.t, logs[0], logs[1], "the records are the same whether the coordinator stays or moves")
		}},
	})
}

// everything is a life of a group with records of every kind. It calls between
// after each step.
func everything(w *world, between func()) {
	step := func(a *answer) *answer { between(); return a }
	w.topic("c", 6)
	w.topo = topo(0, sub("s1", reads("foo"), changelog("c")), sub("s2", reads("bar")))
	w.target("m1", allNine)
	step(w.join("m1").ok(2))
	w.target("m1", "s1:0-2 s2:0-2", "a", "s1:3-5")
	step(w.join("a", inst("i")).ok(3))
	step(w.hb("m1", 2).ok(2))
	step(w.hb("m1", 2, owned("s1:0-2 s2:0-2")).ok(3))
	step(w.hb("a", 3, inst("i")).ok(3).tasks("s1:3-5"))
	step(w.hb("a", -2, inst("i")).ok(-2))
	step(w.join("b", inst("i"), process("p-a")).ok(3))
	w.topic("bar", 4)
	w.target("m1", "s1:0-2 s2:0-3", "b", "s1:3-5")
	step(w.hb("m1", 3).ok(4))
	w.groupConfig("streams.num.standby.replicas", "1")
	w.target("m1", "s1:0-2 s2:0-3 | standby s1:3-5", "b", "s1:3-5 | standby s1:0-2")
	step(w.hb("b", 3, inst("i")).ok(5))
	step(w.hb("m1", 4).ok(5))
	step(w.hb("m1", -1).ok(-1))
	w.target("b", "s1:0-5 s2:0-3")
	step(w.hb("b", 5, inst("i")).ok(6))
	step(w.hb("b", 6, inst("i")).ok(6))
	step(w.hb("b", -1).ok(-1))
	_, _ = w.delete()
	between()
	w.groupConfig()
	w.target("m1", "s1:0-5 s2:0-3")
	step(w.join("m1").ok(2))
}
