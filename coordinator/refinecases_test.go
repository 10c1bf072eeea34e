package coordinator

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Cases of what assignors and the refiner rely on: reported offsets, client tags,
// stored targets and changes of role.

func (w *world) reported(id string) (offsets, ends map[topology.TaskID]int64) {
	m := w.c.groups[groupID].members[id]
	return m.offsets, m.ends
}

func taskOf(text string) topology.TaskID { return parseTasks(text)[0] }

func TestOffsetReports(t *testing.T) {
	zero, one := taskOf("s1:0"), taskOf("s1:1")
	one9 := func(w *world) {
		w.g10(memberSpec{id: "m1", tasks: allNine})
		w.hb("m1", 10, offsets("s1_0=1"), ends("s1_0=9")).ok(10)
	}
	runCases(t, []testCase{
		{"MO-01 one list", bothModes, func(w *world) {
			one9(w)
			w.hb("m1", 10, offsets("s1_0=5", "s1_1=6")).ok(10)
			o, e := w.reported("m1")
			assert.Equal(w.t, map[topology.TaskID]int64{zero: 5, one: 6}, o)
			assert.Equal(w.t, map[topology.TaskID]int64{zero: 9}, e)
		}},
		{"MO-03 a list replaces the other", bothModes, func(w *world) {
			one9(w)
			w.hb("m1", 10, offsets("s1_1=7")).ok(10)
			o, _ := w.reported("m1")
			assert.Equal(w.t, map[topology.TaskID]int64{one: 7}, o)
		}},
		{"MO-05 a task twice", bothModes, func(w *world) {
			one9(w)
			w.hb("m1", 10, offsets("s1_1=7", "s1_1=8")).err(kerr.InvalidRequest)
			w.hb("m1", 10, offsets("s1_1=7"), ends("s1_1=7", "s1_1=8")).err(kerr.InvalidRequest)
			o, e := w.reported("m1")
			assert.Equal(w.t, map[topology.TaskID]int64{zero: 1}, o)
			assert.Equal(w.t, map[topology.TaskID]int64{zero: 9}, e)
		}},
		{"MO-07 a member that is gone", bothModes, func(w *world) {
			one9(w)
			w.hb("m1", -1)
			w.target("m1", allNine)
			w.join("m1").fine()
			o, e := w.reported("m1")
			assert.Empty(w.t, o)
			assert.Empty(w.t, e)
		}},
		{"MO-08 another coordinator", bothModes, func(w *world) {
			one9(w)
			w.move()
			o, e := w.reported("m1")
			assert.Empty(w.t, o)
			assert.Empty(w.t, e)
			w.hb("m1", 10, offsets("s1_0=2")).ok(10)
			o, _ = w.reported("m1")
			assert.Equal(w.t, map[topology.TaskID]int64{zero: 2}, o)
		}},
		{"MO-10 a join with what is on disk", bothModes, func(w *world) {
			w.target("m1", allNine)
			w.join("m1", offsets("s1_0=5"), ends()).fine()
			assert.Equal(w.t, map[topology.TaskID]int64{zero: 5}, w.stub.calls[0].Members[0].Offsets)
		}},
		{"MO-11 a static member under a new id", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", instance: "i", tasks: allNine})
			w.hb("m1", 10, inst("i"), offsets("s1_0=1")).ok(10)
			w.hb("m1", -2, inst("i"))
			w.target("m2", allNine)
			w.join("m2", inst("i"), process("p1")).fine()
			o, _ := w.reported("m2")
			assert.Empty(w.t, o)
		}},
	})
}

func TestMissingTags(t *testing.T) {
	keyed := func(w *world) {
		w.groupConfig("streams.rack.aware.assignment.tags", "zone,cluster")
		w.target("m1", allNine)
	}
	runCases(t, []testCase{
		{"RK-21 one key is missing", bothModes, func(w *world) {
			keyed(w)
			a := w.join("m1", tags("cluster=a")).fine().status(statusMissingClientTags).detail(statusMissingClientTags, "zone").tasks(allNine)
			assert.NotContains(w.t, a.resp.Status[0].StatusDetail, "cluster")
		}},
		{"RK-22 version 0 knows no such status", bothModes, func(w *world) {
			keyed(w)
			w.join("m1", tags("cluster=a"), version(0)).fine().status()
		}},
		{"RK-23 more than asked for", bothModes, func(w *world) {
			keyed(w)
			w.join("m1", tags("cluster=a", "more=b", "zone=c")).fine().status()
		}},
		{"RK-23 nothing asked for", bothModes, func(w *world) {
			w.target("m1", allNine)
			w.join("m1", tags("more=b")).fine().status()
		}},
		{"RK-24 a join with the missing tag", bothModes, func(w *world) {
			keyed(w)
			w.join("m1", tags("cluster=a")).fine().status(statusMissingClientTags)
			n := len(w.stub.calls)
			w.join("m1", tags("cluster=a", "zone=b")).fine().status()
			assert.Greater(w.t, len(w.stub.calls), n, "tags are part of what is assigned by")
		}},
	})
}

