package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/topology"
)

// Partitions are opened, that is fetched from, in two steps. What has to be asked of
// brokers (which partitions there are, what is committed) is looked up in the
// background, so that neither callbacks nor a Poll with little time have to wait for
// it; the goroutine that polls acts on the answers. Tasks count as running meanwhile,
// as in Kafka, whose partitions start without a position too.

// growthCheck is how often a topic is looked at that has too few partitions for a
// task that is held. If it grows, no task and no assignment changes, so nobody else
// will tell.
const growthCheck = 30 * time.Second

// opening is what is left to be opened. It belongs to the goroutine that polls.
type opening struct {
	at       time.Time // when to look up; zero: not at all
	attempts int
	cancel   context.CancelFunc // of the look-up that is running; nil if none is
	results  chan lookUp
}

// want asks for a look-up after some time, or sooner if one is wanted sooner already.
// The one that is running is out of date.
func (o *opening) want(after time.Duration) {
	at := time.Now().Add(after)
	if o.at.IsZero() || at.Before(o.at) {
		o.at = at
	}
	o.abandon()
}

func (o *opening) abandon() {
	if o.cancel != nil {
		o.cancel()
		o.cancel, o.results = nil, nil
	}
}

// stop drops all plans.
func (o *opening) stop() {
	o.abandon()
	o.at, o.attempts = time.Time{}, 0
}

// pause is how long the goroutine that polls may wait for records.
func (o *opening) pause() time.Duration {
	if o.at.IsZero() {
		return time.Hour
	}
	return max(time.Until(o.at), time.Millisecond)
}

// lookUp is what brokers say about the partitions of tasks.
type lookUp struct {
	topics    map[string]topicInfo
	committed map[topicPartition]int64
	asked     map[topicPartition]bool // whose committed offsets were asked for
	err       error
}

// open acts on a look-up that has ended, and begins one that is due. The error is one
// that another attempt would not mend by itself.
func (c *Consumer) open() error {
	o := &c.opening
	if o.results != nil {
		select {
		case found := <-o.results:
			o.abandon()
			return c.opened(found)
		default:
			return nil
		}
	}
	if o.at.IsZero() || time.Now().Before(o.at) {
		return nil
	}
	o.at = time.Time{}
	sources := map[string][]int32{}
	known := map[topicPartition]bool{}
	for t := range c.held {
		for _, topic := range c.sources(t.Subtopology) {
			sources[topic] = append(sources[topic], t.Partition)
			tp := topicPartition{topic, t.Partition}
			_, known[tp] = c.position(tp)
		}
	}
	if len(sources) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(c.running)
	results := make(chan lookUp, 1)
	o.cancel, o.results = cancel, results
	go func() {
		results <- c.lookUp(ctx, sources, known)
		c.wakeUp()
	}()
	return nil
}

// wakeUp ends the fetch that is under way.
func (c *Consumer) wakeUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrived = true
	if c.interrupt != nil {
		c.interrupt()
	}
}

// position is where a partition that is not fetched yet starts, as far as the consumer
// itself can tell: what StartAt said, else where Poll has got to (the group was not
// ready for a while), else what was processed. A partition that is fetched has one.
func (c *Consumer) position(tp topicPartition) (at int64, ok bool) {
	if c.consuming[tp.topic][tp.partition] {
		return 0, true
	}
	if at, ok = c.startAt[tp]; ok {
		return at, true
	}
	if at, ok = c.returned[tp]; ok {
		return at, true
	}
	p, ok := c.processed[tp]
	return p.offset, ok
}

// lookUp asks for ids and partition counts of topics, and for committed offsets of
// those partitions whose position is not known. What is to be had is in the result even
// if there is an error: a topic that was created a moment ago may take a while to show.
func (c *Consumer) lookUp(ctx context.Context, sources map[string][]int32, known map[topicPartition]bool) (found lookUp) {
	if c.producer != nil {
		// What was left undecided under the transactional id is decided now: what is
		// committed may be part of it.
		if found.err = c.producer.ready(ctx); found.err != nil {
			return found
		}
	}
	found.topics, found.err = c.loadTopics(ctx, slices.Sorted(maps.Keys(sources)))
	found.asked = map[topicPartition]bool{}
	var ask []topicPartition
	for topic, info := range found.topics {
		for _, p := range sources[topic] {
			if tp := (topicPartition{topic, p}); p < info.partitions && !known[tp] {
				found.asked[tp] = true
				ask = append(ask, tp)
			}
		}
	}
	if len(ask) > 0 {
		committed, err := c.committed(ctx, found.topics, ask)
		found.committed = committed
		if err != nil {
			found.err, found.asked = err, nil
		}
	}
	return found
}

