package membership

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestBody(t *testing.T) {
	t.Parallel()
	for _, instance := range []string{"", "shop-1"} {
		t.Run("CC-083 SI-1 ID-2 fields that are always there "+instance, func(t *testing.T) {
			h := stable(t, active("0_0"), func(c *Config) { c.InstanceID = instance })
			for range 2 {
				req := h.heartbeat()
				require.Equal(t, "shop", req.Group)
				require.Equal(t, "m1", req.MemberID)
				require.Equal(t, int32(1), req.MemberEpoch)
				require.Equal(t, int16(1), req.Version)
				if instance == "" {
					require.Nil(t, req.InstanceID)
				} else {
					require.Equal(t, instance, *req.InstanceID)
				}
				h.answer()
			}
		})
	}
	t.Run("CC-084 IQ-1 a join and what follows", func(t *testing.T) {
		full := func(c *Config) {
			c.RackID, c.ProcessID, c.MaxPollInterval = "r1", "P", ms(1234)
			c.ClientTags = map[string]string{"zone": "a", "cluster": "b"}
			c.Endpoint = &Endpoint{"h1", 7070}
		}
		h := in(t, Joining, full)
		req := h.heartbeat()
		require.Equal(t, "r1", *req.RackID)
		require.Equal(t, "P", *req.ProcessID)
		require.Equal(t, "h1", req.UserEndpoint.Host)
		require.Equal(t, uint16(7070), req.UserEndpoint.Port)
		require.Equal(t, int32(1234), req.RebalanceTimeoutMillis)
		require.Equal(t, h.m.cfg.Topology.Wire(), req.Topology)
		require.Equal(t, []kmsg.StreamsGroupHeartbeatRequestClientTag{{Key: "cluster", Value: "b"}, {Key: "zone", Value: "a"}}, req.ClientTags, "tags are sorted")
		h.requireReported(roles{}, req)
		require.Equal(t, []kmsg.TaskOffset{}, req.TaskOffsets, "even if there are none")
		require.Equal(t, []kmsg.TaskOffset{}, req.TaskEndOffsets)

		for _, s := range []State{Acknowledging, Reconciling, StateStable, PrepareLeaving, Leaving} {
			h := in(t, s, full)
			h.m.clearBackoff()
			h.open = nil
			h.m.ForceHeartbeat()
			h.run()
			req := h.heartbeat()
			require.Nil(t, req.Topology, s)
			require.Nil(t, req.RackID, s)
			require.Nil(t, req.ProcessID, s)
			require.Nil(t, req.UserEndpoint, s)
			require.Nil(t, req.ClientTags, s)
			require.Equal(t, int32(-1), req.RebalanceTimeoutMillis, s)
		}
	})
	t.Run("CC-084 a join without anything configured", func(t *testing.T) {
		req := in(t, Joining).heartbeat()
		require.Nil(t, req.RackID)
		require.Nil(t, req.UserEndpoint)
		require.NotNil(t, req.ClientTags)
		require.Empty(t, req.ClientTags)
	})
	t.Run("CC-086 HB-7 HB-9 TR-4 tasks are sent when they change", func(t *testing.T) {
		h := in(t, Joining)
		first := active("0_0", "0_1", "1_2").standbys("0_2").warmups("0_3", "0_4", "0_5")
		h.assign(first)
		h.done(TasksAssigned)
		h.requireReported(first, h.heartbeat())
		require.Len(t, h.heartbeat().ActiveTasks, 2, "grouped by subtopology")
		h.answer()
		h.requireNoTasks(h.heartbeat())
		second := active("0_0").standbys("0_2")
		h.assign(second)
		h.done(TasksRevoked)
		h.done(TasksAssigned)
		h.requireReported(second, h.heartbeat())
		require.NotNil(t, h.heartbeat().WarmupTasks)
	})
	t.Run("CC-087 HB-7 B66 one role changes", func(t *testing.T) {
		base := active("0_0").standbys("0_1").warmups("0_2")
		for name, more := range map[string]roles{
			"active":  active("0_0", "1_3").standbys("0_1").warmups("0_2"),
			"standby": active("0_0").standbys("0_1", "1_3").warmups("0_2"),
			"warm-up": active("0_0").standbys("0_1").warmups("0_2", "1_3"),
		} {
			h := stable(t, base)
			for _, a := range []roles{more, base} {
				h.assign(a)
				for len(h.callbacks) > 0 {
					h.done(h.callbacks[0].Kind)
				}
				h.requireReported(a, h.heartbeat())
				h.answer()
				h.requireNoTasks(h.heartbeat())
			}
			require.NotEmpty(t, h.ran, name)
		}
	})
	t.Run("HB-6 HB-6a while callbacks run the confirmed tasks are reported, and those that start", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.assign(active("0_1"))
		h.after(interval)
		h.requireNoTasks(h.heartbeat())
		h.answer(code(14))
		h.after(backoff)
		h.requireReported(active("0_0", "0_1"), h.heartbeat())
		h.answer()
		h.done(TasksRevoked)
		h.after(interval)
		h.requireNoTasks(h.heartbeat())
	})
	t.Run("HB-6a the pass that is under way, and the target after it", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.assign(active("0_2"))
		h.assign(active("0_1"))
		h.answer(code(14))
		h.after(backoff)
		h.requireReported(active("0_0", "0_1", "0_2"), h.heartbeat())
		require.Equal(t, []int32{0, 1, 2}, h.heartbeat().ActiveTasks[0].Partitions, "each once")
	})
	t.Run("HB-6a a task that starts is not given up by a report without it", func(t *testing.T) {
		h := newHarness(t)
		h.join()
		h.assign(active("0_0").standbys("0_1"))
		h.after(interval) // the callback is still running
		h.requireReported(active("0_0"), h.heartbeat())
		h.answer()
		h.done(TasksAssigned)
		h.requireReported(active("0_0").standbys("0_1"), h.heartbeat())
	})
	t.Run("HB-8 DV-2 a rejoin after a clean leave reports the same tasks again", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.m.Leave(h.now, LeaveDefault)
		h.run()
		h.done(TasksRevoked)
		h.answer()
		h.join()
		h.assign(active("0_0"))
		h.done(TasksAssigned)
		h.requireReported(active("0_0"), h.heartbeat())
	})
	for _, s := range []State{Joining, Acknowledging, Reconciling, StateStable, PrepareLeaving, Leaving} {
		t.Run("CC-090 SD-1 SD-2 the shutdown flag in "+s.String(), func(t *testing.T) {
			h := in(t, s)
			for _, o := range h.open {
				require.False(t, o.req.ShutdownApplication)
			}
			h.m.RequestShutdown()
			for range 2 {
				h.m.clearBackoff()
				h.open = nil
				h.now += backoffMax
				h.m.ForceHeartbeat()
				h.run()
				if s == Leaving && len(h.open) == 0 {
					return // there is only one leave
				}
				require.True(t, h.heartbeat().ShutdownApplication)
			}
		})
	}
	t.Run("SD-2 a shutdown request waits for the next heartbeat", func(t *testing.T) {
		h := in(t, StateStable)
		h.m.RequestShutdown()
		h.m.RequestShutdown()
		h.run()
		require.Empty(t, h.sent)
		require.Len(t, eventsOf[ShutdownRequested](h), 1, "SD-4: told once")
	})
	t.Run("IQ-2 RS-2 the endpoint epoch is what was received last", func(t *testing.T) {
		h := in(t, Joining)
		require.Equal(t, int32(-1), h.heartbeat().EndpointInformationEpoch)
		h.assign(active("0_0"), endpointEpoch(3))
		h.settle()
		require.Zero(t, h.heartbeat().EndpointInformationEpoch)
		h.answer(endpointEpoch(7))
		require.Equal(t, int32(7), h.heartbeat().EndpointInformationEpoch)
		h.answer(code(110))
		h.done(TasksLost)
		require.Equal(t, int32(7), h.heartbeat().EndpointInformationEpoch, "fencing does not reset it")
	})
	t.Run("CC-092 everything but offsets is as in version 1", func(t *testing.T) {
		bodies := map[int16][]*kmsg.StreamsGroupHeartbeatRequest{}
		for _, version := range []int16{0, 1} {
			h := newHarness(t, func(c *Config) {
				c.RackID, c.ClientTags, c.Endpoint = "r1", map[string]string{"zone": "a"}, &Endpoint{"h1", 7070}
			})
			h.version = version
			h.m.SetTaskOffsets(offsets("0_0", 42), offsets("0_0", 43))
			h.m.RequestShutdown()
			h.join()
			h.assign(active("0_0", "1_1").standbys("0_1"), endpointEpoch(4))
			h.done(TasksAssigned)
			h.answer()
			h.m.SetTaskOffsets(offsets("0_0", 50), offsets("0_0", 60))
			h.after(70 * time.Second) // a report is due
			h.answer(code(14))
			h.after(backoff)
			for _, s := range h.sent {
				require.Equal(t, version > 0 && s.req.MemberEpoch == 0, s.req.TaskOffsets != nil && s.req.Topology != nil)
				if version > 0 {
					s.req.TaskOffsets, s.req.TaskEndOffsets, s.req.Version = nil, nil, 0
				}
				require.Nil(t, s.req.TaskOffsets)
				require.Nil(t, s.req.TaskEndOffsets)
				bodies[version] = append(bodies[version], s.req)
			}
		}
		require.Len(t, bodies[0], 4)
		require.Equal(t, bodies[1], bodies[0])
	})
	t.Run("CC-092 TO-13 version 0 has no offsets", func(t *testing.T) {
		h := newHarness(t)
		h.version = 0
		h.m.SetTaskOffsets(offsets("0_0", 42), offsets("0_0", 43))
		h.join()
		require.Nil(t, h.heartbeat().TaskOffsets)
		require.NotNil(t, h.heartbeat().Topology)
		h.assign(active("0_0"), func(r *kmsg.StreamsGroupHeartbeatResponse) { r.AcceptableRecoveryLag = 5 })
		h.done(TasksAssigned)
		require.Nil(t, h.heartbeat().TaskOffsets)
		require.Nil(t, h.heartbeat().TaskEndOffsets)
		h.requireReported(active("0_0"), h.heartbeat())
		require.Equal(t, int64(-1), h.m.Snapshot(h.now).AcceptableRecoveryLag)
	})
	t.Run("the configuration does not change afterwards", func(t *testing.T) {
		tags := map[string]string{"zone": "a"}
		h := newHarness(t, func(c *Config) { c.ClientTags = tags })
		tags["zone"] = "b"
		h.join()
		require.Equal(t, "a", h.heartbeat().ClientTags[0].Value)
	})
}

