package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/internal/story"
	"github.com/streamsgroup/streamsgroup/internal/timeline"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// The times of the group. Nobody crashes here, so the session may be long; the delay
// lets the three members of the beginning share the tasks at once.
var groupTimes = map[string]string{
	"streams.session.timeout.ms":         "15000",
	"streams.heartbeat.interval.ms":      "100",
	"streams.initial.rebalance.delay.ms": "300",
	"streams.assignment.interval.ms":     "0",
}

const (
	dwell    = 400 * time.Millisecond // how long each step is to be seen
	patience = time.Minute            // for the group to become stable; it takes a second
)

// version is one version of the application.
type version struct {
	name     string
	topology *topology.Topology
	// process is what each subtopology does with a record.
	process map[string]func(ctx context.Context, w *worker, task topology.TaskID, r *kgo.Record) error
}

func (v *version) epoch() int32 { return v.topology.Epoch() }

// show is one group with its broker, its members and what is known of them.
type show struct {
	group   string
	times   func(member string, r *kgo.Record) int
	began   time.Time
	rec     *timeline.Recorder
	ledger  *ledger
	cluster *kfakeext.Cluster
	kgoOpts []kgo.Opt
	admin   *kgo.Client
	out     io.Writer

	members map[string]*member

	mu     sync.Mutex
	failed error                      // of the first member that ended by itself
	told   map[string]map[string]bool // statuses that members were told, by member with its version
}

// member is a worker with the goroutine that runs it.
type member struct {
	*worker
	stop  context.CancelFunc
	ended chan struct{}
}

func newShow(ctx context.Context, o options, out io.Writer, group string, topics map[string]int32) (*show, error) {
	s := &show{
		group: group, times: o.times, began: time.Now(), ledger: newLedger(), out: out,
		rec:     &timeline.Recorder{Group: group, Tell: func(line string) { fmt.Fprintln(out, line) }},
		members: map[string]*member{}, told: map[string]map[string]bool{},
	}
	opts := []kfakeext.Opt{
		kfakeext.Nodes(1),
		kfakeext.BrokerConfig("group.streams.min.session.timeout.ms", "1000"),
		kfakeext.BrokerConfig("group.streams.min.heartbeat.interval.ms", "50"),
		kfakeext.OnEvent(s.coordinatorEvent),
	}
	for topic, partitions := range topics {
		opts = append(opts, kfakeext.Topic(topic, partitions))
	}
	var err error
	if s.cluster, err = kfakeext.NewCluster(append(opts, o.cluster...)...); err != nil {
		return nil, fmt.Errorf("cannot start the embedded broker: %w", err)
	}
	s.kgoOpts = s.cluster.KgoOpts()
	if s.admin, err = kgo.NewClient(s.kgoOpts...); err != nil {
		s.cluster.Close()
		return nil, err
	}
	if err := client.AlterGroupConfigs(ctx, s.admin, group, groupTimes); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// close ends what is left, without goodbyes.
func (s *show) close() {
	for _, m := range s.members {
		m.consumer.Abandon()
		m.stop()
		<-m.ended
	}
	s.admin.Close()
	s.cluster.Close()
}

func (s *show) now() time.Duration { return time.Since(s.began) }

func (s *show) say(format string, args ...any) {
	s.rec.Say(s.now(), "rollout", fmt.Sprintf(format, args...))
}

// coordinatorEvent is called in the order of events, so that the ledger sees a new
// topology before anything that is granted by it.
func (s *show) coordinatorEvent(e coordinator.Event) {
	s.rec.Coordinator(s.now(), e)
	if e.GroupID() == s.group {
		s.ledger.coordinator(e)
	}
}

func (s *show) memberEvent(w *worker, e membership.Event) {
	s.rec.Member(s.now(), w.name, e)
	if e, ok := e.(membership.StatusChanged); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, status := range e.Statuses {
			who := w.String()
			if s.told[who] == nil {
				s.told[who] = map[string]bool{}
			}
			s.told[who][story.StatusName(status.Code)] = true
		}
	}
}

