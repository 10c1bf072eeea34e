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

// buildOffsets adds the offset reports that are due and have changed: rules TO-7
// to TO-12.
func (m *Member) buildOffsets(now time.Duration, req *kmsg.StreamsGroupHeartbeatRequest) {
	if m.state == Joining {
		req.TaskOffsets, req.TaskEndOffsets = offsetsToWire(m.offsets), offsetsToWire(m.ends)
		m.sentOffsets, m.sentEnds, m.reportedAt = known(m.offsets), known(m.ends), now
		return
	}
	due := req.ActiveTasks != nil || m.reportedAt < 0 || m.reportedAt+m.offsetInterval <= now || m.hot()
	if !due {
		return
	}
	if m.sentOffsets == nil || !sameOffsets(m.sentOffsets, m.offsets) {
		req.TaskOffsets = offsetsToWire(m.offsets)
		m.sentOffsets, m.reportedAt = known(m.offsets), now
	}
	if m.sentEnds == nil || !sameOffsets(m.sentEnds, m.ends) {
		req.TaskEndOffsets = offsetsToWire(m.ends)
		m.sentEnds, m.reportedAt = known(m.ends), now
	}
}

// sameOffsets compares the contents, unless it is one and the same map: nobody
// changes what was handed over.
func sameOffsets(a, b map[topology.TaskID]int64) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer() || maps.Equal(a, b)
}

// known tells "nothing was sent" (nil) from "an empty list was sent".
func known(in map[topology.TaskID]int64) map[topology.TaskID]int64 {
	if in == nil {
		return map[topology.TaskID]int64{}
	}
	return in
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
