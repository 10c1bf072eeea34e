package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

func TestRulesLeaving(t *testing.T) {
	two := func(w *world) {
		w.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, memberSpec{id: "a1", instance: "i1", tasks: "s2:0-2"})
		w.hb("m1", 10).ok(10)
		w.hb("a1", 10, inst("i1")).ok(10)
	}
	leave := func(name string, epoch int32, member string, want *kerr.Error, recs []string, opts ...requestOption) testCase {
		return testCase{name, bothModes, func(w *world) {
			two(w)
			a := w.hb(member, epoch, opts...)
			if want != nil {
				before := w.c.stateOf(groupID)
				a.err(want)
				assert.Equal(w.t, before, w.c.stateOf(groupID))
				return
			}
			a.ok(epoch).records(recs...)
			assert.Equal(w.t, member, a.resp.MemberID)
		}}
	}
	gone := func(m string) []string {
		return []string{"t22(" + m + ")", "t21(" + m + ")", "t19(" + m + ")", "17(GE 11)"}
	}
	runCases(t, []testCase{
		{"rule 5-1 no group", bothModes, func(w *world) {
			for _, kind := range []GroupKind{NoGroup, SimpleGroup, EmptyClassicGroup, ClassicGroup, OtherGroup} {
				w.kind = kind
				refusedWithoutTrace(w, kerr.GroupIDNotFound, func() *answer { return w.hb("m1", -1) })
				refusedWithoutTrace(w, kerr.GroupIDNotFound, func() *answer { return w.hb("m1", -2, inst("i")) })
			}
		}},
		{"rule 5-2 a shutdown request of an unknown member", bothModes, func(w *world) {
			two(w)
			w.hb("zz", -2, inst("none"), shutdown()).err(kerr.UnknownMemberID)
			w.hb("other", -1, inst("i1"), shutdown()).err(kerr.FencedInstanceID) // second, so it does not count
			w.hb("m1", 10).ok(10).status(4).detail(4, "zz")

			x := newWorld(w.t, w.policy)
			x.g10()
			x.hb("zz", -1, shutdown()).err(kerr.UnknownMemberID)
			x.target("m1", allNine)
			if a := x.join("m1").ok(11); w.policy == Kafka {
				a.status(4)
			} else {
				a.status() // nobody is there to be shut down
			}
		}},
		leave("rule 5-3 unknown member", -1, "m9", kerr.UnknownMemberID, nil),
		leave("rule 5-4 dynamic member", -1, "m1", nil, gone("m1")),
		leave("rule 5-4 static member that does not say so", -1, "a1", nil, gone("a1")),
		leave("rule 5-5 unknown instance", -1, "a1", kerr.UnknownMemberID, nil, inst("i2")),
		leave("rule 5-5 unknown instance, for a moment", -2, "a1", kerr.UnknownMemberID, nil, inst("i2")),
		leave("rule 5-6 instance of another member", -1, "m1", kerr.FencedInstanceID, nil, inst("i1")),
		leave("rule 5-6 instance of another member, for a moment", -2, "m1", kerr.FencedInstanceID, nil, inst("i1")),
		leave("rule 5-7 static member, for good", -1, "a1", nil, gone("a1"), inst("i1")),
		leave("rule 5-8 static member, for a moment", -2, "a1", nil, []string{"22(a1 STABLE ME -2 PME 9 s2:0-2@0)"}, inst("i1")),
		leave("rule 5-9 other fields are ignored", -1, "m1", nil, gone("m1"), rack("r9"), process("p9"), owned("s9:9"), offsets("s1_0=1", "s1_0=2"), timeout(0), seen(77)),
		{"rules 5-10 5-12 5-13 for good", bothModes, func(w *world) {
			w.t1(3)
			w.g10(
				memberSpec{id: "m1", state: unrevokedTasks, me: 10, pme: 10, tasks: "s1:0", pending: "s1:1", target: "s1:0"},
				memberSpec{id: "m2", state: unreleasedTasks, me: 10, pme: 10, tasks: "s1:2", target: "s1:1,2"})
			before := *w.c.groups[groupID]
			assert.Len(w.t, w.c.timers, 3)
			a := w.hb("m1", -1).ok(-1).records(gone("m1")...)
			want := before.metadata(11)
			assert.Equal(w.t, want, a.recs[3], "everything else as it was")
			assert.Len(w.t, w.c.timers, 1)
			assert.Empty(w.t, w.stub.calls)
			w.wantState(Assigning)
			w.target("m2", "s1:0-2")
			w.hb("m2", 10).ok(11).tasks("s1:0-2").records("21", "20(11, now)", "22")
		}},
		{"rule 5-11 the last member", bothModes, func(w *world) {
			w.brokerConfig("group.streams.assignment.interval.ms", "15000")
			w.target("m1", allNine)
			w.join("m1").ok(2)
			w.hb("m1", -1).ok(-1).records("t22(m1)", "t21(m1)", "t19(m1)", "17(GE 3)", "20(3, 0)")
			w.join("m1").ok(4).tasks(allNine).status() // not held up by the interval
		}},
		{"rules 5-14 5-15 5-16 5-17 for a moment", bothModes, func(w *world) {
			w.t1(4)
			w.g10(
				memberSpec{id: "a1", instance: "i1", timeout: 10000, state: unrevokedTasks, me: 10, pme: 9, tasks: "s1:0@7 s1:1@8 | standby s1:3", pending: "s1:2@6", target: "s1:0,1 | standby s1:3"},
				memberSpec{id: "m2", state: unreleasedTasks, me: 10, pme: 10, tasks: "s1:3", target: "s1:2,3"})
			session := w.c.groups[groupID].members["a1"].session.at
			const absent = "22(a1 UNREVOKED_TASKS ME -2 PME 9 s1:0,1@0 | standby s1:3)"
			w.after(time.Second)
			w.hb("a1", -2, inst("i1")).ok(-2).records(absent)
			w.wantEpoch(10)
			assert.Equal(w.t, session, w.c.groups[groupID].members["a1"].session.at)
			assert.True(w.t, w.c.groups[groupID].members["a1"].rebalance.armed())
			w.hb("a1", -2, inst("i1")).ok(-2).records(absent)
			w.hb("m2", 10).ok(10).tasks("s1:2,3").records("22(m2 STABLE ME 10 PME 10 s1:2,3@10)")
			w.after(20 * time.Second).records() // the rebalance timer does nothing
			w.wantMember("a1", "UNREVOKED_TASKS ME -2 PME 9 s1:0,1@0 | standby s1:3")
			assert.Empty(w.t, w.stub.calls)
		}},
		{"rule 5-18 the answer", bothModes, func(w *world) {
			two(w)
			for _, a := range []*answer{w.hb("a1", -2, inst("i1"), seen(9), shutdown()), w.hb("m1", -1, seen(9))} {
				rest := a.resp
				assert.NotEmpty(w.t, rest.MemberID)
				assert.Negative(w.t, rest.MemberEpoch)
				rest.MemberID, rest.MemberEpoch = "", 0
				var want answer
				emptyResponse(&want.resp)
				want.resp.Version = 1
				assert.Equal(w.t, want.resp, rest)
			}
		}},
	})
}

