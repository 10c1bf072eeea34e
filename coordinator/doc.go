// Package coordinator is what the broker does for streams groups (KIP-1071): it
// decides who is a member, which topics are needed, which member runs which
// task, and when a member may start with a task that another one holds.
//
// A [Coordinator] is a state machine without input or output. Handling a request
// has three steps: decide ([Coordinator.Handle] fills a response and effects and
// changes nothing), append (the driver writes the records to its log), apply
// ([Coordinator.Apply] makes them part of the state). If the append fails, the
// decision is discarded and nothing has happened. A group is loaded by replaying
// its records, through the same code that applies them.
//
// What is not in the records is soft: timers, task offsets, the topics as last
// seen, who asked for a shutdown. It is lost when another node takes over.
package coordinator
