package conformance_test

import (
	"context"
	"flag"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/streamsgroup/streamsgroup/conformance"
	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

var broker = flag.String("broker", os.Getenv("STREAMSGROUP_BROKER"), "host:port of a broker to run the scenarios against, over TCP")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// options makes kfakeext a broker that skips nothing.
func options(policy coordinator.Policy) []kfakeext.Opt {
	opts := []kfakeext.Opt{kfakeext.Policy(policy)}
	for _, line := range conformance.Requirements() {
		name, value, _ := strings.Cut(line, "=")
		opts = append(opts, kfakeext.BrokerConfig(name, value))
	}
	return append(opts, authorizer())
}

// plugin has the broker keep topology descriptions.
func plugin() kfakeext.Opt { return kfakeext.TopologyDescriptions(kfakeext.NewMemoryDescriptions()) }

// bare is whether a scenario is about a broker without a plug-in.
func bare(sc conformance.Scenario) bool { return strings.Contains(sc.Title, "without a plug-in") }

// authorizer has the broker enforce ACLs. As without them, everybody may do
// everything, but now a scenario can deny something.
func authorizer() kfakeext.Opt {
	var all []kfake.ACL
	for _, kind := range []kmsg.ACLResourceType{kmsg.ACLResourceTypeCluster, kmsg.ACLResourceTypeGroup, kmsg.ACLResourceTypeTopic, kmsg.ACLResourceTypeTransactionalId} {
		name := "*"
		if kind == kmsg.ACLResourceTypeCluster {
			name = "kafka-cluster"
		}
		all = append(all, kfake.ACL{
			Resource: kind, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral,
			Operation: kmsg.ACLOperationAll, Allow: true,
		})
	}
	return kfakeext.KfakeOpts(kfake.EnableACLs(), kfake.User("PLAIN", "ANONYMOUS", "", all...))
}

var policies = []struct {
	broker coordinator.Policy
	expect conformance.Policy
}{
	{coordinator.KIP1071, conformance.KIP1071},
	{coordinator.Kafka, conformance.Kafka},
}

// check turns a result into that of a test.
func check(t *testing.T, r conformance.Result) {
	t.Helper()
	switch r.Status {
	case conformance.Fail:
		t.Errorf("%s\n%s", r.Message, strings.Join(r.Trace, "\n"))
	case conformance.Skip:
		t.Skip(r.Message)
	case conformance.Pass:
	}
}

// Every scenario in a bubble of its own, with a cluster of its own: time is
// virtual.
func TestEmbeddedInVirtualTime(t *testing.T) {
	t.Parallel()
	for _, p := range policies {
		for _, sc := range conformance.Scenarios() {
			t.Run(p.expect.String()+"/"+sc.Name(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					vn := &kfake.VirtualNetwork{}
					opts := append(options(p.broker), kfakeext.VirtualNetwork(vn), kfakeext.Nodes(3))
					if !bare(sc) {
						opts = append(opts, plugin())
					}
					cluster := kfakeext.Start(t, opts...)
					s, err := conformance.Open(t.Context(), conformance.Target{Addr: cluster.Addrs()[0], Dial: vn.DialContext, Policy: p.expect})
					require.NoError(t, err)
					check(t, s.Run(t.Context(), sc))
				})
			})
		}
	}
}

// All scenarios against one cluster, over TCP and in parallel, as against any
// other broker.
func TestEmbeddedOverTCP(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: waits in real time")
	}
	for _, p := range policies {
		t.Run(p.expect.String(), func(t *testing.T) {
			t.Parallel()
			cluster := kfakeext.Start(t, append(options(p.broker), kfakeext.TCP(), plugin())...)
			whole(t, conformance.Target{Addr: cluster.Addrs()[0]}, p.expect)
		})
	}
}

// The broker that -broker names.
func TestBroker(t *testing.T) {
	t.Parallel()
	if *broker == "" {
		t.Skip("no broker: give one with -broker host:port or STREAMSGROUP_BROKER")
	}
	whole(t, conformance.Target{Addr: *broker}, conformance.Detect)
}

// whole runs all scenarios against a target, and checks that the policy is
// found out.
func whole(t *testing.T, target conformance.Target, expect conformance.Policy) {
	t.Helper()
	s, err := conformance.Open(t.Context(), target)
	require.NoError(t, err)
	if expect != conformance.Detect {
		require.Equal(t, expect, s.Policy())
	}
	results, err := s.RunAll(t.Context(), conformance.Scenarios(), 16, nil)
	require.NoError(t, err)
	for _, r := range results {
		t.Run(r.Scenario.Name(), func(t *testing.T) { check(t, r) })
	}
}

func TestScenariosAreNamed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, sc := range conformance.Scenarios() {
		assert.NotEmpty(t, sc.IDs, sc.Title)
		assert.False(t, seen[sc.Name()], "two scenarios are called %q", sc.Name())
		seen[sc.Name()] = true
		if sc.Policy != conformance.Detect {
			assert.NotEmpty(t, sc.Deviation, "%q is for one policy: name the deviation", sc.Name())
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := conformance.Open(ctx, conformance.Target{})
	require.ErrorContains(t, err, "Target.Addr is empty")
	_, err = conformance.Open(ctx, conformance.Target{Addr: "127.0.0.1"})
	require.ErrorContains(t, err, "127.0.0.1")
}
