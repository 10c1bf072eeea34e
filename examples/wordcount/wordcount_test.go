package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/topology"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output collects what a run prints.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func shortText(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(generateText(3)[:1500], "\n")), 0o600))
	return path
}

// The whole program in virtual time, with moments of join, leave and crash that
// the seed chooses.
func TestWholeRun(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed+1), func(t *testing.T) {
			t.Parallel()
			text := shortText(t)
			synctest.Test(t, func(t *testing.T) {
				var out output
				began := time.Now()
				o := options{text: text, seed: seed + 1, feed: 6 * time.Second, cluster: []kfakeext.Opt{kfakeext.InProcess()}}
				err := wordcount(t.Context(), o, &out)
				require.NoError(t, err, "%s", &out)
				assert.Contains(t, out.String(), "no task was ever worked on by two members at once")
				assert.Contains(t, out.String(), "equal to the count made without Kafka")
				assert.Contains(t, out.String(), "was not heard of for 1.5s and is out")
				assert.Less(t, time.Since(began), 15*time.Second)
			})
		})
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte(" \n\n"), 0o600))
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"unknown flag":    {[]string{"-nope"}, 2, "-nope"},
		"argument":        {[]string{"text.txt"}, 2, `"text.txt": name a text with -text`},
		"negative feed":   {[]string{"-feed", "-1s"}, 2, "-feed -1s"},
		"no broker named": {[]string{"-brokers", ","}, 2, "-brokers"},
		"unreadable text": {[]string{"-text", "/does/not/exist"}, 1, "/does/not/exist"},
		"empty text":      {[]string{"-text", empty}, 1, "has no words"},
		"nobody listens":  {[]string{"-text", shortText(t), "-brokers", "127.0.0.1:1"}, 1, "127.0.0.1:1"},
		"help":            {[]string{"-h"}, 0, "-brokers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			assert.Equal(t, c.code, run(t.Context(), c.args, &stdout, &stderr))
			assert.Contains(t, stderr.String(), c.says)
			if c.code != 0 {
				assert.Equal(t, 1, strings.Count(stderr.String(), "\n"), "one line: %s", &stderr)
			}
		})
	}
}

// fail runs the program against a cluster that it cannot work with.
func fail(t *testing.T, opts ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	code := run(ctx, append([]string{"-text", shortText(t), "-feed", "100ms"}, opts...), &stdout, &stderr)
	assert.Equal(t, 1, code, "%s", &stdout)
	assert.Equal(t, 1, strings.Count(stderr.String(), "\n"), "one line: %s", &stderr)
	return stderr.String()
}

func TestBrokerWithoutStreamsGroups(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.MaxVersions(kversion.V4_1_0()))
	require.NoError(t, err)
	defer cluster.Close()
	says := fail(t, "-brokers", cluster.ListenAddrs()[0])
	assert.Contains(t, says, "does not support streams groups")
	assert.Contains(t, says, "Kafka 4.2")
}

func TestGroupOfAnotherType(t *testing.T) {
	t.Parallel()
	cluster, err := kfakeext.NewCluster(kfakeext.Nodes(1), kfakeext.Topic("other", 1))
	require.NoError(t, err)
	defer cluster.Close()
	classic, err := kgo.NewClient(append(cluster.KgoOpts(), kgo.ConsumerGroup("taken"), kgo.ConsumeTopics("other"))...)
	require.NoError(t, err)
	defer classic.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for ctx.Err() == nil {
		classic.PollFetches(ctx)
		if g := cluster.GroupInfo("taken"); g != nil && len(g.Members) > 0 {
			break
		}
	}
	says := fail(t, "-brokers", cluster.Addrs()[0], "-group", "taken")
	assert.Contains(t, says, `"taken"`)
	assert.Contains(t, says, "choose another group id")
}

func TestTopicThatExists(t *testing.T) {
	t.Parallel()
	cluster, err := kfakeext.NewCluster(kfakeext.Nodes(1), kfakeext.Topic("mine-lines", 1))
	require.NoError(t, err)
	defer cluster.Close()
	assert.Contains(t, fail(t, "-brokers", cluster.Addrs()[0], "-group", "mine"), "mine-lines")
	assert.NotNil(t, cluster.TopicInfo("mine-lines"), "what the run did not create stays")
}

