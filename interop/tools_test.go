package interop_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/interop"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

// bed is a broker, ours or Kafka's, with a group of Kafka Streams on it.
type bed struct {
	t      *testing.T
	name   string
	addr   string
	client *kgo.Client
	admin  *kadm.Client
	news   *news
	j      *jvm
}

func newBed(t *testing.T, name, addr string) *bed {
	t.Helper()
	b := &bed{t: t, name: name, addr: addr, news: newNews()}
	var err error
	b.client, err = kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	t.Cleanup(b.client.Close)
	b.admin = kadm.NewClient(b.client)
	b.j = startJVM(t, kafkaRelease, b.news)
	return b
}

// sameSettings are what kafka.sh gives to a real broker.
var sameSettings = []kfakeext.Opt{
	kfakeext.Policy(coordinator.Kafka), kfakeext.Nodes(1),
	kfakeext.BrokerConfig("group.streams.initial.rebalance.delay.ms", "0"),
	kfakeext.BrokerConfig("group.streams.min.session.timeout.ms", "200"),
	kfakeext.BrokerConfig("group.streams.min.heartbeat.interval.ms", "100"),
	kfakeext.BrokerConfig("group.streams.min.task.offset.interval.ms", "100"),
	kfakeext.BrokerConfig("auto.create.topics.enable", "false"),
}

// beds are our broker and a real one.
func beds(t *testing.T) []*bed {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: a real Kafka takes seconds to start")
	}
	skipUnlessAsked(t)
	interop.SkipWithoutJava(t)
	logger := newKeptLog(t)
	cl, err := kfakeext.NewCluster(append(slices.Clone(sameSettings), kfakeext.OnEvent(logger.event), kfakeext.Logger(logger))...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return []*bed{newBed(t, "ours", cl.Addrs()[0]), newBed(t, "Kafka", realKafka(t))}
}

// realKafka starts a real broker. Its log is kept when the test fails.
func realKafka(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(logFolder(t), "kafka")
	require.NoError(t, os.Mkdir(dir, 0o700))
	addr := interop.StartKafka(keptTB{t, dir}, kafkaRelease)
	t.Cleanup(func() {
		if t.Failed() {
			showTail(t, "Kafka's broker", filepath.Join(dir, "kafka.log"))
		}
	})
	return addr
}

// start starts an instance of the word count on a broker, in one of the
// processes.
func (b *bed) start(j *jvm, name, group string, settings ...string) (since int) {
	b.t.Helper()
	all := append([]string{
		"bootstrap.servers=" + b.addr, "application.id=" + group, "client.id=" + name, "state.dir=" + stateDir(b.t),
	}, settings...)
	return j.say("start %s %s", name, strings.Join(all, " "))
}

// fed is when the first record of each topic was made, as it says.
var fed = time.Now().UTC().Add(-time.Hour).Truncate(time.Second)

// feed produces the same records to the same partitions.
func (b *bed) feed(records int) {
	b.t.Helper()
	for i := range records {
		r := &kgo.Record{
			Topic: "lines", Partition: int32(i % 4), Value: fmt.Appendf(nil, "%s %s", dictionary[i%7], dictionary[i%5]),
			Timestamp: fed.Add(time.Duration(i) * time.Second), // not so old that a broker deletes it
		}
		require.NoError(b.t, b.client.ProduceSync(b.t.Context(), r).FirstErr())
	}
}

// committed waits until a group has committed all there is.
func (b *bed) committed(group string, topics ...string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	missing := "everything"
	defer func() {
		if b.t.Failed() {
			b.t.Logf("not committed on %s: %s", b.name, missing)
		}
	}()
	until(b.t, b.news, "the commits of "+group, func() bool {
		ends, err := b.admin.ListEndOffsets(ctx, topics...)
		if err != nil {
			missing += " " + err.Error()
			return false
		}
		offsets, err := b.admin.FetchOffsets(ctx, group)
		if err != nil {
			missing = err.Error()
			return false
		}
		missing = ""
		ends.Each(func(o kadm.ListedOffset) {
			if c, ok := offsets.Lookup(o.Topic, o.Partition); o.Err != nil || o.Offset > 0 && (!ok || c.At < o.Offset) {
				missing += fmt.Sprintf(" %s-%d: %d of %d %v", o.Topic, o.Partition, c.At, o.Offset, o.Err)
			}
		})
		return missing == ""
	})
}

