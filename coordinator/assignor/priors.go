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

// byTask is a list of claims for every task.
type byTask struct {
	start  []int32
	claims []claim
}

func (l *byTask) of(task int32) []claim {
	if l.start == nil {
		return nil
	}
	return l.claims[l.start[task]:l.start[task+1]]
}

// claim says that a member may have the state of a task.
type claim struct {
	offset int64 // as reported, 0 if it is not known
	member int32
	// dormant copies lie on the member's disk and are in no role; the others
	// are being followed now.
	dormant bool
}

// taskClaim is a claim before it is filed under its task.
type taskClaim struct {
	claim
	task int32
}

// compareSticky ranks followed copies before dormant ones, then the higher
// offset first, as Kafka does.
func compareSticky(a, b claim) int {
	if a.dormant != b.dormant {
		if b.dormant {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(b.offset, a.offset), cmp.Compare(a.member, b.member))
}

// compareNewest ranks the higher offset first, and a followed copy before a
// dormant one only if they are equally far.
func compareNewest(a, b claim) int {
	if a.offset != b.offset {
		return cmp.Compare(b.offset, a.offset)
	}
	return compareSticky(a, b)
}

// priorRules are the choices in which the modes of an assignor differ.
type priorRules struct {
	warmupsCount       bool // a warm-up is as good as a standby
	unknownIsNoOffset  bool // math.MaxInt64 is no position
	priorTargetDecides bool // for a task in nobody's hands
	compare            func(a, b claim) int
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
// its changelog now, and those that merely report an offset, which is how a
// restarted process gets back what lies on its disk.
func (p *priors) findCopies(x *index, rules priorRules) {
	n := 0
	for m := range x.members {
		in := x.member(int32(m))
		n += len(in.Offsets) + len(in.Prior.Standby) + len(in.Prior.Warmup)
	}
	if n == 0 {
		return
	}
	claims := make([]taskClaim, 0, n)
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
			claims = append(claims, taskClaim{claim{member: int32(m)}, t})
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
			claims = append(claims, taskClaim{claim{offset: offset, member: int32(m), dormant: true}, t})
		}
	}
	p.copies = rank(claims, x.tasks, rules.compare)
}

// rank files claims under their tasks by a counting sort, and puts the best one
// of each task first.
func rank(claims []taskClaim, tasks int32, compare func(a, b claim) int) byTask {
	l := byTask{start: make([]int32, tasks+1), claims: make([]claim, len(claims))}
	for i := range claims {
		l.start[claims[i].task+1]++
	}
	for t := range tasks {
		l.start[t+1] += l.start[t]
	}
	for i := range claims {
		at := &l.start[claims[i].task]
		l.claims[*at] = claims[i].claim
		*at++
	}
	// Every start has moved on to the next one.
	copy(l.start[1:], l.start)
	l.start[0] = 0
	for t := range tasks {
		list := l.of(t)
		if len(list) == 2 && compare(list[1], list[0]) < 0 {
			list[0], list[1] = list[1], list[0]
		} else if len(list) > 2 {
			slices.SortFunc(list, compare)
		}
	}
	return l
}

func (p *priors) findStaleStandbys(x *index) {
	var claims []taskClaim
	for _, m := range x.stale {
		x.each(x.member(m).Prior.Standby, func(t int32, stateful bool) {
			if stateful {
				claims = append(claims, taskClaim{claim{member: m}, t})
			}
		})
	}
	if len(claims) > 0 {
		p.staleStandbys = rank(claims, x.tasks, compareSticky)
	}
}
