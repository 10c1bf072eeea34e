package coordinator

// Kafka freezes what members are to have in an assignment epoch, warm-ups included,
// when it is first asked for. That is the target as it was then, also of a member
// that has left since: if it joins again under its id before the next assignment
// is due, it gets its tasks back (rule Q17). Policy Kafka only.

// departures are the targets of those that have left in an assignment epoch.
type departures struct {
	epoch   int32
	targets map[string]roles
}

// departure is one of them.
type departure struct {
	epoch  int32
	member string
	target roles
}

// noteDeparture is called when the member is gone.
func (g *group) noteDeparture(d *departure) {
	if d == nil || len(g.members) == 0 {
		return
	}
	if g.departed.targets == nil || g.departed.epoch != d.epoch {
		g.departed = departures{d.epoch, map[string]roles{}}
	}
	g.departed.targets[d.member] = d.target
}

// frozenTarget is what the member is to have in the present assignment epoch: the stored
// target, and without one what it had when it left.
func (h *heartbeat) frozenTarget() roles {
	if h.target != nil || h.c.policy != Kafka || h.cfg.warmups == 0 || h.g.departed.epoch != h.g.assignmentEpoch {
		return h.targetTasks()
	}
	return h.g.departed.targets[h.meta.Member]
}
