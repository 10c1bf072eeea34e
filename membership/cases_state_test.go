package membership

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestJoin(t *testing.T) {
	t.Parallel()
	t.Run("CC-001 SM-1 a new member waits to be asked", func(t *testing.T) {
		h := newHarness(t)
		h.after(pollLimit)
		require.Equal(t, Unsubscribed, h.m.State())
		require.Empty(t, h.sent)
		h.m.Join(h.now)
		h.run()
		require.Equal(t, Joining, h.m.State())
		require.Len(t, h.sent, 1)
		require.Zero(t, h.sent[0].req.MemberEpoch)
	})
	t.Run("CC-002 SM-1 polling does not join", func(t *testing.T) {
		h := newHarness(t)
		h.m.Poll(0)
		h.run()
		require.Equal(t, Unsubscribed, h.m.State())
		require.Empty(t, h.sent)
	})
	t.Run("CC-003 SM-2 joining again has no effect on a member", func(t *testing.T) {
		h := in(t, Reconciling)
		h.m.Join(h.now)
		h.run()
		require.Equal(t, Reconciling, h.m.State())
		h.settle()
		require.Equal(t, []CallbackKind(nil), h.kinds())
	})
	t.Run("SM-27 a failed member cannot join", func(t *testing.T) {
		h := in(t, Fatal)
		h.m.Join(h.now)
		h.run()
		require.Equal(t, Fatal, h.m.State())
		require.Len(t, h.errs, 1)
		require.ErrorContains(t, h.errs[0], "make a new one")
	})
	t.Run("AS-2 SM-4 SM-5 HB-8 an empty first assignment is reconciled and acknowledged", func(t *testing.T) {
		h := newHarness(t)
		h.join()
		h.assign(active())
		require.Equal(t, Reconciling, h.m.State())
		cb := h.done(TasksAssigned)
		require.Empty(t, cb.Active)
		require.True(t, cb.Ready)
		h.requireReported(roles{}, h.heartbeat())
		require.Equal(t, StateStable, h.m.State())
	})
	t.Run("CC-036 RS-7 DV-5 a join that is answered without tasks breaks the protocol", func(t *testing.T) {
		for _, codes := range [][]int8{nil, {5}} {
			h := newHarness(t)
			h.join()
			h.answer(status(codes...))
			require.Equal(t, Fatal, h.m.State())
			require.Len(t, h.errs, 1)
			require.ErrorIs(t, h.errs[0], errNoTasks)
			require.Empty(t, eventsOf[EpochChanged](h))
			h.done(TasksLost)
			require.Equal(t, int32(-1), h.heartbeat().MemberEpoch, "the coordinator counts on the member")
		}
	})
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		from, to roles
		revoke   []string
	}{
		{"CC-005 AS-7 AS-9 AS-10 swap one active task for another", active("0_0"), active("0_1"), []string{"0_0"}},
		{"CC-006 AS-10 add an active task", active("0_0"), active("0_0", "0_1"), nil},
		{"CC-007 AS-10 shrink", active("0_0", "0_1"), active("0_1"), []string{"0_0"}},
		{"CC-008 two subtopologies at once", active(), active("0_0", "1_0"), nil},
		{"CC-009 active to standby", active("0_0"), active().standbys("0_1"), []string{"0_0"}},
		{"CC-010 active to warm-up", active("0_0"), active().warmups("0_1"), []string{"0_0"}},
		{"CC-012 standby to warm-up", active().standbys("0_0"), active().warmups("0_0"), nil},
		{"CC-012 warm-up to standby", active().warmups("0_0"), active().standbys("0_0"), nil},
		{"AS-7 standby to active is an assignment only", active().standbys("0_0"), active("0_0"), nil},
		{"B70 everything is taken away", active("0_0", "1_0").standbys("0_1").warmups("1_1"), active(), []string{"0_0", "1_0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := stable(t, c.from)
			h.assign(c.to)
			require.Equal(t, Reconciling, h.m.State())
			if c.revoke != nil {
				require.Len(t, h.ran, 1, "nothing is assigned before the revocation has ended")
				require.Equal(t, tasks(c.revoke...), h.done(TasksRevoked).Active)
			}
			require.Equal(t, Reconciling, h.m.State())
			sent := len(h.sent)
			cb := h.done(TasksAssigned)
			require.Equal(t, c.to, roles{cb.Active, cb.Standby, cb.Warmup})
			require.True(t, cb.Ready)
			require.Equal(t, int32(1), cb.Epoch)
			require.Equal(t, []TargetReceived{{c.to.active, c.to.standby, c.to.warmup, true, tasks(c.revoke...)}}, eventsOf[TargetReceived](h))
			require.Len(t, h.sent, sent+1, "the acknowledgement goes out at once")
			h.requireReported(c.to, h.heartbeat())
			require.Equal(t, StateStable, h.m.State())
			require.Empty(t, h.callbacks)
		})
	}

	t.Run("CC-005 SM-5 SM-6 AS-12 the result is acknowledged from ACKNOWLEDGING", func(t *testing.T) {
		h := in(t, Acknowledging)
		require.Len(t, h.open, 1)
		h.answer()
		require.Equal(t, StateStable, h.m.State())
		h.requireReported(active("0_0"), h.heartbeat())
	})
	t.Run("CC-017 SM-7 a new target while a callback runs", func(t *testing.T) {
		h := in(t, Reconciling)
		h.assign(active("0_1"))
		require.Len(t, h.callbacks, 1, "one pass at a time")
		cb := h.callbacks[0]
		h.callbacks = nil
		h.m.CallbackDone(h.now, cb.ID, nil)
		require.Equal(t, Acknowledging, h.m.State())
		h.run()
		require.Equal(t, Reconciling, h.m.State())
		h.requireReported(active("0_0", "0_1"), h.heartbeat()) // rule HB-6a
		require.Equal(t, tasks("0_0"), h.done(TasksRevoked).Active)
		require.Equal(t, tasks("0_1"), h.done(TasksAssigned).Active)
	})
	t.Run("AS-1 the same assignment again changes nothing", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.assign(active("0_0"))
		require.Equal(t, StateStable, h.m.State())
		require.Empty(t, h.ran)
	})
	t.Run("AS-3 there and back while the first is being worked on takes two passes", func(t *testing.T) {
		h := in(t, Reconciling)
		h.assign(active("0_1"))
		h.assign(active("0_0"))
		h.done(TasksAssigned)
		require.Empty(t, h.open[0].req.Topology)
		require.Equal(t, Reconciling, h.m.State())
		require.Equal(t, tasks("0_0"), h.done(TasksAssigned).Active)
		h.settle()
		require.Equal(t, []CallbackKind{TasksAssigned}, h.kinds())
	})
	t.Run("CC-021 AS-13 SM-28 a revocation that returns into the next membership", func(t *testing.T) {
		h := stable(t, active("0_0"), withPollGuard)
		h.assign(active("0_1"))
		revoke := h.callbacks[0]
		h.after(pollLimit)
		require.Equal(t, Stale, h.m.State())
		h.finish(h.callbacks[1])
		h.m.Poll(h.now)
		h.run()
		require.Equal(t, Joining, h.m.State())
		h.finish(revoke)
		require.Equal(t, Joining, h.m.State())
		require.Equal(t, []CallbackKind{TasksRevoked, TasksLost}, h.kinds())
	})
	t.Run("CC-021 AS-13 HB-6 an assignment that returns after its tasks were lost", func(t *testing.T) {
		h := newHarness(t, withPollGuard)
		h.join()
		h.assign(active("0_0").standbys("0_1"))
		assign := h.callbacks[0]
		h.after(pollLimit)
		require.Equal(t, Stale, h.m.State())
		h.finish(h.callbacks[1])
		h.m.Poll(h.now)
		h.run()
		require.Equal(t, Joining, h.m.State())
		h.finish(assign)
		require.Empty(t, h.m.Snapshot(h.now).Active)
		require.Empty(t, h.m.Snapshot(h.now).Standby)
		require.Equal(t, Joining, h.m.State())
	})
	t.Run("CC-024 SM-13 AS-13 fatal before the assign callback returns", func(t *testing.T) {
		h := in(t, Reconciling)
		h.answer(code(30))
		h.done(TasksAssigned)
		require.Equal(t, Fatal, h.m.State())
		require.False(t, h.m.LeaveDone())
		require.Equal(t, tasks("0_0"), h.done(TasksLost).Active)
		require.Equal(t, Fatal, h.m.State())
		require.True(t, h.m.LeaveDone())
		require.Len(t, h.errs, 1)
	})
	t.Run("a join waits until the callbacks of the former membership are over", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.assign(active("0_1"))
		h.answer(code(25)) // while the revocation runs
		h.m.Leave(h.now, LeaveDefault)
		h.m.Join(h.now)
		h.run()
		require.Equal(t, Unsubscribed, h.m.State(), "a join says that the member runs nothing")
		h.done(TasksRevoked)
		require.Equal(t, Unsubscribed, h.m.State())
		h.done(TasksLost)
		h.assign(active("1_0"))
		require.Equal(t, tasks("1_0"), h.done(TasksAssigned).Active)
		h.requireReported(active("1_0"), h.sent[len(h.sent)-1].req)
	})
	t.Run("CC-134 a task runs in one role", func(t *testing.T) {
		h := newHarness(t)
		h.join()
		h.assign(active("1_0").standbys("1_0", "0_2", "0_3").warmups("1_0", "0_3", "0_4"))
		cb := h.done(TasksAssigned)
		want := active("1_0").standbys("0_2", "0_3").warmups("0_4")
		require.Equal(t, want, roles{cb.Active, cb.Standby, cb.Warmup})
		h.requireReported(want, h.heartbeat())
		require.Equal(t, []RolesOverlap{{Ignored: tasks("1_0"), Merged: tasks("0_3", "1_0")}}, eventsOf[RolesOverlap](h))
		h.settle()
		h.clear()
		h.assign(active("0_1").standbys("0_2").warmups("0_3"))
		require.Empty(t, eventsOf[RolesOverlap](h))
		h.settle()
		h.clear()
		h.assign(active("0_0").standbys("1_0").warmups("0_0"))
		require.Equal(t, []RolesOverlap{{Ignored: tasks("0_0")}}, eventsOf[RolesOverlap](h))
	})
	t.Run("AS-14 DV-7 a failed callback ends the membership", func(t *testing.T) {
		boom := errors.New("boom")
		h := stable(t, active("0_0"))
		h.assign(active("0_1"))
		h.done(TasksRevoked, boom)
		require.Equal(t, Fatal, h.m.State())
		require.ErrorIs(t, h.errs[0], boom)
		require.Equal(t, tasks("0_0"), h.done(TasksLost).Active)

		h = stable(t, active("0_0"))
		h.assign(active("0_1"))
		h.done(TasksRevoked)
		h.done(TasksAssigned, boom)
		require.Equal(t, Fatal, h.m.State())
		require.Equal(t, tasks("0_0"), h.m.Snapshot(h.now).Active, "what was confirmed before")
		require.Equal(t, tasks("0_1"), h.done(TasksLost).Active, "0_0 was revoked, 0_1 was being assigned")
		require.Empty(t, h.m.Snapshot(h.now).Active)

		h = stable(t, active("0_0"))
		h.assign(active("0_1"))
		h.after(interval)
		late := h.open[0]
		h.done(TasksRevoked, boom)
		h.answerTo(late, code(42))
		require.Len(t, h.errs, 1, "an answer that comes too late is no second failure")
	})
	t.Run("AS-14 a callback that fails when it counts for nothing is told", func(t *testing.T) {
		boom := errors.New("boom")
		for _, kind := range []CallbackKind{TasksRevoked, TasksAssigned} {
			h := stable(t, active("0_0"))
			h.assign(active("0_1"))
			if kind == TasksAssigned {
				h.done(TasksRevoked)
			}
			h.answer(code(25))
			h.done(kind, boom)
			require.Equal(t, Fenced, h.m.State())
			require.Len(t, h.errs, 1)
			require.ErrorIs(t, h.errs[0], boom)
			var e *Error
			require.ErrorAs(t, h.errs[0], &e)
			require.False(t, e.Fatal, "what it may have left behind is lost anyway")
			require.ErrorIs(t, h.m.Snapshot(h.now).LastError, boom)
			h.done(TasksLost)
			require.Equal(t, Joining, h.m.State())
		}
	})
	t.Run("a task that was revoked is not lost", func(t *testing.T) {
		h := stable(t, active("0_0", "0_1"))
		h.assign(active("0_1", "1_0"))
		h.done(TasksRevoked)
		h.answer(code(25))
		h.done(TasksAssigned)
		require.Equal(t, tasks("0_1", "1_0"), h.done(TasksLost).Active)
	})
}

