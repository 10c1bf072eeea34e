package assignor

import (
	"cmp"
	"slices"
)

const noValue = int32(-1)

// racks places standbys on processes whose client tags differ from those of the
// processes that hold the task already. Processes with identical tags form a
// group, so that a choice looks at groups and not at processes.
type racks struct {
	*run
	keys   int
	values []int32 // by process and key: the number of the tag's value, or noValue
	groups []rackGroup
	group  []int32 // by process, nobody if it has no fresh member
	pos    []int32 // by process, for the heaps of the groups

	roomEverywhere bool // a value that is new is worth more than balance
	onlyKept       bool // place standbys only where they are, and before a former owner

	used  [][]int32 // by key and value: the last task that used the value
	best  []int32   // groups of equal diversity in the choice at hand
	among []int32   // by group: the choice in which it was one of the best
	turn  int32     // of choices
}

// rackGroup are processes with the same tags, by load and then id. A process
// without room is dropped when it comes to the top: limits only shrink and
// counts only grow, so it will never have room again.
type rackGroup struct {
	values    []int32
	processes indexedHeap
}

func newRacks(r *run) *racks {
	k := &racks{
		run: r, keys: len(r.group.RackAwareTags),
		group: make([]int32, len(r.processIDs)), pos: make([]int32, len(r.processIDs)),
	}
	k.readTags()
	k.makeGroups()
	return k
}

// readTags numbers the values of each key. Tags belong to a process; should its
// members disagree, those of the smallest member id count.
func (k *racks) readTags() {
	k.values = make([]int32, len(k.processIDs)*k.keys)
	k.used = make([][]int32, k.keys)
	for key, name := range k.index.group.RackAwareTags {
		numbers := map[string]int32{}
		for p := range k.processIDs {
			tags := k.member(k.membersOf(int32(p))[0]).ClientTags
			v, ok := tags[name]
			number := noValue
			if ok {
				if number, ok = numbers[v]; !ok {
					number = int32(len(numbers))
					numbers[v] = number
				}
			}
			k.values[p*k.keys+key] = number
		}
		k.used[key] = make([]int32, len(numbers))
		for v := range k.used[key] {
			k.used[key][v] = nobody
		}
	}
}

func (k *racks) tagsOf(p int32) []int32 {
	return k.values[int(p)*k.keys : int(p+1)*k.keys]
}

func (k *racks) makeGroups() {
	byTags := make([]int32, 0, len(k.processIDs))
	for p := range k.processIDs {
		k.group[p], k.pos[p] = nobody, -1
		if k.idlest(int32(p)) != nobody {
			byTags = append(byTags, int32(p))
		}
	}
	slices.SortFunc(byTags, func(p, q int32) int {
		return cmp.Or(slices.Compare(k.tagsOf(p), k.tagsOf(q)), cmp.Compare(p, q))
	})
	less := func(p, q int32) bool {
		if c := k.compareLoads(k.load, p, q); c != 0 {
			return c < 0
		}
		return p < q
	}
	for i := 0; i < len(byTags); {
		from, tags := i, k.tagsOf(byTags[i])
		for ; i < len(byTags) && slices.Equal(k.tagsOf(byTags[i]), tags); i++ {
			k.group[byTags[i]] = int32(len(k.groups))
		}
		g := rackGroup{values: tags, processes: indexedHeap{items: byTags[from:i:i], pos: k.pos, less: less}}
		g.processes.init()
		k.groups = append(k.groups, g)
	}
	k.among = make([]int32, len(k.groups))
}

func (k *racks) grew(p int32) {
	if g := k.group[p]; g != nobody {
		k.groups[g].processes.grew(p)
	}
}

// place gives out standbys of a task as long as they add a value that none of
// its holders has. The keys are tried in their order; one that offers nothing
// new is given up for this task.
func (k *racks) place(t int32) {
	k.use(k.process[k.owner[t]], t)
	for _, m := range k.standbysOf(t) {
		k.use(k.process[m], t)
	}
	for key := 0; key < k.keys && k.placed[t] < k.slots; {
		m := k.choose(t, key)
		if m == nobody {
			if k.onlyKept && len(k.best) > 0 {
				return
			}
			key++
			continue
		}
		k.giveStandby(m, t)
		k.use(k.process[m], t)
	}
}

func (k *racks) use(p, t int32) {
	for key, v := range k.tagsOf(p) {
		if v != noValue {
			k.used[key][v] = t
		}
	}
}

func (k *racks) isNew(g *rackGroup, key int, t int32) bool {
	v := g.values[key]
	return v != noValue && k.used[key][v] != t
}

// choose returns the member to get a standby with a new value for the key. A
// process that holds the task already has no new value, so it needs no test.
func (k *racks) choose(t int32, key int) int32 {
	k.turn++
	k.best = k.best[:0]
	for i := range k.groups {
		g := &k.groups[i]
		if !k.isNew(g, key, t) {
			continue
		}
		c := 0
		if len(k.best) > 0 {
			c = k.compareDiversity(g, &k.groups[k.best[0]], key+1, t)
		}
		if c < 0 || !k.hasRoom(g) {
			continue
		}
		if c > 0 {
			k.best = k.best[:0]
		}
		k.best = append(k.best, int32(i))
	}
	if len(k.best) == 0 {
		return nobody
	}
	for _, g := range k.best {
		k.among[g] = k.turn
	}
	if m := k.formerHolder(t); m != nobody || k.onlyKept {
		return m
	}
	least := nobody
	for _, g := range k.best {
		h := &k.groups[g].processes
		if p := h.items[0]; least == nobody || h.less(p, least) {
			least = p
		}
	}
	return k.idlest(least)
}

// compareDiversity asks from a key on, highest priority first, which group has
// a new value.
func (k *racks) compareDiversity(a, b *rackGroup, from int, t int32) int {
	for key := from; key < k.keys; key++ {
		newA, newB := k.isNew(a, key, t), k.isNew(b, key, t)
		switch {
		case newA && !newB:
			return 1
		case newB && !newA:
			return -1
		}
	}
	return 0
}

func (k *racks) processHasRoom(p int32) bool {
	return k.belowTotal(k.idlest(p))
}

func (k *racks) hasRoom(g *rackGroup) bool {
	for len(g.processes.items) > 0 {
		if k.roomEverywhere || k.processHasRoom(g.processes.items[0]) {
			return true
		}
		g.processes.pop()
	}
	return false
}

// formerHolder prefers, among equally diverse processes, one whose member had
// the task before.
func (k *racks) formerHolder(t int32) int32 {
	if k.onlyKept {
		for _, c := range k.prior.copies.of(t) {
			if m := c.member; !c.dormant && k.among[k.group[k.process[m]]] == k.turn && k.belowTotal(m) {
				return m
			}
		}
		return nobody
	}
	if m := k.prior.owner[t]; m != nobody && k.fresh[m] {
		if m = k.atFormerHolder(m); m != nobody {
			return m
		}
	}
	for _, c := range k.prior.copies.of(t) {
		if m := k.atFormerHolder(c.member); m != nobody {
			return m
		}
	}
	return nobody
}

// atFormerHolder returns the former holder, or a sibling with room if it has
// none itself.
func (k *racks) atFormerHolder(m int32) int32 {
	p := k.process[m]
	if k.among[k.group[p]] != k.turn || !k.processHasRoom(p) {
		return nobody
	}
	if k.belowTotal(m) {
		return m
	}
	return k.idlest(p)
}
