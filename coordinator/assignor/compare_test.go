package assignor

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/streamsgroup/streamsgroup/topology"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// comparison adds up the figures of assignments beside those of Kafka.
type comparison struct {
	kafka, ours   map[string]float64
	better, worse map[string]int
	groups        int
}

func newComparison() *comparison {
	return &comparison{kafka: map[string]float64{}, ours: map[string]float64{}, better: map[string]int{}, worse: map[string]int{}}
}

func (c *comparison) add(kafka, ours map[string]float64) {
	c.groups++
	for name := range ours {
		a, b := kafka[name], ours[name]
		c.kafka[name] += a
		c.ours[name] += b
		if higherIsBetter[name] {
			a, b = -a, -b
		}
		switch {
		case b < a-1e-9:
			c.better[name]++
		case b > a+1e-9:
			c.worse[name]++
		}
	}
}

func (c *comparison) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d groups\n%-24s %10s %10s %8s %8s\n", c.groups, "figure", "kafka", "ours", "better", "worse")
	for _, name := range slices.Sorted(maps.Keys(c.ours)) {
		if lowerIsBetter[name] || higherIsBetter[name] {
			fmt.Fprintf(&out, "%-24s %10.1f %10.1f %8d %8d\n", name, c.kafka[name], c.ours[name], c.better[name], c.worse[name])
		}
	}
	return out.String()
}

