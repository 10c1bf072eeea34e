package assignor

// dealQueue deals to processes of one capacity. Whoever has got a task comes
// after nearly all who got one before, so that two queues in order are enough, one
// of them for those who have not been asked yet.
type dealQueue struct {
	rest    []keyed
	got     []keyed // as a ring: its length is a power of two
	first   int
	size    int
	skipped []keyed
	// patience is how many processes may still be passed by others. In a group
	// where members of one process have very different numbers of tasks that can
	// be many each time, and a heap is better.
	patience int
}

func (q *dealQueue) next() int32 {
	switch {
	case q.size == 0 && len(q.rest) == 0:
		return nobody
	case q.restFirst():
		return q.rest[0].number
	}
	return q.got[q.first].number
}

func (q *dealQueue) restFirst() bool {
	return len(q.rest) > 0 && (q.size == 0 || before(q.rest[0], q.got[q.first]))
}

func before(a, b keyed) bool { return a.key < b.key || a.key == b.key && a.number < b.number }

func (q *dealQueue) pop() keyed {
	if q.restFirst() {
		e := q.rest[0]
		q.rest = q.rest[1:]
		return e
	}
	e := q.got[q.first]
	q.first = (q.first + 1) & (len(q.got) - 1)
	q.size--
	return e
}

// putBack queues a process at its place, which is near the end.
func (q *dealQueue) putBack(e keyed) {
	q.grow()
	mask := len(q.got) - 1
	at := q.first + q.size
	for ; at > q.first && before(e, q.got[(at-1)&mask]); at-- {
		q.got[at&mask] = q.got[(at-1)&mask]
		q.patience--
	}
	q.patience++
	q.got[at&mask] = e
	q.size++
}

func (q *dealQueue) putFront(e keyed) {
	q.grow()
	q.first = (q.first - 1) & (len(q.got) - 1)
	q.got[q.first] = e
	q.size++
}

func (q *dealQueue) grow() {
	if q.size < len(q.got) {
		return
	}
	bigger := make([]keyed, max(16, 2*len(q.got)))
	for i := range q.size {
		bigger[i] = q.got[(q.first+i)&(len(q.got)-1)]
	}
	q.got, q.first = bigger, 0
}
