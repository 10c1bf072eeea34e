package conformance

// Requirements are the broker settings with which no scenario is skipped, as
// lines of Kafka's server.properties.
func Requirements() []string {
	return []string{
		"group.streams.initial.rebalance.delay.ms=0",
		"group.streams.min.session.timeout.ms=200",
		"group.streams.min.heartbeat.interval.ms=100",
		"group.streams.min.task.offset.interval.ms=100",
	}
}

// NeedShortSession gives the group a session time-out of a second, or skips the
// scenario.
func (c *C) NeedShortSession() {
	c.Config("streams.session.timeout.ms", "1000", "streams.heartbeat.interval.ms", "100")
}

// Need44 skips the scenario at brokers before Kafka 4.4, which refuse static
// members and task offsets and know no client tags.
func (c *C) Need44() {
	if !c.HasRelease44() {
		c.Skip("Apache Kafka has this from 4.4 on (heartbeat version 1)")
	}
}
