package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/topology"
)

// ExactlyOnce makes a Consumer read, process and write exactly once, with a
// transactional id that is derived from the group and from what of the member outlives
// a restart: the [InstanceID], else the process id in the [StateDir]. A member of
// neither has an id that nobody had before it, and what it leaves undecided in a crash
// is aborted when the transaction times out. See the chapter "Exactly once" of the
// package for what is covered.
//
// Only records of committed transactions are fetched. A transaction may take 10 s from
// its first record to Commit, unless kgo.TransactionTimeout in the [KgoOpts] says
// otherwise; so long the tasks of a member that has crashed may have to wait. One that
// takes longer is aborted by the broker, and the member loses its tasks and starts again:
// if the work on what one Poll returns may take that long, see [MaxPollRecords].
func ExactlyOnce() Opt { return optFunc(func(c *config) { c.exactlyOnce = true }) }

// TransactionalID is [ExactlyOnce] with a transactional id of yours. It must be one
// member's alone, and should be the same after a restart. Of two members with one id the
// one that was given tasks later goes on, and the other ends with [ErrReplaced].
func TransactionalID(id string) Opt {
	return optFunc(func(c *config) {
		c.exactlyOnce, c.transactionalID = true, id
		if strings.TrimSpace(id) == "" {
			c.bad("TransactionalID", strconv.Quote(id), "want an id, or ExactlyOnce to have one derived")
		}
	})
}

var (
	// ErrAborted is wrapped by a Commit whose transaction was aborted, or is in doubt
	// and will be decided before the next one begins, for a reason that need not last.
	// Poll goes on after what the group has committed, in either case: drop what was
	// polled before, and what it has done to state outside of Kafka.
	ErrAborted = errors.New("client: the transaction was aborted")
	// ErrReplaced is wrapped by a Commit, and then returned by Poll, once another producer
	// has taken over the transactional id: another member with the same [TransactionalID]
	// runs. The tasks are lost, the member has left the group, and stays out of it.
	ErrReplaced = errors.New("client: another producer has taken over the transactional id")

	errNoTransaction = errors.New("client: no transaction is open: call Begin after Poll and before Produce")
	errNotExactly    = errors.New("client: the consumer has no transactions: make it with the option ExactlyOnce or TransactionalID")
)

// Begin opens a transaction, unless one is open: call it after each Poll and before
// [Consumer.Produce]. It talks to nobody; a broker hears of a transaction with its first
// record. [Consumer.Commit] and [Consumer.Abort] end it, and so may Poll and Close: a
// transaction that is open when a callback for revoked tasks returns, or when tasks are
// lost, is aborted. So commit in that callback. Begin belongs to the goroutine that
// polls.
func (c *Consumer) Begin() error {
	switch {
	case c.producer == nil:
		return errNotExactly
	case c.replaced != nil:
		return c.replaced
	}
	return c.producer.begin()
}

// Produce produces a record as kgo.Client.Produce does, as part of the open transaction
// if the consumer has transactions: without one, the promise is called with an error. Of
// a record that fails Commit will know as well. It may be called from any goroutine, but
// not while Commit or Abort run.
func (c *Consumer) Produce(ctx context.Context, r *kgo.Record, promise func(*kgo.Record, error)) {
	if c.producer == nil {
		c.cl.Produce(ctx, r, promise)
		return
	}
	c.producer.produce(ctx, r, promise, (*kgo.Client).Produce)
}

// TryProduce is to kgo.Client.TryProduce as Produce is to kgo.Client.Produce.
func (c *Consumer) TryProduce(ctx context.Context, r *kgo.Record, promise func(*kgo.Record, error)) {
	if c.producer == nil {
		c.cl.TryProduce(ctx, r, promise)
		return
	}
	c.producer.produce(ctx, r, promise, (*kgo.Client).TryProduce)
}

