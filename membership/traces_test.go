package membership

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/topology"
)

// The traces in testdata/traces are exchanges between Kafka Streams 4.4.0 and
// Apache Kafka 4.4.0 (v0-: 4.2.1, which speaks version 0), one JSON object per
// line. The test plays what Kafka's client got to our member, at the times of the
// recording, with an application that takes as long for its callbacks as that of
// the recording did, and compares what it sends, and when, with what Kafka's
// client sent. See the README there.
type traceLine struct {
	MS       int    `json:"ms"`
	N        int    `json:"n"`
	Step     string `json:"step"`
	Member   string `json:"member"`
	Request  string `json:"request"`
	Response string `json:"response"`
	Version  int16  `json:"version"`
	Fault    string `json:"fault"`
	Body     json.RawMessage
}

func (l traceLine) at() time.Duration { return ms(l.MS) }

func (l traceLine) lost() bool { return string(l.Body) == "null" }

func readTrace(t *testing.T, file string) []traceLine {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var out []traceLine
	s := bufio.NewScanner(z)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var l traceLine
		require.NoError(t, json.Unmarshal(s.Bytes(), &l))
		out = append(out, l)
	}
	require.NoError(t, s.Err())
	return out
}

// replayed is our member in the place of one of the recording.
type replayed struct {
	trace   *trace
	name    string // in the recording
	thread  string // instance and thread
	m       *Member
	clock   time.Duration
	pending []sentHeartbeat // sent by us, not yet compared
	calls   []Callback      // not answered yet
	finding bool            // a look-up waits for the recording

	offsets, ends map[topology.TaskID]int64

	// What Kafka's client has said and heard.
	said                  *roles // its last lists
	lastSent              time.Duration
	left                  bool          // that was the last
	endpointEpoch         int32         // of ours before the last answer
	statusAt              time.Duration // of its statuses
	offsetsSaid, endsSaid time.Duration // its last reports, or ours that repeats one
	repeated              time.Duration // our last report that repeats
	failed                bool          // since its last heartbeat
	fresh                 bool          // it has joined, or has got a new assignment
}

// trace is a recording on its way through our members.
type trace struct {
	t        *testing.T
	lookUps  bool // the recording has them
	members  map[string]*replayed
	threads  map[string]*replayed // the last member of each
	open     map[int]opened
	compared int
	latest   time.Duration // how much later Kafka's client was than ours would have been, at most
	early    []early
	found    []string // differences
}

type opened struct {
	r *replayed
	s sentHeartbeat
}

func (r *replayed) differs(format string, args ...any) {
	r.trace.found = append(r.trace.found, fmt.Sprintf("%d ms, %s, epoch %d: ", r.clock.Milliseconds(), r.name, r.m.epoch)+fmt.Sprintf(format, args...))
}

func (tr *trace) join(thread string, join *kmsg.StreamsGroupHeartbeatRequest, at time.Duration) *replayed {
	t := tr.t
	t.Helper()
	topo, err := topology.FromWire(join.Topology)
	require.NoError(t, err)
	cfg := Config{
		Group: join.Group, MemberID: join.MemberID, ProcessID: *join.ProcessID, Topology: topo,
		MaxPollInterval: time.Duration(join.RebalanceTimeoutMillis) * time.Millisecond,
		RetryBackoff:    100 * time.Millisecond, RetryBackoffMax: time.Second,
		ClientTags: map[string]string{},
	}
	if join.InstanceID != nil {
		cfg.InstanceID = *join.InstanceID
	}
	if join.RackID != nil {
		cfg.RackID = *join.RackID
	}
	if e := join.UserEndpoint; e != nil {
		cfg.Endpoint = &Endpoint{e.Host, e.Port}
	}
	for _, tag := range join.ClientTags {
		cfg.ClientTags[tag.Key] = tag.Value
	}
	m, err := New(cfg)
	require.NoError(t, err)
	return &replayed{trace: tr, name: join.MemberID, thread: thread, m: m, clock: at}
}

// step is a pass of our member.
func (r *replayed) step(now time.Duration, version int16) {
	r.clock = max(r.clock, now)
	var fx Effects
	r.m.Step(r.clock, &fx)
	if fx.FindCoordinator {
		if r.trace.lookUps && r.said != nil {
			r.finding = true
		} else {
			r.m.CoordinatorFound(r.clock, version)
		}
	}
	if fx.Heartbeat != nil {
		r.pending = append(r.pending, sentHeartbeat{fx.HeartbeatID, fx.Heartbeat})
	}
	r.calls = append(r.calls, fx.Callbacks...)
}

