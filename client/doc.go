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
// One member with as many goroutines as you like is the Go way; a member per
// goroutine is possible but has no advantage.
package client