func TestRulesWhichGroup(t *testing.T) {
	runCases(t, []testCase{
		{"rule 6.1-1 nothing there", bothModes, func(w *world) {
			refusedWithoutTrace(w, kerr.GroupIDNotFound, func() *answer { return w.hb("m1", 1) })
			w.target("m1", allNine)
			assert.Equal(w.t, GroupCreated{Group: groupID}, the[GroupCreated](w.join("m1").ok(2)))
		}},
		{"rule 6.1-2 a streams group", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.kind = OtherGroup // what the broker holds besides does not matter
			w.hb("m1", 10).ok(10)
			assert.Zero(w.t, count[GroupCreated](w.join("m1").ok(10)))
		}},
		{"rule 6.1-3 an empty classic group", bothModes, func(w *world) {
			for _, kind := range []GroupKind{EmptyClassicGroup, SimpleGroup} {
				x := newWorld(w.t, w.policy)
				x.kind = kind
				refusedWithoutTrace(x, kerr.GroupIDNotFound, func() *answer { return x.hb("m1", 1) })
				x.target("m1", allNine)
				x.join("m1").ok(2)
			}
		}},
		{"rule 6.1-4 a classic group with members", bothModes, func(w *world) {
			w.kind = ClassicGroup
			refusedWithoutTrace(w, kerr.GroupIDNotFound, func() *answer { return w.join("m1") })
			refusedWithoutTrace(w, kerr.GroupIDNotFound, func() *answer { return w.hb("m1", 1) })
		}},
		{"rule 6.1-5 a group of another type", bothModes, func(w *world) {
			w.kind = OtherGroup
			refusedWithoutTrace(w, kerr.GroupIDNotFound, func() *answer { return w.join("m1") })
			refusedWithoutTrace(w, kerr.GroupIDNotFound, func() *answer { return w.hb("m1", 1) })
		}},
		{"rule 6.1-6 a full group", bothModes, func(w *world) {
			w.brokerConfig("group.streams.max.size", "2")
			w.t1(2)
			w.g10(memberSpec{id: "m1", tasks: "s1:0"}, memberSpec{id: "a1", instance: "i1", process: "pa", tasks: "s1:1"})
			w.hb("a1", -2, inst("i1")).ok(-2)
			w.join("m3").err(kerr.GroupMaxSizeReached)
			w.join("m3", inst("i3")).err(kerr.GroupMaxSizeReached)
			w.join("m1").ok(10)
			w.join("b1", inst("i1"), process("pa")).ok(10) // in place of a1
			w.hb("zz", 3).err(kerr.UnknownMemberID)        // only joins are counted
			w.target("m1", "s1:0", "b1", "s1:1")
			w.join("m1", inst("i9")).ok(10)
		}},
	})
}

