package client

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/streamsgroup/streamsgroup/topology"
)

// Process is what the members in one process have in common: the process id, the
// endpoint, tags, rack, and the state on its disk. Make one with [NewProcess] and
// give it to each member with [InProcess]. One member with as many goroutines as
// you like is the Go way; a Process is for those who want several all the same.
// It is safe for concurrent use.
type Process struct {
	cfg   config
	close func() error

	mu      sync.Mutex
	members []*Member // that run, in the order of their start
	holds   map[*Member][]topology.TaskID
}

// ProcessOpt is an option of [NewProcess], and of a member that is alone in its
// process.
type ProcessOpt interface {
	Opt
	ofProcess()
}

type processFunc func(*config)

func (f processFunc) apply(c *config) { f(c) }
func (processFunc) ofProcess()        {}

// NewProcess makes a process. Without [ProcessID] or [StateDir] it has a fresh
// random id. Close it after its members have ended. The error is an
// *[OptionError] for a bad option.
func NewProcess(opts ...ProcessOpt) (*Process, error) {
	p := &Process{cfg: defaults(), close: func() error { return nil }, holds: map[*Member][]topology.TaskID{}}
	for _, o := range opts {
		if o != nil {
			o.apply(&p.cfg)
		}
	}
	if err := errors.Join(p.cfg.errs...); err != nil {
		return nil, err
	}
	return p, p.cfg.identify(&p.close)
}

// ID is the process id.
func (p *Process) ID() string { return p.cfg.processID }

// Close gives the state directory back, if there is one.
func (p *Process) Close() error { return p.close() }

// InProcess puts a member into a process. Options that are the process's cannot be
// given to the member as well.
func InProcess(p *Process) Opt {
	return optFunc(func(c *config) {
		if c.process = p; p == nil {
			c.bad("InProcess", "nil", "want a process, or leave the option out")
		}
	})
}

// DormantTasks is asked for the sums of changelog offsets of all tasks whose state
// is on this process's disk. The coordinator then knows where a task would come
// alive soonest. It is asked by one member of the process only, on the goroutine of
// its Run, before heartbeats; what any of the members runs is left out: each member
// reports that with its own [TaskOffsets]. It must be quick.
func DormantTasks(fn func() map[topology.TaskID]int64) ProcessOpt {
	return processFunc(func(c *config) { c.dormant = fn })
}

// join copies what the process has in common to the config of a member.
func (c *config) join() {
	p := c.process
	for _, o := range []struct {
		name string
		has  bool
	}{
		{"ProcessID", c.processID != ""},
		{"StateDir", c.stateDir != ""},
		{"UserEndpoint", c.endpoint != nil},
		{"ClientTag", len(c.tags) > 0},
		{"RackID", c.rackID != ""},
		{"DormantTasks", c.dormant != nil},
	} {
		if o.has {
			c.bad(o.name, "…", "it is the process's: give it to NewProcess")
		}
	}
	c.processID, c.endpoint, c.tags, c.rackID, c.dormant = p.cfg.processID, p.cfg.endpoint, maps.Clone(p.cfg.tags), p.cfg.rackID, p.cfg.dormant
}

// enter and exit frame the run of a member.
func (p *Process) enter(m *Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members = append(p.members, m)
}

func (p *Process) exit(m *Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members = slices.DeleteFunc(p.members, func(o *Member) bool { return o == m })
	delete(p.holds, m)
}

// hold notes what a member runs.
func (p *Process) hold(m *Member, tasks []topology.TaskID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds[m] = tasks
}

// dormantFor returns what the member has to report in addition to its own tasks:
// nothing, unless it is the one that reports for the process.
func (p *Process) dormantFor(m *Member) map[topology.TaskID]int64 {
	p.mu.Lock()
	reports := len(p.members) > 0 && p.members[0] == m
	p.mu.Unlock()
	if !reports || p.cfg.dormant == nil {
		return nil
	}
	out := maps.Clone(p.cfg.dormant()) // without the lock: it may ask a member
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, tasks := range p.holds {
		for _, t := range tasks {
			delete(out, t)
		}
	}
	return out
}
