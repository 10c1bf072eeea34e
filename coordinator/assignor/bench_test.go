package assignor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/streamsgroup/streamsgroup/topology"
)

// benchmarkPoint is one combination of the parameters of Kafka's
// StreamsStickyAssignorBenchmark, under the same names.
type benchmarkPoint struct {
	members, partitions, subtopologies, standbys, perProcess int
	incremental, offsets                                     bool
	tags                                                     bool
}

func (p benchmarkPoint) String() string {
	assignment, reported := "FULL", "NONE"
	if p.incremental {
		assignment = "INCREMENTAL"
	}
	if p.offsets {
		reported = "OWNED_AND_DORMANT"
	}
	out := fmt.Sprintf("memberCount=%d/partitionCount=%d/subtopologyCount=%d/standbyReplicas=%d/membersPerProcess=%d/assignmentType=%s/reportedOffsets=%s",
		p.members, p.partitions, p.subtopologies, p.standbys, p.perProcess, assignment, reported)
	if p.tags {
		out += "/rackAwareTags=CLUSTER_AND_ZONE"
	}
	return out
}

// group builds the input of the measured run.
func (p benchmarkPoint) group(tb testing.TB, a Assignor) *Group {
	tb.Helper()
	g := &Group{StandbyReplicas: p.standbys}
	for i := range p.subtopologies {
		g.Subtopologies = append(g.Subtopologies, Subtopology{ID: fmt.Sprintf("topic-%d_subtopology", i), Tasks: int32(p.partitions), Stateful: i%2 == 0})
	}
	before := p.members
	if p.incremental {
		before--
	}
	for i := range before {
		g.Members = append(g.Members, Member{ID: fmt.Sprintf("member-%d", i), ProcessID: fmt.Sprintf("process-%d", i/p.perProcess), ClientTags: p.tagsOf(i / p.perProcess)})
	}
	if p.tags {
		g.RackAwareTags = []string{"cluster", "zone"}
	}
	if p.incremental {
		first, err := a.Assign(g)
		if err != nil {
			tb.Fatal(err)
		}
		g = continued(g, first)
	}
	if p.offsets {
		p.report(tb, g)
	}
	if p.incremental {
		g.Members = append(g.Members, Member{ID: "newMember", ProcessID: "process-newMember", ClientTags: p.tagsOf(before)})
	}
	// The coordinator hands members over by id.
	slices.SortFunc(g.Members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return g
}

// tagsOf deals two clusters and three zones round-robin over the processes.
func (p benchmarkPoint) tagsOf(process int) map[string]string {
	if !p.tags {
		return nil
	}
	return map[string]string{"cluster": fmt.Sprintf("cluster-%d", process%2), "zone": fmt.Sprintf("zone-%d", process%3)}
}

// report lets two neighbours report each stateful task, the second one with the
// older copy. Subtopologies and members count in the order of their ids.
func (p benchmarkPoint) report(tb testing.TB, g *Group) {
	tb.Helper()
	x, err := newIndex(g)
	if err != nil {
		tb.Fatal(err)
	}
	n := 0
	for i := range x.subs {
		if !x.subs[i].stateful {
			continue
		}
		for partition := range x.subs[i].tasks {
			for k, base := range []int64{2_000_000, 1_000_000} {
				m := x.member(int32((n + k) % len(x.members)))
				if m.Offsets == nil {
					m.Offsets = map[topology.TaskID]int64{}
				}
				m.Offsets[topology.TaskID{Subtopology: x.subs[i].id, Partition: partition}] = base + int64(n)
			}
			n++
		}
	}
}

// gridOf is Kafka's grid with these numbers of standby replicas.
func gridOf(tags bool, replicas ...int) []benchmarkPoint {
	var out []benchmarkPoint
	for _, members := range []int{100, 1000} {
		for _, partitions := range []int{10, 100} {
			for _, subtopologies := range []int{10, 100} {
				for _, standbys := range replicas {
					for _, perProcess := range []int{1, 50} {
						for _, incremental := range []bool{false, true} {
							for _, offsets := range []bool{false, true} {
								out = append(out, benchmarkPoint{members, partitions, subtopologies, standbys, perProcess, incremental, offsets, tags})
							}
						}
					}
				}
			}
		}
	}
	return out
}

// benchmarkGrid is the grid of StreamsStickyAssignorBenchmark and what is beyond.
func benchmarkGrid() []benchmarkPoint {
	out := gridOf(false, 0, 1)
	for _, incremental := range []bool{false, true} {
		out = append(out,
			benchmarkPoint{members: 10_000, partitions: 100, subtopologies: 100, standbys: 1, perProcess: 1, incremental: incremental, offsets: true},
			benchmarkPoint{members: 10_000, partitions: 1000, subtopologies: 100, standbys: 1, perProcess: 1, incremental: incremental})
	}
	return out
}

func BenchmarkStickyAssignor(b *testing.B) { benchmarkAssignor(b, NewSticky(), benchmarkGrid()) }

func BenchmarkHighlyAvailableAssignor(b *testing.B) {
	benchmarkAssignor(b, NewHighlyAvailable(), benchmarkGrid())
}

// The grid of Kafka's StreamsAssignorBenchmark: two assignors, up to two standby
// replicas, without client tags and with.
func BenchmarkStreamsAssignor(b *testing.B) {
	for _, a := range []Assignor{NewSticky(), NewHighlyAvailable()} {
		b.Run("assignorType="+strings.ToUpper(a.Name()), func(b *testing.B) {
			benchmarkAssignor(b, a, append(gridOf(false, 0, 1, 2), gridOf(true, 0, 1, 2)...))
		})
	}
}

func benchmarkAssignor(b *testing.B, a Assignor, grid []benchmarkPoint) {
	b.Helper()
	for _, p := range grid {
		b.Run(p.String(), func(b *testing.B) {
			g := p.group(b, a)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.Assign(g); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	a := NewSticky()
	g := benchmarkPoint{1000, 100, 100, 1, 1, true, true, false}.group(b, a)
	got, err := a.Assign(g)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := Verify(g, got); err != nil {
			b.Fatal(err)
		}
	}
}
