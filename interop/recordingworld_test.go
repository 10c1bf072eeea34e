package interop_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// recording is a situation that is being recorded: a real broker, the proxy
// before it, and instances of Kafka Streams.
type recording struct {
	t      *testing.T
	ctx    context.Context
	name   string
	group  string
	dir    string
	port   int // of the broker; the controller has the next one, the proxy the one after
	proxy  *proxy
	rec    *recorder
	client *kgo.Client // past the proxy
	admin  *kadm.Client
	news   *news
	jvms   []*jvm
	home   map[string]*jvm // of instances
}

func newRecording(t *testing.T, name string, port int) *recording {
	t.Helper()
	r := &recording{
		t: t, ctx: t.Context(), name: name, group: "app-" + name, dir: filepath.Join(t.TempDir(), "kafka"), port: port,
		news: newNews(), home: make(map[string]*jvm),
	}
	r.kafka("start")
	t.Cleanup(func() { r.kafka("stop") })
	client, err := kgo.NewClient(kgo.SeedBrokers(r.at(0)), kgo.Dialer(r.dialPast), kgo.UnknownTopicRetries(-1))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	r.client, r.admin = client, kadm.NewClient(client)
	r.rec = newRecorder(r.group)
	r.proxy = newProxy(t, r.at(2), r.at(0), r.rec)
	t.Cleanup(r.proxy.close)
	return r
}

func (r *recording) at(n int) string { return "127.0.0.1:" + strconv.Itoa(r.port+n) }

// kafka starts or stops the broker.
func (r *recording) kafka(verb string) {
	r.t.Helper()
	_, self, _, _ := runtime.Caller(0)
	args := []string{filepath.Join(filepath.Dir(self), "kafka.sh"), verb, r.dir}
	if verb == "start" {
		args = append(args, strconv.Itoa(r.port), "advertised.listeners=PLAINTEXT://"+r.at(2), "group.initial.rebalance.delay.ms=0")
	}
	out, err := exec.Command("bash", args...).CombinedOutput()
	require.NoError(r.t, err, "%s", out)
}

// settings are those of the group that keep a recording short.
func (r *recording) settings(more ...string) {
	r.t.Helper()
	all := []string{"streams.session.timeout.ms=5000", "streams.heartbeat.interval.ms=1000", "streams.task.offset.interval.ms=2000"}
	for _, s := range more {
		name, _, _ := strings.Cut(s, "=")
		all = slices.DeleteFunc(all, func(s string) bool { return strings.HasPrefix(s, name+"=") })
		all = append(all, s)
	}
	r.change(all...)
}

// change changes settings of the group.
func (r *recording) change(settings ...string) {
	r.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeGroupConfig, r.group
	for _, s := range settings {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		name, value, _ := strings.Cut(s, "=")
		c.Name, c.Value = name, &value
		res.Configs = append(res.Configs, c)
	}
	req.Resources = append(req.Resources, res)
	resp, err := req.RequestWith(r.ctx, r.client)
	require.NoError(r.t, err)
	require.NoError(r.t, kerr.ErrorForCode(resp.Resources[0].ErrorCode))
	r.rec.step("group settings {%s}", strings.Join(settings, ", "))
}

func (r *recording) topic(suffix string) string { return r.group + "-" + suffix }

func (r *recording) create(suffix string, partitions int32) {
	r.t.Helper()
	_, err := r.admin.CreateTopic(r.ctx, partitions, 1, nil, r.topic(suffix))
	require.NoError(r.t, err)
	r.rec.step("create topic %s with %d partitions", r.topic(suffix), partitions)
}

func (r *recording) grow(suffix string, partitions int) {
	r.t.Helper()
	resp, err := r.admin.UpdatePartitions(r.ctx, partitions, r.topic(suffix))
	require.NoError(r.t, err)
	require.NoError(r.t, resp.Error())
	r.rec.step("grow topic %s to %d partitions", r.topic(suffix), partitions)
}

