package membership

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestFatalCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id   string
		code int16
		kind *kerr.Error
		want []string // in the error
		bye  bool     // the coordinator is told
	}{
		{"CC-120", 30, kerr.GroupAuthorizationFailed, []string{`"shop"`, "READ"}, false},
		{"CC-122", 42, kerr.InvalidRequest, []string{"text m"}, true},
		{"CC-122", 81, kerr.GroupMaxSizeReached, []string{"text m"}, false},
		{"CC-122", 111, kerr.UnreleasedInstanceID, []string{"text m", "shop-1"}, false},
		{"CC-122", 130, kerr.StreamsInvalidTopology, []string{"text m"}, true},
		{"CC-122", 131, kerr.StreamsInvalidTopologyEpoch, []string{"text m"}, true},
		{"CC-122", 132, kerr.StreamsTopologyFenced, []string{"text m"}, true},
		{"CC-122", 35, kerr.UnsupportedVersion, []string{"versions 0 to 1"}, false},
		{"CC-123", 82, kerr.FencedInstanceID, []string{"text m", "shop-1", "second process"}, false},
		{"CC-125", -1, kerr.UnknownServerError, []string{"text m"}, true},
		{"CC-125", 7, kerr.RequestTimedOut, []string{"text m"}, true},
		{"CC-125", 31, kerr.ClusterAuthorizationFailed, []string{"text m"}, true},
		{"CC-125", 9999, kerr.UnknownServerError, []string{"9999", "text m"}, true},
	} {
		t.Run(fmt.Sprintf("%s code %d", c.id, c.code), func(t *testing.T) {
			h := in(t, StateStable, static)
			h.answer(code(c.code, "text m"))
			require.Equal(t, Fatal, h.m.State())
			require.Len(t, h.errs, 1)
			require.ErrorIs(t, h.errs[0], c.kind)
			var e *Error
			require.ErrorAs(t, h.errs[0], &e)
			require.True(t, e.Fatal)
			require.Equal(t, int32(1), e.Epoch)
			for _, w := range c.want {
				require.ErrorContains(t, e, w)
			}
			require.Equal(t, c.code, eventsOf[HeartbeatRejected](h)[0].Code)
			require.Zero(t, eventsOf[HeartbeatRejected](h)[0].Retry)
			require.Equal(t, tasks("0_0"), h.done(TasksLost).Active)
			h.after(10 * interval)
			if !c.bye {
				require.Len(t, h.sent, 1)
				require.True(t, h.m.LeaveDone())
				return
			}
			require.Len(t, h.sent, 2)
			require.Equal(t, int32(-2), h.sent[1].req.MemberEpoch)
		})
	}
	t.Run("a member that never got in does not say goodbye", func(t *testing.T) {
		h := in(t, Joining)
		h.answer(code(42))
		require.Equal(t, Fatal, h.m.State())
		h.done(TasksLost)
		h.after(interval)
		require.Empty(t, h.open)
		require.True(t, h.m.LeaveDone())
	})
	t.Run("DV-14 a join that may have arrived is followed by a goodbye", func(t *testing.T) {
		h := in(t, Joining)
		h.fail(TimedOut, errors.New("timed out"))
		h.after(backoffMax)
		h.answer(code(42))
		h.done(TasksLost)
		require.Equal(t, int32(-1), h.heartbeat().MemberEpoch)
	})
	for _, c := range []struct {
		code int16
		bye  bool
	}{{110, true}, {25, false}, {69, false}} {
		t.Run(fmt.Sprintf("DV-14 the rejoin after code %d is refused", c.code), func(t *testing.T) {
			h := stable(t, active("0_0"))
			h.answer(code(c.code))
			require.Zero(t, eventsOf[HeartbeatRejected](h)[0].Retry)
			h.done(TasksLost)
			h.answer(code(131))
			require.Equal(t, Fatal, h.m.State())
			h.done(TasksLost)
			require.Equal(t, c.bye, len(h.open) == 1, "who still knows the member is told")
		})
	}
	t.Run("SM-14 fatal while leaving", func(t *testing.T) {
		h := in(t, Leaving)
		h.m.fail(h.m.problem(nil, "x", "y"), false)
		h.run()
		require.Equal(t, Fatal, h.m.State())
		require.True(t, h.m.LeaveDone())
		require.Empty(t, h.ran)
		require.Empty(t, h.sent)
	})
	t.Run("the remedy is that of the code", func(t *testing.T) {
		for c, want := range map[int16]string{
			29: "DESCRIBE", 30: "READ", 42: "compare the members' topologies", 81: "group.streams.max.size", 111: "in use", 82: "taken over",
			130: "mend the topology", 131: "raise the topology epoch", 132: "deploy the newer topology", 35: "4.2", 31: "broker's log",
		} {
			h := in(t, StateStable)
			h.answer(code(c))
			var e *Error
			require.ErrorAs(t, h.errs[0], &e)
			require.Contains(t, e.Remedy, want, "code %d", c)
			require.NotEmpty(t, e.Reason, "code %d: even if the broker does not say why", c)
		}
		h := in(t, Joining)
		h.answer(code(69))
		require.ErrorContains(t, h.errs[0], "another group id")
		h = in(t, StateStable)
		h.answer(code(-1, "text m"))
		require.NotContains(t, h.errs[0].Error(), "error code")
	})
	t.Run("ER-5 DV-20 GROUP_ID_NOT_FOUND", func(t *testing.T) {
		h := in(t, Joining)
		h.answer(code(69, "m"))
		require.Equal(t, Fatal, h.m.State())
		require.ErrorIs(t, h.errs[0], kerr.GroupIDNotFound)

		h = in(t, StateStable)
		h.answer(code(69))
		require.Equal(t, Fenced, h.m.State(), "the broker has lost its state")
		h.done(TasksLost)
		require.Equal(t, Joining, h.m.State())
		require.Empty(t, h.errs)
	})
}

