package client_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/topology"
)

// person is a member of a described group. Tasks are written "0_1 0_2".
type person struct {
	id, process             string
	epoch, topology         int32
	active, target          string
	standby, warmup, future string // future are warm-up tasks in the target
	at, end                 int64  // reported for all copies, if end is not zero
}

func taskIDs(s string) (out []kmsg.TaskIDs) {
	for _, f := range strings.Fields(s) {
		id, err := topology.ParseTaskID(f)
		if err != nil {
			panic(err)
		}
		t := kmsg.NewTaskIDs()
		t.SubtopologyID, t.Partitions = id.Subtopology, []int32{id.Partition}
		out = append(out, t)
	}
	return out
}

func (p person) member() kmsg.StreamsGroupDescribeResponseGroupMember {
	m := kmsg.NewStreamsGroupDescribeResponseGroupMember()
	m.MemberID, m.ProcessID, m.MemberEpoch, m.TopologyEpoch = p.id, p.process, p.epoch, p.topology
	if m.ProcessID == "" {
		m.ProcessID = "process of " + p.id
	}
	m.Assignment.ActiveTasks, m.TargetAssignment.ActiveTasks = taskIDs(p.active), taskIDs(p.target)
	m.Assignment.StandbyTasks, m.Assignment.WarmupTasks, m.TargetAssignment.WarmupTasks = taskIDs(p.standby), taskIDs(p.warmup), taskIDs(p.future)
	if p.end > 0 {
		for _, t := range append(taskIDs(p.standby), taskIDs(p.warmup)...) {
			o := kmsg.NewTaskOffset()
			o.SubtopologyID, o.Partition, o.Offset = t.SubtopologyID, t.Partitions[0], p.at
			m.TaskOffsets = append(m.TaskOffsets, o)
			o.Offset = p.end
			m.TaskEndOffsets = append(m.TaskEndOffsets, o)
		}
	}
	return m
}

// explained is a group at epoch 7 whose topology has the tasks 0_0 and 0_1.
func explained(state string, members ...person) *client.GroupDescription {
	d := client.GroupDescription{StreamsGroupDescribeResponseGroup: describedAs("g", func(g *kmsg.StreamsGroupDescribeResponseGroup) {
		s := kmsg.NewStreamsGroupDescribeResponseGroupTopologySubtopology()
		s.SubtopologyID, s.SourceTopics = "0", []string{"in"}
		g.Topology.Subtopologies = append(g.Topology.Subtopologies, s)
		g.State, g.Epoch, g.AssignmentEpoch = state, 7, 7
		for _, p := range members {
			g.Members = append(g.Members, p.member())
		}
	})}
	return &d
}

var twoTasks = map[string]int32{"in": 2}

