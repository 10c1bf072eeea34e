package assignor

import "slices"

// memberQueues deal to the members of each process, the idlest first. Who gets a
// task is behind all who got one before, as in dealQueue.
type memberQueues struct {
	*run
	rest  []int32      // by process: its members by count, those from restAt on not asked yet
	got   []int32      // by process: a ring of those who have got something
	parts []memberPart // nil if every process has one member
}

// memberPart is what rest and got have of one process.
type memberPart struct {
	start, end int32 // in rest
	restAt     int32
	gotAt      int32 // in the ring
	gotSize    int32
}

func (q *memberQueues) fill() {
	r, n := q.run, len(q.members)
	both := make([]int32, 2*n)
	q.rest, q.got, q.parts = both[:n:n], both[n:], make([]memberPart, len(r.processIDs))
	var sizes []int32
	for p := range r.processIDs {
		part := &q.parts[p]
		part.start, part.end, part.restAt = r.processStart[p], r.processStart[p], r.processStart[p]
		ordered := true
		for _, m := range r.membersOf(int32(p)) {
			if !r.fresh[m] {
				continue
			}
			ordered = ordered && (part.end == part.start || !r.fewerTasks(m, q.rest[part.end-1]))
			q.rest[part.end] = m
			part.end++
		}
		if !ordered {
			sizes = q.order(q.rest[part.start:part.end], q.got[part.start:part.end], sizes)
		}
	}
}

// order sorts members by what they have, by counting unless they are very uneven.
func (q *memberQueues) order(members, spare, sizes []int32) []int32 {
	low, high := q.count[members[0]], q.count[members[0]]
	for _, m := range members {
		low, high = min(low, q.count[m]), max(high, q.count[m])
	}
	if q.promised != nil || int(high-low) > 2*len(members)+16 {
		slices.SortFunc(members, func(a, b int32) int {
			switch {
			case a == b:
				return 0
			case q.fewerTasks(a, b):
				return -1
			}
			return 1
		})
		return sizes
	}
	if need := int(high-low) + 1; cap(sizes) < need {
		sizes = make([]int32, need)
	} else {
		sizes = sizes[:need]
		clear(sizes)
	}
	for _, m := range members {
		sizes[q.count[m]-low]++
	}
	at := int32(0)
	for i, n := range sizes {
		sizes[i] = at
		at += n
	}
	for _, m := range members {
		to := &sizes[q.count[m]-low]
		spare[*to] = m
		*to++
	}
	copy(members, spare)
	return sizes
}

func (q *memberQueues) idlest(p int32) int32 {
	if q.parts == nil {
		return q.only(p)
	}
	part := &q.parts[p]
	switch {
	case part.restAt == part.end && part.gotSize == 0:
		return nobody
	case q.restFirst(part):
		return q.rest[part.restAt]
	}
	return q.got[part.start+part.gotAt]
}

// only returns the one member of a process if it is fresh.
func (q *memberQueues) only(p int32) int32 {
	if m := q.processMembers[p]; q.fresh[m] {
		return m
	}
	return nobody
}

func (q *memberQueues) restFirst(part *memberPart) bool {
	return part.restAt < part.end && (part.gotSize == 0 || q.fewerTasks(q.rest[part.restAt], q.got[part.start+part.gotAt]))
}

// take returns the idlest member of a process, which gets a task.
func (q *memberQueues) take(p int32) int32 {
	if q.parts == nil {
		return q.only(p)
	}
	part := &q.parts[p]
	size := part.end - part.start
	var m int32
	if q.restFirst(part) {
		m = q.rest[part.restAt]
		part.restAt++
	} else {
		m = q.got[part.start+part.gotAt]
		if part.gotAt++; part.gotAt == size {
			part.gotAt = 0
		}
		part.gotSize--
	}
	at := part.gotAt + part.gotSize
	if at >= size {
		at -= size
	}
	q.got[part.start+at] = m
	part.gotSize++
	return m
}
