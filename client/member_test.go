package client_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

const all = "[0_0 0_1 0_2 0_3]"

func TestJoinAndLeave(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.joined(new(app))
		assert.Equal(w, []string{"assigned " + all}, r.took())
		s := r.m.Snapshot()
		assert.Equal(w, "g", s.Group)
		assert.Equal(w, "g", r.m.Group())
		assert.Equal(w, r.m.ID(), s.MemberID)
		assert.Regexp(w, `^[A-Za-z0-9_]{22}$`, r.m.ID())                                 // ID-1
		assert.Regexp(w, `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, r.m.ProcessID()) // ID-3
		assert.True(w, s.Ready)
		assert.Equal(w, interval, s.HeartbeatInterval)
		epoch, ok := r.m.Epoch()
		assert.True(w, ok)
		assert.Equal(w, s.Epoch, epoch)
		assert.Equal(w, []string{r.m.ID()}, w.members("g"))

		pass(10 * time.Minute)
		assert.Empty(w, r.took(), "nothing changes, so nobody is called")
		r.leave()
		require.NoError(w, r.result())
		assert.Equal(w, []string{"revoked " + all}, r.took())
		assert.Empty(w, w.members("g"), "it has left")
		_, ok = r.m.Epoch()
		assert.False(w, ok)
		assert.ErrorContains(w, r.m.Run(w.Context()), "make a new member")
	})
}

func TestTwoMembersScaleOutAndIn(t *testing.T) {
	inBubble(t, func(w *world) {
		one := w.joined(new(app))
		one.took()
		two := w.start(new(app))
		pass(4 * interval)
		assert.Equal(w, 2, one.owns())
		assert.Equal(w, 2, two.owns())
		balanced(w, one, two)
		lines := one.took()
		require.Len(w, lines, 2)
		assert.Contains(w, lines[0], "revoked")
		assert.Contains(w, lines[1], "assigned")

		two.leave()
		require.NoError(w, two.result())
		pass(2 * interval)
		assert.Equal(w, 4, one.owns())
		assert.Equal(w, []string{"assigned " + all}, one.took())
		one.leave()
		require.NoError(w, one.result())
	})
}

func TestL05CrashIsNoticedAtTheSessionTimeout(t *testing.T) {
	inBubble(t, func(w *world) {
		one, two := w.start(new(app)), w.start(new(app))
		pass(4 * interval)
		balanced(w, one, two)

		// The last heartbeat goes out at this very moment.
		two.m.ForceHeartbeat()
		synctest.Wait()
		died := time.Now()
		two.m.Abandon()
		require.ErrorIs(w, two.result(), client.ErrAbandoned)
		assert.NotContains(w, two.took(), "revoked", "the dead do nothing")

		time.Sleep(session - time.Millisecond)
		assert.Len(w, w.members("g"), 2)
		pass(time.Millisecond)
		assert.Equal(w, session, time.Since(died))
		assert.Equal(w, []string{one.m.ID()}, w.members("g"))
		pass(2 * interval)
		assert.Equal(w, 4, one.owns())
	})
}

func TestStaticMemberLeavesAndReturns(t *testing.T) {
	inBubble(t, func(w *world) {
		one, two := w.start(new(app), client.InstanceID("one")), w.start(new(app), client.InstanceID("two"))
		pass(4 * interval)
		balanced(w, one, two)
		held := one.m.Snapshot().Active
		two.took()
		one.leave()
		require.NoError(w, one.result())
		assert.Len(w, w.members("g"), 2, "its place is kept")
		pass(2 * interval)
		assert.Equal(w, 2, two.owns(), "its tasks wait")

		back := w.start(new(app), client.InstanceID("one"))
		pass(interval)
		assert.Equal(w, held, back.m.Snapshot().Active)
		assert.NotEqual(w, one.m.ID(), back.m.ID())
		assert.Empty(w, two.took(), "the other one was not disturbed")

		// Away for longer than the session lasts.
		back.leave()
		require.NoError(w, back.result())
		pass(session + 2*interval)
		assert.Equal(w, 4, two.owns())
	})
}

func TestStaticMemberLeavesForGood(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.joined(new(app), client.InstanceID("one"), client.LeaveWith(membership.LeaveGroup))
		r.leave()
		require.NoError(w, r.result())
		assert.Empty(w, w.members("g"))
	})
}

func TestDynamicMemberRemains(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.joined(new(app), client.LeaveWith(membership.RemainInGroup))
		r.leave()
		require.NoError(w, r.result())
		assert.Len(w, w.members("g"), 1, "the session goes on until it ends")
		pass(session)
		assert.Empty(w, w.members("g"))
	})
}

func TestUnreleasedInstance(t *testing.T) {
	inBubble(t, func(w *world) {
		w.joined(new(app), client.InstanceID("one"))
		second := w.start(new(app), client.InstanceID("one"))
		pass(time.Second)
		err := second.result()
		require.ErrorIs(w, err, kerr.UnreleasedInstanceID)
		assert.ErrorContains(w, err, `instance "one" is in use`)
	})
}

// The context of Run may end in any state: Run returns nil, nobody is left in the
// group.
func TestContextEndsInEachState(t *testing.T) {
	t.Parallel()
	t.Run("before Run", func(t *testing.T) {
		inBubble(t, func(w *world) {
			m, err := client.NewMember(w.client, "g", plain(w))
			require.NoError(w, err)
			ctx, cancel := context.WithCancel(w.Context())
			cancel()
			require.NoError(w, m.Run(ctx))
			assert.Empty(w, w.members("g"))
		})
	})
	t.Run("JOINING, coordinator unknown", func(t *testing.T) {
		inBubble(t, func(w *world) {
			w.cl.ControlKey(10, func(kmsg.Request) (kmsg.Response, error, bool) {
				w.cl.KeepControl()
				return nil, nil, true // no answer at all
			})
			r := w.start(new(app))
			pass(time.Second)
			assert.Equal(w, membership.Joining, r.state())
			r.leave()
			require.NoError(w, r.result())
		})
	})
	t.Run("JOINING, join unanswered", func(t *testing.T) {
		inBubble(t, func(w *world) {
			w.control("", func(*kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) { return nil, nil, true })
			r := w.start(new(app), client.LeaveTimeout(3*time.Second))
			pass(time.Second)
			assert.Equal(w, membership.Joining, r.state())
			began := time.Now()
			r.leave()
			pass(3 * time.Second)
			require.NoError(w, r.result())
			assert.LessOrEqual(w, time.Since(began), 3*time.Second)
		})
	})
	t.Run("RECONCILING", func(t *testing.T) {
		inBubble(t, func(w *world) {
			a := &app{onAssigned: func(ctx context.Context, _ client.Assignment) error {
				time.Sleep(2 * time.Second)
				return ctx.Err()
			}}
			r := w.start(a)
			pass(time.Second)
			assert.Equal(w, membership.Reconciling, r.state())
			r.leave()
			pass(time.Second)
			require.NoError(w, r.result())
			assert.Equal(w, []string{"assigned " + all, "revoked " + all}, r.took())
			assert.Empty(w, w.members("g"))
		})
	})
	t.Run("FENCED", func(t *testing.T) {
		inBubble(t, func(w *world) {
			r := w.joined(&app{onLost: func(context.Context, []topology.TaskID) { time.Sleep(2 * time.Second) }})
			w.once(r.m.ID(), kerr.FencedMemberEpoch.Code)
			r.m.ForceHeartbeat()
			synctest.Wait()
			assert.Equal(w, membership.Fenced, r.state())
			r.leave()
			pass(2 * time.Second)
			require.NoError(w, r.result())
		})
	})
	t.Run("STALE", func(t *testing.T) {
		inBubble(t, func(w *world) {
			r := w.joined(new(app), client.PollGuard(true), client.MaxPollInterval(10*time.Second))
			pass(10 * time.Second)
			assert.Equal(w, membership.Stale, r.state())
			r.leave()
			require.NoError(w, r.result())
			assert.Empty(w, w.members("g"))
		})
	})
	t.Run("PREPARE_LEAVING takes no longer than the leave time-out", func(t *testing.T) {
		inBubble(t, func(w *world) {
			h := new(watcher)
			r := w.joined(&app{onRevoked: func(ctx context.Context, _ []topology.TaskID) error {
				<-ctx.Done()
				return ctx.Err()
			}}, client.LeaveTimeout(4*time.Second), client.WithHooks(h))
			began := time.Now()
			r.leave()
			<-r.ended
			require.NoError(w, r.err)
			assert.Contains(w, strings.Join(h.took(), "\n"), "context canceled", "hooks hear of what was cut off")
			assert.Empty(w, w.members("g"), "CC-066: the last leave goes out all the same")
			assert.InDelta(w, 4*time.Second, time.Since(began), float64(400*time.Millisecond))
		})
	})
	t.Run("STABLE, leave unanswered", func(t *testing.T) {
		inBubble(t, func(w *world) {
			r := w.joined(new(app), client.LeaveTimeout(4*time.Second))
			w.control("", func(*kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) { return nil, nil, true })
			began := time.Now()
			r.leave()
			<-r.ended
			require.NoError(w, r.err)
			assert.InDelta(w, 4*time.Second, time.Since(began), float64(400*time.Millisecond))
		})
	})
}

func TestCallbackFails(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	t.Run("assigned", func(t *testing.T) {
		inBubble(t, func(w *world) {
			r := w.start(&app{onAssigned: func(context.Context, client.Assignment) error { return boom }})
			pass(time.Second)
			err := r.result()
			require.ErrorIs(w, err, boom)
			var e *membership.Error
			require.ErrorAs(w, err, &e)
			assert.True(w, e.Fatal)
			assert.Equal(w, "g", e.Group)
			assert.Equal(w, r.m.ID(), e.MemberID)
			assert.Equal(w, []string{"assigned " + all, "lost " + all}, r.took())
			assert.Equal(w, membership.Fatal, r.state())
			assert.Empty(w, w.members("g"), "it says goodbye, so that others take over at once")
		})
	})
	t.Run("revoked", func(t *testing.T) {
		inBubble(t, func(w *world) {
			one := w.joined(&app{onRevoked: func(context.Context, []topology.TaskID) error { return boom }})
			two := w.start(new(app))
			pass(6 * interval)
			require.ErrorIs(w, one.result(), boom)
			assert.Equal(w, []string{two.m.ID()}, w.members("g"))
			assert.Equal(w, 4, two.owns())
		})
	})
	t.Run("revoked while leaving", func(t *testing.T) {
		inBubble(t, func(w *world) {
			r := w.joined(&app{onRevoked: func(context.Context, []topology.TaskID) error { return boom }})
			r.leave()
			require.NoError(w, r.result(), "it leaves whatever happens")
			assert.Empty(w, w.members("g"))
			assert.ErrorIs(w, r.m.Snapshot().LastError, boom)
		})
	})
	t.Run("panic", func(t *testing.T) {
		inBubble(t, func(w *world) {
			r := w.start(&app{onAssigned: func(context.Context, client.Assignment) error { panic("ouch") }})
			pass(time.Second)
			err := r.result()
			var p *client.PanicError
			require.ErrorAs(w, err, &p)
			assert.Equal(w, "ouch", p.Value)
			assert.Contains(w, string(p.Stack), "member_test.go")
			assert.ErrorContains(w, err, "a callback panicked: ouch")
			assert.NotContains(w, err.Error(), "\n", "one line; the stack is in the error's field")
			assert.Empty(w, w.members("g"))
		})
	})
	t.Run("panic in lost", func(t *testing.T) {
		inBubble(t, func(w *world) {
			r := w.joined(&app{onLost: func(context.Context, []topology.TaskID) { panic("ouch") }})
			w.once(r.m.ID(), kerr.FencedMemberEpoch.Code)
			pass(2 * interval)
			r.goesOn()
			assert.Equal(w, 4, r.owns(), "the tasks were dropped and given again")
		})
	})
}

// CC-136
func TestFencedMemberLosesTasksAndRejoins(t *testing.T) {
	t.Parallel()
	for _, code := range []*kerr.Error{kerr.FencedMemberEpoch, kerr.UnknownMemberID, kerr.GroupIDNotFound} {
		t.Run(code.Message, func(t *testing.T) {
			inBubble(t, func(w *world) {
				r := w.joined(new(app))
				r.took()
				w.once(r.m.ID(), code.Code)
				pass(2 * interval)
				r.goesOn()
				assert.Equal(w, []string{"lost " + all, "assigned " + all}, r.took())
				assert.Equal(w, membership.StateStable, r.state())
			})
		})
	}
}

// A member that was cut off for longer than its session finds itself expelled.
func TestSessionEndsDuringAnOutage(t *testing.T) {
	inBubble(t, func(w *world) {
		one := w.joined(new(app))
		one.took()
		mend := w.control(one.m.ID(), func(*kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			return nil, errors.New("cut"), true
		})
		two := w.start(new(app))
		pass(session + 3*interval)
		assert.Equal(w, []string{two.m.ID()}, w.members("g"))
		assert.Equal(w, 4, two.owns())
		mend()
		pass(4 * interval)
		assert.Equal(w, "lost "+all, one.took()[0])
		balanced(w, one, two)
	})
}

func TestNotCoordinator(t *testing.T) {
	t.Parallel()
	for _, code := range []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress} {
		t.Run(code.Message, func(t *testing.T) {
			inBubble(t, func(w *world) {
				r := w.joined(new(app))
				r.took()
				before, _ := r.m.Epoch()
				w.once(r.m.ID(), code.Code)
				pass(2 * interval)
				assert.Empty(w, r.took())
				assert.Equal(w, membership.StateStable, r.state())
				after, _ := r.m.Epoch()
				assert.Equal(w, before, after)
				assert.Len(w, w.members("g"), 1)
			})
		})
	}
}

func TestCoordinatorMoves(t *testing.T) {
	inBubble(t, func(w *world) {
		one, two := w.start(new(app)), w.start(new(app))
		pass(4 * interval)
		balanced(w, one, two)
		one.took()
		two.took()
		for range 3 {
			for home := w.cl.CoordinatorFor("g"); w.cl.CoordinatorFor("g") == home; {
				w.cl.RehashCoordinators()
			}
			pass(2 * interval)
		}
		pass(session)
		balanced(w, one, two)
		assert.Empty(w, one.took())
		assert.Empty(w, two.took())
		one.leave()
		require.NoError(w, one.result())
	}, kfakeext.Nodes(3))
}

func TestConnectionIsCut(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.joined(new(app))
		r.took()
		cuts := 0
		w.control(r.m.ID(), func(*kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			if cuts++; cuts > 3 {
				return nil, nil, false
			}
			return nil, errors.New("cut"), true
		})
		pass(3 * interval)
		assert.Greater(w, cuts, 3)
		r.goesOn()
		assert.Empty(w, r.took())
		assert.Equal(w, membership.StateStable, r.state())
	})
}

// A full heartbeat follows a failure: the coordinator may have missed anything.
func TestHB5FullHeartbeatAfterAFailure(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.joined(new(app))
		pass(interval)
		var full []bool
		w.control(r.m.ID(), func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			full = append(full, req.ActiveTasks != nil)
			if len(full) == 2 {
				return nil, errors.New("cut"), true
			}
			return nil, nil, false
		})
		pass(3 * interval)
		require.GreaterOrEqual(w, len(full), 4)
		assert.Equal(w, []bool{false, false, true, false}, full[:4])
	})
}

// During an outage a member tries about once a second. Where a broker that is found
// each time denies that it is the coordinator, it is the base of the back-off that
// bounds the look-ups.
//
// rules TM-7, TR-1, TR-2: each way to fail is retried by the member, and by nobody else
func TestTM3HeartbeatsDuringAnOutageAreBounded(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]func(*kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool){
		"connection cut": func(*kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			return nil, errors.New("cut"), true
		},
		"load in progress": func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			return refusal(req, kerr.CoordinatorLoadInProgress.Code), nil, true
		},
		"not coordinator": func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			return refusal(req, kerr.NotCoordinator.Code), nil, true
		},
		"no answer": func(*kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) { return nil, nil, true },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				r := w.joined(new(app))
				var seen atomic.Int32
				w.control(r.m.ID(), func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
					seen.Add(1)
					return outage(req)
				})
				pass(time.Minute)
				r.goesOn()
				assert.GreaterOrEqual(w, seen.Load(), int32(2))
				limit := int32(90)
				if name == "not coordinator" {
					limit = 605
				}
				assert.LessOrEqual(w, seen.Swap(0), limit, "in a minute")
				pass(2 * time.Minute)
				assert.LessOrEqual(w, seen.Load(), 2*limit, "in two minutes")
			})
		})
	}
}

func TestBrokerWithoutTheFeature(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.start(new(app))
		pass(time.Second)
		err := r.result()
		var e *client.UnsupportedError
		require.ErrorAs(w, err, &e)
		assert.ErrorContains(w, err, "does not support streams groups: use Apache Kafka 4.2 or later with the feature streams.version at 1")
		var m *membership.Error
		require.ErrorAs(w, err, &m)
		assert.True(w, m.Fatal)
	}, kfakeext.KfakeOpts(kfake.MaxVersions(kversion.V4_1_0())))
}

func TestStaticMemberNeedsVersionOne(t *testing.T) {
	inBubble(t, func(w *world) {
		dynamic := w.joined(new(app))
		assert.Equal(w, int64(-1), dynamic.m.Snapshot().AcceptableRecoveryLag)
		static := w.start(new(app), client.InstanceID("one"))
		pass(time.Second)
		assert.ErrorContains(w, static.result(), "does not support static members")
	}, kfakeext.KfakeOpts(kfake.MaxVersions(kversion.V4_2_0())))
}

func TestClientWithCappedVersions(t *testing.T) {
	inBubble(t, func(w *world) {
		_, err := client.NewMember(w.dial(kgo.MaxVersions(kversion.V4_1_0())), "g", plain(w))
		var e *client.OptionError
		require.ErrorAs(w, err, &e)
		assert.ErrorContains(w, err, "kgo.MaxVersions")
		assert.ErrorContains(w, err, "4.2")

		// A client that is capped at version 0 must not send what only version 1 has.
		r := w.startOn(w.dial(kgo.MaxVersions(kversion.V4_2_0())), "g", new(app))
		pass(interval)
		assert.Equal(w, membership.StateStable, r.state())
		assert.Equal(w, int64(-1), r.m.Snapshot().AcceptableRecoveryLag)
	})
}

func TestGroupOfAnotherType(t *testing.T) {
	inBubble(t, func(w *world) {
		classic := w.dial(kgo.ConsumerGroup("classic"), kgo.ConsumeTopics("in"), kgo.WithContext(w.Context()))
		done := make(chan struct{})
		ctx, cancel := context.WithCancel(w.Context())
		go func() { defer close(done); classic.PollFetches(ctx) }()
		defer func() { cancel(); <-done; classic.Close() }()
		pass(10 * time.Second)

		r := w.startOn(w.dial(), "classic", new(app))
		pass(time.Second)
		err := r.result()
		require.ErrorIs(w, err, kerr.GroupIDNotFound)
		assert.ErrorContains(w, err, `"classic"`)
		assert.ErrorContains(w, err, "choose another group id")
	})
}

func TestHeartbeatsGoOnWhileACallbackBlocks(t *testing.T) {
	inBubble(t, func(w *world) {
		count := w.heartbeats()
		r := w.start(&app{onAssigned: func(context.Context, client.Assignment) error {
			time.Sleep(4 * time.Minute)
			return nil
		}})
		pass(3 * time.Minute)
		assert.Equal(w, membership.Reconciling, r.state())
		assert.InDelta(w, 36, count(r.m.ID()), 2, "one every five seconds")
		assert.Len(w, w.members("g"), 1)
		pass(2 * time.Minute)
		assert.Equal(w, membership.StateStable, r.state())
	})
}

func TestSM16PollGuard(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.joined(new(app), client.PollGuard(true), client.MaxPollInterval(time.Minute))
		r.took()
		for range 10 {
			pass(50 * time.Second)
			r.m.Polled()
		}
		assert.Equal(w, membership.StateStable, r.state())
		time.Sleep(time.Minute - time.Millisecond)
		synctest.Wait()
		assert.Equal(w, membership.StateStable, r.state())
		pass(time.Millisecond)
		assert.Equal(w, membership.Stale, r.state())
		assert.Equal(w, []string{"lost " + all}, r.took())
		assert.Empty(w, w.members("g"), "it has left")
		pass(5 * time.Minute)
		assert.Equal(w, membership.Stale, r.state())
		r.m.Polled()
		pass(interval)
		assert.Equal(w, membership.StateStable, r.state())
		assert.Equal(w, []string{"assigned " + all}, r.took())
	})
}

func TestST04ShutdownOfTheApplication(t *testing.T) {
	inBubble(t, func(w *world) {
		one, two := w.start(new(app)), w.start(new(app))
		pass(4 * interval)
		one.took()
		two.took()
		one.m.RequestShutdown()
		pass(2 * interval)
		for _, r := range []*run{one, two} {
			var status *membership.StatusError
			require.ErrorAs(w, r.result(), &status)
			assert.Equal(w, membership.StatusShutdownApplication, status.Status.Code)
			assert.Contains(w, r.took()[0], "revoked", "it leaves in good order")
		}
		assert.Empty(w, w.members("g"))
	})
}

func TestShutdownStatusIsTheApplicationsBusiness(t *testing.T) {
	inBubble(t, func(w *world) {
		one, two := w.start(new(app), client.FailOnStatus(false)), w.start(new(app), client.FailOnStatus(false))
		pass(4 * interval)
		one.m.RequestShutdown()
		pass(2 * interval)
		s := two.m.Snapshot()
		require.Len(w, s.Statuses, 1)
		assert.Equal(w, int8(4), s.Statuses[0].Code)
		assert.NotEmpty(w, s.Statuses[0].Detail)
	})
}

func TestTaskOffsetsMayAskTheMember(t *testing.T) {
	inBubble(t, func(w *world) {
		var m *client.Member
		task := topology.TaskID{Subtopology: "0", Partition: 1}
		var got []kmsg.TaskOffset
		w.control("", func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			if req.TaskOffsets != nil {
				got = req.TaskOffsets
			}
			return nil, nil, false
		})
		m, err := client.NewMember(w.client, "g", plain(w), client.TaskOffsets(func() (offsets, ends map[topology.TaskID]int64) {
			m.Epoch() // no deadlock
			return map[topology.TaskID]int64{task: 7}, map[topology.TaskID]int64{task: 9}
		}))
		require.NoError(w, err)
		ctx, cancel := context.WithCancel(w.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		pass(time.Second)
		require.Len(w, got, 1)
		assert.Equal(w, int64(7), got[0].Offset)
		cancel()
		require.NoError(w, <-done)
	})
}

// The coordinator asks for the description of the topology, and gets it unless the
// member was told to keep it to itself.
func TestTD02DescriptionIsPushed(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{true, false} {
		t.Run(strconv.FormatBool(on), func(t *testing.T) {
			inBubble(t, func(w *world) {
				var got []*kmsg.StreamsGroupTopologyDescriptionUpdateRequest
				var sent []error
				w.cl.Intercept(func(kreq kmsg.Request) (kmsg.Response, error, bool) {
					switch req := kreq.(type) {
					case *kmsg.StreamsGroupTopologyDescriptionUpdateRequest:
						if got = append(got, req); len(got) > 1 {
							return nil, nil, false
						}
						resp := req.ResponseKind().(*kmsg.StreamsGroupTopologyDescriptionUpdateResponse)
						resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code
						return resp, nil, true
					case *kmsg.StreamsGroupHeartbeatRequest:
						if req.MemberEpoch > 0 && len(got) == 0 {
							resp := reply{epoch: req.MemberEpoch}.to(req).(*kmsg.StreamsGroupHeartbeatResponse)
							resp.TopologyDescriptionRequired = true
							return resp, nil, true
						}
					}
					return nil, nil, false
				})
				r := w.start(new(app), client.PushDescription(on), client.OnEvent(func(e membership.Event) {
					if d, ok := e.(membership.DescriptionSent); ok {
						sent = append(sent, d.Err)
					}
				}))
				pass(4 * interval)
				r.goesOn()
				if !on {
					assert.Empty(w, got)
					return
				}
				require.Len(w, got, 2, "it is repeated until the coordinator has taken it")
				assert.Equal(w, "g", got[1].Group)
				assert.Equal(w, r.m.ID(), got[1].MemberID)
				assert.NotEmpty(w, got[1].TopologyDescription.Subtopologies)
				require.Len(w, sent, 2)
				require.ErrorIs(w, sent[0], kerr.CoordinatorLoadInProgress)
			})
		})
	}
}

// The endpoints of all members reach each of them.
func TestIQ3Endpoints(t *testing.T) {
	inBubble(t, func(w *world) {
		one := w.start(new(app), client.UserEndpoint("host-1", 1111))
		two := w.start(new(app), client.UserEndpoint("host-2", 2222))
		pass(6 * interval)
		for _, r := range []*run{one, two} {
			e := r.m.Snapshot().Endpoints
			require.Len(w, e, 2)
			assert.Len(w, e[membership.Endpoint{Host: "host-1", Port: 1111}].Active, 2)
			assert.Len(w, e[membership.Endpoint{Host: "host-2", Port: 2222}].Active, 2)
		}
	})
}

func TestUserClosesTheClient(t *testing.T) {
	inBubble(t, func(w *world) {
		cl := w.dial()
		r := w.startOn(cl, "g", new(app))
		pass(time.Second)
		cl.Close()
		pass(2 * interval)
		require.ErrorIs(w, r.result(), kgo.ErrClientClosed)
	})
}

func TestMissingTopicComesLate(t *testing.T) {
	inBubble(t, func(w *world) {
		var b topology.Builder
		topo, err := b.AddSource("source", "late").AddProcessor("work", "source").Build("g")
		require.NoError(w, err)
		a := new(app)
		m, err := client.NewMember(w.client, "g", topo, append(a.opts(), client.MissingTopicsPatience(time.Minute))...)
		require.NoError(w, err)
		ctx, cancel := context.WithCancel(w.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		pass(time.Second)
		assert.Equal(w, []string{"assigned [] not ready"}, a.took())
		require.Len(w, m.Snapshot().Statuses, 1)
		assert.Equal(w, int8(1), m.Snapshot().Statuses[0].Code)
		assert.Contains(w, m.Snapshot().Statuses[0].Detail, "late")
		require.NoError(w, w.cl.CreateTopic("late", 2, nil))
		pass(2 * interval)
		assert.Equal(w, []string{"assigned [0_0 0_1]"}, a.took())
		assert.Empty(w, m.Snapshot().Statuses)
		cancel()
		require.NoError(w, <-done)
	})
}
