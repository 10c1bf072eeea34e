package coordinator

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

func TestLeavingAndTimers(t *testing.T) {
	timers := func(w *world) int { return len(w.c.timers) }
	runCases(t, []testCase{
		{"L-01 L-03 one of two leaves, the next heartbeat reassigns", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, memberSpec{id: "m2", tasks: "s2:0-2"})
			a := w.hb("m2", -1).ok(-1).status().noLists().records("t22(m2)", "t21(m2)", "t19(m2)", "17(GE 11)")
			assert.Equal(w.t, "m2", a.resp.MemberID)
			assert.Zero(w.t, a.resp.HeartbeatIntervalMillis)
			assert.Zero(w.t, a.resp.TaskOffsetIntervalMillis)
			assert.EqualValues(w.t, -1, a.resp.AcceptableRecoveryLag)
			assert.Equal(w.t, MemberLeft{Group: groupID, Member: "m2", Cause: Left, Held: parseTasks("s2:0-2")}, the[MemberLeft](a))
			w.wantState(Assigning)
			w.target("m1", allNine)
			w.hb("m1", 10).ok(11).tasks(allNine).records("21(m1 s1:0-5 s2:0-2)", "20(11, now)", "22(m1 STABLE ME 11 PME 10 s1:0-5@10 s2:0-2@11)")
		}},
		{"L-02 last member", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.hb("m1", -1).ok(-1).records("t22(m1)", "t21(m1)", "t19(m1)", "17(GE 11)", "20(11, 0)")
			w.wantState(Empty)
		}},
		{"L-04 session timer life", bothModes, func(w *world) {
			w.target("m1", allNine)
			w.join("m1").ok(2)
			at, _ := w.c.NextDeadline()
			assert.Equal(w.t, w.now.Mono+45*time.Second, at)
			w.after(5 * time.Second).records()
			w.hb("m1", 2).ok(2)
			assert.Equal(w.t, w.now.Mono+45*time.Second, w.c.groups[groupID].members["m1"].session.at)
			w.after(45*time.Second - 1).records()
			w.hb("m1", 2).ok(2)
			w.hb("m1", -1).ok(-1)
			assert.Zero(w.t, timers(w))
			_, ok := w.c.NextDeadline()
			assert.False(w.t, ok)
		}},
		{"L-05 session expiry", bothModes, func(w *world) {
			w.target("m1", allNine)
			w.join("m1").ok(2)
			a := w.after(45001*time.Millisecond).records("t22(m1)", "t21(m1)", "t19(m1)", "17(GE 3)", "20(3, 0)")
			assert.Equal(w.t, MemberLeft{Group: groupID, Member: "m1", Cause: SessionExpired, After: 45 * time.Second, Held: parseTasks(allNine)}, the[MemberLeft](a))
			assert.Equal(w.t, StateChanged{Group: groupID, From: Stable, To: Empty}, the[StateChanged](a))
			assert.Zero(w.t, timers(w))
			w.hb("m1", 2).err(kerr.UnknownMemberID)
		}},
		{"L-06 rebalance timer life", bothModes, func(w *world) {
			w.t1(3)
			w.target("m1", "s1:0-2")
			w.join("m1", timeout(12000)).ok(2)
			w.target("m1", "s1:0,1", "m2", "s1:2")
			w.join("m2").ok(3)
			w.hb("m1", 2).ok(2).tasks("s1:0,1")
			assert.True(w.t, w.c.groups[groupID].members["m1"].rebalance.armed())
			assert.Equal(w.t, w.now.Mono+12*time.Second, w.c.groups[groupID].members["m1"].rebalance.at)
			w.after(5 * time.Second)
			w.hb("m1", 2, owned("s1:0,1")).ok(3)
			assert.False(w.t, w.c.groups[groupID].members["m1"].rebalance.armed())
			w.after(20 * time.Second).records()
			w.wantMember("m1", "STABLE ME 3 PME 2 s1:0,1@2")
		}},
		{"L-07 L-08 rebalance expiry, no re-arming while waiting", bothModes, func(w *world) {
			w.t1(3)
			w.target("m1", "s1:0-2")
			w.join("m1", timeout(10000)).ok(2)
			w.target("m1", "s1:0,1", "m2", "s1:2")
			w.join("m2").ok(3)
			w.hb("m1", 2).ok(2).tasks("s1:0,1")
			w.after(9 * time.Second).records()
			w.hb("m1", 2).ok(2).records()
			w.after(999 * time.Millisecond).records()
			a := w.after(2*time.Millisecond).records("t22(m1)", "t21(m1)", "t19(m1)", "17(GE 4)")
			assert.Equal(w.t, MemberLeft{Group: groupID, Member: "m1", Cause: RebalanceExpired, After: 10 * time.Second, Held: parseTasks("s1:0-2")}, the[MemberLeft](a))
			assert.Equal(w.t, 1, timers(w), "only the session of m2")
			w.target("m2", "s1:0-2")
			w.hb("m2", 3).ok(4).tasks("s1:0-2")
		}},
		{"L-09 a second revocation arms the timer anew", bothModes, func(w *world) {
			w.t1(4)
			w.group(groupSpec{ge: 12, members: []memberSpec{
				{id: "m1", me: 10, pme: 10, state: unrevokedTasks, timeout: 10000, tasks: "s1:0,1", pending: "s1:2", target: "s1:0"},
				{id: "m2", me: 12, pme: 12, state: unreleasedTasks, tasks: "s1:3", target: "s1:1-3"},
			}})
			w.after(9 * time.Second).records()
			w.hb("m1", 10, owned("s1:0,1")).ok(11).tasks("s1:0").records("22(m1 UNREVOKED_TASKS ME 11 PME 10 s1:0@10 pending s1:1@10)")
			w.after(9 * time.Second).records()
			w.after(1001*time.Millisecond).records("t22(m1)", "t21(m1)", "t19(m1)", "17(GE 13)")
		}},
		{"L-10 failing heartbeat does not re-arm", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.hb("m1", 10).ok(10)
			w.after(40 * time.Second)
			w.hb("m1", 999).err(kerr.FencedMemberEpoch)
			w.hb("m1", 10, owned("s9:0")).err(kerr.InvalidRequest)
			w.after(4999 * time.Millisecond).records()
			w.after(2*time.Millisecond).records("t22", "t21", "t19", "17", "20")
		}},
		{"L-11 epoch irrelevant on leave", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5", me: 7, pme: 6}, memberSpec{id: "a1", tasks: "s2:0-2", instance: "i1"})
			w.hb("m1", -1).ok(-1).records("t22(m1)", "t21(m1)", "t19(m1)", "17(GE 11)")
			w.hb("a1", -1).ok(-1).records("t22(a1)", "t21(a1)", "t19(a1)", "17(GE 12)", "20(12, 0)")
			w.wantState(Empty)
		}},
		{"L-13 a failed append of a timer is tried again after 500 ms", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.hb("m1", 10).ok(10)
			w.appendFails = kerr.NotEnoughReplicas
			w.after(45 * time.Second).records()
			w.wantMember("m1", "STABLE ME 10 PME 9 s1:0-5@10 s2:0-2@10")
			w.after(499 * time.Millisecond).records()
			w.after(1*time.Millisecond).records("t22", "t21", "t19", "17", "20")
		}},
		{"loading arms the timers", bothModes, func(w *world) {
			w.t1(4)
			w.group(groupSpec{loaded: true, members: []memberSpec{
				{id: "m1", me: 9, pme: 9, state: unrevokedTasks, timeout: 10000, tasks: "s1:0,1", pending: "s1:2", target: "s1:0,1"},
				{id: "m2", me: 10, pme: 10, state: unreleasedTasks, tasks: "s1:3", target: "s1:2,3"},
			}})
			w.after(9999 * time.Millisecond).records()
			w.after(1*time.Millisecond).records("t22(m1)", "t21(m1)", "t19(m1)", "17(GE 11)")
			w.after(35*time.Second).records("t22(m2)", "t21(m2)", "t19(m2)", "17(GE 12)", "20(12, 0)")
		}},
	})
}

