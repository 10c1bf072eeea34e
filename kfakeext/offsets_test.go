package kfakeext_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// twoEpochs makes a group whose member m1 is at epoch 3 and holds foo-0 to foo-2
// since epoch 2; m2 holds the rest.
func twoEpochs(w *wire) {
	w.Helper()
	w.ok(join("g", "m1", "foo"))
	time.Sleep(time.Second)
	w.ok(join("g", "m2", "foo"))
	resp := w.ok(beat("g", "m1", 2))
	owned := beat("g", "m1", 2)
	owned.ActiveTasks, owned.StandbyTasks, owned.WarmupTasks = resp.ActiveTasks, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	require.EqualValues(w, 3, w.ok(owned).MemberEpoch)
	w.ok(beat("g", "m2", 3))
}

func TestOCommit(t *testing.T) {
	t.Parallel()
	for _, version := range []int16{9, 10} {
		inner := func(w *wire) {
			code(w.T, kerr.GroupIDNotFound, w.commit("g", "m1", 5, 9, "foo", 0))   // O-18
			code(w.T, kerr.IllegalGeneration, w.commit("g", "m1", 5, 8, "foo", 0)) // O-18
			twoEpochs(w)
			mine := tasks(w.describe("g").Members[0].Assignment.ActiveTasks)["s1"]
			theirs := tasks(w.describe("g").Members[1].Assignment.ActiveTasks)["s1"]
			code(w.T, nil, w.commit("g", "m1", 3, version, "foo", mine...))
			code(w.T, kerr.StaleMemberEpoch, w.commit("g", "m1", 10, version, "foo", mine...))           // O-05
			code(w.T, nil, w.commit("g", "m1", 2, version, "foo", mine...))                              // O-13
			code(w.T, kerr.StaleMemberEpoch, w.commit("g", "m1", 2, version, "foo", theirs[0]))          // O-12
			code(w.T, kerr.StaleMemberEpoch, w.commit("g", "m1", 1, version, "foo", mine[0]))            // O-07
			code(w.T, kerr.StaleMemberEpoch, w.commit("g", "m1", 2, version, "foo", mine[0], theirs[0])) // O-09
			code(w.T, kerr.StaleMemberEpoch, w.commit("g", "m1", 2, version, "bar", 0))                  // O-11
			code(w.T, kerr.UnknownMemberID, w.commit("g", "m9", 3, version, "foo", 0))
			code(w.T, kerr.UnknownMemberID, w.commit("g", "", -1, version, "foo", 0)) // O-03
			commits := w.cl.GroupInfo("g").Commits["foo"]
			assert.Len(w, commits, len(mine))

			w.ok(beat("g", "m1", -1))
			w.ok(beat("g", "m2", -1))
			code(w.T, kerr.UnknownMemberID, w.commit("g", "m1", 0, version, "foo", 0)) // O-02
			code(w.T, nil, w.commit("g", "", -1, version, "foo", 0))
		}
		t.Run("version "+string(rune('0'+version)), func(t *testing.T) { inBubble(t, inner) })
	}
}

func TestO17TransactionalCommit(t *testing.T) {
	inBubble(t, func(w *wire) {
		w.ok(join("g", "m1", "foo"))
		init := kmsg.NewPtrInitProducerIDRequest()
		init.TransactionalID, init.TransactionTimeoutMillis = kmsg.StringPtr("tx"), 10_000
		producer := w.ask(w.cl.CoordinatorFor("tx"), init).(*kmsg.InitProducerIDResponse)
		code(w.T, nil, producer.ErrorCode)
		add := kmsg.NewPtrAddOffsetsToTxnRequest()
		add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = "tx", producer.ProducerID, producer.ProducerEpoch, "g"
		code(w.T, nil, w.ask(w.cl.CoordinatorFor("tx"), add).(*kmsg.AddOffsetsToTxnResponse).ErrorCode)
		commit := func(member string, epoch int32, version int16) int16 {
			req := kmsg.NewPtrTxnOffsetCommitRequest()
			req.TransactionalID, req.ProducerID, req.ProducerEpoch = "tx", producer.ProducerID, producer.ProducerEpoch
			req.Group, req.MemberID, req.Generation = "g", member, epoch
			topic := kmsg.NewTxnOffsetCommitRequestTopic()
			topic.Topic, topic.TopicID = "foo", w.cl.TopicInfo("foo").TopicID
			p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
			p.Offset = 7
			topic.Partitions = append(topic.Partitions, p)
			req.Topics = append(req.Topics, topic)
			return w.home("g", pinned{req, version}).(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
		}
		code(w.T, kerr.IllegalGeneration, commit("m1", 10, 5))
		code(w.T, kerr.StaleMemberEpoch, commit("m1", 10, 6))
		code(w.T, kerr.UnknownMemberID, commit("m9", 2, 5))
		code(w.T, nil, commit("m1", 2, 4))
		code(w.T, nil, commit("m1", 2, 6))
		code(w.T, nil, commit("", -1, 4))
		end := kmsg.NewPtrEndTxnRequest()
		end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = "tx", producer.ProducerID, producer.ProducerEpoch, true
		code(w.T, nil, w.ask(w.cl.CoordinatorFor("tx"), pinned{end, 4}).(*kmsg.EndTxnResponse).ErrorCode)
		assert.EqualValues(w, 7, w.cl.GroupInfo("g").Commits["foo"][0].Offset)
	})
}

func fetch(group string, member *string, epoch int32) kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberID, g.MemberEpoch = group, member, epoch
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.Partitions = "foo", []int32{0, 1}
	g.Topics = append(g.Topics, t)
	return g
}

