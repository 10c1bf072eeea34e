package membership

import (
	"errors"
	"fmt"
	"testing"

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
		require.Empty(t, h.open)
	})
	t.Run("ER-5 GROUP_ID_NOT_FOUND", func(t *testing.T) {
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
			h := in(t, StateStable)
			h.requireNoTasks(h.heartbeat())
			h.answer(code(c))
			h.after(backoff)
			h.requireReported(active("0_0"), h.heartbeat())
			require.NotNil(t, h.heartbeat().TaskOffsets)
			require.NotNil(t, h.heartbeat().TaskEndOffsets)
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
		lost := eventsOf[HeartbeatLost](h)
		require.Len(t, lost, 1)
		if fatal {
			require.ErrorIs(t, h.errs[0], cause)
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
		"MaxPollInterval": func(c *Config) { c.MaxPollInterval = 0 },
		"RetryBackoff":    func(c *Config) { c.RetryBackoffMax = 0 },
	} {
		cfg := Config{Group: "g", MemberID: "m", Topology: shopTopology(t), MaxPollInterval: pollLimit, RetryBackoff: backoff, RetryBackoffMax: backoffMax}
		change(&cfg)
		_, err := New(cfg)
		require.ErrorContains(t, err, field)
	}
}
