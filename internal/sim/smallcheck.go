package sim

import (
	"fmt"

	"github.com/streamsgroup/streamsgroup/membership"
)

// Check is the invariant of all states.
func (m *smallModel) Check(s small) error {
	g := m.groups.all[s.group]
	if g.err != nil {
		return g.err
	}
	var works uint64
	for _, k := range s.members {
		x := m.members.all[k]
		if x == nil || x.core == nil {
			continue
		}
		if x.err != nil {
			return fmt.Errorf("%s: %w", x.id, x.err)
		}
		if x.expired || x.works == 0 || m.scope.Copies > 0 {
			continue
		}
		if x.works&works != 0 {
			return fmt.Errorf("two workers: %s and another both work on %s", x.id, describeMask(x.works&works))
		}
		works |= x.works
		for _, task := range x.running {
			if !g.table.members[x.id].has(task) {
				return fmt.Errorf("coverage: %s runs %v, and the coordinator does not know", x.id, task)
			}
		}
	}
	return nil
}

// Rest is the invariant of states in which nothing more happens by itself: every
// task runs once.
func (m *smallModel) Rest(s small) error {
	if m.scope.Copies > 0 {
		return nil
	}
	var works, stale uint64
	v := scopeVersions[m.scope.Family][s.version]
	up := false
	for _, k := range s.members {
		x := m.members.all[k]
		if x == nil || x.core == nil {
			continue
		}
		if x.core.State() != membership.StateStable {
			return fmt.Errorf("liveness: %s rests in state %v", x.id, x.core.State())
		}
		if len(x.confirmed[2]) > 0 {
			return fmt.Errorf("liveness: the warm-up of %v at %s never ends", x.confirmed[2], x.id)
		}
		works |= x.works
		if up = up || x.version == v; x.version != v {
			stale |= x.works
		}
	}
	if !up {
		return nil
	}
	for _, topics := range v.works {
		for p := range m.scope.Tasks {
			want := uint64(0)
			for _, topic := range topics {
				want |= 1 << (topic*maxPartitions + p)
			}
			// What a member with an older topology works on is left to it.
			if want&^works != 0 && want&stale == 0 {
				return fmt.Errorf("liveness: nobody works on %s", describeMask(want&^works))
			}
		}
	}
	return nil
}
