package membership

import (
	"fmt"
	"math"

	"github.com/streamsgroup/streamsgroup/topology"
)

// OffsetReport collects what [Member.SetTaskOffsets] takes: per task with
// changelogs, how far its state has come and how far it has to go, each summed up
// over its changelog partitions. Make a new one for each report, add what is on the
// disk first, then what runs. The zero value is empty. It is not safe for
// concurrent use.
type OffsetReport struct {
	Offsets, Ends map[topology.TaskID]int64
}

// Stored adds a task with state on the disk of this process, whoever runs it or if
// nobody does.
func (r *OffsetReport) Stored(t topology.TaskID, offset int64) {
	if r.Offsets == nil {
		r.Offsets = map[topology.TaskID]int64{}
	}
	r.Offsets[t] = offset
}

// Running replaces the offset of a task that this member runs by the sum of the
// positions up to which its changelog partitions are replayed or written; -1 is a
// position that is not known yet. Without positions what is stored stays.
func (r *OffsetReport) Running(t topology.TaskID, positions ...int64) error {
	if len(positions) == 0 {
		return nil
	}
	known := make([]int64, 0, len(positions))
	for _, p := range positions {
		switch {
		case p == unknownPosition:
		case p < 0:
			return fmt.Errorf("membership: task %v has a changelog position of %d: want 0 or more, or -1 if it is not known", t, p)
		default:
			known = append(known, p)
		}
	}
	r.Stored(t, sum(known))
	return nil
}

// CaughtUp leaves out an active task of this member that has caught up: that is
// known without a report.
func (r *OffsetReport) CaughtUp(t topology.TaskID) { delete(r.Offsets, t) }

// Replaying adds the ends of the changelog partitions of a task that is being
// replayed; -1 is an end that is not known yet, and makes the sum as large as can be.
func (r *OffsetReport) Replaying(t topology.TaskID, ends ...int64) {
	if r.Ends == nil {
		r.Ends = map[topology.TaskID]int64{}
	}
	for _, e := range ends {
		if e < 0 {
			r.Ends[t] = math.MaxInt64
			return
		}
	}
	r.Ends[t] = sum(ends)
}

const unknownPosition = -1

// sum is at most the largest number there is.
func sum(l []int64) (total int64) {
	for _, n := range l {
		if total > math.MaxInt64-n {
			return math.MaxInt64
		}
		total += n
	}
	return total
}
