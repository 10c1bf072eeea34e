package coordinator

import (
	"cmp"
	"maps"
	"slices"

	"github.com/streamsgroup/streamsgroup/coordinator/assignor"
	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/topology"
)

// held are the tasks that the member keeps from others: those it works on and
// those it has not given up yet.
func (m *member) held() roles { return m.cur.assigned.plus(m.cur.pending) }

// prior is what an assignor sees of tasks that somebody has.
func (r roles) prior() assignor.Tasks {
	return assignor.Tasks{Active: listToSet(r.active), Standby: listToSet(r.standby), Warmup: listToSet(r.warmup)}
}

// holdings say who holds which tasks. Task ids mean something only within one
// topology, so tasks are filed by the topology epoch of those who hold them: an
// update of the topology moves nothing in here. Almost always there is one
// epoch.
type holdings []*filing // ascending by epoch

// filing are the holdings under one topology epoch.
type filing struct {
	ownerIndex
	epoch   int32
	members int // filed here, with and without tasks
	// away are the active tasks of static members that have left for a moment:
	// kept for them, but not worked on.
	away map[topology.TaskID]struct{}
}

func (h holdings) find(epoch int32) (int, bool) {
	return slices.BinarySearchFunc(h, epoch, func(f *filing, epoch int32) int { return cmp.Compare(f.epoch, epoch) })
}

// at returns the filing of an epoch, nil if nobody is filed there.
func (h holdings) at(epoch int32) *filing {
	if i, ok := h.find(epoch); ok {
		return h[i]
	}
	return nil
}

// filingEpoch is where the member's tasks belong. Kafka gives members of all
// topology epochs the same tasks.
func (g *group) filingEpoch(topologyEpoch int32) int32 {
	if g.policy == Kafka {
		return 0
	}
	return topologyEpoch
}

// file adds a member and its tasks under the epoch.
func (g *group) file(m *member, epoch int32) {
	i, ok := g.owners.find(epoch)
	if !ok {
		g.owners = slices.Insert(g.owners, i, &filing{epoch: epoch, ownerIndex: newOwnerIndex()})
	}
	f := g.owners[i]
	f.members++
	held := m.held()
	f.add(m.meta.ProcessID, held)
	if m.cur.epoch == absent {
		for _, t := range held.active {
			if f.away == nil {
				f.away = map[topology.TaskID]struct{}{}
			}
			f.away[t] = struct{}{}
		}
	}
	m.filed = epoch
	if len(g.owners) > 1 {
		g.owners.dropEmpty()
	}
}

// unfile takes a member and its tasks out. Drop empty filings when that is all
// that happens.
func (g *group) unfile(m *member) {
	f := g.owners.at(m.filed)
	f.members--
	held := m.held()
	f.remove(m.meta.ProcessID, held)
	if m.cur.epoch == absent {
		for _, t := range held.active {
			delete(f.away, t)
		}
		if len(f.away) == 0 {
			f.away = nil
		}
	}
}

func (h *holdings) dropEmpty() {
	*h = slices.DeleteFunc(*h, func(f *filing) bool { return f.members == 0 })
}

// fileAll files all members anew: records that compaction has left in an odd
// order may have filed tasks under an epoch that is not that of their holder.
func (g *group) fileAll() {
	g.owners = nil
	for _, id := range g.memberIDs() {
		m := g.members[id]
		g.file(m, g.filingEpoch(m.meta.TopologyEpoch))
	}
}

func (h holdings) clone() holdings {
	if len(h) == 0 {
		return nil
	}
	out := make(holdings, len(h))
	for i, f := range h {
		c := *f
		c.ownerIndex = f.clone()
		c.away = maps.Clone(f.away)
		out[i] = &c
	}
	return out
}

// ownership answers whether a task can be granted in a role to a member of the
// process that has the tasks a.
type ownership interface {
	activeTaken(t topology.TaskID, process string, a roles) bool
	standbyTaken(t topology.TaskID, process string, a roles) bool
	warmupTaken(t topology.TaskID, process string, a roles) bool
	// holders are the processes that must let go first, ascending.
	holders(role Role, t topology.TaskID, process string) []string
	// conflicts are those who work on the topics of an active task under another
	// id and an older topology.
	conflicts(t topology.TaskID) []Conflict
}

// ownership is how the holdings look to the member of this heartbeat, in terms
// of the group's topology.
func (h *heartbeat) ownership() ownership {
	own, others := &ownerIndex{}, 0
	for _, f := range h.g.owners {
		if f.epoch == h.g.filingEpoch(h.topologyEpoch()) {
			own = &f.ownerIndex
		} else {
			others++
		}
	}
	if others == 0 {
		return own
	}
	x := &ownersAcross{ownerIndex: own}
	for _, f := range h.g.owners {
		if &f.ownerIndex != own {
			x.older = append(x.older, olderOwners{f, h.successionOf(f.epoch), h.vacated(f.epoch)})
		}
	}
	return x
}