func TestProtocolErrors(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]roles{
		"CC-025 AS-4 unknown subtopology, active": active("77_0"),
		"CC-025 unknown subtopology, standby":     active().standbys("77_0"),
		"CC-025 unknown subtopology, warm-up":     active().warmups("77_0"),
		"CC-026 a known and an unknown one":       active("0_0", "77_0"),
		"CC-026 the unknown one in other role":    active("0_0").standbys("77_1"),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.join()
			h.assign(a)
			require.Equal(t, Fatal, h.m.State())
			require.Equal(t, []CallbackKind{TasksLost}, h.kinds())
			require.Empty(t, h.ran[0].Active)
			require.Len(t, h.errs, 1)
			require.Empty(t, eventsOf[TargetReceived](h), "no part of it is applied")
			h.done(TasksLost)
			require.Equal(t, int32(-1), h.heartbeat().MemberEpoch, "the coordinator counts on the member")
			for _, part := range []string{`"shop"`, "77", "0, 1"} {
				require.ErrorContains(t, h.errs[0], part)
			}
		})
	}
	t.Run("RS-7 DV-3 B52 some lists without the others", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.answer(func(r *kmsg.StreamsGroupHeartbeatResponse) { r.StandbyTasks = []kmsg.TaskIDs{} })
		require.Equal(t, Fatal, h.m.State())
		require.Len(t, h.errs, 1)
		require.ErrorContains(t, h.errs[0], "breaks the protocol")
		require.Equal(t, tasks("0_0"), h.done(TasksLost).Active)
		require.Equal(t, int32(-1), h.sent[len(h.sent)-1].req.MemberEpoch)
	})
	t.Run("CC-028 an error code is an error whatever else the response says", func(t *testing.T) {
		h := newHarness(t)
		h.join()
		h.assign(active("0_0"), func(r *kmsg.StreamsGroupHeartbeatResponse) {
			r.ErrorCode, r.ErrorMessage, r.MemberEpoch = 42, kmsg.StringPtr("text m"), 9
		})
		require.Equal(t, Fatal, h.m.State())
		require.Equal(t, []CallbackKind{TasksLost}, h.kinds())
		require.Empty(t, h.ran[0].Active)
		require.ErrorIs(t, h.errs[0], kerr.InvalidRequest)
		require.ErrorContains(t, h.errs[0], "text m")
		require.Empty(t, eventsOf[EpochChanged](h), "nothing else of it is read")
		require.Empty(t, eventsOf[TargetReceived](h))
	})
}

