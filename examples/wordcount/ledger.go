package main

import (
	"fmt"
	"sync"

	"github.com/streamsgroup/streamsgroup/topology"
)

// ledger records who works on which task, as seen by the members' own
// callbacks, and notices when two members do at once.
type ledger struct {
	mu       sync.Mutex
	owner    map[topology.TaskID]string
	handed   int // how often a task changed hands
	worked   int // how often somebody worked on a task
	breaches []string
}

func newLedger() *ledger { return &ledger{owner: map[topology.TaskID]string{}} }

// take is called before a member starts to work on tasks.
func (l *ledger) take(member string, tasks []topology.TaskID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range tasks {
		switch o := l.owner[t]; o {
		case member:
		case "":
			l.owner[t] = member
			l.handed++
		default:
			l.breaches = append(l.breaches, fmt.Sprintf("%s took %s while %s worked on it", member, t, o))
		}
	}
}

// drop is called after a member has stopped working on tasks.
func (l *ledger) drop(member string, tasks []topology.TaskID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range tasks {
		if l.owner[t] == member {
			delete(l.owner, t)
		}
	}
}

// dropAll is called when a member is dead.
func (l *ledger) dropAll(member string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for t, o := range l.owner {
		if o == member {
			delete(l.owner, t)
		}
	}
}

// work is called whenever a member processes records of a task.
func (l *ledger) work(member string, t topology.TaskID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.worked++
	if o := l.owner[t]; o != member {
		l.breaches = append(l.breaches, fmt.Sprintf("%s worked on %s, which is %q's", member, t, o))
	}
}

// verdict sums up the run.
func (l *ledger) verdict() (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.breaches) > 0 {
		return "", fmt.Errorf("a task was worked on by two members at once, %d times; the first: %s", len(l.breaches), l.breaches[0])
	}
	return fmt.Sprintf("no task was ever worked on by two members at once (%d batches, %d hand-overs)", l.worked, l.handed), nil
}
