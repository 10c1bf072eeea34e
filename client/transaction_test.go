package client_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/topology"
)

// copier is a consumer with transactions that copies the topic "in" to the topic "out",
// one transaction per poll.
type copier struct {
	*app
	c *client.Consumer
	w *world

	stop  context.CancelFunc
	ended chan struct{}
	err   error

	mu     sync.Mutex
	copied int
	fails  []error // what Commit has returned
}

func withTransactions(t *testing.T, fn func(w *world), opts ...kfakeext.Opt) {
	t.Helper()
	inBubble(t, fn, append([]kfakeext.Opt{kfakeext.Topic("out", 4)}, opts...)...)
}

// copier makes one that nobody polls.
func (w *world) copier(opts ...client.Opt) *copier {
	w.Helper()
	cp := &copier{app: new(app), w: w}
	cp.onRevoked = func(ctx context.Context, _ []topology.TaskID) error { return cp.commit(ctx) }
	cp.c = w.consumer(plain(w), cp.app, append([]client.Opt{client.ExactlyOnce()}, opts...)...)
	return cp
}

// copies starts one.
func (w *world) copies(opts ...client.Opt) *copier {
	w.Helper()
	cp := w.copier(opts...)
	cp.start()
	return cp
}

func (cp *copier) start() {
	ctx, cancel := context.WithCancel(cp.w.Context())
	cp.stop, cp.ended = cancel, make(chan struct{})
	ended := cp.ended
	go func() {
		defer close(ended)
		cp.err = cp.loop(ctx)
	}()
	cp.w.Cleanup(cp.halt)
}

func (cp *copier) halt() {
	if cp.ended == nil {
		return
	}
	cp.stop()
	<-cp.ended
}

func (cp *copier) loop(ctx context.Context) error {
	for {
		if err := cp.once(ctx); err != nil {
			return err
		}
		if err := cp.commit(ctx); err != nil && !errors.Is(err, client.ErrAborted) && !errors.Is(err, client.ErrFenced) {
			return err
		}
	}
}

// once polls and copies what there is, and leaves the transaction open.
func (cp *copier) once(ctx context.Context) error {
	fetches, err := cp.c.Poll(ctx)
	if err != nil {
		return err
	}
	if err := cp.c.Begin(); err != nil {
		return err
	}
	for _, batch := range fetches.Tasks() {
		for _, r := range batch.Records {
			cp.c.Produce(ctx, &kgo.Record{Topic: "out", Value: r.Value}, nil)
		}
		cp.mu.Lock()
		cp.copied += len(batch.Records)
		cp.mu.Unlock()
		cp.c.MarkProcessed(batch.Records...)
	}
	return nil
}

func (cp *copier) commit(ctx context.Context) error {
	err := cp.c.Commit(ctx)
	if err != nil {
		cp.mu.Lock()
		defer cp.mu.Unlock()
		cp.fails = append(cp.fails, err)
	}
	return err
}

// failed returns what Commit has returned since the last call.
func (cp *copier) failed() []error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	out := cp.fails
	cp.fails = nil
	return out
}

