package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

func TestStaticMembership(t *testing.T) {
	// base is the group of most cases: i1 belongs to a1, which holds all tasks.
	base := func(w *world, more ...memberSpec) {
		w.t1(4)
		w.g10(append([]memberSpec{{id: "a1", instance: "i1", process: "pa", tasks: "s1:0-3"}}, more...)...)
	}
	absent := func(w *world, more ...memberSpec) {
		base(w, more...)
		w.hb("a1", -2, inst("i1")).ok(-2)
	}
	pa := process("pa")
	runCases(t, []testCase{
		{"S-01 first join", bothModes, func(w *world) {
			w.target("a1", allNine)
			a := w.join("a1", inst("i1")).ok(2).tasks(allNine).status().records("19(a1)", "23(TE 0)", "17(GE 2)", "21", "20", "22")
			assert.Equal(w.t, "i1", *a.recs[0].(*record.MemberMetadata).InstanceID)
			assert.Equal(w.t, map[string]string{"i1": "a1"}, w.c.groups[groupID].static)
			assert.Equal(w.t, "i1", the[MemberJoined](a).InstanceID)
		}},
		{"S-02 a regular heartbeat", bothModes, func(w *world) {
			base(w)
			w.hb("a1", 10, inst("i1")).ok(10).noLists().records()
		}},
		{"S-03 unknown instance", bothModes, func(w *world) {
			base(w)
			w.hb("zz", 1, inst("unknown")).err(kerr.UnknownMemberID)
			w.hb("zz", -1, inst("unknown")).err(kerr.UnknownMemberID)
			w.hb("zz", -2, inst("unknown")).err(kerr.UnknownMemberID)
		}},
		{"S-04 S-05 max size counts the absent, but their instance may return", bothModes, func(w *world) {
			absent(w, memberSpec{id: "a2", instance: "i2", process: "pb", tasks: "-"})
			w.hb("a2", -2, inst("i2")).ok(-2)
			w.brokerConfig("group.streams.max.size", "2")
			w.join("n", inst("i3")).err(kerr.GroupMaxSizeReached)
			w.join("n", inst("i2"), process("pb")).ok(10).tasks("-").status().records(
				"t22(a2)", "t21(a2)", "t19(a2)", "19(n)", "21(n -)", "22(n STABLE ME 0 PME 0 -)", "22(n STABLE ME 10 PME 0 -)")
		}},
		{"S-06 unreleased", bothModes, func(w *world) {
			base(w)
			w.brokerConfig("group.streams.max.size", "1")
			w.join("n", inst("i1")).err(kerr.UnreleasedInstanceID)
		}},
		{"S-07 Q13 rejoin with the same id while present", kafkaMode, func(w *world) {
			base(w)
			w.join("a1", inst("i1"), pa).err(kerr.UnreleasedInstanceID)
		}},
		{"S-07 Q13 a fenced member joins again under its id", kipMode, func(w *world) {
			base(w)
			w.hb("a1", 9, inst("i1")).err(kerr.FencedMemberEpoch)
			w.join("a1", inst("i1"), pa).ok(10).tasks("s1:0-3").records()
			w.wantMember("a1", "STABLE ME 10 PME 9 s1:0-3@10") // it keeps its epoch and its tasks
			w.join("n", inst("i1"), pa).err(kerr.UnreleasedInstanceID)
		}},
		{"S-08 another member under the instance", bothModes, func(w *world) {
			base(w)
			w.hb("other", 10, inst("i1")).err(kerr.FencedInstanceID)
		}},
		{"S-09 another member leaves under the instance", bothModes, func(w *world) {
			base(w)
			w.hb("other", -2, inst("i1")).err(kerr.FencedInstanceID)
			w.hb("other", -1, inst("i1")).err(kerr.FencedInstanceID)
			w.wantMember("a1", "STABLE ME 10 PME 9 s1:0-3@10")
		}},
		{"S-11 previous epoch with a foreign task", bothModes, func(w *world) {
			base(w)
			w.topic("foo", 5)
			w.hb("a1", 9, inst("i1"), owned("s1:0-4")).err(kerr.FencedMemberEpoch)
		}},
		{"S-12 an absent member is fenced", bothModes, func(w *world) {
			absent(w)
			w.hb("a1", 10, inst("i1")).err(kerr.FencedMemberEpoch)
			w.hb("a1", 9, inst("i1"), owned("s1:0")).err(kerr.FencedMemberEpoch)
		}},
		{"S-13 the absent count", bothModes, func(w *world) {
			absent(w)
			w.brokerConfig("group.streams.max.size", "1")
			w.join("m9").err(kerr.GroupMaxSizeReached)
		}},
		{"S-20 full leave", bothModes, func(w *world) {
			base(w)
			w.hb("a1", -1, inst("i1")).ok(-1).records("t22(a1)", "t21(a1)", "t19(a1)", "17(GE 11)", "20(11, 0)")
			assert.Empty(w.t, w.c.groups[groupID].static)
		}},
		{"S-21 S-22 temporary leave, twice", bothModes, func(w *world) {
			base(w)
			a := w.hb("a1", -2, inst("i1")).ok(-2).status().noLists().records("22(a1 STABLE ME -2 PME 9 s1:0-3@0)")
			assert.Zero(w.t, a.resp.HeartbeatIntervalMillis)
			assert.Equal(w.t, MemberLeft{Group: groupID, Member: "a1", InstanceID: "i1", Cause: LeftTemporarily}, the[MemberLeft](a))
			w.wantEpoch(10)
			w.wantState(Reconciling)
			w.hb("a1", -2, inst("i1")).ok(-2).records("22(a1 STABLE ME -2 PME 9 s1:0-3@0)")
		}},
		{"S-25 pending tasks are freed", bothModes, func(w *world) {
			w.t1(3)
			w.g10(
				memberSpec{id: "a1", instance: "i1", state: unrevokedTasks, tasks: "s1:0,1", pending: "s1:2"},
				memberSpec{id: "m2", state: unreleasedTasks, me: 10, pme: 10, tasks: "-", target: "s1:2"})
			w.hb("m2", 10).ok(10).noLists().records()
			w.hb("a1", -2, inst("i1")).ok(-2)
			w.hb("m2", 10).ok(10).tasks("s1:2").records("22(m2 STABLE ME 10 PME 10 s1:2@10)")
			w.wantEpoch(10)
		}},
		{"S-26 rejoin under another member id", bothModes, func(w *world) {
			absent(w)
			a := w.join("b1", inst("i1"), pa).ok(10).tasks("s1:0-3").status().records(
				"t22(a1)", "t21(a1)", "t19(a1)", "19(b1)", "21(b1 s1:0-3)", "22(b1 STABLE ME 0 PME 0 s1:0-3@0)",
				"22(b1 STABLE ME 10 PME 0 s1:0-3@0)")
			assert.Equal(w.t, "b1", a.resp.MemberID)
			assert.Equal(w.t, MemberReplaced{Group: groupID, InstanceID: "i1", Old: "a1", New: "b1"}, the[MemberReplaced](a))
			assert.Zero(w.t, count[MemberJoined](a))
			w.wantEpoch(10)
			w.wantState(Stable)
			w.wantMember("a1", "")
			w.hb("b1", 10, inst("i1")).ok(10).records()
		}},
		{"S-27 rejoin, same member id", bothModes, func(w *world) {
			absent(w)
			w.join("a1", inst("i1"), pa).ok(10).tasks("s1:0-3").records(
				"t22(a1)", "t21(a1)", "t19(a1)", "19(a1)", "21(a1 s1:0-3)", "22(a1 STABLE ME 0 PME 0 s1:0-3@0)",
				"22(a1 STABLE ME 10 PME 0 s1:0-3@0)")
			w.wantEpoch(10)
		}},
		{"S-28 the old timer does not hurt the new member", bothModes, func(w *world) {
			base(w)
			w.hb("a1", 10, inst("i1")).ok(10)
			w.after(40 * time.Second)
			w.hb("a1", -2, inst("i1")).ok(-2)
			w.join("a1", inst("i1"), pa).ok(10)
			w.after(10 * time.Second).records()
			w.wantMember("a1", "STABLE ME 10 PME 0 s1:0-3@0")
		}},
		{"S-30 rejoin with other rack", bothModes, func(w *world) {
			absent(w)
			w.target("b1", "s1:0-3")
			a := w.join("b1", inst("i1"), pa, rack("r2")).ok(11).tasks("s1:0-3").records(
				"t22(a1)", "t21(a1)", "t19(a1)", "19(b1)", "21(b1 s1:0-3)", "22(b1 STABLE ME 0 PME 0 s1:0-3@0)",
				"19(b1)", "17(GE 11)", "20(11, now)", "22(b1 STABLE ME 11 PME 0 s1:0-3@0)")
			assert.Nil(w.t, a.recs[3].(*record.MemberMetadata).RackID)
			assert.Equal(w.t, "r2", *a.recs[6].(*record.MemberMetadata).RackID)
			assert.Equal(w.t, "s1", w.stub.calls[0].Subtopologies[0].ID)
			assert.Len(w.t, w.stub.calls[0].Members, 1, "the old id is not described")
		}},
		{"S-30 rejoin with another rack of a member that had no target", bothModes, func(w *world) {
			base(w, memberSpec{id: "a2", instance: "i2", process: "pb", tasks: "-", target: "-"})
			require.Nil(w.t, w.c.groups[groupID].members["a2"].target)
			w.hb("a2", -2, inst("i2")).ok(-2)
			w.target("a1", "s1:0-3", "b2", "-")
			w.join("b2", inst("i2"), process("pb"), rack("r2")).ok(11).tasks("-").status().records(
				"t22(a2)", "t21(a2)", "t19(a2)", "19(b2)", "21(b2 -)", "22(b2 STABLE ME 0 PME 0 -)",
				"19(b2)", "17(GE 11)", "20(11, now)", "22(b2 STABLE ME 11 PME 0 -)")
		}},
		{"S-31 rejoin from UNRELEASED_TASKS", bothModes, func(w *world) {
			w.t1(3)
			w.g10(
				memberSpec{id: "a1", instance: "i1", process: "pa", state: unreleasedTasks, me: 10, pme: 10, tasks: "s1:0,1", target: "s1:0-2"},
				memberSpec{id: "m2", state: unrevokedTasks, me: 9, pme: 9, tasks: "-", pending: "s1:2", target: "-"})
			w.hb("a1", -2, inst("i1")).ok(-2)
			w.join("b1", inst("i1"), pa).ok(10).tasks("s1:0,1").status().records(
				"t22(a1)", "t21(a1)", "t19(a1)", "19(b1)", "21(b1 s1:0-2)", "22(b1 UNRELEASED_TASKS ME 0 PME 0 s1:0,1@0)",
				"22(b1 UNRELEASED_TASKS ME 10 PME 0 s1:0,1@0)")
			w.wantEpoch(10)
		}},
		{"S-33 other instance id, same member id", bothModes, func(w *world) {
			base(w)
			w.target("a1", "s1:0-3")
			w.join("a1", inst("i2"), pa).ok(10).tasks("s1:0-3").status().records("19(a1)")
			assert.Equal(w.t, map[string]string{"i2": "a1"}, w.c.groups[groupID].static)
			w.hb("a1", 10, inst("i1")).err(kerr.UnknownMemberID)
		}},
		{"S-34 a static member that omits its instance id is handled as dynamic", bothModes, func(w *world) {
			base(w)
			w.hb("a1", 10).ok(10).records()
			w.target("a1", "s1:0-3")
			w.hb("a1", 10, func(r *Request) { r.ClientID = "other" }).ok(11).records("19(a1)", "17(GE 11)", "20", "22")
			w.hb("a1", 11, inst("i1"), func(r *Request) { r.ClientID = "third" }).ok(11).records("19(a1)")
			w.hb("a1", 11, inst("i1"), endpoint("h:1"), timeout(7000), func(r *Request) { r.ClientID = "third" }).ok(11).records("19(a1)")
			w.hb("a1", 11, inst("i1"), tags("zone=a"), func(r *Request) { r.ClientID = "third" }).ok(12).records("19(a1)", "17(GE 12)", "20", "22")
			assert.Equal(w.t, "i1", w.c.groups[groupID].members["a1"].instanceID())
		}},
		{"S-35 absence expires", bothModes, func(w *world) {
			w.target("a1", allNine)
			w.join("a1", inst("i1")).ok(2)
			w.hb("a1", -2, inst("i1")).ok(-2)
			a := w.after(45001*time.Millisecond).records("t22(a1)", "t21(a1)", "t19(a1)", "17(GE 3)", "20(3, 0)")
			assert.Equal(w.t, "i1", the[MemberLeft](a).InstanceID)
		}},
		{"S-36 a rebalance timer of an absent member is harmless", bothModes, func(w *world) {
			w.t1(3)
			w.target("a1", "s1:0-2")
			w.join("a1", inst("i1"), timeout(10000)).ok(2)
			w.target("a1", "s1:0,1", "m2", "s1:2")
			w.join("m2").ok(3)
			w.hb("a1", 2, inst("i1")).ok(2).tasks("s1:0,1")
			w.hb("a1", -2, inst("i1")).ok(-2)
			w.after(20 * time.Second).records()
			w.wantMember("a1", "UNREVOKED_TASKS ME -2 PME 2 s1:0,1@0")
		}},
		{"S-37 an absent member keeps its tasks", bothModes, func(w *world) {
			absent(w, memberSpec{id: "m2", tasks: "-"})
			w.hb("m2", 10).ok(10).noLists().records()
			w.target("a1", "s1:0,1", "m2", "s1:2,3")
			w.hb("m2", 10, rack("r")).ok(11)
			w.hb("m2", 11).ok(11).noLists()
			w.wantMember("m2", "UNRELEASED_TASKS ME 11 PME 11 -")
		}},
	})
}

