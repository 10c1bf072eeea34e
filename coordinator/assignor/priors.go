package assignor

import (
	"cmp"
	"math"
	"slices"
)

// priors says who has what already.
type priors struct {
	// owner is by task the member with the first claim on its active role, or
	// nobody. If several claim it, it is the one with the smallest id.
	owner []int32
	// copies are by task the fresh members that may have its state, best first.
	copies byTask
	// staleStandbys are by task the stale members that hold it as a standby,
	// ascending.
	staleStandbys byTask
}

// byTask is a list of members for every task.
type byTask struct {
	start   []int32
	members []int32
}

func (l *byTask) of(task int32) []int32 {
	if l.start == nil {
		return nil
	}
	return l.members[l.start[task]:l.start[task+1]]
}

// claim says that a member may have the state of a task.
type claim struct {
	offset int64
	task   int32
	member int32
	// dormant copies lie on the member's disk and are in no role; they rank
	// behind those that are being followed now.
	dormant bool
}

// priorRules are the choices in which the modes of an assignor differ.
type priorRules struct {
	warmupsCount       bool // a warm-up is as good as a standby
	unknownIsNoOffset  bool // math.MaxInt64 is no position
	priorTargetDecides bool // for a task in nobody's hands
}

func newPriors(x *index, rules priorRules) *priors {
	p := &priors{owner: make([]int32, x.tasks)}
	p.findOwners(x, rules)
	p.findCopies(x, rules)
	p.findStaleStandbys(x)
	return p
}

func (p *priors) findOwners(x *index, rules priorRules) {
	for t := range p.owner {
		p.owner[t] = nobody
	}
	for m := range x.members {
		x.each(x.member(int32(m)).Prior.Active, func(t int32, _ bool) {
			if p.owner[t] == nobody {
				p.owner[t] = int32(m)
			}
		})
	}
	if !rules.priorTargetDecides {
		return
	}
	// A task that one member has given up and the next has not received yet is
	// in nobody's hands. Without this claim a run at that moment could send it
	// to a third member.
	inNobodysHands := make([]bool, x.tasks)
	for t, o := range p.owner {
		inNobodysHands[t] = o == nobody
	}
	for m := range x.members {
		if !x.fresh[m] {
			continue
		}
		x.each(x.member(int32(m)).PriorTarget, func(t int32, _ bool) {
			if inNobodysHands[t] && p.owner[t] == nobody {
				p.owner[t] = int32(m)
			}
		})
	}
}

// findCopies ranks the members that may have a task's state: those that follow
// its changelog now before those that merely report an offset, which is how a
// restarted process gets back what lies on its disk; then the higher offset;
// then the smaller id.
func (p *priors) findCopies(x *index, rules priorRules) {
	n := 0
	for m := range x.members {
		in := x.member(int32(m))
		n += len(in.Offsets) + size(in.Prior.Standby) + size(in.Prior.Warmup)
	}
	if n == 0 {
		return
	}
	claims := make([]claim, 0, n)
	// followed remembers by task the claim of the member at hand.
	followed := make([]int32, x.tasks)
	for m := range x.members {
		if !x.fresh[m] {
			continue
		}
		first := int32(len(claims))
		follow := func(t int32, _ bool) {
			if c := followed[t]; c >= first && int(c) < len(claims) && claims[c].task == t {
				return
			}
			followed[t] = int32(len(claims))
			claims = append(claims, claim{task: t, member: int32(m)})
		}
		in := x.member(int32(m))
		x.each(in.Prior.Standby, follow)
		if rules.warmupsCount {
			x.each(in.Prior.Warmup, follow)
		}
		following := int32(len(claims))
		for id, offset := range in.Offsets {
			t, ok := x.find(id)
			if !ok {
				continue
			}
			if offset == math.MaxInt64 && rules.unknownIsNoOffset {
				offset = 0
			}
			if c := followed[t]; c >= first && c < following && claims[c].task == t {
				claims[c].offset = offset
				continue
			}
			claims = append(claims, claim{offset: offset, task: t, member: int32(m), dormant: true})
		}
	}
	p.copies = rank(claims, x.tasks)
}

func rank(claims []claim, tasks int32) byTask {
	// A counting sort by task, of positions at first.
	l := byTask{start: make([]int32, tasks+1), members: make([]int32, len(claims))}
	for i := range claims {
		l.start[claims[i].task+1]++
	}
	for t := range tasks {
		l.start[t+1] += l.start[t]
	}
	for i := range claims {
		at := &l.start[claims[i].task]
		l.members[*at] = int32(i)
		*at++
	}
	// Every start has moved on to the next one.
	copy(l.start[1:], l.start)
	l.start[0] = 0
	for t := range tasks {
		if list := l.of(t); len(list) > 1 {
			slices.SortFunc(list, func(a, b int32) int { return claims[a].compare(&claims[b]) })
		}
	}
	for i, c := range l.members {
		l.members[i] = claims[c].member
	}
	return l
}

func (c *claim) compare(o *claim) int {
	if c.dormant != o.dormant {
		if o.dormant {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(o.offset, c.offset), cmp.Compare(c.member, o.member))
}

func (p *priors) findStaleStandbys(x *index) {
	var claims []claim
	for _, m := range x.stale {
		x.each(x.member(m).Prior.Standby, func(t int32, stateful bool) {
			if stateful {
				claims = append(claims, claim{task: t, member: m})
			}
		})
	}
	if len(claims) > 0 {
		p.staleStandbys = rank(claims, x.tasks)
	}
}

func size(s TaskSet) int {
	n := 0
	for _, partitions := range s {
		n += len(partitions)
	}
	return n
}
