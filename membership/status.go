package membership

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The codes of statuses, with Kafka's numbers. Members treat others as harmless.
const (
	StatusStaleTopology int8 = iota
	StatusMissingSourceTopics
	StatusIncorrectlyPartitionedTopics
	StatusMissingInternalTopics
	StatusShutdownApplication
	StatusAssignmentDelayed
	StatusMissingClientTags
)

var statusNames = [...]string{
	"STALE_TOPOLOGY", "MISSING_SOURCE_TOPICS", "INCORRECTLY_PARTITIONED_TOPICS", "MISSING_INTERNAL_TOPICS",
	"SHUTDOWN_APPLICATION", "ASSIGNMENT_DELAYED", "MISSING_CLIENT_TAGS",
}

// Status is one entry of a response's status list. The detail is for people.
type Status struct {
	Code   int8
	Detail string
}

func (s Status) String() string {
	name := fmt.Sprintf("status %d", s.Code)
	if s.Code >= 0 && int(s.Code) < len(statusNames) {
		name = statusNames[s.Code]
	}
	if s.Detail == "" {
		return name
	}
	return name + ": " + s.Detail
}

// hinders is whether a group does not process because of the status: topics are
// missing or wrong, or the assignment is delayed. A code that we do not know does
// not hinder anybody (ST-6).
func hinders(code int8) bool {
	switch code {
	case StatusMissingSourceTopics, StatusIncorrectlyPartitionedTopics, StatusMissingInternalTopics, StatusAssignmentDelayed:
		return true
	}
	return false
}

// ready is whether the group processes. No list is an empty one.
func ready(in []kmsg.StreamsGroupHeartbeatResponseStatus) bool {
	return !slices.ContainsFunc(in, func(s kmsg.StreamsGroupHeartbeatResponseStatus) bool { return hinders(s.StatusCode) })
}

// StatusError is the cause of an [Error] that ends a membership because of a status
// (Config.FailOnStatus).
type StatusError struct {
	Status Status
	// After is how long the status has lasted.
	After time.Duration
}

func (e *StatusError) Error() string {
	if e.After > 0 {
		return fmt.Sprintf("%v (for %v)", e.Status, e.After)
	}
	return e.Status.String()
}

// countdown is how long source topics have been missing.
type countdown struct {
	running      bool
	since, limit time.Duration // a limit below 0 is none
}

func (m *Member) takeStatuses(in []kmsg.StreamsGroupHeartbeatResponseStatus) {
	m.watchMissingTopics(slices.ContainsFunc(in, func(s kmsg.StreamsGroupHeartbeatResponseStatus) bool {
		return s.StatusCode == StatusMissingSourceTopics
	}))
	same := len(in) == len(m.statuses)
	for i := 0; same && i < len(in); i++ {
		same = in[i].StatusCode == m.statuses[i].Code && in[i].StatusDetail == m.statuses[i].Detail
	}
	if same {
		return
	}
	m.statuses = nil
	for _, s := range in {
		m.statuses = append(m.statuses, Status{Code: s.StatusCode, Detail: strings.Clone(s.StatusDetail)})
	}
	m.event(StatusChanged{Statuses: slices.Clone(m.statuses)})
}

// watchMissingTopics starts the countdown when source topics begin to be missing,
// with the interval of that moment, and drops it when they are there (ST-2).
func (m *Member) watchMissingTopics(missing bool) {
	switch {
	case !missing:
		m.missing.running = false
	case !m.missing.running:
		m.missing = countdown{running: true, since: m.now, limit: m.cfg.MissingTopicsPatience}
		if m.missing.limit == 0 {
			m.missing.limit = 2 * m.interval
		}
	}
}

// clearStatuses forgets what was said to an earlier membership.
func (m *Member) clearStatuses() {
	m.missing.running = false
	if len(m.statuses) > 0 {
		m.statuses = nil
		m.event(StatusChanged{})
	}
}

// actOnStatuses ends the membership where the threads of Kafka Streams die: the
// codes are looked at in their order, missing source topics last (ST-3).
func (m *Member) actOnStatuses(now time.Duration) {
	for _, s := range m.statuses {
		switch {
		case !m.state.live():
			return // once is enough (ST-4)
		case s.Code == StatusIncorrectlyPartitionedTopics:
			m.stop(&StatusError{Status: s}, "the topics do not fit the topology", "give topics that are read together the same number of partitions")
		case s.Code == StatusShutdownApplication:
			m.stop(&StatusError{Status: s}, "a member of the group has asked for the shutdown of the whole application", "see why it did; start the application again when all members have left")
		}
	}
	if at, ok := m.patienceEnds(); ok && now >= at {
		i := slices.IndexFunc(m.statuses, func(s Status) bool { return s.Code == StatusMissingSourceTopics })
		m.stop(&StatusError{Status: m.statuses[i], After: now - m.missing.since}, "source topics are missing", "create them before the application starts")
	}
}

// patienceEnds is when missing source topics end the membership.
func (m *Member) patienceEnds() (at time.Duration, ok bool) {
	c := m.missing
	return c.since + c.limit, m.cfg.FailOnStatus && c.running && c.limit >= 0 && m.state.live()
}

// stop ends a membership that is in order: the application gives up its tasks and
// the coordinator is told. Kafka Streams says nothing and lets the session end.
func (m *Member) stop(cause error, reason, remedy string) {
	err := m.problem(cause, reason, remedy)
	err.Fatal = true
	m.report(err)
	m.Leave(m.now, LeaveDefault)
}
