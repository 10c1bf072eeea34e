package assignor

// assignment turns arrays into what the coordinator takes. All partitions share
// one array; every slice is cut to its capacity.
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
	start := make([]int32, len(r.members)+1)
	for t := range r.tasks {
		for _, m := range holders(t) {
			start[m+1]++
		}
	}
	for m := range r.members {
		start[m+1] += start[m]
	}
	tasks := make([]int32, start[len(r.members)])
	next := make([]int32, len(r.members))
	copy(next, start)
	for t := range r.tasks {
		for _, m := range holders(t) {
			tasks[next[m]] = t
			next[m]++
		}
	}
	sets := make([]TaskSet, len(r.members))
	for m := range sets {
		sets[m] = r.toSet(tasks[start[m]:start[m+1]:start[m+1]])
	}
	return sets
}

// toSet splits ascending task numbers by subtopology, in place.
func (r *run) toSet(tasks []int32) TaskSet {
	if len(tasks) == 0 {
		return nil
	}
	subs := 0
	for i, end := 0, int32(0); i < len(tasks); i++ {
		if tasks[i] >= end {
			s := r.subOf(tasks[i])
			end = s.base + s.tasks
			subs++
		}
	}
	set := make(TaskSet, subs)
	for i := 0; i < len(tasks); {
		s := r.subOf(tasks[i])
		from := i
		for ; i < len(tasks) && tasks[i] < s.base+s.tasks; i++ {
			tasks[i] -= s.base
		}
		set[s.id] = tasks[from:i:i]
	}
	return set
}
