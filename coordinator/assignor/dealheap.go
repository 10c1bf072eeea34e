package assignor

// dealt is a process in the order in which it gets tasks.
type dealt struct {
	load, stateless, capacity int64
	idlest, process           int32
}

// dealHeap is a binary heap of processes, the next one to get a task on top.
type dealHeap struct {
	items   []dealt
	equal   bool // all processes have the same capacity
	skipped []dealt
}

func (h *dealHeap) less(a, b *dealt) bool {
	if h.equal {
		if a.load != b.load {
			return a.load < b.load
		}
		if a.stateless != b.stateless {
			return a.stateless < b.stateless
		}
	} else {
		if l, m := a.load*b.capacity, b.load*a.capacity; l != m {
			return l < m
		}
		if l, m := a.stateless*b.capacity, b.stateless*a.capacity; l != m {
			return l < m
		}
	}
	if a.idlest != b.idlest {
		return a.idlest < b.idlest
	}
	return a.process < b.process
}

func (h *dealHeap) init() {
	for i := len(h.items)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *dealHeap) pop() dealt {
	top, last := h.items[0], len(h.items)-1
	h.items[0] = h.items[last]
	h.items = h.items[:last]
	h.down(0)
	return top
}

func (h *dealHeap) push(e dealt) {
	h.items = append(h.items, e)
	i := len(h.items) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(&e, &h.items[parent]) {
			break
		}
		h.items[i] = h.items[parent]
		i = parent
	}
	h.items[i] = e
}

func (h *dealHeap) down(i int) {
	if i >= len(h.items) {
		return
	}
	e := h.items[i]
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if right := child + 1; right < len(h.items) && h.less(&h.items[right], &h.items[child]) {
			child = right
		}
		if !h.less(&h.items[child], &e) {
			break
		}
		h.items[i] = h.items[child]
		i = child
	}
	h.items[i] = e
}
