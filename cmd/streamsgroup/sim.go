package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/streamsgroup/streamsgroup/internal/sim"
)

// simFlags is what the command line of "streamsgroup sim" says.
type simFlags struct {
	seed     uint64
	campaign sim.Campaign
	free     bool
	minimize bool
	html     string
	mutant   sim.Mutant
}

const simHelp = `
One run, by its seed, as a transcript:
  streamsgroup sim -seed 2
  streamsgroup sim -seed 2 -html run.html
Many runs, until the time is over or the steps are done:
  streamsgroup sim -for 5m
  streamsgroup sim -for 1h -first 1000000 -parallel 8
  streamsgroup sim -for 5m -steps 10000000
A run with a wrong variant of the protocol, and the smallest plan that shows it:
  streamsgroup sim -mutant "never ends a session" -minimize
`

func parseSim(args []string, stderr io.Writer) (simFlags, error) {
	f := simFlags{campaign: sim.Campaign{}}
	c := &f.campaign
	fs := flag.NewFlagSet("streamsgroup sim", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Uint64Var(&f.seed, "seed", 0, "play this `seed` only, and show what happens")
	fs.BoolVar(&f.minimize, "minimize", false, "with a seed that breaks a rule: leave out of its plan what the failure does not need")
	fs.StringVar(&f.html, "html", "", "write the run as a page to this `file`; of many runs, the first that breaks a rule")
	fs.DurationVar(&c.For, "for", 0, "play seeds for this long, a `duration`")
	fs.IntVar(&c.Steps, "steps", 0, "play seeds until there were so many `steps`, all together; with -for, to fail if they were not reached")
	fs.Uint64Var(&c.First, "first", 1, "the first of many `seeds`")
	fs.IntVar(&c.Parallel, "parallel", runtime.GOMAXPROCS(0), "how many seeds to play at once: `n`")
	fs.BoolVar(&c.Stop, "stop", false, "end with the first seed that breaks a rule")
	fs.BoolVar(&f.free, "free", false, "let the network duplicate and reorder requests at will, and check less")
	var mutant string
	fs.StringVar(&mutant, "mutant", "", "play a wrong variant of the protocol, by its `name`; \"list\" lists them")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fs.SetOutput(stderr)
			fs.Usage()
			fmt.Fprint(stderr, simHelp)
			return f, err
		}
		return f, usageError{fmt.Errorf("%w: run \"streamsgroup sim -h\" for the flags", err)}
	}
	if fs.NArg() > 0 {
		return f, usageError{fmt.Errorf("unexpected argument %q: flags come as -name value", fs.Arg(0))}
	}
	switch {
	case c.Parallel < 1:
		return f, usageError{fmt.Errorf("-parallel %d: want at least one", c.Parallel)}
	case c.For < 0:
		return f, usageError{fmt.Errorf("-for %v: want a time above 0", c.For)}
	case c.Steps < 0:
		return f, usageError{fmt.Errorf("-steps %d: want a number above 0", c.Steps)}
	}
	many := c.For > 0 || c.Steps > 0
	if mutant != "" {
		if err := f.takeMutant(mutant, many); err != nil {
			return f, err
		}
	}
	if many == (f.seed > 0) && mutant != "list" {
		return f, usageError{errors.New("give either -seed, for one run, or -for or -steps, for many: run \"streamsgroup sim -h\" for examples")}
	}
	return f, nil
}

// takeMutant looks a wrong variant up. Without a seed or limits it is played with
// the seed that is known to show it.
func (f *simFlags) takeMutant(name string, many bool) error {
	all := sim.Mutants()
	if name == "list" {
		f.mutant.Name = name
		return nil
	}
	i := slices.IndexFunc(all, func(m sim.Mutant) bool { return m.Name == name })
	if i < 0 {
		return usageError{fmt.Errorf("-mutant %q: there is no such variant: -mutant list lists them", name)}
	}
	f.mutant = all[i]
	f.campaign.Options.Mutant = all[i]
	if f.seed == 0 && !many {
		f.seed = all[i].Seed
	}
	return nil
}

// plan is the plan of a seed.
func (f *simFlags) plan(seed uint64) *sim.Plan {
	p := sim.NewPlan(seed)
	p.Setup.FreeNetwork = f.free
	return p
}

