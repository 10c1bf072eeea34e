package interop_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

// The tests in this file run Kafka Streams, as Kafka publishes it, on our broker:
// the proof that the coordinator does what a client expects that nobody here
// wrote. STREAMSGROUP_JAVA_MATRIX=long repeats them with older releases of Kafka
// Streams and in the other combinations of policy, guarantee and nodes.
func longMatrix() bool { return os.Getenv("STREAMSGROUP_JAVA_MATRIX") == "long" }

// skipUnlessAsked keeps Kafka's own clients out of a run that nobody wants to take
// minutes. The whole check asks for them, in a step of its own.
func skipUnlessAsked(t *testing.T) {
	t.Helper()
	if os.Getenv("STREAMSGROUP_JAVA_MATRIX") == "" {
		t.Skip("Kafka's own clients and tools take minutes: ask for them with STREAMSGROUP_JAVA_MATRIX=short or long")
	}
}

// oldRelease is the last one before streams groups.
const oldRelease = "4.0.0"

// setting is one combination that a scenario runs in.
type setting struct {
	release     string
	policy      coordinator.Policy
	nodes       int
	transaction int16 // level of transaction.version, or -1 for at least once
}

func (s setting) String() string {
	guarantee := "at least once"
	if s.transaction >= 0 {
		guarantee = fmt.Sprintf("exactly once, transaction.version %d", s.transaction)
	}
	policy := "kip1071"
	if s.policy == coordinator.Kafka {
		policy = "kafka"
	}
	return fmt.Sprintf("%s, %s, policy %s, nodes %d", s.release, guarantee, policy, s.nodes)
}

// Every value of each dimension in a short run, every combination in a long one.
func settings() []setting {
	if !longMatrix() {
		return []setting{
			{kafkaRelease, coordinator.KIP1071, 1, -1},
			{kafkaRelease, coordinator.Kafka, 3, 2},
			{kafkaRelease, coordinator.KIP1071, 1, 0},
		}
	}
	var all []setting
	for _, release := range []string{"4.4.0", "4.3.1", "4.2.1"} {
		for _, policy := range []coordinator.Policy{coordinator.KIP1071, coordinator.Kafka} {
			for _, nodes := range []int{1, 3} {
				for _, transaction := range []int16{-1, 0, 2} {
					all = append(all, setting{release, policy, nodes, transaction})
				}
			}
		}
	}
	return all
}

// matrix runs a scenario in all settings.
func matrix(t *testing.T, all []setting, scenario func(*testing.T, *world)) {
	t.Helper()
	matrixOn(t, all, func(t *testing.T, s setting) *world {
		return newWorld(t, s.nodes, kfakeext.Policy(s.policy)).connect()
	}, scenario)
}

// matrixOn runs a scenario in all settings, each on a broker of its own.
func matrixOn(t *testing.T, all []setting, newBroker func(*testing.T, setting) *world, scenario func(*testing.T, *world)) {
	t.Helper()
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: Kafka Streams takes seconds to start")
	}
	for _, s := range all {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			w := newBroker(t, s)
			w.release, w.eos = s.release, s.transaction >= 0
			if w.eos {
				w.transactionVersion(s.transaction)
			}
			scenario(t, w)
		})
	}
}

// once is for scenarios in which the guarantee does not matter.
func once() []setting {
	if longMatrix() {
		return slices.DeleteFunc(settings(), func(s setting) bool { return s.transaction == 0 })
	}
	return settings()[:1]
}

// Kafka Streams joins, gets its internal topics, shares its tasks, gives them
// back, returns, and ends.
func TestStreamsLifecycle(t *testing.T) {
	matrix(t, once(), func(t *testing.T, w *world) {
		j := startJVM(t, w.release, w.news)
		da, db := stateDir(t), stateDir(t)

		w.step("one instance, two threads")
		w.running(j, "a", da, "num.stream.threads=2")
		w.shared(1, 2)
		w.feed(200)
		w.counted()

		w.step("two more instances")
		w.running(j, "b", db, "num.stream.threads=2")
		w.running(j, "c", stateDir(t), "num.stream.threads=2")
		w.shared(3, 6)
		w.feed(200)
		w.counted()

		w.step("b leaves")
		w.close(j, "leave", "b")
		w.shared(2, 4)
		w.feed(200)
		w.counted()

		w.step("c returns alone, without its state")
		w.close(j, "leave", "a", "c")
		since := w.running(j, "c", stateDir(t), "num.stream.threads=2")
		w.shared(1, 2)
		for partition := range linesPartitions {
			j.await(since, fmt.Sprintf("c restored words-counts-changelog-%d", partition))
		}
		w.feed(200)
		w.counted()

		w.step("the others return with their state")
		w.running(j, "a", da, "num.stream.threads=2")
		w.running(j, "b", db, "num.stream.threads=2")
		w.shared(3, 6)
		w.feed(200)
		w.counted()

		w.step("threads come and go")
		since = j.say("add a")
		j.await(since, "a added true")
		w.shared(3, 7)
		since = j.say("remove a")
		j.await(since, "a removed true")
		w.shared(3, 6)

		w.step("all leave")
		w.close(j, "leave", "a", "b", "c")
		w.state(coordinator.Empty)
	})
}

