package client_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// A new producer whose answer nobody has waited for is nobody else's: the member that
// asked for it is not replaced.
func TestOC05NewProducerIsGivenUp(t *testing.T) {
	withTransactions(t, func(w *world) {
		w.produce("in", 0, 0, 5)
		cp := w.copier()
		for cp.processed() < 5 {
			require.NoError(w, cp.once(w.Context()))
		}
		w.endInDoubt(false)
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		slow := true
		w.cl.ControlKey(kmsg.InitProducerID.Int16(), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			w.cl.KeepControl()
			if kreq.(*kmsg.InitProducerIDRequest).ProducerID < 0 && slow {
				slow = false
				req := *kreq.(*kmsg.InitProducerIDRequest)
				other := w.dial()
				w.cl.SleepControl(func() {
					_, _ = req.RequestWith(context.Background(), other)
					time.Sleep(3 * time.Second)
				})
				return nil, errors.New("cut"), true
			}
			return nil, nil, false
		})
		require.ErrorIs(w, cp.commit(ctx), client.ErrAborted)
		require.NoError(w, cp.c.Begin())
		ctx, cancel = context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		require.ErrorIs(w, cp.c.ProduceSync(ctx, &kgo.Record{Topic: "out"}).FirstErr(), context.DeadlineExceeded)
		require.False(w, slow)
		require.NoError(w, cp.c.Abort(w.Context()))
		pass(5 * time.Second)
		cp.start()
		pass(20 * time.Second)
		assert.NoError(w, cp.err)
		assert.ElementsMatch(w, numbers(0, 5), w.written())
		assert.Equal(w, []string{"assigned " + all}, cp.took())
	})
}

// The markers of a transaction reach the group before they reach a changelog
// (KAFKA-10167): what the former owner has written is waited for.
func TestRestoreWaitsForTheMarker(t *testing.T) {
	t.Parallel()
	for _, commit := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		t.Run(map[kgo.TransactionEndTry]string{kgo.TryCommit: "commit", kgo.TryAbort: "abort"}[commit], func(t *testing.T) {
			withTransactions(t, func(w *world) {
				require.NoError(w, w.cl.CreateTopic("g-store-changelog", 4, nil))
				w.produce("g-store-changelog", 1, 0, 3)
				former := w.dial(kgo.TransactionalID("former"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
				require.NoError(w, former.BeginTransaction())
				require.NoError(w, former.ProduceSync(w.Context(), &kgo.Record{Topic: "g-store-changelog", Partition: 1, Value: []byte("3")}).FirstErr())
				ended := make(chan error, 1)
				time.AfterFunc(5*time.Second, func() { ended <- former.EndTransaction(w.Context(), commit) })
				want := numbers(0, 3)
				if commit {
					want = numbers(0, 4)
				}
				c := w.consumer(stateful(w), new(app), client.ExactlyOnce())
				ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
				defer cancel()
				var got []string
				require.NoError(w, c.RestoreChangelog(ctx, topology.TaskID{Subtopology: "0", Partition: 1}, func(r *kgo.Record) error {
					got = append(got, string(r.Value))
					return nil
				}))
				require.NoError(w, <-ended)
				assert.Equal(w, want, got)
			})
		})
	}
}

// What StartAt said holds after a transaction in doubt as well.
func TestOC05StartAtAndATransactionInDoubt(t *testing.T) {
	t.Parallel()
	for _, taken := range []bool{true, false} {
		t.Run(map[bool]string{true: "taken", false: "not taken"}[taken], func(t *testing.T) {
			withTransactions(t, func(w *world) {
				w.produce("in", 0, 0, 10)
				_, err := client.AlterGroupOffsets(w.Context(), w.client, "g", map[string]map[int32]int64{"in": {0: 2}})
				require.NoError(w, err)
				cp := w.copier()
				cp.onAssigned = func(context.Context, client.Assignment) error {
					cp.c.StartAt("in", 0, 6)
					return nil
				}
				for cp.processed() < 4 {
					require.NoError(w, cp.once(w.Context()))
				}
				w.endInDoubt(taken)
				ctx, cancel := context.WithTimeout(w.Context(), time.Second)
				defer cancel()
				require.ErrorIs(w, cp.commit(ctx), client.ErrAborted)
				cp.start()
				pass(time.Minute)
				assert.Equal(w, numbers(6, 10), w.written())
				assert.Equal(w, [4]int64{10, -1, -1, -1}, w.committed())
			})
		})
	}
}

// endInDoubt has the first transaction end, or not, and nobody hear of it within two
// seconds.
func (w *world) endInDoubt(taken bool) {
	until := time.Now().Add(2 * time.Second)
	first, itself := taken, false
	w.cl.ControlKey(kmsg.EndTxn.Int16(), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		w.cl.KeepControl()
		if time.Now().After(until) || itself {
			itself = false
			return nil, nil, false
		}
		if first {
			first, itself = false, true
			req := *kreq.(*kmsg.EndTxnRequest)
			other := w.dial()
			w.cl.SleepControl(func() { _, _ = req.RequestWith(context.Background(), other) })
		}
		return nil, errors.New("cut"), true
	})
}

