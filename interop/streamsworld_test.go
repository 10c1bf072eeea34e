package interop_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/interop"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

// world is our broker, a word count of Kafka Streams on it, and the same count
// made without either.
type world struct {
	t       *testing.T
	release string
	cl      *kfakeext.Cluster
	client  *kgo.Client
	news    *news
	rng     *rand.Rand
	group   string
	phase   string
	login   string // further settings of each instance
	eos     bool

	counts map[string]int // independent
	mu     sync.Mutex
	seen   map[string][]int64 // what the application has written, by word
}

// Times that keep tests short. The session is long enough for a machine on which
// nothing runs for seconds: a member that expires while it lives would count
// records twice where that is allowed, and does not pass for a mistake.
var quick = []kfakeext.Opt{
	kfakeext.BrokerConfig("group.streams.initial.rebalance.delay.ms", "0"),
	kfakeext.BrokerConfig("group.streams.min.session.timeout.ms", "1000"),
	kfakeext.BrokerConfig("group.streams.min.heartbeat.interval.ms", "100"),
	kfakeext.BrokerConfig("group.streams.min.task.offset.interval.ms", "100"),
	kfakeext.BrokerConfig("group.streams.session.timeout.ms", "8000"),
	kfakeext.BrokerConfig("group.streams.heartbeat.interval.ms", "300"),
	kfakeext.BrokerConfig("group.streams.task.offset.interval.ms", "300"),
}

const linesPartitions = 4

func newWorld(t *testing.T, nodes int, opts ...kfakeext.Opt) *world {
	t.Helper()
	skipUnlessAsked(t)
	interop.SkipWithoutJava(t)
	w := &world{
		t: t, release: kafkaRelease, news: newNews(), rng: rand.New(rand.NewPCG(1, 2)), group: "words",
		counts: make(map[string]int), seen: make(map[string][]int64),
	}
	logger := newKeptLog(t)
	opts = slices.Concat(quick, []kfakeext.Opt{
		kfakeext.Nodes(nodes), kfakeext.Topic("lines", linesPartitions), kfakeext.Topic("counts", 2),
		kfakeext.OnEvent(func(e coordinator.Event) {
			logger.event(e)
			w.news.tell()
		}),
		kfakeext.Logger(logger),
	}, opts)
	cl, err := kfakeext.NewCluster(opts...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	w.cl = cl
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("failed in phase: %s", w.phase)
		}
	})
	return w
}

// connect starts to read what the application writes.
func (w *world) connect(opts ...kgo.Opt) *world {
	w.t.Helper()
	var err error
	w.client, err = kgo.NewClient(append(w.cl.KgoOpts(), opts...)...)
	require.NoError(w.t, err)
	w.t.Cleanup(w.client.Close)
	reader, err := kgo.NewClient(slices.Concat(w.cl.KgoOpts(), []kgo.Opt{
		kgo.ConsumeTopics("counts"), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(100 * time.Millisecond), kgo.MetadataMinAge(50 * time.Millisecond), kgo.MetadataMaxAge(time.Second),
	}, opts)...)
	require.NoError(w.t, err)
	done := make(chan struct{})
	w.t.Cleanup(func() { reader.Close(); <-done })
	go func() {
		defer close(done)
		for {
			fetches := reader.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			w.mu.Lock()
			fetches.EachRecord(func(r *kgo.Record) {
				w.seen[string(r.Key)] = append(w.seen[string(r.Key)], int64(binary.BigEndian.Uint64(r.Value)))
			})
			w.mu.Unlock()
			w.news.tell()
		}
	}()
	return w
}

func (w *world) step(format string, args ...any) {
	w.phase = fmt.Sprintf(format, args...)
	w.t.Logf("%s: %s", time.Now().Format("15:04:05.000"), w.phase)
}

