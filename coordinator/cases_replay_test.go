package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/topology"
)

func TestReplay(t *testing.T) {
	// holds is a current assignment record of a member of its own process.
	holds := func(member, tasks string) record.Record {
		c := parseCurrent(tasks, "", 11)
		c.epoch, c.previousEpoch, c.state = 11, 10, stable
		return c.record(groupID, member)
	}
	member := func(id string) record.Record {
		return &record.MemberMetadata{Group: groupID, Member: id, ProcessID: "p" + id}
	}
	owner := func(w *world, task string) string {
		id, err := topology.ParseTaskID(task)
		require.NoError(w.t, err)
		return w.c.groups[groupID].activeOwners()[filedTask{0, id}]
	}
	replay := func(w *world, records ...record.Record) {
		for _, r := range records {
			require.NoError(w.t, w.c.Replay(r))
		}
	}
	runCases(t, []testCase{
		{"Z-01 takeover through compaction", bothModes, func(w *world) {
			replay(w, member("a"), member("b"), holds("a", "s:0"), holds("b", "s:0@12"), holds("a", "s:1@13"))
			assert.Equal(w.t, "pb", owner(w, "s_0"))
			assert.Equal(w.t, "pa", owner(w, "s_1"))
		}},
		{"Z-02 release of something unowned", bothModes, func(w *world) {
			replay(w, member("a"), member("b"), holds("a", "foo:0"), holds("b", "foo:0@12"), holds("b", "-"), holds("a", "bar:0@14"))
			assert.Empty(w.t, owner(w, "foo_0"))
			assert.Equal(w.t, "pa", owner(w, "bar_0"))
		}},
		{"Z-03 tombstones for nothing", bothModes, func(w *world) {
			for _, typ := range []record.Type{record.TypeGroupMetadata, record.TypeTargetAssignmentMetadata, record.TypeTopology} {
				replay(w, tombstone(typ, groupID, ""))
			}
			for _, typ := range []record.Type{record.TypeMemberMetadata, record.TypeTargetAssignment, record.TypeCurrentAssignment} {
				replay(w, tombstone(typ, groupID, "m"))
			}
			assert.Empty(w.t, w.c.List())
			w.g10()
			for _, typ := range []record.Type{record.TypeMemberMetadata, record.TypeTargetAssignment, record.TypeCurrentAssignment} {
				replay(w, tombstone(typ, groupID, "m"))
			}
			assert.Empty(w.t, w.c.groups[groupID].members)
		}},
		{"Z-04 member tombstone order", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			before := w.c.stateOf(groupID)
			refused := func(want string) {
				var e *ReplayError
				require.ErrorAs(w.t, w.c.Replay(tombstone(record.TypeMemberMetadata, groupID, "m1")), &e)
				assert.Contains(w.t, e.Error(), want)
			}
			refused("current assignment")
			assert.Equal(w.t, before, w.c.stateOf(groupID))
			replay(w, tombstone(record.TypeCurrentAssignment, groupID, "m1"))
			assert.EqualValues(w.t, -1, w.c.groups[groupID].members["m1"].cur.epoch)
			assert.Empty(w.t, w.c.groups[groupID].activeOwners())
			refused("target assignment")
			replay(w, tombstone(record.TypeTargetAssignment, groupID, "m1"), tombstone(record.TypeMemberMetadata, groupID, "m1"))
			assert.Empty(w.t, w.c.groups[groupID].members)
		}},
		{"Z-05 group tombstone order", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			refused := func(typ record.Type, want string) {
				var e *ReplayError
				require.ErrorAs(w.t, w.c.Replay(tombstone(typ, groupID, "")), &e)
				assert.Contains(w.t, e.Error(), want)
			}
			refused(record.TypeGroupMetadata, "1 members")
			refused(record.TypeTargetAssignmentMetadata, "m1")
			for _, typ := range []record.Type{record.TypeCurrentAssignment, record.TypeTargetAssignment, record.TypeMemberMetadata} {
				replay(w, tombstone(typ, groupID, "m1"))
			}
			refused(record.TypeGroupMetadata, "target assignment metadata")
			replay(w, tombstone(record.TypeTargetAssignmentMetadata, groupID, ""))
			assert.EqualValues(w.t, -1, w.c.groups[groupID].assignmentEpoch)
			replay(w, tombstone(record.TypeGroupMetadata, groupID, ""), tombstone(record.TypeTopology, groupID, ""))
			assert.Empty(w.t, w.c.List())
		}},
		{"Z-06 any record creates the group", bothModes, func(w *world) {
			replay(w, &record.TargetAssignmentMetadata{Group: groupID, AssignmentEpoch: 7})
			g := w.c.groups[groupID]
			assert.EqualValues(w.t, 1, g.epoch)
			assert.EqualValues(w.t, 7, g.assignmentEpoch)
			assert.EqualValues(w.t, -1, g.validatedEpoch)
			w.wantState(Empty)
		}},
		{"Z-07 old assignment record", bothModes, func(w *world) {
			replay(w, member("m"), &record.CurrentAssignment{
				Group: groupID, Member: "m", MemberEpoch: 9, PreviousMemberEpoch: 8, State: 1,
				Active:                  []record.ActiveTaskIDs{{Subtopology: "s1", Partitions: []int32{0, 1}}, {Subtopology: "s2", Partitions: []int32{0, 1}, Epochs: []int32{4}}},
				ActivePendingRevocation: []record.ActiveTaskIDs{{Subtopology: "s1", Partitions: []int32{2}}},
			})
			w.wantMember("m", "STABLE ME 9 PME 8 s1:0,1@9 s2:0,1@9 pending s1:2@9")
		}},
		{"Z-08 an unknown state byte", bothModes, func(w *world) {
			replay(w, member("m"), &record.CurrentAssignment{Group: groupID, Member: "m", MemberEpoch: 9, State: 44})
			assert.Equal(w.t, unknownState, w.c.groups[groupID].members["m"].cur.state)
		}},
		{"Z-09 records of a member in any order", bothModes, func(w *world) {
			replay(w, targetRecord(groupID, "m", parseRoles("s:0")), holds("m", "s:0"), member("m"))
			assert.Equal(w.t, "pm", owner(w, "s_0"))
			checkInvariants(w.t, w.c.groups[groupID])
		}},
		{"Z-10 the static index follows the stored members", bothModes, func(w *world) {
			meta := func(id, instance string) record.Record {
				return &record.MemberMetadata{Group: groupID, Member: id, InstanceID: &instance}
			}
			replay(w, meta("a", "i1"), meta("b", "i2"), meta("a", "i3"))
			assert.Equal(w.t, map[string]string{"i2": "b", "i3": "a"}, w.c.groups[groupID].static)
			// The tombstone of the former holder may be gone.
			replay(w, meta("c", "i2"), tombstone(record.TypeCurrentAssignment, groupID, "b"), tombstone(record.TypeMemberMetadata, groupID, "b"))
			assert.Equal(w.t, map[string]string{"i2": "c", "i3": "a"}, w.c.groups[groupID].static)
		}},
		{"Z-11 a loaded group goes on where it was", bothModes, func(w *world) {
			w.target("m1", allNine)
			w.join("m1", offsets("s1_0=1")).ok(2)
			w.target("m1", "s1:0-5", "m2", "s2:0-2")
			w.join("m2").ok(3)
			w.hb("m1", 2).ok(2)
			w.move()
			w.wantState(Reconciling)
			w.hb("m1", 2, owned("s1:0-5")).ok(3)
			w.hb("m2", 3).ok(3).tasks("s2:0-2")
			w.wantState(Stable)
			assert.Empty(w.t, w.describe().Members[0].TaskOffsets, "soft")
		}},
		{"Z-12 unloading forgets everything but the configs", bothModes, func(w *world) {
			w.groupConfig("streams.heartbeat.interval.ms", "6000")
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.hb("m1", 10).ok(10)
			w.c.Unload("none")
			w.c.Unload(groupID)
			assert.False(w.t, w.c.Has(groupID))
			assert.Empty(w.t, w.c.timers)
			assert.Equal(w.t, []string{groupID}, w.c.ConfiguredGroups())
			assert.Equal(w.t, map[string]string{"streams.heartbeat.interval.ms": "6000"}, w.c.GroupOverrides(groupID))
		}},
	})
}

