package coordinator

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
	"github.com/streamsgroup/streamsgroup/topology"
)

const allNine = "s1:0-5 s2:0-2"

func TestJoiningAndMemberEpochs(t *testing.T) {
	at100 := func(w *world) {
		w.group(groupSpec{ge: 100, members: []memberSpec{{id: "m1", tasks: "s1:1,2,3"}}})
	}
	runCases(t, []testCase{
		{"J-01 unknown group", bothModes, func(w *world) {
			w.hb("m1", 100).err(kerr.GroupIDNotFound)
			assert.False(w.t, w.c.Has(groupID))
		}},
		{"J-02 unknown member", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.hb("m9", 1).err(kerr.UnknownMemberID)
		}},
		{"J-03 leave of an unknown member or group", bothModes, func(w *world) {
			w.hb("m9", -1).err(kerr.GroupIDNotFound)
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.hb("m9", -1).err(kerr.UnknownMemberID)
		}},
		{"J-06 epoch too high", bothModes, func(w *world) {
			at100(w)
			a := w.hb("m1", 200).err(kerr.FencedMemberEpoch)
			assert.Equal(w.t, MemberFenced{Group: groupID, Member: "m1", RequestEpoch: 200, MemberEpoch: 100, PreviousMemberEpoch: 99}, the[MemberFenced](a))
			w.wantMember("m1", "STABLE ME 100 PME 99 s1:1-3@100")
		}},
		{"J-09 previous epoch with a subset", bothModes, func(w *world) {
			at100(w)
			a := w.hb("m1", 99, owned("s1:1,2")).ok(100).status().records()
			if w.policy == KIP1071 {
				a.tasks("s1:1-3") // D9: it has not heard of s1_3
			} else {
				a.noLists()
			}
			w.hb("m1", 99, owned("s1:1-3")).ok(100).noLists().status().records()
			w.hb("m1", 99, owned("-")).ok(100).status().records()
			w.wantMember("m1", "STABLE ME 100 PME 99 s1:1-3@100")
		}},
		{"J-09 previous epoch without owned tasks", bothModes, func(w *world) {
			at100(w)
			w.hb("m1", 99).err(kerr.FencedMemberEpoch)
		}},
		{"J-10 previous epoch with a foreign task", bothModes, func(w *world) {
			at100(w)
			w.hb("m1", 99, owned("s1:1,2,4")).err(kerr.FencedMemberEpoch)
		}},
		{"J-11 previous epoch, right task in the wrong role", bothModes, func(w *world) {
			at100(w)
			w.hb("m1", 99, owned("- | standby s1:1")).err(kerr.FencedMemberEpoch)
			w.hb("m1", 99, owned("- | warmup s1:1")).err(kerr.FencedMemberEpoch)
			w.wantMember("m1", "STABLE ME 100 PME 99 s1:1-3@100")
		}},
		{"J-12 current epoch, anything owned", bothModes, func(w *world) {
			at100(w)
			a := w.hb("m1", 100, owned("s1:0")).ok(100).status().records()
			if w.policy == KIP1071 {
				a.tasks("s1:1-3") // D9
			} else {
				a.noLists()
			}
		}},
		{"J-12 an epoch before the previous one", bothModes, func(w *world) {
			at100(w)
			w.hb("m1", 98, owned("s1:1")).err(kerr.FencedMemberEpoch)
		}},
		{"J-13 rejoin with epoch 0", bothModes, func(w *world) {
			w.t1(6)
			w.group(groupSpec{ge: 100, members: []memberSpec{{id: "m1", tasks: "s1:0-2"}}})
			w.join("m1").ok(100).tasks("s1:0-2").status().records()
			w.wantEpoch(100)
		}},
		{"J-14 rejoin while revoking", bothModes, func(w *world) {
			w.t1(3)
			w.group(groupSpec{ge: 11, members: []memberSpec{
				{id: "m1", me: 10, pme: 10, state: unrevokedTasks, tasks: "s1:0", pending: "s1:1", target: "s1:0,2"},
				{id: "m2", me: 11, pme: 10, state: unreleasedTasks, tasks: "-", target: "s1:1"},
			}})
			w.join("m1").ok(11).tasks("s1:0,2").records("22(m1 STABLE ME 11 PME 10 s1:0@10 s1:2@11)")
			w.hb("m2", 11).ok(11).tasks("s1:1")
		}},
		{"J-16 group full", bothModes, func(w *world) {
			w.brokerConfig("group.streams.max.size", "2")
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, memberSpec{id: "m2", tasks: "s2:0-2"})
			w.join("m3").err(kerr.GroupMaxSizeReached)
			w.join("m2").ok(10).tasks("s2:0-2").status().records()
		}},
		{"J-17 owned tasks that do not exist", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			for _, o := range []string{"s9:0", "s1:6", "- | standby s1:6", "- | warmup s2:3"} {
				w.hb("m1", 10, owned(o)).err(kerr.InvalidRequest)
			}
			w.hb("m1", 10, owned("s1:0"), func(r *Request) { r.ActiveTasks[0].Partitions[0] = -1 }).err(kerr.InvalidRequest)
		}},
		{"J-18 rejected heartbeat stores no offsets", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.hb("m1", 10, owned("s9:0"), offsets("s1_0=10"), ends("s1_0=20")).err(kerr.InvalidRequest)
			assert.Empty(w.t, w.describe().Members[0].TaskOffsets)
			assert.Empty(w.t, w.describe().Members[0].TaskEndOffsets)
		}},
		{"J-19 duplicate offsets", bothModes, func(w *world) {
			w.t1(3)
			w.g10(memberSpec{id: "m1", tasks: "s1:0-2"})
			w.hb("m1", 10, offsets("s1_0=10", "s1_0=20")).err(kerr.InvalidRequest)
			w.hb("m1", 10, offsets("s1_0=10"), ends("s1_0=10", "s1_0=20")).err(kerr.InvalidRequest)
			assert.Empty(w.t, w.describe().Members[0].TaskOffsets)
			assert.Empty(w.t, w.describe().Members[0].TaskEndOffsets)
		}},
		{"J-20 J-21 Q-05 offsets are soft and go with the member", bothModes, func(w *world) {
			w.t1(3)
			w.g10(memberSpec{id: "m1", tasks: "s1:0-2"})
			w.hb("m1", 10, offsets("s1_0=10"), ends("s1_0=20")).ok(10).records()
			wantOffsets(w, 10, 20)
			w.hb("m1", 10, offsets("s1_0=12")).ok(10).records()
			wantOffsets(w, 12, 20)
			w.hb("m1", 10).ok(10)
			wantOffsets(w, 12, 20)
			w.target("m1", "s1:0-2")
			w.hb("m1", -1).ok(-1)
			w.join("m1").ok(12)
			assert.Empty(w.t, w.describe().Members[0].TaskOffsets)
			assert.Empty(w.t, w.describe().Members[0].TaskEndOffsets)
		}},
		{"J-20 offsets reach the assignor", bothModes, func(w *world) {
			w.t1(3)
			w.g10(memberSpec{id: "m1", tasks: "s1:0-2"})
			w.hb("m1", 10, offsets("s1_0=10"), ends("s1_0=20")).ok(10)
			w.target("m1", "s1:0-2")
			w.hb("m1", 10, rack("r"), offsets("s1_1=7")).ok(11)
			in := w.stub.calls[0].Members[0]
			assert.Equal(w.t, map[topology.TaskID]int64{{Subtopology: "s1", Partition: 1}: 7}, in.Offsets)
			assert.Equal(w.t, map[topology.TaskID]int64{{Subtopology: "s1", Partition: 0}: 20}, in.EndOffsets)
			// What was reported before if the request has none, else what it has.
			w.hb("m1", 11, rack("s")).ok(12)
			again := w.stub.calls[1].Members[0]
			assert.Equal(w.t, in.Offsets, again.Offsets)
			assert.Equal(w.t, in.EndOffsets, again.EndOffsets)
			w.hb("m1", 12, rack("t"), ends("s1_2=9")).ok(13)
			again = w.stub.calls[2].Members[0]
			assert.Equal(w.t, in.Offsets, again.Offsets)
			assert.Equal(w.t, map[topology.TaskID]int64{{Subtopology: "s1", Partition: 2}: 9}, again.EndOffsets)
		}},
		{"J-22 process id change", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5"})
			w.target("m1", allNine)
			w.hb("m1", 10, process("px")).ok(11).tasks(allNine).status().records(
				"19(m1)", "17(GE 11)", "21(m1 s1:0-5 s2:0-2)", "20(11, now)", "22(m1 STABLE ME 11 PME 10 s1:0-5@10 s2:0-2@11)")
		}},
		{"J-24 null means unchanged", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine, rack: "r1", tags: "zone=a"})
			w.hb("m1", 10).ok(10).noLists().status().records()
			w.wantEpoch(10)
			assert.Equal(w.t, "r1", *w.describe().Members[0].RackID)
			assert.Len(w.t, w.describe().Members[0].ClientTags, 1)
		}},
		{"J-25 partition count change", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5", target: "-"})
			w.topic("bar", 6)
			w.target("m1", "s1:0-5 s2:0-5")
			before := w.c.groups[groupID].hash
			w.hb("m1", 10).ok(11).tasks("s1:0-5 s2:0-5").status().records(
				"17(GE 11 VTE 0)", "21(m1 s1:0-5 s2:0-5)", "20(11, now)", "22(m1 STABLE ME 11 PME 10 s1:0-5@10 s2:0-5@11)")
			assert.NotEqual(w.t, before, w.c.groups[groupID].hash)
		}},
		{"J-26 loaded group, nothing changed", bothModes, func(w *world) {
			w.group(groupSpec{loaded: true, members: []memberSpec{{id: "m1", tasks: allNine}}})
			w.hb("m1", 10).ok(10).noLists().records()
			require.NotNil(w.t, w.c.groups[groupID].configured())
			assert.True(w.t, w.c.groups[groupID].configured().Ready())
		}},
		{"J-27 a topic of a running group changes", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.hb("m1", 10).ok(10).noLists().status().records() // has looked
			w.topic("bar", 4)
			w.target("m1", "s1:0-5 s2:0-3")
			a := w.hb("m1", 10).ok(11).tasks("s1:0-5 s2:0-3").status().records(
				"17(GE 11 VTE 0)", "21(m1 s1:0-5 s2:0-3)", "20(11, now)", "22(m1 STABLE ME 11 PME 10 s1:0-5@10 s2:0-2@10 s2:3@11)")
			assert.Equal(w.t, topics.Hash([]string{"bar", "foo"}, w.image), a.recs[0].(*record.GroupMetadata).MetadataHash)
			assert.Equal(w.t, []Reason{ReasonTopicsChanged}, the[EpochBumped](a).Reasons)
			assert.Zero(w.t, count[TopicsReady](a), "they were before")
			w.hb("m1", 11).ok(11).noLists().status().records()
			w.wantEpoch(11)
		}},
		{"J-28 refresh survives a failed write", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.hb("m1", 10).ok(10)
			w.topic("bar", 4)
			w.target("m1", "s1:0-5 s2:0-3")
			w.appendFails = kerr.NotEnoughReplicas
			w.hb("m1", 10).err(kerr.CoordinatorNotAvailable)
			w.wantEpoch(10)
			w.hb("m1", 10).ok(11).tasks("s1:0-5 s2:0-3").status().records(
				"17(GE 11 VTE 0)", "21(m1 s1:0-5 s2:0-3)", "20(11, now)", "22(m1 STABLE ME 11 PME 10 s1:0-5@10 s2:0-2@10 s2:3@11)")
			w.hb("m1", 11).ok(11).noLists().status().records()
		}},
		{"J-33 assignor failure", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.stub.err = errors.New("no idea")
			a := w.hb("m1", 10, rack("r")).err(kerr.UnknownServerError)
			assert.Nil(w.t, a.resp.ErrorMessage)
			assert.Equal(w.t, []Event{AssignmentFailed{Group: groupID, Epoch: 11, Assignor: "stub", Reason: "no idea"}}, a.events)
			w.wantEpoch(10)
			w.stub.err = nil
			w.target("m1", allNine)
			w.hb("m1", 10, rack("r")).ok(11).noLists().status().records("19(m1)", "17(GE 11)", "20(11, now)", "22(m1 STABLE ME 11 PME 10 s1:0-5@10 s2:0-2@10)")
		}},
		{"J-33 an assignor that forgets a task", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.target("m1", "s1:0-5")
			w.hb("m1", 10, rack("r")).err(kerr.UnknownServerError)
		}},
		{"J-40 members without process id", bothModes, func(w *world) {
			w.target("m1", allNine)
			w.join("m1", func(r *Request) { r.ProcessID = nil }).ok(2).tasks(allNine)
			assert.Empty(w.t, w.describe().Members[0].ProcessID)
		}},
		{"D27 whatever changes of a dynamic member is a reason", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.target("m1", allNine)
			epoch := int32(10)
			for _, o := range []requestOption{
				rack("r"), timeout(2000), process("x"), tags("zone=a"), endpoint("h:1"), endpoint("h:2"),
				func(r *Request) { r.ClientID = "other" }, func(r *Request) { r.ClientHost = "/10.0.0.1" },
			} {
				epoch++
				keep := func(r *Request) {
					if epoch > 17 {
						r.ClientID = "other"
					}
				}
				a := w.hb("m1", epoch-1, keep, o).ok(epoch)
				a.records("19(m1)", "17", "20", "22")
			}
			w.hb("m1", epoch, func(r *Request) { r.ClientID, r.ClientHost = "other", "/10.0.0.1" }).ok(epoch).records()
		}},
	})
}