// A transaction is over whatever Commit returns, also while a plain commit is under way.
func TestOC05ContextEndsBehindAPlainCommit(t *testing.T) {
	withTransactions(t, func(w *world) {
		w.produce("in", 0, 0, 5)
		cp := w.copier()
		slow := true
		w.cl.ControlKey(kmsg.OffsetCommit.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
			w.cl.KeepControl()
			if slow {
				slow = false
				w.cl.SleepControl(func() { time.Sleep(5 * time.Second) })
			}
			return nil, nil, false
		})
		fetches, err := cp.c.Poll(w.Context())
		require.NoError(w, err)
		cp.c.MarkProcessed(fetches.Tasks()[0].Records...)
		short := func() context.Context {
			ctx, cancel := context.WithTimeout(w.Context(), time.Second)
			w.Cleanup(cancel)
			return ctx
		}
		require.ErrorIs(w, cp.commit(short()), context.DeadlineExceeded)
		w.produce("in", 1, 5, 5)
		for cp.processed() < 5 {
			require.NoError(w, cp.once(w.Context()))
		}
		require.ErrorIs(w, cp.commit(short()), client.ErrAborted)
		require.ErrorContains(w, cp.c.ProduceSync(w.Context(), &kgo.Record{Topic: "out"}).FirstErr(), "call Begin")
		cp.start()
		pass(20 * time.Second)
		assert.Subset(w, w.written(), numbers(5, 10))
	})
}

// An answer that says nothing about a partition is no success, and no partition without a
// committed offset.
func TestAnswersThatLeavePartitionsOut(t *testing.T) {
	t.Parallel()
	emptyOnce := func(w *world, key kmsg.Key) {
		used := false
		w.cl.ControlKey(key.Int16(), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			w.cl.KeepControl()
			if used {
				return nil, nil, false
			}
			used = true
			resp := kreq.ResponseKind()
			if r, ok := resp.(*kmsg.OffsetFetchResponse); ok {
				g := kmsg.NewOffsetFetchResponseGroup()
				g.Group = "g"
				r.Groups = append(r.Groups, g)
			}
			return resp, nil, true
		})
	}
	t.Run("OffsetCommit", func(t *testing.T) {
		withTransactions(t, func(w *world) {
			w.produce("in", 0, 0, 5)
			c := w.consumer(plain(w), new(app))
			fetches, err := c.Poll(w.Context())
			require.NoError(w, err)
			c.MarkProcessed(fetches.Tasks()[0].Records...)
			emptyOnce(w, kmsg.OffsetCommit)
			require.ErrorIs(w, c.Commit(w.Context()), kerr.UnknownServerError)
			require.NoError(w, c.Commit(w.Context()))
			assert.Equal(w, [4]int64{5, -1, -1, -1}, w.committed())
		})
	})
	t.Run("TxnOffsetCommit", func(t *testing.T) {
		withTransactions(t, func(w *world) {
			w.produce("in", 0, 0, 5)
			cp := w.copier()
			for cp.processed() < 5 {
				require.NoError(w, cp.once(w.Context()))
			}
			emptyOnce(w, kmsg.TxnOffsetCommit)
			require.ErrorIs(w, cp.commit(w.Context()), client.ErrAborted)
			cp.start()
			pass(10 * time.Second)
			assert.Equal(w, numbers(0, 5), w.written())
			assert.Equal(w, [4]int64{5, -1, -1, -1}, w.committed())
		})
	})
	t.Run("OffsetFetch", func(t *testing.T) {
		withTransactions(t, func(w *world) {
			w.produce("in", 0, 0, 5)
			_, err := client.AlterGroupOffsets(w.Context(), w.client, "g", map[string]map[int32]int64{"in": {0: 3}})
			require.NoError(w, err)
			c := w.consumer(plain(w), new(app))
			emptyOnce(w, kmsg.OffsetFetch)
			_, err = c.Poll(w.Context())
			require.ErrorIs(w, err, kerr.UnknownServerError)
			fetches, err := c.Poll(w.Context())
			require.NoError(w, err)
			assert.EqualValues(w, 3, fetches.Tasks()[0].Records[0].Offset)
		})
	})
	t.Run("AlterGroupOffsets", func(t *testing.T) {
		withTransactions(t, func(w *world) {
			emptyOnce(w, kmsg.OffsetCommit)
			results, err := client.AlterGroupOffsets(w.Context(), w.client, "g", map[string]map[int32]int64{"in": {0: 2}})
			require.NoError(w, err)
			require.ErrorIs(w, results.Err(), kerr.UnknownServerError)
		})
	})
	t.Run("DeleteGroupOffsets", func(t *testing.T) {
		withTransactions(t, func(w *world) {
			emptyOnce(w, kmsg.OffsetDelete)
			results, err := client.DeleteGroupOffsets(w.Context(), w.client, "g", map[string][]int32{"in": {0}})
			require.NoError(w, err)
			require.ErrorIs(w, results.Err(), kerr.UnknownServerError)
		})
	})
}

