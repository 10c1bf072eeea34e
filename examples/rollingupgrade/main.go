// Command rollingupgrade replaces the topology of a streams group member by member
// while records flow, twice: first the example of KIP-1071, nine tasks and three
// members that are bounced from topology epoch 0 to 1, then a word count whose
// version 2 has a second subtopology with a store of its own.
//
// It prints what happens, checks at the end that every record was processed exactly
// once by a version that was allowed to, and exits with 1 if it was not. The broker,
// with the coordinator of this project, is in the process: Apache Kafka up to 4.4
// refuses every change of a topology.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/internal/timeline"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options is the command line.
type options struct {
	html string
	seed uint64

	cluster []kfakeext.Opt // more options for the embedded broker, for tests
	// times is how often a member processes a record. Only tests say anything but
	// once, to see that it is noticed.
	times func(member string, r *kgo.Record) int
}

func parse(args []string, stderr io.Writer) (options, error) {
	o := options{times: func(string, *kgo.Record) int { return 1 }}
	fs := flag.NewFlagSet("rollingupgrade", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&o.html, "html", "", "write what happened as one page to `file`")
	fs.Uint64Var(&o.seed, "seed", 1, "`number` that the text of the word count is made from")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fs.SetOutput(stderr)
			fs.Usage()
			return o, err
		}
		return o, fmt.Errorf("%w: run with -h for the flags", err)
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: there are only flags", fs.Arg(0))
	}
	return o, nil
}

// run is main without the process around it: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "rollingupgrade: %v\n", err)
		return 2
	}
	if err := upgrades(ctx, o, stdout); err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = errors.New("interrupted before the upgrades were complete")
		}
		fmt.Fprintf(stderr, "rollingupgrade: %v\n", err)
		return 1
	}
	return 0
}

// upgrades runs both shows. The page is written even if a claim does not hold.
func upgrades(ctx context.Context, o options, out io.Writer) (err error) {
	page := io.Discard
	if o.html != "" {
		f, ferr := os.Create(o.html)
		if ferr != nil {
			return fmt.Errorf("cannot write the page: %w: name another file with -html", ferr)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		page = f
	}
	var pictures []*timeline.Picture
	for _, play := range []func(context.Context, options, io.Writer) (*timeline.Picture, error){nineTasks, wordCount} {
		picture, err := play(ctx, o, out)
		if err != nil {
			return err
		}
		pictures = append(pictures, picture)
	}
	if err := timeline.WriteHTML(page, pictures...); err != nil {
		return fmt.Errorf("cannot write the page: %w", err)
	}
	broken := 0
	for _, p := range pictures {
		for _, c := range p.Claims {
			if !c.Holds {
				broken++
			}
		}
	}
	if broken > 0 {
		return fmt.Errorf("%d claims do not hold: see the lines that begin with FAILED", broken)
	}
	return nil
}
