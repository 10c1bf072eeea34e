package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/internal/story"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Nobody is the lane of the tasks that no member may have for now.
const Nobody = "nobody"

// Recorder builds a Picture out of the events of both cores. The zero value is
// ready to use. Its methods may be called from any goroutine and do not block;
// times count from a beginning of the caller's choice.
type Recorder struct {
	// Group, if not empty, leaves out the coordinator's events of other groups.
	Group string
	// Tell, if not nil, is called with each line of the transcript as it is
	// written, one at a time. It must not call the recorder.
	Tell func(line string)

	mu      sync.Mutex
	names   map[string]string
	lanes   []*lane // in the order of their first appearance
	byName  map[string]*lane
	epochs  []Mark
	lines   []line
	claims  []Claim
	latest  time.Duration
	watched bool // whether the coordinator tells its side
	// topologyEpoch is the group's.
	topologyEpoch int32
}

type line struct {
	at   time.Duration
	text string
}

// lane is a Lane in the making.
type lane struct {
	Lane
	epoch int32 // topology epoch
	// told is whether the member tells its side: then what it has been given runs
	// when its callback has taken it up, and not before.
	told bool
	open []*openSpan
	// statuses are those that the member is told at present.
	statuses []int8
	// steps counts the member epochs that it has reached.
	steps int
}

type openSpan struct {
	Span
	task topology.TaskID
	// said is the step in which a wait was last said to go on.
	said int
}

// Name gives a member or process id the name that the reader knows it by. A member
// that returns under a new id goes on in the lane of its name.
func (r *Recorder) Name(id, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names == nil {
		r.names = map[string]string{}
	}
	r.names[id] = name
}

func (r *Recorder) name(id string) string {
	if n := r.names[id]; n != "" {
		return n
	}
	return id
}

func (r *Recorder) teller() story.Teller {
	return story.Teller{Name: func(id string) string { return r.names[id] }}
}

// Say adds a line to the transcript: something that neither core says. Empty lines
// are left out.
func (r *Recorder) Say(at time.Duration, who, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.say(at, who, text)
}

func (r *Recorder) say(at time.Duration, who, text string) {
	if text == "" {
		return
	}
	r.latest = max(r.latest, at)
	l := line{at, fmt.Sprintf("%7.3fs  %-11s  %s", at.Seconds(), who, text)}
	r.lines = append(r.lines, l)
	if r.Tell != nil {
		r.Tell(l.text)
	}
}

// Claim adds something that was checked.
func (r *Recorder) Claim(text string, holds bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claims = append(r.claims, Claim{text, holds})
}

// Halted says that a member is dead, which the coordinator does not know yet.
func (r *Recorder) Halted(at time.Duration, name, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lane(name)
	l.mark(at, "dies", why)
	for _, o := range slices.Clone(l.open) {
		if o.State == Waits {
			l.end(at, o)
		} else {
			l.turn(at, o, Silent, why)
		}
	}
	r.say(at, name, "dies: "+why)
}

