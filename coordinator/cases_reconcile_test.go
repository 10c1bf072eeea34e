package coordinator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// TestThreeMemberTrace is the trace that every implementation of the protocol
// goes through when a third member joins.
func TestThreeMemberTrace(t *testing.T) {
	t.Parallel()
	for _, p := range []Policy{KIP1071, Kafka} {
		w := newWorld(t, p)
		w.g10(memberSpec{id: "m1", tasks: "s1:0-2 s2:0,1"}, memberSpec{id: "m2", tasks: "s1:3-5 s2:2"})
		w.target("m1", "s1:0,1 s2:0", "m2", "s1:2,3 s2:2", "m3", "s1:4,5 s2:1")
		step := func(name string, do func(t *testing.T)) {
			t.Run(fmt.Sprintf("%s policy %d", name, p), func(t *testing.T) {
				w.t = t
				do(t)
			})
		}
		step("R-01 m3 joins", func(t *testing.T) {
			a := w.join("m3").ok(11).tasks("-").status().records(
				"19(m3)", "17(GE 11)", "21(m1 s1:0,1 s2:0)", "21(m2 s1:2,3 s2:2)", "21(m3 s1:4,5 s2:1)", "20(11, now)",
				"22(m3 UNRELEASED_TASKS ME 11 PME 0 -)")
			assert.Equal(t, TasksWaiting{Group: groupID, Member: "m3", Tasks: parseTasks("s1:4,5 s2:1"), Holders: []string{"p1", "p2"}}, the[TasksWaiting](a))
			assert.Equal(t, MemberJoined{Group: groupID, Member: "m3", ProcessID: "p3", ClientID: "client"}, the[MemberJoined](a))
			assert.Equal(t, EpochBumped{Group: groupID, Epoch: 11, Member: "m3", Reasons: []Reason{ReasonMemberJoined}}, the[EpochBumped](a))
			assert.Equal(t, TargetComputed{Group: groupID, Epoch: 11, Assignor: "stub", Members: 3, Tasks: 9}, the[TargetComputed](a))
			assert.Equal(t, StateChanged{Group: groupID, From: Stable, To: Reconciling}, the[StateChanged](a))
			w.wantState(Reconciling)
		})
		step("R-02 m1 learns what to give up", func(t *testing.T) {
			a := w.hb("m1", 10).ok(10).tasks("s1:0,1 s2:0").records("22(m1 UNREVOKED_TASKS ME 10 PME 10 s1:0,1@10 s2:0@10 pending s1:2@10 s2:1@10)")
			assert.Equal(t, RevocationAsked{Group: groupID, Member: "m1", Tasks: parseTasks("s1:2 s2:1"), Within: 1500 * time.Millisecond}, the[RevocationAsked](a))
			w.wantState(Reconciling)
		})
		step("R-03 m2 learns it too", func(t *testing.T) {
			w.hb("m2", 10).ok(10).tasks("s1:3 s2:2").records("22(m2 UNREVOKED_TASKS ME 10 PME 10 s1:3@10 s2:2@10 pending s1:4,5@10)")
		})
		step("R-04 m3 still waits", func(t *testing.T) {
			a := w.hb("m3", 11).ok(11).noLists().records("22(m3 UNRELEASED_TASKS ME 11 PME 11 -)")
			assert.Empty(t, a.events)
		})
		step("R-05 m1 has given up", func(t *testing.T) {
			a := w.hb("m1", 10, owned("s1:0,1 s2:0")).ok(11).noLists().records("22(m1 STABLE ME 11 PME 10 s1:0,1@10 s2:0@10)")
			assert.Equal(t, RevocationAcknowledged{Group: groupID, Member: "m1", Tasks: parseTasks("s1:2 s2:1")}, the[RevocationAcknowledged](a))
			assert.Equal(t, EpochReached{Group: groupID, Member: "m1", Epoch: 11}, the[EpochReached](a))
		})
		step("R-06 m2 has not", func(t *testing.T) { w.hb("m2", 10).ok(10).noLists().records() })
		step("R-07 m3 gets what is free", func(t *testing.T) {
			a := w.hb("m3", 11).ok(11).tasks("s2:1").records("22(m3 UNRELEASED_TASKS ME 11 PME 11 s2:1@11)")
			assert.Equal(t, TasksGranted{Group: groupID, Member: "m3", Epoch: 11, Tasks: parseTasks("s2:1")}, the[TasksGranted](a))
		})
		step("R-08 m3 waits for the rest", func(t *testing.T) { w.hb("m3", 11).ok(11).noLists().records() })
		step("R-09 m2 has given up", func(t *testing.T) {
			w.hb("m2", 10, owned("s1:3 s2:2")).ok(11).tasks("s1:2,3 s2:2").records("22(m2 STABLE ME 11 PME 10 s1:2@11 s1:3@10 s2:2@10)")
		})
		step("R-10 m3 has everything", func(t *testing.T) {
			a := w.hb("m3", 11, owned("s2:1")).ok(11).tasks("s1:4,5 s2:1").records("22(m3 STABLE ME 11 PME 11 s1:4,5@11 s2:1@11)")
			assert.Equal(t, StateChanged{Group: groupID, From: Reconciling, To: Stable}, the[StateChanged](a))
			w.wantState(Stable)
		})
		step("R-11 nothing changes any more", func(t *testing.T) {
			for _, m := range []string{"m1", "m2", "m3"} {
				assert.Empty(t, w.hb(m, 11).ok(11).noLists().status().records().events)
			}
		})
	}
}

