package assignor

import (
	"math"

	"github.com/streamsgroup/streamsgroup/topology"
)

// judge knows what a group looked like before.
type judge struct {
	g        *Group
	stateful map[topology.TaskID]bool // every task of the topology
	process  map[string]string        // by member
	capacity map[string]float64       // by process

	owners map[topology.TaskID][]string           // before
	held   map[topology.TaskID]map[string]bool    // before: by process, in any role
	offset map[topology.TaskID]map[string]float64 // best report by process
}

func newJudge(g *Group) *judge {
	j := &judge{
		g: g, stateful: map[topology.TaskID]bool{}, process: map[string]string{}, capacity: map[string]float64{},
		owners: map[topology.TaskID][]string{}, held: map[topology.TaskID]map[string]bool{}, offset: map[topology.TaskID]map[string]float64{},
	}
	for _, s := range g.Subtopologies {
		for p := range s.Tasks {
			id := topology.TaskID{Subtopology: s.ID, Partition: p}
			j.stateful[id], j.held[id], j.offset[id] = s.Stateful, map[string]bool{}, map[string]float64{}
		}
	}
	for i := range g.Members {
		m := &g.Members[i]
		j.process[m.ID] = m.ProcessID
		j.capacity[m.ProcessID]++
		for role, set := range []TaskSet{m.Prior.Active, m.Prior.Standby, m.Prior.Warmup} {
			for _, id := range set {
				if _, ok := j.stateful[id]; !ok {
					continue
				}
				j.held[id][m.ProcessID] = true
				if role == 0 {
					j.owners[id] = append(j.owners[id], m.ID)
				}
			}
		}
		for id, n := range m.Offsets {
			if n == math.MaxInt64 {
				n = 0 // something is there, but nobody knows how old
			}
			if _, ok := j.stateful[id]; ok {
				j.offset[id][m.ProcessID] = max(j.offset[id][m.ProcessID], float64(n))
			}
		}
	}
	return j
}

func (j *judge) hasState(id topology.TaskID, process string) bool {
	_, reported := j.offset[id][process]
	return reported || j.held[id][process]
}

func (j *judge) someoneHasState(id topology.TaskID) bool {
	return len(j.offset[id])+len(j.held[id]) > 0
}

// quality computes the numbers by which assignments are compared.
func quality(g *Group, a Assignment) map[string]float64 {
	j := newJudge(g)
	q := map[string]float64{}
	for name := range lowerIsBetter {
		q[name] = 0
	}
	j.counts(q, a)
	j.moves(q, a)
	return q
}

// spread keeps the extremes of a number.
type spread struct {
	q        map[string]float64
	min, max string
	seen     bool
}

func (s *spread) add(n float64) {
	if !s.seen || n < s.q[s.min] {
		s.q[s.min] = n
	}
	if !s.seen || n > s.q[s.max] {
		s.q[s.max] = n
	}
	s.seen = true
}

func (j *judge) counts(q map[string]float64, a Assignment) {
	active, total := map[string]float64{}, map[string]float64{}
	perMember := spread{q: q, min: "active_min_per_member", max: "active_max_per_member"}
	statefulPerMember := spread{q: q, min: "stateful_min_per_member", max: "stateful_max_per_member"}
	totalPerMember := spread{q: q, min: "total_min_per_member", max: "total_max_per_member"}
	for _, m := range j.g.Members {
		stateful := 0.0
		for _, id := range a[m.ID].Active {
			if j.stateful[id] {
				stateful++
			}
		}
		n, s := float64(size(a[m.ID].Active)), float64(size(a[m.ID].Standby))
		perMember.add(n)
		statefulPerMember.add(stateful)
		totalPerMember.add(n + s)
		active[m.ProcessID] += n
		total[m.ProcessID] += n + s
	}
	perProcess := spread{q: q, min: "active_min_per_process", max: "active_max_per_process"}
	load := spread{q: q, min: "active_load_min", max: "active_load_max"}
	totalLoad := spread{q: q, min: "total_load_min", max: "total_load_max"}
	for p, c := range j.capacity {
		perProcess.add(active[p])
		load.add(round4(active[p] / c))
		totalLoad.add(round4(total[p] / c))
	}
}

func (j *judge) moves(q map[string]float64, a Assignment) {
	standbys := map[topology.TaskID]float64{}
	for _, m := range j.g.Members {
		mine := map[topology.TaskID]bool{}
		for _, id := range a[m.ID].Active {
			mine[id] = true
			j.judgeActive(q, id, m.ID)
		}
		for _, id := range a[m.ID].Standby {
			mine[id] = true
			standbys[id]++
			q["standby_placed"]++
			if !j.hasState(id, m.ProcessID) {
				q["cold_standby"]++
			}
		}
		for _, id := range m.Prior.Standby {
			if _, ok := j.stateful[id]; ok && !mine[id] {
				q["standby_moved"]++
			}
		}
	}
	wanted := float64(j.g.StandbyReplicas)
	for id, stateful := range j.stateful {
		if stateful {
			q["standby_missing"] += wanted - standbys[id]
			q["standby_short"] += max(0, min(wanted, float64(len(j.capacity)-1))-standbys[id])
		}
	}
}

func (j *judge) judgeActive(q map[string]float64, id topology.TaskID, member string) {
	process := j.process[member]
	owners := j.owners[id]
	if len(owners) > 0 {
		sameMember, sameProcess := false, false
		for _, o := range owners {
			sameMember = sameMember || o == member
			sameProcess = sameProcess || j.process[o] == process
		}
		if !sameMember {
			q["moved_active"]++
			if j.stateful[id] {
				q["moved_stateful_active"]++
			}
		}
		if !sameProcess {
			q["moved_active_process"]++
			if j.stateful[id] {
				q["moved_stateful_process"]++
			}
		}
	}
	if !j.stateful[id] {
		return
	}
	if !j.hasState(id, process) && j.someoneHasState(id) {
		q["cold_active"]++
	}
	if len(owners) == 0 {
		mine := j.offset[id][process]
		for _, n := range j.offset[id] {
			if n > mine {
				q["older_active"]++
				break
			}
		}
	}
}
