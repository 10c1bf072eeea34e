package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/internal/story"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

const (
	linePartitions  = 4
	countPartitions = 2
)

// The times that the group asks for, where the broker lets it.
var groupTimes = map[string]string{
	"streams.session.timeout.ms":         "1500",
	"streams.heartbeat.interval.ms":      "300",
	"streams.initial.rebalance.delay.ms": "0",
	"streams.assignment.interval.ms":     "0",
}

// moments are the shares of the text that have been fed when something happens.
type moments struct{ second, third, leave, crash float64 }

func chooseMoments(seed uint64) moments {
	rng := rand.New(rand.NewPCG(seed, 2))
	between := func(lo, hi float64) float64 { return lo + rng.Float64()*(hi-lo) }
	return moments{between(0.10, 0.25), between(0.25, 0.40), between(0.45, 0.60), between(0.60, 0.85)}
}

// wordcount is one whole run.
func wordcount(ctx context.Context, o options, out io.Writer) error {
	lines, from, err := loadText(o.text, o.seed)
	if err != nil {
		return err
	}
	want := countWords(lines)
	acc := newAccount(out)
	acc.sayf("wordcount", "%d lines, %d words, %d different ones, from %s", len(lines), total(want), len(want), from)

	app, stop, err := prepare(ctx, o, acc)
	if err != nil {
		return err
	}
	defer stop()
	if err := app.play(ctx, lines, chooseMoments(o.seed), o.feed); err != nil {
		return err
	}
	app.played = true

	got, err := readCounts(ctx, app.kgoOpts, app.countsTopic)
	if err != nil {
		return fmt.Errorf("cannot read the result: %w", err)
	}
	acc.table("The ten most frequent words:", mostFrequent(got, 10))
	acc.print("")
	verdict, err := app.ledger.verdict()
	if err != nil {
		return err
	}
	acc.print("ok: " + verdict)
	if err := compare(got, want); err != nil {
		return err
	}
	acc.print(fmt.Sprintf("ok: %d words, %d different ones: equal to the count made without Kafka", total(got), len(got)))
	return nil
}

// prepare connects, creates the topics and lowers the group's times. stop undoes
// what it did.
func prepare(ctx context.Context, o options, acc *account) (*application, func(), error) {
	app := &application{account: acc, ledger: newLedger(), linesPartitions: linePartitions, group: o.group}
	if app.group == "" {
		app.group = fmt.Sprintf("wordcount-%06x", rand.Uint32N(1<<24))
	}
	app.teller = story.Teller{Name: acc.name}
	app.linesTopic = app.group + "-lines"
	app.countsTopic = app.group + "-counts"
	app.repartitionTopic = app.group + "-words-repartition"
	app.changelogTopic = app.group + "-word-counts-changelog"
	var err error
	if app.topology, err = buildTopology(app.group, app.linesTopic, app.countsTopic); err != nil {
		return nil, nil, err
	}

	stop := func() {}
	if len(o.brokers) > 0 {
		app.kgoOpts = []kgo.Opt{kgo.SeedBrokers(o.brokers...)}
		app.membersTell = true
		if err := reachable(ctx, o.brokers); err != nil {
			return nil, nil, err
		}
		acc.sayf("wordcount", "brokers %v, group %s, seed %d", o.brokers, app.group, o.seed)
	} else {
		cluster, err := kfakeext.NewCluster(append([]kfakeext.Opt{
			kfakeext.Nodes(1),
			kfakeext.BrokerConfig("group.streams.min.session.timeout.ms", "200"),
			kfakeext.BrokerConfig("group.streams.min.heartbeat.interval.ms", "100"),
			kfakeext.OnEvent(func(e coordinator.Event) { acc.say("coordinator", app.teller.Coordinator(e)) }),
		}, o.cluster...)...)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot start the embedded broker: %w", err)
		}
		app.kgoOpts = cluster.KgoOpts()
		stop = cluster.Close
		acc.sayf("wordcount", "embedded broker on %v, group %s, seed %d", cluster.Addrs(), app.group, o.seed)
	}

	cl, err := kgo.NewClient(app.kgoOpts...)
	if err != nil {
		stop()
		return nil, nil, err
	}
	undo := func() {
		if !o.keep && len(o.brokers) > 0 {
			app.cleanUp(cl)
		}
		cl.Close()
		stop()
	}
	if err := app.createTopics(ctx, cl); err != nil {
		cl.Close()
		stop()
		return nil, nil, err
	}
	if err := client.AlterGroupConfigs(ctx, cl, app.group, groupTimes); err != nil {
		acc.sayf("wordcount", "the broker keeps its own times, so a crash is noticed later: %v", err)
	}
	return app, undo, nil
}

// reachable says at once, and in one line, that nobody listens.
func reachable(ctx context.Context, brokers []string) error {
	var last error
	for _, b := range brokers {
		d := net.Dialer{Timeout: 3 * time.Second}
		conn, err := d.DialContext(ctx, "tcp", b)
		if err == nil {
			return conn.Close()
		}
		last = err
	}
	return fmt.Errorf("no broker answers: %w: start one or name another with -brokers", last)
}

func (a *application) createTopics(ctx context.Context, cl *kgo.Client) error {
	adm := kadm.NewClient(cl)
	for topic, partitions := range map[string]int32{a.linesTopic: linePartitions, a.countsTopic: countPartitions} {
		if _, err := adm.CreateTopic(ctx, partitions, -1, nil, topic); err != nil {
			return fmt.Errorf("cannot create topic %s: %w: choose another -group, or none", topic, err)
		}
	}
	return nil
}

