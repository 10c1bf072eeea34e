package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

const commitEvery = 200 * time.Millisecond

// worker is one member with one version of the application. All of it runs on the
// goroutine that calls run: callbacks are called from within Poll.
type worker struct {
	name     string
	version  *version
	show     *show
	consumer *client.Consumer
	stores   map[topology.TaskID]map[string]int64

	mu     sync.Mutex
	failed error // why a record was not taken; set by kgo's goroutines
}

func (w *worker) String() string { return w.hand().String() }

func (w *worker) hand() hand { return hand{w.name, w.version.epoch()} }

func newWorker(s *show, name string, v *version) (*worker, error) {
	w := &worker{name: name, version: v, show: s, stores: map[topology.TaskID]map[string]int64{}}
	c, err := client.NewConsumer(s.group, v.topology,
		client.KgoOpts(s.kgoOpts...),
		client.OnTasksRevoked(w.revoked),
		client.OnTasksAssigned(w.assigned),
		client.OnTasksLost(w.lost),
		client.OnEvent(func(e membership.Event) { s.memberEvent(w, e) }),
	)
	if err != nil {
		return nil, err
	}
	w.consumer = c
	s.rec.Name(c.Member().ID(), name)
	s.rec.Name(c.Member().ProcessID(), name)
	return w, nil
}

// run works until ctx ends or the member fails.
func (w *worker) run(ctx context.Context) error {
	commit := time.Now()
	finish := context.WithoutCancel(ctx) // what was begun is finished
	for {
		fetches, err := w.poll(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the error is that we were told to stop
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w, err)
		}
		for _, batch := range fetches.Tasks() {
			process := w.version.process[batch.Task.Subtopology]
			for _, r := range batch.Records {
				for range w.show.times(w.name, r) {
					if err := process(finish, w, batch.Task, r); err != nil {
						return fmt.Errorf("%s: task %s: %w", w, batch.Task, err)
					}
					w.show.ledger.work(w.hand(), r)
				}
			}
			w.consumer.MarkProcessed(batch.Records...)
		}
		if time.Since(commit) >= commitEvery {
			if err := w.commit(finish); err != nil {
				return fmt.Errorf("%s: commit: %w", w, err)
			}
			commit = time.Now()
		}
	}
}

// poll comes back in time for the next commit even if there is nothing to do.
func (w *worker) poll(ctx context.Context) (client.Fetches, error) {
	due, cancel := context.WithTimeout(ctx, commitEvery)
	defer cancel()
	fetches, err := w.consumer.Poll(due)
	if due.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return fetches, err
}

func (w *worker) produce(ctx context.Context, topic, key, value string) error {
	r := &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value)}
	w.consumer.Client().Produce(ctx, r, func(_ *kgo.Record, err error) {
		if err == nil {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.failed == nil {
			w.failed = fmt.Errorf("produce to %s: %w", topic, err)
		}
	})
	return w.produceFailed()
}

func (w *worker) produceFailed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// count adds one to a key in the store of a task, and writes that to its changelog
// and to an output topic.
func (w *worker) count(ctx context.Context, task topology.TaskID, key, output string) error {
	w.stores[task][key]++
	n := strconv.FormatInt(w.stores[task][key], 10)
	// Keys are spread over the partitions of the changelog as over those of the
	// source: each task finds its own again, and no others.
	if err := w.produce(ctx, w.version.topology.Changelogs(task.Subtopology)[0], key, n); err != nil {
		return err
	}
	return w.produce(ctx, output, key, n)
}

// commit makes everything that was produced durable before it says that its
// input has been processed.
func (w *worker) commit(ctx context.Context) error {
	if err := w.consumer.Client().Flush(ctx); err != nil {
		return err
	}
	if err := w.produceFailed(); err != nil {
		return err
	}
	return w.consumer.Commit(ctx)
}

// places are where tasks work by this member's topology.
func (w *worker) places(tasks []topology.TaskID) []place {
	var out []place
	for _, t := range tasks {
		for _, topic := range w.version.topology.Sources(t.Subtopology) {
			out = append(out, place{topic, t.Partition})
		}
		for _, topic := range w.version.topology.Changelogs(t.Subtopology) {
			out = append(out, place{topic, t.Partition})
		}
	}
	return out
}

// assigned starts the tasks of an assignment. Those with a store first read their
// changelog: whoever wrote it, in whichever version, has given it up by now.
func (w *worker) assigned(ctx context.Context, a client.Assignment) error {
	w.show.ledger.take(w.hand(), w.places(a.Active))
	if !a.Ready {
		return nil // another call comes when the group is ready
	}
	for _, task := range a.Active {
		if w.stores[task] != nil || len(w.version.topology.Changelogs(task.Subtopology)) == 0 {
			continue
		}
		store := map[string]int64{}
		err := w.consumer.RestoreChangelog(ctx, task, func(r *kgo.Record) error {
			n, err := strconv.ParseInt(string(r.Value), 10, 64)
			store[string(r.Key)] = n
			return err
		})
		if err != nil {
			return fmt.Errorf("restore %s: %w", task, err)
		}
		w.stores[task] = store
	}
	return nil
}

// revoked ends tasks in an orderly way: everything they did is durable and
// committed before the coordinator hears that they are free.
func (w *worker) revoked(ctx context.Context, tasks []topology.TaskID) error {
	defer w.drop(tasks)
	return w.commit(ctx)
}

// lost ends tasks that belong to somebody else by now.
func (w *worker) lost(_ context.Context, tasks []topology.TaskID) { w.drop(tasks) }

func (w *worker) drop(tasks []topology.TaskID) {
	for _, task := range tasks {
		delete(w.stores, task)
	}
	w.show.ledger.drop(w.hand(), w.places(tasks))
}
