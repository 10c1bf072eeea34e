package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// CommittedOffset is what a group has committed for a partition.
type CommittedOffset struct {
	// Offset is that of the next record to process.
	Offset int64
	// LeaderEpoch is that of the record before, -1 if it is not known.
	LeaderEpoch int32
	Metadata    string
}

// GroupOffsets are offsets that a group has committed, by topic and partition.
type GroupOffsets map[string]map[int32]CommittedOffset

// Of returns what was committed for a partition. ok is false if nothing was.
func (o GroupOffsets) Of(topic string, partition int32) (c CommittedOffset, ok bool) {
	c, ok = o[topic][partition]
	return c, ok
}

// PartitionErrors say for each partition of a request how it went: nil, or what went
// wrong.
type PartitionErrors map[string]map[int32]error

func (e PartitionErrors) set(topic string, partition int32, err error) {
	if e[topic] == nil {
		e[topic] = map[int32]error{}
	}
	e[topic][partition] = err
}

// complete notes which partitions of a topic the broker has said nothing about.
func (e PartitionErrors) complete(topic string, partitions []int32) {
	for _, p := range partitions {
		if _, ok := e[topic][p]; !ok {
			e.set(topic, p, errPartitionLeftOut)
		}
	}
}

// Err joins the errors, by topic and partition.
func (e PartitionErrors) Err() error {
	var errs []error
	for _, topic := range slices.Sorted(maps.Keys(e)) {
		for _, p := range slices.Sorted(maps.Keys(e[topic])) {
			if err := e[topic][p]; err != nil {
				errs = append(errs, fmt.Errorf("partition %d of %s: %w", p, topic, err))
			}
		}
	}
	return errors.Join(errs...)
}

// FetchOption is an option of [FetchGroupOffsets].
type FetchOption func(*kmsg.OffsetFetchRequest)

// RequireStable waits for transactions that are about to commit offsets, instead of
// returning what was committed before.
func RequireStable() FetchOption { return func(r *kmsg.OffsetFetchRequest) { r.RequireStable = true } }

// FetchGroupOffsets returns all offsets that a group has committed. A group that does
// not exist has none. While the coordinator moves or loads, or a transaction is open
// with [RequireStable], it is asked again, for a minute at most. The error is a
// *[GroupError].
func FetchGroupOffsets(ctx context.Context, cl *kgo.Client, group string, opts ...FetchOption) (GroupOffsets, error) {
	out := GroupOffsets{}
	err := repeat(ctx, func(ctx context.Context) error {
		req := kmsg.NewPtrOffsetFetchRequest()
		for _, o := range opts {
			o(req)
		}
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group, g.MemberEpoch = group, -1
		req.Groups = append(req.Groups, g)
		resp, err := req.RequestWith(ctx, cl)
		switch {
		case err != nil:
			return err
		case len(resp.Groups) != 1:
			return errLeftOut
		}
		if err := kerr.ErrorForCode(resp.Groups[0].ErrorCode); err != nil {
			return err
		}
		clear(out)
		for _, t := range resp.Groups[0].Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return fmt.Errorf("partition %d of %s: %w", p.Partition, t.Topic, err)
				}
				if p.Offset < 0 {
					continue
				}
				c := CommittedOffset{Offset: p.Offset, LeaderEpoch: p.LeaderEpoch}
				if p.Metadata != nil {
					c.Metadata = *p.Metadata
				}
				if out[t.Topic] == nil {
					out[t.Topic] = map[int32]CommittedOffset{}
				}
				out[t.Topic][p.Partition] = c
			}
		}
		return nil
	})
	if err != nil {
		return nil, &GroupError{Group: group, Call: "fetch offsets of", Cause: err}
	}
	return out, nil
}

