package topology

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kafkaTopology is one line of the vectors: a graph, and what Kafka Streams
// 4.4.0 puts on the wire for it.
type kafkaTopology struct {
	Name   string            `json:"name"`
	Config map[string]string `json:"config"`
	Graph  *struct {
		Nodes []struct {
			Kind         string   `json:"kind"`
			Name         string   `json:"name"`
			Topics       []string `json:"topics"`
			Pattern      string   `json:"pattern"`
			Global       bool     `json:"global"`
			Parents      []string `json:"parents"`
			Stores       []string `json:"stores"`
			GlobalStores []string `json:"globalStores"`
			Topic        *string  `json:"topic"`
		} `json:"nodes"`
		Stores []struct {
			Name                   string            `json:"name"`
			Kind                   string            `json:"kind"`
			Logging                bool              `json:"logging"`
			RetentionMs            int64             `json:"retentionMs"`
			HistoryRetentionMs     int64             `json:"historyRetentionMs"`
			ChangelogConfig        map[string]string `json:"changelogConfig"`
			SourceTopicAsChangelog string            `json:"sourceTopicAsChangelog"`
		} `json:"stores"`
		InternalTopics []struct {
			Name       string `json:"name"`
			Partitions int32  `json:"partitions"`
		} `json:"internalTopics"`
		Copartition [][]string `json:"copartition"`
	} `json:"graph"`
	Topology    any `json:"topology"`
	Description any `json:"description"`
	Rejected    *struct {
		When string `json:"when"`
	} `json:"rejected"`
}

func millis(n int64) time.Duration {
	if n > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Millisecond
}

func kafkaTopologies(t *testing.T) []kafkaTopology {
	t.Helper()
	f, err := os.Open("testdata/kafka-topologies.jsonl.gz")
	require.NoError(t, err)
	defer func() { assert.NoError(t, f.Close()) }()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var out []kafkaTopology
	s := bufio.NewScanner(z)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var k kafkaTopology
		require.NoError(t, json.Unmarshal(s.Bytes(), &k))
		out = append(out, k)
	}
	require.NoError(t, s.Err())
	return out
}

func (k kafkaTopology) builder(t *testing.T) *Builder {
	t.Helper()
	var b Builder
	for key, value := range k.Config {
		switch {
		case strings.HasPrefix(key, "topic."):
			b.TopicConfig(strings.TrimPrefix(key, "topic."), value)
		case key == "replication.factor":
			n, err := strconv.ParseInt(value, 10, 16)
			require.NoError(t, err)
			b.ReplicationFactor(int16(n))
		case key == "windowstore.changelog.additional.retention.ms":
			n, err := strconv.ParseInt(value, 10, 64)
			require.NoError(t, err)
			b.WindowRetentionExtra(millis(n))
		}
	}
	for _, i := range k.Graph.InternalTopics {
		b.AddInternalTopic(i.Name, i.Partitions)
	}
	users, globals := map[string][]string{}, map[string][3]string{}
	for _, n := range k.Graph.Nodes {
		for _, s := range n.Stores {
			users[s] = append(users[s], n.Name)
		}
		for _, s := range n.GlobalStores {
			globals[n.Parents[0]] = [3]string{s, n.Name}
		}
	}
	for _, n := range k.Graph.Nodes {
		switch {
		case n.Global:
			g := globals[n.Name]
			b.AddGlobalStore(g[0], n.Name, n.Topics[0], g[1])
		case len(n.GlobalStores) > 0:
		case n.Pattern != "":
			b.AddSourcePattern(n.Name, n.Pattern)
		case n.Kind == "source":
			b.AddSource(n.Name, n.Topics...)
		case n.Kind == "processor":
			b.AddProcessor(n.Name, n.Parents...)
		case n.Topic == nil:
			b.AddDynamicSink(n.Name, n.Parents...)
		default:
			b.AddSink(n.Name, *n.Topic, n.Parents...)
		}
	}
	for _, s := range k.Graph.Stores {
		kinds := map[string]StoreKind{"keyvalue": KeyValue, "windowed": Windowed, "versioned": Versioned}
		b.AddStateStore(Store{
			Name:            s.Name,
			Kind:            kinds[s.Kind],
			Retention:       millis(max(s.RetentionMs, s.HistoryRetentionMs)),
			NoChangelog:     !s.Logging,
			ChangelogConfig: s.ChangelogConfig,
			SourceTopic:     s.SourceTopicAsChangelog,
		}, users[s.Name]...)
	}
	for _, c := range k.Graph.Copartition {
		b.Copartition(c...)
	}
	return &b
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
			got, err := k.builder(t).Build("app")
			require.NoError(t, err)
			assert.JSONEq(t, toJSON(t, sortCopartition(k.Topology)), toJSON(t, wireJSON(got.Wire())))
			assert.JSONEq(t, toJSON(t, k.Description), toJSON(t, descriptionJSON(got.Description())))
		})
	}
}

