package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

func TestRulesHeartbeat(t *testing.T) {
	one := func(w *world) { w.g10(memberSpec{id: "m1", tasks: allNine}); w.target("m1", allNine) }
	runCases(t, []testCase{
		{"rules 7-1 7-2 group, member and the rest, in this order", bothModes, func(w *world) {
			bad := func(r *Request) { offsets("s1_0=1", "s1_0=2")(r) }
			w.hb("m9", 99, bad, owned("s9:9")).err(kerr.GroupIDNotFound)
			one(w)
			w.hb("m9", 99, bad, owned("s9:9")).err(kerr.UnknownMemberID)
			w.hb("m1", 99, bad, owned("s9:9")).err(kerr.FencedMemberEpoch)
			a := w.hb("m1", 10, bad, owned("s9:9")).err(kerr.InvalidRequest)
			assert.Contains(w.t, *a.resp.ErrorMessage, "s9_9", "tasks before offsets")
			a = w.hb("m1", 10, bad).err(kerr.InvalidRequest)
			assert.Contains(w.t, *a.resp.ErrorMessage, "s1_0")
			// A topology that is refused is refused before its topics are looked at.
			w.join("m1", with(topo(0, sub("s1", reads("nowhere"))))).err(map[Policy]*kerr.Error{Kafka: kerr.InvalidRequest, KIP1071: kerr.StreamsInvalidTopologyEpoch}[w.policy])
		}},
		{"rules 7-4 10.1-1 a first topology may have any epoch", bothModes, func(w *world) {
			w.target("m1", allNine)
			w.topo = topo(7, t2().Subtopologies...)
			w.join("m1").ok(2).records("19", "23(TE 7)", "17(GE 2 VTE 7)", "21", "20", "22")
		}},
		{"rules 7-5 14.1-0 the topology of this very request does not make the member stale", bothModes, func(w *world) {
			w.target("m1", allNine)
			w.topo = topo(3, t2().Subtopologies...)
			w.join("m1").ok(2).status()
			w.hb("m1", 2).ok(2).status()
		}},
		{"rules 7-6 7-7 7-10 topics, hash and validated epoch", bothModes, func(w *world) {
			one(w)
			w.topic("bar", 0)
			a := w.hb("m1", 10).ok(10).status(1)
			assert.Equal(w.t, []Reason{ReasonTopicsChanged, ReasonReadiness}, the[EpochBumped](a).Reasons)
			a.records("17(GE 11 VTE -1)", "21", "20", "22")
			w.topic("bar", 3)
			a = w.hb("m1", 10).ok(10)
			a.records("17(GE 12 VTE 0)", "21", "20")
		}},
		{"rule 7-8 the order of the lists", bothModes, func(w *world) {
			one(w)
			for _, c := range [][2]string{
				{"s8:0 | standby s9:0", "s8_0"}, {"- | standby s1:77 | warmup s9:0", "s1_77"}, {"- | warmup s9:0", "s9_0"},
			} {
				a := w.hb("m1", 10, owned(c[0])).err(kerr.InvalidRequest)
				assert.Contains(w.t, *a.resp.ErrorMessage, c[1])
			}
			w.hb("m1", 10, owned("s1:0"), func(r *Request) { r.ActiveTasks[0].Partitions[0] = -1 }).err(kerr.InvalidRequest)
		}},
		{"rule 7-8 D13 only while the topology is ready", bothModes, func(w *world) {
			w.topic("bar", 0)
			w.join("m1").ok(2).status(1)
			w.hb("m1", 2, owned("s9:9")).ok(2)
		}},
		{"rule 7-9 offsets", bothModes, func(w *world) {
			one(w)
			w.hb("m1", 10, offsets("s1_0=1", "s1_1=2"), ends("s1_0=5")).ok(10).records()
			w.hb("m1", 10, offsets("zzz_7=3")).ok(10).records() // a name that the topology lacks
			m := w.describe().Members[0]
			assert.Equal(w.t, parseOffsets([]string{"zzz_7=3"}), m.TaskOffsets)
			assert.Equal(w.t, parseOffsets([]string{"s1_0=5"}), m.TaskEndOffsets)
			w.hb("m1", 10, offsets()).ok(10)
			assert.Empty(w.t, w.describe().Members[0].TaskOffsets, "an empty list is not null")
			for _, o := range []requestOption{offsets("s1_0=1", "s1_0=1"), ends("s1_0=1", "s1_0=2")} {
				w.hb("m1", 10, offsets("s2_0=9"), ends("s2_0=9"), o).err(kerr.InvalidRequest)
			}
			assert.Equal(w.t, parseOffsets([]string{"s1_0=5"}), w.describe().Members[0].TaskEndOffsets)
			w.wantEpoch(10)
		}},
		{"rule 7-11 assignment configs", bothModes, func(w *world) {
			one(w)
			w.groupConfig("streams.num.standby.replicas", "1", "streams.rack.aware.assignment.tags", "zone,rack")
			w.target("m1", allNine)
			a := w.hb("m1", 10).ok(11)
			assert.Equal(w.t, []record.KeyValue{{Key: "num.standby.replicas", Value: "1"}, {Key: "rack.aware.assignment.tags", Value: "zone,rack"}}, a.recs[0].(*record.GroupMetadata).LastAssignmentConfigs)
			assert.Equal(w.t, []Reason{ReasonAssignmentConfig}, the[EpochBumped](a).Reasons)
			w.groupConfig("streams.num.standby.replicas", "1", "streams.rack.aware.assignment.tags", "rack,zone")
			a = w.hb("m1", 11, rack("r")).ok(12) // something else asked already
			assert.Equal(w.t, []Reason{ReasonMemberChanged}, the[EpochBumped](a).Reasons)
			w.hb("m1", 12).ok(12).records() // and that stored the configs, too
			w.groupConfig("streams.num.standby.replicas", "1", "streams.rack.aware.assignment.tags", "rack,zone",
				"streams.session.timeout.ms", "50000", "streams.heartbeat.interval.ms", "6000", "streams.initial.rebalance.delay.ms", "7", "streams.assignment.interval.ms", "0",
				"streams.task.offset.interval.ms", "20000", "streams.num.warmup.replicas", "3", "streams.acceptable.recovery.lag", "1", "streams.assignor.name", "other", "streams.assignor.offload.enable", "false")
			w.hb("m1", 12).ok(12).records()
		}},
		{"rule 7-11 the order in which the log has them does not matter", bothModes, func(w *world) {
			w.brokerConfig("group.streams.rack.aware.assignment.tags", "zone")
			w.group(groupSpec{members: []memberSpec{{id: "m1", tasks: allNine, tags: "zone=z"}}, configs: []record.KeyValue{{Key: "rack.aware.assignment.tags", Value: "zone"}, {Key: "num.standby.replicas", Value: "0"}}})
			w.hb("m1", 10).ok(10).records()
		}},
		{"rules 7-13 7-22 everything at once is one new epoch", bothModes, func(w *world) {
			one(w)
			w.topic("bar", 4)
			w.groupConfig("streams.num.standby.replicas", "1")
			w.target("m1", "s1:0-5 s2:0-3")
			a := w.hb("m1", 10, rack("r"), process("px")).ok(11).records("19(m1)", "17(GE 11 VTE 0)", "21", "20(11, now)", "22")
			g := a.recs[1].(*record.GroupMetadata)
			assert.Equal(w.t, w.c.groups[groupID].hash, g.MetadataHash)
			assert.Equal(w.t, []record.KeyValue{{Key: "num.standby.replicas", Value: "1"}}, g.LastAssignmentConfigs)
			w.hb("m1", 11).ok(11).records()
		}},
		{"rule 7-14 the initial delay starts with the first member only", bothModes, func(w *world) {
			one(w)
			w.brokerConfig("group.streams.initial.rebalance.delay.ms", "5000")
			w.target("m1", "s1:0-5", "m2", "s2:0-2")
			w.join("m2").ok(11).status() // not empty
			w.hb("m1", -1).ok(-1)
			w.hb("m2", -1).ok(-1)
			w.join("m1").ok(13).status(5)
			w.after(4 * time.Second)
			w.join("m2").ok(13).status(5)
			w.after(time.Second).records("21", "21", "20") // not started anew
			w.hb("m1", 13).ok(15).status()
		}},
		{"rule 7-18 E of the answer before keeps the session, too", bothModes, func(w *world) {
			one(w)
			w.hb("m1", 10).ok(10)
			w.after(44 * time.Second)
			w.hb("m1", 9, owned("-")).ok(10)
			w.after(44 * time.Second).records()
			w.after(time.Second).records("t22", "t21", "t19", "17", "20")
		}},
		{"rule 7-19 the first one wins", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, memberSpec{id: "m2", tasks: "s2:0-2"})
			w.hb("m2", 10, shutdown()).ok(10).detail(4, "m2")
			w.hb("m1", 10, shutdown()).ok(10).detail(4, "m2")
		}},
		{"rule 7-21 the order of the records", bothModes, func(w *world) {
			// A static member comes back with another rack while everything else
			// changes as well. (A topology can come along in kip mode only.)
			w.g10(memberSpec{id: "a1", instance: "i1", process: "pa", tasks: allNine})
			w.hb("a1", -2, inst("i1")).ok(-2)
			w.topic("bar", 4)
			w.target("b1", "s1:0-5 s2:0-3")
			want := []string{"t22(a1)", "t21(a1)", "t19(a1)", "19(b1)", "21(b1 s1:0-5 s2:0-2)", "22", "19(b1)", "17(GE 11)", "21(b1 s1:0-5 s2:0-3)", "20(11, now)", "22"}
			top := w.topo
			if w.policy == KIP1071 {
				top = topo(1, w.topo.Subtopologies...)
				want = append(want[:7:7], append([]string{"23(TE 1)"}, want[7:]...)...)
			}
			a := w.join("b1", inst("i1"), process("pa"), rack("r"), with(top)).ok(11)
			for i, s := range want {
				if s == "22" {
					want[i] = showRecord(a.recs[i], w.now.WallMillis)
					assert.Equal(w.t, record.TypeCurrentAssignment, a.recs[i].RecordKey().Type)
				}
			}
			a.records(want...)
		}},
	})
}

