package coordinator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/topology"
)

// explain is what the coordinator says of a task, given as "s1:0".
func (w *world) explain(task string) Explanation {
	w.t.Helper()
	before := w.c.stateOf(groupID)
	e, ok := w.c.Explain(w.now, groupID, parseTasks(task)[0])
	require.True(w.t, ok, "there is no group")
	require.Equal(w.t, before, w.c.stateOf(groupID), "explaining must not change the state")
	return e
}

// because checks the cause, and the sentence that people read.
func (w *world) because(task string, c Cause, sentence string) Explanation {
	w.t.Helper()
	e := w.explain(task)
	assert.Equal(w.t, c, e.Cause, "cause of %s: %s", task, e)
	assert.Equal(w.t, sentence, e.String())
	return e
}

func TestExplain(t *testing.T) {
	runCases(t, []testCase{
		{"no such group", bothModes, func(w *world) {
			e, ok := w.c.Explain(w.now, groupID, topology.TaskID{})
			assert.False(w.t, ok)
			assert.Equal(w.t, "there is no such group", e.String())
			assert.Equal(w.t, "Unknown", e.Cause.String())
			assert.Equal(w.t, "OwnerUntold", OwnerUntold.String())
		}},
		{"a task that runs", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5 s2:0-2"})
			w.hb("m1", 10).ok(10)
			e := w.because("s1:0", TaskRuns, "s1_0 runs at m1")
			assert.Equal(w.t, "m1", e.Owner)
			assert.Equal(w.t, []Holding{{Member: "m1", ProcessID: "p1", Role: Active, As: e.Task, Epoch: 10}}, e.Holders)
			assert.Equal(w.t, Stable, e.State)
			assert.Empty(w.t, e.WaitsFor)
			w.because("s1:6", NoSuchTask, "s1_6 does not exist: the topology has s1_0 to s1_5 s2_0 to s2_2")
			w.because("s3:0", NoSuchTask, "s3_0 does not exist: the topology has s1_0 to s1_5 s2_0 to s2_2")
		}},
		{"a task that moves, step by step", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5 s2:0-2"})
			w.target("m1", "s1:0-5", "m2", "s2:0-2")
			w.join("m2").ok(11).tasks("-")
			e := w.because("s2:0", HolderUnasked, "s2_0 runs at m1, which hears with its next heartbeat that it is to give it up; then it goes to m2")
			assert.Equal(w.t, "m2", e.Owner)
			assert.Equal(w.t, []string{"m1"}, e.WaitsFor)
			assert.Equal(w.t, 45*time.Second, e.Within, "the session of a member that nobody has heard of since it was loaded")

			w.hb("m1", 10).ok(10).tasks("s1:0-5")
			w.after(400 * time.Millisecond)
			e = w.because("s2:0", HolderRevokes, "s2_0 is being given up by m1, which is removed in 1.1s if it does not; then it goes to m2")
			assert.Equal(w.t, []string{"m1"}, e.WaitsFor)
			assert.Equal(w.t, []Holding{{Member: "m1", ProcessID: "p1", Role: Active, As: e.Task, Epoch: 10, Revoking: true}}, e.Holders)
			w.because("s1:0", TaskRuns, "s1_0 runs at m1")

			w.hb("m1", 10, owned("s1:0-5")).ok(11)
			w.after(5 * time.Second)
			e = w.because("s2:0", OwnerUntold, "s2_0 is free, and goes to m2 with its next heartbeat, it is removed if none comes for 39.6s")
			assert.Empty(w.t, e.Holders)
			w.hb("m2", 11).ok(11).tasks("s2:0-2")
			w.because("s2:0", TaskRuns, "s2_0 runs at m2")
		}},
		{"a member that stays alive and takes its time", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5 s2:0-2", timeout: 300_000})
			w.target("m1", "s1:0-5", "m2", "s2:0-2")
			w.join("m2").ok(11)
			w.hb("m1", 10).ok(10).tasks("s1:0-5")
			w.after(40 * time.Second)
			w.hb("m1", 10).ok(10)
			w.hb("m2", 11).ok(11)
			w.after(20 * time.Second)
			w.because("s2:0", HolderRevokes, "s2_0 is being given up by m1, which is removed in 4m0s if it does not; then it goes to m2")
		}},
		{"the owner gives up others first", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, memberSpec{id: "m2", tasks: "s2:0-2"}, memberSpec{id: "m3"})
			w.target("m1", "s2:0-2", "m2", "s1:0-5")
			w.hb("m3", -1).ok(-1)
			w.hb("m1", 10).ok(10).tasks("-")
			w.hb("m2", 10).ok(10).tasks("-")
			w.hb("m2", 10, owned("-")).ok(11)
			w.because("s2:1", OwnerRevokes, "s2_1 waits until m1 has given up other tasks, it is removed in 1.5s if it does not")
			w.because("s1:1", HolderRevokes, "s1_1 is being given up by m1, which is removed in 1.5s if it does not; then it goes to m2")
		}},
		{"nobody is there", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5 s2:0-2"})
			w.hb("m1", -1).ok(-1)
			w.because("s1:0", NoMembers, "s1_0 does not run: the group has no members")
		}},
		{"a loaded group", bothModes, func(w *world) {
			w.group(groupSpec{members: []memberSpec{{id: "m1", tasks: "s1:0-5"}}, loaded: true})
			w.because("s1:0", TaskRuns, "s1_0 runs at m1")
			w.because("s2:0", TopicsUnseen, "s2_0 waits for a heartbeat: the coordinator has not looked at the topics yet")
		}},
		{"a topic is missing", bothModes, func(w *world) {
			w.topic("bar", 0)
			w.join("m1").ok(2).status(1)
			e := w.because("s1:0", TopicsNotRight, "s1_0 does not run, because of the topics: "+w.explain("s1:0").Detail)
			assert.Contains(w.t, e.Detail, "bar")
			assert.EqualValues(w.t, 1, e.Status)
		}},
		{"a topic goes missing while a member works", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, memberSpec{id: "m2", tasks: "s2:0-2"})
			w.topic("bar", 0)
			w.hb("m2", 10)
			e := w.explain("s1:0")
			assert.Equal(w.t, TopicsNotRight, e.Cause)
			assert.Contains(w.t, e.String(), "; m1 has it until it hears of that")
		}},
		{"the initial delay", bothModes, func(w *world) {
			w.brokerConfig("group.streams.initial.rebalance.delay.ms", "3000")
			w.join("m1").ok(1).status(5)
			w.after(time.Second)
			e := w.because("s1:0", InitialDelay, "s1_0 waits for more members to join, it is assigned within 2s")
			assert.Equal(w.t, 2*time.Second, e.Within)
			assert.Empty(w.t, e.WaitsFor)
		}},
		{"the assignment interval", bothModes, func(w *world) {
			w.brokerConfig("group.streams.assignment.interval.ms", "10000")
			w.target("m1", "s1:0-5", "m2", "s2:0-2")
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, memberSpec{id: "m2"}, memberSpec{id: "m3", tasks: "s2:0-2"})
			w.hb("m3", -1).ok(-1)
			w.hb("m1", 10).ok(11)
			w.after(time.Second)
			w.because("s2:0", OwnerUntold, "s2_0 is free, and goes to m2 with its next heartbeat, it is removed if none comes for 44s")
			w.hb("m2", -1).ok(-1)
			w.because("s2:0", AssignmentInterval, "s2_0 waits for the next assignment, it is computed with the first heartbeat in 9s")
			w.after(9 * time.Second)
			w.because("s2:0", TargetOutdated, "s2_0 waits for a heartbeat of any member, with which the assignment is computed")
		}},
		{"the owner leaves", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, memberSpec{id: "m2", tasks: "s2:0-2"})
			w.hb("m1", 10).ok(10)
			w.hb("m2", -1).ok(-1)
			w.because("s2:0", TargetOutdated, "s2_0 waits for a heartbeat of any member, with which the assignment is computed")
			w.because("s1:0", TaskRuns, "s1_0 runs at m1")
		}},
		{"the assignor leaves a task out", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5"})
			w.hb("m1", 10).ok(10)
			w.because("s2:0", TaskUnassigned, "s2_0 is unassigned: the assignor gave it to nobody")
		}},
		{"the holder is to have it no more, and nobody else either", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", me: 9, tasks: "s1:0-5 s2:0-2", target: "s1:0-5"}, memberSpec{id: "m2"})
			w.hb("m2", 10).ok(10)
			w.because("s2:0", HolderUnasked, "s2_0 runs at m1, which hears with its next heartbeat that it is to give it up; then nobody has it")
		}},
		{"a static member is absent", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", instance: "i1", tasks: "s1:0-5 s2:0-2"})
			w.hb("m1", 10, inst("i1")).ok(10)
			w.after(5 * time.Second)
			w.hb("m1", -2, inst("i1")).ok(-2)
			e := w.because("s1:0", HolderAbsent, "s1_0 is kept for m1, a static member that is absent, for another 40s")
			assert.True(w.t, e.Holders[0].Absent)
			assert.Equal(w.t, "i1", e.Holders[0].InstanceID)
		}},
		{"a sibling has a copy", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", process: "p", tasks: "s1:1-5 s2:0-2", target: "s1:0-5 s2:0-2", me: 9}, memberSpec{id: "m2", process: "p", tasks: "standby s1:0", target: "-", me: 9})
			w.hb("m1", 9).ok(10)
			e := w.because("s1:0", SiblingHolds, "s1_0 waits for m2, of the same process as m1, to give up its copy; m2 has a copy (standby)")
			assert.Equal(w.t, []string{"m2"}, e.WaitsFor)
		}},
		{"copies are told", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5 s2:0-2"}, memberSpec{id: "m2", tasks: "standby s1:0"})
			w.hb("m1", 10).ok(10)
			w.because("s1:0", TaskRuns, "s1_0 runs at m1; m2 has a copy (standby)")
		}},
	})
}

