package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// fetchMaxWait bounds how long a new partition waits for the fetch that is under
// way at its broker.
const fetchMaxWait = 250 * time.Millisecond

// Consumer gives the records of a member's active tasks to the goroutine that polls.
// It joins the group with the first Poll. Poll, the callbacks (which run inside
// Poll), MarkProcessed, StartAt, Commit and RestoreChangelog belong to one goroutine;
// Close, Abandon, Member and Client may be called from any.
type Consumer struct {
	member *Member
	topo   *topology.Topology
	cl     *kgo.Client
	opts   []kgo.Opt

	stop    context.CancelFunc
	running context.Context
	ended   chan struct{} // closed when the member's Run has returned
	endErr  error

	mu        sync.Mutex
	queue     []*queuedCallback
	interrupt context.CancelFunc // ends the fetch that is under way
	started   bool
	closed    bool

	// Of the goroutine that polls.
	ready     bool
	active    map[topology.TaskID]bool
	taskOf    map[string]string // source topic to subtopology
	consuming map[string]map[int32]bool
	startAt   map[topicPartition]int64
	processed map[topicPartition]position
	topics    map[string]topicInfo
}

type topicPartition struct {
	topic     string
	partition int32
}

type queuedCallback struct {
	ctx  context.Context
	cb   membership.Callback
	done chan error
}

// NewConsumer makes a consumer for a group that runs a topology. It builds a client
// from [KgoOpts] and connects with the first Poll. The error is an *[OptionError]
// for a bad option.
func NewConsumer(group string, topo *topology.Topology, opts ...Opt) (*Consumer, error) {
	cfg := defaults()
	cfg.guard = true
	for _, o := range opts {
		o.apply(&cfg)
	}
	cl, err := kgo.NewClient(append(slices.Clone(cfg.kgoOpts), kgo.FetchMaxWait(fetchMaxWait))...)
	if err != nil {
		return nil, fmt.Errorf("client: KgoOpts: %w", err)
	}
	if err := checkClient(cl); err != nil {
		cl.Close()
		return nil, err
	}
	m, err := newMember(cl, group, topo, cfg)
	if err != nil {
		cl.Close()
		return nil, err
	}
	c := &Consumer{
		member: m, topo: topo, cl: cl, opts: cfg.kgoOpts, ended: make(chan struct{}),
		active: map[topology.TaskID]bool{}, taskOf: map[string]string{}, consuming: map[string]map[int32]bool{},
		startAt: map[topicPartition]int64{}, processed: map[topicPartition]position{}, topics: map[string]topicInfo{},
	}
	c.running, c.stop = context.WithCancel(context.Background())
	for _, id := range topo.Subtopologies() {
		for _, t := range topo.Sources(id) {
			c.taskOf[t] = id
		}
	}
	m.invoke = c.handOver
	return c, nil
}

// checkClient refuses options by which the client would choose what to consume.
func checkClient(cl *kgo.Client) error {
	if g, _ := cl.OptValue(kgo.ConsumerGroup).(string); g != "" {
		return &OptionError{"KgoOpts", "kgo.ConsumerGroup", "a streams member needs no group of kgo: leave it out"}
	}
	if t, _ := cl.OptValue(kgo.ConsumeTopics).([]string); len(t) > 0 {
		return &OptionError{"KgoOpts", "kgo.ConsumeTopics", "the tasks choose the topics: leave it out"}
	}
	if p, _ := cl.OptValue(kgo.ConsumePartitions).(map[string]map[int32]kgo.Offset); len(p) > 0 {
		return &OptionError{"KgoOpts", "kgo.ConsumePartitions", "the tasks choose the partitions: leave it out"}
	}
	if r, _ := cl.OptValue(kgo.ConsumeRegex).(bool); r {
		return &OptionError{"KgoOpts", "kgo.ConsumeRegex", "the tasks choose the topics: leave it out"}
	}
	return nil
}

// Member is the membership behind the consumer, for its id, epoch and snapshot.
func (c *Consumer) Member() *Member { return c.member }

// Client is the client that fetches, for producing with. Do not change what it
// consumes.
func (c *Consumer) Client() *kgo.Client { return c.cl }

// handOver gives a callback to the goroutine that polls and waits until it has run
// there.
func (c *Consumer) handOver(ctx context.Context, cb membership.Callback) error {
	q := &queuedCallback{ctx: ctx, cb: cb, done: make(chan error, 1)}
	c.mu.Lock()
	c.queue = append(c.queue, q)
	if c.interrupt != nil {
		c.interrupt()
	}
	c.mu.Unlock()
	select {
	case err := <-q.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TaskRecords are fetched records of one task, in order within each partition.
type TaskRecords struct {
	Task    topology.TaskID
	Records []*kgo.Record
}

// Fetches are the records of one poll.
type Fetches []TaskRecords

// Tasks returns the records by task, ascending.
func (f Fetches) Tasks() []TaskRecords { return f }

// ErrClosed is what Poll returns after Close.
var ErrClosed = errors.New("client: the consumer is closed")

// Poll joins the group if it is the first one, runs callbacks that are waiting, and
// returns the next records of the active tasks. It blocks until there are some, ctx
// ends (its error is returned) or the membership fails (a *[membership.Error]).
// Records are only returned while the group is ready, and never of a task whose
// revocation has begun.
func (c *Consumer) Poll(ctx context.Context) (Fetches, error) {
	c.start()
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c.member.Polled()
		if c.runCallbacks() {
			continue
		}
		select {
		case <-c.ended:
			return nil, c.endErr
		default:
		}
		fetches, err := c.fetch(ctx)
		if err != nil || len(fetches) > 0 {
			return fetches, err
		}
	}
}

// start runs the member in the background, once.
func (c *Consumer) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started {
		return
	}
	c.started = true
	go func() {
		err := c.member.Run(c.running)
		if err == nil {
			err = ErrClosed
		}
		c.endErr = err
		close(c.ended)
		c.mu.Lock()
		if c.interrupt != nil {
			c.interrupt()
		}
		c.mu.Unlock()
	}()
}

