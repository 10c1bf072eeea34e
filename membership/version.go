package membership

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Kafka 4.2 and 4.3 speak version 0 of the heartbeat only, and answer
// INVALID_REQUEST to instance ids, offsets of tasks and warm-up tasks.

// leftOut is what a member does not tell a coordinator of version 0.
var leftOut = []string{"task offsets", "task end offsets", "warm-up tasks"}

// takeVersion takes over the version that the coordinator speaks, which may be
// another one than before: brokers are upgraded while members run.
func (m *Member) takeVersion(version int16) {
	before := m.version
	m.version = version
	if before == version {
		return
	}
	m.forgetSent() // the coordinator may lack what it could not be told
	switch {
	case version == 0:
		m.event(FeaturesLeftOut{Version: version, Features: leftOut})
	case before == 0:
		m.event(FeaturesLeftOut{Version: version})
	}
}

// UnsupportedOptionError is an option that the coordinator cannot honour. It is the
// cause of the [Error] that ends the membership.
type UnsupportedOptionError struct {
	Option  string
	Version int16 // of the heartbeat, the highest that the coordinator speaks
}

func (e *UnsupportedOptionError) Error() string {
	return fmt.Sprintf("%s needs a newer broker: this one speaks version %d of the heartbeat", e.Option, e.Version)
}

// Unwrap is what a broker would have answered.
func (*UnsupportedOptionError) Unwrap() error { return kerr.UnsupportedVersion }

// checkVersion ends a static membership that the coordinator cannot serve.
func (m *Member) checkVersion() {
	if m.coordinator && m.version == 0 && m.cfg.InstanceID != "" {
		m.fail(m.problem(&UnsupportedOptionError{"InstanceID", m.version}, "the broker does not support static members", "upgrade it to Kafka 4.4, or leave out the instance id"), false)
	}
}

// unreachableAfter is how long a coordinator may be silent before it is worth a
// warning, and how often that is repeated (CO-7).
const unreachableAfter = time.Minute

// warnUnreachable tells that the member has had no good answer for long.
func (m *Member) warnUnreachable(now time.Duration, err error) {
	if m.state.inGroup() && now-m.warnedAt >= unreachableAfter {
		m.warnedAt = now
		m.event(Unreachable{For: now - m.heardAt, Err: err})
	}
}
