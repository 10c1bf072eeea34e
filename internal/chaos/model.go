package chaos

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// register is what the broker keeps for one partition: the committed offset, and who may
// change it from which member epoch on.
type register struct {
	offset int64 // -1: none
	holder string
	since  int32
}

// action is what an operation does to the register.
type action int8

const (
	// grant is an answer that gives the task to a member.
	grant action = iota
	// release is a report of a member without the task, or its leave.
	release
	// expire is the end of a membership by a time-out. It may happen from when one can
	// have struck; if the task is somebody else's by then, it does nothing.
	expire
	// outside is an answer by which the member is not in the group.
	outside
	commit
	fetch
	// remove is the deletion of the group.
	remove
)

var actions = [...]string{"grant", "release", "expire", "outside", "commit", "fetch", "delete"}

// outcome is what the client knows of how a request has ended.
type outcome int8

const (
	// accepted is that it has taken effect.
	accepted outcome = iota
	// refused is that it has not, and that may have many reasons.
	refused
	// stale is that it has not, because of its epoch.
	stale
	// unknown is that no answer came: it may take effect at any time from then on, or
	// never.
	unknown
)

var outcomes = [...]string{"", " refused", " refused as stale", " without an answer"}

// input is one operation on the register of a partition. What was answered is part of
// it.
type input struct {
	action  action
	member  string
	epoch   int32
	offset  int64
	outcome outcome
	exact   bool // the refusal is about this partition and no other one
}

// model is the register as porcupine wants it.
func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return register{offset: -1} },
		Step: func(state, in, _ any) (bool, any) {
			ok, next := state.(register).step(in.(input))
			return ok, next
		},
		DescribeOperation: func(in, _ any) string { return in.(input).String() },
		DescribeState: func(state any) string {
			r := state.(register)
			if r.holder == "" {
				return fmt.Sprintf("%d, nobody's", r.offset)
			}
			return fmt.Sprintf("%d, of %s since epoch %d", r.offset, r.holder, r.since)
		},
	}
}

// step is whether the operation may happen now as it did, and what comes of it.
func (r register) step(in input) (ok bool, next register) {
	owner := r.holder == in.member
	may := owner && in.epoch >= r.since
	switch in.action {
	case grant:
		if r.holder != "" && !owner {
			return false, r
		}
		r.holder, r.since = in.member, in.epoch
	case release:
		if owner {
			r.holder, r.since = "", 0
		}
	case expire:
		if owner && r.since == in.epoch {
			r.holder, r.since = "", 0
		}
	case outside:
		return !owner, r
	case commit:
		switch in.outcome {
		case accepted:
			if !may {
				return false, r
			}
			r.offset = in.offset
		case stale:
			return !may || !in.exact, r
		case unknown:
			if may {
				r.offset = in.offset
			}
		}
	case fetch:
		return r.offset == in.offset, r
	case remove:
		switch {
		case r.holder == "":
			r.offset = -1
		case in.outcome == accepted:
			return false, r
		}
	}
	return true, r
}

func (in input) String() string {
	switch in.action {
	case commit:
		return fmt.Sprintf("commit %d by %s at epoch %d%s", in.offset, in.member, in.epoch, outcomes[in.outcome])
	case fetch:
		return fmt.Sprintf("fetch %d", in.offset)
	case grant, expire:
		return fmt.Sprintf("%s %s at epoch %d", actions[in.action], in.member, in.epoch)
	case remove:
		return "delete the group" + outcomes[in.outcome]
	}
	return fmt.Sprintf("%s %s", actions[in.action], in.member)
}
