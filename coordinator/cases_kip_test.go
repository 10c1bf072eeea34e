package coordinator

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/topology"
)

// What KIP-1071 asks for beyond Kafka: live topology updates above all.
func TestTopologyUpdates(t *testing.T) {
	two := func(w *world) {
		w.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, memberSpec{id: "m2", tasks: "s2:0-2"})
	}
	// t3 is T2 with a third subtopology, as topology epoch 1.
	t3 := func(w *world) *kmsg.StreamsGroupHeartbeatRequestTopology {
		w.topic("baz", 2)
		return topo(1, append(slices.Clone(t2().Subtopologies), sub("s3", reads("baz")))...)
	}
	// untouched checks that a refused join has left no trace.
	untouched := func(w *world, do func() *answer, want *kerr.Error) {
		w.t.Helper()
		before := w.c.stateOf(groupID)
		do().err(want)
		assert.Equal(w.t, before, w.c.stateOf(groupID))
		w.wantMember("m3", "")
	}
	runCases(t, []testCase{
		{"K-01 stale join", kipMode, func(w *world) {
			w.topo = topo(1, t2().Subtopologies...)
			w.g10(memberSpec{id: "m1", tasks: allNine, topologyEpoch: 1})
			untouched(w, func() *answer { return w.join("m3", with(t2())) }, kerr.StreamsTopologyFenced)
		}},
		{"K-02 other topology at the same epoch", kipMode, func(w *world) {
			two(w)
			a := func() *answer { return w.join("m3", with(topo(0, sub("s1", reads("foo"))))) }
			untouched(w, a, kerr.StreamsInvalidTopologyEpoch)
			assert.Contains(w.t, *a().resp.ErrorMessage, "s2")
		}},
		{"K-03 an epoch that skips one", kipMode, func(w *world) {
			two(w)
			untouched(w, func() *answer { return w.join("m3", with(topo(2, t2().Subtopologies...))) }, kerr.StreamsInvalidTopologyEpoch)
		}},
		{"K-04 K-15 update, and a stale member that comes back upgraded", kipMode, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.target("m1", "s1:0-5", "m3", "s2:0-2 s3:0,1")
			a := w.join("m3", with(t3(w))).ok(11).tasks("s3:0,1").status().records(
				"19(m3)", "23(TE 1)", "17(GE 11 VTE 1)", "21(m1 s1:0-5)", "21(m3 s2:0-2 s3:0,1)", "20(11, now)", "22(m3 UNRELEASED_TASKS ME 11 PME 0 s3:0,1@11)")
			assert.EqualValues(w.t, 1, a.recs[0].(*record.MemberMetadata).TopologyEpoch)
			assert.Equal(w.t, TopologySet{Group: groupID, Epoch: 1, Replaced: true, Subtopologies: 3}, the[TopologySet](a))
			assert.Equal(w.t, []Reason{ReasonMemberJoined, ReasonTopology, ReasonTopicsChanged, ReasonReadiness}, the[EpochBumped](a).Reasons)
			assert.EqualValues(w.t, 1, w.stub.calls[0].TopologyEpoch)
			assert.EqualValues(w.t, 0, w.stub.calls[0].Members[0].TopologyEpoch)
			w.hb("m1", 10).ok(10).tasks("s1:0-5").status(0).detail(0, "0", "1")
			w.hb("m1", 10, owned("s1:0-5")).ok(11).status(0)
			w.hb("m3", 11).ok(11).tasks("s2:0-2 s3:0,1").status()

			// K-15
			w.target("m1", "s1:0-5 s3:0", "m3", "s2:0-2 s3:1")
			w.join("m1", with(t3(w))).ok(12).status()
			w.wantEpoch(12)
			assert.EqualValues(w.t, 1, w.c.groups[groupID].members["m1"].meta.TopologyEpoch)
			w.hb("m3", 11, owned("s2:0-2 s3:1")).ok(12)
			w.hb("m1", 12).ok(12).tasks("s1:0-5 s3:0")
		}},
		{"K-05 configured again although the hash is equal", kipMode, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.hb("m1", 10).ok(10)
			hash := w.c.groups[groupID].hash
			w.target("m3", "s3:0-5")
			w.join("m3", with(topo(1, sub("s3", reads("foo", "bar"))))).ok(11)
			assert.Equal(w.t, hash, w.c.groups[groupID].hash)
			assert.Equal(w.t, "s3", w.stub.calls[0].Subtopologies[0].ID)
			w.hb("m1", 10).ok(10).tasks("-").status(0)
		}},
		{"K-05 an update that changes nothing but the epoch", kipMode, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.target("m1", "s1:0-5", "m3", "s2:0-2")
			w.join("m3", with(topo(1, t2().Subtopologies...))).ok(11).records("19", "23(TE 1)", "17(GE 11 VTE 1)", "21", "21", "20", "22")
		}},
		{"K-06 the assignment interval does not hold an update up", kipMode, func(w *world) {
			w.brokerConfig("group.streams.assignment.interval.ms", "5000")
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.replay(&record.TargetAssignmentMetadata{Group: groupID, AssignmentEpoch: 10, AssignmentTimestampMillis: w.now.WallMillis})
			w.target("m1", "s1:0-5", "m3", "s2:0-2 s3:0,1")
			w.join("m3", with(t3(w))).ok(11).status()
		}},
		{"K-06 the initial delay does", kipMode, func(w *world) {
			w.brokerConfig("group.streams.initial.rebalance.delay.ms", "1000")
			w.join("m1").ok(1).status(5)
			w.join("m3", with(t3(w))).ok(1).status(5)
			w.wantState(Assigning)
		}},
		{"K-09 D9 resend", kipMode, func(w *world) {
			w.t1(2)
			w.group(groupSpec{ge: 11, members: []memberSpec{{id: "m1", tasks: "s1:0,1"}}})
			w.hb("m1", 11, owned("s1:0")).ok(11).tasks("s1:0,1").records()
			w.hb("m1", 11, owned("s1:0,1")).ok(11).noLists().records()
			w.hb("m1", 11).ok(11).noLists().records()
		}},
		{"K-10 no resend while the tasks to give up are still there", kipMode, func(w *world) {
			w.t1(3)
			w.group(groupSpec{ge: 11, members: []memberSpec{{id: "m1", me: 10, pme: 10, state: unrevokedTasks, tasks: "s1:0", pending: "s1:1", target: "s1:0"}}})
			w.hb("m1", 10, owned("s1:0,1")).ok(10).noLists().records()
			w.hb("m1", 10, owned("s1:1")).ok(10).tasks("s1:0").records()
		}},
		{"K-09 no resend", kafkaMode, func(w *world) {
			w.t1(2)
			w.g10(memberSpec{id: "m1", tasks: "s1:0,1"})
			w.hb("m1", 10, owned("s1:0")).ok(10).noLists().records()
		}},
		{"K-11 failed update leaves no trace", kipMode, func(w *world) {
			two(w)
			w.hb("m1", 10).ok(10)
			untouched(w, func() *answer {
				return w.join("m3", with(topo(1, sub("a", repartition("r1", 0), writes("r2")), sub("b", repartition("r2", 0), writes("r1")))))
			}, kerr.StreamsInvalidTopology)
			untouched(w, func() *answer { return w.join("m3", with(topo(1, sub("a", reads("foo")), sub("b", reads("foo"))))) }, kerr.StreamsInvalidTopology)
			w.hb("m1", 10).ok(10).status().records()
			w.wantEpoch(10)
		}},
		{"K-12 failed append of an update leaves no trace", kipMode, func(w *world) {
			two(w)
			w.hb("m1", 10).ok(10)
			w.target("m1", "s1:0-5", "m2", "s2:0-2", "m3", "s3:0,1")
			w.appendFails = kerr.NotEnoughReplicas
			untouched(w, func() *answer { return w.join("m3", with(t3(w))) }, kerr.CoordinatorNotAvailable)
			w.hb("m1", 10).ok(10).status().records()
			w.join("m3", with(t3(w))).ok(11).tasks("s3:0,1")
		}},
		{"K-13 tasks that the new topology lacks are revoked", kipMode, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.target("m1", "s1:0-5", "m3", "-")
			w.join("m3", with(topo(1, sub("s1", reads("foo"))))).ok(11).tasks("-")
			w.hb("m1", 10, owned(allNine)).ok(10).tasks("s1:0-5").status(0)
			w.hb("m1", 10, owned(allNine)).ok(10).noLists().records()
			w.hb("m1", 10, owned("s1:0-5 s2:9")).err(kerr.InvalidRequest)
			w.hb("m1", 10, owned("s1:0-5")).ok(11).status(0)
			w.wantState(Stable)
		}},
		{"K-14 a stale member never waits for a task of an older target", kipMode, func(w *world) {
			w.g10(
				memberSpec{id: "m1", me: 10, pme: 10, state: unrevokedTasks, tasks: "s1:0-2", pending: "s1:3-5", target: "s1:0-2"},
				memberSpec{id: "m2", me: 10, pme: 10, state: unreleasedTasks, tasks: "s2:0-2", target: "s1:3-5 s2:0-2"})
			w.target("m1", "s1:0-2", "m2", "s2:0-2", "m3", "s1:3-5 s3:0,1")
			w.join("m3", with(t3(w))).ok(11).tasks("s3:0,1")
			w.hb("m1", 10, owned("s1:0-2")).ok(11)
			w.hb("m2", 10).ok(11).noLists()
			w.wantMember("m2", "STABLE ME 11 PME 10 s2:0-2@10")
			w.hb("m3", 11).ok(11).tasks("s1:3-5 s3:0,1")
		}},
		{"K-16 rejoin of a stale member with the old topology", kipMode, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.target("m1", "s1:0-5", "m3", "s2:0-2 s3:0,1")
			w.join("m3", with(t3(w))).ok(11)
			w.join("m1").err(kerr.StreamsTopologyFenced)
			for range 8 {
				w.after(5 * time.Second)
				w.hb("m3", 11).ok(11)
			}
			w.after(5001 * time.Millisecond)
			w.wantMember("m1", "")
			w.join("m1").err(kerr.StreamsTopologyFenced)
			w.wantMember("m1", "")
		}},
		{"K-17 a static member that comes back with the old topology", kipMode, func(w *world) {
			w.g10(memberSpec{id: "a1", instance: "i1", process: "pa", tasks: allNine})
			w.target("a1", "s1:0-5", "m3", "s2:0-2 s3:0,1", "b1", "s1:0-5")
			w.hb("a1", -2, inst("i1")).ok(-2)
			w.join("m3", with(t3(w))).ok(11)
			w.join("b1", inst("i1"), process("pa")).err(kerr.StreamsTopologyFenced)
			w.wantMember("a1", "STABLE ME -2 PME 9 s1:0-5@0 s2:0-2@0")
			w.join("b1", inst("i1"), process("pa"), with(t3(w))).ok(12)
		}},
		{"K-18 the topology outlives the members, updates go on", kipMode, func(w *world) {
			w.target("m1", allNine, "m2", "s1:0-5 s2:0-2 s3:0,1")
			w.topo = topo(3, t2().Subtopologies...)
			w.join("m1").ok(2)
			w.hb("m1", -1).ok(-1)
			w.topic("baz", 2)
			w.topo = topo(4, append(slices.Clone(t2().Subtopologies), sub("s3", reads("baz")))...)
			w.join("m2").ok(4).tasks("s1:0-5 s2:0-2 s3:0,1").status()
		}},
		{"K-19 role hard rule", kipMode, func(w *world) {
			w.topic("c", 6)
			w.topo = topo(0, sub("s1", reads("foo"), changelog("c")))
			w.groupConfig("streams.num.standby.replicas", "1")
			w.group(groupSpec{configs: []record.KeyValue{{Key: "num.standby.replicas", Value: "1"}}, members: []memberSpec{
				{id: "m1", tasks: "s1:0-2 | standby s1:3-5"}, {id: "m2", tasks: "s1:3-5 | standby s1:0-2"},
			}})
			// An assignor that breaks the rule is refused.
			w.target("m1", "s1:1,2 | standby s1:3-5", "m2", "s1:0,3-5 | standby s1:1,2", "m3", "- | standby s1:0")
			w.join("m3", with(topo(1, w.topo.Subtopologies...))).err(kerr.UnknownServerError)
			// And a target that breaks it all the same, from the log of something
			// else, is not worked off.
			w.target("m1", "s1:0-2 | standby s1:3-5", "m2", "s1:3-5 | standby s1:0-2", "m3", "-")
			w.join("m3", with(topo(1, w.topo.Subtopologies...))).ok(11)
			w.replay(targetRecord(groupID, "m2", parseRoles("s1:0,3-5 | standby s1:1,2")), targetRecord(groupID, "m1", parseRoles("s1:1,2 | standby s1:3-5")))
			w.hb("m1", 10, owned("s1:1,2 | standby s1:3-5")).ok(11)
			w.hb("m2", 10, owned("s1:3-5 | standby s1:1,2")).ok(11)
			w.wantMember("m2", "STABLE ME 11 PME 10 s1:3-5@10 | standby s1:1,2")
		}},
		{"K-26 the old target of a stale member is not worked off", kipMode, func(w *world) {
			w.brokerConfig("group.streams.assignment.interval.ms", "5000")
			w.g10(
				memberSpec{id: "m1", me: 10, pme: 10, state: unrevokedTasks, tasks: "s1:0-4 s2:0-2", pending: "s1:5", target: "s1:0-4 s2:0-2"},
				memberSpec{id: "m2", me: 10, pme: 10, state: unreleasedTasks, tasks: "-", target: "s1:5"})
			w.replay(&record.TargetAssignmentMetadata{Group: groupID, AssignmentEpoch: 10, AssignmentTimestampMillis: w.now.WallMillis})
			w.target("m1", "s1:0-4 s2:0-2", "m2", "-", "new", "s1:5 s3:0,1")
			w.join("new", with(t3(w))).ok(11).tasks("s3:0,1")
			w.hb("m1", 10, owned("s1:0-4 s2:0-2")).ok(11)
			w.hb("m2", 10).ok(11).noLists()
			w.hb("new", 11).ok(11).tasks("s1:5 s3:0,1")
		}},
		{"up-to-date members do not take what the topology lacks", kipMode, func(w *world) {
			w.brokerConfig("group.streams.assignment.interval.ms", "5000")
			w.g10(
				memberSpec{id: "m1", me: 10, pme: 10, state: unrevokedTasks, tasks: "s1:0-5 s2:0", pending: "s2:1,2", target: "s1:0-5 s2:0"},
				memberSpec{id: "m2", me: 10, pme: 10, state: unreleasedTasks, tasks: "-", target: "s2:1,2"})
			w.replay(&record.TargetAssignmentMetadata{Group: groupID, AssignmentEpoch: 10, AssignmentTimestampMillis: w.now.WallMillis})
			w.topic("bar", 2)
			w.hb("m1", 10, owned("s1:0-5 s2:0")).ok(10).status(5)
			w.hb("m2", 10).ok(10).tasks("s2:1").status(5)
		}},
	})
}

