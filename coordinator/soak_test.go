package coordinator

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/topics"
	"github.com/streamsgroup/streamsgroup/topology"
)

// crowd is a large number of members with good manners in virtual time. Nothing
// is checked per step as in a world: that would take longer than the steps.
type crowd struct {
	t       testing.TB
	c       *Coordinator
	now     Now
	image   *topics.Image
	resp    kmsg.StreamsGroupHeartbeatResponse
	fx      Effects
	buf     []byte
	members []*crowdMember
}

type crowdMember struct {
	group, id, process, instance, host string
	topic                              string
	epoch, endpoints                   int32
	in                                 bool
	tasks                              [3][]kmsg.TaskIDs // what it runs
	report                             bool              // it runs something else than it said last
}

func newCrowd(t testing.TB, image *topics.Image) *crowd {
	t.Helper()
	c, err := New(Config{Broker: map[string]string{"group.streams.max.size": "1000000"}})
	require.NoError(t, err)
	return &crowd{t: t, c: c, now: Now{Mono: time.Hour, WallMillis: startWall}, image: image}
}

// crowdTopologies are those of the groups, by the topic that they read.
var crowdTopologies = map[string]*kmsg.StreamsGroupHeartbeatRequestTopology{
	"many": topo(0, sub("0", reads("many"))),
	"few":  topo(0, sub("0", reads("few"))),
	"in":   topo(0, sub("0", reads("in"))),

	"in, renumbered": topo(1, sub("0", reads("more")), sub("1", reads("in"))),
	"in, merged":     topo(1, sub("1", reads("in", "more"))),
}

func (k *crowd) request(m *crowdMember, epoch int32) *Request {
	r := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.MemberEpoch, r.EndpointInformationEpoch = 1, m.group, m.id, epoch, m.endpoints
	if m.instance != "" {
		r.InstanceID = &m.instance
	}
	switch {
	case epoch == 0:
		r.RebalanceTimeoutMillis, r.ProcessID, r.Topology = 30000, &m.process, crowdTopologies[m.topic]
		r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		if m.host != "" {
			r.UserEndpoint = &kmsg.StreamsGroupHeartbeatRequestUserEndpoint{Host: m.host, Port: 1}
		}
	case m.report:
		r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = m.tasks[0], m.tasks[1], m.tasks[2]
	}
	return &Request{StreamsGroupHeartbeatRequest: r, ClientID: "client", ClientHost: clientHost}
}

// send is one request with all that the driver does. It returns the error code.
func (k *crowd) send(m *crowdMember, epoch int32) int16 {
	k.c.Handle(k.now, k.image, k.request(m, epoch), &k.resp, &k.fx)
	k.c.Apply(k.now, &k.fx)
	return k.resp.ErrorCode
}

// beat is a join or a heartbeat; the member does at once what it is told.
func (k *crowd) beat(m *crowdMember) {
	if code := k.send(m, m.epoch); code != 0 {
		require.NoError(k.t, kerr.ErrorForCode(code), "%s: %s", m.id, deref(k.resp.ErrorMessage))
	}
	m.in, m.epoch, m.endpoints, m.report = true, k.resp.MemberEpoch, k.resp.EndpointInformationEpoch, false
	if k.resp.ActiveTasks != nil {
		m.tasks = [3][]kmsg.TaskIDs{k.resp.ActiveTasks, k.resp.StandbyTasks, k.resp.WarmupTasks}
		m.report = true
	}
}

func (k *crowd) leave(m *crowdMember, epoch int32) {
	require.Zero(k.t, k.send(m, epoch))
	m.forget()
}

// forget is a process that has ended: it knows nothing but who it is.
func (m *crowdMember) forget() {
	*m = crowdMember{group: m.group, topic: m.topic, id: m.id, process: m.process, instance: m.instance, host: m.host}
}

// pass lets time pass, with the timers that are due.
func (k *crowd) pass(d time.Duration) {
	k.now.Mono += d
	k.now.WallMillis = startWall + (k.now.Mono - time.Hour).Milliseconds()
	for at, ok := k.c.NextDeadline(); ok && at <= k.now.Mono && k.c.Tick(k.now, &k.fx); at, ok = k.c.NextDeadline() {
		k.c.Apply(k.now, &k.fx)
	}
}

// round is one heartbeat interval: every member is heard once.
func (k *crowd) round() {
	const interval = 5 * time.Second
	each := interval / time.Duration(max(len(k.members), 1))
	for _, m := range k.members {
		if m.in {
			k.beat(m)
		}
		k.pass(each)
	}
}

// settled counts the groups that are stable and the tasks that members run.
func (k *crowd) settled() (groups, tasks int) {
	for _, g := range k.c.List() {
		if g.State == Stable {
			groups++
		}
	}
	for _, m := range k.members {
		for _, l := range m.tasks[0] {
			tasks += len(l.Partitions)
		}
	}
	return groups, tasks
}

