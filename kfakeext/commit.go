package kfakeext

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
)

// Kafka decides about the partitions of a commit one by one before it asks the
// group: those that do not exist have an error of their own and count for
// nothing else, and the group does not look at those with too much metadata.

// maxOffsetMetadata is Kafka's offset.metadata.max.bytes, which counts
// characters.
const maxOffsetMetadata = 4096

// committed is one partition of a commit, with what becomes of it.
type committed struct {
	topic     string // empty for an id that no topic has
	partition int32
	long      bool // too much metadata
	code      int16
}

// longMetadata counts as Java does: what is outside of the basic plane is two.
func longMetadata(metadata *string) bool {
	if metadata == nil || len(*metadata) <= maxOffsetMetadata {
		return false
	}
	n := 0
	for _, r := range *metadata {
		if n++; r > 0xffff {
			n++
		}
	}
	return n > maxOffsetMetadata
}

// judge decides about each partition of a commit to a group of ours. accepted is
// whether the group takes it, and so whether anything is left for kfake, which
// commits the partitions whose code is 0.
func (a *adapter) judge(c coordinator.Commit, byID bool, partitions []committed) (accepted bool) {
	return a.settleCommit(byID, partitions, func() int16 {
		c.Partitions = func(yield func(string, int32) bool) {
			for _, p := range partitions {
				if p.code == 0 && !p.long && !yield(p.topic, p.partition) {
					return
				}
			}
		}
		code, _ := a.checkCommit(c)
		return code
	})
}

// settleCommit asks the group, unless no partition exists.
func (a *adapter) settleCommit(byID bool, partitions []committed, ask func() int16) (accepted bool) {
	exists := false
	for i := range partitions {
		p := &partitions[i]
		switch {
		case p.topic == "" && byID:
			p.code = kerr.UnknownTopicID.Code
		case a.fake.PartitionInfo(p.topic, p.partition) == nil:
			p.code = kerr.UnknownTopicOrPartition.Code
		default:
			exists = true
		}
	}
	if !exists {
		return false
	}
	code := ask()
	left := false
	for i := range partitions {
		p := &partitions[i]
		switch {
		case p.code != 0:
		case code != 0:
			p.code = code
		case p.long:
			p.code = kerr.OffsetMetadataTooLarge.Code
		default:
			left = true
		}
	}
	return left
}

// partitionsOf lists the partitions of a request, whose topics have these names.
func partitionsOf(req *kmsg.OffsetCommitRequest, names []string) (all []committed) {
	for i, t := range req.Topics {
		for _, p := range t.Partitions {
			all = append(all, committed{topic: names[i], partition: p.Partition, long: longMetadata(p.Metadata)})
		}
	}
	return all
}

func txnPartitionsOf(req *kmsg.TxnOffsetCommitRequest, names []string) (all []committed) {
	for i, t := range req.Topics {
		for _, p := range t.Partitions {
			all = append(all, committed{topic: names[i], partition: p.Partition, long: longMetadata(p.Metadata)})
		}
	}
	return all
}

// refuseCommit answers with the codes of the partitions, and leaves those
// without one out.
func refuseCommit(req *kmsg.OffsetCommitRequest, partitions []committed) *kmsg.OffsetCommitResponse {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for range t.Partitions {
			if p := partitions[0]; p.code != 0 {
				rp := kmsg.NewOffsetCommitResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.partition, p.code
				rt.Partitions = append(rt.Partitions, rp)
			}
			partitions = partitions[1:]
		}
		if len(rt.Partitions) > 0 {
			resp.Topics = append(resp.Topics, rt)
		}
	}
	return resp
}

func refuseTxnCommit(req *kmsg.TxnOffsetCommitRequest, partitions []committed) *kmsg.TxnOffsetCommitResponse {
	resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewTxnOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for range t.Partitions {
			if p := partitions[0]; p.code != 0 {
				rp := kmsg.NewTxnOffsetCommitResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.partition, p.code
				rt.Partitions = append(rt.Partitions, rp)
			}
			partitions = partitions[1:]
		}
		if len(rt.Partitions) > 0 {
			resp.Topics = append(resp.Topics, rt)
		}
	}
	return resp
}

// commitRest has kfake commit what is accepted, and adds the rest to its answer.
func commitRest(s sender, req *kmsg.OffsetCommitRequest, partitions []committed) {
	refused := refuseCommit(req, partitions).Topics
	if !s.edit(req, func(resp kmsg.Response) {
		if r, ok := resp.(*kmsg.OffsetCommitResponse); ok {
			r.Topics = append(r.Topics, refused...)
		}
	}) {
		return // the response is kfake's own
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		t.Partitions = slices.DeleteFunc(t.Partitions, func(kmsg.OffsetCommitRequestTopicPartition) bool {
			p := partitions[0]
			partitions = partitions[1:]
			return p.code != 0
		})
	}
	req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.OffsetCommitRequestTopic) bool { return len(t.Partitions) == 0 })
}

func txnCommitRest(s sender, req *kmsg.TxnOffsetCommitRequest, partitions []committed) {
	refused := refuseTxnCommit(req, partitions).Topics
	if !s.edit(req, func(resp kmsg.Response) {
		if r, ok := resp.(*kmsg.TxnOffsetCommitResponse); ok {
			r.Topics = append(r.Topics, refused...)
		}
	}) {
		return
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		t.Partitions = slices.DeleteFunc(t.Partitions, func(kmsg.TxnOffsetCommitRequestTopicPartition) bool {
			p := partitions[0]
			partitions = partitions[1:]
			return p.code != 0
		})
	}
	req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.TxnOffsetCommitRequestTopic) bool { return len(t.Partitions) == 0 })
}
