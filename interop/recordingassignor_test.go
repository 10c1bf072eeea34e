package interop_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/coordinator/assignor"
	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/topology"
)

// recordedAssignor gives out the assignments that Kafka's gave out in a
// recording: it goes through tasks in the order of a Java hash set, and what
// comes later in the recording depends on what it chose. What ours would have done
// is compared as far as it does not depend on that order.
type recordedAssignor struct {
	own assignor.Assignor

	mu      sync.Mutex
	targets []recordedTarget
	next    int
	found   []string
}

type recordedTarget struct {
	epoch  int32
	at     time.Duration
	assign assignor.Assignment
}

func newRecordedAssignor(t *testing.T, lines []traceLine) *recordedAssignor {
	t.Helper()
	a := &recordedAssignor{own: assignor.NewSticky(assignor.StrictKafka())}
	for _, l := range lines {
		if l.Target == 0 {
			continue
		}
		var members []storedTasks
		require.NoError(t, json.Unmarshal(l.Body, &members))
		target := recordedTarget{l.Target, time.Duration(l.MS) * time.Millisecond, make(assignor.Assignment)}
		for _, m := range members {
			target.assign[m.MemberID] = assignor.MemberAssignment{Active: taskSetOf(m.Active), Standby: taskSetOf(m.Standby)}
		}
		a.targets = append(a.targets, target)
	}
	return a
}

// Name implements [assignor.Assignor]: it takes the place of the built-in one.
func (a *recordedAssignor) Name() string { return a.own.Name() }

// Assign implements [assignor.Assignor].
func (a *recordedAssignor) Assign(g *assignor.Group) (assignor.Assignment, error) {
	own, err := a.own.Assign(g)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	ids := make([]string, len(g.Members))
	for i := range g.Members {
		ids[i] = g.Members[i].ID
	}
	slices.Sort(ids)
	for i := a.next; i < len(a.targets); i++ {
		target := a.targets[i]
		if !slices.Equal(slices.Sorted(maps.Keys(target.assign)), ids) || tasksIn(target.assign) != tasksIn(own) {
			continue
		}
		a.next = i + 1
		if theirs, ours := shape(target.assign, g), shape(own, g); theirs != ours {
			a.found = append(a.found, fmt.Sprintf("target of epoch %d: Kafka's assignor %s, ours %s", target.epoch, theirs, ours))
		}
		return target.assign, nil
	}
	a.found = append(a.found, fmt.Sprintf("the recording has no further target for %v and %d tasks", ids, tasksIn(own)))
	return own, nil
}

func (a *recordedAssignor) differences() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.found
}

func tasksIn(a assignor.Assignment) (n int) {
	for _, m := range a {
		n += len(m.Active)
	}
	return n
}

// shape is what does not depend on the order in which tasks are visited: how many
// tasks each process has.
func shape(a assignor.Assignment, g *assignor.Group) string {
	active, standby := make(map[string]int), 0
	for i := range g.Members {
		m := a[g.Members[i].ID]
		active[g.Members[i].ProcessID] += len(m.Active)
		standby += len(m.Standby)
	}
	return fmt.Sprintf("%v active by process, %d standby in all", slices.Sorted(maps.Values(active)), standby)
}

// firstUses are the times just before tasks were assigned: the internal topics
// were there.
func (a *recordedAssignor) firstUses() (at []time.Duration) {
	for _, target := range a.targets {
		if tasksIn(target.assign) > 0 {
			at = append(at, target.at-2*time.Millisecond)
		}
	}
	return at
}

// storedBetween is when the target was stored that a join or a leave led to, if it
// was stored before the answer, and else when the answer came.
func (a *recordedAssignor) storedBetween(t *testing.T, asked traceLine, answered time.Duration) time.Duration {
	t.Helper()
	var req struct {
		MemberID    string
		MemberEpoch int32
	}
	require.NoError(t, json.Unmarshal(asked.Body, &req))
	if req.MemberEpoch > 0 {
		return answered
	}
	before := false
	for _, target := range a.targets {
		_, after := target.assign[req.MemberID]
		if after != before && after == (req.MemberEpoch == 0) && target.at <= answered && target.at >= time.Duration(asked.MS)*time.Millisecond {
			return target.at
		}
		before = after
	}
	return answered
}

func taskSetOf(l []record.TaskIDs) (set assignor.TaskSet) {
	for _, ids := range l {
		for _, p := range ids.Partitions {
			set = append(set, topology.TaskID{Subtopology: ids.Subtopology, Partition: p})
		}
	}
	slices.SortFunc(set, topology.TaskID.Compare)
	return set
}
