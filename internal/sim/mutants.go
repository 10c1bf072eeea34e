package sim

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Mutants are wrong variants of the coordinator, the member and their drivers. One
// that the simulation does not find shows that an invariant is missing.
func Mutants() []Mutant { return slices.Concat(coordinatorMutants(), driverMutants(), memberMutants()) }

// current changes the current assignments among records.
func current(fx *coordinator.Effects, change func(c *record.CurrentAssignment)) {
	for i, r := range fx.Records {
		if c, ok := r.(*record.CurrentAssignment); ok {
			copied := *c
			change(&copied)
			fx.Records[i] = &copied
		}
	}
}

// addActive adds active tasks to a record.
func addActive(c *record.CurrentAssignment, tasks []topology.TaskID) {
	c.Active = slices.Clone(c.Active)
	for _, t := range tasks {
		c.Active = append(c.Active, record.ActiveTaskIDs{Subtopology: t.Subtopology, Partitions: []int32{t.Partition}, Epochs: []int32{c.MemberEpoch}})
	}
}

func withoutPending(r record.Record) record.Record {
	c, ok := r.(*record.CurrentAssignment)
	if !ok {
		return r
	}
	copied := *c
	copied.ActivePendingRevocation = nil
	return &copied
}

// dropping leaves records of one kind out.
func dropping[T record.Record](_ *World, _ int, r record.Record) record.Record {
	if _, ok := r.(T); ok {
		return nil
	}
	return r
}

func coordinatorMutants() []Mutant {
	return []Mutant{
		{Name: "grants a task before it is released", Seed: 2, Decision: func(w *World, m *member, _ *coordinator.Effects, resp *kmsg.StreamsGroupHeartbeatResponse) {
			if r := w.table.members[m.id]; r != nil && resp.ActiveTasks != nil {
				resp.ActiveTasks = toWire(append(fromWire(resp.ActiveTasks), without(r.target[0], fromWire(resp.ActiveTasks))...))
			}
		}},
		{Name: "writes down a grant before the task is released", Seed: 2, Decision: func(w *World, _ *member, fx *coordinator.Effects, _ *kmsg.StreamsGroupHeartbeatResponse) {
			current(fx, func(c *record.CurrentAssignment) {
				if r := w.table.members[c.Member]; r != nil {
					addActive(c, without(r.target[0], activeTasksOf(c.Active)))
				}
			})
		}},
		{Name: "takes tasks away without asking", Seed: 1, Decision: func(_ *World, _ *member, fx *coordinator.Effects, _ *kmsg.StreamsGroupHeartbeatResponse) {
			current(fx, func(c *record.CurrentAssignment) { c.ActivePendingRevocation = nil })
		}},
		{Name: "drops pending revocations when the group moves", Seed: 2, Replay: func(_ *World, _ int, r record.Record) record.Record { return withoutPending(r) }},
		{Name: "does not write pending revocations down", Seed: 2, Append: func(_ *World, r record.Record) record.Record { return withoutPending(r) }},
		{Name: "takes silence for an acknowledgement", Seed: 1, Request: func(_ *World, _ *member, req *kmsg.StreamsGroupHeartbeatRequest) {
			if req.MemberEpoch > 0 && req.ActiveTasks == nil {
				req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
			}
		}},
		{Name: "does not compare member epochs", Seed: 80, Request: func(w *World, m *member, req *kmsg.StreamsGroupHeartbeatRequest) {
			if r := w.table.members[m.id]; r != nil && req.MemberEpoch > 0 {
				req.MemberEpoch = r.epoch
			}
		}, UnorderedNetwork: true},
		{Name: "gives no tasks to who joins again", Seed: 391, Decision: func(_ *World, _ *member, fx *coordinator.Effects, resp *kmsg.StreamsGroupHeartbeatResponse) {
			if resp.MemberEpoch > 0 && len(fx.Records) == 0 {
				resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks = nil, nil, nil
			}
		}},
		{Name: "leaves the tasks out of answers", Seed: 1, Decision: func(_ *World, m *member, _ *coordinator.Effects, resp *kmsg.StreamsGroupHeartbeatResponse) {
			if m.rnd.one(10) && m.core.State() != membership.Joining {
				resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks = nil, nil, nil
			}
		}},
		{Name: "loses targets when the group moves", Seed: 1, Replay: dropping[*record.TargetAssignment]},
		{Name: "loses current assignments when the group moves", Seed: 1, Replay: dropping[*record.CurrentAssignment]},
		{Name: "loses the topology when the group moves", Seed: 1, Replay: dropping[*record.Topology]},
		{Name: "forgets group epochs when the group moves", Seed: 1, Replay: func(w *World, i int, r record.Record) record.Record {
			g, ok := r.(*record.GroupMetadata)
			if !ok || i < len(w.log)/2 {
				return r
			}
			copied := *g
			copied.Epoch = 1
			return &copied
		}},
		{Name: "does not write down who has gone", Seed: 1, Append: func(_ *World, r record.Record) record.Record {
			if _, gone := r.(record.Tombstone); gone && r.RecordKey().Type == record.TypeMemberMetadata {
				return nil
			}
			return r
		}},
		{Name: "puts members ahead of the group", Seed: 1, Decision: func(_ *World, _ *member, fx *coordinator.Effects, _ *kmsg.StreamsGroupHeartbeatResponse) {
			current(fx, func(c *record.CurrentAssignment) { c.MemberEpoch++ })
		}},
		{Name: "gives out more standbys than there may be", Seed: 1, Decision: func(_ *World, _ *member, fx *coordinator.Effects, _ *kmsg.StreamsGroupHeartbeatResponse) {
			var all []record.TaskIDs
			for _, r := range fx.Records {
				if t, ok := r.(*record.TargetAssignment); ok {
					all = append(all, t.Active...)
				}
			}
			for i, r := range fx.Records {
				if t, ok := r.(*record.TargetAssignment); ok {
					copied := *t
					copied.Standby = all
					fx.Records[i] = &copied
				}
			}
		}},
		{Name: "gives tasks to members with an outdated topology", Seed: 2, Decision: func(w *World, m *member, fx *coordinator.Effects, _ *kmsg.StreamsGroupHeartbeatResponse) {
			current(fx, func(c *record.CurrentAssignment) {
				if r := w.table.members[c.Member]; r != nil && r.meta != nil && r.meta.TopologyEpoch < w.table.topologyEpoch {
					c.Standby = append(slices.Clone(c.Standby), record.TaskIDs{Subtopology: m.p.version.topo.Subtopologies()[0], Partitions: []int32{maxPartitions - 1}})
				}
			})
		}},
		{Name: "lets one process have a task twice", Seed: 1, Decision: func(_ *World, _ *member, fx *coordinator.Effects, _ *kmsg.StreamsGroupHeartbeatResponse) {
			current(fx, func(c *record.CurrentAssignment) {
				for _, t := range c.Active {
					c.Standby = append(slices.Clone(c.Standby), record.TaskIDs{Subtopology: t.Subtopology, Partitions: t.Partitions})
				}
			})
		}},
		{Name: "takes a fenced static member for another one", Seed: 429, Response: func(m *member, msg *message, resp *kmsg.StreamsGroupHeartbeatResponse) bool {
			fenced, _ := m.mutation.(bool)
			if fenced && msg.req.InstanceID != nil && msg.req.MemberEpoch == 0 && resp.ErrorCode == 0 {
				resp.ErrorCode = kerr.UnreleasedInstanceID.Code
			}
			m.mutation = resp.ErrorCode == kerr.FencedMemberEpoch.Code
			return true
		}},
		{Name: "accepts everybody's commits", Seed: 58, AcceptCommits: true},
		{Name: "does not watch sessions after a move", Seed: 5, ForgetTimers: true},
		{Name: "never ends a session", Seed: 1, NoTicks: true},
		{Name: "ends sessions early", Seed: 2, HastyTicks: 2 * time.Second},
	}
}