// start starts an instance.
func (w *world) start(j *jvm, name, dir string, settings ...string) (since int) {
	w.t.Helper()
	guarantee := "at_least_once"
	if w.eos {
		guarantee = "exactly_once_v2"
	}
	all := append([]string{
		"bootstrap.servers=" + strings.Join(w.cl.Addrs(), ","), "application.id=" + w.group, "client.id=" + name,
		"state.dir=" + dir, "processing.guarantee=" + guarantee, "metadata.max.age.ms=1000",
	}, settings...)
	return j.say("start %s %s", name, strings.TrimSpace(strings.Join(all, " ")+" "+w.login))
}

// running starts an instance and waits until it runs.
func (w *world) running(j *jvm, name, dir string, settings ...string) (since int) {
	w.t.Helper()
	since = w.start(j, name, dir, settings...)
	j.await(since, name+" state RUNNING")
	return since
}

var dictionary = strings.Fields("the quick brown fox jumps over a lazy dog and runs into some wood where no hound may follow it")

// feed writes lines and counts their words.
func (w *world) feed(lines int) {
	w.t.Helper()
	for range lines {
		words := make([]string, 1+w.rng.IntN(6))
		for i := range words {
			words[i] = dictionary[w.rng.IntN(len(dictionary))]
			w.counts[words[i]]++
		}
		w.line(strings.Join(words, " "))
	}
	require.NoError(w.t, w.client.Flush(w.t.Context()))
}

func (w *world) line(text string) {
	w.t.Helper()
	w.client.Produce(w.t.Context(), &kgo.Record{Topic: "lines", Value: []byte(text)}, func(_ *kgo.Record, err error) {
		assert.NoError(w.t, err)
	})
}

// counted waits until everything is counted: each word was written with 1, 2, 3
// and so on up to its number, exactly once each.
func (w *world) counted() {
	w.t.Helper()
	defer w.explain()
	until(w.t, w.news, "the counts", func() bool { return w.behind() == "" })
	w.mu.Lock()
	defer w.mu.Unlock()
	for word, n := range w.counts {
		want := make([]int64, n)
		for i := range want {
			want[i] = int64(i) + 1
		}
		require.Equal(w.t, want, w.seen[word], "the counts of %q as they were written", word)
	}
}

// countedAtLeast is what remains to be said where a process was killed that
// promises no more: nothing is lost.
func (w *world) countedAtLeast() {
	w.t.Helper()
	defer w.explain()
	until(w.t, w.news, "the counts", func() bool { return w.behind() == "" })
}

func (w *world) explain() {
	if w.t.Failed() {
		w.t.Logf("not counted: %s", w.behind())
	}
}

// behind names a word that is not counted.
func (w *world) behind() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, word := range slices.Sorted(maps.Keys(w.counts)) {
		seen := w.seen[word]
		if len(seen) == 0 || seen[len(seen)-1] < int64(w.counts[word]) {
			return fmt.Sprintf("%q: %d, last written %v", word, w.counts[word], seen[max(0, len(seen)-3):])
		}
	}
	return ""
}

// settled waits until the group is stable with so many members.
func (w *world) settled(members int) kmsg.StreamsGroupDescribeResponseGroup {
	w.t.Helper()
	var g kmsg.StreamsGroupDescribeResponseGroup
	until(w.t, w.news, fmt.Sprintf("a stable group of %d", members), func() bool {
		g = w.cl.DescribeStreamsGroup(w.group)
		return g.State == "Stable" && len(g.Members) == members
	})
	return g
}

// state waits for a state of the group.
func (w *world) state(want coordinator.State) {
	w.t.Helper()
	until(w.t, w.news, "the state "+want.String(), func() bool {
		got, ok := w.cl.StreamsGroupState(w.group)
		return ok && got == want
	})
}

// tasksOf are the active tasks by process.
func tasksOf(g kmsg.StreamsGroupDescribeResponseGroup) map[string]int {
	tasks := make(map[string]int)
	for _, m := range g.Members {
		for _, ids := range m.Assignment.ActiveTasks {
			tasks[m.ProcessID] += len(ids.Partitions)
		}
	}
	return tasks
}

