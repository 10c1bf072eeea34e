package assignor

import (
	"fmt"
	"testing"

	"github.com/streamsgroup/streamsgroup/topology"
)

// benchmarkPoint is one combination of the parameters of Kafka's
// StreamsStickyAssignorBenchmark, under the same names.
type benchmarkPoint struct {
	members, partitions, subtopologies, standbys, perProcess int
	incremental, offsets                                     bool
}

func (p benchmarkPoint) String() string {
	assignment, reported := "FULL", "NONE"
	if p.incremental {
		assignment = "INCREMENTAL"
	}
	if p.offsets {
		reported = "OWNED_AND_DORMANT"
	}
	return fmt.Sprintf("memberCount=%d/partitionCount=%d/subtopologyCount=%d/standbyReplicas=%d/membersPerProcess=%d/assignmentType=%s/reportedOffsets=%s",
		p.members, p.partitions, p.subtopologies, p.standbys, p.perProcess, assignment, reported)
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
		g.Members = append(g.Members, Member{ID: fmt.Sprintf("member-%d", i), ProcessID: fmt.Sprintf("process-%d", i/p.perProcess)})
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
		g.Members = append(g.Members, Member{ID: "newMember", ProcessID: "process-newMember"})
	}
	return g
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

func benchmarkGrid() []benchmarkPoint {
	out := make([]benchmarkPoint, 0, 128+2)
	for _, members := range []int{100, 1000} {
		for _, partitions := range []int{10, 100} {
			for _, subtopologies := range []int{10, 100} {
				for _, standbys := range []int{0, 1} {
					for _, perProcess := range []int{1, 50} {
						for _, incremental := range []bool{false, true} {
							for _, offsets := range []bool{false, true} {
								out = append(out, benchmarkPoint{members, partitions, subtopologies, standbys, perProcess, incremental, offsets})
							}
						}
					}
				}
			}
		}
	}
	// Beyond Kafka's grid.
	for _, incremental := range []bool{false, true} {
		out = append(out, benchmarkPoint{10_000, 100, 100, 1, 1, incremental, true})
		out = append(out, benchmarkPoint{10_000, 1000, 100, 1, 1, incremental, false})
	}
	return out
}

func BenchmarkStickyAssignor(b *testing.B) { benchmarkAssignor(b, NewSticky()) }

func BenchmarkHighlyAvailableAssignor(b *testing.B) { benchmarkAssignor(b, NewHighlyAvailable()) }

func benchmarkAssignor(b *testing.B, a Assignor) {
	for _, p := range benchmarkGrid() {
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
	g := benchmarkPoint{1000, 100, 100, 1, 1, true, true}.group(b, a)
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
