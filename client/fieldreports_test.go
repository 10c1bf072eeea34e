package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// These are faults that users of other implementations met in the field. Each test
// bears the number of its report.

// reply is an answer to a heartbeat. Roles without an entry get empty lists; without
// any entry the lists are left out.
type reply struct {
	epoch           int32
	active, standby []int32
	lists           bool
	statuses        []int8
	interval        int32
	subtopology     string
	omit            bool // the warm-up list
}

func (r reply) to(req *kmsg.StreamsGroupHeartbeatRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.StreamsGroupHeartbeatResponse)
	resp.MemberID, resp.MemberEpoch = req.MemberID, r.epoch
	if r.interval == 0 {
		r.interval = int32(interval.Milliseconds())
	}
	resp.HeartbeatIntervalMillis = r.interval
	resp.Status = []kmsg.StreamsGroupHeartbeatResponseStatus{}
	for _, code := range r.statuses {
		resp.Status = append(resp.Status, kmsg.StreamsGroupHeartbeatResponseStatus{StatusCode: code, StatusDetail: "because"})
	}
	if !r.lists {
		return resp
	}
	if r.subtopology == "" {
		r.subtopology = "0"
	}
	tasks := func(partitions []int32) []kmsg.TaskIDs {
		if len(partitions) == 0 {
			return []kmsg.TaskIDs{}
		}
		return []kmsg.TaskIDs{{SubtopologyID: r.subtopology, Partitions: partitions}}
	}
	resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks = tasks(r.active), tasks(r.standby), []kmsg.TaskIDs{}
	if r.omit {
		resp.WarmupTasks = nil
	}
	return resp
}

