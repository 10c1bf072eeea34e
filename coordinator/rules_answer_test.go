package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestRulesTimers(t *testing.T) {
	one := func(w *world) { w.g10(memberSpec{id: "m1", tasks: allNine}); w.hb("m1", 10).ok(10) }
	runCases(t, []testCase{
		{"rules 13-1 7-18 the session", bothModes, func(w *world) {
			one(w)
			w.after(30 * time.Second)
			w.hb("m1", 10).ok(10)
			w.after(30 * time.Second)
			w.hb("m1", 77).err(kerr.FencedMemberEpoch)
			w.hb("m1", 10, owned("s9:0")).err(kerr.InvalidRequest)
			w.hb("m1", 10, inst("zz")).err(kerr.UnknownMemberID)
			w.after(15*time.Second - time.Millisecond).records()
			w.after(time.Millisecond).records("t22(m1)", "t21(m1)", "t19(m1)", "17(GE 11)", "20(11, 0)")
		}},
		{"rules 13-1 13-2 24.2-3 loading starts sessions and rebalance time-outs", bothModes, func(w *world) {
			w.t1(4)
			w.group(groupSpec{loaded: true, members: []memberSpec{
				{id: "m1", state: unrevokedTasks, timeout: 10000, tasks: "s1:0", pending: "s1:1", target: "s1:0"},
				{id: "m2", state: unreleasedTasks, timeout: 10000, tasks: "s1:2", target: "s1:1,2"},
				{id: "a1", instance: "i", me: -2, pme: 10, tasks: "s1:3@0"},
			}})
			w.after(10*time.Second).records("t22(m1)", "t21(m1)", "t19(m1)", "17(GE 11)")
			w.after(35*time.Second).records("t22(a1)", "t21(a1)", "t19(a1)", "17(GE 12)", "t22(m2)", "t21(m2)", "t19(m2)", "17(GE 13)", "20(13, 0)")
		}},
		{"rule 13-2 the member has moved on", bothModes, func(w *world) {
			w.t1(3)
			w.g10(memberSpec{id: "m1", state: unrevokedTasks, me: 10, pme: 9, timeout: 10000, tasks: "s1:0,1", pending: "s1:2", target: "s1:0,1"})
			m := w.c.groups[groupID].members["m1"]
			require.True(w.t, m.rebalance.armed())
			// The timer strikes after all, as if it had been on its way.
			m.rebalance.epoch = 9
			w.after(11 * time.Second).records()
			w.wantMember("m1", "UNREVOKED_TASKS ME 10 PME 9 s1:0,1@10 pending s1:2@10")
		}},
		{"rule 13-3 the initial delay ends with the group", bothModes, func(w *world) {
			w.brokerConfig("group.streams.initial.rebalance.delay.ms", "9000")
			w.join("m1").ok(1)
			at, _ := w.c.NextDeadline()
			assert.Equal(w.t, w.now.Mono+9*time.Second, at)
			w.hb("m1", -1).ok(-1)
			code, handled := w.delete()
			assert.True(w.t, handled)
			assert.Zero(w.t, code)
			w.after(8 * time.Second)
			w.join("m1").ok(1).status(5) // a whole delay again
			w.after(8 * time.Second).records()
			w.hb("m1", 1).ok(1).status(5)
			w.target("m1", allNine)
			w.after(time.Second).records("21", "20")
		}},
		{"rule 13-4 waiting", bothModes, func(w *world) {
			w.t1(3)
			w.g10(memberSpec{id: "m1", state: unrevokedTasks, me: 10, pme: 9, timeout: 10000, tasks: "s1:0,1", pending: "s1:2", target: "s1:0,1"})
			for range 9 {
				w.after(time.Second).records()
				w.hb("m1", 10, owned("s1:0-2")).ok(10).records()
			}
			w.after(time.Second).records("t22", "t21", "t19", "17", "20")
		}},
		{"rule 13-5 after a failed append", bothModes, func(w *world) {
			w.t1(3)
			w.g10(memberSpec{id: "m1", state: unrevokedTasks, me: 10, pme: 9, timeout: 10000, tasks: "s1:0,1", pending: "s1:2", target: "s1:0,1"})
			w.appendFails = kerr.NotEnoughReplicas
			w.after(10 * time.Second).records()
			w.after(499 * time.Millisecond).records()
			w.appendFails = kerr.NotEnoughReplicas
			w.after(time.Millisecond).records() // again
			w.after(499 * time.Millisecond).records()
			w.after(time.Millisecond).records("t22", "t21", "t19", "17", "20")

			x := newWorld(w.t, w.policy)
			x.brokerConfig("group.streams.initial.rebalance.delay.ms", "1000")
			x.join("m1").ok(1)
			x.hb("m1", 1).ok(1).status(5)
			x.target("m1", allNine)
			x.appendFails = kerr.NotEnoughReplicas
			x.after(time.Second).records()
			x.after(5 * time.Second).records()
			x.hb("m1", 1).ok(2).tasks(allNine)
		}},
		{"rules 13-6 13-7 the initial delay outlives the members but not a move", bothModes, func(w *world) {
			w.brokerConfig("group.streams.initial.rebalance.delay.ms", "3000")
			w.join("m1").ok(1)
			w.after(2 * time.Second)
			w.hb("m1", -1).ok(-1)
			w.join("m2").ok(3).status(5)
			w.target("m2", allNine)
			w.after(time.Second).records("21(m2 s1:0-5 s2:0-2)", "20(4, now)")

			x := newWorld(w.t, w.policy)
			x.brokerConfig("group.streams.initial.rebalance.delay.ms", "3000")
			x.join("m1").ok(1).status(5)
			x.move()
			x.target("m1", allNine)
			x.hb("m1", 1).ok(2).tasks(allNine).status()
		}},
		{"rule 13-8 a running session keeps its time-out", bothModes, func(w *world) {
			one(w)
			w.groupConfig("streams.session.timeout.ms", "60000")
			w.after(45*time.Second).records("t22", "t21", "t19", "17", "20")
		}},
	})
}

