package interop_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/streamsgroup/streamsgroup/coordinator"
)

var (
	twinPrograms = flag.Int("twins", 32, "how many programs TestHeartbeatsLikeKafka runs")
	twinSeed     = flag.Uint64("twins.seed", 1, "the seed of its first program")
	twinLanes    = flag.Int("twins.lanes", 8, "how many programs it runs at a time")
	twinKafka    = flag.String("twins.kafka", "", "the address of a Kafka that runs already, for TestHeartbeatsLikeKafka")
	twinTime     = flag.Duration("twins.time", time.Hour, "when TestHeartbeatsLikeKafka begins no further program")
	twinFailures = flag.Int("twins.failures", 1, "how many differences end TestHeartbeatsLikeKafka")
)

// The same random heartbeats go to a real Kafka and to our broker, whose answers
// have to be the same in every field, as have descriptions of the group after
// each of them. Topics and settings change in between, and time-outs end.
func TestHeartbeatsLikeKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: a real Kafka takes seconds to start")
	}
	t.Parallel()
	counts := runTwins(t, startTwins(t, *twinKafka), *twinPrograms)
	assert.Less(t, counts["not repeated"]*50, max(counts["programs"], 50), "programs whose differences did not come again")
}

// Two coordinators of ours do the same, under either policy, and neither
// panics.
func TestHeartbeatsLikeOurselves(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]coordinator.Policy{"KIP1071": coordinator.KIP1071, "Kafka": coordinator.Kafka} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { runTwins(t, startOurs(t, policy), *twinPrograms/4) })
		})
	}
}

// runTwins runs programs, several at a time, and returns what was counted.
func runTwins(t *testing.T, w *twins, programs int) map[string]int {
	t.Helper()
	var (
		next     atomic.Int64
		failures atomic.Int64
		wg       sync.WaitGroup
		mu       sync.Mutex
		counts   = make(map[string]int)
	)
	began := time.Now()
	for lane := range *twinLanes {
		l := &twinLane{w: w, links: [2]*twinLink{w.link(t, theirs), w.link(t, ours)}, counts: make(map[string]int)}
		wg.Go(func() {
			for failures.Load() < int64(*twinFailures) && time.Since(began) < *twinTime {
				n := next.Add(1) - 1
				if n >= int64(programs) {
					break
				}
				if !l.try(t, newTwinProgram(*twinSeed+uint64(n)), fmt.Sprintf("t%x-%d-%d", began.UnixMilli()&0xffffff, lane, *twinSeed+uint64(n))) {
					failures.Add(1)
				}
				l.counts["programs"]++
			}
			l.counts["assignments"], l.counts["assignments with ties"] = l.runs, l.ties
			mu.Lock()
			defer mu.Unlock()
			for name, count := range l.counts {
				counts[name] += count
			}
		})
	}
	wg.Wait()
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&out, "%7d %s\n", counts[name], name)
	}
	t.Logf("in %s:\n%s", time.Since(began).Round(time.Second), &out)
	return counts
}

// try runs a program. Should the twins differ it is run again, with all the time
// in the world, and cut down to what is needed for them to differ.
func (l *twinLane) try(t *testing.T, p twinProgram, key string) bool {
	err := l.run(p, key, false)
	if err == nil {
		return true
	}
	var d *difference
	first, trace := err, l.trace
	if err = l.run(p, key+"b", true); err == nil {
		l.counts["not repeated"]++
		t.Logf("seed %d: did not come again: %v\nafter\n%s", p.seed, first, strings.Join(tail(trace, 12), "\n"))
		return true
	}
	if errors.As(err, &d) {
		p, err = l.shrink(p, key, d, err)
	}
	t.Errorf("seed %d, %d steps: %v\nafter\n%s", p.seed, len(p.steps), err, strings.Join(l.trace, "\n"))
	return false
}

func tail(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }

// shrink leaves out steps for as long as the same kind of difference remains.
func (l *twinLane) shrink(p twinProgram, key string, d *difference, last error) (twinProgram, error) {
	what, trace, n := d.what, l.trace, 0
	for size := len(p.steps) / 2; size > 0; size /= 2 {
		for from := 0; from < len(p.steps); {
			shorter := twinProgram{p.seed, slices.Delete(slices.Clone(p.steps), from, min(from+size, len(p.steps)))}
			n++
			err := l.run(shorter, fmt.Sprintf("%sc%d", key, n), false)
			if errors.As(err, &d) && d.what == what {
				p, last, trace = shorter, err, l.trace
			} else {
				from += size
			}
		}
	}
	l.trace = trace
	return p, last
}
