package assignor

import (
	"cmp"
	"slices"
)

// What it costs to place an active task somewhere. A task that is running does
// not move for the sake of another. A cold start is worse than a move without a
// copy, where the task goes on at its owner until the new one has caught up.
const (
	costOlder     = int64(1) << 8  // a copy, but not the newest
	costMoveCold  = int64(1) << 16 // away from the owner, and where no copy is
	costStartCold = int64(1) << 24 // nobody runs it, and it goes where no copy is
	costLeave     = int64(1) << 32 // another process than the owner's
)

// activeExchange are the rules for active tasks whose place is not settled: their
// owner has to give up something, or they have none and there are copies. The
// nodes are the processes, the owners that cannot keep all of their tasks, and
// one that stands for all who have an extra that others could have.
type activeExchange struct {
	*placement
	at     [][]int32 // tasks by node
	shares []int32   // of the shared node
}

func (p *placement) exchange() {
	if p.prior.copies.start == nil || len(p.processIDs) < 2 {
		return
	}
	var unhappy []int32
	for _, t := range p.order {
		if p.unsettled(t) && p.cost(t) > costLeave || p.prior.owner[t] == nobody && len(p.prior.copies.of(t)) > 0 && p.cost(t) > 0 {
			unhappy = append(unhappy, t)
		}
	}
	if len(unhappy) == 0 {
		return
	}
	slices.SortStableFunc(unhappy, func(a, b int32) int {
		return cmp.Compare(p.cost(b)%costLeave, p.cost(a)%costLeave) // cold ones first
	})
	a := &activeExchange{placement: p}
	var units []int32
	for _, t := range p.order {
		if p.at[t] != open && p.unsettled(t) {
			units = append(units, t)
		}
	}
	a.at = listUnits(len(p.processIDs)+len(p.overfull)+1, units, a.node)
	x := newExchange(a, len(a.at), exchangeBudget(len(p.order)+len(p.prior.copies.claims)))
	for _, t := range unhappy {
		x.improve(t)
	}
}

func exchangeBudget(size int) int { return 1<<13 + size }

// unsettled is whether the place of the task may change.
func (p *placement) unsettled(t int32) bool {
	if p.prior.owner[t] != nobody {
		return p.owner[t] == nobody
	}
	return len(p.prior.copies.of(t)) > 0
}

func (p *placement) cost(t int32) int64 { return p.costAt(t, p.at[t]) }

func (p *placement) costAt(t, at int32) int64 {
	owner := p.prior.owner[t]
	switch {
	case owner != nobody && at == stays:
		return 0
	case owner != nobody && at == open:
		// Its copies are standbys already, so that the former owner is no gain as
		// one.
		return costLeave + costMoveCold + int64(p.copiesOutside(t, p.process[owner]))
	case owner != nobody:
		return costLeave
	case at == open:
		return costStartCold
	}
	copies := p.prior.copies.of(t)
	for i := range copies {
		if p.process[copies[i].member] == at {
			if copies[i].offset == copies[0].offset {
				return 0
			}
			return costOlder
		}
	}
	return costStartCold
}

func (a *activeExchange) node(t int32) int32 {
	if a.placement.at[t] == stays {
		return a.ownerNode(a.prior.owner[t])
	}
	return a.placement.at[t]
}

func (a *activeExchange) ownerNode(m int32) int32 {
	i, _ := slices.BinarySearch(a.overfull, m)
	return int32(len(a.processIDs) + i)
}

// member is whom an owner's node stands for, or nobody.
func (a *activeExchange) member(n int32) int32 {
	if i := int(n) - len(a.processIDs); i >= 0 {
		return a.overfull[i]
	}
	return nobody
}

func (a *activeExchange) offers(t int32, try func(int32, int64)) {
	owner, except, now := a.prior.owner[t], nobody, a.placement.at[t]
	if owner != nobody {
		except = a.process[owner]
		if now != stays {
			try(a.ownerNode(owner), 0)
		}
	}
	for _, c := range a.prior.copies.of(t) {
		if at := a.process[c.member]; at != except && at != now {
			try(at, a.costAt(t, at))
		}
	}
}

func (a *activeExchange) spare(t int32) (int32, int64, bool) { return open, a.costAt(t, open), true }

func (a *activeExchange) hasRoom(n int32) bool {
	if int(n) == len(a.at)-1 {
		return false
	}
	if m := a.member(n); m != nobody {
		return a.couldHaveExtra(m) && a.extraLeft(a.process[m])
	}
	return a.placement.hasRoom(n)
}

// couldHaveExtra is whether an owner has no extra yet.
func (a *activeExchange) couldHaveExtra(m int32) bool { return a.count[m]+a.keep[m] == a.base }

func (a *activeExchange) shared(n int32) int32 {
	if int(n) == len(a.at)-1 {
		return nobody
	}
	p := n
	if m := a.member(n); m != nobody {
		if p = a.process[m]; !a.couldHaveExtra(m) {
			return nobody
		}
	} else if a.missing[p] > 0 || a.free[p] == 0 {
		return nobody
	}
	if a.leftover > 0 || a.extra[p] != a.sure[p] || a.most[p] == a.sure[p] {
		return nobody
	}
	return int32(len(a.at) - 1)
}

func (a *activeExchange) units(n int32) []int32 {
	if int(n) != len(a.at)-1 {
		return a.at[n]
	}
	a.shares = a.shares[:0]
	for p := range a.processIDs {
		if a.extra[p] > a.sure[p] && a.extra[p] > a.byOwner[p] {
			a.shares = append(a.shares, a.at[p]...)
		}
	}
	for i, m := range a.overfull {
		if p := a.process[m]; a.extra[p] > a.sure[p] && a.count[m]+a.keep[m] > a.base && a.count[m] <= a.base {
			a.shares = append(a.shares, a.at[len(a.processIDs)+i]...)
		}
	}
	return a.shares
}

func (a *activeExchange) kin(t, u int32) bool { return t == u }

func (a *activeExchange) move(t, to int32) {
	if n := a.node(t); n != open {
		i := slices.Index(a.at[n], t)
		a.at[n] = slices.Delete(a.at[n], i, i+1)
	}
	switch {
	case to == open:
		a.placement.at[t] = open
		return
	case a.member(to) != nobody:
		a.placement.at[t] = stays
	default:
		a.placement.at[t] = to
	}
	a.at[to] = append(a.at[to], t)
}

func (a *activeExchange) took(n int32) {
	m := nobody
	if n != open {
		m = a.member(n)
	}
	switch {
	case n == open:
	case m == nobody:
		a.takeRoom(n)
	default:
		p := a.process[m]
		a.keep[m]++
		a.addExtra(p)
		a.byOwner[p]++
		if a.fresh[m] {
			a.free[p]--
		}
	}
}

func (a *activeExchange) released(n int32) {
	m := nobody
	if n != open {
		m = a.member(n)
	}
	switch {
	case n == open:
	case m == nobody:
		a.releaseRoom(n)
	default:
		p := a.process[m]
		a.keep[m]--
		a.byOwner[p]--
		if a.extra[p]--; a.extra[p] >= a.sure[p] {
			a.leftover++
		}
		if a.fresh[m] {
			a.free[p]++
		}
	}
}
