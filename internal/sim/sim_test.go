package sim

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/membership"
)

var (
	seed  = flag.Uint64("sim.seed", 0, "play this seed and print its transcript")
	first = flag.Uint64("sim.first", 1, "the first seed of a long run")
	long  = flag.Duration("sim.for", 0, "how long a long run lasts")
	least = flag.Bool("sim.minimize", false, "minimize the plan of the seed before it is played")
	fresh = flag.Bool("sim.fresh", false, "look for mutants from seed 1 on")
	all   = flag.Bool("sim.all", false, "go on after a failure and count them")
)

// TestMain gives the collector less to do: worlds are small and short-lived, and
// with a small heap it would hardly ever rest. A large search has one large heap.
func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(800)
	if *large > 0 {
		debug.SetGCPercent(20)
	}
	os.Exit(m.Run())
}

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

// TestSeedsOfTheLongRun plays what a rule or the disk of the simulation was wrong for.
func TestSeedsOfTheLongRun(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{26_584, 114_150, 208_418, 227_833} {
		total := Campaign{First: seed, Seeds: 1}.Run(t.Context())
		if len(total.Broken) > 0 {
			report(t, NewPlan(seed), Options{})
		}
	}
}

func play(t *testing.T, budget time.Duration, plan func(seed uint64) *Plan) {
	t.Helper()
	total := Campaign{First: *first, For: budget, Plan: plan, Stop: !*all}.Run(t.Context())
	t.Logf("seeds %d to %d: %d steps (%.0f per second), %d heartbeats, %d group epochs, %d memberships, %d faults; the slowest came to rest in %v",
		total.First, total.Last, total.Steps, float64(total.Steps)/total.Took.Seconds(), total.Beats, total.Bumps, total.Members, total.Faults, total.Slowest)
	if len(total.Broken) > 0 && !*all {
		report(t, plan(total.Broken[0].Seed), Options{})
	}
	rules := map[string][]uint64{}
	for _, b := range total.Broken {
		rules[b.Violation.Rule] = append(rules[b.Violation.Rule], b.Seed)
	}
	for rule, seeds := range rules {
		t.Errorf("%s: %d, for example %s", rule, len(seeds), fmt.Sprint(seeds[:min(len(seeds), 12)]))
	}
}

// TestCampaign ends at its limits and plays the same seeds whatever the number of
// workers.
func TestCampaign(t *testing.T) {
	t.Parallel()
	one := Campaign{First: 5, Seeds: 12}.Run(t.Context())
	many := Campaign{First: 5, Seeds: 12, Parallel: 4}.Run(t.Context())
	one.Took, many.Took = 0, 0
	require.Equal(t, one, many)
	require.Equal(t, 12, one.Runs)
	require.Equal(t, uint64(16), one.Last)

	enough := Campaign{First: 5, Steps: one.Steps / 2}.Run(t.Context())
	require.GreaterOrEqual(t, enough.Steps, one.Steps/2)
	require.Less(t, enough.Runs, 12)

	m := mutant(t, "never ends a session")
	broken := Campaign{First: m.Seed, Options: Options{Mutant: m}, Stop: true}.Run(t.Context())
	require.Len(t, broken.Broken, 1)
	require.Equal(t, m.Seed, broken.Broken[0].Seed)

	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.Zero(t, Campaign{}.Run(over).Runs)
}

// watch is a watcher that counts.
type watch struct{ coordinator, member, notes, started, halted int }

func (w *watch) Coordinator(time.Duration, coordinator.Event)   { w.coordinator++ }
func (w *watch) Member(time.Duration, string, membership.Event) { w.member++ }
func (w *watch) Note(time.Duration, string)                     { w.notes++ }
func (w *watch) Started(time.Duration, string, string)          { w.started++ }
func (w *watch) Halted(time.Duration, string, string)           { w.halted++ }

// TestWatcher is told everything, and changes nothing.
func TestWatcher(t *testing.T) {
	t.Parallel()
	var w watch
	watched, told := Run(NewPlan(4), Options{Watcher: &w}), Run(NewPlan(4), Options{Tell: true})
	require.Equal(t, told.Transcript(), watched.Transcript())
	require.GreaterOrEqual(t, w.coordinator+w.member+w.notes, len(told.Transcript()))
	require.Positive(t, w.coordinator)
	require.Positive(t, w.member)
	require.Positive(t, w.notes)
	require.Equal(t, watched.Members, w.started)
}
