package sim

import "slices"

// Minimize leaves out of a failing plan what the failure does not need: faults
// first, in ever smaller portions (delta debugging), then what makes the world
// large or irregular. What it returns breaks the same rule. budget bounds the
// number of runs.
func Minimize(p *Plan, o Options, budget int) *Plan {
	o.Tell = false
	failed := Run(p, o).Violation
	if failed == nil {
		return p
	}
	fails := func(q *Plan) bool {
		if budget <= 0 {
			return false
		}
		budget--
		v := Run(q, o).Violation
		return v != nil && v.Rule == failed.Rule
	}
	for {
		before := *p
		p = fewerFaults(p, fails)
		p = simpler(p, fails)
		if len(p.Faults) == len(before.Faults) && p.Setup == before.Setup || budget <= 0 {
			return p
		}
	}
}

// fewerFaults is ddmin over the list of faults.
func fewerFaults(p *Plan, fails func(*Plan) bool) *Plan {
	for portion := (len(p.Faults) + 1) / 2; portion > 0; {
		smaller := false
		for at := 0; at < len(p.Faults); {
			q := *p
			q.Faults = slices.Delete(slices.Clone(p.Faults), at, min(at+portion, len(p.Faults)))
			if fails(&q) {
				p, smaller = &q, true
			} else {
				at += portion
			}
		}
		switch {
		case !smaller && portion == 1:
			return p
		case !smaller:
			portion /= 2
		case portion > len(p.Faults):
			portion = max(len(p.Faults), 1)
		}
		if len(p.Faults) == 0 {
			return p
		}
	}
	return p
}

// simpler tries simpler worlds.
func simpler(p *Plan, fails func(*Plan) bool) *Plan {
	for _, change := range []func(s *Setup){
		func(s *Setup) { s.Threads = 1 },
		func(s *Setup) { s.Processes = max(s.Processes-1, 1) },
		func(s *Setup) { s.Processes = max(s.Processes-1, 1) },
		func(s *Setup) { s.Partitions = 1 },
		func(s *Setup) { s.Partitions = max(s.Partitions-1, 1) },
		func(s *Setup) { s.Nodes = 1 },
		func(s *Setup) { s.Nodes = max(s.Nodes-1, 1) },
		func(s *Setup) { s.Family = 0 },
		func(s *Setup) { s.Late = 0 },
		func(s *Setup) { s.Static = false },
		func(s *Setup) { s.PollGuard = false },
		func(s *Setup) { s.Standbys = 0 },
		func(s *Setup) { s.Warmups = 0 },
		func(s *Setup) { s.DriftPPM = 0 },
		func(s *Setup) { s.InitialDelay = 0 },
		func(s *Setup) { s.Interval = 0 },
		func(s *Setup) { s.Flush = 0 },
		func(s *Setup) { s.Faulty /= 2 },
	} {
		q := *p
		change(&q.Setup)
		if q.Setup != p.Setup && fails(&q) {
			p = &q
		}
	}
	return p
}
