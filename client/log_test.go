package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// What an older broker does not provide is not logged as a number.
func TestCC112GroupSettingsOfAnOlderBroker(t *testing.T) {
	inBubble(t, func(w *world) {
		logger := new(lines)
		r := w.joined(new(app), client.WithLogger(logger))
		assert.Contains(w, logger.text(), "group settings")
		assert.NotContains(w, logger.text(), "not provided")
		w.control(r.m.ID(), func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			resp := req.ResponseKind().(*kmsg.StreamsGroupHeartbeatResponse)
			resp.MemberEpoch, resp.HeartbeatIntervalMillis = req.MemberEpoch, 5000
			resp.TaskOffsetIntervalMillis, resp.AcceptableRecoveryLag = 0, -1
			return resp, nil, true
		})
		before := len(logger.text())
		pass(3 * interval)
		assert.Regexp(w, "^.*group settings.*heartbeat.?5s.*offsets.?not provided by this broker.*lag.?not provided by this broker.*\n$", logger.text()[before:], "once")
	})
}

// An application that comes back too late is told so: rule TM-6.
func TestTM6PolledLateIsLogged(t *testing.T) {
	inBubble(t, func(w *world) {
		logger := new(lines)
		release := make(chan struct{})
		r := w.joined(&app{onLost: func(context.Context, []topology.TaskID) { <-release }}, client.WithLogger(logger), client.PollGuard(true), client.MaxPollInterval(10*time.Second))
		pass(12 * time.Second)
		require.Equal(w, membership.Stale, r.state())
		close(release)
		r.m.Polled()
		pass(time.Second)
		require.Equal(w, membership.StateStable, r.state())
		assert.Regexp(w, "polls again.*3s.*10s", logger.text())
	})
}
