package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/topology"
)

// fleet are members with state, in virtual time. Each has a disk that it shares
// with its process, restores and follows changelogs at a limited rate, and
// reports offsets as clients do: of copies, of active tasks that are not restored
// yet, and of what lies on the disk; not of running tasks.
type fleet struct {
	*world
	members []*fleetMember
	disks   map[string]map[topology.TaskID]int64
	end     int64 // of every changelog
	rate    int64 // records per heartbeat
	lag     int64
	budget  int
	// running is who processes a task, restored and all.
	running map[topology.TaskID]string
	// outages are tasks that were taken from somebody who ran them and given to
	// somebody who was far from ready.
	outages []string
}

type fleetMember struct {
	id, process string
	version     int16
	in, report  bool
	epoch       int32
	holds       roles
}

const fleetTasks = 6

// newFleet is a group of one stateful subtopology with highly_available.
func newFleet(t tester, warmups int, configs ...string) *fleet {
	w := newWorld(t, KIP1071)
	w.topic("foo", fleetTasks)
	w.topic("log", fleetTasks)
	w.topo = topo(0, sub("s1", reads("foo"), changelog("log")))
	w.groupConfig(append([]string{"streams.assignor.name", "highly_available", "streams.num.warmup.replicas", strconv.Itoa(warmups)}, configs...)...)
	return &fleet{world: w, disks: map[string]map[topology.TaskID]int64{}, rate: 300_000, lag: 10_000, budget: warmups, running: map[topology.TaskID]string{}}
}

// add is a member that starts. Its process may have state on its disk.
func (f *fleet) add(id, process string) *fleetMember {
	m := &fleetMember{id: id, process: process, version: 1}
	f.members = append(f.members, m)
	if f.disks[process] == nil {
		f.disks[process] = map[topology.TaskID]int64{}
	}
	f.beat(m)
	return m
}

// crash ends a member without a word, and its session.
func (f *fleet) crash(m *fleetMember) {
	f.members = slices.DeleteFunc(f.members, func(o *fleetMember) bool { return o == m })
	m.in = false
	f.stopAll(m)
}

func (f *fleet) leave(m *fleetMember) {
	f.crash(m)
	f.hb(m.id, -1)
}

func (f *fleet) stopAll(m *fleetMember) {
	for t, who := range f.running {
		if who == m.id {
			delete(f.running, t)
		}
	}
}

// beat is a heartbeat with all that the member does before and after.
func (f *fleet) beat(m *fleetMember) *answer {
	f.t.Helper()
	f.work(m)
	var r *Request
	if !m.in {
		r = f.joinRequest(m.id, process(m.process))
		m.epoch, m.holds = 0, roles{}
	} else {
		r = f.request(m.id, m.epoch)
	}
	if m.report && m.in {
		r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = listToWire(m.holds.active), listToWire(m.holds.standby), listToWire(m.holds.warmup)
		m.report = false
	}
	if r.Version = m.version; m.version > 0 {
		r.TaskOffsets, r.TaskEndOffsets = f.offsets(m)
	}
	a := f.send(r)
	if a.resp.ErrorCode != 0 {
		// Fenced after a time-out: it starts again.
		f.stopAll(m)
		m.in = false
		return a
	}
	m.in, m.epoch = true, a.resp.MemberEpoch
	if a.resp.ActiveTasks != nil {
		f.take(m, roles{listFromWire(a.resp.ActiveTasks), listFromWire(a.resp.StandbyTasks), listFromWire(a.resp.WarmupTasks)})
	}
	f.checkBudget()
	return a
}

// take changes what the member runs to what it was told.
func (f *fleet) take(m *fleetMember, now roles) {
	for _, t := range m.holds.active.minus(now.active) {
		if f.running[t] == m.id {
			delete(f.running, t)
		}
	}
	for _, t := range now.active.minus(m.holds.active) {
		if behind := f.end - f.disks[m.process][t]; behind > f.lag {
			f.outages = append(f.outages, fmt.Sprintf("%s starts %s %d behind", m.id, t, behind))
		}
	}
	m.holds, m.report = now, true
}

