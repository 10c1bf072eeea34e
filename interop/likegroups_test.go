package interop_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/interop"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

var (
	likePrograms = flag.Int("likegroups.programs", 40, "how many programs TestGroupsLikeKafka runs")
	likeSeed     = flag.Uint64("likegroups.seed", 1, "the seed of the first program of TestGroupsLikeKafka; each further one adds 1")
	likeBroker   = flag.String("likegroups.broker", "", "the address of a Kafka 4.4.0 that runs already, started with the settings of TestGroupsLikeKafka")
	likeAll      = flag.Bool("likegroups.all", false, "go on after a difference, and tell those that are alike only once, with the first seed")
)

// likeSettings make both brokers independent of time: nothing waits.
var likeSettings = []string{
	"group.streams.initial.rebalance.delay.ms=0",
	"group.streams.assignment.interval.ms=0",
	"group.streams.min.session.timeout.ms=200",
	"group.streams.min.heartbeat.interval.ms=100",
	"group.streams.min.task.offset.interval.ms=100",
	"group.initial.rebalance.delay.ms=0",
}

// likeTopics are there before all programs, with their partitions.
var likeTopics = map[string]int32{"in-a": 2, "in-b": 3, "rep": 2, "other": 2}

// Random programs of requests, one after the other, go to a real broker and to
// ours. Both have to give the same answers.
func TestGroupsLikeKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: a real Kafka takes seconds to start")
	}
	t.Parallel()
	addr := *likeBroker
	if addr == "" {
		addr = interop.StartKafka(t, "4.4.0", likeSettings...)
	}
	opts := []kfakeext.Opt{kfakeext.Policy(coordinator.Kafka), kfakeext.Nodes(1), kfakeext.TCP()}
	for _, setting := range likeSettings {
		name, value, _ := strings.Cut(setting, "=")
		opts = append(opts, kfakeext.BrokerConfig(name, value))
	}
	cl, err := kfakeext.NewCluster(opts...)
	require.NoError(t, err)
	defer cl.Close()
	w := &likeWorld{
		t:      t,
		kafka:  &likeSide{name: "Kafka", addr: addr},
		ours:   &likeSide{name: "ours", addr: cl.ListenAddrs()[0]},
		unique: time.Now().UnixNano(), // a broker that runs already has seen other programs
	}
	defer w.kafka.hangUp()
	defer w.ours.hangUp()
	w.createTopics()
	steps := 0
	for i := range *likePrograms {
		seed := *likeSeed + uint64(i)
		w.seed = seed
		program := likeProgram(rand.New(rand.NewPCG(seed, 71)))
		o := w.run(program)
		steps += o.steps
		w.tied += o.ties
		if o.diff == "" {
			continue
		}
		program, o = w.shrink(program[:o.at+1], o)
		t.Fatalf("seed %d:\n%s%s", seed, program, o.diff)
	}
	t.Logf("%d programs, %d steps; %d ended at a tie between equal tasks, %d where kfake goes its own way", *likePrograms, steps, w.tied, w.foreigns)
	for signature, d := range w.found {
		t.Errorf("%d× %s\n\t\tseed %d: %s", d.times, signature, d.seed, d.text)
	}
}

// likeWorld is the two brokers.
type likeWorld struct {
	t           *testing.T
	kafka, ours *likeSide
	unique      int64
	runs        int
	tied        int // programs that ended at a tie
	foreigns    int // programs that ended where kfake goes its own way
	seed        uint64
	kinds       map[string]string     // the types of the groups of the program, by id, before the step
	found       map[string]*likeFound // by what they have in common
}

// likeFound is a difference that has been found some times.
type likeFound struct {
	times int
	seed  uint64
	text  string
}

var likeIndex = regexp.MustCompile(`\[\d+\]`)

// note counts a difference.
func (w *likeWorld) note(kind string, found []string, text string) {
	signature := kind + likeIndex.ReplaceAllString(found[0], "")
	if w.found == nil {
		w.found = make(map[string]*likeFound)
	}
	if w.found[signature] == nil {
		w.found[signature] = &likeFound{0, w.seed, text}
	}
	w.found[signature].times++
}

