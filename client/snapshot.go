package client

import (
	"slices"

	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Snapshot is a member at one moment, with everything that an operator asks for.
type Snapshot struct {
	membership.Snapshot
	// Node is the coordinator's, -1 while the coordinator is not known.
	Node int32
}

// Snapshot describes the member as it is now. It shares nothing with the member
// that can change.
func (m *Member) Snapshot() Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Snapshot{Snapshot: m.core.Snapshot(m.now()), Node: m.node}
	if m.given != nil {
		s.LastError = m.given
	}
	return s
}

// Tasks are all tasks that the application confirmed: active, standby, warm-up.
func (s Snapshot) Tasks() []topology.TaskID { return slices.Concat(s.Active, s.Standby, s.Warmup) }
