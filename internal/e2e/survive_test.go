package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// disaster is a world whose network misbehaves, with members a and b that are settled.
// Beside what a world asserts, no minute of virtual time may see more requests than a
// member that is well has any use for.
type disaster struct {
	*fake
	net   *network
	a, b  *Member
	began time.Time

	countMu  sync.Mutex
	requests map[int]map[string]int // by minute and kind
}

// survive runs the disaster and asserts afterwards that all is well again: the group is
// stable, every task is active once, and records are processed.
func survive(t *testing.T, what func(d *disaster), opts ...kfakeext.Opt) {
	t.Helper()
	face(t, func(d *disaster) {
		what(d)
		d.settle(d.a, d.b)
		d.processedAtLeastOnce(d.produce("afterwards"))
		d.a.leave()
		d.b.leave()
		assert.Empty(d, d.describe().Members)
	}, opts...)
}

// face runs a disaster after which not all is well.
func face(t *testing.T, what func(d *disaster), opts ...kfakeext.Opt) {
	t.Helper()
	d := &disaster{net: newNetwork(), requests: map[int]map[string]int{}}
	opts = append(opts, kfakeext.OnEvent(func(e coordinator.Event) {
		// The application of a member that is cut off cannot know that its session is
		// over. From then on the next owner is right.
		if left, ok := e.(coordinator.MemberLeft); ok && left.After > 0 {
			for _, m := range d.roll() {
				if m.c.Member().ID() == left.Member {
					m.expel()
				}
			}
		}
	}))
	run(t, uncapped(), func(f *fake) {
		d.fake = f
		d.began = time.Now()
		d.watch(f.cluster)
		d.net.cluster = f.cluster
		f.opts = []kgo.Opt{kgo.SeedBrokers(f.cluster.Addrs()...), kgo.Dialer(d.net.DialContext)}
		d.admin = d.dial()
		d.a, d.b = d.start("a", d.short("a")...), d.start("b", d.short("b")...)
		d.settle(d.a, d.b)
		d.processed(d.produce("before"))
		what(d)
		d.noBusyLoop()
	}, opts...)
}

// short are options of a member whose connections can be told from others', and whose
// rebalance time-out is short.
func (d *disaster) short(name string) []client.Opt {
	return []client.Opt{client.MaxPollInterval(30 * time.Second), client.KgoOpts(kgo.Dialer(d.net.of(name)))}
}

// watch counts the requests that arrive at a cluster.
func (d *disaster) watch(cluster *kfakeext.Cluster) {
	cluster.Intercept(func(req kmsg.Request) (kmsg.Response, error, bool) {
		d.countMu.Lock()
		defer d.countMu.Unlock()
		minute := int(time.Since(d.began) / time.Minute)
		if d.requests[minute] == nil {
			d.requests[minute] = map[string]int{}
		}
		d.requests[minute][kmsg.Key(req.Key()).Name()]++
		return nil, nil, false
	})
}

// noBusyLoop asserts on the number of requests per minute. Two members have 240
// heartbeats at their interval, and 480 fetches.
func (d *disaster) noBusyLoop() {
	d.countMu.Lock()
	defer d.countMu.Unlock()
	limits := map[string]int{"StreamsGroupHeartbeat": 600, "FindCoordinator": 1300, "Fetch": 3000, "StreamsGroupDescribe": 4000}
	for minute, kinds := range d.requests {
		for kind, n := range kinds {
			limit, ok := limits[kind]
			if !ok {
				limit = 2500
			}
			assert.LessOrEqual(d, n, limit, "%s in minute %d", kind, minute)
		}
	}
}

// heartbeats lets fn decide about heartbeats, until stop is called.
func (d *disaster) heartbeats(fn func(*kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool)) (stop func()) {
	var stopped atomic.Bool
	d.cluster.Intercept(func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		if req, ok := kreq.(*kmsg.StreamsGroupHeartbeatRequest); ok && !stopped.Load() {
			return fn(req)
		}
		return nil, nil, false
	})
	return func() { stopped.Store(true) }
}

func refusal(req *kmsg.StreamsGroupHeartbeatRequest, code *kerr.Error) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.StreamsGroupHeartbeatResponse)
	resp.ErrorCode = code.Code
	return resp
}

func (d *disaster) undisturbed() {
	d.Helper()
	for _, m := range []*Member{d.a, d.b} {
		_, lost := m.times()
		assert.Zero(d, lost, "%s lost its tasks", m.name)
	}
}

func TestCoordinatorMoved(t *testing.T) {
	survive(t, func(d *disaster) {
		before := d.describe()
		for range 5 {
			d.cluster.RehashCoordinators()
			time.Sleep(3 * interval)
			d.settle(d.a, d.b)
		}
		assert.Equal(d, before.Epoch, d.describe().Epoch, "a move is no rebalance")
		d.undisturbed()
	}, kfakeext.Nodes(3))
}

