package assignor

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// FuzzSticky assigns groups whose members claim to hold anything: an assignment
// must come out that breaks no rule, and the same one whenever it is computed.
func FuzzSticky(f *testing.F) {
	f.Add([]byte{})
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		g := drawGroup(t, shape{tags: rapid.Bool().Draw(t, "tags")})
		for _, a := range []Assignor{NewSticky(), NewSticky(StrictKafka()), NewSticky(IgnorePriorTarget())} {
			out, err := a.Assign(g)
			require.NoError(t, err)
			require.NoError(t, Verify(g, out))
			again, err := a.Assign(g)
			require.NoError(t, err)
			require.Equal(t, out, again)
		}
	}))
}
