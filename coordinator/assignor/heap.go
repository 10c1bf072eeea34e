package assignor

// indexedHeap is a binary min-heap of small numbers that knows where each of
// them is, so that a changed one can be moved. Several heaps may share pos if
// they have no number in common.
type indexedHeap struct {
	items []int32
	pos   []int32 // by number: its place in items; -1 if it is not in the heap
	less  func(a, b int32) bool
}

// init orders items and fills pos.
func (h *indexedHeap) init() {
	for i, v := range h.items {
		h.pos[v] = int32(i)
	}
	for i := len(h.items)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

// grew restores the order after the key of v has become larger.
func (h *indexedHeap) grew(v int32) {
	if i := h.pos[v]; i >= 0 {
		h.down(int(i))
	}
}

// shrank restores the order after the key of v has become smaller.
func (h *indexedHeap) shrank(v int32) {
	if i := h.pos[v]; i >= 0 {
		h.up(int(i), v)
	}
}

func (h *indexedHeap) pop() int32 {
	top := h.items[0]
	last := len(h.items) - 1
	h.pos[top] = -1
	if last > 0 {
		h.set(0, h.items[last])
	}
	h.items = h.items[:last]
	h.down(0)
	return top
}

func (h *indexedHeap) up(i int, v int32) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(v, h.items[parent]) {
			break
		}
		h.set(i, h.items[parent])
		i = parent
	}
	h.set(i, v)
}

func (h *indexedHeap) down(i int) {
	if i >= len(h.items) {
		return
	}
	v := h.items[i]
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if right := child + 1; right < len(h.items) && h.less(h.items[right], h.items[child]) {
			child = right
		}
		if !h.less(h.items[child], v) {
			break
		}
		h.set(i, h.items[child])
		i = child
	}
	h.set(i, v)
}

func (h *indexedHeap) set(i int, v int32) {
	h.items[i] = v
	h.pos[v] = int32(i)
}
