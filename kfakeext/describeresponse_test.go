package kfakeext_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/kfakeext"
)

// The response with encoded members says the same as one that kmsg encodes.
func TestDescribeResponse(t *testing.T) {
	inBubble(t, func(w *wire) {
		big := join("big", "m1", "foo", "bar")
		big.InstanceID, big.RackID = kmsg.StringPtr("i1"), kmsg.StringPtr("r1")
		big.ClientTags = []kmsg.StreamsGroupHeartbeatRequestClientTag{{Key: "zone", Value: "a"}}
		big.UserEndpoint = &kmsg.StreamsGroupHeartbeatRequestUserEndpoint{Host: "host", Port: 9999}
		big.TaskOffsets = []kmsg.TaskOffset{{SubtopologyID: "s1", Partition: 1, Offset: 7}}
		w.ok(big)
		for i := range 200 {
			w.ok(join("big", fmt.Sprintf("n%d", i), "foo", "bar"))
		}
		w.ok(join("empty", "m1", "foo"))
		w.ok(beat("empty", "m1", -1))
		for version := range int16(2) {
			req := kmsg.NewPtrStreamsGroupDescribeRequest()
			req.Groups = []string{"big", "", "unknown", "empty", "big"}
			req.IncludeTopologyDescription = true
			resp := w.ask(0, pinned{req, version}).(*kmsg.StreamsGroupDescribeResponse)
			require.Len(w, resp.Groups, 5)
			got := make(map[string]kmsg.StreamsGroupDescribeResponseGroup)
			for _, g := range resp.Groups {
				got[g.Group] = g
			}
			require.Len(w, got["big"].Members, 201)
			for _, id := range []string{"big", "unknown", "empty"} {
				want := kmsg.StreamsGroupDescribeResponse{Version: version, Groups: []kmsg.StreamsGroupDescribeResponseGroup{w.cl.DescribeStreamsGroup(id)}}
				if version >= 1 && id != "unknown" {
					want.Groups[0].TopologyDescriptionStatus = 1
				}
				have := kmsg.StreamsGroupDescribeResponse{Version: version, Groups: []kmsg.StreamsGroupDescribeResponseGroup{got[id]}}
				assert.Equal(w, want.AppendTo(nil), have.AppendTo(nil), "version %d, group %s", version, id)
			}
		}
	}, kfakeext.Nodes(1))
}
