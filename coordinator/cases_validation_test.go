package coordinator

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// grants allows what it lists, as "READ GROUP g" or "DESCRIBE TOPIC foo".
type grants []string

func (g grants) Allowed(op kmsg.ACLOperation, kind kmsg.ACLResourceType, name string) bool {
	for _, s := range g {
		if s == op.String()+" "+kind.String()+" "+name {
			return true
		}
	}
	return false
}

// refusedWithoutTrace sends a request that must be refused without a group
// coming into being.
func refusedWithoutTrace(w *world, want *kerr.Error, do func() *answer) {
	w.t.Helper()
	do().err(want)
	assert.False(w.t, w.c.Has(groupID))
	assert.Empty(w.t, w.c.List())
}

func TestRequestValidation(t *testing.T) {
	request := func(name string, want *kerr.Error, do func(w *world) *answer) testCase {
		return testCase{name, bothModes, func(w *world) {
			refusedWithoutTrace(w, want, func() *answer { return do(w) })
		}}
	}
	lists := func(r *Request) (active, standby, warmup *[]kmsg.TaskIDs) {
		return &r.ActiveTasks, &r.StandbyTasks, &r.WarmupTasks
	}
	one := []kmsg.TaskIDs{{SubtopologyID: "s1", Partitions: []int32{0}}}

	runCases(t, []testCase{
		request("V-02 streams is not among the protocols", kerr.UnsupportedVersion, func(w *world) *answer {
			w.brokerConfig("group.coordinator.rebalance.protocols", "classic,consumer")
			a := w.join("m1")
			assert.Nil(w.t, a.resp.ErrorMessage, "the text is null")
			w.hb("m1", 1).err(kerr.UnsupportedVersion)
			return a
		}),
		request("V-03 authorization is looked at before the topology", kerr.GroupAuthorizationFailed, func(w *world) *answer {
			w.access = grants{"DESCRIBE TOPIC foo"}
			w.topo = topo(0, sub("s1", reads("a b")))
			a := w.join("m1")
			assert.Nil(w.t, a.resp.ErrorMessage, "the text is null")
			return a
		}),
		request("V-04 a topic of Kafka itself", kerr.StreamsInvalidTopology, func(w *world) *answer {
			w.topo = topo(0, sub("s1", reads("__consumer_offsets")))
			return w.join("m1")
		}),
		request("V-05 an illegal topic name", kerr.StreamsInvalidTopology, func(w *world) *answer {
			w.topo = topo(0, sub("s1", reads("foo"), changelog("a b")))
			return w.join("m1")
		}),
		request("V-06 a topic that may not be described", kerr.TopicAuthorizationFailed, func(w *world) *answer {
			w.access = grants{"READ GROUP g", "DESCRIBE TOPIC foo"}
			a := w.join("m1")
			assert.Nil(w.t, a.resp.ErrorMessage, "topics are not listed")
			return a
		}),
		request("V-08 an empty member id, with a source pattern", kerr.InvalidRequest, func(w *world) *answer {
			w.topo = topo(0, sub("s1", pattern("foo.*")))
			return w.join("")
		}),
		{"V-08 a source pattern", kafkaMode, func(w *world) {
			w.topo = topo(0, sub("s1", pattern("foo.*")))
			refusedWithoutTrace(w, kerr.InvalidRequest, func() *answer { return w.join("m1") })
		}},
		{"V-08 a source pattern is resolved", kipMode, func(w *world) {
			w.topo = topo(0, sub("s1", pattern("fo+")))
			w.target("m1", "s1:0-5")
			w.join("m1").ok(2).tasks("s1:0-5").status()
		}},
		request("V-10 an empty group id", kerr.InvalidRequest, func(w *world) *answer {
			return w.join("m1", func(r *Request) { r.Group = "" })
		}),
		request("V-10 a blank group id", kerr.InvalidRequest, func(w *world) *answer {
			return w.join("m1", func(r *Request) { r.Group = "  " })
		}),
		request("V-11 an empty instance id in a join", kerr.InvalidRequest, func(w *world) *answer { return w.join("m1", inst("")) }),
		request("V-11 an empty instance id in a heartbeat", kerr.InvalidRequest, func(w *world) *answer { return w.hb("m1", 1, inst("")) }),
		request("V-11 an empty instance id in a leave", kerr.InvalidRequest, func(w *world) *answer { return w.hb("m1", -1, inst("")) }),
		request("V-11 a blank rack id", kerr.InvalidRequest, func(w *world) *answer { return w.join("m1", rack(" ")) }),
		request("V-13 no rebalance time-out in a join", kerr.InvalidRequest, func(w *world) *answer { return w.join("m1", timeout(-1)) }),
		{"V-13 D11 a rebalance time-out that no member could keep", kipMode, func(w *world) {
			refusedWithoutTrace(w, kerr.InvalidRequest, func() *answer { return w.join("m1", timeout(0)) })
			refusedWithoutTrace(w, kerr.InvalidRequest, func() *answer { return w.join("m1", timeout(-2)) })
		}},
		request("V-15 active tasks in a join", kerr.InvalidRequest, func(w *world) *answer {
			return w.join("m1", func(r *Request) { a, _, _ := lists(r); *a = one })
		}),
		request("V-15 standby tasks in a join", kerr.InvalidRequest, func(w *world) *answer {
			return w.join("m1", func(r *Request) { _, s, _ := lists(r); *s = one })
		}),
		request("V-15 warm-up tasks in a join", kerr.InvalidRequest, func(w *world) *answer {
			return w.join("m1", func(r *Request) { _, _, u := lists(r); *u = one })
		}),
		request("V-15 no lists in a join", kerr.InvalidRequest, func(w *world) *answer {
			return w.join("m1", func(r *Request) { r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = nil, nil, nil })
		}),
		request("V-16 no topology in a join", kerr.InvalidRequest, func(w *world) *answer { return w.join("m1", with(nil)) }),
		request("V-17 a changelog topic with a partition count", kerr.StreamsInvalidTopology, func(w *world) *answer {
			w.topo = topo(0, sub("s1", reads("foo"), func(s *wireSub) {
				s.StateChangelogTopics = []kmsg.TopicInfo{{Topic: "c", NumPartitions: 1}}
			}))
			return w.join("m1")
		}),
		request("V-18 a dynamic member that leaves for a moment", kerr.InvalidRequest, func(w *world) *answer { return w.hb("m1", -2) }),
		request("V-19 an unknown member epoch", kerr.InvalidRequest, func(w *world) *answer { return w.hb("m1", -3) }),
		request("V-20 one list without the others", kerr.InvalidRequest, func(w *world) *answer {
			return w.hb("m1", 1, func(r *Request) { r.ActiveTasks = []kmsg.TaskIDs{} })
		}),
		request("V-21 a topology without a join", kerr.InvalidRequest, func(w *world) *answer { return w.hb("m1", 1, with(t2())) }),
		{"V-24 V-25 V-26 a failed append", bothModes, func(w *world) {
			w.target("m1", "s1:0-5 s2:0-2")
			for _, c := range []struct{ append, want *kerr.Error }{
				{kerr.UnknownTopicOrPartition, kerr.CoordinatorNotAvailable},
				{kerr.NotEnoughReplicas, kerr.CoordinatorNotAvailable},
				{kerr.RequestTimedOut, kerr.CoordinatorNotAvailable},
				{kerr.NotLeaderForPartition, kerr.NotCoordinator},
				{kerr.KafkaStorageError, kerr.NotCoordinator},
				{kerr.NetworkException, kerr.CoordinatorLoadInProgress},
				{kerr.MessageTooLarge, kerr.UnknownServerError},
				{kerr.RecordListTooLarge, kerr.UnknownServerError},
				{kerr.InvalidFetchSize, kerr.UnknownServerError},
			} {
				w.appendFails = c.append
				refusedWithoutTrace(w, c.want, func() *answer { return w.join("m1") })
			}
			w.appendFails = errors.New("disk on fire")
			a := w.join("m1").err(kerr.UnknownServerError)
			assert.Nil(w.t, a.resp.ErrorMessage, "the text is null")
			w.join("m1").ok(2)
		}},
		{"V-27 offsets and warm-up tasks", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5 s2:0-2"})
			w.hb("m1", 10, owned("s1:0-5 s2:0,1 | warmup s2:2"), offsets("s1_0=1"), ends("s1_0=2")).ok(10)
		}},
	})
}