// finish lets callbacks return: all, or those of the pass that is under way.
func (r *replayed) finish(now time.Duration, version int16, all bool) {
	p := r.m.running
	for len(r.calls) > 0 && (all || r.m.running == p) {
		cb := r.calls[0]
		r.calls = r.calls[1:]
		r.clock = max(r.clock, now)
		r.m.CallbackDone(r.clock, cb.ID, nil)
		if r.m.state == Reconciling { // the next callback, and no heartbeat yet
			due := r.m.dueAt
			r.m.dueAt = r.clock + time.Second
			r.step(now, version)
			r.m.dueAt = due
		}
	}
}

// tolerance is by how much our times may differ from the recorded ones: Kafka's
// client varies its back-off by 20 %, and the proxy sees a request later than it
// was made.
const tolerance = 150 * time.Millisecond

// next is our counterpart of a recorded request.
func (r *replayed) next(now time.Duration, want *kmsg.StreamsGroupHeartbeatRequest) (s sentHeartbeat, ok bool) {
	if want.TaskOffsets != nil {
		r.offsets = wireOffsets(want.TaskOffsets)
	}
	if want.TaskEndOffsets != nil {
		r.ends = wireOffsets(want.TaskEndOffsets)
	}
	r.m.SetTaskOffsets(r.offsets, r.ends)
	if want.ShutdownApplication {
		r.m.RequestShutdown()
	}
	if at, ok := r.endsAt(); ok && at+slowEnd < now && want.MemberEpoch > 0 {
		r.differs("we have ended at %v because of the statuses %v", at, r.m.statuses)
	}
	told, lists := reported(r.trace.t, want)
	if want.MemberEpoch >= 0 && len(r.pending) == 0 && (!lists || !r.includes(told)) {
		r.compareTime(now)
	}
	switch {
	case want.MemberEpoch == 0 && r.m.State() == Unsubscribed:
		r.m.Join(now)
	case want.MemberEpoch == 0:
		r.finish(now, want.Version, true) // "tasks lost"
	case want.MemberEpoch < 0:
		mode := LeaveDefault
		if want.MemberEpoch == -1 {
			mode = LeaveGroup
		}
		r.pending = nil // the leave overtakes what is due
		r.m.Leave(now, mode)
		r.step(now, want.Version)
		r.finish(now, want.Version, true)
		r.pending = slices.DeleteFunc(r.pending, func(s sentHeartbeat) bool { return s.req.MemberEpoch >= 0 })
	case lists && len(r.calls) > 0 && r.includes(told):
		r.finish(now, want.Version, false)
	}
	if want.MemberEpoch >= 0 && len(r.pending) == 0 {
		if r.m.state.inGroup() {
			r.m.dueAt = min(r.m.dueAt, now)
		}
		r.m.backoffTill, r.m.rejoinAt = min(r.m.backoffTill, now), min(r.m.rejoinAt, now)
	}
	for range 3 {
		if len(r.pending) > 0 {
			break
		}
		r.step(now, want.Version)
	}
	if len(r.pending) == 0 {
		r.differs("we send nothing in state %v, coordinator %v", r.m.State(), r.m.coordinator)
		return s, false
	}
	s = r.pending[0]
	r.pending = r.pending[1:]
	return s, true
}

// slowEnd is how long a thread of Kafka Streams may take to end when it is to.
const slowEnd = 4 * time.Second

// endsAt is when a status ends the member of Kafka Streams.
func (r *replayed) endsAt() (at time.Duration, ok bool) {
	for _, s := range r.m.statuses {
		if s.Code == StatusIncorrectlyPartitionedTopics || s.Code == StatusShutdownApplication {
			return r.statusAt, true
		}
	}
	return r.m.missing.since + r.m.missing.limit, r.m.missing.running
}

