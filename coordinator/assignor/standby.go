package assignor

import "slices"

// assignStandbys places the standbys of the stateful tasks. Tasks are visited
// from the last one backwards: the active pass has trimmed the last ones, and
// their former owners come first here.
func (r *run) assignStandbys(byTags bool) {
	if len(r.stale) > 0 {
		r.shareStandbysWithStale()
	}
	if byTags && len(r.group.RackAwareTags) > 0 {
		r.racks = newRacks(r)
	}
	if r.racks != nil || r.prior.owned || r.prior.copies.start != nil || r.prior.staleStandbys.start != nil {
		for _, t := range slices.Backward(r.partitionMajor(make([]int32, 0, r.stateful), statefulOnly.has)) {
			if r.owner[t] == nobody {
				continue // nothing to stand by for until a fresh member joins
			}
			if r.racks != nil {
				r.racks.place(t)
			}
			r.placeByClaim(t)
		}
	}
	r.racks = nil
	r.dealStandbys()
}

// placeByClaim gives the missing standbys of a task to those who have its state.
func (r *run) placeByClaim(t int32) {
	for r.placed[t] < r.slots {
		m := r.prior.owner[t]
		if m == nobody || !r.fresh[m] || !r.belowTotal(m) || r.holds(r.process[m], t) {
			m = r.bestCopy(t, t)
			if m == nobody || !r.belowTotal(m) {
				m = r.keepsStandby(t)
			}
		}
		if m == nobody {
			return
		}
		r.giveStandby(m, t)
	}
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
// the quota says, the last task first. A task that every process holds already
// stays short, and so does one that nobody runs.
func (r *run) dealStandbys() {
	var d *dealer
	for i := len(r.subs) - 1; i >= 0; i-- {
		s := &r.subs[i]
		if !s.stateful {
			continue
		}
		for t := s.base + s.tasks - 1; t >= s.base; t-- {
			if r.placed[t] == r.slots || r.owner[t] == nobody {
				continue
			}
			if d == nil {
				d = r.newDealer(false)
			}
			r.dealStandbysOf(t, d)
		}
	}
}

func (r *run) dealStandbysOf(t int32, d *dealer) {
	skipped := false
	for r.placed[t] < r.slots {
		p := d.next()
		if p == nobody {
			break
		}
		if r.holds(p, t) {
			d.skip()
			skipped = true
			continue
		}
		r.giveStandby(d.take(), t)
		d.gave()
	}
	if skipped {
		d.restore()
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
