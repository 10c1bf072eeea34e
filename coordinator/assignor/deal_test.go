package assignor

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A dealer chooses whom a look at everybody would choose, whether by its queue, its
// heap or first the one and then the other.
func TestDealer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := &Group{TopologyEpoch: 1, Subtopologies: []Subtopology{{ID: "s", Tasks: 1000, Stateful: true}}}
		even := rapid.Bool().Draw(t, "even")
		capacity := rapid.IntRange(1, 4).Draw(t, "capacity")
		for p := range rapid.IntRange(1, 8).Draw(t, "processes") {
			if !even {
				capacity = rapid.IntRange(1, 4).Draw(t, "capacity")
			}
			for m := range capacity {
				epoch := int32(1)
				if rapid.IntRange(0, 5).Draw(t, "stale") == 0 {
					epoch = 0
				}
				g.Members = append(g.Members, Member{ID: fmt.Sprintf("%d-%d", p, m), ProcessID: strconv.Itoa(p), TopologyEpoch: epoch})
			}
		}
		x, err := newIndex(g)
		require.NoError(t, err)
		r := newRun(x, newPriors(x, priorRules{compare: compareSticky}))
		for m := range r.members {
			r.count[m] = rapid.Int32Range(0, 9).Draw(t, "count")
			r.load[r.process[m]] += int64(r.count[m])
		}
		byStateless := rapid.Bool().Draw(t, "by stateless")
		for p := range r.stateless {
			r.stateless[p] = rapid.Int64Range(0, r.load[p]).Draw(t, "stateless")
		}
		d := r.newDealer(byStateless)
		require.True(t, d.queued || !even)
		impatient := rapid.IntRange(0, 60).Draw(t, "impatient")
		for i := range 40 {
			if i == impatient {
				d.queue.patience = -1
			}
			skipped := map[int32]bool{}
			for range rapid.IntRange(0, 2).Draw(t, "skipped") {
				if p := d.next(); p != nobody {
					require.Equal(t, r.lookForNext(byStateless, skipped), p)
					skipped[p] = true
					d.skip()
				}
			}
			p := r.lookForNext(byStateless, skipped)
			require.Equal(t, p, d.next())
			if p != nobody {
				m := d.take()
				require.Equal(t, r.lookForIdlest(p), m)
				r.giveActive(m, int32(i), rapid.SampledFrom([]flavour{statefulOnly, statelessOnly}).Draw(t, "flavour"))
				d.gave()
			}
			d.restore()
		}
	})
}

func (r *run) lookForIdlest(p int32) int32 {
	best := nobody
	for _, m := range r.membersOf(p) {
		if r.fresh[m] && (best == nobody || r.count[m] < r.count[best]) {
			best = m
		}
	}
	return best
}

func (r *run) lookForNext(byStateless bool, skipped map[int32]bool) int32 {
	better := func(p, q int32) bool {
		if c := r.compareLoads(r.load, p, q); c != 0 {
			return c < 0
		}
		if c := r.compareLoads(r.stateless, p, q); byStateless && c != 0 {
			return c < 0
		}
		return r.count[r.lookForIdlest(p)] < r.count[r.lookForIdlest(q)]
	}
	best := nobody
	for p := range int32(len(r.processIDs)) {
		if !skipped[p] && r.lookForIdlest(p) != nobody && (best == nobody || better(p, best)) {
			best = p
		}
	}
	return best
}
