package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/kfakeext"
)

// fabric is a cluster that may be replaced under its clients.
type fabric struct {
	t    *testing.T
	opts []kfakeext.Opt
	dirs string

	mu      sync.Mutex
	dir     string
	lives   int
	cluster *kfakeext.Cluster // nil while there is none
	conns   []net.Conn

	errands sync.WaitGroup
}

func newFabric(t *testing.T, dirs string, opts ...kfakeext.Opt) *fabric {
	f := &fabric{t: t, opts: opts, dirs: dirs}
	f.dir = f.fresh()
	f.start()
	return f
}

// fresh names a directory that does not exist yet.
func (f *fabric) fresh() string {
	f.lives++
	return filepath.Join(f.dirs, strconv.Itoa(f.lives))
}

func (f *fabric) start() {
	cluster, err := kfakeext.NewCluster(append([]kfakeext.Opt{
		kfakeext.Nodes(3), kfakeext.InProcess(), kfakeext.DataDir(f.dir),
		kfakeext.BrokerConfig("group.streams.initial.rebalance.delay.ms", "0"),
		kfakeext.BrokerConfig("group.streams.min.session.timeout.ms", "100"),
		kfakeext.BrokerConfig("group.streams.min.heartbeat.interval.ms", "10"),
	}, f.opts...)...)
	require.NoError(f.t, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cluster = cluster
}

func (f *fabric) dial(ctx context.Context, network, address string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cluster == nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
	}
	c, err := f.cluster.DialContext(ctx, network, address)
	if err == nil {
		f.conns = append(f.conns, c)
	}
	return c, err
}

// halt takes the cluster off the network and returns it, once it has done what had
// arrived before.
func (f *fabric) halt() *kfakeext.Cluster {
	f.mu.Lock()
	cluster, conns := f.cluster, f.conns
	f.cluster, f.conns = nil, nil
	f.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
	time.Sleep(time.Millisecond) // of virtual time: everything has come to rest
	return cluster
}

func (f *fabric) close() { f.halt().Close() }

// restart shuts the cluster down in good order and starts it again.
func (f *fabric) restart(_ *Group, draw *rand.Rand) (func(), time.Duration) {
	f.halt().Close()
	return f.start, between(draw, 0, time.Second)
}

// kill starts the cluster again from what was on disk when it was killed.
func (f *fabric) kill(_ *Group, draw *rand.Rand) (func(), time.Duration) {
	cluster := f.halt()
	f.dir = f.copy()
	cluster.Close()
	return f.start, between(draw, 0, time.Second)
}

// copy copies the data directory and returns the name of the copy.
func (f *fabric) copy() string {
	dir := f.fresh()
	if err := os.CopyFS(dir, os.DirFS(f.dir)); err != nil {
		f.t.Errorf("copy of the data directory: %v", err)
	}
	return dir
}

// move moves the group to another coordinator.
func (f *fabric) move(*Group, *rand.Rand) (func(), time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cluster != nil {
		f.cluster.RehashCoordinators()
	}
	return nil, 0
}

// faults are those of the brokers. One at a time changes whether there is a cluster.
// kfake does not write down that a group was deleted until it is shut down, see
// TestKilledKfakeForgetsDeletions: so there are either kills or deletions.
func (f *fabric) faults(kills bool) []Fault {
	var turn sync.Mutex
	alone := func(do func(*Group, *rand.Rand) (func(), time.Duration)) func(*Group, *rand.Rand) (func(), time.Duration) {
		return func(g *Group, draw *rand.Rand) (func(), time.Duration) {
			if !turn.TryLock() {
				return nil, 0
			}
			end, after := do(g, draw)
			return func() {
				defer turn.Unlock()
				if end != nil {
					end()
				}
			}, after
		}
	}
	faults := []Fault{{"move", 2, alone(f.move)}, {"restart", 1, alone(f.restart)}}
	if kills {
		return append(faults, Fault{"kill", 2, alone(f.kill)})
	}
	return append(faults, Deletion())
}
