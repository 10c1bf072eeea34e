package client_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// worker is a consumer and the goroutine that polls it.
type worker struct {
	*app
	c *client.Consumer
	w *world

	stop  context.CancelFunc
	ended chan struct{}
	err   error

	mu   sync.Mutex
	seen map[string][]string // values by task
}

// consumer makes a consumer of the group "g" that nobody polls.
func (w *world) consumer(topo *topology.Topology, a *app, opts ...client.Opt) *client.Consumer {
	w.Helper()
	c, err := client.NewConsumer("g", topo, append(append(a.opts(), client.KgoOpts(w.cl.KgoOpts()...)), opts...)...)
	require.NoError(w, err)
	w.Cleanup(c.Abandon)
	return c
}

// work polls a consumer and marks what it gets; it commits only at the revocation.
func (w *world) work(a *app, opts ...client.Opt) *worker {
	w.Helper()
	return w.workOn(plain(w), a, opts...)
}

func (w *world) workOn(topo *topology.Topology, a *app, opts ...client.Opt) *worker {
	w.Helper()
	wk := &worker{app: a, w: w, ended: make(chan struct{}), seen: map[string][]string{}}
	if a.onRevoked == nil {
		a.onRevoked = func(ctx context.Context, _ []topology.TaskID) error { return wk.c.Commit(ctx) }
	}
	wk.c = w.consumer(topo, a, opts...)
	ctx, cancel := context.WithCancel(w.Context())
	wk.stop = cancel
	go func() {
		defer close(wk.ended)
		wk.err = wk.loop(ctx)
	}()
	w.Cleanup(func() {
		cancel()
		<-wk.ended
	})
	return wk
}

func (wk *worker) loop(ctx context.Context) error {
	for {
		fetches, err := wk.c.Poll(ctx)
		if err != nil {
			return err
		}
		for _, batch := range fetches.Tasks() {
			wk.mu.Lock()
			for _, r := range batch.Records {
				wk.seen[batch.Task.String()] = append(wk.seen[batch.Task.String()], string(r.Value))
			}
			wk.mu.Unlock()
			wk.c.MarkProcessed(batch.Records...)
		}
	}
}

// halt ends the goroutine that polls, so that the test may use the consumer.
func (wk *worker) halt() {
	wk.stop()
	<-wk.ended
}

// got returns what was seen since the last call.
func (wk *worker) got() map[string][]string {
	wk.mu.Lock()
	defer wk.mu.Unlock()
	out := wk.seen
	wk.seen = map[string][]string{}
	return out
}

// committed are the group's offsets of the topic "in", -1 for none.
func (w *world) committed() (at [4]int64) {
	w.Helper()
	resp, err := kadm.NewClient(w.client).FetchOffsets(w.Context(), "g")
	require.NoError(w, err)
	for p := range int32(4) {
		at[p] = -1
		if o, ok := resp.Lookup("in", p); ok {
			at[p] = o.At
		}
	}
	return at
}

func numbers(from, to int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, strconv.Itoa(i))
	}
	return out
}

func TestRecordsPerTask(t *testing.T) {
	inBubble(t, func(w *world) {
		w.produce("in", 0, 0, 3)
		w.produce("in", 2, 10, 2)
		wk := w.work(new(app))
		pass(time.Second)
		assert.Equal(w, map[string][]string{"0_0": numbers(0, 3), "0_2": numbers(10, 12)}, wk.got())
		w.produce("in", 2, 12, 1)
		pass(time.Second)
		assert.Equal(w, map[string][]string{"0_2": numbers(12, 13)}, wk.got())

		assert.Equal(w, [4]int64{-1, -1, -1, -1}, w.committed())
		wk.halt()
		require.NoError(w, wk.c.Commit(w.Context()))
		assert.Equal(w, [4]int64{3, -1, 3, -1}, w.committed())

		// Nothing new: no request.
		w.cl.ControlKey(8, func(kmsg.Request) (kmsg.Response, error, bool) { panic("a commit of nothing") })
		require.NoError(w, wk.c.Commit(w.Context()))
		require.NoError(w, wk.c.Close(w.Context()))
	})
}

