package client

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// OffsetTarget says where the committed offsets of a group are to be set.
type OffsetTarget struct {
	kind targetKind
	n    int64
	at   time.Time
}

type targetKind int8

const (
	toOffset targetKind = iota
	shiftBy
	toEarliest
	toLatest
	toCurrent
	toTime
)

// ToOffset is an offset.
func ToOffset(offset int64) OffsetTarget { return OffsetTarget{kind: toOffset, n: offset} }

// ShiftBy is so many offsets after the committed one, or before, if it is negative.
func ShiftBy(n int64) OffsetTarget { return OffsetTarget{kind: shiftBy, n: n} }

// ToEarliest is the first offset that there is.
func ToEarliest() OffsetTarget { return OffsetTarget{kind: toEarliest} }

// ToLatest is the offset after the last record.
func ToLatest() OffsetTarget { return OffsetTarget{kind: toLatest} }

// ToCurrent is the committed offset, or the end where there is none.
func ToCurrent() OffsetTarget { return OffsetTarget{kind: toCurrent} }

// ToTime is the offset of the first record that is not older, or the end where there
// is none.
func ToTime(t time.Time) OffsetTarget { return OffsetTarget{kind: toTime, at: t} }

// Time is the time of a target that was made with [ToTime]: what comes at or after it
// has to be found out for each partition.
func (t OffsetTarget) Time() (at time.Time, ok bool) { return t.at, t.kind == toTime }

// PartitionRange is what is known of a partition when its offset is planned.
type PartitionRange struct {
	// Start is its first offset, End the one after its last.
	Start, End int64
	// Committed is the group's, -1 if there is none.
	Committed int64
	// AtTime is the first offset at or after the time of a target made with [ToTime],
	// -1 if there is no such record.
	AtTime int64
}

// ErrNothingCommitted is that an offset cannot be shifted, because nothing was
// committed.
var ErrNothingCommitted = errors.New("nothing was committed that could be shifted: choose another target")

// PlannedOffset is the offset to commit for a partition.
type PlannedOffset struct {
	Offset int64
	// Wanted is what the target says. It differs from Offset where the partition does
	// not reach that far.
	Wanted int64
}

// Warning says, for people, that the partition does not reach as far as the target;
// empty if it does.
func (p PlannedOffset) Warning() string {
	switch {
	case p.Wanted < p.Offset:
		return fmt.Sprintf("offset %d is before the first one: it is set to %d", p.Wanted, p.Offset)
	case p.Wanted > p.Offset:
		return fmt.Sprintf("offset %d is after the end: it is set to %d", p.Wanted, p.Offset)
	}
	return ""
}

// Plan applies the target to a partition. It asks nobody and changes nothing. The
// error is [ErrNothingCommitted].
func (t OffsetTarget) Plan(r PartitionRange) (PlannedOffset, error) {
	switch t.kind {
	case shiftBy:
		if r.Committed < 0 {
			return PlannedOffset{}, ErrNothingCommitted
		}
		if t.n > math.MaxInt64-r.Committed {
			return r.clamp(math.MaxInt64), nil
		}
		return r.clamp(r.Committed + t.n), nil
	case toEarliest:
		return PlannedOffset{r.Start, r.Start}, nil
	case toCurrent:
		if r.Committed >= 0 {
			return PlannedOffset{r.Committed, r.Committed}, nil
		}
	case toTime:
		if r.AtTime >= 0 {
			return PlannedOffset{r.AtTime, r.AtTime}, nil
		}
	case toOffset:
		return r.clamp(t.n), nil
	}
	return PlannedOffset{r.End, r.End}, nil
}

func (r PartitionRange) clamp(offset int64) PlannedOffset {
	return PlannedOffset{Offset: max(r.Start, min(offset, r.End)), Wanted: offset}
}
