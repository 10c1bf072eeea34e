package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

const commitEvery = 200 * time.Millisecond

// worker is one member with the goroutine that runs it.
type worker struct {
	show     *show
	consumer *client.Consumer
	stop     context.CancelFunc
	ended    chan struct{}
	tasks    []topology.TaskID // guarded by show.mu
}

// start has a member join.
func (s *show) start(ctx context.Context, name string, topo *topology.Topology) error {
	w := &worker{show: s, ended: make(chan struct{})}
	var err error
	w.consumer, err = client.NewConsumer(group, topo,
		client.KgoOpts(s.cluster.KgoOpts()...),
		client.OnTasksAssigned(w.assigned),
		client.OnTasksRevoked(func(ctx context.Context, _ []topology.TaskID) error { return w.consumer.Commit(ctx) }),
		client.OnEvent(func(e membership.Event) { s.memberEvent(name, e) }),
	)
	if err != nil {
		return err
	}
	s.rec.Name(w.consumer.Member().ID(), name)
	s.rec.Name(w.consumer.Member().ProcessID(), name)
	ctx, w.stop = context.WithCancel(ctx)
	s.workers = append(s.workers, w)
	go func() {
		defer close(w.ended)
		if err := w.run(ctx); err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.failed = errors.Join(s.failed, fmt.Errorf("%s: %w", name, err))
		}
	}()
	return nil
}

func (w *worker) assigned(_ context.Context, a client.Assignment) error {
	w.show.mu.Lock()
	defer w.show.mu.Unlock()
	w.tasks = a.Active
	return nil
}

// run counts records until ctx ends or the member fails.
func (w *worker) run(ctx context.Context) error {
	for {
		due, cancel := context.WithTimeout(ctx, commitEvery)
		fetches, err := w.consumer.Poll(due)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the error is that we were told to stop
		case errors.Is(err, context.DeadlineExceeded):
		case err != nil:
			return err
		}
		for _, batch := range fetches.Tasks() {
			w.show.mu.Lock()
			for _, r := range batch.Records {
				if w.show.processed[r.Topic] == nil {
					w.show.processed[r.Topic] = map[string]int{}
				}
				w.show.processed[r.Topic][string(r.Value)]++
			}
			w.show.mu.Unlock()
			w.consumer.MarkProcessed(batch.Records...)
		}
		if err := w.consumer.Commit(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
}

// leave ends the members in an orderly way.
func (s *show) leave(ctx context.Context) error {
	var errs []error
	for _, w := range s.workers {
		w.stop()
		<-w.ended
		errs = append(errs, w.consumer.Close(ctx))
	}
	s.workers = nil
	return errors.Join(errs...)
}

// abandon ends what is left of them, without goodbyes.
func (s *show) abandon() {
	for _, w := range s.workers {
		w.consumer.Abandon()
		w.stop()
		<-w.ended
	}
}
