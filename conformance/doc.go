// Package conformance is the streams rebalance protocol (KIP-1071) as a list of
// scenarios against any broker.
//
// A [Scenario] speaks raw requests over connections of its own, with a group
// and topics of its own, so that scenarios run in any order and in parallel,
// and leave other users of the broker alone. Each bears the IDs of the rules
// and cases that it shows (docs/rules.md).
//
// A [Target] says how to reach the broker: a dialer, an address, and which of the
// two policies to expect. The same scenarios run against the embedded broker in
// virtual time, against it over TCP, and against Apache Kafka; the last run is
// what shows that the scenarios are right.
//
// A broker must allow a test to shorten its time-outs, and must not delay the
// first assignment (see [Requirements]). Scenarios that need what a broker
// refuses are skipped, with the reason; with an initial rebalance delay most fail.
package conformance
