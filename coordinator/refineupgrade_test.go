package coordinator

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A member comes back with the group's topology within the assignment interval. The plan
// of the epoch has what it worked on under the ids of the older topology, which stand for
// something else by now: it gets its work back under the new ones.
func TestPlanOfAMemberThatComesBackUpgraded(t *testing.T) {
	older, newer := shape(0, "0=A/S 1=B/T 2=C/U"), shape(1, "0=B/T 1=C/U")
	start := func(w *world) *runs {
		w.brokerConfig("group.streams.assignors", "highly_available")
		w.brokerConfig("group.streams.assignment.interval.ms", "15000")
		for _, topic := range []string{"A", "B", "C", "S", "T", "U"} {
			w.topic(topic, 2)
		}
		return newRuns(w)
	}
	runCases(t, []testCase{
		{"dynamic", kipMode, func(w *world) {
			r := start(w)
			r.join("old", older)
			r.join("new", newer)
			r.rest("old", "1:0,1 2:0,1", "new", "-")
			r.join("old", newer)
			r.rest("old", "0:0,1 1:0,1", "new", "-")
			for range 40 {
				w.advance(time.Second)
				r.settle()
			}
			r.rest("old", "0:0,1 1:0,1", "new", "-")
			w.wantState(Stable)
			for range 4 { // two warm-ups at a time, which catch up at once
				w.advance(16 * time.Second)
				a := w.hb("new", r.epochs["new"], func(q *Request) {
					for _, t := range r.owned["new"].warmup {
						o := kmsg.NewTaskOffset()
						o.SubtopologyID, o.Partition, o.Offset = t.Subtopology, t.Partition, 7
						q.TaskOffsets, q.TaskEndOffsets = append(q.TaskOffsets, o), append(q.TaskEndOffsets, o)
					}
				})
				r.took("new", a)
				r.settle()
			}
			r.rest("old", "0:0 1:0", "new", "0:1 1:1")
			w.wantState(Stable)
		}},
		{"static, under another id", kipMode, func(w *world) {
			r := start(w)
			r.took("old", w.join("old", with(older), inst("i")))
			r.join("new", newer)
			r.rest("old", "1:0,1 2:0,1", "new", "-")
			w.hb("old", -2, inst("i")).ok(-2)
			delete(r.epochs, "old")
			r.took("back", w.join("back", with(newer), inst("i")))
			r.rest("back", "0:0,1 1:0,1", "new", "-")
		}},
	})
}
