package assignor

import (
	"errors"
	"fmt"
)

// ErrNoMembers is returned for a group that has tasks but no members.
var ErrNoMembers = errors.New("assignor: the group has tasks but no members: assign again when a member has joined")

// InputError is returned for a group description that contradicts itself.
type InputError struct {
	// Subtopology or Member is the id at fault; the other one is empty. Both
	// are empty if the fault is in their number.
	Subtopology, Member string
	// Reason says what is wrong.
	Reason string
}

func (e *InputError) Error() string {
	switch {
	case e.Subtopology != "":
		return fmt.Sprintf("assignor: subtopology %q: %s", e.Subtopology, e.Reason)
	case e.Member != "":
		return fmt.Sprintf("assignor: member %q: %s", e.Member, e.Reason)
	}
	return "assignor: " + e.Reason
}
