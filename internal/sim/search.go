package sim

import "time"

// Model is something that [Search] can walk through. States are values that can be
// compared.
type Model[S comparable] interface {
	// Initial is where everything begins.
	Initial() S
	// Next yields what may happen in a state, and the state that it leads to. It
	// always yields the same in the same order.
	Next(s S, yield func(step Step, next S))
	// Hash spreads states over all 64 bits.
	Hash(s S) uint64
	// Check is an invariant of all states.
	Check(s S) error
	// Rest is an invariant of states in which nothing more happens by itself, but for
	// what is idle.
	Rest(s S) error
	// Describe names a step, for a trace.
	Describe(from S, step Step) string
}

// Step is one thing that happens.
type Step struct {
	// Fault means that it does not happen by itself: something goes wrong, or
	// somebody decides it.
	Fault bool
	// Idle means that it begins something that leads back to this very state unless
	// something else happens meanwhile.
	Idle bool
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

// Search walks breadth first through all states, up to a number of them.
func Search[S comparable](m Model[S], limit int) *Found {
	began := time.Now()
	f := &Found{}
	known := newStates(m.Hash)
	known.add(m.Initial(), -1)
	fail := func(err error, at int) {
		f.Err = err
		f.Trace = trace(m, known, at)
	}
	for at, end := 0, 1; at < known.n && f.Err == nil; at++ {
		if at == end {
			f.Depth++
			end = known.n
		}
		if known.n >= limit {
			break
		}
		moves := false
		here := *known.at(at)
		m.Next(here, func(step Step, s S) {
			f.Steps++
			moves = moves || !step.Fault && !step.Idle && s != here
			if f.Err != nil || !known.add(s, int32(at)) {
				return
			}
			if err := m.Check(s); err != nil {
				fail(err, known.n-1)
			}
		})
		if !moves && f.Err == nil {
			if err := m.Rest(here); err != nil {
				fail(err, at)
			}
		}
		f.Complete = at == known.n-1
	}
	f.Complete = f.Complete && f.Err == nil
	f.States, f.Took = known.n, time.Since(began)
	return f
}

// trace is a shortest way to a state. Only where each state was reached from is
// kept: which step it was is found again.
func trace[S comparable](m Model[S], known *states[S], at int) []string {
	var way []int
	for ; at >= 0; at = int(*known.from(at)) {
		way = append([]int{at}, way...)
	}
	var told []string
	for i, to := range way[1:] {
		from, done := *known.at(way[i]), false
		m.Next(from, func(step Step, s S) {
			if !done && s == *known.at(to) {
				told, done = append(told, m.Describe(from, step)), true
			}
		})
	}
	return told
}

// states is the set of known states, numbered as they were found. It takes about
// 20 bytes for each state beside the state itself.
type states[S comparable] struct {
	n      int
	hash   func(S) uint64
	states [][]S
	froms  [][]int32
	// table is an open hash table: the upper half of an entry are bits of the hash,
	// the lower half is the number of the state, counted from 1.
	table []uint64
}

// Chunks never move: large slices need not be copied to grow.
const (
	chunkBits = 16
	chunk     = 1 << chunkBits
)

func newStates[S comparable](hash func(S) uint64) *states[S] {
	return &states[S]{hash: hash, table: make([]uint64, 1<<12)}
}

func (t *states[S]) at(i int) *S       { return &t.states[i>>chunkBits][i&(chunk-1)] }
func (t *states[S]) from(i int) *int32 { return &t.froms[i>>chunkBits][i&(chunk-1)] }

// add is whether the state was not known.
func (t *states[S]) add(s S, from int32) bool {
	h := t.hash(s)
	mask, tag := uint64(len(t.table)-1), h>>32<<32
	i := h & mask
	for ; t.table[i] != 0; i = (i + 1) & mask {
		if e := t.table[i]; e>>32<<32 == tag && *t.at(int(uint32(e)) - 1) == s {
			return false
		}
	}
	if t.n&(chunk-1) == 0 {
		t.states, t.froms = append(t.states, make([]S, chunk)), append(t.froms, make([]int32, chunk))
	}
	*t.at(t.n), *t.from(t.n) = s, from
	t.n++
	t.table[i] = tag | uint64(t.n)
	if t.n*3 > len(t.table)*2 {
		t.grow()
	}
	return true
}

func (t *states[S]) grow() {
	t.table = make([]uint64, 2*len(t.table))
	mask := uint64(len(t.table) - 1)
	for n := range t.n {
		h := t.hash(*t.at(n))
		i := h & mask
		for t.table[i] != 0 {
			i = (i + 1) & mask
		}
		t.table[i] = h>>32<<32 | uint64(n+1)
	}
}
