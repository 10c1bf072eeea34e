package coordinator

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/assignor"
	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/topology"
)

type wireTopology = kmsg.StreamsGroupHeartbeatRequestTopology

// TestRulesTopologyOfAJoin is the table of decisions: rules 10.1 and 21.1.
func TestRulesTopologyOfAJoin(t *testing.T) {
	same := func(epoch int32) *wireTopology { return topo(epoch, t2().Subtopologies...) }
	other := func(epoch int32) *wireTopology {
		return topo(epoch, sub("s1", reads("foo")), sub("s2", reads("bar"), changelog("c")))
	}
	var cases []testCase
	for _, c := range []struct {
		kafkaRule, kipRule string
		sent               *wireTopology
		kafka, kip         *kerr.Error // nil: accepted
		staleInKafka       bool
		replacesInKIP      bool
	}{
		{"rule 10.1-3", "rules 21.1-3 D1", same(2), nil, kerr.StreamsTopologyFenced, true, false},
		{"rule 10.1-3 content is not looked at", "rules 21.1-3 D1 content is not looked at", other(0), nil, kerr.StreamsTopologyFenced, true, false},
		{"rule 10.1-4", "rule 21.1-1", same(3), nil, nil, false, false},
		{"rule 10.1-5", "rules 21.1-2 D2", other(3), kerr.InvalidRequest, kerr.StreamsInvalidTopologyEpoch, false, false},
		{"rule 10.1-6 the next", "rules 21.1-5 D3", other(4), kerr.InvalidRequest, nil, false, true},
		{"rule 10.1-6 the next, equal", "rules 21.1-5 D3 equal", same(4), kerr.InvalidRequest, nil, false, true},
		{"rule 10.1-6 one after the next", "rules 21.1-4 D4", same(5), kerr.InvalidRequest, kerr.StreamsInvalidTopologyEpoch, false, false},
		{"rule 10.1-6 far ahead", "rules 21.1-4 D4 far ahead", other(2147483647), kerr.InvalidRequest, kerr.StreamsInvalidTopologyEpoch, false, false},
	} {
		// Every way to join meets the same rules.
		for _, way := range []string{"new member", "known member", "static replacement", "empty group"} {
			join := func(w *world) *answer {
				w.topic("c", 3)
				w.topo = same(3)
				opts := []requestOption{with(c.sent)}
				member := "m1"
				switch way {
				case "new member":
					w.g10(memberSpec{id: "m1", tasks: allNine, topologyEpoch: 3})
					member = "m2"
				case "known member":
					w.g10(memberSpec{id: "m1", tasks: allNine, topologyEpoch: 3})
				case "static replacement":
					w.g10(memberSpec{id: "a1", instance: "i1", process: "pa", tasks: allNine, topologyEpoch: 3})
					w.hb("a1", -2, inst("i1")).ok(-2)
					member, opts = "b1", append(opts, inst("i1"), process("pa"))
				case "empty group":
					w.g10()
				}
				w.target("m1", allNine, "m2", "-", "b1", allNine)
				if way == "empty group" {
					w.target("m1", allNine)
				}
				before := w.c.stateOf(groupID)
				a := w.join(member, opts...)
				if a.resp.ErrorCode != 0 {
					assert.Equal(w.t, before, w.c.stateOf(groupID), "a refused join leaves no trace")
				}
				return a
			}
			cases = append(
				cases,
				testCase{c.kafkaRule + ", " + way, kafkaMode, func(w *world) {
					a := join(w)
					if c.kafka != nil {
						a.err(c.kafka)
						return
					}
					require.Zero(w.t, a.resp.ErrorCode)
					assert.EqualValues(w.t, 3, w.c.groups[groupID].topology.Epoch)
					assert.Equal(w.t, c.sent.Epoch, w.c.groups[groupID].members[a.resp.MemberID].meta.TopologyEpoch)
					if c.staleInKafka {
						a.status(0)
						w.hb(a.resp.MemberID, a.resp.MemberEpoch).status(0)
					} else {
						a.status()
					}
				}},
				testCase{c.kipRule + ", rules 21.1-6 21.1-7, " + way, kipMode, func(w *world) {
					a := join(w)
					if c.kip != nil {
						a.err(c.kip)
						return
					}
					require.Zero(w.t, a.resp.ErrorCode)
					a.status()
					stored := slices.IndexFunc(a.recs, func(r record.Record) bool { return r.RecordKey().Type == record.TypeTopology })
					assert.Equal(w.t, c.replacesInKIP, stored >= 0)
					if c.replacesInKIP {
						assert.EqualValues(w.t, 4, w.c.groups[groupID].topology.Epoch)
						w.wantEpoch(11)
					}
				}},
			)
		}
	}
	runCases(t, cases)
}

