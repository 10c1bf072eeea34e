package assignor

import "cmp"

// run is one computation of an assignment: what has been given to whom so far.
type run struct {
	*index
	prior *priors

	owner    []int32 // by task: the member that runs it, or nobody
	standbys []int32 // by task, slots of them: the members that follow it
	placed   []int32 // by task: how many of its slots are taken
	slots    int32

	given     int     // how many times somebody got a task
	dealer    *dealer // of active tasks, if there was one
	count     []int32 // by member: tasks given, in any role
	load      []int64 // by process: tasks given, in any role
	stateless []int64 // by process: tasks given in the stateless pass

	// idle orders the fresh members of each process by count, then id. The heaps
	// share one position array. They are kept in order as long as somebody asks.
	idle    []int32
	idlePos []int32
	idleEnd []int32 // by process: where its part of idle ends
	ordered bool    // idle is in order and has to be kept so

	// promised are by member tasks that it owns and is likely to keep, but has
	// not been given yet. Nil if that does not matter.
	promised []int32

	// racks is set while standbys are placed by client tags.
	racks *racks

	// statefulQuota counts stateful active tasks, activeQuota all active tasks
	// and totalQuota standbys as well.
	statefulQuota, activeQuota, totalQuota quota

	// even takes the place of totalQuota in [HighlyAvailable].
	even evenShare

	fixed []bool // by member: keeps all it owns in the pass at hand
	own   []int64
}

func newRun(x *index, prior *priors) *run {
	r := &run{index: x, prior: prior, slots: int32(x.placeable())}
	tasks, members, processes := int(x.tasks), len(x.members), len(x.processIDs)
	slots := int(r.slots) * tasks
	placed := min(slots, tasks)
	numbers := make([]int32, tasks+slots+placed+members)
	r.owner, numbers = numbers[:tasks:tasks], numbers[tasks:]
	r.standbys, numbers = numbers[:slots:slots], numbers[slots:]
	r.placed, numbers = numbers[:placed:placed], numbers[placed:]
	r.count = numbers
	sums := make([]int64, 2*processes+members)
	r.load, sums = sums[:processes:processes], sums[processes:]
	r.stateless, r.own = sums[:processes:processes], sums[processes:]
	r.fixed = make([]bool, members)
	for t := range r.owner {
		r.owner[t] = nobody
	}
	return r
}

// orderIdle puts the members of each process in order, from when on they are kept
// so.
func (r *run) orderIdle() {
	r.ordered = true
	n, processes := len(r.members), len(r.processIDs)
	if r.idle == nil {
		numbers := make([]int32, 2*n+processes)
		r.idle, r.idlePos, r.idleEnd = numbers[:n:n], numbers[n:2*n:2*n], numbers[2*n:]
	}
	for p := range r.processIDs {
		start := r.processStart[p]
		end := start
		for _, m := range r.membersOf(int32(p)) {
			r.idlePos[m] = -1
			if r.fresh[m] {
				r.idle[end] = m
				r.idlePos[m] = end - start
				end++
			}
		}
		r.idleEnd[p] = end
		if end-start > 1 {
			h := indexedHeap{items: r.idle[start:end], pos: r.idlePos, less: r.fewerTasks}
			h.init()
		}
	}
}

// forgetIdle is for before many tasks are given without asking who is idlest.
func (r *run) forgetIdle() { r.ordered = false }

// idlest returns the fresh member of the process with the lowest count, or
// nobody.
func (r *run) idlest(p int32) int32 {
	if !r.ordered {
		r.orderIdle()
	}
	if r.idleEnd[p] == r.processStart[p] {
		return nobody
	}
	return r.idle[r.processStart[p]]
}

func (r *run) fewerTasks(a, b int32) bool {
	if r.count[a] != r.count[b] {
		return r.count[a] < r.count[b]
	}
	if r.promised != nil && r.promised[a] != r.promised[b] {
		return r.promised[a] < r.promised[b]
	}
	return a < b
}

// compareLoads compares tasks per capacity without rounding.
func (r *run) compareLoads(of []int64, p, q int32) int {
	return cmp.Compare(of[p]*r.capacity(q), of[q]*r.capacity(p))
}

// holds is whether some member of the process has the task in this run.
func (r *run) holds(p, task int32) bool {
	if o := r.owner[task]; o != nobody && r.process[o] == p {
		return true
	}
	for _, m := range r.standbysOf(task) {
		if r.process[m] == p {
			return true
		}
	}
	return false
}

func (r *run) standbysOf(task int32) []int32 {
	if r.slots == 0 {
		return nil
	}
	first := int(task) * int(r.slots)
	return r.standbys[first : first+int(r.placed[task])]
}

func (r *run) giveActive(m, task int32, f flavour) {
	r.owner[task] = m
	if f == statelessOnly {
		r.stateless[r.process[m]]++
	}
	r.grow(m)
}

func (r *run) giveStandby(m, task int32) {
	r.standbys[int(task)*int(r.slots)+int(r.placed[task])] = m
	r.placed[task]++
	r.grow(m)
	if !r.fixed[m] && !r.even.used {
		r.totalQuota.told(r.count[m])
	}
}

func (r *run) grow(m int32) {
	p := r.process[m]
	r.given++
	r.count[m]++
	r.load[p]++
	if r.even.used && !r.fixed[m] && r.count[m] == r.even.base+1 {
		r.even.extras--
	}
	if r.ordered && r.fresh[m] && r.idleEnd[p]-r.processStart[p] > 1 {
		h := indexedHeap{items: r.idle[r.processStart[p]:r.idleEnd[p]], pos: r.idlePos, less: r.fewerTasks}
		h.grew(m)
	}
	if r.racks != nil {
		r.racks.grew(p)
	}
}

// promise makes stateful tasks go, among equals, where fewer stateless ones would
// have to make way for them.
func (r *run) promise() {
	if r.stateful == 0 || r.stateful == r.tasks {
		return
	}
	r.promised = make([]int32, len(r.members))
	for i := range r.subs {
		s := &r.subs[i]
		if s.stateful {
			continue
		}
		for t := s.base; t < s.base+s.tasks; t++ {
			if o := r.prior.owner[t]; o != nobody {
				r.promised[o]++
				r.stateless[r.process[o]]++
			}
		}
	}
	r.forgetIdle()
}

func (r *run) forgetPromise() {
	if r.promised != nil {
		r.promised = nil
		clear(r.stateless)
		r.forgetIdle()
	}
}

// shrink takes a task from a fresh member.
func (r *run) shrink(m int32) {
	p := r.process[m]
	if r.even.used && r.count[m] == r.even.base+1 {
		r.even.extras++
	}
	r.count[m]--
	r.load[p]--
	if r.ordered && r.idleEnd[p]-r.processStart[p] > 1 {
		h := indexedHeap{items: r.idle[r.processStart[p]:r.idleEnd[p]], pos: r.idlePos, less: r.fewerTasks}
		h.shrank(m)
	}
}

// evenShare says that members are to have base tasks, and some of them one more.
type evenShare struct {
	used   bool
	base   int32
	extras int // that nobody has yet
}

// over is whether a member with that many tasks has more than anybody should.
func (e *evenShare) over(count int32) bool { return count > e.base+1 || count > e.base && e.extras < 0 }

// lighter replaces the choice only by a member that is less loaded in both
// respects, and keeps the better ranked one otherwise.
func (r *run) lighter(m, choice int32) bool {
	return r.count[m] < r.count[choice] && r.compareLoads(r.load, r.process[m], r.process[choice]) < 0
}