// TestRulesMetadata lays a request over a member: rule 7-3, D17 and D27.
func TestRulesMetadata(t *testing.T) {
	someone := memberSpec{id: "m1", tasks: allNine, rack: "r1", tags: "zone=a", endpoint: "h:1"}
	for _, c := range []struct {
		name    string
		opt     requestOption
		written bool // record 19
		moves   bool // a new epoch even for a static member
		want    func(m *record.MemberMetadata)
	}{
		{"nothing", func(*Request) {}, false, false, func(*record.MemberMetadata) {}},
		{"rack", rack("r2"), true, true, func(m *record.MemberMetadata) { m.RackID = optional("r2") }},
		{"the same rack", rack("r1"), false, false, func(*record.MemberMetadata) {}},
		{"process", process("px"), true, true, func(m *record.MemberMetadata) { m.ProcessID = "px" }},
		{"tags", tags("b=2", "a=1"), true, true, func(m *record.MemberMetadata) {
			m.ClientTags = []record.KeyValue{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}}
		}},
		{"no tags any more", tags(), true, true, func(m *record.MemberMetadata) { m.ClientTags = nil }},
		{"the same tags", tags("zone=a"), false, false, func(*record.MemberMetadata) {}},
		{"rebalance time-out", timeout(99), true, false, func(m *record.MemberMetadata) { m.RebalanceTimeoutMillis = 99 }},
		{"no rebalance time-out", timeout(-1), false, false, func(*record.MemberMetadata) {}},
		{"client id", func(r *Request) { r.ClientID = "x" }, true, false, func(m *record.MemberMetadata) { m.ClientID = "x" }},
		{"client host", func(r *Request) { r.ClientHost = "/::1" }, true, false, func(m *record.MemberMetadata) { m.ClientHost = "/::1" }},
		{"port", endpoint("h:2"), true, false, func(m *record.MemberMetadata) { m.UserEndpoint.Port = 2 }},
		{"host", endpoint("i:1"), true, false, func(m *record.MemberMetadata) { m.UserEndpoint.Host = "i" }},
	} {
		for _, static := range []bool{false, true} {
			for _, p := range []Policy{KIP1071, Kafka} {
				name := "rule 7-3 D27 dynamic "
				if static {
					name = "rule 7-3 D27 static "
				}
				t.Run(name+c.name, func(t *testing.T) {
					w := newWorld(t, p)
					m := someone
					opts := []requestOption{c.opt}
					if static {
						m.instance = "i1"
						opts = append(opts, inst("i1"))
					}
					w.g10(m)
					w.target("m1", allNine)
					want := *w.c.groups[groupID].members["m1"].meta
					if e := want.UserEndpoint; e != nil {
						copied := *e
						want.UserEndpoint = &copied
					}
					c.want(&want)
					a := w.hb("m1", 10, opts...)
					switch {
					case !c.written:
						a.ok(10).records()
					case static && !c.moves:
						a.ok(10).records("19(m1)")
					default:
						a.ok(11).records("19(m1)", "17(GE 11)", "20(11, now)", "22")
					}
					assert.Equal(t, &want, w.c.groups[groupID].members["m1"].meta)
				})
			}
		}
	}
	runCases(t, []testCase{
		{"rule 7-3 D17 a join without endpoint takes it away", bothModes, func(w *world) {
			w.g10(someone)
			w.target("m1", allNine)
			w.hb("m1", 10).ok(10)
			require.NotNil(w.t, w.describe().Members[0].UserEndpoint)
			w.join("m1").ok(11).records("19(m1)", "17(GE 11)", "20", "22")
			assert.Nil(w.t, w.describe().Members[0].UserEndpoint)
		}},
		{"rule 7-3 another instance id", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine, instance: "i1"})
			w.join("m1", inst("i2")).ok(10).records("19(m1)")
			assert.Equal(w.t, "i2", *w.describe().Members[0].InstanceID)
		}},
		{"rule 7-3 another topology epoch", kipMode, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine, instance: "i1"})
			w.target("m1", allNine)
			w.hb("m1", -2, inst("i1")).ok(-2)
			a := w.join("m1", inst("i1"), with(topo(1, w.topo.Subtopologies...))).ok(11)
			assert.Equal(w.t, []Reason{ReasonMemberChanged, ReasonTopology, ReasonReadiness}, the[EpochBumped](a).Reasons)
		}},
	})
}

