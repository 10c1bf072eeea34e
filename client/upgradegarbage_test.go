package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// answers has requests of one kind answered by somebody who may be mad.
func answers[R kmsg.Request](w *world, answer func(R) kmsg.Response) {
	w.cl.Intercept(func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		if req, ok := kreq.(R); ok {
			if resp := answer(req); resp != nil {
				return resp, nil, true
			}
		}
		return nil, nil, false
	})
}

// A broker that answers for topics and partitions that nobody has asked for does not
// bring the process down, and what it says does not count.
func TestUpgradeOfWhatABrokerInvents(t *testing.T) {
	const hop = "g-hop-repartition"
	offsets := func(w *world, topic string, partition int32) {
		answers(w, func(req *kmsg.ListOffsetsRequest) kmsg.Response {
			resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
			add := func(topic string, partition int32) {
				rt := kmsg.NewListOffsetsResponseTopic()
				rt.Topic = topic
				rp := kmsg.NewListOffsetsResponseTopicPartition()
				rp.Partition = partition
				if req.Topics[0].Partitions[0].Timestamp == -1 {
					rp.Offset = 7
				}
				rt.Partitions = append(rt.Partitions, rp)
				resp.Topics = append(resp.Topics, rt)
			}
			for _, rt := range req.Topics {
				for _, rp := range rt.Partitions {
					add(rt.Topic, rp.Partition)
				}
			}
			add(topic, partition)
			return resp
		})
	}
	for _, c := range []struct {
		name   string
		invent func(w *world)
	}{
		{"offsets of a topic", func(w *world) { offsets(w, "invented", 0) }},
		{"offsets of a partition", func(w *world) { offsets(w, hop, 1000) }},
		{"offsets of a negative partition", func(w *world) { offsets(w, hop, -3) }},
		{"no offsets", func(w *world) {
			answers(w, func(req *kmsg.ListOffsetsRequest) kmsg.Response { return req.ResponseKind() })
		}},
		{"offsets of one partition", func(w *world) {
			answers(w, func(req *kmsg.ListOffsetsRequest) kmsg.Response {
				resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
				rt := kmsg.NewListOffsetsResponseTopic()
				rt.Topic = hop
				rt.Partitions = append(rt.Partitions, kmsg.NewListOffsetsResponseTopicPartition())
				rt.Partitions[0].Partition = 1
				resp.Topics = append(resp.Topics, rt)
				return resp
			})
		}},
		{"committed offsets", func(w *world) {
			answers(w, func(req *kmsg.OffsetFetchRequest) kmsg.Response {
				resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
				g := kmsg.NewOffsetFetchResponseGroup()
				g.Group = "g"
				rt := kmsg.NewOffsetFetchResponseGroupTopic()
				rt.Topic = "invented"
				rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
				rp.Offset = 1 << 60
				rt.Partitions = append(rt.Partitions, rp)
				g.Topics = append(g.Topics, rt)
				resp.Groups = append(resp.Groups, g)
				return resp
			})
		}},
		{"no topics", func(w *world) {
			answers(w, func(req *kmsg.MetadataRequest) kmsg.Response {
				if len(req.Topics) == 0 {
					return nil
				}
				resp := req.ResponseKind().(*kmsg.MetadataResponse)
				rt := kmsg.NewMetadataResponseTopic()
				resp.Topics = append(resp.Topics, rt)
				return resp
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				old := w.launch(version(w, 0, draining("in", "hop")))
				pass(3 * interval)
				old.leave()
				require.NoError(w, old.result())
				w.produce(hop, 0, 0, 5)
				c.invent(w)
				u := w.launch(version(w, 1, reading("in")))
				pass(5 * time.Minute)
				require.Len(w, u.comparisons(), 1)
				assert.NotContains(w, u.comparisons()[0].Unread, "invented")
				assert.Equal(w, []topology.FindingKind{topology.UnreadRecords}, kindsOf(u.refused().Findings))
			})
		})
	}
}

// The description of another group is none of this one.
func TestUpgradeOfAnotherGroup(t *testing.T) {
	inBubble(t, func(w *world) {
		answers(w, func(req *kmsg.StreamsGroupDescribeRequest) kmsg.Response {
			resp := req.ResponseKind().(*kmsg.StreamsGroupDescribeResponse)
			g := kmsg.NewStreamsGroupDescribeResponseGroup()
			g.Group = "h"
			topo := kmsg.NewStreamsGroupDescribeResponseGroupTopology()
			g.Topology = &topo
			resp.Groups = append(resp.Groups, g)
			return resp
		})
		u := w.launch(version(w, 1, reading("in", "a")))
		pass(2 * interval)
		u.goesOn()
		require.Len(w, u.comparisons(), 1)
		assert.ErrorContains(w, u.comparisons()[0].Err, "does not describe the group")
	})
}

