package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/topology"
)

// TB is the part of testing.TB that is needed here.
type TB interface {
	Helper()
	Context() context.Context
	Failed() bool
	ArtifactDir() string
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// Config is how a group is to run.
type Config struct {
	Name       string
	Partitions int
	Session    time.Duration
	Interval   time.Duration // of heartbeats
	Rebalance  time.Duration // and how long the application may take between two polls
	Seeds      []string      // addresses of brokers
	// Dial is how members connect, Direct how the test itself does. They may be the same.
	Dial, Direct Dial
	// Pace is the time between two records that are produced.
	Pace time.Duration
	// Patience bounds the time from the end of all faults until the group is stable and
	// has processed everything.
	Patience time.Duration
	// Stragglers is whether a request may arrive although its connection was given up.
	Stragglers bool
	// Forgetful is whether the broker does not repeat an assignment whose answer was
	// lost, as Kafka does: the member does not run what it has then. An operator who
	// sees that has the members start again, and so does Settle.
	Forgetful bool
}

// Group is an application: its topic, and members that come and go. It asserts that
//
//   - no task is worked on by the callbacks of two members, unless the coordinator may
//     have ended the membership of one of them,
//   - callbacks come in order, and records of what is held,
//   - every record is processed, and afterwards committed,
//   - committed offsets do not go back,
//   - after the faults the group is stable, and every task is active once.
type Group struct {
	TB
	Config
	History *History

	topic string
	id    [16]byte // of the topic
	topo  *topology.Topology
	wire  *Wire // of the test itself
	admin *kgo.Client

	stop  context.CancelFunc
	loops sync.WaitGroup

	mu        sync.Mutex
	all       []*Member
	processes []*client.Process
	owners    map[int32]map[*Member]bool // whose callbacks work on a task
	produced  map[int32]int64            // the offset after the last record that was acknowledged
	seen      map[int32]map[int64]bool   // offsets that were processed
	counts    Counts
}

// Counts are figures of a run.
type Counts struct {
	Records, Processed, Members, Assigned, Lost, Restarts int
}

// NewGroup creates the topic and configures the group.
func NewGroup(t TB, cfg Config) *Group {
	t.Helper()
	g := &Group{
		TB: t, Config: cfg, History: NewHistory(cfg.Session, cfg.Rebalance, cfg.Stragglers), topic: cfg.Name + "-orders",
		owners: map[int32]map[*Member]bool{}, produced: map[int32]int64{}, seen: map[int32]map[int64]bool{},
	}
	g.wire = NewWire(g.History, "test", cfg.Direct)
	g.admin = g.client(g.wire, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	resp, err := kadm.NewClient(g.admin).CreateTopic(t.Context(), int32(cfg.Partitions), 1, nil, g.topic)
	if err != nil {
		t.Fatalf("create topic: %v", err)
	}
	g.id = resp.ID
	for p := range int32(cfg.Partitions) {
		g.seen[p] = map[int64]bool{}
	}
	g.configure()
	g.topo, err = new(topology.Builder).AddSource("orders", g.topic).AddProcessor("total", "orders").Build(cfg.Name)
	if err != nil {
		t.Fatalf("topology: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	g.loops.Go(func() { g.produce(ctx) })
	g.loops.Go(func() { g.watch(ctx) })
	return g
}

func (g *Group) configure() {
	g.Helper()
	if err := client.AlterGroupConfigs(g.Context(), g.admin, g.Name, map[string]string{
		"streams.session.timeout.ms":     strconv.FormatInt(g.Session.Milliseconds(), 10),
		"streams.heartbeat.interval.ms":  strconv.FormatInt(g.Interval.Milliseconds(), 10),
		"streams.assignment.interval.ms": "0",
	}); err != nil {
		g.Fatalf("configs of the group: %v", err)
	}
}

// client makes a client that does not wait long for an answer.
func (g *Group) client(w *Wire, opts ...kgo.Opt) *kgo.Client {
	g.Helper()
	cl, err := kgo.NewClient(append(g.kgoOpts(w), opts...)...)
	if err != nil {
		g.Fatalf("client: %v", err)
	}
	return cl
}

func (g *Group) kgoOpts(w *Wire) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(g.Seeds...), kgo.Dialer(w.DialContext), kgo.RequestTimeoutOverhead(2 * time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }), kgo.MetadataMinAge(100 * time.Millisecond),
	}
}

// produce writes records, one partition after the other.
func (g *Group) produce(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		p := int32(i % g.Partitions)
		r, err := g.admin.ProduceSync(ctx, &kgo.Record{Topic: g.topic, Partition: p, Value: []byte(strconv.Itoa(i))}).First()
		if err == nil {
			g.mu.Lock()
			g.produced[p] = max(g.produced[p], r.Offset+1)
			g.counts.Records++
			g.mu.Unlock()
		}
		sleep(ctx, g.Pace)
	}
}

// watch reads committed offsets, as an onlooker does.
func (g *Group) watch(ctx context.Context) {
	for ctx.Err() == nil {
		_, _ = g.committed(ctx)
		sleep(ctx, g.Pace*2)
	}
}