// runCallbacks runs what is waiting and returns whether there was anything.
func (c *Consumer) runCallbacks() bool {
	c.mu.Lock()
	queue := c.queue
	c.queue = nil
	c.mu.Unlock()
	for _, q := range queue {
		if q.ctx.Err() != nil {
			continue // the member has ended
		}
		q.done <- c.runCallback(q.ctx, q.cb)
	}
	return len(queue) > 0
}

func (c *Consumer) runCallback(ctx context.Context, cb membership.Callback) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicError(v)
		}
	}()
	switch cb.Kind {
	case membership.TasksRevoked:
		c.drop(cb.Active)
		err = c.member.callUser(ctx, cb)
		c.forget(cb.Active)
	case membership.TasksLost:
		c.drop(cb.Active)
		c.forget(cb.Active) // nothing of it may be committed any more
		err = c.member.callUser(ctx, cb)
	case membership.TasksAssigned:
		err = c.member.callUser(ctx, cb)
		if err == nil {
			err = c.take(ctx, cb)
		}
	}
	return err
}

// fetch polls the client until there are records or a callback is waiting.
func (c *Consumer) fetch(ctx context.Context) (Fetches, error) {
	// Wake up in time to show the poll guard that the application is here.
	ctx, cancel := context.WithTimeout(ctx, max(c.member.cfg.maxPoll/2, time.Millisecond))
	defer cancel()
	c.mu.Lock()
	if len(c.queue) > 0 {
		c.mu.Unlock()
		return nil, nil
	}
	c.interrupt = cancel
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.interrupt = nil
		c.mu.Unlock()
	}()
	fetches := c.cl.PollFetches(ctx)
	if fetches.IsClientClosed() {
		<-c.ended
		return nil, c.endErr
	}
	byTask := map[topology.TaskID][]*kgo.Record{}
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		t := topology.TaskID{Subtopology: c.taskOf[p.Topic], Partition: p.Partition}
		if c.active[t] && len(p.Records) > 0 {
			byTask[t] = append(byTask[t], p.Records...)
		}
	})
	var out Fetches
	for t, records := range byTask {
		out = append(out, TaskRecords{t, records})
	}
	slices.SortFunc(out, func(a, b TaskRecords) int { return a.Task.Compare(b.Task) })
	var failed error
	pause := false
	fetches.EachError(func(topic string, partition int32, err error) {
		switch {
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		case kerr.IsRetriable(err):
			// kgo goes on trying. A topic that was deleted, for example, is the
			// coordinator's business: it takes the task away.
			c.member.log(kgo.LogLevelWarn, "cannot fetch", "topic", topic, "partition", partition, "err", err)
			pause = true
		default:
			failed = fmt.Errorf("client: fetch of %s-%d: %w", topic, partition, err)
		}
	})
	if len(out) > 0 {
		return out, nil // an error that lasts comes again
	}
	if pause {
		select {
		case <-ctx.Done():
		case <-time.After(fetchRetry):
		}
	}
	return nil, failed
}

// Close revokes the tasks (the callback runs inside Close, and may commit), leaves
// the group and closes the client. Do not poll meanwhile or afterwards. ctx bounds
// it; the member's leave timeout does, too.
func (c *Consumer) Close(ctx context.Context) error {
	c.mu.Lock()
	started, closed := c.started, c.closed
	c.closed = true
	c.mu.Unlock()
	if closed {
		return nil
	}
	defer c.cl.Close()
	c.stop()
	if !started {
		return nil
	}
	for {
		c.runCallbacks()
		wake, cancel := context.WithCancel(ctx)
		c.mu.Lock()
		c.interrupt = cancel
		waiting := len(c.queue) > 0
		c.mu.Unlock()
		if !waiting {
			select {
			case <-c.ended:
			case <-wake.Done():
			}
		}
		cancel()
		select {
		case <-c.ended:
			if errors.Is(c.endErr, ErrClosed) || errors.Is(c.endErr, ErrAbandoned) {
				return nil
			}
			return c.endErr
		default:
		}
		if err := ctx.Err(); err != nil {
			c.member.Abandon()
			<-c.ended
			return fmt.Errorf("client: did not leave group %q in time: %w", c.member.group, err)
		}
	}
}

// Abandon ends the consumer at once, without callbacks, commit or leave, as if the
// process had died. For tests and demonstrations of fail-over.
func (c *Consumer) Abandon() {
	c.mu.Lock()
	started, closed := c.started, c.closed
	c.closed = true
	c.mu.Unlock()
	if closed {
		return
	}
	c.member.Abandon()
	c.stop()
	if started {
		<-c.ended
	}
	c.cl.Close()
}
