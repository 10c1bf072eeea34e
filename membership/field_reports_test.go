package membership

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/topology"
)

// These are troubles that people have had with other implementations of this
// protocol, with Kafka's and with those of its relatives. docs/member-rules.md
// tells them.
func TestFieldReports(t *testing.T) {
	t.Parallel()
	t.Run("B20 a member asks for the shutdown when it leaves", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.m.RequestShutdown()
		h.m.Leave(h.now, LeaveGroup)
		h.run()
		h.done(TasksRevoked)
		require.Equal(t, int32(-1), h.heartbeat().MemberEpoch)
		require.True(t, h.heartbeat().ShutdownApplication)
	})
	t.Run("B25 from active to standby in one answer", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.assign(active().standbys("0_0"))
		require.Equal(t, tasks("0_0"), h.done(TasksRevoked).Active)
		require.Empty(t, h.open, "given up and taken in one report")
		cb := h.done(TasksAssigned)
		require.Equal(t, active().standbys("0_0"), roles{cb.Active, cb.Standby, cb.Warmup})
		h.requireReported(active().standbys("0_0"), h.heartbeat())
		h.assign(active("0_0"))
		require.Equal(t, tasks("0_0"), h.done(TasksAssigned).Active, "and back without a revocation")
	})
	t.Run("B26 the first epoch while the first assignment is delayed", func(t *testing.T) {
		h := newHarness(t)
		h.join()
		h.assign(active(), status(5), epoch(1))
		require.False(t, h.done(TasksAssigned).Ready)
		require.Equal(t, int32(1), h.heartbeat().MemberEpoch)
		require.Nil(t, h.heartbeat().Topology)
	})
	t.Run("B37 a join carries the offsets of what is on the disk", func(t *testing.T) {
		h := newHarness(t)
		h.m.SetTaskOffsets(offsets("0_0", 100, "0_1", 100), offsets())
		h.join()
		require.Equal(t, offsets("0_0", 100, "0_1", 100), wireOffsets(h.heartbeat().TaskOffsets))
	})
	t.Run("B45 the answer to the leave comes when the member joins again", func(t *testing.T) {
		for _, lost := range []bool{false, true} {
			h := stable(t, active("0_0"), patient)
			h.heartbeat()
			h.m.Leave(h.now, LeaveDefault)
			h.run()
			h.done(TasksRevoked)
			old, leave := h.open[0], h.open[1]
			h.open = nil
			h.answerTo(old, epoch(6))
			require.False(t, h.m.LeaveDone())
			if lost {
				h.m.HeartbeatFailed(h.now, leave.id, TimedOut, errors.New("timed out"))
				h.after(backoff)
				second := h.open[0]
				h.open = nil
				h.answerTo(second)
			}
			h.m.Join(h.now)
			h.run()
			h.answerTo(leave)
			h.after(backoffMax)
			require.Equal(t, Joining, h.m.State())
			req := h.heartbeat()
			require.Zero(t, req.MemberEpoch)
			require.NotNil(t, req.Topology)
			h.requireReported(roles{}, req)
		}
	})
	t.Run("B46 TR-9 TR-10 twenty failures with jitter", func(t *testing.T) {
		source := rand.New(rand.NewPCG(1, 2))
		h := stable(t, active("0_0"), func(c *Config) { c.Jitter = source.Float64 })
		for n := range 20 {
			h.heartbeat()
			h.fail(TimedOut, errors.New("timed out"))
			at, ok := h.m.NextDeadline()
			require.True(t, ok)
			want := float64(min(backoff<<n, backoffMax))
			require.GreaterOrEqual(t, float64(at-h.now), 0.8*want-1)
			require.LessOrEqual(t, float64(at-h.now), min(1.2*want+1, float64(backoffMax)))
			h.after(at - h.now)
		}
		for _, odd := range []float64{-7, 300} {
			h.m.cfg.Jitter = func() float64 { return odd }
			require.InDelta(t, float64(4*backoff), float64(h.m.backoff(2)), 0.2*float64(4*backoff)+1)
		}
	})
	t.Run("B47 not running before the group is ready", func(t *testing.T) {
		h := newHarness(t)
		h.join()
		h.assign(active(), status(3))
		require.False(t, h.done(TasksAssigned).Ready)
		for range 3 {
			h.answer(status(3))
			require.Empty(t, h.callbacks)
		}
		h.answer()
		require.True(t, h.done(TasksAssigned).Ready)
		h.answer()
		h.assign(active("0_0"))
		require.True(t, h.done(TasksAssigned).Ready)
		h.settle()
		h.clear()
		for _, codes := range [][]int8{{1}, {}} {
			h.answer(status(codes...))
			require.Equal(t, tasks("0_0"), h.done(TasksAssigned).Active)
			h.answer(status(codes...))
		}
		require.Equal(t, []CallbackKind{TasksAssigned, TasksAssigned}, h.kinds(), "nothing is revoked")
	})
	t.Run("B50 heartbeats go on and nothing is acknowledged while the application is busy", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.assign(active("0_0", "0_1"))
		for range 3 {
			h.after(interval)
			h.requireNoTasks(h.heartbeat())
			h.answer()
			require.Equal(t, tasks("0_0"), h.m.Snapshot(h.now).Active)
		}
		h.done(TasksAssigned)
		h.requireReported(active("0_0", "0_1"), h.heartbeat())
	})
	for name, change := range map[string]func(*kmsg.StreamsGroupHeartbeatResponse){
		"B52 an unknown subtopology": active("7_0").set,
		"B52 two of the three lists": func(r *kmsg.StreamsGroupHeartbeatResponse) {
			active("0_1").set(r)
			r.WarmupTasks = nil
		},
		"B52 a negative partition": func(r *kmsg.StreamsGroupHeartbeatResponse) {
			roles{active: tasks("0_1"), standby: []topology.TaskID{{Subtopology: "0", Partition: -1}}}.set(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := stable(t, active("0_0"))
			h.answer(change)
			require.Equal(t, Fatal, h.m.State())
			require.Len(t, h.errs, 1)
			require.Equal(t, []CallbackKind{TasksLost}, h.kinds(), "nothing is opened")
			require.Equal(t, tasks("0_0"), h.done(TasksLost).Active)
			require.Equal(t, int32(-1), h.open[len(h.open)-1].req.MemberEpoch)
		})
	}
	t.Run("B52 B77 the same task twice", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.answer(func(r *kmsg.StreamsGroupHeartbeatResponse) {
			active("0_0", "0_1").set(r)
			r.ActiveTasks = append(r.ActiveTasks, r.ActiveTasks...)
			r.ActiveTasks[0].Partitions = append(r.ActiveTasks[0].Partitions, 0)
		})
		require.Equal(t, tasks("0_0", "0_1"), h.done(TasksAssigned).Active)
		require.Equal(t, []CallbackKind{TasksAssigned}, h.kinds(), "0_0 stays open")
	})
	t.Run("B52 CC-134 a task that is active and standby", func(t *testing.T) {
		h := stable(t, active())
		h.assign(active("0_0").standbys("0_0", "0_1").warmups("0_1"))
		cb := h.done(TasksAssigned)
		require.Equal(t, active("0_0").standbys("0_1"), roles{cb.Active, cb.Standby, cb.Warmup})
		require.Equal(t, []RolesOverlap{{Ignored: tasks("0_0"), Merged: tasks("0_1")}}, eventsOf[RolesOverlap](h))
	})
	t.Run("B54 two members of one process", func(t *testing.T) {
		entry := func(host string, active, standby []int32) kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint {
			e := kmsg.NewStreamsGroupHeartbeatResponsePartitionsByUserEndpoint()
			e.UserEndpoint.Host, e.UserEndpoint.Port = host, 1
			e.ActivePartitions = []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpointActivePartition{{Topic: "in", Partitions: active}}
			e.StandbyPartitions = []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpointStandbyPartition{{Topic: "in", Partitions: standby}}
			return e
		}
		h := stable(t, active("0_0"))
		h.answer(func(r *kmsg.StreamsGroupHeartbeatResponse) {
			r.PartitionsByUserEndpoint = []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint{
				entry("h1", []int32{0}, nil), entry("h2", nil, []int32{5}), entry("h1", []int32{1}, []int32{2, 0}),
			}
		})
		require.Equal(t, map[Endpoint]EndpointPartitions{
			{"h1", 1}: {Active: []TopicPartition{{"in", 0}, {"in", 1}}, Standby: []TopicPartition{{"in", 2}, {"in", 0}}},
			{"h2", 1}: {Standby: []TopicPartition{{"in", 5}}},
		}, h.m.Snapshot(h.now).Endpoints)
	})
	t.Run("B55 the same topology, the same bytes", func(t *testing.T) {
		var first []byte
		for range 50 {
			h := newHarness(t, func(c *Config) {
				c.ClientTags = map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"}
			})
			h.m.SetTaskOffsets(offsets("0_0", 1, "0_1", 2, "1_0", 3), nil)
			h.join()
			got := h.heartbeat().AppendTo(nil)
			if first == nil {
				first = got
			}
			require.True(t, bytes.Equal(first, got))
		}
	})
	t.Run("B56 reports of offsets at rest", func(t *testing.T) {
		h := newHarness(t)
		h.m.SetTaskOffsets(offsets("0_0", 1), offsets("0_0", 9))
		h.join()
		require.NotNil(t, h.heartbeat().TaskOffsets)
		h.assign(active("0_0"))
		h.settle()
		h.clear()
		start := h.now
		reported := func() bool { return h.sent[len(h.sent)-1].req.TaskOffsets != nil }
		for h.now-start < 90*time.Second {
			h.after(interval)
			require.False(t, reported(), "unchanged, at %v", h.now-start)
			h.answer()
		}
		h.m.SetTaskOffsets(offsets("0_0", 2), offsets("0_0", 9))
		h.after(interval)
		require.True(t, reported(), "a minute has passed since the last report")
		h.answer()
		h.m.SetTaskOffsets(offsets("0_0", 3), offsets("0_0", 9))
		h.after(interval)
		require.False(t, reported())
		h.answer(code(14))
		h.after(backoff)
		require.True(t, reported(), "everything is repeated after a failure")
	})
	t.Run("B58 a member that stops before the join is answered", func(t *testing.T) {
		h := in(t, Joining)
		h.m.Leave(h.now+backoff, LeaveDefault)
		h.run()
		h.done(TasksLost)
		leave := h.open[1].req
		require.Equal(t, int32(-1), leave.MemberEpoch)
		require.Equal(t, "m1", leave.MemberID, "it knows its name without the coordinator")
		h.answerTo(h.open[0], active("0_0").set)
		require.Empty(t, h.callbacks)
		h.answerTo(h.open[1])
		require.True(t, h.m.LeaveDone())
	})
	t.Run("B63 answers of a former life", func(t *testing.T) {
		for _, lost := range []bool{false, true} {
			h := stable(t, active("0_0"), withPollGuard)
			h.heartbeat()
			old := h.open[0]
			h.now = h.m.pollAt
			h.run()
			h.done(TasksLost)
			h.open = nil
			h.m.Poll(h.now)
			h.run()
			h.assign(active("0_1"), epoch(9))
			h.settle()
			h.clear()
			if lost {
				h.m.HeartbeatFailed(h.now, old.id, Disconnected, errors.New("reset"))
				h.run()
			} else {
				h.answerTo(old, epoch(6), active("1_0").set)
			}
			require.Equal(t, StateStable, h.m.State())
			got, _ := h.m.Epoch()
			require.Equal(t, int32(9), got)
			require.Empty(t, h.ran)
			require.True(t, h.m.coordinator)
			require.Zero(t, h.m.attempts)
		}
	})
	t.Run("B65 the epoch that arrives while tasks are revoked counts for their commit", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.heartbeat()
		h.m.Leave(h.now, LeaveDefault)
		h.run()
		h.answer(epoch(2))
		got, ok := h.m.Epoch()
		require.True(t, ok)
		require.Equal(t, int32(2), got)
		require.Equal(t, []EpochChanged{{1, 2}}, eventsOf[EpochChanged](h))
		h.done(TasksRevoked)
		h.answer()
		require.Len(t, h.sent, 2, "one heartbeat, one leave")
	})
	t.Run("B66 only a standby goes", func(t *testing.T) {
		h := stable(t, active("0_0", "0_1").standbys("1_0"))
		h.assign(active("0_0", "0_1"))
		require.Equal(t, []CallbackKind{TasksAssigned}, h.kinds())
		h.done(TasksAssigned)
		h.requireReported(active("0_0", "0_1"), h.heartbeat())
		for range 3 {
			h.answer()
			h.requireNoTasks(h.heartbeat())
		}
	})
	for name, a := range map[string]roles{"without tasks": active(), "with tasks": active("0_0")} {
		t.Run("B68 the answer is lost, "+name, func(t *testing.T) {
			h := stable(t, a)
			h.fail(Disconnected, errors.New("cut"))
			h.after(backoff)
			h.requireReported(a, h.heartbeat())
			require.NotNil(t, h.heartbeat().TaskOffsets)
			h.assign(active("1_1"), epoch(2)) // the coordinator repeats itself
			h.settle()
			require.Equal(t, tasks("1_1"), h.m.Snapshot(h.now).Active)
		})
	}
	t.Run("B70 everything is taken away, and then there is no news", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.assign(active())
		h.done(TasksRevoked)
		h.done(TasksAssigned)
		h.requireReported(roles{}, h.heartbeat())
		h.clear()
		h.answer()
		h.answer()
		require.Empty(t, h.ran)
		require.Equal(t, StateStable, h.m.State())
	})
	t.Run("B72 a join owns nothing, whatever was going on", func(t *testing.T) {
		for _, s := range []State{Joining, Reconciling, Acknowledging, StateStable} {
			h := in(t, s)
			h.answer(code(25))
			for len(h.callbacks) > 0 {
				h.done(h.callbacks[0].Kind)
			}
			h.requireReported(roles{}, h.heartbeat())
		}
	})
	t.Run("B73 the same member id for life", func(t *testing.T) {
		h := stable(t, active("0_0"))
		for _, c := range []int16{25, 110, 69} {
			h.now += backoffMax
			h.answer(code(c), func(r *kmsg.StreamsGroupHeartbeatResponse) { r.MemberID = "another" }) // ID-5
			h.done(TasksLost)
			require.Equal(t, "m1", h.heartbeat().MemberID)
			h.assign(active("0_0"))
			h.settle()
		}
	})
	for _, e := range []int32{-1, -2} {
		t.Run("B77 RS-7 a negative epoch out of nowhere", func(t *testing.T) {
			h := stable(t, active("0_0"))
			h.answer(epoch(e), active("0_1").set)
			require.Equal(t, int32(1), h.heartbeat().MemberEpoch, "no leave")
			require.Empty(t, h.ran)
			require.Empty(t, h.errs)
		})
	}
	t.Run("B77 epoch 0", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.answer(epoch(0))
		require.Equal(t, Fatal, h.m.State())
		require.Len(t, h.errs, 1)
		require.ErrorContains(t, h.errs[0], "no member epoch")
		h.done(TasksLost)
		require.Equal(t, int32(-1), h.open[len(h.open)-1].req.MemberEpoch, "it has counted on the member before")
	})
	t.Run("B82 the acknowledgement does not wait for the timer", func(t *testing.T) {
		h := stable(t, active("0_0", "0_1"))
		h.after(interval)
		h.assign(active("0_0"))
		h.after(ms(10))
		require.Empty(t, h.open)
		h.done(TasksRevoked)
		h.done(TasksAssigned)
		require.Len(t, h.open, 1)
		h.requireReported(active("0_0"), h.heartbeat())
		require.Equal(t, int32(1), h.heartbeat().MemberEpoch, "the same membership")
	})
	t.Run("B88 blips are not told to the application", func(t *testing.T) {
		h := stable(t, active("0_0"))
		for range 3 { // loading for a while
			h.answer(code(14))
			h.after(backoffMax)
		}
		h.answer(code(15))
		h.after(backoffMax)
		h.answer(code(16))
		h.after(backoffMax)
		h.manual = true
		h.fail(Disconnected, errors.New("EOF"))
		for range 10 { // refused
			h.after(backoffMax)
			h.m.CoordinatorFailed(h.now, errors.New("connection refused"))
		}
		h.after(backoffMax)
		h.m.CoordinatorFound(h.now, 1)
		h.run()
		h.answer()
		require.Empty(t, h.errs)
		require.Empty(t, h.ran)
		require.Equal(t, StateStable, h.m.State())
		require.Zero(t, h.m.Snapshot(h.now).Failures)
	})
	t.Run("B76 NOT_COORDINATOR for ever", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.heartbeat()
		start := h.now
		for h.now-start < 10*time.Minute {
			for len(h.open) > 0 {
				h.answer(code(16))
			}
			h.after(backoff)
		}
		require.Less(t, len(h.sent), 10*60+20, "a heartbeat a second")
		require.Less(t, h.finds, 10*60+20)
		require.InDelta(t, 10, len(eventsOf[Unreachable](h)), 1, "a warning a minute")
		require.Equal(t, StateStable, h.m.State())
		require.Empty(t, h.errs)
	})
	t.Run("B95 rights", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.answer(code(29, "orders"))
		require.ErrorContains(t, h.errs[0], "orders")
		require.ErrorContains(t, h.errs[0], "DESCRIBE")
		h.after(backoffMax)
		h.answer()
		require.Empty(t, h.ran)
	})
	t.Run("B105 polling often costs no heartbeats", func(t *testing.T) {
		h := stable(t, active("0_0"), withPollGuard)
		for range 30_000 {
			h.m.Poll(h.now)
			h.after(ms(1))
			for len(h.open) > 0 {
				h.answer()
			}
		}
		require.InDelta(t, 6, len(h.sent), 1)
	})
}
