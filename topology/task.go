package topology

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// TaskID names one task: a subtopology and a partition of its source topics.
// The zero value is not a valid task of any topology.
type TaskID struct {
	Subtopology string
	Partition   int32
}

// String returns the usual text form, for example "0_3".
func (t TaskID) String() string {
	return t.Subtopology + "_" + strconv.Itoa(int(t.Partition))
}

// Compare orders tasks by subtopology id (as text, so "10" comes before "2")
// and then by partition (as a number). It is what slices.SortFunc wants.
func (t TaskID) Compare(o TaskID) int {
	if c := strings.Compare(t.Subtopology, o.Subtopology); c != 0 {
		return c
	}
	return cmp.Compare(t.Partition, o.Partition)
}

// ParseTaskID reads the form that String writes. The partition is what follows
// the last underscore, because a subtopology id may itself contain underscores.
func ParseTaskID(s string) (TaskID, error) {
	i := strings.LastIndexByte(s, '_')
	if i < 0 {
		return TaskID{}, fmt.Errorf("topology: task id %q has no underscore: want <subtopology>_<partition>, for example 0_3", s)
	}
	p, err := strconv.ParseInt(s[i+1:], 10, 32)
	if err != nil || p < 0 || strconv.FormatInt(p, 10) != s[i+1:] {
		return TaskID{}, fmt.Errorf("topology: task id %q: %q is not a partition number: want <subtopology>_<partition>, for example 0_3", s, s[i+1:])
	}
	return TaskID{Subtopology: s[:i], Partition: int32(p)}, nil
}
