package assignor

// give turns places into owners. Owners come first, so that siblings and other
// members get what is left.
func (p *placement) give(f flavour) {
	p.forgetIdle()
	for m := range p.members {
		own, n := p.ownOf(int32(m)), 0
		for _, t := range own {
			switch {
			case p.owner[t] == int32(m):
				p.giveActive(int32(m), t, f)
			case p.at[t] == stays && n < int(p.keep[m]):
				n++
				p.giveActive(int32(m), t, f)
			}
		}
	}
	// Then whoever follows the task, because it goes on with what it has open.
	for _, t := range p.order {
		if p.owner[t] == nobody && p.at[t] >= 0 {
			if m := p.heir(t, p.at[t]); m != nobody {
				p.giveActive(m, t, f)
			}
		}
	}
	for _, t := range p.order {
		switch {
		case p.owner[t] != nobody || p.at[t] == open:
		case p.at[t] == stays:
			p.giveActive(p.idlest(p.process[p.prior.owner[t]]), t, f)
		default:
			p.giveActive(p.idlest(p.at[t]), t, f)
		}
	}
}

// heir is the member of the process that follows the task, if it has room.
func (p *placement) heir(t, process int32) int32 {
	for _, c := range p.prior.copies.of(t) {
		m := c.member
		if c.dormant || p.process[m] != process {
			continue
		}
		if p.count[m] < p.base {
			return m
		}
		if p.count[m] == p.base && p.extra[process] > p.byOwner[process] {
			p.byOwner[process]++ // an extra that came with the task
			return m
		}
	}
	return nobody
}

// deal gives the rest to the least loaded processes, first to those that are
// entitled to more.
func (p *placement) deal(f flavour) {
	p.forgetIdle()
	rest := p.order[:0] // which nobody needs any more
	for i := range p.subs {
		s := &p.subs[i]
		if !f.has(s) {
			continue
		}
		for t := s.base; t < s.base+s.tasks; t++ {
			if p.owner[t] == nobody {
				rest = append(rest, t)
			}
		}
	}
	rest = p.dealTo(rest, f, p.newDealer(true), p.entitled)
	if len(rest) == 0 {
		return
	}
	rest = p.dealTo(rest, f, p.newDealer(true), p.hasRoom)
	if len(rest) > 0 {
		// Stale members count in the shares and take nothing: their part goes
		// to whoever is there.
		p.dealTo(rest, f, p.newDealer(true), func(int32) bool { return true })
	}
}

// dealTo deals tasks as long as a process has room. It returns the rest.
func (p *placement) dealTo(tasks []int32, f flavour, to *dealer, room func(process int32) bool) []int32 {
	for i, t := range tasks {
		process := to.next()
		for process != nobody && !room(process) {
			to.skip()
			process = to.next()
		}
		if process == nobody {
			return tasks[i:]
		}
		p.takeRoom(process)
		p.giveActive(to.take(), t, f)
		to.gave()
	}
	return nil
}
