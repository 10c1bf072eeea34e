package kfakeext_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/kfakeext"
)

// stateful is a join with a subtopology that reads "in" and keeps its state in log.
func stateful(group, member string) *kmsg.StreamsGroupHeartbeatRequest {
	req := join(group, member, "in")
	changelog := kmsg.NewTopicInfo()
	changelog.Topic = "log"
	req.Topology.Subtopologies[0].StateChangelogTopics = []kmsg.TopicInfo{changelog}
	return req
}

func at(req *kmsg.StreamsGroupHeartbeatRequest, partition int32, offset int64) *kmsg.StreamsGroupHeartbeatRequest {
	o := kmsg.NewTaskOffset()
	o.SubtopologyID, o.Partition, o.Offset = "s1", partition, offset
	req.TaskOffsets = append(req.TaskOffsets, o)
	return req
}

// A copy that is reported without an end offset counts as caught up when it is
// near the end of the changelog itself, as the cluster knows it. Java reports the
// largest number until a record arrives, other clients nothing.
func TestLogEndsComeFromTheCluster(t *testing.T) {
	inBubble(t, func(w *wire) {
		require.NoError(w, w.cl.SetGroupConfig("g", map[string]string{
			"streams.assignor.name": "highly_available", "streams.acceptable.recovery.lag": "10", "streams.initial.rebalance.delay.ms": "0",
		}))
		producer := connect(w.T, w.cl, kgo.RecordPartitioner(kgo.ManualPartitioner())).client
		for i := range 200 {
			require.NoError(w, producer.ProduceSync(w.Context(), &kgo.Record{Topic: "log", Partition: int32(i % 2)}).FirstErr())
		}
		m1 := w.ok(stateful("g", "m1"))
		assert.Equal(w, map[string][]int32{"s1": {0, 1}}, tasks(m1.ActiveTasks))
		m1 = w.ok(holding(beat("g", "m1", m1.MemberEpoch), m1))

		m2 := w.ok(stateful("g", "m2"))
		for range 3 {
			time.Sleep(time.Second) // assignment interval
			if m1 = w.ok(beat("g", "m1", m1.MemberEpoch)); len(m2.WarmupTasks) == 0 {
				m2 = w.ok(beat("g", "m2", m2.MemberEpoch))
			}
		}
		require.Len(w, m2.WarmupTasks, 1)
		moving := m2.WarmupTasks[0].Partitions[0]
		m2 = w.ok(holding(beat("g", "m2", m2.MemberEpoch), m2))

		m2 = w.ok(at(beat("g", "m2", m2.MemberEpoch), moving, 89))
		for range 3 {
			time.Sleep(time.Second)
			m1 = w.ok(beat("g", "m1", m1.MemberEpoch))
			assert.Nil(w, m1.ActiveTasks, "11 records are missing, and no more than 10 may")
		}
		m2 = w.ok(at(beat("g", "m2", m2.MemberEpoch), moving, 90))
		m1 = w.ok(beat("g", "m1", m1.MemberEpoch))
		assert.Equal(w, map[string][]int32{"s1": {1 - moving}}, tasks(m1.ActiveTasks))
		w.ok(holding(beat("g", "m1", m1.MemberEpoch), m1))
		m2 = w.ok(beat("g", "m2", m2.MemberEpoch))
		assert.Equal(w, map[string][]int32{"s1": {moving}}, tasks(m2.ActiveTasks))
	}, kfakeext.Topic("in", 2), kfakeext.Topic("log", 2))
}

// holding reports the tasks that a response has given.
func holding(req *kmsg.StreamsGroupHeartbeatRequest, resp *kmsg.StreamsGroupHeartbeatResponse) *kmsg.StreamsGroupHeartbeatRequest {
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	req.ActiveTasks = append(req.ActiveTasks, resp.ActiveTasks...)
	req.StandbyTasks = append(req.StandbyTasks, resp.StandbyTasks...)
	req.WarmupTasks = append(req.WarmupTasks, resp.WarmupTasks...)
	return req
}

// The ends of all changelogs of a task are looked up at once: a decision is made a few
// times over at most, and what was looked up is out of date by the next heartbeat.
func TestLogEndsOfManyChangelogs(t *testing.T) {
	const changelogs = 6
	opts := []kfakeext.Opt{kfakeext.Topic("in", 2)}
	for i := range changelogs {
		opts = append(opts, kfakeext.Topic(fmt.Sprint("log", i), 2))
	}
	inBubble(t, func(w *wire) {
		require.NoError(w, w.cl.SetGroupConfig("g", map[string]string{
			"streams.assignor.name": "highly_available", "streams.acceptable.recovery.lag": "10", "streams.initial.rebalance.delay.ms": "0",
		}))
		producer := connect(w.T, w.cl, kgo.RecordPartitioner(kgo.ManualPartitioner())).client
		for i := range 2 * changelogs {
			require.NoError(w, producer.ProduceSync(w.Context(), &kgo.Record{Topic: fmt.Sprint("log", i/2), Partition: int32(i % 2)}).FirstErr())
		}
		joining := func(member string) *kmsg.StreamsGroupHeartbeatRequest {
			req := join("g", member, "in")
			for i := range changelogs {
				changelog := kmsg.NewTopicInfo()
				changelog.Topic = fmt.Sprint("log", i)
				req.Topology.Subtopologies[0].StateChangelogTopics = append(req.Topology.Subtopologies[0].StateChangelogTopics, changelog)
			}
			return req
		}
		m1 := w.ok(joining("m1"))
		m1 = w.ok(holding(beat("g", "m1", m1.MemberEpoch), m1))
		m2 := w.ok(joining("m2"))
		for range 3 {
			time.Sleep(time.Second) // assignment interval
			if m1 = w.ok(beat("g", "m1", m1.MemberEpoch)); len(m2.WarmupTasks) == 0 {
				m2 = w.ok(beat("g", "m2", m2.MemberEpoch))
			}
		}
		require.Len(w, m2.WarmupTasks, 1)
		moving := m2.WarmupTasks[0].Partitions[0]
		m2 = w.ok(holding(beat("g", "m2", m2.MemberEpoch), m2))
		w.ok(at(beat("g", "m2", m2.MemberEpoch), moving, changelogs))
		m1 = w.ok(beat("g", "m1", m1.MemberEpoch))
		assert.Equal(w, map[string][]int32{"s1": {1 - moving}}, tasks(m1.ActiveTasks))
	}, opts...)
}
