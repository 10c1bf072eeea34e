package sim

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// startCallback runs the next callback if none is running.
func (m *member) startCallback() {
	if m.busy != 0 || len(m.callbacks) == 0 {
		return
	}
	w := m.p.w
	cb := m.callbacks[0]
	m.callbacks = m.callbacks[1:]
	m.busy = cb.ID
	if cb.Kind == membership.TasksAssigned {
		// From here on the application may process them.
		if !contains(cb.Active, m.running) {
			w.failf("order", "%s is given %v while it still runs %v", m.name, cb.Active, m.running)
			return
		}
		m.run(cb.Active)
	}
	var err error
	took := m.rnd.between(0, 20*time.Millisecond)
	if w.now < w.slowTill {
		took = m.rnd.between(0, 3*time.Second)
	}
	if m.blockNext > 0 {
		took, m.blockNext = m.blockNext, 0
	}
	if m.failNext {
		err, m.failNext = errCallback, false
	}
	if f := w.mutant.Callback; f != nil {
		f(m, cb)
	}
	m.unblock = func() { m.finish(cb, err) }
	w.at(w.now+took, m.p, m.unblock)
}

// finish returns from the callback that is running.
func (m *member) finish(cb membership.Callback, err error) {
	if m.gone || m.busy != cb.ID {
		return
	}
	m.busy = 0
	switch cb.Kind {
	case membership.TasksRevoked:
		// An application that fails to commit has stopped them all the same.
		m.run(without(m.running, cb.Active))
		m.lastRevoked = cb.Active
	case membership.TasksLost:
		m.run(nil)
		m.confirmed = [3][]topology.TaskID{}
	case membership.TasksAssigned:
		if err == nil {
			m.confirmed = [3][]topology.TaskID{cb.Active, cb.Standby, cb.Warmup}
		} else {
			m.run(common(m.running, m.confirmed[0])) // those that failed to start do not run
		}
	}
	m.core.CallbackDone(m.p.read(), cb.ID, err)
	m.startCallback()
	m.pump()
}

// run is what the application runs from now on.
func (m *member) run(tasks []topology.TaskID) {
	m.running = tasks
	m.works = m.mask(tasks)
	m.p.w.checkRunning(m)
}

// mask is what tasks of the member work on, with the topics that source patterns
// stand for as far as the member knows.
func (m *member) mask(tasks []topology.TaskID) uint64 {
	v := m.p.version
	mask := v.mask(tasks)
	if len(v.matches) == 0 {
		return mask
	}
	for _, t := range tasks {
		for _, name := range m.core.Sources(t.Subtopology) {
			mask |= 1 << (slices.Index(worked, name)*maxPartitions + int(t.Partition))
		}
	}
	return mask
}

// mask is what tasks work on, a bit for each partition of a topic.
func (v *version) mask(tasks []topology.TaskID) (mask uint64) {
	for _, t := range tasks {
		for _, topic := range v.works[t.Subtopology] {
			mask |= 1 << (topic*maxPartitions + int(t.Partition))
		}
	}
	return mask
}

// maxPartitions bounds the growth of topics, so that all partitions fit into a
// mask.
const maxPartitions = 12

// checkHeartbeat checks what a member may say, whatever happened before.
func (m *member) checkHeartbeat(req *kmsg.StreamsGroupHeartbeatRequest) {
	w := m.p.w
	if w.plan.Setup.FreeNetwork {
		return
	}
	switch {
	case req.MemberEpoch == 0 && (len(m.running) > 0 || m.busy != 0):
		w.failf("join with tasks", "%s joins while it runs %v", m.name, m.running)
	case req.MemberEpoch < 0 && len(m.running) > 0 && !m.exempt():
		w.failf("leave with tasks", "%s leaves while it runs %v", m.name, m.running)
	case req.MemberEpoch > 0 && req.ActiveTasks == nil:
		w.checkAcknowledged(m)
	case req.MemberEpoch > 0 && req.ActiveTasks != nil:
		w.checkReport(m, [3][]topology.TaskID{fromWire(req.ActiveTasks), fromWire(req.StandbyTasks), fromWire(req.WarmupTasks)})
	}
}