// written are the values of the records in "out" that a reader of committed records sees.
func (w *world) written() (values []string) {
	w.Helper()
	cl := w.dial(kgo.ConsumeTopics("out"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(100*time.Millisecond))
	defer cl.Close()
	for {
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		fetches := cl.PollFetches(ctx)
		cancel()
		if fetches.NumRecords() == 0 {
			return values
		}
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
}

func TestOC05TransactionsCopyExactlyOnce(t *testing.T) {
	withTransactions(t, func(w *world) {
		w.produce("in", 0, 0, 20)
		w.produce("in", 3, 20, 20)
		cp := w.copies()
		pass(time.Second)
		w.produce("in", 1, 40, 10)
		pass(time.Second)
		assert.ElementsMatch(w, numbers(0, 50), w.written())
		assert.Equal(w, [4]int64{20, 10, -1, 20}, w.committed())
		assert.Empty(w, cp.failed())
		cp.halt()
		require.NoError(w, cp.c.Close(w.Context()))
		assert.Empty(w, w.members("g"))
		assert.ErrorIs(w, cp.c.Begin(), client.ErrClosed)
	})
}

// refuseOnce has the first request of a kind refused with a code, from now on.
func refuseOnce(w *world, key kmsg.Key, code *kerr.Error) {
	var mu sync.Mutex
	used := false
	w.cl.ControlKey(key.Int16(), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		w.cl.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		if used {
			return nil, nil, false
		}
		used = true
		return refused(kreq, code.Code), nil, true
	})
}

// refused answers a request of a transaction with an error code.
func refused(kreq kmsg.Request, code int16) kmsg.Response {
	switch req := kreq.(type) {
	case *kmsg.TxnOffsetCommitRequest:
		resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewTxnOffsetCommitResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewTxnOffsetCommitResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp
	case *kmsg.ProduceRequest:
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp
	case *kmsg.EndTxnRequest:
		resp := req.ResponseKind().(*kmsg.EndTxnResponse)
		resp.ErrorCode = code
		return resp
	case *kmsg.AddOffsetsToTxnRequest:
		resp := req.ResponseKind().(*kmsg.AddOffsetsToTxnResponse)
		resp.ErrorCode = code
		return resp
	case *kmsg.InitProducerIDRequest:
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ErrorCode = code
		return resp
	}
	panic("which kind of request?")
}

// What an error code that a transaction meets means for the work: nothing, as it is
// repeated; the transaction is processed again; the tasks are lost, and come back; or the
// loop ends, for the same would happen again. In none of these is a record copied twice,
// or not at all.
func TestOC05EveryErrorCode(t *testing.T) {
	t.Parallel()
	const (
		repeated = iota
		again
		fenced
		fatal
	)
	for _, c := range []struct {
		key  kmsg.Key
		code *kerr.Error
		want int
	}{
		{kmsg.TxnOffsetCommit, kerr.NotCoordinator, repeated},
		{kmsg.TxnOffsetCommit, kerr.CoordinatorNotAvailable, repeated},
		{kmsg.TxnOffsetCommit, kerr.CoordinatorLoadInProgress, repeated},
		{kmsg.TxnOffsetCommit, kerr.RequestTimedOut, repeated},
		{kmsg.TxnOffsetCommit, kerr.ConcurrentTransactions, repeated},
		{kmsg.TxnOffsetCommit, kerr.UnknownTopicOrPartition, repeated},
		{kmsg.TxnOffsetCommit, kerr.UnknownTopicID, repeated},
		{kmsg.TxnOffsetCommit, kerr.TransactionAbortable, again},
		{kmsg.TxnOffsetCommit, kerr.InvalidTxnState, again},
		{kmsg.TxnOffsetCommit, kerr.StaleMemberEpoch, fenced},
		{kmsg.TxnOffsetCommit, kerr.IllegalGeneration, fenced},
		{kmsg.TxnOffsetCommit, kerr.InvalidProducerEpoch, fenced},
		{kmsg.TxnOffsetCommit, kerr.ProducerFenced, fenced},
		{kmsg.TxnOffsetCommit, kerr.InvalidProducerIDMapping, fenced},
		{kmsg.TxnOffsetCommit, kerr.GroupAuthorizationFailed, fatal},
		{kmsg.EndTxn, kerr.NotCoordinator, repeated},
		{kmsg.EndTxn, kerr.ConcurrentTransactions, repeated},
		{kmsg.EndTxn, kerr.TransactionAbortable, again},
		{kmsg.EndTxn, kerr.InvalidTxnState, again},
		{kmsg.EndTxn, kerr.UnknownServerError, again},
		{kmsg.EndTxn, kerr.InvalidProducerEpoch, fenced},
		{kmsg.EndTxn, kerr.ProducerFenced, fenced},
		{kmsg.EndTxn, kerr.InvalidProducerIDMapping, fenced},
		{kmsg.EndTxn, kerr.TransactionalIDAuthorizationFailed, fatal},
		{kmsg.Produce, kerr.NotLeaderForPartition, repeated},
		{kmsg.Produce, kerr.TransactionAbortable, again},
		{kmsg.Produce, kerr.InvalidProducerEpoch, fenced},
		{kmsg.Produce, kerr.MessageTooLarge, fatal},
		{kmsg.InitProducerID, kerr.NotCoordinator, repeated},
		{kmsg.InitProducerID, kerr.ConcurrentTransactions, repeated},
	} {
		t.Run(c.key.Name()+" "+c.code.Message, func(t *testing.T) {
			withTransactions(t, func(w *world) {
				w.produce("in", 0, 0, 5)
				cp := w.copier()
				refuseOnce(w, c.key, c.code)
				cp.start()
				pass(20 * time.Second)
				failed := cp.failed()
				switch c.want {
				case repeated:
					assert.Empty(w, failed)
				default:
					require.Len(w, failed, 1)
					require.ErrorIs(w, failed[0], c.code)
					assert.Equal(w, c.want != fatal, errors.Is(failed[0], client.ErrAborted), failed[0])
					assert.Equal(w, c.want == fenced, errors.Is(failed[0], client.ErrFenced), failed[0])
				}
				switch c.want {
				case fenced:
					assert.Equal(w, []string{"assigned " + all, "lost " + all, "assigned " + all}, cp.took())
				case fatal:
					<-cp.ended
					require.ErrorIs(w, cp.err, c.code)
					assert.Empty(w, w.written())
					cp.start() // somebody has mended it
					pass(20 * time.Second)
				default:
					assert.Equal(w, []string{"assigned " + all}, cp.took())
				}
				w.produce("in", 1, 5, 5)
				pass(5 * time.Second)
				assert.ElementsMatch(w, numbers(0, 10), w.written())
				assert.Equal(w, [4]int64{5, 5, -1, -1}, w.committed())
				cp.halt()
				require.NoError(w, cp.c.Close(w.Context()))
			})
		})
	}
}

// An unknown member hears of it with the heartbeat that goes out at once.
func TestOC05UnknownMemberInATransaction(t *testing.T) {
	withTransactions(t, func(w *world) {
		w.produce("in", 0, 0, 5)
		cp := w.copier()
		refuseOnce(w, kmsg.TxnOffsetCommit, kerr.UnknownMemberID)
		stop := w.control(cp.c.Member().ID(), func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			if req.MemberEpoch > 0 {
				return refusal(req, kerr.UnknownMemberID.Code), nil, true
			}
			return nil, nil, false
		})
		cp.start()
		pass(time.Second)
		stop()
		pass(10 * time.Second)
		failed := cp.failed()
		require.NotEmpty(w, failed)
		require.ErrorIs(w, failed[0], client.ErrFenced)
		require.ErrorIs(w, failed[0], client.ErrAborted)
		assert.Contains(w, cp.took(), "lost "+all)
		assert.ElementsMatch(w, numbers(0, 5), w.written())
	})
}

