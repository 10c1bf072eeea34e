package assignor

// processHeap is an indexed heap of processes that can take tasks, the next one
// to get a task on top. It is the innermost loop of every deal, hence not one
// with a function for its order.
type processHeap struct {
	*run
	items       []int32
	pos         []int32 // by process: its place in items, -1 if it is not there
	byStateless bool
	equal       bool // all processes have the same capacity
}

func (h *processHeap) less(p, q int32) bool {
	if h.equal {
		if h.load[p] != h.load[q] {
			return h.load[p] < h.load[q]
		}
		if h.byStateless && h.stateless[p] != h.stateless[q] {
			return h.stateless[p] < h.stateless[q]
		}
	} else {
		if c := h.compareLoads(h.load, p, q); c != 0 {
			return c < 0
		}
		if h.byStateless {
			if c := h.compareLoads(h.stateless, p, q); c != 0 {
				return c < 0
			}
		}
	}
	if a, b := h.count[h.idlest(p)], h.count[h.idlest(q)]; a != b {
		return a < b
	}
	return p < q
}

func (h *processHeap) init() {
	for i, p := range h.items {
		h.pos[p] = int32(i)
	}
	for i := len(h.items)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

// grew restores the order after a process has got a task.
func (h *processHeap) grew(p int32) {
	if i := h.pos[p]; i >= 0 {
		h.down(int(i))
	}
}

func (h *processHeap) pop() int32 {
	top, last := h.items[0], len(h.items)-1
	h.pos[top] = -1
	if last > 0 {
		h.set(0, h.items[last])
	}
	h.items = h.items[:last]
	h.down(0)
	return top
}

func (h *processHeap) push(p int32) {
	h.items = append(h.items, p)
	i := len(h.items) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(p, h.items[parent]) {
			break
		}
		h.set(i, h.items[parent])
		i = parent
	}
	h.set(i, p)
}

func (h *processHeap) down(i int) {
	if i >= len(h.items) {
		return
	}
	p := h.items[i]
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if right := child + 1; right < len(h.items) && h.less(h.items[right], h.items[child]) {
			child = right
		}
		if !h.less(h.items[child], p) {
			break
		}
		h.set(i, h.items[child])
		i = child
	}
	h.set(i, p)
}

func (h *processHeap) set(i int, p int32) {
	h.items[i] = p
	h.pos[p] = int32(i)
}
