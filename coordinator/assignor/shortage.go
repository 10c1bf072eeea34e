package assignor

// Shortage is what an assignment leaves open without breaking a rule.
type Shortage struct {
	// Unassigned is the number of tasks without an active owner: there are only
	// stale members, and none of them had the task.
	Unassigned int
	// Tasks is the number of stateful tasks with fewer standbys than configured.
	Tasks int
	// Standbys is how many standbys they lack together.
	Standbys int
}

// Shortages counts what could not be placed, for one log line per run and for
// a gauge of tasks that no member may take. It expects an assignment that
// [Verify] accepts.
func Shortages(g *Group, a Assignment) Shortage {
	var total, active, stateful int
	replicas := max(0, g.StandbyReplicas)
	missing := map[string][]int32{} // by stateful subtopology and partition: standbys to come
	for _, s := range g.Subtopologies {
		total += int(s.Tasks)
		if s.Stateful && replicas > 0 {
			stateful += int(s.Tasks)
			missing[s.ID] = make([]int32, s.Tasks)
		}
	}
	standbys := 0
	for _, m := range a {
		active += len(m.Active)
		standbys += len(m.Standby)
		for _, t := range m.Standby {
			if found := missing[t.Subtopology]; t.Partition >= 0 && int(t.Partition) < len(found) {
				found[t.Partition]++
			}
		}
	}
	out := Shortage{Unassigned: max(0, total-active), Standbys: max(0, stateful*replicas-standbys)}
	for _, found := range missing {
		for _, n := range found {
			if int(n) < replicas {
				out.Tasks++
			}
		}
	}
	return out
}
