package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/internal/story"
	"github.com/streamsgroup/streamsgroup/internal/timeline"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

const (
	group    = "regex-sources"
	existing = "orders-eu"
	arriving = "orders-us"
	stranger = "invoices-us"

	recordsPerPartition = 20
	patience            = 15 * time.Second // until what should happen has not
)

// partitions of the topics. The task of a partition reads it in every topic that
// matches, so the topic that arrives brings one more task.
var partitions = map[string]int32{existing: 2, arriving: 3, stranger: 3}

var groupTimes = map[string]string{
	"streams.session.timeout.ms":         "15000",
	"streams.heartbeat.interval.ms":      "100",
	"streams.initial.rebalance.delay.ms": "300",
	"streams.assignment.interval.ms":     "0",
}

// show is one run.
type show struct {
	began   time.Time
	rec     *timeline.Recorder
	out     io.Writer
	cluster *kfakeext.Cluster
	admin   *kadm.Client
	cl      *kgo.Client
	workers []*worker

	mu        sync.Mutex
	processed map[string]map[string]int // by topic and record: how often
	resolved  map[string][]string       // by member: the topics that it was told to read
	failed    error                     // of the first member that ended by itself
}

func regexSources(ctx context.Context, o options, out io.Writer) error {
	topo, err := new(topology.Builder).AddSourcePattern("orders", o.pattern).AddProcessor("process", "orders").Build(group)
	if err != nil {
		return err
	}
	s := &show{
		began: time.Now(), out: out, rec: &timeline.Recorder{Group: group, Tell: func(line string) { fmt.Fprintln(out, line) }},
		processed: map[string]map[string]int{}, resolved: map[string][]string{},
	}
	if s.cluster, err = kfakeext.NewCluster(append([]kfakeext.Opt{
		kfakeext.Nodes(1),
		kfakeext.BrokerConfig("group.streams.min.session.timeout.ms", "1000"),
		kfakeext.BrokerConfig("group.streams.min.heartbeat.interval.ms", "50"),
		kfakeext.Topic(existing, partitions[existing]),
		kfakeext.OnEvent(func(e coordinator.Event) { s.rec.Coordinator(s.now(), e) }),
	}, o.cluster...)...); err != nil {
		return fmt.Errorf("cannot start the embedded broker: %w", err)
	}
	defer s.cluster.Close()
	if s.cl, err = kgo.NewClient(append(s.cluster.KgoOpts(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...); err != nil {
		return err
	}
	defer s.cl.Close()
	s.admin = kadm.NewClient(s.cl)
	if err := client.AlterGroupConfigs(ctx, s.cl, group, groupTimes); err != nil {
		return err
	}
	defer s.abandon()
	broken, err := s.play(ctx, topo)
	if err != nil {
		return err
	}
	if o.html != "" {
		if err := s.writePage(o); err != nil {
			return err
		}
	}
	if broken > 0 {
		return fmt.Errorf("%d claims do not hold: see the lines that begin with FAILED", broken)
	}
	return nil
}

func (s *show) writePage(o options) error {
	f, err := os.Create(o.html)
	if err != nil {
		return fmt.Errorf("cannot write the page: %w: name another file with -html", err)
	}
	p := s.rec.Picture()
	p.Title = "A topic that matches appears while the group runs"
	p.Summary = fmt.Sprintf("Two members read all topics that match %s. %s is there at the start; %s is created while they run, and brings one more task.", o.pattern, existing, arriving)
	if err := errors.Join(p.WriteHTML(f), f.Close()); err != nil {
		return fmt.Errorf("cannot write the page: %w", err)
	}
	return nil
}

// play runs the members, creates topics meanwhile, and returns how many claims do
// not hold.
func (s *show) play(ctx context.Context, topo *topology.Topology) (broken int, err error) {
	s.say("A and B start, with %s", described(existing))
	for _, name := range []string{"A", "B"} {
		if err := s.start(ctx, name, topo); err != nil {
			return 0, err
		}
	}
	claim := func(holds bool, text string) {
		verdict := "ok: "
		if !holds {
			verdict = "FAILED: "
			broken++
		}
		fmt.Fprintln(s.out, verdict+text)
		s.rec.Claim(text, holds)
	}
	before, err := s.arrive(ctx, claim, existing)
	if err != nil {
		return broken, err
	}
	for _, topic := range []string{stranger, arriving} {
		s.say("topic %s is created", described(topic))
		if _, err := s.admin.CreateTopic(ctx, partitions[topic], 1, nil, topic); err != nil {
			return broken, fmt.Errorf("cannot create topic %s: %w", topic, err)
		}
	}
	if err := s.write(ctx, stranger); err != nil {
		return broken, err
	}
	after, err := s.arrive(ctx, claim, arriving)
	if err != nil {
		return broken, err
	}
	claim(len(after) == int(partitions[arriving]), fmt.Sprintf("the group had tasks %s and has %s, each of them once", story.Tasks(before), story.Tasks(after)))
	s.mu.Lock()
	claim(len(s.processed[stranger]) == 0, fmt.Sprintf("no record of %s was read, which does not match", stranger))
	for _, name := range []string{"A", "B"} {
		claim(slices.Equal(s.resolved[name], []string{existing, arriving}), fmt.Sprintf("%s was told to read %s", name, strings.Join(s.resolved[name], " and ")))
	}
	s.mu.Unlock()
	return broken, s.leave(ctx)
}

// arrive writes records to a topic and claims that they are processed, and each
// once. It returns the tasks that the members have then, ascending.
func (s *show) arrive(ctx context.Context, claim func(bool, string), topic string) ([]topology.TaskID, error) {
	if err := s.write(ctx, topic); err != nil {
		return nil, err
	}
	want := int(partitions[topic]) * recordsPerPartition
	all := func() bool { return len(s.processed[topic]) == want }
	if err := s.wait(ctx, all); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, times := range s.processed[topic] {
		n += times
	}
	claim(all() && n == want, fmt.Sprintf("%d records were written to %s, and %d processed, %d of them different ones", want, topic, n, len(s.processed[topic])))
	var tasks []topology.TaskID
	for _, w := range s.workers {
		tasks = append(tasks, w.tasks...)
	}
	slices.SortFunc(tasks, topology.TaskID.Compare)
	return tasks, nil
}

// wait returns when something has happened, or should have long since.
func (s *show) wait(ctx context.Context, happened func() bool) error {
	for began := time.Now(); time.Since(began) < patience; {
		s.mu.Lock()
		done, err := happened(), s.failed
		s.mu.Unlock()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

func (s *show) write(ctx context.Context, topic string) error {
	var records []*kgo.Record
	for i := range recordsPerPartition * partitions[topic] {
		records = append(records, &kgo.Record{Topic: topic, Partition: i % partitions[topic], Value: fmt.Appendf(nil, "%s %d", topic, i)})
	}
	if err := s.cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("cannot write to %s: %w", topic, err)
	}
	return nil
}

func (s *show) now() time.Duration { return time.Since(s.began) }

func (s *show) say(format string, args ...any) {
	s.rec.Say(s.now(), "show", fmt.Sprintf(format, args...))
}

func (s *show) memberEvent(name string, e membership.Event) {
	s.rec.Member(s.now(), name, e)
	if e, ok := e.(membership.SourcesResolved); ok {
		var told []string
		for _, topics := range e.Topics {
			told = append(told, topics...)
		}
		slices.Sort(told)
		s.rec.Say(s.now(), name, "reads "+strings.Join(told, ", "))
		s.mu.Lock()
		defer s.mu.Unlock()
		s.resolved[name] = told
	}
}

func described(topic string) string {
	return fmt.Sprintf("%s with %d partitions", topic, partitions[topic])
}
