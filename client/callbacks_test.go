package client_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// What the application has given up already is not taken from it a second time, and when
// nothing is left to be taken it is not called at all (rule AS-9).
func TestAS09NothingIsRevokedIfNothingIsLeft(t *testing.T) {
	inBubble(t, func(w *world) {
		release := make(chan struct{})
		a := &app{}
		a.onRevoked = func(context.Context, []topology.TaskID) error {
			<-release
			return nil
		}
		h := new(watcher)
		r := w.joined(a, client.WithHooks(h))
		a.took()
		h.took()
		stop := w.control(r.m.ID(), func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			resp := req.ResponseKind().(*kmsg.StreamsGroupHeartbeatResponse)
			resp.MemberID, resp.MemberEpoch, resp.HeartbeatIntervalMillis = req.MemberID, req.MemberEpoch, 5000
			resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
			return resp, nil, true
		})
		pass(interval)
		stop()
		require.Equal(w, membership.Reconciling, r.state())
		r.leave()
		pass(time.Second)
		require.Equal(w, membership.PrepareLeaving, r.state(), "it waits for the callback that runs")
		close(release)
		require.NoError(w, r.result())
		assert.Equal(w, []string{"revoked " + all}, a.took())
		revoked := 0
		for _, line := range h.took() {
			if strings.HasPrefix(line, "revoked") {
				revoked++
			}
		}
		assert.Equal(w, 1, revoked, "hooks hear of what the application did")
		assert.Empty(w, w.members("g"))
	})
}

// A member is asked to give tasks up, and before that is over it leaves, or is out of the
// group: the application hears of each task once.
func TestTasksAreTakenAwayOnce(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(w *world, r *run)
		then string
	}{
		"leave": {func(_ *world, r *run) { r.leave() }, "revoked"},
		"lost": {func(w *world, r *run) {
			req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
			req.Group, req.MemberID, req.MemberEpoch = "g", r.m.ID(), -1
			_, err := w.client.Broker(0).Request(w.Context(), req)
			require.NoError(w, err)
			pass(2 * interval) // it hears of that
		}, "lost"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				release := make(chan struct{})
				a := &app{}
				a.onRevoked = func(context.Context, []topology.TaskID) error {
					<-release
					return nil
				}
				one := w.joined(a)
				a.took()
				w.joined(new(app))
				pass(4 * interval)
				first := a.took()
				require.Len(w, first, 1)
				require.Equal(w, 2, a.owns(), "two are being revoked")
				c.end(w, one)
				pass(time.Millisecond)
				close(release)
				pass(time.Second)
				rest := a.took()
				require.NotEmpty(w, rest)
				assert.Contains(w, []string{"revoked [0_0 0_1]", "revoked [0_2 0_3]"}, first[0])
				want := map[string]string{"revoked [0_0 0_1]": c.then + " [0_2 0_3]", "revoked [0_2 0_3]": c.then + " [0_0 0_1]"}
				assert.Equal(w, want[first[0]], rest[0])
			})
		})
	}
}