func TestStaticMemberEndpoints(t *testing.T) {
	const none = ""
	foo := func(at string) []string { return []string{at + " foo:0-2"} }
	var cases []testCase
	for _, c := range []struct {
		name          string
		first         string
		epoch         int32
		list          []string
		second        string
		rejoinedEpoch int32
		rejoinedList  []string
	}{
		{"appears", none, 0, nil, "bar.com:8080", 1, foo("bar.com:8080")},
		{"never there", none, 0, nil, none, 0, nil},
		{"disappears", "foo.com:8080", 1, foo("foo.com:8080"), none, 2, nobody},
		{"stays", "foo.com:8080", 1, foo("foo.com:8080"), "foo.com:8080", 1, foo("foo.com:8080")},
		{"moves", "foo.com:8080", 1, foo("foo.com:8080"), "bar.com:8080", 2, foo("bar.com:8080")},
	} {
		cases = append(cases, testCase{"S-38 endpoint on rejoin " + c.name, bothModes, func(w *world) {
			at := func(e string) requestOption {
				if e == none {
					return func(*Request) {}
				}
				return endpoint(e)
			}
			w.t1(3)
			w.g10()
			w.target("a1", "s1:0-2", "b1", "s1:0-2")
			w.join("a1", inst("i1"), process("pa"), at(c.first)).ok(11).endpointEpoch(c.epoch).endpoints(c.list...)
			w.hb("a1", -2, inst("i1")).ok(-2)
			w.join("b1", inst("i1"), process("pa"), at(c.second)).ok(11).endpointEpoch(c.rejoinedEpoch).endpoints(c.rejoinedList...)
			list := c.rejoinedList
			if list == nil {
				list = nobody // asked for, there is one
			}
			w.hb("b1", 11, inst("i1"), seen(c.rejoinedEpoch+1)).ok(11).endpoints(list...)
			assert.Equal(w.t, c.second == none, w.c.groups[groupID].members["b1"].meta.UserEndpoint == nil)
		}})
	}
	runCases(t, cases)
}

