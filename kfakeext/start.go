package kfakeext

// TB is the part of [testing.TB] that Start needs.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Start starts a cluster for a test and closes it with the test's clean-up. Its
// clients connect within the process (see [InProcess]; [TCP] undoes that), so
// it works in a bubble of testing/synctest. Inside of a bubble, pass the t that
// [testing/synctest.Test] hands to its function: clean-up then runs within the
// bubble.
//
// It has one node, no initial rebalance delay, and accepts session time-outs,
// heartbeat intervals and task offset intervals down to a few milliseconds, for
// which Kafka's minimums are 45 s, 5 s and 15 s. Everything else has Kafka's
// defaults. Options come after these settings and win.
func Start(t TB, opts ...Opt) *Cluster {
	t.Helper()
	defaults := []Opt{
		Nodes(1),
		InProcess(),
		BrokerConfig("group.streams.initial.rebalance.delay.ms", "0"),
		BrokerConfig("group.streams.min.session.timeout.ms", "20"),
		BrokerConfig("group.streams.min.heartbeat.interval.ms", "5"),
		BrokerConfig("group.streams.min.task.offset.interval.ms", "5"),
	}
	c, err := NewCluster(append(defaults, opts...)...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(c.Close)
	return c
}
