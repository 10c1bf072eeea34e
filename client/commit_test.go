package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
)

const commitKey = 8

// commits has answer decide about the commits that reach the cluster, counted from
// 1, and notes the epochs in them. A nil answer leaves them to the coordinator.
func (w *world) commits(answer func(n int, req *kmsg.OffsetCommitRequest) kmsg.Response) (epochs *[]int32) {
	epochs = new([]int32)
	w.cl.ControlKey(commitKey, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		w.cl.KeepControl()
		req := kreq.(*kmsg.OffsetCommitRequest)
		*epochs = append(*epochs, req.Generation)
		if resp := answer(len(*epochs), req); resp != nil {
			return resp, nil, true
		}
		return nil, nil, false
	})
	return epochs
}

// refusedCommit refuses all partitions of a commit.
func refusedCommit(req *kmsg.OffsetCommitRequest, code *kerr.Error) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, code.Code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// nextEpoch answers the next heartbeat of a member with a higher epoch.
func (w *world) nextEpoch(member string) {
	used := false
	w.control(member, func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
		if used {
			return nil, nil, false
		}
		used = true
		resp := req.ResponseKind().(*kmsg.StreamsGroupHeartbeatResponse)
		resp.MemberEpoch, resp.HeartbeatIntervalMillis = req.MemberEpoch+1, int32(interval.Milliseconds())
		resp.Status = []kmsg.StreamsGroupHeartbeatResponseStatus{}
		return resp, nil, true
	})
}

// A commit that a new member epoch has overtaken is repeated with that one, which
// it fetches without waiting for the interval. B80: a stale epoch alone is no reason
// to give tasks up.
func TestOC02StaleCommitIsRepeatedWithTheNewEpoch(t *testing.T) {
	inBubble(t, func(w *world) {
		w.produce("in", 0, 0, 3)
		wk := w.work(new(app))
		pass(time.Second)
		wk.halt()
		wk.took()
		id := wk.c.Member().ID()
		before, _ := wk.c.Member().Epoch()
		epochs := w.commits(func(n int, req *kmsg.OffsetCommitRequest) kmsg.Response {
			if n == 1 {
				return refusedCommit(req, kerr.StaleMemberEpoch)
			}
			return refusedCommit(req, &kerr.Error{}) // the epoch is made up: the coordinator would refuse it
		})
		w.nextEpoch(id)
		began := time.Now()
		require.NoError(w, wk.c.Commit(w.Context()))
		assert.Equal(w, []int32{before, before + 1}, *epochs)
		assert.Less(w, time.Since(began), time.Second)
		assert.Empty(w, wk.took(), "nothing was given up")
		require.NoError(w, wk.c.Commit(w.Context()))
		assert.Len(w, *epochs, 2, "all of it is committed")
	})
}

// If the member is out of the group, or its epoch is what it was, repeating would be
// of no use.
func TestOC03StaleCommitOfAMemberThatIsOut(t *testing.T) {
	t.Parallel()
	t.Run("the epoch is what it was", func(t *testing.T) {
		inBubble(t, func(w *world) {
			w.produce("in", 0, 0, 3)
			wk := w.work(new(app))
			pass(time.Second)
			wk.halt()
			epochs := w.commits(func(_ int, req *kmsg.OffsetCommitRequest) kmsg.Response {
				return refusedCommit(req, kerr.StaleMemberEpoch)
			})
			err := wk.c.Commit(w.Context())
			require.ErrorIs(w, err, client.ErrFenced)
			require.ErrorIs(w, err, kerr.StaleMemberEpoch)
			assert.Len(w, *epochs, 1)
		})
	})
	t.Run("the member is fenced", func(t *testing.T) {
		inBubble(t, func(w *world) {
			w.produce("in", 0, 0, 3)
			wk := w.work(new(app))
			pass(time.Second)
			wk.halt()
			w.commits(func(_ int, req *kmsg.OffsetCommitRequest) kmsg.Response {
				return refusedCommit(req, kerr.StaleMemberEpoch)
			})
			w.once(wk.c.Member().ID(), kerr.FencedMemberEpoch.Code)
			require.ErrorIs(w, wk.c.Commit(w.Context()), client.ErrFenced)
		})
	})
	t.Run("nobody answers heartbeats", func(t *testing.T) {
		inBubble(t, func(w *world) {
			w.produce("in", 0, 0, 3)
			wk := w.work(new(app))
			pass(time.Second)
			wk.halt()
			w.commits(func(_ int, req *kmsg.OffsetCommitRequest) kmsg.Response {
				return refusedCommit(req, kerr.StaleMemberEpoch)
			})
			w.control("", func(*kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) { return nil, nil, true })
			ctx, cancel := context.WithTimeout(w.Context(), 2*time.Second)
			defer cancel()
			require.ErrorIs(w, wk.c.Commit(ctx), context.DeadlineExceeded)
		})
	})
}