// listKinds asks Kafka for the types of the groups of the program.
func (w *likeWorld) listKinds() {
	w.kinds = make(map[string]string)
	resp, err := w.kafka.ask(kmsg.NewPtrListGroupsRequest(), 5)
	if err != nil {
		return
	}
	for _, g := range resp.(*kmsg.ListGroupsResponse).Groups {
		w.kinds[g.Group] = g.GroupType
	}
}

func (w *likeWorld) sides() []*likeSide { return []*likeSide{w.kafka, w.ours} }

func (w *likeWorld) createTopics() {
	w.t.Helper()
	for _, s := range w.sides() {
		req := kmsg.NewPtrCreateTopicsRequest()
		for name, partitions := range likeTopics {
			rt := kmsg.NewCreateTopicsRequestTopic()
			rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, 1
			req.Topics = append(req.Topics, rt)
		}
		_, err := s.ask(req, 7)
		require.NoError(w.t, err)
		s.topic, s.names = make(map[string][16]byte), make(map[[16]byte]string)
		require.Eventually(w.t, func() bool {
			meta := kmsg.NewPtrMetadataRequest()
			for name := range likeTopics {
				rt := kmsg.NewMetadataRequestTopic()
				rt.Topic = &name
				meta.Topics = append(meta.Topics, rt)
			}
			resp, err := s.ask(meta, 12)
			require.NoError(w.t, err)
			for _, topic := range resp.(*kmsg.MetadataResponse).Topics {
				if topic.ErrorCode == 0 {
					s.topic[*topic.Topic], s.names[topic.TopicID] = topic.TopicID, *topic.Topic
				}
			}
			return len(s.topic) == len(likeTopics)
		}, time.Minute, 50*time.Millisecond)
		s.topic["ghost"] = [16]byte{7, 7, 7}
		s.begin("warmup-" + strconv.FormatInt(w.unique, 10))
		for kind := range int8(2) { // Kafka makes the topics of its coordinators when somebody looks for them
			require.Eventually(w.t, func() bool {
				find := kmsg.NewPtrFindCoordinatorRequest()
				find.CoordinatorType, find.CoordinatorKeys = kind, []string{"settle"}
				resp, err := s.ask(find, 4)
				require.NoError(w.t, err)
				return resp.(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode == 0
			}, time.Minute, 50*time.Millisecond)
		}
		w.settle(s)
	}
}

// likeOutcome is what came of a program: the step at which the answers differ,
// and how.
type likeOutcome struct {
	at, steps, ties int
	diff            string
}

func (w *likeWorld) run(program likeSteps) (o likeOutcome) {
	w.runs++
	prefix := fmt.Sprintf("g%d-%d-", w.unique%1e9, w.runs)
	for _, s := range w.sides() {
		s.begin(prefix)
	}
	defer w.cleanUp()
	for i, step := range program {
		w.listKinds()
		theirs, err := w.answer(w.kafka, step)
		if errors.Is(err, os.ErrDeadlineExceeded) && strings.HasPrefix(step.text, "JoinGroup") {
			return o // another classic member is waited for, who is not to come
		}
		if err != nil {
			w.t.Fatalf("Kafka, %s: %v", step.text, err)
		}
		ours, err := w.answer(w.ours, step)
		if err != nil {
			o.at, o.diff = i, step.text+": ours: "+err.Error()
			return o
		}
		if (theirs == nil) != (ours == nil) {
			o.at, o.diff = i, step.text+": only one can be asked"
			return o
		}
		if theirs == nil {
			continue
		}
		o.steps++
		found := w.compare(step, theirs, ours)
		for again := 0; len(found) > 0 && step.read && again < 4; again++ {
			// Kafka shows what is committed, which may take a moment.
			time.Sleep(25 * time.Millisecond)
			if theirs, err = w.answer(w.kafka, step); err == nil {
				ours, err = w.answer(w.ours, step)
			}
			if err != nil {
				found = []string{err.Error()}
				break
			}
			found = w.compare(step, theirs, ours)
		}
		if likeTie(found) {
			o.ties++
			return o
		}
		if len(found) > 0 {
			if foreign, ends := w.foreign(step, theirs, ours); foreign && ends {
				w.foreigns++
				return o
			} else if foreign {
				continue
			}
		}
		if len(found) > 0 && *likeAll {
			kind, _, _ := strings.Cut(step.text, " ")
			w.note(kind+"/"+w.kinds[w.kafka.group(step.group)], found, fmt.Sprintf("step %d: %s\n\t%s", i, step.text, strings.Join(found[:min(5, len(found))], "\n\t")))
			if step.read {
				continue
			}
			return o
		}
		if len(found) > 0 {
			o.at, o.diff = i, fmt.Sprintf("%s\n\t%s\nKafka: %s\nours:  %s", step.text, strings.Join(found, "\n\t"), likeShort(theirs), likeShort(ours))
			return o
		}
	}
	return o
}

func likeShort(resp kmsg.Response) string {
	encoded, err := json.Marshal(resp)
	text := string(encoded)
	if err != nil {
		text = err.Error()
	}
	if len(text) > 1500 {
		text = text[:1500] + "…"
	}
	return text
}

// compare says where the answers to a step differ.
func (w *likeWorld) compare(step likeStep, theirs, ours kmsg.Response) []string {
	if step.view != nil {
		step.view(w.kafka, theirs)
		step.view(w.ours, ours)
	}
	w.known(step, theirs, ours)
	return likeDifferences(w.kafka.fields(theirs), w.ours.fields(ours))
}

// answer asks one broker. A transaction that is about to end, and a
// coordinator that is about to start, are waited for.
func (w *likeWorld) answer(s *likeSide, step likeStep) (kmsg.Response, error) {
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		req := step.request(s)
		if req == nil {
			return nil, nil
		}
		resp, err := s.ask(req, step.version)
		if err != nil {
			return nil, err
		}
		if likeWaits(resp) && time.Since(began) < likeTimeout {
			continue
		}
		if step.learn != nil {
			step.learn(s, resp)
		}
		if step.settle && s == w.kafka {
			w.settle(s)
		}
		return resp, nil
	}
}

