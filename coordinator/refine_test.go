package coordinator

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/topology"
)

// One member has everything and a lot of it when a second one joins.
func oneThenTwo(t tester, warmups int) (f *fleet, a, b *fleetMember) {
	f = newFleet(t, warmups)
	a = f.add("a", "pA")
	f.settle(5)
	f.round()
	f.produce(1_000_000)
	f.outages = nil
	return f, a, f.add("b", "pB")
}

func TestWarmUpEndToEnd(t *testing.T) {
	t.Parallel()
	f, a, b := oneThenTwo(t, 1)
	f.round()
	assert.Equal(t, "a{0,1,2,3,4,5} b{||3} ", f.holders(), "everything goes on at a")
	epoch := f.c.groups[groupID].epoch
	var steps []string
	for idle := 0; ; {
		f.round()
		// One task at a time changes hands, within two heartbeats.
		require.GreaterOrEqual(t, len(f.running), fleetTasks-1)
		if idle++; len(f.running) == fleetTasks {
			idle = 0
		}
		require.LessOrEqual(t, idle, 2, "every task is worked on")
		if h := f.holders(); len(steps) == 0 || steps[len(steps)-1] != h {
			steps = append(steps, h)
		}
		if f.atRest() {
			break
		}
	}
	require.Empty(t, f.outages)
	assert.Equal(t, []string{
		"a{0,1,2,3,4,5} b{||3} ",
		"a{0,1,2,4,5} b{||3} ", "a{0,1,2,4,5} b{3} ", "a{0,1,2,4,5} b{3||4} ",
		"a{0,1,2,5} b{3||4} ", "a{0,1,2,5} b{3,4} ", "a{0,1,2,5} b{3,4||5} ",
		"a{0,1,2} b{3,4||5} ", "a{0,1,2} b{3,4,5} ",
	}, slices.DeleteFunc(steps, func(s string) bool { return !f.coherent(s) }))
	assert.Equal(t, epoch+3, f.c.groups[groupID].epoch, "one epoch per step")
	assert.Equal(t, "3,4,5", formatTasksOf(b))
	assert.Equal(t, "0,1,2", formatTasksOf(a))
	f.restsFor(20)
}

// A coordinator that has loaded the group makes the plan of the epoch anew, from
// what members report to it. A member that is through with the epoch holds what the
// former plan said, a warm-up, and has to be told of the new one: else nobody is
// given the task that another member gives up by the new plan.
func TestPlanMadeAgainAfterAMove(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	f.topic("foo", 2)
	f.topic("log", 2)
	a := f.add("a", "pA")
	f.settle(5)
	f.round()
	f.produce(1_000_000)
	b := f.add("b", "pB")
	f.beat(b)
	require.Equal(t, "a{0,1} b{||1} ", f.holders())
	require.Less(t, a.epoch, b.epoch, "b is through with the epoch, a is not")
	f.disks["pB"][topology.TaskID{Subtopology: "s1", Partition: 1}] = f.end
	f.failover()
	f.beat(b)
	f.beat(a)
	require.Equal(t, "a{0} b{||1} ", f.holders())
	f.settle(4)
	require.Equal(t, "a{0} b{1} ", f.holders())
	f.round()
	require.Len(t, f.running, 2)
	f.restsFor(5)
}

// coherent leaves out the moments between a revocation and the grant.
func (f *fleet) coherent(holders string) bool {
	seen := 0
	for _, r := range holders {
		if r >= '0' && r <= '9' {
			seen++
		}
	}
	return seen >= fleetTasks
}

func formatTasksOf(m *fleetMember) string {
	out := make([]string, 0, len(m.holds.active))
	for _, t := range m.holds.active {
		out = append(out, strconv.Itoa(int(t.Partition)))
	}
	return strings.Join(out, ",")
}

// restsFor checks the fixed point: nothing is written any more.
func (f *fleet) restsFor(rounds int) {
	f.t.Helper()
	n := len(f.log)
	for range rounds {
		f.round()
	}
	require.Len(f.t, f.log, n, "records of a group at rest: %s", f.show())
	require.True(f.t, f.atRest())
}

func TestWarmUpsWithMoreSlotsTakeFewerSteps(t *testing.T) {
	t.Parallel()
	before := 100
	for _, warmups := range []int{1, 2, 3} {
		f, _, _ := oneThenTwo(t, warmups)
		rounds := f.settle(40)
		assert.Empty(t, f.outages)
		assert.Less(t, rounds, before)
		before = rounds
	}
}

func TestRF20NoWarmUpsNoWait(t *testing.T) {
	t.Parallel()
	f, _, _ := oneThenTwo(t, 0)
	f.settle(5)
	assert.NotEmpty(t, f.outages, "without warm-ups tasks move at once")
}