func TestExplainTask(t *testing.T) {
	t.Parallel()
	task := topology.TaskID{Subtopology: "0", Partition: 1}
	for name, c := range map[string]struct {
		d     *client.GroupDescription
		cause client.TaskCause
		waits string
		says  string
	}{
		"runs": {
			explained("Stable", person{id: "a", epoch: 7, active: "0_1", target: "0_1"}, person{id: "b", epoch: 7, standby: "0_1", at: 5, end: 9}),
			client.TaskRuns, "", "0_1 runs at a; b has a copy (standby, lacks 4 records)",
		},
		"runs by an older topology": {
			func() *client.GroupDescription {
				d := explained("Stable", person{id: "a", epoch: 7, topology: 3, active: "0_1", target: "0_1"})
				d.Topology.Epoch = 4
				return d
			}(),
			client.TaskRuns, "", "0_1 runs at a, by topology epoch 3, and the group's is 4: in the newer one the task may have another id",
		},
		"empty": {explained("Empty"), client.NoMembers, "", "0_1 does not run: the group has no members"},
		"holder is behind": {
			explained("Reconciling", person{id: "a", epoch: 6, active: "0_1"}, person{id: "b", epoch: 7, target: "0_1"}),
			client.HolderBehind, "a",
			"0_1 runs at a, which is at epoch 6 and has not acknowledged epoch 7, with which it gives the task up; then it goes to b",
		},
		"holder is behind, and nobody follows": {
			explained("Reconciling", person{id: "a", epoch: 6, active: "0_1"}),
			client.HolderBehind, "a",
			"0_1 runs at a, which is at epoch 6 and has not acknowledged epoch 7, with which it gives the task up; then nobody is to have it",
		},
		"holder has the assignment": {
			explained("Reconciling", person{id: "a", epoch: 7, active: "0_1"}, person{id: "b", epoch: 7, target: "0_1"}),
			client.HolderKeeps, "a", "0_1 runs at a, which hears with its next heartbeat that it is to give it up; then it goes to b",
		},
		"others may be giving it up": {
			explained("Reconciling", person{id: "c", epoch: 6}, person{id: "a", epoch: 5}, person{id: "b", epoch: 6, target: "0_1"}),
			client.OthersBehind, "a c", "0_1 is with nobody: it may still be given up by a, c, not at epoch 7 yet; then it goes to b",
		},
		"owner is behind": {
			explained("Reconciling", person{id: "a", epoch: 7}, person{id: "b", epoch: 6, target: "0_1"}),
			client.OwnerBehind, "b", "0_1 is free, and goes to b, which is at epoch 6 and may have others to give up before it acknowledges epoch 7",
		},
		"owner was not told": {
			explained("Reconciling", person{id: "a", epoch: 7}, person{id: "b", epoch: 7, target: "0_1"}),
			client.OwnerUntold, "b", "0_1 is free, and goes to b with its next heartbeat",
		},
		"sibling has a copy": {
			explained("Reconciling", person{id: "a", process: "p", epoch: 7, standby: "0_1"}, person{id: "b", process: "p", epoch: 7, target: "0_1"}),
			client.SiblingHolds, "a", "0_1 waits for a, of the same process as b, to give up its copy; a has a copy (standby)",
		},
		"owner is outdated": {
			func() *client.GroupDescription {
				d := explained("Stable", person{id: "a", epoch: 7, target: "0_1", topology: 3})
				d.Topology.Epoch = 4
				return d
			}(),
			client.OwnerOutdated, "a", "0_1 is to go to a, which gets nothing before it runs the group's topology: it has topology epoch 3, and the group's is 4",
		},
		"everybody is outdated": {
			func() *client.GroupDescription {
				d := explained("Stable", person{id: "a", epoch: 7, topology: 3}, person{id: "b", epoch: 7})
				d.Topology.Epoch = 4
				return d
			}(),
			client.NobodyUpToDate, "", "0_1 waits for a member with the group's topology, epoch 4: those with an older one gain nothing",
		},
		"warms up": {
			explained("Stable", person{id: "a", epoch: 7, active: "0_1"}, person{id: "b", epoch: 7, target: "0_1", warmup: "0_1", at: 10, end: 10000}),
			client.TaskWarmsUp, "b", "0_1 runs at a and moves to b when that has caught up; b has a copy (warm-up, lacks 9990 records)",
		},
		"absent static member has it": {
			explained("Stable", person{id: "a", epoch: -2, active: "0_1", target: "0_1"}),
			client.MemberAbsent, "a", "0_1 is kept for a, a static member that is absent",
		},
		"absent static member is to have it": {
			explained("Stable", person{id: "a", epoch: -2, target: "0_1"}, person{id: "b", epoch: 6}),
			client.MemberAbsent, "a", "0_1 is kept for a, a static member that is absent",
		},
		"not ready": {
			explained("NotReady", person{id: "a", epoch: 7}),
			client.TopicsNotRight, "",
			"0_1 does not run: the group is not ready: it has no topology yet, or topics are missing or do not fit: its members are told which, with their heartbeats",
		},
		"assigning": {
			func() *client.GroupDescription {
				d := explained("Assigning", person{id: "a", epoch: 7})
				d.Epoch = 8
				return d
			}(),
			client.AssignmentDue, "",
			"0_1 waits for the next assignment: the group is at epoch 8, the assignment at 7: it is computed with a heartbeat, once delays are over",
		},
		"unassigned": {
			explained("Stable", person{id: "a", epoch: 7}),
			client.TaskUnassigned, "", "0_1 is unassigned: the assignor gave it to nobody",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := client.ExplainTask(c.d, twoTasks, task)
			assert.Equal(t, c.cause, e.Cause)
			assert.Equal(t, c.waits, strings.Join(e.WaitsFor, " "))
			assert.Equal(t, c.says, e.String())
		})
	}
	beyond := client.ExplainTask(explained("Stable", person{id: "a", epoch: 7}), twoTasks, topology.TaskID{Subtopology: "0", Partition: 2})
	assert.Equal(t, "0_2 does not exist: subtopology 0 has 2 tasks", beyond.String())
	beyond = client.ExplainTask(explained("Stable", person{id: "a", epoch: 7}), twoTasks, topology.TaskID{Subtopology: "5"})
	assert.Equal(t, "5_0 does not exist: there is no subtopology 5", beyond.String())
}

