package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/topology"
)

// exampleCluster is a broker in this process, in place of yours.
func exampleCluster() *kfakeext.Cluster {
	cluster, err := kfakeext.NewCluster(kfakeext.InProcess(), kfakeext.Nodes(1), kfakeext.Topic("orders", 2),
		kfakeext.BrokerConfig("group.streams.initial.rebalance.delay.ms", "0"))
	if err != nil {
		log.Fatal(err)
	}
	return cluster
}

func exampleTopology() *topology.Topology {
	var b topology.Builder
	topo, err := b.AddSource("source", "orders").AddProcessor("check", "source").Build("shop")
	if err != nil {
		log.Fatal(err)
	}
	return topo
}

// A member joins, is told what to run, and leaves when its context ends.
func ExampleMember() {
	cluster := exampleCluster()
	defer cluster.Close()
	cl, err := kgo.NewClient(cluster.KgoOpts()...)
	if err != nil {
		log.Fatal(err)
	}
	defer cl.Close()

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	m, err := client.NewMember(cl, "shop", exampleTopology(),
		client.OnTasksAssigned(func(_ context.Context, a client.Assignment) error {
			fmt.Println("run", a.Active)
			stop()
			return nil
		}),
		client.OnTasksRevoked(func(_ context.Context, tasks []topology.TaskID) error {
			fmt.Println("finish and commit", tasks)
			return nil
		}),
		client.OnTasksLost(func(_ context.Context, tasks []topology.TaskID) {
			fmt.Println("drop", tasks)
		}),
	)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ended with", m.Run(ctx))
	// Output:
	// run [0_0 0_1]
	// finish and commit [0_0 0_1]
	// ended with <nil>
}

// The tasks of a static member wait for its return.
func ExampleInstanceID() {
	cluster := exampleCluster()
	defer cluster.Close()
	cl, err := kgo.NewClient(cluster.KgoOpts()...)
	if err != nil {
		log.Fatal(err)
	}
	defer cl.Close()

	for _, life := range []string{"first", "second"} {
		ctx, stop := context.WithCancel(context.Background())
		m, err := client.NewMember(cl, "shop", exampleTopology(),
			client.InstanceID("shop-1"),
			client.OnTasksAssigned(func(_ context.Context, a client.Assignment) error {
				fmt.Println(life, a.Active, "at epoch", a.Epoch)
				stop()
				return nil
			}))
		if err != nil {
			log.Fatal(err)
		}
		if err := m.Run(ctx); err != nil {
			log.Fatal(err)
		}
		stop()
		fmt.Println("members:", len(cluster.DescribeStreamsGroup("shop").Members))
	}
	// Output:
	// first [0_0 0_1] at epoch 2
	// members: 1
	// second [0_0 0_1] at epoch 2
	// members: 1
}

func ExampleMember_Snapshot() {
	cluster := exampleCluster()
	defer cluster.Close()
	cl, err := kgo.NewClient(cluster.KgoOpts()...)
	if err != nil {
		log.Fatal(err)
	}
	defer cl.Close()

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var m *client.Member
	m, err = client.NewMember(cl, "shop", exampleTopology(),
		client.OnTasksAssigned(func(context.Context, client.Assignment) error {
			s := m.Snapshot()
			fmt.Println(s.Group, s.State, "at epoch", s.Epoch, "heartbeats every", s.HeartbeatInterval)
			stop()
			return nil
		}))
	if err != nil {
		log.Fatal(err)
	}
	if err := m.Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Snapshot().State)
	// Output:
	// shop RECONCILING at epoch 2 heartbeats every 5s
	// UNSUBSCRIBED
}

// A consumer fetches the records of its tasks. What was processed is committed
// before the tasks are handed over.
func ExampleConsumer() {
	cluster := exampleCluster()
	defer cluster.Close()

	ctx := context.Background()
	var c *client.Consumer
	c, err := client.NewConsumer("shop", exampleTopology(),
		client.KgoOpts(cluster.KgoOpts()...),
		client.OnTasksRevoked(func(ctx context.Context, _ []topology.TaskID) error { return c.Commit(ctx) }),
	)
	if err != nil {
		log.Fatal(err)
	}
	order := &kgo.Record{Topic: "orders", Key: []byte("k"), Value: []byte("a book")}
	if err := c.Client().ProduceSync(ctx, order).FirstErr(); err != nil {
		log.Fatal(err)
	}
	fetches, err := c.Poll(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, batch := range fetches.Tasks() {
		for _, r := range batch.Records {
			fmt.Printf("%s\n", r.Value)
		}
		c.MarkProcessed(batch.Records...)
	}
	if err := c.Close(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("committed:", cluster.GroupInfo("shop").Commits["orders"][order.Partition].Offset)
	// Output:
	// a book
	// committed: 1
}