var allStates = []State{Unsubscribed, Joining, Reconciling, Acknowledging, StateStable, Fenced, PrepareLeaving, Leaving, Stale, Fatal}

func TestCC029ForbiddenTransitions(t *testing.T) {
	t.Parallel()
	allowed := map[State][]State{ // from → to
		Unsubscribed:   {Joining, PrepareLeaving, Fatal},
		Joining:        {Reconciling, StateStable, Fenced, PrepareLeaving, Fatal},
		Reconciling:    {Acknowledging, StateStable, Fenced, PrepareLeaving, Fatal},
		Acknowledging:  {Reconciling, StateStable, Fenced, PrepareLeaving, Fatal},
		StateStable:    {Reconciling, Fenced, PrepareLeaving, Fatal},
		Fenced:         {Joining, Unsubscribed},
		PrepareLeaving: {Leaving, Fenced, Unsubscribed, Fatal},
		Leaving:        {Fenced, Unsubscribed, Stale, Fatal},
		Stale:          {Joining, Unsubscribed}, // the latter beyond Kafka: a stale member can leave
	}
	for _, from := range allStates {
		for _, to := range allStates {
			h := newHarness(t)
			h.m.state = from
			h.m.to(to)
			if from == to {
				require.Empty(t, h.m.errs)
				require.Empty(t, h.m.events)
				continue
			}
			want := false
			for _, s := range allowed[from] {
				want = want || s == to
			}
			require.Equal(t, want, h.m.state == to, "%v to %v", from, to)
			if !want {
				require.Equal(t, from, h.m.state)
				require.Len(t, h.m.errs, 1)
				require.ErrorContains(t, h.m.errs[0], from.String()+" to "+to.String())
			}
		}
	}
}

