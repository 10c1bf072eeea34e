package kfakeext_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestMemberCannotAskForAnyNumberOfPartitions has a join ask for a topic that no
// machine could hold, and another one beside it.
func TestMemberCannotAskForAnyNumberOfPartitions(t *testing.T) {
	inBubble(t, func(w *wire) {
		req := join("g", "m1", "foo", "bar")
		req.Topology.Subtopologies[0].RepartitionSinkTopics = []string{"huge", "modest"}
		req.Topology.Subtopologies[1].RepartitionSourceTopics = []kmsg.TopicInfo{
			{Topic: "huge", NumPartitions: 2_000_000_000, ReplicationFactor: -1}, {Topic: "modest", NumPartitions: 2, ReplicationFactor: -1},
		}
		first := w.beat(req)
		require.Zero(t, first.ErrorCode)
		synctest.Wait()
		statuses := w.beat(beat("g", "m1", first.MemberEpoch)).Status
		require.NotEmpty(t, statuses)
		last := statuses[len(statuses)-1]
		require.Equal(t, int8(3), last.StatusCode)
		detail := last.StatusDetail
		assert.Contains(t, detail, "huge")
		assert.Contains(t, detail, "2000000000 partitions are too many, the limit is 10000")
		assert.NotContains(t, detail, "modest")
	})
}
