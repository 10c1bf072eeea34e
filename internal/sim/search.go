package sim

import "time"

// Model is something that [Search] can walk through. States are values that can be
// compared.
type Model[S comparable] interface {
	// Initial is where everything begins.
	Initial() S
	// Next yields what may happen in a state, and the state that it leads to.
	Next(s S, yield func(step Step, next S))
	// Check is an invariant of all states.
	Check(s S) error
	// Rest is an invariant of states in which nothing more happens by itself.
	Rest(s S) error
	// Describe names a step, for a trace.
	Describe(from S, step Step) string
}

// Step is one thing that happens.
type Step struct {
	// Fault means that it does not happen by itself: something goes wrong, or
	// somebody decides it.
	Fault bool
	// What happens, to whom, and with what is the model's business.
	What uint8
	Who  int8
	With int32
}

// Found is what a search has seen.
type Found struct {
	States, Steps int
	// Depth is the number of steps to the farthest state, Complete whether all
	// states were seen.
	Depth    int
	Complete bool
	Took     time.Duration
	// Err is the first violation, and Trace a shortest way there.
	Err   error
	Trace []string
}

// way is how a state was reached first.
type way[S comparable] struct {
	state S
	from  int32
	step  Step
}

// Search walks breadth first through all states, up to a number of them.
func Search[S comparable](m Model[S], limit int) *Found {
	began := time.Now()
	f := &Found{}
	start := m.Initial()
	known := map[S]int32{start: 0}
	ways := []way[S]{{start, -1, Step{}}}
	fail := func(err error, at int32) {
		f.Err = err
		for ; at > 0; at = ways[at].from {
			f.Trace = append([]string{m.Describe(ways[ways[at].from].state, ways[at].step)}, f.Trace...)
		}
	}
	for at, end := 0, 1; at < len(ways) && f.Err == nil; at++ {
		if at == end {
			f.Depth++
			end = len(ways)
		}
		if len(ways) >= limit {
			break
		}
		moves := false
		m.Next(ways[at].state, func(step Step, s S) {
			f.Steps++
			moves = moves || !step.Fault && s != ways[at].state
			if _, ok := known[s]; ok || f.Err != nil {
				return
			}
			known[s] = int32(len(ways))
			ways = append(ways, way[S]{s, int32(at), step})
			if err := m.Check(s); err != nil {
				fail(err, int32(len(ways)-1))
			}
		})
		if !moves && f.Err == nil {
			if err := m.Rest(ways[at].state); err != nil {
				fail(err, int32(at))
			}
		}
		f.Complete = at == len(ways)-1
	}
	f.Complete = f.Complete && f.Err == nil
	f.States, f.Took = len(ways), time.Since(began)
	return f
}
