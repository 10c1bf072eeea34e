package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Names within the topology, and of its two subtopologies.
const (
	splitTask = "0" // reads lines, writes words to the repartition topic
	countTask = "1" // counts them
)

// commitEvery bounds how much work a crash repeats.
const commitEvery = 200 * time.Millisecond

// worker is one member of the group with the two processors of the topology.
// All of it runs on the goroutine that calls run: callbacks are called from
// within Poll.
type worker struct {
	name     string
	app      *application
	consumer *client.Consumer
	stores   map[topology.TaskID]*store

	// dead is set when the member crashes: what fails from then on is the point of
	// the exercise.
	dead atomic.Bool

	mu     sync.Mutex
	failed error // why a record was not taken; set by kgo's goroutines
}

func newWorker(app *application, name string) (*worker, error) {
	w := &worker{
		name:   name,
		app:    app,
		stores: map[topology.TaskID]*store{},
	}
	c, err := client.NewConsumer(app.group, app.topology,
		client.KgoOpts(app.kgoOpts...),
		client.OnTasksRevoked(w.revoked),
		client.OnTasksAssigned(w.assigned),
		client.OnTasksLost(w.lost),
		client.OnEvent(func(e membership.Event) { app.memberEvent(name, e) }),
	)
	if err != nil {
		return nil, err
	}
	w.consumer = c
	app.account.call(c.Member().ID(), name)
	app.account.call(c.Member().ProcessID(), name)
	return w, nil
}

// run works until ctx ends or the member fails. It neither leaves nor commits at
// the end: that is for leave, or for nobody.
func (w *worker) run(ctx context.Context) error {
	err := w.work(ctx)
	if w.dead.Load() {
		return nil
	}
	return err
}

func (w *worker) work(ctx context.Context) error {
	commit := time.Now()
	// What was begun is finished: a member that is told to stop says goodbye with
	// its work done.
	finish := context.WithoutCancel(ctx)
	for {
		fetches, err := w.poll(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the error is that we were told to stop
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		for _, batch := range fetches.Tasks() {
			w.app.ledger.work(w.name, batch.Task)
			process := w.split
			if batch.Task.Subtopology == countTask {
				process = w.count
			}
			for _, r := range batch.Records {
				if err := process(finish, batch.Task, r); err != nil {
					return fmt.Errorf("%s: task %s: %w", w.name, batch.Task, err)
				}
			}
			w.consumer.MarkProcessed(batch.Records...)
			w.app.processed(batch.Task.Subtopology, len(batch.Records))
		}
		if time.Since(commit) >= commitEvery {
			if err := w.commit(finish); err != nil {
				return fmt.Errorf("%s: commit: %w", w.name, err)
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

// split is the processor of the first subtopology.
func (w *worker) split(ctx context.Context, _ topology.TaskID, line *kgo.Record) error {
	for i, word := range splitWords(string(line.Value)) {
		from := origin{partition: line.Partition, offset: line.Offset, index: int32(i)}
		w.produce(ctx, &kgo.Record{Topic: w.app.repartitionTopic, Key: []byte(word), Value: from.encode()})
	}
	return w.produceFailed()
}

// count is the processor of the second subtopology.
func (w *worker) count(ctx context.Context, task topology.TaskID, r *kgo.Record) error {
	from, err := decodeOrigin(r.Value)
	if err != nil {
		return err
	}
	word := string(r.Key)
	c, counted, err := w.stores[task].count(word, from, r.Offset)
	if err != nil || !counted {
		return err
	}
	// Words are keys in the changelog as they are in the repartition topic, and
	// both topics have the same number of partitions: so each count task finds
	// its words, and no others, in its own partition of the changelog.
	w.produce(ctx, &kgo.Record{Topic: w.app.changelogTopic, Key: r.Key, Value: c.encode()})
	w.output(ctx, word, c.count)
	return w.produceFailed()
}

func (w *worker) output(ctx context.Context, word string, count int64) {
	w.produce(ctx, &kgo.Record{Topic: w.app.countsTopic, Key: []byte(word), Value: strconv.AppendInt(nil, count, 10)})
}

func (w *worker) produce(ctx context.Context, r *kgo.Record) {
	w.consumer.Client().Produce(ctx, r, func(_ *kgo.Record, err error) {
		if err == nil {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.failed == nil {
			w.failed = fmt.Errorf("produce to %s: %w", r.Topic, err)
		}
	})
}

func (w *worker) produceFailed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
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
	err := w.consumer.Commit(ctx)
	if errors.Is(err, client.ErrFenced) {
		// The next poll brings "tasks lost" and rejoins; whoever has the tasks now
		// starts from the last commit.
		return nil
	}
	return err
}

// assigned starts the tasks of an assignment. A count task first reads its
// changelog.
func (w *worker) assigned(ctx context.Context, a client.Assignment) error {
	w.app.ledger.take(w.name, a.Active)
	if !a.Ready {
		return nil // another call comes when the group is ready
	}
	for _, task := range a.Active {
		if task.Subtopology == countTask && w.stores[task] == nil {
			if err := w.restore(ctx, task); err != nil {
				return fmt.Errorf("restore %s: %w", task, err)
			}
		}
	}
	return nil
}

// restore rebuilds the store of a count task from its changelog and starts where
// the changelog ends, whatever was committed.
func (w *worker) restore(ctx context.Context, task topology.TaskID) error {
	s := newStore(w.app.linesPartitions)
	n := 0
	err := w.consumer.RestoreChangelog(ctx, task, func(r *kgo.Record) error {
		c, err := decodeChange(r.Value)
		if err != nil {
			return err
		}
		n++
		return s.restore(string(r.Key), c)
	})
	if err != nil {
		return err
	}
	w.stores[task] = s
	if s.input >= 0 {
		w.consumer.StartAt(w.app.repartitionTopic, task.Partition, s.input+1)
		// A crash may have cut off outputs whose count is in the changelog. The
		// output is a table: saying its rows once more does no harm.
		for word, count := range s.counts {
			w.output(ctx, word, count)
		}
		w.app.account.sayf(w.name, "restored %d words of %s from %d changelog records", len(s.counts), task, n)
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
	w.app.ledger.drop(w.name, tasks)
}

// leave says goodbye: revoke, commit, leave.
func (w *worker) leave(ctx context.Context) error {
	return w.consumer.Close(ctx)
}
