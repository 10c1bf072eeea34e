package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/internal/timeline"
	"github.com/streamsgroup/streamsgroup/topology"
)

const (
	orders       = "orders"
	confirmed    = "confirmations"
	orderTasks   = 9
	confirmation = "confirm"
)

// ordersVersion confirms orders. Version 2 does so in two processors rather than in
// one, which changes nothing for the coordinator but the epoch.
func ordersVersion(epoch int32) (*version, error) {
	b := new(topology.Builder).Epoch(epoch).AddSource(orders, orders)
	last := orders
	if epoch > 0 {
		b.AddProcessor("check", last)
		last = "check"
	}
	t, err := b.AddProcessor(confirmation, last).AddSink(confirmed, confirmed, confirmation).Build("nine-tasks")
	if err != nil {
		return nil, err
	}
	v := &version{name: fmt.Sprintf("topology epoch %d", epoch), topology: t}
	v.process = map[string]func(context.Context, *worker, topology.TaskID, *kgo.Record) error{
		t.Subtopologies()[0]: func(ctx context.Context, w *worker, _ topology.TaskID, r *kgo.Record) error {
			return w.produce(ctx, confirmed, string(r.Value), v.name)
		},
	}
	return v, nil
}

// nineTasks is the example of KIP-1071: nine tasks, three members that are bounced
// one by one from topology epoch 0 to 1.
func nineTasks(ctx context.Context, o options, out io.Writer) (*timeline.Picture, error) {
	fmt.Fprint(out, "== KIP-1071's example: nine tasks, three members, bounced from topology epoch 0 to 1 ==\n\n")
	older, err := ordersVersion(0)
	if err != nil {
		return nil, err
	}
	newer, err := ordersVersion(1)
	if err != nil {
		return nil, err
	}
	s, err := newShow(ctx, o, out, "nine-tasks", map[string]int32{orders: orderTasks, confirmed: 3})
	if err != nil {
		return nil, err
	}
	defer s.close()
	f, err := startFeed(ctx, append(s.kgoOpts, kgo.RecordPartitioner(kgo.ManualPartitioner())), feedEvery, func(i int) *kgo.Record {
		return &kgo.Record{Topic: orders, Partition: int32(i % orderTasks), Value: strconv.AppendInt(nil, int64(i), 10)}
	})
	if err != nil {
		return nil, err
	}
	defer f.end() //nolint:errcheck // it matters where it is called first
	if err := s.rollOut(ctx, older, newer, map[string]int32{orders: orderTasks}, share(3, names...),
		map[string]check{
			"C": all(kept("A", "B"), fiveAndFour("A", "B")),
			"B": all(kept("A", "C"), share(3, "A"), share(6, "C")),
			"A": all(kept("B", "C"), fiveAndFour("B", "C")),
		},
		map[string]check{
			"C": all(gainedNothing("A", "B"), share(3, names...)),
			"B": all(kept("A"), gainedNothing("A", "C"), share(3, names...)),
			"A": all(gainedNothing("B", "C"), share(3, names...)),
		}); err != nil {
		return nil, err
	}
	sent, err := f.end()
	if err != nil {
		return nil, err
	}
	if err := s.finish(ctx, older, newer, orders); err != nil {
		return nil, err
	}
	want, got := map[string]int64{}, map[string]int64{}
	for _, r := range sent {
		want[string(r.Value)]++
	}
	if err := readAll(ctx, s.kgoOpts, confirmed, func(r *kgo.Record) { got[string(r.Key)]++ }); err != nil {
		return nil, fmt.Errorf("cannot read the result: %w", err)
	}
	wrong := compare(got, want)
	s.claim(wrong == nil, fmt.Sprintf("of %d orders that were sent, each was confirmed exactly once, as counted in the output topic", len(sent)), wrong)
	fmt.Fprintln(out)
	p := s.rec.Picture()
	p.Title = "Nine tasks, from topology epoch 0 to 1"
	p.Summary = "The example of KIP-1071: three members are bounced one by one. The first that comes back moves the group to topology epoch 1; A and B then keep a fair share of what they have, and gain nothing. " + s.took()
	return p, nil
}

// fiveAndFour wants nine tasks to be shared by two.
func fiveAndFour(a, b string) check {
	return func(_, now row) error {
		if x, y := len(now.tasks[a]), len(now.tasks[b]); x+y != orderTasks || x < 4 || y < 4 {
			return fmt.Errorf("%s has %d tasks and %s has %d, not five and four", a, x, b, y)
		}
		return nil
	}
}