// A process is killed and returns, with its state or without. The session of a
// killed member has to expire, and so has its transaction.
func TestStreamsKill(t *testing.T) {
	matrix(t, settings(), func(t *testing.T, w *world) {
		counted := w.countedAtLeast
		if w.eos {
			counted = w.counted
		}
		w.step("two processes")
		j, killed := startJVM(t, w.release, w.news), startJVM(t, w.release, w.news)
		db := stateDir(t)
		w.running(j, "a", stateDir(t))
		w.running(killed, "b", db, "num.stream.threads=2")
		w.shared(2, 3)
		w.feed(300)
		w.counted()

		w.step("one is killed in the middle")
		w.feed(300)
		killed.kill()
		w.feed(300)
		w.shared(1, 1)
		counted()

		w.step("it returns with its state")
		returned := startJVM(t, w.release, w.news)
		w.running(returned, "b", db, "num.stream.threads=2")
		w.shared(2, 3)
		w.feed(300)
		counted()

		w.step("it is killed again and another comes without state")
		w.feed(300)
		returned.kill()
		w.running(j, "c", stateDir(t))
		w.shared(2, 2)
		w.feed(300)
		counted()
		w.close(j, "leave", "a", "c")
		w.state(coordinator.Empty)
	})
}

// While it runs, leaders of partitions and coordinators of groups and
// transactions move, and nodes come and go.
func TestStreamsMoves(t *testing.T) {
	all := settings()
	if longMatrix() {
		all = slices.DeleteFunc(all, func(s setting) bool { return s.nodes == 1 })
	} else {
		all = []setting{{kafkaRelease, coordinator.KIP1071, 3, -1}, {kafkaRelease, coordinator.KIP1071, 3, 2}}
	}
	matrix(t, all, func(t *testing.T, w *world) {
		j := startJVM(t, w.release, w.news)
		w.running(j, "a", stateDir(t), "num.stream.threads=2")
		w.running(j, "b", stateDir(t))
		w.shared(2, 3)
		w.feed(100)
		w.counted()
		for i := range 3 {
			w.step("leaders move, round %d", i)
			w.cl.ShufflePartitionLeaders()
			w.feed(100)
			w.counted()
			w.step("coordinators move, round %d", i)
			w.cl.RehashCoordinators()
			w.feed(100)
			w.counted()
			w.step("both move while records are read, round %d", i)
			w.feed(100)
			w.cl.ShufflePartitionLeaders()
			w.cl.RehashCoordinators()
			w.feed(100)
			w.counted()
		}
		w.step("a node comes, another goes")
		_, _, err := w.cl.AddNode(-1, 0)
		require.NoError(t, err)
		w.feed(100)
		w.counted()
		require.NoError(t, w.cl.RemoveNode(1))
		w.feed(100)
		w.counted()
		w.shared(2, 3)
		assert.False(t, j.saw(0, "a uncaught"))
		assert.False(t, j.saw(0, "b uncaught"))
		w.close(j, "leave", "a", "b")
		w.state(coordinator.Empty)
	})
}

// Standbys follow on other instances and take over; everybody knows who has
// what, for interactive queries.
func TestStreamsStandbys(t *testing.T) {
	matrix(t, once(), func(t *testing.T, w *world) {
		w.groupConfig("streams.num.standby.replicas", "1")
		j, killed := startJVM(t, w.release, w.news), startJVM(t, w.release, w.news)
		w.step("two instances with end points")
		w.running(j, "a", stateDir(t), "application.server=host-a:1001")
		w.running(killed, "b", stateDir(t), "application.server=host-b:1002")
		w.shared(2, 2)
		w.feed(300)
		w.counted()

		w.step("both know where everything is and ask there")
		w.clients(j, "a", func(c map[string]host) bool {
			a, b := c["host-a:1001"], c["host-b:1002"]
			return len(a.active) == linesPartitions && len(b.active) == linesPartitions &&
				len(a.standby)+len(b.standby) == linesPartitions && len(c) == 2
		})
		w.stored(j, "a", "the", false) // here or in a standby
		w.stored(killed, "b", "the", false)
		instances := map[string]instance{"host-a:1001": {j, "a"}, "host-b:1002": {killed, "b"}}
		w.queried(j, "a", 1, instances, false)
		w.queried(killed, "b", 1, instances, false)

		w.step("b is killed")
		since := len(j.told())
		killed.kill()
		w.shared(1, 1)
		w.feed(100)
		w.countedAtLeast()
		w.clients(j, "a", func(c map[string]host) bool {
			return len(c) == 1 && len(c["host-a:1001"].active) == 2*linesPartitions && len(c["host-a:1001"].standby) == 0
		})
		w.queried(j, "a", 0, instances, !w.eos)
		for _, e := range j.told()[since:] {
			if words := strings.Fields(e); words[1] == "restored" {
				records, err := strconv.Atoi(words[3])
				require.NoError(t, err)
				assert.Less(t, records, 100, "a had a standby and reads no more than what came last: %s", e)
			}
		}
		w.close(j, "leave", "a")
	})
}

