package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// groupState is the coordinator with what its log says.
type groupState struct {
	core  *coordinator.Coordinator
	table *table
	mono  time.Duration // of the latest timer
	loads int           // how often the group has moved
	err   error         // what is wrong with it
}

// smallMember is a member with its application and the heartbeat that is under way.
type smallMember struct {
	app
	core    *membership.Member // nil if it does not run
	id      string
	place   int
	life    int
	version *version
	now     time.Duration
	number  uint64 // of the request
	// request is under way, answer on its way back; last is what was under way when
	// it crashed. They are numbers, 0 for none.
	request, answer, last int32
	expired               bool
	works                 uint64
	// caughtUp are the tasks whose state is here, as far as it has to be.
	caughtUp []topology.TaskID
	// said are the offsets that a mutant does not repeat.
	said [2]string
	err  error
}

type request struct {
	*kmsg.StreamsGroupHeartbeatRequest
}

func (r *request) String() string {
	if r.ActiveTasks == nil {
		return fmt.Sprintf("%s, epoch %d", r.MemberID, r.MemberEpoch)
	}
	return fmt.Sprintf("%s, epoch %d, with %v", r.MemberID, r.MemberEpoch, fromWire(r.ActiveTasks))
}

type answer struct {
	*kmsg.StreamsGroupHeartbeatResponse
}

func (a *answer) String() string {
	switch {
	case a.ErrorCode != 0:
		return kerr.TypedErrorForCode(a.ErrorCode).Message
	case a.ActiveTasks != nil:
		return fmt.Sprintf("epoch %d, %v", a.MemberEpoch, fromWire(a.ActiveTasks))
	}
	return fmt.Sprintf("epoch %d", a.MemberEpoch)
}

type memberStep struct {
	from int32
	what uint8
	with int32
}

// reply is what becomes of a group that hears a request.
type reply struct{ group, answer int32 }

// strike is a session that ends.
type strike struct {
	member string
	group  int32
}

// step is what becomes of a member.
func (m *smallModel) step(from int32, what uint8, with int32) int32 {
	key := memberStep{from, what, with}
	if to, ok := m.steps[key]; ok {
		return to
	}
	var x smallMember
	if o := m.members.all[from]; o != nil {
		x = *o
		if x.core != nil {
			x.core = cloneMember(x.core)
		}
	}
	m.carryOut(&x, what, with)
	x.works = 0
	if x.version != nil {
		x.works = x.version.mask(x.running)
	}
	to := m.members.add(string(x.append(nil)), &x)
	m.steps[key] = to
	return to
}

func (m *smallModel) carryOut(x *smallMember, what uint8, with int32) {
	switch what {
	case stepStart:
		x.start(int(with>>8), scopeVersions[m.scope.Family][with&0xff])
	case stepDue:
		x.now += time.Hour
		x.core.ForceHeartbeat()
	case stepReturn:
		x.finish()
		if m.scope.Warmups > 0 {
			x.tellOffsets()
		}
	case stepCatchUp:
		for _, t := range x.copies() {
			if t.Partition == with {
				x.caughtUp = with1(x.caughtUp, t)
			}
		}
		x.tellOffsets()
	case stepHeard:
		x.answer = with
		if m.requests.all[x.request].MemberEpoch == 0 && m.answers.all[with].ErrorCode == 0 {
			x.expired = false
		}
		return
	case stepAnswered:
		a := m.answers.all[x.answer]
		x.request, x.answer = 0, 0
		x.core.HeartbeatAnswered(x.now, x.number, a.StreamsGroupHeartbeatResponse)
	case stepLost:
		x.request, x.answer = 0, 0
		x.core.HeartbeatFailed(x.now, x.number, membership.Disconnected, errDisconnected)
	case stepLeave:
		x.core.Leave(x.now, membership.LeaveGroup)
	case stepEnd:
		*x = smallMember{id: x.id, place: x.place, life: x.life}
		return
	case stepCrash:
		last := x.request
		if x.answer != 0 {
			last = 0
		}
		*x = smallMember{id: x.id, place: x.place, life: x.life, last: last}
		return
	case stepStrayLost:
		x.last = 0
		return
	case stepExpire:
		x.expired = true
		return
	}
	m.pump(x)
}

func (x *smallMember) start(place int, v *version) {
	*x = smallMember{place: place, life: x.life + 1, version: v}
	x.id = fmt.Sprintf("m%d.%d", place, x.life)
	core, err := membership.New(membership.Config{
		Group: application, MemberID: x.id, ProcessID: fmt.Sprintf("p%d", place), Topology: v.topo,
		MaxPollInterval: time.Minute, RetryBackoff: time.Millisecond, RetryBackoffMax: time.Millisecond,
	})
	if err != nil {
		panic(err)
	}
	x.core = core
	x.core.Join(0)
}