// script answers the heartbeats of all members with one reply after another; the last
// one is repeated. Leaves are accepted. It returns the last request.
func (w *world) script(replies ...reply) (last func() *kmsg.StreamsGroupHeartbeatRequest) {
	var mu sync.Mutex
	var seen *kmsg.StreamsGroupHeartbeatRequest
	w.control("", func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
		mu.Lock()
		defer mu.Unlock()
		seen = req
		if req.MemberEpoch < 0 {
			return reply{epoch: req.MemberEpoch}.to(req), nil, true
		}
		r := replies[0]
		if len(replies) > 1 {
			replies = replies[1:]
		}
		return r.to(req), nil, true
	})
	return func() *kmsg.StreamsGroupHeartbeatRequest {
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

func TestB47NotReadyIsTold(t *testing.T) {
	inBubble(t, func(w *world) {
		empty := reply{epoch: 1, lists: true, statuses: []int8{3}}
		w.script(empty, reply{epoch: 1, statuses: []int8{3}}, reply{epoch: 1}, reply{epoch: 2, lists: true, active: []int32{0}}, reply{epoch: 2, statuses: []int8{99, 5}}, reply{epoch: 2})
		r := w.start(new(app))
		pass(time.Second)
		assert.Equal(w, []string{"assigned [] not ready"}, r.took())
		assert.False(w, r.m.Snapshot().Ready)
		pass(3 * interval)
		assert.Equal(w, []string{
			"assigned []", // readiness alone is an assignment too
			"assigned [0_0]",
			"assigned [0_0] not ready", // and takes no task away
			"assigned [0_0]",
		}, r.took())
	})
}

// From the moment when a task is given up, none of its records is delivered, from no
// buffer either.
func TestB49RecordsOfGivenUpTasksAreNotDelivered(t *testing.T) {
	t.Parallel()
	fill := func(w *world, a *app) *client.Consumer {
		for p := range int32(4) {
			w.produce("in", p, 0, 500)
		}
		c := w.consumer(plain(w), a, client.KgoOpts(kgo.FetchMaxPartitionBytes(2000), kgo.FetchMaxBytes(2000)))
		fetches, err := c.Poll(w.Context())
		require.NoError(w, err)
		require.NotEmpty(w, fetches.Tasks())
		return c
	}
	drain := func(w *world, a *app, c *client.Consumer) {
		seen := 0
		for range 200 {
			ctx, cancel := context.WithTimeout(w.Context(), interval)
			fetches, err := c.Poll(ctx)
			cancel()
			if err != nil {
				break
			}
			for _, batch := range fetches.Tasks() {
				a.mu.Lock()
				assert.True(w, a.now[batch.Task], "records of %s, which is not held", batch.Task)
				a.mu.Unlock()
				seen += len(batch.Records)
			}
		}
		assert.Positive(w, seen)
	}
	t.Run("revoked", func(t *testing.T) {
		inBubble(t, func(w *world) {
			a := new(app)
			c := fill(w, a)
			two := w.start(new(app))
			pass(2 * interval) // the revocation waits for the next poll
			drain(w, a, c)
			pass(2 * interval)
			assert.Equal(w, 2, a.owns())
			assert.Equal(w, 2, two.owns())
		})
	})
	t.Run("lost", func(t *testing.T) {
		inBubble(t, func(w *world) {
			a := &app{onLost: func(context.Context, []topology.TaskID) { time.Sleep(time.Second) }}
			c := fill(w, a)
			w.once(c.Member().ID(), kerr.FencedMemberEpoch.Code)
			pass(2 * interval)
			drain(w, a, c)
			assert.Contains(w, a.took(), "lost "+all)
		})
	})
}

// What the application sees changes inside Poll only.
func TestB50AssignmentDoesNotChangeBehindTheBack(t *testing.T) {
	inBubble(t, func(w *world) {
		w.produce("in", 0, 0, 1)
		a := new(app)
		c := w.consumer(plain(w), a)
		_, err := c.Poll(w.Context())
		require.NoError(w, err)
		w.start(new(app))
		count := w.heartbeats()
		pass(4 * interval)
		assert.Equal(w, 4, a.owns(), "nobody polls")
		assert.Len(w, c.Member().Snapshot().Active, 4)
		assert.GreaterOrEqual(w, count(c.Member().ID()), 3, "heartbeats go on")
		ctx, cancel := context.WithTimeout(w.Context(), 2*interval)
		defer cancel()
		_, _ = c.Poll(ctx)
		assert.Equal(w, 2, a.owns())
		assert.Len(w, c.Member().Snapshot().Active, 2)
	})
}

func TestB52CorruptedAssignment(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]reply{
		"unknown subtopology": {epoch: 2, lists: true, active: []int32{0}, subtopology: "7"},
		"two of three lists":  {epoch: 2, lists: true, active: []int32{0, 1}, omit: true},
		"negative partition":  {epoch: 2, lists: true, active: []int32{-1}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.script(reply{epoch: 1, lists: true, active: []int32{0}}, reply{epoch: 1}, bad)
				r := w.start(new(app))
				pass(2 * interval)
				err := r.result()
				var e *membership.Error
				require.ErrorAs(w, err, &e)
				assert.Equal(w, []string{"assigned [0_0]", "lost [0_0]"}, r.took())
			})
		})
	}
	t.Run("a task twice", func(t *testing.T) {
		inBubble(t, func(w *world) {
			w.script(reply{epoch: 1, lists: true, active: []int32{0, 1, 0}}, reply{epoch: 1}, reply{epoch: 1, lists: true, active: []int32{1, 0}})
			r := w.start(new(app))
			pass(3 * interval)
			r.goesOn()
			assert.Equal(w, []string{"assigned [0_0 0_1]"}, r.took(), "it is opened once")
		})
	})
	t.Run("a task in two roles", func(t *testing.T) {
		inBubble(t, func(w *world) {
			w.script(reply{epoch: 1, lists: true, active: []int32{0}, standby: []int32{0, 1}})
			r := w.start(new(app))
			pass(interval)
			r.goesOn()
			assert.Equal(w, []string{"assigned [0_0]"}, r.took())
			assert.Equal(w, "[0_1]", list(r.m.Snapshot().Standby), "it runs as the active one")
		})
	})
}

// A member that is stopped before its join is answered does not stay behind.
func TestB58StoppedBeforeTheJoinIsAnswered(t *testing.T) {
	inBubble(t, func(w *world) {
		slow := true
		w.control("", func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			assert.NotEmpty(w, req.MemberID)
			if slow {
				slow = false
				w.cl.SleepControl(func() { time.Sleep(2 * time.Second) })
			}
			return nil, nil, false
		})
		r := w.start(new(app))
		pass(100 * time.Millisecond)
		r.leave()
		pass(5 * time.Second)
		require.NoError(w, r.result())
		assert.Empty(w, w.members("g"))
	})
}

