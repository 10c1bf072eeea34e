package interop_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// twinProgram is what a group goes through. Each step is a number that, with the
// state of the group, decides what is sent: so any step can be left out.
type twinProgram struct {
	seed  uint64
	steps []uint64
}

func newTwinProgram(seed uint64) twinProgram {
	rng := rand.New(rand.NewPCG(seed, 1))
	p := twinProgram{seed: seed, steps: make([]uint64, 20+rng.IntN(61))}
	for i := range p.steps {
		p.steps[i] = rng.Uint64()
	}
	return p
}

// twinMember is a member as its client would know it.
type twinMember struct {
	id       string
	in       bool
	instance *string
	client   int
	process  string
	rack     *string
	tags     []kmsg.StreamsGroupHeartbeatRequestClientTag
	endpoint *kmsg.StreamsGroupHeartbeatRequestUserEndpoint
	timeout  int32

	epoch, previous int32
	endpoints       int32
	has, had        [3][]kmsg.TaskIDs
	tell            bool // it has changed since it was told
}

// twinLane runs one program after the other, each with one group.
type twinLane struct {
	w     *twins
	links [2]*twinLink
	key   string // what the names of everything begin with
	group string
	pause time.Duration // until a change of settings has come to the coordinator
	scale time.Duration // of time-outs

	rng       *rand.Rand // of the step
	members   []*twinMember
	made      int
	probes    int
	topology  *wireTopology // what joins mostly bring
	stored    *wireTopology // what the group has
	endpoints bool          // members may have endpoints
	topics    map[string]bool
	set       map[string]bool // settings of the group
	impostors bool            // members may name instances of others
	refused   bool            // the last answer was an error
	suspect   bool            // one has, see Q15
	hasty     bool            // a member is removed as soon as it has to revoke: Kafka may do so before it is looked at
	impatient bool            // a member has a time-out that ends at once
	cut       string          // why nothing further can be compared

	trace    []string
	counts   map[string]int
	stepping atomic.Bool
	assigned atomic.Int32 // Kafka's assignment epoch

	mu         sync.Mutex
	problems   []string // that the assignor found
	ties, runs int
}

const (
	fencedInstance     = 82
	unreleasedInstance = 111
)

// difference is what the twins disagree about.
type difference struct{ what, kafkas, ourss string }

func (d *difference) Error() string {
	return fmt.Sprintf("%s\n  Kafka: %s\n  ours:  %s", d.what, strings.ReplaceAll(d.kafkas, "\n", "\n         "), strings.ReplaceAll(d.ourss, "\n", "\n         "))
}

func (l *twinLane) logf(format string, args ...any) {
	l.trace = append(l.trace, fmt.Sprintf(format, args...))
}

// both does something at both, Kafka first.
func (l *twinLane) both(fn func(*twinLink) error) error {
	for side, link := range l.links {
		if err := fn(link); err != nil {
			return fmt.Errorf("%s: %w", twinNames[side], err)
		}
	}
	return nil
}

// run runs a program. The error is a *difference or something that went wrong.
func (l *twinLane) run(p twinProgram, key string, patient bool) (err error) {
	l.key, l.group = key, key+"-group"
	l.pause, l.scale = 100*time.Millisecond, 1
	if patient {
		l.pause, l.scale = time.Second, 3
	}
	l.members, l.made, l.stored, l.topics, l.set, l.trace, l.problems, l.impatient, l.suspect, l.hasty, l.cut = nil, 0, nil, make(map[string]bool), make(map[string]bool), nil, nil, false, false, false, ""
	l.assigned.Store(1)
	l.stepping.Store(true)
	l.w.mu.Lock()
	l.w.lanes[key] = l
	l.w.mu.Unlock()
	defer func() {
		if err != nil {
			l.settle() // topics may be on their way
		}
		err = errors.Join(err, l.cleanUp())
		l.w.mu.Lock()
		delete(l.w.lanes, key)
		l.w.mu.Unlock()
	}()
	l.rng = rand.New(rand.NewPCG(p.seed, 2))
	if err := l.setUp(); err != nil {
		return err
	}
	for i, step := range p.steps {
		l.rng = rand.New(rand.NewPCG(step, 3))
		l.logf("step %d", i)
		if err := l.step(); err != nil {
			return err
		}
		if l.cut != "" {
			l.counts["cut short: "+l.cut]++
			break
		}
	}
	return nil
}