// cleanUp removes what the run leaves on a cluster that goes on.
func (a *application) cleanUp(cl *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	adm := kadm.NewClient(cl)
	_, _ = adm.DeleteTopics(ctx, a.linesTopic, a.countsTopic, a.repartitionTopic, a.changelogTopic)
	if a.played {
		_, _ = adm.DeleteGroups(ctx, a.group) // it was ours: nobody else's is touched
	}
}

// play feeds the text while members come and go, and returns when all of it is
// counted.
func (a *application) play(ctx context.Context, lines []string, at moments, feed time.Duration) error {
	cl, err := kgo.NewClient(a.kgoOpts...)
	if err != nil {
		return err
	}
	defer cl.Close()

	var fed atomic.Int64
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.feed(ctx, cl, lines, feed, &fed) })
	done := make(chan struct{})
	g.Go(func() error {
		defer close(done)
		return a.waitCounted(ctx, cl, func() bool { return fed.Load() == int64(len(lines)) })
	})
	g.Go(func() error { return a.progress(ctx, done, &fed, len(lines)) })
	g.Go(func() error {
		return a.cast(ctx, done, at, func() float64 { return float64(fed.Load()) / float64(len(lines)) })
	})
	return g.Wait()
}

// feed writes the lines in their order, spread over the source partitions.
func (a *application) feed(ctx context.Context, cl *kgo.Client, lines []string, over time.Duration, fed *atomic.Int64) error {
	began := time.Now()
	var failed atomic.Pointer[error]
	for i, line := range lines {
		if due := began.Add(over * time.Duration(i) / time.Duration(len(lines))); i%50 == 0 && time.Until(due) > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Until(due)):
			}
		}
		cl.Produce(ctx, &kgo.Record{Topic: a.linesTopic, Key: strconv.AppendInt(nil, int64(i), 10), Value: []byte(line)}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
		fed.Store(int64(i)) // the last one counts only when all are durable
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return fmt.Errorf("cannot write the text: %w", *err)
	}
	fed.Store(int64(len(lines)))
	return nil
}

// waitCounted returns when the text is fed and the group has committed all of
// it, twice in a row.
func (a *application) waitCounted(ctx context.Context, cl *kgo.Client, fed func() bool) error {
	adm := kadm.NewClient(cl)
	for clean := 0; clean < 2; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
		if !fed() {
			continue
		}
		left, err := behind(ctx, adm, a.group, a.linesTopic, a.repartitionTopic)
		switch {
		case err != nil && ctx.Err() == nil:
			return fmt.Errorf("cannot ask how far the group is: %w", err)
		case left == 0 && err == nil:
			clean++
		default:
			clean = 0
		}
	}
	return nil
}

// progress prints how far the members are, once a second.
func (a *application) progress(ctx context.Context, done <-chan struct{}, fed *atomic.Int64, lines int) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var before int64
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-done:
			return nil
		case <-tick.C:
		}
		split, counted := a.linesSplit.Load(), a.wordsCounted.Load()
		a.account.sayf("progress", "%3d%% of the text fed, %d lines split, %d words counted, %d records/s",
			100*fed.Load()/int64(lines), split, counted, split+counted-before)
		before = split + counted
	}
}

// cast runs the three members.
func (a *application) cast(ctx context.Context, done <-chan struct{}, at moments, share func() float64) error {
	g, ctx := errgroup.WithContext(ctx)
	var members [3]member
	start := func(i int, name string) error {
		w, err := newWorker(a, name)
		if err != nil {
			return err
		}
		mctx, stop := context.WithCancel(ctx)
		members[i] = member{worker: w, stop: stop, ended: make(chan struct{})}
		g.Go(func() error {
			defer close(members[i].ended)
			return w.run(mctx)
		})
		return nil
	}
	reached := func(at float64) bool {
		for share() < at {
			select {
			case <-ctx.Done():
				return false
			case <-done:
				return false
			case <-time.After(5 * time.Millisecond):
			}
		}
		return true
	}
	script := []struct {
		at float64
		do func() error
	}{
		{0, func() error { a.account.say("wordcount", "member A starts"); return start(0, "A") }},
		{at.second, func() error { a.account.say("wordcount", "member B starts"); return start(1, "B") }},
		{at.third, func() error { a.account.say("wordcount", "member C starts"); return start(2, "C") }},
		{at.leave, func() error {
			a.account.say("wordcount", "member B is to leave")
			return members[1].leave()
		}},
		{at.crash, func() error {
			a.account.say("wordcount", "member A crashes: no commit, no goodbye")
			members[0].crash()
			return nil
		}},
	}
	g.Go(func() error {
		defer func() { // after a failure nobody is left to say goodbye to
			for i := range members {
				members[i].crash()
			}
		}()
		for _, s := range script {
			if !reached(s.at) {
				break
			}
			if err := s.do(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-done:
		}
		var err error
		for i := range members {
			err = errors.Join(err, members[i].leave())
		}
		return err
	})
	return g.Wait()
}

// member is a worker with the goroutine that runs it.
type member struct {
	worker *worker
	stop   context.CancelFunc
	ended  chan struct{}
	gone   bool
}

// leave ends a member in an orderly way, once.
func (m *member) leave() error {
	if m.worker == nil || m.gone {
		return nil
	}
	m.gone = true
	m.stop()
	<-m.ended
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return m.worker.leave(ctx)
}

// crash ends a member as a dead process would, once.
func (m *member) crash() {
	if m.worker == nil || m.gone {
		return
	}
	m.gone = true
	m.worker.dead.Store(true)
	m.worker.consumer.Abandon()
	m.stop()
	<-m.ended
	m.worker.app.ledger.dropAll(m.worker.name)
}
