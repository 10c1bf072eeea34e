package sim

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Violation is an invariant that did not hold.
type Violation struct {
	// Rule names the invariant; minimizing keeps to it.
	Rule, Detail string
	At           time.Duration
	Step         int
}

func (v *Violation) String() string {
	return fmt.Sprintf("%s %s: %s (step %d)", stamp(v.At), v.Rule, v.Detail, v.Step)
}

func (w *World) failf(rule, format string, args ...any) {
	if w.violation == nil {
		w.violation = &Violation{Rule: rule, Detail: fmt.Sprintf(format, args...), At: w.now, Step: w.steps}
		w.tellf("VIOLATION of %s: %s", rule, w.violation.Detail)
	}
}

// checkRunning checks a member whose application runs other tasks than before:
// nobody else works on the same, and the coordinator knows.
func (w *World) checkRunning(m *member) {
	if w.plan.Setup.FreeNetwork || m.exempt() || m.works == 0 {
		return
	}
	for _, o := range w.live {
		if o != m && !o.exempt() && o.works&m.works != 0 {
			w.failf("two workers", "%s and %s both work on %s", m.name, o.name, describeMask(o.works&m.works))
			return
		}
	}
	w.checkCovered(m)
}

// checkCovered checks that what a client runs is assigned to it, or pending.
func (w *World) checkCovered(m *member) {
	r := w.table.members[m.id]
	for _, t := range m.running {
		if !r.has(t) {
			w.failf("coverage", "%s runs %v, and the coordinator does not know", m.name, t)
			return
		}
	}
}

func describeMask(mask uint64) string {
	var names []string
	for topic, name := range worked {
		for p := range maxPartitions {
			if mask>>(topic*maxPartitions+p)&1 != 0 {
				names = append(names, fmt.Sprintf("%s-%d", name, p))
			}
		}
	}
	return strings.Join(names, " ")
}

// checkBatch takes over what is written at once and checks it against what came
// before.
func (w *World) checkBatch(records []record.Record) error {
	t := w.table
	before := map[string]row{}
	epoch := t.topologyEpoch
	for _, r := range records {
		id := r.RecordKey().Member
		if _, seen := before[id]; !seen && t.members[id] != nil {
			before[id] = *t.members[id]
		}
		if err := t.apply(r); err != nil {
			return err
		}
	}
	for id, old := range before {
		now := t.members[id]
		if now == nil || old.meta == nil || old.meta.TopologyEpoch >= epoch || now.meta.TopologyEpoch != old.meta.TopologyEpoch {
			continue
		}
		for role := range now.held {
			if gained := without(now.held[role], old.held[role]); len(gained) > 0 {
				return fmt.Errorf("%s has an outdated topology and gains %v", id, gained)
			}
		}
	}
	return nil
}

// checkTable checks the members against each other after a batch of records.
func (w *World) checkTable() {
	if w.violation != nil {
		return
	}
	t := w.table
	w.rows = w.rows[:0]
	for _, r := range t.members {
		w.rows = append(w.rows, r)
	}
	slices.SortFunc(w.rows, func(a, b *row) int { return bytes.Compare([]byte(a.id), []byte(b.id)) })
	var worked uint64
	for _, r := range w.rows {
		if r.meta == nil {
			continue
		}
		if r.epoch > t.epoch {
			w.failf("member epoch", "%s is at %d, the group at %d", r.id, r.epoch, t.epoch)
		}
		if r.epoch == -2 && r.meta.TopologyEpoch < t.topologyEpoch {
			continue // it cannot come back
		}
		v := w.versionOf(r.meta.TopologyEpoch)
		mask := v.mask(r.held[0]) | v.mask(r.pending[0])
		if mask&worked != 0 {
			w.failf("two owners", "the table gives %s to two members, one of them %s", describeMask(mask&worked), r.id)
		}
		worked |= mask
	}
	warmups := 0
	for _, r := range w.rows {
		warmups += len(r.held[2])
	}
	if most := w.plan.Setup.Warmups; warmups > most || warmups > 0 && !w.plan.Setup.Available {
		w.failf("warm-up budget", "there are %d warm-ups, and there may be %d", warmups, most)
	}
	if t.assignmentEpoch > t.epoch {
		w.failf("assignment epoch", "it is %d, the group epoch %d", t.assignmentEpoch, t.epoch)
	}
	w.checkProcesses()
	if w.plan.Setup.FreeNetwork {
		return
	}
	for _, m := range w.live {
		if !m.exempt() && len(m.running) > 0 {
			w.checkCovered(m)
		}
	}
}

