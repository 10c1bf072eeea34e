package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/topology"
)

// shopVersion is a version of an application that counts orders. The second one keeps
// the last order of each customer as well.
func shopVersion(epoch int32) *topology.Topology {
	b := new(topology.Builder).Epoch(epoch).AddSource("source", "orders").AddProcessor("count", "source").
		AddStateStore(topology.Store{Name: "counts"}, "count")
	if epoch > 0 {
		b.AddStateStore(topology.Store{Name: "latest"}, "count")
	}
	topo, err := b.Build("shop")
	if err != nil {
		log.Fatal(err)
	}
	return topo
}

// runUntilAssigned runs a member until it has its tasks, in place of an application.
func runUntilAssigned(cluster *kfakeext.Cluster, topo *topology.Topology, opts ...client.Opt) error {
	cl, err := kgo.NewClient(cluster.KgoOpts()...)
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	m, err := client.NewMember(cl, "shop", topo, append(opts, client.OnTasksAssigned(func(context.Context, client.Assignment) error {
		stop()
		return nil
	}))...)
	if err != nil {
		return err
	}
	return m.Run(ctx)
}

// check says what becomes of a running application when a new version of it is rolled
// out.
func check(ctx context.Context, cl *kgo.Client, group string, newer *topology.Topology) error {
	groups, err := client.DescribeGroups(ctx, cl, group)
	if err != nil {
		return err
	}
	older, err := topology.FromDescribe(&groups[0])
	if err != nil {
		return err
	}
	difference := topology.Diff(older, newer)
	fmt.Print(difference)
	if !difference.SafeToRoll() {
		return errors.New("do not roll this out")
	}
	return nil
}

// Compare a new version with the one that runs, before it is rolled out.
func ExampleDescribeGroups() {
	cluster := exampleCluster()
	defer cluster.Close()
	if err := runUntilAssigned(cluster, shopVersion(0)); err != nil {
		log.Fatal(err)
	}

	cl, err := kgo.NewClient(cluster.KgoOpts()...)
	if err != nil {
		log.Fatal(err)
	}
	defer cl.Close()
	if err := check(context.Background(), cl, "shop", shopVersion(1)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Topology epoch 0 -> 1: safe to roll
	//   warning: the stores of subtopology "0" change: state logged to shop-latest-changelog starts empty. Standbys and warm-ups of it begin again
	//       remedy: nothing, if that is meant; a store that is only renamed loses its content
	//   note: the newer topology waits for shop-latest-changelog to be created, and members with the older one work on meanwhile
	//       remedy: let members create topics, or create it before
	// Subtopologies:
	//   stays      0 (an unknown number of tasks)
	//       + changelog shop-latest-changelog
	// Topics:
	//   + shop-latest-changelog (changelog)
}

// The same question as members ask it before they join, with the numbers of partitions
// and of unread records.
func ExampleCheckUpgrade() {
	cluster := exampleCluster()
	defer cluster.Close()
	if err := runUntilAssigned(cluster, shopVersion(0)); err != nil {
		log.Fatal(err)
	}

	cl, err := kgo.NewClient(cluster.KgoOpts()...)
	if err != nil {
		log.Fatal(err)
	}
	defer cl.Close()
	_, err = client.CheckUpgrade(context.Background(), cl, "shop", shopVersion(2))
	var refused *client.UpgradeError
	if errors.As(err, &refused) {
		for _, f := range refused.Findings {
			fmt.Println("-", f.Reason)
		}
		fmt.Println(refused.Remedy())
	}
	// Output:
	// - members with the newer topology are refused: its topology epoch 2 is not the one after 0
	// - the stores of subtopology "0" change: state logged to shop-latest-changelog starts empty. Standbys and warm-ups of it begin again
	// give it the topology epoch 1; if that is meant, join with client.AllowUpgrade(2, "stores")
}

// A version with a store that the running one does not have: the member does not join
// unless it is told that this is meant.
func ExampleAllowUpgrade() {
	cluster := exampleCluster()
	defer cluster.Close()
	if err := runUntilAssigned(cluster, shopVersion(0)); err != nil {
		log.Fatal(err)
	}

	err := runUntilAssigned(cluster, shopVersion(1))
	var refused *client.UpgradeError
	if errors.As(err, &refused) {
		fmt.Println("epoch", refused.GroupEpoch, "to", refused.Epoch)
		for _, f := range refused.Findings {
			fmt.Println(f.Kind, f.Subtopologies, f.Topics)
		}
	}
	err = runUntilAssigned(cluster, shopVersion(1), client.AllowUpgrade(1, topology.StoresChanged))
	fmt.Println(err)
	// Output:
	// epoch 0 to 1
	// stores [0] [shop-latest-changelog]
	// <nil>
}

// The function in the chapter is this one.
func TestTheChapterShowsTheCheck(t *testing.T) {
	t.Parallel()
	chapter, err := os.ReadFile("../docs/upgrading.md")
	require.NoError(t, err)
	source, err := os.ReadFile("upgrade_example_test.go")
	require.NoError(t, err)
	_, code, ok := strings.Cut(string(source), "\nfunc check(")
	require.True(t, ok)
	code, _, ok = strings.Cut(code, "\n}\n")
	require.True(t, ok)
	assert.Contains(t, string(chapter), "\nfunc check("+code+"\n}\n```")
}
