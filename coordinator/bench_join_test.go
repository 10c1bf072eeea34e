package coordinator

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// crowded is a crowd in a stable group, with the tasks spread evenly.
func crowded(tb testing.TB, members, perMember int, endpoints bool) *crowd {
	tb.Helper()
	c, image, _ := bigGroup(tb, members, perMember)
	k := &crowd{t: tb, c: c, now: Now{Mono: time.Second, WallMillis: startWall}, image: image}
	for _, id := range c.groups[groupID].memberIDs() {
		m := &crowdMember{group: groupID, topic: "in", id: id, process: "process-" + id, epoch: 10, in: true}
		m.tasks = [3][]kmsg.TaskIDs{listToWire(c.groups[groupID].members[id].cur.assigned.active), {}, {}}
		if endpoints {
			meta := *c.groups[groupID].members[id].meta
			meta.UserEndpoint = &record.Endpoint{Host: "host-of-" + id + ".example.com", Port: 8080}
			require.NoError(tb, c.Replay(&meta))
		}
		k.members = append(k.members, m)
	}
	return k
}

// BenchmarkJoinUntilStable is a member that joins a group at rest, and all
// heartbeats of all members until the group is at rest again with the tasks
// moved: what the join costs the coordinator altogether.
func BenchmarkJoinUntilStable(b *testing.B) {
	for _, endpoints := range []bool{false, true} {
		for _, n := range []int{100, 1_000, 10_000} {
			if endpoints && n > 1_000 {
				continue // the answers alone grow with the square of the members
			}
			b.Run(fmt.Sprintf("endpoints=%v/members=%d", endpoints, n), func(b *testing.B) {
				start := crowded(b, n, 5, endpoints)
				b.ReportAllocs()
				beats := 0
				for b.Loop() {
					b.StopTimer()
					k := start.copied()
					k.members = append(k.members, &crowdMember{group: groupID, topic: "in", id: "new", process: "process-new"})
					g := k.c.groups[groupID]
					b.StartTimer()
					for k.beat(k.members[n]); g.state() != Stable; {
						for _, m := range k.members {
							k.beat(m)
							beats++
						}
					}
					require.Len(b, g.members, n+1)
					require.NotEmpty(b, g.members["new"].cur.assigned.active)
				}
				b.ReportMetric(float64(beats)/float64(b.N), "beats/op")
			})
		}
	}
}

func (k *crowd) copied() *crowd {
	out := &crowd{t: k.t, c: k.c.Clone(), now: k.now, image: k.image}
	for _, m := range k.members {
		one := *m
		out.members = append(out.members, &one)
	}
	return out
}

// BenchmarkEndpoints is the list of endpoints in the answer to a member that does
// not have the latest.
func BenchmarkEndpoints(b *testing.B) {
	for _, n := range []int{100, 1_000} {
		run := func(name string, each func(k *crowd, i int)) {
			b.Run(fmt.Sprintf("members=%d/%s", n, name), func(b *testing.B) {
				k := crowded(b, n, 5, true)
				for i := range k.members {
					k.members[i].endpoints = -1
					k.beat(k.members[i])
				}
				i := 0
				b.ReportAllocs()
				for b.Loop() {
					k.members[i%n].endpoints = -1
					each(k, i)
					i++
				}
				require.Len(b, k.resp.PartitionsByUserEndpoint, n)
			})
		}
		run("first", func(k *crowd, i int) {
			k.c.groups[groupID].endpoints.forget()
			k.beat(k.members[i%n])
		})
		run("reused", func(k *crowd, i int) { k.beat(k.members[i%n]) })
		run("changed", func(k *crowd, i int) {
			m := k.members[i%n]
			meta := *k.c.groups[groupID].members[m.id].meta
			meta.UserEndpoint = &record.Endpoint{Host: "elsewhere", Port: uint16(i)}
			if err := k.c.Replay(&meta); err != nil {
				b.Fatal(err)
			}
			k.beat(k.members[(i+1)%n])
		})
		run("encoded", func(k *crowd, i int) {
			k.beat(k.members[i%n])
			k.buf = k.resp.AppendTo(k.buf[:0])
		})
	}
}

// BenchmarkIdleMember measures the memory that a coordinator keeps for a member
// with one task that is heard of every now and then.
func BenchmarkIdleMember(b *testing.B) {
	for _, endpoints := range []bool{false, true} {
		b.Run(fmt.Sprintf("endpoints=%v", endpoints), func(b *testing.B) {
			const n = 20_000
			for b.Loop() {
				before := heapInUse()
				k := crowded(b, n, 1, endpoints)
				k.c.groups[groupID].endpoints.forget()
				k.members, k.fx = nil, Effects{}
				b.ReportMetric(float64(heapInUse()-before)/n, "B/member")
				runtime.KeepAlive(k)
			}
		})
	}
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestJoinCostGrowsWithMembersNotWithTheirSquare counts what is allocated from a
// join until the group is at rest again. Ten times the members may cost little
// more than ten times as much, also if each has an endpoint.
func TestJoinCostGrowsWithMembersNotWithTheirSquare(t *testing.T) {
	cost := func(n int, endpoints bool) (allocs, bytes uint64) {
		k := crowded(t, n, 5, endpoints)
		k.members = append(k.members, &crowdMember{group: groupID, topic: "in", id: "new", process: "process-new"})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for k.beat(k.members[n]); k.c.groups[groupID].state() != Stable; {
			for _, m := range k.members {
				k.beat(m)
			}
		}
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
	}
	for _, endpoints := range []bool{false, true} {
		smallAllocs, smallBytes := cost(100, endpoints)
		allocs, bytes := cost(1000, endpoints)
		assert.Less(t, float64(allocs), 13*float64(smallAllocs), "allocations, endpoints %v", endpoints)
		assert.Less(t, float64(bytes), 16*float64(smallBytes), "bytes, endpoints %v", endpoints)
	}
}
