package assignor

// HighlyAvailable places tasks where their state is. It starts from the rules of
// [Sticky] and decides better where those lose state or leave a member idle for
// no gain:
//
//   - counts are even per process as well as per member, so that a process of
//     many members gets its share;
//   - a task that has to leave its owner stays on the owner's disk if a sibling
//     has room, else goes to a member that has a copy; a member that has to give
//     tasks up gives those that somebody else has copies of;
//   - a task without an owner goes to its newest copy, not to the lightest one;
//   - standbys that exist are kept before new ones are placed.
//
// Its result is a target: the coordinator moves stateful tasks there by way of
// warm-up tasks. It is safe for concurrent use.
type HighlyAvailable struct{ priorTarget bool }

// HighlyAvailableOpt configures a [HighlyAvailable].
type HighlyAvailableOpt interface{ applyHighlyAvailable(*HighlyAvailable) }

// NewHighlyAvailable returns the assignor.
func NewHighlyAvailable(opts ...HighlyAvailableOpt) *HighlyAvailable {
	h := &HighlyAvailable{priorTarget: true}
	for _, o := range opts {
		o.applyHighlyAvailable(h)
	}
	return h
}

// Name returns "highly_available".
func (*HighlyAvailable) Name() string { return "highly_available" }

// WarmsUp returns true.
func (*HighlyAvailable) WarmsUp() bool { return true }

// Assign computes the assignment. Every member has an entry. The error is
// [ErrNoMembers] or an [*InputError]. Stale members may leave tasks without an
// owner: see [Shortages].
func (h *HighlyAvailable) Assign(g *Group) (Assignment, error) {
	x, err := newIndex(g)
	if err != nil {
		return nil, err
	}
	if len(x.members) == 0 && x.tasks > 0 {
		return nil, ErrNoMembers
	}
	return h.run(x).assignment(), nil
}

func (h *HighlyAvailable) run(x *index) *run {
	r := newRun(x, newPriors(x, priorRules{
		warmupsCount: true, unknownIsNoOffset: true, priorTargetDecides: h.priorTarget, compare: compareNewest,
	}))
	r.promise()
	r.place(statefulOnly)
	r.forgetPromise()
	r.place(statelessOnly)
	if r.slots > 0 {
		r.placeStandbys()
	}
	return r
}