func TestOtherCodes(t *testing.T) {
	t.Parallel()
	for _, s := range []State{Joining, Reconciling, StateStable} {
		t.Run("CC-121 code 29 in "+s.String(), func(t *testing.T) {
			h := in(t, s)
			h.answer(code(29, "m"))
			require.Equal(t, s, h.m.State())
			require.ErrorIs(t, h.errs[0], kerr.TopicAuthorizationFailed)
			var e *Error
			require.ErrorAs(t, h.errs[0], &e)
			require.False(t, e.Fatal)
			for _, part := range []string{`"m1"`, s.String(), "(m)"} {
				require.ErrorContains(t, e, part, "member, state and the broker's text")
			}
			n := len(h.sent)
			h.after(backoff)
			require.Len(t, h.sent, n+1, "the member goes on trying")
		})
		for _, c := range []int16{15, 16} {
			t.Run(fmt.Sprintf("ER-3 TM-5 code %d in %v", c, s), func(t *testing.T) {
				h := in(t, s)
				h.manual = true
				h.after(backoff)
				h.answer(code(c))
				require.Equal(t, s, h.m.State())
				require.Equal(t, 1, h.finds)
				require.Len(t, eventsOf[CoordinatorLost](h), 1)
				require.Zero(t, eventsOf[HeartbeatRejected](h)[0].Retry)
				h.m.CoordinatorFound(h.now, 1)
				h.run()
				require.Len(t, h.open, 1, "the heartbeat goes out at once")
				require.Empty(t, h.errs)
			})
		}
		t.Run("CC-088 code 14 in "+s.String(), func(t *testing.T) {
			h := in(t, s)
			h.heartbeat()
			n := len(h.sent)
			h.answer(code(14))
			require.Equal(t, s, h.m.State())
			require.Zero(t, h.finds)
			require.Equal(t, backoff, eventsOf[HeartbeatRejected](h)[0].Retry)
			require.Len(t, h.sent, n)
			h.after(backoff)
			require.Len(t, h.sent, n+1)
		})
	}
	t.Run("CC-088 ER-6 after any error everything is repeated", func(t *testing.T) {
		for _, c := range []int16{14, 15, 16, 29} {
			h := newHarness(t, static)
			h.m.SetTaskOffsets(offsets("0_0", 1), offsets("0_0", 2))
			h.join()
			h.assign(active("0_0", "1_0").standbys("0_1").warmups("0_2"))
			h.done(TasksAssigned)
			first := h.heartbeat()
			h.answer()
			h.requireNoTasks(h.heartbeat())
			require.Nil(t, h.heartbeat().TaskOffsets)
			h.answer(code(c))
			h.after(backoff)
			again := h.heartbeat()
			require.NotSame(t, first, again, "a body is never sent twice")
			require.Equal(t, wireOffsets(again.TaskOffsets), offsets("0_0", 1))
			require.Equal(t, wireOffsets(again.TaskEndOffsets), offsets("0_0", 2))
			again.TaskOffsets, again.TaskEndOffsets = nil, nil // the join had told them to the first
			require.Equal(t, first, again, "code %d: the lists, group, member, epoch and instance id", c)
		}
	})
	for _, c := range []int16{25, 110} {
		t.Run(fmt.Sprintf("CC-124 TM-5 code %d clears what the failures before it have left", c), func(t *testing.T) {
			h := stable(t, active("0_0"))
			for range 4 {
				h.answer(code(14))
				h.after(backoffMax)
			}
			h.answer(code(c))
			require.Equal(t, Fenced, h.m.State())
			require.Equal(t, int32(1), eventsOf[HeartbeatRejected](h)[4].Epoch, "the epoch that was refused is told")
			require.Zero(t, eventsOf[HeartbeatRejected](h)[4].Retry)
			s := h.m.Snapshot(h.now)
			require.Zero(t, s.Failures)
			require.False(t, s.InFlight)
			require.Nil(t, s.TaskOffsets, "nothing counts as told")
			h.done(TasksLost)
			require.Len(t, h.open, 1, "no back-off delays the join")
		})
	}
	t.Run("CC-125 every other code", func(t *testing.T) {
		known := map[int16]bool{0: true, 14: true, 15: true, 16: true, 25: true, 29: true, 69: true, 110: true}
		texts := map[int16]string{30: "not authorized for the group", 35: "versions 0 to 1"} // our own
		for c := int16(-1); c < 300; c++ {
			kind := kerr.TypedErrorForCode(c)
			if known[c] {
				continue
			}
			h := in(t, StateStable)
			h.answer(code(c, "text m"))
			require.Equal(t, Fatal, h.m.State(), "code %d", c)
			require.ErrorIs(t, h.errs[0], kind, "code %d", c)
			text := texts[c]
			if text == "" {
				text = "text m"
			}
			require.ErrorContains(t, h.errs[0], text, "code %d", c)
		}
	})
}

