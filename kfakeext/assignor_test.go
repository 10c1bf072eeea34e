package kfakeext_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/coordinator/assignor"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

// mine is an assignor of a user: it counts its runs.
type mine struct {
	assignor.Assignor
	runs int
}

func (*mine) Name() string { return "mine" }

func (m *mine) Assign(g *assignor.Group) (assignor.Assignment, error) {
	m.runs++
	return m.Assignor.Assign(g)
}

// A group that names it is assigned by it, and no other group is.
func TestAnAssignorOfOnesOwn(t *testing.T) {
	m := &mine{Assignor: assignor.NewSticky()}
	inBubble(t, func(w *wire) {
		w.ok(join("other", "m1", "foo"))
		assert.Zero(w, m.runs)
		require.NoError(w, w.cl.SetGroupConfig("g", map[string]string{"streams.assignor.name": "mine"}))
		assert.Len(w, tasks(w.ok(join("g", "m1", "foo")).ActiveTasks)["s1"], 6)
		assert.Equal(w, 1, m.runs)
		require.NotNil(w, w.describe("g").AssignorName)
		assert.Equal(w, "mine", *w.describe("g").AssignorName)
	}, kfakeext.Assignor(m))
}
