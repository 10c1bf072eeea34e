package assignor

import "slices"

// placeStandbys places the standbys of the stateful tasks: existing ones stay
// before any new one is placed, then come the former owner and others who have
// the state on their disk, and the least loaded processes last. As far as that
// goes a member gets its even share of all tasks and no more.
func (r *run) placeStandbys() {
	r.shareTotal()
	tasks := r.partitionMajor(make([]int32, 0, r.stateful), statefulOnly.has)
	slices.Reverse(tasks)
	tasks = slices.DeleteFunc(tasks, func(t int32) bool { return r.owner[t] == nobody })
	all, racks := slices.Clone(tasks), (*racks)(nil)
	if len(r.group.RackAwareTags) > 0 {
		racks = r.placeByTags(tasks)
	}
	for _, pass := range []func(t int32){r.keepStandbys, r.standbyAtSibling, r.standbyAtFormerOwner, r.standbyAtDormant, r.standbyAtStale} {
		left := tasks[:0]
		for _, t := range tasks {
			if r.placed[t] < r.slots {
				pass(t)
				if r.placed[t] < r.slots {
					left = append(left, t)
				}
			}
		}
		tasks = left
	}
	r.forgetIdle()
	r.dealStandbys()
	if len(r.group.RackAwareTags) == 0 {
		r.exchangeStandbys(r.misplaced(tasks)) // knows nothing of tags
	}
	for _, t := range all {
		r.restoreStandbys(t, racks)
	}
}

// misplaced are the standbys that could be better off, of those just dealt.
func (r *run) misplaced(dealt []int32) []int32 {
	var out []int32
	for _, t := range dealt {
		known := r.prior.owner[t] != nobody || len(r.prior.copies.of(t)) > 0
		for k := range r.placed[t] {
			u := t*r.slots + k
			if m := r.standbys[u]; r.fresh[m] && (known || r.even.over(r.count[m])) {
				out = append(out, u)
			}
		}
	}
	slices.Sort(out)
	return out
}

// shareTotal starts the quota for all roles. Only standbys that there are
// processes for count.
func (r *run) shareTotal() {
	q := newQuota(int64(r.tasks)+int64(r.slots)*int64(r.stateful), len(r.members))
	if len(r.stale) > 0 {
		r.ownTotal()
		q.waterFill(r.stale, r.own, r.fixed)
	}
	r.even.used = true
	if q.members == 0 {
		return
	}
	r.even.base, r.even.extras = int32(q.tasks/q.members), int(q.tasks%q.members)
	for m, n := range r.count {
		if !r.fixed[m] && n > r.even.base {
			r.even.extras--
		}
	}
}

func (r *run) keepStandbys(t int32) {
	for _, c := range r.prior.copies.of(t) {
		if !c.dormant && r.placed[t] < r.slots && r.belowTotal(c.member) && !r.holds(r.process[c.member], t) {
			r.giveStandby(c.member, t)
		}
	}
}

// standbyAtSibling moves a standby whose holder has enough to another member of
// the process, where the files are.
func (r *run) standbyAtSibling(t int32) {
	for _, c := range r.prior.copies.of(t) {
		if !c.dormant {
			r.standbyAt(c.member, t)
		}
	}
}

func (r *run) standbyAtFormerOwner(t int32) {
	if o := r.prior.owner[t]; o != nobody {
		r.standbyAt(o, t)
	}
}

func (r *run) standbyAtDormant(t int32) {
	for _, c := range r.prior.copies.of(t) {
		if c.dormant {
			r.standbyAt(c.member, t)
		}
	}
}

// standbyAt places a standby in the process of a member: there if it is not
// busier than its siblings, else at the idlest of them.
func (r *run) standbyAt(m, t int32) {
	p := r.process[m]
	idlest := r.idlest(p)
	if r.placed[t] == r.slots || idlest == nobody || r.holds(p, t) {
		return
	}
	if !r.fresh[m] || r.count[m] > r.count[idlest] {
		m = idlest
	}
	if r.belowTotal(m) {
		r.giveStandby(m, t)
	}
}

func (r *run) standbyAtStale(t int32) {
	for r.placed[t] < r.slots {
		m := r.keepsStandby(t)
		if m == nobody {
			return
		}
		r.giveStandby(m, t)
	}
}

// placeByTags spreads standbys by client tags. Diversity ranks above balance
// here.
func (r *run) placeByTags(tasks []int32) *racks {
	r.racks = newRacks(r)
	r.racks.roomEverywhere = true
	for _, keep := range []bool{true, false} {
		r.racks.onlyKept = keep
		for _, t := range tasks {
			r.racks.place(t)
		}
	}
	defer func() { r.racks = nil }()
	return r.racks
}

// restoreStandbys gives standbys back to those who have had them, where nobody
// gains by the move: where processes are too few to be even, the member with too
// much would be another one every time.
func (r *run) restoreStandbys(t int32, racks *racks) {
	for _, c := range r.prior.copies.of(t) {
		p := r.process[c.member]
		if c.dormant || r.holds(p, t) {
			continue
		}
		for k, m := range r.standbysOf(t) {
			q := r.process[m]
			if r.follows(q, t) || !r.fresh[m] || racks != nil && racks.group[p] != racks.group[q] {
				continue
			}
			if r.count[c.member] < r.count[m] && (r.load[p]+1)*r.capacity(q) <= r.load[q]*r.capacity(p) {
				r.shrink(m)
				r.standbys[int(t)*int(r.slots)+k] = c.member
				r.grow(c.member)
				break
			}
		}
	}
}

// follows is whether a member of the process has had the task as a copy.
func (r *run) follows(process, t int32) bool {
	return slices.ContainsFunc(r.prior.copies.of(t), func(c claim) bool { return !c.dormant && r.process[c.member] == process })
}
