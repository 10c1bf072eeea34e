package coordinator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamsgroup/streamsgroup/coordinator/topics"
)

func TestTopologyAndTopics(t *testing.T) {
	// counts are the decided partition counts of the internal topics to create.
	counts := func(a *answer) map[string]int32 {
		m := map[string]int32{}
		for _, n := range a.create {
			m[n.Name] = n.Partitions
		}
		return m
	}
	runCases(t, []testCase{
		{"T-01 T-02 missing source topic, then it appears", bothModes, func(w *world) {
			w.topic("bar", 0)
			a := w.join("m1").ok(2).tasks("-").status(1).detail(1, "bar").records(
				"19(m1)", "23(TE 0)", "17(GE 2 VTE -1)", "21(m1 -)", "20(2, now)", "22(m1 STABLE ME 2 PME 0 -)")
			assert.Empty(w.t, a.create)
			assert.Equal(w.t, topics.Hash([]string{"foo"}, w.image), w.c.groups[groupID].hash)
			assert.Equal(w.t, int8(1), the[TopicsNotReady](a).Status)
			w.wantState(NotReady)
			w.hb("m1", 2).ok(2).noLists().status(1).records()

			w.topic("bar", 3)
			w.target("m1", allNine)
			a = w.hb("m1", 2).ok(3).tasks(allNine).status().records("17(GE 3 VTE 0)", "21", "20(3, now)", "22")
			assert.Equal(w.t, TopicsReady{Group: groupID, Tasks: 9}, the[TopicsReady](a))
			assert.Equal(w.t, []Reason{ReasonTopicsChanged, ReasonReadiness}, the[EpochBumped](a).Reasons)
			w.wantState(Stable)
		}},
		{"T-03 missing changelog topic", bothModes, func(w *world) {
			w.topic("bar", 0)
			w.topo = topo(0, sub("s1", reads("foo"), changelog("bar")))
			a := w.join("m1").ok(2).tasks("-").status(3).detail(3, "bar").records("19", "23", "17(GE 2 VTE -1)", "21", "20", "22")
			want := []topics.NewTopic{{Name: "bar", Partitions: 6, ReplicationFactor: -1}}
			assert.Equal(w.t, want, a.create)
			assert.Equal(w.t, TopicsRequested{Group: groupID, Topics: []string{"bar"}}, the[TopicsRequested](a))
			w.wantState(NotReady)
			// Asked for again on each heartbeat: whether it is under way is the
			// driver's to know.
			assert.Equal(w.t, want, w.hb("m1", 2).ok(2).noLists().status(3).records().create)
			w.topic("bar", 6)
			w.target("m1", "s1:0-5")
			a = w.hb("m1", 2).ok(3).tasks("s1:0-5").status()
			assert.Empty(w.t, a.create)
			assert.True(w.t, w.stub.calls[0].Subtopologies[0].Stateful)
		}},
		{"T-04 copartition mismatch", bothModes, func(w *world) {
			w.topo = topo(0, sub("s1", reads("foo", "bar"), copartitioned([]int16{0, 1}, nil)))
			a := w.join("m1").ok(2).tasks("-").status(2)
			assert.Contains(w.t, a.resp.Status[0].StatusDetail, "3")
			assert.Contains(w.t, a.resp.Status[0].StatusDetail, "6")
			a.records("19(m1)", "23(TE 0)", "17(GE 2 VTE -1)", "21(m1 -)", "20(2, now)", "22(m1 STABLE ME 2 PME 0 -)")
			assert.Empty(w.t, a.create)
			w.wantState(NotReady)
		}},
		{"T-06 stale join", kafkaMode, func(w *world) {
			w.topo = topo(1, t2().Subtopologies...)
			w.g10(memberSpec{id: "m1", tasks: allNine, topologyEpoch: 1})
			w.target("m1", "s1:0-5", "m2", "s2:0-2")
			w.join("m2", with(t2())).ok(11).status(0)
			assert.Equal(w.t, int32(0), w.c.groups[groupID].members["m2"].meta.TopologyEpoch)
			assert.Equal(w.t, int32(1), w.c.groups[groupID].topology.Epoch)
			w.hb("m1", 10, owned("s1:0-5")).ok(11).tasks("s1:0-5").status()
			w.hb("m2", 11).ok(11).tasks("s2:0-2").status(0)
		}},
		{"T-06 10.3 tasks go from and to stale members as between others", kafkaMode, func(w *world) {
			w.topo = topo(1, t2().Subtopologies...)
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5", topologyEpoch: 1}, memberSpec{id: "m2", tasks: "s2:0-2", topologyEpoch: 0})
			w.target("m1", "s1:1-5", "m2", "s2:1,2", "m3", "s1:0 s2:0")
			w.join("m3").ok(11).tasks("-").status()
			w.hb("m2", 10, owned("s2:0-2")).ok(10).tasks("s2:1,2").status(0)
			w.hb("m1", 10, owned("s1:1-5")).ok(11).tasks("s1:1-5").status()
			w.hb("m3", 11).ok(11).tasks("s1:0").status()
			w.hb("m2", 10, owned("s2:1,2")).ok(11).noLists().status(0)
			w.hb("m3", 11).ok(11).tasks("s1:0 s2:0").status()
			w.target("m1", "s1:1-5", "m2", "s2:1,2 s1:0", "m3", "s2:0")
			w.hb("m2", 11, rack("r")).ok(12).noLists().status(0)
			w.hb("m3", 11, owned("s2:0")).ok(12)
			w.hb("m2", 12).ok(12).tasks("s1:0 s2:1,2").status(0)
			w.hb("m1", 11).ok(12)
			w.wantState(Stable)
		}},
		{"T-08 other topology at the same epoch", kafkaMode, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.join("m2", with(topo(0, sub("s1", reads("foo"))))).err(kerr.InvalidRequest)
			w.wantEpoch(10)
		}},
		{"T-09 higher epoch", kafkaMode, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.join("m2", with(topo(1, t2().Subtopologies...))).err(kerr.InvalidRequest)
			w.join("m2", with(topo(1, sub("s1", reads("foo"))))).err(kerr.InvalidRequest)
			w.join("m2", with(topo(5, t2().Subtopologies...))).err(kerr.InvalidRequest)
			w.wantEpoch(10)
			w.wantMember("m2", "")
		}},
		{"T-10 topology outlives the members", kafkaMode, func(w *world) {
			w.target("m1", allNine, "m2", allNine)
			w.topo = topo(3, t2().Subtopologies...)
			w.join("m1").ok(2)
			w.hb("m1", -1).ok(-1)
			w.wantState(Empty)
			w.topo = topo(4, t2().Subtopologies...)
			w.join("m2").err(kerr.InvalidRequest)
			code, handled := w.delete()
			assert.True(w.t, handled)
			assert.Zero(w.t, code)
			w.join("m2").ok(2)
		}},
		{"T-11 no subtopologies", bothModes, func(w *world) {
			w.topo = topo(0)
			w.target()
			w.join("m1").ok(2).tasks("-").status().records("19", "23", "17(GE 2 VTE 0)", "21", "20", "22")
			w.wantState(Stable)
		}},
		{"T-12 order of subtopologies is irrelevant", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.target("m1", "s1:0-5", "m2", "s2:0-2")
			w.join("m2", with(topo(0, sub("s2", reads("bar")), sub("s1", reads("foo"))))).ok(11).status().records(
				"19(m2)", "17(GE 11 VTE 0)", "21(m1 s1:0-5)", "21(m2 s2:0-2)", "20(11, now)", "22(m2 UNRELEASED_TASKS ME 11 PME 0 -)")
			assert.Equal(w.t, "s1", w.c.groups[groupID].topology.Subtopologies[0].ID, "not written again")
		}},
		{"T-12 K-02 order of topics is not", bothModes, func(w *world) {
			w.topo = topo(0, sub("s1", reads("foo", "bar")))
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5"})
			want := kerr.StreamsInvalidTopologyEpoch
			if w.policy == Kafka {
				want = kerr.InvalidRequest
			}
			w.join("m2", with(topo(0, sub("s1", reads("bar", "foo"))))).err(want)
		}},
		{"T-14 repartition count from an external source", bothModes, func(w *world) {
			w.topic("source1", 3)
			w.topo = topo(0,
				sub("s0", reads("source1"), repartition("r2", 2), writes("r1", "rx")),
				sub("s1", repartition("r1", 4), repartition("rx", 0)))
			if w.policy == KIP1071 {
				w.topo.Subtopologies[1].RepartitionSinkTopics = []string{"r2"}
			}
			assert.Equal(w.t, map[string]int32{"r1": 4, "r2": 2, "rx": 3}, counts(w.join("m1").ok(2).status(3)))
		}},
		{"T-16 K-11 topics that depend on each other", bothModes, func(w *world) {
			w.topo = topo(0, sub("s0", repartition("a", 0), writes("b")), sub("s1", repartition("b", 0), writes("a")))
			refusedWithoutTrace(w, kerr.StreamsInvalidTopology, func() *answer { return w.join("m1") })
		}},
		{"T-20 changelog count", bothModes, func(w *world) {
			w.topo = topo(0,
				sub("s0", reads("foo"), repartition("r", 4), changelog("c")),
				sub("s1", reads("bar"), writes("r")))
			assert.Equal(w.t, map[string]int32{"r": 4, "c": 6}, counts(w.join("m1").ok(2).status(3)))
			w.topic("r", 4)
			w.topic("c", 6)
			w.target("m1", "s0:0-5 s1:0-2")
			a := w.hb("m1", 2).ok(3).tasks("s0:0-5 s1:0-2").status()
			assert.Empty(w.t, a.create)
			for i, stateful := range []bool{true, false} {
				assert.Equal(w.t, stateful, w.stub.calls[0].Subtopologies[i].Stateful)
			}
		}},
		{"T-21 detail length", bothModes, func(w *world) {
			w.topo = topo(0, sub("s0", reads("t5", "t3", "t1", "t4", "t2")))
			a := w.join("m1").ok(2).status(1).detail(1, "t1", "t2", "t3")
			if w.policy == KIP1071 {
				a.detail(1, "t3", "t4", "t5")
				return
			}
			a.detail(1, "t3", "2")
			assert.NotContains(w.t, a.resp.Status[0].StatusDetail, "t4")
		}},
		{"T-21 detail length, internal topics", bothModes, func(w *world) {
			w.topo = topo(0, sub("s0", reads("foo"), changelog("c5"), changelog("c3"), changelog("c1"), changelog("c4"), changelog("c2")))
			a := w.join("m1").ok(2).status(3)
			assert.Len(w.t, a.create, 5)
			if w.policy == KIP1071 {
				a.detail(3, "c1", "c2", "c3", "c4", "c5")
				return
			}
			named := 0
			for _, n := range a.create {
				if strings.Contains(a.resp.Status[0].StatusDetail, n.Name) {
					named++
				}
			}
			assert.Equal(w.t, 3, named)
			a.detail(3, "2")
		}},
		{"T-22 topic events", bothModes, func(w *world) {
			w.topic("baz", 2)
			w.target()
			w.stub.target = map[string]string{}
			tops := map[string]any{}
			for id, s := range map[string]wireSub{
				"A": sub("s", reads("foo")),
				"B": sub("s", repartition("foo", 6)),
				"C": sub("s", reads("baz"), changelog("foo")),
				"D": sub("s", reads("baz")),
			} {
				if id == "C" {
					w.topic("foo", 2)
				} else {
					w.topic("foo", 6)
				}
				w.stub.target = map[string]string{"m1": map[string]string{"A": "s:0-5", "B": "s:0-5", "C": "s:0,1", "D": "s:0,1"}[id]}
				w.join("m1", with(topo(0, s)), func(r *Request) { r.Group = id }).ok(2).status()
				tops[id] = w.c.groups[id].epoch
			}
			w.topic("foo", 12)
			for id, want := range map[string]int32{"A": 3, "B": 3, "C": 3, "D": 2} {
				w.stub.target = map[string]string{"m1": map[string]string{"A": "s:0-11"}[id]}
				a := w.hb("m1", 2, func(r *Request) { r.Group = id })
				require.Zero(w.t, a.resp.ErrorCode)
				assert.Equal(w.t, want, w.c.groups[id].epoch, "group %s", id)
				if want == 2 {
					a.noLists().status().records()
				}
			}
			// Deleted, and created again.
			for _, partitions := range []int32{0, 6} {
				before := map[string]int32{}
				for _, id := range []string{"A", "B", "C", "D"} {
					before[id] = w.c.groups[id].epoch
				}
				w.topic("foo", partitions)
				for _, id := range []string{"A", "B", "C", "D"} {
					w.stub.target = map[string]string{"m1": map[string]string{"A": "s:0-5", "B": "s:0-5"}[id]}
					me := w.c.groups[id].members["m1"].cur.epoch
					a := w.hb("m1", me, owned("-"), func(r *Request) { r.Group = id })
					require.Zero(w.t, a.resp.ErrorCode)
					if id == "D" {
						a.status().records()
						assert.Equal(w.t, before[id], w.c.groups[id].epoch)
						continue
					}
					assert.Equal(w.t, before[id]+1, w.c.groups[id].epoch, "group %s, foo has %d", id, partitions)
				}
			}
		}},
		{"T-23 source topic deleted under a running group", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.topic("bar", 0)
			w.hb("m1", 10).ok(10).tasks("-").status(1).records(
				"17(GE 11 VTE -1)", "21(m1 -)", "20(11, now)", "22(m1 UNREVOKED_TASKS ME 10 PME 10 - pending s1:0-5@10 s2:0-2@10)")
			w.wantState(NotReady)
			w.hb("m1", 10, owned("-")).ok(11).status(1).records("22(m1 STABLE ME 11 PME 10 -)")
			w.wantState(NotReady)
			w.topic("bar", 3)
			w.target("m1", allNine)
			w.hb("m1", 11).ok(12).tasks(allNine).status()
		}},
		{"IT-24 what the coordinator gave is right even if a topic shrank", kipMode, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.topic("bar", 2)
			w.target("m1", "s1:0-5 s2:0,1")
			w.hb("m1", 10, owned(allNine)).ok(10).tasks("s1:0-5 s2:0,1")
			w.hb("m1", 10, owned(allNine)).ok(10)
			w.hb("m1", 10, owned("s1:0-5 s2:0,1")).ok(11)
		}},
	})
}

