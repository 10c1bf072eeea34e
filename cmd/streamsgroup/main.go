// Command streamsgroup is one binary for work with streams groups.
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
)

const usage = `usage: streamsgroup <command> [flags]

commands:
  broker         run a Kafka-compatible broker in this process, with the streams group coordinator
  conformance    check a broker, any broker, against the rules of the protocol
  sim            run members and coordinators against each other under faults, from a seed

  list           name the streams groups of a cluster
  describe       show offsets and lag of groups, or their members, state or topology
  explain        say for each task of a group where it is and what it waits for
  delete         remove groups that are empty
  delete-offsets forget committed offsets of a group
  reset-offsets  set committed offsets of groups that are empty

  help           show this text

"streamsgroup <command> -h" lists the flags of a command.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// usageError is wrong usage: exit code 2.
type usageError struct{ error }

// run is main without the process around it. It returns the exit code: 0, 1 for
// a failure, 2 for wrong usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return 2
	}
	var err error
	switch command, args := args[0], args[1:]; command {
	case "broker":
		err = broker(ctx, args, stdout, stderr)
	case "conformance":
		err = checkConformance(ctx, args, stdout, stderr)
	case "sim":
		err = simulate(ctx, args, stdout, stderr)
	case "help", "-h", "-help", "--help":
		fmt.Fprint(stdout, usage)
	default:
		if fn, ok := groupCommands[command]; ok {
			err = fn(ctx, args, console{stdout: stdout, stderr: stderr})
			break
		}
		err = usageError{fmt.Errorf("unknown command %q: run \"streamsgroup help\" for the list", command)}
	}
	return exitCode(err, stderr)
}

// exitCode tells what went wrong.
func exitCode(err error, stderr io.Writer) int {
	var wrong usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &wrong):
		fmt.Fprintf(stderr, "streamsgroup: %v\n", err)
		return 2
	}
	fmt.Fprintf(stderr, "streamsgroup: %v\n", err)
	return 1
}
