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
// Poll), MarkProcessed, StartAt, Begin, Commit, Abort and RestoreChangelog belong to one
// goroutine; Produce, TryProduce, ProduceSync, Close, Abandon, Member and Client may be
// called from any.
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
	interrupt context.CancelFunc  // ends the fetch that is under way
	resolved  map[string][]string // what source patterns stand for from now on
	arrived   bool                // a look-up, or the member, has ended
	started   bool
	closed    bool

	// Of the goroutine that polls.
	held      map[topology.TaskID]bool // until the callback that takes a task away is over
	patterns  map[string][]string      // the topics that source patterns stand for
	taskOf    map[string]string        // source topic to subtopology
	consuming map[string]map[int32]bool
	ready     bool // of the last assignment
	startAt   map[topicPartition]int64
	returned  map[topicPartition]int64 // what Poll returns next
	processed map[topicPartition]position
	base      map[topicPartition]position // with transactions: where an abort goes back to
	topics    map[string]topicInfo
	commits   commits
	opening   opening
	replaced  error // what Poll returns once the tasks are lost; nil if nobody has taken over

	producer *producer // nil without transactions
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
	cfg.take(opts)
	if err := cfg.checkTransactions(); err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(cfg.fetchClient(group)...)
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
		held: map[topology.TaskID]bool{}, consuming: map[string]map[int32]bool{},
		startAt: map[topicPartition]int64{}, returned: map[topicPartition]int64{}, processed: map[topicPartition]position{}, base: map[topicPartition]position{}, topics: map[string]topicInfo{},
	}
	if cfg.exactlyOnce {
		c.producer = newProducer(m, cl)
	}
	c.running, c.stop = context.WithCancel(context.Background())
	c.mapSources()
	m.invoke, m.resolved = c.handOver, c.resolve
	return c, nil
}

// fetchOpts are what the clients that fetch need, whatever the user says. Errors
// that are retriable are wanted too: kgo goes on trying at once where a topic was
// deleted and others of the same broker were not, and only a poll that takes its
// time slows it down.
func fetchOpts() []kgo.Opt {
	return []kgo.Opt{kgo.FetchMaxWait(fetchMaxWait), kgo.KeepRetryableFetchErrors()}
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

// Client is the client that fetches, for producing with and for other requests. Do not
// change what it consumes. With [ExactlyOnce] it refuses to produce:
// [Consumer.Produce] does, as part of a transaction.
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
// An error that brokers give and that another attempt would not mend by itself, such as
// missing authorization for a topic, is returned as well; the membership goes on, and so
// may the application. Records are only returned while the group is ready, and never of
// a task whose revocation has begun. Callbacks have a context of their own: Poll does not return
// before they do.
func (c *Consumer) Poll(ctx context.Context) (Fetches, error) {
	if !c.start() {
		return nil, ErrClosed
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if c.replaced == nil {
			c.member.Polled() // which would let it join again
		}
		if c.runCallbacks() {
			continue
		}
		if c.replaced != nil && len(c.held) == 0 {
			return nil, c.replaced
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

// start runs the member in the background, once, and returns whether it has ever
// run.
func (c *Consumer) start() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started || c.closed {
		return c.started
	}
	c.started = true
	go func() {
		err := c.member.Run(c.running)
		if err == nil {
			err = ErrClosed
		}
		c.endErr = err
		close(c.ended)
		c.wakeUp()
	}()
	return true
}

// runCallbacks runs what is waiting and returns whether there was anything.
func (c *Consumer) runCallbacks() bool {
	c.takeSources()
	c.mu.Lock()
	queue := c.queue
	c.queue = nil
	c.mu.Unlock()
	for _, q := range queue {
		if q.ctx.Err() == nil { // else the member has ended
			q.done <- c.runCallback(q)
		}
	}
	return len(queue) > 0
}

func (c *Consumer) runCallback(q *queuedCallback) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicError(v)
		}
	}()
	switch ctx, cb := q.ctx, q.cb; cb.Kind {
	case membership.TasksRevoked:
		c.drop(cb.Active)
		err = c.member.callUser(ctx, cb)
		if errors.Is(err, ErrFenced) || errors.Is(err, ErrAborted) || errors.Is(err, ErrReplaced) {
			// The tasks are somebody else's already, and the next heartbeat brings "tasks
			// lost" and a new start, or the next Poll the end; or they will be, and their
			// work is done there.
			c.member.log(kgo.LogLevelWarn, "nothing was committed while tasks were revoked", "err", err)
			err = nil
		}
		c.abortOpen(ctx)
		c.forget(cb.Active)
	case membership.TasksLost:
		c.drop(cb.Active)
		c.abortOpen(ctx)
		c.forget(cb.Active) // nothing of it may be committed any more
		err = c.member.callUser(ctx, cb)
	case membership.TasksAssigned:
		if err = c.member.callUser(ctx, cb); err == nil {
			c.take(cb)
		}
	}
	return err
}

