package membership

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/topology"
)

// SetTaskOffsets takes over the sums of changelog offsets and ends for all tasks
// with state on this process, active tasks that have caught up left out. The maps
// are kept: do not change them.
func (m *Member) SetTaskOffsets(offsets, ends map[topology.TaskID]int64) {
	m.offsets, m.ends = offsets, ends
}

// buildOffsets adds the offset reports that are due and have changed, or that the
// coordinator may have lost: rules TO-7 to TO-12 and TO-14.
func (m *Member) buildOffsets(now time.Duration, req *kmsg.StreamsGroupHeartbeatRequest) {
	if m.state == Joining {
		req.TaskOffsets, req.TaskEndOffsets = offsetsToWire(m.offsets), offsetsToWire(m.ends)
		m.sentOffsets.keep(m.offsets, now)
		m.sentEnds.keep(m.ends, now)
		m.reportedAt = now
		return
	}
	m.sentOffsets.outdate(now, m.offsetInterval)
	m.sentEnds.outdate(now, m.offsetInterval)
	due := req.ActiveTasks != nil || m.reportedAt < 0 || m.reportedAt+m.offsetInterval <= now ||
		m.sentOffsets.list == nil || m.sentEnds.list == nil || m.hot()
	if !due {
		return
	}
	if m.sentOffsets.list == nil || !sameOffsets(m.sentOffsets.list, m.offsets) {
		req.TaskOffsets = offsetsToWire(m.offsets)
		m.sentOffsets.keep(m.offsets, now)
		m.reportedAt = now
	}
	if m.sentEnds.list == nil || !sameOffsets(m.sentEnds.list, m.ends) {
		req.TaskEndOffsets = offsetsToWire(m.ends)
		m.sentEnds.keep(m.ends, now)
		m.reportedAt = now
	}
}

// sentList is a list of offsets as it was reported last.
type sentList struct {
	list map[topology.TaskID]int64 // nil: nothing was reported
	at   time.Duration
}

// keep tells "nothing was sent" (nil) from "an empty list was sent".
func (s *sentList) keep(list map[topology.TaskID]int64, now time.Duration) {
	if s.list, s.at = list, now; list == nil {
		s.list = map[topology.TaskID]int64{}
	}
}

// outdate forgets a list that was reported long ago, so that it is repeated: a
// coordinator keeps offsets in memory only, and a member cannot always see that
// another one, or the same after a restart, has taken over. Kafka's client repeats
// only what has changed: with changelogs that are idle a new coordinator never
// learns how far a warm-up is.
func (s *sentList) outdate(now, interval time.Duration) {
	if len(s.list) > 0 && interval > 0 && s.at+2*interval <= now {
		s.list = nil
	}
}

// forgetOffsets has offsets reported again.
func (m *Member) forgetOffsets() {
	m.sentOffsets, m.sentEnds, m.reportedAt = sentList{}, sentList{}, -1
}

// leap is by how much endpoint epochs do not grow between two heartbeats.
const leap = 1 << 20

// takeEndpointEpoch looks whether the group was loaded anew. Kafka counts endpoint
// epochs from 0 again then, our coordinator from somewhere else; and what was
// reported of offsets is lost.
func (m *Member) takeEndpointEpoch(epoch int32) {
	if was := m.endpointEpoch; was >= 0 && (epoch < was || epoch-was > leap) {
		m.forgetOffsets()
	}
	m.endpointEpoch = epoch
}

// sameOffsets compares the contents, unless it is one and the same map: nobody
// changes what was handed over.
func sameOffsets(a, b map[topology.TaskID]int64) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer() || maps.Equal(a, b)
}

// hot is whether some warm-up task has caught up, which the coordinator wants to
// know at once. Without a recovery lag nothing is hot.
func (m *Member) hot() bool {
	if m.recoveryLag < 0 {
		return false
	}
	for _, t := range m.confirmed.warmup {
		offset, ok := m.offsets[t]
		end, okEnd := m.ends[t]
		if ok && okEnd && offset != math.MaxInt64 && end != math.MaxInt64 && end-offset <= m.recoveryLag {
			return true
		}
	}
	return false
}

func offsetsToWire(in map[topology.TaskID]int64) []kmsg.TaskOffset {
	out := make([]kmsg.TaskOffset, 0, len(in))
	for _, t := range slices.SortedFunc(maps.Keys(in), topology.TaskID.Compare) {
		w := kmsg.NewTaskOffset()
		w.SubtopologyID, w.Partition, w.Offset = t.Subtopology, t.Partition, in[t]
		out = append(out, w)
	}
	return out
}
