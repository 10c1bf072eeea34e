package assignor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type stickyCase struct {
	name string
	in   string
	want string // by the default mode
	// kafka is what the strict mode decides where that is something else.
	kafka string
}

func TestStickyCases(t *testing.T) {
	t.Parallel()
	for _, tc := range []stickyCase{
		{name: "ST-01 cold start", in: "s(3,sl) m1{} m2{} m3{}", want: "m1{0} m2{1} m3{2}"},
		{name: "ST-03 a member joins", in: "s(3,sl) m1{0} m2{1} m3{}", want: "m1{0} m2{1} m3{2}"},
		{name: "ST-04 a thread joins", in: "s(3,sl) P1/m1{0} P1/m1b{} P2/m2{1}", want: "m1{0} m1b{2} m2{1}"},
		{name: "ST-09 more members than tasks", in: "s(3,sl) m1{0} m2{2} m3{1} m4{} m5{}", want: "m1{0} m2{2} m3{1} m4{} m5{}"},
		{name: "ST-11 standbys attract", in: "s(3,sf) m1{|2} m2{|1} m3{|0}", want: "m1{2} m2{1} m3{0}"},
		{name: "ST-12 a standby attracts within its process", in: "s(3,sl) P1/m1{0|1} P2/m2{2|1} P2/m3{}", want: "m1{0} m2{2} m3{1}"},
		{name: "ST-13 one member had all, three are new", in: "s(4,sl) m3{0-3} m1{} m2{} m4{}", want: "m3{0} m1{1} m2{2} m4{3}"},
		{name: "ST-14 one member had all, two are new", in: "s(4,sl) m3{0-3} m1{} m2{}", want: "m3{0,1} m1{2} m2{3}"},
		{name: "ST-16 a third member joins", in: "s(4,sl) m1{0,2} m2{1,3} m3{}", want: "m1{0,2} m2{1} m3{3}"},
		{name: "ST-17 partitions grow", in: "s(6,sl) m1{0,1} m2{2,3}", want: "m1{0,1,4} m2{2,3,5}"},
		{name: "ST-18 partitions grow and a member joins", in: "s(6,sl) m1{1,2} m2{0,3} m3{}", want: "m1{1,2} m2{0,3} m3{4,5}"},
		{name: "ST-19 halves", in: "s(2,sl) m1{0,1} m2{}", want: "m1{0} m2{1}"},
		{name: "ST-21 a standby holder takes over, a new member gets the rest", in: "s(7,sf) m1{0,1,2,6} m2{|3,4,5} m3{}", want: "m1{0,1,2} m2{3,4} m3{5,6}"},
		{name: "ST-22 two members are missing", in: "a(4,sl) b(4,sl) c(4,sl) m1{a:0,1;b:1} m2{b:2,3;c:2}", want: "m1{a:0,1,2;b:0,1;c:1} m2{a:3;b:2,3;c:0,2,3}"},
		{
			name: "ST-23 restarted members get back what they follow",
			in:   "a(4,sl) b(4,sl) c(4,sl) m1{a:0,1;b:1} m2{b:2,3;c:2} x{|c:0,1,3} y{|a:2,3;b:0}",
			want: "m1{a:0,1;b:1} m2{b:2,3;c:2} x{c:0,1,3} y{a:2,3;b:0}",
		},
		{name: "ST-24 a process counts, not its threads", in: "s(3,sl) P1/m1{} P1/m2{} P1/m3{} P2/m4{} P3/m5{}", want: "m1{0} m2{} m3{} m4{1} m5{2}"},
		{name: "ST-25 six members, three tasks", in: "s(3,sl) m1{} m2{} m3{} m4{} m5{} m6{}", want: "m1{0} m2{1} m3{2} m4{} m5{} m6{}"},
		{name: "ST-27 two claim the same task", in: "s(2,sl) m1{0} m2{0}", want: "m1{0} m2{1}"},
		{name: "ST-28 claims on tasks that do not exist", in: "s(2,sl) m1{0,9} m2{zzz:0}", want: "m1{0} m2{1}"},
		{name: "ST-30 no tasks", in: "m1{} m2{}", want: "m1{} m2{}"},
		{name: "ST-31 subtopology ids are text", in: "2(1,sl) 10(1,sl) m1{} m2{}", want: "m1{10:0} m2{2:0}"},
		{name: "ST-32 a warm-up attracts like a standby", in: "s(2,sf) m1{0,1} m2{} m3{||1}", want: "m1{0} m2{} m3{1}", kafka: "m1{0} m2{1} m3{}"},
		{name: "ST-33 the lighter of two candidates", in: "s(2,sf) m1{0|1} m2{|1}", want: "m1{0} m2{1}"},
		{name: "ST-34 lighter in both respects", in: "s(3,sf) m1{0|1} P2/m21{2} P2/m22{|1}", want: "m1{0} m21{2} m22{1}"},
		{name: "ST-35 equal candidates", in: "s(1,sf) m1{|0} m2{|0}", want: "m1{0} m2{}"},
		{name: "ST-36 the second best is not tried", in: "s(3,sf) P1/m1{0|1}@1=10 P1/m1b{} P1/m1c{} P2/m21{2} P2/m22{|1}", want: "m1{0} m1b{1} m1c{} m21{2} m22{}"},

		{name: "ST-40 both flavours, cold", in: "f(4,sf) l(4,sl) m1{} m2{} m3{}", want: "m1{f:0,3;l:2} m2{f:1;l:0,3} m3{f:2;l:1}", kafka: "m1{f:0,3;l:2} m2{f:1;l:0,3} m3{f:2;l:1}"},
		{name: "ST-41 ST-45 both flavours, a member joins", in: "f(4,sf) l(4,sl) m1{l:0-3} m2{f:0-3} m3{}", want: "m1{f:2;l:0,1} m2{f:0,1;l:3} m3{f:3;l:2}", kafka: "m1{l:0,1,2} m2{f:0,1,2} m3{f:3;l:3}"},
		{name: "ST-43 both flavours in each member", in: "f(3,sf) l(3,sl) P1/m1{} P1/m2{} P2/m3{}", want: "m1{f:0;l:0} m2{f:2;l:2} m3{f:1;l:1}"},

		{name: "ST-50 reported offsets are claims", in: "s(4,sf) m1{}@0=100,1=100 m2{}@2=100,3=100", want: "m1{0,1} m2{2,3}"},
		{name: "ST-51 every member of a process reports its disk", in: "s(4,sf) P1/m1{}@0=5,1=5 P1/m2{}@0=5,1=5 P2/m3{}@2=5,3=5 P2/m4{}@2=5,3=5", want: "m1{0} m2{1} m3{2} m4{3}"},
		{name: "ST-52 owner, then standby, then offset", in: "s(4,sf) m1{0} m2{|0,1} m3{}@0=1000000,1=1000000,2=100 m4{}@2=50", want: "m1{0} m2{1} m3{2} m4{3}"},
		{name: "ST-53 offsets and standbys", in: "R=1 s(2,sf) m1{}@0=1 m2{}@1=1", want: "m1{0|1} m2{1|0}"},
		{name: "ST-55 unknown offset", in: "s(1,sf) m1{}@0=max m2{}@0=10", want: "m1{} m2{0}", kafka: "m1{0} m2{}"},

		{name: "ST-60 swap", in: "R=1 s(2,sf) m1{|0} m2{|1}", want: "m1{0|1} m2{1|0}"},
		{name: "ST-61 standbys of four", in: "R=1 s(4,sf) m1{0} m2{1} m3{2} m4{3}", want: "m1{0|3} m2{1|2} m3{2|1} m4{3|0}"},
		{name: "ST-62 two standbys each", in: "R=2 s(3,sf) m1{0} m2{1} m3{2}", want: "m1{0|1,2} m2{1|0,2} m3{2|0,1}"},
		{name: "ST-63 one member, no standby", in: "R=1 s(1,sf) m1{}", want: "m1{0}"},
		{name: "ST-63 one process, no standby", in: "R=3 s(10,sf) P/m1{} P/m2{} P/m3{}", want: "m1{0,3,6,9} m2{1,4,7} m3{2,5,8}"},
		{name: "ST-64 three and three", in: "R=1 s(3,sf) m1{} m2{} m3{}", want: "m1{0|2} m2{1|0} m3{2|1}"},
		{name: "ST-65 six members, six roles", in: "R=1 s(3,sf) m1{} m2{} m3{} m4{} m5{} m6{}", want: "m1{0} m2{1} m3{2} m4{|2} m5{|1} m6{|0}"},
		{name: "ST-68 standbys cut to the processes", in: "R=5 s(6,sf) m1{} m2{} m3{}", want: "m1{0,3|1,2,4,5} m2{1,4|0,2,3,5} m3{2,5|0,1,3,4}"},
		{name: "ST-69 standbys cut to one", in: "R=5 s(4,sf) m1{} m2{}", want: "m1{0,2|1,3} m2{1,3|0,2}"},
		{name: "ST-72 members stand by for each other", in: "R=1 a(2,sf) b(2,sf) m1{a:0;b:0} m2{a:1;b:1}", want: "m1{a:0;b:0|a:1;b:1} m2{a:1;b:1|a:0;b:0}"},
		{name: "ST-73 the former owner stands by", in: "R=1 a(2,sf) b(2,sf) m1{a:0,1;b:0,1} m2{}", want: "m1{a:0;b:0|a:1;b:1} m2{a:1;b:1|a:0;b:0}"},
		{name: "ST-74 a standby stays", in: "R=1 s(2,sf) m1{0|1} m2{1} m3{}", want: "m1{0|1} m2{1} m3{|0}"},
		{name: "ST-75 standbys below the quota", in: "R=1 s(3,sf) m1{|2} m2{0|2} m3{1} m4{}", want: "m1{2|0} m2{0|2} m3{1} m4{|1}"},
		{name: "ST-76 promotion", in: "R=1 s(6,sf) m1{0,3|1,2} m2{1,4|0,5}", want: "m1{0,2,3|1,4,5} m2{1,4,5|0,2,3}"},
		{name: "ST-79 the loser stands by", in: "R=1 s(2,sf) m1{0,1} m2{}", want: "m1{0|1} m2{1|0}"},

		{name: "worked example", in: "R=1 s(4,sf) m1{0,1|2,3} m2{2,3|0,1} m3{}", want: "m1{0,1|2} m2{2|1,3} m3{3|0}"},

		{name: "TB-08 a task in nobody's hands goes where it was going", in: "s(2,sf) a{}@0=1 b{}!0 c{}!1", want: "a{} b{0} c{1}", kafka: "a{0} b{1} c{}"},
		{name: "TB-08 a holder is asked first", in: "s(1,sl) a{0} b{}!0", want: "a{0} b{}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := parseGroup(t, tc.in)
			assert.Equal(t, tc.want, formatAssignment(g, assign(t, NewSticky(), g)))
			if tc.kafka == "" {
				tc.kafka = tc.want
			}
			assert.Equal(t, tc.kafka, formatAssignment(g, assign(t, NewSticky(StrictKafka()), g)), "strict mode")
		})
	}
}