func TestRF22Version0MembersGetTasksCold(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.add("a", "pA")
	f.settle(5)
	f.round()
	f.produce(1_000_000)
	b := &fleetMember{id: "b", process: "pB"}
	f.members, f.disks["pB"] = append(f.members, b), nil
	f.disks["pB"] = map[topology.TaskID]int64{}
	f.beat(b)
	f.settle(5)
	assert.Len(t, b.holds.active, 3)
}

func TestStickyMovesAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.groupConfig("streams.assignor.name", "sticky")
	f.add("a", "pA")
	f.settle(5)
	f.round()
	f.produce(1_000_000)
	b := f.add("b", "pB")
	f.settle(5)
	assert.Len(t, b.holds.active, 3)
	assert.Nil(t, f.c.groups[groupID].refinement)
}

func TestKafkaPolicyHasNoHighlyAvailable(t *testing.T) {
	t.Parallel()
	// rules D22, D36
	kip, err := New(Config{})
	require.NoError(t, err)
	assert.Equal(t, []string{"sticky", "highly_available"}, kip.broker.assignors)
	require.NoError(t, kip.CheckGroupConfig(map[string]string{"streams.assignor.name": "highly_available"}))
	kafka, err := New(Config{Policy: Kafka})
	require.NoError(t, err)
	assert.Equal(t, []string{"sticky"}, kafka.broker.assignors)
	require.Error(t, kafka.CheckGroupConfig(map[string]string{"streams.assignor.name": "highly_available"}))
}

func TestWarmUpDestinationDies(t *testing.T) {
	t.Parallel()
	f, a, b := oneThenTwo(t, 2)
	f.rounds(2)
	require.Positive(t, f.warmupsNow())
	f.crash(b)
	f.after(46 * time.Second)
	f.beat(a)
	f.settle(10)
	assert.Empty(t, f.outages)
	assert.Len(t, a.holds.active, fleetTasks, "a never stopped")
	assert.Zero(t, f.warmupsNow())
	f.restsFor(5)
}

func TestWarmUpSourceDies(t *testing.T) {
	t.Parallel()
	f, a, b := oneThenTwo(t, 2)
	f.rounds(3)
	f.crash(a)
	for range 60 {
		f.beat(b)
		f.after(time.Second)
	}
	f.settle(10)
	assert.Len(t, b.holds.active, fleetTasks)
	require.Len(t, f.running, fleetTasks)
	f.restsFor(5)
}

// A standby that has caught up takes over at once when the owner dies, and the
// balance comes later.
func TestWarmUpAfterAPromotion(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, "streams.num.standby.replicas", "1")
	for _, id := range []string{"a", "b", "c"} {
		f.add(id, "p"+id)
	}
	f.settle(10)
	f.produce(1_000_000)
	f.rounds(10)
	f.outages = nil
	f.leave(f.members[0])
	f.settle(20)
	assert.Empty(t, f.outages, "standbys take over")
	f.add("d", "pd")
	f.settle(60)
	assert.Empty(t, f.outages, "and d gets its share warm")
	f.restsFor(5)
}

// RF-37: another coordinator goes on where the first one was.
func TestRF37FailoverInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, after := range []int{1, 2, 4, 5, 7, 8} {
		f, _, _ := oneThenTwo(t, 1)
		f.rounds(after)
		held, epoch := f.holders(), f.c.groups[groupID].epoch
		f.failover()
		f.rate = 0 // so that nothing new happens for a while
		f.rounds(3)
		if f.c.groups[groupID].epoch == epoch {
			assert.Equal(t, held, f.holders(), "after %d rounds", after)
		}
		f.rate = 300_000
		f.settle(40)
		assert.Empty(t, f.outages)
		f.restsFor(5)
	}
}

// RF-31, MO-12: reports that change nothing cost nothing and change nothing.
func TestRF31ReportsThatDoNotMatter(t *testing.T) {
	t.Parallel()
	f, a, b := oneThenTwo(t, 1)
	f.rounds(2)
	f.rate = 0
	f.rounds(2)
	epoch, plan, n := f.c.groups[groupID].epoch, f.c.groups[groupID].refinement, len(f.log)
	require.True(t, plan.settled)
	f.rate = 1 // b restores, and is still far behind
	f.beat(a)
	f.beat(b)
	assert.Equal(t, epoch, f.c.groups[groupID].epoch)
	assert.Same(t, plan, f.c.groups[groupID].refinement)
	assert.Len(t, f.log, n)
}

