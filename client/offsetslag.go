package client

import (
	"context"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// PartitionLag is how far a group is in a partition.
type PartitionLag struct {
	Topic     string
	Partition int32
	// Committed is nil if nothing was committed.
	Committed *CommittedOffset
	// Start and End bound the offsets that the partition has: the first, and the one
	// after the last.
	Start, End int64
	// Lag is how many offsets are left: from the committed one, or from the start.
	Lag int64
}

func lagOf(topic string, partition int32, committed GroupOffsets, start, end int64) PartitionLag {
	l := PartitionLag{Topic: topic, Partition: partition, Start: start, End: end, Lag: end - start}
	if c, ok := committed.Of(topic, partition); ok {
		l.Committed, l.Lag = &c, end-c.Offset
	}
	return l
}

// GroupLag says how far a group is in the partitions of the active tasks that its
// members have, repartition topics included, by topic and partition. The error is a
// *[GroupError].
func GroupLag(ctx context.Context, cl *kgo.Client, d *GroupDescription) ([]PartitionLag, error) {
	read := activePartitions(d)
	if len(read) == 0 {
		return nil, nil
	}
	fail := func(err error) ([]PartitionLag, error) {
		return nil, &GroupError{Group: d.Group, Call: "find the lag of", Cause: err}
	}
	committed, err := FetchGroupOffsets(ctx, cl, d.Group)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(read))
	topics, err := topicsOf(ctx, cl.Broker(int(d.Coordinator.NodeID)), slices.Clone(names))
	if err != nil {
		return fail(err)
	}
	names = slices.DeleteFunc(names, func(t string) bool { return len(topics[t].Partitions) == 0 })
	starts, err := listOffsets(ctx, cl, topics, names, earliest)
	if err != nil {
		return fail(err)
	}
	ends, err := listOffsets(ctx, cl, topics, names, latest)
	if err != nil {
		return fail(err)
	}
	var out []PartitionLag
	for _, topic := range names {
		for _, p := range slices.Sorted(maps.Keys(read[topic])) {
			if end, ok := ends[topic][p]; ok {
				out = append(out, lagOf(topic, p, committed, starts[topic][p], end))
			}
		}
	}
	return out, nil
}

// activePartitions are those that the active tasks of the members read.
func activePartitions(d *GroupDescription) map[string]map[int32]bool {
	sources := map[string][]string{}
	for _, s := range d.Subtopologies() {
		topics := slices.Clone(s.SourceTopics)
		for _, t := range s.RepartitionSourceTopics {
			topics = append(topics, t.Topic)
		}
		sources[s.SubtopologyID] = topics
	}
	out := map[string]map[int32]bool{}
	for i := range d.Members {
		for _, a := range d.Members[i].Assignment.ActiveTasks {
			for _, topic := range sources[a.SubtopologyID] {
				if out[topic] == nil {
					out[topic] = map[int32]bool{}
				}
				for _, p := range a.Partitions {
					out[topic][p] = true
				}
			}
		}
	}
	return out
}