func TestRulesTopologiesThatDiffer(t *testing.T) {
	t.Parallel()
	base := func() *wireTopology {
		return topo(0,
			sub("a", reads("foo", "bar"), writes("r1", "r2"), changelog("c1"), changelog("c2"), copartitioned([]int16{0}, nil)),
			sub("b", repartition("r1", 3), repartition("r2", 3), func(s *wireSub) {
				s.RepartitionSourceTopics[0].Configs = []kmsg.TopicInfoConfig{{Key: "x", Value: "1"}}
			}))
	}
	a, b := 0, 1
	change := func(i int, f func(s *wireSub)) func(*wireTopology) {
		return func(t *wireTopology) { f(&t.Subtopologies[i]) }
	}
	for name, c := range map[string]struct {
		change func(*wireTopology)
		equal  bool
	}{
		"nothing":                    {func(*wireTopology) {}, true},
		"order of subtopologies":     {func(t *wireTopology) { slices.Reverse(t.Subtopologies) }, true},
		"id":                         {change(a, func(s *wireSub) { s.SubtopologyID = "z" }), false},
		"order of source topics":     {change(a, func(s *wireSub) { slices.Reverse(s.SourceTopics) }), false},
		"a source topic less":        {change(a, func(s *wireSub) { s.SourceTopics = s.SourceTopics[:1] }), false},
		"order of sinks":             {change(a, func(s *wireSub) { slices.Reverse(s.RepartitionSinkTopics) }), false},
		"order of changelogs":        {change(a, func(s *wireSub) { slices.Reverse(s.StateChangelogTopics) }), false},
		"order of repartition":       {change(b, func(s *wireSub) { slices.Reverse(s.RepartitionSourceTopics) }), false},
		"count":                      {change(b, func(s *wireSub) { s.RepartitionSourceTopics[0].NumPartitions = 4 }), false},
		"replication factor":         {change(b, func(s *wireSub) { s.RepartitionSourceTopics[0].ReplicationFactor = 2 }), false},
		"config of a topic":          {change(b, func(s *wireSub) { s.RepartitionSourceTopics[0].Configs[0].Value = "2" }), false},
		"copartition group":          {change(a, func(s *wireSub) { s.CopartitionGroups[0].SourceTopics = []int16{1} }), false},
		"no copartition group":       {change(a, func(s *wireSub) { s.CopartitionGroups = nil }), false},
		"one subtopology more":       {func(t *wireTopology) { t.Subtopologies = append(t.Subtopologies, sub("z", reads("baz"))) }, false},
		"one subtopology less":       {func(t *wireTopology) { t.Subtopologies = t.Subtopologies[:1] }, false},
		"config of a topic is gone":  {change(b, func(s *wireSub) { s.RepartitionSourceTopics[0].Configs = nil }), false},
		"a changelog has a config":   {change(a, func(s *wireSub) { s.StateChangelogTopics[1].Configs = []kmsg.TopicInfoConfig{{Key: "k"}} }), false},
		"a changelog has three reps": {change(a, func(s *wireSub) { s.StateChangelogTopics[1].ReplicationFactor = 3 }), false},
	} {
		t.Run("rule 10.1-7 "+name, func(t *testing.T) {
			for _, p := range []Policy{KIP1071, Kafka} {
				w := newWorld(t, p)
				w.topo = base()
				w.group(groupSpec{members: []memberSpec{{id: "m1", tasks: "-"}}})
				sent := base()
				c.change(sent)
				h := &heartbeat{c: &w.c.coordinatorState}
				same, r := h.compareTopologies(w.c.groups[groupID].topology, record.FromWire(groupID, sent))
				assert.Equal(t, c.equal, same)
				assert.Equal(t, c.equal, r == nil)
			}
		})
	}
}

