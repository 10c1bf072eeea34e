package interop_test

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
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
	"github.com/twmb/franz-go/pkg/kadm"
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
	// In recordings of ours: a topic and its id, a target assignment with its epoch,
	// what happened to an exchange, and what the broker answered if that is not what
	// the client got.
	Topic  string `json:"topic"`
	ID     string `json:"id"`
	Target int32  `json:"target"`
	Fault  string `json:"fault"`
	Broker json.RawMessage
}

// answer is what the broker has answered, if the recording has it.
func (l traceLine) answer() json.RawMessage {
	if len(l.Broker) > 0 {
		return l.Broker
	}
	if string(l.Body) == "null" {
		return nil
	}
	return l.Body
}

// unheard is whether the request never came to the broker as a whole.
func (l traceLine) unheard() bool { return strings.HasSuffix(l.Fault, "in the middle of the request") }

// compares is whether exchanges of this kind are played to our broker.
func compares(api string) bool {
	switch api {
	case "StreamsGroupHeartbeat", "OffsetFetch", "OffsetCommit", "TxnOffsetCommit":
		return true
	}
	return false
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
	group     string
	source    string
	names     map[[16]byte]string // of topics, in recordings of ours
	created   []time.Duration     // when the real broker had created internal topics
	assignor  *recordedAssignor
	settings  map[string]string     // of the group
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
		r.cl.SleepControl(func() { time.Sleep(r.creationTakes()) })
		return nil, nil, false
	})
}

// creationTakes is how long it takes to create topics: as long as it took in the
// recording, if that is known.
func (r *replay) creationTakes() time.Duration {
	now := time.Since(r.began)
	for _, at := range r.created {
		if at > now {
			return at - now
		}
	}
	return 20 * time.Millisecond
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
		for name, value := range settings {
			r.settings[name] = value
		}
		require.NoError(r.t, r.cl.SetGroupConfig(r.group, r.settings))
	case text == "the topic is created, a new process starts":
		require.NoError(r.t, r.cl.CreateTopic(r.source, 2, nil))
	case strings.HasPrefix(text, "the source topic grows"):
		r.grow(r.source, 4)
	case topicStep.MatchString(text):
		m := topicStep.FindStringSubmatch(text)
		partitions, _ := strconv.Atoi(m[3])
		switch m[1] {
		case "create":
			require.NoError(r.t, r.cl.CreateTopic(m[2], int32(partitions), nil))
		case "grow":
			r.grow(m[2], int32(partitions))
		case "delete":
			resp, err := kadm.NewClient(r.client).DeleteTopics(r.t.Context(), m[2])
			require.NoError(r.t, err)
			require.NoError(r.t, resp.Error())
		}
	case text == "the broker stops":
		r.close()
		r.down = true
	case text == "the broker is up":
		r.open()
		r.down = false
	}
}

var topicStep = regexp.MustCompile(`^(create|grow|delete) topic (\S+)(?: (?:with|to) (\d+) partitions)?$`)

func (r *replay) grow(topic string, partitions int32) {
	r.t.Helper()
	req := kmsg.NewPtrCreatePartitionsRequest()
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = topic, partitions
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(r.t.Context(), r.client)
	require.NoError(r.t, err)
	require.NoError(r.t, kerr.ErrorForCode(resp.Topics[0].ErrorCode))
}

// id is the id of a topic of ours for one of the recording.
func (r *replay) id(theirs [16]byte) [16]byte {
	if ours, ok := r.ids[theirs]; ok {
		return ours
	}
	name, named := r.names[theirs]
	if !named {
		name = r.topics[min(len(r.ids), len(r.topics)-1)]
	}
	info := r.cl.TopicInfo(name)
	if info == nil && named {
		return theirs // it is deleted, here as well
	}
	require.NotNil(r.t, info, name)
	r.ids[theirs] = info.TopicID
	return info.TopicID
}

// inOrder puts requests to when the broker saw them, which the proxy does not know
// exactly: to where a target assignment was stored that begins or ends with the
// member, else to where they were answered. A response that was held back says
// nothing.
func (r *replay) inOrder(lines []traceLine) (ordered []traceLine) {
	waiting := make(map[int]traceLine)
	for _, l := range lines {
		resp, ok := r.responses[l.N]
		switch {
		case r.assignor != nil && l.Request != "" && ok && resp.Fault != lateResponse && len(resp.answer()) > 0 && string(resp.Body) != "null":
			waiting[l.N] = l
		case l.Response != "":
			if asked, ok := waiting[l.N]; ok {
				at := time.Duration(l.MS) * time.Millisecond
				if l.Response == "StreamsGroupHeartbeat" {
					at = r.assignor.storedBetween(r.t, asked, at)
				}
				asked.MS = int(at.Milliseconds())
				ordered = append(ordered, asked)
			}
		default:
			ordered = append(ordered, l)
		}
	}
	slices.SortStableFunc(ordered, func(a, b traceLine) int { return cmp.Compare(a.MS, b.MS) })
	return ordered
}

