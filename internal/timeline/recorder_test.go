package timeline

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// film plays events one millisecond after another.
type film struct {
	*Recorder
	t  *testing.T
	at time.Duration
}

func newFilm(t *testing.T) *film {
	f := &film{Recorder: new(Recorder), t: t}
	for _, name := range []string{"A", "B"} {
		f.Name("id-"+name, name)
		f.Name("process-"+name, name)
	}
	return f
}

func (f *film) tasks(ids ...string) []topology.TaskID {
	out := make([]topology.TaskID, len(ids))
	for i, id := range ids {
		var err error
		out[i], err = topology.ParseTaskID(id)
		assert.NoError(f.t, err)
	}
	return out
}

func (f *film) coordinator(events ...coordinator.Event) {
	for _, e := range events {
		f.at += time.Millisecond
		f.Coordinator(f.at, e)
	}
}

func (f *film) member(name string, events ...membership.Event) {
	for _, e := range events {
		f.at += time.Millisecond
		f.Member(f.at, name, e)
	}
}

func (f *film) join(name string, epoch int32) {
	f.coordinator(coordinator.MemberJoined{Member: "id-" + name, ProcessID: "process-" + name, TopologyEpoch: epoch})
}

func (f *film) grant(name string, role coordinator.Role, ids ...string) {
	f.coordinator(coordinator.TasksGranted{Member: "id-" + name, Role: role, Epoch: 3, Tasks: f.tasks(ids...)})
}

func (f *film) done(kind membership.CallbackKind, ids ...string) membership.Event {
	return membership.CallbackFinished{Kind: kind, Tasks: f.tasks(ids...)}
}

// shows compares the lanes, in milliseconds.
func (f *film) shows(want string) {
	f.t.Helper()
	var b strings.Builder
	for _, l := range f.Picture().Lanes {
		fmt.Fprintf(&b, "%s (%s)\n", l.Name, l.Process)
		for _, s := range l.Spans {
			fmt.Fprintf(&b, "  %d-%d %s@%d %s %s: %s\n", s.From.Milliseconds(), s.To.Milliseconds(), s.Task, s.TopologyEpoch, s.Role, s.State, s.Why)
		}
		for _, m := range l.Marks {
			fmt.Fprintf(&b, "  %d %s\n", m.At.Milliseconds(), m.Label)
		}
	}
	assert.Equal(f.t, strings.TrimLeft(want, "\n"), b.String())
}

func TestTaskMovesFromMemberToMember(t *testing.T) {
	t.Parallel()
	f := newFilm(t)
	f.member("A", membership.StateChanged{To: membership.Joining})
	f.join("A", 0)
	f.grant("A", coordinator.Active, "0_0", "0_1")
	f.member("A", f.done(membership.TasksAssigned, "0_0", "0_1"))
	f.join("B", 0) // it tells nothing itself
	waits := coordinator.TasksWaiting{Member: "id-B", Tasks: f.tasks("0_1"), Holders: []string{"process-A"}}
	f.coordinator(waits, coordinator.EpochReached{Member: "id-B", Epoch: 4})
	f.coordinator(coordinator.RevocationAsked{Member: "id-A", Tasks: f.tasks("0_1"), Within: time.Minute})
	f.member("A", f.done(membership.TasksRevoked, "0_1"))
	f.coordinator(coordinator.RevocationAcknowledged{Member: "id-A", Tasks: f.tasks("0_1")})
	f.grant("B", coordinator.Active, "0_1")
	f.coordinator(coordinator.EpochReached{Member: "id-A", Epoch: 4})
	f.coordinator(coordinator.MemberLeft{Member: "id-B", Held: f.tasks("0_1")})
	f.shows(`
A (A)
  3-4 0_0@0 active starts: given at epoch 3
  3-4 0_1@0 active starts: given at epoch 3
  4-8 0_1@0 active runs: given at epoch 3
  4-13 0_0@0 active runs: given at epoch 3
  8-9 0_1@0 active being revoked: to be given up within 1m0s
  9-10 0_1@0 active being revoked: given up; the coordinator is to hear of it
  2 joins @0
B (B)
  6-11 0_1@0 active waits: until A gives it up
  11-13 0_1@0 active runs: given at epoch 3
  5 joins @0
  13 leaves
`)
}