func (b *bed) endedTransaction(id string, how kgo.TransactionEndTry) {
	b.t.Helper()
	require.NoError(b.t, b.transaction(id).EndTransaction(b.t.Context(), how))
}

// transaction writes a record in a transaction that goes on.
func (b *bed) transaction(id string) *kgo.Client {
	b.t.Helper()
	producer, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.TransactionalID(id), kgo.DefaultProduceTopic("ledger"), kgo.TransactionTimeout(10*time.Minute))
	require.NoError(b.t, err)
	b.t.Cleanup(producer.Close)
	require.NoError(b.t, producer.BeginTransaction())
	require.NoError(b.t, producer.ProduceSync(b.t.Context(), kgo.StringRecord("entry")).FirstErr())
	return producer
}

// Kafka's tools say the same of the same group on our broker as on a real one.
func TestToolsSayTheSame(t *testing.T) {
	t.Parallel()
	bs := beds(t)
	k := startTools(t)
	said := 0 // how many commands had an effect or something to say
	same := func(t *testing.T, command string) {
		t.Helper()
		ours, theirs := k.run(bs[0].addr, command), k.run(bs[1].addr, command)
		for range 100 {
			if ours.normal() == theirs.normal() || !onlyAsks.MatchString(command) {
				break
			}
			ours, theirs = k.run(bs[0].addr, command), k.run(bs[1].addr, command)
		}
		if theirs.exit == 0 && theirs.stdout != "" {
			said++
		}
		assert.Equal(t, theirs.normal(), ours.normal(), "%s\nKafka:\n%s%s\nours:\n%s%s", command, theirs.stdout, theirs.stderr, ours.stdout, ours.stderr)
		if os.Getenv("STREAMSGROUP_JAVA_SHOW") != "" {
			t.Logf("%s\n%s\n%s%s", command, theirs.normal(), theirs.stdout, theirs.stderr)
		}
	}

	// Topics with settings.
	same(t, "kafka-topics --create --topic lines --partitions 4 --replication-factor 1")
	same(t, "kafka-topics --create --topic counts --partitions 2 --replication-factor 1 --config cleanup.policy=compact --config segment.bytes=1048576")
	same(t, "kafka-topics --create --topic counts --partitions 2 --replication-factor 1")
	same(t, "kafka-topics --create --if-not-exists --topic counts --partitions 2 --replication-factor 1")
	same(t, "kafka-topics --list")
	same(t, "kafka-topics --describe --topic counts")
	same(t, "kafka-topics --describe --topic nowhere")
	same(t, "kafka-topics --describe --topics-with-overrides")

	// No group yet.
	same(t, "kafka-streams-groups --list")
	same(t, "kafka-streams-groups --describe --group words")
	same(t, "kafka-streams-groups --delete --group words")

	// So that members join at once. Settings do not need a group.
	same(t, "kafka-configs --alter --entity-type groups --entity-name words --add-config streams.heartbeat.interval.ms=500")
	for _, b := range bs {
		b.feed(40)
		since := b.start(b.j, "a", "words", "group.instance.id=static-a", "application.server=host-a:1001", "client.tag.zone=east", "rack.aware.assignment.tags=zone")
		b.j.await(since, "a state RUNNING")
		b.committed("words", "lines", "words-words-repartition")
	}
	describes := func(t *testing.T, group string) {
		t.Helper()
		for _, what := range []string{"", "--offsets", "--members", "--state", "--topology", "--timeout 20000"} {
			same(t, "kafka-streams-groups --describe --group "+group+" "+what)
			same(t, "kafka-streams-groups --describe --verbose --group "+group+" "+what)
		}
		same(t, "admin describe "+group)
		same(t, "admin offsets "+group)
	}
	lists := func(t *testing.T) {
		t.Helper()
		same(t, "kafka-streams-groups --list")
		same(t, "kafka-streams-groups --list --state")
		same(t, "kafka-streams-groups --list --state Stable")
		same(t, "kafka-streams-groups --list --state Empty,NotReady")
		same(t, "kafka-groups --list")
		same(t, "kafka-groups --list --streams")
		same(t, "kafka-groups --list --consumer")
		same(t, "kafka-groups --list --group-type streams")
		same(t, "kafka-groups --list --group-type classic")
		same(t, "kafka-groups --list --protocol streams")
		same(t, "kafka-groups --list --share")
		same(t, "kafka-consumer-groups --list")
		same(t, "kafka-consumer-groups --list --state")
		same(t, "kafka-consumer-groups --list --type")
		same(t, "admin list")
		same(t, "admin listStreams")
	}
	t.Run("live group", func(t *testing.T) {
		describes(t, "words")
		same(t, "kafka-streams-groups --describe --all-groups")
		same(t, "kafka-streams-groups --describe --all-groups --members")
		same(t, "kafka-streams-groups --describe --group words --group nobody --state")
		lists(t)
		same(t, "kafka-consumer-groups --describe --group words")
		for _, what := range []string{"--offsets", "--members", "--state"} {
			same(t, "kafka-consumer-groups --describe --group words "+what)
		}
		same(t, "kafka-consumer-groups --describe --all-groups")
		same(t, "kafka-consumer-groups --reset-offsets --group words --topic lines --to-earliest --dry-run")
		same(t, "kafka-consumer-groups --delete-offsets --group words --topic lines")
		same(t, "kafka-consumer-groups --delete --group words")
		same(t, "kafka-streams-groups --delete --group words")
		same(t, "kafka-streams-groups --reset-offsets --group words --all-input-topics --to-earliest --dry-run")
		same(t, "kafka-streams-groups --reset-offsets --group words --all-input-topics --to-earliest --execute")
		same(t, "kafka-streams-groups --delete-offsets --group words --input-topic lines")
		same(t, "kafka-streams-groups --delete-offsets --group words --all-input-topics")
		same(t, "admin alter words lines 0 3")
		same(t, "admin deleteOffsets words lines 0")
		same(t, "admin delete words")
		same(t, "kafka-topics --list")
		same(t, "kafka-topics --describe --topic words-words-repartition")
		same(t, "kafka-topics --describe --topic words-counts-changelog")
		same(t, "kafka-get-offsets --topic lines")
		same(t, "kafka-get-offsets --topic words-counts-changelog --time -1")
		same(t, "kafka-get-offsets --topic-partitions lines:1-3 --time -2")
		same(t, "kafka-get-offsets --topic lines --time -3")
		same(t, "kafka-transactions list")
	})
	t.Run("transactions", func(t *testing.T) {
		same(t, "kafka-topics --create --topic ledger --partitions 1 --replication-factor 1")
		for _, b := range bs {
			b.endedTransaction("abandoned", kgo.TryAbort)
			b.endedTransaction("done", kgo.TryCommit)
			b.transaction("running")
		}
		same(t, "kafka-transactions list")
		same(t, "kafka-transactions list --transactional-id-pattern r.*g")
		same(t, "kafka-transactions list --transactional-id-pattern nothing.*")
		same(t, "kafka-transactions describe --transactional-id running")
		same(t, "kafka-transactions describe --transactional-id nobody")
		same(t, "kafka-get-offsets --topic ledger")
		same(t, "kafka-transactions forceTerminateTransaction --transactionalId running")
		same(t, "kafka-transactions list")
		same(t, "kafka-get-offsets --topic ledger")
	})
	t.Run("group settings", func(t *testing.T) {
		same(t, "kafka-configs --describe --entity-type groups --entity-name words")
		same(t, "kafka-configs --describe --all --entity-type groups --entity-name words")
		same(t, "kafka-configs --alter --entity-type groups --entity-name words --add-config streams.num.standby.replicas=1,streams.heartbeat.interval.ms=1000")
		same(t, "kafka-configs --describe --entity-type groups --entity-name words")
		same(t, "kafka-configs --describe --entity-type groups")
		same(t, "kafka-configs --alter --entity-type groups --entity-name words --add-config streams.heartbeat.interval.ms=1")
		same(t, "kafka-configs --alter --entity-type groups --entity-name words --add-config streams.num.standby.replicas=many")
		same(t, "kafka-configs --alter --entity-type groups --entity-name words --add-config streams.assignor.name=nobody")
		same(t, "kafka-configs --alter --entity-type groups --entity-name words --add-config streams.nothing=1")
		same(t, "kafka-configs --alter --entity-type groups --entity-name words --delete-config streams.heartbeat.interval.ms,streams.num.standby.replicas")
		same(t, "kafka-configs --describe --entity-type groups --entity-name words")
		same(t, "kafka-configs --describe --entity-type topics --entity-name counts")
	})
	for _, b := range bs {
		since := b.j.say("close a leave")
		b.j.await(since, "a closed true")
	}
	t.Run("empty group", func(t *testing.T) {
		describes(t, "words")
		lists(t)
		same(t, "kafka-consumer-groups --describe --group words")
		scope := "--group words --input-topic lines"
		for _, mode := range []string{
			"--to-earliest", "--to-latest", "--to-current", "--to-offset 3", "--to-offset 99", "--shift-by -2", "--shift-by 5", "--shift-by -99",
			"--to-datetime " + fed.Add(5*time.Second).Format("2006-01-02T15:04:05.000"), "--to-datetime 2031-01-01T00:00:00.000", "--by-duration PT2H", "--by-duration PT1S",
		} {
			same(t, "kafka-streams-groups --reset-offsets "+scope+" "+mode+" --dry-run")
		}
		same(t, "kafka-streams-groups --reset-offsets "+scope+" --to-offset 3 --export --dry-run")
		same(t, "kafka-streams-groups --reset-offsets --group words --input-topic lines:0,2 --to-offset 1 --dry-run")
		same(t, "kafka-streams-groups --reset-offsets --group words --input-topic nowhere --to-earliest --dry-run")
		same(t, "kafka-streams-groups --reset-offsets --all-groups --all-input-topics --to-latest --dry-run")
		same(t, "kafka-streams-groups --reset-offsets "+scope+" --to-earliest")
		same(t, "kafka-streams-groups --reset-offsets "+scope+" --dry-run")
		same(t, "kafka-streams-groups --reset-offsets --group nobody --input-topic lines --to-earliest --dry-run")
		plan := filepath.Join(t.TempDir(), "plan.csv")
		require.NoError(t, os.WriteFile(plan, []byte("lines,0,2\nlines,1,4\n"), 0o600))
		same(t, "kafka-streams-groups --reset-offsets --group words --from-file "+plan+" --dry-run")
		same(t, "kafka-streams-groups --reset-offsets --group words --from-file "+plan+" --execute")
		same(t, "admin offsets words")
		same(t, "admin alter words lines 0 3")
		same(t, "admin alter words lines 9 3")
		same(t, "admin offsets words")
		same(t, "kafka-streams-groups --reset-offsets "+scope+" --to-offset 4 --execute")
		same(t, "admin offsets words")
		same(t, "kafka-streams-groups --reset-offsets --group words --input-topic lines:1,2 --shift-by 3 --execute")
		same(t, "admin offsets words")
		same(t, "admin deleteOffsets words lines 0")
		same(t, "admin offsets words")
		same(t, "kafka-streams-groups --reset-offsets "+scope+" --to-earliest --execute --delete-internal-topic nowhere")
		same(t, "kafka-streams-groups --reset-offsets "+scope+" --to-earliest --execute --delete-internal-topic words-words-repartition")
		same(t, "kafka-topics --list")
		same(t, "kafka-streams-groups --reset-offsets "+scope+" --to-earliest --execute --delete-all-internal-topics")
		same(t, "kafka-topics --list")
		same(t, "kafka-streams-groups --delete-offsets "+scope)
		same(t, "kafka-streams-groups --delete-offsets --group words --input-topic nowhere")
		same(t, "admin offsets words")
		same(t, "kafka-streams-groups --reset-offsets "+scope+" --to-latest --execute --delete-all-internal-topics")
		same(t, "kafka-topics --list")
		describes(t, "words")
		same(t, "kafka-streams-groups --delete --group words")
		same(t, "kafka-streams-groups --describe --group words")
		same(t, "kafka-topics --list")
		lists(t)
		same(t, "admin describe words")
		same(t, "admin delete words")
	})
	assert.Greater(t, said, 110, "most commands are understood")
}
