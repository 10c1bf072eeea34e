package client

import (
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

type topicInfo struct {
	id         [16]byte
	partitions int32
}

// take begins to run an assignment: a task reads its partition of each source topic
// of its subtopology. While the group is not ready nothing is fetched.
func (c *Consumer) take(cb membership.Callback) {
	clear(c.held)
	for _, t := range cb.Active {
		c.held[t] = true
	}
	c.ready = cb.Ready
	if !c.ready {
		c.removeAll()
		return
	}
	c.opening.want(0)
}

// StartAt says where to start with a partition that is about to be assigned,
// whatever was committed: what comes before counts as processed, and the next
// Commit says so. Call it inside the callback for assigned tasks.
func (c *Consumer) StartAt(topic string, partition int32, offset int64) {
	c.startAt[topicPartition{topic, partition}] = offset
}

// drop stops fetching the partitions of tasks: no later poll returns their records.
func (c *Consumer) drop(tasks []topology.TaskID) {
	remove := map[string][]int32{}
	for _, t := range tasks {
		for _, topic := range c.sources(t.Subtopology) {
			if c.consuming[topic][t.Partition] {
				delete(c.consuming[topic], t.Partition)
				remove[topic] = append(remove[topic], t.Partition)
			}
		}
	}
	if len(remove) > 0 {
		c.cl.RemoveConsumePartitions(remove)
	}
}

func (c *Consumer) removeAll() {
	remove := map[string][]int32{}
	for topic, ps := range c.consuming {
		for p := range ps {
			remove[topic] = append(remove[topic], p)
		}
	}
	clear(c.consuming)
	c.opening.stop()
	if len(remove) > 0 {
		c.cl.RemoveConsumePartitions(remove)
	}
}

// forget drops what was processed of tasks that are gone.
func (c *Consumer) forget(tasks []topology.TaskID) {
	for _, t := range tasks {
		delete(c.held, t)
		for _, topic := range c.sources(t.Subtopology) {
			delete(c.processed, topicPartition{topic, t.Partition})
			delete(c.base, topicPartition{topic, t.Partition})
			delete(c.returned, topicPartition{topic, t.Partition})
			delete(c.startAt, topicPartition{topic, t.Partition})
		}
	}
}
