//go:build unix

package interop_test

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/internal/chaos"
	"github.com/streamsgroup/streamsgroup/interop"
)

var (
	chaosSeed = flag.Uint64("chaos.seed", 1, "the seed of the faults; 0: another one each time")
	chaosFor  = flag.Duration("chaos.for", 30*time.Second, "how long faults go on")
)

// A group over TCP, and through a proxy that misbehaves, against a broker process that is
// killed, shut down and suspended.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: chaos takes a while")
	}
	skipUnlessNamed(t)
	t.Parallel()
	t.Run("streamsgroup", func(t *testing.T) {
		t.Parallel()
		// No deletions: kfake may forget them when it is killed.
		riot(t, newOurs(t), false, chaos.Faults())
	})
	t.Run("kafka", func(t *testing.T) {
		t.Parallel()
		riot(t, newKafka(t), true, append(chaos.Faults(), chaos.Deletion()))
	})
}

// broker is a broker process that can be treated badly.
type broker struct {
	t    *testing.T
	addr string
	log  string // the file that it writes to
	// launch starts the process and returns once it is ready.
	launch func() (pid int, wait func(), err error)

	mu   sync.Mutex
	pid  int
	wait func() // for its end
}

func riot(t *testing.T, b *broker, forgetful bool, faults []chaos.Fault) {
	t.Helper()
	require.NoError(t, b.start())
	t.Cleanup(func() { b.stop(syscall.SIGKILL) })
	proxy, err := chaos.NewProxy(b.addr)
	require.NoError(t, err)
	defer proxy.Close()
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d: -chaos.seed %d -chaos.for %v", seed, seed, *chaosFor)
	direct := new(net.Dialer).DialContext
	g := chaos.NewGroup(t, chaos.Config{
		Name: "chaos", Partitions: 6, Session: 4 * time.Second, Interval: 500 * time.Millisecond, Rebalance: 8 * time.Second,
		Seeds: []string{b.addr}, Dial: proxy.DialContext, Direct: direct, Pace: 20 * time.Millisecond,
		Patience: 3 * time.Minute, Stragglers: true, Forgetful: forgetful,
	})
	account := chaos.Torment(g, seed, 3, *chaosFor, 1500*time.Millisecond, slices.Concat(faults, proxy.Faults(), b.faults()))
	g.Close()
	if _, dir := g.Judge(seed, account); dir != "" {
		text, err := os.ReadFile(b.log)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "broker.log"), text, 0o600))
	}
}

func (b *broker) start() (err error) {
	b.pid, b.wait, err = b.launch()
	return err
}

// stop ends the process with a signal and waits for its end.
func (b *broker) stop(how syscall.Signal) {
	_ = syscall.Kill(b.pid, how)
	b.wait()
}

// faults are those of the process, one at a time.
func (b *broker) faults() []chaos.Fault {
	restart := func(how syscall.Signal) func(*chaos.Group, *rand.Rand) (func(), time.Duration) {
		return func(g *chaos.Group, draw *rand.Rand) (func(), time.Duration) {
			if !b.mu.TryLock() {
				return nil, 0
			}
			b.stop(how)
			g.History.Note("the broker is dead")
			return func() {
				defer b.mu.Unlock()
				if err := b.start(); err != nil {
					b.t.Errorf("the broker does not start again: %v", err)
				}
				g.History.Note("the broker is back")
			}, time.Duration(draw.Int64N(int64(time.Second)))
		}
	}
	return []chaos.Fault{
		{Name: "kill", Weight: 1, Do: restart(syscall.SIGKILL)},
		{Name: "shutdown", Weight: 1, Do: restart(syscall.SIGTERM)},
		{Name: "suspend", Weight: 2, Do: func(g *chaos.Group, draw *rand.Rand) (func(), time.Duration) {
			if !b.mu.TryLock() {
				return nil, 0
			}
			_ = syscall.Kill(b.pid, syscall.SIGSTOP)
			return func() {
				defer b.mu.Unlock()
				_ = syscall.Kill(b.pid, syscall.SIGCONT)
			}, time.Duration(draw.Int64N(int64(2 * g.Session)))
		}},
	}
}

// newOurs prepares the broker of this project, as a program of its own.
func newOurs(t *testing.T) *broker {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "streamsgroup")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/streamsgroup/streamsgroup/cmd/streamsgroup").CombinedOutput()
	require.NoError(t, err, "%s", out)
	b := &broker{t: t, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t))), log: filepath.Join(dir, "broker.log")}
	b.launch = func() (int, func(), error) {
		log, err := os.OpenFile(b.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return 0, nil, err
		}
		cmd := exec.Command(program, "broker", "-addr", b.addr, "-data", filepath.Join(dir, "data"),
			"-config", "group.streams.initial.rebalance.delay.ms=0", "-config", "group.streams.min.session.timeout.ms=200",
			"-config", "group.streams.min.heartbeat.interval.ms=100")
		cmd.Stderr = log
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			return 0, nil, err
		}
		if err := cmd.Start(); err != nil {
			return 0, nil, err
		}
		wait := func() {
			_ = cmd.Wait()
			_ = log.Close()
		}
		line, err := bufio.NewReader(stdout).ReadString('\n')
		if err != nil || !strings.Contains(line, "is ready") {
			wait()
			return 0, nil, fmt.Errorf("%q, %w", line, err)
		}
		return cmd.Process.Pid, wait, nil
	}
	return b
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// newKafka prepares a real Kafka.
func newKafka(t *testing.T) *broker {
	t.Helper()
	interop.SkipWithoutJava(t)
	dir := t.TempDir()
	// The controller takes the port after the broker's.
	port := 0
	require.Eventually(t, func() bool {
		port = freePort(t)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+1)))
		if err == nil {
			_ = l.Close()
		}
		return err == nil
	}, time.Minute, time.Millisecond)
	b := &broker{t: t, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), log: filepath.Join(dir, "all.log")}
	b.launch = func() (int, func(), error) {
		start := exec.Command("bash", "kafka.sh", "start", dir, strconv.Itoa(port))
		start.Env = append(os.Environ(), "KAFKA_VERSION=4.4.0")
		if out, err := start.CombinedOutput(); err != nil {
			return 0, nil, fmt.Errorf("%s, %w", out, err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err != nil {
			return 0, nil, err
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		// The script's child is nobody's here: poll for its end.
		return pid, func() {
			for syscall.Kill(pid, 0) == nil {
				time.Sleep(50 * time.Millisecond)
			}
			b.keepLog(filepath.Join(dir, "kafka.log"))
		}, err
	}
	return b
}

// keepLog appends the log of a process that has ended.
func (b *broker) keepLog(name string) {
	in, err := os.Open(name)
	if err != nil {
		b.t.Errorf("%v", err)
		return
	}
	defer in.Close()
	out, err := os.OpenFile(b.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		b.t.Errorf("%v", err)
		return
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		b.t.Errorf("%v", err)
	}
}
