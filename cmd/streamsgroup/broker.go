package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

// brokerFlags is what the command line of "streamsgroup broker" says.
type brokerFlags struct {
	addr    string
	nodes   int
	policy  coordinator.Policy
	dataDir string
	configs []setting
	topics  []topicFlag
}

type setting struct{ name, value string }

type topicFlag struct {
	name       string
	partitions int32
}

func parseBroker(args []string, stderr io.Writer) (brokerFlags, error) {
	var (
		b      brokerFlags
		addr   string
		nodes  int
		policy string
	)
	fs := flag.NewFlagSet("streamsgroup broker", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&addr, "addr", "127.0.0.1:9092", "`host:port` to listen on; further nodes take the following ports")
	fs.IntVar(&nodes, "nodes", 1, "how many broker nodes: `n`")
	fs.StringVar(&policy, "policy", "kip1071", "the `policy`: kip1071, or kafka to do only what Apache Kafka does")
	fs.StringVar(&b.dataDir, "data", "", "`directory` to keep everything in (topics, records, offsets, groups), so that the broker can be started again; memory only without it")
	fs.Func("config", "broker config as `key=value`; repeatable", func(s string) error {
		k, v, ok := strings.Cut(s, "=")
		if !ok || k == "" {
			return errors.New("want key=value")
		}
		b.configs = append(b.configs, setting{k, v})
		return nil
	})
	fs.Func("topic", "topic to create as `name=partitions`; repeatable", func(s string) error {
		name, n, ok := strings.Cut(s, "=")
		p, err := strconv.ParseInt(n, 10, 32)
		if !ok || name == "" || err != nil || p < 1 {
			return errors.New("want name=partitions with at least one partition")
		}
		b.topics = append(b.topics, topicFlag{name, int32(p)})
		return nil
	})
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fs.SetOutput(stderr)
			fs.Usage()
			return b, err
		}
		return b, usageError{fmt.Errorf("%w: run \"streamsgroup broker -h\" for the flags", err)}
	}
	if fs.NArg() > 0 {
		return b, usageError{fmt.Errorf("unexpected argument %q: flags come as -name value", fs.Arg(0))}
	}
	switch policy {
	case "kip1071":
		b.policy = coordinator.KIP1071
	case "kafka":
		b.policy = coordinator.Kafka
	default:
		return b, usageError{fmt.Errorf("-policy %q: want kip1071 or kafka", policy)}
	}
	if nodes < 1 {
		return b, usageError{fmt.Errorf("-nodes %d: want at least one", nodes)}
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return b, usageError{fmt.Errorf("-addr %q: %w: want host:port", addr, err)}
	}
	first, err := strconv.Atoi(port)
	if err != nil || first < 1 || first+nodes-1 > 65535 {
		return b, usageError{fmt.Errorf("-addr %q: %d nodes want ports from %s on: choose a port from 1 to %d", addr, nodes, port, 65536-nodes)}
	}
	b.addr, b.nodes = addr, nodes
	return b, nil
}

func broker(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	b, err := parseBroker(args, stderr)
	if err != nil {
		return err
	}
	opts := []kfakeext.Opt{
		kfakeext.Policy(b.policy), kfakeext.Addr(b.addr), kfakeext.Nodes(b.nodes),
		kfakeext.Logger(kgo.BasicLogger(stderr, kgo.LogLevelWarn, nil)),
	}
	for _, c := range b.configs {
		opts = append(opts, kfakeext.BrokerConfig(c.name, c.value))
	}
	for _, t := range b.topics {
		opts = append(opts, kfakeext.Topic(t.name, t.partitions))
	}
	if b.dataDir != "" {
		opts = append(opts, kfakeext.DataDir(b.dataDir))
	}
	cluster, err := kfakeext.NewCluster(opts...)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("cannot start the broker: %w: choose another address with -addr", err)
	case err != nil:
		return fmt.Errorf("cannot start the broker: %w", err)
	}
	defer cluster.Close()
	fmt.Fprintf(stdout, "streamsgroup broker is ready on %s\n", strings.Join(cluster.Addrs(), ", "))
	<-ctx.Done()
	return nil
}