// pump steps the member's core and carries out what it wants.
func (m *smallModel) pump(x *smallMember) {
	for range 50 {
		var fx membership.Effects
		x.core.Step(x.now, &fx)
		if fx.FindCoordinator {
			x.core.CoordinatorFound(x.now, 1)
		}
		if h := fx.Heartbeat; h != nil {
			if m.scope.ReportConfirmed {
				x.reportConfirmed(h)
			}
			if m.scope.SilentOffsets {
				x.silence(h)
			}
			x.say(h)
			x.request, x.number, x.answer = m.requests.add(string(h.AppendTo(nil)), &request{h}), fx.HeartbeatID, 0
		}
		for _, err := range fx.Errs {
			if e, ok := errors.AsType[*membership.Error](err); ok && e.Reason == "" {
				x.err = err
			}
		}
		x.queue(fx.Callbacks)
		x.begin()
		if at, ok := x.core.NextDeadline(); !ok || at > x.now {
			return
		}
	}
	x.err = errors.New("it finds something to do again and again")
}

// say checks what a member may say.
func (x *smallMember) say(h *kmsg.StreamsGroupHeartbeatRequest) {
	switch {
	case h.MemberEpoch == 0 && len(x.running) > 0:
		x.err = fmt.Errorf("it joins while it runs %v", x.running)
	case h.MemberEpoch < 0 && len(x.running) > 0:
		x.err = fmt.Errorf("it leaves while it runs %v", x.running)
	}
}

// begin starts the next callback if none is running. It stays in the queue.
func (x *smallMember) begin() {
	if x.busy != 0 || len(x.callbacks) == 0 {
		return
	}
	cb := x.callbacks[0]
	x.busy = cb.ID
	if cb.Kind == membership.TasksAssigned {
		if !contains(cb.Active, x.running) {
			x.err = fmt.Errorf("it is given %v while it still runs %v", cb.Active, x.running)
		}
		x.running = cb.Active
	}
}

// finish returns from the callback that runs.
func (x *smallMember) finish() {
	cb := x.callbacks[0]
	x.callbacks, x.busy = x.callbacks[1:], 0
	switch cb.Kind {
	case membership.TasksRevoked:
		x.running = without(x.running, cb.Active)
	case membership.TasksLost:
		x.running, x.confirmed = nil, [3][]topology.TaskID{}
	case membership.TasksAssigned:
		x.confirmed = [3][]topology.TaskID{cb.Active, cb.Standby, cb.Warmup}
	}
	x.core.CallbackDone(x.now, cb.ID, nil)
}

// copies are the tasks that the application replays.
func (x *smallMember) copies() []topology.TaskID {
	return slices.Concat(x.confirmed[1], x.confirmed[2])
}

// tellOffsets has the member report how far its state is. What it runs it has
// restored at once.
func (x *smallMember) tellOffsets() {
	for _, t := range x.confirmed[0] {
		x.caughtUp = with1(x.caughtUp, t)
	}
	offsets, ends := map[topology.TaskID]int64{}, map[topology.TaskID]int64{}
	for _, t := range x.copies() {
		offsets[t], ends[t] = 0, changelogEnd
	}
	for _, t := range x.caughtUp {
		if offsets[t] = changelogEnd; slices.Contains(x.running, t) {
			delete(offsets, t)
		}
	}
	x.core.SetTaskOffsets(offsets, ends)
}

// silence leaves out what the member has said before in this life.
func (x *smallMember) silence(h *kmsg.StreamsGroupHeartbeatRequest) {
	for i, list := range []*[]kmsg.TaskOffset{&h.TaskOffsets, &h.TaskEndOffsets} {
		if *list == nil {
			continue
		}
		text := fmt.Sprint(*list)
		if h.MemberEpoch > 0 && text == x.said[i] {
			*list = nil
		}
		x.said[i] = text
	}
}

// with1 is a sorted set with one more in it.
func with1(set []topology.TaskID, t topology.TaskID) []topology.TaskID {
	if slices.Contains(set, t) {
		return set
	}
	set = append(slices.Clone(set), t)
	slices.SortFunc(set, topology.TaskID.Compare)
	return set
}

// append appends what tells members apart.
func (x *smallMember) append(dst []byte) []byte {
	dst = append(dst, byte(x.place+1), byte(x.life))
	if x.core != nil {
		dst = append(dst, 1, byte(x.version.topo.Epoch()))
		dst = appendMember(dst, x.core)
	}
	dst = appendTasks(dst, x.running)
	dst = appendTasks(dst, x.confirmed[:]...)
	dst = appendTasks(dst, x.caughtUp)
	dst = append(append(dst, x.said[0]...), x.said[1]...)
	dst = append(dst, byte(len(x.callbacks)))
	for _, cb := range x.callbacks {
		dst = appendTasks(append(dst, byte(cb.Kind)), cb.Active, cb.Standby)
	}
	for _, is := range []bool{x.busy != 0, x.expired, x.err != nil} {
		if is {
			dst = append(dst, 1)
		} else {
			dst = append(dst, 0)
		}
	}
	for _, n := range []int32{x.request, x.answer, x.last} {
		dst = binary.AppendVarint(dst, int64(n))
	}
	return dst
}