func (w *world) describe() *describedGroup {
	w.t.Helper()
	d := w.c.Describe(groupID, w.access)
	require.Zero(w.t, d.ErrorCode)
	return &d
}

func wantOffsets(w *world, offset, end int64) {
	w.t.Helper()
	m := w.describe().Members[0]
	require.Len(w.t, m.TaskOffsets, 1)
	require.Len(w.t, m.TaskEndOffsets, 1)
	assert.Equal(w.t, offset, m.TaskOffsets[0].Offset)
	assert.Equal(w.t, end, m.TaskEndOffsets[0].Offset)
}

func TestConfigsInHeartbeats(t *testing.T) {
	runCases(t, []testCase{
		{"J-29 standby config bump", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.groupConfig("streams.num.standby.replicas", "2")
			w.target("m1", allNine)
			a := w.hb("m1", 10).ok(11).noLists().status().records("17(GE 11 VTE 0)", "20(11, now)", "22(m1 STABLE ME 11 PME 10 s1:0-5@10 s2:0-2@10)")
			assert.Equal(w.t, []record.KeyValue{{Key: "num.standby.replicas", Value: "2"}}, a.recs[0].(*record.GroupMetadata).LastAssignmentConfigs)
			assert.Equal(w.t, 2, w.stub.calls[0].StandbyReplicas)
			assert.Equal(w.t, []Reason{ReasonAssignmentConfig}, the[EpochBumped](a).Reasons)
			w.hb("m1", 11).ok(11).records()
		}},
		{"J-29 a group from before the configs were stored", bothModes, func(w *world) {
			w.group(groupSpec{configs: []record.KeyValue{}, members: []memberSpec{{id: "m1", tasks: allNine}}})
			w.target("m1", allNine)
			w.hb("m1", 10).ok(11)
			w.hb("m1", 11).ok(11).records()
		}},
		{"J-30 recovery lag config does not bump", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.groupConfig("streams.acceptable.recovery.lag", "50000")
			a := w.hb("m1", 10).ok(10).noLists().status().records()
			w.wantEpoch(10)
			assert.Equal(w.t, []record.KeyValue{{Key: "num.standby.replicas", Value: "0"}}, w.c.groups[groupID].lastConfigs)
			assert.EqualValues(w.t, 50000, a.resp.AcceptableRecoveryLag)
			assert.EqualValues(w.t, 5000, a.resp.HeartbeatIntervalMillis)
			assert.EqualValues(w.t, 60000, a.resp.TaskOffsetIntervalMillis)
			w.brokerConfig("group.streams.assignment.interval.ms", "1000")
			w.groupConfig("streams.heartbeat.interval.ms", "6000", "streams.task.offset.interval.ms", "20000", "streams.assignor.name", "other")
			a = w.hb("m1", 10).ok(10).records()
			assert.EqualValues(w.t, 10000, a.resp.AcceptableRecoveryLag)
			assert.EqualValues(w.t, 6000, a.resp.HeartbeatIntervalMillis)
			assert.EqualValues(w.t, 20000, a.resp.TaskOffsetIntervalMillis)
		}},
		{"J-31 L-12 a new session time-out holds from the next heartbeat", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.hb("m1", 10).ok(10)
			w.groupConfig("streams.session.timeout.ms", "60000")
			w.after(10 * time.Second)
			w.hb("m1", 10).ok(10)
			w.after(59 * time.Second)
			w.wantMember("m1", "STABLE ME 10 PME 9 s1:0-5@10 s2:0-2@10")
			w.groupConfig()
			w.after(1001 * time.Millisecond)
			w.wantMember("m1", "")
		}},
		{"J-32 override clamped", bothModes, func(w *world) {
			w.groupConfig("streams.session.timeout.ms", "70000", "streams.heartbeat.interval.ms", "1", "streams.num.standby.replicas", "100", "streams.task.offset.interval.ms", "100")
			w.target("m1", allNine)
			a := w.join("m1").ok(2)
			assert.EqualValues(w.t, 5000, a.resp.HeartbeatIntervalMillis)
			assert.EqualValues(w.t, 15000, a.resp.TaskOffsetIntervalMillis)
			assert.Equal(w.t, 2, w.stub.calls[0].StandbyReplicas)
			assert.Equal(w.t, 4, count[ConfigClamped](a))
			w.after(59 * time.Second)
			w.wantState(Stable)
			w.after(1001 * time.Millisecond)
			w.wantState(Empty)
			for _, e := range w.c.GroupConfigs(groupID) {
				if e.Name == "streams.session.timeout.ms" {
					assert.Equal(w.t, ConfigEntry{Name: e.Name, Value: "70000", Override: true}, e, "as set, not as used")
				}
			}
		}},
		{"J-35 missing client tags", bothModes, func(w *world) {
			w.brokerConfig("group.streams.rack.aware.assignment.tags", "zone,cluster")
			w.target("m1", allNine)
			w.join("m1").ok(2).status(6).detail(6, "zone", "cluster")
			w.join("m1", version(0)).ok(2).status()
			a := w.join("m1", tags("cluster=c1")).ok(3).status(6).detail(6, "zone")
			assert.NotContains(w.t, a.resp.Status[0].StatusDetail, "cluster")
			w.join("m1", tags("cluster=c1", "zone=z")).ok(4).status()
			assert.Equal(w.t, []string{"zone", "cluster"}, w.stub.calls[0].RackAwareTags)
			w.brokerConfig("group.streams.rack.aware.assignment.tags", "")
			w.join("m1", tags()).ok(5).status()
		}},
		{"J-37 tags override", bothModes, func(w *world) {
			w.brokerConfig("group.streams.rack.aware.assignment.tags", "zone")
			w.groupConfig("streams.rack.aware.assignment.tags", "rack")
			w.target("m1", allNine)
			w.join("m1", tags("zone=a")).ok(2).status(6).detail(6, "rack")
		}},
	})
}