func TestCC031EpochIsTakenAsItIs(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.join()
	h.assign(active("0_0"), epoch(7))
	h.settle()
	h.clear()
	h.answer(epoch(5))
	got, ok := h.m.Epoch()
	require.True(t, ok)
	require.Equal(t, int32(5), got)
	require.Equal(t, []EpochChanged{{From: 7, To: 5}}, eventsOf[EpochChanged](h))
	require.Equal(t, int32(5), h.heartbeat().MemberEpoch)
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	for c, want := range map[int8]bool{0: true, 1: false, 2: false, 3: false, 4: true, 5: false, 6: true, 99: true} {
		h := newHarness(t)
		h.join()
		h.assign(active(), status(c))
		require.Equal(t, want, h.done(TasksAssigned).Ready, "CC-032 status %d", c)
	}
	t.Run("CC-034 CC-035 ST-7 B47 readiness flips without tasks", func(t *testing.T) {
		h := stable(t, active("0_0").standbys("0_1").warmups("1_0"))
		for _, ready := range []bool{false, true} {
			if ready {
				h.answer()
			} else {
				h.answer(status(5))
			}
			require.Equal(t, Reconciling, h.m.State())
			cb := h.done(TasksAssigned)
			require.Equal(t, ready, cb.Ready)
			require.Equal(t, active("0_0").standbys("0_1").warmups("1_0"), roles{cb.Active, cb.Standby, cb.Warmup})
			h.requireReported(active("0_0").standbys("0_1").warmups("1_0"), h.heartbeat())
			h.answer(func(r *kmsg.StreamsGroupHeartbeatResponse) {
				if !ready {
					status(5)(r)
				}
			})
			require.Equal(t, StateStable, h.m.State())
			require.Equal(t, ready, h.m.Snapshot(h.now).Ready)
		}
		require.Equal(t, []CallbackKind{TasksAssigned, TasksAssigned}, h.kinds())
	})
	t.Run("ST-6 no status array is no status", func(t *testing.T) {
		h := newHarness(t)
		h.join()
		h.assign(active("0_0"), status(5))
		h.done(TasksAssigned)
		h.answer(func(r *kmsg.StreamsGroupHeartbeatResponse) { r.Status = nil })
		require.True(t, h.done(TasksAssigned).Ready)
	})
}

