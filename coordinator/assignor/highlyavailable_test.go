package assignor

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/streamsgroup/streamsgroup/topology"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestHighlyAvailableCases(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{"BA-01 a cold start is dealt", "s(6,sf) p1/m1{} p2/m2{} p3/m3{}", "m1{0,3} m2{1,4} m3{2,5}"},
		{"BA-02 a process counts as many times as it has members", "s(6,sf) P1/m11{} P1/m12{} P2/m21{}", "m11{0,3} m12{2,5} m21{1,4}"},
		{"BA-04 the same with two subtopologies", "a(3,sf) b(3,sf) P1/m11{} P1/m12{} P2/m21{}", "m11{a:0;b:0} m12{a:2;b:2} m21{a:1;b:1}"},
		{"BA-05 what is owned stays in its process", "a(2,sf) b(2,sf) m1{a:0,1} m2{b:0,1}", "m1{a:0,1} m2{b:0,1}"},
		{"BA-06 nothing moves inside a process", "s(4,sf) P/m1{1,3} P/m2{0,2}", "m1{1,3} m2{0,2}"},
		{"BA-07 half stays inside a process", "s(4,sf) P/m1{0-3} P/m2{}", "m1{0,1} m2{2,3}"},
		{"BA-09 one task of each flavour per member", "a(2,sf) b(2,sl) P/m1{a:0,1} P/m2{}", "m1{a:0;b:0} m2{a:1;b:1}"},
		{"BA-12 one of each role", "R=1 s(3,sf) m1{} m2{} m3{}", "m1{0|2} m2{1|0} m3{2|1}"},
		{"BA-13 both flavours everywhere", "a(3,sf) b(3,sl) P1/m1{} P1/m2{} P2/m3{}", "m1{a:0;b:0} m2{a:2;b:2} m3{a:1;b:1}"},
		{"BA-14 processes of 1, 2 and 3 members", "a(3,sf) b(3,sf) A/a1{} B/b1{} B/b2{} C/c1{} C/c2{} C/c3{}", "a1{a:0} b1{a:1} b2{b:1} c1{a:2} c2{b:0} c3{b:2}"},
		{"BA-17 members but no tasks", "m1{} m2{}", "m1{} m2{}"},
		{"SM-23 a stale member keeps its share", "s(6,sf) A{0-3}#0 B{} C{}", "A{0,1} B{2,4} C{3,5}"},
		{"a group at rest with reports of what lies about", "R=1 s(4,sf) m1{0|1} m2{1|2} m3{2|3} m4{3|0}@0=9,1=9,2=9", "m1{0|1} m2{1|2} m3{2|3} m4{3|0}"},
		{"a cold start is worse than an older copy", "s(2,sf) m1{}@0=9,1=9 m2{}@1=5", "m1{0} m2{1}"},
		{"an extra goes to the owner whose task nobody else has", "s(4,sf) m1{|0} m2{0,1} m3{2,3}", "m1{0} m2{1} m3{2,3}"},
		{"a chain of three", "s(4,sf) m1{}@0=9,1=9,2=5 m2{}@1=5,3=9 m3{}@2=9,0=5 m4{}@3=5", "m1{0} m2{1} m3{2} m4{3}"},
		{"the previous target decides about a task in nobody's hands", "s(2,sf) a{}@0=1 b{}!0 c{}!1", "a{} b{0} c{1}"},
		{"a member that follows goes on with what it has open", "s(3,sf) P/m1{}@0=5,1=5 P/m2{|1}@1=5,2=5", "m1{0,2} m2{1}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := parseGroup(t, tc.in)
			assert.Equal(t, tc.want, formatAssignment(g, assign(t, NewHighlyAvailable(), g)))
		})
	}
}

func TestBA15OnePerMember(t *testing.T) {
	t.Parallel()
	g := parseGroup(t, "a(3,sf) b(3,sf) c(3,sf) A/a1{} A/a2{} A/a3{} A/a4{} A/a5{} A/a6{} B/b1{} B/b2{} B/b3{}")
	for id, m := range assign(t, NewHighlyAvailable(), g) {
		assert.Equal(t, 1, size(m.Active), id)
	}
}

func TestBA17TasksButNoMembers(t *testing.T) {
	t.Parallel()
	_, err := NewHighlyAvailable().Assign(parseGroup(t, "s(3,sf)"))
	require.ErrorIs(t, err, ErrNoMembers)
	_, err = NewHighlyAvailable().Assign(parseGroup(t, strings.Repeat("s(3,sf) ", 2)+"m{}"))
	var input *InputError
	require.ErrorAs(t, err, &input)
}