func TestConfigValidation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, KIP1071)
	for _, c := range []struct{ name, key, value string }{
		{"J-38 an empty tag", "streams.rack.aware.assignment.tags", "zone,,cluster"},
		{"J-38 a tag twice", "streams.rack.aware.assignment.tags", "zone,zone"},
		{"session time-out below the bound", "streams.session.timeout.ms", "44999"},
		{"session time-out above the bound", "streams.session.timeout.ms", "60001"},
		{"heartbeat interval below the bound", "streams.heartbeat.interval.ms", "4999"},
		{"heartbeat interval above the bound", "streams.heartbeat.interval.ms", "15001"},
		{"too many standbys", "streams.num.standby.replicas", "3"},
		{"negative standbys", "streams.num.standby.replicas", "-1"},
		{"too many warm-ups", "streams.num.warmup.replicas", "21"},
		{"negative delay", "streams.initial.rebalance.delay.ms", "-1"},
		{"assignment interval above the bound", "streams.assignment.interval.ms", "15001"},
		{"offset interval below the bound", "streams.task.offset.interval.ms", "14999"},
		{"negative lag", "streams.acceptable.recovery.lag", "-1"},
		{"no number", "streams.session.timeout.ms", "45s"},
		{"unknown assignor", "streams.assignor.name", "none"},
		{"no boolean", "streams.assignor.offload.enable", "maybe"},
		{"unknown name", "streams.unknown", "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := w.c.CheckGroupConfig(map[string]string{c.key: c.value})
			var e *ConfigError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, c.key, e.Name)
			assert.Contains(t, err.Error(), c.value)
		})
	}
	t.Run("valid ones", func(t *testing.T) {
		require.NoError(t, w.c.CheckGroupConfig(map[string]string{
			"streams.session.timeout.ms": "60000", "streams.heartbeat.interval.ms": "15000", "streams.num.standby.replicas": "2",
			"streams.assignor.name": "sticky", "streams.rack.aware.assignment.tags": "zone,cluster", "streams.assignor.offload.enable": "false",
			"streams.initial.rebalance.delay.ms": "0", "streams.assignment.interval.ms": "0", "streams.task.offset.interval.ms": "15000",
			"streams.num.warmup.replicas": "20", "streams.acceptable.recovery.lag": "0",
		}))
	})
	t.Run("session time-out and heartbeat interval fit together", func(t *testing.T) {
		w := newWorld(t, KIP1071)
		w.brokerConfig("group.streams.min.session.timeout.ms", "1000")
		w.brokerConfig("group.streams.max.heartbeat.interval.ms", "60000")
		require.Error(t, w.c.CheckGroupConfig(map[string]string{"streams.session.timeout.ms": "5000"}), "against the broker's interval")
		require.Error(t, w.c.CheckGroupConfig(map[string]string{"streams.heartbeat.interval.ms": "45000"}), "against the broker's time-out")
		require.NoError(t, w.c.CheckGroupConfig(map[string]string{"streams.session.timeout.ms": "5001"}))
		require.NoError(t, w.c.CheckGroupConfig(map[string]string{"streams.session.timeout.ms": "50000", "streams.heartbeat.interval.ms": "45000"}))
	})
	t.Run("J-38 broker configs", func(t *testing.T) {
		for key, value := range map[string]string{
			"group.streams.rack.aware.assignment.tags": "zone,zone",
			"group.streams.session.timeout.ms":         "44000",
			"group.streams.num.standby.replicas":       "3",
			"group.streams.max.size":                   "0",
			"group.streams.assignors":                  "none",
			"group.streams.task.offset.interval.ms":    "1",
			"group.streams.heartbeat.interval.ms":      "x",
			"group.coordinator.rebalance.protocols":    "",
		} {
			_, err := New(Config{Broker: map[string]string{key: value}})
			if key == "group.coordinator.rebalance.protocols" {
				require.NoError(t, err, "a broker without the protocol answers UNSUPPORTED_VERSION")
				continue
			}
			var e *ConfigError
			require.ErrorAs(t, err, &e, key)
			assert.Equal(t, key, e.Name)
		}
	})
}

func TestTopicEventsReachTheGroupsConcerned(t *testing.T) {
	t.Parallel()
	// A topic that nobody needs makes a new image version; the group looks once
	// and finds nothing.
	w := newWorld(t, KIP1071)
	w.g10(memberSpec{id: "m1", tasks: allNine})
	w.hb("m1", 10).ok(10)
	w.topic("unrelated", 1)
	a := w.hb("m1", 10).ok(10).records()
	assert.Empty(t, a.events)
	// T-25: equal topics under a new version.
	w.image = topics.NewCompleteImage(w.image.Version()+1, w.topics)
	configured := w.c.groups[groupID].configured()
	w.hb("m1", 10).ok(10).records()
	assert.Same(t, configured, w.c.groups[groupID].configured(), "not configured again")
}