func (r *replay) run(lines []traceLine) {
	r.t.Helper()
	r.began = time.Now()
	for _, l := range r.inOrder(lines) {
		time.Sleep(time.Until(r.began.Add(time.Duration(l.MS) * time.Millisecond)))
		switch {
		case l.Step != "":
			r.step(l.Step)
		case l.Request == "" || r.down || string(l.Body) == "null" || r.responses[l.N].unheard():
		case l.Request == "StreamsGroupHeartbeat" && r.loading(l):
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

// loading is whether Kafka's coordinator has not taken note of a heartbeat because
// it was still loading, in recordings of ours. Our coordinator is there at once.
func (r *replay) loading(l traceLine) bool {
	if r.assignor == nil {
		return false
	}
	var resp struct{ ErrorCode int16 }
	if answer := r.responses[l.N].answer(); len(answer) == 0 || json.Unmarshal(answer, &resp) != nil {
		return false
	}
	switch resp.ErrorCode {
	case kerr.CoordinatorLoadInProgress.Code, kerr.CoordinatorNotAvailable.Code, kerr.NotCoordinator.Code:
		r.compared++
		return true
	}
	return false
}

// want decodes the recorded response. There is none if the body is null.
func (r *replay) want(l traceLine, into any) bool {
	r.t.Helper()
	resp, ok := r.responses[l.N]
	if !ok || len(resp.answer()) == 0 {
		return false
	}
	require.NoError(r.t, json.Unmarshal(resp.answer(), into))
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
	names := slices.Concat(r.topics, slices.Sorted(maps.Values(r.names)))
	for _, name := range names {
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

// clientOnly are recordings for the member. In these, requests reach the broker
// within milliseconds of the end of the assignment interval, and the time at which it
// saw them, which is not recorded, decides about its answers.
var clientOnly = []string{"churn", "codes-others"}

func TestTracesOfKafkasBroker(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../membership/testdata/traces/*.gz")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 15)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl.gz")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if slices.Contains(clientOnly, name) {
				t.Skip("the times of the broker are not known well enough")
			}
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				lines := readTrace(t, file, name == "initial-delay") // its ids decide a tie
				r := newReplay(t, name, lines)
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
				if r.assignor != nil {
					r.opts = append(r.opts, kfakeext.Assignor(r.assignor))
				}
				r.open()
				defer func() { r.close() }()
				if len(r.names) == 0 && name != "missing-source" {
					partitions := int32(2)
					if name == "two-threads" {
						partitions = 4
					}
					require.NoError(t, r.cl.CreateTopic(r.source, partitions, nil))
				}
				r.run(lines)
				if r.assignor != nil {
					r.found = append(r.found, r.assignor.differences()...)
				}
				recorded := 0
				for _, l := range r.responses {
					if compares(l.Response) && len(l.answer()) > 0 {
						recorded++
					}
				}
				assert.Equal(t, recorded, r.compared, "every response of the recording is compared")
				assert.Empty(t, strings.Join(r.unexpected(name), "\n"))
			})
		})
	}
}

// newReplay reads from a recording what has to be known beforehand.
func newReplay(t *testing.T, name string, lines []traceLine) *replay {
	t.Helper()
	group := "app-" + strings.TrimPrefix(name, "v0-")
	r := &replay{
		t: t, group: group, source: group + "-in", topics: []string{group + "-in", group + "-words-repartition"},
		responses: make(map[int]traceLine), ids: make(map[[16]byte][16]byte), producers: make(map[string]*producer),
		names: make(map[[16]byte]string), settings: make(map[string]string),
	}
	for _, l := range lines {
		switch {
		case l.Response != "":
			r.responses[l.N] = l
		case l.Topic != "":
			var id [16]byte
			_, err := hex.Decode(id[:], []byte(l.ID))
			require.NoError(t, err)
			r.names[id] = l.Topic
		}
	}
	if slices.ContainsFunc(lines, func(l traceLine) bool { return l.Target > 0 }) {
		r.assignor = newRecordedAssignor(t, lines)
		r.created = r.assignor.firstUses()
	}
	return r
}