// A commit that a new epoch has overtaken is repeated with that one, in the same
// transaction; in versions below 6 the code is ILLEGAL_GENERATION.
func TestOC07CommitThatRacesWithANewEpoch(t *testing.T) {
	t.Parallel()
	for _, code := range []*kerr.Error{kerr.StaleMemberEpoch, kerr.IllegalGeneration} {
		t.Run(code.Message, func(t *testing.T) {
			withTransactions(t, func(w *world) {
				w.produce("in", 0, 0, 5)
				cp := w.copier()
				var epochs []int32
				w.cl.ControlKey(kmsg.TxnOffsetCommit.Int16(), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
					w.cl.KeepControl()
					req := kreq.(*kmsg.TxnOffsetCommitRequest)
					epochs = append(epochs, req.Generation)
					if len(epochs) == 1 {
						w.nextEpoch(cp.c.Member().ID())
						return refused(kreq, code.Code), nil, true
					}
					return refused(kreq, 0), nil, true // the epoch is made up: the coordinator would refuse it
				})
				cp.start()
				pass(time.Second)
				cp.halt()
				require.Len(w, epochs, 2)
				assert.Equal(w, epochs[0]+1, epochs[1])
				assert.Empty(w, cp.failed())
				assert.ElementsMatch(w, numbers(0, 5), w.written())
			})
		})
	}
}

// A commit with an epoch behind the newest one passes if the task is the member's and was
// at that epoch: the coordinator says so, and nothing relies on it.
func TestOC07CommitWithTheEpochBefore(t *testing.T) {
	withTransactions(t, func(w *world) {
		w.produce("in", 0, 0, 5)
		one := w.copies()
		pass(time.Second)
		one.halt()
		epoch, _ := one.c.Member().Epoch()
		w.produce("in", 0, 5, 5)
		for one.processed() < 10 {
			require.NoError(w, one.once(w.Context()))
		}
		// Another one joins: a new epoch, which this member has not heard of.
		w.start(new(app))
		pass(100 * time.Millisecond)
		now, _ := one.c.Member().Epoch()
		require.Equal(w, epoch, now)
		require.NoError(w, one.commit(w.Context()))
		assert.ElementsMatch(w, numbers(0, 10), w.written())
	})
}