func TestTB08PriorTargetCanBeIgnored(t *testing.T) {
	t.Parallel()
	g := parseGroup(t, "s(2,sf) a{}@0=1 b{}!0 c{}!1")
	assert.Equal(t, "a{0} b{1} c{}", formatAssignment(g, assign(t, NewSticky(IgnorePriorTarget()), g)))
}

func TestST44SecondRunChangesNothing(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"f(7,sf) l(5,sl) m1{} m2{} m3{}", "R=1 f(7,sf) l(5,sl) m1{} m2{} m3{}"} {
		g := parseGroup(t, in)
		first := assign(t, NewSticky(), g)
		assert.Equal(t, first, assign(t, NewSticky(), continued(g, first)))
	}
}

func TestST67TwoAndTwo(t *testing.T) {
	t.Parallel()
	g := parseGroup(t, "R=1 s(14,sf) m1{} m2{} m3{} m4{} m5{} m6{} m7{}")
	for id, m := range assign(t, NewSticky(), g) {
		assert.Equal(t, 2, size(m.Active), id)
		assert.Equal(t, 2, size(m.Standby), id)
	}
}

func TestST56OneClaimOfTheBetterClass(t *testing.T) {
	t.Parallel()
	x, err := newIndex(parseGroup(t, "s(1,sf) m0{}@0=9 m1{|0}@0=7 m2{|0|0}@0=8"))
	require.NoError(t, err)
	p := newPriors(x, priorRules{warmupsCount: true, compare: compareSticky})
	assert.Equal(t, []claim{{8, 2, false}, {7, 1, false}, {9, 0, true}}, p.copies.of(0))
}

