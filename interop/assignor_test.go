package interop_test

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/interop"
)

// kafkasAssignor is the sticky assignor of Kafka's group coordinator, in a
// process of its own that answers requests.
type kafkasAssignor struct {
	in  *json.Encoder
	out *bufio.Reader
}

func startKafkasAssignor(t *testing.T, flags ...string) *kafkasAssignor {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: Kafka's assignor needs a JVM")
	}
	cmd := interop.Java(t, kafkaRelease, "Assignor")
	cmd.Args = slices.Insert(cmd.Args, 1, flags...)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(stderr)
		said <- string(text)
	}()
	t.Cleanup(func() {
		_ = in.Close()
		text := <-said
		if err := cmd.Wait(); err != nil && !t.Skipped() {
			t.Errorf("the process with Kafka's assignor: %v\n%s", err, text)
		}
	})
	return &kafkasAssignor{json.NewEncoder(in), bufio.NewReaderSize(out, 1<<20)}
}

func (k *kafkasAssignor) ask(t require.TestingT, request map[string]any, answer any) {
	require.NoError(t, k.in.Encode(request))
	line, err := k.out.ReadBytes('\n')
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(line, answer))
}
