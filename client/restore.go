package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/topology"
)

// restoreIdle is how long a restore waits for records before it looks whether what
// it waits for is still there.
const restoreIdle = time.Second

// RestoreChangelog reads the task's partition of each changelog of its subtopology,
// from the start to the end as it is now, and calls fn for every record of a
// committed or no transaction; transactions that are open there are waited for. Use it
// inside the callback for assigned tasks: the former owner has given the task up by
// then, so the end stands still. Records that are deleted meanwhile are not waited for.
// It uses a client of its own, ends early with fn's error or ctx's, and counts as
// polling: however long it takes, the poll guard sees that the application is alive,
// unless fn blocks.
func (c *Consumer) RestoreChangelog(ctx context.Context, task topology.TaskID, fn func(*kgo.Record) error) error {
	topics := c.topo.Changelogs(task.Subtopology)
	if len(topics) == 0 {
		return nil
	}
	if err := c.decided(ctx, task); err != nil {
		return fmt.Errorf("client: restore of task %s: %w", task, err)
	}
	left, err := c.ends(ctx, topics, task.Partition)
	if err != nil {
		return err
	}
	if len(left) == 0 {
		return nil
	}
	from := map[string]map[int32]kgo.Offset{}
	for topic, r := range left {
		from[topic] = map[int32]kgo.Offset{task.Partition: kgo.NewOffset().At(r.start)}
	}
	// Transaction markers take offsets: without them the end might never be seen.
	opts := slices.Concat(c.opts, fetchOpts(), []kgo.Opt{
		kgo.ConsumePartitions(from), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.KeepControlRecords(), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	})
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("client: restore of task %s: %w", task, err)
	}
	defer cl.Close()
	for len(left) > 0 {
		c.member.Polled()
		arrived, err := restoreSome(ctx, cl, min(restoreIdle, c.guardPause()), left, fn)
		if err != nil {
			return fmt.Errorf("client: restore of task %s: %w", task, err)
		}
		if !arrived {
			if err := c.forgetDeleted(ctx, left, task.Partition); err != nil {
				return fmt.Errorf("client: restore of task %s: %w", task, err)
			}
		}
	}
	c.member.Polled()
	return nil
}

// restoreSome hands over what one poll brings, crosses off what is complete, and
// returns whether there was anything.
func restoreSome(ctx context.Context, cl *kgo.Client, wait time.Duration, left map[string]offsetRange, fn func(*kgo.Record) error) (arrived bool, err error) {
	short, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	fetches := cl.PollFetches(short)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if fetches.IsClientClosed() {
		return false, kgo.ErrClientClosed
	}
	for it := fetches.RecordIter(); !it.Done(); {
		arrived = true
		r := it.Next()
		if !r.Attrs.IsControl() && r.Offset < left[r.Topic].end {
			if err := fn(r); err != nil {
				return true, err
			}
		}
		if want, ok := left[r.Topic]; ok && r.Offset+1 >= want.end {
			delete(left, r.Topic)
		}
	}
	pause := false
	fetches.EachError(func(topic string, partition int32, ferr error) {
		pause = true
		if errors.Is(ferr, context.DeadlineExceeded) || kerr.IsRetriable(ferr) || passing(ferr) {
			return // kgo goes on trying
		}
		err = fmt.Errorf("%s-%d: %w", topic, partition, ferr)
	})
	if pause && err == nil {
		select {
		case <-short.Done():
		case <-time.After(fetchRetry):
		}
	}
	return arrived, err
}

// forgetDeleted crosses off changelogs of which nothing is left before the end that
// is wanted: retention, or somebody, has deleted it.
func (c *Consumer) forgetDeleted(ctx context.Context, left map[string]offsetRange, partition int32) error {
	for topic, r := range left {
		start, err := c.listOffset(ctx, topic, partition, -2)
		switch {
		case err == nil && start >= r.end:
			delete(left, topic)
		case err != nil && (ctx.Err() != nil || !passing(err)):
			return err
		}
	}
	return nil
}

type offsetRange struct{ start, end int64 }

// ends are the ranges of the changelog partitions that hold something.
func (c *Consumer) ends(ctx context.Context, topics []string, partition int32) (map[string]offsetRange, error) {
	out := map[string]offsetRange{}
	for _, topic := range topics {
		start, err := c.patientOffset(ctx, topic, partition, -2)
		if err != nil {
			return nil, err
		}
		end, err := c.patientOffset(ctx, topic, partition, -1)
		if err != nil {
			return nil, err
		}
		if start < end {
			out[topic] = offsetRange{start, end}
		}
	}
	return out, nil
}

// topicPatience is for how long a topic is waited for that no broker leads: one that
// was just created, or whose leader moves.
const topicPatience = 30 * time.Second

// patientOffset asks for an offset until there is one.
func (c *Consumer) patientOffset(ctx context.Context, topic string, partition int32, at int64) (offset int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, topicPatience)
	defer cancel()
	err = repeat(ctx, func(ctx context.Context) (err error) {
		c.member.Polled()
		offset, err = c.listOffset(ctx, topic, partition, at)
		return err
	})
	return offset, err
}

// listOffset asks for the first offset (-2) or the end (-1), records of open
// transactions included: what the former owner has committed may not show yet. Its
// offsets are stable as soon as the marker is written there, and the marker of the
// changelog may come later (KAFKA-10167).
func (c *Consumer) listOffset(ctx context.Context, topic string, partition int32, at int64) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp = partition, at
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return 0, fmt.Errorf("client: offsets of %s-%d: %w", topic, partition, err)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("client: offsets of %s-%d: the broker's answer is for something else", topic, partition)
	}
	p := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return 0, fmt.Errorf("client: offsets of %s-%d: %w", topic, partition, err)
	}
	return p.Offset, nil
}
