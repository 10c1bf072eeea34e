package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/topology"
)

// transactionTimeout is short, because the tasks of a copyist that crashes wait for it.
const transactionTimeout = 2 * time.Second

// Copying is a group whose members copy a topic to another one, exactly once, and number
// the records of each partition by a counter that is state: it is kept in memory, and in
// a changelog for the next owner. The number of a record must come out as its offset plus
// one, whatever happens to those who count.
type Copying struct {
	*World
	copies string // the topic
	seed   uint64
	rng    *rand.Rand // of the goroutine of the test
	fed    int        // records

	rollMu sync.Mutex
	roll   []*copyist
}

// NewCopying prepares the group. The seed chooses when members commit, abort and get into
// trouble.
func NewCopying(w *World, seed uint64) *Copying {
	w.Helper()
	c := &Copying{World: w, copies: w.group + "-copies", seed: seed, rng: rand.New(rand.NewPCG(seed, 0))}
	w.createTopic(c.copies, partitions)
	w.Cleanup(func() {
		for _, m := range c.all() {
			m.crash()
		}
	})
	return c
}

func (w *Copying) all() []*copyist {
	w.rollMu.Lock()
	defer w.rollMu.Unlock()
	return append([]*copyist(nil), w.roll...)
}

// copyist is one member.
type copyist struct {
	w    *Copying
	name string
	c    *client.Consumer
	rng  *rand.Rand
	stop context.CancelFunc
	done chan struct{}
	err  error // that ended the goroutine, once done is closed
	dead atomic.Bool
	nap  atomic.Int64 // how long to sleep in the next transaction

	// Of the goroutine that polls.
	counts map[topology.TaskID]int
	stale  bool // a transaction has failed: the counts are not what is in the changelog
}

// start runs a member. Its name is its transactional id.
func (w *Copying) start(opts ...client.Opt) *copyist {
	w.Helper()
	w.rollMu.Lock()
	n := len(w.roll)
	w.rollMu.Unlock()
	return w.startAs(fmt.Sprintf("copyist-%d", n), opts...)
}

func (w *Copying) startAs(name string, opts ...client.Opt) *copyist {
	w.Helper()
	w.rollMu.Lock()
	n := len(w.roll)
	w.rollMu.Unlock()
	m := &copyist{w: w, name: name, done: make(chan struct{}), rng: rand.New(rand.NewPCG(w.seed, uint64(n+1))), counts: map[topology.TaskID]int{}}
	c, err := client.NewConsumer(w.group, w.topo, append([]client.Opt{
		client.KgoOpts(append([]kgo.Opt{kgo.TransactionTimeout(transactionTimeout), kgo.RecordPartitioner(kgo.ManualPartitioner())}, w.opts...)...),
		client.TransactionalID(w.group + "-" + name),
		client.OnTasksAssigned(m.take),
		client.OnTasksRevoked(m.giveUp),
		client.OnTasksLost(func(context.Context, []topology.TaskID) { clear(m.counts) }),
	}, opts...)...)
	require.NoError(w, err)
	m.c = c
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	w.rollMu.Lock()
	w.roll = append(w.roll, m)
	w.rollMu.Unlock()
	go func() {
		defer close(m.done)
		m.err = m.work(ctx)
	}()
	return m
}

