package kfakeext_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

// The push of topology descriptions (KIP-1331) over the wire.

// testStore is a store whose calls can be made to fail or to wait.
type testStore struct {
	*kfakeext.MemoryDescriptions
	mu     sync.Mutex
	fail   func() error
	wait   time.Duration
	calls  atomic.Int32
	within func() // runs during the next call
}

func newTestStore() *testStore {
	return &testStore{MemoryDescriptions: kfakeext.NewMemoryDescriptions()}
}

func (s *testStore) set(fail func() error, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail, s.wait = fail, wait
}

func (s *testStore) during(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.within = fn
}

func (s *testStore) called(ctx context.Context) error {
	s.calls.Add(1)
	s.mu.Lock()
	fail, wait, within := s.fail, s.wait, s.within
	s.within = nil
	s.mu.Unlock()
	if within != nil {
		within()
	}
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if fail != nil {
		return fail()
	}
	return nil
}

func (s *testStore) Set(ctx context.Context, group string, epoch int32, d *kmsg.TopologyDescription) error {
	if err := s.called(ctx); err != nil {
		return err
	}
	return s.MemoryDescriptions.Set(ctx, group, epoch, d)
}

func (s *testStore) Get(ctx context.Context, group string, epoch int32) (*kmsg.TopologyDescription, error) {
	if err := s.called(ctx); err != nil {
		return nil, err
	}
	return s.MemoryDescriptions.Get(ctx, group, epoch)
}

func (s *testStore) Delete(ctx context.Context, group string) error {
	if err := s.called(ctx); err != nil {
		return err
	}
	return s.MemoryDescriptions.Delete(ctx, group)
}

func failure(err error) func() error { return func() error { return err } }

// withDescriptions has m1 join group g with a store.
func withDescriptions(t *testing.T, fn func(w *wire, s *testStore), opts ...kfakeext.Opt) {
	t.Helper()
	s := newTestStore()
	inBubble(t, func(w *wire) {
		assert.True(w, w.ok(join("g", "m1", "foo")).TopologyDescriptionRequired)
		fn(w, s)
	}, append(opts, kfakeext.TopologyDescriptions(s))...)
}

func describe(name string, kind int8) kmsg.TopologyDescriptionNode {
	n := kmsg.NewTopologyDescriptionNode()
	n.Name, n.NodeType, n.Successors = name, kind, []string{"next"}
	if kind == 1 {
		n.SourceTopics = []string{"foo"}
	} else {
		n.Stores = []string{"store"}
	}
	return n
}

func pushOf(group, member string) *kmsg.StreamsGroupTopologyDescriptionUpdateRequest {
	req := kmsg.NewPtrStreamsGroupTopologyDescriptionUpdateRequest()
	req.Group, req.MemberID = group, member
	s := kmsg.NewTopologyDescriptionSubtopology()
	s.SubtopologyID, s.Nodes = "s1", []kmsg.TopologyDescriptionNode{describe("in", 1), describe("sum", 2)}
	g := kmsg.NewTopologyDescriptionGlobalStore()
	g.Source, g.Processor = describe("table", 1), describe("fill", 2)
	req.TopologyDescription.Subtopologies = []kmsg.TopologyDescriptionSubtopology{s}
	req.TopologyDescription.GlobalStores = []kmsg.TopologyDescriptionGlobalStore{g}
	return req
}

func (w *wire) push(want *kerr.Error, req *kmsg.StreamsGroupTopologyDescriptionUpdateRequest) {
	w.Helper()
	code(w.T, want, w.home(req.Group, req).(*kmsg.StreamsGroupTopologyDescriptionUpdateResponse).ErrorCode)
}

// description describes a group with the flag that asks for the description.
func (w *wire) description(group string) kmsg.StreamsGroupDescribeResponseGroup {
	w.Helper()
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups, req.IncludeTopologyDescription = []string{group}, true
	resp := w.home(group, req).(*kmsg.StreamsGroupDescribeResponse)
	require.Len(w, resp.Groups, 1)
	return resp.Groups[0]
}

func (w *wire) wantStatus(want int8) {
	w.Helper()
	g := w.description("g")
	require.Zero(w, g.ErrorCode)
	assert.Equal(w, want, g.TopologyDescriptionStatus)
	assert.Equal(w, want == 3, g.TopologyDescription != nil)
}

