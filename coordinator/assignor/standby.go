package assignor

import "slices"

// assignStandbys places the standbys of the stateful tasks. Tasks are visited
// from the last one backwards: the active pass has trimmed the last ones, and
// their former owners come first here.
func (r *run) assignStandbys(byTags bool) {
	if len(r.stale) > 0 {
		r.shareStandbysWithStale()
	}
	order := r.partitionMajor(make([]int32, 0, r.stateful), statefulOnly.has)
	slices.Reverse(order)
	if byTags && len(r.group.RackAwareTags) > 0 {
		r.racks = newRacks(r)
	}
	short := order[:0]
	for _, t := range order {
		if r.owner[t] == nobody {
			continue // nothing to stand by for until a fresh member joins
		}
		if r.racks != nil {
			r.racks.place(t)
		}
		if !r.placeByClaim(t) {
			short = append(short, t)
		}
	}
	r.racks = nil
	r.dealStandbys(short)
}

// placeByClaim gives the missing standbys of a task to those who have its
// state, and reports whether that was enough.
func (r *run) placeByClaim(t int32) bool {
	for r.placed[t] < r.slots {
		m := r.prior.owner[t]
		if m == nobody || !r.fresh[m] || !r.belowTotal(m) || r.holds(r.process[m], t) {
			m = r.bestCopy(t, t)
			if m == nobody || !r.belowTotal(m) {
				m = r.keepsStandby(t)
			}
		}
		if m == nobody {
			return false
		}
		r.giveStandby(m, t)
	}
	return true
}

func (r *run) belowTotal(m int32) bool {
	if r.even.used {
		return r.fixed[m] || r.count[m] < r.even.base || r.count[m] == r.even.base && r.even.extras > 0
	}
	return r.below(m, &r.totalQuota)
}

// keepsStandby returns a stale member that may keep its standby of the task.
func (r *run) keepsStandby(t int32) int32 {
	for _, c := range r.prior.staleStandbys.of(t) {
		m := c.member
		if r.belowTotal(m) && !r.holds(r.process[m], t) {
			return m
		}
	}
	return nobody
}

// dealStandbys gives what is missing to the least loaded processes, whatever
// the quota says. A task that every process holds already stays short.
func (r *run) dealStandbys(short []int32) {
	if len(short) == 0 {
		return
	}
	slices.Sort(short)
	processes := r.leastLoaded(false)
	var holders []int32
	for _, t := range slices.Backward(short) {
		holders = holders[:0]
		for r.placed[t] < r.slots && len(processes.items) > 0 {
			p := processes.items[0]
			if r.holds(p, t) {
				holders = append(holders, processes.pop())
				continue
			}
			r.giveStandby(r.idlest(p), t)
			processes.grew(p)
		}
		for _, p := range holders {
			processes.push(p)
		}
	}
}

// shareStandbysWithStale starts the quota of the standby pass for a group with
// stale members.
func (r *run) shareStandbysWithStale() {
	r.ownTotal()
	r.totalQuota = newQuota(int64(r.tasks)+int64(r.replicas())*int64(r.stateful), len(r.members))
	r.totalQuota.waterFill(r.stale, r.own, r.fixed)
}

// ownTotal counts what stale members would have with all of their standbys.
func (r *run) ownTotal() {
	for _, m := range r.stale {
		r.own[m] = int64(r.count[m])
		r.fixed[m] = false
		r.each(r.member(m).Prior.Standby, func(_ int32, stateful bool) {
			if stateful {
				r.own[m]++
			}
		})
	}
}