func TestCoordinatorGoneForAMoment(t *testing.T) {
	survive(t, func(d *disaster) {
		epoch := d.describe().Epoch
		d.net.outage(session / 2)
		d.settle(d.a, d.b)
		assert.Equal(d, epoch, d.describe().Epoch)
		d.undisturbed()
	})
}

func TestCoordinatorGoneForLongerThanTheSession(t *testing.T) {
	survive(t, func(d *disaster) {
		d.net.outage(10 * time.Minute)
		d.eventually("both have heard of it", func() bool {
			_, a := d.a.times()
			_, b := d.b.times()
			return a == 1 && b == 1
		})
	})
}

// A broker that restarts and has kept its records goes on where it was.
func TestCoordinatorRestarted(t *testing.T) {
	dir := t.TempDir()
	survive(t, func(d *disaster) {
		before := d.describe()
		d.net.set(func(n *network) { n.down = true })
		d.net.cut()
		d.cluster.Close()
		time.Sleep(interval)
		d.restart(kfakeext.DataDir(dir))
		d.settle(d.a, d.b)
		assert.Equal(d, before.Epoch, d.describe().Epoch)
		d.undisturbed()
	}, kfakeext.DataDir(dir))
}

// restart starts a cluster in the place of the one that was closed.
func (d *disaster) restart(opts ...kfakeext.Opt) {
	d.cluster = kfakeext.Start(d, opts...)
	d.watch(d.cluster)
	require.Equal(d, 1, len(d.cluster.Addrs()))
	d.net.set(func(n *network) { n.cluster, n.down = d.cluster, false })
}

// A broker that has lost everything does not know the group: its members join anew.
func TestGroupDeletedUnderIt(t *testing.T) {
	survive(t, func(d *disaster) {
		d.net.set(func(n *network) { n.down = true })
		d.net.cut()
		d.cluster.Close()
		d.restart(kfakeext.Topic(d.orders, partitions))
		d.configure(map[string]string{"streams.session.timeout.ms": "3000", "streams.heartbeat.interval.ms": "500", "streams.assignment.interval.ms": "0"})
		d.settle(d.a, d.b)
		for _, m := range []*Member{d.a, d.b} {
			_, lost := m.times()
			assert.Equal(d, 1, lost)
		}
	})
}

// The broker is replaced by a newer one, and then by the older one again. The member
// tells what the present one understands, and says what it leaves out.
func TestBrokerUpgradedAndDowngradedUnderIt(t *testing.T) {
	dir := t.TempDir()
	old := kfakeext.KfakeOpts(kfake.MaxVersions(kversion.V4_3_0()))
	survive(t, func(d *disaster) {
		var mu sync.Mutex
		var leftOut [][]string
		task := topology.TaskID{Subtopology: "0"}
		c := d.start("c", client.TaskOffsets(func() (offsets, ends map[topology.TaskID]int64) {
			return map[topology.TaskID]int64{task: 7}, nil
		}), client.OnEvent(func(e membership.Event) {
			if f, ok := e.(membership.FeaturesLeftOut); ok {
				mu.Lock()
				defer mu.Unlock()
				leftOut = append(leftOut, f.Features)
			}
		}))
		d.settle(d.a, d.b, c)
		assert.EqualValues(d, 0, c.c.Member().Snapshot().Version)
		assert.Empty(d, c.c.Member().Snapshot().TaskOffsets)
		for _, step := range []struct {
			version int16
			opts    []kfakeext.Opt
		}{{1, nil}, {0, []kfakeext.Opt{old}}} {
			d.net.set(func(n *network) { n.down = true })
			d.net.cut()
			d.cluster.Close()
			d.restart(append(step.opts, kfakeext.DataDir(dir))...)
			d.eventually("the version is known", func() bool { return c.c.Member().Snapshot().Version == step.version })
			d.settle(d.a, d.b, c)
			time.Sleep(2 * interval)
			assert.Equal(d, step.version > 0, len(c.c.Member().Snapshot().TaskOffsets) > 0)
		}
		d.undisturbed()
		mu.Lock()
		require.Len(d, leftOut, 3, "%v", leftOut)
		assert.NotEmpty(d, leftOut[0])
		assert.Empty(d, leftOut[1])
		assert.NotEmpty(d, leftOut[2])
		mu.Unlock()
		c.leave()
	}, old, kfakeext.DataDir(dir))
}

