package kfakeext_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/kfakeext"
)

// withAndWithoutEdits runs fn with the edits that Java needs and without. The
// second shows that kfake still needs them: when it fails, the edit can go.
func withAndWithoutEdits(t *testing.T, fn func(w *wire, edits bool), opts ...kfakeext.Opt) {
	t.Helper()
	for _, edits := range []bool{true, false} {
		t.Run(fmt.Sprintf("edits %t", edits), func(t *testing.T) {
			inBubble(t, func(w *wire) { fn(w, edits) }, append(slices.Clone(opts), kfakeext.JavaEdits(edits))...)
		})
	}
}

func TestJavaCreateTopicsSettings(t *testing.T) {
	t.Parallel()
	withAndWithoutEdits(t, func(w *wire, edits bool) {
		req := kmsg.NewPtrCreateTopicsRequest()
		compact := kmsg.NewCreateTopicsRequestTopicConfig()
		compact.Name, compact.Value = "cleanup.policy", kmsg.StringPtr("compact")
		for _, name := range []string{"plain", "compacted"} {
			topic := kmsg.NewCreateTopicsRequestTopic()
			topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
			req.Topics = append(req.Topics, topic)
		}
		req.Topics[1].Configs = []kmsg.CreateTopicsRequestTopicConfig{compact}
		resp := w.ask(0, req).(*kmsg.CreateTopicsResponse)
		require.Len(w, resp.Topics, 2)
		assert.Equal(w, edits, resp.Topics[0].Configs != nil, "no settings are an empty list")
		require.Len(w, resp.Topics[1].Configs, 1)
		assert.Equal(w, edits, resp.Topics[1].Configs[0].Source == 1, "source %d", resp.Topics[1].Configs[0].Source)
	})
}

func TestJavaDescribeTopicPartitionsReplicas(t *testing.T) {
	t.Parallel()
	withAndWithoutEdits(t, func(w *wire, edits bool) {
		resp := w.ask(0, kmsg.NewPtrDescribeTopicPartitionsRequest()).(*kmsg.DescribeTopicPartitionsResponse)
		require.Len(w, resp.Topics, 2)
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				assert.Equal(w, edits, p.EligibleLeaderReplicas != nil)
				assert.Equal(w, edits, p.LastKnownELR != nil)
			}
		}
	})
}

// endOf asks the leader of partition 0 of a topic where an epoch has ended.
func (w *wire) endOf(topic string, epoch int32) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	w.Helper()
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
	rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	rt.Topic, rp.LeaderEpoch = topic, epoch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp := w.ask(w.cl.LeaderFor(topic, 0), req).(*kmsg.OffsetForLeaderEpochResponse)
	require.Len(w, resp.Topics, 1)
	return resp.Topics[0].Partitions[0]
}

func (w *wire) produce(topic string, records int) {
	w.Helper()
	for i := range records {
		r := &kgo.Record{Topic: topic, Value: fmt.Append(nil, i)}
		require.NoError(w, w.client.ProduceSync(w.Context(), r).FirstErr())
	}
}

// move moves partition 0 of a topic to another node.
func (w *wire) move(topic string) {
	w.Helper()
	node := (w.cl.LeaderFor(topic, 0) + 1) % int32(len(w.cl.Addrs()))
	require.NoError(w, w.cl.MoveTopicPartition(topic, 0, node))
}

func TestJavaEndOfEpochAfterLeaderMove(t *testing.T) {
	t.Parallel()
	withAndWithoutEdits(t, func(w *wire, edits bool) {
		w.produce("one", 5)
		first := w.cl.PartitionInfo("one", 0).Epoch
		w.move("one")
		if at := w.endOf("one", first); edits {
			assert.Equal(w, first, at.LeaderEpoch)
			assert.Equal(w, int64(5), at.EndOffset)
		} else {
			assert.Equal(w, int64(-1), at.EndOffset)
		}
		// What kfake knows itself stays as it is.
		assert.Equal(w, int64(5), w.endOf("one", first+1).EndOffset)
		assert.Equal(w, int64(-1), w.endOf("one", first+2).EndOffset)
		w.produce("one", 2)
		assert.Equal(w, int64(5), w.endOf("one", first).EndOffset)
		assert.Equal(w, int64(7), w.endOf("one", first+1).EndOffset)
	}, kfakeext.Nodes(2), kfakeext.Topic("one", 1))
}