// What belongs to a former life of the member does not touch the present one.
func TestB63AnswersFromAFormerLife(t *testing.T) {
	for name, late := range map[string]func(*world, *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool){
		"an answer": func(_ *world, req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			return reply{epoch: 1, lists: true, active: []int32{3}}.to(req), nil, true
		},
		"a broken connection": func(*world, *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			return nil, errors.New("cut"), true
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				r := w.joined(new(app), client.PollGuard(true), client.MaxPollInterval(10*time.Second))
				r.took()
				used := false
				w.control(r.m.ID(), func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
					if used || req.MemberEpoch <= 0 {
						return nil, nil, false
					}
					used = true
					w.cl.SleepControl(func() { time.Sleep(8 * time.Second) })
					return late(w, req)
				})
				pass(10 * time.Second) // the guard expires while a heartbeat is on its way
				require.True(w, used)
				assert.Equal(w, membership.Stale, r.state())
				r.m.Polled()
				pass(interval)
				r.goesOn()
				assert.Equal(w, membership.StateStable, r.state())
				assert.Equal(w, []string{"lost " + all, "assigned " + all}, r.took())
				epoch, _ := r.m.Epoch()
				assert.EqualValues(w, w.cl.DescribeStreamsGroup("g").Members[0].MemberEpoch, epoch)
			})
		})
	}
}

// Three lists that are empty mean that everything is taken away, and no lists mean that
// nothing has changed.
func TestB70RevokeEverything(t *testing.T) {
	inBubble(t, func(w *world) {
		last := w.script(reply{epoch: 1, lists: true, active: []int32{0, 1}}, reply{epoch: 1}, reply{epoch: 2, lists: true}, reply{epoch: 2})
		r := w.start(new(app))
		pass(time.Second)
		r.took()
		pass(interval)
		assert.Equal(w, []string{"revoked [0_0 0_1]", "assigned []"}, r.took())
		ack := last()
		assert.NotNil(w, ack.ActiveTasks)
		assert.Empty(w, ack.ActiveTasks)
		pass(5 * interval)
		assert.Empty(w, r.took())
		assert.Nil(w, last().ActiveTasks)
	})
}

// A member that is fenced while it has not put its assignment into effect yet joins with
// empty lists.
func TestB72JoinOwnsNothing(t *testing.T) {
	inBubble(t, func(w *world) {
		require.NoError(w, w.cl.DeleteTopic("in")) // it cannot be opened
		w.control("", func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			if req.MemberEpoch == 0 {
				assert.Empty(w, req.ActiveTasks)
				assert.NotNil(w, req.ActiveTasks)
				return reply{epoch: 1, lists: true, active: []int32{0, 1}}.to(req), nil, true
			}
			return refusal(req, kerr.UnknownMemberID.Code), nil, true
		})
		count := w.heartbeats()
		wk := w.work(new(app))
		pass(time.Minute)
		select {
		case <-wk.ended:
			require.NoError(w, wk.err)
		default:
		}
		assert.LessOrEqual(w, count(wk.c.Member().ID()), 400, "no storm of joins")
		assert.Contains(w, wk.took(), "lost [0_0 0_1]", "what cannot be opened does not hold up what comes next")
	})
}

// A stale epoch in an answer about committed offsets is waited out. The member keeps its
// id, so no ghost of it holds the tasks.
func TestB73StaleEpochWhileStarting(t *testing.T) {
	inBubble(t, func(w *world) {
		w.produce("in", 0, 0, 3)
		refused := 0
		w.cl.ControlKey(9, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			w.cl.KeepControl()
			if refused++; refused > 3 {
				return nil, nil, false
			}
			req := kreq.(*kmsg.OffsetFetchRequest)
			resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
			g := kmsg.NewOffsetFetchResponseGroup()
			g.Group, g.ErrorCode = "g", kerr.StaleMemberEpoch.Code
			resp.Groups = append(resp.Groups, g)
			return resp, nil, true
		})
		wk := w.work(new(app))
		pass(time.Second)
		assert.Equal(w, numbers(0, 3), wk.got()["0_0"])
		assert.Equal(w, []string{wk.c.Member().ID()}, w.members("g"))
		assert.Equal(w, []string{"assigned " + all}, wk.took())
	})
}