func TestFencing(t *testing.T) {
	t.Parallel()
	for _, c := range []int16{25, 110} {
		for _, s := range []State{Joining, Reconciling, Acknowledging, StateStable} {
			for _, failure := range []error{nil, errors.New("boom")} {
				t.Run("CC-037 CC-038 CC-124 SM-8 SM-9 ER-4 fenced in "+s.String(), func(t *testing.T) {
					h := in(t, s)
					outstanding := len(h.callbacks)
					h.answer(code(c))
					require.Equal(t, Fenced, h.m.State())
					_, ok := h.m.Epoch()
					require.False(t, ok)
					for range outstanding {
						h.done(TasksAssigned)
						require.Equal(t, Fenced, h.m.State())
					}
					sent := len(h.sent)
					h.after(interval)
					require.Len(t, h.sent, sent, "nothing is sent while fenced")
					require.Zero(t, h.callbacks[0].Epoch)
					lost := h.done(TasksLost, failure)
					if s != Joining {
						require.Equal(t, tasks("0_0"), lost.Active)
					}
					require.Equal(t, Joining, h.m.State())
					require.Empty(t, h.m.Snapshot(h.now).Active)
					req := h.heartbeat()
					require.Zero(t, req.MemberEpoch)
					require.NotNil(t, req.Topology)
					h.assign(active("0_0"))
					require.Equal(t, tasks("0_0"), h.done(TasksAssigned).Active, "the new membership starts from nothing")
				})
			}
		}
	}
	t.Run("CC-039 SM-10 fenced while preparing to leave", func(t *testing.T) {
		h := in(t, PrepareLeaving)
		h.answer(code(25))
		require.Equal(t, Unsubscribed, h.m.State())
		require.Nil(t, h.m.Snapshot(h.now).Target)
		require.False(t, h.m.LeaveDone(), "the callback still runs")
		h.done(TasksRevoked)
		require.True(t, h.m.LeaveDone())
		sent := len(h.sent)
		h.after(interval)
		require.Len(t, h.sent, sent, "no leave and no rejoin")
	})
	t.Run("CC-039 SM-10 fenced while preparing to leave, before the join was answered", func(t *testing.T) {
		h := in(t, Joining)
		h.m.Leave(h.now, LeaveDefault)
		h.run()
		require.Equal(t, PrepareLeaving, h.m.State())
		h.answer(code(25))
		require.Equal(t, Unsubscribed, h.m.State())
		require.False(t, h.m.Snapshot(h.now).Leaving, "the leave is complete")
		require.Equal(t, int32(-1), h.m.epoch)
		h.done(TasksLost)
		require.True(t, h.m.LeaveDone())
		h.after(10 * interval)
		require.Empty(t, h.sent, "no leave and no rejoin")
	})
	t.Run("CC-040 SM-11 fenced while leaving", func(t *testing.T) {
		h := newHarness(t)
		h.m.state, h.m.leavePending = Leaving, true
		h.m.fenced()
		require.Equal(t, Unsubscribed, h.m.State())
		require.True(t, h.m.LeaveDone())
	})
	t.Run("DV-1 a broker that fences every join is not asked in a tight loop", func(t *testing.T) {
		h := newHarness(t)
		h.join()
		for _, wait := range []time.Duration{0, 2 * backoff, 4 * backoff, 8 * backoff, backoffMax, backoffMax} {
			h.answer(code(25))
			h.done(TasksLost)
			require.Equal(t, Joining, h.m.State())
			if wait > 0 { // the first join was long ago
				require.Empty(t, h.open)
				h.after(wait - 1)
				require.Empty(t, h.open)
				h.after(1)
			}
			require.Len(t, h.open, 1)
		}
		h.assign(active("0_0"))
		h.settle()
		h.answer()
		h.now += backoffMax
		for range 2 {
			h.answer(code(25))
			h.done(TasksLost)
			require.Len(t, h.open, 1, "a member that got in joins again at once")
			h.now += backoff
		}
	})
}

func TestCC044ResponsesAreIgnored(t *testing.T) {
	t.Parallel()
	for _, s := range []State{Unsubscribed, Fenced, Fatal, Stale, Leaving} {
		h := newHarness(t)
		h.m.state, h.m.inFlight = s, 77
		before := h.m.epoch
		resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
		resp.MemberEpoch = 9
		active("0_0").set(resp)
		h.m.HeartbeatAnswered(0, 77, resp)
		require.Equal(t, s, h.m.State())
		require.Equal(t, before, h.m.epoch)
		require.Empty(t, h.m.queuedCallbacks)
	}
}

// SM-15 says the same.
func TestCC043FatalWithoutMembership(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.m.fail(h.m.problem(nil, "x", "y"), true)
	h.run()
	require.Equal(t, Fatal, h.m.State())
	require.Empty(t, h.ran)
	require.Empty(t, h.sent)
	_, ok := h.m.Epoch()
	require.False(t, ok)
}
