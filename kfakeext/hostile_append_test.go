package kfakeext

import (
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// refusingLog takes a few batches and then none as long as it refuses. It is
// used under the lock of the adapter.
type refusingLog struct {
	recordLog
	a       *adapter
	refuses bool
	after   int
	before  *string // the durable state when it refused last
}

func (l *refusingLog) refusal() error {
	if l.after--; !l.refuses || l.after >= 0 {
		return nil
	}
	before := durable(l.a)
	l.before = &before
	return &storageError{"log", "append", syscall.ENOSPC}
}

func (l *refusingLog) append(records []record.Record) error {
	if err := l.refusal(); err != nil {
		return err
	}
	return l.recordLog.append(records)
}

func (l *refusingLog) setGroupConfig(group string, overrides map[string]string) error {
	if err := l.refusal(); err != nil {
		return err
	}
	return l.recordLog.setGroupConfig(group, overrides)
}

func (l *refusingLog) setBrokerConfig(name string, value *string) error {
	if err := l.refusal(); err != nil {
		return err
	}
	return l.recordLog.setBrokerConfig(name, value)
}

// refusals is a cluster whose log refuses whatever is to be written at first.
type refusals struct {
	t    *testing.T
	cl   *Cluster
	log  *refusingLog
	conn *ownConn
}

func startRefusals(t *testing.T, opts ...Opt) *refusals {
	cl := Start(t, append([]Opt{Nodes(1), Topic("t", 4), Topic("u", 4)}, opts...)...)
	a := cl.adapter
	a.mu.Lock()
	log := &refusingLog{recordLog: a.log, a: a}
	a.log = log
	a.mu.Unlock()
	conn := dialNode(t, cl)
	t.Cleanup(func() { _ = conn.Close() })
	return &refusals{t, cl, log, conn}
}

// durable is everything that a restart would find again.
func (r *refusals) durable() string {
	r.cl.adapter.mu.Lock()
	defer r.cl.adapter.mu.Unlock()
	return durable(r.cl.adapter)
}

func durable(a *adapter) string {
	var b []byte
	for _, group := range a.log.names() {
		b = a.core.AppendState(b, group, false)
		_ = a.log.replay(group, func(rec record.Record) error {
			b = record.AppendValue(record.AppendKey(b, rec.RecordKey()), rec)
			return nil
		})
	}
	for _, group := range append(a.core.ConfiguredGroups(), "") {
		for _, c := range a.core.GroupConfigs(group) {
			b = append(b, group+" "+c.Name+"="+c.Value+"\n"...)
		}
	}
	return string(b)
}

// first has something done that is to write, while nothing can be written, but
// for the first few times.
func (r *refusals) first(after int, do func()) {
	r.t.Helper()
	r.set(true, after)
	defer r.set(false, 0)
	do()
	r.cl.adapter.mu.Lock()
	before := r.log.before
	r.cl.adapter.mu.Unlock()
	require.NotNil(r.t, before, "it writes nothing")
	require.Equal(r.t, *before, r.durable(), "something was changed although it could not be written")
}

func (r *refusals) set(refuses bool, after int) {
	a := r.cl.adapter
	a.mu.Lock()
	defer a.mu.Unlock()
	r.log.refuses, r.log.after, r.log.before = refuses, after, nil
}

// after sends a request while the log takes only so many batches, and then again
// without limit. It returns both responses.
func (r *refusals) after(batches int, req kmsg.Request) (refused, done kmsg.Response) {
	r.t.Helper()
	again := kmsg.RequestForKey(req.Key())
	again.SetVersion(req.GetVersion())
	require.NoError(r.t, again.ReadFrom(req.AppendTo(nil)))
	r.first(batches, func() {
		r.t.Helper()
		refused = exchange(r.t, r.conn, req)
	})
	before := r.durable()
	done = exchange(r.t, r.conn, again)
	require.NotEqual(r.t, before, r.durable())
	return refused, done
}

func (r *refusals) beat(req *kmsg.StreamsGroupHeartbeatRequest) *kmsg.StreamsGroupHeartbeatResponse {
	r.t.Helper()
	failed, done := r.after(0, req)
	assert.Equal(r.t, kerr.CoordinatorNotAvailable.Code, failed.(*kmsg.StreamsGroupHeartbeatResponse).ErrorCode)
	resp := done.(*kmsg.StreamsGroupHeartbeatResponse)
	require.NoError(r.t, kerr.ErrorForCode(resp.ErrorCode), "%v", resp.ErrorMessage)
	return resp
}

// joining is a join of a member with a topology that reads topics.
func joining(member string, epoch int32, topics ...string) *kmsg.StreamsGroupHeartbeatRequest {
	req := steadyHeartbeat()
	req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = "g", member, 0, 10_000
	req.ProcessID = kmsg.StringPtr(member)
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	s := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
	s.SubtopologyID, s.SourceTopics = "s", topics
	req.Topology = &kmsg.StreamsGroupHeartbeatRequestTopology{Epoch: epoch, Subtopologies: []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{s}}
	return req
}

func beating(member string, epoch int32, owned ...int32) *kmsg.StreamsGroupHeartbeatRequest {
	req := steadyHeartbeat()
	req.Group, req.MemberID, req.MemberEpoch = "g", member, epoch
	if owned != nil {
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{{SubtopologyID: "s", Partitions: owned}}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	}
	return req
}

func static(req *kmsg.StreamsGroupHeartbeatRequest) *kmsg.StreamsGroupHeartbeatRequest {
	req.InstanceID = kmsg.StringPtr("i")
	return req
}

func pushing(member string, topology int32) *kmsg.StreamsGroupTopologyDescriptionUpdateRequest {
	req := kmsg.NewPtrStreamsGroupTopologyDescriptionUpdateRequest()
	req.Group, req.MemberID, req.TopologyEpoch = "g", member, topology
	return req
}

// What cannot be written has not happened, whatever it was that was to be
// written, and whoever asks again is answered as if for the first time.
func TestHostileLogRefusesEveryWriter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := startRefusals(t, TopologyDescriptions(NewMemoryDescriptions()),
			BrokerConfig("group.streams.initial.rebalance.delay.ms", "3000"), BrokerConfig("offsets.retention.minutes", "60"))

		// A first member, and the timer of the initial delay.
		require.EqualValues(t, 1, r.beat(joining("m1", 0, "t")).MemberEpoch)
		r.first(0, func() { time.Sleep(4 * time.Second) })
		resp := r.beat(beating("m1", 1))
		require.Len(t, resp.ActiveTasks, 1)

		// A second one, static, and each step of the rebalance.
		r.beat(static(joining("m2", 0, "t")))
		time.Sleep(2 * time.Second)
		resp = r.beat(beating("m1", 2, 0, 1, 2, 3))
		require.Len(t, resp.ActiveTasks, 1)
		kept := resp.ActiveTasks[0].Partitions
		require.Len(t, kept, 2)
		require.EqualValues(t, 3, r.beat(beating("m1", 2, kept...)).MemberEpoch)
		given := r.beat(static(beating("m2", r.epoch("m2")))).ActiveTasks
		require.Len(t, given, 1)

		// A static member goes for a while and another one takes its place.
		r.beat(static(beating("m2", -2)))
		r.beat(static(joining("m3", 0, "t")))

		// The description, at both of its writes.
		failed, done := r.after(0, pushing("m1", 0))
		assert.NotZero(t, failed.(*kmsg.StreamsGroupTopologyDescriptionUpdateResponse).ErrorCode)
		assert.Zero(t, done.(*kmsg.StreamsGroupTopologyDescriptionUpdateResponse).ErrorCode)

		// Configs of the group and of the broker.
		alter := func(kind kmsg.ConfigResourceType, resource, name, value string) {
			t.Helper()
			req := kmsg.NewPtrIncrementalAlterConfigsRequest()
			req.Version = 1
			req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
				ResourceType: kind, ResourceName: resource,
				Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Value: &value}},
			}}
			failed, done := r.after(0, req)
			assert.NotZero(t, failed.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode)
			assert.Zero(t, done.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode)
		}
		alter(kmsg.ConfigResourceTypeGroupConfig, "g", "streams.session.timeout.ms", "46000")
		alter(kmsg.ConfigResourceTypeBroker, "", "group.streams.assignment.interval.ms", "1500")

		// A member goes, another one comes with a new topology.
		r.beat(static(beating("m3", -1)))
		time.Sleep(2 * time.Second)
		r.beat(beating("m1", r.epoch("m1"), kept...))
		require.Zero(t, r.beat(joining("m4", 1, "t", "u")).ErrorCode)
		failed, _ = r.after(1, pushing("m4", 1))
		assert.NotZero(t, failed.(*kmsg.StreamsGroupTopologyDescriptionUpdateResponse).ErrorCode)

		// Who is silent goes: a timer each, first in vain.
		r.first(0, func() { time.Sleep(time.Minute) })
		time.Sleep(time.Minute)
		require.Empty(t, r.cl.DescribeStreamsGroup("g").Members)

		// The empty group goes: on request, ...
		remove := kmsg.NewPtrDeleteGroupsRequest()
		remove.Version, remove.Groups = 2, []string{"g"}
		for _, batches := range []int{0, 1} {
			r.first(batches, func() {
				assert.NotZero(t, exchange(t, r.conn, remove).(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode)
			})
		}
		require.Zero(t, exchange(t, r.conn, remove).(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode)

		// ... for a group of another type, ...
		empty := func() {
			t.Helper()
			exchange(t, r.conn, joining("m1", 0, "t"))
			exchange(t, r.conn, beating("m1", -1))
			require.Equal(t, "Empty", r.cl.DescribeStreamsGroup("g").State)
		}
		empty()
		classic := kmsg.NewPtrJoinGroupRequest()
		classic.Version, classic.Group, classic.ProtocolType, classic.SessionTimeoutMillis, classic.RebalanceTimeoutMillis = 6, "g", "consumer", 10_000, 10_000
		classic.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
		failed, _ = r.after(0, classic)
		assert.Equal(t, kerr.UnknownServerError.Code, failed.(*kmsg.JoinGroupResponse).ErrorCode)
		_, known := r.cl.StreamsGroupState("g")
		require.False(t, known)
		time.Sleep(time.Minute)
		require.Zero(t, exchange(t, r.conn, remove).(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode)

		// ... and by itself.
		empty()
		r.first(0, func() { time.Sleep(15 * time.Minute) })
		time.Sleep(15 * time.Minute)
		_, known = r.cl.StreamsGroupState("g")
		require.False(t, known)
	})
}

// epoch is a member's epoch, -1 if there is no such member.
func (r *refusals) epoch(member string) int32 {
	for _, m := range r.cl.DescribeStreamsGroup("g").Members {
		if m.MemberID == member {
			return m.MemberEpoch
		}
	}
	return -1
}
