package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

// beatWith is a heartbeat that reports what the member runs and where it is.
func (r *runs) beatWith(id string, opts ...requestOption) *answer {
	r.w.t.Helper()
	o := r.owned[id]
	a := r.w.hb(id, r.epochs[id], append(opts, func(q *Request) {
		q.ActiveTasks, q.StandbyTasks, q.WarmupTasks = listToWire(o.active), listToWire(o.standby), listToWire(o.warmup)
	})...)
	r.took(id, a)
	return a
}

// TestUpgradesAtBadMoments are updates while something else is going on.
func TestUpgradesAtBadMoments(t *testing.T) {
	runCases(t, []testCase{
		{"during a rebalance", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.join("m1", shape(0, "0=A 1=B"))
			r.join("m2", shape(0, "0=A 1=B"))
			r.beat("m1") // is asked to give up two, and is slow
			r.owned["m1"] = parseRoles("0:0,1 1:0,1")
			w.wantMember("m1", "UNREVOKED_TASKS ME 2 PME 2 0:0@2 1:0@2 pending 0:1@2 1:1@2")
			r.join("new", shape(1, "0=B 1=A"))
			r.beat("new").noLists()
			r.beat("m2").noLists() // it is behind now and waits for nothing
			r.beat("m1").noLists()
			r.owned["m1"] = parseRoles("0:0 1:0")
			r.rest("m2", "-")
			w.wantState(Stable)
			all := len(parseTasks(r.active("m1"))) + len(parseTasks(r.active("new")))
			assert.Equal(w.t, 4, all)
		}},
		{"SM-22 K-08 the only upgraded member crashes", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.join("m1", shape(0, "0=A 1=B"))
			r.join("new", shape(1, "0=B 1=A"))
			r.rest("m1", "0:0 1:0", "new", "0:1 1:1")
			delete(r.epochs, "new")
			for range 10 {
				w.after(5 * time.Second)
				r.beat("m1")
			}
			w.wantMember("new", "")
			a := r.beat("m1")
			assert.Empty(w.t, a.resp.ActiveTasks)
			assert.Equal(w.t, map[string][]int8{"m1": {0}}, r.rest("m1", "0:0 1:0"))
			w.wantState(Stable)
			// m1 cannot come back as it was.
			w.hb("m1", -1).ok(-1)
			delete(r.epochs, "m1")
			w.join("m1", with(shape(0, "0=A 1=B"))).err(kerr.StreamsTopologyFenced)
			r.join("m1", shape(1, "0=B 1=A"))
			r.rest("m1", "0:0,1 1:0,1")
		}},
		{"during the initial delay", kipMode, func(w *world) {
			r := upgradeWorld(w)
			w.brokerConfig("group.streams.initial.rebalance.delay.ms", "3000")
			r.join("m1", shape(0, "0=A 1=B"))
			w.after(time.Second)
			r.join("new", shape(1, "0=B 1=A"))
			assert.Empty(w.t, r.owned["m1"].active)
			w.after(3 * time.Second)
			r.rest("m1", "-", "new", "0:0,1 1:0,1") // m1 had nothing, and is behind
			w.wantState(Stable)
		}},
		{"the coordinator moves before anybody has heard of it", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.join("m1", shape(0, "0=A 1=B,C"))
			r.join("new", shape(1, "0=A,C 1=B"))
			w.move()
			r.beat("new").noLists()
			r.beat("m1").tasks("0:0 1:0").status(0)
			w.move()
			r.beat("new").noLists()
			w.move()
			r.rest("m1", "0:0 1:0", "new", "0:1 1:1")
		}},
		{"two updates, and the last member of the first version never leaves", kipMode, func(w *world) {
			r := upgradeWorld(w)
			r.join("m0", shape(0, "0=A 1=B 2=C"))
			r.join("m1", shape(1, "0=B 1=C 2=A"))
			r.settle()
			r.join("m2", shape(2, "a=C b=A c=B"))
			statuses := r.settle()
			assert.Equal(w.t, map[string][]int8{"m0": {0}, "m1": {0}, "m2": nil}, statuses)
			for _, id := range []string{"m0", "m1", "m2"} {
				assert.Len(w.t, parseTasks(r.active(id)), 2, id)
			}
			w.wantState(Stable)
			kept := r.active("m0")
			r.leave("m1")
			r.rest("m0", kept)
			assert.Len(w.t, parseTasks(r.active("m2")), 4)
		}},
		{"during a warm-up: those that are behind go on until the state is there", kipMode, func(w *world) {
			r := upgradeWorld(w)
			w.brokerConfig("group.streams.assignors", "highly_available")
			w.topic("S", 2)
			r.join("old", shape(0, "5=A/S"))
			r.rest("old", "5:0,1")
			r.join("new", shape(1, "0=A/S"))
			r.settle()
			require.Equal(w.t, "5:0,1", r.active("old"))
			require.Equal(w.t, "warmup 0:1", showRoles(r.owned["new"], nil))
			w.wantState(Stable)
			r.beatWith("new", offsets("0_1=10"), ends("0_1=10"))
			r.rest("old", "5:0", "new", "0:1")
		}},
		{"X1 no warm-up for what is in the way", kipMode, func(w *world) {
			r := upgradeWorld(w)
			w.brokerConfig("group.streams.assignors", "highly_available")
			w.topic("S", 2)
			r.join("old", shape(0, "x=B,C/S"))
			r.join("new", shape(1, "0=A,C x=B/S"))
			// new is to have x:1, and with it 0:1, which reads C as well: that must
			// not wait for a warm-up of x:1.
			r.settle()
			w.wantState(Stable)
			assert.Equal(w.t, "x:0", r.active("old"))
			assert.Contains(w.t, r.active("new"), "x:1")
			assert.Contains(w.t, r.active("new"), "0:1")
		}},
		{"orphaned topics are named", kipMode, func(w *world) {
			w.topic("S", 2)
			r := upgradeWorld(w)
			r.join("old", shape(0, "0=A/S"))
			a := w.join("new", with(shape(1, "0=A")))
			r.took("new", a)
			assert.Equal(w.t, []string{"S"}, the[TopologySet](a).Orphaned)
			r.settle()
			assert.Contains(w.t, w.topics, "S")
		}},
		{"offsets of the older topology are forgotten with it", kipMode, func(w *world) {
			r := upgradeWorld(w)
			w.topic("S", 2)
			r.join("m", shape(0, "0=A/S 1=B"))
			r.beatWith("m", offsets("0_0=10"), ends("0_0=12"))
			assert.NotEmpty(w.t, w.c.groups[groupID].members["m"].offsets)
			r.join("m", shape(1, "0=B 1=A/S"))
			assert.Empty(w.t, w.c.groups[groupID].members["m"].offsets)
			assert.Empty(w.t, w.c.groups[groupID].members["m"].ends)
		}},
	})
}