// A coordinator that is out of reach is reported, however often it is tried again.
func TestB76UnreachableCoordinatorIsReported(t *testing.T) {
	inBubble(t, func(w *world) {
		w.control("", func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			return refusal(req, kerr.NotCoordinator.Code), nil, true
		})
		h := new(watcher)
		var unreachable int
		r := w.start(new(app), client.WithHooks(h), client.OnEvent(func(e membership.Event) {
			if _, ok := e.(membership.Unreachable); ok {
				unreachable++
			}
		}))
		pass(5 * time.Minute)
		r.goesOn()
		assert.InDelta(w, 5, unreachable, 1, "once a minute")
		retries := 0
		for _, line := range h.took() {
			if strings.HasPrefix(line, "retry") {
				retries++
			}
		}
		assert.Greater(w, retries, 100)
		assert.LessOrEqual(w, retries, 5*605)
	})
}

func TestB77HostileNumbers(t *testing.T) {
	t.Parallel()
	steady := func(w *world, bad reply) (*run, int) {
		w.script(reply{epoch: 1, lists: true, active: []int32{0}}, reply{epoch: 1}, bad)
		count := 0
		w.control("", func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			if req.MemberEpoch >= 0 {
				count++
			}
			return nil, nil, false
		})
		r := w.start(new(app))
		pass(time.Minute)
		return r, count
	}
	for _, epoch := range []int32{-1, -2, -7} {
		t.Run(fmt.Sprintf("epoch %d", epoch), func(t *testing.T) {
			inBubble(t, func(w *world) {
				r, n := steady(w, reply{epoch: epoch})
				r.goesOn()
				got, ok := r.m.Epoch()
				assert.True(w, ok)
				assert.EqualValues(w, 1, got)
				assert.Equal(w, []string{"assigned [0_0]"}, r.took())
				assert.LessOrEqual(w, n, 20)
			})
		})
	}
	t.Run("epoch 0", func(t *testing.T) {
		inBubble(t, func(w *world) {
			r, _ := steady(w, reply{})
			require.Error(w, r.result())
		})
	})
	for _, ms := range []int32{-5, -1} {
		t.Run(fmt.Sprintf("interval %d", ms), func(t *testing.T) {
			inBubble(t, func(w *world) {
				r, n := steady(w, reply{epoch: 1, interval: ms})
				r.goesOn()
				assert.LessOrEqual(w, n, 20, "the last good interval holds")
			})
		})
	}
}

// A task whose topic the brokers do not know of yet is kept, and read as soon as they do.
func TestB81MetadataIsBehind(t *testing.T) {
	inBubble(t, func(w *world) {
		w.produce("in", 1, 0, 3)
		none := kmsg.NewPtrMetadataRequest()
		none.Topics = []kmsg.MetadataRequestTopic{}
		truth, err := none.RequestWith(w.Context(), w.client)
		require.NoError(w, err)
		until := time.Now().Add(2 * time.Second)
		a := new(app)
		var wk *worker
		w.cl.ControlKey(3, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			w.cl.KeepControl()
			req := kreq.(*kmsg.MetadataRequest)
			if time.Now().After(until) || len(req.Topics) == 0 {
				return nil, nil, false
			}
			resp := req.ResponseKind().(*kmsg.MetadataResponse)
			resp.Brokers, resp.ClusterID, resp.ControllerID = truth.Brokers, truth.ClusterID, truth.ControllerID
			for _, t := range req.Topics {
				rt := kmsg.NewMetadataResponseTopic()
				rt.Topic, rt.TopicID, rt.ErrorCode = t.Topic, t.TopicID, kerr.LeaderNotAvailable.Code
				resp.Topics = append(resp.Topics, rt)
			}
			return resp, nil, true
		})
		wk = w.work(a)
		pass(time.Second)
		assert.Empty(w, wk.got())
		assert.Len(w, wk.c.Member().Snapshot().Active, 4, "the tasks are kept")
		pass(10 * time.Second) // kgo itself asks again after a while only
		assert.Equal(w, map[string][]string{"0_1": numbers(0, 3)}, wk.got())
		assert.Equal(w, []string{"assigned " + all}, wk.took())
	})
}