func TestExplainUpgrades(t *testing.T) {
	runCases(t, []testCase{
		{"X1 a member that is behind works on the topic", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.join("old", shape(0, "0=A,B"))
			r.join("new", shape(1, "0=A 1=B"))
			r.settle()
			w.wantState(Stable)
			e := w.because("1:0", VersionsCollide, "1_0 must not run beside another version: 1_0: p-old works on B as 0_0 of topology epoch 0. It is given out when that has been replaced")
			assert.Equal(w.t, []string{"old"}, e.WaitsFor)
			assert.Zero(w.t, e.Within)
			w.because("0:0", TaskRuns, "0_0 runs at old")
		}},
		{"X2 a task under its former id", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.join("old", shape(0, "0=B"))
			r.join("new", shape(1, "0=A 1=B"))
			r.settle()
			w.because("1:0", TaskRuns, "1_0 runs at old as 0_0 of an older topology")
			w.because("0:0", TaskRuns, "0_0 runs at new")
		}},
		{"21.2-3 nobody is up to date", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.join("old", shape(0, "0=B"))
			r.join("new", shape(1, "0=A 1=B"))
			r.settle()
			r.leave("new")
			r.settle()
			w.because("0:0", NobodyUpToDate, "0_0 waits for a member with the group's topology: those with an older one gain nothing")
			w.because("1:1", TaskRuns, "1_1 runs at old as 0_1 of an older topology")
		}},
	})
}

