package sim

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/membership"
)

// Mutant makes a world wrong, to see whether that is found. Its hooks stand
// between the cores and their drivers; nil ones change nothing.
type Mutant struct {
	Name string
	// Seed is one that finds it.
	Seed uint64

	// Request changes what the coordinator sees of a request.
	Request func(w *World, m *member, req *kmsg.StreamsGroupHeartbeatRequest)
	// Decision changes what it has decided.
	Decision func(w *World, m *member, fx *coordinator.Effects, resp *kmsg.StreamsGroupHeartbeatResponse)
	// Append changes what gets into the log, and Replay what is read from it. nil
	// leaves a record out.
	Append func(w *World, r record.Record) record.Record
	Replay func(w *World, i int, r record.Record) record.Record

	// Effects changes what a member wants done, Response what it is answered:
	// false keeps the answer from it.
	Effects  func(m *member, fx *membership.Effects)
	Response func(m *member, msg *message, resp *kmsg.StreamsGroupHeartbeatResponse) bool
	// Callback is called when a callback starts.
	Callback func(m *member, cb membership.Callback)

	// ReportConfirmed has members report what the application has confirmed, as
	// Kafka's client does, and not what it is being given as well.
	ReportConfirmed bool

	AnswerEarly   bool // before the records are on disk
	WriteAsNobody bool // a node that has lost the group writes nevertheless
	ApplyAnyway   bool // what could not be written is applied
	ForgetTimers  bool // sessions are not watched after a move
	AcceptCommits bool // of anybody
	CommitLate    bool // members commit for tasks that they have given up
	OneID         bool // the members of a process share an id
	NoTicks       bool // no timer strikes
	// UnorderedNetwork lets what was sent on a broken connection arrive after
	// what was sent later.
	UnorderedNetwork bool
	// HastyTicks is by how much timers strike too early.
	HastyTicks time.Duration
}