// loadTopics asks for ids and partition counts of topics.
func (c *Consumer) loadTopics(ctx context.Context, topics []string) (found map[string]topicInfo, failed error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, t := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(t)
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return nil, fmt.Errorf("client: topics of the assignment: %w", err)
	}
	found = map[string]topicInfo{}
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			if failed == nil || !kerr.IsRetriable(err) {
				failed = fmt.Errorf("client: topic %s of the assignment: %w", *t.Topic, err)
			}
			continue
		}
		found[*t.Topic] = topicInfo{id: t.TopicID, partitions: int32(len(t.Partitions))}
	}
	return found, failed
}

// opened starts to fetch what a look-up has found, and plans another one for the rest.
func (c *Consumer) opened(found lookUp) error {
	for topic, info := range found.topics {
		c.learn(topic, info)
	}
	add := map[string]map[int32]kgo.Offset{}
	again := time.Duration(-1)
	soon := func(d time.Duration) {
		if again < 0 || d < again {
			again = d
		}
	}
	for _, t := range slices.SortedFunc(maps.Keys(c.held), topology.TaskID.Compare) {
		for _, topic := range c.sources(t.Subtopology) {
			info, ok := found.topics[topic]
			tp := topicPartition{topic, t.Partition}
			switch {
			case !ok || c.consuming[topic][t.Partition]:
			case t.Partition >= info.partitions:
				soon(growthCheck)
			default:
				at, ok := c.startOf(tp, found)
				if !ok {
					soon(0) // it was created again, or came up meanwhile
					continue
				}
				if add[topic] == nil {
					add[topic] = map[int32]kgo.Offset{}
				}
				add[topic][t.Partition] = at
			}
		}
	}
	for topic, ps := range add {
		if c.consuming[topic] == nil {
			c.consuming[topic] = map[int32]bool{}
		}
		for p := range ps {
			c.consuming[topic][p] = true
			delete(c.startAt, topicPartition{topic, p})
		}
	}
	if len(add) > 0 {
		c.cl.AddConsumePartitions(add)
	}
	o := &c.opening
	if found.err == nil {
		o.attempts = 0
		if again >= 0 {
			o.want(again)
		}
		return nil
	}
	if errors.Is(found.err, ErrReplaced) {
		c.replacedBy(found.err)
		return nil
	}
	o.attempts++
	o.want(min(fetchRetry<<min(o.attempts-1, 4), time.Second))
	if later(found.err) {
		c.member.log(kgo.LogLevelInfo, "cannot start to fetch yet", "err", found.err)
		return nil
	}
	return found.err
}

// startOf is where to start to fetch a partition: where the consumer knows, else what
// is committed, else what the client's kgo.ConsumeResetOffset says, which is the
// beginning by default.
func (c *Consumer) startOf(tp topicPartition, found lookUp) (at kgo.Offset, ok bool) {
	if at, ok := c.startAt[tp]; ok {
		c.processed[tp] = position{offset: at, epoch: -1}
		c.goBackTo(tp, c.processed[tp])
	}
	if at, ok := c.position(tp); ok {
		return kgo.NewOffset().At(at), true
	}
	if !found.asked[tp] {
		return at, false
	}
	base, ok := c.base[tp]
	overridden := ok && !base.committed // by StartAt, and the group has not heard of that
	if at, ok := found.committed[tp]; ok && (!overridden || at == base.doubtful) {
		c.goBackTo(tp, position{offset: at, epoch: -1, committed: true})
		return kgo.NewOffset().At(at), true
	}
	if ok {
		c.processed[tp] = base
		return kgo.NewOffset().At(base.offset), true
	}
	if at, ok = c.cl.OptValue(kgo.ConsumeResetOffset).(kgo.Offset); !ok {
		at = kgo.NewOffset().AtStart()
	}
	return at, true
}

// learn takes note of a topic. If it was deleted and created again, nothing of the old
// one counts, and kgo would go on asking for it.
func (c *Consumer) learn(topic string, info topicInfo) {
	known, ok := c.topics[topic]
	c.topics[topic] = info
	if !ok || known.id == info.id {
		return
	}
	delete(c.consuming, topic)
	c.cl.PurgeTopicsFromConsuming(topic)
	for p := range known.partitions {
		delete(c.returned, topicPartition{topic, p})
		delete(c.processed, topicPartition{topic, p})
		delete(c.base, topicPartition{topic, p})
	}
}