// silent compares why a member says nothing any more: it has left, or failed, or
// was made to in the recording.
func (tr *trace) silent(lines []traceLine) {
	end := lines[len(lines)-1].at()
	for _, name := range slices.Sorted(maps.Keys(tr.members)) {
		r := tr.members[name]
		if end-r.lastSent < 3*r.m.interval || r.left || r.m.state == Fatal {
			continue
		}
		if at, ok := r.endsAt(); ok && at <= r.lastSent+slowEnd {
			continue
		}
		instance, _, _ := strings.Cut(r.thread, "/")
		if !slices.ContainsFunc(lines, func(l traceLine) bool {
			return strings.Contains(l.Step, instance) && l.at() >= r.lastSent-slowEnd && l.at() <= r.lastSent+slowEnd
		}) {
			r.differs("Kafka's client says nothing since %v, ours is in state %v", r.lastSent, r.m.state)
		}
	}
}

// includes is whether the lists that Kafka's client sends are those that the
// callbacks under way lead to.
func (r *replayed) includes(told roles) bool {
	if r.m.running == nil {
		return false
	}
	g := r.m.running.goal
	return slices.Equal(told.active, g.active) && slices.Equal(told.standby, g.standby) && slices.Equal(told.warmup, g.warmup)
}

// compareTime compares when our member would send its next heartbeat.
func (r *replayed) compareTime(now time.Duration) {
	at, due := r.m.heartbeatAt()
	if !due || r.said == nil || r.m.state == Acknowledging {
		return
	}
	if at > now+tolerance {
		r.trace.early = append(r.trace.early, early{at - now, fmt.Sprintf("%d ms, %s: we send %v later than Kafka's client", now.Milliseconds(), r.name, at-now)})
	}
	if r.m.state != Joining {
		r.trace.latest = max(r.trace.latest, now-at)
	}
}

// early is a heartbeat or a look-up that our member would have made later.
type early struct {
	by   time.Duration
	text string
}

// tooEarly are those that cannot be explained by how busy the machine of the
// recording was: what came late there, or was seen late by the proxy, makes the next
// thing look early.
func (tr *trace) tooEarly() (all []string) {
	for _, e := range tr.early {
		if e.by > 2*tr.latest {
			all = append(all, e.text)
		}
	}
	return all
}

func (r *replayed) compare(got, want *kmsg.StreamsGroupHeartbeatRequest) {
	joins := want.MemberEpoch == 0
	same := func(what string, want, got any) {
		if fmt.Sprint(want) != fmt.Sprint(got) {
			r.differs("%s: Kafka's client %v, ours %v", what, want, got)
		}
	}
	same("epoch", want.MemberEpoch, got.MemberEpoch)
	if want.MemberEpoch >= 0 || want.EndpointInformationEpoch != r.endpointEpoch { // a leave may overtake the last answer
		same("endpoint epoch", want.EndpointInformationEpoch, got.EndpointInformationEpoch)
	}
	same("instance id", text(want.InstanceID), text(got.InstanceID))
	same("shutdown", want.ShutdownApplication, got.ShutdownApplication)
	same("rebalance time-out", want.RebalanceTimeoutMillis, got.RebalanceTimeoutMillis)
	same("topology", want.Topology != nil, got.Topology != nil)
	same("process id", text(want.ProcessID), text(got.ProcessID))
	same("rack", text(want.RackID), text(got.RackID))
	same("endpoint", endpointText(want.UserEndpoint), endpointText(got.UserEndpoint))
	same("tags", tagTexts(want.ClientTags), tagTexts(got.ClientTags))

	theirs, lists := reported(r.trace.t, want)
	ours, told := reported(r.trace.t, got)
	switch {
	case want.MemberEpoch < 0: // We revoke before we leave and say so; a broker ignores the tasks of a leave.
	case lists != told:
		r.differs("lists: Kafka's client %v, ours %v: %v %v", lists, told, theirs, ours)
	case lists && r.starting(theirs, ours): // rule HB-6a
	case lists:
		same("tasks", theirs, ours)
	}
	if want.MemberEpoch >= 0 {
		r.compareOffsets("offsets", want.TaskOffsets, got.TaskOffsets, &r.offsetsSaid)
		r.compareOffsets("ends", want.TaskEndOffsets, got.TaskEndOffsets, &r.endsSaid)
	}
	if lists {
		r.said = &theirs
	} else if r.said == nil {
		r.said = &roles{}
	}
	r.lastSent, r.left = r.clock, want.MemberEpoch < 0
	r.fresh, r.failed = joins, false
}