// testRejected covers what Kafka refuses. Where it does so before there is a
// graph, the graph is built by hand from what the line is about.
func testRejected(t *testing.T, k kafkaTopology) {
	t.Helper()
	refused := func(b *Builder, kind Kind, name string) {
		t.Helper()
		_, err := b.Build("app")
		var e *Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, kind, e.Kind)
		assert.Equal(t, name, e.Name)
	}
	switch k.Name {
	case "dsl-pattern": // only Kafka's client refuses it: rule TP-9
		got, err := k.builder(t).Build("app")
		require.NoError(t, err)
		assert.Equal(t, []string{"in-.*"}, got.Wire().Subtopologies[0].SourceTopicRegex)
		assert.Empty(t, got.Description().Subtopologies[0].Nodes[1].SourceTopics)
	case "agg-cogroup-rekeyed":
		refused(k.builder(t), KindCopartition, "one, three, two")
	case "rep-join-fixed-conflict":
		refused(new(Builder).
			AddSource("left", "left").AddRepartition("l", 3).AddSink("l-sink", "l", "left").AddSource("l-source", "l").
			AddSource("right", "right").AddRepartition("r", 4).AddSink("r-sink", "r", "right").AddSource("r-source", "r").
			AddProcessor("join", "l-source", "r-source").Copartition("l-source", "r-source"),
			KindCopartition, "app-l-repartition, app-r-repartition")
	case "table-optimized-own-settings":
		refused(new(Builder).AddSource("in", "in").AddProcessor("table", "in").
			AddStateStore(Store{Name: "users", SourceTopic: "in", ChangelogConfig: map[string]string{"segment.bytes": "1"}}, "table"),
			KindStore, "users")
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

// sortCopartition brings the one thing that Java's hashing orders into ours.
func sortCopartition(topology any) any {
	key := func(g any) string {
		return numbersKey(g, "sourceTopics") + "|" + numbersKey(g, "repartitionSourceTopics")
	}
	for _, s := range topology.(map[string]any)["subtopologies"].([]any) {
		groups := s.(map[string]any)["copartitionGroups"].([]any)
		for _, g := range groups {
			for _, list := range g.(map[string]any) {
				slices.SortFunc(list.([]any), func(a, b any) int { return int(a.(float64) - b.(float64)) })
			}
		}
		slices.SortFunc(groups, func(a, b any) int { return strings.Compare(key(a), key(b)) })
	}
	return topology
}

func numbersKey(g any, list string) string {
	var b strings.Builder
	for _, n := range g.(map[string]any)[list].([]any) {
		b.WriteString(strconv.Itoa(1000+int(n.(float64))) + ",")
	}
	return b.String()
}

type object = map[string]any

func wireJSON(w *kmsg.StreamsGroupHeartbeatRequestTopology) object {
	topics := func(in []kmsg.TopicInfo) []object {
		out := make([]object, 0, len(in))
		for _, i := range in {
			configs := make([]object, 0, len(i.Configs))
			for _, c := range i.Configs {
				configs = append(configs, object{"key": c.Key, "value": c.Value})
			}
			out = append(out, object{"name": i.Topic, "partitions": i.NumPartitions, "replicationFactor": i.ReplicationFactor, "topicConfigs": configs})
		}
		return out
	}
	subs := make([]object, 0, len(w.Subtopologies))
	for _, s := range w.Subtopologies {
		groups := make([]object, 0, len(s.CopartitionGroups))
		for _, g := range s.CopartitionGroups {
			groups = append(groups, object{"sourceTopics": g.SourceTopics, "sourceTopicRegex": g.SourceTopicRegex, "repartitionSourceTopics": g.RepartitionSourceTopics})
		}
		subs = append(subs, object{
			"subtopologyId": s.SubtopologyID, "sourceTopics": s.SourceTopics, "sourceTopicRegex": s.SourceTopicRegex,
			"stateChangelogTopics": topics(s.StateChangelogTopics), "repartitionSinkTopics": s.RepartitionSinkTopics,
			"repartitionSourceTopics": topics(s.RepartitionSourceTopics), "copartitionGroups": groups,
		})
	}
	return object{"epoch": w.Epoch, "subtopologies": subs}
}

func descriptionJSON(d *kmsg.TopologyDescription) object {
	node := func(n kmsg.TopologyDescriptionNode) object {
		return object{
			"name": n.Name, "nodeType": n.NodeType, "sourceTopics": n.SourceTopics, "sinkTopic": n.SinkTopic,
			"stores": n.Stores, "successors": n.Successors,
		}
	}
	subs, globals := make([]object, 0, len(d.Subtopologies)), make([]object, 0, len(d.GlobalStores))
	for _, s := range d.Subtopologies {
		nodes := make([]object, 0, len(s.Nodes))
		for _, n := range s.Nodes {
			nodes = append(nodes, node(n))
		}
		subs = append(subs, object{"subtopologyId": s.SubtopologyID, "nodes": nodes})
	}
	for _, g := range d.GlobalStores {
		globals = append(globals, object{"source": node(g.Source), "processor": node(g.Processor)})
	}
	return object{"subtopologies": subs, "globalStores": globals}
}
