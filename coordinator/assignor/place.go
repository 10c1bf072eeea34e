package assignor

import (
	"cmp"
	"slices"
)

const (
	// stays is the place of a task that stays with its owner's process.
	stays = int32(-2)
	// open is the place of a task that is dealt at the end.
	open = int32(-1)
)

// placement gives out the active tasks of one flavour, on top of what the
// members have from the flavour before.
//
// With T tasks on M members each member gets floor(T/M) tasks or one more, an
// extra. Stateful extras are shared among the processes by capacity: a process
// is entitled to its share rounded down (sure) and may have it rounded up (most)
// as long as any are left over. So neither a member nor a process is ever more
// than one task off its fair share.
type placement struct {
	*run
	order []int32 // the tasks of the flavour, partition-major

	base      int32 // tasks that every member gets
	leftover  int   // extras that no process is entitled to
	contested bool  // not everybody could keep an extra that it owns
	missing   []int32
	extra     []int32 // by process: members that have an extra
	byOwner   []int32 // by process: those of them that have it by what they own
	sure      []int32
	most      []int32
	capacity  []int32 // by process: members that are not fixed
	free      []int32 // by process: fresh members that could take an extra

	ownStart []int32 // by member, into own
	own      []int32 // tasks by owner, each in partition-major order
	keep     []int32 // by member: how many of its own it keeps itself
	overfull []int32 // members that own more than they may keep

	at []int32 // by task: the process that it goes to, or stays, or open
}

func (r *run) place(f flavour) {
	p := newPlacement(r, f)
	if len(p.order) == 0 {
		return
	}
	p.keepOwn()
	if f == statefulOnly {
		p.placeByCopy()
	}
	p.shed()
	if f == statefulOnly {
		p.exchange()
	}
	p.give(f)
	p.deal(f)
}

func newPlacement(r *run, f flavour) *placement {
	n := len(r.processIDs)
	p := &placement{run: r, order: r.partitionMajor(nil, f.has)}
	by := make([]int32, 7*n)
	for _, s := range []*[]int32{&p.missing, &p.extra, &p.byOwner, &p.sure, &p.most, &p.capacity, &p.free} {
		*s, by = by[:n:n], by[n:]
	}
	p.at = make([]int32, r.tasks)
	for _, t := range p.order {
		p.at[t] = open
	}
	p.collectOwn()
	p.share(f)
	return p
}

// collectOwn lists the tasks of the flavour by owner.
func (p *placement) collectOwn() {
	n := len(p.members)
	p.ownStart, p.keep = make([]int32, n+1), make([]int32, n)
	for _, t := range p.order {
		if o := p.prior.owner[t]; o != nobody {
			p.ownStart[o+1]++
		}
	}
	for m := range n {
		p.ownStart[m+1] += p.ownStart[m]
	}
	p.own = make([]int32, p.ownStart[n])
	for _, t := range p.order {
		if o := p.prior.owner[t]; o != nobody {
			p.own[p.ownStart[o]+p.keep[o]] = t
			p.keep[o]++
		}
	}
}

func (p *placement) ownOf(m int32) []int32 { return p.own[p.ownStart[m]:p.ownStart[m+1]] }

// share computes what members and processes are to have.
func (p *placement) share(f flavour) {
	q := newQuota(int64(len(p.order)), len(p.members))
	for m := range p.members {
		q.tasks += int64(p.count[m])
	}
	if len(p.stale) > 0 {
		q.limit = q.average()
		for _, m := range p.stale {
			p.fixed[m], p.run.own[m] = false, int64(p.count[m])+int64(len(p.ownOf(m)))
		}
		q.waterFill(p.stale, p.run.own, p.fixed)
	}
	for m := range p.members {
		if !p.fixed[m] {
			p.capacity[p.process[m]]++
		}
	}
	if q.members == 0 {
		return
	}
	p.base = int32(q.tasks / q.members)
	extras := q.tasks % q.members
	p.leftover = int(extras)
	for i, c := range p.capacity {
		if f == statelessOnly {
			// Without state it is enough that members are even.
			p.most[i] = c
			continue
		}
		p.sure[i] = int32(extras * int64(c) / q.members)
		p.most[i] = p.sure[i]
		if extras*int64(c)%q.members > 0 {
			p.most[i]++
		}
		p.leftover -= int(p.sure[i])
	}
}

