package assignor

import "slices"

// flavour selects subtopologies by whether they have state.
type flavour int8

const (
	both flavour = iota
	statefulOnly
	statelessOnly
)

func (f flavour) has(s *indexedSub) bool {
	return f == both || s.stateful == (f == statefulOnly)
}

func (r *run) startQuotas() {
	r.statefulQuota = newQuota(int64(r.stateful), len(r.members))
	r.activeQuota = newQuota(int64(r.tasks), len(r.members))
	// Kafka counts the standbys that are wanted, also those for which there
	// are too few processes.
	r.totalQuota = newQuota(int64(r.tasks)+int64(r.replicas())*int64(r.stateful), len(r.members))
}

// assignActive hands out the active tasks of one flavour: to the owner, else to
// whoever has a copy, both as far as the quota goes, else to the least loaded
// process.
func (r *run) assignActive(f flavour, q *quota, byStateless bool) {
	if len(r.stale) > 0 {
		r.shareWithStale(f, q)
	}
	open := r.partitionMajor(make([]int32, 0, r.tasks), f.has)

	open = slices.DeleteFunc(open, func(t int32) bool {
		m := r.prior.owner[t]
		return m != nobody && r.giveIfBelow(m, t, f, q)
	})
	open = slices.DeleteFunc(open, func(t int32) bool {
		m := r.bestCopy(t, nobody)
		return m != nobody && r.giveIfBelow(m, t, f, q)
	})
	if len(open) == 0 {
		return
	}

	// Dealing by subtopology spreads the neighbouring partitions of one
	// subtopology over the members when a group starts.
	slices.Sort(open)
	processes := r.leastLoaded(byStateless)
	if len(processes.items) == 0 {
		return // only stale members: these tasks wait for a fresh one
	}
	for _, t := range open {
		p := processes.items[0]
		m := r.idlest(p)
		r.giveActive(m, t, f)
		r.tell(m, f, false)
		processes.grew(p)
	}
}

func (r *run) giveIfBelow(m, t int32, f flavour, q *quota) bool {
	if !r.below(m, q) {
		return false
	}
	r.giveActive(m, t, f)
	r.tell(m, f, true)
	return true
}

// below is whether the quota leaves room for a member.
func (r *run) below(m int32, q *quota) bool {
	return r.fixed[m] || int64(r.count[m]) < q.limit
}

// tell reports the count of a member to the quotas. What is dealt at the end
// of the stateful pass no longer matters to the quota of that pass.
func (r *run) tell(m int32, f flavour, byClaim bool) {
	if r.fixed[m] {
		return
	}
	if f == statefulOnly && byClaim {
		r.statefulQuota.told(r.count[m])
	}
	r.activeQuota.told(r.count[m])
	r.totalQuota.told(r.count[m])
}

// bestCopy chooses among the fresh members that may have the state of the task:
// the best ranked one unless another has both fewer tasks and a less loaded
// process. Members of processes that hold the task unless are left out where a
// task is given.
func (r *run) bestCopy(t, unlessHeld int32) int32 {
	choice := nobody
	for _, c := range r.prior.copies.of(t) {
		m := c.member
		if unlessHeld != nobody && r.holds(r.process[m], unlessHeld) {
			continue
		}
		if choice == nobody || r.lighter(m, choice) {
			choice = m
		}
	}
	return choice
}

// shareWithStale starts the quota of an active pass for a group with stale
// members.
func (r *run) shareWithStale(f flavour, q *quota) {
	total := int64(r.tasks)
	if f == statefulOnly {
		total = int64(r.stateful)
	}
	for _, m := range r.stale {
		r.own[m] = int64(r.count[m])
		r.fixed[m] = false
		r.each(r.member(m).Prior.Active, func(t int32, stateful bool) {
			if r.prior.owner[t] == m && (f == both || stateful == (f == statefulOnly)) {
				r.own[m]++
			}
		})
	}
	*q = newQuota(total, len(r.members))
	q.waterFill(r.stale, r.own, r.fixed)
}
