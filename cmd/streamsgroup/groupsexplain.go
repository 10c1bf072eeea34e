package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/topology"
)

const aboutExplain = `Says for each task of a group, or for one, who runs it, who is to run it, and what is waited for if these differ.
  streamsgroup explain -broker localhost:9092 -group g
  streamsgroup explain -broker localhost:9092 -group g -task 0_1
It goes by what the coordinator tells everybody, and works with Apache Kafka as well.`

func explainGroups(ctx context.Context, args []string, out console) error {
	f := newGroupFlags("explain")
	f.fs.Var(&f.groups, "group", "the `id` of a streams group; required")
	var id string
	f.fs.StringVar(&id, "task", "", "one task only, by its `id`: subtopology_partition")
	if err := f.parse(args, out.stderr, aboutExplain); err != nil {
		return err
	}
	if len(f.groups) != 1 {
		return usageError{errors.New("name one group with -group")}
	}
	var task topology.TaskID
	if id != "" {
		var err error
		if task, err = topology.ParseTaskID(id); err != nil {
			return usageError{fmt.Errorf("-task %q: %w", id, err)}
		}
	}
	c, err := f.connect(out)
	if err != nil {
		return err
	}
	defer c.cl.Close()
	g, err := c.describe(ctx, f.groups[0])
	if err != nil {
		return err
	}
	sortMembers(g)
	partitions, err := c.partitions(ctx, g)
	if err != nil {
		return err
	}
	c.printf("group %s is %s: group epoch %d, assignment epoch %d, topology epoch %d\n", g.Group, g.GroupState(), g.Epoch, g.AssignmentEpoch, g.TopologyEpoch())
	for i := range g.Members {
		c.printf("member %s\n", memberText(g, i))
	}
	tasks := client.ExplainTasks(g, partitions)
	if id != "" {
		tasks = []client.TaskExplanation{client.ExplainTask(g, partitions, task)}
	}
	for _, e := range tasks {
		c.printf("task %s\n", e)
	}
	return nil
}

// memberText is what tells a member from others, and how far it is.
func memberText(g *client.GroupDescription, i int) string {
	m := &g.Members[i]
	s := fmt.Sprintf("%s (process %s, client %s", m.MemberID, m.ProcessID, m.ClientID)
	if m.InstanceID != nil {
		s += ", instance " + *m.InstanceID
	}
	s += fmt.Sprintf(") is at epoch %d", m.MemberEpoch)
	if m.TopologyEpoch != g.TopologyEpoch() {
		s += fmt.Sprintf(", with topology epoch %d", m.TopologyEpoch)
	}
	return s
}

// partitions are the numbers of partitions of what the group reads.
func (c *cluster) partitions(ctx context.Context, g *client.GroupDescription) (map[string]int32, error) {
	var names []string
	for _, s := range g.Subtopologies() {
		names = append(names, s.SourceTopics...)
		for _, t := range s.RepartitionSourceTopics {
			names = append(names, t.Topic)
		}
	}
	out := map[string]int32{}
	if len(names) == 0 {
		return out, nil
	}
	err := c.call(ctx, func(ctx context.Context) error {
		topics, err := kadm.NewClient(c.cl).ListTopics(ctx, names...)
		for _, t := range topics {
			if t.Err == nil {
				out[t.Topic] = int32(len(t.Partitions))
			}
		}
		return err
	})
	return out, err
}