// ProduceSync produces records and waits until all have been acknowledged or have
// failed. See Produce.
func (c *Consumer) ProduceSync(ctx context.Context, records ...*kgo.Record) kgo.ProduceResults {
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		results = make(kgo.ProduceResults, 0, len(records))
	)
	wg.Add(len(records))
	for _, r := range records {
		c.Produce(ctx, r, func(r *kgo.Record, err error) {
			defer wg.Done()
			mu.Lock()
			defer mu.Unlock()
			results = append(results, kgo.ProduceResult{Record: r, Err: err})
		})
	}
	wg.Wait()
	return results
}

// Abort aborts the transaction that is open, if one is: its records are not seen by
// readers of committed records, what was marked since the last commit is forgotten, and
// Poll goes back to where the group has got to. Drop what was polled before. If the
// broker cannot be told, the transaction is decided before the next one begins, and Abort
// returns nil as well. The error wraps [ErrFenced] or [ErrReplaced] if the producer was
// fenced, and the next Poll runs "tasks lost".
func (c *Consumer) Abort(ctx context.Context) error {
	if c.producer == nil {
		return errNotExactly
	}
	if err := c.commits.wait(ctx); err != nil {
		return c.commitFailed(err)
	}
	if c.producer.end() == nil {
		c.rewind()
		return nil
	}
	if err := c.abort(ctx, nil); !again(err) {
		return err
	}
	return nil
}

// again is whether a transaction has failed for a reason that processing it another time
// may mend.
func again(err error) bool {
	return errors.Is(err, ErrAborted) && !errors.Is(err, ErrFenced)
}

// abort gives the open transaction up, goes back to where the group has got to, and
// returns the error for whoever wanted to commit. The cause is nil if nobody did.
func (c *Consumer) abort(ctx context.Context, cause error) error {
	late := c.producer.tooLate()
	certain, err := c.producer.abort(ctx)
	if cause == nil {
		cause = err
	}
	if late != nil && fencing(cause) {
		cause = fmt.Errorf("%w: %w", late, cause)
	}
	if certain {
		c.rewind()
	} else {
		c.reopen()
	}
	if cause != nil {
		c.member.log(kgo.LogLevelWarn, "the transaction was aborted", "transactional_id", c.producer.id, "in_doubt", !certain, "err", cause)
	}
	switch {
	case fencing(cause), fencing(err):
		return c.loseOwnership(ctx, cause)
	case errors.Is(cause, ErrFenced):
		c.disown()
	}
	return c.abortError(cause)
}

// loseOwnership gives the tasks up: rule OC-5.
func (c *Consumer) loseOwnership(ctx context.Context, cause error) error {
	c.producer.reset() // kgo need not have noticed
	if err := c.producer.taken(ctx); err != nil {
		c.replacedBy(err)
		return fmt.Errorf("%w (%w)", err, cause)
	}
	c.disown()
	return fmt.Errorf("%w: transaction of member %q in group %q: %w: %w", ErrFenced, c.member.cfg.memberID, c.member.group, ErrAborted, cause)
}

// replacedBy ends the work for good.
func (c *Consumer) replacedBy(err error) {
	if c.replaced == nil {
		c.replaced = err
		c.disown()
	}
}

// disown loses the tasks: no Poll returns their records from now on.
func (c *Consumer) disown() {
	c.removeAll()
	c.member.disown()
}

func (c *Consumer) abortError(cause error) error {
	switch {
	case cause == nil:
		return ErrAborted
	case errors.Is(cause, ErrFenced), passingInTransaction(cause):
		return fmt.Errorf("%w: member %q in group %q: %w", ErrAborted, c.member.cfg.memberID, c.member.group, cause)
	}
	// The same would happen again.
	return fmt.Errorf("client: a transaction of member %q in group %q was aborted: %w", c.member.cfg.memberID, c.member.group, cause)
}