func TestRulesTopologyLifetime(t *testing.T) {
	runCases(t, []testCase{
		{"rule 10.1-2 heartbeats bring none", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			before := w.c.groups[groupID].topology
			w.hb("m1", 10).ok(10).records()
			assert.Same(w.t, before, w.c.groups[groupID].topology)
		}},
		{"rule 10.2 the topology outlives the members", kafkaMode, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.hb("m1", -1).ok(-1)
			assert.NotNil(w.t, w.c.groups[groupID].topology)
			next := topo(1, sub("s9", reads("foo")))
			w.join("m1", with(next)).err(kerr.InvalidRequest)
			code, _ := w.delete()
			assert.Zero(w.t, code)
			w.target("m1", "s9:0-5")
			w.join("m1", with(next)).ok(2)
		}},
		{"rule 10.3 stale members get tasks", kafkaMode, func(w *world) {
			w.topo = topo(1, t2().Subtopologies...)
			w.g10(memberSpec{id: "m1", tasks: allNine, topologyEpoch: 1})
			w.target("m1", "s1:0-5", "m2", "s2:0-2")
			w.join("m2", with(t2())).ok(11).status(0)
			for _, m := range w.stub.calls[0].Members {
				assert.Equal(w.t, w.stub.calls[0].TopologyEpoch, m.TopologyEpoch, "the assignor does not see it")
			}
			w.hb("m1", 10, owned("s1:0-5")).ok(11)
			w.hb("m2", 11).ok(11).tasks("s2:0-2").status(0)
		}},
	})
}

