package chaos

import (
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The checks are checked: a broker, or a network, with a planted defect is found out.
func TestPlantedDefectsAreFound(t *testing.T) {
	for _, p := range []struct {
		name  string
		plant func(g *Group, f *fabric)
	}{
		{"an acknowledged commit is lost", func(_ *Group, f *fabric) {
			n := 0
			f.intercept(func(req kmsg.Request) (kmsg.Response, bool) {
				if commit, ok := req.(*kmsg.OffsetCommitRequest); ok {
					if n++; n == 40 {
						return acknowledge(commit), true
					}
				}
				return nil, false
			})
		}},
		{"the commit of a former owner is accepted", func(g *Group, f *fabric) {
			// The heartbeats of one member do not arrive, and its commits do.
			var silenced atomic.Pointer[Member]
			f.errand(g, 5*time.Second, silenced.Store)
			var other *kmsg.StreamsGroupHeartbeatRequest
			f.intercept(func(req kmsg.Request) (kmsg.Response, bool) {
				m := silenced.Load()
				switch req := req.(type) {
				case *kmsg.StreamsGroupHeartbeatRequest:
					if m == nil || req.MemberID != m.c.Member().ID() {
						other = req
						break
					}
					resp := req.ResponseKind().(*kmsg.StreamsGroupHeartbeatResponse)
					resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code
					return resp, true
				case *kmsg.OffsetCommitRequest:
					if m != nil && req.MemberID == m.c.Member().ID() {
						req.MemberID, req.Generation = other.MemberID, other.MemberEpoch
					}
				}
				return nil, false
			})
		}},
		{"a fetch returns what was committed before", func(_ *Group, f *fabric) {
			var old *kmsg.OffsetCommitRequest
			n := 0
			f.intercept(func(req kmsg.Request) (kmsg.Response, bool) {
				switch req := req.(type) {
				case *kmsg.OffsetCommitRequest:
					if old == nil {
						old = req
					}
				case *kmsg.OffsetFetchRequest:
					if n++; n == 100 {
						return replay(req, old), true
					}
				}
				return nil, false
			})
		}},
		{"a restart forgets the last commits", func(g *Group, f *fabric) {
			backup := ""
			f.errand(g, 5*time.Second, func(*Member) { backup = f.copy() })
			f.errand(g, 6*time.Second, func(*Member) {
				f.halt().Close()
				f.dir = backup
				f.start()
			})
		}},
		{"a member is forgotten before its time", func(g *Group, f *fabric) {
			f.errand(g, 5*time.Second, func(m *Member) {
				id, n := m.c.Member().ID(), 0
				f.intercept(func(req kmsg.Request) (kmsg.Response, bool) {
					beat, ok := req.(*kmsg.StreamsGroupHeartbeatRequest)
					if !ok || beat.MemberID != id {
						return nil, false
					}
					if n++; n > 1 {
						return nil, false
					}
					resp := beat.ResponseKind().(*kmsg.StreamsGroupHeartbeatResponse)
					resp.ErrorCode = kerr.UnknownMemberID.Code
					return resp, true
				})
			})
		}},
		{"a deleted group keeps its offsets", func(g *Group, f *fabric) {
			f.intercept(func(req kmsg.Request) (kmsg.Response, bool) {
				r, ok := req.(*kmsg.DeleteGroupsRequest)
				if !ok {
					return nil, false
				}
				resp := r.ResponseKind().(*kmsg.DeleteGroupsResponse)
				resp.Groups = []kmsg.DeleteGroupsResponseGroup{{Group: r.Groups[0]}}
				return resp, true
			})
			f.errand(g, 5*time.Second, func(*Member) { g.Delete(generator(1)) })
		}},
		{"a copy of a commit arrives after the next one", func(g *Group, f *fabric) {
			f.errand(g, 5*time.Second, func(m *Member) { m.wire.Next(commitKey, Late) })
		}},
	} {
		t.Run(p.name, func(t *testing.T) {
			res := planted(t, p.plant)
			assert.NotEmpty(t, res.Illegal, "nobody has noticed")
		})
	}
	t.Run("none", func(t *testing.T) {
		assert.Empty(t, planted(t, func(*Group, *fabric) {}).Illegal)
	})
}

// planted runs a group without faults on a cluster with a defect.
func planted(t *testing.T, plant func(*Group, *fabric)) (res Result) {
	t.Helper()
	dirs := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, dirs)
		defer f.close()
		g := NewGroup(t, config(f))
		draw := generator(1)
		for range 3 {
			g.Start(draw)
		}
		plant(g, f)
		time.Sleep(20 * time.Second)
		g.StopProducing()
		f.errands.Wait()
		g.Close()
		res = g.History.Check(g.Partitions)
		assert.NoError(t, g.History.Write(io.Discard))
	})
	return res
}

func generator(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// intercept shows requests to fn, one at a time.
func (f *fabric) intercept(fn func(kmsg.Request) (kmsg.Response, bool)) {
	var mu sync.Mutex
	f.cluster.Intercept(func(req kmsg.Request) (kmsg.Response, error, bool) {
		mu.Lock()
		defer mu.Unlock()
		resp, handled := fn(req)
		return resp, nil, handled
	})
}

// errand does something to a member that holds a task, after a while.
func (f *fabric) errand(g *Group, after time.Duration, do func(m *Member)) {
	f.errands.Go(func() {
		time.Sleep(after)
		g.mu.Lock()
		var owner *Member
		for m := range g.owners[0] {
			owner = m
		}
		g.mu.Unlock()
		do(owner)
	})
}

func acknowledge(req *kmsg.OffsetCommitRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition = p.Partition
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// replay answers a fetch with the offsets of a commit.
func replay(req *kmsg.OffsetFetchRequest, commit *kmsg.OffsetCommitRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	g := kmsg.NewOffsetFetchResponseGroup()
	g.Group = req.Groups[0].Group
	for _, t := range commit.Topics {
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			rp.Partition, rp.Offset = p.Partition, p.Offset
			rt.Partitions = append(rt.Partitions, rp)
		}
		g.Topics = append(g.Topics, rt)
	}
	resp.Groups = append(resp.Groups, g)
	return resp
}
