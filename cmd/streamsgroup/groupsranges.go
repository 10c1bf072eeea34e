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
	at, timed := r.target.Time()
	if timed {
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
			known := client.PartitionRange{Committed: -1, AtTime: -1}
			if known.Start, _, err = listedOffset(starts, topic, p); err != nil {
				return nil, err
			}
			if known.End, _, err = listedOffset(ends, topic, p); err != nil {
				return nil, err
			}
			if c, ok := committed.Of(topic, p); ok {
				known.Committed = c.Offset
			}
			if timed {
				offset, at, err := listedOffset(later, topic, p)
				if err != nil {
					return nil, err
				}
				if at >= 0 { // else it is the end
					known.AtTime = offset
				}
			}
			out[topic][p] = known
		}
	}
	return out, nil
}

// listedOffset is what a broker has said of one partition. Without an answer nothing is
// to be set: it is not the same as an offset 0, or as no later record.
func listedOffset(offsets kadm.ListedOffsets, topic string, p int32) (offset, timestamp int64, err error) {
	o, ok := offsets.Lookup(topic, p)
	if err = o.Err; err == nil && !ok {
		err = kerr.UnknownTopicOrPartition
	}
	if err != nil {
		return 0, 0, fmt.Errorf("offsets of partition %d of topic %s: %w", p, topic, err)
	}
	return o.Offset, o.Timestamp, nil
}

func hasPartition(t kadm.TopicDetail, p int32) bool {
	_, ok := t.Partitions[p]
	return ok
}
