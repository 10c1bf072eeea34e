package membership

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func steady(tb testing.TB) (beat func()) {
	h := newHarness(tb)
	h.join()
	h.assign(active("0_0", "0_1", "1_0").standbys("0_2").warmups("1_1"))
	h.settle()
	m, now := h.m, h.now
	resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
	resp.Version, resp.MemberEpoch, resp.HeartbeatIntervalMillis = 1, 1, 5000
	resp.TaskOffsetIntervalMillis, resp.Status = 60000, []kmsg.StreamsGroupHeartbeatResponseStatus{}
	m.SetTaskOffsets(offsets("0_2", 1, "1_1", 2), offsets("0_2", 3, "1_1", 4))
	var fx Effects
	return func() {
		now += interval
		m.Step(now, &fx)
		if fx.Heartbeat == nil {
			panic("no heartbeat")
		}
		m.HeartbeatAnswered(now, fx.HeartbeatID, resp)
		m.Step(now, &fx)
	}
}

// BenchmarkSteadyHeartbeat is a heartbeat of a stable member with its answer: the
// only allocation is the request.
func BenchmarkSteadyHeartbeat(b *testing.B) {
	beat := steady(b)
	b.ReportAllocs()
	for b.Loop() {
		beat()
	}
}

func TestSteadyHeartbeatAllocatesOnlyTheRequest(t *testing.T) {
	beat := steady(t)
	for range 100 {
		beat()
	}
	require.LessOrEqual(t, testing.AllocsPerRun(1000, beat), 1.0)
}

// BenchmarkIdleStep is a pass without anything to do.
func BenchmarkIdleStep(b *testing.B) {
	h := stable(b, active("0_0"))
	var fx Effects
	b.ReportAllocs()
	for b.Loop() {
		h.m.Step(h.now, &fx)
	}
}

// BenchmarkIdleMember is what a stable member of a small group holds, the topology
// included.
func BenchmarkIdleMember(b *testing.B) {
	const members = 200
	for b.Loop() {
		keep := make([]*Member, members)
		before := heap()
		for i := range keep {
			keep[i] = stable(b, active("0_0", "0_1", "1_0").standbys("0_2").warmups("1_1")).m
		}
		b.ReportMetric(float64(heap()-before)/members, "B/member")
		runtime.KeepAlive(keep)
	}
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

func TestAMemberIsSmall(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, unsafe.Sizeof(Member{}), uintptr(1500))
}
