package membership

import (
	"maps"
	"math"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/streamsgroup/streamsgroup/topology"
)

type offsetMap = map[topology.TaskID]int64

// told is a model of what a coordinator was told of one list of offsets.
type told struct {
	list  offsetMap
	known bool
	at    time.Duration
}

// memory is a model of when offsets are told: rules TO-7 to TO-14. It knows nothing of
// how the member keeps them.
type memory struct {
	offsets, ends told
	reported      bool
	reportedAt    time.Duration
	interval      time.Duration
	lag           int64
	endpoints     int32
}

func newMemory() memory { return memory{interval: -1, lag: -1, endpoints: -1} }

// forget is that the coordinator may know nothing.
func (k *memory) forget() { k.offsets, k.ends, k.reported = told{}, told{}, false }

// heard takes the settings from a good answer.
func (k *memory) heard(resp *kmsg.StreamsGroupHeartbeatResponse) {
	k.interval = time.Duration(resp.TaskOffsetIntervalMillis) * time.Millisecond
	k.lag = resp.AcceptableRecoveryLag
	if resp.Version == 0 {
		k.lag = -1
	}
	fell := resp.EndpointInformationEpoch < k.endpoints
	leapt := int64(resp.EndpointInformationEpoch)-int64(k.endpoints) > leap
	if k.endpoints >= 0 && (fell || leapt) {
		k.forget()
	}
	k.endpoints = resp.EndpointInformationEpoch
}

// check compares a heartbeat with what the rules want in it.
func (k *memory) check(t require.TestingT, now time.Duration, req *kmsg.StreamsGroupHeartbeatRequest, offsets, ends offsetMap, warmups []topology.TaskID) {
	if req.Version == 0 {
		require.Nil(t, req.TaskOffsets, "TO-13")
		require.Nil(t, req.TaskEndOffsets, "TO-13")
		return
	}
	join := req.MemberEpoch == 0
	old := func(l told) bool {
		return l.known && len(l.list) > 0 && k.interval > 0 && now >= l.at+2*k.interval
	}
	for _, l := range []*told{&k.offsets, &k.ends} {
		if !join && old(*l) {
			*l = told{} // TO-14
		}
	}
	due := join || req.ActiveTasks != nil || !k.reported || now >= k.reportedAt+k.interval || !k.offsets.known || !k.ends.known
	for _, task := range warmups {
		offset, ok := offsets[task]
		end, okEnd := ends[task]
		hot := ok && okEnd && k.lag >= 0 && offset != math.MaxInt64 && end != math.MaxInt64 && end-offset <= k.lag
		due = due || hot
	}
	for _, l := range []struct {
		name    string
		told    *told
		current offsetMap
		sent    []kmsg.TaskOffset
	}{{"offsets", &k.offsets, offsets, req.TaskOffsets}, {"ends", &k.ends, ends, req.TaskEndOffsets}} {
		want := join || due && (!l.told.known || !maps.Equal(l.told.list, l.current))
		require.Equal(t, want, l.sent != nil, "%s at %v", l.name, now)
		if want {
			require.True(t, maps.Equal(l.current, wireOffsets(l.sent)), "TO-11: all of them")
			*l.told = told{list: maps.Clone(l.current), known: true, at: now}
			k.reported, k.reportedAt = true, now
		}
	}
}

// drawOffsets has positions for some tasks, among them the odd ones.
func drawOffsets(t *rapid.T, name string) offsetMap {
	out := offsetMap{}
	for _, task := range tasks("0_0", "0_1", "1_0") {
		if n := rapid.SampledFrom([]int64{-1, 0, 50, 100, 100, 200, math.MaxInt64}).Draw(t, name+" of "+task.String()); n >= 0 {
			out[task] = n
		}
	}
	return out
}
