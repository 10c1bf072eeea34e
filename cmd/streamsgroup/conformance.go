package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/conformance"
	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

// conformanceFlags is what the command line of "streamsgroup conformance" says.
type conformanceFlags struct {
	broker   string
	policy   conformance.Policy
	pattern  *regexp.Regexp
	parallel int
	list     bool
}

func parseConformance(args []string, stderr io.Writer) (conformanceFlags, error) {
	f := conformanceFlags{}
	var policy, pattern string
	fs := flag.NewFlagSet("streamsgroup conformance", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&f.broker, "broker", "", "`host:port` of the broker to check; without it an embedded one is started")
	fs.StringVar(&policy, "policy", "detect", "the `policy` to expect: kip1071, kafka, or detect")
	fs.StringVar(&pattern, "run", "", "only scenarios whose name matches this regular `expression`")
	fs.IntVar(&f.parallel, "parallel", 16, "how many scenarios to run at once: `n`")
	fs.BoolVar(&f.list, "list", false, "list the scenarios and run none")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fs.SetOutput(stderr)
			fs.Usage()
			fmt.Fprintf(stderr, "\nA broker has to be started with\n  %s\nand Apache Kafka skips nothing with, in addition,\n  %s\n",
				strings.Join(conformance.Requirements(), "\n  "), strings.Join(slices.Concat(conformance.Authorizer(), conformance.DescriptionPlugin()), "\n  "))
			return f, err
		}
		return f, usageError{fmt.Errorf("%w: run \"streamsgroup conformance -h\" for the flags", err)}
	}
	if fs.NArg() > 0 {
		return f, usageError{fmt.Errorf("unexpected argument %q: flags come as -name value", fs.Arg(0))}
	}
	i := slices.IndexFunc([]conformance.Policy{conformance.Detect, conformance.KIP1071, conformance.Kafka},
		func(p conformance.Policy) bool { return p.String() == policy })
	if i < 0 {
		return f, usageError{fmt.Errorf("-policy %q: want detect, kip1071 or kafka", policy)}
	}
	f.policy = conformance.Policy(i)
	var err error
	if f.pattern, err = regexp.Compile(pattern); err != nil {
		return f, usageError{fmt.Errorf("-run %q: %w", pattern, err)}
	}
	if f.parallel < 1 {
		return f, usageError{fmt.Errorf("-parallel %d: want at least one", f.parallel)}
	}
	return f, nil
}

// checkConformance runs the scenarios and reports each. A failed scenario makes
// it fail.
func checkConformance(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f, err := parseConformance(args, stderr)
	if err != nil {
		return err
	}
	scenarios := slices.DeleteFunc(conformance.Scenarios(), func(s conformance.Scenario) bool { return !f.pattern.MatchString(s.Name()) })
	if len(scenarios) == 0 {
		return usageError{fmt.Errorf("-run %q: no scenario has such a name: see \"streamsgroup conformance -list\"", f.pattern)}
	}
	if f.list {
		for _, s := range scenarios {
			fmt.Fprintln(stdout, s.Name())
		}
		return nil
	}
	if f.broker == "" {
		cluster, err := embedded(f.policy)
		if err != nil {
			return fmt.Errorf("cannot start the embedded broker: %w", err)
		}
		defer cluster.Close()
		f.broker = cluster.Addrs()[0]
	}
	suite, err := conformance.Open(ctx, conformance.Target{Addr: f.broker, Policy: f.policy})
	if err != nil {
		return err
	}
	if err := delays(ctx, f.broker); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d scenarios against %s, policy %s\n", len(scenarios), f.broker, suite.Policy())
	results, err := suite.RunAll(ctx, scenarios, f.parallel, func(r conformance.Result) { _ = r.Write(stdout) })
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, conformance.Summary(results))
	failed := 0
	for _, r := range results {
		if r.Status == conformance.Fail {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d scenarios failed", failed, len(results))
	}
	return nil
}

// delays says so if the broker has groups wait for more members before they assign
// anything: most scenarios would fail, each with a reason of its own. A broker that does
// not tell is given the benefit of the doubt.
func delays(ctx context.Context, addr string) error {
	const delay = "group.streams.initial.rebalance.delay.ms"
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	brokers, err := adm.ListBrokers(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", addr, err)
	}
	configs, err := adm.DescribeBrokerConfigs(ctx, brokers.NodeIDs()...)
	if err != nil {
		configs = nil // nobody may have been allowed to ask
	}
	for _, c := range configs {
		for _, kv := range c.Configs {
			if kv.Key == delay && kv.Value != nil && *kv.Value != "0" {
				return fmt.Errorf("broker %s delays the first assignment of a group by %s ms, and scenarios do not wait: start it with %s=0", c.Name, *kv.Value, delay)
			}
		}
	}
	return nil
}

func embedded(policy conformance.Policy) (*kfakeext.Cluster, error) {
	opts := []kfakeext.Opt{
		kfakeext.Nodes(2), kfakeext.TCP(),
		kfakeext.TopologyDescriptions(kfakeext.NewMemoryDescriptions()),
		kfakeext.KfakeOpts(kfake.EnableACLs(), kfake.User("PLAIN", "ANONYMOUS", "", everything()...)),
	}
	if policy == conformance.Kafka {
		opts = append(opts, kfakeext.Policy(coordinator.Kafka))
	}
	for _, line := range conformance.Requirements() {
		name, value, _ := strings.Cut(line, "=")
		opts = append(opts, kfakeext.BrokerConfig(name, value))
	}
	return kfakeext.NewCluster(opts...)
}

// everything allows a user everything, so that scenarios can deny something.
func everything() (acls []kfake.ACL) {
	for kind, name := range map[kmsg.ACLResourceType]string{
		kmsg.ACLResourceTypeCluster: "kafka-cluster", kmsg.ACLResourceTypeGroup: "*",
		kmsg.ACLResourceTypeTopic: "*", kmsg.ACLResourceTypeTransactionalId: "*",
	} {
		acls = append(acls, kfake.ACL{
			Resource: kind, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral,
			Operation: kmsg.ACLOperationAll, Allow: true,
		})
	}
	return acls
}
