package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const (
	// implicitVersion of TxnOffsetCommit adds the group to the transaction (KIP-890).
	implicitVersion = 5
	// idVersion of TxnOffsetCommit names topics by id.
	idVersion = 6
)

// commitTransaction ends the open transaction together with what was marked.
func (c *Consumer) commitTransaction(ctx context.Context) error {
	p := c.producer
	t := p.end()
	if t == nil {
		return c.commitOffsets(ctx) // records without output need no transaction
	}
	written, err := p.flush(ctx, t)
	if err != nil {
		return c.abort(ctx, err)
	}
	if written == 0 {
		// kgo would not end a transaction without records, and its offsets would stay
		// pending. They do not need one: the member epoch fences those who are late.
		p.over()
		return c.commitOffsets(ctx)
	}
	parts := c.uncommitted()
	if len(parts) > 0 {
		if err := c.addOffsets(ctx, t, parts); err != nil {
			return c.abort(ctx, err)
		}
	}
	t.tried = true
	if err := t.cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
		// kgo refuses by itself if records are gone with their topic.
		t.tried = !errors.Is(err, kerr.TransactionAbortable) || !errors.Is(err, kerr.UnknownTopicID)
		return c.abort(ctx, err)
	}
	p.over()
	if _, _, err := p.note(ctx, t.cl); err != nil {
		p.reset() // it is the next transaction that fails, and a new client makes up for it
	}
	c.committedTo(parts)
	return nil
}

// committedTo notes what the group knows by now.
func (c *Consumer) committedTo(parts map[topicPartition]position) {
	for tp, at := range parts {
		at.committed = true
		if now, ok := c.processed[tp]; ok && now.offset == at.offset {
			c.processed[tp] = at
		}
		if c.producer != nil {
			c.base[tp] = at
		}
	}
}

// addOffsets makes positions part of a transaction, with the identity of the member: rules
// OC-1, OC-2 and OC-5.
func (c *Consumer) addOffsets(ctx context.Context, t *transaction, parts map[topicPartition]position) error {
	for {
		epoch, ok := c.member.Epoch()
		if !ok {
			return fmt.Errorf("%w: it has no member epoch", ErrFenced)
		}
		answered := c.member.nextAnswer()
		err := c.producer.addOffsets(ctx, t, c.txnOffsetCommit(epoch, parts))
		switch {
		case err == nil:
			return nil
		case errors.Is(err, kerr.StaleMemberEpoch), errors.Is(err, kerr.IllegalGeneration): // the same, before version 6
			if newer, werr := c.overtaken(ctx, epoch, answered); werr != nil {
				return werr
			} else if newer {
				continue
			}
		}
		return c.commitError(epoch, err)
	}
}

func (c *Consumer) txnOffsetCommit(epoch int32, parts map[topicPartition]position) *kmsg.TxnOffsetCommitRequest {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = c.member.group, c.member.cfg.memberID, epoch
	if id := c.member.cfg.instanceID; id != "" {
		req.InstanceID = &id
	}
	topics := map[string][]kmsg.TxnOffsetCommitRequestTopicPartition{}
	for tp, p := range parts {
		rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.LeaderEpoch = tp.partition, p.offset, p.epoch
		topics[tp.topic] = append(topics[tp.topic], rp)
	}
	for topic, ps := range topics {
		rt := kmsg.NewTxnOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID, rt.Partitions = topic, c.topics[topic].id, ps
		req.Topics = append(req.Topics, rt)
	}
	return req
}

// pinned is a request in no newer version than that.
type pinned struct {
	kmsg.Request
	max int16
}

// MaxVersion is the highest version that may be sent.
func (p pinned) MaxVersion() int16 { return p.max }

// addOffsets sends a TxnOffsetCommit to the coordinator of the group until it is taken or
// refused. kgo does that for its own groups only.
func (p *producer) addOffsets(ctx context.Context, t *transaction, req *kmsg.TxnOffsetCommitRequest) error {
	id, epoch, err := p.note(ctx, t.cl)
	if err != nil {
		return err
	}
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = p.id, id, epoch
	version := int16(implicitVersion - 1)
	if t.modern {
		version = idVersion
		for _, rt := range req.Topics {
			if rt.TopicID == ([16]byte{}) {
				version = implicitVersion
			}
		}
	} else if !t.offsets {
		if err := p.addGroup(ctx, t.cl, id, epoch); err != nil {
			return err
		}
		t.offsets = true
	}
	node := int32(-1)
	return insist(ctx, func(ctx context.Context) (err error) {
		if node < 0 {
			if node, err = findCoordinator(ctx, t.cl, p.group); err != nil {
				node = -1
				return err
			}
		}
		kresp, err := t.cl.Broker(int(node)).Request(ctx, pinned{req, version})
		if err != nil {
			node = -1
			return err
		}
		left := 0
		for _, rt := range req.Topics {
			left += len(rt.Partitions)
		}
		for _, rt := range kresp.(*kmsg.TxnOffsetCommitResponse).Topics {
			for _, rp := range rt.Partitions {
				left--
				err := kerr.ErrorForCode(rp.ErrorCode)
				if errors.Is(err, kerr.NotCoordinator) || errors.Is(err, kerr.CoordinatorNotAvailable) || errors.Is(err, kerr.RequestTimedOut) {
					node = -1
				}
				if err != nil {
					return err
				}
			}
		}
		if left > 0 {
			return errPartitionLeftOut
		}
		return nil
	})
}

// addGroup tells the coordinator of the transaction that offsets of the group will be
// part of it, where brokers do not find out by themselves.
func (p *producer) addGroup(ctx context.Context, cl *kgo.Client, id int64, epoch int16) error {
	req := kmsg.NewPtrAddOffsetsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = p.id, id, epoch, p.group
	return insist(ctx, func(ctx context.Context) error {
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
}

// addsImplicitly is whether the cluster is at transaction.version 2, in which a broker
// adds to a transaction what is written in it. kgo finds out in the same way.
func (p *producer) addsImplicitly(ctx context.Context, cl *kgo.Client) (bool, error) {
	if v, _ := cl.OptValue(kgo.MaxVersions).(*kversion.Versions); v != nil {
		for key, need := range map[kmsg.Key]int16{kmsg.Produce: 12, kmsg.EndTxn: 5, kmsg.TxnOffsetCommit: implicitVersion} {
			if limit, ok := v.LookupMaxKeyVersion(int16(key)); !ok || limit < need {
				return false, nil
			}
		}
	}
	modern := false
	err := insist(ctx, func(ctx context.Context) error {
		node, err := findCoordinator(ctx, cl, p.group)
		if err != nil {
			return err
		}
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "streamsgroup", "v0"
		kresp, err := cl.Broker(int(node)).Request(ctx, req)
		if err != nil {
			return err
		}
		for _, f := range kresp.(*kmsg.ApiVersionsResponse).FinalizedFeatures {
			modern = modern || f.Name == "transaction.version" && f.MaxVersionLevel >= 2
		}
		return nil
	})
	return modern, err
}

// insist is repeat for requests of transactions: a broker may still be busy with the end of
// the one before, which is a matter of milliseconds.
func insist(ctx context.Context, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := fn(ctx)
		if err == nil || ctx.Err() != nil || !passing(err) && !errors.Is(err, kerr.ConcurrentTransactions) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}
