package interop_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

// Recorded exchanges of Kafka Streams with a real broker: their requests go to
// our broker, at the times of the recording, and its responses are compared with
// those of the recording.

type traceLine struct {
	MS       int    `json:"ms"`
	N        int    `json:"n"`
	Step     string `json:"step"`
	Member   string `json:"member"`
	Request  string `json:"request"`
	Response string `json:"response"`
	Version  int16  `json:"version"`
	Body     json.RawMessage
}

var topicID = regexp.MustCompile(`"TopicID":"([0-9a-f]{32})"`)

var recordedID = regexp.MustCompile(`"(member|process)-(\d+)"`)

// readTrace reads a recording. Topic ids become the arrays that kmsg has. The
// ids of members and processes are in the order in which they appear; reverse
// turns it around.
func readTrace(t *testing.T, file string, reverse bool) (lines []traceLine) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	s := bufio.NewScanner(z)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		text := topicID.ReplaceAllFunc(s.Bytes(), func(match []byte) []byte {
			var id [16]byte
			_, _ = hex.Decode(id[:], match[len(`"TopicID":"`):len(match)-1])
			array, _ := json.Marshal(id)
			return append([]byte(`"TopicID":`), array...)
		})
		if reverse {
			text = recordedID.ReplaceAllFunc(text, func(match []byte) []byte {
				id := recordedID.FindSubmatch(match)
				n, _ := strconv.Atoi(string(id[2]))
				return fmt.Appendf(nil, `"%s-%02d"`, id[1], 99-n)
			})
		}
		var l traceLine
		require.NoError(t, json.Unmarshal(text, &l))
		lines = append(lines, l)
	}
	require.NoError(t, s.Err())
	return lines
}

// replay is a recording on its way through our broker.
type replay struct {
	t         *testing.T
	opts      []kfakeext.Opt
	cl        *kfakeext.Cluster
	client    *kgo.Client
	began     time.Time
	responses map[int]traceLine
	source    string
	topics    []string              // in the order in which their ids appear
	ids       map[[16]byte][16]byte // of the recording
	producers map[string]*producer
	down      bool
	compared  int      // responses
	found     []string // differences
}

type producer struct {
	id    int64
	epoch int16
}

func (r *replay) open() {
	r.t.Helper()
	var err error
	r.cl, err = kfakeext.NewCluster(r.opts...)
	require.NoError(r.t, err)
	r.client, err = kgo.NewClient(append(r.cl.KgoOpts(), kgo.ClientID("trace"))...)
	require.NoError(r.t, err)
	// Topics are not there at once.
	r.cl.ControlKey(kmsg.CreateTopics.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.cl.KeepControl()
		r.cl.SleepControl(func() { time.Sleep(20 * time.Millisecond) })
		return nil, nil, false
	})
}

func (r *replay) close() {
	r.client.Close()
	r.cl.Close()
}

// pinned sends a request with the version of the recording.
type pinned struct {
	kmsg.Request
	version int16
}

func (p pinned) MaxVersion() int16 { return p.version }

func (r *replay) ask(req kmsg.Request, version int16) kmsg.Response {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Second)
	defer cancel()
	resp, err := r.client.Broker(0).Request(ctx, pinned{req, version})
	require.NoError(r.t, err)
	return resp
}

var setting1 = regexp.MustCompile(`(streams[a-z.]+)=(\d+)`)

// step does what the test did that made the recording, where it concerns the
// broker.
func (r *replay) step(text string) {
	r.t.Helper()
	switch {
	case strings.HasPrefix(text, "group settings"):
		settings := make(map[string]string)
		for _, m := range setting1.FindAllStringSubmatch(text, -1) {
			settings[m[1]] = m[2]
		}
		require.NoError(r.t, r.cl.SetGroupConfig(strings.TrimSuffix(r.source, "-in"), settings))
	case text == "the topic is created, a new process starts":
		require.NoError(r.t, r.cl.CreateTopic(r.source, 2, nil))
	case strings.HasPrefix(text, "the source topic grows"):
		req := kmsg.NewPtrCreatePartitionsRequest()
		rt := kmsg.NewCreatePartitionsRequestTopic()
		rt.Topic, rt.Count = r.source, 4
		req.Topics = append(req.Topics, rt)
		resp, err := req.RequestWith(r.t.Context(), r.client)
		require.NoError(r.t, err)
		require.NoError(r.t, kerr.ErrorForCode(resp.Topics[0].ErrorCode))
	case text == "the broker stops":
		r.close()
		r.down = true
	case text == "the broker is up":
		r.open()
		r.down = false
	}
}