func TestEndpointInformation(t *testing.T) {
	runCases(t, []testCase{
		{"P-01 P-02 first member", bothModes, func(w *world) {
			w.t1(2)
			w.target("m1", "s1:0,1")
			w.join("m1", endpoint("localhost:9092")).ok(2).endpointEpoch(0).endpoints("localhost:9092 foo:0,1")
			w.hb("m1", 2, seen(0)).ok(2).endpointEpoch(0).endpoints()
		}},
		{"P-03 P-04 second member", bothModes, func(w *world) {
			w.t1(4)
			w.g10(memberSpec{id: "m1", tasks: "s1:0,1", endpoint: "host1:9092", target: "s1:0,1"})
			w.target("m1", "s1:0,1", "m2", "s1:2,3")
			w.join("m2", endpoint("host2:9093")).ok(11).endpointEpoch(1).endpoints("host1:9092 foo:0,1", "host2:9093 foo:2,3")
			w.hb("m1", 10, seen(0)).ok(11).endpointEpoch(1).endpoints("host1:9092 foo:0,1", "host2:9093 foo:2,3")
			w.hb("m1", 11, seen(1)).ok(11).endpointEpoch(1).endpoints()
			w.hb("m1", 11, seen(7)).ok(11).endpointEpoch(1).endpoints("host1:9092 foo:0,1", "host2:9093 foo:2,3")
		}},
		{"P-05 no endpoint, no bump", bothModes, func(w *world) {
			w.t1(4)
			w.g10(memberSpec{id: "m1", tasks: "s1:0,1"})
			w.target("m1", "s1:0-3")
			w.hb("m1", 10, rack("r")).ok(11).tasks("s1:0-3").endpointEpoch(0).endpoints()
		}},
		{"P-06 endpoint moved", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine, endpoint: "h:1"})
			w.target("m1", allNine)
			w.hb("m1", 10, endpoint("h:2")).ok(11).noLists().status().endpointEpoch(1).endpoints("h:2 foo:0-5 bar:0-2").records(
				"19(m1)", "17(GE 11)", "20(11, now)", "22(m1 STABLE ME 11 PME 10 s1:0-5@10 s2:0-2@10)")
		}},
		{"D17 a heartbeat without endpoint keeps it, a join without clears it", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine, endpoint: "h:1"})
			w.target("m1", allNine)
			w.hb("m1", 10).ok(10).endpointEpoch(0).endpoints()
			w.join("m1").ok(11).endpointEpoch(1).endpoints(nobody...)
		}},
		{"P-07 D32 leave", bothModes, func(w *world) {
			w.t1(4)
			w.g10(memberSpec{id: "m1", tasks: "s1:0,1", endpoint: "h1:1"}, memberSpec{id: "m2", tasks: "s1:2,3", endpoint: "h2:2"})
			w.brokerConfig("group.streams.assignment.interval.ms", "1000")
			w.replay(&record.TargetAssignmentMetadata{Group: groupID, AssignmentEpoch: 10, AssignmentTimestampMillis: w.now.WallMillis})
			w.hb("m2", -1).ok(-1)
			a := w.hb("m1", 10, seen(0)).ok(10)
			if w.policy == Kafka {
				a.endpointEpoch(0).endpoints()
				return
			}
			a.endpointEpoch(1).endpoints("h1:1 foo:0,1")
		}},
		{"P-08 topics of different size", bothModes, func(w *world) {
			w.topic("A", 5)
			w.topic("B", 2)
			w.topo = topo(0, sub("0", reads("A", "B")))
			w.g10(memberSpec{id: "m1", tasks: "0:1,3 | standby 0:4", endpoint: "h:1"}, memberSpec{id: "m2", tasks: "0:0,2", endpoint: "h:2"})
			w.hb("m1", 10, seen(9)).ok(10).endpoints("h:1 A:1,3 B:1 | standby A:4", "h:2 A:0,2 B:0")
			w.topic("A", 2)
			w.topic("B", 5)
			w.target("m1", "0:1,3,4", "m2", "0:0,2")
			w.hb("m2", 10, seen(9)).ok(11).endpoints("h:1 A:1 B:1,3 | standby B:4", "h:2 A:0 B:0,2")
		}},
		{"P-09 warm-ups are reported as standby", bothModes, func(w *world) {
			w.topic("B", 3)
			w.topo = topo(0, sub("s1", reads("B")))
			w.g10(memberSpec{id: "m1", tasks: "- | standby s1:0 | warmup s1:1,2", endpoint: "h:1"})
			w.hb("m1", 10, seen(9)).ok(10).endpoints("h:1 standby B:0-2")
		}},
		{"P-10 repartition sources included", bothModes, func(w *world) {
			w.topic("B", 3)
			w.topo = topo(0, sub("s1", reads("foo"), writes("B")), sub("s2", repartition("B", 3)))
			w.g10(memberSpec{id: "m1", tasks: "s2:0-2", endpoint: "h:1"})
			w.hb("m1", 10, seen(9)).ok(10).endpoints("h:1 B:0-2")
		}},
		{"P-11 replaced static member", bothModes, func(w *world) {
			w.t1(3)
			w.g10(memberSpec{id: "a1", instance: "i1", process: "pa", tasks: "s1:0-2", endpoint: "h:1"})
			w.hb("a1", -2, inst("i1")).ok(-2)
			w.join("b1", inst("i1"), process("pa"), endpoint("h:2"), seen(9)).ok(10).endpoints("h:2 foo:0-2")
		}},
		{"P-12 Q3 a member with an endpoint while topics are missing", bothModes, func(w *world) {
			w.topic("bar", 0)
			w.join("m1", endpoint("h:1"), seen(-1)).ok(2).status(1).endpoints("h:1 -")
		}},
		{"P-13 D32 after a move of the coordinator", bothModes, func(w *world) {
			w.group(groupSpec{loaded: true, members: []memberSpec{{id: "m1", tasks: allNine, endpoint: "h:1"}}})
			a := w.hb("m1", 10, seen(3)).ok(10).endpoints("h:1 foo:0-5 bar:0-2")
			if w.policy == Kafka {
				a.endpointEpoch(0)
				return
			}
			assert.Greater(w.t, a.resp.EndpointInformationEpoch, int32(3))
			w.hb("m1", 10, seen(a.resp.EndpointInformationEpoch)).ok(10).endpoints()
		}},
		{"a change that was made without a list is in the next one", bothModes, func(w *world) {
			w.t1(2)
			w.g10(memberSpec{id: "m1", tasks: "s1:0", endpoint: "h:1"}, memberSpec{id: "m2", tasks: "s1:1", endpoint: "h:2"})
			w.target("m1", "s1:0", "m2", "s1:1")
			w.hb("m2", 10, seen(9)).ok(10).endpoints("h:1 foo:0", "h:2 foo:1")
			w.hb("m1", 10, seen(1), endpoint("h:3")).ok(11).endpointEpoch(1).endpoints()
			other := w.c.Clone()
			w.hb("m2", 10, seen(2), endpoint("h:4")).ok(12).endpointEpoch(2).endpoints()
			w.hb("m1", 11, seen(9)).ok(12).endpoints("h:3 foo:0", "h:4 foo:1")
			w.c = other
			w.log, w.shadow = other.groups[groupID].records(), nil
			w.hb("m1", 11, seen(2), endpoint("h:5")).ok(12).endpointEpoch(2).endpoints()
			w.hb("m2", 10, seen(9)).ok(12).endpoints("h:5 foo:0", "h:2 foo:1")
		}},
		{"tasks that were taken over without a list are in the next one", bothModes, func(w *world) {
			w.t1(2)
			w.g10(memberSpec{id: "m1", tasks: "s1:0", endpoint: "h:1"}, memberSpec{id: "m2", tasks: "-", endpoint: "h:2", target: "-"}, memberSpec{id: "m3", state: unreleasedTasks, me: 10, pme: 10, tasks: "-", target: "s1:1", endpoint: "h:3"})
			w.hb("m2", 10, seen(9)).ok(10).endpoints("h:1 foo:0", "h:2 -", "h:3 -")
			w.hb("m3", 10, seen(1)).ok(10).tasks("s1:1").endpointEpoch(1).endpoints()
			w.hb("m2", 10, seen(0)).ok(10).endpointEpoch(1).endpoints("h:1 foo:0", "h:2 -", "h:3 foo:1")
		}},
		{"a list stays what it was when it was sent", bothModes, func(w *world) {
			w.t1(2)
			w.g10(memberSpec{id: "m1", tasks: "s1:0", endpoint: "h:1"}, memberSpec{id: "m2", tasks: "s1:1", endpoint: "h:2"})
			first := w.hb("m1", 10, seen(9)).ok(10).endpoints("h:1 foo:0", "h:2 foo:1")
			w.target("m1", "s1:0", "m2", "s1:1")
			second := w.hb("m1", 10, seen(9), endpoint("h:3")).ok(11).endpoints("h:3 foo:0", "h:2 foo:1")
			w.hb("m1", -1)
			w.target("m2", "s1:0,1")
			third := w.hb("m2", 10, seen(9), endpoint("h:4"), owned("s1:1")).ok(13).endpoints("h:4 foo:0,1")
			first.endpoints("h:1 foo:0", "h:2 foo:1")
			second.endpoints("h:3 foo:0", "h:2 foo:1")
			third.endpoints("h:4 foo:0,1")
		}},
	})
}

