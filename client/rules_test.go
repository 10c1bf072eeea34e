package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
)

// rules OC-1, TR-8: a commit says who makes it
func TestOC01CommitCarriesTheIdentity(t *testing.T) {
	inBubble(t, func(w *world) {
		w.produce("in", 0, 0, 3)
		wk := w.work(new(app), client.InstanceID("i"))
		var seen []kmsg.OffsetCommitRequest
		w.commits(func(_ int, req *kmsg.OffsetCommitRequest) kmsg.Response {
			seen = append(seen, *req)
			return nil
		})
		pass(time.Second)
		wk.halt()
		require.NoError(w, wk.c.Commit(w.Context()))
		require.Len(w, seen, 1)
		assert.GreaterOrEqual(w, seen[0].Version, int16(9))
		assert.Equal(w, "g", seen[0].Group)
		assert.Equal(w, wk.c.Member().ID(), seen[0].MemberID)
		require.NotNil(w, seen[0].InstanceID)
		assert.Equal(w, "i", *seen[0].InstanceID)
		epoch, ok := wk.c.Member().Epoch()
		require.True(w, ok)
		assert.Equal(w, epoch, seen[0].Generation)
	})
}

// rule OC-4: a coordinator that moves or loads costs a commit time, and nothing
// else.
func TestOC04CommitDuringAMove(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress} {
		t.Run(code.Message, func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.produce("in", 0, 0, 3)
				wk := w.work(new(app))
				epochs := w.commits(func(n int, req *kmsg.OffsetCommitRequest) kmsg.Response {
					if n <= 2 {
						return refusedCommit(req, code)
					}
					return nil
				})
				pass(time.Second)
				wk.halt()
				require.NoError(w, wk.c.Commit(w.Context()))
				assert.Len(w, *epochs, 3)
				assert.Equal(w, [4]int64{3, -1, -1, -1}, w.committed())
			})
		})
	}
	t.Run("a topic that is not known there yet", func(t *testing.T) {
		inBubble(t, func(w *world) {
			w.produce("in", 0, 0, 3)
			wk := w.work(new(app))
			w.commits(func(n int, req *kmsg.OffsetCommitRequest) kmsg.Response {
				if n == 1 {
					return refusedCommit(req, kerr.UnknownTopicID)
				}
				return nil
			})
			pass(time.Second)
			wk.halt()
			require.ErrorIs(w, wk.c.Commit(w.Context()), kerr.UnknownTopicID)
			require.NoError(w, wk.c.Commit(w.Context()), "it is not taken for committed")
			assert.Equal(w, [4]int64{3, -1, -1, -1}, w.committed())
		})
	})
}

// rules AS-8, AS-11, TR-6: while "tasks assigned" runs nothing of a new task is
// fetched; afterwards exactly the partitions of the tasks are.
func TestAS11NothingIsFetchedBeforeTheCallbackReturns(t *testing.T) {
	inBubble(t, func(w *world) {
		w.produce("in", 0, 0, 3)
		fetched := false
		w.cl.ControlKey(1, func(kmsg.Request) (kmsg.Response, error, bool) {
			w.cl.KeepControl()
			fetched = true
			return nil, nil, false
		})
		during := false
		a := new(app)
		a.onAssigned = func(context.Context, client.Assignment) error {
			time.Sleep(2 * interval)
			during = during || fetched
			return nil
		}
		wk := w.work(a)
		pass(3 * interval)
		assert.False(w, during)
		assert.True(w, fetched)
		assert.Equal(w, map[string][]string{"0_0": numbers(0, 3)}, wk.got())
	})
}
