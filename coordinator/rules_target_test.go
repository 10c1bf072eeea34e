package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamsgroup/streamsgroup/coordinator/assignor"
	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/topology"
)

// assignedAt makes the group look as if its target was computed at a time.
func (w *world) assignedAt(epoch int32, wall int64) {
	w.t.Helper()
	w.replay(&record.TargetAssignmentMetadata{Group: groupID, AssignmentEpoch: epoch, AssignmentTimestampMillis: wall})
}

func TestRulesTarget(t *testing.T) {
	delay := func(w *world, ms string) { w.brokerConfig("group.streams.initial.rebalance.delay.ms", ms) }
	interval := func(w *world, ms string) { w.brokerConfig("group.streams.assignment.interval.ms", ms) }
	runCases(t, []testCase{
		{"rules 7-15 11-1 14.1-5 the initial delay comes before everything", bothModes, func(w *world) {
			delay(w, "2000")
			w.g10()
			w.join("m1").ok(10).tasks("-").status(5).records("19", "17(GE 11)", "22(m1 STABLE ME 10 PME 0 -)")
			w.after(time.Second)
			w.hb("m1", 10).ok(10).noLists().status(5).records()
			w.topic("bar", 4)
			w.hb("m1", 10).ok(10).noLists().status(5).records("17(GE 12)")
		}},
		{"rule 11-2 the stored target", bothModes, func(w *world) {
			w.t1(3)
			w.g10(
				memberSpec{id: "m1", state: unreleasedTasks, me: 10, pme: 10, tasks: "s1:0", target: "s1:0,1"},
				memberSpec{id: "a1", instance: "i1", process: "pa", tasks: "s1:2", target: "s1:2"})
			w.hb("m1", 10).ok(10).tasks("s1:0,1").status()
			w.hb("a1", -2, inst("i1")).ok(-2)
			w.join("b1", inst("i1"), process("pa")).ok(10).tasks("s1:2") // under the new id
			assert.Empty(w.t, w.stub.calls)
		}},
		{"rules 11-4 14.1-5 the interval holds up what others have changed, too", bothModes, func(w *world) {
			interval(w, "5000")
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, memberSpec{id: "m2", tasks: "s2:0-2"})
			w.assignedAt(10, w.now.WallMillis)
			w.hb("m2", -1).ok(-1)
			w.hb("m1", 10).ok(10).noLists().status(5).records()
			assert.Empty(w.t, w.hb("m1", 10).ok(10).status(5).events)
			w.after(4999 * time.Millisecond)
			w.hb("m1", 10).ok(10).status(5)
			w.after(time.Millisecond)
			w.target("m1", allNine)
			w.hb("m1", 10).ok(11).tasks(allNine).status()
		}},
		{"rule 11-4 a static replacement during the interval", bothModes, func(w *world) {
			interval(w, "5000")
			w.t1(2)
			w.g10(memberSpec{id: "a1", instance: "i1", process: "pa", tasks: "s1:0,1"})
			w.assignedAt(10, w.now.WallMillis)
			w.hb("a1", -2, inst("i1")).ok(-2)
			w.join("b1", inst("i1"), process("px")).ok(10).tasks("s1:0,1").status(5)
		}},
		{"rule 11-5 who gets a record", bothModes, func(w *world) {
			w.t1(3)
			w.g10(memberSpec{id: "m1", tasks: "s1:0"}, memberSpec{id: "m2", tasks: "s1:1"}, memberSpec{id: "m3", tasks: "-", target: "-"})
			w.target("m1", "s1:0", "m2", "s1:1,2", "m3", "-", "m4", "-")
			w.join("m4").ok(11).records("19(m4)", "17(GE 11)", "21(m2 s1:1,2)", "21(m3 -)", "21(m4 -)", "20(11, now)", "22(m4 STABLE ME 11 PME 0 -)")
		}},
		{"rule 11-6 when the interval has passed", bothModes, func(w *world) {
			for _, c := range []struct {
				interval string
				ago      int64 // since the stored time; -1 for a stored time of 0
				passed   bool
			}{{"5000", -1, true}, {"0", 1, true}, {"5000", 5000, true}, {"5000", 4999, false}, {"5000", 0, false}} {
				x := newWorld(w.t, w.policy)
				interval(x, c.interval)
				x.g10(memberSpec{id: "m1", tasks: allNine})
				if c.ago >= 0 {
					x.assignedAt(10, x.now.WallMillis-c.ago)
				}
				x.target("m1", allNine)
				a := x.hb("m1", 10, rack("r"))
				if c.passed {
					a.ok(11).status()
				} else {
					a.ok(10).status(5)
				}
			}
		}},
		{"rule 11-7 what the assignor sees", bothModes, func(w *world) {
			w.topic("c", 6)
			w.topo = topo(0, sub("s1", reads("foo"), changelog("c")), sub("s2", reads("bar")))
			w.groupConfig("streams.num.standby.replicas", "1", "streams.rack.aware.assignment.tags", "zone")
			w.group(groupSpec{configs: []record.KeyValue{{Key: "num.standby.replicas", Value: "1"}, {Key: "rack.aware.assignment.tags", Value: "zone"}}, members: []memberSpec{
				{id: "m1", rack: "r1", tags: "zone=a", state: unrevokedTasks, tasks: "s1:0 | standby s1:1 | warmup s1:2", pending: "s1:3", target: "s1:4"},
				{id: "m2", tasks: "s2:0"},
				{id: "a1", instance: "i1", process: "pa", tasks: "s2:1"},
			}})
			w.hb("m1", 10, offsets("s1_1=5"), ends("s1_1=9")).ok(10)
			w.hb("a1", -2, inst("i1")).ok(-2)
			w.stub.target = map[string]string{"m1": "s1:0-5", "m2": "s2:0,2 | standby s1:0-5", "b1": "s2:1"}
			w.stub.calls = nil
			w.join("b1", inst("i1"), process("pb"), rack("r9"), tags("zone=b")).ok(11)
			require.Len(w.t, w.stub.calls, 1)
			in := *w.stub.calls[0]
			members := in.Members
			in.Members = nil
			assert.Equal(w.t, assignor.Group{
				StandbyReplicas: 1, RackAwareTags: []string{"zone"},
				Subtopologies: []assignor.Subtopology{{ID: "s1", Tasks: 6, Stateful: true}, {ID: "s2", Tasks: 3}},
			}, in)
			ids := map[string]assignor.Member{}
			for _, m := range members {
				ids[m.ID] = m
			}
			require.Len(w.t, members, 3)
			assert.NotContains(w.t, ids, "a1")
			m1, b1 := ids["m1"], ids["b1"]
			set := func(tasks string) any { return listToSet(parseTasks(tasks)) }
			assert.Equal(w.t, set("s1:0"), m1.Prior.Active, "neither pending nor target")
			assert.Equal(w.t, set("s1:1"), m1.Prior.Standby)
			assert.Equal(w.t, set("s1:2"), m1.Prior.Warmup)
			assert.Equal(w.t, "p1", m1.ProcessID)
			assert.Equal(w.t, "r1", m1.RackID)
			assert.Equal(w.t, map[string]string{"zone": "a"}, m1.ClientTags)
			assert.Equal(w.t, map[topology.TaskID]int64{{Subtopology: "s1", Partition: 1}: 5}, m1.Offsets)
			assert.Equal(w.t, map[topology.TaskID]int64{{Subtopology: "s1", Partition: 1}: 9}, m1.EndOffsets)
			assert.Equal(w.t, "i1", b1.InstanceID)
			assert.Equal(w.t, "pb", b1.ProcessID, "as it is with this request")
			assert.Equal(w.t, "r9", b1.RackID)
			assert.Equal(w.t, set("s2:1"), b1.Prior.Active)
		}},
		{"rule 11-8 members without an entry", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.c.assignors["stub"] = assignorFunc(func(*assignor.Group) (assignor.Assignment, error) {
				return assignor.Assignment{"m1": {Active: listToSet(parseTasks(allNine))}}, nil
			})
			w.join("m2").ok(11).tasks("-").records("19(m2)", "17(GE 11)", "21(m2 -)", "20(11, now)", "22(m2 STABLE ME 11 PME 0 -)")
		}},
		{"rule 11-9 results that are wrong", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, memberSpec{id: "m2", tasks: "s2:0-2"})
			before := w.c.stateOf(groupID)
			for _, pairs := range [][]string{
				{"m1", allNine, "m2", "s2:0"},         // twice
				{"m1", "s1:0-5", "m2", "s2:0,1"},      // one is left out
				{"m1", "s1:0-5", "m2", "s2:0-3"},      // one does not exist
				{"m1", "s1:0-5 s3:0", "m2", "s2:0-2"}, // nor does its subtopology
			} {
				w.target(pairs...)
				a := w.hb("m1", 10, rack("r")).err(kerr.UnknownServerError)
				assert.Nil(w.t, a.resp.ErrorMessage)
				assert.NotEmpty(w.t, the[AssignmentFailed](a).Reason)
				assert.Equal(w.t, before, w.c.stateOf(groupID))
			}
			w.target("m1", "s1:0-5", "m2", "s2:0-2")
			w.hb("m1", 10, rack("r")).ok(11)
		}},
		{"rule 11-10 which assignor", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			other := &stubAssignor{t: w.t, name: "other", target: map[string]string{"m1": allNine}}
			w.c.assignors["other"] = other
			w.target("m1", allNine)
			w.groupConfig("streams.assignor.name", "other", "streams.assignor.offload.enable", "true")
			w.hb("m1", 10).ok(10).records()
			assert.Equal(w.t, "other", the[TargetComputed](w.hb("m1", 10, rack("r")).ok(11)).Assignor)
			assert.Empty(w.t, w.stub.calls)
			w.groupConfig("streams.assignor.name", "nobody")
			w.hb("m1", 11, rack("r2")).ok(12)
			assert.Len(w.t, w.stub.calls, 1)
		}},
		{"rule 11.1-1 the delay of a deleted group", bothModes, func(w *world) {
			delay(w, "2000")
			w.join("m1").ok(1)
			w.hb("m1", -1).ok(-1)
			code, _ := w.delete()
			require.Zero(w.t, code)
			_, armed := w.c.NextDeadline()
			assert.False(w.t, armed)
			w.after(3 * time.Second).records()
			assert.Empty(w.t, w.c.List())
		}},
		{"rule 11.1-2 the delay ends in an empty group", bothModes, func(w *world) {
			delay(w, "2000")
			w.join("m1").ok(1)
			w.hb("m1", -1).ok(-1)
			w.after(3 * time.Second).records()
			w.wantEpoch(3)
		}},
		{"rule 11.1-3 the topics were not looked at", bothModes, func(w *world) {
			delay(w, "2000")
			w.join("m1").ok(1).status(5)
			w.c.groups[groupID].topics = topicView{}
			w.after(2 * time.Second).records()
			w.target("m1", allNine)
			w.hb("m1", 1).ok(2).tasks(allNine).status().records("21", "20(2, now)", "22")
		}},
		{"rule 11.1-4 the stored configs decide", bothModes, func(w *world) {
			delay(w, "2000")
			w.topic("c", 6)
			w.topo = topo(0, sub("s1", reads("foo"), changelog("c")))
			w.groupConfig("streams.num.standby.replicas", "1", "streams.rack.aware.assignment.tags", "zone")
			w.join("m1", tags("zone=a")).ok(1).status(5)
			w.hb("m1", 1).ok(1).status(5)
			w.groupConfig("streams.num.standby.replicas", "2") // nobody has seen this yet
			w.target("m1", "s1:0-5")
			w.after(2*time.Second).records("21(m1 s1:0-5)", "20(2, now)")
			assert.Equal(w.t, 1, w.stub.calls[0].StandbyReplicas)
			assert.Equal(w.t, []string{"zone"}, w.stub.calls[0].RackAwareTags)
			w.hb("m1", 1).ok(3)
			assert.Equal(w.t, 2, w.stub.calls[1].StandbyReplicas)
			assert.Empty(w.t, w.stub.calls[1].RackAwareTags)
		}},
		{"rule 11.1-4 nothing to do any more, or not yet", bothModes, func(w *world) {
			delay(w, "2000")
			interval(w, "5000")
			w.g10()
			w.join("m1").ok(10).status(5)
			w.assignedAt(10, w.now.WallMillis)
			w.after(2 * time.Second).records() // the interval still holds it up
			w.hb("m1", 10).ok(10).status(5)
			w.target("m1", allNine)
			w.after(3 * time.Second)
			w.hb("m1", 10).ok(11).tasks(allNine)
		}},
	})
}