func (r *recording) remove(suffix string) {
	r.t.Helper()
	resp, err := r.admin.DeleteTopics(r.ctx, r.topic(suffix))
	require.NoError(r.t, err)
	require.NoError(r.t, resp.Error())
	r.rec.step("delete topic %s", r.topic(suffix))
}

// lines writes lines, each with a key of its own.
func (r *recording) lines(suffix string, lines ...string) {
	r.t.Helper()
	r.rec.step("produce %d lines to %s", len(lines), r.topic(suffix))
	for i, text := range lines {
		p := r.client.ProduceSync(r.ctx, &kgo.Record{Topic: r.topic(suffix), Key: fmt.Append(nil, i), Value: []byte(text)})
		require.NoError(r.t, p.FirstErr())
	}
}

// lineTo writes a line to one partition.
func (r *recording) lineTo(suffix string, partition int32, text string) {
	r.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.at(0)), kgo.Dialer(r.dialPast), kgo.UnknownTopicRetries(-1), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(r.t, err)
	defer client.Close()
	p := client.ProduceSync(r.ctx, &kgo.Record{Topic: r.topic(suffix), Partition: partition, Value: []byte(text)})
	require.NoError(r.t, p.FirstErr())
}

// quota limits the share of a broker's thread that all clients together may use,
// in per cent.
func (r *recording) quota(percent float64) {
	r.t.Helper()
	_, err := r.admin.AlterClientQuotas(r.ctx, []kadm.AlterClientQuotaEntry{{
		Entity: kadm.ClientQuotaEntity{{Type: "client-id"}},
		Ops:    []kadm.AlterClientQuotaOp{{Key: "request_percentage", Value: percent}},
	}})
	require.NoError(r.t, err)
}

func (r *recording) words(n int) {
	r.t.Helper()
	lines := make([]string, n)
	for i := range lines {
		lines[i] = dictionary[i%len(dictionary)] + " " + dictionary[(7*i+3)%len(dictionary)]
	}
	r.lines("in", lines...)
}

// process starts a process for instances.
func (r *recording) process() *jvm {
	r.t.Helper()
	j := startJVM(r.t, kafkaRelease, r.news)
	r.jvms = append(r.jvms, j)
	return j
}

// start starts an instance and does not wait for it. Its state is kept in a
// folder of its name, as long as the recording lasts.
func (r *recording) start(j *jvm, name string, settings ...string) (since int) {
	r.t.Helper()
	r.home[name] = j
	r.rec.step("start %s with %s", name, strings.Join(settings, " "))
	all := append([]string{
		"bootstrap.servers=" + r.at(2), "application.id=" + r.group, "client.id=" + name, "state.dir=" + filepath.Join(filepath.Dir(r.dir), "state-"+name),
		"input=" + r.topic("in"), "output=" + r.topic("out"), "metadata.max.age.ms=1000",
	}, settings...)
	return j.say("start %s %s", name, strings.Join(all, " "))
}

// run starts an instance and waits until it runs.
func (r *recording) run(j *jvm, name string, settings ...string) (since int) {
	r.t.Helper()
	since = r.start(j, name, settings...)
	j.await(since, name+" state RUNNING")
	return since
}

func (r *recording) stop(how string, names ...string) {
	r.t.Helper()
	for _, name := range names {
		j := r.home[name]
		r.rec.step("close %s %s", name, how)
		j.await(j.say("close %s %s", name, how), name+" closed true")
	}
}

// kill ends a process as kill -9 does.
func (r *recording) kill(j *jvm, name string) {
	r.rec.step("kill %s", name)
	j.kill()
}

// pass lets time pass.
func (r *recording) pass(d time.Duration) { time.Sleep(d) }

