package sim

import "time"

// event is something that happens at a moment of the world's time.
type event struct {
	at  time.Duration
	seq uint64 // the order in which events were planned
	// p is the process that it happens in, nil if in none: a dead one lets
	// nothing happen, and in a paused one things wait.
	p  *process
	do func()
}

// agenda orders events by time. It is a binary heap.
type agenda []event

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

func (a *agenda) push(e event) {
	*a = append(*a, e)
	h := *a
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h[i].before(&h[parent]) {
			break
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

func (a *agenda) pop() event {
	h := *a
	first := h[0]
	last := len(h) - 1
	h[0], h[last] = h[last], event{}
	h = h[:last]
	for i := 0; ; {
		least, left := i, 2*i+1
		for c := left; c <= left+1 && c < last; c++ {
			if h[c].before(&h[least]) {
				least = c
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	*a = h
	return first
}

// clock is a clock that runs at a pace of its own and began at another time.
type clock struct {
	zero time.Duration
	ppm  int
}

func (c clock) read(at time.Duration) time.Duration {
	return c.zero + at + at/1_000_000*time.Duration(c.ppm)
}

// when is the first moment of the world at which the clock shows a time.
func (c clock) when(reading time.Duration) time.Duration {
	at := time.Duration(float64(reading-c.zero) / (1 + float64(c.ppm)/1e6))
	for c.read(at) < reading {
		at += 1 + (reading-c.read(at))/2
	}
	return at
}
