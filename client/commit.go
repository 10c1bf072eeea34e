package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// ErrFenced is wrapped by a commit that was refused because the tasks belong to
// somebody else by now, or may: the member was fenced or is out of the group. The
// next Poll runs "tasks lost" and joins again.
var ErrFenced = errors.New("client: the member is fenced")

// position is how far the application has come with a partition.
type position struct {
	offset int64 // the next one to process
	epoch  int32 // leader epoch of the record before
	// committed is whether the group knows of it.
	committed bool
}

// MarkProcessed notes that records have been processed: the next Commit covers them.
// Records of tasks that the member has given up or lost are ignored: a commit of
// theirs might undo the successor's.
func (c *Consumer) MarkProcessed(records ...*kgo.Record) {
	for _, r := range records {
		if !c.held[topology.TaskID{Subtopology: c.taskOf[r.Topic], Partition: r.Partition}] {
			continue
		}
		tp := topicPartition{r.Topic, r.Partition}
		if p, ok := c.processed[tp]; !ok || r.Offset >= p.offset {
			c.processed[tp] = position{offset: r.Offset + 1, epoch: r.LeaderEpoch}
		}
	}
}

// Commit commits what was marked since the last commit, with member id and member
// epoch, so that a member that has lost its tasks cannot overwrite its successor's
// progress. The error wraps [ErrFenced] if that is what happened.
func (c *Consumer) Commit(ctx context.Context) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	byTopic := map[string][]kmsg.OffsetCommitRequestTopicPartition{}
	for tp, p := range c.processed {
		if p.committed {
			continue
		}
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.LeaderEpoch = tp.partition, p.offset, p.epoch
		byTopic[tp.topic] = append(byTopic[tp.topic], rp)
	}
	if len(byTopic) == 0 {
		return nil
	}
	epoch, ok := c.member.Epoch()
	if !ok {
		return fmt.Errorf("%w: it has no member epoch", ErrFenced)
	}
	req.Group, req.MemberID, req.Generation = c.member.group, c.member.cfg.memberID, epoch
	if id := c.member.cfg.instanceID; id != "" {
		req.InstanceID = &id
	}
	for topic, ps := range byTopic {
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID, rt.Partitions = topic, c.topics[topic].id, ps
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return fmt.Errorf("client: commit for group %q: %w", c.member.group, err)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := c.commitError(epoch, kerr.ErrorForCode(p.ErrorCode)); err != nil {
				return err
			}
		}
	}
	for topic, ps := range byTopic {
		for _, p := range ps {
			tp := topicPartition{topic, p.Partition}
			if now := c.processed[tp]; now.offset == p.Offset {
				now.committed = true
				c.processed[tp] = now
			}
		}
	}
	return nil
}

func (c *Consumer) commitError(epoch int32, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.StaleMemberEpoch), errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.FencedMemberEpoch), errors.Is(err, kerr.GroupIDNotFound):
		return fmt.Errorf("%w: commit of member %q at epoch %d in group %q: %w", ErrFenced, c.member.cfg.memberID, epoch, c.member.group, err)
	}
	return fmt.Errorf("client: commit of member %q at epoch %d in group %q: %w", c.member.cfg.memberID, epoch, c.member.group, err)
}

// fetchRetry is the pause before committed offsets are asked for again.
const fetchRetry = 100 * time.Millisecond

// passing is whether a request may be repeated after an error: the broker said so,
// or the connection broke.
func passing(err error) bool { return kerr.IsRetriable(err) || classify(err) != membership.Other }

// committed asks for committed offsets. Partitions without one are left out.
func (c *Consumer) committed(ctx context.Context, parts []topicPartition) (map[topicPartition]int64, error) {
	for {
		out, err := c.tryCommitted(ctx, parts)
		switch {
		case err == nil:
			return out, nil
		case errors.Is(err, kerr.UnstableOffsetCommit), errors.Is(err, kerr.StaleMemberEpoch), passing(err):
			// A transaction is open, or the epoch has moved on meanwhile.
		case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.GroupIDNotFound):
			// The member has been expelled: the next heartbeat will tell it.
		default:
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(fetchRetry):
		}
	}
}

func (c *Consumer) tryCommitted(ctx context.Context, parts []topicPartition) (map[topicPartition]int64, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberEpoch = c.member.group, -1
	if epoch, ok := c.member.Epoch(); ok {
		g.MemberID, g.MemberEpoch = &c.member.cfg.memberID, epoch
	}
	topics, names := map[string][]int32{}, map[[16]byte]string{}
	for _, tp := range parts {
		topics[tp.topic] = append(topics[tp.topic], tp.partition)
	}
	for topic, ps := range topics {
		rt := kmsg.NewOffsetFetchRequestGroupTopic()
		rt.Topic, rt.TopicID, rt.Partitions = topic, c.topics[topic].id, ps
		names[rt.TopicID] = topic
		g.Topics = append(g.Topics, rt)
	}
	req.Groups = append(req.Groups, g)
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return nil, fmt.Errorf("client: committed offsets of group %q: %w", c.member.group, err)
	}
	out := map[topicPartition]int64{}
	for _, rg := range resp.Groups {
		if err := kerr.ErrorForCode(rg.ErrorCode); err != nil {
			return nil, fmt.Errorf("client: committed offsets of group %q: %w", c.member.group, err)
		}
		for _, t := range rg.Topics {
			topic := t.Topic
			if topic == "" {
				topic = names[t.TopicID]
			}
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, fmt.Errorf("client: committed offset of %s-%d in group %q: %w", topic, p.Partition, c.member.group, err)
				}
				if p.Offset >= 0 {
					out[topicPartition{topic, p.Partition}] = p.Offset
				}
			}
		}
	}
	return out, nil
}