func (w *wire) remove(version int16, want *kerr.Error) *string {
	w.Helper()
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{"g"}
	resp := w.home("g", pinned{req, version}).(*kmsg.DeleteGroupsResponse)
	require.Len(w, resp.Groups, 1)
	code(w.T, want, resp.Groups[0].ErrorCode)
	return resp.Groups[0].ErrorMessage
}

func TestTopologyDescription(t *testing.T) {
	// rules 20-5, 18.1-11
	withDescriptions(t, func(w *wire, s *testStore) {
		w.wantStatus(1)
		w.push(nil, pushOf("g", "m1"))
		assert.Zero(w, w.describe("g").TopologyDescriptionStatus, "not asked for")
		assert.Nil(w, w.describe("g").TopologyDescription)
		g := w.description("g")
		assert.Equal(w, int8(3), g.TopologyDescriptionStatus)
		require.NotNil(w, g.TopologyDescription)
		want := pushOf("g", "m1").TopologyDescription
		assert.Equal(w, want.Subtopologies, g.TopologyDescription.Subtopologies)
		assert.Equal(w, want.GlobalStores, g.TopologyDescription.GlobalStores)
		assert.Equal(w, int8(0), w.description("unknown").TopologyDescriptionStatus, "look at the error first")
		assert.False(w, w.ok(beat("g", "m1", 2)).TopologyDescriptionRequired)

		require.NoError(w, s.MemoryDescriptions.Delete(w.Context(), "g"))
		w.wantStatus(1) // the store has lost it
		s.set(failure(errors.New("no connection")), 0)
		w.wantStatus(2)
	})
}

// rules 14-9 20-5
func TestTopologyDescriptionWithoutStore(t *testing.T) {
	inBubble(t, func(w *wire) {
		assert.False(w, w.ok(join("g", "m1", "foo")).TopologyDescriptionRequired)
		w.push(kerr.UnsupportedVersion, pushOf("g", "m1"))
		w.wantStatus(1)
	})
	_, err := kfakeext.NewCluster(kfakeext.InProcess(), kfakeext.TopologyDescriptions(nil))
	require.ErrorContains(t, err, "TopologyDescriptions(nil)")
}

func TestTopologyDescriptionIsChecked(t *testing.T) {
	// rule 20-3
	withDescriptions(t, func(w *wire, s *testStore) {
		w.push(kerr.GroupAuthorizationFailed, pushOf("secret", "m1"))
		w.push(kerr.InvalidRequest, pushOf("g", " "))
		w.push(kerr.InvalidRequest, pushOf(" ", "m1"))
		w.push(kerr.GroupIDNotFound, pushOf("other", "m1"))
		w.push(kerr.UnknownMemberID, pushOf("g", "m2"))
		ahead := pushOf("g", "m1")
		ahead.TopologyEpoch = 1
		w.push(kerr.InvalidRequest, ahead)
		elsewhere := (w.cl.CoordinatorFor("g") + 1) % 3
		for want, req := range map[*kerr.Error]*kmsg.StreamsGroupTopologyDescriptionUpdateRequest{
			kerr.NotCoordinator: pushOf("g", "m1"), kerr.InvalidRequest: pushOf("g", ""),
		} {
			code(w.T, want, w.ask(elsewhere, req).(*kmsg.StreamsGroupTopologyDescriptionUpdateResponse).ErrorCode)
		}
		assert.Zero(w, s.calls.Load())
		w.wantStatus(1)
	}, kfakeext.Nodes(3), kfakeext.Authorize(func(_ kfakeext.Caller, _ kmsg.ACLOperation, _ kmsg.ACLResourceType, name string) bool {
		return name != "secret"
	}))
}