// The end of a transaction whose answer is lost may have been taken or not: what the group
// has committed decides.
func TestOC05AnswerToTheEndIsLost(t *testing.T) {
	t.Parallel()
	for _, taken := range []bool{true, false} {
		t.Run(map[bool]string{true: "taken", false: "not taken"}[taken], func(t *testing.T) {
			withTransactions(t, func(w *world) {
				w.produce("in", 0, 0, 5)
				cp := w.copier()
				n := 0
				w.cl.ControlKey(kmsg.EndTxn.Int16(), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
					w.cl.KeepControl()
					if n++; n > 1 {
						return nil, nil, false
					}
					if !taken {
						return nil, errors.New("cut"), true
					}
					req := *kreq.(*kmsg.EndTxnRequest)
					other := w.dial()
					w.cl.SleepControl(func() { _, _ = req.RequestWith(context.Background(), other) })
					return nil, errors.New("cut"), true
				})
				cp.start()
				pass(time.Minute)
				assert.ElementsMatch(w, numbers(0, 5), w.written())
				assert.Equal(w, [4]int64{5, -1, -1, -1}, w.committed())
				assert.Equal(w, []string{"assigned " + all}, cp.took())
			})
		})
	}
}

// CC-129 CC-130: what a transaction has done that is open when tasks are revoked is
// committed by the callback, or aborted by the consumer, before the acknowledgement.
func TestOC06RevokedInATransaction(t *testing.T) {
	t.Parallel()
	for _, commits := range []bool{true, false} {
		t.Run(map[bool]string{true: "the callback commits", false: "the callback does not"}[commits], func(t *testing.T) {
			withTransactions(t, func(w *world) {
				for p := range int32(4) {
					w.produce("in", p, 10*int(p), 10)
				}
				one := w.copier()
				one.onRevoked = nil
				if commits {
					one.onRevoked = func(ctx context.Context, _ []topology.TaskID) error { return one.commit(ctx) }
				}
				var decided, acknowledged time.Time
				w.cl.ControlKey(kmsg.EndTxn.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
					w.cl.KeepControl()
					decided = time.Now()
					return nil, nil, false
				})
				w.control(one.c.Member().ID(), func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
					if len(req.ActiveTasks) == 1 && len(req.ActiveTasks[0].Partitions) == 2 {
						acknowledged = time.Now()
					}
					return nil, nil, false
				})
				for one.processed() < 40 {
					require.NoError(w, one.once(w.Context()))
				}
				two := w.copies()
				ctx, cancel := context.WithTimeout(w.Context(), 8*time.Second)
				defer cancel()
				for ctx.Err() == nil {
					_ = one.once(ctx) // the transaction stays open
				}
				require.False(w, decided.IsZero())
				require.False(w, acknowledged.IsZero())
				assert.False(w, decided.After(acknowledged))
				if commits {
					assert.Equal(w, [4]int64{10, 10, 10, 10}, w.committed())
				}
				_ = one.commit(w.Context())
				one.start()
				pass(time.Minute)
				assert.ElementsMatch(w, numbers(0, 40), w.written())
				assert.Empty(w, one.failed())
				assert.Empty(w, two.failed())
				assert.Equal(w, 2, one.owns())
				assert.Equal(w, 2, two.owns())
			})
		})
	}
}

// A commit in the callback that fails for a reason that passes does not end the member:
// the next owner processes it again.
func TestOC06CommitFailsWhileTasksAreRevoked(t *testing.T) {
	withTransactions(t, func(w *world) {
		w.produce("in", 0, 0, 10)
		one := w.copier()
		for one.processed() < 10 {
			require.NoError(w, one.once(w.Context()))
		}
		refuseOnce(w, kmsg.TxnOffsetCommit, kerr.TransactionAbortable)
		require.NoError(w, one.c.Close(w.Context()))
		assert.Len(w, one.failed(), 1)
		assert.Empty(w, w.written())
		assert.Empty(w, w.members("g"))
		w.copies()
		pass(time.Second)
		assert.ElementsMatch(w, numbers(0, 10), w.written())
	})
}

