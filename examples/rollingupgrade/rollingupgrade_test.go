package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/internal/browser"
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

// virtual are the options of a run in virtual time.
func virtual(seed uint64) options {
	return options{
		seed: seed, cluster: []kfakeext.Opt{kfakeext.InProcess()},
		times: func(string, *kgo.Record) int { return 1 },
	}
}

// The whole program in virtual time.
func TestWholeRun(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed+1), func(t *testing.T) {
			t.Parallel()
			o := virtual(seed + 1)
			o.html = filepath.Join(t.TempDir(), "page.html")
			var out output
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				require.NoError(t, upgrades(t.Context(), o, &out), "%s", &out)
				assert.Less(t, time.Since(began), 20*time.Second)
			})
			assert.NotContains(t, out.String(), "FAILED")
			assert.Equal(t, 20, strings.Count(out.String(), "\nok: "))
			assert.Contains(t, out.String(), "topology epoch 1 replaces 0: 2 subtopologies")
			assert.Contains(t, out.String(), "STALE_TOPOLOGY")
			assert.Regexp(t, `C waits for active 0_[0-9,-]+ until (A, B|B, A) give it up`, out.String())
			if seed == 0 {
				checkPage(t, o.html)
			}
		})
	}
}

// checkPage opens the page in a real browser.
func checkPage(t *testing.T, file string) {
	t.Helper()
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	dom := browser.Elements(browser.DOM(t, page, "#s1"))
	count := func(expr string) int { return len(regexp.MustCompile(expr).FindAllString(dom, -1)) }
	assert.Equal(t, 2, count(`<h1>`))
	assert.Equal(t, 6, count(`class="row lane"`), "three members, twice")
	assert.Equal(t, 4, count(`data-epoch="topology epoch [01]"`))
	assert.Equal(t, 4, count(`class="epoch-line"`))
	assert.Equal(t, 20, count(`data-claim="holds"`))
	assert.Equal(t, 0, count(`data-claim="broken"`))
	assert.GreaterOrEqual(t, count(`class="span [^"]*"`), 27+56, "a span for each hand-over at least")
	assert.NotZero(t, count(`data-state="waits"[^>]*until (A, B|B, A) give it up`))
	assert.Regexp(t, `id="reason"[^>]*class="set">A, task 0_\d, active, topology epoch 0: `, dom)
	assert.Empty(t, browser.Loads(dom))
}

// What should not be is noticed, whichever count it disturbs.
func TestBrokenClaims(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		topic string
		times int
		says  []string
	}{
		"an order twice": {orders, 2, []string{
			"FAILED: each record of orders was processed exactly once",
			"0 records of orders were not processed and 1 more than once; one of them: orders-",
			"FAILED: of ",
			"2 instead of 1",
		}},
		"an order left out": {orders, 0, []string{
			"1 records of orders were not processed and 0 more than once",
			"0 instead of 1",
		}},
		"a word twice":        {wordsTopic, 2, []string{"FAILED: each record of words was processed exactly once", "FAILED: of "}},
		"a letter left out":   {lettersTopic, 0, []string{"FAILED: each record of words-app-letters-repartition was processed exactly once", "FAILED: the first letters of"}},
		"a letter once again": {lettersTopic, 2, []string{"FAILED: each record of words-app-letters-repartition was processed exactly once", "FAILED: the first letters of"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := virtual(1)
			o.html = filepath.Join(t.TempDir(), "page.html")
			var once sync.Once
			o.times = func(_ string, r *kgo.Record) int {
				n := 1
				if r.Topic == c.topic {
					once.Do(func() { n = c.times })
				}
				return n
			}
			var out output
			synctest.Test(t, func(t *testing.T) {
				assert.ErrorContains(t, upgrades(t.Context(), o, &out), "claims do not hold")
			})
			for _, s := range c.says {
				assert.Contains(t, out.String(), s)
			}
			page, err := os.ReadFile(o.html)
			require.NoError(t, err)
			assert.Contains(t, string(page), `data-claim="broken"`, "the page is written all the same, and says so")
		})
	}
}

// A policy under which no topology can be replaced is what Apache Kafka has.
func TestRefusedUpgrade(t *testing.T) {
	t.Parallel()
	o := virtual(1)
	o.cluster = append(o.cluster, kfakeext.Policy(coordinator.Kafka))
	var out output
	synctest.Test(t, func(t *testing.T) {
		err := upgrades(t.Context(), o, &out)
		require.ErrorContains(t, err, "C#1: ")
	})
	assert.NotContains(t, out.String(), "ok:")
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, after := range []time.Duration{0, 100 * time.Millisecond, time.Second, 4 * time.Second} {
			ctx, cancel := context.WithTimeoutCause(t.Context(), after, context.Canceled)
			assert.Error(t, upgrades(ctx, virtual(1), io.Discard), after)
			cancel()
		}
	})
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"unknown flag":    {[]string{"-nope"}, 2, "-nope"},
		"argument":        {[]string{"page.html"}, 2, `"page.html"`},
		"help":            {[]string{"-h"}, 0, "-html"},
		"unwritable page": {[]string{"-html", "/does/not/exist.html"}, 1, "/does/not/exist.html"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			assert.Equal(t, c.code, run(t.Context(), c.args, &stdout, &stderr))
			assert.Contains(t, stderr.String(), c.says)
		})
	}
}

