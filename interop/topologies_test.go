package interop_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/internal/kafkagraph"
	"github.com/streamsgroup/streamsgroup/interop"
	"github.com/streamsgroup/streamsgroup/topology"
)

// What our builder makes of graphs nobody chose, compared with what Kafka
// Streams sends for them: graphs made up here and registered with Kafka node by
// node, and graphs that Kafka's stream DSL made of programs that were made up in
// Java. STREAMSGROUP_TOPOLOGIES="seed count" asks for others, or for more.
func TestTopologiesLikeKafkaStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: java takes seconds")
	}
	t.Parallel()
	interop.SkipWithoutJava(t)
	seed, count := int64(1), 400
	if asked := strings.Fields(os.Getenv("STREAMSGROUP_TOPOLOGIES")); len(asked) == 2 {
		var err error
		seed, err = strconv.ParseInt(asked[0], 10, 64)
		require.NoError(t, err)
		count, err = strconv.Atoi(asked[1])
		require.NoError(t, err)
	}
	program := interop.Java(t, kafkaRelease, "Topologies").Args[1:]
	t.Run("nodes", func(t *testing.T) {
		t.Parallel()
		var in bytes.Buffer
		var made []kafkagraph.Case
		for i := range count {
			c := randomGraph(rand.New(rand.NewPCG(uint64(seed)+uint64(i), 0)))
			c.Name = "nodes-" + strconv.FormatInt(seed+int64(i), 10)
			made = append(made, c)
			require.NoError(t, json.NewEncoder(&in).Encode(c))
		}
		answers := kafkaAnswers(t, program, &in)
		require.Len(t, answers, count)
		for i := range answers {
			answers[i].Name, answers[i].Config, answers[i].Graph = made[i].Name, made[i].Config, made[i].Graph
		}
		compareWithKafka(t, answers)
	})
	t.Run("programs", func(t *testing.T) {
		t.Parallel()
		answers := kafkaAnswers(t, program, nil, strconv.FormatInt(seed, 10), strconv.Itoa(count))
		require.Len(t, answers, count)
		compareWithKafka(t, answers)
	})
}

func kafkaAnswers(t *testing.T, program []string, in io.Reader, args ...string) []kafkagraph.Case {
	t.Helper()
	cmd := exec.Command("java", slices.Concat([]string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx384m"}, program, args)...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = in, &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", &stderr)
	var answers []kafkagraph.Case
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var c kafkagraph.Case
		err := d.Decode(&c)
		if errors.Is(err, io.EOF) {
			return answers
		}
		require.NoError(t, err)
		answers = append(answers, c)
	}
}

func compareWithKafka(t *testing.T, answers []kafkagraph.Case) {
	t.Helper()
	outcome := map[string]int{}
	for _, c := range answers {
		if c.Graph == nil {
			require.NotNil(t, c.Rejected, c.Name)
			outcome["no graph: "+c.Rejected.Exception]++
			continue
		}
		b, err := c.Builder()
		require.NoError(t, err)
		got, err := b.Build("app")
		switch {
		case c.Rejected != nil && err != nil:
			outcome["refused by both"]++
		case c.Rejected != nil:
			why, known := acceptedOnlyByUs(c.Rejected)
			outcome["refused by Kafka only: "+why]++
			assert.True(t, known, "Kafka refuses it: %+v\n%s", *c.Rejected, show(t, c))
		case err != nil:
			for _, e := range faults(err) {
				why, known := refusedOnlyByUs(e)
				outcome["refused by us only: "+why]++
				assert.True(t, known, "%v\n%s", e, show(t, c))
			}
		default:
			outcome["equal"]++
			want, err := kafkagraph.Canonical(c.Topology)
			require.NoError(t, err)
			sameOnTheWire(t, c, want, kafkagraph.Wire(got.Wire()))
			sameOnTheWire(t, c, c.Description, kafkagraph.Description(got.Description()))
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("%v", outcome)
	assert.Greater(t, outcome["equal"], len(answers)/2, "too few graphs can be compared")
}

func sameOnTheWire(t *testing.T, c kafkagraph.Case, want, got any) {
	t.Helper()
	raw, err := json.Marshal(got)
	require.NoError(t, err)
	var ours any
	require.NoError(t, json.Unmarshal(raw, &ours))
	if !reflect.DeepEqual(want, ours) {
		assert.Fail(t, "not what Kafka sends", "%s\nwant %s\nsend %s", show(t, c), indent(t, want), indent(t, ours))
	}
}

func show(t *testing.T, c kafkagraph.Case) string {
	t.Helper()
	c.Topology, c.Description = nil, nil
	out, err := json.Marshal(c)
	require.NoError(t, err)
	return string(out)
}

func faults(err error) []*topology.Error {
	var out []*topology.Error
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	for _, e := range joined.Unwrap() {
		var f *topology.Error
		if errors.As(e, &f) {
			out = append(out, f)
		}
	}
	return out
}

// refusedOnlyByUs are graphs that Kafka Streams sends although they cannot work,
// or not as they were meant. None can be written in its public API.
func refusedOnlyByUs(e *topology.Error) (string, bool) {
	for reason, why := range map[string]string{
		"no sink names the internal topic":                "the broker refuses it: nothing decides a number of partitions",
		"only subtopologies that feed each other":         "the broker refuses it: nothing decides a number of partitions",
		"no source reads the internal topic":              "records are written that nobody reads",
		"serves as the changelog of store":                "only one of two stores would be restored",
		"cannot serve as its changelog: what has been":    "the changelog would be purged",
		"only letters, digits, '.', '_' and '-' are allo": "the store is used by no processor",
	} {
		if strings.Contains(e.Reason, reason) {
			return why, true
		}
	}
	return e.Reason, false
}

// acceptedOnlyByUs are limits of Kafka's client.
func acceptedOnlyByUs(r *kafkagraph.Rejected) (string, bool) {
	if r.Exception == "UnsupportedOperationException" || strings.Contains(r.Message, "matches a Pattern") {
		return "patterns", true
	}
	return r.Message, false
}

func indent(t *testing.T, v any) string {
	t.Helper()
	out, err := json.MarshalIndent(v, "", " ")
	require.NoError(t, err)
	return string(out)
}
