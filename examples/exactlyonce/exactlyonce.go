package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/topology"
)

const partitions = 4

// groupTimes are what the group asks for, where the broker lets it: else a crash is
// noticed after 45 s.
var groupTimes = []map[string]string{
	{"streams.session.timeout.ms": "1000", "streams.heartbeat.interval.ms": "200"},
	{"streams.initial.rebalance.delay.ms": "0"},
	{"streams.assignment.interval.ms": "0"},
}

// application is what its members have in common.
type application struct {
	group, input, output string
	topology             *topology.Topology
	kgoOpts              []kgo.Opt
	exactly              bool

	stdout io.Writer
	began  time.Time
	client *kgo.Client
}

func (a *application) say(format string, args ...any) {
	fmt.Fprintf(a.stdout, "%7.3fs "+format+"\n", append([]any{time.Since(a.began).Seconds()}, args...)...)
}

// exactlyOnce is the whole run. The error says what is not as it should be.
func exactlyOnce(ctx context.Context, o options, stdout io.Writer) (err error) {
	a, stop, err := prepare(ctx, o, stdout)
	if err != nil {
		return err
	}
	defer stop()
	workers := map[string]*worker{}
	defer func() {
		for _, name := range slices.Sorted(maps.Keys(workers)) {
			if err == nil {
				err = workers[name].leave(ctx)
			} else {
				workers[name].crash()
			}
		}
	}()
	for _, name := range []string{"A", "B"} {
		if workers[name], err = a.start(name); err != nil {
			delete(workers, name)
			return err
		}
	}
	fed := make(chan error, 1)
	feeding, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(fed)
		fed <- a.feed(feeding, o.records, o.feed)
	}()
	feeder := fed
	defer func() {
		cancel()
		if feeder != nil {
			for err := range feeder {
				a.say("writing was stopped: %v", err)
			}
		}
	}()
	for i := range o.crashes {
		select {
		case <-time.After(o.feed / time.Duration(o.crashes+1)):
		case <-ctx.Done():
			return ctx.Err()
		}
		name := []string{"A", "B"}[i%2]
		a.say("%s crashes, and comes back", name)
		workers[name].crash()
		if workers[name], err = a.start(name); err != nil {
			delete(workers, name)
			return err
		}
	}
	err = <-feeder
	feeder = nil
	if err != nil {
		return err
	}
	a.say("%d records are written", o.records)
	if err := a.copied(ctx, o.records, workers); err != nil {
		return err
	}
	return a.check(ctx, o.records)
}

// prepare starts the broker, if there is none, and creates the topics.
func prepare(ctx context.Context, o options, stdout io.Writer) (a *application, stop func(), err error) {
	group := fmt.Sprintf("exactlyonce-%d", time.Now().UnixNano())
	a = &application{
		group: group, input: group + "-input", output: group + "-output", exactly: o.exactly,
		kgoOpts: []kgo.Opt{kgo.SeedBrokers(o.brokers...)}, stdout: stdout, began: time.Now(),
	}
	stop = func() {}
	if len(o.brokers) == 0 {
		cluster, err := kfakeext.NewCluster(append([]kfakeext.Opt{
			kfakeext.Nodes(1),
			kfakeext.BrokerConfig("group.streams.min.session.timeout.ms", "200"),
			kfakeext.BrokerConfig("group.streams.min.heartbeat.interval.ms", "100"),
		}, o.cluster...)...)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot start the embedded broker: %w", err)
		}
		a.kgoOpts, stop = cluster.KgoOpts(), cluster.Close
	}
	if a.client, err = kgo.NewClient(a.kgoOpts...); err != nil {
		stop()
		return nil, nil, err
	}
	end := stop
	stop = func() {
		a.client.Close()
		end()
	}
	if err := a.create(ctx); err != nil {
		stop()
		return nil, nil, err
	}
	return a, stop, nil
}

func (a *application) create(ctx context.Context) (err error) {
	topics, err := kadm.NewClient(a.client).CreateTopics(ctx, partitions, 1, nil, a.input, a.output)
	if err = errors.Join(err, topics.Error()); err != nil {
		return fmt.Errorf("cannot create the topics: %w", err)
	}
	for _, times := range groupTimes {
		if err := client.AlterGroupConfigs(ctx, a.client, a.group, times); err != nil {
			a.say("as the broker has it: %v", err)
		}
	}
	a.topology, err = new(topology.Builder).AddSource("input", a.input).AddProcessor("shout", "input").
		AddSink("output", a.output, "shout").Build(a.group)
	return err
}

func value(i int) string { return fmt.Sprintf("record %d", i) }

// feed writes the input, little by little.
func (a *application) feed(ctx context.Context, records int, d time.Duration) error {
	const steps = 100
	for i := range steps {
		var batch []*kgo.Record
		for n := records * i / steps; n < records*(i+1)/steps; n++ {
			batch = append(batch, &kgo.Record{Topic: a.input, Key: []byte(value(n)), Value: []byte(value(n))})
		}
		if err := a.client.ProduceSync(ctx, batch...).FirstErr(); err != nil {
			return fmt.Errorf("cannot write the input: %w", err)
		}
		select {
		case <-time.After(d / steps):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// copied waits until the group has committed all of the input.
func (a *application) copied(ctx context.Context, records int, workers map[string]*worker) error {
	for {
		offsets, err := kadm.NewClient(a.client).FetchOffsets(ctx, a.group)
		if err != nil {
			return fmt.Errorf("cannot see how far the group is: %w", err)
		}
		sum := int64(0)
		offsets.Each(func(o kadm.OffsetResponse) { sum += o.At })
		if sum == int64(records) {
			return nil
		}
		for name, w := range workers {
			select {
			case <-w.ended:
				return fmt.Errorf("%s has ended: %w", name, w.err)
			default:
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// check counts what a reader of committed records finds in the output.
func (a *application) check(ctx context.Context, records int) error {
	ends, err := kadm.NewClient(a.client).ListEndOffsets(ctx, a.output)
	if err = errors.Join(err, ends.Error()); err != nil {
		return fmt.Errorf("cannot read the output: %w", err)
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	cl, err := kgo.NewClient(slices.Concat(a.kgoOpts, []kgo.Opt{
		kgo.ConsumeTopics(a.output), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
	})...)
	if err != nil {
		return err
	}
	defer cl.Close()
	times := map[string]int{}
	aborted := int64(0)
	next := map[int32]int64{}
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := errors.Join(fetches.Err0(), ctx.Err()); err != nil {
			return fmt.Errorf("cannot read the output: %w", err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			aborted += r.Offset - next[r.Partition]
			if next[r.Partition] = r.Offset + 1; next[r.Partition] >= left[r.Partition] {
				delete(left, r.Partition)
			}
			if !r.Attrs.IsControl() {
				times[string(r.Value)]++
			}
		})
	}
	lost, twice := 0, 0
	for i := range records {
		switch n := times[strings.ToUpper(value(i))]; {
		case n == 0:
			lost++
		case n > 1:
			twice++
		}
	}
	if lost > 0 || twice > 0 || len(times) != records {
		return fmt.Errorf("of %d records %d are lost and %d are there more than once", records, lost, twice)
	}
	a.say("%d more were written in transactions that were aborted, which nobody sees", aborted)
	a.say("ok: %d records, each exactly once", records)
	return nil
}