// The acknowledgement goes out as soon as the callbacks have returned.
func TestB82HandoverTakesTwoHeartbeats(t *testing.T) {
	inBubble(t, func(w *world) {
		slow := func(context.Context, []topology.TaskID) error { time.Sleep(10 * time.Millisecond); return nil }
		one := w.joined(&app{onRevoked: slow})
		two := w.start(&app{onRevoked: slow})
		began := time.Now()
		for two.owns() == 0 {
			time.Sleep(10 * time.Millisecond)
			require.Less(w, time.Since(began), time.Minute)
		}
		assert.LessOrEqual(w, time.Since(began), 2*interval+100*time.Millisecond)
		balanced(w, one, two)
	})
}

// A callback, the poll that it interrupts and a commit do not wait for each other: Poll
// returns when its context ends, and Close gives everything up in time.
func TestB86NobodyWaitsForEachOther(t *testing.T) {
	inBubble(t, func(w *world) {
		w.produce("in", 0, 0, 3)
		blocked := make(chan struct{})
		wk := w.work(&app{onRevoked: func(ctx context.Context, _ []topology.TaskID) error {
			close(blocked)
			<-ctx.Done()
			return ctx.Err()
		}}, client.LeaveTimeout(5*time.Second))
		pass(time.Second)
		w.start(new(app))
		<-blocked // inside a poll
		assert.Equal(w, membership.Reconciling, wk.c.Member().Snapshot().State)
		pass(10 * interval)
		began := time.Now()
		wk.c.Member().Leave(membership.LeaveDefault)
		<-wk.ended
		require.ErrorIs(w, wk.err, client.ErrClosed)
		require.NoError(w, wk.c.Close(w.Context()))
		assert.LessOrEqual(w, time.Since(began), 5*time.Second)
		assert.NotContains(w, w.members("g"), wk.c.Member().ID())
	})
}

// A poll that ends before brokers answer does not start from scratch the next time.
func TestPollsShorterThanAnAnswer(t *testing.T) {
	inBubble(t, func(w *world) {
		w.produce("in", 0, 0, 3)
		for _, key := range []int16{3, 9} {
			w.cl.ControlKey(key, func(kmsg.Request) (kmsg.Response, error, bool) {
				w.cl.KeepControl()
				w.cl.SleepControl(func() { time.Sleep(50 * time.Millisecond) })
				return nil, nil, false
			})
		}
		c := w.consumer(plain(w), new(app))
		began := time.Now()
		for {
			ctx, cancel := context.WithTimeout(w.Context(), 2*time.Millisecond)
			fetches, err := c.Poll(ctx)
			cancel()
			if err == nil {
				require.Len(w, fetches.Tasks(), 1)
				break
			}
			require.Less(w, time.Since(began), 2*time.Second)
		}
	})
}

// A short poll time is the caller's own business: it makes no more requests.
func TestB105ShortPolls(t *testing.T) {
	inBubble(t, func(w *world) {
		c := w.consumer(plain(w), new(app))
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		_, _ = c.Poll(ctx)
		count := w.heartbeats()
		fetches := 0
		w.cl.ControlKey(1, func(kmsg.Request) (kmsg.Response, error, bool) { w.cl.KeepControl(); fetches++; return nil, nil, false })
		for began := time.Now(); time.Since(began) < 30*time.Second; {
			ctx, cancel := context.WithTimeout(w.Context(), time.Millisecond)
			_, err := c.Poll(ctx)
			cancel()
			require.ErrorIs(w, err, context.DeadlineExceeded)
		}
		synctest.Wait()
		assert.InDelta(w, 6, count(c.Member().ID()), 1)
		assert.LessOrEqual(w, fetches, 130, "four fetches a second at most")
	})
}