// checkProcesses checks that a process has a task in one role and through one
// member only. A member that turns an active task into a standby has it twice for
// a while. And a static member that returns in another process has at once what it
// had, whatever the others of that process have: that is mended by the next
// reconciliation.
func (w *World) checkProcesses() {
	for i, r := range w.rows {
		for _, o := range w.rows[:i] {
			if r.meta == nil || o.meta == nil || r.replaced || o.replaced || r.meta.ProcessID != o.meta.ProcessID || r.meta.TopologyEpoch != o.meta.TopologyEpoch {
				continue
			}
			for a := range r.held {
				for b := range o.held {
					for _, t := range r.held[a] {
						if slices.Contains(o.held[b], t) || slices.Contains(o.pending[b], t) {
							w.failf("process", "%s and %s of one process both have %v", r.id, o.id, t)
						}
					}
				}
			}
		}
		for a := range r.held {
			for b := range a {
				if twice := common(r.held[a], r.held[b]); len(twice) > 0 {
					w.failf("roles", "%s has %v in two roles", r.id, twice)
				}
			}
		}
	}
}

func common(a, b []topology.TaskID) (out []topology.TaskID) {
	for _, t := range a {
		if slices.Contains(b, t) {
			out = append(out, t)
		}
	}
	return out
}

// checkBudget checks a target that was just computed.
func (w *World) checkBudget() {
	standbys := 0
	for _, c := range w.table.configs {
		if c.Key == "num.standby.replicas" {
			standbys, _ = strconv.Atoi(c.Value)
		}
	}
	count := map[topology.TaskID]int{}
	active := map[topology.TaskID]string{}
	for _, r := range w.rows {
		if r.meta == nil || r.meta.TopologyEpoch != w.table.topologyEpoch {
			continue
		}
		for _, t := range r.target[1] {
			count[t]++
			if count[t] > standbys {
				w.failf("standby budget", "%v has %d standbys in the target, and there may be %d", t, count[t], standbys)
				return
			}
		}
		for _, t := range r.target[0] {
			if active[t] != "" {
				w.failf("target", "%v is active at %s and %s in the target", t, active[t], r.id)
				return
			}
			active[t] = r.id
		}
	}
}

// checkCommit checks a commit that was accepted: nobody else may have the task.
func (w *World) checkCommit(m *member, topic string, partition int32) {
	if w.plan.Setup.FreeNetwork {
		return
	}
	bit := uint64(1) << (slices.Index(worked, topic)*maxPartitions + int(partition))
	for id, r := range w.table.members {
		if id == m.id || r.meta == nil || r.epoch == -2 {
			continue
		}
		if w.versionOf(r.meta.TopologyEpoch).mask(r.held[0])&bit != 0 {
			w.failf("commit", "a commit of %s for %s-%d is accepted, and %s has it", m.name, topic, partition, id)
			return
		}
	}
}

