package assignor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStaleMembers(t *testing.T) {
	t.Parallel()
	for _, tc := range []stickyCase{
		{name: "SM-01 C leaves, all fresh", in: "s(9,sl) A{0-2} B{3-5}", want: "A{0,1,2,6,8} B{3,4,5,7}"},
		{name: "SM-02 C joins with the new topology", in: "s(9,sl) A{0-2,6,8}#0 B{3-5,7}#0 C{}", want: "A{0,1,2} B{3,4,5} C{6,7,8}"},
		{name: "SM-03 from another layout", in: "s(9,sl) A{0-2,6}#0 B{3-5,7,8}#0 C{}", want: "A{0,1,2} B{3,4,5} C{6,7,8}"},
		{name: "SM-04 B leaves, A gains nothing", in: "s(9,sl) A{0-2}#0 C{6-8}", want: "A{0,1,2} C{3,4,5,6,7,8}"},
		{name: "SM-05 from another layout", in: "s(9,sl) A{1,2,6}#0 C{0,3,8}", want: "A{1,2,6} C{0,3,4,5,7,8}"},
		{name: "SM-06 B joins with the new topology", in: "s(9,sl) A{0-2}#0 B{} C{3-8}", want: "A{0,1,2} B{6,7,8} C{3,4,5}"},
		{name: "the same from another layout", in: "s(9,sl) A{1,2,6}#0 B{} C{0,3,4,5,7,8}", want: "A{1,2,6} B{5,7,8} C{0,3,4}"},
		{name: "SM-07 A leaves", in: "s(9,sl) B{6-8} C{3-5}", want: "B{0,2,6,7,8} C{1,3,4,5}"},
		{name: "SM-08 A joins fresh", in: "s(9,sl) A{} B{0,2,6,7,8} C{1,3,4,5}", want: "A{5,7,8} B{0,2,6} C{1,3,4}"},
		{name: "SM-10 nobody else", in: "s(4,sl) A{0,1}#0", want: "A{0,1}"},
		{name: "SM-12 one is fixed, another is above its share", in: "s(8,sl) A{0}#0 B{1-7}#0 C{}", want: "A{0} B{1,2,3,4} C{5,6,7}"},
		{name: "SM-13 three stale, one fresh", in: "s(12,sl) A{0-3}#0 B{4-7}#0 C{8-11}#0 D{}", want: "A{0,1,2} B{4,5,6} C{8,9,10} D{3,7,11}"},
		{name: "SM-16 one of each flavour", in: "f(2,sf) l(2,sl) A{f:0,1;l:0,1}#0 B{}", want: "A{f:0;l:0} B{f:1;l:1}"},
		{name: "SM-20 no standby in the process of the stale owner", in: "R=1 s(4,sf) P/A{0,1}#0 P/B{} Q/C{2,3}", want: "A{0,1} B{3|2} C{2|0,1,3}"},
		{name: "SM-22 the last fresh member has crashed", in: "R=1 s(6,sf) A{0,1|2}#0 B{2|0,4}#0", want: "A{0,1|2} B{2|0}"},
		{name: "tasks that the topology has no longer", in: "R=1 s(2,sf) A{0,5;x:1|1;x:0}#0 B{}", want: "A{0|1} B{1|0}"},
		{name: "a stale standby is never promoted", in: "s(1,sf) A{|0}#0@0=9 B{}", want: "A{} B{0}"},
		{name: "a stale owner does not become the standby", in: "R=1 s(3,sf) A{0-2}#0 B{}", want: "A{0,1} B{2|0,1}"},
		{name: "the previous target gives a stale member no claim", in: "s(1,sl) A{}#0!0 B{}", want: "A{} B{0}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := parseGroup(t, tc.in)
			assert.Equal(t, tc.want, formatAssignment(g, assign(t, NewSticky(), g)))
		})
	}
}

// A rolling upgrade of three members, one after the other: each row starts from
// what the one before has assigned.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	var before Assignment
	for _, step := range []struct{ event, members, want string }{
		{"start", "A{0-2}#0 B{3-5}#0 C{6-8}#0", ""},
		{"C leaves", "A{}#1 B{}#1", "A{0,1,2,6,8} B{3,4,5,7}"},
		{"C joins with the new topology", "A{}#0 B{}#0 C{}#1", "A{0,1,2} B{3,4,5} C{6,7,8}"},
		{"B leaves", "A{}#0 C{}#1", "A{0,1,2} C{3,4,5,6,7,8}"},
		{"B joins", "A{}#0 B{}#1 C{}#1", "A{0,1,2} B{6,7,8} C{3,4,5}"},
		{"A leaves", "B{}#1 C{}#1", "B{0,2,6,7,8} C{1,3,4,5}"},
		{"A joins", "A{}#1 B{}#1 C{}#1", "A{5,7,8} B{0,2,6} C{1,3,4}"},
	} {
		g := parseGroup(t, "s(9,sl) "+step.members)
		if before == nil {
			before = Assignment{}
			for _, m := range g.Members {
				before[m.ID] = MemberAssignment{Active: m.Prior.Active}
			}
			continue
		}
		for i := range g.Members {
			g.Members[i].Prior.Active = before[g.Members[i].ID].Active
		}
		got := assign(t, NewSticky(), g)
		require.Equal(t, step.want, formatAssignment(g, got), step.event)
		// Who has left holds nothing when it comes back.
		before = got
	}
}
