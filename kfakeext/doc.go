// Package kfakeext gives kfake, franz-go's in-process Kafka, a coordinator for
// the streams rebalance protocol (KIP-1071). A whole cluster runs inside one
// process: in tests, in virtual time, without a JVM.
//
//	cl := kfakeext.Start(t, kfakeext.Topic("lines", 4))
//	client, err := kgo.NewClient(cl.KgoOpts()...)
//
// There are three ways in:
//
//   - [Start] is for tests: one line, closed by the test, safe inside a bubble
//     of testing/synctest.
//   - [NewCluster] makes a cluster and its coordinator.
//   - [Attach] adds the coordinator to a kfake cluster of your own, whose
//     listeners must come from a [Tap].
//
// # Defaults
//
// [NewCluster] and [Attach] keep Kafka's defaults for all group.streams.*
// configs: sessions of 45 s, heartbeats every 5 s, an initial rebalance delay of
// 3 s, at most one assignment per second. kfake's own defaults hold for the
// rest (three nodes unless [Nodes] says otherwise). [Start] differs in this
// only: one node, in-process connections, no initial rebalance delay, and low
// minimums (session time-out, heartbeat interval, task offset interval) so that
// a test may lower those settings per group or for the broker. Its session
// time-out and heartbeat interval themselves are Kafka's.
//
// # Layers
//
// The tap sits between the listeners and kfake. It tells the coordinator who
// sends a request, and edits responses of kfake that have to speak of streams
// groups. The adapter is one control function of the cluster. It turns requests
// into questions to the coordinator, a pure state machine, keeps what it
// decides in a log, and replays that log when the coordinator of a group moves.
// kfake keeps the committed offsets.
//
// # What is not there
//
// Requests too old for tagged fields (ListGroups before version 3, for example)
// carry no identity: their responses are kfake's own. kfake's ACLs are not
// consulted for what the coordinator answers itself; see [Authorize]. Topology
// descriptions (KIP-1331) are answered as by a broker without the plugin.
// Members and assignments do not survive a restart of the process, committed
// offsets do with [DataDir].
package kfakeext
