package kfakeext_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/kfakeext"
)

// anHour keeps offsets for an hour and looks at them every ten minutes.
var anHour = kfakeext.BrokerConfig("offsets.retention.minutes", "60")

// live sends a member's heartbeats for a while.
func (w *wire) live(group, member string, epoch int32, d time.Duration) {
	w.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Second) {
		w.ok(beat(group, member, epoch))
	}
}

func TestRule17OffsetsExpire(t *testing.T) {
	inBubble(t, func(w *wire) {
		code(w.T, nil, w.commit("g", "", -1, 9, "foo", 0, 1)) // before there is a streams group
		code(w.T, nil, w.commit("g", "", -1, 9, "bar", 0))
		code(w.T, nil, w.commit("simple", "", -1, 9, "foo", 0))
		epoch := w.ok(join("g", "m1", "foo")).MemberEpoch
		w.live("g", "m1", epoch, 3*time.Hour)

		// rule 17.3-3: those of subscribed topics stay, the others expire (O-23).
		commits := w.cl.GroupInfo("g").Commits
		assert.Len(w, commits["foo"], 2)
		assert.EqualValues(w, 101, commits["foo"][1].Offset)
		assert.NotContains(w, commits, "bar")
		assert.Nil(w, w.cl.GroupInfo("simple"), "groups of other types are kfake's business")

		// Those of later commits, too.
		code(w.T, nil, w.commit("g", "m1", epoch, 9, "foo", 2))
		w.live("g", "m1", epoch, 2*time.Hour)
		assert.Len(w, w.cl.GroupInfo("g").Commits["foo"], 3)

		// rule 17.3-4: without members they expire, and the group goes with them.
		w.ok(beat("g", "m1", -1))
		time.Sleep(10 * time.Minute)
		assert.Equal(w, "Empty", w.describe("g").State)
		time.Sleep(2 * time.Hour)
		code(w.T, kerr.GroupIDNotFound, w.describe("g").ErrorCode)
		assert.Nil(w, w.cl.GroupInfo("g"))
	}, anHour)
}

func TestRule17EmptyGroupsGo(t *testing.T) {
	inBubble(t, func(w *wire) {
		w.ok(join("g", "m1", "foo"))
		w.ok(beat("g", "m1", -1))
		assert.Equal(w, "Empty", w.describe("g").State)
		time.Sleep(15 * time.Minute)
		code(w.T, kerr.GroupIDNotFound, w.describe("g").ErrorCode)

		// A static member that is away is a member.
		req := join("static", "m1", "foo")
		req.InstanceID = kmsg.StringPtr("i1")
		w.ok(req)
		away := beat("static", "m1", -2)
		away.InstanceID = req.InstanceID
		w.ok(away)
		time.Sleep(30 * time.Second)
		assert.Equal(w, "Reconciling", w.describe("static").State)
	})
}

// What an open transaction may still commit keeps the group.
func TestRule17OpenTransactionKeepsTheGroup(t *testing.T) {
	inBubble(t, func(w *wire) {
		epoch := w.ok(join("g", "m1", "foo")).MemberEpoch
		init := kmsg.NewPtrInitProducerIDRequest()
		init.TransactionalID, init.TransactionTimeoutMillis = kmsg.StringPtr("tx"), 15*60_000
		id := w.home("tx", init).(*kmsg.InitProducerIDResponse)
		code(w.T, nil, id.ErrorCode)
		add := kmsg.NewPtrAddOffsetsToTxnRequest()
		add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = "tx", id.ProducerID, id.ProducerEpoch, "g"
		code(w.T, nil, w.home("tx", add).(*kmsg.AddOffsetsToTxnResponse).ErrorCode)
		tx := kmsg.NewPtrTxnOffsetCommitRequest()
		tx.TransactionalID, tx.ProducerID, tx.ProducerEpoch, tx.Group = "tx", id.ProducerID, id.ProducerEpoch, "g"
		tx.MemberID, tx.Generation = "m1", epoch
		topic := kmsg.NewTxnOffsetCommitRequestTopic()
		topic.Topic = "foo"
		part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		topic.Partitions = append(topic.Partitions, part)
		tx.Topics = append(tx.Topics, topic)
		resp := w.home("g", pinned{tx, 5}).(*kmsg.TxnOffsetCommitResponse)
		code(w.T, nil, resp.Topics[0].Partitions[0].ErrorCode)

		w.ok(beat("g", "m1", -1))
		time.Sleep(11 * time.Minute)
		require.Equal(w, "Empty", w.describe("g").State)
		time.Sleep(30 * time.Minute) // which ends the transaction
		code(w.T, kerr.GroupIDNotFound, w.describe("g").ErrorCode)
	})
}