func TestClone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, KIP1071)
	w.groupConfig("streams.session.timeout.ms", "50000")
	w.target("m1", allNine)
	w.join("m1", endpoint("h:1"), offsets("s1_0=1")).ok(2)
	w.target("m1", "s1:0-5", "m2", "s2:0-2")
	w.join("m2").ok(3)
	w.hb("m1", 2).ok(2)
	before := w.c.stateOf(groupID)

	copied := w.c.Clone()
	assert.Equal(t, before, copied.stateOf(groupID))
	checkInvariants(t, copied.groups[groupID])

	w.hb("m1", 2, owned("s1:0-5")).ok(3)
	w.hb("m2", 3, offsets("s2_0=5")).ok(3).tasks("s2:0-2")
	w.hb("m1", -1).ok(-1)
	w.after(time.Minute)
	assert.NotEqual(t, before, w.c.stateOf(groupID))
	assert.Equal(t, before, copied.stateOf(groupID), "what happens to one leaves the other alone")

	// The copy lives on by itself, with the timers of the original.
	w.c, w.now = copied, Now{Mono: time.Hour, WallMillis: startWall}
	w.log, w.shadow = copied.groups[groupID].records(), nil
	w.after(49999*time.Millisecond).records("t22(m1)", "t21(m1)", "t19(m1)", "17(GE 4)")
	w.after(1*time.Millisecond).records("t22(m2)", "t21(m2)", "t19(m2)", "17(GE 5)", "20(5, 0)")
}