func TestWaitThatAnotherTargetEnds(t *testing.T) {
	t.Parallel()
	f := newFilm(t)
	f.join("B", 0)
	waits := func(ids ...string) coordinator.Event {
		return coordinator.TasksWaiting{Member: "id-B", Tasks: f.tasks(ids...), Holders: []string{"process-A"}}
	}
	f.coordinator(waits("0_0", "0_1"), coordinator.EpochReached{Member: "id-B", Epoch: 3})
	f.coordinator(waits("0_1"), coordinator.EpochReached{Member: "id-B", Epoch: 4})
	f.coordinator(coordinator.TasksWaiting{Member: "id-B", Role: coordinator.Warmup, Tasks: f.tasks("0_2")}, coordinator.EpochReached{Member: "id-B", Epoch: 5})
	f.coordinator(coordinator.RevocationAsked{Member: "id-B", Role: coordinator.Standby})
	f.shows(`
B (B)
  2-5 0_0@0 active waits: until A gives it up
  2-7 0_1@0 active waits: until A gives it up
  6-8 0_2@0 warm-up waits: until other warm-ups are done
  1 joins @0
`)
}

func TestTasksOfNobody(t *testing.T) {
	t.Parallel()
	f := newFilm(t)
	f.coordinator(
		coordinator.TopologySet{Epoch: 0},
		coordinator.TargetComputed{Epoch: 2},
		coordinator.TopologySet{Epoch: 1, OldEpoch: 0, Replaced: true},
		coordinator.TargetComputed{Epoch: 3, Unassigned: f.tasks("0_0", "1_0"), HeldBack: []coordinator.Conflict{
			{Task: f.tasks("1_0")[0], Holder: "process-A", As: f.tasks("0_0")[0], Topics: []string{"orders"}},
		}},
		coordinator.TargetComputed{Epoch: 4, Unassigned: f.tasks("1_0"), HeldBack: []coordinator.Conflict{
			{Task: f.tasks("1_0")[0], Holder: "process-A", As: f.tasks("0_0")[0]},
		}},
		coordinator.TargetComputed{Epoch: 5},
		coordinator.EpochBumped{Epoch: 6},
	)
	f.shows(`
nobody ()
  4-5 0_0@1 active waits: no member of topology epoch 1 is there to take it
  4-5 1_0@1 active waits: until A gives up 0_0 of topology epoch 0: both work on orders
  5-6 1_0@1 active waits: until A gives up 0_0 of topology epoch 0: both work on topics that are not known
`)
	epochs := f.Picture().Epochs
	assert.Len(t, epochs, 3)
	assert.Equal(t, Mark{At: 3 * ms, Label: "topology epoch 1", Why: "topology epoch 1 replaces 0: 0 subtopologies"}, epochs[1])
	assert.True(t, epochs[2].Minor)
}

func TestRolesReplaceOneAnother(t *testing.T) {
	t.Parallel()
	f := newFilm(t)
	f.join("A", 0)
	f.grant("A", coordinator.Warmup, "0_0")
	f.grant("A", coordinator.Standby, "0_0")
	f.grant("A", coordinator.Active, "0_0")
	// The copy comes while the active task is still being revoked.
	f.coordinator(coordinator.RevocationAsked{Member: "id-A", Tasks: f.tasks("0_0")})
	f.grant("A", coordinator.Standby, "0_0")
	f.coordinator(coordinator.RevocationAcknowledged{Member: "id-A", Tasks: f.tasks("0_0")})
	f.coordinator(coordinator.EpochReached{Member: "id-A", Epoch: 3})
	f.shows(`
A (A)
  2-3 0_0@0 warm-up runs: given at epoch 3
  3-4 0_0@0 standby runs: given at epoch 3
  4-5 0_0@0 active runs: given at epoch 3
  5-7 0_0@0 active being revoked: to be given up within 0s
  6-8 0_0@0 standby runs: given at epoch 3
  1 joins @0
`)
}

