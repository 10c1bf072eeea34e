// Package membership is what one member of a streams group does (KIP-1071): when
// it sends a heartbeat and what is in it, what each answer means, and which
// callbacks the application must run in which order.
//
// A [Member] is a state machine without input or output. The driver feeds it
// inputs with the time, calls [Member.Step], does what the [Effects] say, and
// calls Step again at [Member.NextDeadline]. The same machine runs over a real
// broker, in virtual time and in tests.
//
// The order that it guarantees: active tasks are revoked before new ones are
// assigned; what was revoked is reported to the coordinator only after the
// callback for it has returned; a fenced member runs "tasks lost" before it joins
// again.
//
// docs/member-rules.md has the rules one by one, with the IDs that comments and tests
// name.
package membership
