package client_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Records that are left in a repartition topic are counted, and what was deleted because
// it had been read is not among them.
func TestUpgradeCountsUnreadRecords(t *testing.T) {
	const hop = "g-hop-repartition"
	type step func(w *world, old *upgrading)
	commit := func(w *world, p int32, at int64) {
		offsets := kadm.Offsets{}
		offsets.AddOffset(hop, p, at, -1)
		resp, err := kadm.NewClient(w.client).CommitOffsets(w.Context(), "g", offsets)
		require.NoError(w, err)
		require.NoError(w, resp.Error())
	}
	drained := func(w *world, old *upgrading) {
		old.leave()
		require.NoError(w, old.result())
		commit(w, 0, 5)
		commit(w, 1, 3)
	}
	for _, c := range []struct {
		name   string
		older  func(*topology.Builder)
		do     step
		unread int64
		says   string // empty: it joins
	}{
		{"nothing is committed", hopping("in", "hop"), nil, 8, "which has 8 unread records"},
		{"some is", draining("in", "hop"), func(w *world, old *upgrading) {
			old.leave()
			require.NoError(w, old.result())
			commit(w, 0, 4)
		}, 4, "which has 4 unread records"},
		{"it was deleted", hopping("in", "hop"), func(w *world, old *upgrading) {
			offsets := kadm.Offsets{}
			offsets.AddOffset(hop, 0, 3, -1)
			resp, err := kadm.NewClient(w.client).DeleteRecords(w.Context(), offsets)
			require.NoError(w, err)
			require.NoError(w, resp.Error())
		}, 5, "which has 5 unread records"},
		{"all is read, and members still write", hopping("in", "hop"), func(w *world, old *upgrading) {
			drained(w, old)
			w.launch(version(w, 0, hopping("in", "hop")))
			pass(interval)
		}, 0, "still write to"},
		{"all is read, and nobody writes", hopping("in", "hop"), drained, 0, ""},
		{"all is read but the marks of transactions", draining("in", "hop"), func(w *world, old *upgrading) {
			drained(w, old)
			w.transact(hop, 1, 4, kgo.TryCommit)
			w.transact(hop, 1, 3, kgo.TryAbort)
			commit(w, 1, 7) // the last record, and no mark
		}, 0, ""},
		{"records and marks of transactions", draining("in", "hop"), func(w *world, old *upgrading) {
			drained(w, old)
			w.transact(hop, 1, 4, kgo.TryCommit)
			w.transact(hop, 1, 3, kgo.TryAbort)
		}, 4, "which has 4 unread records"},
		{"more than is looked at", draining("in", "hop"), func(w *world, old *upgrading) {
			drained(w, old)
			w.transact(hop, 1, 100, kgo.TryCommit)
		}, 101, "which has 101 unread records"},
		{"all is read, and no version writes", draining("in", "hop"), drained, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				old := w.launch(version(w, 0, c.older))
				pass(3 * interval)
				w.produce(hop, 0, 0, 5)
				w.produce(hop, 1, 0, 3)
				if c.do != nil {
					c.do(w, old)
				}
				u := w.launch(version(w, 1, reading("in")))
				pass(2 * interval)
				require.Len(w, u.comparisons(), 1)
				assert.Equal(w, map[string]int64{hop: c.unread}, u.comparisons()[0].Unread)
				if c.says == "" {
					u.goesOn()
					return
				}
				e := u.refused()
				_, err := client.CheckUpgrade(w.Context(), w.client, "g", version(w, 1, reading("in")))
				require.EqualError(w, err, e.Error(), "who asks before hears the same")
				assert.Equal(w, []topology.FindingKind{topology.UnreadRecords}, kindsOf(e.Findings))
				assert.Equal(w, map[string]int64{hop: c.unread}, e.Unread)
				require.ErrorContains(w, u.err, c.says)
				logger := new(lines)
				yes := w.launch(version(w, 1, reading("in")), client.AllowUpgrade(1, topology.UnreadRecords), client.WithLogger(logger))
				pass(interval)
				yes.goesOn()
				assert.Contains(w, logger.text(), c.says, "it is never silent")
			})
		})
	}
}

// transact writes records in one transaction.
func (w *world) transact(topic string, partition int32, n int, end kgo.TransactionEndTry) {
	w.Helper()
	cl := w.dial(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("t"))
	require.NoError(w, cl.BeginTransaction())
	for range n {
		require.NoError(w, cl.ProduceSync(w.Context(), &kgo.Record{Topic: topic, Partition: partition}).FirstErr())
	}
	require.NoError(w, cl.EndTransaction(w.Context(), end))
}

