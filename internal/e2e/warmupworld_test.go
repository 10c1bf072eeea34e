package e2e

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/topology"
)

const (
	changelogSize = 2000 // records per partition, at the beginning
	recoveryLag   = 100
)

// warming is a world whose tasks have state: a process takes seconds to copy a
// changelog. It asserts throughout that there are never more warm-up tasks than the
// budget allows, and takes down for how long tasks were without an owner.
type warming struct {
	*fake
	changelog string
	budget    int
	stop      chan struct{}

	noteMu sync.Mutex
	cold   []string // active tasks that somebody took who was far behind
	gaps   map[topology.TaskID]time.Duration
	most   int // warm-up tasks at once
}

func inWarming(t *testing.T, budget int, configs map[string]string, test func(w *warming)) {
	t.Helper()
	run(t, uncapped(), func(f *fake) {
		w := &warming{fake: f, changelog: f.group + "-totals-changelog", budget: budget, stop: make(chan struct{}), gaps: map[topology.TaskID]time.Duration{}}
		all := map[string]string{
			"streams.assignor.name":           "highly_available",
			"streams.num.warmup.replicas":     strconv.Itoa(budget),
			"streams.acceptable.recovery.lag": strconv.Itoa(recoveryLag),
		}
		maps.Copy(all, configs)
		w.configure(all)
		w.createTopic(w.changelog, partitions)
		w.grow(changelogSize)
		test(w)
	})
}

// grow writes n records to every partition of the changelog.
func (w *warming) grow(n int) {
	w.Helper()
	cl := w.dial(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	records := make([]*kgo.Record, 0, n*partitions)
	for i := range n * partitions {
		records = append(records, &kgo.Record{Topic: w.changelog, Partition: int32(i % partitions), Value: []byte("state")})
	}
	require.NoError(w, cl.ProduceSync(w.Context(), records...).FirstErr())
}

// watch begins to look at the group ten times a second.
func (w *warming) watch() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		without := map[topology.TaskID]time.Time{}
		for {
			select {
			case <-w.stop:
				return
			case now := <-tick.C:
				w.look(now, without)
			}
		}
	}()
	w.Cleanup(func() {
		close(w.stop)
		<-done
	})
}

func (w *warming) look(now time.Time, without map[topology.TaskID]time.Time) {
	warmups := 0
	for _, m := range w.cluster.DescribeStreamsGroup(w.group).Members {
		for _, t := range m.Assignment.WarmupTasks {
			warmups += len(t.Partitions)
		}
	}
	assert.LessOrEqual(w, warmups, w.budget, "warm-up tasks at once")
	w.mu.Lock()
	owner := maps.Clone(w.owner)
	w.mu.Unlock()
	w.noteMu.Lock()
	defer w.noteMu.Unlock()
	w.most = max(w.most, warmups)
	for p := range int32(partitions) {
		t := topology.TaskID{Subtopology: "0", Partition: p}
		if owner[t] != "" {
			delete(without, t)
			continue
		}
		if _, known := without[t]; !known {
			without[t] = now
		}
		w.gaps[t] = max(w.gaps[t], now.Sub(without[t]))
	}
}

func (w *warming) longestGap() time.Duration {
	w.noteMu.Lock()
	defer w.noteMu.Unlock()
	return slices.Max(append(slices.Collect(maps.Values(w.gaps)), 0))
}

func (w *warming) coldStarts() []string {
	w.noteMu.Lock()
	defer w.noteMu.Unlock()
	return slices.Clone(w.cold)
}

func (w *warming) forget() {
	w.noteMu.Lock()
	defer w.noteMu.Unlock()
	w.cold, w.most = nil, 0
	clear(w.gaps)
}

// reporting is what a process says of the ends of changelogs.
type reporting int

const (
	endsKnown   reporting = iota
	endsUnsaid            // only positions
	endsUnknown           // the largest number, as Java until a record arrives
)

// process is a member with a disk, which follows the changelogs of its standby and
// warm-up tasks at a limited rate. Tests read its positions and its death.
type process struct {
	*Member
	w     *warming
	says  reporting
	quit  context.CancelFunc
	ended chan struct{}

	diskMu sync.Mutex
	disk   map[topology.TaskID]int64 // records copied
	ends   map[topology.TaskID]int64
	copies []topology.TaskID
	active []topology.TaskID // restored
}

