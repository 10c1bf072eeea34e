package sim

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMutants has every wrong variant found. It begins with the seed that found it
// last; if the cores have changed since, others are tried.
func TestMutants(t *testing.T) {
	t.Parallel()
	for _, m := range Mutants() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			steps := 0
			for s := range uint64(4000) {
				if s == 0 && (m.Seed == 0 || *fresh) {
					continue
				}
				seed := s
				if s == 0 {
					seed = m.Seed
				}
				r := Run(NewPlan(seed), Options{Mutant: m})
				steps += r.Steps
				if v := r.Violation; v != nil {
					t.Logf("|%s|%d|%d|%s|", m.Name, seed, steps, v.Rule)
					return
				}
			}
			t.Errorf("it survives %d steps", steps)
		})
	}
}

// TestNoMutant makes sure that the seeds in question are good ones otherwise.
func TestNoMutant(t *testing.T) {
	t.Parallel()
	for _, m := range Mutants() {
		r := Run(NewPlan(m.Seed), Options{})
		require.Nil(t, r.Violation, "seed %d", m.Seed)
	}
}
