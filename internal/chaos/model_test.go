package chaos

import (
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
)

func TestRegister(t *testing.T) {
	t.Parallel()
	owned := register{offset: 5, holder: "a", since: 3}
	free := register{offset: 5}
	for name, c := range map[string]struct {
		from register
		in   input
		ok   bool
		then register
	}{
		"a task that nobody has is granted":       {free, input{action: grant, member: "b", epoch: 4}, true, register{5, "b", 4}},
		"one that somebody has is not":            {owned, input{action: grant, member: "b", epoch: 4}, false, owned},
		"its owner may get it again":              {owned, input{action: grant, member: "a", epoch: 4}, true, register{5, "a", 4}},
		"the owner releases":                      {owned, input{action: release, member: "a"}, true, free},
		"a former owner's release does nothing":   {owned, input{action: release, member: "b"}, true, owned},
		"the session of the owner ends":           {owned, input{action: expire, member: "a", epoch: 3}, true, free},
		"a former session of the owner ends":      {owned, input{action: expire, member: "a", epoch: 2}, true, owned},
		"the owner is not outside":                {owned, input{action: outside, member: "a"}, false, owned},
		"others may be":                           {owned, input{action: outside, member: "b"}, true, owned},
		"the owner commits":                       {owned, input{action: commit, member: "a", epoch: 3, offset: 9}, true, register{9, "a", 3}},
		"in a later epoch, too":                   {owned, input{action: commit, member: "a", epoch: 7, offset: 9}, true, register{9, "a", 3}},
		"not from before it had the task":         {owned, input{action: commit, member: "a", epoch: 2, offset: 9}, false, owned},
		"nobody else commits":                     {owned, input{action: commit, member: "b", epoch: 3, offset: 9}, false, owned},
		"a refused commit does nothing":           {owned, input{action: commit, member: "a", epoch: 3, offset: 9, outcome: refused}, true, owned},
		"the owner's commit is not stale":         {owned, input{action: commit, member: "a", epoch: 3, offset: 9, outcome: stale, exact: true}, false, owned},
		"it may be because of another partition":  {owned, input{action: commit, member: "a", epoch: 3, offset: 9, outcome: stale}, true, owned},
		"a commit without an answer may count":    {owned, input{action: commit, member: "a", epoch: 3, offset: 9, outcome: unknown}, true, register{9, "a", 3}},
		"one of a former owner does not":          {owned, input{action: commit, member: "b", epoch: 3, offset: 9, outcome: unknown}, true, owned},
		"a fetch returns what was committed":      {owned, input{action: fetch, offset: 5}, true, owned},
		"and nothing else":                        {owned, input{action: fetch, offset: 4}, false, owned},
		"a group without members is deleted":      {free, input{action: remove}, true, register{offset: -1}},
		"one with members is not":                 {owned, input{action: remove}, false, owned},
		"a deletion without an answer may fail":   {owned, input{action: remove, outcome: unknown}, true, owned},
		"a deletion without an answer may happen": {free, input{action: remove, outcome: unknown}, true, register{offset: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ok, then := c.from.step(c.in)
			assert.Equal(t, c.ok, ok)
			if ok {
				assert.Equal(t, c.then, then)
			}
			assert.NotEmpty(t, c.in.String())
		})
	}
}

// A commit without an answer may take effect late, but not once its member has lost the
// task.
func TestCommitWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	history := func(fetched int64) []porcupine.Operation {
		of := func(call, end int64, in input) porcupine.Operation {
			return porcupine.Operation{Input: in, Call: call, Return: end}
		}
		return []porcupine.Operation{
			of(1, 2, input{action: grant, member: "a", epoch: 1}),
			of(3, 99, input{action: commit, member: "a", epoch: 1, offset: 10, outcome: unknown}),
			of(4, 5, input{action: fetch, offset: -1}),
			of(6, 7, input{action: release, member: "a"}),
			of(8, 9, input{action: grant, member: "b", epoch: 2}),
			of(10, 11, input{action: commit, member: "b", epoch: 2, offset: 20}),
			of(12, 13, input{action: fetch, offset: fetched}),
		}
	}
	assert.True(t, porcupine.CheckOperations(model(), history(20)))
	assert.False(t, porcupine.CheckOperations(model(), history(10)))
}