// guardPause is how long the consumer may keep to itself before it shows the poll
// guard that the application is here.
func (c *Consumer) guardPause() time.Duration {
	return max(c.member.cfg.maxPoll/2, time.Millisecond)
}

// fetch polls the client until there are records or a callback is waiting.
func (c *Consumer) fetch(ctx context.Context) (Fetches, error) {
	// Wake up in time to show the poll guard that the application is here.
	ctx, cancel := context.WithTimeout(ctx, min(c.guardPause(), c.opening.pause()))
	defer cancel()
	c.mu.Lock()
	if len(c.queue) > 0 || c.resolved != nil {
		c.mu.Unlock()
		return nil, nil
	}
	if c.arrived {
		cancel() // there is something else to do first
	}
	c.arrived = false
	c.interrupt = cancel
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.interrupt = nil
		c.mu.Unlock()
	}()
	if err := c.open(); err != nil {
		return nil, err
	}
	fetches := c.cl.PollRecords(ctx, c.member.cfg.maxPollRecords)
	if fetches.IsClientClosed() {
		// By Close, by Abandon, or by the user: the member is about to end, and may
		// want to run a callback before.
		select {
		case <-ctx.Done():
		case <-c.ended:
		case <-time.After(fetchRetry):
		}
		return nil, nil
	}
	byTask := map[topology.TaskID][]*kgo.Record{}
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if c.consuming[p.Topic][p.Partition] && len(p.Records) > 0 {
			t := topology.TaskID{Subtopology: c.taskOf[p.Topic], Partition: p.Partition}
			byTask[t] = append(byTask[t], p.Records...)
			c.began(topicPartition{p.Topic, p.Partition}, p.Records[0].Offset)
			c.returned[topicPartition{p.Topic, p.Partition}] = p.Records[len(p.Records)-1].Offset + 1
		}
	})
	var out Fetches
	for t, records := range byTask {
		out = append(out, TaskRecords{t, records})
	}
	slices.SortFunc(out, func(a, b TaskRecords) int { return a.Task.Compare(b.Task) })
	var failed error
	pause := false
	gone := false
	fetches.EachError(func(topic string, partition int32, err error) {
		switch {
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		case kerr.IsRetriable(err):
			// kgo goes on trying. A topic that was deleted, for example, is the
			// coordinator's business: it takes the task away.
			c.member.log(kgo.LogLevelInfo, "cannot fetch", "topic", topic, "partition", partition, "err", err)
			pause = true
			gone = gone || errors.Is(err, kerr.UnknownTopicID)
		default:
			failed = fmt.Errorf("client: fetch of %s-%d: %w", topic, partition, err)
		}
	})
	if len(out) > 0 {
		return out, nil // an error that lasts comes again
	}
	if gone {
		c.opening.want(0) // it will show that it is gone, or was created again
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
// the group and closes the client. Do not poll meanwhile or afterwards, and do not
// call it in a callback. ctx bounds it, and so does the member's leave timeout: the
// callback's context ends with either.
func (c *Consumer) Close(ctx context.Context) error {
	c.mu.Lock()
	started, closed := c.started, c.closed
	c.closed = true
	c.mu.Unlock()
	if closed {
		return nil
	}
	defer c.cl.Close()
	if c.producer != nil {
		defer c.producer.shut()
		defer c.abortOpen(ctx)
	}
	c.stop()
	if !started {
		return c.member.release()
	}
	defer func() {
		c.opening.stop()
		_ = c.commits.wait(ctx) // it may still be taken
	}()
	defer context.AfterFunc(ctx, c.member.Abandon)()
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
			switch {
			case errors.Is(c.endErr, ErrClosed):
				return nil
			case errors.Is(c.endErr, ErrAbandoned) && ctx.Err() != nil:
				return fmt.Errorf("client: did not leave group %q in time: %w", c.member.group, ctx.Err())
			case errors.Is(c.endErr, ErrAbandoned):
				return nil
			}
			return c.endErr
		default:
		}
		if ctx.Err() != nil {
			<-c.ended // the member has been abandoned
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
	if c.producer != nil {
		c.producer.shut()
	}
	c.stop()
	if started {
		<-c.ended
	} else {
		_ = c.member.release()
	}
	c.cl.Close()
}
