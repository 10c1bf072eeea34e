package main

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// endsOf are the ends of a topic by partition.
func endsOf(ctx context.Context, cl *kgo.Client, topic string) (map[int32]int64, error) {
	listed, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	if err := listed.Error(); err != nil {
		return nil, err
	}
	ends := map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
	return ends, nil
}

// readAll calls fn with every record of a topic up to its present end.
func readAll(ctx context.Context, opts []kgo.Opt, topic string, fn func(*kgo.Record)) error {
	cl, err := kgo.NewClient(append(slices.Clone(opts), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	left, err := endsOf(ctx, cl, topic)
	if err != nil {
		return err
	}
	for p, end := range left {
		if end == 0 {
			delete(left, p)
		}
	}
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			fn(r)
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return nil
}

// behind returns how many records of the topics the group has not committed.
func behind(ctx context.Context, adm *kadm.Client, group string, topics ...string) (int64, error) {
	ends, err := adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return 0, err
	}
	if err := ends.Error(); err != nil {
		return 0, err
	}
	committed, err := adm.FetchOffsets(ctx, group)
	if err != nil {
		return 0, err
	}
	var n int64
	ends.Each(func(end kadm.ListedOffset) {
		n += end.Offset
		if at, ok := committed.Lookup(end.Topic, end.Partition); ok && at.At > 0 {
			n -= at.At
		}
	})
	return n, nil
}