// committed asks for the committed offsets, without being a member.
func (g *Group) committed(ctx context.Context) (map[int32]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req := kmsg.NewPtrOffsetFetchRequest()
	of := kmsg.NewOffsetFetchRequestGroup()
	of.Group, of.MemberEpoch = g.Name, -1
	rt := kmsg.NewOffsetFetchRequestGroupTopic()
	rt.Topic, rt.TopicID = g.topic, g.id
	for p := range int32(g.Partitions) {
		rt.Partitions = append(rt.Partitions, p)
	}
	of.Topics = append(of.Topics, rt)
	req.Groups = append(req.Groups, of)
	resp, err := req.RequestWith(ctx, g.admin)
	if err != nil {
		return nil, err
	}
	out := map[int32]int64{}
	for _, rg := range resp.Groups {
		if err := kerr.ErrorForCode(rg.ErrorCode); err != nil {
			return nil, err
		}
		for _, t := range rg.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, err
				}
				out[p.Partition] = p.Offset
			}
		}
	}
	return out, nil
}

// Live are the members that have not been ended.
func (g *Group) Live() (live []*Member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.all {
		if !m.ended {
			live = append(live, m)
		}
	}
	return live
}

// Counts returns the figures so far.
func (g *Group) Counts() Counts {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.counts
}

// Settle lets time pass until the group is stable, every task is active once, and all
// records are processed and committed.
func (g *Group) Settle() {
	g.Helper()
	began := time.Now()
	for {
		why := g.unsettled()
		if why == "" {
			g.History.Note("settled after %v", time.Since(began))
			return
		}
		if g.Forgetful && g.Counts().Restarts == 0 && time.Since(began) > g.Patience/2 {
			g.restart(why)
		}
		if time.Since(began) > g.Patience {
			g.fail("not settled after %v: %s", g.Patience, why)
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// restart has all members leave and as many start.
func (g *Group) restart(why string) {
	g.History.Note("all members start again: %s", why)
	g.mu.Lock()
	g.counts.Restarts++
	g.mu.Unlock()
	live := g.Live()
	for _, m := range live {
		m.Leave()
	}
	for range live {
		g.Start(rand.New(rand.NewPCG(0, 0)))
	}
}

// unsettled is what is not right yet.
func (g *Group) unsettled() string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	live := g.Live()
	groups, err := client.DescribeGroups(ctx, g.admin, g.Name)
	if err != nil || len(groups) != 1 || groups[0].ErrorCode != 0 {
		return fmt.Sprintf("the group cannot be described: %v, %+v", err, groups)
	}
	if d := groups[0]; d.State != "Stable" || len(d.Members) != len(live) {
		return fmt.Sprintf("the group is %s with %d members of %d", d.State, len(d.Members), len(live))
	}
	g.mu.Lock()
	for p := range int32(g.Partitions) {
		var by []string
		for m := range g.owners[p] {
			by = append(by, m.name)
		}
		missing := int64(-1)
		for o := range g.produced[p] {
			if !g.seen[p][o] {
				missing = o
				break
			}
		}
		if len(by) != 1 || missing >= 0 {
			g.mu.Unlock()
			slices.Sort(by)
			return fmt.Sprintf("task %d is active with %v, and its record %d is not processed (-1: all are)", p, by, missing)
		}
	}
	produced := map[int32]int64{}
	for p, at := range g.produced {
		produced[p] = at
	}
	g.mu.Unlock()
	at, err := g.committed(ctx)
	if err != nil {
		return fmt.Sprintf("committed offsets: %v", err)
	}
	for p, end := range produced {
		if at[p] < end {
			return fmt.Sprintf("task %d: committed is %d of %d", p, at[p], end)
		}
	}
	return ""
}

// StopProducing ends what would keep the group from processing everything.
func (g *Group) StopProducing() {
	g.stop()
	g.loops.Wait()
}

// Close ends members and clients.
func (g *Group) Close() {
	g.StopProducing()
	for _, m := range g.Live() {
		m.Leave()
	}
	g.mu.Lock()
	for _, p := range g.processes {
		_ = p.Close()
	}
	g.mu.Unlock()
	g.admin.Close()
	g.History.Wait()
}

// Delete has all members leave, deletes the group, and starts as many members again. A
// group with members cannot be deleted, so nothing comes of it if members are started
// again and again meanwhile.
func (g *Group) Delete(draw *rand.Rand) {
	members := 0
	ctx, cancel := context.WithTimeout(context.Background(), 2*g.Session+10*time.Second)
	defer cancel()
	for deleted := false; !deleted && ctx.Err() == nil; sleep(ctx, g.Interval) {
		for _, m := range g.Live() {
			m.wire.Mend()
			m.Leave()
			members++
		}
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{g.Name}
		resp, err := req.RequestWith(ctx, g.admin)
		deleted = err == nil && (resp.Groups[0].ErrorCode == 0 || resp.Groups[0].ErrorCode == kerr.GroupIDNotFound.Code)
	}
	for range members {
		g.Start(draw)
	}
}

func (g *Group) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	g.History.Note("VIOLATION: %s", text)
	g.Errorf("%s", text)
}

// sleep lets time pass unless ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