// Kafka Streams purges what it has read of its repartition topics.
func TestJavaEndOfEpochOfPurgedPartition(t *testing.T) {
	t.Parallel()
	withAndWithoutEdits(t, func(w *wire, edits bool) {
		w.produce("one", 5)
		first := w.cl.PartitionInfo("one", 0).Epoch
		req := kmsg.NewPtrDeleteRecordsRequest()
		rt := kmsg.NewDeleteRecordsRequestTopic()
		rp := kmsg.NewDeleteRecordsRequestTopicPartition()
		rt.Topic, rp.Offset = "one", -1
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		resp := w.ask(w.cl.LeaderFor("one", 0), req).(*kmsg.DeleteRecordsResponse)
		code(w.T, nil, resp.Topics[0].Partitions[0].ErrorCode)
		w.move("one")
		if at := w.endOf("one", first); edits {
			assert.Equal(w, int64(5), at.EndOffset)
		} else {
			assert.Equal(w, int64(0), at.EndOffset)
		}
	}, kfakeext.Nodes(2), kfakeext.Topic("one", 1))
}

// compact produces to partition 0 of a compacted topic in one epoch, moves the
// leader, and produces the same keys in the next, so that nothing remains of the
// first. It returns the first epoch and the offset at which it ended.
func (w *wire) compact(topic string) (epoch int32, end int64) {
	w.Helper()
	produce := func() {
		for i := range 3 {
			r := &kgo.Record{Topic: topic, Key: fmt.Append(nil, i), Value: []byte("x")}
			require.NoError(w, w.client.ProduceSync(w.Context(), r).FirstErr())
		}
	}
	produce()
	before := w.cl.PartitionInfo(topic, 0)
	w.move(topic)
	produce()
	produce()
	w.cl.Compact()
	return before.Epoch, before.HighWatermark
}

// Changelogs of Kafka Streams are compacted. What kfake says of an epoch of which
// nothing is left is good enough.
func TestJavaEndOfEpochOfCompactedPartition(t *testing.T) {
	t.Parallel()
	withAndWithoutEdits(t, func(w *wire, _ bool) {
		require.NoError(w, w.cl.CreateTopic("compacted", 1, map[string]string{"cleanup.policy": "compact"}))
		first, end := w.compact("compacted")
		require.Equal(w, int64(3), end)
		at := w.endOf("compacted", first)
		assert.Equal(w, first, at.LeaderEpoch)
		assert.GreaterOrEqual(w, at.EndOffset, end, "or a consumer at the end of the epoch would go back")
		// Whoever is ahead of the log, in whatever epoch, is told so.
		assert.Equal(w, int64(9), w.endOf("compacted", first+1).EndOffset)
	}, kfakeext.Nodes(2))
}

// A kgo consumer, too, asks where its epoch ended when the leader has moved. On
// kfake's answer it goes back and reads again.
func TestKgoReadsOnceAcrossLeaderMove(t *testing.T) {
	t.Parallel()
	withAndWithoutEdits(t, func(w *wire, edits bool) {
		consumer, err := kgo.NewClient(append(w.cl.KgoOpts(),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"one": {0: kgo.NewOffset().At(0)}}),
			kgo.MetadataMinAge(10*time.Millisecond), kgo.MetadataMaxAge(time.Second))...)
		require.NoError(w, err)
		defer consumer.Close()
		var read []int64
		lost := 0
		go func() {
			for {
				fetches := consumer.PollFetches(w.Context())
				if fetches.IsClientClosed() {
					return
				}
				lost += len(fetches.Errors())
				fetches.EachRecord(func(r *kgo.Record) { read = append(read, r.Offset) })
			}
		}()
		w.produce("one", 5)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Equal(w, []int64{0, 1, 2, 3, 4}, read)
		w.move("one")
		time.Sleep(10 * time.Second)
		w.produce("one", 1)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if edits {
			assert.Equal(w, []int64{0, 1, 2, 3, 4, 5}, read)
			assert.Zero(w, lost)
		} else {
			assert.Equal(w, []int64{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5}, read)
		}
	}, kfakeext.Nodes(2), kfakeext.Topic("one", 1))
}