// id is the id of a topic of ours for one of the recording.
func (r *replay) id(theirs [16]byte) [16]byte {
	if ours, ok := r.ids[theirs]; ok {
		return ours
	}
	name := r.topics[min(len(r.ids), len(r.topics)-1)]
	info := r.cl.TopicInfo(name)
	require.NotNil(r.t, info, name)
	r.ids[theirs] = info.TopicID
	return info.TopicID
}

func (r *replay) run(lines []traceLine) {
	r.t.Helper()
	r.began = time.Now()
	for _, l := range lines {
		time.Sleep(time.Until(r.began.Add(time.Duration(l.MS) * time.Millisecond)))
		switch {
		case l.Step != "":
			r.step(l.Step)
		case l.Request == "" || r.down || string(l.Body) == "null":
		case l.Request == "StreamsGroupHeartbeat":
			r.heartbeat(l)
		case l.Request == "OffsetFetch":
			r.offsetFetch(l)
		case l.Request == "OffsetCommit":
			r.offsetCommit(l)
		case l.Request == "TxnOffsetCommit":
			r.txnOffsetCommit(l)
		}
	}
}

// want decodes the recorded response. There is none if the body is null.
func (r *replay) want(l traceLine, into any) bool {
	r.t.Helper()
	resp, ok := r.responses[l.N]
	if !ok || string(resp.Body) == "null" || len(resp.Body) == 0 {
		return false
	}
	require.NoError(r.t, json.Unmarshal(resp.Body, into))
	r.compared++
	return true
}

func (r *replay) differs(l traceLine, what string, want, got any) {
	if fmt.Sprint(want) != fmt.Sprint(got) {
		r.found = append(r.found, fmt.Sprintf("%d ms, %s %d of %s: %s: Kafka %v, ours %v", l.MS, l.Request, l.N, l.Member, what, want, got))
	}
}

func (r *replay) heartbeat(l traceLine) {
	r.t.Helper()
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	require.NoError(r.t, json.Unmarshal(l.Body, req))
	got := r.ask(req, l.Version).(*kmsg.StreamsGroupHeartbeatResponse)
	want := kmsg.NewPtrStreamsGroupHeartbeatResponse()
	if !r.want(l, want) {
		return
	}
	r.differs(l, "error", want.ErrorCode, got.ErrorCode)
	r.differs(l, "epoch", want.MemberEpoch, got.MemberEpoch)
	r.differs(l, "active", taskSet(want.ActiveTasks), taskSet(got.ActiveTasks))
	r.differs(l, "standby", taskSet(want.StandbyTasks), taskSet(got.StandbyTasks))
	r.differs(l, "warm-up", taskSet(want.WarmupTasks), taskSet(got.WarmupTasks))
	r.differs(l, "status", statusSet(want.Status), statusSet(got.Status))
	r.differs(l, "endpoint epoch", want.EndpointInformationEpoch, got.EndpointInformationEpoch)
	r.differs(l, "endpoints", endpointSet(want.PartitionsByUserEndpoint), endpointSet(got.PartitionsByUserEndpoint))
	r.differs(l, "heartbeat interval", want.HeartbeatIntervalMillis, got.HeartbeatIntervalMillis)
	if l.Version > 0 { // 4.2 knew no offsets from members
		r.differs(l, "task offset interval", want.TaskOffsetIntervalMillis, got.TaskOffsetIntervalMillis)
	}
}

// taskSet is a list as a set. No list at all is something else than an empty
// one.
func taskSet(ids []kmsg.TaskIDs) string {
	if ids == nil {
		return "null"
	}
	var tasks []string
	for _, id := range ids {
		for _, p := range id.Partitions {
			tasks = append(tasks, id.SubtopologyID+"_"+strconv.Itoa(int(p)))
		}
	}
	slices.Sort(tasks)
	return fmt.Sprint(tasks)
}

func statusSet(status []kmsg.StreamsGroupHeartbeatResponseStatus) string {
	if status == nil {
		return "null"
	}
	codes := make([]int, len(status))
	for i := range status {
		// How long topics are missing (3) and when the assignment is only delayed
		// (5) depends on when a broker creates topics, between two heartbeats.
		if codes[i] = int(status[i].StatusCode); codes[i] == 3 {
			codes[i] = 5
		}
	}
	slices.Sort(codes)
	return fmt.Sprint(slices.Compact(codes))
}

