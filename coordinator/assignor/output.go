package assignor

import "github.com/streamsgroup/streamsgroup/topology"

// assignment turns arrays into what the coordinator takes. All sets of a role
// share one array; every set is cut to its capacity.
func (r *run) assignment() Assignment {
	active := r.collect(func(t int32) []int32 {
		if r.owner[t] == nobody {
			return nil
		}
		return r.owner[t : t+1]
	})
	standby := make([]TaskSet, len(r.members))
	if r.slots > 0 {
		standby = r.collect(r.standbysOf)
	}
	out := make(Assignment, len(r.members))
	for m := range r.members {
		out[r.member(int32(m)).ID] = MemberAssignment{Active: active[m], Standby: standby[m]}
	}
	return out
}

// collect returns the tasks of each member by a counting sort. Members without
// tasks have a nil set.
func (r *run) collect(holders func(task int32) []int32) []TaskSet {
	next := make([]int32, len(r.members)+1)
	for t := range r.tasks {
		for _, m := range holders(t) {
			next[m+1]++
		}
	}
	for m := range r.members {
		next[m+1] += next[m]
	}
	tasks := make(TaskSet, next[len(r.members)])
	for i := range r.subs {
		s := &r.subs[i]
		for p := range s.tasks {
			for _, m := range holders(s.base + p) {
				tasks[next[m]] = topology.TaskID{Subtopology: s.id, Partition: p}
				next[m]++
			}
		}
	}
	sets := make([]TaskSet, len(r.members))
	from := int32(0)
	for m := range sets {
		// Every entry has moved on to the end of its member's tasks.
		if to := next[m]; to > from {
			sets[m] = tasks[from:to:to]
			from = to
		}
	}
	return sets
}
