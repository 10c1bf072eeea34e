package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

func TestRulesState(t *testing.T) {
	g := func(w *world) *group { return w.c.groups[groupID] }
	runCases(t, []testCase{
		{"rule 2.1-1 what a group starts with", bothModes, func(w *world) {
			w.brokerConfig("group.streams.initial.rebalance.delay.ms", "1000")
			w.topic("bar", 0)
			a := w.join("m1").ok(1)
			assert.Equal(w.t, &record.GroupMetadata{
				Group: groupID, Epoch: 2, MetadataHash: g(w).hash, ValidatedTopologyEpoch: -1,
				LastAssignmentConfigs:          []record.KeyValue{{Key: "num.standby.replicas", Value: "0"}},
				StoredDescriptionTopologyEpoch: -1, FailedDescriptionTopologyEpoch: -1,
			}, a.recs[2])
			assert.EqualValues(w.t, 1, g(w).assignmentEpoch)
			assert.Zero(w.t, g(w).assignmentMillis)

			fresh := newGroup("x", KIP1071)
			assert.Equal(w.t, [6]int64{1, 1, 0, 0, -1, -1}, [6]int64{int64(fresh.epoch), int64(fresh.assignmentEpoch), fresh.assignmentMillis, fresh.hash, int64(fresh.validatedEpoch), int64(fresh.storedDescription)})
			assert.EqualValues(w.t, -1, fresh.failedDescription)
			assert.Nil(w.t, fresh.topology)
			assert.Empty(w.t, fresh.lastConfigs)
			assert.Equal(w.t, Empty, fresh.state())
		}},
		{"rule 2.1-2 what a member starts with", bothModes, func(w *world) {
			m := newMember(newGroup(groupID, KIP1071), "m")
			assert.Equal(w.t, &record.MemberMetadata{Group: groupID, Member: "m", RebalanceTimeoutMillis: -1, TopologyEpoch: -1}, m.meta)
			assert.Equal(w.t, "STABLE ME 0 PME 0 -", m.cur.String())
			assert.Nil(w.t, m.target)
			// The previous epoch of the first step is that 0.
			w.target("m1", allNine)
			w.join("m1").ok(2)
			w.wantMember("m1", "STABLE ME 2 PME 0 s1:0-5@2 s2:0-2@2")
		}},
		{"rule 2.1-3 the static index", bothModes, func(w *world) {
			w.target("a", allNine, "b", allNine)
			w.join("a", inst("i1")).ok(2)
			w.target("a", allNine)
			w.join("a", inst("i2")).ok(2)
			assert.Equal(w.t, map[string]string{"i2": "a"}, g(w).static)
			w.target("a", "s1:0-5", "b", "s2:0-2")
			w.join("b", inst("i1")).ok(3) // free again
			assert.Equal(w.t, map[string]string{"i1": "b", "i2": "a"}, g(w).static)
			w.hb("a", -1).ok(-1)
			assert.Equal(w.t, map[string]string{"i1": "b"}, g(w).static)
		}},
		{"rule 2.1-4 where the client is", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.target("m1", allNine)
			from := func(id, host string) requestOption {
				return func(r *Request) { r.ClientID, r.ClientHost = id, host }
			}
			w.hb("m1", 10, from("c2", clientHost)).ok(11).records("19(m1)", "17", "20", "22")
			w.hb("m1", 11, from("c2", "/10.0.0.9")).ok(12).records("19(m1)", "17", "20", "22")
			w.hb("m1", 12, from("c2", "/10.0.0.9")).ok(12).records()
			m := w.describe().Members[0]
			assert.Equal(w.t, "c2", m.ClientID)
			assert.Equal(w.t, "/10.0.0.9", m.ClientHost)
		}},
		{"rule 2.2-1 a failed append changes nothing", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine, endpoint: "h:1"})
			w.hb("m1", 10, offsets("s1_0=1")).ok(10)
			w.topic("bar", 4)
			w.target("m1", "s1:0-5 s2:0-3")
			before, deadline := w.c.stateOf(groupID), w.c.groups[groupID].members["m1"].session.at
			w.after(time.Second)
			w.appendFails = kerr.RequestTimedOut
			w.hb("m1", 10, endpoint("h:2"), offsets("s1_0=9"), shutdown(), rack("r")).err(kerr.CoordinatorNotAvailable)
			assert.Equal(w.t, before, w.c.stateOf(groupID))
			assert.Equal(w.t, deadline, w.c.groups[groupID].members["m1"].session.at)
			a := w.hb("m1", 10, seen(0)).ok(11).endpointEpoch(1).status()
			assert.EqualValues(w.t, 1, w.describe().Members[0].TaskOffsets[0].Offset)
			a.records("17(GE 11)", "21", "20", "22")

			// A first heartbeat that fails leaves not even a group or a delay.
			x := newWorld(w.t, w.policy)
			x.brokerConfig("group.streams.initial.rebalance.delay.ms", "1000")
			x.appendFails = kerr.RequestTimedOut
			refusedWithoutTrace(x, kerr.CoordinatorNotAvailable, func() *answer { return x.join("m1") })
			_, armed := x.c.NextDeadline()
			assert.False(x.t, armed)
		}},
		{"rule 2.2-2 Q5 soft state of the heartbeat that creates a group", bothModes, func(w *world) {
			w.target("m1", allNine)
			w.join("m1", endpoint("h:1"), offsets("s1_0=3"), shutdown()).ok(2).endpointEpoch(0).status(4)
			a := w.hb("m1", 2, seen(0)).ok(2).endpointEpoch(0).endpoints()
			if w.policy == Kafka {
				a.status()
				assert.Empty(w.t, w.describe().Members[0].TaskOffsets)
			} else {
				a.status(4)
				assert.EqualValues(w.t, 3, w.describe().Members[0].TaskOffsets[0].Offset)
			}
			assert.NotNil(w.t, g(w).configured())
			w.after(45 * time.Second)
			w.wantState(Empty) // its session timer was kept
		}},
		{"rule 2.3-1 owners of active tasks", bothModes, func(w *world) {
			x := newOwnerIndex()
			task := parseTasks("s:0")
			x.add("p1", roles{active: task})
			x.add("p2", roles{active: task})
			x.remove("p1", roles{active: task}) // not the owner any more
			assert.True(w.t, x.activeAt(task[0], "p2"))
			x.remove("p2", roles{active: task})
			assert.Empty(w.t, x.active)
		}},
		{"rule 2.3-2 owners of replicas", bothModes, func(w *world) {
			x := newOwnerIndex()
			task := parseTasks("s:0")
			x.add("p2", roles{standby: task, warmup: task})
			x.add("p1", roles{standby: task, warmup: task})
			for _, p := range []string{"p1", "p2"} {
				assert.True(w.t, x.standbyAt(task[0], p))
				assert.True(w.t, x.warmupAt(task[0], p))
			}
			x.remove("p1", roles{standby: task, warmup: task})
			assert.False(w.t, x.standbyAt(task[0], "p1"))
			assert.True(w.t, x.warmupAt(task[0], "p2"))
		}},
		{"rules 2.3-3 2.3-4 taken until the acknowledgement is applied", bothModes, func(w *world) {
			w.t1(2)
			w.g10(memberSpec{id: "m1", tasks: "s1:0,1"})
			w.target("m1", "s1:0", "m2", "s1:1")
			w.join("m2").ok(11).tasks("-")
			w.hb("m1", 10).ok(10).tasks("s1:0")
			w.hb("m2", 11).ok(11).noLists() // pending is owned
			// A member does not see its own change: what it gives up in this very
			// heartbeat, and wants again, it gets with the next one.
			w.hb("m2", -1).ok(-1)
			w.target("m1", "s1:0,1")
			w.hb("m1", 10, owned("s1:0")).ok(12).noLists()
			w.wantMember("m1", "UNRELEASED_TASKS ME 12 PME 10 s1:0@10")
			w.hb("m1", 12).ok(12).tasks("s1:0,1")
		}},
		{"rules 3-1 3-2 3-3 3-4 3-5 the group's state", bothModes, func(w *world) {
			w.topic("bar", 0)
			w.brokerConfig("group.streams.initial.rebalance.delay.ms", "1000")
			_, known := w.c.State(groupID)
			assert.False(w.t, known)
			w.join("m1").ok(1)
			w.wantState(NotReady) // also with GE above AE
			assert.Greater(w.t, g(w).epoch, g(w).assignmentEpoch)
			w.topic("bar", 3)
			w.hb("m1", 1, shutdown()).ok(1).status(5, 4)
			w.wantState(Assigning)
			w.target("m1", allNine)
			w.after(time.Second).records("21", "20")
			w.wantState(Reconciling)
			w.hb("m1", 1).ok(3).status(4)
			w.wantState(Stable)
			w.hb("m1", -1).ok(-1)
			w.wantState(Empty)
			w.brokerConfig("group.streams.initial.rebalance.delay.ms", "0")
			w.join("m1").ok(5).status() // the request to shut down is forgotten
			for s, want := range map[State][2]string{
				Empty: {"Empty", "empty"}, NotReady: {"NotReady", "not_ready"}, Assigning: {"Assigning", "assigning"},
				Reconciling: {"Reconciling", "reconciling"}, Stable: {"Stable", "stable"},
			} {
				assert.Equal(w.t, want, [2]string{s.String(), s.FilterName()})
			}
		}},
		{"rule 3-4 states of members that keep a group from being stable", bothModes, func(w *world) {
			for _, m := range []memberSpec{
				{id: "m2", me: 9, pme: 8, tasks: "s2:0-2"},
				{id: "m2", state: unreleasedTasks, tasks: "s2:0,1", target: "s2:0-2"},
				{id: "m2", state: unrevokedTasks, tasks: "s2:0,1", pending: "s2:2"},
				{id: "m2", me: -2, pme: 9, instance: "i", tasks: "s2:0-2@0"},
			} {
				x := newWorld(w.t, w.policy)
				x.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, m)
				x.wantState(Reconciling)
			}
		}},
	})
}
