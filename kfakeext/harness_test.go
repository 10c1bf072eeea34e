package kfakeext_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire speaks the protocol with a cluster, message by message.
type wire struct {
	*testing.T
	cl     *kfakeext.Cluster
	client *kgo.Client
}

// inBubble runs fn against a cluster in a bubble of its own.
func inBubble(t *testing.T, fn func(w *wire), opts ...kfakeext.Opt) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		fn(connect(t, kfakeext.Start(t, append([]kfakeext.Opt{kfakeext.Topic("foo", 6), kfakeext.Topic("bar", 3)}, opts...)...)))
	})
}

func connect(t *testing.T, cl *kfakeext.Cluster, opts ...kgo.Opt) *wire {
	t.Helper()
	client, err := kgo.NewClient(append(append(cl.KgoOpts(), kgo.ClientID("wire")), opts...)...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return &wire{T: t, cl: cl, client: client}
}

// pinned sends a request with a version of our choice.
type pinned struct {
	kmsg.Request
	max int16
}

func (p pinned) MaxVersion() int16 { return p.max }

func (w *wire) try(node int32, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
	defer cancel()
	return w.client.Broker(int(node)).Request(ctx, req)
}

func (w *wire) ask(node int32, req kmsg.Request) kmsg.Response {
	w.Helper()
	resp, err := w.try(node, req)
	require.NoError(w, err)
	return resp
}

// home sends a request to the coordinator of a group.
func (w *wire) home(group string, req kmsg.Request) kmsg.Response {
	w.Helper()
	return w.ask(w.cl.CoordinatorFor(group), req)
}

func beat(group, member string, epoch int32) *kmsg.StreamsGroupHeartbeatRequest {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = group, member, epoch, -1
	return req
}

// join is a join with a topology of subtopologies that read one topic each.
func join(group, member string, topics ...string) *kmsg.StreamsGroupHeartbeatRequest {
	req := beat(group, member, 0)
	req.RebalanceTimeoutMillis = 1500
	req.ProcessID = kmsg.StringPtr("process-of-" + member)
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	req.Topology = &kmsg.StreamsGroupHeartbeatRequestTopology{}
	for i, topic := range topics {
		s := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		s.SubtopologyID, s.SourceTopics = "s"+string(rune('1'+i)), []string{topic}
		req.Topology.Subtopologies = append(req.Topology.Subtopologies, s)
	}
	return req
}

func (w *wire) beat(req *kmsg.StreamsGroupHeartbeatRequest) *kmsg.StreamsGroupHeartbeatResponse {
	w.Helper()
	return w.home(req.Group, req).(*kmsg.StreamsGroupHeartbeatResponse)
}

// ok is a heartbeat that must succeed.
func (w *wire) ok(req *kmsg.StreamsGroupHeartbeatRequest) *kmsg.StreamsGroupHeartbeatResponse {
	w.Helper()
	resp := w.beat(req)
	require.NoError(w, kerr.ErrorForCode(resp.ErrorCode), "%s", text(resp.ErrorMessage))
	return resp
}

func (w *wire) fails(want *kerr.Error, req *kmsg.StreamsGroupHeartbeatRequest) {
	w.Helper()
	code(w.T, want, w.beat(req).ErrorCode)
}

// code compares error codes by name.
func code(t *testing.T, want *kerr.Error, got int16) {
	t.Helper()
	if want == nil {
		require.NoError(t, kerr.ErrorForCode(got))
		return
	}
	require.ErrorIs(t, kerr.ErrorForCode(got), want)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func tasks(ids []kmsg.TaskIDs) map[string][]int32 {
	m := make(map[string][]int32)
	for _, id := range ids {
		m[id.SubtopologyID] = id.Partitions
	}
	return m
}

func (w *wire) describe(group string) kmsg.StreamsGroupDescribeResponseGroup {
	w.Helper()
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups = []string{group}
	resp := w.home(group, req).(*kmsg.StreamsGroupDescribeResponse)
	require.Len(w, resp.Groups, 1)
	return resp.Groups[0]
}

// list asks every node, as an admin client does.
func (w *wire) list(states, types []string) (groups []kmsg.ListGroupsResponseGroup) {
	w.Helper()
	for node := range int32(len(w.cl.Addrs())) {
		req := kmsg.NewPtrListGroupsRequest()
		req.StatesFilter, req.TypesFilter = states, types
		resp := w.ask(node, req).(*kmsg.ListGroupsResponse)
		code(w.T, nil, resp.ErrorCode)
		groups = append(groups, resp.Groups...)
	}
	return groups
}

func (w *wire) state(group string, want coordinator.State) {
	w.Helper()
	got, ok := w.cl.StreamsGroupState(group)
	require.True(w, ok, "group %s is not known", group)
	assert.Equal(w, want.String(), got.String())
}
