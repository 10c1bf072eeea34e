package client_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/membership"
)

// A member id is drawn anew for each member, and never begins like an option.
func TestID01MemberIDs(t *testing.T) {
	t.Parallel()
	cl, topo := offline(t), plain(t)
	drawn := map[string]bool{}
	for range 300 { // a third of all ids would have a dash
		m, err := client.NewMember(cl, "g", topo)
		require.NoError(t, err)
		require.Len(t, m.ID(), 22)
		require.NotContains(t, m.ID(), "-")
		require.False(t, drawn[m.ID()])
		drawn[m.ID()] = true
	}
}

// pulse notes when heartbeats go out, and how often the coordinator is lost.
type pulse struct {
	mu   sync.Mutex
	at   []time.Time
	full []bool // whether they carried tasks
	lost int
}

func (p *pulse) OnHeartbeatSent(_ client.Meta, req *kmsg.StreamsGroupHeartbeatRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.full = append(p.at, time.Now()), append(p.full, req.ActiveTasks != nil)
}

func (p *pulse) OnCoordinatorChanged(_ client.Meta, node int32, _ int16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if node < 0 {
		p.lost++
	}
}

// An answer that does not come and a connection that breaks are different failures:
// rules TR-1, TR-2, TM-7 and CO-6.
func TestTR02FailuresAreToldApart(t *testing.T) {
	t.Parallel()
	const patience, backoff = 3 * time.Second, time.Second
	for name, c := range map[string]struct {
		outage func(*kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool)
		lookUp bool
		takes  time.Duration
	}{
		"no answer": {func(*kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) { return nil, nil, true }, false, patience},
		"connection cut": {func(*kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			return nil, errors.New("cut"), true
		}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				p := new(pulse)
				r := w.joined(new(app), client.RequestTimeout(patience), client.RetryBackoff(backoff, backoff), client.WithHooks(p))
				stop := w.control(r.m.ID(), c.outage)
				p.mu.Lock()
				p.at, p.full = nil, nil
				p.mu.Unlock()
				pass(interval - time.Second + 2*(c.takes+backoff) + backoff/2) // kgo itself gives the connection up after 10 s
				p.mu.Lock()
				require.Len(w, p.at, 3, "one attempt at a time")
				for i, at := range p.at[1:] {
					assert.InDelta(w, c.takes+backoff, at.Sub(p.at[i]), float64(100*time.Millisecond), "the time-out and the back-off")
				}
				assert.Equal(w, []bool{false, true, true}, p.full, "everything is told again")
				assert.Equal(w, c.lookUp, p.lost > 0, "whether the coordinator is looked up again")
				p.mu.Unlock()
				stop()
				pass(4 * interval)
				r.goesOn()
				assert.Equal(w, membership.StateStable, r.state())
				assert.Zero(w, r.m.Snapshot().Failures)
			})
		})
	}
}

// A node that says nothing any more, and whose connections do not break, while another
// coordinates the group: rule DV-21. kgo gives its connections up, and then the
// coordinator is looked up again.
func TestDV21CoordinatorThatFallsSilent(t *testing.T) {
	inBubble(t, func(w *world) {
		p := new(pulse)
		r := w.joined(new(app), client.WithHooks(p))
		silent := w.cl.CoordinatorFor("g")
		w.control("", func(*kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			return nil, nil, w.cl.CurrentNode() == silent
		})
		for w.cl.CoordinatorFor("g") == silent {
			w.cl.RehashCoordinators()
		}
		began := time.Now()
		for time.Since(began) < time.Hour {
			pass(time.Second)
			p.mu.Lock()
			lost := p.lost
			p.mu.Unlock()
			if lost > 0 {
				break
			}
		}
		assert.LessOrEqual(w, time.Since(began), session/2, "before the session ends")
		pass(2 * interval)
		assert.True(w, r.m.Snapshot().Coordinator)
		r.goesOn()
		assert.Equal(w, membership.StateStable, r.state())
		assert.Len(w, w.members("g"), 1)
	}, kfakeext.Nodes(3))
}