func TestDelays(t *testing.T) {
	delay := func(w *world, ms string) { w.brokerConfig("group.streams.initial.rebalance.delay.ms", ms) }
	runCases(t, []testCase{
		{"D-01 D-02 initial delay", bothModes, func(w *world) {
			delay(w, "1000")
			w.t1(2)
			a := w.join("m1").ok(1).tasks("-").status(5).endpointEpoch(0).records("19(m1)", "23(TE 0)", "17(GE 2)", "22(m1 STABLE ME 1 PME 0 -)")
			assert.Equal(w.t, AssignmentDelayed{Group: groupID, Wait: time.Second, Initial: true}, the[AssignmentDelayed](a))
			w.wantState(Assigning)
			w.after(500 * time.Millisecond).records()
			assert.Empty(w.t, w.hb("m1", 1).ok(1).noLists().status(5).records().events)
			w.target("m1", "s1:0,1")
			w.after(500*time.Millisecond).records("21(m1 s1:0,1)", "20(2, now)")
			w.hb("m1", 1, owned("-")).ok(2).tasks("s1:0,1").status().records("22(m1 STABLE ME 2 PME 1 s1:0,1@2)")
		}},
		{"D-03 joins are collected", bothModes, func(w *world) {
			delay(w, "3000")
			for i, m := range []string{"m1", "m2", "m3"} {
				w.join(m).ok(1).tasks("-").status(5)
				w.wantEpoch(int32(2 + i))
				if m != "m3" {
					w.after(time.Second).records()
				}
			}
			w.target("m1", "s1:0-2", "m2", "s1:3-5", "m3", "s2:0-2")
			w.after(time.Second).records("21(m1 s1:0-2)", "21(m2 s1:3-5)", "21(m3 s2:0-2)", "20(4, now)")
			w.hb("m1", 1).ok(4).tasks("s1:0-2").status().records("22(m1 STABLE ME 4 PME 1 s1:0-2@4)")
			w.hb("m2", 1).ok(4).tasks("s1:3-5").status().records("22(m2 STABLE ME 4 PME 1 s1:3-5@4)")
			w.hb("m3", 1).ok(4).tasks("s2:0-2").status().records("22(m3 STABLE ME 4 PME 1 s2:0-2@4)")
			w.wantState(Stable)
			assert.Len(w.t, w.stub.calls, 1)
		}},
		{"D-04 empty group with history", bothModes, func(w *world) {
			delay(w, "1000")
			w.g10()
			w.join("m1").ok(10).tasks("-").status(5).records("19(m1)", "17(GE 11 VTE 0)", "22(m1 STABLE ME 10 PME 0 -)")
			w.target("m1", allNine)
			w.after(time.Second).records("21(m1 s1:0-5 s2:0-2)", "20(11, now)")
			w.after(time.Second).records()
			w.hb("m1", 10).ok(11).tasks(allNine).status().records("22(m1 STABLE ME 11 PME 10 s1:0-5@11 s2:0-2@11)")
		}},
		{"D-05 the delay outlives the members", bothModes, func(w *world) {
			delay(w, "3000")
			w.join("m1").ok(1).status(5)
			w.after(time.Second)
			w.hb("m1", -1).ok(-1)
			a := w.join("m2").ok(3).status(5)
			assert.Zero(w.t, count[AssignmentDelayed](a), "it runs already")
			w.target("m2", allNine)
			w.after(1999 * time.Millisecond).records()
			w.after(1*time.Millisecond).records("21(m2 s1:0-5 s2:0-2)", "20(4, now)")
		}},
		{"D-02 the assignor fails when the delay is over", bothModes, func(w *world) {
			delay(w, "1000")
			w.t1(2)
			w.join("m1").ok(1).status(5)
			w.hb("m1", 1).ok(1).status(5)
			w.stub.err = errors.New("no idea")
			a := w.after(time.Second).records()
			assert.Equal(w.t, AssignmentFailed{Group: groupID, Epoch: 2, Assignor: "stub", Reason: "no idea"}, the[AssignmentFailed](a))
			w.hb("m1", 1).err(kerr.UnknownServerError)
			w.stub.err = nil
			w.target("m1", "s1:0,1")
			w.hb("m1", 1).ok(2).tasks("s1:0,1")
		}},
		{"D-02 the append fails when the delay is over", bothModes, func(w *world) {
			delay(w, "1000")
			w.t1(2)
			w.join("m1").ok(1).status(5)
			w.hb("m1", 1).ok(1).status(5)
			w.target("m1", "s1:0,1")
			w.appendFails = kerr.NotEnoughReplicas
			w.after(time.Second).records()
			w.hb("m1", 1).ok(2).tasks("s1:0,1").records("21", "20(2, now)", "22")
		}},
		{"D-06 the delay ends in an empty group", bothModes, func(w *world) {
			delay(w, "3000")
			w.join("m1").ok(1).status(5)
			w.hb("m1", -1).ok(-1)
			w.after(3 * time.Second).records()
			assert.Empty(w.t, w.c.timers)
		}},
		{"D-07 D-08 assignment interval", bothModes, func(w *world) {
			w.brokerConfig("group.streams.assignment.interval.ms", "5000")
			w.t1(6)
			w.target("m1", "s1:0-5")
			w.join("m1").ok(2).tasks("s1:0-5").status().records("19(m1)", "23(TE 0)", "17(GE 2 VTE 0)", "21(m1 s1:0-5)", "20(2, now)", "22(m1 STABLE ME 2 PME 0 s1:0-5@2)")
			w.stub.target = nil
			w.after(4995 * time.Millisecond).records()
			a := w.join("m2").ok(2).tasks("-").status(5).endpointEpoch(0).records("19(m2)", "17(GE 3)", "22(m2 STABLE ME 2 PME 0 -)")
			assert.Equal(w.t, AssignmentDelayed{Group: groupID, Wait: 5 * time.Millisecond}, the[AssignmentDelayed](a))
			assert.Empty(w.t, w.hb("m2", 2).ok(2).noLists().status(5).records().events)
			w.after(10 * time.Millisecond)
			w.target("m1", "s1:0-2", "m2", "s1:3-5")
			w.hb("m2", 2).ok(3).noLists().status().records("21(m1 s1:0-2)", "21(m2 s1:3-5)", "20(3, now)", "22(m2 UNRELEASED_TASKS ME 3 PME 2 -)")
		}},
		{"D-09 a stored time in the future counts as elapsed", bothModes, func(w *world) {
			w.brokerConfig("group.streams.assignment.interval.ms", "5000")
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.replay(&record.TargetAssignmentMetadata{Group: groupID, AssignmentEpoch: 10, AssignmentTimestampMillis: startWall + 1_000_000})
			w.target("m1", allNine)
			w.hb("m1", 10, rack("r")).ok(11).status()
		}},
		{"D-10 the delay ends before a second heartbeat", bothModes, func(w *world) {
			delay(w, "1000")
			w.t1(2)
			w.target("m1", "s1:0,1")
			w.join("m1").ok(1).status(5)
			struck := w.after(time.Second)
			a := w.hb("m1", 1, owned("-")).ok(2).tasks("s1:0,1").status()
			if w.policy == Kafka { // which has forgotten the topics
				assert.Empty(w.t, struck.recs)
				a.records("21(m1 s1:0,1)", "20(2, now)", "22(m1 STABLE ME 2 PME 1 s1:0,1@2)")
			} else {
				struck.records("21(m1 s1:0,1)", "20(2, now)")
				a.records("22(m1 STABLE ME 2 PME 1 s1:0,1@2)")
			}
			w.wantState(Stable)
		}},
	})
}
