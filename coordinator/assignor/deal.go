package assignor

import "slices"

// dealer says who is next while tasks are dealt: the process with the lowest
// load, if told so the one with fewer stateless tasks, then the one whose idlest
// member has fewest tasks, then the smallest id; and in it the idlest member.
// Only fresh members take part. As long as a dealer is in use, members get tasks
// by way of it only.
type dealer struct {
	*run
	byStateless bool
	given       int  // what run.given is as long as this dealer gives everything
	queued      bool // the queue is in use, else the heap
	queue       dealQueue
	heap        dealHeap
	members     memberQueues
}

// keyBits is how many bits of a key each of the three numbers has by which
// processes are ordered.
const keyBits = 21

func (r *run) newDealer(byStateless bool) *dealer {
	d := &dealer{run: r, byStateless: byStateless, given: r.given, members: memberQueues{run: r}}
	if len(r.processIDs) < len(r.members) {
		d.members.fill()
	}
	d.heap.equal = d.members.parts == nil || r.equalCapacities()
	if d.heap.equal && int64(r.tasks)*int64(1+r.slots) < 1<<keyBits {
		d.fillQueue()
		return d
	}
	for p := range r.processIDs {
		d.addToHeap(int32(p))
	}
	d.heap.init()
	return d
}

func (r *run) equalCapacities() bool {
	for p := range r.processIDs {
		if r.capacity(int32(p)) != r.capacity(0) {
			return false
		}
	}
	return true
}

func (d *dealer) entry(p int32) dealt {
	e := dealt{load: d.load[p], capacity: d.capacity(p), idlest: d.count[d.members.idlest(p)], process: p}
	if d.byStateless {
		e.stateless = d.stateless[p]
	}
	return e
}

func (d *dealer) addToHeap(p int32) {
	if d.members.idlest(p) == nobody {
		return
	}
	if d.heap.items == nil {
		d.heap.items = make([]dealt, 0, len(d.processIDs))
	}
	d.heap.items = append(d.heap.items, d.entry(p))
}

func (d *dealer) fillQueue() {
	d.queued = true
	n := len(d.processIDs)
	items := make([]keyed, 0, n)
	for p := range d.processIDs {
		if m := d.members.idlest(int32(p)); m != nobody {
			items = append(items, d.queueEntry(int32(p), m))
		}
	}
	d.queue.rest = sortKeyed(items)
	d.queue.patience = 1024 + 4*n
}

func (d *dealer) queueEntry(p, idlest int32) keyed {
	k := uint64(d.load[p])<<(2*keyBits) | uint64(d.count[idlest])
	if d.byStateless {
		k |= uint64(d.stateless[p]) << keyBits
	}
	return keyed{k, p}
}

// useHeap replaces the queue.
func (d *dealer) useHeap() {
	d.queued = false
	for _, e := range d.queue.skipped {
		d.heap.skipped = append(d.heap.skipped, d.entry(e.number))
	}
	d.queue.skipped = nil
	for d.queue.next() != nobody {
		d.addToHeap(d.queue.pop().number)
	}
	d.heap.init()
}

// next returns the process whose turn it is, or nobody.
func (d *dealer) next() int32 {
	if d.queued {
		return d.queue.next()
	}
	if len(d.heap.items) == 0 {
		return nobody
	}
	return d.heap.items[0].process
}

// take returns the member of the next process that is to get a task.
func (d *dealer) take() int32 { return d.members.take(d.next()) }

// gave puts the next process behind those that are less loaded now, after its
// member has got a task.
func (d *dealer) gave() {
	d.given++
	if !d.queued {
		d.heap.items[0] = d.entry(d.heap.items[0].process)
		d.heap.down(0)
		return
	}
	p := d.queue.pop().number
	d.queue.putBack(d.queueEntry(p, d.members.idlest(p)))
	if d.queue.patience < 0 {
		d.useHeap()
	}
}

// skip takes the next process out. Those that have been skipped come back with
// restore.
func (d *dealer) skip() {
	if d.queued {
		d.queue.skipped = append(d.queue.skipped, d.queue.pop())
		return
	}
	d.heap.skipped = append(d.heap.skipped, d.heap.pop())
}

func (d *dealer) restore() {
	for _, e := range slices.Backward(d.queue.skipped) {
		d.queue.putFront(e)
	}
	for _, e := range d.heap.skipped {
		d.heap.push(e)
	}
	d.queue.skipped, d.heap.skipped = d.queue.skipped[:0], d.heap.skipped[:0]
}
