package sim

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
)

// node is a broker that may coordinate the group. One that has lost the group to
// another does not know so at once: it goes on answering what needs no records.
type node struct {
	w          *World
	i          int
	name       string
	clock      clock
	rnd        stream
	up         bool
	life       int
	pausedTill time.Duration
	core       *coordinator.Coordinator // nil while it does not coordinate
	loads      int
	image      *topics.Image
	fx         coordinator.Effects
	ticks      uint64
	// waiting are answers that are held back until the log is on disk.
	waiting []held
	// ahead is a former coordinator that remembers what was lost. Kafka's answers
	// nothing that rests on records which were never on the disk of a majority: its
	// answers wait until it knows that it has lost the group.
	ahead       bool
	failAppends int
	loadedAt    time.Duration // by its clock
	// Scratch for decisions that are only tried.
	tryFx   coordinator.Effects
	tryResp kmsg.StreamsGroupHeartbeatResponse
}

type held struct {
	length int // of the log, that has to be on disk
	msg    *message
	resp   *kmsg.StreamsGroupHeartbeatResponse
}

func (n *node) read() coordinator.Now {
	mono := n.clock.read(n.w.now)
	return coordinator.Now{Mono: mono, WallMillis: 1_700_000_000_000 + mono.Milliseconds()}
}

func (n *node) owns() bool { return n.w.owner == n.i }

// newCore is a coordinator without groups, as configured.
func (w *World) newCore() *coordinator.Coordinator {
	c, err := coordinator.New(coordinator.Config{Policy: w.plan.Setup.Policy, Broker: w.broker, LogEnds: ends{}})
	if err != nil {
		panic(err)
	}
	c.SetGroupConfig(application, w.configs)
	return c
}

// ends says where changelogs end: always in the same place.
type ends struct{}

const changelogEnd = 1_000_000

func (ends) LogEnd(string, int32) (int64, bool) { return changelogEnd, true }

// heartbeat handles a request that has arrived.
func (n *node) heartbeat(msg *message) {
	w := n.w
	resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
	resp.Version = msg.req.Version
	req := coordinator.Request{StreamsGroupHeartbeatRequest: msg.req, ClientID: "sim", ClientHost: "/127.0.0.1"}
	switch {
	case n.core == nil && n.owns():
		resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code
		w.answer(msg, resp)
		return
	case n.core == nil:
		resp.ErrorCode = kerr.NotCoordinator.Code
		w.answer(msg, resp)
		return
	}
	if f := w.mutant.Request; f != nil {
		copied := *msg.req
		req.StreamsGroupHeartbeatRequest = &copied
		f(w, msg.m, req.StreamsGroupHeartbeatRequest)
	}
	now := n.read()
	n.core.Handle(now, n.image, &req, resp, &n.fx)
	if n.owns() && w.violation == nil {
		w.checkDecision(n, now, &req, resp)
	}
	if f := w.mutant.Decision; f != nil {
		f(w, msg.m, &n.fx, resp)
	}
	if !n.finish(now) {
		coordinator.AppendFailed(resp, n.appendError())
	} else {
		n.heard(msg, resp, now.Mono)
	}
	n.reply(msg, resp)
}

func (n *node) appendError() error {
	if !n.owns() {
		return kerr.NotLeaderForPartition
	}
	return kerr.NotEnoughReplicas
}

// reply answers once everything that the answer may rest on is on disk.
func (n *node) reply(msg *message, resp *kmsg.StreamsGroupHeartbeatResponse) {
	msg.lists = resp.ActiveTasks != nil
	if w := n.w; !n.ahead && (!n.owns() || w.flushed == len(w.log)) || w.mutant.AnswerEarly {
		w.answer(msg, resp)
		return
	}
	n.waiting = append(n.waiting, held{len(n.w.log), msg, resp})
}

// finish appends what was decided and makes it part of the state.
func (n *node) finish(now coordinator.Now) (ok bool) {
	w, fx := n.w, &n.fx
	if len(fx.Records) > 0 && (!n.owns() && !w.mutant.WriteAsNobody || n.failAppends > 0) {
		n.failAppends = max(n.failAppends-1, 0)
		if !w.mutant.ApplyAnyway {
			n.core.Discard(now, fx)
			n.planTick()
			return false
		}
		n.core.Apply(now, fx)
		return false
	}
	if len(fx.Records) > 0 {
		w.append(fx.Records)
	}
	n.core.Apply(now, fx)
	for _, e := range fx.Events {
		w.seen(n, e)
	}
	for _, t := range fx.CreateTopics {
		w.createTopic(t.Name, t.Partitions)
	}
	n.planTick()
	if len(fx.Records) > 0 {
		w.checkTable()
		if w.computed {
			w.checkBudget()
		}
	}
	w.computed = false
	return true
}

