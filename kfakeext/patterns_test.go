package kfakeext_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/topology"
)

// joinPattern is a join with one subtopology, which reads what a pattern matches.
func joinPattern(group, member, pattern string) *kmsg.StreamsGroupHeartbeatRequest {
	req := join(group, member, "unused")
	s := &req.Topology.Subtopologies[0]
	s.SourceTopics, s.SourceTopicRegex = nil, []string{pattern}
	return req
}

// resolved is what a response says that the patterns stand for.
func resolved(w *wire, resp *kmsg.StreamsGroupHeartbeatResponse) (r topology.Resolution, ok bool) {
	w.Helper()
	resp.UnknownTags.Each(func(tag uint32, value []byte) {
		if tag == topology.ResolutionTag {
			var err error
			r, err = topology.ParseResolution(value)
			require.NoError(w, err)
			ok = true
		}
	})
	return r, ok
}

func seen(req *kmsg.StreamsGroupHeartbeatRequest, r topology.Resolution) *kmsg.StreamsGroupHeartbeatRequest {
	req.UnknownTags.Set(topology.ResolutionTag, topology.AppendResolutionEpoch(nil, r.Epoch))
	return req
}

func TestD20SourcePatterns(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"by a request", "by the cluster", "behind the back of the coordinator"} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(w *wire) {
				create := func(name string, partitions int32) {
					w.Helper()
					switch how {
					case "by a request":
						req := kmsg.NewPtrCreateTopicsRequest()
						req.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: name, NumPartitions: partitions, ReplicationFactor: 1}}
						code(w.T, nil, w.ask(0, req).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
					case "by the cluster":
						require.NoError(w, w.cl.CreateTopic(name, partitions, nil))
					default:
						require.NoError(w, w.cl.Cluster.CreateTopic(name, partitions, nil))
					}
				}
				create("in-1", 2)
				create("inside", 9)
				resp := w.ok(joinPattern("g", "m1", `in-\d`))
				assert.Empty(w, resp.Status)
				assert.Equal(w, map[string][]int32{"s1": {0, 1}}, tasks(resp.ActiveTasks))
				first, ok := resolved(w, resp)
				require.True(w, ok)
				assert.Equal(w, map[string][]string{"s1": {"in-1"}}, first.Topics)

				_, ok = resolved(w, w.ok(beat("g", "m1", resp.MemberEpoch)))
				assert.True(w, ok, "told again to who does not say that he has seen it")
				_, ok = resolved(w, w.ok(seen(beat("g", "m1", resp.MemberEpoch), first)))
				assert.False(w, ok)

				// More partitions: more tasks.
				create("in-2", 3)
				time.Sleep(5 * time.Second)
				resp = w.ok(seen(beat("g", "m1", resp.MemberEpoch), first))
				assert.Equal(w, map[string][]int32{"s1": {0, 1, 2}}, tasks(resp.ActiveTasks))
				second, ok := resolved(w, resp)
				require.True(w, ok)
				assert.Equal(w, map[string][]string{"s1": {"in-1", "in-2"}}, second.Topics)
				assert.NotEqual(w, first.Epoch, second.Epoch)

				// As many partitions: the same tasks read more. The patterns of a group
				// are resolved once in ten seconds where topics come all the time.
				create("in-3", 1)
				time.Sleep(10 * time.Second)
				resp = w.ok(seen(beat("g", "m1", resp.MemberEpoch), second))
				third, ok := resolved(w, resp)
				require.True(w, ok)
				assert.Equal(w, map[string][]string{"s1": {"in-1", "in-2", "in-3"}}, third.Topics)

				d := w.describe("g")
				assert.Equal(w, []string{"in-1", "in-2", "in-3"}, d.Topology.Subtopologies[0].SourceTopics)

				for _, name := range []string{"in-1", "in-2", "in-3"} {
					require.NoError(w, w.cl.Cluster.DeleteTopic(name))
				}
				time.Sleep(5 * time.Second)
				resp = w.ok(seen(beat("g", "m1", resp.MemberEpoch), third))
				require.Len(w, resp.Status, 1)
				assert.Equal(w, int8(1), resp.Status[0].StatusCode)
				assert.Contains(w, resp.Status[0].StatusDetail, `in-\d`)
			})
		})
	}
}

// A pattern that matches nothing waits for a topic, and finds it at once.
func TestPatternWithoutMatch(t *testing.T) {
	inBubble(t, func(w *wire) {
		resp := w.ok(joinPattern("g", "m1", "late.*"))
		require.Len(w, resp.Status, 1)
		assert.Equal(w, int8(1), resp.Status[0].StatusCode)
		assert.Contains(w, resp.Status[0].StatusDetail, "match no topic: late.*")
		require.NoError(w, w.cl.Cluster.CreateTopic("later", 1, nil))
		time.Sleep(time.Second) // the assignment interval
		assert.Len(w, tasks(w.ok(beat("g", "m1", resp.MemberEpoch)).ActiveTasks)["s1"], 1)
	})
}

func TestV08PatternsInPolicyKafka(t *testing.T) {
	inBubble(t, func(w *wire) {
		lists := 0
		w.cl.Intercept(func(req kmsg.Request) (kmsg.Response, error, bool) {
			if r, ok := req.(*kmsg.MetadataRequest); ok && r.Topics == nil {
				lists++
			}
			return nil, nil, false
		})
		lists = 0
		w.fails(kerr.InvalidRequest, joinPattern("g", "m1", "fo+"))
		assert.Zero(w, lists)
	}, kfakeext.Policy(coordinator.Kafka))
}

