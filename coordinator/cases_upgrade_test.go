package coordinator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// Upgrades by content: topologies are written as in "0=A 1=B,C/S", where 1 reads
// the topics B and C and has the changelog S.
func shape(epoch int32, s string) *kmsg.StreamsGroupHeartbeatRequestTopology {
	t := topo(epoch)
	for _, f := range strings.Fields(s) {
		id, rest, _ := strings.Cut(f, "=")
		sources, stores, stateful := strings.Cut(rest, "/")
		x := sub(id)
		for _, topic := range strings.Split(sources, ",") {
			if p, ok := strings.CutPrefix(topic, "~"); ok {
				pattern(p)(&x)
			} else {
				reads(topic)(&x)
			}
		}
		if stateful {
			for _, store := range strings.Split(stores, ",") {
				changelog(store)(&x)
			}
		}
		t.Subtopologies = append(t.Subtopologies, x)
	}
	return t
}

// upgradeWorld has the topics A, B and C with two partitions each, and the sticky
// assignor.
func upgradeWorld(w *world) *runs {
	w.brokerConfig("group.streams.assignors", "sticky")
	for _, t := range []string{"A", "B", "C"} {
		w.topic(t, 2)
	}
	return newRuns(w)
}

func (r *runs) active(id string) string {
	return showRoles(roles{active: r.w.c.groups[groupID].members[id].cur.assigned.active}, nil)
}

// rest settles the group and checks what the members hold then: member and tasks
// alternate.
func (r *runs) rest(want ...string) map[string][]int8 {
	r.w.t.Helper()
	statuses := r.settle()
	for i := 0; i < len(want); i += 2 {
		assert.Equal(r.w.t, want[i+1], r.active(want[i]), "tasks of %s", want[i])
	}
	return statuses
}

// beat is a heartbeat that reports what the member runs.
func (r *runs) beat(id string) *answer {
	r.w.t.Helper()
	o := r.owned[id]
	a := r.w.hb(id, r.epochs[id], func(q *Request) {
		q.ActiveTasks, q.StandbyTasks, q.WarmupTasks = listToWire(o.active), listToWire(o.standby), listToWire(o.warmup)
	})
	r.took(id, a)
	return a
}

// target is the stored target of a member.
func (r *runs) target(id string) string {
	return showRoles(*r.w.c.groups[groupID].members[id].target, nil)
}

func heldBack(a *answer) []string {
	var out []string
	for _, e := range a.events {
		if e, ok := e.(TargetComputed); ok {
			for _, c := range e.HeldBack {
				out = append(out, c.Task.String()+" for "+c.Holder+" "+c.As.String()+" "+strings.Join(c.Topics, ","))
			}
		}
	}
	return out
}