// starting is whether ours reports, beside what Kafka's client does, only what is
// about to be started or to be revoked.
func (r *replayed) starting(theirs, ours roles) bool {
	extra := minus(ours.active, theirs.active)
	if len(extra) == 0 || len(minus(theirs.active, ours.active)) > 0 || len(r.calls) == 0 && r.m.state != Reconciling {
		return false
	}
	may := slices.Clone(r.m.target.active)
	for _, c := range r.calls {
		may = append(may, c.Active...)
	}
	slices.SortFunc(may, topology.TaskID.Compare)
	return len(minus(extra, slices.Compact(may))) == 0
}

// compareOffsets compares a report. Ours repeats one that has not changed for two
// intervals (rule TO-14), and its next one may be later for that by less than one.
func (r *replayed) compareOffsets(what string, want, got []kmsg.TaskOffset, said *time.Duration) {
	interval := r.m.offsetInterval
	switch {
	case want != nil && got != nil:
		if w, g := wireOffsets(want), wireOffsets(got); !maps.Equal(w, g) {
			r.differs("%s: Kafka's client %v, ours %v", what, w, g)
		}
	case want != nil && r.clock+max(tolerance, 2*r.trace.latest) >= r.m.reportedAt+interval:
		r.repeated = r.clock // ours comes with the next heartbeat
	case want != nil && (r.repeated == 0 || r.clock-r.repeated >= interval):
		r.differs("%s: Kafka's client %v, ours none", what, wireOffsets(want))
	case got != nil && (r.repeated > 0 || len(got) > 0 && r.clock-*said >= 2*interval):
		r.repeated = r.clock
		*said = r.clock
	case got != nil:
		r.differs("%s: Kafka's client none, ours %v", what, wireOffsets(got))
	}
	if want != nil {
		*said = r.clock
	}
}

