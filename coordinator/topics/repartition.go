package topics

import "slices"

// decideRepartitionCounts gives every repartition topic a count, now that the
// counts of all source topics are known. Counts of repartition topics that exist
// already are not consulted: they are compared with the outcome later.
func (p *plan) decideRepartitionCounts() {
	p.spread(func(s *subtopology) int32 {
		n := absent
		for _, e := range s.external {
			n = max(n, p.topics[e].exists)
		}
		return n
	})
}

// spread decides the counts of the repartition topics that subtopologies write
// and that are not fixed: each gets the greatest of the counts that its writer's
// sources have when the writer is visited and something is known of them.
// anchor is the count that comes from the writer's external sources, absent if
// it has none. The names of the topics without a count are returned, ascending.
//
// The result is that of sweeps over all subtopologies in order, until one makes
// no progress. As a subtopology decides all its sinks at once, it suffices to
// visit each of them a single time, when a sweep would first find a source of it
// known: in the same sweep if it comes after the one that decided the source,
// else in the next. So the cost does not depend on how far the order is from the
// flow of the records, where sweeps take time by the square of it.
func (p *plan) spread(anchor func(*subtopology) int32) (open []string) {
	for _, n := range p.fixed {
		p.topics[n].decided = p.topics[n].fixed
	}
	if p.readBy.first == nil {
		p.readBy = p.readers()
	}
	queue := make(visits, 0, len(p.subs))
	queued := make([]bool, len(p.subs))
	for i := range p.subs {
		if anchor(&p.subs[i]) != absent || slices.ContainsFunc(p.subs[i].repartition, p.isDecided) {
			queue.push(visit{0, i})
			queued[i] = true
		}
	}
	for len(queue) > 0 {
		now := queue.pop()
		s := &p.subs[now.sub]
		n := anchor(s)
		for _, r := range s.repartition {
			n = max(n, p.topics[r].decided)
		}
		for _, sink := range s.sinks {
			if p.isDecided(sink) {
				continue
			}
			p.topics[sink].decided = n
			for _, reader := range p.readBy.of(sink) {
				if !queued[reader] {
					queued[reader] = true
					queue.push(now.next(reader))
				}
			}
		}
	}
	var left []int
	for i := range p.subs {
		for _, sink := range p.subs[i].sinks {
			if !p.isDecided(sink) {
				left = append(left, sink)
			}
		}
	}
	return p.namesOf(left)
}

func (p *plan) isDecided(n int) bool { return p.topics[n].decided != absent }

// readers are, by topic, the subtopologies that have it as a repartition source, in
// order: those of topic n are subs[first[n]:first[n+1]].
type readers struct{ first, subs []int }

func (r readers) of(topic int) []int { return r.subs[r.first[topic]:r.first[topic+1]] }

func (p *plan) readers() readers {
	r := readers{first: make([]int, len(p.topics)+2)}
	total := 0
	for i := range p.subs {
		for _, n := range p.subs[i].repartition {
			r.first[n+2]++
			total++
		}
	}
	for n := range p.topics {
		r.first[n+2] += r.first[n+1]
	}
	r.subs = make([]int, total)
	for i := range p.subs {
		for _, n := range p.subs[i].repartition {
			r.subs[r.first[n+1]] = i
			r.first[n+1]++
		}
	}
	return r
}

// visit is the visit of one subtopology in one sweep.
type visit struct{ sweep, sub int }

func (v visit) before(o visit) bool {
	return v.sweep < o.sweep || v.sweep == o.sweep && v.sub < o.sub
}

// next is the first visit of another subtopology after this one.
func (v visit) next(sub int) visit {
	if sub > v.sub {
		return visit{v.sweep, sub}
	}
	return visit{v.sweep + 1, sub}
}

// visits is a heap with the earliest visit on top.
type visits []visit

func (h *visits) push(v visit) {
	*h = append(*h, v)
	q := *h
	for i := len(q) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q[i].before(q[parent]) {
			break
		}
		q[i], q[parent] = q[parent], q[i]
		i = parent
	}
}

func (h *visits) pop() visit {
	q := *h
	top, last := q[0], len(q)-1
	q[0] = q[last]
	q = q[:last]
	*h = q
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(q) {
			return top
		}
		if right := child + 1; right < len(q) && q[right].before(q[child]) {
			child = right
		}
		if !q[child].before(q[i]) {
			return top
		}
		q[i], q[child] = q[child], q[i]
		i = child
	}
}
