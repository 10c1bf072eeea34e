package assignor

// Sticky keeps tasks where they are and counts even. It is Kafka's assignor of
// the same name, with a rule for every tie and with what is described at
// [StrictKafka]. It is safe for concurrent use.
type Sticky struct {
	strict      bool
	priorTarget bool
}

// StickyOpt configures a [Sticky].
type StickyOpt interface{ apply(*Sticky) }

type stickyOpt func(*Sticky)

func (o stickyOpt) apply(s *Sticky) { o(s) }

// StrictKafka makes decisions that Apache Kafka 4.4 could have made as well,
// for comparisons with a real broker. Without it the assignor differs in what
// Kafka has under development, and where Kafka's choice is a defect:
//
//   - stateful and stateless active tasks are counted apart, so that neither
//     gathers on a few members;
//   - a warm-up counts as a standby, so that restored state is not lost;
//   - an unknown offset (math.MaxInt64) ranks last and not first;
//   - a task in nobody's hands goes to the owner that the previous target named;
//   - standbys are spread by client tags.
func StrictKafka() StickyOpt { return stickyOpt(func(s *Sticky) { s.strict = true }) }

// Opt configures a [Sticky] or a [HighlyAvailable].
type Opt interface {
	StickyOpt
	HighlyAvailableOpt
}

type ignorePriorTarget struct{}

func (ignorePriorTarget) apply(s *Sticky)                         { s.priorTarget = false }
func (ignorePriorTarget) applyHighlyAvailable(h *HighlyAvailable) { h.priorTarget = false }

// IgnorePriorTarget switches off the claim that [Member.PriorTarget] gives.
func IgnorePriorTarget() Opt { return ignorePriorTarget{} }

// NewSticky returns the assignor.
func NewSticky(opts ...StickyOpt) *Sticky {
	s := &Sticky{priorTarget: true}
	for _, o := range opts {
		o.apply(s)
	}
	return s
}

// Name returns "sticky".
func (*Sticky) Name() string { return "sticky" }

// Assign computes the assignment. Every member has an entry. The error is
// [ErrNoMembers] or an [*InputError]. Stale members may leave tasks without an
// owner: see [Shortages].
func (s *Sticky) Assign(g *Group) (Assignment, error) {
	x, err := newIndex(g)
	if err != nil {
		return nil, err
	}
	if len(x.members) == 0 && x.tasks > 0 {
		return nil, ErrNoMembers
	}
	return s.run(x).assignment(), nil
}

func (s *Sticky) run(x *index) *run {
	r := newRun(x, newPriors(x, priorRules{
		warmupsCount:       !s.strict,
		unknownIsNoOffset:  !s.strict,
		priorTargetDecides: !s.strict && s.priorTarget,
		onlyCopiesOfOpen:   x.placeable() == 0,
		compare:            compareSticky,
	}))
	r.startQuotas()
	if s.strict {
		r.assignActive(both, &r.activeQuota, false)
	} else {
		r.assignActive(statefulOnly, &r.statefulQuota, true)
		r.assignActive(statelessOnly, &r.activeQuota, true)
	}
	if r.slots > 0 {
		r.assignStandbys(!s.strict)
	}
	return r
}