// checkReport checks what a member says that it has: nothing less than what its
// application works on, since what is missing is given to others, and nothing
// that it was never given.
func (w *World) checkReport(m *member, got [3][]topology.TaskID) {
	if missing := without(m.running, got[0]); len(missing) > 0 && !m.exempt() {
		w.failf("report", "%s reports %v while its application works on %v as well", m.name, got[0], missing)
	}
}

// checkAcknowledged checks that a member whose application has done all that it was
// asked for does not keep that from the coordinator.
func (w *World) checkAcknowledged(m *member) {
	r := w.table.members[m.id]
	if r == nil || m.exempt() || m.busy != 0 || len(m.callbacks) > 0 || m.core.State() != membership.StateStable {
		return
	}
	var asked []topology.TaskID
	for role, l := range r.pending {
		if len(common(l, m.confirmed[role])) > 0 {
			return // the coordinator waits for that, too: all of them are one request
		}
		asked = append(asked, l...)
	}
	if len(asked) > 0 {
		w.failf("acknowledgement", "%s has given up %v and does not say so", m.name, asked)
	}
}

func fromWire(in []kmsg.TaskIDs) (out []topology.TaskID) {
	for _, s := range in {
		for _, p := range s.Partitions {
			out = append(out, topology.TaskID{Subtopology: s.SubtopologyID, Partition: p})
		}
	}
	return out
}

// commit sends an offset commit, which takes its own way.
func (m *member) commit(t topology.TaskID, epoch int32) {
	w, n := m.p.w, m.coordinator
	topics := m.core.Sources(t.Subtopology)
	if len(topics) == 0 {
		return
	}
	topic := topics[m.rnd.below(len(topics))]
	lives := w.table.lives
	w.at(w.now+w.latency(&m.rnd), nil, func() {
		if !n.up || w.now < max(n.pausedTill, w.cut(m.p, n)) || n.core == nil || n.i != w.owner {
			return
		}
		code := n.commit(m, topic, t.Partition, epoch)
		if code == 0 {
			// The epochs of a group that was deleted begin again: a late commit may
			// meet an equal one by chance.
			if lives == w.table.lives {
				w.checkCommit(m, topic, t.Partition)
			}
			return
		}
		w.at(w.now+w.latency(&m.rnd), m.p, func() {
			if !m.gone {
				m.core.Suspect(m.p.read())
				m.pump()
			}
		})
	})
}

// app is a member's application: what it runs, and what it is about to be told.
type app struct {
	callbacks []membership.Callback
	busy      uint64 // the callback that is running
	running   []topology.TaskID
	confirmed [3][]topology.TaskID
	// target is what the coordinator has given to the member last.
	target []topology.TaskID
}

// reportConfirmed makes a report what it is in Kafka's client: what was confirmed,
// without what the application is being given.
func (a *app) reportConfirmed(req *kmsg.StreamsGroupHeartbeatRequest) {
	if req.MemberEpoch > 0 && req.ActiveTasks != nil {
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = toWire(a.confirmed[0]), toWire(a.confirmed[1]), toWire(a.confirmed[2])
	}
}

// queue takes callbacks over from a step.
func (a *app) queue(callbacks []membership.Callback) {
	a.callbacks = append(a.callbacks[:len(a.callbacks):len(a.callbacks)], callbacks...)
}

func toWire(tasks []topology.TaskID) []kmsg.TaskIDs {
	tasks = slices.SortedFunc(slices.Values(tasks), topology.TaskID.Compare)
	out := []kmsg.TaskIDs{}
	for _, t := range tasks {
		if len(out) == 0 || out[len(out)-1].SubtopologyID != t.Subtopology {
			w := kmsg.NewTaskIDs()
			w.SubtopologyID = t.Subtopology
			out = append(out, w)
		}
		last := &out[len(out)-1]
		last.Partitions = append(last.Partitions, t.Partition)
	}
	return out
}