type assignorFunc func(*assignor.Group) (assignor.Assignment, error)

func (assignorFunc) Name() string                                            { return "stub" }
func (f assignorFunc) Assign(g *assignor.Group) (assignor.Assignment, error) { return f(g) }

// TestRulesReconciliation are single steps, told apart by what is looked at.
func TestRulesReconciliation(t *testing.T) {
	t.Parallel()
	const unchanged = "unchanged"
	for _, c := range []stepCase{
		{name: "rules 12.1-1 12.2-12 12.2-13", me: 8, pme: 5, tasks: "s1:1", target: "s1:1", owned: "null", want: "STABLE ME 11 PME 8 s1:1@8", roles: true},
		{name: "rule 12.1-2 Q9 unknown", state: unrevokedTasks, tasks: "s1:1", pending: "s1:2", target: "-", epoch: 15, owned: "null", want: unchanged, roles: true},
		{name: "rule 12.1-2 Q9 overlap", state: unrevokedTasks, tasks: "s1:1", pending: "s1:2,3", target: "s1:1,2,3", epoch: 15, owned: "s1:3", want: unchanged, roles: true},
		{name: "rule 12.1-3 another role does not overlap", state: unrevokedTasks, tasks: "- | standby s1:2", pending: "s1:2", target: "- | standby s1:2", owned: "- | standby s1:2", want: "STABLE ME 11 PME 10 standby s1:2"},
		{name: "rule 12.1-3 from ME + 1", state: unrevokedTasks, me: 10, pme: 9, tasks: "s1:1,2", pending: "s1:3", target: "s1:1", epoch: 20, owned: "s1:1,2", want: "UNREVOKED_TASKS ME 11 PME 10 s1:1@10 pending s1:2@10", roles: true},
		{name: "rules 12.1-4 12.2-9 from ME", state: unreleasedTasks, me: 10, pme: 9, tasks: "s1:1,2", target: "s1:1,5", epoch: 20, owned: "null", want: "UNREVOKED_TASKS ME 10 PME 10 s1:1@10 pending s1:2@10", roles: true},
		{name: "rule 12.1-5 unknown", state: unknownState, tasks: "s1:1", target: "s1:1", owned: "null", fenced: true, roles: true},
		{name: "rule 12.1-5 not empty", state: unknownState, tasks: "s1:1", target: "s1:1", owned: "s1:1", fenced: true, roles: true},
		{name: "rule 12.1-6 from the epoch of the target", state: unknownState, me: 5, pme: 4, tasks: "s1:1,2", target: "s1:1,3", owned: "-", want: "STABLE ME 11 PME 5 s1:1@5 s1:3@11"},
		{name: "rule 12.1-7", tasks: "s1:1", target: "s1:2", epoch: 10, owned: "-", want: unchanged, roles: true},

		{name: "rule 12.2-1 the standby is there at once", tasks: "s1:0,1", target: "s1:1 | standby s1:0", index: "p s1:0,1", owned: "null", want: "UNREVOKED_TASKS ME 10 PME 10 s1:1@10 | standby s1:0 pending s1:0@10"},
		{name: "rule 12.2-1 and reported as given up", tasks: "s1:0,1", target: "s1:1 | standby s1:0", index: "p s1:0,1", owned: "s1:1", want: "STABLE ME 11 PME 10 s1:1@10 | standby s1:0"},
		{name: "rule 12.2-2", tasks: "s1:1 | standby s1:0", target: "s1:1 | warmup s1:0", index: "p s1:1 | standby s1:0", owned: "null", want: "STABLE ME 11 PME 10 s1:1@10 | warmup s1:0"},
		{name: "rule 12.2-3", tasks: "s1:1 | warmup s1:0", target: "s1:1 | standby s1:0", index: "p s1:1 | warmup s1:0", owned: "null", want: "STABLE ME 11 PME 10 s1:1@10 | standby s1:0"},
		{name: "rules 12.2-2 12.2-3 while blocked", tasks: "s1:9 | standby s1:0 | warmup s1:1", target: "- | standby s1:1 | warmup s1:0", index: "p s1:9 | standby s1:0 | warmup s1:1", owned: "null", want: "UNREVOKED_TASKS ME 10 PME 10 standby s1:1 | warmup s1:0 pending s1:9@10"},
		{name: "rules 12.2-4 12.2-5 granted", tasks: "- | standby s1:0 | warmup s1:1", target: "s1:0,1", index: "p - | standby s1:0 | warmup s1:1", owned: "null", want: "STABLE ME 11 PME 10 s1:0,1@11"},
		{name: "rule 12.2-5 not granted", tasks: "- | standby s1:0 | warmup s1:1", target: "s1:0,1", index: "p - | standby s1:0 | warmup s1:1; q s1:0,1", owned: "null", want: "UNRELEASED_TASKS ME 11 PME 10 standby s1:0 | warmup s1:1"},
		{name: "rule 12.2-5 blocked", tasks: "s1:9 | standby s1:0 | warmup s1:1", target: "s1:0,1", index: "p s1:9 | standby s1:0 | warmup s1:1", owned: "null", want: "UNREVOKED_TASKS ME 10 PME 10 standby s1:0 | warmup s1:1 pending s1:9@10"},
		{name: "rule 12.2-5 active to warm-up is not done in place", tasks: "s1:0", target: "- | warmup s1:0", index: "p s1:0", owned: "-", want: "UNRELEASED_TASKS ME 11 PME 10 -"},

		{name: "rule 12.2-6 owned elsewhere", target: "s1:0", index: "q s1:0", owned: "null", want: "UNRELEASED_TASKS ME 11 PME 10 -"},
		{name: "rule 12.2-6 owned by the process", target: "s1:0", index: "p s1:0", owned: "null", want: "UNRELEASED_TASKS ME 11 PME 10 -"},
		{name: "rule 12.2-6 a sibling's standby", target: "s1:0", index: "p - | standby s1:0", owned: "null", want: "UNRELEASED_TASKS ME 11 PME 10 -"},
		{name: "rule 12.2-6 a sibling's warm-up", target: "s1:0", index: "p - | warmup s1:0", owned: "null", want: "UNRELEASED_TASKS ME 11 PME 10 -"},
		{name: "rule 12.2-6 replicas elsewhere", target: "s1:0", index: "q - | standby s1:0 | warmup s1:0", owned: "null", want: "STABLE ME 11 PME 10 s1:0@11"},
		{name: "rule 12.2-7 active in the process", target: "- | standby s1:0", index: "p s1:0", owned: "null", want: "UNRELEASED_TASKS ME 11 PME 10 -"},
		{name: "rule 12.2-7 standby in the process", target: "- | standby s1:0", index: "p - | standby s1:0", owned: "null", want: "UNRELEASED_TASKS ME 11 PME 10 -"},
		{name: "rule 12.2-7 warm-up in the process", target: "- | standby s1:0", index: "p - | warmup s1:0", owned: "null", want: "UNRELEASED_TASKS ME 11 PME 10 -"},
		{name: "rule 12.2-7 elsewhere", target: "- | standby s1:0", index: "q s1:0; r - | standby s1:0; s - | warmup s1:0", owned: "null", want: "STABLE ME 11 PME 10 standby s1:0"},
		{name: "rule 12.2-8 active in the process", target: "- | warmup s1:0", index: "p s1:0", owned: "null", want: "UNRELEASED_TASKS ME 11 PME 10 -"},
		{name: "rule 12.2-8 standby in the process", target: "- | warmup s1:0", index: "p - | standby s1:0", owned: "null", want: "UNRELEASED_TASKS ME 11 PME 10 -"},
		{name: "rule 12.2-8 warm-up in the process", target: "- | warmup s1:0", index: "p - | warmup s1:0", owned: "null", want: "UNRELEASED_TASKS ME 11 PME 10 -"},
		{name: "rule 12.2-8 elsewhere", target: "- | warmup s1:0", index: "q s1:0; r - | standby s1:0; s - | warmup s1:0", owned: "null", want: "STABLE ME 11 PME 10 warmup s1:0"},

		{name: "rule 12.2-9 nothing is granted", tasks: "s1:0,1", target: "s1:1,2", owned: "s1:0", want: "UNREVOKED_TASKS ME 10 PME 10 s1:1@10 pending s1:0@10", roles: true},
		{name: "rule 12.2-10 all", tasks: "s1:0", target: "s1:0,1,2", owned: "null", want: "STABLE ME 11 PME 10 s1:0@10 s1:1,2@11", roles: true},
		{name: "rule 12.2-10 some", tasks: "s1:0", target: "s1:0,1,2", index: "p s1:1", owned: "null", want: "UNRELEASED_TASKS ME 11 PME 10 s1:0@10 s1:2@11", roles: true},
		{name: "rule 12.2-11 none", tasks: "s1:0", target: "s1:0,1", index: "p s1:1", owned: "null", want: "UNRELEASED_TASKS ME 11 PME 10 s1:0@10", roles: true},
		{name: "rule 12.2-13 Q10 PME although ME stays", state: unreleasedTasks, me: 11, pme: 7, tasks: "s1:0", target: "s1:0,1", index: "p s1:1", owned: "null", want: "UNRELEASED_TASKS ME 11 PME 11 s1:0@11", roles: true},
		{name: "rule 12.2-14 epochs", state: unrevokedTasks, tasks: "s1:0@3 s1:1@4", pending: "s1:2@5", target: "s1:0,5", epoch: 20, owned: "s1:0,1", want: "UNREVOKED_TASKS ME 11 PME 10 s1:0@3 pending s1:1@4"},
		{name: "rule 12.2-15", state: unreleasedTasks, me: 11, pme: 11, tasks: "s1:0", target: "s1:0,1", index: "p s1:1", owned: "null", want: unchanged, roles: true},
		{name: "rule 12.2-17", tasks: "s1:0,1,2", target: "s1:2,3", owned: "s1:2", want: "STABLE ME 11 PME 10 s1:2@10 s1:3@11", roles: true},
	} {
		variants := []Role{Active}
		if c.roles {
			variants = []Role{Active, Standby, Warmup}
		}
		for _, role := range variants {
			t.Run(c.name+", "+role.String(), func(t *testing.T) {
				t.Parallel()
				checkStep(t, c, role)
			})
		}
	}
}