// CC-132
func TestOC06CloseRevokesCommitsAndLeaves(t *testing.T) {
	inBubble(t, func(w *world) {
		w.produce("in", 1, 0, 5)
		wk := w.work(new(app))
		pass(time.Second)
		wk.took()
		wk.halt()
		require.ErrorIs(w, wk.err, context.Canceled)
		require.NoError(w, wk.c.Close(w.Context()))
		assert.Equal(w, []string{"revoked " + all}, wk.took())
		assert.Equal(w, [4]int64{-1, 5, -1, -1}, w.committed())
		assert.Empty(w, w.members("g"))
		_, err := wk.c.Poll(w.Context())
		require.ErrorIs(w, err, client.ErrClosed)
		require.NoError(w, wk.c.Close(w.Context()), "a second time is nothing")
		require.ErrorIs(w, wk.c.Client().Ping(w.Context()), kgo.ErrClientClosed)
	})
}

func TestCloseBeforePoll(t *testing.T) {
	inBubble(t, func(w *world) {
		a := new(app)
		c := w.consumer(plain(w), a)
		require.NoError(w, c.Close(w.Context()))
		_, err := c.Poll(w.Context())
		require.ErrorIs(w, err, client.ErrClosed)
		assert.Empty(w, a.took())
		assert.Equal(w, membership.Unsubscribed, c.Member().Snapshot().State)
	})
}

