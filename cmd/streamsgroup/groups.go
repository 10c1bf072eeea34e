package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/client"
)

// console is where a command writes to.
type console struct {
	stdout, stderr io.Writer
	dial           []kgo.Opt // how to reach a cluster that is not on the network
}

// groupCommands are the commands about streams groups.
var groupCommands = map[string]func(context.Context, []string, console) error{
	"list": listGroups, "describe": describeGroups, "explain": explainGroups,
	"delete": deleteGroups, "delete-offsets": deleteOffsets, "reset-offsets": resetOffsets,
}

// groupFlags are the flags that commands about groups share.
type groupFlags struct {
	fs      *flag.FlagSet
	broker  string
	timeout time.Duration
	groups  list
	all     bool
}

// list is a flag that may be given more than once.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(s string) error {
	if s == "" {
		return errors.New("it is empty")
	}
	*l = append(*l, s)
	return nil
}

func newGroupFlags(command string) *groupFlags {
	f := &groupFlags{fs: flag.NewFlagSet("streamsgroup "+command, flag.ContinueOnError)}
	f.fs.SetOutput(io.Discard)
	f.fs.StringVar(&f.broker, "broker", "", "`host:port` of a broker, or several, comma-separated; required")
	f.fs.DurationVar(&f.timeout, "timeout", 30*time.Second, "how long each request to the brokers may take, with repetitions: a `duration`")
	return f
}

// choose adds the flags for groups.
func (f *groupFlags) choose() {
	f.fs.Var(&f.groups, "group", "the `id` of a streams group; may be repeated")
	f.fs.BoolVar(&f.all, "all-groups", false, "all streams groups of the cluster")
}

// parse reads the command line. about is printed with the list of flags.
func (f *groupFlags) parse(args []string, stderr io.Writer, about string) error {
	command := strings.TrimPrefix(f.fs.Name(), "streamsgroup ")
	if err := f.fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(stderr, "%s\n\n", about)
			f.fs.SetOutput(stderr)
			f.fs.Usage()
			return err
		}
		return usageError{fmt.Errorf("%w: run \"streamsgroup %s -h\" for the flags", err, command)}
	}
	switch {
	case f.fs.NArg() > 0:
		return usageError{fmt.Errorf("unexpected argument %q: flags come as -name value", f.fs.Arg(0))}
	case f.broker == "":
		return usageError{errors.New("-broker is missing: name a broker of the cluster, host:port")}
	case f.timeout <= 0:
		return usageError{fmt.Errorf("-timeout %v: want a time above 0", f.timeout)}
	case f.all && len(f.groups) > 0:
		return usageError{errors.New("-group and -all-groups exclude each other")}
	}
	return nil
}

// needGroups is for commands that name groups.
func (f *groupFlags) needGroups() error {
	if !f.all && len(f.groups) == 0 {
		return usageError{errors.New("name a group with -group, or give -all-groups")}
	}
	return nil
}

// given are the flags that are on the command line, out of some.
func (f *groupFlags) given(names ...string) []string {
	var out []string
	f.fs.Visit(func(g *flag.Flag) {
		if slices.Contains(names, g.Name) {
			out = append(out, "-"+g.Name)
		}
	})
	return out
}

// cluster is what a command talks to.
type cluster struct {
	*groupFlags
	console
	cl *kgo.Client
}

func (f *groupFlags) connect(out console) (*cluster, error) {
	opts := []kgo.Opt{kgo.SeedBrokers(strings.Split(f.broker, ",")...), kgo.RetryTimeout(f.timeout), kgo.ClientID("streamsgroup")}
	cl, err := kgo.NewClient(append(opts, out.dial...)...)
	if err != nil {
		return nil, usageError{fmt.Errorf("-broker %q: %w", f.broker, err)}
	}
	return &cluster{f, out, cl}, nil
}

// call runs one request within the time-out.
func (c *cluster) call(ctx context.Context, fn func(context.Context) error) error {
	own, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err := fn(own)
	if _, answered := errors.AsType[*kerr.Error](err); err != nil && !answered && own.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %s has not answered within %v: check the address, or give -timeout", err, c.broker, c.timeout)
	}
	return err
}

func (c *cluster) printf(format string, args ...any) { fmt.Fprintf(c.stdout, format, args...) }

// notice prints what went wrong with a part of a command that goes on. It keeps out of
// the output, which may be a table that another program reads.
func (c *cluster) notice(format string, args ...any) {
	fmt.Fprintf(c.stderr, "Error: "+format+"\n", args...)
}

func (c *cluster) warn(format string, args ...any) {
	fmt.Fprintf(c.stderr, "Warn: "+format+"\n", args...)
}

func (c *cluster) listed(ctx context.Context, states ...client.GroupState) (groups []client.ListedGroup, err error) {
	err = c.call(ctx, func(ctx context.Context) error {
		groups, err = client.ListGroups(ctx, c.cl, states...)
		return err
	})
	return groups, err
}

// chosen are the groups that the command is about, each once.
func (c *cluster) chosen(ctx context.Context) ([]string, error) {
	if !c.all {
		var out []string
		for _, g := range c.groups {
			if !slices.Contains(out, g) {
				out = append(out, g)
			}
		}
		return out, nil
	}
	groups, err := c.listed(ctx)
	names := make([]string, len(groups))
	for i, g := range groups {
		names[i] = g.Group
	}
	return names, err
}

func (c *cluster) describe(ctx context.Context, group string, opts ...client.DescribeOption) (*client.GroupDescription, error) {
	var d *client.GroupDescription
	err := c.call(ctx, func(ctx context.Context) error {
		d = &client.DescribeGroupsWith(ctx, c.cl, []string{group}, opts...)[0]
		return d.Err
	})
	return d, err
}

// code is the name of an error's code, or the error.
func code(err error) string {
	if k, ok := errors.AsType[*kerr.Error](err); ok {
		return fmt.Sprintf("%s: %s", k.Message, k.Description)
	}
	return err.Error()
}
