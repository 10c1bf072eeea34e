package interop_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/coordinator"
)

// keptLog is the log of our broker, kept when the test fails.
type keptLog struct {
	mu   sync.Mutex
	file *os.File
}

func newKeptLog(t *testing.T) *keptLog {
	t.Helper()
	file, err := os.Create(filepath.Join(t.ArtifactDir(), "broker.log"))
	require.NoError(t, err)
	l := &keptLog{file: file}
	t.Cleanup(func() {
		_ = file.Close()
		if t.Failed() {
			t.Logf("the end of the log of the broker, %s:\n%s", file.Name(), tail(file.Name()))
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