func driverMutants() []Mutant {
	return []Mutant{
		{Name: "answers before the records are on disk", Seed: 1228, AnswerEarly: true},
		{Name: "goes on writing after the group has moved", Seed: 135, WriteAsNobody: true},
		{Name: "applies what could not be written", Seed: 9, ApplyAnyway: true},
		{Name: "does not wait for what was sent on an abandoned connection", Seed: 391, UnorderedNetwork: true},
		{Name: "takes the answer to an older request for the newest", Seed: 46, Response: func(m *member, _ *message, resp *kmsg.StreamsGroupHeartbeatResponse) bool {
			last, _ := m.mutation.(*kmsg.StreamsGroupHeartbeatResponse)
			m.mutation = resp
			if last != nil && last.ErrorCode == 0 && m.rnd.one(8) {
				copied := *resp
				*resp = *last
				m.mutation = &copied
			}
			return true
		}},
		{Name: "keeps bad news from the member", Seed: 9, Response: func(_ *member, _ *message, resp *kmsg.StreamsGroupHeartbeatResponse) bool {
			return resp.ErrorCode != kerr.UnknownMemberID.Code && resp.ErrorCode != kerr.FencedMemberEpoch.Code
		}},
		{Name: "gives two members one id", Seed: 3, OneID: true},
		{Name: "commits for tasks that are given up", Seed: 1, CommitLate: true},
	}
}

// saidLists are the lists of tasks that a member has sent last, and whether the last
// answer was a good one.
type saidLists struct {
	lists [3][]topology.TaskID
	heard bool
}

