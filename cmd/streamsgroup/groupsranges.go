package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamsgroup/streamsgroup/client"
)

// ranges finds out what the partitions hold. It fails for one that does not exist or
// has no leader.
func (r *resetter) ranges(ctx context.Context, partitions map[string][]int32, committed client.GroupOffsets) (map[string]map[int32]client.PartitionRange, error) {
	names := make([]string, 0, len(partitions))
	for topic := range partitions {
		names = append(names, topic)
	}
	topics, err := r.topics(ctx, names)
	if err != nil {
		return nil, err
	}
	for topic, ps := range partitions {
		for _, p := range ps {
			switch t := topics[topic]; {
			case t.Err != nil:
				return nil, fmt.Errorf("topic %s: %w", topic, t.Err)
			case !hasPartition(t, p):
				return nil, fmt.Errorf("partition %d of topic %s: %w", p, topic, kerr.UnknownTopicOrPartition)
			case t.Partitions[p].Leader < 0:
				return nil, fmt.Errorf("partition %d of topic %s has no leader: wait until its broker is back: %w", p, topic, kerr.LeaderNotAvailable)
			}
		}
	}
	admin := kadm.NewClient(r.cl)
	list := func(ask func(context.Context, ...string) (kadm.ListedOffsets, error)) (offsets kadm.ListedOffsets, err error) {
		err = r.call(ctx, func(ctx context.Context) error {
			offsets, err = ask(ctx, names...)
			return err
		})
		return offsets, err
	}
	starts, err := list(admin.ListStartOffsets)
	if err != nil {
		return nil, err
	}
	ends, err := list(admin.ListEndOffsets)
	if err != nil {
		return nil, err
	}
	later := kadm.ListedOffsets{}
	if at, ok := r.target.Time(); ok {
		later, err = list(func(ctx context.Context, names ...string) (kadm.ListedOffsets, error) {
			return admin.ListOffsetsAfterMilli(ctx, at.UnixMilli(), names...)
		})
		if err != nil {
			return nil, err
		}
	}
	out := map[string]map[int32]client.PartitionRange{}
	for topic, ps := range partitions {
		out[topic] = map[int32]client.PartitionRange{}
		for _, p := range ps {
			start, _ := starts.Lookup(topic, p)
			end, _ := ends.Lookup(topic, p)
			for _, o := range []kadm.ListedOffset{start, end} {
				if o.Err != nil {
					return nil, fmt.Errorf("offsets of partition %d of topic %s: %w", p, topic, o.Err)
				}
			}
			known := client.PartitionRange{Start: start.Offset, End: end.Offset, Committed: -1, AtTime: -1}
			if c, ok := committed.Of(topic, p); ok {
				known.Committed = c.Offset
			}
			if o, ok := later.Lookup(topic, p); ok && o.Timestamp >= 0 {
				if o.Err != nil {
					return nil, fmt.Errorf("offsets of partition %d of topic %s: %w", p, topic, o.Err)
				}
				known.AtTime = o.Offset
			}
			out[topic][p] = known
		}
	}
	return out, nil
}

func hasPartition(t kadm.TopicDetail, p int32) bool {
	_, ok := t.Partitions[p]
	return ok
}