// keepOwn lets everybody keep what it owns up to its share.
func (p *placement) keepOwn() {
	wants := make([]bool, len(p.members))
	wanted := 0
	for i := range p.members {
		m := int32(i)
		own, process := p.ownOf(m), p.process[m]
		if p.fixed[m] {
			p.keepAll(m, own)
			continue
		}
		room := max(0, p.base-p.count[m])
		switch {
		case p.count[m] > p.base:
			p.addExtra(process)
			p.byOwner[process]++
		case p.fresh[m]:
			p.free[process]++
		}
		if int32(len(own)) <= room {
			if p.fresh[m] {
				p.missing[process] += room - int32(len(own))
			}
			p.keepAll(m, own)
			continue
		}
		p.keep[m] = room
		p.overfull = append(p.overfull, m)
		for _, t := range own {
			p.at[t] = stays
		}
		if p.count[m] <= p.base {
			wants[m] = true
			wanted++
		}
	}
	if wanted > 0 {
		p.keepExtras(wants)
	}
	// Who can keep everything is no longer of interest, unless that is at the
	// cost of another.
	p.overfull = slices.DeleteFunc(p.overfull, func(m int32) bool {
		own := p.ownOf(m)
		if int(p.keep[m]) < len(own) || p.contested && p.count[m] <= p.base {
			return false
		}
		p.keepAll(m, own)
		return true
	})
}

func (p *placement) keepAll(m int32, own []int32) {
	p.keep[m] = int32(len(own))
	for _, t := range own {
		p.at[t] = p.process[m]
		p.owner[t] = m
	}
}

// keepExtras gives extras to those who own them. If there are too few, a member
// comes last that can hand a task to somebody with a copy; else those come first
// whose extra task is first in the order.
func (p *placement) keepExtras(wants []bool) {
	queue := make([]int32, 0, len(p.overfull))
	for _, t := range p.order {
		o := p.prior.owner[t]
		if o != nobody && wants[o] && p.ownOf(o)[p.keep[o]] == t {
			queue = append(queue, o)
			wants[o] = false
		}
	}
	if len(queue) > p.leftover && p.prior.copies.start != nil {
		var last []int32
		queue = slices.DeleteFunc(queue, func(m int32) bool {
			if p.canHandOver(m) {
				last = append(last, m)
				return true
			}
			return false
		})
		queue = append(queue, last...)
	}
	for _, m := range queue {
		if process := p.process[m]; p.extraLeft(process) {
			p.addExtra(process)
			p.byOwner[process]++
			if p.fresh[m] {
				p.free[process]--
			}
			p.keep[m]++
		} else {
			p.contested = p.prior.copies.start != nil
		}
	}
}

// canHandOver is whether somebody in another process with room has a copy of a
// task of the member.
func (p *placement) canHandOver(m int32) bool {
	for _, t := range p.ownOf(m) {
		if p.copyWithRoom(t, p.process[m]) != nobody {
			return true
		}
	}
	return false
}

// copyWithRoom returns the process with the best copy of the task that has room,
// other than one.
func (p *placement) copyWithRoom(t, except int32) int32 {
	for _, c := range p.prior.copies.of(t) {
		if at := p.process[c.member]; at != except && p.hasRoom(at) {
			return at
		}
	}
	return nobody
}

func (p *placement) extraLeft(process int32) bool {
	return p.extra[process] < p.sure[process] || p.extra[process] < p.most[process] && p.leftover > 0
}

func (p *placement) addExtra(process int32) {
	if p.extra[process]++; p.extra[process] > p.sure[process] {
		p.leftover--
	}
}

// entitled is whether the process has room that is its own.
func (p *placement) entitled(process int32) bool {
	return p.missing[process] > 0 || p.free[process] > 0 && p.extra[process] < p.sure[process]
}

func (p *placement) hasRoom(process int32) bool {
	return p.missing[process] > 0 || p.free[process] > 0 && p.extraLeft(process)
}