// describe is what the broker says of the group.
func (r *recording) describe() kmsg.StreamsGroupDescribeResponseGroup {
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups = []string{r.group}
	for _, shard := range r.client.RequestSharded(r.ctx, req) {
		if resp, ok := shard.Resp.(*kmsg.StreamsGroupDescribeResponse); ok && len(resp.Groups) == 1 {
			return resp.Groups[0]
		}
	}
	return kmsg.NewStreamsGroupDescribeResponseGroup()
}

// stable waits until the group is stable with so many members.
func (r *recording) stable(members int) {
	r.t.Helper()
	until(r.t, nil, fmt.Sprintf("a stable group of %d", members), func() bool {
		g := r.describe()
		return g.State == "Stable" && len(g.Members) == members
	})
}

// spoilt is told of each heartbeat, counted from 1 for each member since the
// faults began.
func (r *recording) spoil(f func(member string, nth int, req *kmsg.StreamsGroupHeartbeatRequest) fault) {
	seen := make(map[string]int)
	r.proxy.faults(func(x *exchange) fault {
		req := x.heartbeat()
		if req == nil {
			return fault{}
		}
		member := memberOf(x.client)
		seen[member]++
		return f(member, seen[member], req)
	})
}

// finish writes the recording to a folder, and in it the assignments as the
// broker has stored them.
func (r *recording) finish(folder string) {
	r.t.Helper()
	r.rec.step("end")
	r.rec.mu.Lock()
	r.rec.silent = true
	r.rec.mu.Unlock()
	r.rec.targets(r.storedTargets())
	require.NoError(r.t, os.MkdirAll(folder, 0o755))
	r.rec.save(r.t, filepath.Join(folder, r.name+".jsonl.gz"))
}

// storedTarget is one target assignment of the whole group.
type storedTarget struct {
	at      time.Time
	Epoch   int32
	Members []storedTasks
}

type storedTasks struct {
	MemberID        string
	Active, Standby []record.TaskIDs
}

// storedTargets reads the target assignments from the offsets topic.
func (r *recording) storedTargets() (targets []storedTarget) {
	r.t.Helper()
	const topic = "__consumer_offsets"
	ends, err := r.admin.ListEndOffsets(r.ctx, topic)
	require.NoError(r.t, err)
	end, _ := ends.Lookup(topic, 0)
	consumer, err := kgo.NewClient(kgo.SeedBrokers(r.at(0)), kgo.Dialer(r.dialPast),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(0)}}))
	require.NoError(r.t, err)
	defer consumer.Close()
	now := make(map[string]storedTasks)
	for next := int64(0); next < end.Offset; {
		fetches := consumer.PollFetches(r.ctx)
		require.NoError(r.t, fetches.Err())
		fetches.EachRecord(func(k *kgo.Record) {
			next = k.Offset + 1
			decoded, err := record.Decode(k.Key, k.Value)
			if unknown := (*record.UnknownTypeError)(nil); errors.As(err, &unknown) {
				return
			}
			require.NoError(r.t, err)
			key := decoded.RecordKey()
			if key.Group != r.group {
				return
			}
			switch d := decoded.(type) {
			case *record.TargetAssignment:
				now[d.Member] = storedTasks{d.Member, d.Active, d.Standby}
			case record.Tombstone:
				if key.Type == 21 {
					delete(now, key.Member)
				}
			case *record.TargetAssignmentMetadata:
				target := storedTarget{at: time.UnixMilli(d.AssignmentTimestampMillis), // when the group was looked at; records are appended later
					Epoch: d.AssignmentEpoch, Members: []storedTasks{}}
				for _, m := range now {
					target.Members = append(target.Members, m)
				}
				slices.SortFunc(target.Members, func(a, b storedTasks) int { return strings.Compare(a.MemberID, b.MemberID) })
				targets = append(targets, target)
			}
		})
	}
	return targets
}

// dialPast connects to the broker where it says that it is at the proxy.
func (r *recording) dialPast(ctx context.Context, network, addr string) (net.Conn, error) {
	if addr == r.at(2) {
		addr = r.at(0)
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}
