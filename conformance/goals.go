package conformance

import (
	"slices"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Tasks are the tasks of a member by role.
type Tasks struct{ Active, Standby, Warmup string }

// Goal is what a member is to have, by the target assignment.
func (d *Described) Goal(id string) Tasks {
	t := d.Member(id).TargetAssignment
	return Tasks{present(responseTasks(t.ActiveTasks)), present(responseTasks(t.StandbyTasks)), present(responseTasks(t.WarmupTasks))}
}

// Assigned is what a member has, as the broker sees it.
func (d *Described) Assigned(id string) Tasks {
	t := d.Member(id).Assignment
	return Tasks{present(responseTasks(t.ActiveTasks)), present(responseTasks(t.StandbyTasks)), present(responseTasks(t.WarmupTasks))}
}

// NoTaskTwice requires that no active task is with two members.
func (c *C) NoTaskTwice(members ...*Member) {
	all := none
	for _, m := range members {
		require.Empty(c, common(m.Active, all), "active tasks with two members")
		all = union(all, m.Active)
	}
}

// Even requires that the members together have these active tasks, each task
// once, with at most one more at one member than at another.
func (c *C) Even(tasks string, members ...*Member) {
	c.NoTaskTwice(members...)
	all := none
	var sizes []int
	for _, m := range members {
		all = union(all, m.Active)
		sizes = append(sizes, count(m.Active))
	}
	require.Equal(c, canonical(tasks), all, "active tasks of all members")
	require.LessOrEqual(c, slices.Max(sizes)-slices.Min(sizes), 1, "active tasks per member: %v", sizes)
}

// Expect says that the broker will create topics, so that they are deleted in the
// end.
func (c *C) Expect(words ...string) {
	for _, word := range words {
		c.onEnd(func() {
			if c.partitions(word) > 0 {
				_ = c.deleteTopics(c.Named(word))
			}
		})
	}
}

// Created waits until the broker has created a topic, which must have this
// number of partitions.
func (c *C) Created(word string, partitions int) {
	c.await("the internal topic "+word, func() bool { return c.partitions(word) > 0 })
	c.note("topic %s appeared", word)
	require.Equal(c, partitions, c.partitions(word), "partitions of %s", word)
}

// TopicConfigs are the configs of a topic as the broker describes them.
func (c *C) TopicConfigs(word string) map[string]string {
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, c.Named(word)
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = append(req.Resources, res)
	values := map[string]string{}
	for _, r := range c.Ask(req).(*kmsg.DescribeConfigsResponse).Resources {
		for _, cfg := range r.Configs {
			if cfg.Value != nil {
				values[cfg.Name] = *cfg.Value
			}
		}
	}
	return values
}

// DeleteGroup deletes the scenario's group, which must be empty.
func (c *C) DeleteGroup() {
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{c.group}
	resp := c.AskCoordinator(req).(*kmsg.DeleteGroupsResponse)
	require.Len(c, resp.Groups, 1, "deleted groups")
	c.note("delete group -> %s", CodeName(resp.Groups[0].ErrorCode))
	require.Equal(c, "NONE", CodeName(resp.Groups[0].ErrorCode), "deletion of the group")
}
