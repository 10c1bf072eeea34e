package sim

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"
)

var (
	seed  = flag.Uint64("sim.seed", 0, "play this seed and print its transcript")
	first = flag.Uint64("sim.first", 1, "the first seed of a long run")
	long  = flag.Duration("sim.for", 0, "how long a long run lasts")
	least = flag.Bool("sim.minimize", false, "minimize the plan of the seed before it is played")
	all   = flag.Bool("sim.all", false, "go on after a failure and count them")
)

// TestReplay prints the transcript of one seed.
func TestReplay(t *testing.T) {
	if *seed == 0 {
		t.Skip("give a seed with -sim.seed")
	}
	p := NewPlan(*seed)
	if *least {
		p = Minimize(p, Options{}, 2000)
	}
	r := Run(p, Options{Tell: true})
	t.Logf("%v\n%s", p, strings.Join(r.Transcript(), "\n"))
	if r.Violation != nil {
		t.Fatal(r.Violation)
	}
}

// report fails a test with the smallest plan that breaks the rule, and what
// happens in it.
func report(t *testing.T, p *Plan, o Options) {
	t.Helper()
	small := Minimize(p, o, 2000)
	o.Tell = true
	r := Run(small, o)
	t.Fatalf("seed %d breaks a rule: %v\nThe smallest plan that does:\n%v\n%s\n\nAgain: go test ./internal/sim -run TestReplay -v -sim.seed=%d",
		p.Seed, r.Violation, small, strings.Join(r.Transcript(), "\n"), p.Seed)
}

// TestFreeNetwork lets requests be duplicated and overtake each other at will.
// Members may then work on the same, but the coordinator never gives a task to two.
func TestFreeNetwork(t *testing.T) {
	t.Parallel()
	play(t, timeFor(2*time.Second), func(s uint64) *Plan {
		p := NewPlan(s)
		p.Setup.FreeNetwork = true
		return p
	})
}

func timeFor(short time.Duration) time.Duration {
	if *long > 0 {
		return *long
	}
	return short
}

// TestSeeds plays as many plans as there is time for.
func TestSeeds(t *testing.T) {
	t.Parallel()
	play(t, timeFor(3*time.Second), NewPlan)
}

func play(t *testing.T, budget time.Duration, plan func(seed uint64) *Plan) {
	t.Helper()
	var total Result
	runs, began := 0, time.Now()
	rules := map[string][]uint64{}
	var slowest time.Duration
	for s := *first; time.Since(began) < budget; s++ {
		p := plan(s)
		r := Run(p, Options{})
		runs++
		total.Steps += r.Steps
		total.Faults += r.Faults
		total.Beats += r.Beats
		total.Bumps += r.Bumps
		total.Members += r.Members
		slowest = max(slowest, r.Settled)
		if r.Violation == nil {
			continue
		}
		if !*all {
			report(t, p, Options{})
		}
		rules[r.Violation.Rule] = append(rules[r.Violation.Rule], s)
	}
	took := time.Since(began).Seconds()
	t.Logf("seeds %d to %d: %d steps (%.0f per second), %d heartbeats, %d group epochs, %d memberships, %d faults; the slowest came to rest in %v",
		*first, *first+uint64(runs)-1, total.Steps, float64(total.Steps)/took, total.Beats, total.Bumps, total.Members, total.Faults, slowest)
	for rule, seeds := range rules {
		t.Errorf("%s: %d, for example %s", rule, len(seeds), fmt.Sprint(seeds[:min(len(seeds), 12)]))
	}
}