func appendTasks(dst []byte, sets ...[]topology.TaskID) []byte {
	for _, l := range sets {
		dst = append(dst, byte(len(l)))
		for _, t := range l {
			dst = binary.AppendVarint(append(dst, t.Subtopology...), int64(t.Partition))
		}
	}
	return dst
}

// hear is what becomes of a group that hears a request.
func (m *smallModel) hear(group, req int32) reply {
	key := [2]int32{group, req}
	if r, ok := m.heard[key]; ok {
		return r
	}
	from := m.groups.all[group]
	core := from.core.Clone()
	resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
	var fx coordinator.Effects
	r := m.requests.all[req]
	resp.Version = r.Version
	core.Handle(coordinator.Now{}, m.image, &coordinator.Request{StreamsGroupHeartbeatRequest: r.StreamsGroupHeartbeatRequest, ClientID: "c", ClientHost: "/h"}, resp, &fx)
	core.Apply(coordinator.Now{}, &fx)
	out := reply{m.group(core, from, from.mono), m.answers.add(string(resp.AppendTo(nil)), &answer{resp})}
	m.heard[key] = out
	return out
}

// group is the number of a group's state. Of what is not durable only counts how
// often it was lost.
func (m *smallModel) group(core *coordinator.Coordinator, from *groupState, mono time.Duration) int32 {
	durable := core.AppendState(nil, application, false)
	key := string(append(durable, byte(from.loads)))
	if m.scope.Warmups > 0 {
		key += string(core.AppendState(nil, application, true)) // plans and offsets
	}
	if n, ok := m.groups.byKey[key]; ok {
		return n
	}
	g := &groupState{core: core, table: newTable(), mono: mono, loads: from.loads}
	for _, r := range decodeState(durable) {
		if err := g.table.apply(r); err != nil {
			g.err = err
		}
	}
	m.inspect(g)
	return m.groups.add(key, g)
}

// inspect checks the members of a group against each other.
func (m *smallModel) inspect(g *groupState) {
	var owned uint64
	warmups := 0
	for _, id := range slices.Sorted(maps.Keys(g.table.members)) {
		r := g.table.members[id]
		if r.meta == nil {
			continue
		}
		v := scopeVersions[m.scope.Family][r.meta.TopologyEpoch]
		mask := v.mask(r.held[0]) | v.mask(r.pending[0])
		if mask&owned != 0 {
			g.err = fmt.Errorf("two owners: the table gives %s to two members, one of them %s", describeMask(mask&owned), id)
		}
		owned |= mask
		warmups += len(r.held[2])
		for role := range r.held {
			for other := range role {
				if twice := common(r.held[role], r.held[other]); len(twice) > 0 {
					g.err = fmt.Errorf("roles: %s has %v in two roles", id, twice)
				}
			}
		}
		if r.epoch > g.table.epoch {
			g.err = fmt.Errorf("member epoch: %s is at %d, the group at %d", id, r.epoch, g.table.epoch)
		}
	}
	if warmups > m.scope.Warmups {
		g.err = fmt.Errorf("warm-up budget: there are %d warm-ups", warmups)
	}
}

// decodeState are the records that a group's durable state consists of.
func decodeState(state []byte) (out []record.Record) {
	part := func() []byte {
		n, w := binary.Uvarint(state)
		p := state[w : w+int(n)]
		state = state[w+int(n):]
		return p
	}
	for len(state) > 0 {
		r, err := record.Decode(part(), part())
		if err != nil {
			panic(err)
		}
		out = append(out, r)
	}
	return out
}

// move is the group after another node has loaded it.
func (m *smallModel) move(group int32) int32 {
	if to, ok := m.moved[group]; ok {
		return to
	}
	from := m.groups.all[group]
	durable := from.core.AppendState(nil, application, false)
	core := m.core.Clone()
	for _, r := range decodeState(durable) {
		if err := core.Replay(r); err != nil {
			panic(err)
		}
	}
	core.Loaded(coordinator.Now{}, application)
	to := m.group(core, &groupState{loads: from.loads + 1}, from.mono)
	if string(core.AppendState(nil, application, false)) != string(durable) {
		m.groups.all[to].err = errors.New("replay equals live: the log gives another state")
	}
	m.moved[group] = to
	return to
}

// strikes are the sessions that may end. The coordinator lets timers strike in an
// order of its own; those whose turn it is not are put off.
func (m *smallModel) strikes(group int32) []strike {
	if all, ok := m.timers[group]; ok {
		return all
	}
	from := m.groups.all[group]
	var all []strike
	for _, id := range slices.Sorted(maps.Keys(from.table.members)) {
		core := from.core.Clone()
		now := coordinator.Now{Mono: from.mono + 24*time.Hour}
		var fx coordinator.Effects
		for core.Tick(now, &fx) {
			if slices.ContainsFunc(fx.Events, func(e coordinator.Event) bool {
				left, ok := e.(coordinator.MemberLeft)
				return ok && left.Member == id
			}) {
				core.Apply(now, &fx)
				all = append(all, strike{id, m.group(core, from, now.Mono)})
				break
			}
			core.Discard(now, &fx)
		}
	}
	m.timers[group] = all
	return all
}