// fencing is whether an error says that the producer is not the one that its
// transactional id belongs to, or not any more.
func fencing(err error) bool {
	for _, code := range []error{kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// passingInTransaction is whether a new transaction may succeed where one has failed.
func passingInTransaction(err error) bool {
	for _, e := range []error{
		kerr.TransactionAbortable, kerr.UnknownProducerID, kerr.OutOfOrderSequenceNumber, kerr.InvalidTxnState, kerr.ConcurrentTransactions,
		kerr.OperationNotAttempted, kerr.UnknownServerError,
		kgo.ErrRecordTimeout, kgo.ErrRecordRetries, kgo.ErrAborting, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return passing(err)
}

// rewind goes back to what was committed, or to where a partition was begun with.
func (c *Consumer) rewind() {
	back := map[string]map[int32]kgo.EpochOffset{}
	for tp := range c.returned {
		base, ok := c.base[tp]
		if !ok {
			c.reopen() // cannot be: what was returned has begun somewhere
			return
		}
		c.returned[tp] = base.offset
		if c.consuming[tp.topic][tp.partition] {
			if back[tp.topic] == nil {
				back[tp.topic] = map[int32]kgo.EpochOffset{}
			}
			back[tp.topic][tp.partition] = kgo.EpochOffset{Epoch: -1, Offset: base.offset}
		}
	}
	clear(c.processed)
	for tp, base := range c.base {
		c.processed[tp] = base
	}
	if len(back) > 0 {
		c.cl.SetOffsets(back)
	}
}

// reopen asks the group where it has got to: a commit may have been taken or not.
func (c *Consumer) reopen() {
	for tp, base := range c.base {
		if p, ok := c.processed[tp]; ok {
			base.doubtful = p.offset
			c.base[tp] = base
		}
	}
	c.removeAll()
	clear(c.returned)
	clear(c.processed)
	if c.ready {
		c.opening.want(0)
	}
}

// goBackTo notes where an abort goes back to.
func (c *Consumer) goBackTo(tp topicPartition, at position) {
	if c.producer != nil {
		c.base[tp] = at
	}
}

// began notes the first record of a partition of which nothing was ever committed. What
// kgo.ConsumeResetOffset says may be another place by the time of an abort.
func (c *Consumer) began(tp topicPartition, offset int64) {
	if c.producer == nil {
		return
	}
	if _, ok := c.base[tp]; !ok {
		c.base[tp] = position{offset: offset, epoch: -1, committed: true}
	}
}

// abortOpen aborts a transaction that nobody has ended before tasks go: rule OC-6.
func (c *Consumer) abortOpen(ctx context.Context) {
	if c.producer != nil && c.producer.end() != nil {
		_ = c.abort(ctx, nil) // it is logged
	}
}

// decided waits until no transaction is open that may yet commit offsets of a task's
// sources. The former owner can have gone while its last transaction was being
// committed: what that has written to changelogs is not to be seen before the end of it.
func (c *Consumer) decided(ctx context.Context, task topology.TaskID) error {
	if c.producer == nil {
		return nil
	}
	sources := map[string][]int32{}
	for _, topic := range c.sources(task.Subtopology) {
		sources[topic] = []int32{task.Partition}
	}
	began := time.Now()
	for wait := fetchRetry; ; wait = min(2*wait, time.Second) {
		c.member.Polled()
		err := c.lookUp(ctx, sources, nil).err
		undecided := errors.Is(err, kerr.UnstableOffsetCommit)
		if err == nil || !later(err) || !undecided && time.Since(began) > topicPatience {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// fetchClient are the options of the client that fetches.
func (c *config) fetchClient(group string) []kgo.Opt {
	if !c.exactlyOnce {
		return slices.Concat(c.kgoOpts, fetchOpts())
	}
	// A client with a transactional id refuses to produce outside of transactions, of
	// which this one has none. It never asks a broker for that id.
	return slices.Concat(
		[]kgo.Opt{kgo.TransactionTimeout(transactionTimeout)}, c.kgoOpts, fetchOpts(),
		[]kgo.Opt{kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.TransactionalID(group + "-fetches-only")},
	)
}