func TestRulesTopics(t *testing.T) {
	configured := func(w *world) any { return w.c.groups[groupID].configured() }
	hash := func(w *world) int64 { return w.c.groups[groupID].hash }
	again := func(w *world) { w.topic("unrelated", 1) } // a new version of the image
	runCases(t, []testCase{
		{"rule 8-1 what the hash covers", bothModes, func(w *world) {
			w.topic("sink", 1)
			w.topic("r", 6)
			w.topic("c", 6)
			w.topo = topo(0, sub("a", reads("foo"), writes("r", "sink"), changelog("c")), sub("b", repartition("r", 6)))
			w.target("m1", "a:0-5 b:0-5")
			w.join("m1").ok(2).status()
			epoch := int32(2)
			for _, change := range []struct {
				topic string
				n     int32
				seen  bool
			}{{"sink", 9, false}, {"bar", 9, false}, {"c", 7, true}, {"c", 6, true}, {"r", 5, true}, {"r", 6, true}} {
				before := hash(w)
				w.topic(change.topic, change.n)
				a := w.hb("m1", epoch)
				assert.Equal(w.t, change.seen, before != hash(w), "%s", change.topic)
				assert.Equal(w.t, change.seen, len(a.recs) > 0, "%s", change.topic)
				epoch = max(epoch, a.resp.MemberEpoch)
			}
			// Another topic under the same name.
			before := hash(w)
			topic := w.topics["c"]
			topic.ID[0]++
			w.topics["c"] = topic
			again(w)
			w.hb("m1", epoch)
			assert.NotEqual(w.t, before, hash(w))
			for _, name := range []string{"foo", "r", "c"} {
				w.topic(name, 0)
			}
			w.hb("m1", epoch).status(1)
			assert.Zero(w.t, hash(w))
		}},
		{"rules 8-2 8-5 looked at once", bothModes, func(w *world) {
			w.target("m1", allNine)
			w.join("m1").ok(2)
			first := configured(w)
			require.NotNil(w.t, first)
			w.hb("m1", 2).ok(2)
			assert.Same(w.t, first, configured(w))
			assert.Equal(w.t, w.image.Version(), w.c.groups[groupID].topics.version)
		}},
		{"rule 8-3 after loading", bothModes, func(w *world) {
			w.group(groupSpec{loaded: true, members: []memberSpec{{id: "m1", tasks: allNine}}})
			assert.Nil(w.t, configured(w))
			w.hb("m1", 10).ok(10).records()
			assert.NotNil(w.t, configured(w))
		}},
		{"rules 8-4 8-6 another version of the image", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.hb("m1", 10).ok(10)
			first := configured(w)
			again(w)
			w.hb("m1", 10).ok(10).records()
			assert.Same(w.t, first, configured(w), "the hash is the same")
			w.topic("bar", 5)
			w.target("m1", "s1:0-5 s2:0-4")
			w.hb("m1", 10).ok(11)
			assert.NotSame(w.t, first, configured(w))
		}},
		{"rule 8-7 a look whose append failed", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.hb("m1", 10).ok(10)
			w.topic("bar", 5)
			w.target("m1", "s1:0-5 s2:0-4")
			for range 2 {
				w.appendFails = kerr.KafkaStorageError
				w.hb("m1", 10).err(kerr.NotCoordinator)
			}
			w.hb("m1", 10).ok(11).records("17(GE 11)", "21", "20", "22")
		}},
		{"rules 9-8 9-2 9-4 an impossible topology writes nothing", bothModes, func(w *world) {
			for _, top := range []*kmsg.StreamsGroupHeartbeatRequestTopology{
				topo(0, sub("a", repartition("r", 0), writes("r2")), sub("b", repartition("r2", 0), writes("r"))), // in circles
				topo(0, sub("a", repartition("r", 0))),       // nobody writes r
				topo(0, sub("a", changelog("c"))),            // nothing to read
				topo(0, sub("a", reads("foo")), sub("b")),    // the same
				topo(0, sub("a", reads("foo"), writes("r"))), // fine, to see that the others are not
			} {
				w.target("m1", "a:0-5")
				if len(top.Subtopologies) == 1 && len(top.Subtopologies[0].RepartitionSinkTopics) == 1 {
					w.join("m1", with(top)).ok(2)
					continue
				}
				refusedWithoutTrace(w, kerr.StreamsInvalidTopology, func() *answer { return w.join("m1", with(top)) })
			}
		}},
		{"rule 9-9 topics to create", bothModes, func(w *world) {
			w.topic("c", 6)
			w.topics["c"] = func() topicOfImage { c := w.topics["c"]; c.Configs = map[string]string{"x": "1"}; return c }()
			w.topo = topo(0, sub("a", reads("foo"), func(s *wireSub) {
				s.StateChangelogTopics = []kmsg.TopicInfo{
					{Topic: "c", Configs: []kmsg.TopicInfoConfig{{Key: "x", Value: "2"}}},
					{Topic: "d", ReplicationFactor: 3, Configs: []kmsg.TopicInfoConfig{{Key: "cleanup.policy", Value: "compact"}}},
					{Topic: "e"},
				}
			}))
			a := w.join("m1").ok(2).status(3)
			require.Len(w.t, a.create, 2)
			assert.Equal(w.t, "d", a.create[0].Name)
			assert.EqualValues(w.t, 6, a.create[0].Partitions)
			assert.EqualValues(w.t, 3, a.create[0].ReplicationFactor)
			assert.Equal(w.t, []record.KeyValue{{Key: "cleanup.policy", Value: "compact"}}, a.create[0].Configs)
			assert.EqualValues(w.t, -1, a.create[1].ReplicationFactor)
		}},
		{"rule 9-11 a topic that is read and repartitioned", bothModes, func(w *world) {
			w.topo = topo(0, sub("a", reads("foo"), writes("r")), sub("b", reads("r"), repartition("r", 6)))
			a := w.join("m1").ok(2).status(1).detail(1, "r")
			assert.Empty(w.t, a.create)
		}},
		{"rules 9.2-1 9.2-2 14.1-1 not ready, and ready again", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, memberSpec{id: "m2", tasks: "s2:0-2"})
			w.topic("foo", 0)
			w.hb("m1", 10).ok(10).tasks("-").status(1).records("17(GE 11 VTE -1)", "21(m1 -)", "21(m2 -)", "20(11, now)", "22")
			w.hb("m2", 10).ok(10).tasks("-").status(1)
			w.hb("m1", 10, owned("-")).ok(11).noLists().status(1)
			w.wantState(NotReady)
			assert.Empty(w.t, w.stub.calls)
			w.topic("foo", 6)
			w.target("m1", "s1:0-5", "m2", "s2:0-2")
			w.hb("m1", 11).ok(12).tasks("s1:0-5").status().records("17(GE 12 VTE 0)", "21", "21", "20", "22")
		}},
		{"rules 9-5 9-4 tasks and changelogs", bothModes, func(w *world) {
			w.topo = topo(0, sub("s1", reads("foo", "bar"), repartition("r", 8), writes("r"), changelog("c")))
			created := map[string]int32{}
			for _, n := range w.join("m1").ok(2).status(3).create {
				created[n.Name] = n.Partitions
			}
			assert.Equal(w.t, map[string]int32{"r": 8, "c": 8}, created)
			assert.EqualValues(w.t, 8, w.c.groups[groupID].configured().Subtopologies[0].Tasks)
		}},
		{"rules 9-6 9-7 internal topics", bothModes, func(w *world) {
			w.topo = topo(0, sub("s1", reads("foo"), changelog("c1"), changelog("c2")))
			a := w.join("m1").ok(2).status(3)
			require.Len(w.t, a.create, 2)
			w.topic("c1", 6)
			a = w.hb("m1", 2).ok(3).status(3).detail(3, "c2")
			require.Len(w.t, a.create, 1, "what is there already is not created")
			w.topic("c1", 5)
			a = w.hb("m1", 3).ok(4).status(2).detail(2, "c1")
			assert.Empty(w.t, a.create, "nothing as long as one is wrong")
			assert.Equal(w.t, int8(2), the[TopicsNotReady](a).Status, "another problem")
			assert.Empty(w.t, w.hb("m1", 4).ok(4).status(2).events, "the same one")
			w.topic("c1", 6)
			w.topic("c2", 6)
			w.target("m1", "s1:0-5")
			w.hb("m1", 4).ok(5).tasks("s1:0-5").status()
		}},
		{"rules 9-3 9.1-2 external topics of a copartition group", bothModes, func(w *world) {
			w.topic("foo3", 3)
			w.topo = topo(0, sub("s1", reads("foo", "bar", "foo3"), copartitioned([]int16{1, 2}, nil), copartitioned([]int16{0}, nil)))
			w.target("m1", "s1:0-5")
			w.join("m1").ok(2).status()
			w.topic("foo3", 4)
			w.hb("m1", 2).status(2).detail(2, "bar", "3")
		}},
		{"rules 9.1-4 9.1-5 9-3 repartition topics of a copartition group", bothModes, func(w *world) {
			// group has the repartition topics r, with a count or 0 for an open one that
			// as many partitions as its feeder's would flow into.
			group := func(external string, fixed, open int32) map[string]int32 {
				x := newWorld(w.t, w.policy)
				x.topic("feed", open)
				reader := sub("x", repartition("f", fixed), repartition("o", 0))
				var sources []int16
				if external != "" {
					reads(external)(&reader)
					sources = []int16{0}
				}
				copartitioned(sources, []int16{0, 1})(&reader)
				x.topo = topo(0, sub("y", reads("feed"), writes("f", "o")), reader)
				a := x.join("m1").ok(2)
				created := map[string]int32{}
				for _, n := range a.create {
					created[n.Name] = n.Partitions
				}
				if len(created) == 0 {
					a.status(2).detail(2, "f")
				}
				return created
			}
			assert.Equal(w.t, map[string]int32{"f": 7, "o": 7}, group("", 0, 7), "the maximum")
			assert.Equal(w.t, map[string]int32{"f": 4, "o": 4}, group("", 4, 7), "the fixed one")
			assert.Equal(w.t, map[string]int32{"f": 6, "o": 6}, group("foo", 0, 7), "the external one")
			assert.Equal(w.t, map[string]int32{"f": 6, "o": 6}, group("foo", 6, 7))
			assert.Empty(w.t, group("foo", 5, 7), "another fixed count")
		}},
	})
}