func text(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

func endpointText(e *kmsg.StreamsGroupHeartbeatRequestUserEndpoint) string {
	if e == nil {
		return "null"
	}
	return fmt.Sprint(e.Host, ":", e.Port)
}

func tagTexts(tags []kmsg.StreamsGroupHeartbeatRequestClientTag) string {
	if tags == nil {
		return "null"
	}
	all := map[string]string{}
	for _, tag := range tags {
		all[tag.Key] = tag.Value
	}
	return fmt.Sprint(all)
}

// answered hands our member what Kafka's client got.
func (r *replayed) answered(now time.Duration, s sentHeartbeat, l traceLine) {
	r.clock = max(r.clock, now)
	r.endpointEpoch = r.m.endpointEpoch
	if l.lost() {
		kind := Disconnected // rule DV-21: Kafka's client takes a time-out for the same
		if l.Fault == "the response was lost" {
			kind = TimedOut
		}
		r.m.HeartbeatFailed(r.clock, s.id, kind, errors.New("no answer"))
		r.failed = true
		return
	}
	resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
	require.NoError(r.trace.t, json.Unmarshal(l.Body, resp))
	resp.Version = l.Version
	before := r.m.statuses
	r.m.HeartbeatAnswered(r.clock, s.id, resp)
	if !slices.Equal(before, r.m.statuses) {
		r.statusAt = r.clock
	}
	if resp.ErrorCode != 0 {
		r.failed = true
	}
	if resp.ActiveTasks != nil && s.req.MemberEpoch >= 0 {
		r.fresh = true
	}
	if r.m.state != Acknowledging && (r.m.somethingToTell() || r.m.state == Reconciling) {
		r.step(now, l.Version)
	}
}

// disconnect lets a heartbeat get lost.
func (r *replayed) disconnect(now time.Duration) {
	if !r.m.state.inGroup() {
		return
	}
	r.m.ForceHeartbeat()
	r.step(now, r.m.version)
	if len(r.pending) == 1 {
		r.m.HeartbeatFailed(r.clock, r.pending[0].id, Disconnected, errors.New("connection lost"))
		r.pending = nil
		r.failed = true
	}
}

// lookUp compares a look-up of the recording with ours.
func (r *replayed) lookUp(now time.Duration) {
	if r.m.coordinator || r.finding || !r.m.needsCoordinator() {
		return
	}
	if wait := r.m.findAt - now; wait > tolerance && r.m.bounced == 0 { // rules CO-2 and DV-19
		r.trace.early = append(r.trace.early, early{wait, fmt.Sprintf("%d ms, %s: we look the coordinator up %v later than Kafka's client", now.Milliseconds(), r.name, wait)})
	}
	r.step(max(now, r.m.findAt), r.m.version)
}

func (r *replayed) lookedUp(now time.Duration, l traceLine) {
	if !r.finding {
		return
	}
	r.clock = max(r.clock, now)
	r.finding = false
	if l.lost() {
		r.m.CoordinatorFailed(r.clock, errors.New("connection lost"))
		return
	}
	resp := kmsg.NewPtrFindCoordinatorResponse()
	require.NoError(r.trace.t, json.Unmarshal(l.Body, resp))
	code := resp.ErrorCode
	if len(resp.Coordinators) == 1 {
		code = resp.Coordinators[0].ErrorCode
	}
	if err := kerr.ErrorForCode(code); err != nil {
		r.m.CoordinatorFailed(r.clock, err)
		return
	}
	r.m.CoordinatorFound(r.clock, max(r.m.version, 0))
}

// timedOut lets the heartbeat that is open time out: Kafka's client goes on without
// its answer, which comes too late.
func (tr *trace) timedOut(r *replayed, now time.Duration) {
	for n, o := range tr.open {
		if o.r == r && o.s.req.MemberEpoch >= 0 {
			delete(tr.open, n)
			r.clock = max(r.clock, now)
			r.m.HeartbeatFailed(r.clock, o.s.id, TimedOut, errors.New("no answer"))
			r.failed = true
		}
	}
}

func (tr *trace) play(lines []traceLine) {
	for _, l := range lines {
		now := l.at()
		if l.Step == "the broker stops" { // connections that fail are not in the recording
			for _, name := range slices.Sorted(maps.Keys(tr.members)) {
				tr.members[name].disconnect(now)
			}
		}
		switch {
		case l.Request == "FindCoordinator":
			if r := tr.threads[l.Member]; r != nil {
				tr.timedOut(r, now)
				r.lookUp(now)
			}
		case l.Response == "FindCoordinator":
			if r := tr.threads[l.Member]; r != nil {
				r.lookedUp(now, l)
			}
		case l.Request == "StreamsGroupHeartbeat":
			req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
			require.NoError(tr.t, json.Unmarshal(l.Body, req))
			req.Version = l.Version
			r := tr.members[req.MemberID]
			if r == nil {
				if req.Topology == nil {
					tr.found = append(tr.found, fmt.Sprintf("%d ms, %s: its first request is no join", l.MS, req.MemberID))
					continue
				}
				r = tr.join(l.Member, req, now)
				tr.members[req.MemberID] = r
			}
			tr.threads[l.Member] = r
			if req.MemberEpoch >= 0 {
				tr.timedOut(r, now)
			}
			s, ok := r.next(now, req)
			if !ok {
				continue
			}
			r.compare(s.req, req)
			tr.compared++
			tr.open[l.N] = opened{r, s}
		case l.Response == "StreamsGroupHeartbeat":
			if o, ok := tr.open[l.N]; ok {
				delete(tr.open, l.N)
				o.r.answered(now, o.s, l)
			}
		}
	}
}

// expectedOfClient are the differences that are right. Each must be found.
var expectedOfClient = map[string][]struct{ where, why string }{
	"codes": {{"93462 ms, member-1, epoch 0: Kafka's client says nothing", "GROUP_ID_NOT_FOUND ends Kafka's client, ours joins again (ER-5, DV-20)"}},
}

func TestTracesOfKafkasClient(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/traces/*.gz")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 15)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl.gz"), func(t *testing.T) {
			t.Parallel()
			lines := readTrace(t, file)
			tr := &trace{
				t: t, members: map[string]*replayed{}, threads: map[string]*replayed{}, open: map[int]opened{},
				lookUps: slices.ContainsFunc(lines, func(l traceLine) bool { return l.Request == "FindCoordinator" }),
			}
			tr.play(lines)
			tr.silent(lines)
			require.Greater(t, tr.compared, 5)
			t.Logf("%d heartbeats compared; at most %v later than ours", tr.compared, tr.latest)
			found := slices.Concat(tr.found, tr.tooEarly())
			for _, e := range expectedOfClient[strings.TrimSuffix(filepath.Base(file), ".jsonl.gz")] {
				i := slices.IndexFunc(found, func(f string) bool { return strings.Contains(f, e.where) })
				require.GreaterOrEqual(t, i, 0, "there is no difference any more: %s: %s", e.where, e.why)
				found = slices.Delete(found, i, i+1)
			}
			require.Empty(t, strings.Join(found, "\n"))
		})
	}
}