// RF-32, 7-12, 11-3, 24.1-12: a step is a new epoch with the old target and its
// old time; the assignor is not asked.
func TestRF32Step(t *testing.T) {
	t.Parallel()
	// rules 7-12, 11-3, 24.1-12, D23
	f, a, b := oneThenTwo(t, 1)
	f.rounds(2)
	g := f.c.groups[groupID]
	require.Equal(t, Stable, g.state())
	epoch, millis := g.epoch, g.assignmentMillis
	f.disks["pB"][topology.TaskID{Subtopology: "s1", Partition: 3}] = f.end
	answer := f.beat(b)
	var bumped []Event
	for _, e := range answer.events {
		if _, ok := e.(EpochBumped); ok {
			bumped = append(bumped, e)
		}
		assert.NotEqual(t, "coordinator.TargetComputed", fmt.Sprintf("%T", e))
	}
	assert.Equal(t, []Event{EpochBumped{Group: groupID, Epoch: epoch + 1, Member: "b", Reasons: []Reason{ReasonRefinement}}}, bumped)
	var kinds []record.Type
	for _, r := range answer.recs {
		kinds = append(kinds, r.RecordKey().Type)
		if m, ok := r.(*record.TargetAssignmentMetadata); ok {
			assert.Equal(t, epoch+1, m.AssignmentEpoch)
			assert.Equal(t, millis, m.AssignmentTimestampMillis, "the old time")
		}
	}
	assert.Equal(t, []record.Type{record.TypeGroupMetadata, record.TypeTargetAssignmentMetadata, record.TypeCurrentAssignment}, kinds)
	f.beat(a) // asked to give up 3
	f.beat(a) // gives it up
	f.beat(b) // gets it, and has done with the warm-up
	assert.Equal(t, "a{0,1,2,4,5} b{3} ", f.holders())
	f.beat(b)
	assert.Equal(t, "a{0,1,2,4,5} b{3||4} ", f.holders())
}

// RF-33: not before the group is stable.
func TestRF33NotBeforeTheGroupIsStable(t *testing.T) {
	t.Parallel()
	f, _, b := oneThenTwo(t, 1)
	f.rounds(2)
	epoch := f.c.groups[groupID].epoch
	f.disks["pB"][topology.TaskID{Subtopology: "s1", Partition: 3}] = f.end
	f.beat(b) // a has to give it up now, and b waits
	require.Equal(t, epoch+1, f.c.groups[groupID].epoch)
	f.disks["pB"][topology.TaskID{Subtopology: "s1", Partition: 4}] = f.end
	f.beat(b)
	assert.Equal(t, epoch+1, f.c.groups[groupID].epoch, "one step at a time")
	f.settle(30)
	assert.Empty(t, f.outages)
}

// RF-34: a limit that is raised takes effect by a step; RF-35: standbys by a run
// of the assignor.
func TestRF34RF35Configs(t *testing.T) {
	t.Parallel()
	f, a, b := oneThenTwo(t, 1)
	f.rounds(2)
	f.rate = 0
	f.rounds(2)
	epoch := f.c.groups[groupID].epoch
	f.groupConfig("streams.assignor.name", "highly_available", "streams.num.warmup.replicas", "1", "streams.acceptable.recovery.lag", "900000")
	f.lag = 900_000
	got := f.beat(a)
	assert.Equal(t, epoch+1, f.c.groups[groupID].epoch)
	for _, e := range got.events {
		assert.NotEqual(t, "coordinator.TargetComputed", fmt.Sprintf("%T", e))
	}
	f.rate = 300_000
	f.settle(30)
	epoch = f.c.groups[groupID].epoch
	f.groupConfig("streams.assignor.name", "highly_available", "streams.num.warmup.replicas", "1", "streams.num.standby.replicas", "1")
	got = f.beat(b)
	assert.Equal(t, epoch+1, f.c.groups[groupID].epoch)
	assert.Condition(t, func() bool {
		return slices.ContainsFunc(got.events, func(e Event) bool { _, ok := e.(TargetComputed); return ok })
	})
	f.settle(20)
}

// Warm-ups switched off in the middle: what is left moves at once.
func TestWarmUpsSwitchedOff(t *testing.T) {
	t.Parallel()
	f, _, _ := oneThenTwo(t, 1)
	f.rounds(2)
	f.groupConfig("streams.assignor.name", "highly_available", "streams.num.warmup.replicas", "0")
	f.settle(5)
	assert.Zero(t, f.warmupsNow())
}

func asInstance(id string) requestOption { return func(r *Request) { r.InstanceID = &id } }

