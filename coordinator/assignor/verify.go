package assignor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/streamsgroup/streamsgroup/topology"
)

// Rule is a rule that every assignment has to keep.
type Rule string

const (
	// RuleMembers (V1) gives tasks to members of the group only.
	RuleMembers Rule = "members"
	// RuleActive (V2) gives every task of the topology exactly one active owner,
	// as long as a fresh member exists, and knows no other tasks.
	RuleActive Rule = "active"
	// RuleStateless (V3) gives no standbys to a task without state.
	RuleStateless Rule = "stateless"
	// RuleProcess (V4) lets a process hold a task once, in whatever role.
	RuleProcess Rule = "process"
	// RuleStandbys (V5) gives a stateful task as many standbys as configured, or
	// as many as there are processes for them. With stale members, only
	// processes with a fresh one are counted upon.
	RuleStandbys Rule = "standbys"
	// RuleStale lets a stale member have only what it holds now in the same role.
	RuleStale Rule = "stale"
	// RuleForm wants tasks ascending and distinct.
	RuleForm Rule = "form"
)

// RuleError says where an assignment breaks a rule.
type RuleError struct {
	Rule Rule
	// Member is who got too much; empty if a task has too little.
	Member string
	// Task is the task at fault. It is zero if the rule is [RuleMembers].
	Task topology.TaskID
	// Reason says what is wrong.
	Reason string
}

func (e *RuleError) Error() string {
	var b strings.Builder
	b.WriteString("rule " + string(e.Rule) + ":")
	if e.Member != "" {
		fmt.Fprintf(&b, " member %q", e.Member)
	}
	if e.Task != (topology.TaskID{}) {
		b.WriteString(" task " + e.Task.String())
	}
	return b.String() + " " + e.Reason
}

// RuleErrors are all violations of one assignment, by task and then member. The
// single [*RuleError] can be had with errors.As.
type RuleErrors []*RuleError

func (e RuleErrors) Error() string {
	const shown = 3
	var b strings.Builder
	b.WriteString("assignor: the assignment is refused: ")
	for i, v := range e[:min(shown, len(e))] {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(v.Error())
	}
	if len(e) > shown {
		fmt.Fprintf(&b, "; and %d more", len(e)-shown)
	}
	return b.String()
}

// Unwrap returns the violations.
func (e RuleErrors) Unwrap() []error {
	out := make([]error, len(e))
	for i, v := range e {
		out[i] = v
	}
	return out
}

// Verify checks an assignment against the rules. It returns nil, [RuleErrors],
// or an [*InputError] if the group contradicts itself.
func Verify(g *Group, a Assignment) error {
	x, err := newIndex(g)
	if err != nil {
		return err
	}
	v := &verifier{index: x, owner: make([]int32, x.tasks), held: make([]int32, x.tasks)}
	for t := range v.owner {
		v.owner[t], v.held[t] = nobody, nobody
	}
	v.checkMembers(a)
	v.checkTasks()
	if len(v.errs) == 0 {
		return nil
	}
	slices.SortFunc(v.errs, func(a, b *RuleError) int {
		return cmp.Or(a.Task.Compare(b.Task), strings.Compare(a.Member, b.Member),
			strings.Compare(string(a.Rule), string(b.Rule)), strings.Compare(a.Reason, b.Reason))
	})
	return v.errs
}

type verifier struct {
	*index
	errs     RuleErrors
	owner    []int32 // by task
	standbys claims
	held     []int32 // by task: the last stale member seen to hold it, doubled, plus one for a standby
}

func (v *verifier) fail(rule Rule, member string, task topology.TaskID, format string, args ...any) {
	v.errs = append(v.errs, &RuleError{Rule: rule, Member: member, Task: task, Reason: fmt.Sprintf(format, args...)})
}

