package coordinator

// refine stands between the target assignment and reconciliation: here an
// intermediate assignment may take the place of the target, with warm-up tasks
// at the members that a task is to move to and the active task still at its old
// owner. The built-in assignors move tasks at once, and so does Kafka 4.4: the
// target is what members are moved to.
func (h *heartbeat) refine(target roles) roles { return target }
