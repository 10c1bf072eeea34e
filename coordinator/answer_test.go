package coordinator

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
	"github.com/streamsgroup/streamsgroup/topology"
)

// answer is what came of a request or of some time: the response, the records
// and the events.
type answer struct {
	w      *world
	req    *Request // nil if time has passed
	member string   // that sent it
	resp   kmsg.StreamsGroupHeartbeatResponse
	recs   []record.Record
	create []topics.NewTopic
	events []Event
}

// ok expects a member epoch, no error, and what is in every answer; one to a
// leave has nothing else in it.
func (a *answer) ok(epoch int32) *answer {
	a.w.t.Helper()
	require.Zero(a.w.t, a.resp.ErrorCode, "%v: %s", kerr.ErrorForCode(a.resp.ErrorCode), deref(a.resp.ErrorMessage))
	want := kmsg.NewStreamsGroupHeartbeatResponse()
	want.Version, want.MemberID, want.MemberEpoch = a.req.Version, a.member, epoch
	want.AcceptableRecoveryLag, want.Status = -1, []kmsg.StreamsGroupHeartbeatResponseStatus{}
	if a.req.MemberEpoch >= 0 {
		want.HeartbeatIntervalMillis = a.w.effective("heartbeat.interval.ms", 5000, 5000)
		want.TaskOffsetIntervalMillis = a.w.effective("task.offset.interval.ms", 60000, 15000)
		want.AcceptableRecoveryLag = int64(a.w.effective("acceptable.recovery.lag", 10000, 0))
		want.ActiveTasks, want.StandbyTasks, want.WarmupTasks = a.resp.ActiveTasks, a.resp.StandbyTasks, a.resp.WarmupTasks
		want.EndpointInformationEpoch, want.PartitionsByUserEndpoint = a.resp.EndpointInformationEpoch, a.resp.PartitionsByUserEndpoint
		want.TopologyDescriptionRequired = a.resp.TopologyDescriptionRequired
		require.NotNil(a.w.t, a.resp.Status, "the list of statuses")
		want.Status = a.resp.Status
		if g := a.w.c.groups[a.req.Group]; g != nil && g.topology != nil && hasPatterns(g.topology) {
			want.UnknownTags = a.resp.UnknownTags // what the patterns stand for
		}
	}
	assert.Equal(a.w.t, want, a.resp)
	return a
}

// effective is the value of a config that has an override: what the group says,
// but not below the bound, else what the broker says, else the default.
func (w *world) effective(name string, def, least int32) int32 {
	w.t.Helper()
	value, ok := w.groupConfigs["streams."+name]
	if !ok {
		if value, ok = w.broker["group.streams."+name]; !ok {
			return def
		}
	}
	n, err := strconv.ParseInt(value, 10, 32)
	require.NoError(w.t, err)
	return max(int32(n), least)
}

// err expects a refusal that carries nothing else and appends nothing.
func (a *answer) err(want *kerr.Error) *answer {
	a.w.t.Helper()
	require.Equal(a.w.t, want, kerr.ErrorForCode(a.resp.ErrorCode), "%s", deref(a.resp.ErrorMessage))
	rest := a.resp
	rest.ErrorCode, rest.ErrorMessage = 0, nil
	empty := kmsg.NewStreamsGroupHeartbeatResponse()
	empty.Version, empty.AcceptableRecoveryLag, empty.Status = rest.Version, -1, []kmsg.StreamsGroupHeartbeatResponseStatus{}
	assert.Equal(a.w.t, empty, rest, "an error carries only the code")
	assert.Empty(a.w.t, a.recs)
	return a
}

// tasks expects all three lists.
func (a *answer) tasks(want string) *answer {
	a.w.t.Helper()
	require.NotNil(a.w.t, a.resp.ActiveTasks, "active list")
	require.NotNil(a.w.t, a.resp.StandbyTasks, "standby list")
	require.NotNil(a.w.t, a.resp.WarmupTasks, "warm-up list")
	got := roles{listFromWire(a.resp.ActiveTasks), listFromWire(a.resp.StandbyTasks), listFromWire(a.resp.WarmupTasks)}
	assert.Equal(a.w.t, showRoles(parseRoles(want), nil), showRoles(got, nil), "tasks")
	return a
}

