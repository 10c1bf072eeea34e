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
// kfake keeps the committed offsets. With [DataDir] all of it survives a restart
// of the process.
//
// # Rights
//
// Where kfake enforces ACLs ([kfake.EnableACLs]) they govern the requests of
// streams groups as well: READ, DESCRIBE and DELETE on the group, DESCRIBE on the
// topics of a topology, CREATE on the cluster or on the internal topics. On a
// cluster with SASL, name a superuser with [Superuser]. [Authorize] takes the
// place of all that.
//
// # Requests of our own
//
// The coordinator is also a client of the cluster, over in-process connections.
// It creates internal topics with CreateTopics, in the background, as a broker
// asks its controller; for topologies with source patterns it lists topics with
// Metadata. On connections that have authenticated, the tap asks with
// DescribeCluster, and once with DescribeACLs, what their user may do. Control
// functions of tests see these requests like any other, and may answer them.
//
// # Limits
//
// A request is 100 MiB at most, as in Kafka (socket.request.max.bytes), and
// kfake hears of a large one only when it is there: what is announced and does
// not come takes no memory. A connection that breaks these rules is closed, and
// so is one that sends a request of an unknown key, or has two requests under way
// with the same correlation id where the tap has to tell their responses apart.
// An empty SASL/PLAIN password authenticates nobody.
//
// Internal topics get 10,000 partitions at a time, Kafka's limit for one
// request; what is beyond it waits for a retry. The source patterns of a
// topology are refused (STREAMS_INVALID_TOPOLOGY) if they compile to more than
// about 10,000 instructions together. All other lists of a request may be as
// long as the request, and take time in proportion to it. An answer may be much
// longer: a description of groups is as long as the groups that it names.
//
// # What is not there
//
// Requests too old for tagged fields carry no identity: the responses to
// DeleteGroups before version 2, IncrementalAlterConfigs 0 and AlterConfigs
// before 2 are kfake's own where it has a part in them, and so are those to
// ListGroups before 3 and DescribeGroups before 5 of a cluster with several
// nodes. Topology
// descriptions (KIP-1331) are answered as by a broker without the plugin.
package kfakeext
