package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What random heartbeats to a real Kafka have shown: when it finds out what, and
// what it overlooks.
func TestWhenKafkaFindsOut(t *testing.T) {
	twice := []kmsg.TaskIDs{{SubtopologyID: "s1", Partitions: []int32{0}}, {SubtopologyID: "s1", Partitions: []int32{1}}}
	runCases(t, []testCase{
		{"Q1 tags twice are found after the group and the member", kafkaMode, func(w *world) {
			w.hb("m1", 1, tags("zone=a", "zone=b")).err(kerr.GroupIDNotFound)
			w.target("m1", allNine)
			w.join("m1").ok(2)
			w.hb("m2", 1, tags("zone=a", "zone=b")).err(kerr.UnknownMemberID)
			w.hb("m1", 9, tags("zone=a", "zone=b")).err(kerr.FencedMemberEpoch)
			w.hb("m1", 2, tags("zone=a", "zone=b")).err(kerr.InvalidRequest)
			w.hb("m1", -1, tags("zone=a", "zone=b")).ok(-1)
		}},
		{"Q17 a member that leaves and comes back before the next assignment gets its tasks back", kafkaMode, func(w *world) {
			w.brokerConfig("group.streams.assignment.interval.ms", "5000")
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, memberSpec{id: "m2", tasks: "s2:0-2"}, memberSpec{id: "m3"})
			w.target("m1", "s1:0-5", "m2", "s2:0-2")
			w.hb("m3", -1).ok(-1)
			w.hb("m1", 10).ok(11)
			w.hb("m2", 10).ok(11)
			w.hb("m2", -1).ok(-1)
			w.join("m3").ok(11).tasks("-").status(5)
			w.join("m2").ok(11).tasks("s2:0-2").status(5)
			w.hb("m2", 11).ok(11).noLists().status(5).records()

			w.hb("m2", -1).ok(-1)
			w.groupConfig("streams.num.warmup.replicas", "0")
			w.join("m2").ok(11).tasks("-").status(5)

			w.hb("m2", -1).ok(-1)
			w.groupConfig()
			w.after(5 * time.Second)
			w.target("m1", "s1:0-5", "m3", "s2:0-2")
			w.join("m2").tasks("-").status()
		}},
		{"Q17 a static member that comes back before it has a target", kafkaMode, func(w *world) {
			w.brokerConfig("group.streams.assignment.interval.ms", "5000")
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, memberSpec{id: "m2", tasks: "s2:0-2"}, memberSpec{id: "m3"})
			w.target("m1", "s1:0-5", "m2", "s2:0-2")
			w.hb("m3", -1).ok(-1)
			w.hb("m1", 10).ok(11)
			w.join("m4", inst("i4")).ok(11).tasks("-").status(5)
			w.hb("m4", -2, inst("i4")).ok(-2)
			w.join("m5", inst("i4")).ok(11).tasks("-").status(5)
		}},
		{"Q17 not under policy KIP1071", kipMode, func(w *world) {
			w.brokerConfig("group.streams.assignment.interval.ms", "5000")
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, memberSpec{id: "m2", tasks: "s2:0-2"}, memberSpec{id: "m3"})
			w.target("m1", "s1:0-5", "m2", "s2:0-2")
			w.hb("m3", -1).ok(-1)
			w.hb("m1", 10).ok(11)
			w.hb("m2", -1).ok(-1)
			w.join("m2").ok(11).tasks("-").status(5)
		}},
		{"Q1 a negative topology epoch is found after the group is full", kafkaMode, func(w *world) {
			w.brokerConfig("group.streams.max.size", "1")
			w.target("m1", allNine)
			w.join("m1").ok(2)
			w.topo.Epoch = -1
			w.join("m2").err(kerr.GroupMaxSizeReached)
		}},
		{"Q1 owned subtopologies twice are found when the member has to be moved", kafkaMode, func(w *world) {
			w.target("m1", allNine)
			w.join("m1").ok(2)
			repeat := func(r *Request) { r.ActiveTasks = twice }
			w.hb("m1", 2, owned("-"), repeat).ok(2)
			w.target("m1", allNine, "m2", "-")
			w.join("m2").ok(3)
			w.hb("m1", 2, owned("-"), repeat).err(kerr.InvalidRequest)
		}},
		{"rules 4-8 4-9 4-10 4-11 blank as for Java", bothModes, func(w *world) {
			w.target("m1", allNine)
			w.join("m1").ok(2)
			w.hb("\u2003", 2).err(kerr.UnknownMemberID)
			w.hb("m1", 2, inst("\u00a0")).err(kerr.UnknownMemberID)
			for _, blank := range []string{"", " ", "\t", "\x01 \x1f"} {
				w.hb(blank, 2).err(kerr.InvalidRequest)
				w.hb("m1", 2, inst(blank)).err(kerr.InvalidRequest)
				w.hb("m1", 2, rack(blank)).err(kerr.InvalidRequest)
			}
			w.hb("m1", 2, rack("\u00a0")).ok(3)
		}},
		{"rules 9-1 9-8 a wrong topology is not noticed while source topics are missing", kafkaMode, func(w *world) {
			w.topo = topo(0, sub("s1", reads("missing")), sub("s2", reads("foo"), repartition("r", 0)))
			w.join("m1").ok(2).status(1)
			w.topic("missing", 1)
			w.hb("m1", 2).err(kerr.StreamsInvalidTopology)
			w.join("m2").err(kerr.StreamsInvalidTopology)
			w.wantEpoch(2)
		}},
		{"rule 9-4 nor that a subtopology has no source, while topics are not copartitioned", kafkaMode, func(w *world) {
			w.topo = topo(0, sub("s1", reads("foo", "bar"), copartitioned([]int16{0, 1}, nil)), sub("s2"))
			w.join("m1").ok(2).status(2)
		}},
		{"Q1 an internal topic twice in a subtopology", kafkaMode, func(w *world) {
			for _, s := range []func(*wireSub){changelog("c"), repartition("r", 1)} {
				w.topo = topo(0, sub("s1", reads("foo"), s, s))
				refusedWithoutTrace(w, kerr.StreamsInvalidTopology, func() *answer { return w.join("m1") })
			}
		}},
		{"rule 18.1-6 a source topic that is named twice is described once when ready", bothModes, func(w *world) {
			w.topo = topo(0, sub("s1", reads("baz", "baz")))
			w.join("m1").ok(2).status(1)
			assert.Equal(w.t, []string{"baz", "baz"}, w.describe().Topology.Subtopologies[0].SourceTopics)
			w.topic("baz", 2)
			w.target("m1", "s1:0,1")
			w.hb("m1", 2).ok(3)
			assert.Equal(w.t, []string{"baz"}, w.describe().Topology.Subtopologies[0].SourceTopics)
		}},
		{"rule 5-2 Q6 a stranger asks an empty group for shutdown", bothModes, func(w *world) {
			w.target("m1", allNine)
			w.join("m1").ok(2)
			w.hb("m1", -1).ok(-1)
			w.hb("m2", -1, shutdown()).err(kerr.UnknownMemberID)
			w.target("m3", allNine)
			a := w.join("m3")
			if w.policy == Kafka {
				a.status(4)
			} else {
				a.status()
			}
			w.hb("m3", -1).ok(-1)
			w.target("m4", allNine)
			w.join("m4").status()
		}},
		{"Q15 a refused request that names the instance of another member moves nothing", bothModes, func(w *world) {
			w.target("m1", allNine)
			w.join("m1", inst("i1")).ok(2)
			w.target("m1", "s1:0-5", "m2", "s2:0-2")
			w.join("m2").ok(3)
			w.join("m3", inst("i1")).err(kerr.UnreleasedInstanceID)
			w.hb("m3", 2, inst("i1")).err(kerr.FencedInstanceID)
			w.hb("m1", 2, inst("i1")).ok(2).tasks("s1:0-5")
		}},
	})
}
