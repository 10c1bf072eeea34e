package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// of lets fn decide about the heartbeats of one member only.
func of(m *Member, fn func(*kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool)) func(*kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
	return func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
		if req.MemberID != m.c.Member().ID() {
			return nil, nil, false
		}
		return fn(req)
	}
}

var unanswered = func(*kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
	return nil, nil, true
}

func (m *Member) state() membership.State { return m.c.Member().Snapshot().State }

// once is a callback that takes long the first time there is something to do.
func once(took time.Duration) func(int) {
	var first sync.Once
	return func(tasks int) {
		if tasks > 0 {
			first.Do(func() { time.Sleep(took) })
		}
	}
}

// slow is a member whose callbacks of one kind take long.
func slow(kind membership.CallbackKind, took time.Duration) *Member {
	wait := once(took)
	m := &Member{name: "c"}
	switch kind {
	case membership.TasksAssigned:
		m.onAssigned = func(_ context.Context, a client.Assignment) error { wait(len(a.Active)); return nil }
	case membership.TasksRevoked:
		m.onRevoked = func(_ context.Context, tasks []topology.TaskID) error { wait(len(tasks)); return nil }
	case membership.TasksLost:
		m.onLost = func() { wait(1) }
	}
	return m
}

// The application stops a third member, whatever state it is in at that moment: the
// others take its tasks over, and nothing of it is left.
func TestStoppedInEveryState(t *testing.T) {
	const long = 2 * time.Second
	for state, c := range map[membership.State]struct {
		kind membership.CallbackKind // of the callbacks that take long
		opts []client.Opt
		// reach brings the member there. What it returns ends what keeps it there.
		reach func(d *disaster, c *Member) (over func())
	}{
		membership.Unsubscribed: {kind: -1},
		membership.Joining: {kind: -1, reach: func(d *disaster, c *Member) func() {
			return d.heartbeats(of(c, unanswered))
		}},
		membership.Reconciling: {kind: membership.TasksAssigned},
		membership.Acknowledging: {kind: membership.TasksAssigned, reach: func(d *disaster, c *Member) func() {
			d.eventually("it reconciles", func() bool { return c.state() == membership.Reconciling })
			return d.heartbeats(of(c, unanswered)) // the heartbeat in flight holds the acknowledgement up
		}},
		membership.StateStable: {kind: -1, reach: func(d *disaster, c *Member) func() {
			d.settle(d.a, d.b, c)
			return func() {}
		}},
		membership.Fenced: {kind: membership.TasksLost, reach: func(d *disaster, c *Member) func() {
			d.settle(d.a, d.b, c)
			var fence sync.Once
			return d.heartbeats(of(c, func(req *kmsg.StreamsGroupHeartbeatRequest) (resp kmsg.Response, err error, ok bool) {
				fence.Do(func() { resp, ok = refusal(req, kerr.FencedMemberEpoch), true })
				return resp, nil, ok
			}))
		}},
		membership.Stale: {kind: membership.TasksAssigned, opts: []client.Opt{client.MaxPollInterval(time.Second)}, reach: func(d *disaster, c *Member) func() {
			d.eventually("it runs its callback", func() bool { return c.state() == membership.Reconciling })
			return func() {}
		}},
		membership.PrepareLeaving: {kind: membership.TasksRevoked, reach: func(d *disaster, c *Member) func() {
			d.settle(d.a, d.b, c)
			c.c.Member().Leave(membership.LeaveGroup)
			return func() {}
		}},
	} {
		t.Run(state.String(), func(t *testing.T) {
			survive(t, func(d *disaster) {
				m := slow(c.kind, long)
				opts := append(d.short("c"), c.opts...)
				d.startAs(m, d.topo, append(opts, client.OnEvent(func(e membership.Event) {
					// An application that is stuck cannot know that it is out.
					if _, stuck := e.(membership.PollTimerExpired); stuck {
						m.expel()
					}
				}))...)
				over := func() {}
				if c.reach != nil {
					over = c.reach(d, m)
				}
				d.eventually("it is "+state.String(), func() bool { return m.state() == state })
				began := time.Now()
				m.stop()
				<-m.done
				m.dead = true
				_ = m.c.Close(context.Background())
				assert.Less(d, time.Since(began), 12*time.Second, "within the leave time-out, and the callback that runs")
				over()
				m.expel()
				assert.Contains(d, []membership.State{membership.Unsubscribed, membership.Stale}, m.state())
				d.settle(d.a, d.b)
				d.undisturbed()
			})
		})
	}
	t.Run("LEAVING, and the leave is not answered", func(t *testing.T) {
		survive(t, func(d *disaster) {
			c := d.start("c", d.short("c")...)
			d.settle(d.a, d.b, c)
			stop := d.heartbeats(of(c, unanswered))
			began := time.Now()
			c.leave()
			assert.LessOrEqual(d, time.Since(began), 11*time.Second)
			stop()
			d.settle(d.a, d.b)
			d.undisturbed()
		})
	})
	t.Run("FATAL", func(t *testing.T) {
		survive(t, func(d *disaster) {
			m := slow(membership.TasksLost, long)
			d.startAs(m, d.topo, d.short("c")...)
			d.settle(d.a, d.b, m)
			stop := d.heartbeats(of(m, func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
				return refusal(req, kerr.InvalidRequest), nil, req.MemberEpoch > 0
			}))
			d.eventually("it has failed", func() bool { return m.state() == membership.Fatal })
			m.stop()
			require.ErrorIs(d, m.ended(), context.Canceled)
			stop()
			d.settle(d.a, d.b)
			d.undisturbed()
		})
	})
}

