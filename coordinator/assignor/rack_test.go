package assignor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/streamsgroup/streamsgroup/topology"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRackCases(t *testing.T) {
	t.Parallel()
	for _, tc := range []stickyCase{
		{
			name: "RK-05 no diversity is possible", in: "keys=cluster,zone R=1 s(3,sf) m1{}+cluster=c1+zone=z1 m2{}+cluster=c1+zone=z1 m3{}+cluster=c1+zone=z1",
			want: "m1{0|2} m2{1|0} m3{2|1}",
		},
		{
			name: "RK-06 one process", in: "keys=cluster R=1 s(2,sf) P/m1{}+cluster=c1 P/m2{}+cluster=c2",
			want: "m1{0} m2{1}",
		},
		{
			name: "RK-07 values are compared per key",
			in:   "keys=cluster,zone R=1 s(1,sf) P1{0}+cluster=x+zone=y P2{}+cluster=y+zone=x P3{|0}+cluster=x+zone=y",
			want: "P1{0} P2{|0} P3{}", kafka: "P1{0} P2{} P3{|0}",
		},
		{
			name: "RK-13 a third zone in either cluster",
			in:   "keys=cluster,zone R=2 s(1,sf) P1{0}+cluster=c1+zone=z1 P2{}+cluster=c2+zone=z1 P3{}+cluster=c2+zone=z2 P4{}+cluster=c1+zone=z3",
			want: "P1{0} P2{} P3{|0} P4{|0}", kafka: "P1{0} P2{|0} P3{|0} P4{}",
		},
		{
			name: "RK-16 diversity is above stickiness",
			in:   "keys=zone R=1 s(1,sf) a{0}+zone=1 b{|0}+zone=1 c{}+zone=2",
			want: "a{0} b{} c{|0}", kafka: "a{0} b{|0} c{}",
		},
		{
			name: "RK-18 stateless tasks have no standbys",
			in:   "keys=zone R=1 s(2,sl) a{}+zone=1 b{}+zone=2",
			want: "a{0} b{1}",
		},
		{
			name: "RK-26 members of a process disagree: the smallest id counts",
			in:   "keys=zone R=1 s(1,sf) a{0}+zone=1 P/b1{}+zone=2 P/b2{}+zone=1 c{}+zone=1",
			want: "a{0} b1{|0} b2{} c{}",
		},
		{
			name: "a process without the tag is never preferred, nor left out",
			in:   "keys=zone R=2 s(1,sf) a{0}+zone=1 b{} c{}+zone=2",
			want: "a{0} b{|0} c{|0}",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := parseGroup(t, tc.in)
			want := parseGroupTasks(t, tc.want)
			assert.Equal(t, want, normal(assign(t, NewSticky(), g)))
			if tc.kafka != "" {
				assert.Equal(t, parseGroupTasks(t, tc.kafka), normal(assign(t, NewSticky(StrictKafka()), g)), "strict mode")
			}
		})
	}
}

// parseGroupTasks reads an assignment in the notation of the cases.
func parseGroupTasks(tb testing.TB, text string) Assignment {
	tb.Helper()
	out := Assignment{}
	for _, m := range parseGroup(tb, text).Members {
		out[m.ID] = MemberAssignment{Active: sorted(m.Prior.Active), Standby: sorted(m.Prior.Standby)}
	}
	return out
}

// standbyStep places standbys for given owners, whatever the active pass would
// have said. The notation of the members' active tasks says what they run.
func standbyStep(t *testing.T, text string) *run {
	t.Helper()
	x, err := newIndex(parseGroup(t, text))
	require.NoError(t, err)
	r := newRun(x, newPriors(x, priorRules{warmupsCount: true, compare: compareSticky}))
	r.startQuotas()
	for m := range x.members {
		x.each(x.member(int32(m)).Prior.Active, func(task int32, _ bool) {
			r.giveActive(int32(m), task, both)
			r.totalQuota.told(r.count[m])
		})
	}
	r.assignStandbys(true)
	return r
}

