package assignor

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/streamsgroup/streamsgroup/topology"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// shape limits what groups are drawn.
type shape struct {
	fresh            bool // no stale members
	cold             bool // nobody holds anything
	onePerProcess    bool
	tags             bool
	statefulOnly     bool
	withoutStandbys  bool
	consistentClaims bool // a task is active on one member at most, and a member holds it once
}

func drawGroup(t *rapid.T, s shape) *Group {
	g := &Group{TopologyEpoch: 1}
	if !s.withoutStandbys {
		g.StandbyReplicas = rapid.IntRange(0, 3).Draw(t, "R")
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "subtopologies") {
		g.Subtopologies = append(g.Subtopologies, Subtopology{
			ID:       strconv.Itoa(7 + i), // so that "10" sorts before "7"
			Tasks:    rapid.Int32Range(0, 8).Draw(t, "tasks"),
			Stateful: s.statefulOnly || rapid.Bool().Draw(t, "stateful"),
		})
	}
	if s.tags {
		g.RackAwareTags = rapid.SampledFrom([][]string{{"zone"}, {"cluster", "zone"}, {"nowhere", "zone", "cluster"}}).Draw(t, "keys")
	}
	members := rapid.IntRange(1, 9).Draw(t, "members")
	processes := rapid.IntRange(1, members).Draw(t, "processes")
	for i := range members {
		m := Member{ID: fmt.Sprintf("m%d", i), ProcessID: fmt.Sprintf("p%d", i%processes), TopologyEpoch: 1}
		if s.onePerProcess {
			m.ProcessID = "p" + m.ID
		}
		if !s.fresh && rapid.IntRange(0, 2).Draw(t, "stale") == 0 {
			m.TopologyEpoch = 0
		}
		if s.tags {
			m.ClientTags = map[string]string{}
			for _, key := range []string{"zone", "cluster"} {
				if v := rapid.IntRange(0, 3).Draw(t, key); v > 0 {
					m.ClientTags[key] = strconv.Itoa(v)
				}
			}
		}
		g.Members = append(g.Members, m)
	}
	if !s.cold {
		drawHoldings(t, g, s)
		sortSets(g)
	}
	return g
}

func drawHoldings(t *rapid.T, g *Group, s shape) {
	hold := func(set *TaskSet, id string, p int32) {
		*set = append(*set, topology.TaskID{Subtopology: id, Partition: p})
	}
	for _, sub := range g.Subtopologies {
		for p := range sub.Tasks + 1 { // one more than there is
			for i := range g.Members {
				m := &g.Members[i]
				switch what := rapid.IntRange(0, 7).Draw(t, "holds"); {
				case what == 0 && (!s.consistentClaims || !claimed(g, sub.ID, p)):
					hold(&m.Prior.Active, sub.ID, p)
				case what == 1 && sub.Stateful:
					hold(&m.Prior.Standby, sub.ID, p)
				case what == 2 && sub.Stateful:
					hold(&m.Prior.Warmup, sub.ID, p)
				case what == 3:
					hold(&m.PriorTarget, sub.ID, p)
				}
				if sub.Stateful && rapid.IntRange(0, 5).Draw(t, "reports") == 0 {
					if m.Offsets == nil {
						m.Offsets = map[topology.TaskID]int64{}
					}
					m.Offsets[topology.TaskID{Subtopology: sub.ID, Partition: p}] = rapid.SampledFrom([]int64{0, 1, 7, 7, math.MaxInt64}).Draw(t, "offset")
				}
			}
		}
	}
}

// sortSets puts the tasks of the subtopologies in order: "10" is before "7".
func sortSets(g *Group) {
	for i := range g.Members {
		m := &g.Members[i]
		for _, set := range []TaskSet{m.Prior.Active, m.Prior.Standby, m.Prior.Warmup, m.PriorTarget} {
			sorted(set)
		}
	}
}

func claimed(g *Group, sub string, p int32) bool {
	for i := range g.Members {
		if slices.Contains(g.Members[i].Prior.Active, topology.TaskID{Subtopology: sub, Partition: p}) {
			return true
		}
	}
	return false
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func countTasks(g *Group) (all, stateful int) {
	for _, s := range g.Subtopologies {
		all += int(s.Tasks)
		if s.Stateful {
			stateful += int(s.Tasks)
		}
	}
	return all, stateful
}

func statefulOf(g *Group, s TaskSet) int {
	n := 0
	for _, id := range s {
		for _, sub := range g.Subtopologies {
			if sub.Stateful && sub.ID == id.Subtopology && id.Partition < sub.Tasks {
				n++
			}
		}
	}
	return n
}

func TestPropertiesP1ToP7(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t, shape{fresh: true, consistentClaims: true, tags: rapid.Bool().Draw(t, "tags")})
		a, err := NewSticky(IgnorePriorTarget()).Assign(g)
		require.NoError(t, err)
		require.NoError(t, Verify(g, a), "P1, P7")
		all, stateful := countTasks(g)
		n := len(g.Members)
		load, capacity := map[string]float64{}, map[string]float64{}
		for _, m := range g.Members {
			active, sf := size(a[m.ID].Active), statefulOf(g, a[m.ID].Active)
			require.LessOrEqual(t, active, ceilDiv(all, n), "P2")
			require.LessOrEqual(t, sf, ceilDiv(stateful, n), "P3")
			var kept TaskSet
			for _, id := range m.Prior.Active {
				if slices.Contains(a[m.ID].Active, id) {
					kept = append(kept, id)
				}
			}
			require.GreaterOrEqual(t, statefulOf(g, kept), min(statefulOf(g, m.Prior.Active), stateful/n), "P4")
			load[m.ProcessID] += float64(active)
			capacity[m.ProcessID]++
		}
		lo, hi := math.Inf(1), math.Inf(-1)
		for p := range load {
			lo, hi = min(lo, load[p]/capacity[p]), max(hi, load[p]/capacity[p])
		}
		require.LessOrEqual(t, hi-lo, 1+1e-9, "P5, P6")
	})
}

