package coordinator

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// BenchmarkDescribe is the description of a group to its encoding: as structures
// for others to encode, with what is kept of the last time while nothing changes,
// and after a heartbeat that changes one member.
func BenchmarkDescribe(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000} {
		c, image, requests := bigGroup(b, n, 2)
		resp := kmsg.NewStreamsGroupDescribeResponse()
		resp.Version = 1
		var out []byte
		b.Run(fmt.Sprintf("structures/members=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				resp.Groups = append(resp.Groups[:0], c.Describe(groupID, nil))
				out = resp.AppendTo(out[:0])
			}
			b.SetBytes(int64(len(out)))
		})
		b.Run(fmt.Sprintf("unchanged/members=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d, members := c.DescribeEncoded(groupID, nil)
				resp.Groups = append(resp.Groups[:0], d)
				out = append(resp.AppendTo(out[:0]), members...)
			}
			b.SetBytes(int64(len(out)))
		})
		b.Run(fmt.Sprintf("changed/members=%d", n), func(b *testing.B) {
			req := *requests[0].StreamsGroupHeartbeatRequest
			req.TaskOffsets = []kmsg.TaskOffset{{SubtopologyID: "0", Partition: 0}}
			var beat kmsg.StreamsGroupHeartbeatResponse
			var fx Effects
			b.ReportAllocs()
			for b.Loop() {
				req.TaskOffsets[0].Offset++
				c.Handle(Now{}, image, &Request{StreamsGroupHeartbeatRequest: &req, ClientID: "client", ClientHost: clientHost}, &beat, &fx)
				c.Apply(Now{}, &fx)
				d, members := c.DescribeEncoded(groupID, nil)
				resp.Groups = append(resp.Groups[:0], d)
				out = append(resp.AppendTo(out[:0]), members...)
			}
			b.SetBytes(int64(len(out)))
		})
	}
}
