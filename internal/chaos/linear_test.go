package chaos

import (
	"flag"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/streamsgroup/streamsgroup/kfakeext"
)

var (
	seedFlag = flag.Uint64("chaos.seed", 1, "the first seed")
	forFlag  = flag.Duration("chaos.for", 0, "how long to go on with further seeds; 0: a fixed number of them")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	session  = 3 * time.Second
	interval = 500 * time.Millisecond
)

// torment runs a group under faults on a cluster of ours in virtual time.
func torment(t *testing.T, seed uint64, lasting time.Duration, opts ...kfakeext.Opt) {
	t.Helper()
	dirs := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, dirs, opts...)
		defer f.close()
		g := NewGroup(t, config(f))
		account := Torment(g, seed, 3, lasting, 800*time.Millisecond, append(Faults(), f.faults(seed%2 == 0)...))
		g.Close()
		g.Judge(seed, account)
	})
}

func config(f *fabric) Config {
	return Config{
		Name: "shop", Partitions: 4, Session: session, Interval: interval, Rebalance: 2 * session,
		Seeds: f.cluster.Addrs(), Dial: f.dial, Direct: f.dial, Pace: 50 * time.Millisecond, Patience: time.Minute,
	}
}

func TestLinearizable(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() {
		seeds = 2
	}
	began := time.Now()
	for seed := *seedFlag; seed < *seedFlag+seeds || time.Since(began) < *forFlag; seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { torment(t, seed, time.Minute) })
		if t.Failed() {
			return
		}
	}
}