func (p *placement) takeRoom(process int32) {
	if p.missing[process] > 0 {
		p.missing[process]--
		return
	}
	p.addExtra(process)
	p.free[process]--
}

func (p *placement) releaseRoom(process int32) {
	if p.extra[process] == p.byOwner[process] {
		p.missing[process]++
		return
	}
	if p.extra[process]--; p.extra[process] >= p.sure[process] {
		p.leftover++
	}
	p.free[process]++
}

// placed is how many tasks the process has so far.
func (p *placement) placed(process int32) int64 {
	return int64(p.capacity[process]*p.base - p.missing[process] + p.extra[process])
}

// lighterWithOneMore compares the loads that processes would have with another
// task.
func (p *placement) lighterWithOneMore(a, b int32) bool {
	return (p.placed(a)+1)*int64(p.capacity[b]) < (p.placed(b)+1)*int64(p.capacity[a])
}

// placeByCopy sends tasks without an owner to their newest copy, and where that
// is full to the next one.
func (p *placement) placeByCopy() {
	if p.prior.copies.start == nil {
		return
	}
	var full []int32
	for _, t := range p.order {
		if p.prior.owner[t] != nobody {
			continue
		}
		choice := nobody
		copies := p.prior.copies.of(t)
		for i := range copies {
			if copies[i].offset != copies[0].offset {
				break
			}
			if at := p.process[copies[i].member]; at != choice && p.hasRoom(at) && (choice == nobody || p.lighterWithOneMore(at, choice)) {
				choice = at
			}
		}
		switch {
		case choice != nobody:
			p.at[t] = choice
			p.takeRoom(choice)
		case len(copies) > 0:
			full = append(full, t)
		}
	}
	for _, t := range full {
		if at := p.copyWithRoom(t, nobody); at != nobody {
			p.at[t] = at
			p.takeRoom(at)
		}
	}
}

// shed decides which tasks leave the process of a member that owns too many. As
// many as siblings are entitled to stay on the disk; those with a copy elsewhere
// leave first.
func (p *placement) shed() {
	for _, m := range p.overfull {
		process, own := p.process[m], p.ownOf(m)
		leave := len(own) - int(p.keep[m])
		for ; leave > 0 && p.entitled(process); leave-- {
			p.takeRoom(process)
		}
		if leave == 0 {
			continue
		}
		for _, dormant := range []bool{false, true} {
			for _, t := range slices.Backward(own) {
				if leave == 0 {
					break
				}
				if p.at[t] != stays {
					continue
				}
				for _, c := range p.prior.copies.of(t) {
					if at := p.process[c.member]; c.dormant == dormant && at != process && p.hasRoom(at) {
						p.at[t] = at
						p.takeRoom(at)
						leave--
						break
					}
				}
			}
		}
		p.shedCold(m, leave)
	}
}

// shedCold picks tasks that leave without a copy where they go. The former owner
// is to become a standby: so rather those without another copy.
func (p *placement) shedCold(m int32, leave int) {
	if leave == 0 {
		return
	}
	rest := make([]int32, 0, len(p.ownOf(m)))
	for _, t := range slices.Backward(p.ownOf(m)) {
		if p.at[t] == stays {
			rest = append(rest, t)
		}
	}
	if p.slots > 0 && p.prior.copies.start != nil {
		slices.SortStableFunc(rest, func(a, b int32) int {
			return cmp.Compare(p.copiesOutside(a, p.process[m]), p.copiesOutside(b, p.process[m]))
		})
	}
	for _, t := range rest[:leave] {
		p.at[t] = open
	}
}

// copiesOutside is how many other processes have a copy, as far as it matters:
// no more than there are standbys.
func (p *placement) copiesOutside(t, process int32) int32 {
	n := int32(0)
	copies := p.prior.copies.of(t)
	for i := range copies {
		at := p.process[copies[i].member]
		if at == process || slices.ContainsFunc(copies[:i], func(c claim) bool { return p.process[c.member] == at }) {
			continue
		}
		if n++; n == p.slots {
			break
		}
	}
	return n
}