func TestConnectionCutInTheMiddleOfARequest(t *testing.T) {
	survive(t, func(d *disaster) {
		epoch := d.describe().Epoch
		for _, after := range []int{1, 3, 20, 60} {
			d.net.set(func(n *network) { n.writes = after })
			time.Sleep(2 * interval)
		}
		d.settle(d.a, d.b)
		assert.Equal(d, epoch, d.describe().Epoch)
		d.undisturbed()
	})
}

func TestConnectionCutInTheMiddleOfAResponse(t *testing.T) {
	survive(t, func(d *disaster) {
		epoch := d.describe().Epoch
		for _, after := range []int{1, 3, 20, 60} {
			d.net.set(func(n *network) { n.reads = after })
			time.Sleep(2 * interval)
		}
		d.settle(d.a, d.b)
		assert.Equal(d, epoch, d.describe().Epoch)
		d.undisturbed()
	})
}

// B68: the coordinator acts, and its answer is lost: that of a join, of the heartbeat
// that brings tasks, of an acknowledgement. Whichever it is, the next heartbeat makes up
// for it. The one exception is the answer that asks for a revocation: a member that
// reports the tasks in question may know already, so the coordinator says it once (rule
// D9), and it is the rebalance time-out that helps.
func TestB68ResponseLostAfterTheCoordinatorActed(t *testing.T) {
	for n := range 10 {
		t.Run(fmt.Sprintf("answer %d of a scale-out", n), func(t *testing.T) {
			survive(t, func(d *disaster) {
				var mu sync.Mutex
				answers, revocation := 0, false
				names := map[string]string{d.a.c.Member().ID(): "a", d.b.c.Member().ID(): "b"}
				stop := d.heartbeats(func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
					mu.Lock()
					defer mu.Unlock()
					if answers++; answers == n+1 {
						name := names[req.MemberID]
						// Whoever does not say that it has given up a task may be asked to.
						revocation = name != "" && (len(req.ActiveTasks) == 0 || len(req.ActiveTasks[0].Partitions) == 3)
						if name == "" {
							name = "c"
						}
						d.net.set(func(net *network) { net.lose = name })
					}
					return nil, nil, false
				})
				began := time.Now()
				c := d.start("c", d.short("c")...)
				d.settle(d.a, d.b, c)
				mu.Lock()
				told := !revocation
				mu.Unlock()
				if told {
					assert.Less(d, time.Since(began), 5*interval)
					d.undisturbed()
				}
				stop()
				d.processedAtLeastOnce(d.produce("three"))
				c.leave()
			})
		})
	}
}

func TestResponsesDelayedPastTheNextHeartbeat(t *testing.T) {
	survive(t, func(d *disaster) {
		epoch := d.describe().Epoch
		d.net.set(func(n *network) { n.delay = 3 * interval / 2 })
		time.Sleep(time.Minute)
		d.net.set(func(n *network) { n.delay = 0 })
		assert.Equal(d, epoch, d.describe().Epoch)
		d.undisturbed()
	})
}

// Every heartbeat arrives twice, the second time a little later.
func TestDuplicatedRequests(t *testing.T) {
	face(t, func(d *disaster) {
		echo := &echo{d: d, cl: d.dial()}
		defer echo.wait()
		c := d.start("c", client.WithHooks(echo))
		d.settle(d.a, d.b, c)
		d.processed(d.produce("with echo"))
		d.a.leave()
		d.settle(d.b, c)
		c.leave()
		d.settle(d.b)
		d.b.leave()
	})
}

// echo is a hook that repeats what a member sends.
type echo struct {
	d  *disaster
	cl *kgo.Client
	wg sync.WaitGroup
}

func (e *echo) OnHeartbeatSent(_ client.Meta, req *kmsg.StreamsGroupHeartbeatRequest) {
	again := *req
	e.wg.Go(func() {
		time.Sleep(20 * time.Millisecond)
		_, _ = e.cl.Broker(0).Request(context.Background(), &again)
	})
}

func (e *echo) wait() { e.wg.Wait() }

// A broker that throttles says how long to keep quiet. kgo sees to it, so that the
// member stays in the group as long as its session lasts.
func TestThrottling(t *testing.T) {
	survive(t, func(d *disaster) {
		var mu sync.Mutex
		var arrived []time.Time
		stop := d.heartbeats(func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			mu.Lock()
			defer mu.Unlock()
			if req.MemberID != d.a.c.Member().ID() {
				return nil, nil, false
			}
			arrived = append(arrived, time.Now())
			if len(arrived) != 1 {
				return nil, nil, false
			}
			resp := req.ResponseKind().(*kmsg.StreamsGroupHeartbeatResponse)
			resp.MemberEpoch, resp.HeartbeatIntervalMillis, resp.ThrottleMillis = req.MemberEpoch, int32(interval.Milliseconds()), 1500
			resp.Status = []kmsg.StreamsGroupHeartbeatResponseStatus{}
			return resp, nil, true
		})
		time.Sleep(session)
		stop()
		mu.Lock()
		defer mu.Unlock()
		require.GreaterOrEqual(d, len(arrived), 2)
		assert.GreaterOrEqual(d, arrived[1].Sub(arrived[0]), 1500*time.Millisecond)
		d.undisturbed()
	})
}