// delete removes the group as the driver does.
func (w *world) delete() (int16, bool) {
	w.t.Helper()
	code, handled := w.c.Delete(groupID, &w.fx)
	if code == 0 && handled {
		w.finish(&answer{w: w}, nil)
	}
	return code, handled
}

func TestTopologyCopartitioning(t *testing.T) {
	type topic struct {
		kind byte // s source, f fixed repartition, o open repartition
		n    int32
	}
	for _, c := range []struct {
		id     string
		topics []topic
		bad    bool
		want   int32 // of every open topic
	}{
		{"a", []topic{{'s', 2}, {'s', 1}}, true, 0},
		{"b", []topic{{'s', 2}, {'s', 2}, {'o', 10}}, false, 2},
		{"c", []topic{{'o', 1}, {'o', 15}, {'o', 5}}, false, 15},
		{"d", []topic{{'f', 10}, {'f', 5}}, true, 0},
		{"e", []topic{{'f', 10}, {'f', 10}}, false, 0},
		{"f", []topic{{'f', 10}, {'s', 2}}, true, 0},
		{"g", []topic{{'f', 2}, {'s', 2}}, false, 0},
		{"h", []topic{{'f', 2}, {'o', 5}, {'f', 2}}, false, 2},
	} {
		t.Run("T-19"+c.id, func(t *testing.T) {
			t.Parallel()
			for _, p := range []Policy{KIP1071, Kafka} {
				w := newWorld(t, p)
				reader := sub("x")
				var sources, internal []int16
				var subs []wireSub
				for i, topic := range c.topics {
					name := fmt.Sprintf("t%d", i)
					if topic.kind == 's' {
						w.topic(name, topic.n)
						sources = append(sources, int16(len(reader.SourceTopics)))
						reads(name)(&reader)
						continue
					}
					// Somebody writes the topic, and gives an open one its count.
					feeder := fmt.Sprintf("from%d", i)
					w.topic(feeder, topic.n)
					subs = append(subs, sub(feeder, reads(feeder), writes(name)))
					internal = append(internal, int16(len(reader.RepartitionSourceTopics)))
					if topic.kind == 'f' {
						repartition(name, topic.n)(&reader)
					} else {
						repartition(name, 0)(&reader)
					}
				}
				copartitioned(sources, internal)(&reader)
				w.topo = topo(0, append(subs, reader)...)
				w.target()
				a := w.send(w.joinRequest("m1"))
				switch {
				case c.bad:
					a.ok(2).status(2)
				case len(internal) > 0:
					a.ok(2).status(3)
					for _, n := range a.create {
						want := c.want
						if i := n.Name[1] - '0'; c.topics[i].kind == 'f' {
							want = c.topics[i].n
						}
						assert.Equal(t, want, n.Partitions, n.Name)
					}
					assert.Len(t, a.create, len(internal))
				}
			}
		})
	}
}