func TestRulesReconciliationOfMembers(t *testing.T) {
	runCases(t, []testCase{
		{"rules 7-17 12.2-15 12.2-16 records and the rebalance timer", bothModes, func(w *world) {
			w.t1(4)
			w.target("m1", "s1:0-3")
			w.join("m1", timeout(20000)).ok(2)
			timer := &w.c.groups[groupID].members["m1"].rebalance
			assert.False(w.t, timer.armed())
			w.target("m1", "s1:0,1", "m2", "s1:2,3")
			w.join("m2").ok(3)
			w.hb("m1", 2).ok(2).records("22(m1 UNREVOKED_TASKS ME 2 PME 2 s1:0,1@2 pending s1:2,3@2)")
			at := timer.at
			assert.Equal(w.t, w.now.Mono+20*time.Second, at)
			w.after(time.Second)
			w.hb("m1", 2, owned("s1:0-2")).ok(2).records()
			assert.Equal(w.t, at, timer.at)
			w.target("m1", "s1:0", "m2", "s1:1-3")
			w.hb("m2", 3, rack("r")).ok(4)
			w.hb("m1", 2, owned("s1:0,1")).ok(3).records("22(m1 UNREVOKED_TASKS ME 3 PME 2 s1:0@2 pending s1:1@2)")
			assert.Equal(w.t, w.now.Mono+20*time.Second, timer.at)
			w.hb("m1", 3, owned("s1:0")).ok(4)
			assert.False(w.t, timer.armed())
		}},
		{"rules 12.3 7-16 the refined assignment is the target", bothModes, func(w *world) {
			w.groupConfig("streams.num.warmup.replicas", "2", "streams.acceptable.recovery.lag", "0")
			w.topic("c", 6)
			w.topo = topo(0, sub("s1", reads("foo"), changelog("c")))
			w.target("m1", "s1:0-5")
			w.join("m1").ok(2)
			w.target("m1", "s1:0-2", "m2", "s1:3-5")
			w.join("m2", offsets("s1_3=1"), ends("s1_3=1000000")).ok(3).tasks("-")
			w.hb("m1", 2).ok(2).tasks("s1:0-2")
			// A member that has no target is to have nothing.
			w.replay(tombstone(record.TypeTargetAssignment, groupID, "m2"))
			w.hb("m1", 2, owned("s1:0-2")).ok(3)
			w.hb("m2", 3).ok(3).noLists()
			w.wantMember("m2", "STABLE ME 3 PME 3 -")
		}},
	})
}