// Kafka answers these with UNKNOWN_SERVER_ERROR.
func TestRequestValidationOfWhatKafkaOverlooks(t *testing.T) {
	join := func(name string, want *kerr.Error, top *kmsg.StreamsGroupHeartbeatRequestTopology, opts ...requestOption) testCase {
		return testCase{name, bothModes, func(w *world) {
			w.topo = top
			refusedWithoutTrace(w, want, func() *answer { return w.join("m1", opts...) })
		}}
	}
	runCases(t, []testCase{
		join("Q1 negative topology epoch", kerr.InvalidRequest, topo(-1, sub("s1", reads("foo")))),
		join("Q1 a subtopology twice", kerr.StreamsInvalidTopology, topo(0, sub("s1", reads("foo")), sub("s1", reads("bar")))),
		join("Q1 negative partition count", kerr.StreamsInvalidTopology, topo(0, sub("s1", reads("foo"), writes("r")), sub("s2", repartition("r", -1)))),
		join("Q1 a client tag twice", kerr.InvalidRequest, t2(), tags("zone=a", "zone=b")),
		join("Q2 copartition index out of range", kerr.StreamsInvalidTopology, topo(0, sub("s1", reads("foo"), copartitioned([]int16{0, 1}, nil)))),
		join("Q2 negative copartition index", kerr.StreamsInvalidTopology, topo(0, sub("s1", reads("foo"), copartitioned([]int16{-1}, nil)))),
		{"Q1 a client tag twice in a heartbeat", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5 s2:0-2"})
			w.hb("m1", 10, tags("zone=a", "zone=b")).err(kerr.InvalidRequest)
		}},
		{"Q1 a subtopology twice among the owned tasks", kipMode, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5 s2:0-2"})
			twice := []kmsg.TaskIDs{{SubtopologyID: "s1", Partitions: []int32{0}}, {SubtopologyID: "s1", Partitions: []int32{1}}}
			w.hb("m1", 10, owned("-"), func(r *Request) { r.ActiveTasks = twice }).err(kerr.InvalidRequest)
		}},
		{"D12 a task in two roles", kipMode, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5 s2:0-2"})
			w.hb("m1", 10, owned("s1:0-5 | standby s1:0")).err(kerr.InvalidRequest)
			w.hb("m1", 10, owned("s1:0-5 | warmup s1:0")).err(kerr.InvalidRequest)
			w.hb("m1", 10, owned("- | standby s1:0 | warmup s1:0")).err(kerr.InvalidRequest)
		}},
	})
}