// endpointSet is the endpoint map as a set.
func endpointSet(endpoints []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint) string {
	if endpoints == nil {
		return "null"
	}
	var all []string
	for _, e := range endpoints {
		at := fmt.Sprintf("%s:%d ", e.UserEndpoint.Host, e.UserEndpoint.Port)
		for _, topic := range e.ActivePartitions {
			for _, p := range topic.Partitions {
				all = append(all, at+"active "+topic.Topic+"-"+strconv.Itoa(int(p)))
			}
		}
		for _, topic := range e.StandbyPartitions {
			for _, p := range topic.Partitions {
				all = append(all, at+"standby "+topic.Topic+"-"+strconv.Itoa(int(p)))
			}
		}
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}

func (r *replay) offsetFetch(l traceLine) {
	r.t.Helper()
	req, want := kmsg.NewPtrOffsetFetchRequest(), kmsg.NewPtrOffsetFetchResponse()
	require.NoError(r.t, json.Unmarshal(l.Body, req))
	for i := range req.Groups[0].Topics {
		topic := &req.Groups[0].Topics[i]
		topic.TopicID = r.id(topic.TopicID)
	}
	got := r.ask(req, l.Version).(*kmsg.OffsetFetchResponse)
	if !r.want(l, want) {
		return
	}
	offsets := func(resp *kmsg.OffsetFetchResponse, translate bool) (text string) {
		var all []string
		for _, topic := range resp.Groups[0].Topics {
			if translate {
				topic.TopicID = r.id(topic.TopicID)
			}
			for _, p := range topic.Partitions {
				all = append(all, fmt.Sprintf("%x-%d: %d error %d", topic.TopicID, p.Partition, p.Offset, p.ErrorCode))
			}
		}
		slices.Sort(all)
		return fmt.Sprintf("error %d %v", resp.Groups[0].ErrorCode, all)
	}
	r.differs(l, "offsets", offsets(want, true), offsets(got, false))
}

func (r *replay) offsetCommit(l traceLine) {
	r.t.Helper()
	req, want := kmsg.NewPtrOffsetCommitRequest(), kmsg.NewPtrOffsetCommitResponse()
	require.NoError(r.t, json.Unmarshal(l.Body, req))
	for i := range req.Topics {
		req.Topics[i].TopicID = r.id(req.Topics[i].TopicID)
	}
	got := r.ask(req, l.Version).(*kmsg.OffsetCommitResponse)
	if !r.want(l, want) {
		return
	}
	codes := func(resp *kmsg.OffsetCommitResponse) (codes []int16) {
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				codes = append(codes, p.ErrorCode)
			}
		}
		return codes
	}
	r.differs(l, "errors", codes(want), codes(got))
}

// txnOffsetCommit commits within a transaction of a producer of our broker.
func (r *replay) txnOffsetCommit(l traceLine) {
	r.t.Helper()
	req, want := kmsg.NewPtrTxnOffsetCommitRequest(), kmsg.NewPtrTxnOffsetCommitResponse()
	require.NoError(r.t, json.Unmarshal(l.Body, req))
	p := r.producers[req.TransactionalID]
	if p == nil {
		begin := kmsg.NewPtrInitProducerIDRequest()
		begin.TransactionalID, begin.TransactionTimeoutMillis = &req.TransactionalID, 10_000
		resp := r.ask(begin, 5).(*kmsg.InitProducerIDResponse)
		require.NoError(r.t, kerr.ErrorForCode(resp.ErrorCode))
		p = &producer{resp.ProducerID, resp.ProducerEpoch}
		r.producers[req.TransactionalID] = p
	}
	req.ProducerID, req.ProducerEpoch = p.id, p.epoch
	for i := range req.Topics {
		req.Topics[i].TopicID = r.id(req.Topics[i].TopicID)
		if l.Version < 6 || req.Topics[i].Topic == "" {
			req.Topics[i].Topic = r.name(req.Topics[i].TopicID)
		}
	}
	got := r.ask(req, min(l.Version, req.MaxVersion())).(*kmsg.TxnOffsetCommitResponse)
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = req.TransactionalID, p.id, p.epoch, true
	ended := r.ask(end, 5).(*kmsg.EndTxnResponse)
	require.NoError(r.t, kerr.ErrorForCode(ended.ErrorCode))
	p.id, p.epoch = ended.ProducerID, ended.ProducerEpoch
	if !r.want(l, want) {
		return
	}
	codes := func(resp *kmsg.TxnOffsetCommitResponse) (codes []int16) {
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				codes = append(codes, p.ErrorCode)
			}
		}
		return codes
	}
	r.differs(l, "errors", codes(want), codes(got))
}

