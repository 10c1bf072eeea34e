package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// watcher implements every hook.
type watcher struct {
	mu    sync.Mutex
	lines []string
	metas map[client.Meta]bool
	rude  string // panics in lines with this start
}

var (
	_ client.HookNewMember          = (*watcher)(nil)
	_ client.HookMemberEnded        = (*watcher)(nil)
	_ client.HookStateChanged       = (*watcher)(nil)
	_ client.HookHeartbeatSent      = (*watcher)(nil)
	_ client.HookHeartbeatAnswered  = (*watcher)(nil)
	_ client.HookTasksRevoked       = (*watcher)(nil)
	_ client.HookTasksAssigned      = (*watcher)(nil)
	_ client.HookTasksLost          = (*watcher)(nil)
	_ client.HookStatusChanged      = (*watcher)(nil)
	_ client.HookCoordinatorChanged = (*watcher)(nil)
	_ client.HookRetry              = (*watcher)(nil)
)

func (h *watcher) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	line := fmt.Sprintf(format, args...)
	h.lines = append(h.lines, line)
	if h.rude != "" && len(line) >= len(h.rude) && line[:len(h.rude)] == h.rude {
		panic("rude")
	}
}

func (h *watcher) took() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.lines
	h.lines = nil
	return out
}

func (h *watcher) OnNewMember(*client.Member)                { h.note("new") }
func (h *watcher) OnMemberEnded(_ *client.Member, err error) { h.note("ended %v", err) }

func (h *watcher) OnStateChanged(m client.Meta, from, to membership.State, _ int32) {
	h.mu.Lock()
	if h.metas == nil {
		h.metas = map[client.Meta]bool{}
	}
	h.metas[m] = true
	h.mu.Unlock()
	h.note("%v to %v", from, to)
}

func (h *watcher) OnHeartbeatSent(_ client.Meta, req *kmsg.StreamsGroupHeartbeatRequest) {
	h.note("sent epoch %d", req.MemberEpoch)
}

func (h *watcher) OnHeartbeatAnswered(_ client.Meta, took time.Duration, resp *kmsg.StreamsGroupHeartbeatResponse, err error) {
	if err != nil {
		h.note("unanswered")
		return
	}
	h.note("answered code %d after %v", resp.ErrorCode, took)
}

func (h *watcher) OnTasksRevoked(_ client.Meta, tasks []topology.TaskID, took time.Duration, err error) {
	h.note("revoked %v after %v: %v", list(tasks), took, err)
}

func (h *watcher) OnTasksAssigned(_ client.Meta, a client.Assignment, took time.Duration, err error) {
	h.note("assigned %v after %v: %v", list(a.Active), took, err)
}

func (h *watcher) OnTasksLost(_ client.Meta, tasks []topology.TaskID, took time.Duration, err error) {
	h.note("lost %v after %v: %v", list(tasks), took, err)
}

func (h *watcher) OnStatusChanged(_ client.Meta, statuses []membership.Status) {
	h.note("statuses %v", statuses)
}

func (h *watcher) OnCoordinatorChanged(_ client.Meta, node int32, version int16) {
	h.note("coordinator %d speaks %d", node, version)
}

func (h *watcher) OnRetry(_ client.Meta, err error, wait time.Duration) {
	h.note("retry %v", wait > 0)
	if err == nil {
		panic("a retry without a reason")
	}
}

