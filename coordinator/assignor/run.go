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

	// racks is set while standbys are placed by client tags.
	racks *racks

	// statefulQuota counts stateful active tasks, activeQuota all active tasks
	// and totalQuota standbys as well.
	statefulQuota, activeQuota, totalQuota quota

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
	if !r.fixed[m] {
		r.totalQuota.told(r.count[m])
	}
}

func (r *run) grow(m int32) {
	p := r.process[m]
	r.count[m]++
	r.load[p]++
	if r.fresh[m] && r.idleEnd[p]-r.processStart[p] > 1 {
		h := indexedHeap{items: r.idle[r.processStart[p]:r.idleEnd[p]], pos: r.idlePos, less: r.fewerTasks}
		h.grew(m)
	}
	if r.racks != nil {
		r.racks.grew(p)
	}
}

// lighter replaces the choice only by a member that is less loaded in both
// respects, and keeps the better ranked one otherwise.
func (r *run) lighter(m, choice int32) bool {
	return r.count[m] < r.count[choice] && r.compareLoads(r.load, r.process[m], r.process[choice]) < 0
}

// leastLoaded returns a heap of the processes that can take tasks: by load, if
// told so by stateless tasks, by the count of the idlest member, and by id.
func (r *run) leastLoaded(byStateless bool) *indexedHeap {
	h := &indexedHeap{items: make([]int32, 0, len(r.processIDs)), pos: make([]int32, len(r.processIDs))}
	for p := range r.processIDs {
		h.pos[p] = -1
		if r.idlest(int32(p)) != nobody {
			h.items = append(h.items, int32(p))
		}
	}
	h.less = func(p, q int32) bool {
		c := r.compareLoads(r.load, p, q)
		if c == 0 && byStateless {
			c = r.compareLoads(r.stateless, p, q)
		}
		if c == 0 {
			c = cmp.Compare(r.count[r.idlest(p)], r.count[r.idlest(q)])
		}
		if c == 0 {
			return p < q
		}
		return c < 0
	}
	h.init()
	return h
}