// What the wire tells agrees with what the coordinator knows.
func TestExplainTasksOfARebalance(t *testing.T) {
	inBubble(t, func(w *world) {
		release := make(chan struct{})
		a := new(app)
		a.onRevoked = func(ctx context.Context, _ []topology.TaskID) error {
			select {
			case <-release:
			case <-ctx.Done():
			}
			return nil
		}
		first := w.joined(a)
		second := w.start(new(app))
		explain := func(cause client.TaskCause) (found []client.TaskExplanation) {
			d := client.DescribeGroupsWith(w.Context(), w.client, []string{"g"})[0]
			require.NoError(w, d.Err)
			all := client.ExplainTasks(&d, map[string]int32{"in": 4})
			require.Len(w, all, 4)
			for _, e := range all {
				known, ok := w.cl.Explain("g", e.Task)
				require.True(w, ok)
				assert.Equal(w, known.Owner, e.Owner)
				if e.Cause == cause {
					found = append(found, e)
				}
			}
			return found
		}
		pass(2 * interval)
		moving := explain(client.OthersBehind)
		require.Len(w, moving, 2)
		for _, e := range moving {
			known, _ := w.cl.Explain("g", e.Task)
			assert.Equal(w, coordinator.HolderRevokes, known.Cause)
			assert.Equal(w, known.WaitsFor, e.WaitsFor)
			assert.Equal(w, []string{first.m.ID()}, e.WaitsFor)
			assert.Equal(w, second.m.ID(), e.Owner)
		}
		assert.Len(w, explain(client.TaskRuns), 2)
		close(release)
		pass(3 * interval)
		assert.Len(w, explain(client.TaskRuns), 4)
	})
}

func TestExplainTasks(t *testing.T) {
	t.Parallel()
	d := explained("Stable", person{id: "a", epoch: 7, active: "0_0 0_3", target: "0_0 0_3"})
	s := kmsg.NewStreamsGroupDescribeResponseGroupTopologySubtopology()
	info := kmsg.NewTopicInfo()
	info.Topic, info.NumPartitions = "g-again-repartition", 1
	s.SubtopologyID, s.RepartitionSourceTopics = "1", []kmsg.TopicInfo{info}
	d.Topology.Subtopologies = append(d.Topology.Subtopologies, s)
	var got []string
	for _, e := range client.ExplainTasks(d, twoTasks) {
		got = append(got, e.Task.String())
	}
	assert.Equal(t, []string{"0_0", "0_1", "0_3", "1_0"}, got, "those that there are, and those that somebody has")
}
