package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	latest   = -1
	earliest = -2
)

// listOffsets asks for the first or the last offset of all partitions of topics. What
// a broker says of others is left out.
func listOffsets(ctx context.Context, cl *kgo.Client, topics map[string]kmsg.MetadataResponseTopic, names []string, at int64) (map[string]map[int32]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	out := map[string]map[int32]int64{}
	for _, name := range names {
		out[name] = map[int32]int64{}
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = name
		for p := range int32(len(topics[name].Partitions)) {
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Partition, rp.Timestamp = p, at
			t.Partitions = append(t.Partitions, rp)
		}
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if out[t.Topic] == nil || p.Partition < 0 || int(p.Partition) >= len(topics[t.Topic].Partitions) {
				continue
			}
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("offset of %s-%d: %w", t.Topic, p.Partition, err)
			}
			out[t.Topic][p.Partition] = p.Offset
		}
	}
	for _, name := range names {
		if got, want := len(out[name]), len(topics[name].Partitions); got < want {
			return nil, fmt.Errorf("the broker has told offsets of %d of the %d partitions of %s", got, want, name)
		}
	}
	return out, nil
}

// committedOf asks for what a group has committed, as one who is no member. Partitions
// without a committed offset are left out.
func committedOf(ctx context.Context, cl *kgo.Client, group string, topics map[string]kmsg.MetadataResponseTopic, names []string) (map[string]map[int32]int64, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberEpoch = group, -1
	byID, out := map[[16]byte]string{}, map[string]map[int32]int64{}
	for _, name := range names {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.TopicID = name, topics[name].TopicID
		byID[t.TopicID], out[name] = name, map[int32]int64{}
		for p := range int32(len(topics[name].Partitions)) {
			t.Partitions = append(t.Partitions, p)
		}
		g.Topics = append(g.Topics, t)
	}
	req.Groups = append(req.Groups, g)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	if len(resp.Groups) != 1 {
		return nil, errors.New("the broker does not answer for the group it was asked for")
	}
	if err := kerr.ErrorForCode(resp.Groups[0].ErrorCode); err != nil {
		return nil, err
	}
	for _, t := range resp.Groups[0].Topics {
		name := t.Topic
		if name == "" {
			name = byID[t.TopicID]
		}
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("committed offset of %s-%d: %w", name, p.Partition, err)
			}
			if p.Offset >= 0 && out[name] != nil {
				out[name][p.Partition] = p.Offset
			}
		}
	}
	return out, nil
}

// peekLimit is up to how many offsets it is looked whether they are records.
const peekLimit = 100

// peek counts the records between two offsets of a partition. Without an error they are
// records; it fails where not all of them are to be seen at once.
//
// Offsets are no records where transactions end: a topic that has been read to its end
// has a marker after its last record, and a committed offset may be in front of that.
func peek(ctx context.Context, cl *kgo.Client, topic kmsg.MetadataResponseTopic, partition int32, from, to int64) (int64, error) {
	leader := int32(-1)
	for _, p := range topic.Partitions {
		if p.Partition == partition {
			leader = p.Leader
		}
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = 100, 1, 1<<20, 1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = *topic.Topic, topic.TopicID
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch = partition, from, 1<<20, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	kresp, err := cl.Broker(int(leader)).Request(ctx, req)
	if err != nil {
		return 0, err
	}
	resp := kresp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return 0, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, errors.New("the broker does not answer for the partition it was asked for")
	}
	found, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Topic: *topic.Topic, Partition: partition, Offset: from, IsolationLevel: kgo.ReadCommitted(),
	}, &resp.Topics[0].Partitions[0], kgo.DefaultDecompressor(), nil)
	switch {
	case found.Err != nil:
		return 0, found.Err
	case next < to:
		return 0, fmt.Errorf("seen up to offset %d of %d", next, to)
	}
	records := int64(0)
	for _, r := range found.Records {
		if r.Offset < to {
			records++
		}
	}
	return records, nil
}