func (h *heartbeat) topologyEpoch() int32 {
	if h.topology == nil {
		return h.meta.TopologyEpoch
	}
	return h.topology.Epoch
}

// ownersAcross are the owners of a group in which some members still run an older
// topology. A task of the group's topology is taken if somebody holds it under
// the id that it had there. It is also taken while somebody works on the same
// topics in another task: two topology epochs must not read one partition, nor
// write one changelog.
type ownersAcross struct {
	*ownerIndex
	older []olderOwners
}

type olderOwners struct {
	*filing
	*succession
	// vacated are the tasks that the member of this heartbeat itself held and
	// does not run any more.
	vacated roles
}

func (x *ownersAcross) activeTaken(t topology.TaskID, process string, a roles) bool {
	if x.ownerIndex.activeTaken(t, process, a) {
		return true
	}
	for i := range x.older {
		o := &x.older[i]
		if was, ok := o.predecessor(t); ok {
			if _, taken := o.holder(was); taken {
				return true
			}
		}
		if o.copyAt(t, process) {
			return true
		}
		for was := range o.rivals(t) {
			if o.works(was) {
				return true
			}
		}
	}
	return false
}

func (x *ownersAcross) standbyTaken(t topology.TaskID, process string, a roles) bool {
	return x.ownerIndex.standbyTaken(t, process, a) || x.olderAt(t, process)
}

func (x *ownersAcross) warmupTaken(t topology.TaskID, process string, a roles) bool {
	return x.ownerIndex.warmupTaken(t, process, a) || x.olderAt(t, process)
}

// olderAt is whether a member of the process with an older topology has the task
// in some role.
func (x *ownersAcross) olderAt(t topology.TaskID, process string) bool {
	for i := range x.older {
		o := &x.older[i]
		if was, ok := o.predecessor(t); ok {
			if p, taken := o.holder(was); taken && p == process {
				return true
			}
		}
		if o.copyAt(t, process) {
			return true
		}
	}
	return false
}

func (x *ownersAcross) holders(role Role, t topology.TaskID, process string) []string {
	out := x.ownerIndex.holders(role, t, process)
	for i := range x.older {
		o := &x.older[i]
		if was, ok := o.predecessor(t); ok {
			if p, taken := o.holder(was); taken && (role == Active || p == process) {
				out = append(out, p)
			}
		}
		if o.copyAt(t, process) {
			out = append(out, process)
		}
		if role != Active {
			continue
		}
		for was := range o.rivals(t) {
			if o.works(was) {
				out = append(out, o.active[was])
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// conflicts say who works on the topics of an active task in another task.
func (x *ownersAcross) conflicts(t topology.TaskID) []Conflict {
	var out []Conflict
	for i := range x.older {
		o := &x.older[i]
		for was, topics := range o.rivals(t) {
			if o.works(was) {
				out = append(out, Conflict{Task: t, Holder: o.active[was], TopologyEpoch: o.filing.epoch, As: was, Topics: topics})
			}
		}
	}
	return out
}

// holder is the process that holds an active task of the older topology.
func (o *olderOwners) holder(was topology.TaskID) (process string, ok bool) {
	if o.vacated.active.has(was) {
		return "", false
	}
	process, ok = o.active[was]
	return process, ok
}

// works is whether somebody works on an active task of the older topology. A
// static member that is absent cannot come back with that topology.
func (o *olderOwners) works(was topology.TaskID) bool {
	_, taken := o.holder(was)
	_, gone := o.away[was]
	return taken && !gone
}

// copyAt is whether a member of the process follows the task's changelogs under
// an older topology.
func (o *olderOwners) copyAt(t topology.TaskID, process string) bool {
	was, ok := o.predecessorCopy(t)
	return ok && (o.standbyAt(was, process) && !o.vacated.standby.has(was) ||
		o.warmupAt(was, process) && !o.vacated.warmup.has(was))
}

// conflicts of members with one topology do not exist: each topic has one reader.
func (x *ownerIndex) conflicts(topology.TaskID) []Conflict { return nil }

func (x *ownerIndex) clone() ownerIndex {
	return ownerIndex{maps.Clone(x.active), cloneLists(x.standby), cloneLists(x.warmup)}
}

// refile gives a member new metadata. Its tasks stay filed under the topology
// epoch that they were granted under until its current assignment is written
// anew: by a new topology epoch alone, their ids would come to mean something
// else. Only of a member whose metadata was not known is that epoch learned now.
func (g *group) refile(m *member, meta *record.MemberMetadata) {
	unknown := m.meta.TopologyEpoch == noTopologyEpoch
	if !unknown && m.meta.ProcessID == meta.ProcessID {
		m.meta = meta
		return
	}
	epoch := m.filed
	if unknown {
		epoch = g.filingEpoch(meta.TopologyEpoch)
	}
	g.unfile(m)
	m.meta = meta
	g.file(m, epoch)
}

// noTopologyEpoch is that of a member of which nothing is known yet.
const noTopologyEpoch int32 = -1
