package topology

import "fmt"

// Kind is the sort of thing that an [Error] is about.
type Kind string

// What can be at fault. [Error.Name] is the name of such a thing.
const (
	KindNode        Kind = "node"
	KindTopic       Kind = "topic"
	KindStore       Kind = "store"
	KindSubtopology Kind = "subtopology"
	KindCopartition Kind = "copartition group"
	KindSetting     Kind = "setting"
	KindApplication Kind = "application id"
)

// Error is one fault of a topology. [Builder.Build] joins all the faults that it
// finds (errors.Join); errors.As yields the first.
type Error struct {
	// Kind and Name say what is at fault, by the name that the caller gave it;
	// topics of a copartition group are named in full, separated by commas.
	Kind Kind
	Name string
	// Reason is what is wrong with it, and Remedy what the caller can do.
	Reason string
	Remedy string
}

func (e *Error) Error() string {
	return fmt.Sprintf("topology: %s %q: %s: %s", e.Kind, e.Name, e.Reason, e.Remedy)
}
