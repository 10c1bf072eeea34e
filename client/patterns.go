package client

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/topology"
)

// resolve takes note of the topics that source patterns stand for, from the
// goroutine of the member. The goroutine that polls acts on it before the callbacks
// that come afterwards.
func (c *Consumer) resolve(topics map[string][]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resolved = topics
	if c.interrupt != nil {
		c.interrupt()
	}
}

// takeSources takes over what resolve noted: partitions that appear for tasks that
// are held are opened with the next fetch, without a rebalance, and what has
// vanished is taken away.
func (c *Consumer) takeSources() {
	c.mu.Lock()
	topics := c.resolved
	c.resolved = nil
	c.mu.Unlock()
	if topics == nil {
		return
	}
	c.patterns = topics
	before := c.taskOf
	c.mapSources()
	remove := map[string][]int32{}
	for topic := range before {
		if _, ok := c.taskOf[topic]; ok {
			continue
		}
		for p := range c.consuming[topic] {
			remove[topic] = append(remove[topic], p)
		}
		delete(c.consuming, topic)
		for _, positions := range []map[topicPartition]int64{c.returned, c.startAt} {
			maps.DeleteFunc(positions, func(tp topicPartition, _ int64) bool { return tp.topic == topic })
		}
		maps.DeleteFunc(c.processed, func(tp topicPartition, _ position) bool { return tp.topic == topic })
	}
	if len(remove) > 0 {
		c.cl.RemoveConsumePartitions(remove)
	}
	if c.ready {
		c.opening.want(0)
	}
}

// mapSources notes which subtopology reads which topic.
func (c *Consumer) mapSources() {
	c.taskOf = map[string]string{}
	for _, id := range c.topo.Subtopologies() {
		for _, t := range c.sources(id) {
			c.taskOf[t] = id
		}
	}
}

// sources are the topics that tasks of a subtopology read, ascending.
func (c *Consumer) sources(subtopology string) []string {
	named, matched := c.topo.Sources(subtopology), c.patterns[subtopology]
	if len(matched) == 0 {
		return named
	}
	all := slices.Concat(named, matched)
	slices.Sort(all)
	return slices.Compact(all)
}

// taskFor is the task that reads a partition.
func (c *Consumer) taskFor(r *kgo.Record) topology.TaskID {
	return topology.TaskID{Subtopology: c.taskOf[r.Topic], Partition: r.Partition}
}