func TestLedgerNotices(t *testing.T) {
	t.Parallel()
	old, young := hand{"A", 0}, hand{"C", 1}
	here := []place{{"orders", 0}}
	record := func(offset int64) *kgo.Record { return &kgo.Record{Topic: "orders", Offset: offset} }
	for name, c := range map[string]struct {
		do     func(l *ledger)
		broken string // empty if every claim holds
	}{
		"an orderly hand-over": {func(l *ledger) {
			l.take(old, here)
			l.work(old, record(0))
			l.drop(old, here)
			l.take(young, here)
			l.work(young, record(1))
		}, ""},
		"two at once": {func(l *ledger) {
			l.take(old, here)
			l.take(young, here)
		}, "C#1 took orders-0 while A#0 worked on it"},
		"work of somebody else": {func(l *ledger) {
			l.take(old, here)
			l.work(young, record(0))
		}, "C#1 processed a record of orders-0, which is not its"},
		"work of nobody": {func(l *ledger) { l.work(old, record(0)) }, "A#0 processed a record of orders-0"},
		"back to older code": {func(l *ledger) {
			l.take(young, here)
			l.drop(young, here)
			l.take(old, here)
		}, "A#0 took orders-0, which topology epoch 1 had worked on"},
		"a gift to a member that is behind": {func(l *ledger) {
			l.coordinator(coordinator.MemberJoined{Member: "id"})
			l.coordinator(coordinator.TasksGranted{Member: "id", Tasks: []topology.TaskID{{Subtopology: "0"}}})
			l.coordinator(coordinator.TopologySet{Epoch: 2})
			l.coordinator(coordinator.TasksGranted{Member: "id", Tasks: []topology.TaskID{{Subtopology: "0", Partition: 3}}})
		}, "id of topology epoch 0 was given [0_3] while the group was at 2"},
		"two updates": {func(l *ledger) {
			l.coordinator(coordinator.TopologySet{Epoch: 2, Replaced: true})
		}, "2 topologies were replaced, which cost 1 group epochs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger()
			l.coordinator(coordinator.TopologySet{Epoch: 0})
			l.coordinator(coordinator.EpochBumped{Reasons: []coordinator.Reason{coordinator.ReasonTopology}}) // of the first topology
			c.do(l)
			l.coordinator(coordinator.TopologySet{Epoch: 1, Replaced: true})
			l.coordinator(coordinator.EpochBumped{Reasons: []coordinator.Reason{coordinator.ReasonMemberJoined, coordinator.ReasonTopology}})
			var broken []error
			l.claims(func(holds bool, _ string, detail ...error) {
				if !holds {
					broken = append(broken, detail...)
				}
			})
			if c.broken == "" {
				assert.Empty(t, broken)
			} else {
				assert.ErrorContains(t, errors.Join(broken...), c.broken)
			}
		})
	}
}

func TestOnce(t *testing.T) {
	t.Parallel()
	l := newLedger()
	h := hand{"A", 0}
	l.take(h, []place{{"orders", 0}})
	for _, offset := range []int64{0, 1, 1} {
		l.work(h, &kgo.Record{Topic: "orders", Offset: offset})
	}
	_, err := l.once("orders", map[int32]int64{0: 3, 1: 1})
	require.ErrorContains(t, err, "2 records of orders were not processed and 1 more than once")
	_, err = l.once("orders", map[int32]int64{0: 1})
	require.ErrorContains(t, err, "2 records of orders-0 were processed, which has 1")
	byEpoch, err := l.once("orders", map[int32]int64{0: 0})
	require.Error(t, err)
	assert.Empty(t, byEpoch)
	assert.Equal(t, int32(0), l.versionOf("orders", 0, 1))
	assert.Equal(t, int32(-1), l.versionOf("orders", 0, 7))
}

func TestChecks(t *testing.T) {
	t.Parallel()
	tasks := func(partitions ...int32) (out []topology.TaskID) {
		for _, p := range partitions {
			out = append(out, topology.TaskID{Subtopology: "0", Partition: p})
		}
		return out
	}
	before := row{tasks: map[string][]topology.TaskID{"A": tasks(0, 1), "B": tasks(2)}}
	now := row{tasks: map[string][]topology.TaskID{"A": tasks(0, 1, 2), "B": nil}}
	assert.NoError(t, all(kept("A"), gainedNothing("B"), share(3, "A"))(before, now))
	assert.ErrorContains(t, kept("A", "B")(before, now), "B had 0_2 and has none")
	assert.ErrorContains(t, gainedNothing("B", "A")(before, now), "A had 0_0-1 and has 0_0-2")
	assert.ErrorContains(t, share(3, "A", "B")(before, now), "B has 0 tasks, not 3")
	assert.ErrorContains(t, fiveAndFour("A", "B")(before, now), "not five and four")
}

func TestCompareSaysWhatDiffers(t *testing.T) {
	t.Parallel()
	want := map[string]int64{"a": 1, "b": 2}
	require.NoError(t, compare(map[string]int64{"a": 1, "b": 2}, want))
	err := compare(map[string]int64{"a": 3, "c": 1}, want)
	assert.EqualError(t, err, "\"a\": 3 instead of 1\n\"b\": 0 instead of 2\n\"c\": 1 instead of 0")
	many := map[string]int64{}
	for i := range 9 {
		many[strconv.Itoa(i)] = 1
	}
	assert.ErrorContains(t, compare(many, nil), "and 4 more")
}