// Lost tasks take their transaction with them.
func TestOC06LostInATransaction(t *testing.T) {
	withTransactions(t, func(w *world) {
		w.produce("in", 0, 0, 10)
		one := w.copier()
		for one.processed() < 10 {
			require.NoError(w, one.once(w.Context()))
		}
		one.took()
		w.once(one.c.Member().ID(), kerr.FencedMemberEpoch.Code)
		for one.processed() < 20 {
			require.NoError(w, one.once(w.Context()))
		}
		assert.Equal(w, []string{"lost " + all, "assigned " + all}, one.took())
		require.NoError(w, one.commit(w.Context()))
		assert.ElementsMatch(w, numbers(0, 10), w.written())
	})
}

// Abort goes back to where the group has got to, also in partitions of which nothing was
// committed and which kgo would begin at their end now.
func TestAbortGoesBack(t *testing.T) {
	withTransactions(t, func(w *world) {
		w.produce("in", 0, 0, 5)
		cp := w.copier(client.KgoOpts(kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd())))
		ctx, cancel := context.WithTimeout(w.Context(), 2*time.Second)
		defer cancel()
		require.ErrorIs(w, cp.once(ctx), context.DeadlineExceeded) // it begins at 5
		w.produce("in", 0, 5, 5)
		for cp.processed() < 5 {
			require.NoError(w, cp.once(w.Context()))
		}
		require.NoError(w, cp.c.Abort(w.Context()))
		for cp.processed() < 10 {
			require.NoError(w, cp.once(w.Context()))
		}
		require.NoError(w, cp.commit(w.Context()))
		w.produce("in", 0, 10, 5)
		for cp.processed() < 15 {
			require.NoError(w, cp.once(w.Context()))
		}
		require.NoError(w, cp.c.Abort(w.Context()))
		assert.Equal(w, [4]int64{10, -1, -1, -1}, w.committed())
		cp.start()
		pass(time.Second)
		assert.Equal(w, numbers(5, 15), w.written())
		assert.Equal(w, [4]int64{15, -1, -1, -1}, w.committed())
		cp.halt()
		require.NoError(w, cp.c.Abort(w.Context()), "without a transaction")
		w.cl.ControlKey(kmsg.OffsetCommit.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) { panic("nothing to commit") })
		require.NoError(w, cp.commit(w.Context()))
	})
}

// What StartAt said holds after an abort as well.
func TestAbortGoesBackToStartAt(t *testing.T) {
	withTransactions(t, func(w *world) {
		w.produce("in", 0, 0, 10)
		cp := w.copier()
		cp.onAssigned = func(context.Context, client.Assignment) error {
			cp.c.StartAt("in", 0, 4)
			return nil
		}
		for cp.processed() < 6 {
			require.NoError(w, cp.once(w.Context()))
		}
		require.NoError(w, cp.c.Abort(w.Context()))
		cp.start()
		pass(time.Second)
		assert.Equal(w, numbers(4, 10), w.written())
	})
}

// Transactions without records: kgo would not end them, and their offsets would stay
// pending.
func TestOC05NothingToWrite(t *testing.T) {
	withTransactions(t, func(w *world) {
		w.produce("in", 0, 0, 5)
		cp := w.copier()
		for _, key := range []kmsg.Key{kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.AddOffsetsToTxn} {
			w.cl.ControlKey(key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) { panic("there is no transaction") })
		}
		for i, begin := range []bool{true, false} {
			for n := 0; n < 5; {
				fetches, err := cp.c.Poll(w.Context())
				require.NoError(w, err)
				if begin {
					require.NoError(w, cp.c.Begin())
				}
				cp.c.MarkProcessed(fetches.Tasks()[0].Records...)
				n += len(fetches.Tasks()[0].Records)
			}
			require.NoError(w, cp.commit(w.Context()))
			w.produce("in", 0, 5*(i+1), 5)
		}
		assert.Equal(w, [4]int64{10, -1, -1, -1}, w.committed())
	})
}

