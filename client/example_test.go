package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// exampleCluster is a broker in this process, in place of yours.
func exampleCluster(more ...kfakeext.Opt) *kfakeext.Cluster {
	cluster, err := kfakeext.NewCluster(append([]kfakeext.Opt{
		kfakeext.InProcess(), kfakeext.Nodes(1), kfakeext.Topic("orders", 2),
		kfakeext.BrokerConfig("group.streams.initial.rebalance.delay.ms", "0"),
	}, more...)...)
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

// A member joins, is told through callbacks what to run, and leaves when its context
// ends.
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

// A pod of a StatefulSet keeps its name and its volume when it is replaced: the name makes
// the member static, so that its tasks wait for its return until the session ends, and the
// volume has the process id, so that it comes back as the process whose state is there.
func ExampleStateDir() {
	cluster := exampleCluster()
	defer cluster.Close()
	volume, err := os.MkdirTemp("", "shop-state-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(volume) }()
	pod := "shop-0" // os.Hostname() in a pod

	var before string
	for _, life := range []string{"first", "second"} {
		cl, err := kgo.NewClient(cluster.KgoOpts()...)
		if err != nil {
			log.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background()) // signal.NotifyContext for SIGTERM
		m, err := client.NewMember(cl, "shop", exampleTopology(),
			client.InstanceID(pod),
			client.StateDir(volume),
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
		cl.Close()
		if before != "" {
			fmt.Println("same process:", m.ProcessID() == before)
		}
		before = m.ProcessID()
	}
	// Output:
	// first [0_0 0_1] at epoch 2
	// second [0_0 0_1] at epoch 2
	// same process: true
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

// A member finds that the whole application has to stop. The next heartbeat says so, and
// all members, itself included, revoke their tasks, leave and end with this status.
func ExampleMember_RequestShutdown() {
	cluster := exampleCluster()
	defer cluster.Close()
	cl, err := kgo.NewClient(cluster.KgoOpts()...)
	if err != nil {
		log.Fatal(err)
	}
	defer cl.Close()

	var m *client.Member
	m, err = client.NewMember(cl, "shop", exampleTopology(),
		client.OnTasksAssigned(func(context.Context, client.Assignment) error {
			m.RequestShutdown() // the data is not fit to be processed
			return nil
		}),
		client.OnTasksRevoked(func(_ context.Context, tasks []topology.TaskID) error {
			fmt.Println("finish and commit", tasks)
			return nil
		}))
	if err != nil {
		log.Fatal(err)
	}
	var ended *membership.StatusError
	if errors.As(m.Run(context.Background()), &ended) {
		fmt.Println("shutdown:", ended.Status.Code == membership.StatusShutdownApplication)
	}
	fmt.Println("members:", len(cluster.DescribeStreamsGroup("shop").Members))
	// Output:
	// finish and commit [0_0 0_1]
	// shutdown: true
	// members: 0
}

// stateLog is a hook: it implements two of the interfaces.
type stateLog struct{}

func (stateLog) OnStateChanged(m client.Meta, from, to membership.State, _ int32) {
	fmt.Println(m.Group, from, "to", to)
}

func (stateLog) OnTasksAssigned(_ client.Meta, a client.Assignment, _ time.Duration, err error) {
	fmt.Println("assigned", a.Active, err)
}

// Hooks observe a member. There is a ready-made one for Prometheus in plugin/prom.
func ExampleWithHooks() {
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
		client.WithHooks(stateLog{}),
		client.OnEvent(func(e membership.Event) {
			if s, ok := e.(membership.StateChanged); ok && s.To == membership.StateStable {
				stop()
			}
		}))
	if err != nil {
		log.Fatal(err)
	}
	if err := m.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// shop UNSUBSCRIBED to JOINING
	// shop JOINING to RECONCILING
	// assigned [0_0 0_1] <nil>
	// shop RECONCILING to ACKNOWLEDGING
	// shop ACKNOWLEDGING to STABLE
	// shop STABLE to PREPARE_LEAVING
	// shop PREPARE_LEAVING to LEAVING
	// shop LEAVING to UNSUBSCRIBED
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

// Copies records from one topic to another, each exactly once. What was polled before an
// error that can be ignored comes again.
func ExampleExactlyOnce() {
	cluster := exampleCluster(kfakeext.Topic("shouted", 1))
	defer cluster.Close()

	ctx := context.Background()
	var c *client.Consumer
	c, err := client.NewConsumer("shop", exampleTopology(),
		client.ExactlyOnce(),
		client.KgoOpts(cluster.KgoOpts()...),
		client.OnTasksRevoked(func(ctx context.Context, _ []topology.TaskID) error { return c.Commit(ctx) }),
	)
	if err != nil {
		log.Fatal(err)
	}
	order := &kgo.Record{Topic: "orders", Key: []byte("k"), Value: []byte("a book")}
	customer, err := kgo.NewClient(cluster.KgoOpts()...)
	if err != nil {
		log.Fatal(err)
	}
	defer customer.Close()
	if err := customer.ProduceSync(ctx, order).FirstErr(); err != nil {
		log.Fatal(err)
	}
	for done := 0; done < 1; {
		fetches, err := c.Poll(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if err := c.Begin(); err != nil {
			log.Fatal(err)
		}
		polled := 0
		for _, batch := range fetches.Tasks() {
			for _, r := range batch.Records {
				c.Produce(ctx, &kgo.Record{Topic: "shouted", Value: bytes.ToUpper(r.Value)}, nil)
			}
			c.MarkProcessed(batch.Records...)
			polled += len(batch.Records)
		}
		switch err := c.Commit(ctx); {
		case err == nil:
			done += polled
		case errors.Is(err, client.ErrFenced), errors.Is(err, client.ErrAborted):
			log.Print(err) // the next Poll goes on from where the group is
		default:
			log.Fatal(err)
		}
	}
	if err := c.Close(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("committed:", cluster.GroupInfo("shop").Commits["orders"][order.Partition].Offset)
	// Output:
	// committed: 1
}

// Records of one topic are copied to another one, each exactly once, whatever happens to
// the members that copy.
func ExampleConsumer_Begin() {
	cluster := exampleCluster(kfakeext.Topic("checked", 2))
	defer cluster.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	var c *client.Consumer
	c, err := client.NewConsumer("shop", exampleTopology(),
		client.KgoOpts(cluster.KgoOpts()...),
		client.ExactlyOnce(),
		client.OnTasksRevoked(func(ctx context.Context, _ []topology.TaskID) error { return c.Commit(ctx) }),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := c.Close(context.WithoutCancel(ctx)); err != nil {
			log.Fatal(err)
		}
	}()
	order(ctx, cluster)
	for ctx.Err() == nil {
		fetches, err := c.Poll(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if err := c.Begin(); err != nil {
			log.Fatal(err)
		}
		for _, f := range fetches.Tasks() {
			for _, r := range f.Records {
				c.Produce(ctx, &kgo.Record{Topic: "checked", Value: r.Value}, nil)
			}
			c.MarkProcessed(f.Records...)
		}
		err = c.Commit(ctx)
		switch {
		case errors.Is(err, client.ErrAborted), errors.Is(err, client.ErrFenced):
			// Poll returns the records again, here or at another member.
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println("the order was checked")
			stop()
		}
	}
	// Output: the order was checked
}

// order places an order.
func order(ctx context.Context, cluster *kfakeext.Cluster) {
	cl, err := kgo.NewClient(cluster.KgoOpts()...)
	if err != nil {
		log.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("one coffee")}).FirstErr(); err != nil {
		log.Fatal(err)
	}
}
