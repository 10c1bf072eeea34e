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

	count     []int32 // by member: tasks given, in any role
	load      []int64 // by process: tasks given, in any role
	stateless []int64 // by process: tasks given in the stateless pass

	// idle orders the fresh members of each process by count, then id. The
	// heaps share one position array.
	idle    []int32
	idlePos []int32
	idleEnd []int32 // by process: where its part of idle ends

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
	r := &run{
		index: x, prior: prior,
		owner: make([]int32, x.tasks),
		slots: int32(x.placeable()),
		count: make([]int32, len(x.members)),
		load:  make([]int64, len(x.processIDs)), stateless: make([]int64, len(x.processIDs)),
		fixed: make([]bool, len(x.members)), own: make([]int64, len(x.members)),
	}
	for t := range r.owner {
		r.owner[t] = nobody
	}
	if r.slots > 0 {
		r.standbys = make([]int32, int(x.tasks)*int(r.slots))
		r.placed = make([]int32, x.tasks)
	}
	r.idle = make([]int32, len(x.members))
	r.idlePos = make([]int32, len(x.members))
	r.idleEnd = make([]int32, len(x.processIDs))
	for p := range x.processIDs {
		end := x.processStart[p]
		for _, m := range x.membersOf(int32(p)) {
			r.idlePos[m] = -1
			if x.fresh[m] {
				r.idle[end] = m
				r.idlePos[m] = end - x.processStart[p]
				end++
			}
		}
		r.idleEnd[p] = end
	}
	return r
}

// idlest returns the fresh member of the process with the lowest count, or
// nobody.
func (r *run) idlest(p int32) int32 {
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
	r.count[m]++
	r.load[p]++
	if r.even.used && !r.fixed[m] && r.count[m] == r.even.base+1 {
		r.even.extras--
	}
	if r.fresh[m] && r.idleEnd[p]-r.processStart[p] > 1 {
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
	r.orderIdle()
}

func (r *run) forgetPromise() {
	if r.promised != nil {
		r.promised = nil
		clear(r.stateless)
		r.orderIdle()
	}
}

func (r *run) orderIdle() {
	for p := range r.processIDs {
		if start, end := r.processStart[p], r.idleEnd[p]; end-start > 1 {
			h := indexedHeap{items: r.idle[start:end], pos: r.idlePos, less: r.fewerTasks}
			h.init()
		}
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
	if r.idleEnd[p]-r.processStart[p] > 1 {
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

// leastLoaded returns a heap of the processes that can take tasks: by load, if
// told so by stateless tasks, by the count of the idlest member, and by id.
func (r *run) leastLoaded(byStateless bool) *processHeap {
	h := &processHeap{run: r, byStateless: byStateless, items: make([]int32, 0, len(r.processIDs)), pos: make([]int32, len(r.processIDs))}
	for p := range r.processIDs {
		h.pos[p] = -1
		if r.idlest(int32(p)) != nobody {
			h.items = append(h.items, int32(p))
		}
	}
	h.equal = r.equalCapacities()
	h.init()
	return h
}

func (r *run) equalCapacities() bool {
	for p := range r.processIDs {
		if r.capacity(int32(p)) != r.capacity(0) {
			return false
		}
	}
	return true
}