// TestRequestBelongsToTheCaller gives the coordinator requests whose strings are
// overwritten afterwards, as those of a driver that decodes without copying are.
func TestRequestBelongsToTheCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t, KIP1071)
	w.topic("bar", 0) // not ready at first, so that details are kept as well
	w.target("m1", allNine)
	scribble := func(member string, epoch int32, opts ...requestOption) *answer {
		var buf []byte
		r := w.joinRequest(member, opts...)
		if epoch != 0 {
			r = w.request(member, epoch)
			for _, o := range opts {
				o(r)
			}
		}
		own := func(s *string) {
			if s != nil {
				*s = unsafeString(&buf, *s)
			}
		}
		for _, s := range []*string{&r.Group, &r.MemberID, r.InstanceID, r.RackID, r.ProcessID, &r.ClientID, &r.ClientHost} {
			own(s)
		}
		if r.UserEndpoint != nil {
			own(&r.UserEndpoint.Host)
		}
		for i := range r.ClientTags {
			own(&r.ClientTags[i].Key)
			own(&r.ClientTags[i].Value)
		}
		for i := range r.TaskOffsets {
			own(&r.TaskOffsets[i].SubtopologyID)
		}
		for i := range r.ActiveTasks {
			own(&r.ActiveTasks[i].SubtopologyID)
		}
		if r.Topology != nil {
			top := *r.Topology
			top.Subtopologies = append([]wireSub{}, top.Subtopologies...)
			for i := range top.Subtopologies {
				s := &top.Subtopologies[i]
				own(&s.SubtopologyID)
				s.SourceTopics = append([]string{}, s.SourceTopics...)
				for j := range s.SourceTopics {
					own(&s.SourceTopics[j])
				}
			}
			r.Topology = &top
		}
		a := w.send(r)
		state := w.c.stateOf(groupID)
		for i := range buf {
			buf[i] = '#'
		}
		require.Equal(t, state, w.c.stateOf(groupID))
		assert.NotContains(t, state, "#")
		w.check()
		return a
	}
	scribble("m1", 0, inst("i1"), rack("r1"), endpoint("host:1"), tags("zone=a"), offsets("s1_0=1"), shutdown()).ok(2)
	w.topic("bar", 3)
	scribble("m1", 2, inst("i1"), rack("r2"), process("px"), endpoint("host:2"), tags("zone=b"), offsets("s1_0=2")).ok(3).tasks(allNine)
	scribble("m1", 3, inst("i1"), owned(allNine)).ok(3)
	scribble("m1", -2, inst("i1"), shutdown()).ok(-2)
	scribble("b1", 0, inst("i1"), process("px"), rack("r2"), tags("zone=b")).ok(3)
	scribble("zz", -1, shutdown())
	w.hb("b1", 3, inst("i1")).ok(3).status(4)
	scribble("b1", -1)
	w.wantState(Empty)
}
