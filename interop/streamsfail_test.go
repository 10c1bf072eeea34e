package interop_test

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A test that fails says in which phase, shows the end of the logs of both sides
// and keeps them. This one runs itself once more, as a test that fails.
func TestStreamsFailureIsExplained(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: Kafka Streams takes seconds to start")
	}
	skipUnlessAsked(t)
	const onPurpose = "STREAMSGROUP_JAVA_FAIL_ON_PURPOSE"
	if os.Getenv(onPurpose) != "" {
		failOnPurpose(t)
		return
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	again.Env = append(os.Environ(), onPurpose+"=yes", "TMPDIR="+t.TempDir())
	out, err := again.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s", out)
	for _, want := range []string{
		"on purpose",
		"failed in phase: the phase that fails",
		"a state RUNNING",  // what the instances told
		"State transition", // the log of Kafka Streams
		"all logs are kept in ",
	} {
		assert.Contains(t, string(out), want)
	}
	logs := regexp.MustCompile(`the end of the log of (our broker|Kafka Streams), (\S+\.log):`).FindAllStringSubmatch(string(out), -1)
	require.Len(t, logs, 2, "%s", out)
	for _, log := range logs {
		kept, err := os.ReadFile(log[2])
		require.NoError(t, err)
		assert.NotEmpty(t, kept, log[1])
	}
}

func failOnPurpose(t *testing.T) {
	t.Helper()
	w := newWorld(t, 1).connect()
	j := startJVM(t, w.release, w.news)
	w.step("the phase before")
	w.running(j, "a", stateDir(t))
	w.feed(10)
	w.counted()
	w.step("the phase that fails")
	t.Error("on purpose")
}