func TestShortages(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, in string
		want     Shortage
	}{
		{"ST-63 no second process", "R=3 s(10,sf) P/m1{} P/m2{} P/m3{}", Shortage{Tasks: 10, Standbys: 30}},
		{"ST-68 three members", "R=5 s(6,sf) l(3,sl) m1{} m2{} m3{}", Shortage{Tasks: 6, Standbys: 18}},
		{"ST-69 two members", "R=5 s(4,sf) m1{} m2{}", Shortage{Tasks: 4, Standbys: 16}},
		{"nothing wanted", "s(4,sf) m1{}", Shortage{}},
		{"SM-10 only a stale member", "s(4,sl) A{0,1}#0", Shortage{Unassigned: 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := parseGroup(t, tc.in)
			assert.Equal(t, tc.want, Shortages(g, assign(t, NewSticky(), g)))
		})
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	_, err := NewSticky().Assign(parseGroup(t, "s(3,sl)"))
	require.ErrorIs(t, err, ErrNoMembers)
	a, err := NewSticky().Assign(parseGroup(t, "s(0,sl)"))
	require.NoError(t, err)
	assert.Empty(t, a)

	for _, tc := range []struct{ name, in, want string }{
		{"a member twice", "m1{} s(3,sl) m1{}", `assignor: member "m1": appears twice`},
		{"a subtopology twice", "s(3,sl) s(3,sf) m1{}", `assignor: subtopology "s": appears twice`},
		{"too many tasks", "s(2147483647,sl) t(1,sl) m1{}", `assignor: the topology has more than 2147483647 tasks`},
	} {
		_, err := NewSticky().Assign(parseGroup(t, tc.in))
		var input *InputError
		require.ErrorAs(t, err, &input, tc.name)
		assert.EqualError(t, err, tc.want)
		require.ErrorAs(t, Verify(parseGroup(t, tc.in), nil), &input, tc.name)
	}
	g := parseGroup(t, "s(3,sl) m1{}")
	g.Subtopologies[0].Tasks = -1
	_, err = NewSticky().Assign(g)
	require.EqualError(t, err, `assignor: subtopology "s": has a negative number of tasks`)
}
