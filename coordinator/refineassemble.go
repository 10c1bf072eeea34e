package coordinator

import (
	"maps"
	"slices"
)

// assemble applies the decisions to the target.
func (r *refiner) assemble() refined {
	out := refined{tasks: map[string]roles{}, moving: make(taskList, len(r.moves))}
	change := map[int]*roles{}
	edit := func(i int) *roles {
		if change[i] == nil {
			t := r.members[i].target
			change[i] = &t
		}
		return change[i]
	}
	for i := range r.moves {
		m := &r.moves[i]
		out.moving[i] = m.task
		if m.owner == noMember {
			out.orphans = append(out.orphans, m.task)
		}
		if m.staged == noMember {
			continue
		}
		one := taskList{m.task}
		if m.owner != noMember {
			o := edit(m.owner)
			o.active = o.active.minus(one)
			if m.warmed {
				o.warmup = o.warmup.plus(one)
			}
		}
		s := edit(m.staged)
		s.active = s.active.plus(one)
		if m.borrowed != noMember {
			b := edit(m.borrowed)
			b.standby = b.standby.plus(one)
		}
		for _, d := range r.heldBack(m) {
			e := edit(d)
			e.standby = e.standby.minus(one)
		}
	}
	for _, i := range slices.Sorted(maps.Keys(change)) {
		if t := *change[i]; !t.equal(r.members[i].target) {
			out.tasks[r.members[i].id] = t
		}
	}
	if len(out.tasks) == 0 {
		out.tasks = nil
	}
	return out
}

// heldBack are the target standbys of a staged task that have to wait: those in
// the process that runs it for now, and one in place of a borrowed standby, which
// counts as one of the task's.
func (r *refiner) heldBack(m *move) []int {
	var out []int
	at := r.process[m.staged]
	for _, i := range m.standbys {
		if r.process[i] == at {
			out = append(out, i)
		}
	}
	if m.borrowed == noMember || len(out) > 0 {
		return out
	}
	for _, i := range m.standbys {
		// Members are ascending, so this is the smallest id.
		if p := r.process[i]; !slices.ContainsFunc(m.copies, func(c int) bool { return r.process[c] == p }) {
			return append(out, i)
		}
	}
	return out
}

// sameActive is whether an assignment has exactly the active tasks of the target,
// each once, and those that no target names.
func (in *refineInput) sameActive(out refined) bool {
	want, got := slices.Clone(out.orphans), taskList(nil)
	for i := range in.members {
		m := &in.members[i]
		if t, ok := out.tasks[m.id]; ok {
			want, got = append(want, m.target.active...), append(got, t.active...)
		}
	}
	return slices.Equal(want.sorted(), got.sorted())
}