func TestCloseIsBoundedByItsContext(t *testing.T) {
	inBubble(t, func(w *world) {
		wk := w.work(&app{onRevoked: func(ctx context.Context, _ []topology.TaskID) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		pass(time.Second)
		wk.halt()
		ctx, cancel := context.WithTimeout(w.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		err := wk.c.Close(ctx)
		require.ErrorIs(w, err, context.DeadlineExceeded)
		assert.ErrorContains(w, err, `did not leave group "g" in time`)
		assert.InDelta(w, 2*time.Second, time.Since(began), float64(10*time.Millisecond))
	})
}

// rule TR-7: a new partition starts at what is committed
func TestTakeoverStartsFromWhatWasCommitted(t *testing.T) {
	inBubble(t, func(w *world) {
		for p := range int32(4) {
			w.produce("in", p, 0, 4)
		}
		one := w.work(new(app))
		pass(time.Second)
		assert.Len(w, one.got(), 4)
		two := w.work(new(app))
		pass(6 * interval)
		assert.Equal(w, 2, one.owns())
		assert.Equal(w, 2, two.owns())
		assert.Empty(w, two.got(), "all of it was committed at the revocation")
		for p := range int32(4) {
			w.produce("in", p, 4, 2)
		}
		pass(time.Second)
		union := one.got()
		for task, values := range two.got() {
			assert.NotContains(w, union, task)
			union[task] = values
		}
		assert.Len(w, union, 4)
		for task, values := range union {
			assert.Equal(w, numbers(4, 6), values, task)
		}
		// Crash: what one had not committed comes again.
		one.c.Abandon()
		<-one.ended
		require.ErrorIs(w, one.err, client.ErrAbandoned)
		pass(session + 3*interval)
		again := two.got()
		assert.Len(w, again, 2)
		for task, values := range again {
			assert.Contains(w, []int{2, 6}, len(values), task)
		}
	})
}

func TestCommitOfAFencedMember(t *testing.T) {
	inBubble(t, func(w *world) {
		w.produce("in", 0, 0, 3)
		one := w.work(new(app))
		pass(time.Second)
		one.halt()
		// The session ends behind its back.
		mend := w.control(one.c.Member().ID(), func(*kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			return nil, errors.New("cut"), true
		})
		pass(session)
		require.Empty(w, w.members("g"))
		err := one.c.Commit(w.Context())
		require.ErrorIs(w, err, client.ErrFenced)
		require.ErrorIs(w, err, kerr.UnknownMemberID)
		assert.ErrorContains(w, err, one.c.Member().ID())
		assert.ErrorContains(w, err, `"g"`)

		// It finds out, and has no epoch any more.
		mend()
		one.took()
		pass(interval)
		assert.ErrorIs(w, one.c.Commit(w.Context()), client.ErrFenced)
		assert.Equal(w, [4]int64{-1, -1, -1, -1}, w.committed())

		// The next poll gives the tasks up and takes them again, from the beginning.
		ctx, cancel := context.WithTimeout(w.Context(), interval)
		defer cancel()
		fetches, err := one.c.Poll(ctx)
		require.NoError(w, err)
		assert.Equal(w, []string{"lost " + all, "assigned " + all}, one.took())
		require.Len(w, fetches.Tasks(), 1)
		assert.Len(w, fetches.Tasks()[0].Records, 3)
		one.c.MarkProcessed(fetches.Tasks()[0].Records...)
		require.NoError(w, one.c.Commit(w.Context()))
		assert.Equal(w, [4]int64{3, -1, -1, -1}, w.committed())
	})
}

// What was fetched from a task before it was given up must not be committed
// afterwards: the member has a good epoch, and the broker would believe it.
func TestRecordsOfGivenUpTasksAreNotCommitted(t *testing.T) {
	inBubble(t, func(w *world) {
		for p := range int32(4) {
			w.produce("in", p, 0, 3)
		}
		a := new(app)
		one := w.consumer(plain(w), a)
		var stale []*kgo.Record
		for len(stale) < 12 {
			fetches, err := one.Poll(w.Context())
			require.NoError(w, err)
			for _, batch := range fetches.Tasks() {
				stale = append(stale, batch.Records...)
			}
		}
		w.work(new(app))
		ctx, cancel := context.WithTimeout(w.Context(), 6*interval)
		defer cancel()
		_, err := one.Poll(ctx)
		require.ErrorIs(w, err, context.DeadlineExceeded)
		require.Equal(w, 2, a.owns())

		one.MarkProcessed(stale...)
		require.NoError(w, one.Commit(w.Context()))
		for p, at := range w.committed() {
			if a.now[topology.TaskID{Subtopology: "0", Partition: int32(p)}] {
				assert.EqualValues(w, 3, at, p)
			} else {
				assert.EqualValues(w, -1, at, p)
			}
		}
	})
}

func TestStartAt(t *testing.T) {
	inBubble(t, func(w *world) {
		w.produce("in", 0, 0, 5)
		w.produce("in", 1, 0, 5)
		a := new(app)
		var c *client.Consumer
		a.onAssigned = func(context.Context, client.Assignment) error {
			c.StartAt("in", 0, 3)
			return nil
		}
		c = w.consumer(plain(w), a)
		got := map[string]int64{}
		for len(got) < 2 {
			fetches, err := c.Poll(w.Context())
			require.NoError(w, err)
			for _, batch := range fetches.Tasks() {
				got[batch.Task.String()] = batch.Records[0].Offset
			}
		}
		assert.Equal(w, map[string]int64{"0_0": 3, "0_1": 0}, got)
		require.NoError(w, c.Commit(w.Context()))
		assert.Equal(w, [4]int64{3, -1, -1, -1}, w.committed(), "what comes before counts as processed")
		require.NoError(w, c.Close(w.Context()))
	})
}

// A topic that vanishes makes the group not ready: nothing is fetched, and what was
// returned already does not come again.
func TestNothingIsFetchedWhileNotReady(t *testing.T) {
	inBubble(t, func(w *world) {
		var b topology.Builder
		topo, err := b.AddSource("source", "in", "other").AddProcessor("work", "source").Build("g")
		require.NoError(w, err)
		require.NoError(w, w.cl.CreateTopic("other", 4, nil))
		w.produce("in", 0, 0, 3)
		a := new(app)
		c := w.consumer(topo, a, client.MissingTopicsPatience(-1))
		fetches, err := c.Poll(w.Context())
		require.NoError(w, err)
		require.Len(w, fetches.Tasks(), 1)
		require.Len(w, fetches.Tasks()[0].Records, 3)
		assert.Equal(w, []string{"assigned " + all}, a.took())

		silence := func(d time.Duration) {
			ctx, cancel := context.WithTimeout(w.Context(), d)
			defer cancel()
			fetches, err := c.Poll(ctx)
			require.ErrorIs(w, err, context.DeadlineExceeded)
			require.Empty(w, fetches)
		}
		// Status 5, assignment delayed, leaves the tasks where they are.
		release := w.control(c.Member().ID(), func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			resp := req.ResponseKind().(*kmsg.StreamsGroupHeartbeatResponse)
			resp.MemberEpoch, resp.HeartbeatIntervalMillis = req.MemberEpoch, 5000
			resp.Status = []kmsg.StreamsGroupHeartbeatResponseStatus{{StatusCode: 5, StatusDetail: "wait"}}
			return resp, nil, true
		})
		silence(2 * interval)
		assert.Equal(w, []string{"assigned " + all + " not ready"}, a.took())
		w.produce("in", 0, 3, 2)
		silence(2 * interval)
		release()
		resume := w.control(c.Member().ID(), func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			resp := req.ResponseKind().(*kmsg.StreamsGroupHeartbeatResponse)
			resp.MemberEpoch, resp.HeartbeatIntervalMillis = req.MemberEpoch, 5000
			resp.Status = []kmsg.StreamsGroupHeartbeatResponseStatus{}
			return resp, nil, true
		})
		ctx, cancel := context.WithTimeout(w.Context(), 2*interval)
		defer cancel()
		fetches, err = c.Poll(ctx)
		require.NoError(w, err)
		resume()
		assert.Equal(w, []string{"assigned " + all}, a.took())
		require.Len(w, fetches.Tasks(), 1)
		require.Len(w, fetches.Tasks()[0].Records, 2)
		assert.EqualValues(w, 3, fetches.Tasks()[0].Records[0].Offset)

		// A source topic is deleted and comes back.
		require.NoError(w, w.cl.DeleteTopic("other"))
		silence(3 * interval)
		w.produce("in", 0, 5, 1)
		silence(3 * interval)
		assert.NotEmpty(w, a.took())
		require.NoError(w, w.cl.CreateTopic("other", 4, nil))
		ctx, cancel = context.WithTimeout(w.Context(), 3*interval)
		defer cancel()
		fetches, err = c.Poll(ctx)
		require.NoError(w, err)
		require.Len(w, fetches.Tasks(), 1)
		require.NoError(w, c.Close(w.Context()))
	})
}

// A topic that is deleted and created again starts anew: nothing of the old one is
// committed for it.
func TestTopicIsCreatedAgain(t *testing.T) {
	inBubble(t, func(w *world) {
		w.produce("in", 0, 0, 3)
		wk := w.work(new(app))
		pass(time.Second)
		assert.Len(w, wk.got()["0_0"], 3)
		require.NoError(w, w.cl.DeleteTopic("in"))
		require.NoError(w, w.cl.CreateTopic("in", 4, nil))
		pass(4 * interval)
		w.produce("in", 0, 100, 2)
		pass(4 * interval)
		select {
		case <-wk.ended:
			require.NoError(w, wk.err)
		default:
		}
		assert.Equal(w, numbers(100, 102), wk.got()["0_0"])
	})
}

func TestPollEndsWithItsContext(t *testing.T) {
	inBubble(t, func(w *world) {
		c := w.consumer(plain(w), new(app))
		for _, d := range []time.Duration{0, time.Millisecond, time.Second, 3 * time.Minute} {
			ctx, cancel := context.WithTimeout(w.Context(), d)
			began := time.Now()
			fetches, err := c.Poll(ctx)
			cancel()
			require.ErrorIs(w, err, context.DeadlineExceeded)
			assert.Empty(w, fetches)
			assert.Equal(w, d, time.Since(began))
		}
		assert.Equal(w, membership.StateStable, c.Member().Snapshot().State)
	})
}

// The guard is on: an application that is stuck loses its tasks, and gets them back
// when it comes round.
func TestStuckApplication(t *testing.T) {
	inBubble(t, func(w *world) {
		w.produce("in", 0, 0, 1)
		a := new(app)
		c := w.consumer(plain(w), a, client.MaxPollInterval(time.Minute))
		fetches, err := c.Poll(w.Context())
		require.NoError(w, err)
		a.took()
		pass(2 * time.Minute) // processing
		assert.Empty(w, w.members("g"))
		assert.Empty(w, a.took(), "callbacks run inside Poll")
		c.MarkProcessed(fetches.Tasks()[0].Records...)
		require.ErrorIs(w, c.Commit(w.Context()), client.ErrFenced)
		fetches, err = c.Poll(w.Context())
		require.NoError(w, err)
		assert.Equal(w, []string{"lost " + all, "assigned " + all}, a.took())
		assert.Len(w, fetches.Tasks(), 1, "it was not committed, so it comes again")

		// A loop that polls without getting anything is not stuck.
		ctx, cancel := context.WithTimeout(w.Context(), 10*time.Minute)
		defer cancel()
		_, err = c.Poll(ctx)
		require.ErrorIs(w, err, context.DeadlineExceeded)
		assert.Empty(w, a.took())
	})
}

func TestPollReturnsWhatEndedTheMember(t *testing.T) {
	t.Parallel()
	t.Run("callback error", func(t *testing.T) {
		inBubble(t, func(w *world) {
			boom := errors.New("boom")
			c := w.consumer(plain(w), &app{onAssigned: func(context.Context, client.Assignment) error { return boom }})
			for range 2 {
				_, err := c.Poll(w.Context())
				var e *membership.Error
				require.ErrorAs(w, err, &e)
				require.ErrorIs(w, err, boom)
			}
			require.ErrorIs(w, c.Close(w.Context()), boom)
		})
	})
	t.Run("panic", func(t *testing.T) {
		inBubble(t, func(w *world) {
			c := w.consumer(plain(w), &app{onAssigned: func(context.Context, client.Assignment) error { panic("ouch") }})
			_, err := c.Poll(w.Context())
			var p *client.PanicError
			require.ErrorAs(w, err, &p)
		})
	})
	t.Run("panic with an error", func(t *testing.T) {
		inBubble(t, func(w *world) {
			boom := errors.New("boom")
			c := w.consumer(plain(w), &app{onAssigned: func(context.Context, client.Assignment) error { panic(boom) }})
			_, err := c.Poll(w.Context())
			require.ErrorIs(w, err, boom)
		})
	})
	t.Run("client closed by the user", func(t *testing.T) {
		inBubble(t, func(w *world) {
			wk := w.work(new(app))
			pass(time.Second)
			wk.c.Client().Close()
			pass(interval + time.Second)
			<-wk.ended
			require.ErrorIs(w, wk.err, kgo.ErrClientClosed)
		})
	})
}

// A commit that is refused in "tasks revoked" does not end the member: what it was
// to give up belongs to somebody else by now.
func TestFencedCommitWhileRevoking(t *testing.T) {
	inBubble(t, func(w *world) {
		one := w.work(&app{onRevoked: func(context.Context, []topology.TaskID) error {
			return fmt.Errorf("commit: %w", client.ErrFenced)
		}})
		pass(time.Second)
		two := w.work(new(app))
		pass(5 * interval)
		assert.Len(w, w.members("g"), 2)
		select {
		case <-one.ended:
			require.Fail(w, "the member ended", "%v", one.err)
		default:
		}
		one.halt()
		two.halt()
	})
}

// Committed offsets are asked for until there is an answer: a passing failure does
// not end the member.
func TestOC03CommittedOffsetsAreAskedForAgain(t *testing.T) {
	t.Parallel()
	for _, code := range []*kerr.Error{kerr.StaleMemberEpoch, kerr.UnstableOffsetCommit, kerr.UnknownMemberID, kerr.NotCoordinator} {
		t.Run(code.Message, func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.produce("in", 0, 0, 1)
				var asked atomic.Int32
				w.cl.ControlKey(9, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
					w.cl.KeepControl()
					if asked.Add(1) > 3 {
						return nil, nil, false
					}
					resp := kreq.ResponseKind().(*kmsg.OffsetFetchResponse)
					g := kmsg.NewOffsetFetchResponseGroup()
					g.Group, g.ErrorCode = "g", code.Code
					resp.Groups = append(resp.Groups, g)
					return resp, nil, true
				})
				c := w.consumer(plain(w), new(app))
				fetches, err := c.Poll(w.Context())
				require.NoError(w, err)
				assert.Len(w, fetches.Tasks(), 1)
				assert.GreaterOrEqual(w, asked.Load(), int32(4))
			})
		})
	}
	t.Run("not authorized", func(t *testing.T) {
		inBubble(t, func(w *world) {
			w.cl.ControlKey(9, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				w.cl.KeepControl()
				resp := kreq.ResponseKind().(*kmsg.OffsetFetchResponse)
				g := kmsg.NewOffsetFetchResponseGroup()
				g.Group, g.ErrorCode = "g", kerr.GroupAuthorizationFailed.Code
				resp.Groups = append(resp.Groups, g)
				return resp, nil, true
			})
			c := w.consumer(plain(w), new(app))
			_, err := c.Poll(w.Context())
			require.ErrorIs(w, err, kerr.GroupAuthorizationFailed)
		})
	})
}

