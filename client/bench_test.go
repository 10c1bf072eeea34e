package client_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

// bubble runs fn in a bubble of virtual time once per iteration of a benchmark, which a
// bubble cannot know of: it wants a test.
func bubble(b *testing.B, fn func(t *testing.T)) {
	b.Helper()
	for b.Loop() {
		ok := testing.RunTests(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{
			{Name: b.Name(), F: func(t *testing.T) { synctest.Test(t, fn) }},
		})
		require.True(b, ok)
	}
}

// crowd runs members for some virtual time, each with a client of its own, and returns
// the number of heartbeats that were answered.
func crowd(t *testing.T, members int, d time.Duration, prepare func(*kfakeext.Cluster)) int {
	t.Helper()
	cluster := kfakeext.Start(t, kfakeext.Topic("in", int32(members)))
	prepare(cluster)
	topo := plain(t)
	ctx, stop := context.WithCancel(t.Context())
	beats := &beats{}
	var wg sync.WaitGroup
	for range members {
		cl, err := kgo.NewClient(cluster.KgoOpts()...)
		require.NoError(t, err)
		m, err := client.NewMember(cl, "g", topo, client.WithHooks(beats))
		require.NoError(t, err)
		wg.Go(func() {
			defer cl.Close()
			if err := m.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	time.Sleep(d)
	stop()
	wg.Wait()
	return beats.n
}

func asItIs(*kfakeext.Cluster) {}

// answerAtOnce answers every heartbeat with one fixed answer, in place of the
// coordinator.
func answerAtOnce(cluster *kfakeext.Cluster) {
	cluster.Intercept(func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		req, ok := kreq.(*kmsg.StreamsGroupHeartbeatRequest)
		if !ok {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.StreamsGroupHeartbeatResponse)
		resp.MemberEpoch = 1
		if req.MemberEpoch < 0 {
			resp.MemberEpoch = req.MemberEpoch
		}
		resp.HeartbeatIntervalMillis = int32(interval.Milliseconds())
		resp.Status = []kmsg.StreamsGroupHeartbeatResponseStatus{}
		if req.MemberEpoch == 0 {
			resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		}
		return resp, nil, true
	})
}

type beats struct {
	mu sync.Mutex
	n  int
}

func (b *beats) OnHeartbeatAnswered(client.Meta, time.Duration, *kmsg.StreamsGroupHeartbeatResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n++
}

// Ten minutes of three members that heartbeat: the goal is 20 ms.
func BenchmarkTenMinutesOfThreeMembers(b *testing.B) {
	bubble(b, func(t *testing.T) {
		if n := crowd(t, 3, 10*time.Minute, asItIs); n < 360 {
			t.Errorf("%d heartbeats", n)
		}
	})
}

// A day of a hundred members, and the same with answers that cost the broker nothing:
// the goal is a factor of 1.6.
func BenchmarkDayOfAHundredMembers(b *testing.B) {
	for _, c := range []struct {
		name    string
		prepare func(*kfakeext.Cluster)
	}{{"stub", answerAtOnce}, {"coordinator", asItIs}} {
		b.Run(c.name, func(b *testing.B) {
			bubble(b, func(t *testing.T) { crowd(t, 100, 24*time.Hour, c.prepare) })
		})
	}
}

// What an idle member holds beside the client: the goal is 32 KiB, stacks included.
func BenchmarkIdleMember(b *testing.B) {
	const members = 400
	var per []float64
	bubble(b, func(t *testing.T) {
		cluster := kfakeext.Start(t, kfakeext.Topic("in", members))
		answerAtOnce(cluster)
		topo := plain(t)
		cl, err := kgo.NewClient(cluster.KgoOpts()...)
		require.NoError(t, err)
		defer cl.Close()
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		start := func() {
			m, err := client.NewMember(cl, "g", topo)
			require.NoError(t, err)
			wg.Go(func() { _ = m.Run(ctx) })
		}
		start() // what is there once
		time.Sleep(time.Minute)
		before := inUse()
		for range members {
			start()
		}
		time.Sleep(10 * time.Minute)
		per = append(per, float64(inUse()-before)/members)
		stop()
		wg.Wait()
	})
	slices.Sort(per)
	b.ReportMetric(per[len(per)/2]/1024, "KiB/member")
}

func inUse() int64 {
	synctest.Wait()
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapInuse + s.StackInuse)
}