func memberMutants() []Mutant {
	return []Mutant{
		{Name: "acknowledges without calling back", Seed: 2, Callback: func(m *member, cb membership.Callback) {
			if cb.Kind == membership.TasksRevoked {
				m.core.CallbackDone(m.p.read(), cb.ID, nil)
			}
		}},
		{Name: "joins again before its tasks are gone", Seed: 2, Callback: func(m *member, cb membership.Callback) {
			if cb.Kind == membership.TasksLost {
				m.core.CallbackDone(m.p.read(), cb.ID, nil)
			}
		}},
		{Name: "reports only what was confirmed", Seed: 43, ReportConfirmed: true},
		{Name: "reports its target at once", Seed: 31, Effects: func(m *member, fx *membership.Effects) {
			if h := fx.Heartbeat; h != nil && h.ActiveTasks != nil && h.MemberEpoch > 0 {
				h.ActiveTasks = toWire(m.target)
			}
		}},
		{Name: "does not repeat its report after a failure", Seed: 2, Effects: func(m *member, fx *membership.Effects) {
			h := fx.Heartbeat
			if h == nil || h.MemberEpoch <= 0 || h.ActiveTasks == nil {
				return
			}
			if last, ok := m.mutation.([]topology.TaskID); ok && slices.Equal(last, fromWire(h.ActiveTasks)) {
				h.ActiveTasks, h.StandbyTasks, h.WarmupTasks = nil, nil, nil
				return
			}
			m.mutation = fromWire(h.ActiveTasks)
		}},
		{Name: "leaves out lists that it has sent before", Seed: 179, Effects: func(m *member, fx *membership.Effects) {
			h := fx.Heartbeat
			if h == nil {
				return
			}
			said, _ := m.mutation.(*saidLists)
			if said == nil {
				said = &saidLists{}
				m.mutation = said
			}
			if h.MemberEpoch <= 0 {
				*said = saidLists{}
			}
			if h.MemberEpoch <= 0 || h.ActiveTasks == nil {
				return
			}
			lists := [3][]topology.TaskID{fromWire(h.ActiveTasks), fromWire(h.StandbyTasks), fromWire(h.WarmupTasks)}
			same := true
			for role := range lists {
				same = same && slices.Equal(lists[role], said.lists[role])
			}
			if same && said.heard {
				h.ActiveTasks, h.StandbyTasks, h.WarmupTasks = nil, nil, nil
			}
			said.lists = lists
		}, Response: func(m *member, _ *message, resp *kmsg.StreamsGroupHeartbeatResponse) bool {
			if said, ok := m.mutation.(*saidLists); ok {
				said.heard = resp.ErrorCode == 0
			}
			return true
		}},
		{Name: "does not repeat offsets after a move", Seed: 1766, Effects: func(m *member, fx *membership.Effects) {
			h := fx.Heartbeat
			if h == nil || h.MemberEpoch <= 0 {
				return
			}
			last, _ := m.mutation.([2][]kmsg.TaskOffset)
			for i, list := range []*[]kmsg.TaskOffset{&h.TaskOffsets, &h.TaskEndOffsets} {
				if *list != nil && slices.EqualFunc(*list, last[i], func(a, b kmsg.TaskOffset) bool {
					return a.SubtopologyID == b.SubtopologyID && a.Partition == b.Partition && a.Offset == b.Offset
				}) {
					*list = nil
				} else if *list != nil {
					last[i] = *list
				}
			}
			m.mutation = last
		}},
		{Name: "forgets tasks in its reports", Seed: 2, Effects: func(m *member, fx *membership.Effects) {
			if h := fx.Heartbeat; h != nil && len(h.ActiveTasks) > 0 && m.rnd.one(4) {
				h.ActiveTasks = h.ActiveTasks[1:]
			}
		}},
		{Name: "reports one list of three", Seed: 1, Effects: func(_ *member, fx *membership.Effects) {
			if h := fx.Heartbeat; h != nil && h.MemberEpoch > 0 {
				h.StandbyTasks = nil
			}
		}},
		{Name: "leaves before its tasks are given up", Seed: 9, Effects: func(m *member, fx *membership.Effects) {
			if h := fx.Heartbeat; h != nil && h.MemberEpoch > 0 && m.core.State() == membership.PrepareLeaving {
				h.MemberEpoch = -1
			}
		}},
		{Name: "sends a heartbeat after every answer", Seed: 1, Response: func(m *member, _ *message, _ *kmsg.StreamsGroupHeartbeatResponse) bool {
			m.core.ForceHeartbeat()
			return true
		}},
		{Name: "is an epoch ahead", Seed: 1, Effects: func(_ *member, fx *membership.Effects) {
			if h := fx.Heartbeat; h != nil && h.MemberEpoch > 0 {
				h.MemberEpoch++
			}
		}},
	}
}