// A process that was suspended finds that time has jumped: its session is over.
func TestClockJumps(t *testing.T) {
	survive(t, func(d *disaster) {
		var once sync.Once
		c := d.start("c", client.OnEvent(func(e membership.Event) {
			if s, ok := e.(membership.StateChanged); ok && s.To == membership.StateStable {
				once.Do(func() { time.Sleep(3 * session) })
			}
		}))
		d.settle(d.a, d.b)
		d.settle(d.a, d.b, c)
		_, lost := c.times()
		assert.Equal(d, 1, lost)
		c.leave()
	})
}

func TestCallbackBlocks(t *testing.T) {
	survive(t, func(d *disaster) {
		release := make(chan struct{})
		c := d.startAs(&Member{name: "c", onAssigned: func(ctx context.Context, a client.Assignment) error {
			if len(a.Active) > 0 {
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			return nil
		}}, d.topo)
		time.Sleep(5 * session)
		assert.Len(d, d.describe().Members, 3, "heartbeats go on")
		close(release)
		d.settle(d.a, d.b, c)
		c.leave()
	})
}

func TestCallbackPanicsOrFails(t *testing.T) {
	for name, fail := range map[string]func() error{
		"panics": func() error { panic("ouch") },
		"fails":  func() error { return errors.New("ouch") },
	} {
		t.Run(name, func(t *testing.T) {
			survive(t, func(d *disaster) {
				c := d.startAs(&Member{name: "c", onAssigned: func(_ context.Context, a client.Assignment) error {
					if len(a.Active) > 0 {
						return fail()
					}
					return nil
				}}, d.topo)
				assert.ErrorContains(d, c.ended(), "ouch")
				d.settle(d.a, d.b)
				d.undisturbed()
			})
		})
	}
}

// The feature is switched off under the members: they end, and say why.
func TestFeatureSwitchedOff(t *testing.T) {
	face(t, func(d *disaster) {
		stop := d.heartbeats(func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			return refusal(req, kerr.UnsupportedVersion), nil, true
		})
		defer stop()
		for _, m := range []*Member{d.a, d.b} {
			err := m.ended()
			require.ErrorIs(d, err, kerr.UnsupportedVersion)
			assert.ErrorContains(d, err, "streams.version")
		}
	})
}

// The right to the group is withdrawn: the members end. With the right back, new ones
// join.
func TestAuthorizationForTheGroupWithdrawnAndGivenBack(t *testing.T) {
	var withdrawn atomic.Bool
	face(t, func(d *disaster) {
		withdrawn.Store(true)
		for _, m := range []*Member{d.a, d.b} {
			require.ErrorIs(d, m.ended(), kerr.GroupAuthorizationFailed)
		}
		withdrawn.Store(false)
		c := d.start("c")
		d.settle(c)
		c.leave()
	}, kfakeext.Authorize(func(_ kfakeext.Caller, op kmsg.ACLOperation, kind kmsg.ACLResourceType, _ string) bool {
		return !withdrawn.Load() || kind != kmsg.ACLResourceTypeGroup || op != kmsg.ACLOperationRead
	}))
}

// B95: the right to a topic is withdrawn. A join is refused, the member says so and goes
// on trying.
func TestB95AuthorizationForATopicWithdrawnAndGivenBack(t *testing.T) {
	var withdrawn atomic.Bool
	survive(t, func(d *disaster) {
		withdrawn.Store(true)
		c := d.start("c")
		d.eventually("it says why it does not join", func() bool {
			return errors.Is(c.c.Member().Snapshot().LastError, kerr.TopicAuthorizationFailed)
		})
		time.Sleep(time.Minute)
		withdrawn.Store(false)
		d.settle(d.a, d.b, c)
		c.leave()
	}, kfakeext.Authorize(func(_ kfakeext.Caller, _ kmsg.ACLOperation, kind kmsg.ACLResourceType, _ string) bool {
		return !withdrawn.Load() || kind != kmsg.ACLResourceTypeTopic
	}))
}

// B88: what happens in an ordinary restart of brokers is nothing that an application
// hears of.
func TestB88RoutineBlips(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator} {
		t.Run(code.Message, func(t *testing.T) {
			survive(t, func(d *disaster) {
				stop := d.heartbeats(func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
					return refusal(req, code), nil, true
				})
				time.Sleep(session - 2*interval)
				stop()
				d.settle(d.a, d.b)
				d.undisturbed()
			})
		})
	}
}
