// Package client makes a Go program a member of a Kafka streams group (KIP-1071).
//
// [Member] is the membership alone, over a *kgo.Client of yours: it joins, sends
// heartbeats, tells you through callbacks which tasks to run, and leaves. It works
// against Apache Kafka 4.2 and later and against the coordinator of this project.
//
// [Consumer] sits above it: it builds its own kgo clients, fetches the records of
// the assigned tasks, commits with member id and member epoch, and restores
// changelogs. All its callbacks run inside [Consumer.Poll].
//
// One member with as many goroutines as you like is the Go way; several members in
// one process are possible, and share a [Process].
//
// # The end
//
// [Member.Run] returns when its context ends, which is what a program does at SIGTERM.
// It then revokes the tasks, so that the callback can commit, leaves the group within
// [LeaveTimeout] on a context of its own, and returns nil. A membership that fails for
// good ends Run with a *[membership.Error], which wraps the broker's *kerr.Error and
// says what can be done. What is retriable never ends it: it shows in
// [Member.Snapshot], in events and to hooks.
//
// Statuses that Kafka Streams dies of end the membership, too, after an orderly leave:
// see [FailOnStatus]. So [Member.RequestShutdown] of one member ends them all.
//
// # Static members
//
// With an [InstanceID] the tasks of a member that leaves wait for its return, as long as
// its session lasts. Give it a [StateDir] as well: a member that comes back as another
// process is a changed one, and the coordinator computes the assignment anew. In a
// StatefulSet the name of the pod is the instance id and the volume has the state
// directory, see the example of StateDir.
//
// # Exactly once
//
// With [ExactlyOnce] or [TransactionalID] a [Consumer] writes with transactions: call
// [Consumer.Begin] after each Poll, produce with [Consumer.Produce], mark what was
// processed, and [Consumer.Commit]. What was written and how far the input was read become
// visible together, or not at all. A transaction may span several polls; commit in the
// callback for revoked tasks, or the Consumer aborts what is open there. If Commit returns
// [ErrAborted] or [ErrFenced], Poll goes on from where the group has got to; the loop may,
// too. Two members that share a transactional id by mistake do not disturb each other for
// long: the older ends with [ErrReplaced].
//
// This covers what goes from topics to topics of one cluster, read by those that read
// committed records only. State is covered if it can be had from a changelog that is
// written with Produce: [Consumer.RestoreChangelog] reads what was committed, and waits for
// transactions that may yet commit. So state in memory must be dropped, and restored, when
// a transaction was aborted. What a program does elsewhere, in a database or over the
// network, may be done again.
//
// Offsets that go with records are committed with the member's id and epoch, and are
// refused if the tasks are somebody else's by then. A broker that has lost sight of a
// member gives its tasks away when the session is over; the next owner starts once the
// last transaction of the former one has ended, which takes the transaction's time-out if
// nobody comes back with its id.
//
// # Upgrades
//
// A new version of an application has the next topology epoch, and its members replace
// those of the older version one by one. Before a member brings a new topology to the
// group it compares, and does not join if state or records would be lost: see
// [UpgradeError], [AllowUpgrade], and [CheckUpgrade] to know before. The chapter
// "Upgrading a topology" in docs/upgrading.md has the rules for operators.
//
// # Brokers of three generations
//
// Kafka 4.2 and 4.3 know version 0 of the protocol, in which there are no static
// members, and no positions of tasks by which warm-up tasks are chosen. The member
// finds out which version its coordinator speaks, also when the broker is replaced under
// it, and says once in the log what it therefore leaves out. A static member ends with
// an error that says so, and so does one whose topology has source patterns, which only
// the coordinator of this project knows.
//
// # What is not there
//
// Named topologies, pausing and resuming a whole group, transactional ids that the
// broker manages, and the migration of a classic group that has members: KIP-1071 leaves
// them to the future as well. To come from a classic group, stop all its members first;
// the committed offsets stay.
package client
