package membership

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/topology"
)

// FuzzResponse lets a hostile broker answer with any bytes that can be decoded: the
// member neither panics nor spins, nor sends what a broker would have to refuse.
func FuzzResponse(f *testing.F) {
	seed := func(change ...func(*kmsg.StreamsGroupHeartbeatResponse)) {
		resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
		resp.Version, resp.MemberEpoch, resp.HeartbeatIntervalMillis = 1, 1, 5000
		for _, fn := range change {
			fn(resp)
		}
		f.Add(resp.AppendTo(nil))
	}
	seed(active("0_0", "1_3").standbys("0_1").warmups("0_2").set, status(1, 2, 4, 99))
	seed(code(25))
	seed(code(42, "text"))
	seed(epoch(-2), required)
	seed(resolution(matching("late-a")))
	seed(func(r *kmsg.StreamsGroupHeartbeatResponse) {
		r.HeartbeatIntervalMillis, r.TaskOffsetIntervalMillis = -1<<31, 1<<31-1
	})
	seed(func(r *kmsg.StreamsGroupHeartbeatResponse) {
		r.ActiveTasks = []kmsg.TaskIDs{{SubtopologyID: "0", Partitions: []int32{-1 << 31, 0, 0}}}
	})
	seed(func(r *kmsg.StreamsGroupHeartbeatResponse) {
		r.PartitionsByUserEndpoint = []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint{{}, {}}
		r.UnknownTags.Set(topology.ResolutionTag, []byte{1})
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
		resp.Version = 1
		if resp.ReadFrom(data) != nil {
			return
		}
		for _, s := range allStates {
			h := in(t, s, patterns(t), failOnStatus, patient, withDescription)
			sent := 0
			for range 3 {
				if len(h.open) == 0 {
					h.m.ForceHeartbeat()
					h.run()
				}
				if len(h.open) > 0 {
					beat := h.open[0]
					h.open = h.open[1:]
					h.m.HeartbeatAnswered(h.now, beat.id, resp)
					h.run()
				}
				for len(h.callbacks) > 0 {
					h.done(h.callbacks[0].Kind)
				}
				h.after(time.Second)
			}
			for _, beat := range h.sent {
				req := beat.req
				sent++
				require.Equal(t, req.MemberEpoch == 0, req.Topology != nil)
				require.GreaterOrEqual(t, req.MemberEpoch, int32(-1))
				reported(t, req)
			}
			require.Less(t, sent, 100)
			h.m.Snapshot(h.now)
		}
	})
}