// B65: the epoch moves on while the member leaves; what it commits when its tasks are
// revoked goes out with the new one.
func TestB65CommitWhileLeavingUsesTheNewEpoch(t *testing.T) {
	inBubble(t, func(w *world) {
		w.produce("in", 0, 0, 3)
		wk := w.work(new(app))
		pass(time.Second)
		wk.halt()
		before, _ := wk.c.Member().Epoch()
		epochs := w.commits(func(n int, req *kmsg.OffsetCommitRequest) kmsg.Response {
			if n == 1 {
				return refusedCommit(req, kerr.StaleMemberEpoch)
			}
			return refusedCommit(req, &kerr.Error{})
		})
		w.nextEpoch(wk.c.Member().ID())
		require.NoError(w, wk.c.Close(w.Context()))
		assert.Equal(w, []int32{before, before + 1}, *epochs)
		assert.Equal(w, []string{"assigned " + all, "revoked " + all}, wk.took())
		assert.Empty(w, w.members("g"))
	})
}

// B78: a commit whose caller has given up is not cut off: on another connection it
// might overtake, or be overtaken by, the next one.
func TestB78CancelledCommitDoesNotOvertakeANewerOne(t *testing.T) {
	inBubble(t, func(w *world) {
		w.produce("in", 0, 0, 10)
		wk := w.work(new(app))
		pass(time.Second)
		wk.halt()
		wk.got()
		var order []int64
		w.cl.ControlKey(commitKey, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			w.cl.KeepControl()
			if len(order) == 0 {
				w.cl.SleepControl(func() { time.Sleep(3 * time.Second) })
			}
			order = append(order, kreq.(*kmsg.OffsetCommitRequest).Topics[0].Partitions[0].Offset)
			return nil, nil, false
		})
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		require.ErrorIs(w, wk.c.Commit(ctx), context.DeadlineExceeded)
		wk.c.MarkProcessed(&kgo.Record{Topic: "in", Partition: 0, Offset: 14})
		began := time.Now()
		require.NoError(w, wk.c.Commit(w.Context()))
		assert.InDelta(w, 2*time.Second, time.Since(began), float64(100*time.Millisecond), "it waited for the first")
		assert.Equal(w, []int64{10, 15}, order)
		assert.EqualValues(w, 15, w.committed()[0])
		require.NoError(w, wk.c.Close(w.Context()))
	})
}

// B80: the first request after the session has ended is a commit. The member does not
// go on as if nothing had happened until the next interval.
func TestB80CommitLearnsThatTheMemberIsOut(t *testing.T) {
	inBubble(t, func(w *world) {
		w.produce("in", 0, 0, 3)
		wk := w.work(new(app))
		pass(2 * time.Second)
		wk.halt()
		wk.took()
		count := w.heartbeats()
		w.commits(func(_ int, req *kmsg.OffsetCommitRequest) kmsg.Response {
			return refusedCommit(req, kerr.UnknownMemberID)
		})
		w.once(wk.c.Member().ID(), kerr.UnknownMemberID.Code)
		for range 20 {
			require.ErrorIs(w, wk.c.Commit(w.Context()), client.ErrFenced)
		}
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := wk.c.Poll(ctx)
		require.NoError(w, err)
		assert.Less(w, time.Since(began), time.Second, "it did not wait for its turn")
		assert.Equal(w, []string{"lost " + all, "assigned " + all}, wk.took())
		assert.LessOrEqual(w, count(wk.c.Member().ID()), 4, "commits that fail do not make a storm of heartbeats")
	})
}
