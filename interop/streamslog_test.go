package interop_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/coordinator"
)

var (
	logFolders sync.Map // by *testing.T
	notInNames = regexp.MustCompile(`[^A-Za-z0-9]+`)
)

// logFolder is the folder for the logs of a test, those of brokers and those of
// clients. It is kept when the test fails.
func logFolder(t *testing.T) string {
	t.Helper()
	if dir, ok := logFolders.Load(t); ok {
		return dir.(string)
	}
	dir, err := os.MkdirTemp("", "streamsgroup-"+notInNames.ReplaceAllString(t.Name(), "-")+"-")
	require.NoError(t, err)
	logFolders.Store(t, dir)
	t.Cleanup(func() {
		logFolders.Delete(t)
		if t.Failed() {
			t.Logf("all logs are kept in %s", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	return dir
}

// showTail shows the end of what a log says of warnings and errors.
func showTail(t *testing.T, whose, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Logf("there is no log of %s: %v", whose, err)
		return
	}
	var kept [][]byte
	for line := range bytes.Lines(data) {
		info, stack := bytes.Contains(line, []byte(" INFO ")), bytes.HasPrefix(line, []byte("\t"))
		if len(bytes.TrimSpace(line)) > 0 && !info && !stack || bytes.Contains(line, []byte("State transition")) {
			kept = append(kept, line)
		}
	}
	t.Logf("the end of the log of %s, %s:\n%s", whose, file, bytes.Join(kept[max(0, len(kept)-60):], nil))
}

// keptLog is the log of our broker, kept when the test fails.
type keptLog struct {
	mu   sync.Mutex
	file *os.File
}

func newKeptLog(t *testing.T) *keptLog {
	t.Helper()
	file, err := os.Create(filepath.Join(logFolder(t), "broker.log"))
	require.NoError(t, err)
	l := &keptLog{file: file}
	t.Cleanup(func() {
		_ = file.Close()
		if t.Failed() {
			showTail(t, "our broker", file.Name())
		}
	})
	return l
}

// Level implements [kgo.Logger].
func (l *keptLog) Level() kgo.LogLevel { return kgo.LogLevelInfo }

// Log implements [kgo.Logger].
func (l *keptLog) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.file, "%s %s %s %v\n", time.Now().Format("15:04:05.000"), level, msg, keyvals)
}

func (l *keptLog) event(e coordinator.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.file, "%s event %+v\n", time.Now().Format("15:04:05.000"), e)
}