func (m *copyist) take(ctx context.Context, a client.Assignment) error {
	if !a.Ready {
		return nil
	}
	for _, t := range a.Active {
		if _, ok := m.counts[t]; !ok {
			if err := m.restore(ctx, t); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *copyist) restore(ctx context.Context, t topology.TaskID) error {
	m.counts[t] = 0
	return m.c.RestoreChangelog(ctx, t, func(r *kgo.Record) (err error) {
		m.counts[t], err = strconv.Atoi(string(r.Value))
		return err
	})
}

// giveUp mostly commits. If it does not, the consumer aborts.
func (m *copyist) giveUp(ctx context.Context, tasks []topology.TaskID) error {
	var err error
	if m.rng.IntN(4) > 0 {
		err = m.c.Commit(ctx)
	}
	m.stale = true
	for _, t := range tasks {
		delete(m.counts, t)
	}
	return err
}

func (m *copyist) work(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := m.turn(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (m *copyist) turn(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	fetches, err := m.c.Poll(short)
	cancel()
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if m.stale {
		if err := m.reload(ctx); err != nil {
			return err
		}
	}
	if err := m.c.Begin(); err != nil {
		return err
	}
	for _, batch := range fetches.Tasks() {
		for _, r := range batch.Records {
			m.counts[batch.Task]++
			n := strconv.Itoa(m.counts[batch.Task])
			m.c.Produce(ctx, &kgo.Record{Topic: m.w.copies, Partition: r.Partition, Key: []byte(n), Value: r.Value}, nil)
			m.c.Produce(ctx, &kgo.Record{Topic: m.w.group + "-totals-changelog", Partition: r.Partition, Key: []byte("n"), Value: []byte(n)}, nil)
		}
		m.c.MarkProcessed(batch.Records...)
	}
	if nap := m.nap.Swap(0); nap > 0 {
		time.Sleep(time.Duration(nap))
	}
	switch m.rng.IntN(8) {
	case 0, 1, 2, 3:
		err = m.c.Commit(context.WithoutCancel(ctx))
	case 4:
		m.stale = true
		err = m.c.Abort(context.WithoutCancel(ctx))
	default: // it goes on
		return nil
	}
	if errors.Is(err, client.ErrAborted) || errors.Is(err, client.ErrFenced) {
		m.stale, err = true, nil
	}
	return err
}

// reload goes back to what is committed, as the consumer has done.
func (m *copyist) reload(ctx context.Context) error {
	m.stale = false
	for t := range m.counts {
		if err := m.restore(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// leave ends the member in good order.
func (m *copyist) leave() {
	m.w.Helper()
	m.stop()
	<-m.done
	m.dead.Store(true)
	require.ErrorIs(m.w, m.err, context.Canceled, m.name)
	require.NoError(m.w, m.c.Close(context.Background()), m.name)
}

// crash ends it as if its process had died.
func (m *copyist) crash() {
	m.dead.Store(true)
	m.c.Abandon()
	m.stop()
	<-m.done
}

// living are the members that work.
func (w *Copying) living() (out []*copyist) {
	for _, m := range w.all() {
		if !m.dead.Load() {
			out = append(out, m)
		}
	}
	return out
}

func (w *Copying) any() *copyist {
	living := w.living()
	return living[w.rng.IntN(len(living))]
}

// feed produces some records.
func (w *Copying) feed() {
	w.Helper()
	w.fed += len(w.produce(strconv.Itoa(w.fed)))
}

// Trouble is one thing that happens to a copying group.
type Trouble struct {
	Name string
	Do   func(w *Copying)
}

// Troubles are those that any broker can be put to.
func Troubles() []Trouble {
	return []Trouble{
		{"a crash", func(w *Copying) {
			w.any().crash()
			w.start()
		}},
		{"a departure", func(w *Copying) {
			w.any().leave()
			w.start()
		}},
		{"one more", func(w *Copying) {
			w.start()
			if len(w.living()) > 3 {
				w.any().leave()
			}
		}},
		{"a transaction that takes too long", func(w *Copying) { w.any().nap.Store(int64(2 * transactionTimeout)) }},
		{"another producer with the id", func(w *Copying) {
			w.usurp(w.any())
			w.start()
		}},
		{"nothing", func(*Copying) {}},
	}
}

// usurp takes the transactional id of a member from it, until it ends. A member that has
// not begun with it, or has nothing to write, does not notice.
func (w *Copying) usurp(m *copyist) {
	w.Helper()
	id := w.group + "-" + m.name
	w.eventually("the id of "+m.name+" is taken", func() bool {
		select {
		case <-m.done:
			return true
		default:
		}
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = &id, int32(transactionTimeout.Milliseconds())
		_, err := req.RequestWith(w.Context(), w.admin)
		assert.NoError(w, err)
		w.feed()
		time.Sleep(time.Second)
		return false
	})
	require.ErrorIs(w, m.err, client.ErrReplaced)
	m.dead.Store(true)
	require.NoError(w, m.c.Close(context.Background()), m.name)
}

// Run has members copy through some troubles, and checks the copies.
func (w *Copying) Run(rounds int, troubles []Trouble) {
	w.Helper()
	w.start()
	w.start()
	for range rounds {
		w.feed()
		time.Sleep(time.Duration(w.rng.IntN(1500)) * time.Millisecond)
		trouble := troubles[w.rng.IntN(len(troubles))]
		w.Logf("%s", trouble.Name)
		trouble.Do(w)
	}
	w.feed()
	w.check()
	for _, m := range w.living() {
		m.leave()
	}
}

// check waits until all is processed and compares.
func (w *Copying) check() {
	w.Helper()
	patient := w.patient
	w.patient = 3 * time.Minute
	defer func() { w.patient = patient }()
	perPartition := int64(w.fed / partitions)
	w.eventually("all is committed", func() bool {
		for _, m := range w.living() {
			select {
			case <-m.done:
				require.NoError(w, m.err, m.name)
			default:
			}
		}
		committed := w.committed()
		for p := range int32(partitions) {
			if committed[p] != perPartition {
				return false
			}
		}
		return true
	})
	got := w.readCopies()
	total := 0
	for p := range int32(partitions) {
		total += len(got[p])
		for i, n := range got[p] {
			if n != i+1 {
				assert.Failf(w, "not exactly once", "seed %d: copy %d of partition %d has the number %d", w.seed, i, p, n)
				return
			}
		}
	}
	assert.Equal(w, w.fed, total, "seed %d", w.seed)
}

// readCopies are the numbers in the topic of copies, as a reader of committed records sees
// them. It asserts that none of the payloads is there twice.
func (w *Copying) readCopies() map[int32][]int {
	w.Helper()
	ends, err := kadm.NewClient(w.admin).ListEndOffsets(w.Context(), w.copies)
	require.NoError(w, err)
	from := map[string]map[int32]kgo.Offset{w.copies: {}}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
			from[w.copies][o.Partition] = kgo.NewOffset().AtStart()
		}
	})
	cl := w.dial(kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond))
	defer cl.Close()
	got, seen := map[int32][]int{}, map[string]bool{}
	w.eventually("the copies are read to the end", func() bool {
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
			if r.Attrs.IsControl() {
				return
			}
			payload := string(r.Value)
			assert.False(w, seen[payload], "seed %d: %s twice", w.seed, payload)
			seen[payload] = true
			n, err := strconv.Atoi(string(r.Key))
			assert.NoError(w, err)
			got[r.Partition] = append(got[r.Partition], n)
		})
		return len(left) == 0
	})
	return got
}