func TestTargets(t *testing.T) {
	runCases(t, []testCase{
		{"TB-01 topics that are not ready empty all targets", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5"}, memberSpec{id: "m2", tasks: "s2:0-2"})
			w.topic("bar", 0)
			n := len(w.stub.calls)
			a := w.hb("m1", 10)
			assert.Len(w.t, w.stub.calls, n)
			var targets, times int
			for _, r := range a.recs {
				switch r := r.(type) {
				case *record.TargetAssignment:
					targets++
					assert.Empty(w.t, r.Active)
				case *record.TargetAssignmentMetadata:
					times++
				}
			}
			assert.Equal(w.t, []int{2, 1}, []int{targets, times})
		}},
		{"TB-05 a new member that gets nothing", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.target("m1", allNine)
			a := w.join("m2").fine()
			targets := 0
			for _, r := range a.recs {
				if r, ok := r.(*record.TargetAssignment); ok {
					targets++
					assert.Equal(w.t, "m2", r.Member)
					assert.Empty(w.t, r.Active)
				}
			}
			assert.Equal(w.t, 1, targets)
		}},
		{"TB-10 the order of partitions is nothing new", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.target("m1", "s2:2,0,1 s1:5,4,3,2,1,0")
			for _, r := range w.hb("m1", 10, rack("r")).recs {
				assert.NotEqual(w.t, record.TypeTargetAssignment, r.RecordKey().Type)
			}
		}},
	})
}

// at11 is a group in which everybody is one epoch behind.
func (w *world) at11(members ...memberSpec) {
	w.t.Helper()
	for i := range members {
		members[i].me = 10
	}
	w.group(groupSpec{ge: 11, members: members})
}

func TestRoleChanges(t *testing.T) {
	runCases(t, []testCase{
		{"RC-01 a warm-up turns into the active task", bothModes, func(w *world) {
			w.at11(memberSpec{id: "m1", tasks: "s1:0", target: "s1:1"}, memberSpec{id: "m2", tasks: "warmup s1:0", target: "s1:0"})
			w.hb("m2", 10).ok(11).noLists()
			w.hb("m1", 10).ok(10).tasks("-")
			w.hb("m2", 11).ok(11).noLists()
			w.hb("m1", 10, owned("-")).ok(11)
			w.hb("m2", 11).ok(11).tasks("s1:0")
		}},
		{"RC-04 standby to warm-up and back", bothModes, func(w *world) {
			w.at11(memberSpec{id: "m1", tasks: "standby s1:0", target: "warmup s1:0"}, memberSpec{id: "m2", tasks: "warmup s1:1", target: "standby s1:1"})
			w.hb("m1", 10).ok(11).tasks("warmup s1:0")
			w.hb("m2", 10).ok(11).tasks("standby s1:1")
		}},
		{"RC-05 active to warm-up only after the release", bothModes, func(w *world) {
			w.at11(memberSpec{id: "m1", tasks: "s1:0", target: "warmup s1:0"})
			w.hb("m1", 10).ok(10).tasks("-")
			w.hb("m1", 10, owned("-")).ok(11).noLists()
			w.hb("m1", 11).ok(11).tasks("warmup s1:0")
		}},
		{"RC-06 a standby of what runs elsewhere", bothModes, func(w *world) {
			w.at11(memberSpec{id: "m1", tasks: "s1:0"}, memberSpec{id: "m2", tasks: "-", target: "standby s1:0"})
			w.hb("m2", 10).ok(11).tasks("standby s1:0")
		}},
		{"RC-07 a warm-up of what a sibling has", bothModes, func(w *world) {
			w.at11(memberSpec{id: "m1", process: "p", tasks: "standby s1:0", target: "-"}, memberSpec{id: "m2", process: "p", tasks: "-", target: "warmup s1:0"})
			w.hb("m2", 10).ok(11).noLists()
			w.hb("m1", 10).ok(10).tasks("-")
			w.hb("m1", 10, owned("-")).ok(11)
			w.hb("m2", 11).ok(11).tasks("warmup s1:0")
		}},
	})
}