func TestTopologyDescriptionFailures(t *testing.T) {
	// rule 20-3
	again := func(w *wire, after time.Duration) bool {
		w.Helper()
		epoch := w.describe("g").Members[0].MemberEpoch
		for range after / (10 * time.Second) {
			time.Sleep(10 * time.Second)
			if w.ok(beat("g", "m1", epoch)).TopologyDescriptionRequired {
				return true
			}
		}
		return false
	}
	t.Run("of the moment", func(t *testing.T) {
		withDescriptions(t, func(w *wire, s *testStore) {
			s.set(failure(errors.New("no connection")), 0)
			w.push(kerr.StreamsTopologyDescriptionUpdateFailed, pushOf("g", "m1"))
			w.wantStatus(1)
			assert.True(w, again(w, 72*time.Second))
			s.set(nil, 0)
			w.push(nil, pushOf("g", "m1"))
			w.wantStatus(3)
		})
	})
	t.Run("for good", func(t *testing.T) {
		withDescriptions(t, func(w *wire, s *testStore) {
			s.set(failure(&coordinator.DescriptionRefusedError{Reason: "too large"}), 0)
			resp := w.home("g", pushOf("g", "m1")).(*kmsg.StreamsGroupTopologyDescriptionUpdateResponse)
			code(w.T, kerr.StreamsTopologyDescriptionUpdateFailed, resp.ErrorCode)
			assert.Equal(w, "too large", text(resp.ErrorMessage))
			assert.False(w, again(w, time.Hour))
		})
	})
	t.Run("panic", func(t *testing.T) {
		withDescriptions(t, func(w *wire, s *testStore) {
			s.set(func() error { panic("bug") }, 0)
			w.push(kerr.StreamsTopologyDescriptionUpdateFailed, pushOf("g", "m1"))
			assert.False(w, again(w, time.Hour))
			s.set(nil, 0)
			w.push(nil, pushOf("g", "m1"))
			s.set(func() error { panic("bug") }, 0)
			w.wantStatus(2)
		})
	})
	t.Run("too slow", func(t *testing.T) {
		withDescriptions(t, func(w *wire, s *testStore) {
			s.set(nil, time.Minute)
			before := time.Now()
			ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
			defer cancel()
			resp, err := w.client.Broker(int(w.cl.CoordinatorFor("g"))).Request(ctx, pushOf("g", "m1"))
			require.NoError(w, err)
			code(w.T, kerr.StreamsTopologyDescriptionUpdateFailed, resp.(*kmsg.StreamsGroupTopologyDescriptionUpdateResponse).ErrorCode)
			assert.Equal(w, 5*time.Second, time.Since(before))
		})
	})
}

func TestTopologyDescriptionDoesNotHoldUpOthers(t *testing.T) {
	withDescriptions(t, func(w *wire, s *testStore) {
		other := connect(w.T, w.cl)
		s.set(nil, 3*time.Second)
		done := make(chan struct{})
		before := time.Now()
		go func() {
			defer close(done)
			w.push(nil, pushOf("g", "m1"))
		}()
		time.Sleep(time.Second)
		other.ok(join("g", "m2", "foo"))
		other.ok(join("h", "m1", "foo"))
		assert.Equal(w, time.Second, time.Since(before))
		<-done
		assert.Equal(w, 3*time.Second, time.Since(before))
		s.set(nil, 0)
		w.wantStatus(3)
	})
}

func TestTopologyDescriptionOneAfterTheOther(t *testing.T) {
	withDescriptions(t, func(w *wire, s *testStore) {
		pusher, deleter := connect(w.T, w.cl), connect(w.T, w.cl)
		s.set(nil, 2*time.Second)
		before := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { pusher.push(nil, pushOf("g", "m1")) })
		time.Sleep(time.Second)
		w.ok(beat("g", "m1", -1))
		// What is deleted in the middle of a push would come back.
		wg.Go(func() {
			deleter.remove(3, nil)
			assert.Equal(w, 4*time.Second, time.Since(before))
		})
		wg.Wait()
		left, err := s.MemoryDescriptions.Get(w.Context(), "g", 0)
		require.NoError(w, err)
		assert.Nil(w, left)
	})
}

func TestTopologyDescriptionWhileCoordinatorsMove(t *testing.T) {
	withDescriptions(t, func(w *wire, s *testStore) {
		home := w.cl.CoordinatorFor("g")
		s.during(func() {
			for w.cl.CoordinatorFor("g") == home {
				w.cl.RehashCoordinators()
			}
		})
		w.push(nil, pushOf("g", "m1"))
		assert.NotEqual(w, home, w.cl.CoordinatorFor("g"))
		w.wantStatus(3)
		w.ok(beat("g", "m1", 2))
	}, kfakeext.Nodes(3))
}

func TestTopologyDescriptionOfAClosingCluster(t *testing.T) {
	s := newTestStore()
	inBubble(t, func(w *wire) {
		w.ok(join("g", "m1", "foo"))
		s.set(nil, time.Minute)
		s.during(func() { go w.cl.Close() })
		_, err := w.try(w.cl.CoordinatorFor("g"), pushOf("g", "m1"))
		require.Error(w, err)
		assert.Equal(w, int32(1), s.calls.Load())
	}, kfakeext.TopologyDescriptions(s))
}