func likeWaits(resp kmsg.Response) bool {
	code := int16(0)
	switch r := resp.(type) {
	case *kmsg.InitProducerIDResponse:
		code = r.ErrorCode
	case *kmsg.AddOffsetsToTxnResponse:
		code = r.ErrorCode
	case *kmsg.EndTxnResponse:
		code = r.ErrorCode
	case *kmsg.OffsetCommitResponse:
		if len(r.Topics) > 0 && len(r.Topics[0].Partitions) > 0 {
			code = r.Topics[0].Partitions[0].ErrorCode
		}
	case *kmsg.TxnOffsetCommitResponse:
		if len(r.Topics) > 0 && len(r.Topics[0].Partitions) > 0 {
			code = r.Topics[0].Partitions[0].ErrorCode
		}
	}
	switch code {
	case kerr.ConcurrentTransactions.Code, kerr.CoordinatorNotAvailable.Code, kerr.CoordinatorLoadInProgress.Code, kerr.NotCoordinator.Code:
		return true
	}
	return false
}

// settle returns once everything that a broker has written before is seen: all
// groups share one partition of the log, and all configs one, too.
func (w *likeWorld) settle(s *likeSide) {
	commit := likeStep{version: 8, request: func(s *likeSide) kmsg.Request {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation = "settle", -1
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic = "other"
		rt.Partitions = append(rt.Partitions, kmsg.NewOffsetCommitRequestTopicPartition())
		req.Topics = append(req.Topics, rt)
		return req
	}}
	_, err := w.answer(s, commit)
	require.NoError(w.t, err)
}

// shrink drops steps for as long as the answers still differ.
func (w *likeWorld) shrink(program likeSteps, o likeOutcome) (likeSteps, likeOutcome) {
	for size := max(1, len(program)/2); size > 0; size /= 2 {
		for from := 0; from+size <= len(program); {
			shorter := append(append(likeSteps{}, program[:from]...), program[from+size:]...)
			if got := w.run(shorter); got.diff != "" {
				program, o = shorter[:got.at+1], got
			} else {
				from += size
			}
		}
	}
	return program, o
}

// cleanUp ends what a program has left behind, so that the brokers stay small.
func (w *likeWorld) cleanUp() {
	w.t.Helper()
	for _, s := range w.sides() {
		for _, step := range likeCleanUp(s) {
			if _, err := w.answer(s, step); err != nil {
				s.hangUp()
			}
		}
	}
}