func TestOFetch(t *testing.T) {
	inBubble(t, func(w *wire) {
		ask := func(version int16, groups ...kmsg.OffsetFetchRequestGroup) []kmsg.OffsetFetchResponseGroup {
			req := kmsg.NewPtrOffsetFetchRequest()
			for i := range groups {
				groups[i].Topics[0].TopicID = w.cl.TopicInfo("foo").TopicID
			}
			req.Groups = groups
			return w.home("g", pinned{req, version}).(*kmsg.OffsetFetchResponse).Groups
		}
		me := kmsg.StringPtr("m1")
		w.ok(join("g", "m1", "foo"))
		for _, version := range []int16{8, 9, 10} { // nothing committed yet: no error
			got := ask(version, fetch("g", nil, -1))
			code(w.T, nil, got[0].ErrorCode)
			require.Len(w, got[0].Topics, 1)
			assert.Len(w, got[0].Topics[0].Partitions, 2)
			assert.EqualValues(w, -1, got[0].Topics[0].Partitions[1].Offset)
			if version >= 10 {
				assert.Equal(w, w.cl.TopicInfo("foo").TopicID, got[0].Topics[0].TopicID)
			} else {
				assert.Equal(w, "foo", got[0].Topics[0].Topic)
			}
		}
		old := kmsg.NewPtrOffsetFetchRequest()
		old.Group, old.Topics = "g", []kmsg.OffsetFetchRequestTopic{{Topic: "foo", Partitions: []int32{0}}}
		resp := w.home("g", pinned{old, 7}).(*kmsg.OffsetFetchResponse)
		code(w.T, nil, resp.ErrorCode)
		assert.EqualValues(w, -1, resp.Topics[0].Partitions[0].Offset)

		code(w.T, nil, w.commit("g", "m1", 2, 10, "foo", 0))
		code(w.T, nil, w.commit("simple", "", -1, 10, "foo", 1))
		got := ask(10, fetch("g", nil, -1)) // O-19
		assert.EqualValues(w, 100, got[0].Topics[0].Partitions[0].Offset)
		got = ask(10, fetch("g", me, 2))
		assert.EqualValues(w, 100, got[0].Topics[0].Partitions[0].Offset)
		got = ask(10, fetch("g", me, 10)) // O-21
		code(w.T, kerr.StaleMemberEpoch, got[0].ErrorCode)
		got = ask(10, fetch("g", kmsg.StringPtr("m9"), 2)) // O-20
		code(w.T, kerr.UnknownMemberID, got[0].ErrorCode)
		got = ask(10, fetch("g", nil, 2)) // rule Q16
		code(w.T, kerr.UnknownMemberID, got[0].ErrorCode)

		got = ask(10, fetch("simple", nil, -1), fetch("g", me, 7), fetch("g", me, 2), fetch("nobody", nil, -1))
		require.Len(w, got, 4)
		assert.Equal(w, []string{"simple", "g", "g", "nobody"}, []string{got[0].Group, got[1].Group, got[2].Group, got[3].Group})
		assert.EqualValues(w, 101, got[0].Topics[0].Partitions[1].Offset)
		code(w.T, kerr.StaleMemberEpoch, got[1].ErrorCode)
		code(w.T, nil, got[2].ErrorCode)
		assert.EqualValues(w, 100, got[2].Topics[0].Partitions[0].Offset)
	})
}

func TestOffsetDelete(t *testing.T) {
	inBubble(t, func(w *wire) {
		ask := func() map[string]int16 {
			req := kmsg.NewPtrOffsetDeleteRequest()
			req.Group = "g"
			for _, topic := range []string{"foo", "bar"} {
				req.Topics = append(req.Topics, kmsg.OffsetDeleteRequestTopic{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}})
			}
			resp := w.home("g", req).(*kmsg.OffsetDeleteResponse)
			code(w.T, nil, resp.ErrorCode)
			codes := make(map[string]int16)
			for _, t := range resp.Topics {
				codes[t.Topic] = t.Partitions[0].ErrorCode
			}
			return codes
		}
		w.ok(join("g", "m1", "foo"))
		assert.Equal(w, map[string]int16{"foo": kerr.GroupSubscribedToTopic.Code, "bar": 0}, ask(), "nothing is committed")
		code(w.T, nil, w.commit("g", "m1", 2, 10, "foo", 0))
		code(w.T, nil, w.commit("g", "m1", 2, 10, "bar", 0))
		assert.Equal(w, map[string]int16{"foo": kerr.GroupSubscribedToTopic.Code, "bar": 0}, ask())
		assert.Contains(w, w.cl.GroupInfo("g").Commits, "foo")
		assert.NotContains(w, w.cl.GroupInfo("g").Commits, "bar")
		w.ok(beat("g", "m1", -1))
		assert.Equal(w, map[string]int16{"foo": 0, "bar": 0}, ask())
		require.NotContains(w, w.cl.GroupInfo("g").Commits, "foo")
	})
}
