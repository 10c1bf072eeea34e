package coordinator

import (
	"fmt"
	"testing"

	"github.com/streamsgroup/streamsgroup/coordinator/assignor"
	"github.com/streamsgroup/streamsgroup/topology"
)

// BenchmarkAssignmentRefiner has the parameters of Kafka's benchmark of that
// name: the target comes from the sticky assignor, some stateful tasks still run
// in another process, and the budget is spent on some of them already.
func BenchmarkAssignmentRefiner(b *testing.B) {
	for _, members := range []int{100, 1000} {
		for _, perProcess := range []int{1, 50} {
			for _, subtopologies := range []int{10, 100} {
				for _, standbys := range []int{0, 1} {
					for _, warmups := range []int{2, 100} {
						for _, fraction := range []float64{0, 0.01, 0.5} {
							for _, lag := range []string{"ALL_CAUGHT_UP", "ALL_LAGGING", "NOT_REPORTED", "MIXED", "RESTORING_DESTINATIONS"} {
								name := fmt.Sprintf("memberCount=%d/membersPerProcess=%d/subtopologyCount=%d/partitionCount=100/standbyReplicas=%d/numWarmupReplicas=%d/migratingTaskFraction=%v/lagPicture=%s",
									members, perProcess, subtopologies, standbys, warmups, fraction, lag)
								b.Run(name, func(b *testing.B) {
									in := refinerBenchmark(b, members, perProcess, subtopologies, standbys, warmups, fraction, lag)
									b.ReportAllocs()
									for b.Loop() {
										if out := refine(in); !in.sameActive(out) {
											b.Fatal("lost a task")
										}
									}
								})
							}
						}
					}
				}
			}
		}
	}
}

func refinerBenchmark(tb testing.TB, members, perProcess, subtopologies, standbys, warmups int, fraction float64, lag string) refineInput {
	tb.Helper()
	stateful := map[string]bool{}
	g := &assignor.Group{StandbyReplicas: standbys}
	for i := range subtopologies {
		id := fmt.Sprintf("topic-%d_subtopology", i)
		stateful[id] = i%2 == 0
		g.Subtopologies = append(g.Subtopologies, assignor.Subtopology{ID: id, Tasks: 100, Stateful: i%2 == 0})
	}
	for i := range members {
		g.Members = append(g.Members, assignor.Member{ID: fmt.Sprintf("member-%05d", i), ProcessID: fmt.Sprintf("process-%05d", i/perProcess)})
	}
	a, err := assignor.NewSticky().Assign(g)
	if err != nil {
		tb.Fatal(err)
	}
	in := refineInput{warmups: warmups, lag: 10_000, stateful: func(id string) bool { return stateful[id] }}
	in.members = make([]refineMember, members)
	for i, m := range g.Members {
		target := roles{active: listFromSet(a[m.ID].Active), standby: listFromSet(a[m.ID].Standby)}
		in.members[i] = refineMember{id: m.ID, process: m.ProcessID, warms: warmsYes, target: target, held: target, offsets: map[topology.TaskID]int64{}, ends: map[topology.TaskID]int64{}}
	}
	moved, n := 0, 0
	for i := range in.members {
		owner := &in.members[i]
		for _, t := range owner.target.active {
			if !stateful[t.Subtopology] {
				continue
			}
			n++
			if float64(moved) >= fraction*float64(n) {
				continue
			}
			moved++
			one := taskList{t}
			holder := &in.members[(i+perProcess)%members]
			owner.held.active = owner.held.active.minus(one)
			holder.held.active = holder.held.active.plus(one)
			holder.held.standby = holder.held.standby.minus(one)
			if moved > warmups {
				continue
			}
			owner.held.warmup = owner.held.warmup.plus(one)
			caughtUp := lag == "ALL_CAUGHT_UP" || lag == "MIXED" && moved%2 == 0
			if lag != "NOT_REPORTED" {
				owner.offsets[t], owner.ends[t] = 1_000_000, 2_000_000
				if caughtUp {
					owner.ends[t] = 1_000_000
				}
			}
			if lag == "RESTORING_DESTINATIONS" && len(owner.held.active) > 0 {
				owner.offsets[owner.held.active[0]] = 1
			}
		}
	}
	return in
}