// What cannot be counted is not known, and does not pass for nothing.
func TestUpgradeWithoutOffsets(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.Metadata, kmsg.ListOffsets, kmsg.OffsetFetch} {
		t.Run(key.Name(), func(t *testing.T) {
			inBubble(t, func(w *world) {
				old := w.launch(version(w, 0, draining("in", "hop")))
				pass(3 * interval)
				old.leave()
				require.NoError(w, old.result())
				cl := w.dial()
				require.NoError(w, cl.Ping(w.Context()))
				w.cl.Intercept(func(kreq kmsg.Request) (kmsg.Response, error, bool) {
					switch req := kreq.(type) {
					case *kmsg.MetadataRequest:
						if key == kmsg.Metadata && len(req.Topics) > 1 {
							return nil, kerr.UnknownServerError, true
						}
					case *kmsg.ListOffsetsRequest:
						resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
						if key == kmsg.ListOffsets {
							rt := kmsg.NewListOffsetsResponseTopic()
							rt.Topic = "g-hop-repartition"
							rt.Partitions = append(rt.Partitions, kmsg.ListOffsetsResponseTopicPartition{ErrorCode: kerr.TopicAuthorizationFailed.Code})
							resp.Topics = append(resp.Topics, rt)
							return resp, nil, true
						}
					case *kmsg.OffsetFetchRequest:
						if key == kmsg.OffsetFetch {
							resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
							rg := kmsg.NewOffsetFetchResponseGroup()
							rg.Group, rg.ErrorCode = "g", kerr.GroupAuthorizationFailed.Code
							resp.Groups = append(resp.Groups, rg)
							return resp, nil, true
						}
					}
					return nil, nil, false
				})
				u := w.launch(version(w, 1, reading("in")))
				pass(time.Minute)
				e := u.refused()
				assert.Nil(w, e.Unread)
				assert.ErrorContains(w, u.err, "it is not known whether it has unread records")
			})
		})
	}
}

// Source patterns are compared by what they match: a description has only that.
func TestUpgradeWithPatterns(t *testing.T) {
	pattern := func(b *topology.Builder) {
		b.AddSourcePattern("s", "lo.*").AddProcessor("p", "s").AddStateStore(topology.Store{Name: "a"}, "p")
	}
	inBubble(t, func(w *world) {
		w.launch(version(w, 0, pattern))
		pass(3 * interval)
		u := w.launch(version(w, 1, reading("in"), pattern))
		pass(2 * interval)
		u.goesOn()
		assert.Contains(w, u.comparisons()[0].Difference.String(), "renumbered 0 -> 1 (2 tasks)")
	}, kfakeext.Topic("log-a", 2), kfakeext.Topic("log-b", 2), kfakeext.Topic("__lo", 1))
	t.Run("topics that are not to be had yet are asked for again", func(t *testing.T) {
		inBubble(t, func(w *world) {
			w.launch(version(w, 0, pattern))
			pass(3 * interval)
			until, refused := time.Now().Add(time.Minute), 0
			w.cl.Intercept(func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				req, ok := kreq.(*kmsg.MetadataRequest)
				if !ok || req.Topics != nil || time.Now().After(until) {
					return nil, nil, false
				}
				refused++
				return nil, errors.New("cut"), true
			})
			u := w.launch(version(w, 1, func(b *topology.Builder) {
				b.AddSourcePattern("s", "lo.*").AddProcessor("p", "s").AddStateStore(topology.Store{Name: "b"}, "p")
			}))
			pass(2 * time.Minute)
			assert.NotZero(w, refused)
			assert.Equal(w, []topology.FindingKind{topology.StoresChanged}, kindsOf(u.refused().Findings))
		}, kfakeext.Topic("log-a", 2))
	})
	t.Run("not ready", func(t *testing.T) {
		inBubble(t, func(w *world) {
			w.launch(version(w, 0, pattern), client.MissingTopicsPatience(-1))
			pass(3 * interval)
			u := w.launch(version(w, 1, pattern), client.MissingTopicsPatience(-1))
			pass(2 * interval)
			u.goesOn()
		})
	})
}

// lines is a log.
type lines struct {
	mu  sync.Mutex
	all string
}

func (*lines) Level() kgo.LogLevel { return kgo.LogLevelInfo }

func (l *lines) Log(_ kgo.LogLevel, msg string, keyvals ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all += msg + " " + fmt.Sprint(keyvals...) + "\n"
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all
}
