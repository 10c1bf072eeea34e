package kfakeext_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (w *wire) initProducer(id string, pid int64, epoch int16) *kmsg.InitProducerIDResponse {
	w.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &id, 2000
	req.ProducerID, req.ProducerEpoch = pid, epoch
	return w.ask(w.cl.CoordinatorFor(id), req).(*kmsg.InitProducerIDResponse)
}

func (w *wire) endTxn(id string, p *kmsg.InitProducerIDResponse, commit bool) {
	w.Helper()
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = id, p.ProducerID, p.ProducerEpoch, commit
	require.Zero(w, w.ask(w.cl.CoordinatorFor(id), req).(*kmsg.EndTxnResponse).ErrorCode)
}

// txnCommit commits an offset of foo-0 for m1 in a transaction.
func (w *wire) txnCommit(id string, p *kmsg.InitProducerIDResponse, group string, offset int64) int16 {
	w.Helper()
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = id, p.ProducerID, p.ProducerEpoch
	req.Group, req.MemberID, req.Generation = group, "m1", 2
	t := kmsg.NewTxnOffsetCommitRequestTopic()
	t.Topic, t.TopicID = "foo", w.cl.TopicInfo("foo").TopicID
	rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	rp.Offset = offset
	t.Partitions = append(t.Partitions, rp)
	req.Topics = append(req.Topics, t)
	return w.home(group, req).(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

// stable asks for the offset of foo-0 that no transaction can change any more.
func (w *wire) stable(group string) kmsg.OffsetFetchResponseGroupTopicPartition {
	w.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	g := fetch(group, nil, -1)
	g.Topics[0].TopicID = w.cl.TopicInfo("foo").TopicID
	req.Groups = append(req.Groups, g)
	return w.home(group, req).(*kmsg.OffsetFetchResponse).Groups[0].Topics[0].Partitions[0]
}

// A producer may come back with its own id and an old epoch, unless another one has begun
// with the transactional id. kfake alone grants that as well.
func TestReplacedProducerStaysOut(t *testing.T) {
	inBubble(t, func(w *wire) {
		first := w.initProducer("id", -1, -1)
		require.Zero(w, first.ErrorCode)
		back := w.initProducer("id", first.ProducerID, first.ProducerEpoch)
		require.Zero(w, back.ErrorCode)
		second := w.initProducer("id", -1, -1)
		require.Zero(w, second.ErrorCode)
		for _, epoch := range []int16{first.ProducerEpoch, back.ProducerEpoch} {
			assert.Equal(w, kerr.ProducerFenced.Code, w.initProducer("id", first.ProducerID, epoch).ErrorCode)
		}
		assert.Zero(w, w.initProducer("id", second.ProducerID, second.ProducerEpoch).ErrorCode)
		assert.Zero(w, w.initProducer("another", -1, -1).ErrorCode)
	})
}

// The first offsets of a group are unstable while their transaction is open, although
// kfake does not know the group yet.
func TestFirstOffsetsOfAGroupInATransaction(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *wire, p *kmsg.InitProducerIDResponse){
		"commit": func(w *wire, p *kmsg.InitProducerIDResponse) { w.endTxn("id", p, true) },
		"abort":  func(w *wire, p *kmsg.InitProducerIDResponse) { w.endTxn("id", p, false) },
		"another producer": func(w *wire, _ *kmsg.InitProducerIDResponse) {
			require.Zero(w, w.initProducer("id", -1, -1).ErrorCode)
		},
		"too late": func(*wire, *kmsg.InitProducerIDResponse) { time.Sleep(3 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *wire) {
				w.ok(join("g", "m1", "foo"))
				p := w.initProducer("id", -1, -1)
				require.Zero(w, w.txnCommit("id", p, "g", 7))
				assert.Equal(w, kerr.UnstableOffsetCommit.Code, w.stable("g").ErrorCode)
				end(w, p)
				at := w.stable("g")
				assert.Zero(w, at.ErrorCode)
				want := int64(-1)
				if name == "commit" {
					want = 7
				}
				assert.Equal(w, want, at.Offset)
			})
		})
	}
}

// What a replaced producer wants to commit is refused, and so it makes nothing unstable.
func TestOffsetsOfAReplacedProducer(t *testing.T) {
	inBubble(t, func(w *wire) {
		w.ok(join("g", "m1", "foo"))
		old := w.initProducer("id", -1, -1)
		require.Zero(w, w.initProducer("id", -1, -1).ErrorCode)
		require.NotZero(w, w.txnCommit("id", old, "g", 7))
		at := w.stable("g")
		assert.Zero(w, at.ErrorCode)
		assert.EqualValues(w, -1, at.Offset)
	})
}
