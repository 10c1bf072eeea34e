package assignor

import "github.com/streamsgroup/streamsgroup/topology"

// assignment turns arrays into what the coordinator takes. All sets of a role
// share one array; every set is cut to its capacity.
func (r *run) assignment() Assignment {
	active, standby := r.activeSets(), r.standbySets()
	out := make(Assignment, len(r.members))
	for m, i := range r.members {
		out[r.group.Members[i].ID] = MemberAssignment{Active: active.of(m), Standby: standby.of(m)}
	}
	return out
}

// memberSets are the tasks of all members in one role.
type memberSets struct {
	tasks TaskSet
	next  []int32 // by member: where its next task comes, in the end where its tasks end
}

// of returns the tasks of a member, nil if there are none.
func (s *memberSets) of(m int) TaskSet {
	if len(s.tasks) == 0 {
		return nil
	}
	from, to := int32(0), s.next[m]
	if m > 0 {
		from = s.next[m-1]
	}
	if from == to {
		return nil
	}
	return s.tasks[from:to:to]
}

// reserve makes room for what has been counted in next.
func (s *memberSets) reserve() {
	sum := int32(0)
	for m, n := range s.next {
		s.next[m] = sum
		sum += n
	}
	s.tasks = make(TaskSet, sum)
}

func (s *memberSets) add(m int32, t topology.TaskID) {
	s.tasks[s.next[m]] = t
	s.next[m]++
}

func (r *run) activeSets() memberSets {
	s := memberSets{next: make([]int32, len(r.members))}
	for _, m := range r.owner {
		if m != nobody {
			s.next[m]++
		}
	}
	s.reserve()
	for i := range r.subs {
		sub := &r.subs[i]
		for p, m := range r.owner[sub.base : sub.base+sub.tasks] {
			if m != nobody {
				s.add(m, topology.TaskID{Subtopology: sub.id, Partition: int32(p)})
			}
		}
	}
	return s
}

func (r *run) standbySets() memberSets {
	if r.slots == 0 || r.stateful == 0 {
		return memberSets{}
	}
	s := memberSets{next: make([]int32, len(r.members))}
	for i := range r.subs {
		sub := &r.subs[i]
		for t := sub.base; sub.stateful && t < sub.base+sub.tasks; t++ {
			for _, m := range r.standbysOf(t) {
				s.next[m]++
			}
		}
	}
	s.reserve()
	for i := range r.subs {
		sub := &r.subs[i]
		for p := int32(0); sub.stateful && p < sub.tasks; p++ {
			for _, m := range r.standbysOf(sub.base + p) {
				s.add(m, topology.TaskID{Subtopology: sub.id, Partition: p})
			}
		}
	}
	return s
}