func TestRulesAnswer(t *testing.T) {
	runCases(t, []testCase{
		{"rules 14-1 14-2 14-3 14-4 14-5 14-8 14-9 7-20 fields", bothModes, func(w *world) {
			w.groupConfig("streams.heartbeat.interval.ms", "6000", "streams.task.offset.interval.ms", "17000", "streams.acceptable.recovery.lag", "123")
			w.target("m1", allNine)
			resp := w.join("m1").ok(2).resp
			assert.Equal(w.t, "m1", resp.MemberID)
			assert.EqualValues(w.t, 6000, resp.HeartbeatIntervalMillis)
			assert.EqualValues(w.t, 17000, resp.TaskOffsetIntervalMillis)
			assert.EqualValues(w.t, 123, resp.AcceptableRecoveryLag)
			assert.False(w.t, resp.TopologyDescriptionRequired)
			assert.Nil(w.t, resp.PartitionsByUserEndpoint)
			resp = w.hb("m1", 2, version(0)).ok(2).resp
			assert.Equal(w.t, []kmsg.StreamsGroupHeartbeatResponseStatus{}, resp.Status)
			assert.Zero(w.t, resp.AcceptableRecoveryLagLegacy)
			// What a client of version 0 reads.
			read := kmsg.NewStreamsGroupHeartbeatResponse()
			read.Version = 0
			require.NoError(w.t, read.ReadFrom(resp.AppendTo(nil)))
			assert.EqualValues(w.t, -1, read.AcceptableRecoveryLag)
			assert.Zero(w.t, read.AcceptableRecoveryLagLegacy)
			assert.NotNil(w.t, read.Status)
		}},
		{"rule 14-6 when tasks are listed", bothModes, func(w *world) {
			w.t1(4)
			w.target("m1", "s1:0-3")
			w.join("m1").ok(2).tasks("s1:0-3")
			w.hb("m1", 2).ok(2).noLists()
			w.join("m1").ok(2).tasks("s1:0-3") // a join, although nothing changed
			w.target("m1", "s1:0,1", "m2", "s1:2,3")
			w.join("m2").ok(3).tasks("-")
			w.hb("m1", 2).ok(2).tasks("s1:0,1")            // without the pending ones
			w.hb("m1", 2, owned("s1:0-3")).ok(2).noLists() // nothing changed
			w.hb("m1", 2, owned("s1:0,1")).ok(3).noLists() // only the epoch did
			w.hb("m2", 3).ok(3).tasks("s1:2,3")
			w.hb("m2", 3, owned("s1:2,3")).ok(3).noLists()
			a := current{assigned: parseRoles("s1:0"), epochs: []int32{3}}
			b := a
			b.epochs = []int32{4}
			assert.False(w.t, a.sameTasks(b), "another assignment epoch")
			assert.True(w.t, a.sameTasks(a))
		}},
		{"rule 14-7 ascending", bothModes, func(w *world) {
			w.topic("baz", 12)
			w.topo = topo(0, sub("b", reads("foo")), sub("a", reads("baz")))
			w.target("m1", "a:0-11 b:0-5")
			active := w.join("m1").ok(2).resp.ActiveTasks
			assert.Equal(w.t, []kmsg.TaskIDs{
				{SubtopologyID: "a", Partitions: []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}, {SubtopologyID: "b", Partitions: []int32{0, 1, 2, 3, 4, 5}},
			}, active)
		}},
		{"rule 14-10 errors", bothModes, func(w *world) {
			a := w.hb("m1", 1).err(kerr.GroupIDNotFound) // checks the other fields
			assert.NotEmpty(w.t, *a.resp.ErrorMessage)
			assert.NotNil(w.t, a.resp.Status)
		}},
		{"rules 14.1-2 14.1-3 inconsistent and missing topics", bothModes, func(w *world) {
			w.topo = topo(0, sub("s1", reads("foo"), changelog("c")))
			w.join("m1").ok(2).status(3).detail(3, "c")
			w.topic("c", 5)
			w.hb("m1", 2).ok(3).status(2).detail(2, "c")
		}},
		{"rules 14.1-4 15 everybody is told", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, memberSpec{id: "m2", tasks: "s2:0-2"}, memberSpec{id: "m3", tasks: "-"})
			w.hb("m1", 10, shutdown()).ok(10).status(4).detail(4, "m1")
			w.hb("m2", 10).ok(10).status(4).detail(4, "m1")
			assert.Equal(w.t, []kmsg.StreamsGroupHeartbeatResponseStatus{}, w.hb("m3", -1).ok(-1).resp.Status, "not in the answer to a leave")
			w.target("m1", "s1:0-5", "m2", "s2:0-2")
			w.hb("m2", 10).ok(11).status(4)
			w.move()
			w.hb("m2", 11).ok(11).status()
		}},
		{"rule 15 with a join", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.target("m1", allNine, "m2", "-")
			w.join("m2", shutdown()).ok(11).status(4).detail(4, "m2")
			w.hb("m1", 10).ok(11).status(4).detail(4, "m2")
			w.hb("m2", 3, shutdown()).err(kerr.FencedMemberEpoch)
		}},
		{"rule 15 not with a refused heartbeat, nor the last member's leave", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.hb("m1", 10, shutdown(), owned("s9:0")).err(kerr.InvalidRequest)
			w.hb("m1", 10).ok(10).status()
			w.hb("m1", -1, shutdown()).ok(-1)
			w.target("m1", allNine)
			w.join("m1").ok(12).status()
		}},
		{"rule 14.1-6 missing tags", bothModes, func(w *world) {
			w.brokerConfig("group.streams.rack.aware.assignment.tags", "zone,cluster,row")
			w.target("m1", allNine)
			w.join("m1", tags("cluster=c", "other=o")).ok(2).status(6).detail(6, "zone", "row")
			w.hb("m1", 2, version(0)).ok(2).status()
			w.hb("m1", 2, tags("row=1", "cluster=c", "zone=z")).ok(3).status()
		}},
		{"rule 14.1-7 the order of the statuses", kafkaMode, func(w *world) {
			w.brokerConfig("group.streams.rack.aware.assignment.tags", "zone")
			w.brokerConfig("group.streams.initial.rebalance.delay.ms", "9000")
			w.topic("bar", 0)
			w.topo = topo(1, t2().Subtopologies...)
			w.join("m1").ok(1).status(5, 1, 6)
			w.join("m2", with(t2()), shutdown()).ok(1).status(0, 5, 1, 4, 6)
		}},
		{"rule 14.1-7 the order of the statuses", kipMode, func(w *world) {
			w.brokerConfig("group.streams.rack.aware.assignment.tags", "zone")
			w.brokerConfig("group.streams.initial.rebalance.delay.ms", "9000")
			w.topic("bar", 0)
			w.join("m1").ok(1).status(5, 1, 6)
			w.join("m2", with(topo(1, t2().Subtopologies...)), shutdown()).ok(1).status(5, 1, 4, 6)
			w.hb("m1", 1).ok(1).status(0, 5, 4, 6) // 1 is about the new topology (X6)
		}},
	})
}

