package client

import (
	"cmp"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

func (m *Member) log(level kgo.LogLevel, msg string, keyvals ...any) {
	if m.cfg.logger.Level() >= level {
		m.cfg.logger.Log(level, msg, append([]any{"group", m.group, "member", m.cfg.memberID}, keyvals...)...)
	}
}

// logEvent logs what changes at the levels that an operator expects.
func (m *Member) logEvent(e membership.Event) {
	switch e := e.(type) {
	case membership.StateChanged:
		m.log(kgo.LogLevelInfo, "state changed", "from", e.From, "to", e.To, "epoch", e.Epoch)
	case membership.TargetReceived:
		m.log(kgo.LogLevelInfo, "assignment received", "active", e.Active, "standby", e.Standby, "warmup", e.Warmup, "revoke", e.Revoke, "ready", e.Ready)
	case membership.CallbackFinished:
		m.log(kgo.LogLevelDebug, "callback finished", "kind", e.Kind, "tasks", e.Tasks, "took", e.Took, "err", e.Err)
	case membership.StatusChanged:
		for _, s := range e.Statuses {
			m.log(kgo.LogLevelWarn, "status", "status", s)
		}
	case membership.HeartbeatRejected:
		m.log(kgo.LogLevelInfo, "heartbeat refused", "code", e.Code, "message", e.Message, "epoch", e.Epoch, "retry", e.Retry)
	case membership.HeartbeatLost:
		m.log(kgo.LogLevelDebug, "heartbeat without an answer", "err", e.Err, "retry", e.Retry)
	case membership.LookUpFailed:
		m.log(kgo.LogLevelDebug, "cannot find the coordinator", "err", e.Err, "retry", e.Retry)
	case membership.Unreachable:
		m.log(kgo.LogLevelWarn, "no good answer from the coordinator", "for", e.For, "err", e.Err)
	case membership.FeaturesLeftOut:
		if len(e.Features) > 0 {
			m.log(kgo.LogLevelWarn, "the broker is too old for some of what this member has to tell, and is not told", "version", e.Version, "features", e.Features)
		} else {
			m.log(kgo.LogLevelInfo, "the broker is told everything again", "version", e.Version)
		}
	case membership.RolesOverlap:
		m.log(kgo.LogLevelWarn, "the assignment has tasks in several roles", "ignored", e.Ignored, "merged", e.Merged)
	case membership.SourcesResolved:
		m.log(kgo.LogLevelInfo, "source patterns resolved", "topics", e.Topics)
	case membership.DescriptionSent:
		if e.Err == nil {
			m.log(kgo.LogLevelInfo, "described the topology")
		} else {
			m.log(kgo.LogLevelInfo, "the description of the topology was not taken", "err", e.Err, "retry", e.Retry)
		}
	case membership.TopologyCompared:
		m.logComparison(e)
	case membership.CoordinatorKnown:
		m.log(kgo.LogLevelInfo, "coordinator found", "version", e.Version)
	case membership.CoordinatorLost:
		m.log(kgo.LogLevelInfo, "coordinator lost", "reason", e.Reason)
	case membership.PollTimerExpired:
		m.log(kgo.LogLevelWarn, "the application did not poll in time: leaving until it does", "limit", e.Limit)
	case membership.ShutdownRequested:
		m.log(kgo.LogLevelWarn, "asking for the shutdown of the whole application")
	case membership.LeftSilently:
		m.log(kgo.LogLevelWarn, "left without the coordinator's knowledge: it finds out when the session ends", "attempts", e.Attempts)
	case membership.PolledLate:
		m.log(kgo.LogLevelWarn, "the application polls again, too late", "by", e.By, "limit", e.Limit)
	case membership.GroupSettings:
		m.log(kgo.LogLevelInfo, "group settings", "heartbeat", e.HeartbeatInterval, "offsets", provided(e.TaskOffsetInterval, time.Millisecond), "lag", provided(e.AcceptableRecoveryLag, 0))
	}
}

// provided is a setting, unless it is less than can be meant.
func provided[T cmp.Ordered](setting, least T) any {
	if setting < least {
		return "not provided by this broker"
	}
	return setting
}

// logComparison logs what an upgrade brings. What it was refused for is in the error.
func (m *Member) logComparison(e membership.TopologyCompared) {
	if e.Difference == nil {
		m.log(kgo.LogLevelInfo, "the topology was not compared with the group's", "epoch", m.topo.Epoch(), "err", e.Err)
		return
	}
	m.log(kgo.LogLevelInfo, "the topology is newer than the group's", "epoch", e.Difference.NewerEpoch, "replaces", e.Difference.OlderEpoch, "unread", e.Unread)
	for _, f := range e.Difference.Findings {
		level := kgo.LogLevelInfo
		if f.Severity > topology.Note {
			level = kgo.LogLevelWarn
		}
		m.log(level, "upgrade", "kind", f.Kind, "reason", f.Reason, "remedy", f.Remedy)
	}
}
