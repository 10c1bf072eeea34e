package coordinator

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzHeartbeat sends whatever can be decoded as a request, twice, to a group in
// the middle of a rebalance: there must be an answer that can be encoded, and
// the state must stay sound.
func FuzzHeartbeat(f *testing.F) {
	seed := newWorld(f, KIP1071)
	add := func(r *Request) {
		for _, v := range []int16{0, 1} {
			r.Version = v
			f.Add(uint8(v), r.AppendTo(nil))
		}
	}
	add(seed.joinRequest("m3", endpoint("h:1"), tags("a=b"), rack("r"), offsets("s1_0=1"), ends("s1_0=2")))
	add(seed.joinRequest("m3", with(topo(1, sub("x", pattern("fo+"), repartition("r", 2), changelog("c"), copartitioned([]int16{}, []int16{0})), sub("y", reads("bar"), writes("r"))))))
	add(seed.joinRequest("b1", inst("i1"), process("pa")))
	for _, o := range []string{"s1:0,1", "s1:0-2", "- | standby s1:1", "s2:0 | warmup s1:0"} {
		r := seed.request("m1", 10)
		owned(o)(r)
		add(r)
	}
	for _, e := range []int32{-2, -1, 9, 11} {
		r := seed.request("a1", e)
		inst("i1")(r)
		shutdown()(r)
		add(r)
	}
	f.Fuzz(func(t *testing.T, flags uint8, data []byte) {
		w := newWorld(t, Policy(flags>>1&1))
		w.brokerConfig("group.streams.assignors", "sticky")
		w.brokerConfig("group.streams.rack.aware.assignment.tags", "a")
		w.group(groupSpec{ge: 11, ae: 11, members: []memberSpec{
			{id: "m1", me: 10, pme: 9, state: unrevokedTasks, tasks: "s1:0,1", pending: "s1:2", target: "s1:0,1", endpoint: "h:1"},
			{id: "m2", me: 11, pme: 10, state: unreleasedTasks, tasks: "s2:0-2", target: "s1:2 s2:0-2"},
			{id: "a1", instance: "i1", process: "pa", me: -2, pme: 10, tasks: "s1:3-5@0"},
		}})
		for range 2 {
			r := kmsg.NewPtrStreamsGroupHeartbeatRequest()
			r.Version = int16(flags & 1)
			if err := r.ReadFrom(data); err != nil {
				return
			}
			a := w.send(&Request{StreamsGroupHeartbeatRequest: r, ClientID: "c", ClientHost: clientHost})
			encoded := a.resp.AppendTo(nil)
			decoded := kmsg.NewPtrStreamsGroupHeartbeatResponse()
			decoded.Version = r.Version
			require.NoError(t, decoded.ReadFrom(encoded))
			w.describe()
		}
		w.after(60_000_000_000)
	})
}