// A member leaves while tasks wander: the one that they come to, at any moment, or the
// one that is giving them up.
func TestLeaveWhileARebalanceIsUnderWay(t *testing.T) {
	for after := time.Duration(0); after < 3*interval; after += interval / 3 {
		t.Run(fmt.Sprintf("the newcomer leaves after %v", after), func(t *testing.T) {
			survive(t, func(d *disaster) {
				c := d.start("c", d.short("c")...)
				time.Sleep(after)
				c.leave()
				d.settle(d.a, d.b)
				d.undisturbed()
			})
		})
	}
	t.Run("the owner leaves while it gives tasks up", func(t *testing.T) {
		survive(t, func(d *disaster) {
			c := slow(membership.TasksRevoked, 2*session)
			d.startAs(c, d.topo, d.short("c")...)
			d.settle(d.a, d.b, c)
			e := d.start("e", d.short("e")...) // wants tasks; whose, is the assignor's choice
			f := d.start("f", d.short("f")...)
			d.eventually("c has to give tasks up", func() bool {
				calls := c.c.Member().Snapshot().Callbacks
				return len(calls) > 0 && calls[0].Kind == membership.TasksRevoked
			})
			c.leave()
			d.settle(d.a, d.b, e, f)
			d.processedAtLeastOnce(d.produce("four"))
			d.undisturbed()
			e.leave()
			f.leave()
		})
	})
	t.Run("all but one leave at once", func(t *testing.T) {
		survive(t, func(d *disaster) {
			c, e := d.start("c", d.short("c")...), d.start("e", d.short("e")...)
			time.Sleep(interval)
			var wg sync.WaitGroup
			for _, m := range []*Member{c, e} {
				wg.Go(m.leave)
			}
			wg.Wait()
			d.settle(d.a, d.b)
			d.undisturbed()
		})
	})
}

// Two processes with one instance id: the second one is refused as long as the first is
// there, and gets the tasks as soon as it is not.
func TestTwoMembersWithOneStaticID(t *testing.T) {
	static := func(d *disaster, name string) *Member {
		return d.start(name, append(d.short(name), client.InstanceID("i1"), client.ProcessID("p1"))...)
	}
	refused := func(d *disaster, name string) {
		err := static(d, name).ended()
		require.ErrorIs(d, err, kerr.UnreleasedInstanceID)
		assert.ErrorContains(d, err, "i1")
	}
	t.Run("the first one stays", func(t *testing.T) {
		survive(t, func(d *disaster) {
			first := static(d, "first")
			d.settle(d.a, d.b, first)
			epoch := d.describe().Epoch
			for n := range 3 {
				refused(d, fmt.Sprintf("second-%d", n))
			}
			time.Sleep(2 * session)
			d.settle(d.a, d.b, first)
			assert.Equal(d, epoch, d.describe().Epoch)
			d.undisturbed()
			_, lost := first.times()
			assert.Zero(d, lost)
			first.c.Member().Leave(membership.LeaveGroup)
			d.eventually("it has left for good", func() bool { return len(d.describe().Members) == 2 })
			first.stop()
			<-first.done
			first.dead = true
			_ = first.c.Close(context.Background())
		})
	})
	t.Run("the first one leaves for a moment", func(t *testing.T) {
		survive(t, func(d *disaster) {
			first := static(d, "first")
			d.settle(d.a, d.b, first)
			held := first.active()
			first.leave()
			second := static(d, "second")
			d.settle(d.a, d.b, second)
			assert.Equal(d, held, second.active(), "it has the tasks that waited")
			refused(d, "third")
			d.undisturbed()
			second.Crash()
		})
	})
	t.Run("the first one dies", func(t *testing.T) {
		survive(t, func(d *disaster) {
			first := static(d, "first")
			d.settle(d.a, d.b, first)
			first.Crash()
			refused(d, "too early")
			time.Sleep(session + interval)
			second := static(d, "second")
			d.settle(d.a, d.b, second)
			d.undisturbed()
			second.Crash()
		})
	})
}

