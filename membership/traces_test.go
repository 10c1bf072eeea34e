package membership

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/topology"
)

// The traces in testdata/traces are heartbeats between Kafka Streams 4.4.0 and
// Apache Kafka 4.4.0 (v0-: 4.2.1, which speaks version 0), one JSON object per
// line. The test plays the brokers' responses to our member, at the times of the
// recording and with an application that confirms callbacks at once, and compares
// which fields are null, empty or filled in what it sends with what Kafka's client
// sent.
type traceLine struct {
	MS       int    `json:"ms"`
	N        int    `json:"n"`
	Step     string `json:"step"`
	Request  string `json:"request"`
	Response string `json:"response"`
	Version  int16  `json:"version"`
	Body     json.RawMessage
}

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
	t       *testing.T
	m       *Member
	pending []sentHeartbeat // sent by us, not yet compared

	offsets, ends map[topology.TaskID]int64

	// What the rules go by.
	fresh  bool // nothing was sent since the join, a new assignment or a failure
	failed bool
}

func newReplayed(t *testing.T, join *kmsg.StreamsGroupHeartbeatRequest) *replayed {
	topo, err := topology.FromWire(join.Topology)
	require.NoError(t, err)
	cfg := Config{
		Group: join.Group, MemberID: join.MemberID, ProcessID: *join.ProcessID, Topology: topo,
		MaxPollInterval: time.Duration(join.RebalanceTimeoutMillis) * time.Millisecond,
		RetryBackoff:    time.Millisecond, RetryBackoffMax: time.Millisecond,
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
	return &replayed{t: t, m: m}
}

func (r *replayed) step(now time.Duration, version int16) {
	var fx Effects
	r.m.Step(now, &fx)
	if fx.FindCoordinator {
		r.m.CoordinatorFound(now, version)
	}
	if fx.Heartbeat != nil {
		r.pending = append(r.pending, sentHeartbeat{fx.HeartbeatID, fx.Heartbeat})
	}
	for _, cb := range fx.Callbacks {
		r.m.CallbackDone(now, cb.ID, nil)
	}
}

// next is our counterpart of a recorded request.
func (r *replayed) next(now time.Duration, want *kmsg.StreamsGroupHeartbeatRequest) sentHeartbeat {
	r.t.Helper()
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
	switch {
	case want.MemberEpoch == 0 && r.m.State() == Unsubscribed:
		r.m.Join(now)
	case want.MemberEpoch == -1:
		r.m.Leave(now, LeaveGroup)
	case want.MemberEpoch == -2:
		r.m.Leave(now, LeaveDefault)
	default:
		r.m.ForceHeartbeat()
	}
	for i := range 10 {
		if want.MemberEpoch < 0 { // the leave overtakes what is due
			r.pending = slices.DeleteFunc(r.pending, func(s sentHeartbeat) bool { return s.req.MemberEpoch >= 0 })
		}
		if len(r.pending) > 0 {
			break
		}
		r.step(now+time.Duration(i)*time.Millisecond, want.Version)
	}
	require.NotEmpty(r.t, r.pending, "we send nothing in state %v", r.m.State())
	s := r.pending[0]
	r.pending = r.pending[1:]
	return s
}

// disconnect lets a heartbeat get lost.
func (r *replayed) disconnect(now time.Duration) {
	r.m.ForceHeartbeat()
	r.step(now, r.m.version)
	require.Len(r.t, r.pending, 1)
	r.m.HeartbeatFailed(now, r.pending[0].id, Disconnected, errors.New("connection lost"))
	r.pending = nil
	r.fresh, r.failed = true, true
}

// settle lets callbacks run after a response.
func (r *replayed) settle(now time.Duration, version int16) {
	for range 5 {
		if r.m.State() == Reconciling || r.m.State() == Fenced {
			r.step(now, version)
		}
	}
}

func (r *replayed) compare(got, want *kmsg.StreamsGroupHeartbeatRequest) {
	t := r.t
	require.Equal(t, want.MemberEpoch, got.MemberEpoch)
	require.Equal(t, want.EndpointInformationEpoch, got.EndpointInformationEpoch)
	require.Equal(t, want.InstanceID, got.InstanceID)
	require.Equal(t, want.ShutdownApplication, got.ShutdownApplication)

	joins := want.MemberEpoch == 0
	require.Equal(t, want.RebalanceTimeoutMillis, got.RebalanceTimeoutMillis)
	require.Equal(t, joins, got.Topology != nil)
	require.Equal(t, joins, got.ProcessID != nil)
	require.Equal(t, want.RackID, got.RackID)
	require.Equal(t, want.UserEndpoint, got.UserEndpoint)
	require.ElementsMatch(t, want.ClientTags, got.ClientTags)
	require.Equal(t, want.ClientTags == nil, got.ClientTags == nil)

	_, told := reported(t, got)
	if want.MemberEpoch >= 0 {
		require.Equal(t, want.ActiveTasks != nil, told, "task lists at epoch %d", want.MemberEpoch)
	} // We revoke before we leave and say so; a broker ignores the tasks of a leave.
	if told && want.ActiveTasks != nil {
		require.Equal(t, fromWire(want.ActiveTasks), fromWire(got.ActiveTasks))
		require.Equal(t, fromWire(want.StandbyTasks), fromWire(got.StandbyTasks))
		require.Equal(t, fromWire(want.WarmupTasks), fromWire(got.WarmupTasks))
	}
	if r.fresh && got.MemberEpoch > 0 {
		require.True(t, told, "the first heartbeat after a join, an assignment or a failure carries tasks")
	}

	for _, o := range []struct{ got, want []kmsg.TaskOffset }{{got.TaskOffsets, want.TaskOffsets}, {got.TaskEndOffsets, want.TaskEndOffsets}} {
		switch {
		case got.Version == 0:
			require.Nil(t, o.got)
		case joins || r.failed:
			require.NotNil(t, o.got)
		}
		if o.got != nil && o.want != nil {
			require.Equal(t, wireOffsets(o.want), wireOffsets(o.got))
		}
	}
	r.fresh, r.failed = joins, false
}

func TestTracesOfKafkasClient(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/traces/*.gz")
	require.NoError(t, err)
	require.Len(t, files, 15)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl.gz"), func(t *testing.T) {
			t.Parallel()
			members := map[string]*replayed{}
			type open struct {
				r *replayed
				s sentHeartbeat
			}
			unanswered := map[int]open{}
			compared := 0
			for _, l := range readTrace(t, file) {
				now := ms(l.MS)
				if l.Step == "the broker stops" { // connections that fail are not in the recording
					for _, r := range members {
						r.disconnect(now)
					}
				}
				switch "StreamsGroupHeartbeat" {
				case l.Request:
					req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
					require.NoError(t, json.Unmarshal(l.Body, req))
					req.Version = l.Version
					r := members[req.MemberID]
					if r == nil {
						r = newReplayed(t, req)
						members[req.MemberID] = r
					}
					s := r.next(now, req)
					r.compare(s.req, req)
					compared++
					unanswered[l.N] = open{r, s}
				case l.Response:
					o, ok := unanswered[l.N]
					if !ok {
						continue
					}
					if string(l.Body) == "null" {
						o.r.m.HeartbeatFailed(now, o.s.id, Disconnected, errors.New("connection lost"))
						o.r.fresh, o.r.failed = true, true
						continue
					}
					resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
					require.NoError(t, json.Unmarshal(l.Body, resp))
					resp.Version = l.Version
					o.r.m.HeartbeatAnswered(now, o.s.id, resp)
					if resp.ErrorCode != 0 {
						o.r.fresh, o.r.failed = true, true
					}
					if resp.ActiveTasks != nil {
						o.r.fresh = true
					}
					o.r.settle(now, l.Version)
				}
			}
			require.Greater(t, compared, 5)
		})
	}
}