// Produce outside of a transaction is an error, and so it is on the client that fetches.
func TestProduceWithoutTransaction(t *testing.T) {
	withTransactions(t, func(w *world) {
		cp := w.copier()
		err := cp.c.ProduceSync(w.Context(), &kgo.Record{Topic: "out"}).FirstErr()
		require.ErrorContains(w, err, "call Begin")
		require.Error(w, cp.c.Client().ProduceSync(w.Context(), &kgo.Record{Topic: "out"}).FirstErr())
		require.NoError(w, cp.c.Begin())
		require.NoError(w, cp.c.Begin(), "a second time changes nothing")
		require.NoError(w, cp.c.ProduceSync(w.Context(), &kgo.Record{Topic: "out", Value: []byte("x")}, &kgo.Record{Topic: "out", Value: []byte("y")}).FirstErr())
		var wg sync.WaitGroup
		wg.Add(1)
		cp.c.TryProduce(w.Context(), &kgo.Record{Topic: "out", Value: []byte("z")}, func(_ *kgo.Record, err error) {
			assert.NoError(w, err)
			wg.Done()
		})
		wg.Wait()
		assert.Empty(w, w.written())
		require.NoError(w, cp.commit(w.Context()), "no input belongs to it")
		assert.ElementsMatch(w, []string{"x", "y", "z"}, w.written())

		plainly := w.consumer(plain(w), new(app))
		require.NoError(w, plainly.ProduceSync(w.Context(), &kgo.Record{Topic: "out"}).FirstErr(), "a consumer without transactions produces as its client does")
		require.ErrorContains(w, plainly.Begin(), "ExactlyOnce")
		require.ErrorContains(w, plainly.Abort(w.Context()), "ExactlyOnce")
	})
}

// Of two members with one transactional id the one that begins later goes on.
func TestOC05TwoMembersWithOneTransactionalID(t *testing.T) {
	withTransactions(t, func(w *world) {
		for p := range int32(4) {
			w.produce("in", p, 5*int(p), 5)
		}
		one := w.copies(client.TransactionalID("the only one"))
		pass(time.Second)
		two := w.copies(client.TransactionalID("the only one"))
		pass(20 * time.Second)
		for p := range int32(4) {
			w.produce("in", p, 20+5*int(p), 5)
		}
		pass(20 * time.Second)
		<-one.ended
		require.ErrorIs(w, one.err, client.ErrReplaced)
		require.ErrorIs(w, one.err, kerr.ProducerFenced)
		require.ErrorContains(w, one.err, `"the only one"`)
		assert.Equal(w, []string{two.c.Member().ID()}, w.members("g"))
		assert.Equal(w, 4, two.owns())
		require.ErrorIs(w, one.c.Begin(), client.ErrReplaced)
		_, err := one.c.Poll(w.Context())
		require.ErrorIs(w, err, client.ErrReplaced)
		assert.Equal(w, 0, one.owns())
		require.NoError(w, one.c.Close(w.Context()))
		assert.ElementsMatch(w, numbers(0, 40), w.written())
		assert.Empty(w, two.failed())
	})
}

// A member that comes back after a crash, with the transactional id that it had, decides at
// once what it has left. What others have left they wait for.
func TestOC05CrashInATransaction(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"one", "two"} {
		t.Run(map[string]string{"one": "the same id", "two": "another id"}[id], func(t *testing.T) {
			withTransactions(t, func(w *world) {
				patient := client.KgoOpts(kgo.TransactionTimeout(5 * time.Minute))
				w.produce("in", 0, 0, 10)
				one := w.copier(client.TransactionalID("one"), patient)
				for one.processed() < 10 {
					require.NoError(w, one.once(w.Context()))
				}
				pass(time.Second)
				// The offsets of the transaction are known, its end is not.
				w.cl.ControlKey(kmsg.EndTxn.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
					one.c.Abandon()
					return nil, errors.New("cut"), true
				})
				require.Error(w, one.commit(w.Context()))
				began := time.Now()
				two := w.copies(client.TransactionalID(id), patient)
				pass(session + 5*time.Second)
				if id == "two" {
					assert.Equal(w, 4, two.owns())
					assert.Empty(w, w.written())
					pass(5*time.Minute - time.Since(began))
				}
				assert.ElementsMatch(w, numbers(0, 10), w.written())
			})
		})
	}
}

