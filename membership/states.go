package membership

import "slices"

// permitted lists, per state, the states that it may be entered from. Staying in
// a state is always permitted.
var permitted = map[State][]State{
	Unsubscribed:   {PrepareLeaving, Leaving, Fenced, Stale},
	Joining:        {Unsubscribed, Fenced, Stale},
	Reconciling:    {Joining, StateStable, Acknowledging},
	Acknowledging:  {Reconciling},
	StateStable:    {Joining, Reconciling, Acknowledging},
	Fenced:         {Joining, StateStable, Reconciling, Acknowledging, PrepareLeaving, Leaving},
	PrepareLeaving: {Joining, StateStable, Reconciling, Acknowledging, Unsubscribed},
	Leaving:        {PrepareLeaving},
	Stale:          {Leaving},
	Fatal:          {Unsubscribed, Joining, StateStable, Reconciling, Acknowledging, PrepareLeaving, Leaving},
}

// to moves to another state. A transition that is not permitted leaves the state as
// it is and is reported: it is a defect of this package.
func (m *Member) to(next State) {
	if m.state == next {
		return
	}
	if !slices.Contains(permitted[next], m.state) {
		m.report(m.problem(nil, "an internal error: the transition from "+m.state.String()+" to "+next.String()+" is forbidden", "please report it"))
		return
	}
	from := m.state
	m.state = next
	m.disowned = m.disowned && next.live() // else the tasks are being lost anyway
	m.event(StateChanged{From: from, To: next, Epoch: m.epoch})
	if next == Joining {
		m.dropPass() // a callback of the former membership counts for nothing
	}
}

// inGroup is whether the member is, or asks to be, in the group.
func (s State) inGroup() bool {
	switch s {
	case Unsubscribed, Fenced, Fatal, Stale:
		return false
	}
	return true
}

// live is whether the member is in the group and not on its way out.
func (s State) live() bool {
	switch s {
	case Joining, Reconciling, Acknowledging, StateStable:
		return true
	}
	return false
}
