package assignor

import (
	"errors"
	"testing"

	"github.com/streamsgroup/streamsgroup/topology"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestVerify(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, group, got, want string }{
		{"valid", "R=1 s(2,sf) l(1,sl) a{} b{}", "a{l:0;s:0|1} b{1|0}", ""},
		{"a member without an entry has nothing", "s(1,sl) a{} b{}", "b{0}", ""},
		{"V1 stranger", "s(1,sl) a{}", "a{0} z{}", `rule members: member "z" is not in the group`},
		{"V2 nobody", "s(2,sl) a{}", "a{0}", `rule active: task s_1 has no active owner`},
		{"V2 two owners", "s(1,sl) a{} b{}", "a{0} b{0}", `rule active: member "b" task s_0 is active on member "a" as well`},
		{"V2 no such partition", "s(1,sl) a{}", "a{0,1}", `rule active: member "a" task s_1 is not in the topology`},
		{"V2 no such subtopology", "s(1,sl) a{}", "a{0|x:0}", `rule active: member "a" task x_0 is not in the topology`},
		{"V3 stateless standby", "R=1 s(1,sl) a{} b{}", "a{0} b{|0}", `rule stateless: member "b" task s_0 has no state and needs no standby`},
		{"V4 one process", "R=1 s(1,sf) P/a{} P/b{}", "a{0} b{|0}", `rule process: member "b" task s_0 is held by member "a" of the same process "P"`},
		{"V4 one member", "R=1 s(1,sf) a{} b{}", "a{0|0}", `rule process: member "a" task s_0 is held by member "a" of the same process "a"`},
		{"V4 two standbys", "R=2 s(1,sf) o{} P/a{} P/b{}", "o{0} a{|0} b{|0}", `rule process: member "b" task s_0 is held by member "a" of the same process "P"`},
		{"V5 too few", "R=2 s(1,sf) a{} b{} c{}", "a{0} b{|0}", `rule standbys: task s_0 has 1 standbys, but there is room for 2 of 2`},
		{"V5 too many", "R=1 s(1,sf) a{} b{} c{}", "a{0} b{|0} c{|0}", `rule standbys: task s_0 has 2 standbys, but 1 are configured`},
		{"V5 no more processes", "R=5 s(1,sf) a{} b{}", "a{0} b{|0}", ""},
		{"V5 room only at fresh members", "R=2 s(1,sf) a{} b{} c{}#0", "a{0} b{|0}", ""},
		{"V5 a stale standby counts", "R=2 s(1,sf) a{} b{} c{|0}#0", "a{0} b{|0} c{|0}", ""},
		{"S1 stale gains", "s(2,sl) a{0}#0 b{}", "a{0,1} b{}", `rule stale: member "a" task s_1 is new as active, but the member is at topology epoch 0 and the group at 1: it may only keep what it holds in that role`},
		{"S1 stale standby promoted", "s(1,sf) a{|0}#0 b{}", "a{0} b{}", `rule stale: member "a" task s_0 is new as active, but the member is at topology epoch 0 and the group at 1: it may only keep what it holds in that role`},
		{"S1 stale active demoted", "R=1 s(1,sf) a{0}#0 b{}", "a{|0} b{0}", `rule stale: member "a" task s_0 is new as standby, but the member is at topology epoch 0 and the group at 1: it may only keep what it holds in that role`},
		{"S4 only stale members", "s(2,sl) a{0}#0", "a{0}", ""},
		{"order", "s(2,sl) a{}", "a{1,0}", `rule form: member "a" task s_0 follows s_1 in the active tasks: sort them and name each once`},
		{"twice", "s(1,sl) a{}", "a{0,0}", `rule form: member "a" task s_0 follows s_0 in the active tasks: sort them and name each once`},
		{"several", "s(5,sl) a{}", "a{}", `rule active: task s_0 has no active owner; rule active: task s_1 has no active owner; rule active: task s_2 has no active owner; and 2 more`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := parseGroup(t, tc.group)
			a := Assignment{}
			for _, m := range parseGroup(t, tc.got).Members {
				a[m.ID] = MemberAssignment{Active: m.Prior.Active, Standby: m.Prior.Standby}
			}
			err := Verify(g, a)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, "assignor: the assignment is refused: "+tc.want)
		})
	}
}

func TestVerifyErrorsNameMemberAndTask(t *testing.T) {
	t.Parallel()
	g := parseGroup(t, "s(2,sl) a{0}#0 b{}")
	err := Verify(g, Assignment{"a": {Active: TaskSet{{Subtopology: "s", Partition: 1}}}})
	var all RuleErrors
	require.ErrorAs(t, err, &all)
	require.Len(t, all, 2)
	assert.Equal(t, RuleActive, all[0].Rule)
	var first *RuleError
	require.True(t, errors.As(err, &first))
	assert.Equal(t, all[0], first)
	assert.Equal(t, RuleStale, all[1].Rule)
	assert.Equal(t, "a", all[1].Member)
	assert.Equal(t, topology.TaskID{Subtopology: "s", Partition: 1}, all[1].Task)
}