// A transaction that takes too long is aborted by the broker. The member is told with the
// next thing that it writes, gets a new producer, and goes on.
func TestOC05TransactionTimesOut(t *testing.T) {
	t.Parallel()
	for _, writes := range []bool{true, false} {
		t.Run(map[bool]string{true: "it writes more", false: "it commits"}[writes], func(t *testing.T) {
			withTransactions(t, func(w *world) {
				w.produce("in", 0, 0, 10)
				cp := w.copier(client.KgoOpts(kgo.TransactionTimeout(2 * time.Second)))
				for cp.processed() < 10 {
					require.NoError(w, cp.once(w.Context()))
				}
				pass(5 * time.Second)
				if writes {
					require.Error(w, cp.c.ProduceSync(w.Context(), &kgo.Record{Topic: "out", Value: []byte("late")}).FirstErr())
				}
				err := cp.commit(w.Context())
				require.ErrorIs(w, err, client.ErrAborted)
				require.ErrorContains(w, err, "s and may be for 2s: commit more often")
				require.ErrorContains(w, err, "MaxPollRecords")
				cp.start()
				pass(10 * time.Second)
				assert.ElementsMatch(w, numbers(0, 10), w.written())
			})
		})
	}
}

// The caller's context may end in any step.
func TestOC05ContextEndsInCommit(t *testing.T) {
	t.Parallel()
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.TxnOffsetCommit, kmsg.EndTxn} {
		t.Run(key.Name(), func(t *testing.T) {
			withTransactions(t, func(w *world) {
				w.produce("in", 0, 0, 10)
				cp := w.copier()
				n := 0
				w.cl.ControlKey(key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
					w.cl.KeepControl()
					if n++; n == 1 {
						w.cl.SleepControl(func() { time.Sleep(3 * time.Second) })
					}
					return nil, nil, false
				})
				for cp.processed() < 10 {
					require.NoError(w, cp.once(w.Context()))
				}
				ctx, cancel := context.WithTimeout(w.Context(), time.Second)
				defer cancel()
				err := cp.commit(ctx)
				require.ErrorIs(w, err, context.DeadlineExceeded)
				require.ErrorIs(w, err, client.ErrAborted)
				cp.start()
				pass(20 * time.Second)
				assert.ElementsMatch(w, numbers(0, 10), w.written())
				assert.Equal(w, [4]int64{10, -1, -1, -1}, w.committed())
			})
		})
	}
}

// processed is how many records were copied, more than once included.
func (cp *copier) processed() int {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	return cp.copied
}

func TestTransactionOptions(t *testing.T) {
	t.Parallel()
	seed := client.KgoOpts(kgo.SeedBrokers("127.0.0.1:1"))
	for _, c := range []struct {
		name          string
		opts          []client.Opt
		option, value string
	}{
		{"no id", []client.Opt{client.TransactionalID(" ")}, "TransactionalID", `" "`},
		{"the id of kgo", []client.Opt{client.ExactlyOnce(), client.KgoOpts(kgo.TransactionalID("x"))}, "KgoOpts", "kgo.TransactionalID"},
		{"not idempotent", []client.Opt{client.ExactlyOnce(), client.KgoOpts(kgo.DisableIdempotentWrite())}, "KgoOpts", "…"},
		{"old versions", []client.Opt{client.ExactlyOnce(), client.KgoOpts(kgo.MaxVersions(kversion.V2_0_0()))}, "KgoOpts", "kgo.MaxVersions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := client.NewConsumer("g", plain(t), append(c.opts, seed)...)
			var bad *client.OptionError
			require.ErrorAs(t, err, &bad)
			assert.Equal(t, c.option, bad.Option)
			assert.Equal(t, c.value, bad.Value)
		})
	}
	t.Run("a member alone", func(t *testing.T) {
		t.Parallel()
		cl, err := kgo.NewClient()
		require.NoError(t, err)
		defer cl.Close()
		_, err = client.NewMember(cl, "g", plain(t), client.ExactlyOnce())
		require.ErrorContains(t, err, "ExactlyOnce")
	})
}