// On the cold start of BM-03 every task gets its newest copy.
func TestBM03NewestCopies(t *testing.T) {
	t.Parallel()
	a := NewHighlyAvailable()
	g := benchmarkPoint{members: 100, partitions: 100, subtopologies: 10, perProcess: 1, offsets: true}.group(t, a)
	got, err := a.Assign(g)
	require.NoError(t, err)
	assert.Zero(t, quality(g, got)["older_active"])
}

func TestOneOfAThousandJoins(t *testing.T) {
	t.Parallel()
	for _, offsets := range []bool{false, true} {
		for _, before := range []Assignor{NewHighlyAvailable(), NewSticky()} {
			p := benchmarkPoint{1000, 100, 100, 1, 1, true, offsets, false}
			g := p.group(t, before)
			got, err := NewHighlyAvailable().Assign(g)
			require.NoError(t, err)
			require.NoError(t, Verify(g, got))
			q := quality(g, got)
			t.Logf("%v after %s: %.0f active tasks and %.0f standbys move", p, before.Name(), q["moved_active"], q["standby_moved"])
			assert.LessOrEqual(t, q["moved_active"], 11.0)
			assert.Less(t, q["standby_moved"], 50.0)
		}
	}
}

func TestHighlyAvailablePropertiesP1ToP7(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t, shape{fresh: true, consistentClaims: true, tags: rapid.Bool().Draw(t, "tags")})
		a, err := NewHighlyAvailable(IgnorePriorTarget()).Assign(g)
		require.NoError(t, err)
		require.NoError(t, Verify(g, a), "P1, P7")
		all, stateful := countTasks(g)
		n := len(g.Members)
		load, statefulLoad, capacity := map[string]float64{}, map[string]float64{}, map[string]float64{}
		for _, m := range g.Members {
			active, sf := size(a[m.ID].Active), statefulOf(g, a[m.ID].Active)
			// Stronger than P2, P3 and P5: nobody is more than one off, in either
			// direction, whatever the processes are like.
			require.Contains(t, []int{all / n, ceilDiv(all, n)}, active)
			require.Contains(t, []int{stateful / n, ceilDiv(stateful, n)}, sf)
			var kept TaskSet
			for _, id := range m.Prior.Active {
				if slices.Contains(a[m.ID].Active, id) {
					kept = append(kept, id)
				}
			}
			require.GreaterOrEqual(t, statefulOf(g, kept), min(statefulOf(g, m.Prior.Active), stateful/n), "P4")
			load[m.ProcessID] += float64(active)
			statefulLoad[m.ProcessID] += float64(sf)
			capacity[m.ProcessID]++
		}
		lo, hi := math.Inf(1), math.Inf(-1)
		for p := range load {
			lo, hi = min(lo, load[p]/capacity[p]), max(hi, load[p]/capacity[p])
			for o := range load {
				require.Less(t, (statefulLoad[p]-1)/capacity[p], (statefulLoad[o]+1)/capacity[o], "BA-19")
			}
		}
		require.LessOrEqual(t, hi-lo, 1+1e-9, "P6")
	})
}

func TestHighlyAvailablePropertyP8(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// Not only from an empty start: one run is enough for the active tasks.
		g := drawGroup(t, shape{fresh: true, consistentClaims: true})
		for i := range g.Members {
			g.Members[i].PriorTarget = nil
		}
		first, err := NewHighlyAvailable().Assign(g)
		require.NoError(t, err)
		second, err := NewHighlyAvailable().Assign(continued(g, first))
		require.NoError(t, err)
		for id := range first {
			require.Equal(t, first[id].Active, second[id].Active)
		}
	})
}

func TestHighlyAvailableFixedPoint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t, shape{fresh: true, consistentClaims: true, tags: rapid.Bool().Draw(t, "tags")})
		var last Assignment
		for range 5 {
			a, err := NewHighlyAvailable().Assign(g)
			require.NoError(t, err)
			last, g = a, continued(g, a)
		}
		a, err := NewHighlyAvailable().Assign(g)
		require.NoError(t, err)
		require.Equal(t, last, a)
	})
}

func TestHighlyAvailableInputOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t, shape{tags: rapid.Bool().Draw(t, "tags")})
		want, err := NewHighlyAvailable().Assign(g)
		require.NoError(t, err)
		shuffle(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), g)
		got, err := NewHighlyAvailable().Assign(g)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