func (l *twinLane) setUp() error {
	l.endpoints, l.impostors = coin(l.rng, 40), coin(l.rng, 25)
	for i := range twinExternals {
		if l.endpoints || coin(l.rng, 93) {
			if err := l.createTopic(l.external(i), oneOf(l.rng, 1, 2, 2, 3, 4, 6)); err != nil {
				return err
			}
		}
	}
	l.topology = l.randomTopology(l.rng)
	if coin(l.rng, 25) {
		l.topology = l.spoil(l.rng, l.topology)
	}
	for l.endpoints && !l.fits(l.topology) {
		l.topology = l.randomTopology(l.rng)
	}
	if coin(l.rng, 50) {
		return l.configure([][2]string{{"streams.num.standby.replicas", oneOf(l.rng, "1", "2")}})
	}
	return nil
}

func (l *twinLane) cleanUp() error {
	return l.both(func(link *twinLink) error {
		d, err := link.describe(l.group, 1, false)
		if err != nil {
			return err
		}
		for i := range d.Members {
			req := l.request(d.Members[i].MemberID, -1)
			if _, err := link.heartbeat(0, req, 1); err != nil {
				return err
			}
		}
		if _, err := link.deleteGroup(l.group); err != nil {
			return err
		}
		if len(l.set) > 0 {
			var settings [][2]string
			for name := range l.set {
				settings = append(settings, [2]string{name, ""})
			}
			if _, err := link.configure(l.group, settings); err != nil {
				return err
			}
		}
		there, err := link.topics(slices.Sorted(maps.Keys(l.topics)))
		if err != nil || len(there) == 0 {
			return err
		}
		return link.deleteTopics(slices.Sorted(maps.Keys(there))...)
	})
}

// settle gives settings the time to come to the coordinators.
func (l *twinLane) settle() { time.Sleep(l.pause) }

func (l *twinLane) createTopic(name string, partitions int) error {
	l.logf("  topic %s gets %d partitions", name, partitions)
	l.topics[name] = true
	if err := l.both(func(link *twinLink) error { return link.createTopic(name, partitions) }); err != nil {
		return err
	}
	return l.awaitTopics(func(have map[string]int) bool { return have[name] == partitions }, name)
}

// awaitTopics waits until both brokers have the topics that are wanted, and
// their coordinators know.
func (l *twinLane) awaitTopics(ok func(map[string]int) bool, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	for until := time.Now().Add(time.Minute); ; time.Sleep(3 * time.Millisecond) {
		done := true
		var seen []string
		if err := l.both(func(link *twinLink) error {
			have, err := link.topics(names)
			if err != nil {
				return err
			}
			known, err := l.probe(link, names)
			done = done && ok(have) && (len(have) < len(names) && known == nil || maps.Equal(have, known))
			seen = append(seen, fmt.Sprintf("%v, the coordinator %v", have, known))
			return err
		}); err != nil || done {
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("the topics %v of the two brokers stay different: %v", names, seen)
		}
	}
}

