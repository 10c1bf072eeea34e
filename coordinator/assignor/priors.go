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
	// owned is whether any task may have an owner.
	owned bool
	// copies are by task the fresh members that may have its state, best first.
	copies byTask
	// copiesOfOpen, if set, is to be called to find those of tasks that nobody has
	// been given yet.
	copiesOfOpen func(given []int32)
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

// before is whether a claim comes before another.
func (c *claim) before(d *claim, compare func(a, b claim) int) bool {
	if c.dormant == d.dormant && c.offset != d.offset {
		return c.offset > d.offset // whatever the rules
	}
	return compare(*c, *d) < 0
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
	onlyCopiesOfOpen   bool // copies matter only for tasks that no owner has kept
	compare            func(a, b claim) int
}

func newPriors(x *index, rules priorRules) *priors {
	p := &priors{owner: make([]int32, x.tasks)}
	p.findOwners(x, rules)
	p.findStaleStandbys(x)
	if rules.onlyCopiesOfOpen {
		p.copiesOfOpen = func(given []int32) { p.findCopies(x, rules, given) }
	} else {
		p.findCopies(x, rules, nil)
	}
	return p
}

func (p *priors) findOwners(x *index, rules priorRules) {
	for t := range p.owner {
		p.owner[t] = nobody
	}
	if x.held.active+x.held.targets == 0 {
		return
	}
	var tasks []int32
	owned := int32(0)
	for m := range x.members {
		tasks = x.appendNumbers(tasks[:0], x.member(int32(m)).Prior.Active)
		for _, t := range tasks {
			if p.owner[t] == nobody {
				p.owner[t] = int32(m)
				owned++
			}
		}
	}
	p.owned = owned > 0
	if !rules.priorTargetDecides || x.held.targets == 0 || owned == x.tasks {
		return
	}
	// A task that one member has given up and the next has not received yet is
	// in nobody's hands. Without this claim a run at that moment could send it
	// to a third member.
	p.owned = true
	inNobodysHands := make([]bool, x.tasks)
	for t, o := range p.owner {
		inNobodysHands[t] = o == nobody
	}
	for m := range x.members {
		if !x.fresh[m] {
			continue
		}
		tasks = x.appendNumbers(tasks[:0], x.member(int32(m)).PriorTarget)
		for _, t := range tasks {
			if inNobodysHands[t] && p.owner[t] == nobody {
				p.owner[t] = int32(m)
			}
		}
	}
}

// findCopies ranks the members that may have a task's state: those that follow
// its changelog now, and those that merely report an offset, which is how a
// restarted process gets back what lies on its disk. Tasks that are given to
// somebody already are left out.
func (p *priors) findCopies(x *index, rules priorRules, given []int32) {
	n := x.held.copies
	if n == 0 {
		return
	}
	if given != nil && p.owned {
		n = 0 // most of it is of no interest
	}
	c := claims{tasks: make([]int32, 0, n), claims: make([]claim, 0, n)}
	// followed remembers by task the claim of the member at hand. Standbys alone
	// are distinct.
	var followed []int32
	if x.held.twice {
		followed = make([]int32, x.tasks)
	}
	for m := range x.members {
		if !x.fresh[m] {
			continue
		}
		in := x.member(int32(m))
		first := len(c.tasks)
		c.tasks = x.appendNumbers(c.tasks, in.Prior.Standby)
		if rules.warmupsCount && len(in.Prior.Warmup) > 0 {
			c.tasks = x.appendNumbers(c.tasks, in.Prior.Warmup)
		}
		if given != nil {
			c.tasks = withoutGiven(c.tasks, first, given)
		}
		if followed != nil {
			c.tasks = distinct(c.tasks, first, followed)
		}
		for range c.tasks[first:] {
			c.claims = append(c.claims, claim{member: int32(m)})
		}
		if len(in.Offsets) > 0 {
			c.addOffsets(x, int32(m), first, followed, rules, given)
		}
	}
	p.copies = c.rank(x.tasks, rules.compare)
}

// distinct drops tasks that are there already since the first one, and files the
// others.
func distinct(tasks []int32, first int, filed []int32) []int32 {
	kept := tasks[:first]
	for _, t := range tasks[first:] {
		if at := int(filed[t]); at >= first && at < len(kept) && kept[at] == t {
			continue
		}
		filed[t] = int32(len(kept))
		kept = append(kept, t)
	}
	return kept
}

// withoutGiven drops tasks since the first one that are given to somebody.
func withoutGiven(tasks []int32, first int, given []int32) []int32 {
	kept := tasks[:first]
	for _, t := range tasks[first:] {
		if given[t] == nobody {
			kept = append(kept, t)
		}
	}
	return kept
}

func (c *claims) addOffsets(x *index, m int32, first int, followed []int32, rules priorRules, given []int32) {
	tasks, claims := c.tasks, c.claims
	following := len(tasks)
	for id, offset := range x.member(m).Offsets {
		t, ok := x.find(id)
		if !ok || given != nil && given[t] != nobody {
			continue
		}
		if offset == math.MaxInt64 && rules.unknownIsNoOffset {
			offset = 0
		}
		if following > first {
			if at := int(followed[t]); at >= first && at < following && tasks[at] == t {
				claims[at].offset = offset
				continue
			}
		}
		tasks, claims = append(tasks, t), append(claims, claim{offset: offset, member: m, dormant: true})
	}
	c.tasks, c.claims = tasks, claims
}

// claims are claims before they are filed under their tasks.
type claims struct {
	tasks  []int32 // by claim
	claims []claim
}

func (c *claims) add(t int32, what claim) {
	c.tasks = append(c.tasks, t)
	c.claims = append(c.claims, what)
}

// rank files claims under their tasks by a counting sort, and puts the best one
// of each task first.
func (c *claims) rank(tasks int32, compare func(a, b claim) int) byTask {
	l := byTask{start: make([]int32, tasks+1), claims: make([]claim, len(c.claims))}
	for _, t := range c.tasks {
		l.start[t+1]++
	}
	several := false
	for t := range tasks {
		several = several || l.start[t+1] > 1
		l.start[t+1] += l.start[t]
	}
	for i, t := range c.tasks {
		at := &l.start[t]
		l.claims[*at] = c.claims[i]
		*at++
	}
	// Every start has moved on to the next one.
	copy(l.start[1:], l.start)
	l.start[0] = 0
	if !several {
		return l
	}
	for t := range tasks {
		const short = 12
		list := l.of(t)
		if len(list) > short {
			slices.SortFunc(list, compare)
			continue
		}
		for i := 1; i < len(list); i++ {
			for k := i; k > 0 && list[k].before(&list[k-1], compare); k-- {
				list[k], list[k-1] = list[k-1], list[k]
			}
		}
	}
	return l
}

func (p *priors) findStaleStandbys(x *index) {
	var c claims
	for _, m := range x.stale {
		x.each(x.member(m).Prior.Standby, func(t int32, stateful bool) {
			if stateful {
				c.add(t, claim{member: m})
			}
		})
	}
	if len(c.tasks) > 0 {
		p.staleStandbys = c.rank(x.tasks, compareSticky)
	}
}
