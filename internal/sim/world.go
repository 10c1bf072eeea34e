package sim

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
	"github.com/streamsgroup/streamsgroup/internal/story"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// World is a run of a plan.
type World struct {
	plan   *Plan
	mutant Mutant
	rnd    stream
	now    time.Duration
	seq    uint64
	agenda agenda
	steps  int

	slots   []*slot
	members map[string]*member // all that ever were
	live    []*member
	spawned int
	version int // the newest of the application
	line    [maxEpochs]*version
	designs [maxEpochs]design // of the versions, if they are drawn

	nodes []*node
	owner int
	// cuts are until when a process and a node do not reach each other.
	cuts [][]time.Duration

	log     []record.Record
	flushed int
	flushAt time.Duration
	// term grows when the group moves: what was still to be flushed is decided then.
	term  int
	table *table
	rows  []*row

	broker, configs map[string]string
	topics          map[string]topics.Topic
	created         int
	image           *topics.Image

	slowTill, slowDiskTill, slowNetTill, slowLoadTill time.Duration
	healed                                            bool

	violation                *Violation
	computed                 bool
	decisions, every         int
	beats, bumps, faultsDone int
	settledAfter             time.Duration

	telling bool
	watcher Watcher
	story   []string
	teller  story.Teller
}

// Result is what became of a run.
type Result struct {
	Plan      *Plan
	Steps     int
	Faults    int // that had an effect
	Beats     int // heartbeats sent
	Bumps     int // group epochs
	Members   int // memberships, with those of restarted processes
	Settled   time.Duration
	Violation *Violation
	story     []string
}

// Transcript is what happened, one line for each event. It is only there if the
// run was told (Options.Tell).
func (r *Result) Transcript() []string { return r.story }

// Watcher sees a run from outside. The times are the world's.
type Watcher interface {
	Coordinator(at time.Duration, e coordinator.Event)
	// Started says that a member runs at a place: members come and go, places stay.
	Started(at time.Duration, id, place string)
	// Halted says that the member at a place is dead, without a word.
	Halted(at time.Duration, place, why string)
	Member(at time.Duration, place string, e membership.Event)
	// Note is what neither of them knows: faults, operators, the network.
	Note(at time.Duration, text string)
}

// Options say how to run a plan.
type Options struct {
	// Tell keeps a transcript.
	Tell bool
	// Watcher is told what happens, in order. Nil is nobody.
	Watcher Watcher
	// Mutant is a wrong variant to be found. The zero value is right.
	Mutant Mutant
	// ReplayEvery is how many decisions pass between comparisons with a coordinator
	// that has just loaded the group. 0 means 64.
	ReplayEvery int
}

// Run plays a plan to its end or to the first violation.
func Run(p *Plan, o Options) *Result {
	w := newWorld(p, o)
	for more := true; more && w.violation == nil; {
		more = w.step()
	}
	return &Result{
		Plan: p, Steps: w.steps, Faults: w.faultsDone, Beats: w.beats, Bumps: w.bumps, Members: w.spawned,
		Settled: w.settledAfter, Violation: w.violation, story: w.story,
	}
}

func newWorld(p *Plan, o Options) *World {
	s := &p.Setup
	w := &World{
		plan: p, mutant: o.Mutant, telling: o.Tell || o.Watcher != nil, watcher: o.Watcher, rnd: newStream(p.Seed, 3), members: map[string]*member{},
		table: newTable(), topics: map[string]topics.Topic{}, every: max(o.ReplayEvery, 1),
	}
	if o.ReplayEvery == 0 {
		w.every = 64
	}
	w.teller.Name = func(id string) string {
		if m := w.members[id]; m != nil {
			return m.name
		}
		return ""
	}
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	w.broker = map[string]string{
		"group.streams.min.session.timeout.ms":      "1000",
		"group.streams.session.timeout.ms":          ms(s.Session),
		"group.streams.min.heartbeat.interval.ms":   "100",
		"group.streams.heartbeat.interval.ms":       ms(s.Heartbeat),
		"group.streams.initial.rebalance.delay.ms":  ms(s.InitialDelay),
		"group.streams.assignment.interval.ms":      ms(s.Interval),
		"group.streams.num.standby.replicas":        strconv.Itoa(s.Standbys),
		"group.streams.num.warmup.replicas":         strconv.Itoa(s.Warmups),
		"group.streams.min.task.offset.interval.ms": "500",
		"group.streams.task.offset.interval.ms":     "1000",
	}
	w.configs = map[string]string{}
	if s.Family == drawn {
		w.designs = drawLine(p.Seed, s.Policy == coordinator.KIP1071)
	} else {
		w.line = versions[s.Family]
	}
	if s.Available {
		w.broker["group.streams.assignors"] = "highly_available,sticky"
	}
	for i, name := range worked[:externals] {
		if s.Late>>i&1 == 0 {
			w.setTopic(name, int32(s.Partitions))
		}
	}
	if w.image == nil {
		w.image = topics.NewCompleteImage(1, w.topics)
	}
	for i := range s.Nodes {
		n := &node{w: w, i: i, name: fmt.Sprintf("node %d", i), up: true, rnd: newStream(p.Seed, 4, uint64(i))}
		n.clock = clock{zero: n.rnd.between(0, time.Hour)}
		if s.DriftPPM > 0 {
			n.clock.ppm = n.rnd.below(2*s.DriftPPM) - s.DriftPPM
		}
		n.image = w.image
		w.nodes = append(w.nodes, n)
	}
	w.nodes[0].load(0)
	// One slot more than there are processes at first.
	for i := range s.Processes + 1 {
		w.slots = append(w.slots, &slot{i: i, wanted: i < s.Processes, progress: map[topology.TaskID]int64{}})
		w.cuts = append(w.cuts, make([]time.Duration, s.Nodes))
		w.at(w.rnd.between(0, time.Second), nil, func() { w.start(w.slots[i]) })
	}
	for i := range p.Faults {
		f := &p.Faults[i]
		w.at(f.At, nil, func() { w.inject(f) })
	}
	w.at(s.Faulty, nil, w.heal)
	return w
}