// What is sent is what Kafka Streams was recorded with: it commits in version 6, with the
// id of each topic, and in each transaction with the producer epoch that the end of the one
// before has brought. TR-8
func TestOC05RequestsAreThoseOfKafkaStreams(t *testing.T) {
	withTransactions(t, func(w *world) {
		w.produce("in", 0, 0, 11)
		w.produce("in", 1, 11, 9)
		cp := w.copier(client.TransactionalID("app-exactly-once-process-1-1"))
		for cp.processed() < 20 {
			require.NoError(w, cp.once(w.Context()))
		}
		var sent []*kmsg.TxnOffsetCommitRequest
		w.cl.ControlKey(kmsg.TxnOffsetCommit.Int16(), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			w.cl.KeepControl()
			req := *kreq.(*kmsg.TxnOffsetCommitRequest)
			req.UnknownTags = kmsg.Tags{}
			sent = append(sent, &req)
			return nil, nil, false
		})
		w.cl.ControlKey(kmsg.AddOffsetsToTxn.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
			panic("the broker adds the group by itself")
		})
		require.NoError(w, cp.commit(w.Context()))
		w.produce("in", 0, 20, 21)
		for cp.processed() < 41 {
			require.NoError(w, cp.once(w.Context()))
		}
		require.NoError(w, cp.commit(w.Context()))
		require.Len(w, sent, 2)
		epoch, _ := cp.c.Member().Epoch()
		for i, req := range sent {
			assert.Equal(w, int16(6), req.Version)
			assert.Equal(w, "app-exactly-once-process-1-1", req.TransactionalID)
			assert.Equal(w, "g", req.Group)
			assert.Equal(w, sent[0].ProducerID, req.ProducerID)
			assert.Equal(w, sent[0].ProducerEpoch+int16(i), req.ProducerEpoch)
			assert.Equal(w, epoch, req.Generation)
			assert.Equal(w, cp.c.Member().ID(), req.MemberID)
			assert.Nil(w, req.InstanceID)
			require.Len(w, req.Topics, 1)
			assert.Equal(w, w.cl.TopicInfo("in").TopicID, req.Topics[0].TopicID)
		}
		at := map[int32]int64{}
		for _, p := range sent[0].Topics[0].Partitions {
			at[p.Partition] = p.Offset
			assert.Zero(w, p.LeaderEpoch)
		}
		assert.Equal(w, map[int32]int64{0: 11, 1: 9}, at)
		require.Len(w, sent[1].Topics[0].Partitions, 1, "what has moved on, and nothing else")
		assert.Equal(w, int64(32), sent[1].Topics[0].Partitions[0].Offset)
	})
}

// Brokers that are not to work as of transaction.version 2 are told of the group first, and know
// version 4 at most. OC-1
func TestOC05WithoutImplicitTransactions(t *testing.T) {
	t.Parallel()
	for _, code := range []*kerr.Error{nil, kerr.NotCoordinator, kerr.ConcurrentTransactions, kerr.InvalidProducerEpoch} {
		name := "no error"
		if code != nil {
			name = code.Message
		}
		t.Run(name, func(t *testing.T) {
			withTransactions(t, func(w *world) {
				w.produce("in", 0, 0, 10)
				cp := w.copier(client.InstanceID("pod-0"), client.KgoOpts(kgo.MaxVersions(withoutImplicit())))
				added := 0
				w.cl.ControlKey(kmsg.AddOffsetsToTxn.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
					w.cl.KeepControl()
					added++
					return nil, nil, false
				})
				w.cl.ControlKey(kmsg.TxnOffsetCommit.Int16(), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
					w.cl.KeepControl()
					assert.Equal(w, int16(4), kreq.GetVersion())
					assert.Equal(w, "pod-0", *kreq.(*kmsg.TxnOffsetCommitRequest).InstanceID)
					assert.Equal(w, "g/pod-0", kreq.(*kmsg.TxnOffsetCommitRequest).TransactionalID)
					return nil, nil, false
				})
				if code != nil {
					refuseOnce(w, kmsg.AddOffsetsToTxn, code)
				}
				cp.start()
				pass(10 * time.Second)
				assert.ElementsMatch(w, numbers(0, 10), w.written())
				assert.NotZero(w, added)
				assert.Equal(w, code == kerr.InvalidProducerEpoch, len(cp.failed()) == 1)
			})
		})
	}
}

// withoutImplicit are the versions of a client that has streams groups, and old
// transactions.
func withoutImplicit() *kversion.Versions {
	v := kversion.V4_4_0()
	v.SetMaxKeyVersion(kmsg.TxnOffsetCommit.Int16(), 4)
	v.SetMaxKeyVersion(kmsg.EndTxn.Int16(), 4)
	v.SetMaxKeyVersion(kmsg.Produce.Int16(), 11)
	return v
}