func (v *verifier) checkMembers(a Assignment) {
	named := 0
	for m := range v.members {
		in := v.member(int32(m))
		got, ok := a[in.ID]
		if !ok {
			continue
		}
		named++
		v.checkSet(int32(m), in.Prior.Active, got.Active, false)
		v.checkSet(int32(m), in.Prior.Standby, got.Standby, true)
	}
	if named == len(a) {
		return
	}
	known := make(map[string]bool, len(v.members))
	for m := range v.members {
		known[v.member(int32(m)).ID] = true
	}
	for id := range a {
		if !known[id] {
			v.fail(RuleMembers, id, topology.TaskID{}, "is not in the group")
		}
	}
}

// checkSet checks the tasks of one member in one role.
func (v *verifier) checkSet(m int32, prior, set TaskSet, standby bool) {
	role, mark := "active", 2*m
	if standby {
		role, mark = "standby", 2*m+1
	}
	if !v.fresh[m] {
		v.each(prior, func(t int32, _ bool) { v.held[t] = mark })
	}
	id := v.member(m).ID
	var sub *indexedSub
	for i, name := range set {
		if i == 0 || name.Subtopology != set[i-1].Subtopology {
			sub = v.subtopology(name.Subtopology)
		}
		if i > 0 && name.Compare(set[i-1]) <= 0 {
			v.fail(RuleForm, id, name, "follows %s in the %s tasks: sort them and name each once", set[i-1], role)
		}
		if sub == nil || name.Partition < 0 || name.Partition >= sub.tasks {
			v.fail(RuleActive, id, name, "is not in the topology")
			continue
		}
		t := sub.base + name.Partition
		switch {
		case standby:
			v.standbys.add(t, claim{member: m})
		case v.owner[t] != nobody && v.owner[t] != m:
			v.fail(RuleActive, id, name, "is active on member %q as well", v.member(v.owner[t]).ID)
		default:
			v.owner[t] = m
		}
		if !v.fresh[m] && v.held[t] != mark {
			v.fail(RuleStale, id, name, "is new as %s, but the member is at topology epoch %d and the group at %d: it may only keep what it holds in that role",
				role, v.member(m).TopologyEpoch, v.group.TopologyEpoch)
		}
	}
}

func (v *verifier) checkTasks() {
	standbys := v.standbys.rank(v.tasks, compareSticky)
	freshProcesses := v.freshProcesses()
	var holders []int32
	for i := range v.subs {
		s := &v.subs[i]
		for p := range s.tasks {
			t, name := s.base+p, topology.TaskID{Subtopology: s.id, Partition: p}
			following := standbys.of(t)
			holders = holders[:0]
			usable := freshProcesses
			if o := v.owner[t]; o != nobody {
				holders = append(holders, o)
				if v.hasFresh(v.process[o]) {
					usable--
				}
			} else if freshProcesses > 0 {
				v.fail(RuleActive, "", name, "has no active owner")
			}
			for _, c := range following {
				holders = append(holders, c.member)
			}
			v.checkProcesses(name, holders)
			switch want := v.replicas(); {
			case !s.stateful:
				if len(following) > 0 {
					v.fail(RuleStateless, v.member(following[0].member).ID, name, "has no state and needs no standby")
				}
			case len(following) > want:
				v.fail(RuleStandbys, "", name, "has %d standbys, but %d are configured", len(following), want)
			case len(following) < min(want, usable):
				v.fail(RuleStandbys, "", name, "has %d standbys, but there is room for %d of %d", len(following), min(want, usable), want)
			}
		}
	}
}

// checkProcesses finds two holders of a task in one process.
func (v *verifier) checkProcesses(name topology.TaskID, holders []int32) {
	for i, m := range holders {
		for _, o := range holders[:i] {
			if v.process[m] == v.process[o] {
				v.fail(RuleProcess, v.member(m).ID, name, "is held by member %q of the same process %q", v.member(o).ID, v.processIDs[v.process[m]])
				break
			}
		}
	}
}
