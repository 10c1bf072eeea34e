package coordinator

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/coordinator/assignor"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
)

// updated is a crowd at rest to which a member with the next topology is added. It
// has not joined yet.
func updated(tb testing.TB, members, perMember int, version string) *crowd {
	tb.Helper()
	k := crowded(tb, members, perMember, false)
	n := int32(members * perMember)
	k.image = topics.NewImage(2, map[string]topics.Topic{"in": {Name: "in", Partitions: n}, "more": {Name: "more", Partitions: n / 10}})
	k.members = append(k.members, &crowdMember{group: groupID, topic: version, id: "new", process: "process-new"})
	return k
}

// rest lets everybody send heartbeats until the group is at rest and returns how
// many it took.
func (k *crowd) rest() (beats int) {
	for k.c.groups[groupID].state() != Stable {
		for _, m := range k.members {
			k.beat(m)
			beats++
		}
	}
	return beats
}

// BenchmarkUpdate is a member that brings the next topology: "join" is its
// heartbeat alone, in which the assignor runs, and "until stable" all heartbeats of
// all members until the group is at rest with most of them behind.
func BenchmarkUpdate(b *testing.B) {
	for _, version := range []string{"in, renumbered", "in, merged"} {
		for _, n := range []int{100, 1_000, 10_000} {
			start := updated(b, n, 10, version)
			b.Run(fmt.Sprintf("join/%s/members=%d", version, n), func(b *testing.B) {
				k := start.copied()
				b.ReportAllocs()
				for b.Loop() {
					k.c.Handle(k.now, k.image, k.request(k.members[n], 0), &k.resp, &k.fx)
				}
				require.Zero(b, k.resp.ErrorCode)
			})
			b.Run(fmt.Sprintf("until stable/%s/members=%d", version, n), func(b *testing.B) {
				b.ReportAllocs()
				beats := 0
				for b.Loop() {
					b.StopTimer()
					k := start.copied()
					b.StartTimer()
					k.beat(k.members[n])
					beats += k.rest()
				}
				b.ReportMetric(float64(beats)/float64(b.N), "beats/op")
			})
		}
	}
}

// BenchmarkSteadyHeartbeatOfOneBehind is a heartbeat in a group that is at rest in
// the middle of a roll-out.
func BenchmarkSteadyHeartbeatOfOneBehind(b *testing.B) {
	k := updated(b, 1000, 10, "in, renumbered")
	k.beat(k.members[1000])
	k.rest()
	for name, m := range map[string]*crowdMember{"behind": k.members[0], "up to date": k.members[1000]} {
		b.Run(name, func(b *testing.B) {
			k.beat(m)
			r := k.request(m, m.epoch)
			b.ReportAllocs()
			for b.Loop() {
				k.c.Handle(k.now, k.image, r, &k.resp, &k.fx)
				k.c.Apply(k.now, &k.fx)
			}
			require.Empty(b, k.fx.Records)
		})
	}
}

// countingAssignor counts how often it is asked.
type countingAssignor struct {
	assignor.Assignor
	runs *int
}

func (a countingAssignor) Assign(g *assignor.Group) (assignor.Assignment, error) {
	*a.runs++
	return a.Assignor.Assign(g)
}

// TestUpdateCostsOneAssignorRun also bounds what an update allocates until the
// group is at rest: ten times the members and tasks may cost little more than ten
// times as much.
func TestUpdateCostsOneAssignorRun(t *testing.T) {
	for _, version := range []string{"in, renumbered", "in, merged"} {
		cost := func(n int) (allocs, bytes uint64) {
			k := updated(t, n, 10, version)
			runs := 0
			k.c.assignors["sticky"] = countingAssignor{k.c.assignors["sticky"], &runs}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			k.beat(k.members[n])
			beats := k.rest()
			runtime.ReadMemStats(&after)
			assert.Equal(t, 1, runs, "%s with %d members", version, n)
			assert.LessOrEqual(t, beats, 3*(n+1))
			return after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
		}
		smallAllocs, smallBytes := cost(100)
		allocs, bytes := cost(1000)
		assert.Less(t, float64(allocs), 13*float64(smallAllocs), "%s: allocations", version)
		assert.Less(t, float64(bytes), 16*float64(smallBytes), "%s: bytes", version)
	}
}