func TestRestoreChangelog(t *testing.T) {
	inBubble(t, func(w *world) {
		require.NoError(w, w.cl.CreateTopic("g-store-changelog", 4, nil))
		w.produce("g-store-changelog", 1, 0, 5)
		w.produce("in", 1, 0, 1)
		a := new(app)
		var c *client.Consumer
		restored := map[string][]string{}
		boom := errors.New("boom")
		a.onAssigned = func(ctx context.Context, as client.Assignment) error {
			if !as.Ready {
				return nil
			}
			for _, task := range as.Active {
				err := c.RestoreChangelog(ctx, task, func(r *kgo.Record) error {
					restored[task.String()] = append(restored[task.String()], string(r.Value))
					return nil
				})
				if err != nil {
					return err
				}
			}
			assert.ErrorIs(w, c.RestoreChangelog(ctx, topology.TaskID{Subtopology: "0", Partition: 1}, func(*kgo.Record) error { return boom }), boom)
			ended, cancel := context.WithCancel(ctx)
			cancel()
			assert.ErrorIs(w, c.RestoreChangelog(ended, topology.TaskID{Subtopology: "0", Partition: 1}, func(*kgo.Record) error { return nil }), context.Canceled)
			return nil
		}
		c = w.consumer(stateful(w), a)
		_, err := c.Poll(w.Context())
		require.NoError(w, err)
		assert.Equal(w, map[string][]string{"0_1": numbers(0, 5)}, restored)
		require.NoError(w, c.Close(w.Context()))
	})
}