// A repartition topic that is dropped and has no leader: its records cannot be counted,
// and the comparison does not wait for ever.
func TestUpgradeWithoutLeaders(t *testing.T) {
	inBubble(t, func(w *world) {
		w.launch(version(w, 0, hopping("in", "hop")))
		pass(3 * interval)
		answers(w, leaderless)
		began := time.Now()
		u := w.launch(version(w, 1, reading("in")))
		<-u.ended
		assert.Equal(w, []topology.FindingKind{topology.UnreadRecords}, kindsOf(u.refused().Findings))
		assert.Nil(w, u.comparisons()[0].Unread)
		assert.LessOrEqual(w, time.Since(began), 2*time.Minute)
	})
}

// Many members with the new version start at the same moment, static ones among them,
// and some are fenced right after their join.
func TestUpgradeOfManyAtOnce(t *testing.T) {
	inBubble(t, func(w *world) {
		old := w.launch(version(w, 0, reading("in", "a")))
		pass(3 * interval)
		var all []*upgrading
		for i := range 12 {
			var opts []client.Opt
			if i%3 == 0 {
				opts = append(opts, client.InstanceID("i"+string(rune('a'+i))))
			}
			u := w.launch(version(w, 1, reading("in", "a")), opts...)
			if i%4 == 0 {
				w.once(u.m.ID(), kerr.FencedMemberEpoch.Code)
			}
			all = append(all, u)
		}
		pass(interval)
		for _, u := range all[:4] {
			w.once(u.m.ID(), kerr.UnknownMemberID.Code)
		}
		pass(12 * interval)
		old.goesOn()
		for _, u := range all {
			u.goesOn()
			assert.Equal(w, membership.StateStable, u.state())
		}
		assert.EqualValues(w, 1, w.cl.DescribeStreamsGroup("g").Topology.Epoch)
		assert.Len(w, w.members("g"), 13)
	})
}

// A group that is deleted, or replaced, between the comparison and the join.
func TestUpgradeOfAGroupThatGoes(t *testing.T) {
	inBubble(t, func(w *world) {
		old := w.launch(version(w, 0, reading("in", "a")))
		pass(3 * interval)
		old.leave()
		require.NoError(w, old.result())
		u := w.launch(version(w, 1, reading("in", "a")), client.OnEvent(func(e membership.Event) {
			if _, ok := e.(membership.TopologyCompared); ok {
				req := kmsg.NewPtrDeleteGroupsRequest()
				req.Groups = []string{"g"}
				resp, err := req.RequestWith(w.Context(), w.client)
				if assert.NoError(w, err) {
					assert.Zero(w, resp.Groups[0].ErrorCode)
				}
			}
		}))
		pass(3 * interval)
		u.goesOn()
		assert.Equal(w, membership.StateStable, u.state())
	})
}

// A connection that breaks, or a leader that moves, while topics are looked at: the
// upgrade is neither let through nor refused because it came at a bad moment.
func TestUpgradeWhileTopicsCannotBeSeen(t *testing.T) {
	const hop = "g-hop-repartition"
	type V = []func(*topology.Builder)
	broken := func(w *world) {
		left := 3
		w.cl.Intercept(func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			if req, ok := kreq.(*kmsg.MetadataRequest); ok && len(req.Topics) > 0 && left > 0 {
				left--
				return nil, errors.New("broken"), true
			}
			return nil, nil, false
		})
	}
	moving := func(w *world) {
		left := 3
		answers(w, func(req *kmsg.ListOffsetsRequest) kmsg.Response {
			if left == 0 {
				return nil
			}
			left--
			return leaderless(req)
		})
	}
	for _, c := range []struct {
		name         string
		older, newer V
		bad          func(*world)
		want         []topology.FindingKind
	}{
		{"a topic that has other partitions", V{reading("in")}, V{reading("in"), func(b *topology.Builder) {
			b.AddRepartition("hop", 3).AddSink("k-hop", "hop", "p-in").AddSource("s-hop", "hop").AddProcessor("p-hop", "s-hop")
		}}, broken, []topology.FindingKind{topology.PartitionsChanged}},
		{"a drained topic", V{draining("in", "hop")}, V{reading("in")}, broken, nil},
		{"a drained topic whose leader moves", V{draining("in", "hop")}, V{reading("in")}, moving, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				old := w.launch(version(w, 0, c.older...))
				pass(3 * interval)
				old.leave()
				require.NoError(w, old.result())
				c.bad(w)
				u := w.launch(version(w, 1, c.newer...))
				pass(4 * interval)
				require.Len(w, u.comparisons(), 1)
				if c.want == nil {
					u.goesOn()
					assert.Equal(w, map[string]int64{hop: 0}, u.comparisons()[0].Unread)
					return
				}
				assert.Equal(w, c.want, kindsOf(u.refused().Findings))
			}, kfakeext.Topic(hop, 2))
		})
	}
}

// leaderless says that no partition has a leader.
func leaderless(req *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, rt := range req.Topics {
		t := kmsg.NewListOffsetsResponseTopic()
		t.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			p := kmsg.NewListOffsetsResponseTopicPartition()
			p.Partition, p.ErrorCode = rp.Partition, kerr.LeaderNotAvailable.Code
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}