func TestExplainWarmUps(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.end = 1_000_000
	f.add("m1", "p1")
	f.rounds(20) // it restores all tasks
	f.add("m2", "p2")
	e, task := Explanation{Lag: -1}, topology.TaskID{}
	for range 20 {
		f.round()
		for _, task = range f.c.groups[groupID].members["m2"].cur.assigned.warmup {
			if e, _ = f.c.Explain(f.now, groupID, task); e.Lag > 0 {
				break
			}
		}
		if e.Lag > 0 {
			break
		}
	}
	assert.Equal(t, TaskWarmsUp, e.Cause, e.String())
	assert.Equal(t, "m2", e.Owner)
	assert.Equal(t, []string{"m2"}, e.WaitsFor)
	assert.EqualValues(t, 10_000, e.Acceptable)
	require.Positive(t, e.Lag)
	assert.Equal(t, fmt.Sprintf("%s runs at m1 and moves to m2 when that has caught up: its copy lacks %d records, and may lack 10000; m2 has a copy (warm-up)", task, e.Lag), e.String())
	f.settle(1000)
	e, _ = f.c.Explain(f.now, groupID, task)
	assert.Equal(t, TaskRuns, e.Cause, e.String())
	assert.Equal(t, "m2", e.runner())
}

// checkExplained holds what is said of every task of a group against the group.
func checkExplained(t require.TestingT, c *Coordinator, now Now, g *group) {
	configured := g.configured()
	if configured == nil || !configured.Ready() {
		return
	}
	for _, task := range allTasks(configured) {
		e, ok := c.Explain(now, g.id, task)
		require.True(t, ok)
		require.NotEmpty(t, e.String())
		require.GreaterOrEqual(t, e.Within, time.Duration(0))
		require.True(t, slices.IsSorted(e.WaitsFor))
		for _, id := range e.WaitsFor {
			require.Contains(t, g.members, id, "%s", e)
		}
		active := slices.IndexFunc(e.Holders, func(h Holding) bool { return h.Role == Active })
		if e.Cause == TaskRuns || e.Cause == TaskWarmsUp {
			require.GreaterOrEqual(t, active, 0, "%s", e)
			require.False(t, e.Holders[active].Revoking || e.Holders[active].Absent, "%s", e)
		} else if expectsNothing := []Cause{HolderAbsent, NobodyUpToDate, VersionsCollide, TaskUnassigned}; atRest(g) && !slices.Contains(expectsNothing, e.Cause) {
			require.Fail(t, "a group at rest says that something is expected", "%s", e)
		}
	}
}

// atRest is whether the state is that of a group in which nothing happens any more. A plan
// for warm-ups that a new coordinator has made is looked at once more, and a case may
// begin with a member that is STABLE and has something to give up.
func atRest(g *group) bool {
	if g.state() != Stable || g.refinement != nil && !g.refinement.settled {
		return false
	}
	for _, m := range g.members {
		if !m.cur.pending.empty() {
			return false
		}
	}
	return true
}
