package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// deleteBefore deletes the records of a partition before an offset.
func (w *world) deleteBefore(topic string, partition int32, at int64) {
	w.Helper()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, Partition: partition, At: at})
	resp, err := kadm.NewClient(w.client).DeleteRecords(w.Context(), offsets)
	require.NoError(w, err)
	require.NoError(w, resp.Error())
}

// Records may be deleted while they are being restored: what is gone is not waited
// for.
func TestRestoreWhileRecordsAreDeleted(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]int64{"some are left": 8, "none is left": 10} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				require.NoError(w, w.cl.CreateTopic("g-store-changelog", 4, nil))
				w.produce("g-store-changelog", 1, 0, 10)
				c := w.consumer(stateful(w), new(app))
				deleted := false
				w.cl.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
					w.cl.KeepControl()
					if !deleted {
						deleted = true // between the look at the ends and the first fetch
						w.cl.SleepControl(func() { w.deleteBefore("g-store-changelog", 1, keep) })
					}
					return nil, nil, false
				})
				var got []string
				ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
				defer cancel()
				require.NoError(w, c.RestoreChangelog(ctx, topology.TaskID{Subtopology: "0", Partition: 1}, func(r *kgo.Record) error {
					got = append(got, string(r.Value))
					return nil
				}))
				assert.Equal(w, numbers(int(keep), 10), got)
			})
		})
	}
}

// A restore that takes longer than the max poll interval is no application that is
// stuck.
func TestRestoreCountsAsPolling(t *testing.T) {
	inBubble(t, func(w *world) {
		require.NoError(w, w.cl.CreateTopic("g-store-changelog", 4, nil))
		w.produce("g-store-changelog", 0, 0, 5)
		a := new(app)
		var c *client.Consumer
		a.onAssigned = func(ctx context.Context, as client.Assignment) error {
			if !as.Ready {
				return nil
			}
			return c.RestoreChangelog(ctx, topology.TaskID{Subtopology: "0"}, func(*kgo.Record) error { return nil })
		}
		c = w.consumer(stateful(w), a, client.MaxPollInterval(10*time.Second))
		slow := true
		w.cl.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
			w.cl.KeepControl()
			if slow {
				slow = false
				w.cl.SleepControl(func() { time.Sleep(8 * time.Second) })
				return nil, nil, true // no answer: kgo asks again after its time-out
			}
			return nil, nil, false
		})
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		_, err := c.Poll(ctx)
		require.ErrorIs(w, err, context.DeadlineExceeded)
		assert.Equal(w, membership.StateStable, c.Member().Snapshot().State)
		assert.NotContains(w, a.took(), "lost "+all)
	})
}

// A changelog that was just created may not be known everywhere: a restore waits for
// it, but not for ever.
func TestRestoreWaitsForAChangelog(t *testing.T) {
	t.Parallel()
	restore := func(w *world, c *client.Consumer) (records int, took time.Duration, err error) {
		began := time.Now()
		err = c.RestoreChangelog(w.Context(), topology.TaskID{Subtopology: "0", Partition: 1}, func(*kgo.Record) error {
			records++
			return nil
		})
		return records, time.Since(began), err
	}
	t.Run("that comes", func(t *testing.T) {
		inBubble(t, func(w *world) {
			c := w.consumer(stateful(w), new(app))
			time.AfterFunc(5*time.Second, func() {
				assert.NoError(w, w.cl.CreateTopic("g-store-changelog", 4, nil))
			})
			_, took, err := restore(w, c)
			require.NoError(w, err)
			assert.GreaterOrEqual(w, took, 5*time.Second)
			w.produce("g-store-changelog", 1, 0, 3)
			records, _, err := restore(w, c)
			require.NoError(w, err)
			assert.Equal(w, 3, records)
		})
	})
	t.Run("that does not come", func(t *testing.T) {
		inBubble(t, func(w *world) {
			_, took, err := restore(w, w.consumer(stateful(w), new(app)))
			require.ErrorIs(w, err, kerr.UnknownTopicOrPartition)
			assert.InDelta(w, 30, took.Seconds(), 10)
		})
	})
}