// lost returns the figures that are worse in sum.
func (c *comparison) lost() []string {
	var out []string
	for name := range c.ours {
		if lowerIsBetter[name] && c.ours[name] > c.kafka[name]+1e-6 || higherIsBetter[name] && c.ours[name] < c.kafka[name]-1e-6 {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// What highly_available does with the groups for which Kafka's decisions are on
// record. Run with -v for the table.
func TestVectorsHighlyAvailable(t *testing.T) {
	t.Parallel()
	a := NewHighlyAvailable()
	all, plain, tagged := newComparison(), newComparison(), newComparison()
	for _, v := range readVectors(t) {
		g := v.group(t)
		got, err := a.Assign(g)
		if v.Error != "" {
			require.ErrorIs(t, err, ErrNoMembers, v.ID)
			continue
		}
		require.NoError(t, err, v.ID)
		require.NoError(t, Verify(g, got), v.ID)
		q := quality(g, got)
		all.add(v.Quality, q)
		switch {
		case v.Plain:
			plain.add(v.Quality, q)
		case len(v.In.RackAwareTags) > 0:
			tagged.add(v.Quality, q)
		}
	}
	t.Logf("all vectors: %v\nplain ones: %v\nthose with tag keys: %v", all, plain, tagged)
	for name, worse := range map[string]int{"stateful_max_per_member": 0, "stateful_min_per_member": 0, "active_max_per_member": 0, "active_min_per_member": 0, "standby_short": 0} {
		assert.Equal(t, worse, all.worse[name], name)
	}
	// What loses in sum, and why, is told in docs/assignors.md.
	assert.Subset(t, []string{"moved_active", "moved_active_process", "moved_stateful_active", "moved_stateful_process", "cold_standby", "total_load_max", "total_load_min", "total_max_per_member", "total_min_per_member"}, all.lost())
	assert.Subset(t, []string{"moved_active", "moved_stateful_active", "cold_standby", "total_load_max", "total_load_min", "total_max_per_member"}, plain.lost())
	for _, c := range []*comparison{all, plain} {
		assert.Less(t, c.ours["cold_active"]+c.ours["cold_standby"], c.kafka["cold_active"]+c.kafka["cold_standby"]+1, "cold in either role")
		assert.Less(t, c.ours["older_active"], c.kafka["older_active"]/2)
		assert.Less(t, c.ours["standby_moved"], c.kafka["standby_moved"])
	}
}

// randomGroup is a group in some state of its life: grown from nothing by joins,
// departures and restarts.
func randomGroup(rng *rand.Rand, oneFlavour bool) *Group {
	g := &Group{TopologyEpoch: 1, StandbyReplicas: rng.IntN(3)}
	stateful := rng.IntN(4) > 0
	for i := range 1 + rng.IntN(3) {
		sf := stateful
		if !oneFlavour {
			sf = rng.IntN(3) > 0
		}
		g.Subtopologies = append(g.Subtopologies, Subtopology{ID: strconv.Itoa(i), Tasks: int32(1 + rng.IntN(12)), Stateful: sf})
	}
	perProcess := 1 + rng.IntN(3)
	if rng.IntN(2) == 0 {
		perProcess = 1
	}
	n := 0
	member := func() Member {
		n++
		return Member{ID: fmt.Sprintf("m%02d", rng.IntN(100)*100+n), ProcessID: fmt.Sprintf("p%d", n/perProcess), TopologyEpoch: 1}
	}
	for range 1 + rng.IntN(8) {
		g.Members = append(g.Members, member())
	}
	a := NewSticky(StrictKafka())
	for range rng.IntN(4) {
		got, err := a.Assign(g)
		if err != nil {
			panic(err)
		}
		g = continued(g, got)
		randomOffsets(rng, g)
		switch rng.IntN(5) {
		case 0:
			g.Members = append(g.Members, member())
		case 1, 2:
			if len(g.Members) > 1 {
				i := rng.IntN(len(g.Members))
				g.Members = slices.Delete(g.Members, i, i+1)
			}
		case 3: // restarts
			for range 1 + rng.IntN(2) {
				restart(g, rng.IntN(len(g.Members)), fmt.Sprintf("n%02d%d", rng.IntN(100), n))
				n++
			}
		case 4:
			g.Members = append(g.Members, member(), member())
		}
	}
	return g
}

// restart replaces a member by one with a new id that finds the state on disk.
func restart(g *Group, i int, id string) {
	m := &g.Members[i]
	offsets := map[topology.TaskID]int64{}
	for _, set := range []TaskSet{m.Prior.Active, m.Prior.Standby} {
		for _, t := range set {
			offsets[t] = 1000
		}
	}
	maps.Copy(offsets, m.Offsets)
	*m = Member{ID: id, ProcessID: m.ProcessID, TopologyEpoch: 1, Offsets: offsets}
}

// randomOffsets lets standbys and some others report.
func randomOffsets(rng *rand.Rand, g *Group) {
	for i := range g.Members {
		m := &g.Members[i]
		if m.Offsets == nil {
			m.Offsets = map[topology.TaskID]int64{}
		}
		held := m.Prior.Standby
		for _, t := range held {
			if rng.IntN(3) > 0 {
				m.Offsets[t] = int64(rng.IntN(5) * 100)
			}
		}
		for _, s := range g.Subtopologies {
			for p := range s.Tasks {
				if s.Stateful && rng.IntN(12) == 0 {
					m.Offsets[topology.TaskID{Subtopology: s.ID, Partition: p}] = int64(rng.IntN(5) * 100)
				}
			}
		}
	}
}

func TestRandomGroupsHighlyAvailable(t *testing.T) {
	t.Parallel()
	ours, kafkas := NewHighlyAvailable(), NewSticky(StrictKafka())
	for _, oneFlavour := range []bool{true, false} {
		rng := rand.New(rand.NewPCG(11, 12))
		c := newComparison()
		for range 3000 {
			g := randomGroup(rng, oneFlavour)
			kafka, err := kafkas.Assign(g)
			require.NoError(t, err)
			got, err := ours.Assign(g)
			require.NoError(t, err)
			require.NoError(t, Verify(g, got))
			c.add(quality(g, kafka), quality(g, got))
		}
		t.Logf("one flavour %v: %v", oneFlavour, c)
		for _, name := range []string{"cold_active", "cold_standby", "older_active", "standby_moved"} {
			assert.Less(t, c.ours[name], c.kafka[name], name)
			assert.Less(t, c.worse[name], c.better[name], name)
		}
		for _, name := range []string{"active_max_per_member", "active_min_per_member", "stateful_max_per_member", "stateful_min_per_member", "standby_short"} {
			assert.Zero(t, c.worse[name], name)
		}
	}
}

// leastMoves is how many active tasks of a flavour have to change member so that
// the stateful ones are even: per member within one task, and per process between
// the share by capacity rounded down and rounded up.
func leastMoves(t *testing.T, g *Group) int {
	t.Helper()
	x, err := newIndex(g)
	require.NoError(t, err)
	owned := make([]int, len(x.members))
	for task, o := range newPriors(x, priorRules{compare: compareNewest}).owner {
		if o != nobody && x.subOf(int32(task)).stateful {
			owned[o]++
		}
	}
	tasks, members := int(x.stateful), len(x.members)
	floor, extras := tasks/members, tasks%members
	// By the number of members with one more, the best for the processes so far.
	best := map[int]int{0: 0}
	for p := range x.processIDs {
		capacity := int(x.capacity(int32(p)))
		moves, spared := 0, 0 // spared for every member that may have one more
		for _, m := range x.membersOf(int32(p)) {
			if over := owned[m] - floor; over > 0 {
				moves += over
				spared++
			}
		}
		next := map[int]int{}
		for more := range capacity + 1 {
			if n := capacity*floor + more; n < tasks*capacity/members || n > ceilDiv(tasks*capacity, members) {
				continue
			}
			for used, so := range best {
				total := so + moves - min(more, spared)
				if old, ok := next[used+more]; !ok || total < old {
					next[used+more] = total
				}
			}
		}
		best = next
	}
	require.Contains(t, best, extras)
	return best[extras]
}

// Stateful tasks move because the shares want it, and no more than that.
func TestHighlyAvailableMovesAsFewAsItCan(t *testing.T) {
	t.Parallel()
	all := 0
	for _, v := range readVectors(t) {
		g := v.group(t)
		got, err := NewHighlyAvailable().Assign(g)
		if err != nil {
			continue
		}
		least := leastMoves(t, g)
		assert.InDelta(t, least, quality(g, got)["moved_stateful_active"], 0, v.ID)
		all += least
	}
	assert.Equal(t, 613, all, "more than Kafka, which does not make them even")
	rng := rand.New(rand.NewPCG(13, 14))
	for i := range 2000 {
		g := randomGroup(rng, i%2 == 0)
		got, err := NewHighlyAvailable().Assign(g)
		require.NoError(t, err)
		assert.InDelta(t, leastMoves(t, g), quality(g, got)["moved_stateful_active"], 0)
	}
}