// TestSoak has a day's coming and going of thousands of members in one large and
// many small groups: all of them must come to rest, and when the last one has
// gone nothing may be left of them.
func TestSoak(t *testing.T) {
	large, groups, small := 10_000, 100, 50
	if testing.Short() {
		large, groups, small = 500, 20, 25
	}
	k := newCrowd(t, topics.NewCompleteImage(1, map[string]topics.Topic{"many": {Name: "many", Partitions: int32(large)}, "few": {Name: "few", Partitions: int32(small)}}))
	add := func(group string, i int) {
		m := &crowdMember{group: group, topic: "few", id: fmt.Sprintf("%s-member-%05d", group, i), process: fmt.Sprintf("%s-process-%05d", group, i/2)}
		if i%4 == 3 {
			m.instance = fmt.Sprintf("%s-instance-%05d", group, i)
		}
		if group == "large" {
			m.topic = "many"
		} else if i%5 == 0 {
			m.host = fmt.Sprintf("host-%05d", i)
		}
		k.members = append(k.members, m)
	}
	for i := range large {
		add("large", i)
	}
	for g := range groups {
		for i := range small {
			add(fmt.Sprintf("small-%03d", g), i)
		}
	}
	var baseline uint64
	for day := range 2 {
		k.day(large, groups, small)
		for _, g := range k.c.List() {
			assertNothingLeft(t, k.c.groups[g.Group])
			code, ok := k.c.Delete(g.Group, &k.fx)
			require.True(t, ok)
			require.Zero(t, code)
			k.c.Apply(k.now, &k.fx)
		}
		k.fx = Effects{}
		require.Empty(t, k.c.groups)
		require.Empty(t, k.c.timers)
		require.Less(t, cap(k.c.timers), 100, "the timers keep their room")
		runtime.GC()
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		if day == 0 {
			baseline = mem.HeapAlloc
		}
		if !testing.Short() { // other tests do not run beside this one
			require.InDelta(t, baseline, mem.HeapAlloc, 256<<10, "bytes in use after day %d", day)
		}
	}
}

// day is one coming and going. Everybody joins; half of the members go home early,
// and the tasks move; the others leave, crash or leave for a moment and never come
// back.
func (k *crowd) day(large, groups, small int) {
	k.t.Helper()
	for _, m := range k.members {
		k.beat(m)
		k.pass(time.Second / time.Duration(len(k.members)))
	}
	for range 4 {
		k.round()
	}
	stable, tasks := k.settled()
	require.Equal(k.t, groups+1, stable, "groups have come to rest")
	require.Equal(k.t, large+groups*small, tasks, "tasks run")
	for i, m := range k.members {
		if i%2 == 0 {
			k.leave(m, -1)
		}
	}
	for range 5 {
		k.round()
	}
	stable, tasks = k.settled()
	require.Equal(k.t, groups+1, stable, "groups have come to rest")
	require.Equal(k.t, large+groups*small, tasks, "tasks run")
	for i, m := range k.members {
		switch {
		case !m.in:
		case m.instance != "" && i%3 == 0:
			k.leave(m, -2)
		case i%3 == 1:
			k.leave(m, -1)
		default:
			m.forget()
		}
	}
	k.pass(time.Minute) // all sessions end
}

func assertNothingLeft(t *testing.T, g *group) {
	t.Helper()
	assert.Equal(t, Empty, g.state())
	for name, n := range map[string]int{
		"members": len(g.members), "static": len(g.static), "stable": len(g.stableAt), "endpoints": len(g.endpoints.list),
		"owners": len(g.owners),
	} {
		assert.Zero(t, n, "%s of %s", name, g.id)
	}
	assert.False(t, g.initial.armed())
	assert.Empty(t, g.shutdownBy)
}

// TestRejectedRequestsLeaveNothing sends a great many requests that are refused.
func TestRejectedRequestsLeaveNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, KIP1071)
	w.g10(memberSpec{id: "m1", tasks: allNine})
	w.hb("m1", 10).ok(10)
	state, timers := w.c.stateOf(groupID), w.timers()
	var resp kmsg.StreamsGroupHeartbeatResponse
	for i := range 1000 {
		id := fmt.Sprintf("id-%d", i)
		other := func(r *Request) { r.Group = id }
		for _, r := range []*Request{
			w.joinRequest("m1", other, func(r *Request) { r.RebalanceTimeoutMillis = -1 }),
			w.joinRequest("m1", other, func(r *Request) { r.Existing = OtherGroup }),
			w.joinRequest("m1", other, with(topo(0, sub("s1", reads("not a name"))))),
			w.joinRequest(id, with(topo(9, sub("s1", reads("foo"))))),
			w.request(id, 5), w.request(id, -1), w.request("m1", int32(100+i)),
		} {
			w.c.Handle(w.now, w.image, r, &resp, &w.fx)
			require.NotZero(t, resp.ErrorCode)
			w.c.Apply(w.now, &w.fx)
		}
		w.c.CheckCommit(Commit{Group: id, Member: id, Epoch: 1})
		w.c.CheckFetch(id, &id, 1)
		w.c.Describe(id, nil)
		_, handled := w.c.Delete(id, &w.fx)
		require.False(t, handled)
		w.c.Apply(w.now, &w.fx)
	}
	require.Equal(t, state, w.c.stateOf(groupID))
	require.Equal(t, timers, w.timers())
	require.Len(t, w.c.groups, 1)
	require.Empty(t, w.c.overrides)
}

// TestHeartbeatsDoNotGrowTheTimers arms the same timers again and again.
func TestHeartbeatsDoNotGrowTheTimers(t *testing.T) {
	t.Parallel()
	c, image, requests := bigGroup(t, 10, 2)
	var resp kmsg.StreamsGroupHeartbeatResponse
	var fx Effects
	for i := range 10_000 {
		now := Now{Mono: time.Duration(i) * time.Second}
		c.Handle(now, image, requests[i%10], &resp, &fx)
		c.Apply(now, &fx)
		for c.Tick(now, &fx) {
			require.Fail(t, "nobody was silent")
		}
		require.Len(t, c.timers, 10)
	}
	require.Equal(t, topology.TaskID{Subtopology: "0", Partition: 19}, c.groups[groupID].members["member-000009"].cur.assigned.active[1])
}