func TestTopologyDescriptionIsDeletedWithItsGroup(t *testing.T) {
	// rules 20-6, 18.3-4
	withDescriptions(t, func(w *wire, s *testStore) {
		w.push(nil, pushOf("g", "m1"))
		w.remove(3, kerr.NonEmptyGroup)
		w.wantStatus(3)
		w.ok(beat("g", "m1", -1))
		w.wantStatus(3)

		s.set(failure(errors.New("no connection")), 0)
		assert.Contains(w, text(w.remove(3, kerr.GroupDeletionFailed)), `"g"`)
		w.remove(2, kerr.UnknownServerError)
		w.state("g", coordinator.Empty)
		calls := s.calls.Load()
		w.remove(0, kerr.UnknownServerError)
		assert.Equal(w, calls+1, s.calls.Load())

		s.set(nil, 0)
		w.remove(3, nil)
		left, err := s.Get(w.Context(), "g", 0)
		require.NoError(w, err)
		assert.Nil(w, left)
		_, ok := w.cl.StreamsGroupState("g")
		assert.False(w, ok)
		assert.True(w, w.ok(join("g", "m1", "foo")).TopologyDescriptionRequired, "the new group starts anew")
	})
}

func TestTopologyDescriptionStaysIfDeletionIsForbidden(t *testing.T) {
	withDescriptions(t, func(w *wire, s *testStore) {
		w.push(nil, pushOf("g", "m1"))
		w.ok(beat("g", "m1", -1))
		w.remove(3, kerr.GroupAuthorizationFailed)
		assert.Equal(w, int32(1), s.calls.Load())
		w.wantStatus(3)
	}, kfakeext.Authorize(func(_ kfakeext.Caller, op kmsg.ACLOperation, _ kmsg.ACLResourceType, _ string) bool {
		return op != kmsg.ACLOperationDelete
	}))
}

// rule 20-6
func TestTopologyDescriptionIsDeletedBeforeAConversion(t *testing.T) {
	withDescriptions(t, func(w *wire, s *testStore) {
		classic := func() int16 {
			req := kmsg.NewPtrJoinGroupRequest()
			req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = "g", "consumer", 10000, 10000
			p := kmsg.NewJoinGroupRequestProtocol()
			p.Name = "range"
			req.Protocols = append(req.Protocols, p)
			return w.home("g", req).(*kmsg.JoinGroupResponse).ErrorCode
		}
		w.push(nil, pushOf("g", "m1"))
		code(w.T, kerr.InconsistentGroupProtocol, classic())
		w.ok(beat("g", "m1", -1))
		s.set(failure(errors.New("no connection")), 0)
		code(w.T, kerr.RebalanceInProgress, classic())
		calls := s.calls.Load()
		code(w.T, kerr.RebalanceInProgress, classic())
		assert.Equal(w, calls, s.calls.Load(), "classic members try again at once; the store is spared")
		s.set(nil, 0)
		time.Sleep(36 * time.Second)
		code(w.T, kerr.MemberIDRequired, classic())
		_, ok := w.cl.StreamsGroupState("g")
		assert.False(w, ok)
		left, err := s.Get(w.Context(), "g", 0)
		require.NoError(w, err)
		assert.Nil(w, left)
	})
}

func TestMemoryDescriptions(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m := kfakeext.NewMemoryDescriptions()
	get := func(group string, epoch int32) *kmsg.TopologyDescription {
		d, err := m.Get(ctx, group, epoch)
		require.NoError(t, err)
		return d
	}
	first, second, third := &kmsg.TopologyDescription{}, &kmsg.TopologyDescription{}, &kmsg.TopologyDescription{}
	require.NoError(t, m.Set(ctx, "a", 1, first))
	require.NoError(t, m.Set(ctx, "b", 1, second))
	assert.Same(t, first, get("a", 1))
	assert.Nil(t, get("a", 0))
	assert.Nil(t, get("c", 1))
	require.NoError(t, m.Set(ctx, "a", 2, third))
	require.NoError(t, m.Set(ctx, "a", 1, first), "late")
	assert.Same(t, third, get("a", 2))
	assert.Nil(t, get("a", 1))
	require.NoError(t, m.Delete(ctx, "a"))
	require.NoError(t, m.Delete(ctx, "a"))
	assert.Nil(t, get("a", 2))
	assert.Same(t, second, get("b", 1))
}
