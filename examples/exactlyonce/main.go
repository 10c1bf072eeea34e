// Command exactlyonce copies a topic to another one with two members of a streams group
// that crash in the middle of their work, and counts: every record must be there exactly
// once. With -exactly-once=false the members do without transactions, and the count shows
// what that costs.
//
// Without -brokers it runs against a broker with the streams group coordinator in this
// process; with -brokers against any Kafka that has streams groups.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

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
	brokers []string
	records int
	crashes int
	feed    time.Duration
	exactly bool

	cluster []kfakeext.Opt // more options for the embedded broker, for tests
}

func parse(args []string, stderr io.Writer) (options, error) {
	var (
		o       options
		brokers string
	)
	fs := flag.NewFlagSet("exactlyonce", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&brokers, "brokers", "", "comma-separated `host:port` of a Kafka cluster; a broker in this process without it")
	fs.IntVar(&o.records, "records", 4000, "`number` of records to copy")
	fs.IntVar(&o.crashes, "crashes", 3, "`number` of crashes")
	fs.DurationVar(&o.feed, "feed", 3*time.Second, "`time` over which the records are written")
	fs.BoolVar(&o.exactly, "exactly-once", true, "use transactions")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fs.SetOutput(stderr)
			fs.Usage()
			return o, err
		}
		return o, fmt.Errorf("%w: run with -h for the flags", err)
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q: there are only flags", fs.Arg(0))
	case o.records < 1:
		return o, fmt.Errorf("-records %d: want a number above 0", o.records)
	case o.crashes < 0:
		return o, fmt.Errorf("-crashes %d: want a number that is not negative", o.crashes)
	case o.feed < 0:
		return o, fmt.Errorf("-feed %s: want a time that is not negative", o.feed)
	}
	for b := range strings.SplitSeq(brokers, ",") {
		if b = strings.TrimSpace(b); b != "" {
			o.brokers = append(o.brokers, b)
		}
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
		fmt.Fprintf(stderr, "exactlyonce: %v\n", err)
		return 2
	}
	if err := exactlyOnce(ctx, o, stdout); err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = errors.New("interrupted before all was copied")
		}
		fmt.Fprintf(stderr, "exactlyonce: %v\n", err)
		return 1
	}
	return 0
}
