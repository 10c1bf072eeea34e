// Package assignor decides which member of a streams group runs which task.
//
// An [Assignor] is a pure function from a description of the group to an
// assignment. It starts no goroutine, reads no clock, keeps no reference into
// its input, and gives the same answer whatever the order of the input's
// slices and maps.
//
// # The sticky assignor
//
// [Sticky] is what Kafka calls "sticky": tasks stay where they are, task counts
// per member stay near equal, and members that already hold a task's state are
// preferred. It works in passes:
//
//  1. active tasks of stateful subtopologies, then those of stateless ones.
//     Each pass asks first the owner, then whoever has a copy, and deals what
//     is left to the least loaded process. A quota per member keeps the counts
//     even while the first two steps hand out tasks;
//  2. standbys of stateful tasks: where client tags are configured, to
//     processes that differ from those which already hold the task; then to
//     the former owner, to former standbys, and to the least loaded process.
//
// Kafka leaves several choices to the order of hash maps and heaps. Here every
// tie has a rule, so that equal inputs have equal results.
//
// # The highly available assignor
//
// [HighlyAvailable] starts from the same rules. It treats a process with its disk
// as one place, evens out counts exactly, looks for the newest copies, keeps
// standbys where they are, and mends by exchanges what the order of visits has
// spoilt. See docs/assignors.md for the rules and for how it compares.
//
// # Words
//
// A process is the set of members with one process id; they share a disk. Its
// capacity is the number of its members and its load the number of its tasks
// divided by its capacity. A process never holds a task twice. A member is
// stale if its topology epoch is not the group's, else it is fresh: stale
// members may keep some of what they run and gain nothing, so that a rolling
// upgrade moves work only towards the new version of the application.
//
// # Checking results
//
// [Verify] checks any assignment against the rules that every assignor has to
// keep. The coordinator refuses the result of an assignor that breaks them.
// [Shortages] counts what could not be placed, which is not an error.
package assignor
