package interop_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

// outcome starts an instance that must fail and returns how, without the words.
func (b *bed) outcome(name, group string, settings ...string) string {
	b.t.Helper()
	since := b.start(name, group, settings...)
	var how string
	until(b.t, b.news, name+" to fail on "+b.name, func() bool {
		for _, e := range b.j.told()[since:] {
			words := strings.Fields(e)
			switch {
			case words[0] != name:
			case words[1] == "uncaught": // the exception and its cause
				how = strings.Join(words[1:4], " ")
				return true
			case words[1] == "failed":
				how = strings.Join(words[1:4], " ")
				return true
			}
		}
		return false
	})
	return how
}

// What Kafka Streams may not do fails on our broker as on a real one.
func TestStreamsFailTheSame(t *testing.T) {
	t.Parallel()
	bs := beds(t)
	for _, b := range bs {
		for _, topic := range []string{"lines", "counts"} {
			_, err := b.admin.CreateTopic(t.Context(), 2, 1, nil, topic)
			require.NoError(t, err)
		}
		for _, group := range []string{"words", "missing"} {
			alterGroup(t.Context(), t, b.client, group, "streams.heartbeat.interval.ms", "300")
		}
		for _, app := range [][2]string{{"a", "words"}, {"b", "classic"}} {
			settings := []string{"group.protocol=streams"}
			if app[1] == "classic" {
				settings[0] = "group.protocol=classic"
			}
			b.j.await(b.start(app[0], app[1], settings...), app[0]+" state RUNNING")
		}
	}
	for _, c := range []struct {
		what, group string
		settings    []string
		want        string
	}{
		{"a topology that is not the group's", "words", []string{"store=other"}, "InvalidRequestException"},
		{"a client older than the protocol in a streams group", "words", []string{"group.protocol=classic"}, "InconsistentGroupProtocolException"},
		{"a streams member in a classic group", "classic", nil, "GroupIdNotFoundException"},
		{"a source topic that is missing", "missing", []string{"input=nowhere"}, "MissingSourceTopicException"},
		{"a topology with a pattern", "words", []string{"pattern=li.*"}, "UnsupportedOperationException"},
	} {
		t.Run(c.what, func(t *testing.T) {
			theirs := bs[1].outcome("x", c.group, c.settings...)
			ours := bs[0].outcome("x", c.group, c.settings...)
			assert.Contains(t, theirs, c.want)
			assert.Equal(t, theirs, ours)
			for _, b := range bs {
				if !strings.HasPrefix(theirs, "failed") {
					b.j.await(b.j.say("close x leave"), "x closed true")
				}
			}
		})
	}
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
