package coordinator

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The tests with the name TestRules go through docs/rules.md, rule by rule.

// denials allow everything but what they list, as "READ GROUP" or
// "DESCRIBE TOPIC foo".
type denials []string

func (d denials) Allowed(op kmsg.ACLOperation, kind kmsg.ACLResourceType, name string) bool {
	s := op.String() + " " + kind.String()
	return !slices.Contains(d, s) && !slices.Contains(d, s+" "+name)
}

// violation is a request with one fault.
type violation struct {
	rule   string
	want   *kerr.Error
	silent bool // answered without a text
	policy mode
	// touches is the part of the request that is at fault: two faults of one part
	// do not go together.
	touches string
	do      func(w *world, r *Request)
}

// addSub adds a subtopology to the topology of a join.
func addSub(s wireSub) func(*world, *Request) {
	return func(_ *world, r *Request) {
		t := *r.Topology
		t.Subtopologies = append(slices.Clone(t.Subtopologies), s)
		r.Topology = &t
	}
}

func (v violation) holdsUnder(p Policy) bool {
	return v.policy == bothModes || (v.policy == kafkaMode) == (p == Kafka)
}

// checkOrder checks every fault alone, then every two of them together: the one
// that is listed first answers.
func checkOrder(t *testing.T, faults []violation, base func(w *world) *Request) {
	for _, p := range []Policy{KIP1071, Kafka} {
		answers := make([]*answer, len(faults))
		for i, v := range faults {
			if !v.holdsUnder(p) {
				continue
			}
			t.Run(v.rule+" alone", func(t *testing.T) {
				w := newWorld(t, p)
				r := base(w)
				v.do(w, r)
				r.Access = w.access
				refusedWithoutTrace(w, v.want, func() *answer { answers[i] = w.send(r); return answers[i] })
				assert.Equal(t, v.silent, answers[i].resp.ErrorMessage == nil, "text")
			})
			for j := range i {
				first := faults[j]
				if !first.holdsUnder(p) || first.touches == v.touches {
					continue
				}
				t.Run(first.rule+" before "+v.rule, func(t *testing.T) {
					w := newWorld(t, p)
					r := base(w)
					v.do(w, r)
					if r.Topology == nil && (first.touches == "topology" || first.touches == "topics") {
						t.Skip("there is no topology to be wrong")
					}
					first.do(w, r)
					r.Access = w.access
					a := w.send(r).err(first.want)
					assert.Equal(t, deref(answers[j].resp.ErrorMessage), deref(a.resp.ErrorMessage))
				})
			}
		}
	}
}

func deny(what string) func(*world, *Request) {
	return func(w *world, _ *Request) {
		d, _ := w.access.(denials)
		d = append(d, what)
		w.access = d
	}
}