// Aborted records are not restored, and transaction markers at the end are passed.
func TestRestoreChangelogWithTransactions(t *testing.T) {
	inBubble(t, func(w *world) {
		require.NoError(w, w.cl.CreateTopic("g-store-changelog", 4, nil))
		txn := w.dial(kgo.TransactionalID("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		for i, how := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit, kgo.TryAbort} {
			require.NoError(w, txn.BeginTransaction())
			require.NoError(w, txn.ProduceSync(w.Context(), &kgo.Record{Topic: "g-store-changelog", Value: fmt.Append(nil, i)}).FirstErr())
			require.NoError(w, txn.EndTransaction(w.Context(), how))
		}
		c := w.consumer(stateful(w), new(app))
		var got []string
		require.NoError(w, c.RestoreChangelog(w.Context(), topology.TaskID{Subtopology: "0", Partition: 0}, func(r *kgo.Record) error {
			got = append(got, string(r.Value))
			return nil
		}))
		assert.Equal(w, []string{"0", "2"}, got)
	})
}

func TestRestoreOfWhatIsNotThere(t *testing.T) {
	inBubble(t, func(w *world) {
		never := func(*kgo.Record) error { panic("there is nothing") }
		none := w.consumer(plain(w), new(app))
		require.NoError(w, none.RestoreChangelog(w.Context(), topology.TaskID{Subtopology: "0"}, never), "no store")
		require.NoError(w, w.cl.CreateTopic("g-store-changelog", 4, nil))
		c := w.consumer(stateful(w), new(app))
		require.NoError(w, c.RestoreChangelog(w.Context(), topology.TaskID{Subtopology: "0"}, never), "an empty changelog")
	})
}

// Close and Abandon may be called while another goroutine polls.
func TestAbandonWhilePolling(t *testing.T) {
	inBubble(t, func(w *world) {
		wk := w.work(new(app))
		pass(time.Second)
		wk.took()
		wk.c.Abandon()
		<-wk.ended
		require.ErrorIs(w, wk.err, client.ErrAbandoned)
		require.NoError(w, wk.c.Close(w.Context()))
		assert.Empty(w, wk.took())
		assert.Len(w, w.members("g"), 1)
	})
}

// Cutting the fetch connections and moving the coordinator loses
// and repeats nothing while the member stays in the group.
func TestConsumerRidesOutABadNetwork(t *testing.T) {
	inBubble(t, func(w *world) {
		wk := w.work(new(app))
		pass(time.Second)
		for i := range 5 {
			w.cl.ControlKey(1, func(kmsg.Request) (kmsg.Response, error, bool) { return nil, errors.New("cut"), true })
			w.cl.RehashCoordinators()
			for p := range int32(4) {
				w.produce("in", p, 10*i, 10)
			}
			pass(2 * interval)
		}
		for task, values := range wk.got() {
			assert.Equal(w, numbers(0, 50), values, task)
		}
		wk.halt()
		require.NoError(w, wk.c.Close(w.Context()))
		assert.Equal(w, [4]int64{50, 50, 50, 50}, w.committed())
	}, kfakeext.Nodes(3))
}

// The offsets of a group whose broker is gone are waited for, and the member leaves
// meanwhile if it is told to.
func TestCloseWhileStarting(t *testing.T) {
	inBubble(t, func(w *world) {
		w.cl.ControlKey(9, func(kmsg.Request) (kmsg.Response, error, bool) {
			w.cl.KeepControl()
			return nil, nil, true
		})
		wk := w.work(new(app), client.LeaveTimeout(3*time.Second))
		pass(time.Second)
		wk.stop()
		synctest.Wait()
		done := make(chan error, 1)
		go func() { <-wk.ended; done <- wk.c.Close(w.Context()) }()
		pass(time.Minute)
		select {
		case err := <-done:
			require.NoError(w, err)
		default:
			require.Fail(w, "Close hangs")
		}
	})
}

// A task reads its partition of every source topic of its subtopology: when it is
// revoked, all of them stop, and so they do when it is lost, without a commit.
func TestCC132CC136RevokedAndLostTasksStopAllTheirPartitions(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		t.Run(map[bool]string{false: "CC-132 revoked", true: "CC-136 lost"}[lost], func(t *testing.T) {
			inBubble(t, func(w *world) {
				require.NoError(w, w.cl.CreateTopic("other", 4, nil))
				topo, err := new(topology.Builder).AddSource("source", "in", "other").AddProcessor("work", "source").Build("g")
				require.NoError(w, err)
				wk := w.workOn(topo, new(app))
				pass(time.Second)
				w.produce("in", 0, 0, 2)
				w.produce("other", 0, 2, 2)
				pass(time.Second)
				assert.ElementsMatch(w, numbers(0, 4), wk.got()["0_0"])
				wk.took()
				if lost {
					w.once(wk.c.Member().ID(), kerr.FencedMemberEpoch.Code)
					pass(2 * interval)
					assert.Equal(w, []string{"lost " + all, "assigned " + all}, wk.took())
					assert.EqualValues(w, -1, w.committed()[0], "nothing is committed for what belongs to somebody else")
					assert.ElementsMatch(w, numbers(0, 4), wk.got()["0_0"], "so it comes again")
					return
				}
				w.script(reply{epoch: 3, lists: true, active: []int32{1}}, reply{epoch: 3})
				pass(2 * interval)
				assert.Equal(w, []string{"revoked [0_0 0_2 0_3]", "assigned [0_1]"}, wk.took())
				w.produce("in", 0, 10, 1)
				w.produce("other", 0, 11, 1)
				w.produce("other", 1, 12, 1)
				pass(interval)
				assert.Equal(w, map[string][]string{"0_1": {"12"}}, wk.got())
			})
		})
	}
}
