package sim

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func mutant(t *testing.T, name string) Mutant {
	t.Helper()
	for _, m := range Mutants() {
		if m.Name == name {
			return m
		}
	}
	require.Fail(t, "there is no such mutant")
	return Mutant{}
}

// TestMinimize makes a plan smaller that a wrong variant fails in.
func TestMinimize(t *testing.T) {
	t.Parallel()
	o := Options{Mutant: mutant(t, "answers before the records are on disk")}
	p := NewPlan(o.Mutant.Seed)
	before := Run(p, o)
	require.NotNil(t, before.Violation)
	small := Minimize(p, o, 500)
	after := Run(small, o)
	require.NotNil(t, after.Violation)
	assert.Equal(t, before.Violation.Rule, after.Violation.Rule)
	assert.Less(t, len(small.Faults), len(p.Faults))
	for i := range small.Faults {
		q := *small
		q.Faults = append(append([]Fault(nil), small.Faults[:i]...), small.Faults[i+1:]...)
		if v := Run(&q, o).Violation; v != nil {
			assert.NotEqual(t, before.Violation.Rule, v.Rule, "fault %d is not needed", i)
		}
	}
}

// TestSameSeedSameRun compares two runs line by line: a failure can be played
// again.
func TestSameSeedSameRun(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 20; seed++ {
		a, b := Run(NewPlan(seed), Options{Tell: true}), Run(NewPlan(seed), Options{Tell: true})
		require.Equal(t, a.Transcript(), b.Transcript(), "seed %d", seed)
		require.Equal(t, a.Steps, b.Steps)
		require.NotEmpty(t, a.Transcript())
		quiet := Run(NewPlan(seed), Options{})
		require.Equal(t, a.Steps, quiet.Steps, "telling changes what happens")
	}
}