func (r *replay) name(id [16]byte) string {
	for _, name := range r.topics {
		if info := r.cl.TopicInfo(name); info != nil && info.TopicID == id {
			return name
		}
	}
	return ""
}

// expected are the differences that are right. Each must be found.
var expected = map[string][]struct{ where, why string }{
	"broker-restart": {
		{"StreamsGroupHeartbeat 15", "Kafka's coordinator is still loading (16); ours is there as soon as it answers"},
		{"StreamsGroupHeartbeat 16", "the same"},
	},
	"shutdown-application": {
		{
			"StreamsGroupHeartbeat 32", "a third member joins, and one of the two others has to give up a task: who reaches its share first keeps its own. " +
				"Kafka's assignor goes through the tasks in the order of a Java hash set, ours in ascending order. So with us it is the other one that gives one up",
		},
		{"OffsetCommit 33", "the recorded member commits with the epoch that it got from Kafka in the response above"},
	},
	"v0-standby": {
		{"StreamsGroupHeartbeat 21", "4.2 adds a standby task once the revoked ones are acknowledged, 4.4 (and ours) at once"},
		{"StreamsGroupHeartbeat 27", "the same: the standby task comes now"},
		{"endpoint epoch: Kafka 5, ours 4", "and so the endpoint map changes once more"},
		{"endpoints: Kafka", "the recorded member echoes the epoch that it got from Kafka, which is never ours, so that ours sends the map each time"},
	},
}

// unexpected are the differences that nothing explains.
func (r *replay) unexpected(name string) (differences []string) {
	found := slices.Clone(r.found)
	for _, e := range expected[name] {
		before := len(found)
		found = slices.DeleteFunc(found, func(f string) bool { return strings.Contains(f, e.where+" ") || strings.HasSuffix(f, e.where) })
		if len(found) == before {
			differences = append(differences, "there is no difference any more: "+e.where+": "+e.why)
		}
	}
	return append(differences, found...)
}

func TestTracesOfKafkasBroker(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../membership/testdata/traces/*.gz")
	require.NoError(t, err)
	require.Len(t, files, 15)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl.gz")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				lines := readTrace(t, file, name == "initial-delay") // its ids decide a tie
				app := "app-" + strings.TrimPrefix(name, "v0-")
				r := &replay{
					t: t, source: app + "-in", topics: []string{app + "-in", app + "-words-repartition"},
					responses: make(map[int]traceLine), ids: make(map[[16]byte][16]byte), producers: make(map[string]*producer),
				}
				recorded := 0
				for _, l := range lines {
					if l.Response != "" {
						r.responses[l.N] = l
						if string(l.Body) != "null" && len(l.Body) > 0 {
							recorded++
						}
					}
				}
				delay := "0"
				if strings.HasPrefix(name, "v0-") {
					delay = "3000"
				}
				r.opts = []kfakeext.Opt{
					kfakeext.Policy(coordinator.Kafka), kfakeext.Nodes(1), kfakeext.InProcess(), kfakeext.DataDir(dir),
					kfakeext.BrokerConfig("group.streams.initial.rebalance.delay.ms", delay),
					kfakeext.BrokerConfig("group.streams.min.session.timeout.ms", "200"),
					kfakeext.BrokerConfig("group.streams.min.heartbeat.interval.ms", "100"),
					kfakeext.BrokerConfig("group.streams.min.task.offset.interval.ms", "100"),
				}
				r.open()
				defer func() { r.close() }()
				if name != "missing-source" {
					partitions := int32(2)
					if name == "two-threads" {
						partitions = 4
					}
					require.NoError(t, r.cl.CreateTopic(r.source, partitions, nil))
				}
				r.run(lines)
				assert.Equal(t, recorded, r.compared, "every response of the recording is compared")
				assert.Empty(t, strings.Join(r.unexpected(name), "\n"))
			})
		})
	}
}