func endpointEpoch(e int32) func(*kmsg.StreamsGroupHeartbeatResponse) {
	return func(r *kmsg.StreamsGroupHeartbeatResponse) { r.EndpointInformationEpoch = e }
}

// TestReportAfterEveryReconciliation gives a task and takes it away again while a
// heartbeat is under way: the lists are those that were sent last, and yet the
// coordinator waits for them.
func TestReportAfterEveryReconciliation(t *testing.T) {
	t.Parallel()
	t.Run("HB-7a DV-17 AS-3", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.answer()
		h.assign(active("0_0", "0_1"), epoch(2))
		h.requireNoTasks(h.heartbeat()) // under way while the application takes the task
		h.done(TasksAssigned)
		h.assign(active("0_0"), epoch(2)) // and has to give it back already
		require.Equal(t, tasks("0_1"), h.done(TasksRevoked).Active)
		h.done(TasksAssigned)
		h.requireReported(active("0_0"), h.heartbeat())
		h.answer()
		h.requireNoTasks(h.heartbeat())
	})
	t.Run("HB-7a AS-2 an empty assignment of a group that is not ready", func(t *testing.T) {
		h := newHarness(t)
		h.join()
		h.assign(active(), status(5))
		h.after(interval)
		h.requireReported(roles{}, h.heartbeat()) // while the callback runs
		h.answer(status(5))
		require.False(t, h.done(TasksAssigned).Ready)
		h.requireReported(roles{}, h.heartbeat())
		require.Equal(t, StateStable, h.m.State())
	})
	t.Run("AS-1a DV-18 lists that say nothing new", func(t *testing.T) {
		h := stable(t, active("0_0").standbys("0_1"))
		h.answer()
		h.requireNoTasks(h.heartbeat())
		h.assign(active("0_0").standbys("0_1"), epoch(2)) // what an answer that was lost gave is taken back
		require.Empty(t, h.callbacks)
		h.requireReported(active("0_0").standbys("0_1"), h.heartbeat())
		h.answer()
		h.requireNoTasks(h.heartbeat())
	})
}