func (w *warming) process(name string, says reporting) *process {
	w.Helper()
	p := &process{Member: &Member{name: name}, w: w, says: says, ended: make(chan struct{}), disk: map[topology.TaskID]int64{}, ends: map[topology.TaskID]int64{}}
	p.onAssigned = p.assigned
	w.startAs(p.Member, w.topo, client.ProcessID("process-of-"+name), client.TaskOffsets(p.offsets))
	ctx, quit := context.WithCancel(context.Background())
	p.quit = quit
	follower := w.dial(kgo.FetchMaxWait(100*time.Millisecond), kgo.FetchMaxBytes(4096), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{}))
	go p.follow(ctx, follower)
	w.Cleanup(p.die)
	return p
}

// first is the process that has all tasks, restored.
func (w *warming) first(says reporting) *process {
	w.Helper()
	p := w.process("a", says)
	w.eventually("the first process has restored everything", func() bool {
		p.diskMu.Lock()
		defer p.diskMu.Unlock()
		return len(p.active) == partitions
	})
	return p
}

func (p *process) die() {
	p.Crash()
	p.quit()
	<-p.ended
}

func (p *process) offsets() (offsets, ends map[topology.TaskID]int64) {
	p.diskMu.Lock()
	defer p.diskMu.Unlock()
	offsets = maps.Clone(p.disk)
	for _, t := range p.active {
		delete(offsets, t)
	}
	switch p.says {
	case endsKnown:
		ends = maps.Clone(p.ends)
	case endsUnknown:
		ends = map[topology.TaskID]int64{}
		for t := range offsets {
			ends[t] = math.MaxInt64
		}
	case endsUnsaid:
	}
	return offsets, ends
}

// assigned restores what is active and not there yet.
func (p *process) assigned(ctx context.Context, a client.Assignment) error {
	p.diskMu.Lock()
	p.copies = slices.Concat(a.Standby, a.Warmup)
	fresh := slices.DeleteFunc(slices.Clone(a.Active), func(t topology.TaskID) bool { return slices.Contains(p.active, t) })
	p.active = slices.DeleteFunc(p.active, func(t topology.TaskID) bool { return !slices.Contains(a.Active, t) })
	clear(p.ends)
	had := maps.Clone(p.disk)
	p.diskMu.Unlock()
	for _, t := range fresh {
		n := int64(0)
		if err := p.c.RestoreChangelog(ctx, t, func(*kgo.Record) error { n++; return nil }); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
		if behind := n - had[t]; behind > recoveryLag {
			p.w.noteMu.Lock()
			p.w.cold = append(p.w.cold, fmt.Sprintf("%s starts %s %d records behind", p.name, t, behind))
			p.w.noteMu.Unlock()
		}
		p.diskMu.Lock()
		p.disk[t] = n
		p.active = append(p.active, t)
		p.diskMu.Unlock()
	}
	return nil
}

// follow reads the changelogs of copies: some ten records of each at a time.
func (p *process) follow(ctx context.Context, cl *kgo.Client) {
	defer close(p.ended)
	following := map[topology.TaskID]bool{}
	for ctx.Err() == nil {
		p.subscribe(cl, following)
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		fetches := cl.PollRecords(short, 40)
		cancel()
		p.diskMu.Lock()
		fetches.EachPartition(func(f kgo.FetchTopicPartition) {
			t := topology.TaskID{Subtopology: "0", Partition: f.Partition}
			if !slices.Contains(p.copies, t) {
				return
			}
			for _, r := range f.Records {
				p.disk[t] = r.Offset + 1
			}
			if f.HighWatermark > 0 {
				p.ends[t] = f.HighWatermark
			}
		})
		p.diskMu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (p *process) subscribe(cl *kgo.Client, following map[topology.TaskID]bool) {
	p.diskMu.Lock()
	defer p.diskMu.Unlock()
	for t := range following {
		if !slices.Contains(p.copies, t) {
			cl.RemoveConsumePartitions(map[string][]int32{p.w.changelog: {t.Partition}})
			delete(following, t)
		}
	}
	for _, t := range p.copies {
		if !following[t] {
			cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{p.w.changelog: {t.Partition: kgo.NewOffset().At(p.disk[t])}})
			following[t] = true
		}
	}
}
