package topology_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/internal/kafkagraph"
	"github.com/streamsgroup/streamsgroup/topology"
)

func kafkaTopologies(t *testing.T) []kafkagraph.Case {
	t.Helper()
	f, err := os.Open("testdata/kafka-topologies.jsonl.gz")
	require.NoError(t, err)
	defer func() { assert.NoError(t, f.Close()) }()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var out []kafkagraph.Case
	s := bufio.NewScanner(z)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var k kafkagraph.Case
		require.NoError(t, json.Unmarshal(s.Bytes(), &k))
		out = append(out, k)
	}
	require.NoError(t, s.Err())
	return out
}

func rebuild(t *testing.T, k kafkagraph.Case) *topology.Builder {
	t.Helper()
	b, err := k.Builder()
	require.NoError(t, err)
	return b
}

// What Kafka Streams put on the wire for 101 applications: ours must put the
// same there (rules TP-1 to TP-19 and TD-7 to TD-10).
func TestKafkaTopologies(t *testing.T) {
	t.Parallel()
	topologies := kafkaTopologies(t)
	assert.Len(t, topologies, 101, "lines in the file")
	for _, k := range topologies {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			if k.Rejected != nil {
				testRejected(t, k)
				return
			}
			got, err := rebuild(t, k).Build("app")
			require.NoError(t, err)
			want, err := kafkagraph.Canonical(k.Topology)
			require.NoError(t, err)
			assert.JSONEq(t, toJSON(t, want), toJSON(t, kafkagraph.Wire(got.Wire())))
			assert.JSONEq(t, toJSON(t, k.Description), toJSON(t, kafkagraph.Description(got.Description())))
		})
	}
}

func refused(t *testing.T, b *topology.Builder, kind topology.Kind, name string) {
	t.Helper()
	_, err := b.Build("app")
	var e *topology.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, kind, e.Kind)
	assert.Equal(t, name, e.Name)
}

// testRejected covers what Kafka refuses. Where it does so before there is a
// graph, the graph is built by hand from what the line is about.
func testRejected(t *testing.T, k kafkagraph.Case) {
	t.Helper()
	switch k.Name {
	case "dsl-pattern": // only Kafka's client refuses it: rule TP-9
		got, err := rebuild(t, k).Build("app")
		require.NoError(t, err)
		assert.Equal(t, []string{"in-.*"}, got.Wire().Subtopologies[0].SourceTopicRegex)
		assert.Empty(t, got.Description().Subtopologies[0].Nodes[1].SourceTopics)
	case "agg-cogroup-rekeyed":
		refused(t, rebuild(t, k), topology.KindCopartition, "one, three, two")
	case "rep-join-fixed-conflict":
		refused(t, new(topology.Builder).
			AddSource("left", "left").AddRepartition("l", 3).AddSink("l-sink", "l", "left").AddSource("l-source", "l").
			AddSource("right", "right").AddRepartition("r", 4).AddSink("r-sink", "r", "right").AddSource("r-source", "r").
			AddProcessor("join", "l-source", "r-source").Copartition("l-source", "r-source"),
			topology.KindCopartition, "app-l-repartition, app-r-repartition")
	case "table-optimized-own-settings":
		refused(t, new(topology.Builder).AddSource("in", "in").AddProcessor("table", "in").
			AddStateStore(topology.Store{Name: "users", SourceTopic: "in", ChangelogConfig: map[string]string{"segment.bytes": "1"}}, "table"),
			topology.KindStore, "users")
	default:
		require.Fail(t, "a refusal that the test does not know")
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}
