// Command regexsources reads all topics whose names match a pattern. While its two
// members run, a topic is created that matches, and one that does not: the
// coordinator finds the first one, assigns its tasks, and its records are processed.
// The command exits with 1 if any of that does not happen.
//
// The broker, with the coordinator of this project, is in the process: Apache Kafka
// up to 4.4 refuses topologies with patterns.
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

	cluster []kfakeext.Opt // more options for the embedded broker, for tests
	pattern string         // of the sources; tests have one that does not match
}

func parse(args []string, stderr io.Writer) (options, error) {
	o := options{pattern: `orders-.*`}
	fs := flag.NewFlagSet("regexsources", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&o.html, "html", "", "write what happened as one page to `file`")
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
		fmt.Fprintf(stderr, "regexsources: %v\n", err)
		return 2
	}
	if err := regexSources(ctx, o, stdout); err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = errors.New("interrupted before the new topic was read")
		}
		fmt.Fprintf(stderr, "regexsources: %v\n", err)
		return 1
	}
	return 0
}