func TestResponse(t *testing.T) {
	t.Parallel()
	t.Run("CC-111 CC-112 RS-1 RS-3 group settings", func(t *testing.T) {
		h := newHarness(t)
		require.Equal(t, GroupSettings{-1, -1, -1}, h.m.settings)
		h.join()
		for _, c := range []struct {
			hb, offset int32
			lag        int64
			told       bool
		}{{5000, 7000, 4242, true}, {5000, 7000, 4242, false}, {5001, 7000, 4242, true}, {5001, 7001, 4242, true}, {5001, 7001, 4243, true}, {5000, 0, -1, true}} {
			h.clear()
			set := func(r *kmsg.StreamsGroupHeartbeatResponse) {
				r.HeartbeatIntervalMillis, r.TaskOffsetIntervalMillis, r.AcceptableRecoveryLag = c.hb, c.offset, c.lag
			}
			h.assign(active(), set)
			want := GroupSettings{ms(int(c.hb)), ms(int(c.offset)), c.lag}
			if c.told {
				require.Equal(t, []GroupSettings{want}, eventsOf[GroupSettings](h))
			} else {
				require.Empty(t, eventsOf[GroupSettings](h))
			}
			s := h.m.Snapshot(h.now)
			require.Equal(t, want, GroupSettings{s.HeartbeatInterval, s.TaskOffsetInterval, s.AcceptableRecoveryLag})
		}
	})
	t.Run("CC-114 CC-115 IQ-3 IQ-4 RS-5 the endpoint map", func(t *testing.T) {
		entry := func(active, standby int32) kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint {
			e := kmsg.NewStreamsGroupHeartbeatResponsePartitionsByUserEndpoint()
			e.UserEndpoint.Host, e.UserEndpoint.Port = "h1", 7070
			a := kmsg.NewStreamsGroupHeartbeatResponsePartitionsByUserEndpointActivePartition()
			a.Topic, a.Partitions = "orders", []int32{active}
			s := kmsg.NewStreamsGroupHeartbeatResponsePartitionsByUserEndpointStandbyPartition()
			s.Topic, s.Partitions = "items", []int32{standby}
			e.ActivePartitions = append(e.ActivePartitions, a)
			e.StandbyPartitions = append(e.StandbyPartitions, s)
			return e
		}
		type list = []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint
		set := func(l list) func(*kmsg.StreamsGroupHeartbeatResponse) {
			return func(r *kmsg.StreamsGroupHeartbeatResponse) { r.PartitionsByUserEndpoint = l }
		}
		h := in(t, StateStable)
		h.answer(set(list{entry(0, 0), entry(1, 1)}))
		want := map[Endpoint]EndpointPartitions{{"h1", 7070}: {
			Active:  []TopicPartition{{"orders", 0}, {"orders", 1}},
			Standby: []TopicPartition{{"items", 0}, {"items", 1}},
		}}
		require.Equal(t, want, h.m.Snapshot(h.now).Endpoints)
		h.answer(set(nil))
		require.Equal(t, want, h.m.Snapshot(h.now).Endpoints, "null keeps it")
		h.answer(set(list{}))
		require.Empty(t, h.m.Snapshot(h.now).Endpoints)
	})
	t.Run("CC-116 ST-1 ST-5 RS-6 DV-15 a status is told once", func(t *testing.T) {
		h := in(t, StateStable)
		tags := func(detail string) func(*kmsg.StreamsGroupHeartbeatResponse) {
			return func(r *kmsg.StreamsGroupHeartbeatResponse) {
				if detail != "" {
					status(6)(r)
					r.Status[0].StatusDetail = detail
				}
			}
		}
		for _, c := range []struct {
			detail string
			told   bool
		}{{"zone, cluster", true}, {"zone, cluster", false}, {"zone", true}, {"", true}, {"", false}, {"zone", true}} {
			h.clear()
			h.answer(tags(c.detail))
			require.Equal(t, c.told, len(eventsOf[StatusChanged](h)) == 1)
			require.Empty(t, h.ran)
			if c.detail != "" {
				require.Equal(t, []Status{{6, c.detail}}, h.m.Snapshot(h.now).Statuses)
			}
		}
		h.answer(status(0))
		h.clear()
		h.answer(status(6))
		require.Len(t, eventsOf[StatusChanged](h), 1, "another code with the same words")
	})
	t.Run("RS-2 DV-6 the answer to a leave sets neither interval nor endpoint epoch", func(t *testing.T) {
		h := stable(t, active())
		h.answer(endpointEpoch(7))
		h.m.Leave(h.now, LeaveDefault)
		h.run()
		h.answer(endpointEpoch(0))
		require.Equal(t, interval, h.m.interval)
		h.join()
		require.Equal(t, int32(7), h.heartbeat().EndpointInformationEpoch)
	})
}