// at plans something. Things planned for the same moment happen in the order in
// which they were planned.
func (w *World) at(t time.Duration, p *process, do func()) {
	w.seq++
	w.agenda.push(event{at: max(t, w.now), seq: w.seq, p: p, do: do})
}

// step lets the next thing happen.
func (w *World) step() bool {
	if len(w.agenda) == 0 {
		return false
	}
	e := w.agenda.pop()
	w.now = e.at
	if p := e.p; p != nil {
		if p.dead {
			return true
		}
		if w.now < p.pausedTill {
			p.queue = append(p.queue, e)
			return true
		}
	}
	w.steps++
	e.do()
	return true
}

// wake continues a process after a pause, with everything that has waited.
func (p *process) wake() {
	if p.dead || p.w.now < p.pausedTill {
		return
	}
	queue := p.queue
	p.queue = nil
	for _, e := range queue {
		p.w.at(p.w.now, p, e.do)
	}
}

// faulty is whether things still go wrong.
func (w *World) faulty() bool { return !w.healed }

func (w *World) setTopic(name string, partitions int32) {
	if partitions == 0 {
		delete(w.topics, name)
	} else {
		t, ok := w.topics[name]
		if !ok {
			w.created++
			t = topics.Topic{Name: name, ID: [16]byte{15: byte(w.created), 14: byte(w.created >> 8)}}
		}
		t.Partitions = partitions
		w.topics[name] = t
	}
	version := uint64(1)
	if w.image != nil {
		version = w.image.Version() + 1
	}
	image := topics.NewCompleteImage(version, w.topics)
	w.image = image
	for _, n := range w.nodes {
		w.at(w.now+w.rnd.between(0, w.plan.Setup.Latency), nil, func() {
			if n.image.Version() < image.Version() {
				n.image = image
			}
		})
	}
}

// createTopic creates an internal topic on request, some time later. At the end
// the operator sees to it that it is not created as it was right once: nobody else
// would mend that.
func (w *World) createTopic(name string, partitions int32) {
	w.at(w.now+w.rnd.between(0, 300*time.Millisecond), nil, func() {
		if _, ok := w.topics[name]; !ok && (!w.healed || partitions == w.topics[worked[0]].Partitions) {
			w.tellf("topic %s is created with %d partitions", name, partitions)
			w.setTopic(name, partitions)
		}
	})
}

// versionOf is the application's version with a topology epoch.
func (w *World) versionOf(epoch int32) *version {
	epoch = min(max(epoch, 0), maxEpochs-1)
	if w.line[epoch] == nil {
		w.line[epoch] = w.designs[epoch].build(int(epoch))
	}
	return w.line[epoch]
}

func (w *World) configure(name, value string) {
	w.configs = maps.Clone(w.configs)
	w.configs[name] = value
	w.tellf("%s=%s", name, value)
	for _, n := range w.nodes {
		if n.core != nil {
			n.core.SetGroupConfig(application, w.configs)
		}
	}
}

// processes are those that run.
func (w *World) processes() (out []*process) {
	for _, s := range w.slots {
		if s.p != nil {
			out = append(out, s.p)
		}
	}
	return out
}

func (w *World) tellf(format string, args ...any) {
	if !w.telling {
		return
	}
	text := fmt.Sprintf(format, args...)
	w.tell(text)
	if w.watcher != nil {
		w.watcher.Note(w.now, text)
	}
}

// tell adds a line to the transcript.
func (w *World) tell(text string) { w.story = append(w.story, stamp(w.now)+"  "+text) }

func (w *World) tellCoordinator(e coordinator.Event) {
	if !w.telling {
		return
	}
	w.tell(w.nodes[w.owner].name + ": " + w.teller.Coordinator(e))
	if w.watcher != nil {
		w.watcher.Coordinator(w.now, e)
	}
}

func (w *World) tellMember(m *member, e membership.Event) {
	if !w.telling {
		return
	}
	if s := w.teller.Member(m.id, e); s != "" {
		w.tell(s)
	}
	if w.watcher != nil {
		w.watcher.Member(w.now, m.place(), e)
	}
}