func TestRulesWhichMember(t *testing.T) {
	base := func(w *world) {
		w.t1(4)
		w.g10(memberSpec{id: "m1", tasks: "s1:0,1"}, memberSpec{id: "a1", instance: "i1", process: "pa", tasks: "s1:2,3"})
		w.target("m1", "s1:0,1", "a1", "s1:2,3", "n", "-")
	}
	refusedWith := func(name string, want *kerr.Error, do func(w *world) *answer) testCase {
		return testCase{name, bothModes, func(w *world) {
			base(w)
			before := w.c.stateOf(groupID)
			do(w).err(want)
			assert.Equal(w.t, before, w.c.stateOf(groupID))
		}}
	}
	runCases(t, []testCase{
		{"rule 6.2-1 a known member joins", bothModes, func(w *world) {
			base(w)
			w.join("m1").ok(10).tasks("s1:0,1").records()
			w.wantMember("m1", "STABLE ME 10 PME 9 s1:0,1@10")
		}},
		{"rule 6.2-2 a new member joins", bothModes, func(w *world) {
			base(w)
			w.join("n").ok(11).tasks("-").records("19(n)", "17(GE 11)", "21(n -)", "20(11, now)", "22(n STABLE ME 11 PME 0 -)")
		}},
		refusedWith("rule 6.2-3 unknown member", kerr.UnknownMemberID, func(w *world) *answer { return w.hb("n", 10) }),
		refusedWith("rule 6.2-4 known member, wrong epoch", kerr.FencedMemberEpoch, func(w *world) *answer { return w.hb("m1", 11) }),
		{"rule 6.2-4 a static member as a dynamic one", bothModes, func(w *world) {
			base(w)
			w.hb("a1", 10).ok(10).records()
		}},
		{"rule 6.2-5 a new instance", bothModes, func(w *world) {
			base(w)
			w.join("n", inst("i2")).ok(11)
			assert.Equal(w.t, "n", w.c.groups[groupID].static["i2"])
			w.join("m1", inst("i3")).ok(11) // a known member
			w.wantMember("m1", "STABLE ME 11 PME 10 s1:0,1@10")
			assert.Equal(w.t, "m1", w.c.groups[groupID].static["i3"])
		}},
		refusedWith("rule 6.2-6 the instance is present", kerr.UnreleasedInstanceID, func(w *world) *answer { return w.join("n", inst("i1")) }),
		{"rule 6.2-6 Q13 under the same id", kafkaMode, func(w *world) {
			base(w)
			w.join("a1", inst("i1"), process("pa")).err(kerr.UnreleasedInstanceID)
		}},
		{"rule 6.2-6 Q13 the member itself", kipMode, func(w *world) {
			base(w)
			w.join("a1", inst("i1"), process("pa")).ok(10).tasks("s1:2,3")
		}},
		{"rule 6.2-7 the instance is absent", bothModes, func(w *world) {
			base(w)
			w.hb("a1", -2, inst("i1")).ok(-2)
			w.join("n", inst("i1"), process("pa")).ok(10).tasks("s1:2,3")
			w.wantMember("a1", "")
		}},
		refusedWith("rule 6.2-8 unknown instance", kerr.UnknownMemberID, func(w *world) *answer { return w.hb("m1", 10, inst("i9")) }),
		refusedWith("rule 6.2-9 instance of another", kerr.FencedInstanceID, func(w *world) *answer { return w.hb("m1", 10, inst("i1")) }),
		refusedWith("rule 6.2-10 static member, wrong epoch", kerr.FencedMemberEpoch, func(w *world) *answer { return w.hb("a1", 11, inst("i1")) }),
		{"rule 6.2-10 static member", bothModes, func(w *world) {
			base(w)
			w.hb("a1", 10, inst("i1")).ok(10).records()
		}},
	})
}

func TestRulesEpochCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		epoch int32
		owned string // "null" if the lists are absent
		ok    bool
	}{
		{"rule 6.3-1 0", 0, "-", true},
		{"rule 6.3-2 above", 11, "null", false},
		{"rule 6.3-2 above, with its tasks", 11, "s1:0,1 | standby s2:0", false},
		{"rule 6.3-3 the same", 10, "null", true},
		{"rule 6.3-3 the same, other tasks", 10, "s1:5 | standby s1:1", true},
		{"rule 6.3-4 the one before, all tasks", 8, "s1:0,1 | standby s2:0 | warmup s2:1", true},
		{"rule 6.3-4 the one before, some", 8, "s1:1", true},
		{"rule 6.3-4 the one before, none", 8, "-", true},
		{"rule 6.3-5 the one before, not reported", 8, "null", false},
		{"rule 6.3-5 the one before, one too many", 8, "s1:0,1,2", false},
		{"rule 6.3-5 the one before, another role", 8, "- | standby s1:0", false},
		{"rule 6.3-5 the one before, another role of a replica", 8, "s2:0", false},
		{"rule 6.3-5 the one before, what is pending", 8, "s1:3", false},
		{"rule 6.3-5 between", 9, "-", false},
		{"rule 6.3-5 older", 7, "-", false},
	} {
		for _, p := range []Policy{KIP1071, Kafka} {
			t.Run(c.name, func(t *testing.T) {
				w := newWorld(t, p)
				w.group(groupSpec{ge: 10, members: []memberSpec{{
					id: "m1", me: 10, pme: 8, state: unrevokedTasks, tasks: "s1:0,1 | standby s2:0 | warmup s2:1", pending: "s1:3", target: "s1:0,1 | standby s2:0 | warmup s2:1",
				}}})
				var a *answer
				switch {
				case c.epoch == 0:
					w.join("m1").ok(10)
					return
				case c.owned == "null":
					a = w.hb("m1", c.epoch)
				default:
					a = w.hb("m1", c.epoch, owned(c.owned))
				}
				if c.ok {
					require.GreaterOrEqual(t, a.resp.MemberEpoch, int32(10))
					a.ok(a.resp.MemberEpoch)
					return
				}
				a.err(kerr.FencedMemberEpoch)
				assert.Len(t, w.c.groups[groupID].members, 1, "rule 6.3-6: it stays a member")
			})
		}
	}
}

