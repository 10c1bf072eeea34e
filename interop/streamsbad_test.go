package interop_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

// outcome waits for an instance that must fail and returns how, without the
// words.
func (b *bed) outcome(j *jvm, since int, name string) string {
	b.t.Helper()
	var how string
	until(b.t, b.news, name+" to fail on "+b.name, func() bool {
		for _, e := range j.told()[since:] {
			words := strings.Fields(e)
			if words[0] == name && (words[1] == "uncaught" || words[1] == "failed") { // the exception and its cause
				how = strings.Join(words[1:4], " ")
				return true
			}
		}
		return false
	})
	return how
}

// within makes a subtest the one that fails, for as long as it runs.
func (b *bed) within(t *testing.T, old *jvm) {
	t.Helper()
	was := b.t
	b.t, b.j.t, old.t = t, t, t
	t.Cleanup(func() { b.t, b.j.t, old.t = was, was, was })
}

// consume starts a plain consumer of a topic.
func (b *bed) consume(name, group string, settings ...string) (since int) {
	b.t.Helper()
	all := append([]string{"bootstrap.servers=" + b.addr, "group.id=" + group, "client.id=" + name}, settings...)
	return b.j.say("consume %s lines %s", name, strings.Join(all, " "))
}

// What clients may not do fails on our broker as on a real one.
func TestStreamsFailTheSame(t *testing.T) {
	t.Parallel()
	bs := beds(t)
	old := make(map[*bed]*jvm)
	for _, b := range bs {
		for _, topic := range []string{"lines", "counts"} {
			_, err := b.admin.CreateTopic(t.Context(), 4, 1, nil, topic)
			require.NoError(t, err)
		}
		for _, group := range []string{"words", "missing"} {
			alterGroup(t.Context(), t, b.client, group, "streams.heartbeat.interval.ms", "300")
		}
		b.j.await(b.start(b.j, "a", "words", "group.protocol=streams"), "a state RUNNING")
		b.j.await(b.start(b.j, "b", "classic", "group.protocol=classic"), "b state RUNNING")
		b.j.await(b.consume("c", "consumers", "group.protocol=consumer"), "c consuming")
		old[b] = startJVM(t, oldRelease, b.news)
	}
	instance := func(group string, settings ...string) func(*bed) (*jvm, int) {
		return func(b *bed) (*jvm, int) { return b.j, b.start(b.j, "x", group, settings...) }
	}
	oldInstance := func(group string, settings ...string) func(*bed) (*jvm, int) {
		return func(b *bed) (*jvm, int) { return old[b], b.start(old[b], "x", group, settings...) }
	}
	consumer := func(group string, settings ...string) func(*bed) (*jvm, int) {
		return func(b *bed) (*jvm, int) { return b.j, b.consume("x", group, settings...) }
	}
	for _, c := range []struct {
		what  string
		start func(*bed) (*jvm, int)
		want  string
	}{
		{"a topology that is not the group's", instance("words", "store=other"), "InvalidRequestException"},
		{"the classic protocol in a streams group", instance("words", "group.protocol=classic"), "InconsistentGroupProtocolException"},
		{"a release older than the protocol in a streams group", oldInstance("words", "group.protocol=classic"), "InconsistentGroupProtocolException"},
		{"a release older than the protocol that is told to use it", oldInstance("words", "group.protocol=streams"), "InconsistentGroupProtocolException"},
		{"a streams member in a classic group", instance("classic"), "GroupIdNotFoundException"},
		{"a streams member in a consumer group", instance("consumers"), "GroupIdNotFoundException"},
		{"a classic consumer in a streams group", consumer("words", "group.protocol=classic"), "InconsistentGroupProtocolException"},
		{"a consumer in a streams group", consumer("words", "group.protocol=consumer"), "GroupIdNotFoundException"},
		{"an assignor that nobody knows", consumer("others", "group.protocol=consumer", "group.remote.assignor=nobody"), "UnsupportedAssignorException"},
		{"a source topic that is missing", instance("missing", "input=nowhere"), "MissingSourceTopicException"},
		{"a topology with a pattern", instance("words", "pattern=li.*"), "UnsupportedOperationException"},
	} {
		t.Run(c.what, func(t *testing.T) {
			var how [2]string
			for i, b := range bs {
				b.within(t, old[b])
				j, since := c.start(b)
				how[i] = b.outcome(j, since, "x")
				if j.saw(since, "x state") { // Kafka Streams does not like to be closed on its way there
					j.await(since, "x state ERROR")
				}
				if strings.HasPrefix(how[i], "uncaught") {
					j.await(j.say("close x leave"), "x closed true")
				}
			}
			assert.Contains(t, how[1], c.want)
			assert.Equal(t, how[1], how[0])
		})
	}
	t.Run("a release older than the protocol in a group of its own", func(t *testing.T) {
		for _, b := range bs {
			b.within(t, old[b])
			since := b.start(old[b], "y", "old", "group.protocol=classic")
			old[b].await(since, "y state RUNNING")
			b.feed(40)
			b.committed("old", "lines")
			old[b].await(old[b].say("close y"), "y closed true")
		}
	})
	t.Run("the groups go on", func(t *testing.T) {
		for _, b := range bs {
			b.within(t, old[b])
			b.committed("words", "lines")
			b.committed("classic", "lines")
			assert.False(t, b.j.saw(0, "a uncaught"))
			assert.False(t, b.j.saw(0, "b uncaught"))
			assert.False(t, b.j.saw(0, "c uncaught"))
		}
	})
}

// Clients of the releases before, on the broker as it is.
func TestStreamsOlderReleases(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: Kafka Streams takes seconds to start")
	}
	for _, release := range []string{"4.3.1", "4.2.1"} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1, kfakeext.Policy(coordinator.KIP1071)).connect()
			w.release = release
			j := startJVM(t, w.release, w.news)
			w.running(j, "a", stateDir(t), "num.stream.threads=2")
			w.feed(200)
			w.counted()
			w.running(j, "b", stateDir(t))
			w.shared(2, 3)
			w.feed(200)
			w.counted()
			w.close(j, "leave", "a")
			w.shared(1, 1)
			w.feed(200)
			w.counted()
			w.close(j, "leave", "b")
			w.state(coordinator.Empty)
		})
	}
}