// Static members leave for a while and find their tasks again; nobody else gets
// their names.
func TestStreamsStaticMembers(t *testing.T) {
	// Before 4.4 Kafka Streams has no static members with this protocol.
	all := slices.DeleteFunc(once(), func(s setting) bool { return s.release < "4.4" })
	matrix(t, all, func(t *testing.T, w *world) {
		j := startJVM(t, w.release, w.news)
		db := stateDir(t)
		w.step("two static instances")
		w.running(j, "a", stateDir(t), "group.instance.id=static-a")
		w.running(j, "b", db, "group.instance.id=static-b")
		w.shared(2, 2)
		w.feed(100)
		w.counted()
		before := w.settled(2)

		w.step("b is away and returns")
		w.close(j, "remain", "b")
		g := w.cl.DescribeStreamsGroup(w.group)
		assert.Len(t, g.Members, 2, "a static member is waited for")
		w.running(j, "b", db, "group.instance.id=static-b")
		after := w.settled(2)
		assert.Equal(t, before.AssignmentEpoch, after.AssignmentEpoch)
		assert.Equal(t, tasksOf(before), tasksOf(after))
		w.feed(100)
		w.counted()

		w.step("a third with a name that is taken")
		since := w.start(j, "c", stateDir(t), "group.instance.id=static-b")
		assert.Contains(t, j.await(since, "c uncaught"), "UnreleasedInstanceId")
		w.settled(2)

		w.step("they leave for good")
		w.close(j, "leave", "a", "b")
		w.state(coordinator.Empty)
	})
}

// An exception in one instance ends them all when the application asks for it.
func TestStreamsShutdownApplication(t *testing.T) {
	matrix(t, once(), func(t *testing.T, w *world) {
		j := startJVM(t, w.release, w.news)
		w.running(j, "a", stateDir(t), "onerror=application")
		w.running(j, "b", stateDir(t), "onerror=application", "num.stream.threads=2")
		w.shared(2, 3)
		w.step("a record that nobody can read")
		w.line("throw")
		j.await(0, "a state ERROR")
		j.await(0, "b state ERROR")
	})
}

// A record takes longer than the poll interval: the member leaves, and comes
// back when it is through.
func TestStreamsMaxPoll(t *testing.T) {
	matrix(t, once(), func(t *testing.T, w *world) {
		j := startJVM(t, w.release, w.news)
		w.running(j, "a", stateDir(t), "main.consumer.max.poll.interval.ms=6000")
		counted := w.countedAtLeast
		if w.eos {
			counted = w.counted
		}
		w.feed(100)
		counted()
		w.step("a record takes too long")
		since := len(j.told())
		w.line("sleep 12000")
		w.state(coordinator.Empty)
		j.await(since, "a state RUNNING")
		w.settled(1)
		w.feed(100)
		counted()
		assert.False(t, j.saw(0, "a uncaught"))
		w.close(j, "leave", "a")
	})
}

// Everything with passwords.
func TestStreamsPlain(t *testing.T) {
	all := []setting{{kafkaRelease, coordinator.KIP1071, 1, -1}}
	if longMatrix() {
		all = nil
		for _, release := range []string{"4.4.0", "4.3.1", "4.2.1"} {
			all = append(all, setting{release, coordinator.KIP1071, 1, -1}, setting{release, coordinator.Kafka, 3, 2})
		}
	}
	matrixOn(t, all, func(t *testing.T, s setting) *world {
		return newWorld(t, s.nodes, kfakeext.Policy(s.policy),
			kfakeext.KfakeOpts(kfake.EnableSASL(), kfake.User("PLAIN", "streams", "secret")),
			kfakeext.Superuser("PLAIN", "admin", "secret"),
		).connect(kgo.SASL(plain.Auth{User: "admin", Pass: "secret"}.AsMechanism()))
	}, func(t *testing.T, w *world) {
		w.login = "security.protocol=SASL_PLAINTEXT sasl.mechanism=PLAIN " +
			`sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule~required~username="streams"~password="secret";`
		j := startJVM(t, w.release, w.news)
		w.running(j, "a", stateDir(t), "num.stream.threads=2")
		w.running(j, "b", stateDir(t))
		w.shared(2, 3)
		w.feed(100)
		w.counted()
		w.close(j, "leave", "a", "b")
		w.state(coordinator.Empty)
	})
}