func TestRackStandbyStep(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, standby string }{
		{
			"RK-10 new zones beat a new rack, the lighter of them wins",
			"keys=cluster,zone,rack R=1 s(1,sf) l(9,sl) o{0;l:1-8}+cluster=c1+zone=z1+rack=r1 W{}+cluster=c2+zone=z1+rack=r2 X{}+cluster=c2+zone=z2+rack=r1 Z{l:0}+cluster=c3+zone=z3+rack=r1",
			"X",
		},
		{
			"RK-11 a new rack where no zone is new",
			"keys=cluster,zone,rack R=1 s(1,sf) o{0}+cluster=c1+zone=z1+rack=r1 V{}+cluster=c2+zone=z1+rack=r1 W{}+cluster=c2+zone=z1+rack=r2",
			"W",
		},
		{
			"RK-12 the zone decides when no cluster is new, whatever the load",
			"keys=cluster,zone R=1 s(1,sf) l(20,sl) o{0;l:5-19}+cluster=c1+zone=z1 P2{}+cluster=c1+zone=z1 P3{l:0-4}+cluster=c1+zone=z2",
			"P3",
		},
		{
			"RK-15 a former standby in an equally diverse process beats a lighter stranger",
			"keys=zone R=1 s(1,sf) l(9,sl) o{0;l:6-8}+zone=1 b{l:0,1}+zone=2 c{l:2,3|0}+zone=2 d{l:4}+zone=2",
			"c",
		},
		{
			"a sibling on the same disk where the former standby is full",
			"keys=zone R=1 s(1,sf) l(9,sl) o{0;l:6-8}+zone=1 P/c1{l:0-4|0}+zone=2 P/c2{}+zone=2 d{}+zone=2",
			"c2",
		},
		{
			"RK-17 the only process in a new zone has no room",
			"keys=zone R=1 s(1,sf) l(3,sl) o{0}+zone=1 n{l:0-2}+zone=2 p{}+zone=1",
			"p",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := standbyStep(t, tc.in)
			task, _ := r.find(topology.TaskID{Subtopology: "s"})
			require.Len(t, r.standbysOf(task), 1)
			assert.Equal(t, tc.standby, r.member(r.standbysOf(task)[0]).ID)
		})
	}
}

// Nine processes in three zones and three clusters; those of zone 1 run two
// tasks each.
func TestRK02bZonesAndClusters(t *testing.T) {
	t.Parallel()
	var in strings.Builder
	in.WriteString("keys=zone,cluster R=2 s(6,sf)")
	for z := 1; z <= 3; z++ {
		for c := 1; c <= 3; c++ {
			tasks := ""
			if z == 1 {
				tasks = fmt.Sprintf("%d,%d", 2*c-2, 2*c-1)
			}
			fmt.Fprintf(&in, " p%d%d{%s}+zone=z%d+cluster=c%d", z, c, tasks, z, c)
		}
	}
	r := standbyStep(t, in.String())
	for m := range r.members {
		assert.EqualValues(t, 2, r.count[m], r.member(int32(m)).ID)
	}
	for task := range r.tasks {
		zones := map[string]bool{r.member(r.owner[task]).ClientTags["zone"]: true}
		for _, m := range r.standbysOf(task) {
			zones[r.member(m).ClientTags["zone"]] = true
		}
		assert.Len(t, zones, 3, task)
	}
}

func TestRK03AlwaysAnotherZone(t *testing.T) {
	t.Parallel()
	g := parseGroup(t, "keys=zone,cluster R=1 s(6,sf) a{0}+zone=1+cluster=c b{1}+zone=2+cluster=c c{2}+zone=3+cluster=c d{3}+zone=1+cluster=c e{4}+zone=2+cluster=c f{5}+zone=3+cluster=c")
	zone, owner := map[string]string{}, map[topology.TaskID]string{}
	got := assign(t, NewSticky(), g)
	for _, m := range g.Members {
		zone[m.ID] = m.ClientTags["zone"]
		for _, id := range got[m.ID].Active {
			owner[id] = m.ID
		}
	}
	for _, m := range g.Members {
		assert.Equal(t, 1, size(got[m.ID].Standby), m.ID)
		for _, id := range got[m.ID].Standby {
			assert.NotEqual(t, zone[m.ID], zone[owner[id]], id)
		}
	}
}
