package client

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

type topicInfo struct {
	id         [16]byte
	partitions int32
}

// take starts to fetch the partitions of an assignment: a task reads its partition
// of each source topic of its subtopology. While the group is not ready nothing is
// fetched.
func (c *Consumer) take(ctx context.Context, cb membership.Callback) error {
	clear(c.held)
	for _, t := range cb.Active {
		c.held[t] = true
	}
	if !cb.Ready {
		c.removeAll()
		return nil
	}
	return c.open(ctx, cb.Active)
}

// open starts to fetch those partitions of tasks that are not fetched yet.
func (c *Consumer) open(ctx context.Context, tasks []topology.TaskID) error {
	want, err := c.partitionsOf(ctx, tasks)
	if err != nil {
		return err
	}
	var fresh []topicPartition
	for _, tp := range want {
		if !c.consuming[tp.topic][tp.partition] {
			fresh = append(fresh, tp)
		}
	}
	if len(fresh) == 0 {
		c.torn = false
		return nil
	}
	starts, err := c.starts(ctx, fresh)
	if err != nil {
		return err
	}
	add := map[string]map[int32]kgo.Offset{}
	for _, tp := range fresh {
		if add[tp.topic] == nil {
			add[tp.topic] = map[int32]kgo.Offset{}
		}
		add[tp.topic][tp.partition] = starts[tp]
		if c.consuming[tp.topic] == nil {
			c.consuming[tp.topic] = map[int32]bool{}
		}
		c.consuming[tp.topic][tp.partition] = true
	}
	c.cl.AddConsumePartitions(add)
	clear(c.startAt)
	c.torn = false
	return nil
}

// partitionsOf are the partitions that tasks read. A subtopology has as many tasks
// as its largest source topic has partitions: a smaller one has none for the later
// tasks.
func (c *Consumer) partitionsOf(ctx context.Context, tasks []topology.TaskID) ([]topicPartition, error) {
	var topics []string
	for _, t := range tasks {
		topics = append(topics, c.topo.Sources(t.Subtopology)...)
	}
	if err := c.loadTopics(ctx, topics); err != nil {
		return nil, err
	}
	var out []topicPartition
	for _, t := range tasks {
		for _, topic := range c.topo.Sources(t.Subtopology) {
			if t.Partition < c.topics[topic].partitions {
				out = append(out, topicPartition{topic, t.Partition})
			}
		}
	}
	return out, nil
}

// loadTopics asks for ids and partition counts of topics. A topic that was created
// a moment ago may take a while to show.
func (c *Consumer) loadTopics(ctx context.Context, topics []string) error {
	if len(topics) == 0 {
		return nil
	}
	req := kmsg.NewPtrMetadataRequest()
	seen := map[string]bool{}
	for _, t := range topics {
		if !seen[t] {
			seen[t] = true
			rt := kmsg.NewMetadataRequestTopic()
			rt.Topic = kmsg.StringPtr(t)
			req.Topics = append(req.Topics, rt)
		}
	}
	for {
		var failed error
		resp, err := req.RequestWith(ctx, c.cl)
		if err != nil {
			failed = fmt.Errorf("client: topics of the assignment: %w", err)
			if !passing(err) {
				return failed
			}
			resp = &kmsg.MetadataResponse{}
		}
		for _, t := range resp.Topics {
			if t.Topic == nil {
				continue
			}
			if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
				failed = fmt.Errorf("client: topic %s of the assignment: %w", *t.Topic, err)
				if !kerr.IsRetriable(err) {
					return failed
				}
				continue
			}
			if known, ok := c.topics[*t.Topic]; ok && known.id != t.TopicID {
				// The topic was deleted and created again: kgo would go on asking for
				// the old one.
				c.torn = c.torn || len(c.consuming[*t.Topic]) > 0
				delete(c.consuming, *t.Topic)
				c.cl.PurgeTopicsFromConsuming(*t.Topic)
				for p := range known.partitions {
					delete(c.returned, topicPartition{*t.Topic, p})
					delete(c.processed, topicPartition{*t.Topic, p})
				}
			}
			c.topics[*t.Topic] = topicInfo{id: t.TopicID, partitions: int32(len(t.Partitions))}
		}
		if failed == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return failed
		case <-time.After(fetchRetry):
		}
	}
}

// StartAt says where to start with a partition that is about to be assigned,
// whatever was committed: what comes before counts as processed, and the next
// Commit says so. Call it inside the callback for assigned tasks.
func (c *Consumer) StartAt(topic string, partition int32, offset int64) {
	c.startAt[topicPartition{topic, partition}] = offset
}

// starts finds where to start: what StartAt said, else where Poll has got to (the
// group was not ready for a while), else what is committed, else the beginning.
func (c *Consumer) starts(ctx context.Context, parts []topicPartition) (map[topicPartition]kgo.Offset, error) {
	out := map[topicPartition]kgo.Offset{}
	var ask []topicPartition
	for _, tp := range parts {
		if at, ok := c.startAt[tp]; ok {
			out[tp] = kgo.NewOffset().At(at)
			c.processed[tp] = position{offset: at, epoch: -1}
			continue
		}
		if at, ok := c.returned[tp]; ok {
			out[tp] = kgo.NewOffset().At(at)
			continue
		}
		if p, ok := c.processed[tp]; ok {
			out[tp] = kgo.NewOffset().At(p.offset)
			continue
		}
		ask = append(ask, tp)
		out[tp] = kgo.NewOffset().AtStart()
	}
	if len(ask) == 0 {
		return out, nil
	}
	committed, err := c.committed(ctx, ask)
	for tp, at := range committed {
		out[tp] = kgo.NewOffset().At(at)
	}
	return out, err
}

// drop stops fetching the partitions of tasks: no later poll returns their records.
func (c *Consumer) drop(tasks []topology.TaskID) {
	remove := map[string][]int32{}
	for _, t := range tasks {
		for _, topic := range c.topo.Sources(t.Subtopology) {
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
	c.torn = false
	if len(remove) > 0 {
		c.cl.RemoveConsumePartitions(remove)
	}
}

// forget drops what was processed of tasks that are gone.
func (c *Consumer) forget(tasks []topology.TaskID) {
	for _, t := range tasks {
		delete(c.held, t)
		for _, topic := range c.topo.Sources(t.Subtopology) {
			delete(c.processed, topicPartition{topic, t.Partition})
			delete(c.returned, topicPartition{topic, t.Partition})
			delete(c.startAt, topicPartition{topic, t.Partition})
		}
	}
}
