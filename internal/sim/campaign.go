package sim

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Campaign is a run of many seeds. It ends with the first of its limits that is
// reached; without any, with its context.
type Campaign struct {
	// First is the first seed; the others follow.
	First uint64
	// Parallel is how many run at once; 0 means one.
	Parallel int
	// For is how long seeds are begun, Steps how many steps are wanted, Seeds how many
	// seeds. 0 is no limit.
	For   time.Duration
	Steps int
	Seeds int
	// Plan makes the plan of a seed; nil means [NewPlan].
	Plan    func(seed uint64) *Plan
	Options Options
	// Stop ends the campaign with the first violation.
	Stop bool
	// Progress is called after every seed, by one goroutine at a time.
	Progress func(Totals)
}

// Totals is what became of a campaign.
type Totals struct {
	// First and Last are the first and the last seed that were played.
	First, Last uint64
	Runs        int
	Steps       int
	Faults      int
	Beats       int
	Bumps       int
	Members     int
	// Slowest is the longest time that a group needed to come to rest.
	Slowest time.Duration
	Took    time.Duration
	Broken  []Broken
}

// Broken is a seed that breaks a rule.
type Broken struct {
	Seed      uint64
	Violation *Violation
}

// Run plays seeds until a limit is reached. What a seed does depends on nothing
// else; how many there are depends on the machine, unless they are counted.
func (c Campaign) Run(ctx context.Context) Totals {
	began := time.Now()
	plan := c.Plan
	if plan == nil {
		plan = NewPlan
	}
	var next atomic.Uint64
	var over atomic.Bool
	var lock sync.Mutex
	total := Totals{First: c.First}
	add := func(seed uint64, r *Result) {
		lock.Lock()
		defer lock.Unlock()
		total.add(seed, r)
		total.Took = time.Since(began)
		if c.Steps > 0 && total.Steps >= c.Steps || c.Stop && r.Violation != nil {
			over.Store(true)
		}
		if c.Progress != nil {
			c.Progress(total)
		}
	}
	var workers sync.WaitGroup
	for range max(c.Parallel, 1) {
		workers.Go(func() {
			for !over.Load() && ctx.Err() == nil && (c.For == 0 || time.Since(began) < c.For) {
				n := next.Add(1) - 1
				if c.Seeds > 0 && n >= uint64(c.Seeds) {
					return
				}
				add(c.First+n, Run(plan(c.First+n), c.Options))
			}
		})
	}
	workers.Wait()
	slices.SortFunc(total.Broken, func(a, b Broken) int {
		if a.Seed < b.Seed {
			return -1
		}
		return 1
	})
	total.Took = time.Since(began)
	return total
}

func (t *Totals) add(seed uint64, r *Result) {
	t.Last = max(t.Last, seed)
	t.Runs++
	t.Steps += r.Steps
	t.Faults += r.Faults
	t.Beats += r.Beats
	t.Bumps += r.Bumps
	t.Members += r.Members
	t.Slowest = max(t.Slowest, r.Settled)
	if r.Violation != nil {
		t.Broken = append(t.Broken, Broken{seed, r.Violation})
	}
}