// Hooks hear of everything, in the order in which it happens.
func TestHooks(t *testing.T) {
	inBubble(t, func(w *world) {
		h := new(watcher)
		a := &app{
			onAssigned: func(context.Context, client.Assignment) error { time.Sleep(10 * time.Millisecond); return nil },
			onLost:     func(context.Context, []topology.TaskID) { time.Sleep(20 * time.Millisecond) },
			onRevoked:  func(context.Context, []topology.TaskID) error { return errors.New("late") },
		}
		r := w.start(a, client.WithHooks(h, nil))
		pass(time.Second)
		assert.Equal(w, []string{
			"new",
			"UNSUBSCRIBED to JOINING",
			"coordinator 0 speaks 1",
			"sent epoch 0",
			"answered code 0 after 0s",
			"JOINING to RECONCILING",
			"assigned " + all + " after 10ms: <nil>",
			"RECONCILING to ACKNOWLEDGING",
			"ACKNOWLEDGING to STABLE",
			"sent epoch 2",
			"answered code 0 after 0s",
		}, h.took())
		assert.Equal(w, map[client.Meta]bool{{Group: "g", MemberID: r.m.ID()}: true}, h.metas)

		w.once(r.m.ID(), kerr.NotCoordinator.Code)
		r.m.ForceHeartbeat()
		pass(time.Second)
		assert.Equal(w, []string{
			"sent epoch 2",
			"answered code 16 after 0s",
			"coordinator -1 speaks -1",
			"retry false",
			"coordinator 0 speaks 1",
			"sent epoch 2",
			"answered code 0 after 0s",
		}, h.took())

		w.once(r.m.ID(), kerr.FencedMemberEpoch.Code)
		r.m.ForceHeartbeat()
		pass(time.Second)
		lines := h.took()
		assert.Contains(w, lines, "lost "+all+" after 20ms: <nil>")
		assert.Contains(w, lines, "FENCED to JOINING")

		stop := w.control(r.m.ID(), func(*kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			return nil, errors.New("cut"), true
		})
		r.m.ForceHeartbeat()
		synctest.Wait()
		stop()
		pass(time.Second)
		lines = h.took()
		assert.Contains(w, lines, "unanswered")
		assert.Contains(w, lines, "retry true")

		r.leave()
		require.NoError(w, r.result())
		lines = h.took()
		assert.Contains(w, lines, "revoked "+all+" after 0s: late")
		assert.Contains(w, lines, "sent epoch -1")
		assert.Equal(w, "ended <nil>", lines[len(lines)-1])
	})
}

func TestHookOfStatuses(t *testing.T) {
	inBubble(t, func(w *world) {
		h := new(watcher)
		w.joined(new(app), client.WithHooks(h), client.MissingTopicsPatience(-1))
		h.took()
		require.NoError(w, w.cl.DeleteTopic("in"))
		pass(2 * interval)
		assert.Contains(w, h.took(), "statuses [MISSING_SOURCE_TOPICS: Source topics do not exist: in]")
		require.NoError(w, w.cl.CreateTopic("in", 4, nil))
		pass(2 * interval)
		assert.Contains(w, h.took(), "statuses []")
	})
}

// Hooks, OnEvent, TaskOffsets and DormantTasks run in the member's own goroutine. If
// one of them panics, the process lives on: the member leaves in good order, and Run
// says what happened.
func TestPanicOfAnObserver(t *testing.T) {
	t.Parallel()
	panics := func() { panic("rude") }
	later := func(fn func()) func() {
		began := time.Now()
		return func() {
			if time.Since(began) > time.Second {
				fn()
			}
		}
	}
	for name, opt := range map[string]func() client.Opt{
		"hook": func() client.Opt { return client.WithHooks(&watcher{rude: "ACKNOWLEDGING to STABLE"}) },
		"hook for an answer": func() client.Opt {
			return client.WithHooks(&watcher{rude: "answered code 0"})
		},
		"OnEvent": func() client.Opt {
			fn := later(panics)
			return client.OnEvent(func(membership.Event) { fn() })
		},
		"TaskOffsets": func() client.Opt {
			fn := later(panics)
			return client.TaskOffsets(func() (offsets, ends map[topology.TaskID]int64) { fn(); return nil, nil })
		},
		"DormantTasks": func() client.Opt {
			fn := later(panics)
			return client.DormantTasks(func() map[topology.TaskID]int64 { fn(); return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				r := w.start(new(app), opt())
				pass(time.Second)
				w.start(new(app))
				pass(6 * interval)
				err := r.result()
				var p *client.PanicError
				require.ErrorAs(w, err, &p)
				assert.NotEmpty(w, p.Stack)
				assert.Equal(w, err, r.m.Snapshot().LastError)
				assert.NotContains(w, w.members("g"), r.m.ID(), "it has left")
				lines := r.took()
				if len(lines) > 0 {
					assert.Contains(w, lines[len(lines)-1], "revoked", "in good order")
				}
			})
		})
	}
	t.Run("hook for a new member", func(t *testing.T) {
		inBubble(t, func(w *world) {
			_, err := client.NewMember(w.client, "g", plain(w), client.WithHooks(&watcher{rude: "new"}))
			var p *client.PanicError
			require.ErrorAs(w, err, &p)
		})
	})
}