func (a *answer) noLists() *answer {
	a.w.t.Helper()
	assert.Nil(a.w.t, a.resp.ActiveTasks)
	assert.Nil(a.w.t, a.resp.StandbyTasks)
	assert.Nil(a.w.t, a.resp.WarmupTasks)
	return a
}

// status expects exactly these codes, in this order.
func (a *answer) status(codes ...int8) *answer {
	a.w.t.Helper()
	got := []int8{}
	for _, s := range a.resp.Status {
		got = append(got, s.StatusCode)
	}
	assert.Equal(a.w.t, append([]int8{}, codes...), got, "status %v", a.resp.Status)
	return a
}

// detail expects texts in the detail of a status, in this order.
func (a *answer) detail(code int8, texts ...string) *answer {
	a.w.t.Helper()
	for _, s := range a.resp.Status {
		if s.StatusCode != code {
			continue
		}
		rest := s.StatusDetail
		for _, text := range texts {
			_, after, ok := strings.Cut(rest, text)
			require.True(a.w.t, ok, "%q does not name %q (in this order)", s.StatusDetail, text)
			rest = after
		}
		return a
	}
	require.Fail(a.w.t, "no such status", "%d in %v", code, a.resp.Status)
	return a
}

// records expects these records in this order. A number alone stands for any
// record of the type.
func (a *answer) records(want ...string) *answer {
	a.w.t.Helper()
	got := make([]string, len(a.recs))
	for i, r := range a.recs {
		got[i] = showRecord(r, a.w.now.WallMillis)
		switch {
		case i >= len(want):
		case !strings.Contains(want[i], "("):
			got[i], _, _ = strings.Cut(got[i], "(")
		case strings.HasPrefix(want[i], "17(") && !strings.Contains(want[i], "VTE"):
			got[i], _, _ = strings.Cut(got[i], " VTE")
			got[i] += ")"
		}
	}
	assert.Equal(a.w.t, append([]string{}, want...), got, "records")
	return a
}

// endpointEpoch expects the endpoint epoch of the response.
func (a *answer) endpointEpoch(n int32) *answer {
	a.w.t.Helper()
	assert.Equal(a.w.t, n, a.resp.EndpointInformationEpoch, "endpoint epoch")
	return a
}

// endpoints expects the list, as in "host1:9092 foo:0,1 | standby bar:2"; no
// arguments expect null.
func (a *answer) endpoints(want ...string) *answer {
	a.w.t.Helper()
	if want == nil {
		assert.Nil(a.w.t, a.resp.PartitionsByUserEndpoint)
		return a
	}
	require.NotNil(a.w.t, a.resp.PartitionsByUserEndpoint, "endpoint list")
	got := []string{}
	for _, e := range a.resp.PartitionsByUserEndpoint {
		var active, standby taskList
		for _, p := range e.ActivePartitions {
			for _, n := range p.Partitions {
				active = append(active, topology.TaskID{Subtopology: p.Topic, Partition: n})
			}
		}
		for _, p := range e.StandbyPartitions {
			for _, n := range p.Partitions {
				standby = append(standby, topology.TaskID{Subtopology: p.Topic, Partition: n})
			}
		}
		got = append(got, fmt.Sprintf("%s:%d %s", e.UserEndpoint.Host, e.UserEndpoint.Port, showRoles(roles{active: active, standby: standby}, nil)))
	}
	assert.ElementsMatch(a.w.t, want, got)
	return a
}

// nobody is the endpoint list that is there and empty.
var nobody = []string{}

// count is how many events of a type there are.
func count[E Event](a *answer) int {
	n := 0
	for _, e := range a.events {
		if _, ok := e.(E); ok {
			n++
		}
	}
	return n
}

// the returns the only event of a type.
func the[E Event](a *answer) E {
	a.w.t.Helper()
	require.Equal(a.w.t, 1, count[E](a), "%#v", a.events)
	for _, e := range a.events {
		if e, ok := e.(E); ok {
			return e
		}
	}
	panic("unreachable")
}
