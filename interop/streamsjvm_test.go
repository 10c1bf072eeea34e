package interop_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/interop"
)

// compiled are the commands that run our Java programs, by release and class.
var compiled sync.Map

func TestMain(m *testing.M) {
	code := m.Run()
	compiled.Range(func(_, v any) bool {
		if dir := v.(*program).dir; dir != "" {
			_ = os.RemoveAll(dir)
		}
		return true
	})
	os.Exit(code)
}

type program struct {
	once sync.Once
	dir  string
	args []string
}

// keptTB is a test whose temporary folders outlive it.
type keptTB struct {
	interop.TB
	dir string
}

func (k keptTB) TempDir() string { return k.dir }

// java returns the command that runs one of our Java programs on a release of
// Kafka. It is compiled once.
func java(t *testing.T, release, class string, flags ...string) *exec.Cmd {
	t.Helper()
	skipUnlessAsked(t)
	interop.SkipWithoutJava(t)
	v, _ := compiled.LoadOrStore(release+" "+class, &program{})
	p := v.(*program)
	p.once.Do(func() {
		dir, err := os.MkdirTemp("", "interop-java")
		require.NoError(t, err)
		p.dir = dir
		p.args = interop.Java(keptTB{t, dir}, release, class).Args[1:]
	})
	if p.args == nil {
		t.Skip("the Java program could not be compiled; another test says why")
	}
	// These programs live for seconds: what makes a long run fast only costs.
	flags = append([]string{
		"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx384m", "-Djava.io.tmpdir=" + t.TempDir(),
		"-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
	}, flags...)
	return exec.Command("java", append(flags, p.args...)...)
}

// news wakes those who wait for something to happen.
type news struct {
	mu      sync.Mutex
	changed chan struct{}
}

func newNews() *news { return &news{changed: make(chan struct{})} }

func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.changed)
	n.changed = make(chan struct{})
}

func (n *news) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

// jvm is a process with instances of Kafka Streams.
type jvm struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	news  *news
	ended chan struct{}

	mu     sync.Mutex
	events []string
}

// startJVM starts a process without instances. Its log is kept when the test
// fails.
func startJVM(t *testing.T, release string, n *news) *jvm {
	t.Helper()
	cmd := java(t, release, "Streams", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	log, err := os.CreateTemp(logFolder(t), "streams-*.log")
	require.NoError(t, err)
	cmd.Stderr = log
	require.NoError(t, cmd.Start())
	j := &jvm{t: t, cmd: cmd, in: in, news: n, ended: make(chan struct{})}
	go j.read(out)
	t.Cleanup(func() {
		j.kill()
		_ = log.Close()
		if t.Failed() {
			told := j.told()
			t.Logf("instances told:\n%s", strings.Join(told[max(0, len(told)-300):], "\n"))
			showTail(t, "Kafka Streams", log.Name())
		}
	})
	return j
}

func (j *jvm) read(out io.Reader) {
	for s := bufio.NewScanner(out); s.Scan(); {
		j.mu.Lock()
		j.events = append(j.events, s.Text())
		j.mu.Unlock()
		j.news.tell()
	}
	_ = j.cmd.Wait()
	close(j.ended)
	j.news.tell()
}

func (j *jvm) told() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.events[:len(j.events):len(j.events)]
}

// kill ends the process as kill -9 does.
func (j *jvm) kill() {
	_ = j.cmd.Process.Kill()
	<-j.ended
}

// say sends a command. It returns the number of events so far, for await.
func (j *jvm) say(format string, args ...any) (since int) {
	j.t.Helper()
	since = len(j.told())
	_, err := fmt.Fprintf(j.in, format+"\n", args...)
	require.NoError(j.t, err)
	return since
}

// await waits for an event that starts with the given text.
func (j *jvm) await(since int, prefix string) string {
	j.t.Helper()
	var found string
	until(j.t, j.news, "the event "+prefix, func() bool {
		ended := j.hasEnded()
		for _, e := range j.told()[since:] {
			if strings.HasPrefix(e, prefix) {
				found = e
				return true
			}
		}
		if ended {
			j.t.Fatalf("the process ended before the event %s", prefix)
		}
		return false
	})
	return found
}

func (j *jvm) hasEnded() bool {
	select {
	case <-j.ended:
		return true
	default:
		return false
	}
}

// saw is whether there is an event that starts with the given text.
func (j *jvm) saw(since int, prefix string) bool {
	for _, e := range j.told()[since:] {
		if strings.HasPrefix(e, prefix) {
			return true
		}
	}
	return false
}

// patience is how long anything may take. Nothing that passes waits for it: it
// is for the slowest of machines.
const patience = 3 * time.Minute

// until waits until something is so. It looks again with each news, and now and
// then for what makes none. Without news, for example for a question of which the
// answer would be news, it looks now and then only.
func until(t *testing.T, n *news, what string, so func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		var next <-chan struct{}
		if n != nil {
			next = n.next()
		}
		if so() {
			return
		}
		select {
		case <-next:
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited %v in vain for %s", patience, what)
		}
	}
}

// stateDir is a new folder for the state of an instance.
func stateDir(t *testing.T) string { return filepath.Join(t.TempDir(), "state") }