// A source topic is deleted, comes back, and grows, under members that are patient and
// keep no state: a changelog would have to fit.
func TestTopicDeletedRecreatedAndGrown(t *testing.T) {
	face(t, func(d *disaster) {
		d.a.leave()
		d.b.leave()
		topo, err := new(topology.Builder).AddSource("orders", d.orders).AddProcessor("total", "orders").Epoch(1).Build(d.group)
		require.NoError(d, err)
		patient := func(name string) *Member {
			return d.startAs(&Member{name: name}, topo, append(d.short(name), client.MissingTopicsPatience(-1), client.CompareTopology(false))...)
		}
		c, e := patient("c"), patient("e")
		d.settle(c, e)
		d.deleteTopic(d.orders)
		d.eventually("all tasks are given up", func() bool { return c.tasks()+e.tasks() == 0 })
		time.Sleep(time.Minute)
		d.createTopic(d.orders, 2)
		d.settleWith(2, c, e)
		d.processedAtLeastOnce(d.produceTo(d.orders, 2, "small"))
		resp, err := kadm.NewClient(d.admin).UpdatePartitions(d.Context(), partitions+2, d.orders)
		require.NoError(d, err)
		require.NoError(d, resp.Error())
		d.settleWith(partitions+2, c, e)
		d.processedAtLeastOnce(d.produceTo(d.orders, partitions+2, "grown"))
		for _, m := range []*Member{c, e} {
			_, lost := m.times()
			assert.Zero(d, lost, "what vanishes is revoked")
			m.leave()
		}
		assert.Empty(d, d.describe().Members)
	})
}

// A callback fails at the worst moments: while tasks are given up, and while they are
// lost. The first ends the member, and its tasks are not held up; the second does not.
func TestOtherCallbacksFail(t *testing.T) {
	for name, fail := range map[string]func() error{
		"panics": func() error { panic("ouch") },
		"fails":  func() error { return errors.New("ouch") },
	} {
		t.Run("revoked "+name, func(t *testing.T) {
			survive(t, func(d *disaster) {
				c := d.startAs(&Member{name: "c", onRevoked: func(context.Context, []topology.TaskID) error { return fail() }}, d.topo, d.short("c")...)
				d.settle(d.a, d.b, c)
				e, f := d.start("e", d.short("e")...), d.start("f", d.short("f")...)
				assert.ErrorContains(d, c.ended(), "ouch")
				began := time.Now()
				d.settle(d.a, d.b, e, f)
				assert.Less(d, time.Since(began), session, "it has said goodbye")
				d.undisturbed()
				e.leave()
				f.leave()
			})
		})
	}
	t.Run("lost panics", func(t *testing.T) {
		survive(t, func(d *disaster) {
			c := d.startAs(&Member{name: "c", onLost: func() { panic("ouch") }}, d.topo, d.short("c")...)
			d.settle(d.a, d.b, c)
			var fence sync.Once
			stop := d.heartbeats(of(c, func(req *kmsg.StreamsGroupHeartbeatRequest) (resp kmsg.Response, err error, ok bool) {
				fence.Do(func() { resp, ok = refusal(req, kerr.UnknownMemberID), true })
				return resp, nil, ok
			}))
			d.eventually("it has lost its tasks", func() bool { _, lost := c.times(); return lost == 1 })
			d.settle(d.a, d.b, c)
			stop()
			d.undisturbed()
			c.leave()
		})
	})
}