// simulate plays one seed or many. A rule that is broken makes it fail.
func simulate(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f, err := parseSim(args, stderr)
	if err != nil {
		return err
	}
	switch {
	case f.mutant.Name == "list":
		for _, m := range sim.Mutants() {
			fmt.Fprintln(stdout, m.Name)
		}
		return nil
	case f.seed > 0:
		return f.show(f.seed, f.minimize, stdout)
	}
	// Worlds are small and short-lived: with a heap of this size the collector would
	// hardly ever rest.
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	return f.many(ctx, stdout, stderr)
}

// budget bounds the runs that minimizing a plan takes.
const budget = 2000

// show plays one seed and tells what happens.
func (f *simFlags) show(seed uint64, minimize bool, stdout io.Writer) error {
	p, o := f.plan(seed), f.campaign.Options
	if minimize {
		p = sim.Minimize(p, o, budget)
	}
	var page *simPage
	if f.html != "" {
		page = &simPage{}
		o.Watcher = page
	}
	o.Tell = true
	r := sim.Run(p, o)
	fmt.Fprintf(stdout, "%v\n%s\n\n%d steps, %d faults, %d heartbeats, %d group epochs, %d memberships\n",
		p, strings.Join(r.Transcript(), "\n"), r.Steps, r.Faults, r.Beats, r.Bumps, r.Members)
	if page != nil {
		if err := page.write(f.html, r); err != nil {
			return fmt.Errorf("cannot write -html: %w", err)
		}
	}
	if r.Violation != nil {
		return &brokenRuleError{seed, r.Violation}
	}
	return nil
}

// brokenRuleError is a seed that breaks a rule.
type brokenRuleError struct {
	seed uint64
	*sim.Violation
}

func (e *brokenRuleError) Error() string {
	return fmt.Sprintf("seed %d breaks a rule: %v", e.seed, e.Violation)
}

// again is the command that shows a seed.
func (f *simFlags) again(seed uint64) string {
	command := fmt.Sprintf("streamsgroup sim -seed %d -minimize", seed)
	if f.free {
		command += " -free"
	}
	if f.mutant.Name != "" {
		command += fmt.Sprintf(" -mutant %q", f.mutant.Name)
	}
	return command
}

// many plays many seeds.
func (f *simFlags) many(ctx context.Context, stdout, stderr io.Writer) error {
	c := f.campaign
	c.Plan = f.plan
	told, tellAt := 0, time.Now().Add(time.Minute)
	c.Progress = func(t sim.Totals) {
		for ; told < len(t.Broken); told++ {
			b := t.Broken[told]
			fmt.Fprintf(stdout, "seed %d breaks a rule: %v\n", b.Seed, b.Violation)
		}
		if now := time.Now(); now.After(tellAt) {
			tellAt = now.Add(time.Minute)
			fmt.Fprintf(stderr, "%s\n", summary(t))
		}
	}
	t := c.Run(ctx)
	if len(t.Broken) > 0 {
		fmt.Fprintf(stdout, "\nthe smallest plan that shows the first of them:\n")
		var broken *brokenRuleError
		if err := f.show(t.Broken[0].Seed, true, stdout); err != nil && !errors.As(err, &broken) {
			return err
		}
	}
	fmt.Fprintln(stdout, summary(t))
	switch {
	case len(t.Broken) > 0:
		return fmt.Errorf("%d of %d seeds break a rule: run %s to see the first", len(t.Broken), t.Runs, f.again(t.Broken[0].Seed))
	case t.Steps < c.Steps && ctx.Err() == nil:
		return fmt.Errorf("%d steps in %v, %d were wanted", t.Steps, c.For, c.Steps)
	}
	return nil
}

func summary(t sim.Totals) string {
	if t.Runs == 0 {
		return "no seed was played"
	}
	return fmt.Sprintf("seeds %d to %d: %d runs, %d steps (%.0f per second), %d faults injected, %d violations; %d heartbeats, %d group epochs, %d memberships; the slowest came to rest in %v of its time",
		t.First, t.Last, t.Runs, t.Steps, float64(t.Steps)/t.Took.Seconds(), t.Faults, len(t.Broken), t.Beats, t.Bumps, t.Members, t.Slowest.Round(time.Millisecond))
}