// work is what the member does in a heartbeat interval.
func (f *fleet) work(m *fleetMember) {
	if !m.in {
		return
	}
	disk := f.disks[m.process]
	restoring := false
	for _, t := range m.holds.active {
		if f.running[t] == m.id {
			disk[t] = f.end
			continue
		}
		if disk[t] = min(f.end, disk[t]+f.rate); disk[t] == f.end {
			f.running[t] = m.id
		} else {
			restoring = true
		}
	}
	if restoring {
		return // a client restores active tasks before it follows others
	}
	for _, l := range []taskList{m.holds.standby, m.holds.warmup} {
		for _, t := range l {
			disk[t] = min(f.end, disk[t]+f.rate)
		}
	}
}

func (f *fleet) offsets(m *fleetMember) (offsets, ends []kmsg.TaskOffset) {
	offsets, ends = []kmsg.TaskOffset{}, []kmsg.TaskOffset{}
	held := map[topology.TaskID]bool{}
	for _, o := range f.members {
		if o.process == m.process {
			for _, role := range allRoles {
				for _, t := range *o.holds.of(role) {
					held[t] = true
				}
			}
		}
	}
	for _, t := range slices.SortedFunc(maps.Keys(f.disks[m.process]), topology.TaskID.Compare) {
		mine := m.holds.standby.has(t) || m.holds.warmup.has(t) || m.holds.active.has(t) && f.running[t] != m.id
		if !mine && held[t] {
			continue
		}
		offsets = append(offsets, kmsg.TaskOffset{SubtopologyID: t.Subtopology, Partition: t.Partition, Offset: f.disks[m.process][t]})
		if mine {
			ends = append(ends, kmsg.TaskOffset{SubtopologyID: t.Subtopology, Partition: t.Partition, Offset: f.end})
		}
	}
	return offsets, ends
}

// round is a heartbeat of everybody, in intervals of a second.
func (f *fleet) round() {
	f.t.Helper()
	for _, m := range slices.Clone(f.members) {
		f.beat(m)
	}
	f.after(time.Second)
}

func (f *fleet) rounds(n int) {
	f.t.Helper()
	for range n {
		f.round()
	}
}

// produce fills the changelogs of tasks that run.
func (f *fleet) produce(n int64) {
	f.end += n
	for t, who := range f.running {
		for _, m := range f.members {
			if m.id == who {
				f.disks[m.process][t] = f.end
			}
		}
	}
}

func (f *fleet) warmupsNow() int {
	n := 0
	if g := f.c.groups[groupID]; g != nil {
		for _, m := range g.members {
			n += len(m.cur.assigned.warmup)
		}
	}
	return n
}

func (f *fleet) checkBudget() {
	f.t.Helper()
	require.LessOrEqual(f.t, f.warmupsNow(), f.budget, "warm-ups")
}

// atRest is whether everybody has its target and nothing is on the way.
func (f *fleet) atRest() bool {
	g := f.c.groups[groupID]
	if g.state() != Stable {
		return false
	}
	for _, m := range g.members {
		if m.target == nil || !m.cur.assigned.equal(*m.target) {
			return false
		}
	}
	return true
}

// settle runs until the group is at rest.
func (f *fleet) settle(limit int) int {
	f.t.Helper()
	for n := range limit {
		if f.atRest() {
			return n
		}
		f.round()
	}
	require.Fail(f.t, "the group does not come to rest", "%s", f.show())
	return limit
}

func (f *fleet) show() string {
	var out strings.Builder
	g := f.c.groups[groupID]
	for _, id := range g.memberIDs() {
		m := g.members[id]
		fmt.Fprintf(&out, "%s %v target %v\n", id, m.cur.String(), m.target)
	}
	return out.String()
}

// holders are the tasks by member in the notation of the refiner's cases.
func (f *fleet) holders() string {
	var out strings.Builder
	for _, m := range f.members {
		var r roles
		for _, role := range allRoles {
			for _, t := range *m.holds.of(role) {
				*r.of(role) = append(*r.of(role), topology.TaskID{Subtopology: "s", Partition: t.Partition})
			}
		}
		out.WriteString(m.id + "{" + formatRoles(r) + "} ")
	}
	return out.String()
}