func TestRulesGateOfJoins(t *testing.T) {
	t.Parallel()
	blank := "  "
	checkOrder(t, []violation{
		{"rule 4-1", kerr.UnsupportedVersion, true, bothModes, "protocols", func(w *world, _ *Request) {
			w.brokerConfig("group.coordinator.rebalance.protocols", "classic,consumer")
		}},
		{"rule 4-2", kerr.GroupAuthorizationFailed, true, bothModes, "access", deny("READ GROUP")},
		{"rule 4-3 consumer offsets", kerr.StreamsInvalidTopology, false, bothModes, "topology", addSub(sub("x", reads("__consumer_offsets")))},
		{"rule 4-3 transaction state", kerr.StreamsInvalidTopology, false, bothModes, "topology", addSub(sub("x", reads("foo"), writes("__transaction_state")))},
		{"rule 4-3 share group state", kerr.StreamsInvalidTopology, false, bothModes, "topology", addSub(sub("x", repartition("__share_group_state", 1)))},
		{"rule 4-4 a source topic", kerr.StreamsInvalidTopology, false, bothModes, "topology", addSub(sub("x", reads("a b")))},
		{"rule 4-4 a sink topic", kerr.StreamsInvalidTopology, false, bothModes, "topology", addSub(sub("x", reads("foo"), writes("a/b")))},
		{"rule 4-4 a repartition topic", kerr.StreamsInvalidTopology, false, bothModes, "topology", addSub(sub("x", repartition("..", 1)))},
		{"rule 4-4 a changelog topic", kerr.StreamsInvalidTopology, false, bothModes, "topology", addSub(sub("x", reads("foo"), changelog("")))},
		{"rule 4-5 a source topic", kerr.TopicAuthorizationFailed, true, bothModes, "topics", deny("DESCRIBE TOPIC foo")},
		{"rule 4-7", kerr.InvalidRequest, false, kafkaMode, "topology", addSub(sub("x", pattern("f.*")))},
		{"rule 4-8 empty", kerr.InvalidRequest, false, bothModes, "member", func(_ *world, r *Request) { r.MemberID = "" }},
		{"rule 4-8 blank", kerr.InvalidRequest, false, bothModes, "member", func(_ *world, r *Request) { r.MemberID = blank }},
		{"rule 4-9", kerr.InvalidRequest, false, bothModes, "group", func(_ *world, r *Request) { r.Group = blank }},
		{"rule 4-10", kerr.InvalidRequest, false, bothModes, "instance", func(_ *world, r *Request) { r.InstanceID = &blank }},
		{"rule 4-11", kerr.InvalidRequest, false, bothModes, "rack", func(_ *world, r *Request) { r.RackID = &blank }},
		{"rule 4-12", kerr.InvalidRequest, false, bothModes, "timeout", func(_ *world, r *Request) { r.RebalanceTimeoutMillis = -1 }},
		{"rule 4-12 D11", kerr.InvalidRequest, false, kipMode, "timeout", func(_ *world, r *Request) { r.RebalanceTimeoutMillis = 0 }},
		{"rule 4-13 active", kerr.InvalidRequest, false, bothModes, "lists", owns("s1:0")},
		{"rule 4-13 standby", kerr.InvalidRequest, false, bothModes, "lists", owns("- | standby s1:0")},
		{"rule 4-13 warm-up", kerr.InvalidRequest, false, bothModes, "lists", owns("- | warmup s1:0")},
		{"rule 4-13 null", kerr.InvalidRequest, false, bothModes, "lists", func(_ *world, r *Request) { r.WarmupTasks = nil }},
		{"rule 4-14", kerr.InvalidRequest, false, bothModes, "no topology", func(_ *world, r *Request) { r.Topology = nil }},
		{"rule 4-15", kerr.StreamsInvalidTopology, false, bothModes, "topology", addSub(sub("x", reads("foo"), func(s *wireSub) {
			s.StateChangelogTopics = []kmsg.TopicInfo{{Topic: "c", NumPartitions: 1}}
		}))},
	}, func(w *world) *Request { return w.joinRequest("m1") })
}

func owns(tasks string) func(*world, *Request) {
	return func(_ *world, r *Request) { owned(tasks)(r) }
}

func TestRulesGateOfOthers(t *testing.T) {
	t.Parallel()
	blank := " "
	checkOrder(t, []violation{
		{"rule 4-1", kerr.UnsupportedVersion, true, bothModes, "protocols", func(w *world, _ *Request) {
			w.brokerConfig("group.coordinator.rebalance.protocols", "classic")
		}},
		{"rule 4-2", kerr.GroupAuthorizationFailed, true, bothModes, "access", deny("READ GROUP g")},
		{"rule 4-3", kerr.StreamsInvalidTopology, false, bothModes, "topology", func(_ *world, r *Request) { r.Topology = topo(0, sub("x", reads("__consumer_offsets"))) }},
		{"rule 4-8", kerr.InvalidRequest, false, bothModes, "member", func(_ *world, r *Request) { r.MemberID = blank }},
		{"rule 4-10", kerr.InvalidRequest, false, bothModes, "instance", func(_ *world, r *Request) { r.InstanceID = &blank }},
		{"rule 4-11", kerr.InvalidRequest, false, bothModes, "rack", func(_ *world, r *Request) { r.RackID = &blank }},
		{"rule 4-16", kerr.InvalidRequest, false, bothModes, "instance", func(_ *world, r *Request) { r.MemberEpoch = -2 }},
		{"rule 4-17", kerr.InvalidRequest, false, bothModes, "epoch", func(_ *world, r *Request) { r.MemberEpoch = -3 }},
		{"rule 4-18 active", kerr.InvalidRequest, false, bothModes, "lists", func(_ *world, r *Request) { r.ActiveTasks = []kmsg.TaskIDs{} }},
		{"rule 4-18 standby and warm-up", kerr.InvalidRequest, false, bothModes, "lists", func(_ *world, r *Request) {
			r.StandbyTasks, r.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		}},
		{"rule 4-19", kerr.InvalidRequest, false, bothModes, "topology", func(_ *world, r *Request) { r.Topology = t2() }},
	}, func(w *world) *Request { return w.request("m1", 5) })
}

