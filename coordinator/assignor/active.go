package assignor

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
	if r.prior.owned {
		r.visit(f.has, func(t int32) {
			if m := r.prior.owner[t]; m != nobody {
				r.giveIfBelow(m, t, f, q)
			}
		})
	}
	if find := r.prior.copiesOfOpen; find != nil {
		r.prior.copiesOfOpen = nil
		find(r.owner)
	}
	if r.prior.copies.start != nil {
		r.visit(f.has, func(t int32) {
			if r.owner[t] != nobody {
				return
			}
			if m := r.bestCopy(t, nobody); m != nobody {
				r.giveIfBelow(m, t, f, q)
			}
		})
	}
	r.dealActive(f, byStateless)
}

// dealActive deals what is left by subtopology: so the neighbouring partitions of
// one subtopology are spread over the members when a group starts.
func (r *run) dealActive(f flavour, byStateless bool) {
	var d *dealer
	for i := range r.subs {
		s := &r.subs[i]
		if !f.has(s) {
			continue
		}
		for t := s.base; t < s.base+s.tasks; t++ {
			if r.owner[t] != nobody {
				continue
			}
			if d == nil {
				d = r.activeDealer(byStateless)
				if d.next() == nobody {
					return // only stale members: these tasks wait for a fresh one
				}
			}
			m := d.take()
			r.giveActive(m, t, f)
			r.tell(m, f, false)
			d.gave()
		}
	}
}

// activeDealer returns the dealer of the pass before if nobody has got a task in
// another way since, else a new one.
func (r *run) activeDealer(byStateless bool) *dealer {
	if r.dealer == nil || r.dealer.given != r.given {
		r.dealer = r.newDealer(byStateless)
	}
	return r.dealer
}

func (r *run) giveIfBelow(m, t int32, f flavour, q *quota) {
	if r.below(m, q) {
		r.giveActive(m, t, f)
		r.tell(m, f, true)
	}
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