// probe asks a coordinator how many partitions topics have, nil if one is
// missing: a group of their own that has them as sources has as many tasks.
func (l *twinLane) probe(link *twinLink, names []string) (map[string]int, error) {
	l.probes++
	req := l.request(fmt.Sprintf("probe-%s-%d", l.key, l.probes), 0)
	req.Group += "-probe-" + strconv.Itoa(l.probes)
	req.RebalanceTimeoutMillis, req.ProcessID = 10_000, &req.MemberID
	l.report(req, [3][]kmsg.TaskIDs{})
	t := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	for i, name := range names {
		s := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		s.SubtopologyID, s.SourceTopics = strconv.Itoa(i), []string{name}
		t.Subtopologies = append(t.Subtopologies, s)
	}
	req.Topology = &t
	resp, err := link.heartbeat(0, req, 1)
	if err != nil {
		return nil, err
	}
	req.MemberEpoch, req.Topology = -1, nil
	if _, err := link.heartbeat(0, req, 1); err != nil {
		return nil, err
	}
	if _, err := link.deleteGroup(req.Group); err != nil {
		return nil, err
	}
	if resp.ErrorCode != 0 || len(resp.Status) > 0 {
		return nil, nil
	}
	known := make(map[string]int)
	for _, id := range resp.ActiveTasks {
		i, _ := strconv.Atoi(id.SubtopologyID)
		known[names[i]] = len(id.Partitions)
	}
	return known, nil
}

// internals waits for the internal topics that are being created: those of the
// group's topology.
func (l *twinLane) internals() error {
	if l.stored == nil {
		return nil
	}
	names := internalTopics(l.stored)
	return l.awaitTopics(func(have map[string]int) bool { return len(have) == len(names) }, names...)
}

// internalTopics are the internal topics that a topology reads.
func internalTopics(t *wireTopology) (names []string) {
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		for _, t := range slices.Concat(s.RepartitionSourceTopics, s.StateChangelogTopics) {
			if !slices.Contains(names, t.Topic) {
				names = append(names, t.Topic)
			}
		}
	}
	return names
}

func (l *twinLane) configure(settings [][2]string) error {
	l.logf("  settings %v", settings)
	var codes []string
	if err := l.both(func(link *twinLink) error {
		code, err := link.configure(l.group, settings)
		codes = append(codes, errorName(code))
		return err
	}); err != nil {
		return err
	}
	if codes[theirs] != codes[ours] {
		return &difference{fmt.Sprintf("settings %v", settings), codes[theirs], codes[ours]}
	}
	if codes[theirs] != "ok" {
		return nil
	}
	for _, s := range settings {
		l.set[s[0]] = true
	}
	for until := time.Now().Add(time.Minute); ; time.Sleep(3 * time.Millisecond) {
		done := true
		if err := l.both(func(link *twinLink) error {
			have, err := link.settings(l.group)
			for _, s := range settings {
				done = done && have[s[0]] == s[1]
			}
			return err
		}); err != nil {
			return err
		}
		if done {
			l.settle()
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("settings %v do not come into force", settings)
		}
	}
}

func (l *twinLane) request(id string, epoch int32) *kmsg.StreamsGroupHeartbeatRequest {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = l.group, id, epoch, -1
	return req
}