// A member chooses how many partitions a repartition topic is to have. To explain its
// group must not take all memory.
func TestExplainTasksOfATopicThatIsTooLarge(t *testing.T) {
	t.Parallel()
	topic := kmsg.NewTopicInfo()
	topic.Topic, topic.NumPartitions = "g-large-repartition", math.MaxInt32
	sub := kmsg.NewStreamsGroupDescribeResponseGroupTopologySubtopology()
	sub.SubtopologyID = "0"
	sub.RepartitionSourceTopics = append(sub.RepartitionSourceTopics, topic)
	topo := kmsg.NewStreamsGroupDescribeResponseGroupTopology()
	topo.Subtopologies = append(topo.Subtopologies, sub)
	d := &client.GroupDescription{}
	d.Topology = &topo
	assert.Len(t, client.ExplainTasks(d, nil), 10_000)
	assert.Len(t, client.ExplainTasks(d, map[string]int32{topic.Topic: 20_000}), 20_000)
}

// A shift that is too large for a number is one beyond the end.
func TestShiftBeyondAllOffsets(t *testing.T) {
	t.Parallel()
	for shift, want := range map[int64]int64{math.MaxInt64: 9, math.MinInt64: 2} {
		planned, err := client.ShiftBy(shift).Plan(client.PartitionRange{Start: 2, End: 9, Committed: 5, AtTime: -1})
		require.NoError(t, err)
		assert.Equal(t, want, planned.Offset)
		assert.NotEmpty(t, planned.Warning())
	}
}

// A member learns while its tasks are revoked that another producer has its id: that is how it
// ends, and not with a failed callback.
func TestOC05ReplacedWhileTasksAreRevoked(t *testing.T) {
	withTransactions(t, func(w *world) {
		w.produce("in", 0, 0, 10)
		one := w.copier(client.TransactionalID("one"))
		for one.processed() < 10 {
			require.NoError(w, one.once(w.Context()))
		}
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = kmsg.StringPtr("one"), 10_000
		_, err := req.RequestWith(w.Context(), w.client)
		require.NoError(w, err)
		w.copies(client.TransactionalID("two"))
		for err = nil; err == nil; {
			_, err = one.c.Poll(w.Context()) // in which tasks are revoked
		}
		require.ErrorIs(w, err, client.ErrReplaced)
		var e *membership.Error
		require.NotErrorAs(w, err, &e)
		pass(time.Second)
		require.NoError(w, one.c.Close(w.Context()))
		pass(session)
		assert.ElementsMatch(w, numbers(0, 10), w.written())
	})
}