func TestRulesEndpoints(t *testing.T) {
	runCases(t, []testCase{
		{"rule 16-1 what raises the epoch", bothModes, func(w *world) {
			w.t1(4)
			w.g10(memberSpec{id: "m1", tasks: "s1:0-3", endpoint: "h:1"}, memberSpec{id: "m2", tasks: "-", target: "-"})
			w.target("m1", "s1:0-3", "m2", "-")
			w.hb("m1", 10).ok(10).endpointEpoch(0)
			w.hb("m1", 10, rack("r")).ok(11).endpointEpoch(0)       // neither endpoint nor tasks
			w.hb("m1", 11, endpoint("h:2")).ok(12).endpointEpoch(1) // port
			w.hb("m1", 12, endpoint("i:2")).ok(13).endpointEpoch(2) // host
			w.hb("m1", 13, endpoint("i:2")).ok(13).endpointEpoch(2) // the same
			w.hb("m2", 10, endpoint("j:1")).ok(14).endpointEpoch(3) // there is one
			w.join("m2").ok(15).endpointEpoch(4)                    // and gone
			w.target("m1", "s1:0,1", "m2", "s1:2,3")
			w.hb("m2", 15, rack("r")).ok(16).endpointEpoch(4)       // no endpoint
			w.hb("m1", 13).ok(13).tasks("s1:0,1").endpointEpoch(5)  // tasks
			w.hb("m1", 13, owned("s1:0,1")).ok(16).endpointEpoch(5) // the epoch only
			w.hb("m2", 16).ok(16).tasks("s1:2,3").endpointEpoch(5)  // no endpoint
			w.hb("m1", 16, seen(5)).ok(16).endpointEpoch(5).endpoints()
		}},
		{"rule 16-2 not, rather than above", bothModes, func(w *world) {
			w.t1(2)
			w.g10(memberSpec{id: "m1", tasks: "s1:0,1", endpoint: "h:1"})
			w.target("m1", "s1:0,1")
			for _, epoch := range []int32{-1, 1, 99} {
				w.hb("m1", 10, seen(epoch)).ok(10).endpointEpoch(0).endpoints("h:1 foo:0,1")
			}
			w.hb("m1", 10, seen(0)).ok(10).endpoints()
			w.join("m1", seen(0)).ok(11).endpointEpoch(1).endpoints(nobody...) // possibly empty
		}},
		{"rule 16-3 the heartbeat that creates the group", bothModes, func(w *world) {
			w.t1(2)
			w.target("m1", "s1:0,1")
			w.join("m1", endpoint("h:1"), seen(0)).ok(2).endpointEpoch(0).endpoints("h:1 foo:0,1")
			w.hb("m1", 2, seen(0)).ok(2).endpointEpoch(0).endpoints()
		}},
		{"rule 16-1 D32 whoever is gone", bothModes, func(w *world) {
			w.t1(3)
			w.brokerConfig("group.streams.assignment.interval.ms", "15000") // nobody's tasks change
			w.g10(
				memberSpec{id: "m1", tasks: "s1:0", endpoint: "h:1"}, memberSpec{id: "m2", tasks: "s1:1", endpoint: "h:2"},
				memberSpec{id: "m3", state: unrevokedTasks, timeout: 5000, tasks: "-", pending: "s1:2", endpoint: "h:3"}, memberSpec{id: "m4", tasks: "-"})
			w.assignedAt(10, w.now.WallMillis)
			epoch, list := int32(0), []string{"h:1 foo:0", "h:2 foo:1", "h:3 -"}
			look := func(left ...string) {
				w.t.Helper()
				if left != nil && w.policy == KIP1071 {
					epoch++
					w.hb("m1", 10, seen(epoch-1)).ok(10).endpointEpoch(epoch).endpoints(left...)
				}
				if left != nil {
					list = left
				}
				w.hb("m1", 10, seen(epoch)).ok(10).endpointEpoch(epoch).endpoints()
				w.hb("m1", 10, seen(-1)).ok(10).endpointEpoch(epoch).endpoints(list...)
			}
			look()
			w.hb("m4", -1).ok(-1)
			look() // it had no endpoint
			w.after(5*time.Second).records("t22(m3)", "t21(m3)", "t19(m3)", "17(GE 12)")
			look("h:1 foo:0", "h:2 foo:1")
			w.hb("m2", -1).ok(-1)
			look("h:1 foo:0")
		}},
		{"rules 16-4 16-5 the list", bothModes, func(w *world) {
			w.topic("A", 5)
			w.topic("r", 3)
			w.topo = topo(0, sub("x", reads("A")), sub("y", reads("foo"), repartition("r", 3), writes("unused")), sub("z", reads("bar"), writes("r")))
			w.g10(
				memberSpec{id: "m1", tasks: "y:3,4 x:3,1 | standby y:5,1 x:0 | warmup y:2", endpoint: "h:1"},
				memberSpec{id: "m2", tasks: "x:2,4", endpoint: "h:1"},
				memberSpec{id: "m3", tasks: "y:0"},
				memberSpec{id: "m4", tasks: "-", endpoint: "h:4"})
			w.hb("m4", 10, seen(9)).ok(10).endpoints(
				"h:1 A:1,3 foo:3,4 | standby A:0 foo:1,2,5 r:1,2",
				"h:1 A:2,4", // not merged
				"h:4 -")
		}},
		{"rule 16-4 the member's own new tasks", bothModes, func(w *world) {
			w.t1(4)
			w.g10(memberSpec{id: "m1", tasks: "s1:0-3", endpoint: "h:1"}, memberSpec{id: "m2", tasks: "-", endpoint: "h:2"})
			w.target("m1", "s1:0,1", "m2", "s1:2,3")
			w.hb("m2", 10, rack("r")).ok(11).endpointEpoch(0)
			w.hb("m1", 10, seen(0)).ok(10).endpointEpoch(1).endpoints("h:1 foo:0,1", "h:2 -")
			w.hb("m2", 11, seen(1)).ok(11).endpointEpoch(1).endpoints()
			w.hb("m1", 10, owned("s1:0,1"), seen(1)).ok(11).endpoints()
			w.hb("m2", 11, seen(1)).ok(11).endpointEpoch(2).endpoints("h:1 foo:0,1", "h:2 foo:2,3")
		}},
	})
}
