package timeline

import (
	"fmt"
	"slices"
	"time"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/internal/story"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

func (l *lane) mark(at time.Duration, label, why string) {
	l.Marks = append(l.Marks, Mark{At: at, Label: label, Why: why})
}

// status marks the statuses that are new.
func (l *lane) status(at time.Duration, statuses []membership.Status) {
	before := l.statuses
	l.statuses = nil
	for _, s := range statuses {
		if !slices.Contains(before, s.Code) {
			l.mark(at, story.StatusName(s.Code), s.Detail)
		}
		l.statuses = append(l.statuses, s.Code)
	}
}

func (l *lane) joined(at time.Duration, process string, topologyEpoch int32) {
	l.endAll(at)
	l.Process, l.epoch = process, topologyEpoch
	l.statuses = nil
}

// atFirst is the state of a task that has just been given to the member.
func (l *lane) atFirst(active bool) string {
	if active && l.told {
		return Starts
	}
	return Runs
}

func (l *lane) begin(at time.Duration, t topology.TaskID, role, state, why string) {
	l.open = append(l.open, &openSpan{
		Span: Span{From: at, Task: t.String(), Role: role, TopologyEpoch: l.epoch, State: state, Why: why},
		task: t, said: l.steps,
	})
}

// end closes a span. What took no time is not drawn.
func (l *lane) end(at time.Duration, o *openSpan) {
	l.open = slices.DeleteFunc(l.open, func(x *openSpan) bool { return x == o })
	if s := o.Span; at > s.From {
		s.To = at
		l.Spans = append(l.Spans, s)
	}
}

func (l *lane) endAll(at time.Duration) {
	for _, o := range slices.Clone(l.open) {
		l.end(at, o)
	}
}

func (l *lane) endWaits(at time.Duration) {
	for _, o := range slices.Clone(l.open) {
		if o.State == Waits {
			l.end(at, o)
		}
	}
}

// reached ends the waits that another target has made pointless. Those that go on
// have been said again in the step that brings the epoch, just before it.
func (l *lane) reached(at time.Duration) {
	for _, o := range slices.Clone(l.open) {
		if o.State == Waits && o.said < l.steps {
			l.end(at, o)
		}
	}
	l.steps++
}

// turn has a span go on in another state.
func (l *lane) turn(at time.Duration, o *openSpan, state, why string) {
	if o.State == state && o.Why == why {
		return
	}
	next := *o
	l.end(at, o)
	next.From, next.State, next.Why = at, state, why
	l.open = append(l.open, &next)
}

// find returns the open spans of tasks that the member has in a role.
func (l *lane) find(tasks []topology.TaskID, role string) []*openSpan {
	var out []*openSpan
	for _, o := range l.open {
		if o.Role == role && o.State != Waits && slices.Contains(tasks, o.task) {
			out = append(out, o)
		}
	}
	return out
}

func (l *lane) wait(at time.Duration, t topology.TaskID, role, why string) {
	for _, o := range l.open {
		if o.State == Waits && o.task == t && o.Role == role {
			o.said = l.steps
			l.turn(at, o, Waits, why)
			return
		}
	}
	l.begin(at, t, role, Waits, why)
}

// granted ends what the grant replaces: the wait for it, and a copy of the state in
// another role. A copy that follows an active task comes while that one is still
// being revoked.
func (l *lane) granted(at time.Duration, e coordinator.TasksGranted) {
	role := e.Role.String()
	for _, o := range slices.Clone(l.open) {
		if slices.Contains(e.Tasks, o.task) && (o.State == Waits || o.Role != RoleActive || role == RoleActive) {
			l.end(at, o)
		}
	}
	for _, t := range e.Tasks {
		l.begin(at, t, role, l.atFirst(role == RoleActive), fmt.Sprintf("given at epoch %d", e.Epoch))
	}
}

// callback is what the member itself has done.
func (l *lane) callback(at time.Duration, e membership.CallbackFinished) {
	open := l.find(e.Tasks, RoleActive)
	switch e.Kind {
	case membership.TasksAssigned:
		if e.Err != nil {
			return
		}
		for _, o := range open {
			if o.State == Starts || o.State == Away {
				l.turn(at, o, Runs, o.Why)
			}
		}
		for _, t := range e.Tasks {
			if !slices.ContainsFunc(open, func(o *openSpan) bool { return o.task == t }) {
				l.begin(at, t, RoleActive, Runs, "taken up")
			}
		}
	case membership.TasksRevoked:
		for _, o := range open {
			l.turn(at, o, Revoked, "given up; the coordinator is to hear of it")
		}
	case membership.TasksLost:
		for _, o := range open {
			l.end(at, o)
		}
		l.mark(at, "tasks lost", "they are somebody else's")
	}
}