func TestRulesUpdates(t *testing.T) {
	next := func(w *world) *wireTopology {
		w.topic("baz", 2)
		return topo(1, append(slices.Clone(t2().Subtopologies), sub("s3", reads("baz")))...)
	}
	runCases(t, []testCase{
		{"rules 21.1-8 21.1-9 the same topics, another topology", kipMode, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.hb("m1", 10).ok(10)
			hash := w.c.groups[groupID].hash
			w.target("m1", "-", "m2", "s5:0-5")
			a := w.join("m2", with(topo(1, sub("s5", reads("foo", "bar"))))).ok(11)
			n := 0
			for _, r := range a.recs {
				if r, ok := r.(*record.GroupMetadata); ok {
					n++
					assert.Equal(w.t, hash, r.MetadataHash)
					assert.EqualValues(w.t, 1, r.ValidatedTopologyEpoch)
				}
			}
			assert.Equal(w.t, 1, n)
			assert.EqualValues(w.t, 6, w.c.groups[groupID].configured().Subtopologies[0].Tasks)
		}},
		{"rule 21.1-9 to a topology that is not ready", kipMode, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			a := w.join("m2", with(topo(1, sub("s1", reads("missing"))))).ok(11).status(1)
			a.records("19(m2)", "23(TE 1)", "17(GE 11 VTE -1)", "21(m2 -)", "20(11, now)", "22(m2 STABLE ME 11 PME 0 -)")
			w.wantState(NotReady)
		}},
		{"rule 21.1-10 the topics of the new topology", kipMode, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.target("m1", "s1:0-5", "m2", "s3:0,1")
			w.topic("baz", 2)
			w.join("m2", with(topo(1, sub("s1", reads("foo")), sub("s3", reads("baz"))))).ok(11)
			assert.True(w.t, w.c.Subscribed(groupID, "baz"))
			assert.True(w.t, w.c.Subscribed(groupID, "bar"), "m1 has read it and may still commit (X7)")
			w.topic("bar", 9)
			w.hb("m2", 11).ok(11).records()
			w.topic("baz", 3)
			w.target("m1", "s1:0-5", "m2", "s3:0-2")
			w.hb("m2", 11).ok(12)
			w.hb("m1", -1).ok(-1)
			assert.False(w.t, w.c.Subscribed(groupID, "bar"))
		}},
		{"rule 21.1-11 the interval does not hold it up, the delay does", kipMode, func(w *world) {
			w.brokerConfig("group.streams.assignment.interval.ms", "5000")
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.assignedAt(10, w.now.WallMillis)
			w.target("m1", "s1:0-5 s2:0-2", "m2", "s3:0,1")
			w.join("m2", with(next(w))).ok(11).tasks("s3:0,1").status()
			w.join("m2", rack("r"), with(next(w))).ok(11).status(5) // everything else it does

			x := newWorld(w.t, w.policy)
			x.brokerConfig("group.streams.initial.rebalance.delay.ms", "5000")
			x.join("m1").ok(1).status(5)
			x.join("m2", with(next(x))).ok(1).tasks("-").status(5)
			x.target("m1", "-", "m2", "s1:0-5 s2:0-2 s3:0,1")
			x.after(5*time.Second).records("21(m1 -)", "21(m2 s1:0-5 s2:0-2 s3:0,1)", "20(3, now)")
		}},
		{"rules 21.1-12 21.1-14 tasks that are no more", kipMode, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, memberSpec{id: "m2", tasks: "s2:0,1", target: "s2:0,1"})
			w.target("m1", "s1:0-5", "m2", "-", "m3", "-")
			w.join("m3", with(topo(1, sub("s1", reads("foo"))))).ok(11)
			w.hb("m2", 10, owned("s2:0,1")).ok(10).tasks("-") // assigned
			w.wantMember("m2", "UNREVOKED_TASKS ME 10 PME 10 - pending s2:0,1@10")
			w.hb("m2", 10, owned("s2:0,1")).ok(10)                 // pending
			w.hb("m2", 10, owned("s2:2")).err(kerr.InvalidRequest) // never given
			w.hb("m2", 10, owned("- | standby s2:2")).err(kerr.InvalidRequest)
			w.hb("m2", 10, owned("-")).ok(11)
			w.hb("m2", 11, owned("s2:0")).err(kerr.InvalidRequest) // given up
		}},
		{"rule 21.1-14 a copy that has become active before the member knows", kipMode, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5 s2:1,2"}, memberSpec{id: "m2", me: 9, tasks: "standby s2:0", target: "s2:0"})
			w.hb("m2", 9).ok(10).tasks("s2:0")
			w.target("m1", "s1:0-5", "m2", "-", "m3", "-")
			w.join("m3", with(topo(1, sub("s1", reads("foo"))))).ok(11)
			w.hb("m2", 9, owned("- | standby s2:0")).err(kerr.FencedMemberEpoch) // it does not know the epoch
			w.hb("m2", 10, owned("- | standby s2:0")).ok(11)                     // it knows it, and has not started the task
			w.wantMember("m2", "STABLE ME 11 PME 10 -")
		}},
		{"rule 21.1-13 the endpoint list", kipMode, func(w *world) {
			w.t1(2)
			w.topic("baz", 2)
			w.g10(memberSpec{id: "m1", tasks: "s1:0,1", endpoint: "h:1"})
			w.hb("m1", 10, seen(9)).ok(10).endpoints("h:1 foo:0,1")
			w.target("m1", "s1:0,1", "m2", "s2:0,1")
			w.join("m2", with(topo(1, sub("s1", reads("foo")), sub("s2", reads("baz")))), endpoint("h:2"), seen(9)).ok(11).endpoints("h:1 foo:0,1", "h:2 baz:0,1")
			w.hb("m1", 10, seen(9)).ok(11).endpoints("h:1 foo:0,1", "h:2 baz:0,1")
		}},
		{"rules 21.1-15 D5 those that are behind", kipMode, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, memberSpec{id: "m2", tasks: "s2:0-2"})
			w.target("m1", "s1:0-5", "m2", "s2:0-2", "m3", "s3:0,1")
			w.join("m3", with(next(w))).ok(11).status()
			for range 2 {
				w.hb("m1", w.c.groups[groupID].members["m1"].cur.epoch).status(0)
				w.hb("m2", w.c.groups[groupID].members["m2"].cur.epoch).status(0).detail(0, "0", "1")
				w.hb("m3", 11).ok(11).status()
			}
		}},
		{"rule 21.1-16 a later failure", kipMode, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.hb("m1", 10).ok(10)
			before := w.c.stateOf(groupID)
			w.join("m2", with(next(w)), offsets("s1_0=1", "s1_0=2")).err(kerr.InvalidRequest)
			w.target("m1", "s1:0-5", "m2", "s1:0-5") // the assignor fails
			w.join("m2", with(next(w))).err(kerr.UnknownServerError)
			w.appendFails = kerr.RequestTimedOut
			w.target("m1", "s1:0-5", "m2", "s2:0-2 s3:0,1")
			w.join("m2", with(next(w))).err(kerr.CoordinatorNotAvailable)
			assert.Equal(w.t, before, w.c.stateOf(groupID))
			w.hb("m1", 10).ok(10).status()
		}},
	})
}