func TestApplicationShutdown(t *testing.T) {
	two := func(w *world) {
		w.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, memberSpec{id: "m2", tasks: "s2:0-2"})
	}
	runCases(t, []testCase{
		{"X-01 X-02 the first to ask is named", bothModes, func(w *world) {
			two(w)
			a := w.hb("m1", 10, shutdown()).ok(10).status(4).detail(4, "m1").records()
			assert.Equal(w.t, ShutdownRequested{Group: groupID, Member: "m1"}, the[ShutdownRequested](a))
			w.hb("m2", 10).ok(10).status(4).detail(4, "m1").records()
			assert.Empty(w.t, w.hb("m2", 10, shutdown()).ok(10).status(4).detail(4, "m1").events)
		}},
		{"X-03 with a leave", bothModes, func(w *world) {
			two(w)
			w.hb("m1", -1, shutdown()).ok(-1).status().records("t22(m1)", "t21(m1)", "t19(m1)", "17(GE 11)")
			w.target("m2", allNine)
			w.hb("m2", 10).ok(11).status(4).detail(4, "m1")
		}},
		{"X-04 forgotten when the group becomes empty", bothModes, func(w *world) {
			two(w)
			w.hb("m1", 10, shutdown()).ok(10)
			w.hb("m1", -1).ok(-1)
			w.hb("m2", -1).ok(-1)
			w.target("m1", allNine)
			w.join("m1").ok(13).status()
		}},
		{"X-05 Q6 with the leave of an unknown member", bothModes, func(w *world) {
			two(w)
			w.hb("unknown", -1, shutdown()).err(kerr.UnknownMemberID)
			w.hb("m1", 10).ok(10).status(4).detail(4, "unknown")
		}},
		{"X-06 not with a refused heartbeat", bothModes, func(w *world) {
			two(w)
			w.hb("m1", 999, shutdown()).err(kerr.FencedMemberEpoch)
			w.hb("m1", 10).ok(10).status()
		}},
		{"X-07 forgotten when the coordinator moves", bothModes, func(w *world) {
			two(w)
			w.hb("m1", 10, shutdown()).ok(10).status(4)
			w.move()
			w.hb("m1", 10).ok(10).status()
		}},
		{"X-08 not while the append fails", bothModes, func(w *world) {
			two(w)
			w.target("m1", "s1:0-5", "m2", "s2:0-2")
			w.appendFails = kerr.NotEnoughReplicas
			w.hb("m1", 10, rack("r"), shutdown()).err(kerr.CoordinatorNotAvailable)
			w.hb("m2", 10).ok(10).status()
		}},
	})
}

// move is a change of the coordinator: the log is replayed elsewhere.
func (w *world) move() {
	w.t.Helper()
	next := w.newCoordinator()
	for _, r := range w.log {
		assert.NoError(w.t, next.Replay(r))
	}
	next.Loaded(w.now, groupID)
	w.c = next
	w.check()
}