func TestRulesStaticReplacement(t *testing.T) {
	absent := func(w *world) {
		w.t1(4)
		w.g10(
			memberSpec{id: "a1", instance: "i1", process: "pa", rack: "r1", tags: "zone=z", tasks: "s1:0@7 s1:1@9 | standby s1:2", target: "s1:0,1 | standby s1:2"},
			memberSpec{id: "m2", tasks: "s1:2,3"})
		w.hb("a1", 10, inst("i1")).ok(10)
		w.hb("a1", -2, inst("i1")).ok(-2)
	}
	runCases(t, []testCase{
		{"rule 6.3-6 an absent member is fenced", bothModes, func(w *world) {
			absent(w)
			for _, e := range []int32{1, 9, 10, 11} {
				w.hb("a1", e, inst("i1"), owned("-")).err(kerr.FencedMemberEpoch)
			}
		}},
		{"rule 6.4 another id", bothModes, func(w *world) {
			absent(w)
			a := w.join("b1", inst("i1"), process("pa")).ok(10).tasks("s1:0,1 | standby s1:2").records(
				"t22(a1)", "t21(a1)", "t19(a1)", "19(b1)", "21(b1 s1:0,1 | standby s1:2)", "22(b1 STABLE ME 0 PME 0 s1:0,1@0 | standby s1:2)",
				"22(b1 STABLE ME 10 PME 0 s1:0,1@0 | standby s1:2)")
			meta := a.recs[3].(*record.MemberMetadata)
			assert.Equal(w.t, "r1", *meta.RackID)
			assert.Equal(w.t, []record.KeyValue{{Key: "zone", Value: "z"}}, meta.ClientTags)
			w.wantEpoch(10)
			assert.EqualValues(w.t, 10, w.c.groups[groupID].assignmentEpoch)
			w.after(44 * time.Second).records()
			w.hb("b1", 10, inst("i1")).ok(10)
			w.hb("m2", 10).ok(10)
			w.after(2 * time.Second).records() // the session of a1 would have ended
		}},
		{"rule 6.4 the same id", bothModes, func(w *world) {
			absent(w)
			w.join("a1", inst("i1"), process("pa")).ok(10).records(
				"t22(a1)", "t21(a1)", "t19(a1)", "19(a1)", "21(a1 s1:0,1 | standby s1:2)", "22(a1 STABLE ME 0 PME 0 s1:0,1@0 | standby s1:2)",
				"22(a1 STABLE ME 10 PME 0 s1:0,1@0 | standby s1:2)")
		}},
		{"rule 6.4 the new id is a member already", bothModes, func(w *world) {
			w.t1(4)
			w.g10(memberSpec{id: "a1", instance: "i1", process: "p", tasks: "s1:0,1"}, memberSpec{id: "m2", process: "p", tasks: "s1:2,3"})
			w.hb("a1", -2, inst("i1")).ok(-2)
			if w.policy == Kafka {
				w.join("m2", inst("i1"), process("p")).ok(10).tasks("s1:0,1")
				w.wantState(Stable) // and nobody has the rest
				return
			}
			w.target("m2", "s1:0-3")
			w.join("m2", inst("i1"), process("p")).ok(11).tasks("s1:0,1").records(
				"t22(a1)", "t21(a1)", "t19(a1)", "19(m2)", "21(m2 s1:0,1)", "22(m2 STABLE ME 0 PME 0 s1:0,1@0)",
				"17(GE 11)", "21(m2 s1:0-3)", "20(11, now)", "22(m2 UNRELEASED_TASKS ME 11 PME 0 s1:0,1@0)")
			w.hb("m2", 11, inst("i1")).ok(11).tasks("s1:0-3")
		}},
		{"rule 6.4 in another process", bothModes, func(w *world) {
			absent(w)
			w.target("b1", "s1:0,1", "m2", "s1:2,3")
			w.join("b1", inst("i1"), process("px")).ok(11).records("t22(a1)", "t21(a1)", "t19(a1)", "19(b1)", "21(b1 s1:0,1 | standby s1:2)", "22(b1 STABLE ME 0 PME 0 s1:0,1@0 | standby s1:2)",
				"19(b1)", "17(GE 11)", "21(b1 s1:0,1)", "20(11, now)", "22").tasks("s1:0,1")
		}},
	})
}