// Groups without patterns cost no list, and those with patterns share one.
func TestTopicsAreListedOnlyWhereNeeded(t *testing.T) {
	inBubble(t, func(w *wire) {
		lists := 0
		w.cl.ControlKey(kmsg.Metadata.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
			w.cl.KeepControl()
			if r := req.(*kmsg.MetadataRequest); r.Topics == nil {
				lists++
			}
			return nil, nil, false
		})
		w.ok(join("plain", "m1", "foo"))
		time.Sleep(5 * time.Second)
		w.ok(beat("plain", "m1", 2))
		assert.Zero(w, lists)

		for i := range 10 {
			w.ok(joinPattern(fmt.Sprintf("g%d", i), "m1", "foo|bar"))
		}
		assert.Equal(w, 1, lists)
		for range 100 {
			w.ok(beat("g0", "m1", 2))
		}
		assert.Equal(w, 1, lists)
		time.Sleep(5 * time.Second)
		for i := range 10 {
			w.ok(beat(fmt.Sprintf("g%d", i), "m1", 2))
		}
		assert.Equal(w, 2, lists)
	})
}

// While the topics are being listed, others are served, and nothing that they
// change is lost.
func TestOthersAreServedWhileTopicsAreListed(t *testing.T) {
	inBubble(t, func(w *wire) {
		other := connect(w.T, w.cl)
		other.ok(join("h", "m1", "foo"))
		hold := make(chan struct{})
		w.cl.ControlKey(kmsg.Metadata.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
			w.cl.KeepControl()
			if r := req.(*kmsg.MetadataRequest); r.Topics == nil {
				w.cl.SleepControl(func() { <-hold })
			}
			return nil, nil, false
		})
		home := w.cl.CoordinatorFor("g")
		done := make(chan kmsg.Response, 1)
		go func() {
			resp, _ := w.try(home, joinPattern("g", "m1", "fo+"))
			done <- resp
		}()
		synctest.Wait()
		require.Empty(w, done, "the join waits for the list")
		other.ok(beat("h", "m1", 2))
		waits := other.ok(joinPattern("i", "m1", "fo+")) // does not sleep as well
		assert.Contains(w, waits.Status[0].StatusDetail, "cannot be resolved")
		other.ok(join("g", "m2", "foo"))
		close(hold)
		resp := (<-done).(*kmsg.StreamsGroupHeartbeatResponse)
		code(w.T, kerr.StreamsInvalidTopologyEpoch, resp.ErrorCode) // m2 was first
		time.Sleep(time.Second)
		assert.Len(w, tasks(other.ok(beat("i", "m1", 2)).ActiveTasks)["s1"], 6)
	})
}

func TestCloseWhileTopicsAreListed(t *testing.T) {
	for _, tt := range []struct {
		name  string
		close func(*kfakeext.Cluster)
	}{
		{"by the extension", (*kfakeext.Cluster).Close},
		{"by kfake alone", func(cl *kfakeext.Cluster) { cl.Cluster.Close() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(w *wire) {
				w.cl.ControlKey(kmsg.Metadata.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
					w.cl.KeepControl()
					if r := req.(*kmsg.MetadataRequest); r.Topics == nil {
						return nil, nil, true // no answer at all
					}
					return nil, nil, false
				})
				home := w.cl.CoordinatorFor("g")
				done := make(chan error, 1)
				go func() {
					_, err := w.try(home, joinPattern("g", "m1", "fo+"))
					done <- err
				}()
				synctest.Wait()
				tt.close(w.cl)
				require.Error(w, <-done)
			})
		})
	}
}

func TestPatternsWhereTopicsCannotBeListed(t *testing.T) {
	inBubble(t, func(w *wire) {
		w.cl.ControlKey(kmsg.Metadata.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
			w.cl.KeepControl()
			if r := req.(*kmsg.MetadataRequest); r.Topics == nil {
				return nil, errors.New("broken off"), true
			}
			return nil, nil, false
		})
		resp := w.ok(joinPattern("g", "m1", "fo+"))
		require.Len(w, resp.Status, 1)
		assert.Equal(w, int8(1), resp.Status[0].StatusCode)
		assert.Contains(w, resp.Status[0].StatusDetail, "cannot be resolved")
	})
}

// Patterns match only what the member may describe, and the coordinator itself
// needs a superuser to see the topics.
func TestPatternsUnderACLs(t *testing.T) {
	inBubble(t, func(w *wire) {
		root, alice := w.as("root"), w.as("alice")
		root.grant(rule{op: kmsg.ACLOperationRead, kind: group, name: "g"}, rule{op: kmsg.ACLOperationDescribe, kind: topic, name: "fo", prefixed: true})
		resp := alice.ok(joinPattern("g", "m1", ".*"))
		r, _ := resolved(w, resp)
		assert.Equal(w, map[string][]string{"s1": {"foo"}}, r.Topics)
	}, append(secured(), kfakeext.KfakeOpts(kfake.SeedTopics(2, "secret")), kfakeext.Superuser("SCRAM-SHA-256", "own", "own"))...)
}
