package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/topology"
)

const (
	partitions = 6
	session    = 3 * time.Second
	interval   = 500 * time.Millisecond
)

// World is a broker with one group that reads the topic <group>-orders and keeps a
// store, so that there is an internal topic to create. It checks throughout that no
// task is held by two live members at once, and that callbacks come in their order.
type World struct {
	*testing.T
	opts    []kgo.Opt
	admin   *kgo.Client
	group   string
	orders  string
	topo    *topology.Topology
	broker  Broker
	patient time.Duration

	mu      sync.Mutex
	owner   map[topology.TaskID]string
	seen    map[string]int // payload to the number of times it was processed
	members []*Member
}

// Broker is what the broker under test can do.
type Broker struct {
	// Version is the highest version of heartbeats that it speaks.
	Version int16
	// Patterns is whether it resolves source patterns.
	Patterns bool
}

// NewWorld prepares the group on the broker that the options lead to.
func NewWorld(t *testing.T, group string, broker Broker, opts ...kgo.Opt) *World {
	t.Helper()
	w := &World{
		T: t, opts: opts, group: group, orders: group + "-orders", broker: broker, patient: time.Minute,
		owner: map[topology.TaskID]string{}, seen: map[string]int{},
	}
	w.admin = w.dial()
	w.createTopic(w.orders, partitions)
	w.configure(map[string]string{
		"streams.session.timeout.ms":    strconv.Itoa(int(session.Milliseconds())),
		"streams.heartbeat.interval.ms": strconv.Itoa(int(interval.Milliseconds())),
	})
	_ = client.AlterGroupConfigs(t.Context(), w.admin, group, map[string]string{"streams.assignment.interval.ms": "0"}) // older brokers do not have it
	var err error
	w.topo, err = new(topology.Builder).AddSource("orders", w.orders).AddProcessor("total", "orders").
		AddStateStore(topology.Store{Name: "totals"}, "total").Build(group)
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, m := range w.roll() {
			m.Crash()
		}
	})
	return w
}

// roll are all members that were ever started.
func (w *World) roll() []*Member {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.members)
}

func (w *World) dial(opts ...kgo.Opt) *kgo.Client {
	w.Helper()
	cl, err := kgo.NewClient(append(slices.Clone(w.opts), opts...)...)
	require.NoError(w, err)
	w.Cleanup(cl.Close)
	return cl
}

func (w *World) createTopic(name string, partitions int32) {
	w.Helper()
	w.eventually("topic "+name+" can be created", func() bool {
		_, err := kadm.NewClient(w.admin).CreateTopic(w.Context(), partitions, 1, nil, name)
		return err == nil
	})
}

func (w *World) deleteTopic(name string) {
	w.Helper()
	resp, err := kadm.NewClient(w.admin).DeleteTopics(w.Context(), name)
	require.NoError(w, err)
	require.NoError(w, resp.Error())
}

func (w *World) configure(configs map[string]string) {
	w.Helper()
	require.NoError(w, client.AlterGroupConfigs(w.Context(), w.admin, w.group, configs))
}

// describe is the group as the broker sees it.
func (w *World) describe() kmsg.StreamsGroupDescribeResponseGroup {
	w.Helper()
	groups, err := client.DescribeGroups(w.Context(), w.admin, w.group)
	require.NoError(w, err)
	require.Len(w, groups, 1)
	return groups[0]
}

// eventually lets time pass until something holds.
func (w *World) eventually(what string, holds func() bool) {
	w.Helper()
	for began := time.Now(); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > w.patient {
			require.Fail(w, "it never happens: "+what, "%+v", w.describe())
		}
	}
}

// settle lets time pass until the group is stable and every task has an owner.
func (w *World) settle(members ...*Member) {
	w.Helper()
	w.settleWith(partitions, members...)
}

func (w *World) settleWith(tasks int, members ...*Member) {
	w.Helper()
	w.eventually("the group is stable", func() bool {
		n := 0
		for _, m := range members {
			n += m.tasks()
		}
		if n != tasks {
			return false
		}
		g := w.describe()
		return g.ErrorCode == 0 && g.State == "Stable" && len(g.Members) == len(members)
	})
}

// tally counts processed records per payload.
func (w *World) tally(records []*kgo.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range records {
		w.seen[string(r.Value)]++
	}
}

// produce writes a few records per partition and returns their payloads.
func (w *World) produce(label string) []string {
	w.Helper()
	return w.produceTo(w.orders, partitions, label)
}

func (w *World) produceTo(topic string, partitions int, label string) (payloads []string) {
	w.Helper()
	cl, err := kgo.NewClient(append(slices.Clone(w.opts), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(-1))...)
	require.NoError(w, err)
	defer cl.Close()
	var records []*kgo.Record
	for i := range 5 * partitions {
		p := fmt.Sprintf("%s-%d", label, i)
		payloads = append(payloads, p)
		records = append(records, &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: []byte(p)})
	}
	require.NoError(w, cl.ProduceSync(w.Context(), records...).FirstErr())
	return payloads
}

// processed waits until all payloads have been seen, each once.
func (w *World) processed(payloads []string) {
	w.Helper()
	for _, n := range w.counts(payloads) {
		assert.Equal(w, 1, n)
	}
}

// processedAtLeastOnce waits until all payloads have been seen.
func (w *World) processedAtLeastOnce(payloads []string) {
	w.Helper()
	w.counts(payloads)
}

func (w *World) counts(payloads []string) map[string]int {
	w.Helper()
	counts := func() map[string]int {
		w.mu.Lock()
		defer w.mu.Unlock()
		out := map[string]int{}
		for _, p := range payloads {
			if n := w.seen[p]; n > 0 {
				out[p] = n
			}
		}
		return out
	}
	w.eventually("all records are processed", func() bool { return len(counts()) == len(payloads) })
	return counts()
}

// committed is how far the group has come.
func (w *World) committed() map[int32]int64 {
	w.Helper()
	resp, err := kadm.NewClient(w.admin).FetchOffsets(w.Context(), w.group)
	require.NoError(w, err)
	out := map[int32]int64{}
	for p, o := range resp.KOffsets()[w.orders] {
		out[p] = o.EpochOffset().Offset
	}
	return out
}
