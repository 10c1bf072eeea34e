package story

import (
	"fmt"
	"slices"
	"strings"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/topology"
)

// conflicts says why tasks wait for members that run an older topology, with the
// partitions of one subtopology put together.
func (t Teller) conflicts(list []coordinator.Conflict) string {
	var b strings.Builder
	for len(list) > 0 {
		first := list[0]
		n := 1
		for n < len(list) && sameReason(&first, &list[n]) {
			n++
		}
		var waiting, as []topology.TaskID
		for i := range list[:n] {
			waiting, as = append(waiting, list[i].Task), append(as, list[i].As)
		}
		what := "what is not known"
		if len(first.Topics) > 0 {
			what = strings.Join(first.Topics, ", ")
		}
		fmt.Fprintf(&b, "; %s: %s works on %s as %s of topology epoch %d", Tasks(waiting), t.name(first.Holder), what, Tasks(as), first.TopologyEpoch)
		list = list[n:]
	}
	return b.String()
}

func sameReason(a, b *coordinator.Conflict) bool {
	return a.Task.Subtopology == b.Task.Subtopology && a.Holder == b.Holder && a.TopologyEpoch == b.TopologyEpoch &&
		a.As.Subtopology == b.As.Subtopology && slices.Equal(a.Topics, b.Topics)
}