// Coordinator records an event of the coordinator.
func (r *Recorder) Coordinator(at time.Duration, e coordinator.Event) {
	if r.Group != "" && e.GroupID() != r.Group {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watched = true
	told := r.teller().Coordinator(e)
	r.say(at, "coordinator", told)
	switch e := e.(type) {
	case coordinator.TopologySet:
		r.topologyEpoch = e.Epoch
		r.epochs = append(r.epochs, Mark{At: at, Label: fmt.Sprintf("topology epoch %d", e.Epoch), Why: told})
	case coordinator.EpochBumped:
		r.epochs = append(r.epochs, Mark{At: at, Label: fmt.Sprintf("group epoch %d", e.Epoch), Why: told, Minor: true})
	case coordinator.TargetComputed:
		r.nobody(at, e)
	case coordinator.MemberJoined:
		l := r.lane(r.name(e.Member))
		l.joined(at, r.name(e.ProcessID), e.TopologyEpoch)
		l.mark(at, fmt.Sprintf("joins @%d", e.TopologyEpoch), told)
	case coordinator.MemberReplaced:
		r.replaced(at, e, told)
	case coordinator.MemberUpgraded:
		l := r.lane(r.name(e.Member))
		l.epoch = e.ToEpoch
		l.endAll(at)
		l.mark(at, fmt.Sprintf("back @%d", e.ToEpoch), told)
	case coordinator.MemberLeft:
		r.left(at, e, told)
	case coordinator.MemberFenced:
		r.lane(r.name(e.Member)).mark(at, "fenced", told)
	case coordinator.TasksGranted:
		r.lane(r.name(e.Member)).granted(at, e)
	case coordinator.TasksWaiting:
		r.waiting(at, e)
	case coordinator.RevocationAsked:
		l := r.lane(r.name(e.Member))
		l.endWaits(at)
		for _, o := range l.find(e.Tasks, e.Role.String()) {
			l.turn(at, o, Revoked, fmt.Sprintf("to be given up within %s", e.Within))
		}
	case coordinator.RevocationAcknowledged:
		l := r.lane(r.name(e.Member))
		for _, o := range l.find(e.Tasks, e.Role.String()) {
			l.end(at, o)
		}
	case coordinator.EpochReached:
		r.lane(r.name(e.Member)).reached(at)
	}
}

// Member records an event of the member that goes by a name.
func (r *Recorder) Member(at time.Duration, name string, e membership.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lane(name)
	l.told = true
	told := r.teller().Member(name, e)
	switch e := e.(type) {
	case membership.EpochChanged, membership.TargetReceived:
		if r.watched {
			told = "" // the coordinator has said so
		}
	case membership.StatusChanged:
		l.status(at, e.Statuses)
	case membership.HeartbeatRejected:
		l.mark(at, fmt.Sprintf("error %d", e.Code), e.Message)
	case membership.CallbackFinished:
		l.callback(at, e)
	}
	r.say(at, name, told)
}

func (r *Recorder) left(at time.Duration, e coordinator.MemberLeft, told string) {
	l := r.lane(r.name(e.Member))
	if e.Cause != coordinator.LeftTemporarily {
		l.endAll(at)
		l.mark(at, map[coordinator.LeaveCause]string{coordinator.Left: "leaves", coordinator.SessionExpired: "is out", coordinator.RebalanceExpired: "is out"}[e.Cause], told)
		return
	}
	l.mark(at, "away", told)
	for _, o := range slices.Clone(l.open) {
		if o.State == Waits || o.State == Revoked {
			l.end(at, o)
		} else {
			l.turn(at, o, Away, "kept until the member returns")
		}
	}
}

// replaced has a static member go on in the lane of its new id.
func (r *Recorder) replaced(at time.Duration, e coordinator.MemberReplaced, told string) {
	from, to := r.lane(r.name(e.Old)), r.lane(r.name(e.New))
	to.mark(at, "is back", told)
	to.epoch = from.epoch // unless an event says otherwise
	for _, o := range slices.Clone(from.open) {
		from.end(at, o)
		s := *o
		s.From, s.State, s.Why = at, to.atFirst(RoleActive == s.Role), "what it had before"
		to.open = append(to.open, &s)
	}
}

func (r *Recorder) waiting(at time.Duration, e coordinator.TasksWaiting) {
	l := r.lane(r.name(e.Member))
	holders := make([]string, len(e.Holders))
	for i, h := range e.Holders {
		holders[i] = r.name(h)
	}
	for _, t := range e.Tasks {
		gives := " gives it up"
		if len(holders) > 1 {
			gives = " give it up"
		}
		why := "until " + strings.Join(holders, ", ") + gives
		if len(holders) == 0 {
			why = "until other warm-ups are done"
		}
		for _, c := range e.Conflicts {
			if c.Task == t {
				why = r.conflict(c)
			}
		}
		l.wait(at, t, e.Role.String(), why)
	}
}

// nobody records the tasks that a target gives to nobody.
func (r *Recorder) nobody(at time.Duration, e coordinator.TargetComputed) {
	l := r.byName[Nobody]
	if l == nil && len(e.Unassigned) == 0 {
		return
	}
	l = r.lane(Nobody)
	l.epoch = r.topologyEpoch
	for _, o := range slices.Clone(l.open) {
		if !slices.Contains(e.Unassigned, o.task) || o.TopologyEpoch != l.epoch {
			l.end(at, o)
		}
	}
	for _, t := range e.Unassigned {
		why := fmt.Sprintf("no member of topology epoch %d is there to take it", l.epoch)
		for _, c := range e.HeldBack {
			if c.Task == t {
				why = r.conflict(c)
			}
		}
		l.wait(at, t, RoleActive, why)
	}
}

func (r *Recorder) conflict(c coordinator.Conflict) string {
	topics := strings.Join(c.Topics, ", ")
	if topics == "" {
		topics = "topics that are not known"
	}
	return fmt.Sprintf("until %s gives up %s of topology epoch %d: both work on %s", r.name(c.Holder), c.As, c.TopologyEpoch, topics)
}

func (r *Recorder) lane(name string) *lane {
	l := r.byName[name]
	if l == nil {
		if r.byName == nil {
			r.byName = map[string]*lane{}
		}
		l = &lane{Lane: Lane{Name: name}}
		r.byName[name] = l
		r.lanes = append(r.lanes, l)
	}
	return l
}

// Picture is the picture so far: what is under way ends with it. Members are in
// the order of their names.
func (r *Recorder) Picture() *Picture {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &Picture{Length: r.latest, Claims: slices.Clone(r.claims), Epochs: slices.Clone(r.epochs)}
	sorted := slices.Clone(r.lines)
	slices.SortStableFunc(sorted, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	for _, l := range sorted {
		p.Lines = append(p.Lines, l.text)
	}
	for _, l := range r.lanes {
		whole := Lane{Name: l.Name, Process: l.Process, Spans: slices.Clone(l.Spans), Marks: slices.Clone(l.Marks)}
		for _, o := range l.open {
			whole.Spans = append(whole.Spans, Span{From: o.From, To: max(r.latest, o.From), Task: o.Task, Role: o.Role, TopologyEpoch: o.TopologyEpoch, State: o.State, Why: o.Why})
		}
		slices.SortStableFunc(whole.Spans, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
		p.Lanes = append(p.Lanes, whole)
	}
	slices.SortFunc(p.Lanes, func(a, b Lane) int {
		if a.Name == Nobody || b.Name == Nobody {
			return boolInt(a.Name == Nobody) - boolInt(b.Name == Nobody)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return p
}
