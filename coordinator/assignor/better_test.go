package assignor

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Inputs on which Kafka's sticky assignor decides badly. Sticky keeps those
// decisions. HighlyAvailable is at least as good as the assignment wanted, in
// every figure, and better than Kafka in the one named.
func TestBetterThanKafka(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, kafka, want string }{
		{
			"AB-01 the task that somebody has a copy of is the one to leave",
			"s(2,sf) p1/m1{|0} p2/m2{0,1}", "m1{1} m2{0}", "m1{0} m2{1}",
		},
		{
			"AB-02 the newest copy where there is room",
			"s(3,sf) p1/m1{}@0=200,1=200 p2/m2{}@1=100,2=200", "m1{0} m2{1,2}", "m1{0,1} m2{2}",
		},
		{
			"AB-03 and so nobody's own tasks go cold",
			"s(4,sf) p1/m1{}@0=200,1=200 p2/m2{}@1=100,2=200,3=200", "m1{0,3} m2{1,2}", "m1{0,1} m2{2,3}",
		},
		{
			"AB-04 every member of a process can have what is on its disk",
			"s(3,sf) A/a1{}@0=9,1=9 A/a2{}@0=9,1=9 B/b1{}", "a1{0} a2{2} b1{1}", "a1{0} a2{1} b1{2}",
		},
		{
			"AB-05 a standby stays where it is",
			"R=1 s(2,sf) p1/m1{0} p2/m2{1|0} p3/m3{}@0=1", "m1{0|1} m2{1} m3{|0}", "m1{0} m2{1|0} m3{|1}",
		},
		{
			"AB-06 a task without state moves before one with state",
			"a(1,sl) b(1,sf) m1{a:0;b:0} m2{}", "m1{a:0} m2{b:0}", "m1{b:0} m2{a:0}",
		},
		{
			"AB-07 state is spread",
			"a(1,sl) b(2,sf) P/m1{}@b:0=9,b:1=9 P/m2{}", "m1{b:0,1} m2{a:0}", "m1{a:0;b:0} m2{b:1}",
		},
		{
			"AB-08 a sibling with room keeps the task on its disk",
			"s(3,sf) p1/m1{} p2/m2{0,1} p2/m3{}", "m1{1} m2{0} m3{2}", "m1{2} m2{0} m3{1}",
		},
		{
			"AB-09 a member of a big process is not left idle",
			"s(6,sl) P/m1{0,1} P/m2{2,3} P/m3{} Q/m4{}", "m1{0,1} m2{2,3} m3{} m4{4,5}", "m1{0,1} m2{2,3} m3{5} m4{4}",
		},
		{
			"AB-10 the idle sibling of a former owner gets the standby",
			"R=1 s(2,sf) p1/m1{0,1} p1/m3{} p2/m2{}", "m1{0|1} m2{1|0} m3{}", "m1{0} m2{1|0} m3{|1}",
		},
		{
			"AB-11 what is kept comes before what is new",
			"R=1 s(3,sf) m1{2|1} m2{} m3{0,1}", "m1{2|0} m2{1|2} m3{0|1}", "m1{2|1} m2{0|2} m3{1|0}",
		},
		{
			"AB-12 a lighter process that holds the state is as good as a standby",
			"R=1 s(1,sf) P/m2{}@0=7 P/m5{} m4{|0}", "m2{|0} m4{0} m5{}", "m2{0} m4{|0} m5{}",
		},
		{
			"AB-13 only standbys that have a place count",
			"R=2 s(4,sf) A/a1{0|2,3} A/a2{1} B/b1{2|0,1} B/b2{3}", "a1{0|2,3} a2{1} b1{2|0,1} b2{3}", "a1{0|3} a2{1|2} b1{2|1} b2{3|0}",
		},
		{
			"AB-14 a warm-up is state",
			"s(1,sf) m1{} m2{||0}", "m1{0} m2{}", "m1{} m2{0}",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := parseGroup(t, tc.in)
			kafka, want := parseGroupTasks(t, tc.kafka), parseGroupTasks(t, tc.want)
			require.NoError(t, Verify(g, want))
			got := normal(assign(t, NewHighlyAvailable(), g))
			assertNoWorse(t, g, want, got)
			assert.Equal(t, want, got)
			assert.Equal(t, quality(g, kafka), quality(g, assign(t, NewSticky(StrictKafka()), g)), "what Kafka decides")
		})
	}
}

// assertNoWorse compares two assignments figure by figure.
func assertNoWorse(t *testing.T, g *Group, than, got Assignment) {
	t.Helper()
	q, limit := quality(g, got), quality(g, than)
	for _, name := range slices.Sorted(maps.Keys(q)) {
		switch {
		case lowerIsBetter[name]:
			assert.LessOrEqual(t, q[name], limit[name], name)
		case higherIsBetter[name]:
			assert.GreaterOrEqual(t, q[name], limit[name], name)
		}
	}
}