// planTick plans the next timer. Deadlines may move back, which costs a look in
// vain.
func (n *node) planTick() {
	at, ok := n.core.NextDeadline()
	if !ok {
		return
	}
	n.ticks++
	tick, life, core := n.ticks, n.life, n.core
	n.w.at(max(n.clock.when(at), n.pausedTill, n.w.now), nil, func() {
		if tick == n.ticks && life == n.life && core == n.core {
			n.tick()
		}
	})
}

func (n *node) tick() {
	if n.w.now < n.pausedTill {
		n.planTick()
		return
	}
	now := n.read()
	if n.w.mutant.NoTicks {
		return
	}
	now.Mono += n.w.mutant.HastyTicks
	for n.w.violation == nil && n.core.Tick(now, &n.fx) {
		n.finish(now)
	}
	n.planTick()
}

func (n *node) commit(m *member, topic string, partition, epoch int32) int16 {
	if n.w.mutant.AcceptCommits {
		return 0
	}
	c := coordinator.Commit{Group: application, Member: m.id, Epoch: epoch, Version: 9}
	if n.w.plan.Setup.Static {
		id := fmt.Sprintf("instance-%d-%d", m.p.slot.i, m.slot)
		c.InstanceID = &id
	}
	c.Partitions = func(yield func(string, int32) bool) { yield(topic, partition) }
	code, handled := n.core.CheckCommit(c)
	if !handled {
		return kerr.GroupIDNotFound.Code
	}
	return code
}

// load makes the node the coordinator: after a while it has read the log.
func (n *node) load(after time.Duration) {
	n.loads++
	load, life := n.loads, n.life
	n.core, n.waiting, n.ahead = nil, nil, false
	w := n.w
	w.at(w.now+after, nil, func() {
		if load != n.loads || life != n.life || !n.owns() {
			return
		}
		if n.rnd.one(3) || len(w.log) > 2000 {
			w.compact()
		}
		core := w.replayed()
		if w.mutant.ForgetTimers {
			core.Unload("")
		} else {
			core.Loaded(n.read(), application)
		}
		n.core = core
		n.loadedAt = n.read().Mono
		w.tellf("%s has loaded the group", n.name)
		n.planTick()
	})
}

// replayed is a coordinator that knows nothing but the log. Records go through
// their encoding.
func (w *World) replayed() *coordinator.Coordinator {
	core := w.newCore()
	for i, r := range w.log {
		if f := w.mutant.Replay; f != nil {
			if r = f(w, i, r); r == nil {
				continue
			}
		}
		decoded, err := record.Decode(record.AppendKey(nil, r.RecordKey()), record.AppendValue(nil, r))
		if err == nil {
			err = core.Replay(decoded)
		}
		if err != nil {
			w.failf("replay", "the log cannot be replayed: %v", err)
			break
		}
	}
	return core
}

// resign has a node find out, some time later, that the group has moved.
func (n *node) resign(after time.Duration) {
	loads := n.loads
	n.refuseWaiting()
	n.w.at(n.w.now+after, nil, func() {
		if loads == n.loads && !n.owns() {
			n.core, n.ahead = nil, false
			n.refuseWaiting()
		}
	})
}

// refuseWaiting answers that another node coordinates what would have been
// answered once it was on disk.
func (n *node) refuseWaiting() {
	for _, h := range n.waiting {
		h.msg.m.missed = h.msg.m.missed || h.msg.lists
		h.resp = kmsg.NewPtrStreamsGroupHeartbeatResponse()
		h.resp.ErrorCode = kerr.NotCoordinator.Code
		n.w.answer(h.msg, h.resp)
	}
	n.waiting = nil
}

// crash ends the node at once.
func (n *node) crash() {
	n.up, n.core, n.waiting, n.ahead = false, nil, nil, false
	n.life++
	n.loads++
	for _, m := range n.w.live {
		if m.conn != nil && m.conn.n == n {
			m.breakConn(m.conn, n.name+" is gone")
		}
	}
}
