package kfakeext

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func endpointList(n int) []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint {
	list := make([]kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint, n)
	for i := range list {
		e := &list[i]
		e.UserEndpoint.Host, e.UserEndpoint.Port = fmt.Sprintf("host-%d.example.com", i), 8080
		e.ActivePartitions = []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpointActivePartition{{Topic: "in", Partitions: []int32{int32(i), int32(i + 1)}}}
		e.StandbyPartitions = []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpointStandbyPartition{}
	}
	return list
}

func TestSharedEndpointsReadAsTheyWouldFromKmsg(t *testing.T) {
	t.Parallel()
	for _, version := range []int16{0, 1} {
		for _, n := range []int{0, 1, sharedFrom, 200} {
			p := new(place)
			list := endpointList(n)
			var first *sharedEndpoints
			for epoch := range int32(3) {
				resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
				resp.Version, resp.MemberID, resp.MemberEpoch = version, "m1", epoch
				resp.EndpointInformationEpoch, resp.PartitionsByUserEndpoint = epoch, list
				resp.ActiveTasks = []kmsg.TaskIDs{{SubtopologyID: "0", Partitions: []int32{1}}}
				resp.Status = []kmsg.StreamsGroupHeartbeatResponseStatus{}
				resp.UnknownTags.Set(10000, []byte("tag"))
				want := resp.AppendTo([]byte("before"))
				shared := p.shareEndpoints(resp)
				require.Equal(t, want, shared.AppendTo([]byte("before")), "version %d with %d endpoints", version, n)
				if first == nil {
					first = p.endpoints
				}
				require.Same(t, first, p.endpoints, "the list is encoded once")
			}
			require.Equal(t, n >= sharedFrom, p.endpoints != nil)
		}
	}
}

func TestSharedEndpointsFollowTheList(t *testing.T) {
	t.Parallel()
	p := new(place)
	resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
	resp.Version, resp.PartitionsByUserEndpoint = 1, endpointList(20)
	before := p.shareEndpoints(resp)
	changed := *resp
	changed.PartitionsByUserEndpoint = endpointList(20)
	changed.PartitionsByUserEndpoint[3].UserEndpoint.Host = "elsewhere"
	after := p.shareEndpoints(&changed)
	require.Equal(t, resp.AppendTo(nil), before.AppendTo(nil))
	require.Equal(t, changed.AppendTo(nil), after.AppendTo(nil))
}

// BenchmarkEndpointResponse is what a connection has to do for the endpoints of a
// group in which every member has one.
func BenchmarkEndpointResponse(b *testing.B) {
	resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
	resp.Version, resp.MemberID, resp.PartitionsByUserEndpoint = 1, "m1", endpointList(1000)
	var buf []byte
	for name, r := range map[string]kmsg.Response{"kmsg": resp, "shared": new(place).shareEndpoints(resp)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				buf = r.AppendTo(buf[:0])
			}
		})
	}
}