// start has a member join with a version.
func (s *show) start(ctx context.Context, name string, v *version) error {
	w, err := newWorker(s, name, v)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	m := &member{worker: w, stop: stop, ended: make(chan struct{})}
	s.members[name] = m
	go func() {
		defer close(m.ended)
		if err := w.run(ctx); err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.failed == nil {
				s.failed = err
			}
		}
	}()
	return nil
}

// leave ends a member in an orderly way: its tasks are given up, its work committed.
func (s *show) leave(ctx context.Context, name string) error {
	m := s.members[name]
	delete(s.members, name)
	m.stop()
	<-m.ended
	if err := m.consumer.Close(ctx); err != nil {
		return fmt.Errorf("%s cannot leave: %w", m.worker, err)
	}
	return nil
}

// failure is why a member has ended that should not have.
func (s *show) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// row is who has what at one moment.
type row struct {
	tasks  map[string][]topology.TaskID
	epochs map[string]int32 // topology epochs
	group  int32            // the group's
}

func (r row) String() string {
	parts := make([]string, 0, len(r.tasks))
	for _, name := range names {
		if tasks, ok := r.tasks[name]; ok {
			parts = append(parts, fmt.Sprintf("%s#%d %s", name, r.epochs[name], story.Tasks(tasks)))
		}
	}
	return strings.Join(parts, " · ")
}

// names are the members of both shows.
var names = []string{"A", "B", "C"}

// settle waits until the members that were started, and only they, are in the group
// and it is stable. It lets that be seen for a moment, and prints and returns who has
// what.
func (s *show) settle(ctx context.Context, step string) (row, error) {
	s.say("%s", step)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return row{}, fmt.Errorf("the group does not become stable when %s: %w", step, err)
		}
		if err := s.failure(); err != nil {
			return row{}, err
		}
		groups, err := client.DescribeGroups(ctx, s.admin, s.group)
		if err != nil {
			return row{}, err
		}
		if r, ok := s.stable(&groups[0]); ok {
			s.say("stable: %s", r)
			return r, sleep(ctx, dwell)
		}
	}
}

func (s *show) stable(g *kmsg.StreamsGroupDescribeResponseGroup) (row, bool) {
	r := row{tasks: map[string][]topology.TaskID{}, epochs: map[string]int32{}}
	if g.ErrorCode != 0 || g.State != "Stable" || len(g.Members) != len(s.members) || g.Topology == nil {
		return r, false
	}
	r.group = g.Topology.Epoch
	for i := range g.Members {
		m := &g.Members[i]
		name := ""
		for n, started := range s.members {
			if started.consumer.Member().ID() == m.MemberID {
				name = n
			}
		}
		if name == "" {
			return r, false
		}
		r.epochs[name], r.tasks[name] = m.TopologyEpoch, nil
		for _, sub := range m.Assignment.ActiveTasks {
			for _, p := range sub.Partitions {
				r.tasks[name] = append(r.tasks[name], topology.TaskID{Subtopology: sub.SubtopologyID, Partition: p})
			}
		}
		slices.SortFunc(r.tasks[name], topology.TaskID.Compare)
	}
	return r, true
}

// drained waits until the group has committed all that is in topics.
func (s *show) drained(ctx context.Context, topics ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	adm := kadm.NewClient(s.admin)
	for clean := 0; clean < 2; {
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("the group does not come to the end of its topics: %w", err)
		}
		if err := s.failure(); err != nil {
			return err
		}
		left, err := behind(ctx, adm, s.group, topics...)
		if err != nil {
			return fmt.Errorf("cannot ask how far the group is: %w", err)
		}
		if clean++; left > 0 {
			clean = 0
		}
	}
	return nil
}

// claim checks something. detail says what is the case if it does not hold.
func (s *show) claim(holds bool, text string, detail ...error) {
	if holds {
		fmt.Fprintln(s.out, "ok: "+text)
	} else {
		fmt.Fprintln(s.out, "FAILED: "+text)
		if err := errors.Join(detail...); err != nil {
			fmt.Fprintln(s.out, "  "+strings.ReplaceAll(err.Error(), "\n", "\n  "))
			text = fmt.Sprintf("%s (%s)", text, strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	s.rec.Claim(text, holds)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