func TestRulesGateOther(t *testing.T) {
	runCases(t, []testCase{
		{"rule 4-5 every kind of topic counts", bothModes, func(w *world) {
			for _, topic := range []string{"src", "sink", "rep", "log"} {
				w.access = denials{"DESCRIBE TOPIC " + topic}
				w.topo = topo(0, sub("x", reads("src"), writes("sink"), repartition("rep", 1), changelog("log")))
				refusedWithoutTrace(w, kerr.TopicAuthorizationFailed, func() *answer { return w.join("m1") })
			}
		}},
		{"rule 4-5 no topic, no right", bothModes, func(w *world) {
			w.access = denials{"DESCRIBE TOPIC"}
			w.topo = topo(0)
			w.target()
			w.join("m1").ok(2)
		}},
		{"rule 4-12 D11 -2", kipMode, func(w *world) {
			refusedWithoutTrace(w, kerr.InvalidRequest, func() *answer { return w.join("m1", timeout(-2)) })
		}},
		{"rule 4-15 also of a topology that is not compared", kafkaMode, func(w *world) {
			w.topo = topo(1, t2().Subtopologies...)
			w.g10(memberSpec{id: "m1", tasks: allNine})
			old := topo(0, sub("s1", reads("foo"), func(s *wireSub) { s.StateChangelogTopics = []kmsg.TopicInfo{{Topic: "c", NumPartitions: 1}} }))
			w.join("m2", with(old)).err(kerr.StreamsInvalidTopology)
			old.Subtopologies[0].StateChangelogTopics[0].NumPartitions = 0
			w.target("m1", allNine, "m2", "-")
			w.join("m2", with(old)).ok(11).status(0)
		}},
		{"rule 4-24 a partition twice in one list", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", me: 10, pme: 10, state: unrevokedTasks, tasks: "s1:0-5", pending: "s2:0-2", target: "s1:0-5"})
			w.hb("m1", 10, owned("s1:0-5"), func(r *Request) {
				r.ActiveTasks[0].Partitions = append(r.ActiveTasks[0].Partitions, 3, 0)
			}).ok(10).noLists().status().records("22(m1 STABLE ME 10 PME 10 s1:0-5@10)")
		}},
		{"rule 4-22 a member without time to revoke", kafkaMode, func(w *world) {
			for _, ms := range []int32{0, -2} {
				w := newWorld(w.t, Kafka)
				w.t1(2)
				w.target("m1", "s1:0,1")
				w.join("m1", timeout(ms)).ok(2)
				w.after(time.Second).records()
				w.target("m1", "s1:0", "m2", "s1:1")
				w.join("m2").ok(3)
				w.hb("m1", 2).ok(2).tasks("s1:0")
				w.after(0).records("t22(m1)", "t21(m1)", "t19(m1)", "17(GE 4)")
			}
		}},
	})
}

// TestRulesAnswerOfAFailedAppend is what a client is told when the records of its
// heartbeat could not be appended.
func TestRulesAnswerOfAFailedAppend(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ failure, want *kerr.Error }{
		{kerr.UnknownTopicOrPartition, kerr.CoordinatorNotAvailable},
		{kerr.NotEnoughReplicas, kerr.CoordinatorNotAvailable},
		{kerr.NotEnoughReplicasAfterAppend, kerr.CoordinatorNotAvailable},
		{kerr.RequestTimedOut, kerr.CoordinatorNotAvailable},
		{kerr.NotLeaderForPartition, kerr.NotCoordinator},
		{kerr.KafkaStorageError, kerr.NotCoordinator},
		{kerr.NetworkException, kerr.CoordinatorLoadInProgress},
		{kerr.MessageTooLarge, kerr.UnknownServerError},
		{kerr.RecordListTooLarge, kerr.UnknownServerError},
		{kerr.InvalidFetchSize, kerr.UnknownServerError},
		{kerr.PolicyViolation, kerr.UnknownServerError},
	} {
		t.Run("rule 4-21 "+c.failure.Message, func(t *testing.T) {
			resp := kmsg.NewStreamsGroupHeartbeatResponse()
			AppendFailed(&resp, c.failure)
			assert.Equal(t, c.want.Code, resp.ErrorCode)
			assert.Nil(t, resp.ErrorMessage)
			assert.NotNil(t, resp.Status)
		})
	}
}
