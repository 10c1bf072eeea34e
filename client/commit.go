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
	// doubtful is what the group knows instead if it has taken a transaction in doubt.
	// Only where an abort goes back to.
	doubtful int64
}

// MarkProcessed notes that records have been processed: the next Commit covers them.
// Records of tasks that the member has given up or lost are ignored: a commit of
// theirs might undo the successor's.
func (c *Consumer) MarkProcessed(records ...*kgo.Record) {
	for _, r := range records {
		if !c.held[c.taskFor(r)] {
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
// progress. The error wraps [ErrFenced] if that is what happened. A commit that was
// merely overtaken by a new member epoch is repeated with that one.
//
// A request that is under way is not cancelled: if ctx ends first, Commit returns
// its error, the broker may still take the commit, and the next Commit waits for
// that. So a commit never overtakes a newer one.
//
// With [ExactlyOnce], Commit ends the open transaction: it waits until all its records
// are written, makes the marks part of it, and commits both together. A transaction
// without records, and marks without a transaction, are committed as above. The
// transaction is over whatever Commit returns. If the error wraps [ErrAborted], Poll
// returns again what the transaction has processed, and the loop may go on; any other
// error of a transaction with records, but [ErrFenced], is one that would come again.
func (c *Consumer) Commit(ctx context.Context) error {
	if err := c.commits.wait(ctx); err != nil {
		if c.producer != nil && c.producer.end() != nil {
			return c.abort(ctx, err)
		}
		return c.commitFailed(err)
	}
	if c.producer != nil {
		return c.commitTransaction(ctx)
	}
	return c.commitOffsets(ctx)
}

func (c *Consumer) commitOffsets(ctx context.Context) error {
	for {
		parts := c.uncommitted()
		if len(parts) == 0 {
			return nil
		}
		epoch, ok := c.member.Epoch()
		if !ok {
			return fmt.Errorf("%w: it has no member epoch", ErrFenced)
		}
		answered := c.member.nextAnswer()
		codes, err := c.tryCommit(ctx, epoch, parts)
		if err != nil {
			return c.commitFailed(err)
		}
		var failed error
		stale := false
		taken := map[topicPartition]position{}
		for tp, p := range parts {
			err := codes[tp]
			switch {
			case err == nil:
				taken[tp] = p
			case errors.Is(err, kerr.StaleMemberEpoch):
				stale = true
				if failed == nil {
					failed = err
				}
			default:
				failed = err
			}
		}
		c.committedTo(taken)
		if failed == nil {
			return nil
		}
		if !stale || !errors.Is(failed, kerr.StaleMemberEpoch) {
			if errors.Is(failed, kerr.UnknownMemberID) {
				c.member.suspect() // it will learn that it was expelled, and join again
			}
			return c.commitError(epoch, failed)
		}
		// The coordinator has moved on. The next answer to a heartbeat says where to,
		// or that the member is out.
		newer, err := c.overtaken(ctx, epoch, answered)
		if err != nil {
			return c.commitFailed(err)
		}
		if !newer {
			return c.commitError(epoch, failed)
		}
	}
}

// overtaken is whether the member gets a newer epoch with the next answer of the
// coordinator, if it has none already: a commit was refused because of it.
func (c *Consumer) overtaken(ctx context.Context, epoch int32, answered <-chan struct{}) (bool, error) {
	if c.member.newer(epoch) {
		return true, nil
	}
	c.member.ForceHeartbeat()
	select {
	case <-answered:
	case <-c.ended:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return c.member.newer(epoch), nil
}

// newer is whether the member has an epoch above the given one.
func (m *Member) newer(epoch int32) bool {
	now, ok := m.Epoch()
	return ok && now > epoch
}

// uncommitted are the positions that the group does not know yet.
func (c *Consumer) uncommitted() map[topicPartition]position {
	out := map[topicPartition]position{}
	for tp, p := range c.processed {
		if !p.committed {
			out[tp] = p
		}
	}
	return out
}

// commitTimeout bounds one commit request, which may outlive the call of Commit.
const commitTimeout = 30 * time.Second

// tryCommit sends one commit. codes are the errors by partition.
func (c *Consumer) tryCommit(ctx context.Context, epoch int32, parts map[topicPartition]position) (codes map[topicPartition]error, err error) {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = c.member.group, c.member.cfg.memberID, epoch
	if id := c.member.cfg.instanceID; id != "" {
		req.InstanceID = &id
	}
	topics, names := map[string][]kmsg.OffsetCommitRequestTopicPartition{}, map[[16]byte]string{}
	for tp, p := range parts {
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.LeaderEpoch = tp.partition, p.offset, p.epoch
		topics[tp.topic] = append(topics[tp.topic], rp)
	}
	for topic, ps := range topics {
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID, rt.Partitions = topic, c.topics[topic].id, ps
		names[rt.TopicID] = topic
		req.Topics = append(req.Topics, rt)
	}
	resp, err := c.commits.do(ctx, func(ctx context.Context) (*kmsg.OffsetCommitResponse, error) { return req.RequestWith(ctx, c.cl) })
	if err != nil {
		return nil, err
	}
	codes = map[topicPartition]error{}
	for _, t := range resp.Topics {
		topic := t.Topic
		if topic == "" {
			topic = names[t.TopicID]
		}
		for _, p := range t.Partitions {
			codes[topicPartition{topic, p.Partition}] = kerr.ErrorForCode(p.ErrorCode)
		}
	}
	for tp := range parts {
		if _, ok := codes[tp]; !ok {
			codes[tp] = errPartitionLeftOut
		}
	}
	return codes, nil
}

// commits sees to it that one commit is under way at a time. It belongs to the
// goroutine that polls.
type commits struct {
	last chan struct{} // closed when the last request is over; nil before the first
}

func (c *commits) wait(ctx context.Context) error {
	if c.last == nil {
		return nil
	}
	select {
	case <-c.last:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// do runs a request on a context that does not end with ctx.
func (c *commits) do(ctx context.Context, request func(context.Context) (*kmsg.OffsetCommitResponse, error)) (resp *kmsg.OffsetCommitResponse, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	type result struct {
		resp *kmsg.OffsetCommitResponse
		err  error
	}
	results, over := make(chan result, 1), make(chan struct{})
	c.last = over
	go func() {
		defer close(over)
		defer cancel()
		resp, err := request(own)
		results <- result{resp, err}
	}()
	select {
	case r := <-results:
		return r.resp, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *Consumer) commitFailed(err error) error {
	return fmt.Errorf("client: commit for group %q: %w", c.member.group, err)
}

func (c *Consumer) commitError(epoch int32, err error) error {
	switch {
	case errors.Is(err, kerr.StaleMemberEpoch), errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.FencedMemberEpoch), errors.Is(err, kerr.GroupIDNotFound):
		return fmt.Errorf("%w: commit of member %q at epoch %d in group %q: %w", ErrFenced, c.member.cfg.memberID, epoch, c.member.group, err)
	}
	return fmt.Errorf("client: commit of member %q at epoch %d in group %q: %w", c.member.cfg.memberID, epoch, c.member.group, err)
}

// fetchRetry is the pause before something is asked for again that was not to be had.
const fetchRetry = 100 * time.Millisecond

// passing is whether a request may be repeated after an error: the broker said so,
// or the connection broke.
func passing(err error) bool { return kerr.IsRetriable(err) || classify(err) != membership.Other }

// later is whether what an assignment needs may be asked for again: the broker said
// so, the connection broke, a transaction is open, or the epoch has moved on meanwhile.
// A member that was expelled hears of it with its next heartbeat.
func later(err error) bool {
	for _, code := range []error{kerr.UnstableOffsetCommit, kerr.StaleMemberEpoch, kerr.UnknownMemberID, kerr.GroupIDNotFound} {
		if errors.Is(err, code) {
			return true
		}
	}
	return passing(err)
}

// committed asks for committed offsets. Partitions without one are left out.
func (c *Consumer) committed(ctx context.Context, ids map[string]topicInfo, parts []topicPartition) (map[topicPartition]int64, error) {
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
		rt.Topic, rt.TopicID, rt.Partitions = topic, ids[topic].id, ps
		names[rt.TopicID] = topic
		g.Topics = append(g.Topics, rt)
	}
	req.Groups = append(req.Groups, g)
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return nil, fmt.Errorf("client: committed offsets of group %q: %w", c.member.group, err)
	}
	out, answered := map[topicPartition]int64{}, map[topicPartition]bool{}
	for _, rg := range resp.Groups {
		if err := kerr.ErrorForCode(rg.ErrorCode); err != nil {
			if errors.Is(err, kerr.UnknownMemberID) {
				c.member.suspect()
			}
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
				tp := topicPartition{topic, p.Partition}
				if answered[tp] = true; p.Offset >= 0 {
					out[tp] = p.Offset
				}
			}
		}
	}
	for _, tp := range parts {
		if !answered[tp] {
			return nil, fmt.Errorf("client: committed offset of %s-%d in group %q: %w", tp.topic, tp.partition, c.member.group, errPartitionLeftOut)
		}
	}
	return out, nil
}