// A static member that comes back under another id finds its plan.
func TestRefinementOfAReplacedMember(t *testing.T) {
	t.Parallel()
	f, a, _ := oneThenTwo(t, 1)
	b := f.members[1]
	f.leave(b)
	f.settle(5)
	f.disks["pB"] = map[topology.TaskID]int64{}
	join := func(id string) *answer {
		r := f.joinRequest(id, process("pB"), asInstance("i"))
		r.TaskOffsets, r.TaskEndOffsets = []kmsg.TaskOffset{}, []kmsg.TaskOffset{}
		return f.send(r)
	}
	join("b").fine()
	f.beat(a)
	g := f.c.groups[groupID]
	require.Contains(t, g.refinement.tasks, "b")
	plan := g.refinement.tasks["b"]
	f.hb("b", -2, asInstance("i"))
	join("b2").fine()
	g = f.c.groups[groupID]
	assert.NotContains(t, g.refinement.tasks, "b")
	assert.True(t, plan.equal(g.refinement.tasks["b2"]))
	assert.Len(t, a.holds.active, fleetTasks)
}

// Random lives: whatever happens, the budget holds, nothing that runs is handed
// to somebody who is not ready, and in the end the group is at rest.
func TestWarmUpsWhateverHappens(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		warmups := rapid.IntRange(1, 3).Draw(t, "W")
		f := newFleet(t, warmups, "streams.num.standby.replicas", strconv.Itoa(rapid.IntRange(0, 1).Draw(t, "R")))
		n, shared := 0, rapid.Bool().Draw(t, "members share processes")
		add := func() {
			n++
			process := n
			if shared {
				process = rapid.IntRange(0, 4).Draw(t, "process")
			}
			f.add(fmt.Sprintf("m%02d", n), fmt.Sprintf("p%d", process))
		}
		add()
		f.settle(10)
		f.round()
		f.produce(1_000_000)
		f.outages = nil
		crashed := false
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
			case what == 0 && len(f.members) < 6:
				add()
			case what == 1 && len(f.members) > 1:
				f.leave(f.members[rapid.IntRange(0, len(f.members)-1).Draw(t, "who leaves")])
				crashed = true
			case what == 2 && len(f.members) > 1:
				f.crash(f.members[rapid.IntRange(0, len(f.members)-1).Draw(t, "who crashes")])
				crashed = true
			case what == 3:
				f.failover()
			default:
				f.round()
			}
		}
		if !crashed && !shared {
			// As long as nobody goes, nothing is lost by any move. (Within a process
			// tasks move at once, and one that is on its way then has no copy that
			// the coordinator knows of.)
			require.Empty(t, f.outages)
		}
		for range 60 { // past the session time-out of who has crashed
			f.round()
		}
		f.settle(40)
		require.Zero(t, f.warmupsNow())
		f.restsFor(4)
		require.Len(t, f.running, fleetTasks)
	})
}

// A heartbeat that changes nothing costs nothing, also while tasks are on the
// move.
func TestHeartbeatWithWarmUpsDoesNotAllocate(t *testing.T) {
	f, a, b := oneThenTwo(t, 1)
	check := func() {
		t.Helper()
		for _, m := range []*fleetMember{a, b} {
			r := f.request(m.id, m.epoch)
			resp := kmsg.NewStreamsGroupHeartbeatResponse()
			require.Zero(t, testing.AllocsPerRun(100, func() {
				f.c.Handle(f.now, f.image, r, &resp, &f.fx)
				f.c.Apply(f.now, &f.fx)
			}))
		}
	}
	f.rate = 0
	f.rounds(5)
	require.Positive(t, f.warmupsNow())
	check()
	f.rate = 300_000
	f.settle(40)
	f.restsFor(3)
	check()
}

// endsOf are log ends by "topic-partition".
type endsOf map[string]int64

func (e endsOf) LogEnd(topic string, partition int32) (int64, bool) {
	n, ok := e[fmt.Sprintf("%s-%d", topic, partition)]
	return n, ok
}

// rule 12.3: how far behind a copy is depends on all changelogs of the task.
func TestLogEndOfATask(t *testing.T) {
	t.Parallel()
	w := newWorld(t, KIP1071)
	w.topic("c1", 6)
	w.topic("c2", 6)
	w.topo = topo(0, sub("s1", reads("foo"), changelog("c1"), changelog("c2")), sub("s2", reads("bar")))
	w.target("m1", allNine)
	w.join("m1").ok(2)
	ends := endsOf{"c1-0": 10, "c2-0": 5, "c1-1": 10, "c2-2": 5}
	h := heartbeat{c: &w.c.coordinatorState, configured: w.c.groups[groupID].configured()}
	_, ok := h.logEnd(taskOf("s1:0"))
	assert.False(t, ok, "nobody to ask")
	w.c.logEnds = ends
	end, ok := h.logEnd(taskOf("s1:0"))
	assert.True(t, ok)
	assert.EqualValues(t, 15, end)
	for _, task := range []string{"s1:1", "s1:2", "s1:3", "s9:0"} {
		_, ok = h.logEnd(taskOf(task))
		assert.False(t, ok, task)
	}
}
