package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/topology"
)

// commitEvery bounds how much work is processed again after a crash, and how long readers
// of committed records wait.
const commitEvery = 100 * time.Millisecond

// worker is one member of the group.
type worker struct {
	name     string
	app      *application
	consumer *client.Consumer
	stop     context.CancelFunc
	ended    chan struct{}
	err      error // that ended the work, once ended is closed
	dead     atomic.Bool
}

// start runs a member. One that comes back after a crash has the same name, and with it
// the same transactional id: so it does away at once with what it had left open.
func (a *application) start(name string) (*worker, error) {
	w := &worker{name: name, app: a, ended: make(chan struct{})}
	opts := []client.Opt{
		client.KgoOpts(a.kgoOpts...),
		client.OnTasksRevoked(func(ctx context.Context, _ []topology.TaskID) error { return w.commit(ctx) }),
	}
	if a.exactly {
		opts = append(opts, client.TransactionalID(a.group+"-"+name))
	}
	c, err := client.NewConsumer(a.group, a.topology, opts...)
	if err != nil {
		return nil, err
	}
	w.consumer = c
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	go func() {
		defer close(w.ended)
		w.err = w.work(ctx)
	}()
	return w, nil
}

func (w *worker) work(ctx context.Context) error {
	committed := time.Now()
	for {
		fetches, err := w.poll(ctx)
		if err != nil {
			return err
		}
		if w.app.exactly {
			if err := w.consumer.Begin(); err != nil {
				return err
			}
		}
		for _, batch := range fetches.Tasks() {
			for _, r := range batch.Records {
				w.consumer.Produce(ctx, &kgo.Record{Topic: w.app.output, Value: []byte(strings.ToUpper(string(r.Value)))}, nil)
			}
			w.consumer.MarkProcessed(batch.Records...)
		}
		if time.Since(committed) < commitEvery {
			continue // the transaction stays open
		}
		if err := w.commit(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, client.ErrAborted) && !errors.Is(err, client.ErrFenced) {
			return err
		}
		committed = time.Now()
	}
}

// poll comes back in time for the next commit even if there is nothing to do.
func (w *worker) poll(ctx context.Context) (client.Fetches, error) {
	due, cancel := context.WithTimeout(ctx, commitEvery)
	defer cancel()
	fetches, err := w.consumer.Poll(due)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return fetches, err
}

func (w *worker) commit(ctx context.Context) error {
	if !w.app.exactly { // else Commit does it
		if err := w.consumer.Client().Flush(ctx); err != nil {
			return err
		}
	}
	return w.consumer.Commit(ctx)
}

// crash ends the member as if its process had died.
func (w *worker) crash() {
	w.dead.Store(true)
	w.consumer.Abandon()
	w.stop()
	<-w.ended
}

// leave ends the member in good order.
func (w *worker) leave(ctx context.Context) error {
	w.stop()
	<-w.ended
	if w.dead.Swap(true) {
		return nil
	}
	if err := w.consumer.Close(ctx); err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	if !errors.Is(w.err, context.Canceled) {
		return fmt.Errorf("%s: %w", w.name, w.err)
	}
	return nil
}
