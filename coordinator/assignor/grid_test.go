package assignor

import (
	"runtime"
	"testing"

	"github.com/streamsgroup/streamsgroup/topology"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// On a cold start with two copies of everything, the joint rule for load and
// count sends most tasks to the older copy. That is Kafka's choice; this test
// pins it down to the task.
func TestBM03CopiesOnAColdStart(t *testing.T) {
	t.Parallel()
	point := benchmarkPoint{members: 100, partitions: 100, subtopologies: 10, perProcess: 1, offsets: true}
	for _, tc := range []struct {
		name                 string
		assignor             Assignor
		newer, older, others int
	}{
		{"one quota", NewSticky(StrictKafka()), 104, 396, 0},
		{"two quotas", NewSticky(), 103, 395, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := point.group(t, tc.assignor)
			a, err := tc.assignor.Assign(g)
			require.NoError(t, err)
			best := map[topology.TaskID]int64{}
			for _, m := range g.Members {
				for id, n := range m.Offsets {
					best[id] = max(best[id], n)
				}
			}
			newer, older, others := 0, 0, 0
			for _, m := range g.Members {
				for _, id := range a[m.ID].Active {
					if best[id] == 0 {
						continue
					}
					switch m.Offsets[id] {
					case best[id]:
						newer++
					case 0:
						others++
					default:
						older++
					}
				}
			}
			assert.Equal(t, []int{tc.newer, tc.older, tc.others}, []int{newer, older, others})
		})
	}
}

// What a run allocates, and with it what it looks at, does not grow faster than
// the number of tasks.
func TestBM04Linear(t *testing.T) { //nolint:paralleltest // counts what the whole process allocates
	for _, a := range []Assignor{NewSticky(), NewHighlyAvailable()} {
		for _, point := range []benchmarkPoint{
			{members: 100, subtopologies: 10, standbys: 1, perProcess: 1, incremental: true, offsets: true},
			{members: 100, subtopologies: 10, standbys: 1, perProcess: 50},
		} {
			allocated := func(partitions int) float64 {
				point.partitions = partitions
				g := point.group(t, a)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := a.Assign(g)
				runtime.ReadMemStats(&after)
				require.NoError(t, err)
				return float64(after.TotalAlloc - before.TotalAlloc)
			}
			assert.Less(t, allocated(4000)/allocated(2000), 2.2, "%s %v", a.Name(), point)
		}
	}
}

func TestBenchmarkGridIsValid(t *testing.T) {
	t.Parallel()
	a := NewSticky()
	for _, p := range benchmarkGrid() {
		if p.members*p.subtopologies > 10_000 {
			continue
		}
		g := p.group(t, a)
		got, err := a.Assign(g)
		require.NoError(t, err)
		require.NoError(t, Verify(g, got), p)
	}
}
