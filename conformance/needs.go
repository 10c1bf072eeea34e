package conformance

// Requirements are the broker settings with which no scenario is skipped, as
// lines of Kafka's server.properties; see also [Authorizer] and
// [DescriptionPlugin]. Without the first, the initial rebalance delay, most
// scenarios fail: they expect an assignment at once.
func Requirements() []string {
	return []string{
		"group.streams.initial.rebalance.delay.ms=0",
		"group.streams.min.session.timeout.ms=200",
		"group.streams.min.heartbeat.interval.ms=100",
		"group.streams.min.task.offset.interval.ms=100",
		"group.streams.max.size=40",
	}
}

// Authorizer are further broker settings, without which the scenarios about
// access rights are skipped: ACLs are enforced, and what no ACL speaks of is
// allowed.
func Authorizer() []string {
	return []string{
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"allow.everyone.if.no.acl.found=true",
	}
}

// DescriptionPlugin is a further broker setting, without which the scenario about
// topology descriptions is skipped. With it the one about their absence is.
func DescriptionPlugin() []string {
	return []string{"group.streams.topology.description.plugin.class=org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"}
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