// stepCase is one step of one member of process p.
type stepCase struct {
	name    string
	state   memberState // default STABLE
	me, pme int32       // default 10, 10
	tasks   string
	pending string
	target  string
	epoch   int32 // of the target, default 11
	// index names who is registered: "p s1:4 | standby s2:7; q s1:5".
	index  string
	owned  string // "null" if the lists are absent
	want   string
	fenced bool
	// roles repeats the case with the tasks in each role.
	roles bool
}

// TestReconcileSteps are the steps of one member in isolation.
func TestReconcileSteps(t *testing.T) {
	t.Parallel()
	const unchanged = "unchanged"
	for _, c := range []stepCase{
		{name: "R-20 new epoch, same tasks", tasks: "s1:1,2@9 s2:3,4@8", target: "s1:1,2 s2:3,4", owned: "null", want: "STABLE ME 11 PME 10 s1:1,2@9 s2:3,4@8", roles: true},
		{name: "R-21 nothing to do at the same epoch", tasks: "s1:1,2 s2:3,4", target: "s1:7", epoch: 10, owned: "null", want: unchanged, roles: true},
		{name: "R-22 more tasks", tasks: "s1:1@9 s1:2@8 s2:3@9 s2:4@8", target: "s1:1,2,4 s2:3,4,7", owned: "null", want: "STABLE ME 11 PME 10 s1:1@9 s1:2@8 s1:4@11 s2:3@9 s2:4@8 s2:7@11", roles: true},
		{name: "R-23 other tasks", tasks: "s1:1,2 s2:3,4", target: "s1:2,3 s2:4,5", owned: "null", want: "UNREVOKED_TASKS ME 10 PME 10 s1:2@10 s2:4@10 pending s1:1@10 s2:3@10", roles: true},
		{name: "R-24 no tasks", tasks: "s1:1,2 s2:3,4", target: "-", owned: "null", want: "UNREVOKED_TASKS ME 10 PME 10 - pending s1:1,2@10 s2:3,4@10", roles: true},
		{name: "R-25 what is to go is gone already", tasks: "s1:1,2 s2:3,4", target: "s1:2 s2:4", owned: "s1:2 s2:4", want: "STABLE ME 11 PME 10 s1:2@10 s2:4@10", roles: true},
		{name: "R-26 dropped at once, the new one is taken", tasks: "s1:1,2 s2:3,4", target: "s1:1,2 s2:3,5", index: "p s2:5", owned: "-", want: "UNRELEASED_TASKS ME 11 PME 10 s1:1,2@10 s2:3@10", roles: true},
		{name: "R-27 acknowledged", state: unrevokedTasks, tasks: "s1:2,3 s2:5,6", pending: "s1:1 s2:4", target: "s1:2,3 s2:5,6", owned: "s1:2,3 s2:5,6", want: "STABLE ME 11 PME 10 s1:2,3@10 s2:5,6@10", roles: true},
		{name: "R-28 not reported", state: unrevokedTasks, tasks: "s1:2,3 s2:5,6", pending: "s1:1 s2:4", target: "s1:2,3 s2:5,6", owned: "null", want: unchanged, roles: true},
		{name: "R-28 acknowledged in part", state: unrevokedTasks, tasks: "s1:2,3 s2:5,6", pending: "s1:1 s2:4", target: "s1:2,3 s2:5,6", owned: "s1:1,2,3 s2:5,6", want: unchanged, roles: true},
		{name: "R-29 acknowledged, the newer target wants more", state: unrevokedTasks, tasks: "s1:2,3 s2:5,6", pending: "s1:1 s2:4", target: "s1:3 s2:6", epoch: 12, owned: "s1:2,3 s2:5,6", want: "UNREVOKED_TASKS ME 11 PME 10 s1:3@10 s2:6@10 pending s1:2@10 s2:5@10", roles: true},
		{name: "R-30 acknowledged, new tasks at once", state: unrevokedTasks, tasks: "s1:2,3", pending: "s1:1", target: "s1:2,3,4", owned: "s1:2,3", want: "STABLE ME 11 PME 10 s1:2,3@10 s1:4@11", roles: true},
		{name: "R-31 unreleased, new epoch without it", state: unreleasedTasks, me: 11, pme: 11, tasks: "s1:2,3 s2:5,6", target: "s1:2,3 s2:5,6", epoch: 12, owned: "null", want: "STABLE ME 12 PME 11 s1:2,3@11 s2:5,6@11", roles: true},
		{name: "R-32 unreleased, now free", state: unreleasedTasks, me: 11, pme: 11, tasks: "s1:2,3 s2:5,6", target: "s1:2-4 s2:5-7", owned: "null", want: "STABLE ME 11 PME 11 s1:2,3@11 s1:4@11 s2:5-7@11", roles: true},
		{name: "R-33 unreleased, still taken", state: unreleasedTasks, me: 11, pme: 11, tasks: "s1:2,3 s2:5,6", target: "s1:2-4 s2:5-7", index: "p s1:4 s2:7", owned: "null", want: unchanged, roles: true},
		{name: "R-34 active wanted, a sibling has the standby", state: unreleasedTasks, me: 11, pme: 11, target: "s1:4 s2:7", index: "p - | standby s1:4 s2:7", owned: "null", want: unchanged},
		{name: "R-34 standby wanted, a sibling has the warm-up", state: unreleasedTasks, me: 11, pme: 11, target: "- | standby s1:4 s2:7", index: "p - | warmup s1:4 s2:7", owned: "null", want: unchanged},
		{name: "R-34 warm-up wanted, a sibling has the standby", state: unreleasedTasks, me: 11, pme: 11, target: "- | warmup s1:4 s2:7", index: "p - | standby s1:4 s2:7", owned: "null", want: unchanged},
		{name: "R-35 one of two is free", state: unreleasedTasks, me: 11, pme: 11, target: "s1:4 s2:7", index: "q s1:4", owned: "null", want: "UNRELEASED_TASKS ME 11 PME 11 s2:7@11"},
		{name: "R-36 replicas elsewhere do not matter", state: unreleasedTasks, me: 11, pme: 11, target: "- | standby s1:4 | warmup s2:7", index: "q s2:7 | standby s1:4; r s1:4 | warmup s2:7", owned: "null", want: "STABLE ME 11 PME 11 standby s1:4 | warmup s2:7"},
		{name: "R-37 unknown state, not reported", state: unknownState, tasks: "s1:1", target: "s1:1", owned: "null", fenced: true},
		{name: "R-37 unknown state, tasks reported", state: unknownState, tasks: "s1:1", target: "s1:1", owned: "s1:1", fenced: true},
		{name: "R-38 unknown state, nothing held", state: unknownState, me: 11, pme: 11, tasks: "s1:3 s2:6", pending: "s1:2 s2:5", target: "s1:3 s2:6", epoch: 12, owned: "-", want: "STABLE ME 12 PME 11 s1:3@11 s2:6@11"},
		{name: "R-39 a revoked task comes back", state: unrevokedTasks, tasks: "s1:1@5 s1:2@6", pending: "s2:3@7 s2:4@8", target: "s1:1,2 s2:3,5", owned: "s1:1", want: "STABLE ME 11 PME 10 s1:1@5 s1:2@6 s2:3@11 s2:5@11"},
		{name: "R-40 a revoked task comes back, as the index has it", state: unrevokedTasks, tasks: "s1:1@5 s1:2@6", pending: "s2:3@7 s2:4@8", target: "s1:1,2 s2:3,5", index: "p s1:1,2 s2:3,4", owned: "s1:1", want: "UNRELEASED_TASKS ME 11 PME 10 s1:1@5 s1:2@6 s2:5@11"},
		{name: "R-40 and in the next heartbeat", state: unreleasedTasks, me: 11, pme: 10, tasks: "s1:1@5 s1:2@6 s2:5@11", target: "s1:1,2 s2:3,5", index: "p s1:1,2 s2:5", owned: "null", want: "STABLE ME 11 PME 11 s1:1@5 s1:2@6 s2:3@11 s2:5@11"},

		{name: "R-50 warm-up here, wanted active, active free", tasks: "- | warmup s1:0", target: "s1:0", index: "p - | warmup s1:0", owned: "null", want: "STABLE ME 11 PME 10 s1:0@11"},
		{name: "R-51 warm-up here, wanted active, active elsewhere", tasks: "- | warmup s1:0", target: "s1:0", index: "p - | warmup s1:0; q s1:0", owned: "null", want: "UNRELEASED_TASKS ME 11 PME 10 warmup s1:0"},
		{name: "R-52 the same one, active now free", state: unreleasedTasks, me: 11, pme: 10, tasks: "- | warmup s1:0", target: "s1:0", index: "p - | warmup s1:0", owned: "null", want: "STABLE ME 11 PME 11 s1:0@11"},
		{name: "R-53 a sibling has the warm-up, wanted active", target: "s1:0", index: "p - | warmup s1:0", owned: "null", want: "UNRELEASED_TASKS ME 11 PME 10 -"},
		{name: "R-54 warm-up here, wanted active, blocked by another revocation", tasks: "s1:1 | warmup s1:0", target: "s1:0", index: "p s1:1 | warmup s1:0", owned: "null", want: "UNREVOKED_TASKS ME 10 PME 10 warmup s1:0 pending s1:1@10"},
		{name: "R-55 standby here, wanted active, active free", tasks: "- | standby s1:0", target: "s1:0", index: "p - | standby s1:0", owned: "null", want: "STABLE ME 11 PME 10 s1:0@11"},
		{name: "R-56 standby here, wanted active, active elsewhere", tasks: "- | standby s1:0", target: "s1:0", index: "p - | standby s1:0; q s1:0", owned: "null", want: "UNRELEASED_TASKS ME 11 PME 10 standby s1:0"},
		{name: "R-57 a sibling has the standby, wanted active", target: "s1:0", index: "p - | standby s1:0", owned: "null", want: "UNRELEASED_TASKS ME 11 PME 10 -"},
		{name: "R-58 active here, wanted standby", tasks: "s1:0", target: "- | standby s1:0", index: "p s1:0", owned: "null", want: "UNREVOKED_TASKS ME 10 PME 10 standby s1:0 pending s1:0@10"},
		{name: "R-59 and given up", state: unrevokedTasks, tasks: "- | standby s1:0", pending: "s1:0", target: "- | standby s1:0", index: "p s1:0 | standby s1:0", owned: "- | standby s1:0", want: "STABLE ME 11 PME 10 standby s1:0"},
		{name: "R-60 and not yet given up", state: unrevokedTasks, tasks: "- | standby s1:0", pending: "s1:0", target: "- | standby s1:0", index: "p s1:0 | standby s1:0", owned: "s1:0", want: unchanged},
		{name: "R-61 active here, wanted standby, a sibling has the standby", tasks: "s1:0", target: "- | standby s1:0", index: "p s1:0 | standby s1:0", owned: "null", want: "UNREVOKED_TASKS ME 10 PME 10 - pending s1:0@10"},
		{name: "R-62 standby here, wanted warm-up", tasks: "- | standby s1:0", target: "- | warmup s1:0", index: "p - | standby s1:0", owned: "null", want: "STABLE ME 11 PME 10 warmup s1:0"},
		{name: "R-63 warm-up here, wanted standby", tasks: "- | warmup s1:0", target: "- | standby s1:0", index: "p - | warmup s1:0", owned: "null", want: "STABLE ME 11 PME 10 standby s1:0"},
		{name: "R-64 standby here, wanted warm-up, a sibling has the warm-up", tasks: "- | standby s1:0", target: "- | warmup s1:0", index: "p - | standby s1:0 | warmup s1:0", owned: "null", want: "UNREVOKED_TASKS ME 10 PME 10 - pending standby s1:0"},
		{name: "R-65 active here, wanted warm-up", tasks: "s1:0", target: "- | warmup s1:0", index: "p s1:0", owned: "null", want: "UNREVOKED_TASKS ME 10 PME 10 - pending s1:0@10"},
		{name: "R-66 and given up, the index still has it", state: unrevokedTasks, pending: "s1:0", target: "- | warmup s1:0", index: "p s1:0", owned: "-", want: "UNRELEASED_TASKS ME 11 PME 10 -"},
		{name: "R-67 a sibling has the active task, wanted standby", target: "- | standby s1:0", index: "p s1:0", owned: "null", want: "UNRELEASED_TASKS ME 11 PME 10 -"},
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

func checkStep(t *testing.T, c stepCase, role Role) {
	if c.state == 0 {
		c.state = stable
	}
	if c.me == 0 {
		c.me, c.pme = 10, 10
	}
	if c.epoch == 0 {
		c.epoch = 11
	}
	cur := inRole(parseCurrent(c.tasks, c.pending, 10), role)
	if c.me != 10 {
		cur = inRole(parseCurrent(c.tasks, c.pending, c.me), role)
	}
	cur.state, cur.epoch, cur.previousEpoch = c.state, c.me, c.pme
	want := cur
	if !c.fenced && c.want != "unchanged" {
		want = inRole(parseState(c.want), role)
	}
	owners := newOwnerIndex()
	for _, part := range strings.Split(c.index, ";") {
		if p, l, ok := strings.Cut(strings.TrimSpace(part), " "); ok {
			owners.add(p, inRole(parseCurrent(l, "", 0), role).assigned)
		}
	}
	var o *roles
	if c.owned != "null" {
		o = &inRole(parseCurrent(c.owned, "", 0), role).assigned
	}
	to := goal{epoch: c.epoch, tasks: inRole(parseCurrent(c.target, "", 0), role).assigned}
	got := reconcile(*cur, to, o, &owners, "p")
	assert.Equal(t, c.fenced, got.fenced)
	assert.Equal(t, want.String(), got.String())
}

// inRole turns the active tasks of a state into ones of another role.
func inRole(c current, role Role) *current {
	if role == Active {
		return &c
	}
	*c.assigned.of(role), *c.pending.of(role) = c.assigned.active, c.pending.active
	c.assigned.active, c.pending.active, c.epochs, c.pendingEpochs = nil, nil, nil, nil
	return &c
}

// parseState reads what current.String writes.
func parseState(s string) current {
	head, pending, _ := strings.Cut(s, " pending ")
	var state, tasks string
	var me, pme int32
	if _, err := fmt.Sscanf(head, "%s ME %d PME %d", &state, &me, &pme); err != nil {
		panic(err)
	}
	tasks = strings.SplitN(head, " ", 6)[5]
	c := parseCurrent(tasks, pending, 0)
	c.epoch, c.previousEpoch = me, pme
	c.state = map[string]memberState{"STABLE": stable, "UNREVOKED_TASKS": unrevokedTasks, "UNRELEASED_TASKS": unreleasedTasks}[state]
	return c
}

func TestReconcileOther(t *testing.T) {
	runCases(t, []testCase{
		{"R-37 unknown state of a loaded member", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.replay(&record.CurrentAssignment{Group: groupID, Member: "m1", MemberEpoch: 10, PreviousMemberEpoch: 9, State: 77})
			w.hb("m1", 10).err(kerr.FencedMemberEpoch)
			w.hb("m1", 10, owned("s1:0")).err(kerr.FencedMemberEpoch)
			a := w.hb("m1", 10, owned("-")).ok(10).tasks(allNine)
			assert.Len(w.t, a.recs, 1)
		}},
		{"R-70 R-71 acknowledging before the revocation was seen", bothModes, func(w *world) {
			w.t1(6)
			w.target("m1", "s1:0-5")
			w.join("m1").ok(2).tasks("s1:0-5")
			w.target("m1", "s1:0-2", "m2", "s1:3-5")
			w.join("m2").ok(3).tasks("-").status().records(
				"19(m2)", "17(GE 3 VTE 0)", "21(m1 s1:0-2)", "21(m2 s1:3-5)", "20(3, now)", "22(m2 UNRELEASED_TASKS ME 3 PME 0 -)")
			w.hb("m1", 2, owned("s1:0-2")).ok(3).tasks("s1:0-2").records("22(m1 STABLE ME 3 PME 2 s1:0-2@2)")
			w.hb("m2", 3).ok(3).tasks("s1:3-5").records("22(m2 STABLE ME 3 PME 3 s1:3-5@3)")
			w.wantState(Stable)
		}},
		{"R-72 newer target while revoking", bothModes, func(w *world) {
			w.t1(6)
			w.target("m1", "s1:0-5")
			w.join("m1").ok(2).tasks("s1:0-5")
			w.target("m1", "s1:0-4", "m2", "s1:5")
			w.join("m2").ok(3)
			w.hb("m1", 2).ok(2).tasks("s1:0-4")
			w.hb("m2", -1).ok(-1)
			w.target("m1", "s1:0-5")
			w.hb("m1", 2).ok(2).noLists().records("21(m1 s1:0-5)", "20(4, now)")
			w.hb("m1", 2).ok(2).noLists().records()
			w.hb("m1", 2, owned("s1:0-4")).ok(4).noLists().records("22(m1 UNRELEASED_TASKS ME 4 PME 2 s1:0-4@2)")
			w.hb("m1", 4).ok(4).tasks("s1:0-5").records("22(m1 STABLE ME 4 PME 4 s1:0-4@2 s1:5@4)")
		}},
		{"two members of one process: the second waits for the first's copy", bothModes, func(w *world) {
			w.t1(2)
			w.topo = topo(0, sub("s1", reads("foo"), changelog("c")))
			w.topic("c", 2)
			w.g10(memberSpec{id: "m1", process: "px", tasks: "s1:0 | standby s1:1"}, memberSpec{id: "m2", process: "px", tasks: "-"}, memberSpec{id: "m3", tasks: "s1:1"})
			w.groupConfig("streams.num.standby.replicas", "1")
			w.target("m1", "s1:0", "m2", "- | standby s1:1", "m3", "s1:1 | standby s1:0")
			a := w.hb("m2", 10, rack("r"), process("px")).ok(11).noLists()
			assert.Equal(w.t, TasksWaiting{Group: groupID, Member: "m2", Role: Standby, Tasks: parseTasks("s1:1"), Holders: []string{"px"}}, the[TasksWaiting](a))
			w.wantMember("m2", "UNRELEASED_TASKS ME 11 PME 10 -")
			w.hb("m1", 10).ok(10).tasks("s1:0")
			w.hb("m2", 11).ok(11).noLists()
			w.hb("m1", 10, owned("s1:0")).ok(11)
			w.hb("m2", 11).ok(11).tasks("- | standby s1:1")
		}},
	})
}