func TestUpgradesByContent(t *testing.T) {
	runCases(t, []testCase{
		{"K-20 X6 a new store", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.join("old", shape(0, "0=A"))
			require.Equal(w.t, "0:0,1", r.active("old"))
			a := w.join("new", with(shape(1, "0=A/S"))).ok(3).tasks("-").status(3)
			r.took("new", a)
			w.wantState(NotReady)
			assert.Equal(w.t, "S", a.create[0].Name)
			b := r.beat("old").ok(3).noLists().status(0)
			assert.Empty(w.t, b.create, "the topics are not the old version's concern")
			assert.Equal(w.t, "0:0,1", r.target("old"))
			assert.Equal(w.t, map[string][]int8{"old": {0}, "new": {3}}, r.settle())

			w.topic("S", 2)
			least := 2
			for range 6 {
				for _, id := range []string{"old", "new"} {
					r.beat(id)
				}
				least = min(least, len(parseTasks(r.active("old"))))
			}
			r.rest("old", "0:0", "new", "0:1")
			assert.Equal(w.t, 1, least, "old is never asked for more than one")
			w.wantState(Stable)
		}},
		{"K-20 a version that never becomes ready harms nobody", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.join("old", shape(0, "0=A 1=B"))
			r.join("new", shape(1, "0=A 1=missing"))
			assert.Equal(w.t, map[string][]int8{"old": {0}, "new": {1}}, r.rest("old", "0:0,1 1:0,1", "new", "-"))
			r.leave("new")
			assert.Equal(w.t, map[string][]int8{"old": {0}}, r.rest("old", "0:0,1 1:0,1"))
			// The version after it is the old one again.
			r.join("back", shape(2, "0=A 1=B"))
			r.rest("old", "0:0 1:0", "back", "0:1 1:1")
			w.wantState(Stable)
		}},
		{"K-21 X2 renumbering", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.join("old", shape(0, "0=A 1=B 2=C"))
			r.join("new", shape(1, "0=B 1=C"))
			// 0 is not read any more; of the four that go on, each gets two. old
			// goes on under its own numbers.
			r.rest("old", "1:0 2:0", "new", "0:1 1:1")
			w.wantState(Stable)
			r.leave("old")
			r.rest("new", "0:0,1 1:0,1")
		}},
		{"K-22 X2 equal content under other numbers", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.join("m1", shape(0, "0=A 1=B"))
			r.join("m2", shape(0, "0=A 1=B"))
			r.rest("m1", "0:0 1:0", "m2", "0:1 1:1")
			r.join("new", shape(1, "0=B 1=A"))
			// Four tasks, three members: m2 or m1 gives up one, the other nothing.
			r.settle()
			kept := len(parseTasks(r.active("m1"))) + len(parseTasks(r.active("m2")))
			assert.Equal(w.t, 3, kept)
			w.wantState(Stable)
		}},
		{"K-22 X2 a copy is one of the same task only with the same changelogs", kipMode, func(w *world) {
			for _, c := range []struct{ store, prior, target string }{{"S", "4:0,1", "0:0,1"}, {"T", "-", "-"}} {
				w := newWorld(w.t, w.policy)
				upgradeWorld(w)
				w.topic("S", 2)
				w.topic("T", 2)
				w.brokerConfig("group.streams.assignors", "stub")
				w.brokerConfig("group.streams.num.standby.replicas", "1")
				w.topo = shape(0, "0=A/S")
				w.group(groupSpec{configs: []record.KeyValue{{Key: "num.standby.replicas", Value: "1"}}, members: []memberSpec{
					{id: "m1", tasks: "0:0,1"}, {id: "m2", tasks: "- | standby 0:0,1"},
				}})
				standby := "- | standby " + c.prior
				if c.prior == "-" {
					standby = "-"
				}
				w.target("m1", "4:0,1", "m2", standby, "new", map[string]string{"S": "-", "T": "- | standby 4:0,1"}[c.store])
				w.join("new", with(shape(1, "4=A/"+c.store))).ok(11)
				m2 := w.stub.calls[0].Members[1]
				assert.Equal(w.t, listToSet(parseTasks("4:0,1")), w.stub.calls[0].Members[0].Prior.Active, c.store)
				assert.Equal(w.t, listToSet(parseTasks(map[string]string{"4:0,1": "4:0,1", "-": ""}[c.prior])), m2.Prior.Standby, c.store)
				assert.Equal(w.t, parseRoles(map[string]string{"0:0,1": "- | standby 0:0,1", "-": "-"}[c.target]), *w.c.groups[groupID].members["m2"].target, c.store)
			}
		}},
		{"K-21 X2 what has no successor is no claim", kipMode, func(w *world) {
			upgradeWorld(w)
			w.brokerConfig("group.streams.assignors", "stub")
			w.topo = shape(0, "0=A 1=B")
			w.g10(memberSpec{id: "m1", tasks: "0:0,1 1:0,1"})
			w.target("m1", "0:0", "new", "0:1")
			w.join("new", with(shape(1, "0=B"))).ok(11).tasks("-").status()
			assert.Equal(w.t, listToSet(parseTasks("0:0,1")), w.stub.calls[0].Members[0].Prior.Active)
			assert.Equal(w.t, parseRoles("1:0"), *w.c.groups[groupID].members["m1"].target)
		}},
		{"K-22 nothing moves if there is nobody to move it to", kipMode, func(w *world) {
			r := upgradeWorld(w)
			for _, m := range []string{"m1", "m2"} {
				r.join(m, shape(0, "0=A 1=B"))
			}
			r.settle()
			r.join("new", shape(1, "0=B 1=A"))
			r.settle()
			r.leave("new")
			r.settle()
			before := [2]string{r.active("m1"), r.active("m2")}
			r.join("new", shape(2, "a=B b=A"))
			r.settle()
			assert.Equal(w.t, before, [2]string{r.active("m1"), r.active("m2")})
		}},
		{"K-23 X1 a topic moves, K-28 X4 and the coordinator, too", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.join("old", shape(0, "0=A 1=B,C"))
			a := w.join("new", with(shape(1, "0=A,C 1=B")))
			r.took("new", a)
			// new 0 reads C, as does old 1: both of old must be gone first.
			r.rest("old", "0:0 1:0", "new", "0:1 1:1")
			w.wantState(Stable)
			assert.Empty(w.t, heldBack(a))
		}},
		{"K-23 X1 S4 given to nobody while a kept task stands in the way", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.join("m1", shape(0, "0=A 1=B,C"))
			r.join("m2", shape(0, "0=A 1=B,C"))
			r.rest("m1", "0:0 1:0", "m2", "0:1 1:1")
			r.leave("m1") // m2 has not heard of it
			a := w.join("new", with(shape(1, "0=A,C 1=B")))
			r.took("new", a)
			assert.Empty(w.t, heldBack(a))
			r.rest("m2", "0:1 1:1", "new", "0:0 1:0")
			// Now one that has only the task that stands in the way.
		}},
		{"K-23 K-28 X1 X4 reported, and the same after a move", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.join("old", shape(0, "x=B,C"))
			a := w.join("new", with(shape(1, "0=A,C x=B")))
			r.took("new", a)
			// x goes on as x. While old has x:0, nobody reads C-0 in 0:0.
			assert.Equal(w.t, "x:0,1", r.target("old"), "two of four: its share")
			assert.Equal(w.t, []string{"0_0 for p-old x_0 C", "0_1 for p-old x_1 C"}, heldBack(a))
			r.rest("old", "x:0,1", "new", "-")
			w.wantState(Stable)

			// K-28: whoever takes over knows why.
			w.move()
			r.rest("old", "x:0,1", "new", "-")
			w.wantState(Stable)
			r.join("third", shape(1, "0=A,C x=B"))
			r.settle()
			r.leave("old")
			r.settle()
			assert.Equal(w.t, 4, len(parseTasks(r.active("new")))+len(parseTasks(r.active("third"))))
		}},
		{"K-23 X1 waits for what is being given up", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.join("old", shape(0, "0=A 1=B,C"))
			a := w.join("new", with(shape(1, "9=A,C 1=B")))
			r.took("new", a)
			// 0 has no successor (9 reads more than it), so it ends. 1 goes on as 1.
			assert.Equal(w.t, "1:0,1", r.target("old"))
			assert.Equal(w.t, []string{"9_0 for p-old 1_0 C", "9_1 for p-old 1_1 C"}, heldBack(a))
			r.rest("old", "1:0,1", "new", "-")
			b := w.hb("old", -1).ok(-1)
			assert.Equal(w.t, Left, the[MemberLeft](b).Cause)
			delete(r.epochs, "old")
			r.rest("new", "1:0,1 9:0,1")
		}},
		{"K-24 X1 a changelog moves", kipMode, func(w *world) {
			w.topic("S", 2)
			r := upgradeWorld(w)
			r.join("old", shape(0, "0=A,C/S"))
			a := w.join("new", with(shape(1, "0=A 1=B/S")))
			r.took("new", a)
			assert.Equal(w.t, []string{"1_0 for p-old 0_0 S", "1_1 for p-old 0_1 S"}, heldBack(a))
			r.rest("old", "0:0,1", "new", "-")
			w.wantState(Stable)
			// A third task makes the share of old smaller.
			r.leave("old")
			r.rest("new", "0:0,1 1:0,1")
		}},
		{"K-24 the store of what is not read any more", kipMode, func(w *world) {
			w.topic("S", 2)
			r := upgradeWorld(w)
			r.join("old", shape(0, "0=A/S"))
			a := w.join("new", with(shape(1, "0=B 1=C/S")))
			r.took("new", a)
			assert.Equal(w.t, "0:0,1", r.active("new"), "nobody works on B")
			e := the[TasksWaiting](a)
			assert.Equal(w.t, "1:0,1", showTasks(e.Tasks))
			assert.Equal(w.t, []string{"p-old"}, e.Holders)
			assert.Equal(w.t, Conflict{Task: parseTasks("1:0")[0], Holder: "p-old", As: parseTasks("0:0")[0], Topics: []string{"S"}}, e.Conflicts[0])
			r.beat("old").tasks("-") // asked to give up both
			r.owned["old"] = parseRoles("0:0,1")
			r.beat("new").noLists()
			r.owned["old"] = roles{}
			r.beat("old")
			r.rest("old", "-", "new", "0:0,1 1:0,1")
		}},
		{"K-25 X1 a topic that grows in the middle", kipMode, func(w *world) {
			r := upgradeWorld(w)
			w.topic("B", 4)
			w.topic("C", 4)
			r.join("old", shape(0, "0=A,B"))
			a := w.join("new", with(shape(1, "0=B 1=A,C")))
			r.took("new", a)
			// old keeps 0:0-3 as its share (four of eight): it reads A as well, if
			// only for now.
			assert.Equal(w.t, "0:0-3", r.target("old"))
			assert.Contains(w.t, heldBack(a), "1_2 for p-old 0_2 A")
			r.rest("old", "0:0-3", "new", "-")
			w.topic("A", 4)
			r.rest("old", "0:0-3", "new", "-")
			w.wantState(Stable)
		}},
		{"K-27 X3 coming back upgraded, dynamic", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.join("old", shape(0, "0=A"))
			r.rest("old", "0:0,1")
			a := w.join("old", with(shape(1, "0=A"))).ok(3).tasks("0:0,1").status()
			w.wantMember("old", "STABLE ME 3 PME 0 0:0,1@3")
			assert.Equal(w.t, MemberUpgraded{Group: groupID, Member: "old", ToEpoch: 1, Held: parseTasks("0:0,1")}, the[MemberUpgraded](a))
			wantCommit(w, "old", 2, "A", 0, kerr.StaleMemberEpoch)
			wantCommit(w, "old", 3, "A", 0, nil)
			w.hb("old", 2, owned("0:0,1")).err(kerr.FencedMemberEpoch)
		}},
		{"K-27 X3 coming back upgraded under other numbers", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.join("old", shape(0, "0=A 1=B"))
			r.join("other", shape(0, "0=A 1=B"))
			r.rest("old", "0:0 1:0", "other", "0:1 1:1")
			r.took("old", w.join("old", with(shape(1, "0=B 1=A"))).tasks("0:0 1:0").status())
			r.rest("old", "0:0 1:0", "other", "0:1 1:1")
			r.took("other", w.join("other", with(shape(1, "0=B 1=A"))).tasks("0:1 1:1").status())
			r.rest("old", "0:0 1:0", "other", "0:1 1:1")
			w.wantState(Stable)
		}},
		{"K-27 X3 coming back upgraded, static", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.took("a", w.join("a", inst("i"), with(shape(0, "0=A 1=B"))))
			r.join("m", shape(0, "0=A 1=B"))
			r.rest("a", "0:0 1:0", "m", "0:1 1:1")
			w.hb("a", -2, inst("i")).ok(-2)
			delete(r.epochs, "a")
			r.took("b", w.join("b", inst("i"), process("p-a2"), with(shape(1, "0=B 1=A"))).tasks("0:0 1:0").status())
			w.wantMember("b", "STABLE ME 4 PME 0 0:0@4 1:0@4")
			wantCommit(w, "b", 3, "A", 0, kerr.StaleMemberEpoch)
			r.rest("b", "0:0 1:0", "m", "0:1 1:1")
		}},
		{"K-27 X3 within the assignment interval", kipMode, func(w *world) {
			r := upgradeWorld(w)
			w.brokerConfig("group.streams.assignment.interval.ms", "5000")
			r.join("m1", shape(0, "0=A 1=B"))
			w.after(6 * time.Second)
			r.join("m2", shape(0, "0=A 1=B"))
			r.rest("m1", "0:0 1:0", "m2", "0:1 1:1")
			r.took("m1", w.join("m1", with(shape(1, "0=B 1=A"))).tasks("0:0 1:0").status())
			// The second is not the update: its target waits, and is the old one
			// under the new numbers.
			a := w.join("m2", with(shape(1, "0=B 1=A"))).tasks("0:1 1:1").status(5)
			r.took("m2", a)
			assert.Equal(w.t, "0:1 1:1", r.target("m2"))
			w.after(6 * time.Second)
			r.rest("m1", "0:0 1:0", "m2", "0:1 1:1")
			w.wantState(Stable)
		}},
		{"K-27 X3 within the assignment interval, under new numbers", kipMode, func(w *world) {
			r := upgradeWorld(w)
			w.brokerConfig("group.streams.assignment.interval.ms", "5000")
			r.join("m1", shape(0, "0=A 1=B"))
			w.after(6 * time.Second)
			r.join("m2", shape(0, "0=A 1=B"))
			r.rest("m1", "0:0 1:0", "m2", "0:1 1:1")
			r.took("m1", w.join("m1", with(shape(1, "7=A 8=B"))).tasks("7:0 8:0").status())
			epoch := w.c.groups[groupID].epoch
			r.took("m2", w.join("m2", with(shape(1, "7=A 8=B"))).tasks("7:1 8:1").status(5).records(
				"19(m2)", fmt.Sprintf("17(GE %d)", epoch+1), "21(m2 7:1 8:1)", fmt.Sprintf("22(m2 STABLE ME %d PME 0 7:1@%d 8:1@%d)", epoch, epoch, epoch)))
			w.after(6 * time.Second)
			r.rest("m1", "7:0 8:0", "m2", "7:1 8:1")
			w.wantState(Stable)
		}},
		{"K-27 X3 within the assignment interval, under the same numbers", kipMode, func(w *world) {
			r := upgradeWorld(w)
			w.brokerConfig("group.streams.assignment.interval.ms", "5000")
			r.join("m1", shape(0, "0=A 1=B"))
			w.after(6 * time.Second)
			r.join("m2", shape(0, "0=A 1=B"))
			r.rest("m1", "0:0 1:0", "m2", "0:1 1:1")
			r.took("m1", w.join("m1", with(shape(1, "0=A 1=B"))).tasks("0:0 1:0").status())
			epoch := w.c.groups[groupID].epoch
			// Its target is written already.
			w.join("m2", with(shape(1, "0=A 1=B"))).tasks("0:1 1:1").status(5).records(
				"19(m2)", fmt.Sprintf("17(GE %d)", epoch+1), fmt.Sprintf("22(m2 STABLE ME %d PME 0 0:1@%d 1:1@%d)", epoch, epoch, epoch))
		}},
		{"X1 an absent static member of an older epoch is not waited for", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.took("a", w.join("a", inst("i"), with(shape(0, "x=B,C"))))
			w.hb("a", -2, inst("i")).ok(-2)
			delete(r.epochs, "a")
			a := w.join("new", with(shape(1, "0=A,C x=B"))).tasks("0:0,1")
			r.took("new", a)
			assert.Empty(w.t, heldBack(a))
			assert.Equal(w.t, "x:0,1", r.target("a"), "kept for it")
			// It comes back as what the new version makes of it.
			r.took("b", w.join("b", inst("i"), with(shape(1, "0=A,C x=B"))).tasks("x:0,1"))
			r.rest("new", "0:0,1", "b", "x:0,1")
		}},
		{"X4 a holder of an unknown topology counts as working on everything", kipMode, func(w *world) {
			r := upgradeWorld(w)
			w.topo = shape(1, "0=A 1=B")
			w.g10(memberSpec{id: "m1", tasks: "0:0,1", topologyEpoch: 0, target: "0:0,1", endpoint: "h:1"},
				memberSpec{id: "m2", tasks: "1:0,1", topologyEpoch: 1, target: "1:0,1"})
			a := w.join("m3", seen(9)).ok(11).endpoints("h:1 -") // X7: nobody knows what it reads
			r.took("m3", a)
			assert.Equal(w.t, []string{"p1"}, the[TasksWaiting](a).Holders)
			r.epochs["m1"], r.owned["m1"] = 10, parseRoles("0:0,1")
			r.epochs["m2"], r.owned["m2"] = 10, parseRoles("1:0,1")
			r.rest("m1", "-", "m2", "1:0,1", "m3", "0:0,1")
		}},
		{"X5 commits are looked up in the holder's topology", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.join("old", shape(0, "0=A 1=B 2=C"))
			r.join("new", shape(1, "0=B 1=C"))
			r.rest("old", "1:0 2:0", "new", "0:1 1:1")
			me := r.epochs["old"]
			require.Greater(w.t, me, int32(2))
			wantCommit(w, "old", 2, "B", 0, nil)
			wantCommit(w, "old", 2, "C", 0, nil)
			wantCommit(w, "old", 2, "B", 1, kerr.StaleMemberEpoch)
			wantCommit(w, "old", 2, "A", 0, kerr.StaleMemberEpoch)
			w.move()
			wantCommit(w, "old", 2, "B", 0, nil)
			wantCommit(w, "old", 2, "C", 1, kerr.StaleMemberEpoch)
		}},
		{"X7 topics that only members of an older epoch read", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.took("old", w.join("old", with(shape(0, "0=A 1=B 2=C")), endpoint("old:1")))
			a := w.join("new", with(shape(1, "0=B 1=C")), endpoint("new:1"))
			r.took("new", a)
			r.settle()
			assert.True(w.t, w.c.Subscribed(groupID, "A"), "old may still commit")
			var names []string
			w.c.Required(groupID, func(n string) { names = append(names, n) })
			assert.Equal(w.t, []string{"A", "B", "C"}, names)
			w.hb("new", r.epochs["new"], seen(99)).endpoints("new:1 B:1 C:1", "old:1 B:0 C:0")
			w.move()
			assert.True(w.t, w.c.Subscribed(groupID, "A"))
			names = nil
			w.c.Required(groupID, func(n string) { names = append(names, n) })
			assert.Equal(w.t, []string{"A", "B", "C"}, names)
			r.leave("old")
			assert.False(w.t, w.c.Subscribed(groupID, "A"))
		}},
		{"X4 what a topology record remembers", kipMode, func(w *world) {
			w.topic("S", 2)
			r := upgradeWorld(w)
			older := func(a *answer) []record.OlderEpoch {
				for _, rec := range a.recs {
					if t, ok := rec.(*record.Topology); ok {
						return t.OlderEpochs
					}
				}
				return nil
			}
			zero := record.OlderEpoch{Epoch: 0, Subtopologies: []record.OlderSubtopology{{ID: "0", Sources: []string{"A", "B"}, Changelogs: []string{"S"}}}}
			one := record.OlderEpoch{Epoch: 1, Subtopologies: []record.OlderSubtopology{{ID: "0", Sources: []string{"A"}}, {ID: "1", Sources: []string{"B"}}}}
			r.join("m0", shape(0, "0=B,A/S"))
			r.join("m1", shape(0, "0=B,A/S"))
			a := w.join("m1", with(shape(1, "1=B 0=A")))
			r.took("m1", a)
			assert.Equal(w.t, []record.OlderEpoch{zero}, older(a))
			a = w.join("m2", with(shape(2, "0=A 1=B")))
			r.took("m2", a)
			assert.Equal(w.t, []record.OlderEpoch{zero, one}, older(a))
			r.settle()
			r.leave("m0")
			// m1 is the last with epoch 1, and it is the update itself.
			a = w.join("m1", with(shape(3, "0=A")))
			r.took("m1", a)
			assert.Equal(w.t, []record.OlderEpoch{{Epoch: 2, Subtopologies: one.Subtopologies}}, older(a))
			r.settle()
		}},
		{"X4 a static member that comes back as the update takes its epoch with it", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.took("a", w.join("a", inst("i"), with(shape(0, "0=A"))))
			w.hb("a", -2, inst("i")).ok(-2)
			for _, rec := range w.join("b", inst("i"), with(shape(1, "0=A"))).ok(3).tasks("0:0,1").status().recs {
				if t, ok := rec.(*record.Topology); ok {
					assert.Empty(w.t, t.OlderEpochs)
				}
			}
		}},
		{"source patterns are frozen as they were resolved", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.join("old", shape(0, "0=~[AB] 1=C"))
			r.rest("old", "0:0,1 1:0,1")
			a := w.join("new", with(shape(1, "0=C 1=A,B")))
			r.took("new", a)
			for _, rec := range a.recs {
				if t, ok := rec.(*record.Topology); ok {
					assert.Equal(w.t, []string{"A", "B"}, t.OlderEpochs[0].Subtopologies[0].Sources)
				}
			}
			r.rest("old", "0:0 1:0", "new", "0:1 1:1")
			// And where it was replaced before it was ready.
			x := newWorld(w.t, w.policy)
			s := upgradeWorld(x)
			s.took("old", x.join("old", with(shape(0, "0=~[AB],missing"))).ok(2).status(1))
			for _, rec := range x.join("new", with(shape(1, "0=C"))).ok(3).recs {
				if t, ok := rec.(*record.Topology); ok {
					assert.Equal(w.t, []string{"A", "B", "missing"}, t.OlderEpochs[0].Subtopologies[0].Sources)
				}
			}
			// And where the coordinator that replaces it has never looked.
			w.move()
			a = w.join("third", with(shape(2, "0=~[AB] 1=C")))
			r.took("third", a)
			r.settle()
			w.wantState(Stable)
		}},
	})
}

func wantCommit(w *world, member string, epoch int32, topic string, partition int32, want *kerr.Error) {
	w.t.Helper()
	code, _ := w.c.CheckCommit(Commit{
		Group: groupID, Member: member, Epoch: epoch, Version: 9,
		Partitions: func(yield func(string, int32) bool) { yield(topic, partition) },
	})
	if want == nil {
		assert.Zero(w.t, code, "commit of %s-%d by %s with epoch %d", topic, partition, member, epoch)
		return
	}
	assert.Equal(w.t, want.Code, code, "commit of %s-%d by %s with epoch %d", topic, partition, member, epoch)
}
