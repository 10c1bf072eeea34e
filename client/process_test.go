package client_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

func TestSI05ProcessIDIsKeptOnDisk(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	first, err := client.NewProcess(client.StateDir(dir))
	require.NoError(t, err)
	assert.Regexp(t, `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, first.ID())
	b, err := os.ReadFile(filepath.Join(dir, "kafka-streams-process-metadata"))
	require.NoError(t, err)
	assert.JSONEq(t, `{"processId":"`+first.ID()+`"}`, string(b), "as Kafka Streams writes it")

	_, err = client.NewProcess(client.StateDir(dir))
	var e *client.OptionError
	require.ErrorAs(t, err, &e)
	assert.ErrorContains(t, err, "in use")

	require.NoError(t, first.Close())
	again, err := client.NewProcess(client.StateDir(dir))
	require.NoError(t, err)
	assert.Equal(t, first.ID(), again.ID())
	require.NoError(t, again.Close())

	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 2, "nothing temporary is left")
}

func TestStateDirThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "kafka-streams-process-metadata")
	for _, content := range []string{"", "{", "{}", `{"processId":" "}`} {
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		_, err := client.NewProcess(client.StateDir(dir))
		require.ErrorContains(t, err, "does not hold a process id", "%q: a new id would look like a loss of all state", content)
	}
	require.NoError(t, os.WriteFile(file, []byte(`{"processId":"p-1","more":2}`), 0o600))
	p, err := client.NewProcess(client.StateDir(dir))
	require.NoError(t, err)
	assert.Equal(t, "p-1", p.ID())
	require.NoError(t, p.Close())
	_, err = client.NewProcess(client.StateDir(filepath.Join(file, "below a file")))
	require.Error(t, err)
}

// A member that is alone in its process gives the directory back when it ends.
func TestStateDirOfALoneMember(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, func(w *world) {
		r := w.joined(new(app), client.StateDir(dir), client.InstanceID("shop-0"))
		_, err := client.NewProcess(client.StateDir(dir))
		require.ErrorContains(w, err, "in use")
		r.leave()
		require.NoError(w, r.result())
		again := w.joined(new(app), client.StateDir(dir), client.InstanceID("shop-0"))
		assert.Equal(w, r.m.ProcessID(), again.m.ProcessID())

		// A consumer that never polled, and a member that could not be made.
		other := t.TempDir()
		require.NoError(w, w.consumer(plain(w), new(app), client.StateDir(other)).Close(w.Context()))
		w.consumer(plain(w), new(app), client.StateDir(other)).Abandon()
		_, err = client.NewMember(w.client, "", plain(w), client.StateDir(other))
		require.Error(w, err)
		p, err := client.NewProcess(client.StateDir(other))
		require.NoError(w, err)
		require.NoError(w, p.Close())
	})
}

func TestProcessOptions(t *testing.T) {
	t.Parallel()
	cl, topo := offline(t), plain(t)
	p, err := client.NewProcess(client.ProcessID("p-1"), client.UserEndpoint("host", 80), client.ClientTag("zone", "a"), client.RackID("r"))
	require.NoError(t, err)
	m, err := client.NewMember(cl, "g", topo, client.InProcess(p))
	require.NoError(t, err)
	assert.Equal(t, "p-1", m.ProcessID())
	for name, opt := range map[string]client.Opt{
		"ProcessID": client.ProcessID("p-2"), "UserEndpoint": client.UserEndpoint("h", 1), "ClientTag": client.ClientTag("a", "b"),
		"RackID": client.RackID("r"), "StateDir": client.StateDir("/nowhere"), "DormantTasks": client.DormantTasks(func() map[topology.TaskID]int64 { return nil }),
	} {
		_, err := client.NewMember(cl, "g", topo, client.InProcess(p), opt)
		var e *client.OptionError
		require.ErrorAs(t, err, &e, name)
		assert.Equal(t, name, e.Option)
		assert.ErrorContains(t, err, "give it to NewProcess")
	}
	for _, opts := range [][]client.ProcessOpt{
		{client.ProcessID("")}, {client.StateDir(" ")}, {client.StateDir(t.TempDir()), client.ProcessID("p")}, {client.UserEndpoint("", 0)},
	} {
		_, err := client.NewProcess(opts...)
		var e *client.OptionError
		require.ErrorAs(t, err, &e)
	}
	_, err = client.NewMember(cl, "g", topo, client.InProcess(nil))
	require.ErrorContains(t, err, "InProcess(nil)")
	_, err = client.NewMember(cl, "g", topo, client.GroupClient(nil))
	require.ErrorContains(t, err, "GroupClient(nil)")
	_, err = client.NewMember(cl, "g", topo, client.MissingTopicsPatience(0))
	require.ErrorContains(t, err, "MissingTopicsPatience")
}

// The members of one process say the same about it, the dormant tasks are reported by
// one of them, and another one takes over when that one ends.
func TestTO01DormantTasksAreReportedOnce(t *testing.T) {
	inBubble(t, func(w *world) {
		task := func(p int32) topology.TaskID { return topology.TaskID{Subtopology: "0", Partition: p} }
		p, err := client.NewProcess(client.UserEndpoint("host", 80), client.ClientTag("zone", "a"), client.DormantTasks(func() map[topology.TaskID]int64 {
			return map[topology.TaskID]int64{task(0): 10, task(1): 11, task(2): 12, task(3): 13}
		}))
		require.NoError(w, err)
		var mu sync.Mutex
		joins := map[string]*kmsg.StreamsGroupHeartbeatRequest{}
		w.control("", func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			mu.Lock()
			defer mu.Unlock()
			if req.MemberEpoch == 0 {
				joins[req.MemberID] = req
			}
			return nil, nil, false
		})
		one := w.joined(new(app), client.InProcess(p))
		two := w.joined(new(app), client.InProcess(p))
		other := w.joined(new(app))
		pass(6 * interval)
		balanced(w, one, two, other)

		assert.Len(w, joins[one.m.ID()].TaskOffsets, 4, "before it runs any, all are dormant")
		assert.Empty(w, joins[two.m.ID()].TaskOffsets)
		for _, r := range []*run{one, two} {
			assert.Equal(w, p.ID(), *joins[r.m.ID()].ProcessID)
			assert.Equal(w, "host", joins[r.m.ID()].UserEndpoint.Host)
			assert.Equal(w, "zone", joins[r.m.ID()].ClientTags[0].Key)
		}
		pass(2 * time.Minute)
		dormant := other.m.Snapshot().Active // what none of the two runs
		reported := one.m.Snapshot().TaskOffsets
		assert.Len(w, reported, len(dormant))
		for _, t := range dormant {
			assert.Contains(w, reported, t)
		}
		assert.Empty(w, two.m.Snapshot().TaskOffsets)

		one.leave()
		require.NoError(w, one.result())
		pass(2 * time.Minute)
		assert.NotEmpty(w, two.m.Snapshot().TaskOffsets, "the next one reports")
		for _, t := range two.m.Snapshot().Active {
			assert.NotContains(w, two.m.Snapshot().TaskOffsets, t)
		}
		two.leave()
		require.NoError(w, two.result())
		require.NoError(w, p.Close())
	})
}

func TestB60LeaveModes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		mode   membership.LeaveMode
		static bool
		want   []int32
	}{
		{"dynamic default", membership.LeaveDefault, false, []int32{-1}},
		{"dynamic leave", membership.LeaveGroup, false, []int32{-1}},
		{"dynamic remain", membership.RemainInGroup, false, nil},
		{"static default", membership.LeaveDefault, true, []int32{-2}},
		{"static leave", membership.LeaveGroup, true, []int32{-1}},
		{"static remain", membership.RemainInGroup, true, []int32{-2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				var opts []client.Opt
				if c.static {
					opts = append(opts, client.InstanceID("shop-0"))
				}
				var left []int32
				w.control("", func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
					assert.Equal(w, c.static, req.InstanceID != nil, "it is in every heartbeat, or in none")
					if req.MemberEpoch < 0 {
						left = append(left, req.MemberEpoch)
					}
					return nil, nil, false
				})
				r := w.joined(new(app), opts...)
				r.took()
				r.m.Leave(c.mode)
				r.m.Leave(membership.LeaveGroup) // too late
				require.NoError(w, r.result())
				assert.Equal(w, c.want, left)
				assert.Equal(w, []string{"revoked " + all}, r.took())
			})
		})
	}
}

// The last leave is repeated: nothing comes after it that would make up for its loss.
// Where the connection neither breaks nor answers, that does not help, since the
// repetition waits behind the first: then the session has to end.
func TestLastLeaveIsRepeated(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*world, *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool){
		"connection cut": func(*world, *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			return nil, os.ErrClosed, true
		},
		"not coordinator": func(_ *world, req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			return refusal(req, 16), nil, true
		},
		"load in progress": func(_ *world, req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
			return refusal(req, 14), nil, true
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				r := w.joined(new(app))
				leaves := 0
				w.control("", func(req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error, bool) {
					if leaves++; req.MemberEpoch < 0 && leaves <= 2 {
						return fail(w, req)
					}
					return nil, nil, false
				})
				began := time.Now()
				r.leave()
				<-r.ended
				require.NoError(w, r.err)
				assert.Empty(w, w.members("g"))
				assert.LessOrEqual(w, time.Since(began), 10*time.Second)
				assert.LessOrEqual(w, leaves, 4)
			})
		})
	}
}

// A commit that takes its time holds up heartbeats on the same connection. The figure
// is what the documentation of GroupClient names.
func TestGroupClientKeepsHeartbeatsApart(t *testing.T) {
	t.Parallel()
	waits := map[bool]time.Duration{}
	for _, apart := range []bool{false, true} {
		t.Run(map[bool]string{false: "shared", true: "apart"}[apart], func(t *testing.T) {
			t.Helper()
			waits[apart] = heartbeatBesideASlowCommit(t, apart)
		})
	}
	assert.Equal(t, map[bool]time.Duration{false: 300 * time.Millisecond, true: 0}, waits)
}

func heartbeatBesideASlowCommit(t *testing.T, apart bool) (took time.Duration) {
	t.Helper()
	h := new(timer)
	synced(t, func(w *world) {
		opts := []client.Opt{client.WithHooks(h)}
		if apart {
			opts = append(opts, client.GroupClient(w.dial()))
		}
		w.produce("in", 0, 0, 1)
		wk := w.work(new(app), opts...)
		pass(time.Second)
		wk.halt()
		w.cl.ControlKey(commitKey, func(kmsg.Request) (kmsg.Response, error, bool) {
			w.cl.SleepControl(func() { time.Sleep(300 * time.Millisecond) })
			return nil, nil, false
		})
		go func() { assert.NoError(w, wk.c.Commit(w.Context())) }()
		pass(0)
		wk.c.Member().ForceHeartbeat()
		pass(time.Second)
		took = h.last()
		require.NoError(w, wk.c.Close(w.Context()))
	})
	return took
}

// timer is a hook that times heartbeats.
type timer struct {
	mu   sync.Mutex
	took time.Duration
}

func (h *timer) OnHeartbeatAnswered(_ client.Meta, took time.Duration, _ *kmsg.StreamsGroupHeartbeatResponse, _ error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.took = took
}

func (h *timer) last() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.took
}

func TestSnapshotHasWhatAnOperatorAsksFor(t *testing.T) {
	inBubble(t, func(w *world) {
		task := topology.TaskID{Subtopology: "0", Partition: 1}
		r := w.joined(new(app), client.UserEndpoint("host", 80), client.ProcessID("p-1"), client.TaskOffsets(func() (offsets, ends map[topology.TaskID]int64) {
			return map[topology.TaskID]int64{task: 7}, map[topology.TaskID]int64{task: 9}
		}))
		pass(interval)
		s := r.m.Snapshot()
		epoch, _ := r.m.Epoch()
		assert.Equal(w, r.m.ID(), s.MemberID)
		assert.Equal(w, "p-1", s.ProcessID)
		assert.Equal(w, epoch, s.Epoch)
		assert.Equal(w, membership.StateStable, s.State)
		assert.Equal(w, all, list(s.Tasks()))
		assert.Equal(w, w.cl.CoordinatorFor("g"), s.Node)
		assert.EqualValues(w, 1, s.Version)
		assert.Equal(w, map[topology.TaskID]int64{task: 7}, s.TaskOffsets)
		assert.Equal(w, map[topology.TaskID]int64{task: 9}, s.TaskEndOffsets)
		assert.Len(w, s.Endpoints[membership.Endpoint{Host: "host", Port: 80}].Active, 4)
		assert.Empty(w, s.Statuses)
		require.NoError(w, s.LastError)
		assert.Positive(w, s.NextHeartbeat)
		assert.LessOrEqual(w, s.NextHeartbeat, interval)
		assert.Less(w, s.LastHeartbeat, interval)
		assert.False(w, strings.Contains(s.MemberID, "-"))
		r.leave()
		require.NoError(w, r.result())
		assert.Zero(w, r.m.Snapshot().Epoch)
	})
}