func TestCC126TransportFailures(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	for kind, fatal := range map[FailureKind]bool{Disconnected: false, TimedOut: false, Unsupported: true, Other: true} {
		h := in(t, StateStable)
		h.requireNoTasks(h.heartbeat())
		h.now += ms(1234)
		h.fail(kind, cause)
		require.Equal(t, fatal, h.m.State() == Fatal)
		require.Equal(t, kind == Disconnected, h.finds == 1, "whether the coordinator is looked up again")
		require.Equal(t, kind == Disconnected, len(eventsOf[CoordinatorLost](h)) == 1)
		lost := eventsOf[HeartbeatLost](h)
		require.Len(t, lost, 1)
		if fatal {
			require.ErrorIs(t, h.errs[0], cause)
			require.Equal(t, kind == Unsupported, strings.Contains(h.errs[0].Error(), "versions 0 to 1"))
			require.Zero(t, lost[0].Retry)
			h.done(TasksLost)
			h.after(interval)
			require.Len(t, h.sent, 1, "nothing is sent any more")
			continue
		}
		require.Equal(t, HeartbeatLost{Kind: kind, Err: cause, Retry: backoff}, lost[0])
		require.Equal(t, cause, h.m.Snapshot(h.now).LastError)
		h.after(backoff)
		h.requireReported(active("0_0"), h.heartbeat())
	}
}

func TestConfigErrorsNameTheField(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*Config){
		"Group":           func(c *Config) { c.Group = " " },
		"MemberID":        func(c *Config) { c.MemberID = "" },
		"Topology":        func(c *Config) { c.Topology = nil },
		"MaxPollInterval": func(c *Config) { c.MaxPollInterval = time.Millisecond - 1 },
		"RetryBackoff":    func(c *Config) { c.RetryBackoffMax = 0 },
		"LeaveTimeout":    func(c *Config) { c.LeaveTimeout = -1 },
		"24 days":         func(c *Config) { c.MaxPollInterval = (math.MaxInt32 + 1) * time.Millisecond },
		"times above 0":   func(c *Config) { c.RetryBackoff = 0 },
	} {
		cfg := Config{Group: "g", MemberID: "m", Topology: shopTopology(t), MaxPollInterval: pollLimit, RetryBackoff: backoff, RetryBackoffMax: backoffMax}
		change(&cfg)
		_, err := New(cfg)
		require.ErrorContains(t, err, field)
	}
}
