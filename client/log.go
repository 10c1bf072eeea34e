package client

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/membership"
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
			m.log(kgo.LogLevelWarn, "status", "code", s.Code, "detail", s.Detail)
		}
	case membership.HeartbeatRejected:
		m.log(kgo.LogLevelInfo, "heartbeat refused", "code", e.Code, "message", e.Message, "epoch", e.Epoch, "retry", e.Retry)
	case membership.HeartbeatLost:
		m.log(kgo.LogLevelDebug, "heartbeat without an answer", "err", e.Err, "retry", e.Retry)
	case membership.CoordinatorKnown:
		m.log(kgo.LogLevelInfo, "coordinator found", "version", e.Version)
	case membership.CoordinatorLost:
		m.log(kgo.LogLevelInfo, "coordinator lost", "reason", e.Reason)
	case membership.PollTimerExpired:
		m.log(kgo.LogLevelWarn, "the application did not poll in time: leaving until it does", "limit", e.Limit)
	case membership.GroupSettings:
		m.log(kgo.LogLevelInfo, "group settings", "heartbeat", e.HeartbeatInterval, "offsets", e.TaskOffsetInterval, "lag", e.AcceptableRecoveryLag)
	}
}