func TestMemberGoesAwayAndComesBackNewer(t *testing.T) {
	t.Parallel()
	f := newFilm(t)
	f.Name("id-A2", "A")
	f.join("A", 0)
	f.grant("A", coordinator.Active, "0_0")
	f.coordinator(coordinator.MemberLeft{Member: "id-A", InstanceID: "a", Cause: coordinator.LeftTemporarily})
	f.coordinator(coordinator.MemberReplaced{InstanceID: "a", Old: "id-A", New: "id-A2"})
	f.coordinator(coordinator.MemberUpgraded{Member: "id-A2", FromEpoch: 0, ToEpoch: 1})
	f.coordinator(coordinator.TasksGranted{Member: "id-A2", Epoch: 4, Tasks: f.tasks("1_0")})
	f.coordinator(coordinator.MemberFenced{Member: "id-A2"})
	f.shows(`
A (A)
  2-3 0_0@0 active runs: given at epoch 3
  3-4 0_0@0 active away: kept until the member returns
  4-5 0_0@0 active runs: what it had before
  6-7 1_0@1 active runs: given at epoch 4
  1 joins @0
  3 away
  4 is back
  5 back @1
  7 fenced
`)
}

func TestMemberDies(t *testing.T) {
	t.Parallel()
	f := newFilm(t)
	f.join("A", 0)
	f.grant("A", coordinator.Active, "0_0")
	f.coordinator(coordinator.TasksWaiting{Member: "id-A", Tasks: f.tasks("0_1"), Holders: []string{"process-B"}})
	f.at += ms
	f.Halted(f.at, "A", "the machine is gone")
	f.coordinator(coordinator.MemberLeft{Member: "id-A", Cause: coordinator.SessionExpired, After: time.Second})
	f.shows(`
A (A)
  2-4 0_0@0 active runs: given at epoch 3
  3-4 0_1@0 active waits: until B gives it up
  4-5 0_0@0 active silent: the machine is gone
  1 joins @0
  4 dies
  5 is out
`)
}

func TestMemberTellsItsSide(t *testing.T) {
	t.Parallel()
	f := newFilm(t)
	f.member("A",
		membership.EpochChanged{To: 3}, // nobody else says so yet
		f.done(membership.TasksAssigned, "0_0"),
		membership.StatusChanged{Statuses: []membership.Status{{Code: 0, Detail: "behind"}}},
		membership.StatusChanged{Statuses: []membership.Status{{Code: 0, Detail: "behind"}, {Code: 5, Detail: "soon"}}},
		membership.HeartbeatRejected{Code: 110, Message: "fenced"},
		f.done(membership.TasksLost, "0_0"),
		membership.CallbackFinished{Kind: membership.TasksAssigned, Tasks: f.tasks("0_1"), Err: errors.New("no")},
	)
	f.coordinator(coordinator.GroupCreated{Group: "g"})
	f.member("A", membership.EpochChanged{To: 4})
	f.shows(`
A ()
  2-6 0_0@0 active runs: taken up
  3 STALE_TOPOLOGY
  4 ASSIGNMENT_DELAYED
  5 error 110
  6 tasks lost
`)
	lines := f.Picture().Lines
	assert.Equal(t, []string{"0.001s", "A", "A", "is", "at", "epoch", "3"}, strings.Fields(lines[0]))
	assert.Equal(t, "  0.008s  coordinator  group g is created", lines[len(lines)-1])
}

func TestOneGroupAndTheLinesInOrder(t *testing.T) {
	t.Parallel()
	var told []string
	r := &Recorder{Group: "mine", Tell: func(line string) { told = append(told, line) }}
	r.Coordinator(2*ms, coordinator.GroupCreated{Group: "mine"})
	r.Coordinator(2*ms, coordinator.GroupCreated{Group: "other"})
	r.Say(ms, "me", "late")
	r.Say(3*ms, "me", "")
	r.Claim("it is so", true)
	p := r.Picture()
	assert.Equal(t, []string{"  0.002s  coordinator  group mine is created", "  0.001s  me           late"}, told)
	assert.Equal(t, []string{told[1], told[0]}, p.Lines)
	assert.Equal(t, []Claim{{"it is so", true}}, p.Claims)
	assert.Equal(t, 2*ms, p.Length)
}
