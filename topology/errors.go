package topology

import "fmt"

// Kind is the sort of thing that an [Error] is about.
type Kind string

// The kinds of things that can be wrong.
const (
	Nodes         Kind = "node"
	Topics        Kind = "topic"
	Stores        Kind = "store"
	Subtopologies Kind = "subtopology"
	Copartition   Kind = "copartition group"
	Setting       Kind = "setting"
	Application   Kind = "application id"
)

// Error is one fault of a topology: what is wrong with what, and what to do.
// [Builder.Build] returns all faults that it finds, joined; use errors.As to get
// at the first.
type Error struct {
	Kind   Kind
	Name   string
	Reason string
	Remedy string
}

func (e *Error) Error() string {
	return fmt.Sprintf("topology: %s %q: %s: %s", e.Kind, e.Name, e.Reason, e.Remedy)
}