func TestHighlyAvailablePropertiesU1ToU4(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t, shape{consistentClaims: true, tags: rapid.Bool().Draw(t, "tags")})
		x, err := newIndex(g)
		require.NoError(t, err)
		a := NewHighlyAvailable(IgnorePriorTarget()).run(x).assignment()
		require.NoError(t, Verify(g, a), "U1, U2, U3")
		_, stateful := countTasks(g)
		fill := newQuota(int64(stateful), len(g.Members))
		own, fixed := make([]int64, len(g.Members)), make([]bool, len(g.Members))
		for _, m := range x.stale {
			own[m] = int64(statefulOf(g, x.member(m).Prior.Active))
		}
		fill.waterFill(x.stale, own, fixed)
		for _, m := range x.stale {
			kept := int64(statefulOf(g, a[x.member(m).ID].Active))
			if fixed[m] {
				require.Equal(t, own[m], kept, "U4: fixed")
				continue
			}
			require.GreaterOrEqual(t, kept, fill.tasks/fill.members, "U4: not fixed")
			require.LessOrEqual(t, kept, fill.limit, "U4: not fixed")
		}
	})
}

// Client tags: what the first key can offer is used, whatever the loads.
func TestHighlyAvailableTagsR1ToR4(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t, shape{tags: true, fresh: true})
		x, err := newIndex(g)
		require.NoError(t, err)
		r := NewHighlyAvailable().run(x)
		require.NoError(t, Verify(g, r.assignment()), "R1, R3, R4")
		key := g.RackAwareTags[0]
		value := func(p int32) string { return x.member(x.membersOf(p)[0]).ClientTags[key] }
		offered := map[string]bool{}
		for p := range x.processIDs {
			offered[value(int32(p))] = true
		}
		delete(offered, "")
		for task := range x.tasks {
			if r.slots == 0 || !x.subOf(task).stateful {
				continue
			}
			owners := value(x.process[r.owner[task]])
			used := map[string]bool{}
			for _, m := range r.standbysOf(task) {
				if v := value(x.process[m]); v != "" && v != owners {
					used[v] = true
				}
			}
			n := len(offered)
			if offered[owners] {
				n--
			}
			require.Equal(t, min(int(r.slots), n), len(used), "R2: %s", x.taskID(task))
		}
	})
}

func TestRK02NoRoomLimit(t *testing.T) {
	t.Parallel()
	g := parseGroup(t, "keys=zone,cluster R=2 s(6,sf)"+
		" p11{0,1}+zone=z1+cluster=c1 p12{2,3}+zone=z1+cluster=c2 p13{4,5}+zone=z1+cluster=c3"+
		" p21{}+zone=z2+cluster=c1 p22{}+zone=z2+cluster=c2 p23{}+zone=z2+cluster=c3"+
		" p31{}+zone=z3+cluster=c1 p32{}+zone=z3+cluster=c2 p33{}+zone=z3+cluster=c3")
	x, err := newIndex(g)
	require.NoError(t, err)
	r := newRun(x, newPriors(x, priorRules{compare: compareNewest}))
	for m := range x.members {
		x.each(x.member(int32(m)).Prior.Active, func(task int32, _ bool) { r.giveActive(int32(m), task, statefulOnly) })
	}
	r.placeStandbys()
	for task := range r.tasks {
		zones, clusters := map[string]bool{}, map[string]bool{}
		for _, m := range append([]int32{r.owner[task]}, r.standbysOf(task)...) {
			tags := r.member(m).ClientTags
			zones[tags["zone"]], clusters[tags["cluster"]] = true, true
		}
		assert.Len(t, zones, 3, task)
		assert.Len(t, clusters, 3, task)
	}
	for m := range r.members {
		if r.member(int32(m)).ClientTags["zone"] == "z1" {
			assert.EqualValues(t, 2, r.count[m])
			continue
		}
		assert.Contains(t, []int32{1, 2, 3}, r.count[m])
	}
}

func TestHighlyAvailableAtRestWithDormantReports(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t, shape{fresh: true, cold: true, onePerProcess: true})
		for range 3 {
			a, err := NewHighlyAvailable().Assign(g)
			require.NoError(t, err)
			g = continued(g, a)
		}
		want, err := NewHighlyAvailable().Assign(g)
		require.NoError(t, err)
		for i := range g.Members {
			g.Members[i].Offsets = map[topology.TaskID]int64{}
			for _, s := range g.Subtopologies {
				for p := range s.Tasks {
					if s.Stateful && rapid.Bool().Draw(t, "reports") {
						g.Members[i].Offsets[topology.TaskID{Subtopology: s.ID, Partition: p}] = rapid.Int64Range(0, 9).Draw(t, "offset")
					}
				}
			}
		}
		got, err := NewHighlyAvailable().Assign(g)
		require.NoError(t, err)
		for id := range want {
			require.Equal(t, want[id].Active, got[id].Active, "AB-05: reports move nothing")
		}
	})
}
