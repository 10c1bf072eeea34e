package assignor

import "slices"

// What it costs to have a standby somewhere.
const (
	costNewStandby  = int64(1) << 8  // where it was not before, but the state is
	costOverload    = int64(1) << 16 // on a member with more than its share
	costColdStandby = int64(1) << 24 // where nothing of it is
	costLostStandby = int64(1) << 25 // while somebody who follows the task is to drop it
)

// standbyExchange are the rules for standbys. A unit is a slot of a task, a node
// is a process, and one more stands for all who have one task more than others.
type standbyExchange struct {
	*run
	at     [][]int32 // slots by node
	shares []int32
	roomy  []int32 // processes that had room when last looked at
}

func (r *run) exchangeStandbys(unhappy []int32) {
	if len(unhappy) == 0 || len(r.processIDs) < 2 {
		return
	}
	s := &standbyExchange{run: r}
	var units []int32
	for t := range r.tasks {
		for k := range r.placed[t] {
			units = append(units, t*r.slots+k)
		}
	}
	s.at = listUnits(len(r.processIDs)+1, units, s.node)
	for p := range r.processIDs {
		if s.hasRoom(int32(p)) {
			s.roomy = append(s.roomy, int32(p))
		}
	}
	x := newExchange(s, len(s.at), exchangeBudget(len(r.prior.copies.claims)+int(r.stateful)))
	for _, u := range unhappy {
		x.improve(u)
	}
}

func (s *standbyExchange) node(u int32) int32 { return s.process[s.standbys[u]] }

func (s *standbyExchange) cost(u int32) int64 {
	c := s.costAt(u/s.slots, s.node(u), s.node(u))
	if m := s.standbys[u]; s.even.over(s.count[m]) {
		c += costOverload
	}
	return c
}

// costAt is what it costs to have a standby at a process rather than where it is
// now.
func (s *standbyExchange) costAt(t, p, now int32) int64 {
	c, lost := costColdStandby, int64(0)
	if o := s.prior.owner[t]; o != nobody && s.process[o] == p {
		c = costNewStandby
	}
	for _, has := range s.prior.copies.of(t) {
		switch at := s.process[has.member]; {
		case at == p && !has.dormant:
			return 0
		case at == p:
			c = costNewStandby
		case !has.dormant && (at == now || !s.holds(at, t)):
			lost = costLostStandby
		}
	}
	return c + lost
}

func (s *standbyExchange) offers(u int32, try func(int32, int64)) {
	t := u / s.slots
	offer := func(p int32) {
		if s.idlest(p) != nobody && !s.holds(p, t) {
			try(p, s.costAt(t, p, s.node(u)))
		}
	}
	if s.even.over(s.count[s.standbys[u]]) {
		for p := range s.processIDs {
			offer(int32(p))
		}
		return
	}
	if o := s.prior.owner[t]; o != nobody {
		offer(s.process[o])
	}
	for _, c := range s.prior.copies.of(t) {
		offer(s.process[c.member])
	}
}

func (s *standbyExchange) spare(u int32) (int32, int64, bool) {
	s.roomy = slices.DeleteFunc(s.roomy, func(p int32) bool { return !s.hasRoom(p) })
	for _, p := range s.roomy {
		if !s.holds(p, u/s.slots) {
			return p, s.costAt(u/s.slots, p, s.node(u)), true
		}
	}
	return nobody, 0, false
}

func (s *standbyExchange) hasRoom(n int32) bool {
	if int(n) == len(s.processIDs) {
		return false
	}
	m := s.idlest(n)
	return m != nobody && s.belowTotal(m)
}

func (s *standbyExchange) shared(n int32) int32 {
	if int(n) == len(s.processIDs) || s.even.extras > 0 || s.count[s.idlest(n)] != s.even.base {
		return nobody
	}
	return int32(len(s.processIDs))
}

func (s *standbyExchange) units(n int32) []int32 {
	if int(n) < len(s.processIDs) {
		return s.at[n]
	}
	s.shares = s.shares[:0]
	for p := range s.processIDs {
		for _, u := range s.at[p] {
			if s.count[s.standbys[u]] == s.even.base+1 && s.fresh[s.standbys[u]] {
				s.shares = append(s.shares, u)
			}
		}
	}
	return s.shares
}

func (s *standbyExchange) kin(u, v int32) bool { return u/s.slots == v/s.slots }

func (s *standbyExchange) move(u, to int32) {
	from, t := s.node(u), u/s.slots
	i := slices.Index(s.at[from], u)
	s.at[from] = slices.Delete(s.at[from], i, i+1)
	s.shrink(s.standbys[u])
	s.standbys[u] = s.host(t, to)
	s.grow(s.standbys[u])
	s.at[to] = append(s.at[to], u)
}

// host is the member of a process that takes a standby: the one that has it
// already if there is room, else the idlest.
func (r *run) host(t, process int32) int32 {
	for _, c := range r.prior.copies.of(t) {
		if !c.dormant && r.process[c.member] == process && r.belowTotal(c.member) {
			return c.member
		}
	}
	return r.idlest(process)
}

func (s *standbyExchange) took(int32)     {}
func (s *standbyExchange) released(int32) {}