// AlterGroupOffsets commits offsets for a group that has no members; it need not
// exist. The error is a *[GroupError] if the group as a whole is refused, with
// UNKNOWN_MEMBER_ID if it has members; otherwise the result has an entry for each
// partition.
func AlterGroupOffsets(ctx context.Context, cl *kgo.Client, group string, offsets map[string]map[int32]int64) (PartitionErrors, error) {
	out := PartitionErrors{}
	if len(offsets) == 0 {
		return out, nil
	}
	err := repeat(ctx, func(ctx context.Context) error {
		clear(out)
		broker, err := coordinatorOf(ctx, cl, group)
		if err != nil {
			return err
		}
		topics, err := topicsOf(ctx, cl.Broker(int(broker.NodeID)), slices.Collect(maps.Keys(offsets)))
		if err != nil {
			return err
		}
		req, names := alteration(group, offsets, topics, out)
		if len(req.Topics) == 0 {
			return nil
		}
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				err := kerr.ErrorForCode(p.ErrorCode)
				if ofGroup(err) {
					return err
				}
				out.set(cmp.Or(t.Topic, names[t.TopicID]), p.Partition, err)
			}
		}
		for topic, ps := range offsets {
			out.complete(topic, slices.Collect(maps.Keys(ps)))
		}
		return nil
	})
	if err != nil {
		return nil, &GroupError{Group: group, Call: "alter offsets of", Cause: err}
	}
	return out, nil
}

// alteration is the commit, without topics that do not exist: these get their errors
// at once, because a commit by id cannot name them.
func alteration(group string, offsets map[string]map[int32]int64, topics map[string]kmsg.MetadataResponseTopic, out PartitionErrors) (*kmsg.OffsetCommitRequest, map[[16]byte]string) {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	names := map[[16]byte]string{}
	for _, topic := range slices.Sorted(maps.Keys(offsets)) {
		known, ok := topics[topic]
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID = topic, known.TopicID
		names[rt.TopicID] = topic
		for _, p := range slices.Sorted(maps.Keys(offsets[topic])) {
			if !ok {
				out.set(topic, p, kerr.UnknownTopicOrPartition)
				continue
			}
			rp := kmsg.NewOffsetCommitRequestTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = p, offsets[topic][p], -1, kmsg.StringPtr("")
			rt.Partitions = append(rt.Partitions, rp)
		}
		if len(rt.Partitions) > 0 {
			req.Topics = append(req.Topics, rt)
		}
	}
	return req, names
}

// ofGroup is whether the error of a partition concerns the group.
func ofGroup(err error) bool {
	for _, code := range []*kerr.Error{
		kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.StaleMemberEpoch, kerr.FencedMemberEpoch, kerr.GroupIDNotFound, kerr.InvalidGroupID,
		kerr.GroupAuthorizationFailed, kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.RebalanceInProgress,
	} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// DeleteGroupOffsets deletes committed offsets of a group. The error is a
// *[GroupError] if the group as a whole is refused, with GROUP_ID_NOT_FOUND if there is
// none; otherwise the result has an entry for each partition:
// GROUP_SUBSCRIBED_TO_TOPIC for one that a member may be reading.
func DeleteGroupOffsets(ctx context.Context, cl *kgo.Client, group string, partitions map[string][]int32) (PartitionErrors, error) {
	out := PartitionErrors{}
	if len(partitions) == 0 {
		return out, nil
	}
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = group
	for _, topic := range slices.Sorted(maps.Keys(partitions)) {
		rt := kmsg.NewOffsetDeleteRequestTopic()
		rt.Topic = topic
		for _, p := range partitions[topic] {
			rp := kmsg.NewOffsetDeleteRequestTopicPartition()
			rp.Partition = p
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	err := repeat(ctx, func(ctx context.Context) error {
		clear(out)
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				out.set(t.Topic, p.Partition, kerr.ErrorForCode(p.ErrorCode))
			}
		}
		for topic, ps := range partitions {
			out.complete(topic, ps)
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	if err != nil {
		return nil, &GroupError{Group: group, Call: "delete offsets of", Cause: err}
	}
	return out, nil
}
