// Command wordcount counts the words of a text with a streams group of three
// members: they join, one leaves, one crashes, and the counts must come out
// right all the same.
//
// Without -brokers it runs against a broker with the streams group coordinator
// in this process; with -brokers against any Kafka that has streams groups.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
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
	text    string
	group   string
	seed    uint64
	feed    time.Duration
	keep    bool
	cluster []kfakeext.Opt // more options for the embedded broker, for tests
}

func parse(args []string, stderr io.Writer) (options, error) {
	var (
		o       options
		brokers string
	)
	fs := flag.NewFlagSet("wordcount", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&brokers, "brokers", "", "comma-separated `host:port` of a Kafka cluster; a broker in this process without it")
	fs.StringVar(&o.text, "text", "", "text `file` to count; a book that comes with Go without it")
	fs.StringVar(&o.group, "group", "", "`id` of the group and prefix of its topics; a fresh one without it")
	fs.Uint64Var(&o.seed, "seed", 0, "`number` that chooses the moments of join, leave and crash; 0 for a random one")
	fs.DurationVar(&o.feed, "feed", 6*time.Second, "`time` over which the text is fed")
	fs.BoolVar(&o.keep, "keep", false, "keep the topics of this run at the end")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fs.SetOutput(stderr)
			fs.Usage()
			return o, err
		}
		return o, fmt.Errorf("%w: run with -h for the flags", err)
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: name a text with -text", fs.Arg(0))
	}
	if o.feed < 0 {
		return o, fmt.Errorf("-feed %s: want a time that is not negative", o.feed)
	}
	if brokers != "" {
		for b := range strings.SplitSeq(brokers, ",") {
			if b = strings.TrimSpace(b); b != "" {
				o.brokers = append(o.brokers, b)
			}
		}
		if len(o.brokers) == 0 {
			return o, fmt.Errorf("-brokers %q: want host:port", brokers)
		}
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000) + 1
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
		fmt.Fprintf(stderr, "wordcount: %v\n", err)
		return 2
	}
	if err := wordcount(ctx, o, stdout); err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = errors.New("interrupted before the text was counted")
		}
		fmt.Fprintf(stderr, "wordcount: %v\n", err)
		return 1
	}
	return 0
}