// heard notes a heartbeat that a coordinator took. One that does not know yet that
// it is none any more may take a report, too: nothing depended on it, else it would
// have had to write.
func (n *node) heard(msg *message, resp *kmsg.StreamsGroupHeartbeatResponse, local time.Duration) {
	w, m, req := n.w, msg.m, msg.req
	if resp.ErrorCode != 0 || req.MemberEpoch < 0 {
		return
	}
	if n.owns() {
		m.heardBy, m.heardIn, m.heardAt = n, n.loads, local
		if req.MemberEpoch == 0 {
			m.expired, m.stale = false, false
		}
	}
	if w.plan.Setup.FreeNetwork {
		return
	}
	if req.ActiveTasks != nil {
		m.told = [3][]topology.TaskID{fromWire(req.ActiveTasks), fromWire(req.StandbyTasks), fromWire(req.WarmupTasks)}
		return
	}
	for role := range m.told {
		if len(without(without(msg.confirmed[role], m.told[role]), m.told[0])) > 0 {
			w.failf("delta memory", "%s sends no tasks, and what it told last was %v where it has %v", m.name, m.told, msg.confirmed)
			return
		}
	}
}

// silentSince is when the node last took a heartbeat of the member, or became the
// coordinator.
func (m *member) silentSince(n *node) time.Duration {
	if m.heardBy == n && m.heardIn == n.loads {
		return m.heardAt
	}
	return n.loadedAt
}

// seen notes an event of the coordinator.
func (w *World) seen(n *node, e coordinator.Event) {
	switch e := e.(type) {
	case coordinator.MemberLeft:
		m := w.members[e.Member]
		if m == nil {
			break
		}
		switch e.Cause {
		case coordinator.SessionExpired:
			m.expired = true
			if silent := n.read().Mono - m.silentSince(n); silent < e.After {
				w.failf("session", "%s is out after %v of silence, and its session lasts %v", m.name, silent, e.After)
			}
		case coordinator.RebalanceExpired:
			m.expired = true
			if r := w.table.members[m.id]; r != nil && r.meta != nil {
				w.failf("departure", "%s is out and still in the table", m.name)
			}
		}
	case coordinator.MemberReplaced:
		w.table.row(e.New).replaced = true
	case coordinator.TargetComputed:
		w.computed = true
	case coordinator.AssignmentFailed:
		w.failf("assignor", "it failed: %s", e.Reason)
	case coordinator.EpochBumped:
		w.bumps++
	}
	w.tellCoordinator(e)
}

// checkDecision checks an answer that was decided.
func (w *World) checkDecision(n *node, now coordinator.Now, req *coordinator.Request, resp *kmsg.StreamsGroupHeartbeatResponse) {
	if resp.ErrorCode == kerr.UnknownServerError.Code {
		w.failf("server error", "%s is answered with an unknown server error", req.MemberID)
		return
	}
	if resp.ErrorCode == 0 && req.MemberEpoch == 0 && (resp.ActiveTasks == nil || resp.StandbyTasks == nil || resp.WarmupTasks == nil) {
		w.failf("answer", "%s joins and is given no task lists", req.MemberID)
	}
	w.decisions++
	if w.decisions%w.every != 0 {
		return
	}
	// What replay gives is what is alive, and decides the same.
	again := w.replayed()
	if !bytes.Equal(n.core.AppendState(nil, application, false), again.AppendState(nil, application, false)) {
		w.failf("replay equals live", "the log gives another state than that of %s", n.name)
		return
	}
	again.Handle(now, n.image, req, &n.tryResp, &n.tryFx)
	if delayed(resp) || delayed(&n.tryResp) || w.plan.Setup.Available {
		return // timers and offsets are soft, and it is known what depends on them
	}
	if !slices.EqualFunc(n.fx.Records, n.tryFx.Records, sameRecord) {
		w.failf("soft state", "%s decides %d records and a coordinator that has just loaded %d, or others", n.name, len(n.fx.Records), len(n.tryFx.Records))
	}
}

func delayed(resp *kmsg.StreamsGroupHeartbeatResponse) bool {
	return slices.ContainsFunc(resp.Status, func(s kmsg.StreamsGroupHeartbeatResponseStatus) bool {
		return s.StatusCode == membership.StatusAssignmentDelayed
	})
}

func sameRecord(a, b record.Record) bool {
	return a.RecordKey() == b.RecordKey() && bytes.Equal(record.AppendValue(nil, a), record.AppendValue(nil, b))
}