// Whatever prefix of the changelog a crash leaves, and however often the words
// before it are written again, every word is counted once.
func TestStateSurvivesCrashes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const sources = 2
		type word struct {
			text string
			from origin
		}
		var words []word
		for p := range int32(sources) {
			for line := range rapid.Int64Range(0, 4).Draw(t, "lines") {
				for i := range rapid.Int32Range(1, 3).Draw(t, "words") {
					words = append(words, word{rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "word"), origin{p, line, i}})
				}
			}
		}
		want := map[string]int64{}
		for _, w := range words {
			want[w.text]++
		}
		type change struct {
			key   string
			value []byte
		}
		var repartition []word
		var changelog []change
		s := newStore(sources)
		next := int64(0)
		for done := [sources]int{}; ; {
			// Each source goes on, from anywhere at or before its end.
			complete := true
			for p := range int32(sources) {
				var of []word
				for _, w := range words {
					if w.from.partition == p {
						of = append(of, w)
					}
				}
				from := rapid.IntRange(0, done[p]).Draw(t, "from")
				to := rapid.IntRange(done[p], len(of)).Draw(t, "to")
				repartition = append(repartition, of[from:to]...)
				done[p] = to
				complete = complete && to == len(of)
			}
			for ; next < int64(len(repartition)); next++ {
				w := repartition[next]
				c, counted, err := s.count(w.text, w.from, next)
				require.NoError(t, err)
				if counted {
					changelog = append(changelog, change{w.text, c.encode()})
				}
			}
			if complete {
				break
			}
			// A crash: a tail of the changelog was never written.
			changelog = changelog[:rapid.IntRange(0, len(changelog)).Draw(t, "survives")]
			s = newStore(sources)
			for _, c := range changelog {
				d, err := decodeChange(c.value)
				require.NoError(t, err)
				require.NoError(t, s.restore(c.key, d))
			}
			next = s.input + 1
		}
		assert.Equal(t, want, s.counts)
	})
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	_, err := decodeOrigin([]byte("short"))
	assert.ErrorContains(t, err, "5 bytes")
	for n := range 40 {
		if n == 20 || n == 32 {
			continue
		}
		_, err := decodeChange(append(make([]byte, 19), make([]byte, n)...))
		if n != 1 && n != 13 {
			assert.Error(t, err, n)
		}
	}
	assert.Error(t, newStore(2).restore("w", change{seen: make([]position, 3)}))
	_, _, err = newStore(2).count("w", origin{partition: 2}, 0)
	assert.ErrorContains(t, err, "partition 2 of 2")
}

func TestLedgerNotices(t *testing.T) {
	t.Parallel()
	task := topology.TaskID{Subtopology: "0"}
	l := newLedger()
	l.take("a", []topology.TaskID{task})
	l.work("a", task)
	l.drop("a", []topology.TaskID{task})
	l.take("b", []topology.TaskID{task})
	_, err := l.verdict()
	require.NoError(t, err)
	l.take("a", []topology.TaskID{task})
	_, err = l.verdict()
	assert.ErrorContains(t, err, "a took 0_0 while b worked on it")
	l = newLedger()
	l.work("a", task)
	_, err = l.verdict()
	assert.ErrorContains(t, err, "a worked on 0_0")
}

func TestCompareSaysWhatDiffers(t *testing.T) {
	t.Parallel()
	want := map[string]int64{"a": 1, "b": 2}
	require.NoError(t, compare(map[string]int64{"a": 1, "b": 2}, want))
	err := compare(map[string]int64{"a": 3, "c": 1}, want)
	assert.ErrorContains(t, err, `"a": 3 instead of 1; "b": 0 instead of 2; "c": 1 instead of 0`)
	assert.Equal(t, []wordCount{{"b", 2}, {"a", 1}}, mostFrequent(want, 10))
}

func TestMomentsStayInOrder(t *testing.T) {
	t.Parallel()
	for range 100 {
		m := chooseMoments(rand.Uint64())
		assert.True(t, 0 < m.second && m.second < m.third && m.third < m.leave && m.leave < m.crash && m.crash < 1, m)
	}
	assert.Equal(t, chooseMoments(5), chooseMoments(5))
}

func TestGeneratedTextIsTheSameForASeed(t *testing.T) {
	t.Parallel()
	assert.Equal(t, generateText(1), generateText(1))
	assert.NotEqual(t, generateText(1), generateText(2))
}
