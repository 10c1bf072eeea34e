// Command hello joins a streams group and prints which tasks it runs, until Ctrl-C.
package main

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/topology"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second Ctrl-C does not wait
	app, err := new(topology.Builder).AddSource("orders", "orders").Build("hello")
	if err != nil {
		log.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:9092"))
	if err != nil {
		log.Fatal(err)
	}
	m, err := client.NewMember(cl, "hello", app, client.OnTasksAssigned(
		func(_ context.Context, a client.Assignment) error {
			log.Printf("epoch %d: this member runs %v", a.Epoch, a.Active)
			return nil
		}))
	if err != nil {
		log.Fatal(err)
	}
	if err := m.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