func TestPropertyP8SecondRunKeepsActives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t, shape{fresh: true, cold: true})
		first, err := NewSticky().Assign(g)
		require.NoError(t, err)
		second, err := NewSticky().Assign(continued(g, first))
		require.NoError(t, err)
		for id := range first {
			require.Equal(t, first[id].Active, second[id].Active)
		}
	})
}

func TestPropertyFixedPointAfterFiveRuns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t, shape{fresh: true, consistentClaims: true})
		var last Assignment
		for range 5 {
			a, err := NewSticky().Assign(g)
			require.NoError(t, err)
			last, g = a, continued(g, a)
		}
		a, err := NewSticky().Assign(g)
		require.NoError(t, err)
		require.Equal(t, last, a)
	})
}

func TestPropertyInputOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t, shape{tags: true})
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for _, a := range []Assignor{NewSticky(), NewSticky(StrictKafka())} {
			want, err := a.Assign(g)
			require.NoError(t, err)
			shuffle(rng, g)
			got, err := a.Assign(g)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	})
}

// Client tags never cost a standby (R1, R3), never give one to a stateless task
// (R4), and are used as far as there is room (R2).
func TestPropertiesR1ToR4(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t, shape{tags: true, fresh: true})
		x, err := newIndex(g)
		require.NoError(t, err)
		r := NewSticky().run(x)
		require.NoError(t, Verify(g, r.assignment()), "R1, R3, R4")
		if r.slots == 0 {
			return
		}
		key := g.RackAwareTags[0]
		value := func(p int32) string { return x.member(x.membersOf(p)[0]).ClientTags[key] }
		for i := range x.subs {
			if !x.subs[i].stateful {
				continue
			}
			for p := range x.subs[i].tasks {
				task := x.subs[i].base + p
				owners := value(x.process[r.owner[task]])
				used, offered := map[string]bool{}, map[string]bool{}
				for _, m := range r.standbysOf(task) {
					if v := value(x.process[m]); v != "" && v != owners {
						used[v], offered[v] = true, true
					}
				}
				for p := range x.processIDs {
					// Who has room at the end had it all the time.
					if v := value(int32(p)); v != "" && v != owners && r.belowTotal(r.idlest(int32(p))) {
						offered[v] = true
					}
				}
				require.GreaterOrEqual(t, len(used), min(int(r.slots), len(offered)), "R2: %s", x.taskID(task))
			}
		}
	})
}

// Stale members keep their share of what they hold and gain nothing; the rules
// hold for the others.
func TestPropertiesU1ToU4(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t, shape{consistentClaims: true, tags: rapid.Bool().Draw(t, "tags")})
		x, err := newIndex(g)
		require.NoError(t, err)
		r := NewSticky(IgnorePriorTarget()).run(x)
		a := r.assignment()
		require.NoError(t, Verify(g, a), "U1, U2, U3")
		if len(x.stale) == 0 {
			return
		}
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
			require.GreaterOrEqual(t, kept, min(own[m], r.statefulQuota.limit), "U4: not fixed")
			require.LessOrEqual(t, kept, fill.limit, "U4: not fixed")
		}
	})
}

// The result must not share memory with the input, and one slice of it must not
// run into the next.
func TestResultIsIndependent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t, shape{})
		a, err := NewSticky().Assign(g)
		require.NoError(t, err)
		for i := range g.Members {
			for _, set := range []TaskSet{g.Members[i].Prior.Active, g.Members[i].Prior.Standby} {
				clear(set)
			}
		}
		all, _ := countTasks(g)
		active := 0
		for _, m := range a {
			for _, set := range []TaskSet{m.Active, m.Standby} {
				require.Equal(t, len(set), cap(set))
				for i := range set {
					require.True(t, i == 0 || set[i].Compare(set[i-1]) > 0, "%v", set)
				}
			}
			active += size(m.Active)
		}
		require.LessOrEqual(t, active, all)
	})
}
