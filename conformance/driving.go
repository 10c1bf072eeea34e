package conformance

import (
	"slices"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AtOnce sets the group's assignment interval to 0: the heartbeat that brings a
// change also assigns. Brokers wait a second by default.
func (c *C) AtOnce() { c.Config("streams.assignment.interval.ms", "0") }

// Seldom sets the group's assignment interval so high that nothing is assigned
// anew while a scenario runs.
func (c *C) Seldom() { c.Config("streams.assignment.interval.ms", "15000") }

// Session sets the group's session time-out. Members have it from their next
// heartbeat on.
func (c *C) Session(d time.Duration) {
	c.Config("streams.session.timeout.ms", strconv.FormatInt(d.Milliseconds(), 10), "streams.heartbeat.interval.ms", "100")
}

// Converge has members take over and give up tasks, one after the other, until
// the group is stable and each has been told so. Meanwhile no active task is with
// two of them.
func (c *C) Converge(members ...*Member) {
	const rounds = 20
	for range rounds {
		quiet := true
		for _, m := range members {
			epoch := m.Epoch
			a := m.Ack().Is("NONE")
			quiet = quiet && a.ActiveTasks == nil && m.Epoch == epoch
			c.NoTaskTwice(members...)
		}
		if quiet && c.Describe().State == "Stable" {
			return
		}
	}
	require.Fail(c, "the group is not stable", "after %d heartbeats of each member", rounds)
}

// BeatUntil heartbeats until the answer has an error code, however long that
// takes on a busy machine, within the patience of a test.
func (m *Member) BeatUntil(code string, every time.Duration, changes ...Change) {
	m.c.await(code+" for "+m.ID, func() bool {
		a := m.Beat(changes...)
		if CodeName(a.ErrorCode) == code {
			return true
		}
		a.Is("NONE")
		m.c.Sleep(every)
		return false
	})
}

// AwaitState waits for the group's state, without a heartbeat of anybody.
func (c *C) AwaitState(state string) *Described {
	var d *Described
	c.await("state "+state, func() bool { d = c.Describe(); return d.State == state })
	return d
}

// Instance sends an instance id, or none if it is empty.
func Instance(id string) Change {
	return func(req *kmsg.StreamsGroupHeartbeatRequest) {
		req.InstanceID = nil
		if id != "" {
			req.InstanceID = &id
		}
	}
}

// NoEndpointEpoch sends an endpoint epoch that no group has, so that the answer
// lists the endpoints.
func NoEndpointEpoch(req *kmsg.StreamsGroupHeartbeatRequest) { req.EndpointInformationEpoch = -1 }

// partitionsOf are the partitions of a task list of the form "s1:0,1" that
// belong to one subtopology.
func partitionsOf(tasks, subtopology string) []int32 {
	m, _ := parseTasks(tasks)
	return m[subtopology]
}

// countTasks is the number of tasks in lists of the form "s1:0,1 s2:0".
func countTasks(lists ...string) int {
	n := 0
	for _, list := range lists {
		if list == absent {
			continue
		}
		tasks, _ := parseTasks(list)
		for _, ps := range tasks {
			n += len(ps)
		}
	}
	return n
}

// without takes tasks out of a list.
func without(list, gone string) string {
	left, _ := parseTasks(list)
	out, _ := parseTasks(gone)
	for sub, ps := range left {
		left[sub] = slices.DeleteFunc(ps, func(p int32) bool { return slices.Contains(out[sub], p) })
	}
	return formatTasks(left)
}