// shared is that each of the processes has something to do, and all tasks are
// given to somebody.
func (w *world) shared(processes, members int) {
	w.t.Helper()
	tasks := tasksOf(w.settled(members))
	total := 0
	for _, n := range tasks {
		total += n
	}
	assert.Len(w.t, tasks, processes)
	assert.Equal(w.t, 2*linesPartitions, total)
}

func (w *world) groupConfig(name, value string) {
	w.t.Helper()
	require.NoError(w.t, w.cl.SetGroupConfig(w.group, map[string]string{name: value}))
}

// transactionVersion sets the feature level that decides how transactions are
// ended and offsets added to them.
func (w *world) transactionVersion(level int16) {
	w.t.Helper()
	req := kmsg.NewPtrUpdateFeaturesRequest()
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = "transaction.version", level, 3
	req.FeatureUpdates = append(req.FeatureUpdates, u)
	resp, err := req.RequestWith(w.t.Context(), w.client)
	require.NoError(w.t, err)
	require.NoError(w.t, kerr.ErrorForCode(resp.ErrorCode))
	features, err := kadm.NewClient(w.client).ApiVersions(w.t.Context())
	require.NoError(w.t, err)
	for _, f := range features.Sorted() {
		require.NoError(w.t, f.Err)
	}
}

// close closes instances at the same time.
func (w *world) close(j *jvm, how string, names ...string) {
	w.t.Helper()
	since := len(j.told())
	for _, name := range names {
		j.say("close %s %s", name, how)
	}
	for _, name := range names {
		j.await(since, name+" closed true")
	}
}

// host is what an instance knows of another one.
type host struct{ active, standby []string }

// clients asks an instance for what it knows of all, until it is right.
func (w *world) clients(j *jvm, name string, right func(map[string]host) bool) {
	w.t.Helper()
	until(w.t, nil, "what "+name+" knows of the others", func() bool {
		line := j.await(j.say("clients %s", name), name+" clients")
		hosts := make(map[string]host)
		for _, client := range strings.Fields(line)[2:] {
			address, partitions, _ := strings.Cut(client, "=")
			active, standby, _ := strings.Cut(partitions, "/")
			list := func(s string) []string { return strings.FieldsFunc(s, func(r rune) bool { return r == ',' }) }
			hosts[address] = host{list(active), list(standby)}
		}
		return right(hosts)
	})
}

// stored waits until an instance has the count of a word in its store, or in
// that of a standby, or more than the count where that may be.
func (w *world) stored(j *jvm, name, word string, mayBeMore bool) {
	w.t.Helper()
	want := w.counts[word]
	until(w.t, nil, fmt.Sprintf("%s to have %d times %q", name, want, word), func() bool {
		told := strings.Fields(j.await(j.say("get %s %s", name, word), name+" got "+word+" "))
		n, err := strconv.Atoi(told[3]) // or null
		return err == nil && (n == want || mayBeMore && n > want)
	})
}

// queried asks an instance where the count of each word is and gets it there, as
// an application does that answers queries. instances are by address.
func (w *world) queried(from *jvm, name string, standbys int, instances map[string]instance, mayBeMore bool) {
	w.t.Helper()
	for _, word := range slices.Sorted(maps.Keys(w.counts)) {
		var active string
		until(w.t, nil, "where "+word+" is", func() bool {
			told := from.await(from.say("where %s %s", name, word), name+" where "+word)
			hosts := strings.FieldsFunc(told, func(r rune) bool { return r == ' ' || r == ',' })[3:]
			active = hosts[0]
			_, known := instances[active]
			return known && len(hosts)-1 == standbys
		})
		w.stored(instances[active].j, instances[active].name, word, mayBeMore)
	}
}

// instance is an instance in one of the processes.
type instance struct {
	j    *jvm
	name string
}
