package interop_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/interop"
)

// newest is the release that a plain run of all tests takes.
const newest = "4.4.0"

// skipUnlessNamed keeps what takes minutes out of a plain run of all tests. It runs when
// it is asked for by name, with -run, and in the whole check.
func skipUnlessNamed(t *testing.T) {
	t.Helper()
	if os.Getenv("STREAMSGROUP_JAVA") != "required" && flag.Lookup("test.run").Value.String() == "" {
		t.Skip("takes a while: ask for it with -run, or for all that needs Java with STREAMSGROUP_JAVA=required")
	}
}

// The word count of the examples, the same program, against real brokers of the
// releases that have streams groups.
func TestWordCountOnKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: a real Kafka takes seconds to start")
	}
	interop.SkipWithoutJava(t)
	program := filepath.Join(t.TempDir(), "wordcount")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/streamsgroup/streamsgroup/examples/wordcount")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, release := range []string{newest} {
		t.Run(release, func(t *testing.T) {
			addr := interop.StartKafka(t, release)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			var stdout, stderr bytes.Buffer
			run := exec.CommandContext(ctx, program, "-brokers", addr, "-feed", "4s")
			run.Stdout, run.Stderr = &stdout, &stderr
			require.NoError(t, run.Run(), "%s\n%s", &stdout, &stderr)
			assert.Contains(t, stdout.String(), "no task was ever worked on by two members at once")
			assert.Contains(t, stdout.String(), "equal to the count made without Kafka")
		})
	}
}