// runs lets every member send heartbeats, reporting what it runs and doing what
// it is told, until nothing changes any more.
type runs struct {
	w      *world
	epochs map[string]int32
	owned  map[string]roles
	opts   map[string]requestOption
}

func newRuns(w *world) *runs {
	return &runs{w: w, epochs: map[string]int32{}, owned: map[string]roles{}, opts: map[string]requestOption{}}
}

func (r *runs) join(id string, top *kmsg.StreamsGroupHeartbeatRequestTopology) {
	r.w.t.Helper()
	r.took(id, r.w.join(id, with(top)))
}

func (r *runs) leave(id string) {
	r.w.t.Helper()
	r.w.hb(id, -1).ok(-1)
	delete(r.epochs, id)
	delete(r.owned, id)
}

func (r *runs) took(id string, a *answer) {
	r.w.t.Helper()
	require.Zero(r.w.t, a.resp.ErrorCode, "%s: %s", id, deref(a.resp.ErrorMessage))
	r.epochs[id] = a.resp.MemberEpoch
	if a.resp.ActiveTasks != nil {
		r.owned[id] = roles{listFromWire(a.resp.ActiveTasks), listFromWire(a.resp.StandbyTasks), listFromWire(a.resp.WarmupTasks)}
	}
}

// settle returns the statuses of the last round by member.
func (r *runs) settle() map[string][]int8 {
	r.w.t.Helper()
	statuses := map[string][]int8{}
	for range 20 {
		quiet := true
		ids := make([]string, 0, len(r.epochs))
		for id := range r.epochs {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		for _, id := range ids {
			o := r.owned[id]
			a := r.w.hb(id, r.epochs[id], func(q *Request) {
				q.ActiveTasks, q.StandbyTasks, q.WarmupTasks = listToWire(o.active), listToWire(o.standby), listToWire(o.warmup)
			})
			r.took(id, a)
			quiet = quiet && len(a.recs) == 0
			statuses[id] = nil
			for _, s := range a.resp.Status {
				statuses[id] = append(statuses[id], s.StatusCode)
			}
		}
		if quiet {
			return statuses
		}
	}
	require.Fail(r.w.t, "the group does not come to rest")
	return nil
}

func TestRollingBounce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, KIP1071)
	w.brokerConfig("group.streams.assignors", "sticky")
	w.topic("foo", 9)
	before, after := topo(0, sub("t", reads("foo"))), topo(1, sub("t", reads("foo")))
	w.topo = before
	active := func(id string) taskList { return w.c.groups[groupID].members[id].cur.assigned.active }
	counts := func(ids ...string) []int {
		var out []int
		for _, id := range ids {
			out = append(out, len(active(id)))
		}
		return out
	}
	r := newRuns(w)
	var a, b, c taskList

	step := func(name string, do func(t *testing.T)) { t.Run(name, func(t *testing.T) { w.t = t; do(t) }) }
	step("K-07.1 three members", func(t *testing.T) {
		for _, id := range []string{"A", "B", "C"} {
			r.join(id, before)
		}
		r.settle()
		assert.Equal(t, []int{3, 3, 3}, counts("A", "B", "C"))
		a, b = active("A"), active("B")
	})
	step("K-07.2 C leaves", func(t *testing.T) {
		r.leave("C")
		r.settle()
		assert.True(t, a.subsetOf(active("A")))
		assert.True(t, b.subsetOf(active("B")))
		assert.Len(t, slices.Concat(active("A"), active("B")), 9)
		a, b = active("A"), active("B")
	})
	step("K-07.3 C joins with the update", func(t *testing.T) {
		r.join("C", after)
		status := r.settle()
		assert.Equal(t, []int{3, 3, 3}, counts("A", "B", "C"))
		assert.True(t, active("A").subsetOf(a), "a stale member only loses tasks")
		assert.True(t, active("B").subsetOf(b))
		assert.Equal(t, map[string][]int8{"A": {0}, "B": {0}, "C": nil}, status)
		a, b, c = active("A"), active("B"), active("C")
	})
	step("K-08 C leaves, nobody may take its tasks", func(t *testing.T) {
		r.leave("C")
		r.settle()
		assert.Equal(t, a, active("A"))
		assert.Equal(t, b, active("B"))
		w.wantState(Stable)
		r.join("C", after)
		r.settle()
		assert.Equal(t, c, active("C"))
	})
	step("K-07.4 B leaves", func(t *testing.T) {
		r.leave("B")
		r.settle()
		assert.Equal(t, a, active("A"))
		assert.Len(t, active("C"), 6)
	})
	step("K-07.5 B joins with the update", func(t *testing.T) {
		r.join("B", after)
		r.settle()
		assert.Equal(t, a, active("A"))
		assert.Equal(t, []int{3, 3, 3}, counts("A", "B", "C"))
	})
	step("K-07.6 A leaves and joins with the update", func(t *testing.T) {
		r.leave("A")
		r.settle()
		r.join("A", after)
		status := r.settle()
		assert.Equal(t, []int{3, 3, 3}, counts("A", "B", "C"))
		assert.Equal(t, map[string][]int8{"A": nil, "B": nil, "C": nil}, status)
		all := slices.Concat(active("A"), active("B"), active("C"))
		slices.SortFunc(all, topology.TaskID.Compare)
		assert.Len(t, slices.Compact(all), 9)
	})
}