func TestRulesStaleMembers(t *testing.T) {
	// updated is a group after an update: m1 and m2 are behind, m3 is not.
	updated := func(w *world) {
		w.topic("c", 6)
		w.topic("c2", 3)
		subs := []wireSub{sub("s1", reads("foo"), changelog("c")), sub("s2", reads("bar"), changelog("c2"))}
		w.topo = topo(0, subs...)
		w.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, memberSpec{id: "m2", tasks: "s2:0-2"})
		w.target("m1", "s1:0-4", "m2", "s2:0-2", "m3", "s1:5")
		w.topo = topo(1, subs...)
		w.join("m3").ok(11)
	}
	runCases(t, []testCase{
		{"rules 21.2-1 21.2-4 D6 targets that break the rule are refused", kipMode, func(w *world) {
			updated(w)
			for _, id := range []string{"m1", "m2"} {
				assert.EqualValues(w.t, 0, memberOf(w.stub.calls[0], id).TopologyEpoch)
			}
			assert.EqualValues(w.t, 1, memberOf(w.stub.calls[0], "m3").TopologyEpoch)
			for _, pairs := range [][]string{
				{"m1", "s1:0-4", "m2", "s1:5 s2:0-2", "m3", "-"}, // m2 gains a task
				{"m1", "s1:0-4 s2:0", "m2", "s2:1,2", "m3", "s1:5"},
			} {
				w.target(pairs...)
				a := w.hb("m3", 11, rack("r")).err(kerr.UnknownServerError)
				assert.Contains(w.t, the[AssignmentFailed](a).Reason, "stale")
			}
		}},
		{"rule 21.2-2 an older target", kipMode, func(w *world) {
			updated(w)
			w.replay(
				targetRecord(groupID, "m2", parseRoles("s1:5 s2:0-2")),
				targetRecord(groupID, "m3", parseRoles("s1:5 s7:0"))) // the topology has no s7
			w.hb("m1", 10, owned("s1:0-4")).ok(11)
			w.hb("m2", 10).ok(11).noLists()
			w.wantMember("m2", "STABLE ME 11 PME 10 s2:0-2@10")
			w.hb("m3", 11).ok(11).tasks("s1:5")
			w.wantMember("m3", "STABLE ME 11 PME 11 s1:5@11")
		}},
		{"rule 21.2-3 tasks for nobody", kipMode, func(w *world) {
			updated(w)
			w.hb("m1", 10, owned("s1:0-4")).ok(11)
			w.hb("m2", 10).ok(11)
			w.hb("m3", 11).ok(11).tasks("s1:5")
			w.hb("m3", -1).ok(-1)
			w.target("m1", "s1:0-4", "m2", "s2:0-2")
			a := w.hb("m1", 11).ok(12).status(0)
			assert.Equal(w.t, []topology.TaskID{{Subtopology: "s1", Partition: 5}}, the[TargetComputed](a).Unassigned)
			w.hb("m2", 11).ok(12)
			w.wantState(Stable)
		}},
		{"rule 21.2-5 stale members are members", kipMode, func(w *world) {
			updated(w)
			w.hb("m1", 10).ok(10).tasks("s1:0-4").status(0)
			w.after(1400 * time.Millisecond).records()
			w.hb("m1", 10, owned("s1:0-4")).ok(11)
			w.wantCommit(nil, Commit{Member: "m1", Epoch: 11}, "foo:0")
			w.wantCommit(nil, Commit{Member: "m1", Epoch: 10}, "foo:4")
			w.hb("m2", 10).ok(11)
			w.after(40 * time.Second)
			w.hb("m1", 11).ok(11)
			w.hb("m2", 11).ok(11)
			w.after(10 * time.Second)
			w.wantMember("m1", "STABLE ME 11 PME 10 s1:0-4@10")
			w.wantMember("m3", "")
		}},
	})
}

func memberOf(g *assignor.Group, id string) assignor.Member {
	return g.Members[slices.IndexFunc(g.Members, func(m assignor.Member) bool { return m.ID == id })]
}