// send sends a heartbeat to both and compares the answers, and what the group
// looks like afterwards. It returns Kafka's answer.
func (l *twinLane) send(req *kmsg.StreamsGroupHeartbeatRequest, client int) (*kmsg.StreamsGroupHeartbeatResponse, error) {
	version := int16(1)
	if coin(l.rng, 25) {
		version = 0
	}
	l.logf("  %s", showRequest(req, version, client))
	l.counts["heartbeats"]++
	if req.Topology != nil {
		for _, name := range internalTopics(req.Topology) {
			if strings.HasPrefix(name, l.key) { // not Kafka's own topics
				l.topics[name] = true
			}
		}
	}
	var answers [2]*kmsg.StreamsGroupHeartbeatResponse
	for side, link := range l.links {
		var err error
		if answers[side], err = link.heartbeat(client, req, version); err != nil {
			return nil, fmt.Errorf("%s: %w", twinNames[side], err)
		}
	}
	a, b := answers[theirs], answers[ours]
	l.counts[errorName(a.ErrorCode)]++
	l.refused = a.ErrorCode != 0
	l.hasty = l.hasty || req.RebalanceTimeoutMillis == 0 || req.RebalanceTimeoutMillis < -1
	l.suspect = l.suspect || a.ErrorCode == unreleasedInstance || a.ErrorCode == fencedInstance
	l.logf("    %s", showHeartbeat(a))
	if req.Topology != nil && a.ErrorCode == 0 && (l.stored == nil || req.Topology.Epoch > l.stored.Epoch) {
		l.stored = req.Topology
	}
	if code, what := mended(req, l.stored); a.ErrorCode == -1 && code != 0 {
		if b.ErrorCode != 42 && b.ErrorCode != 130 {
			return nil, &difference{"the answer to what is mended, " + what, showHeartbeat(a), showHeartbeat(b)}
		}
		l.counts[what]++
		l.mu.Lock()
		l.problems = nil // Kafka has not stored what ours may have computed, and dropped as well
		l.suspect = true // but it has frozen it for the epoch that it did not write
		l.mu.Unlock()
		return a, l.look()
	}
	if a.ErrorCode == -1 && l.endpoints && b.ErrorCode == 0 && slices.ContainsFunc(b.Status, func(s kmsg.StreamsGroupHeartbeatResponseStatus) bool { return s.StatusCode == 1 || s.StatusCode == 2 }) {
		l.cut = "Q3"
		return a, nil
	}
	if want, got := showHeartbeat(a), showHeartbeat(b); want != got {
		if l.suspect {
			l.cut = "Q15"
			return a, nil
		}
		return nil, &difference{"the answers", want, got}
	}
	if l.impatient {
		time.Sleep(150 * time.Millisecond * l.scale)
	}
	if err := l.look(); err != nil {
		return nil, err
	}
	for _, s := range a.Status {
		l.counts[fmt.Sprintf("status %d", s.StatusCode)]++
	}
	if slices.ContainsFunc(a.Status, func(s kmsg.StreamsGroupHeartbeatResponseStatus) bool { return s.StatusCode == 3 }) {
		if l.stored != nil && !creatable(l.stored) {
			l.cut = "internal topics cannot be created"
			return a, nil
		}
		if err := l.internals(); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// look compares descriptions of the group.
func (l *twinLane) look() error {
	l.mu.Lock()
	problems := l.problems
	l.mu.Unlock()
	if len(problems) > 0 {
		if l.suspect {
			l.cut = "Q15"
			return nil
		}
		if l.hasty && strings.HasPrefix(problems[0], strangerToKafka) {
			l.cut = "a rebalance time-out of 0"
			return nil
		}
		return &difference{"the assignor", problems[0], "(see there)"}
	}
	version, operations := int16(l.rng.IntN(2)), coin(l.rng, 20)
	var d [2]*kmsg.StreamsGroupDescribeResponseGroup
	for side, link := range l.links {
		var err error
		if d[side], err = link.describe(l.group, version, operations); err != nil {
			return fmt.Errorf("%s: %w", twinNames[side], err)
		}
	}
	a, b := d[theirs], d[ours]
	l.counts["descriptions"]++
	l.counts["state "+a.State]++
	l.assigned.Store(a.AssignmentEpoch)
	if want, got := showDescribed(a), showDescribed(b); want != got {
		if l.suspect {
			l.cut = "Q15"
			return nil
		}
		return &difference{fmt.Sprintf("the descriptions, v%d", version), want, got}
	}
	want, got := showDescribedTopology(a.Topology), showDescribedTopology(b.Topology)
	sent := showDescribedTopology(asSent(l.stored))
	if want != got && (want == sent || (l.refused || l.suspect) && got == sent) {
		l.counts["Q14"]++
		return nil
	}
	if want != got {
		return &difference{fmt.Sprintf("the described topologies, v%d", version), want, got}
	}
	return nil
}
