package topology_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/topology"
)

// The classic word count: lines are split into words, the words are passed on
// by word through a repartition topic, and counted in a store.
func ExampleBuilder() {
	t, err := new(topology.Builder).
		AddSource("lines", "lines").
		AddProcessor("split", "lines").
		AddRepartition("words").
		AddSink("words-out", "words", "split").
		AddSource("words", "words").
		AddProcessor("count", "words").
		AddStateStore(topology.Store{Name: "word-counts"}, "count").
		AddSink("counts", "counts", "count").
		Build("wordcount")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range t.Subtopologies() {
		fmt.Println(id, "reads", t.Sources(id), "logs to", t.Changelogs(id))
	}
	// Output:
	// 0 reads [lines] logs to []
	// 1 reads [wordcount-words-repartition] logs to [wordcount-word-counts-changelog]
}

func ExampleTopology_Describe() {
	t, err := new(topology.Builder).
		AddGlobalStore("rates", "rates", "rates", "load-rates").
		AddSource("orders", "orders").
		AddProcessor("by-customer", "orders").
		AddRepartition("orders-by-customer", 8).
		AddSink("hop", "orders-by-customer", "by-customer").
		AddSource("customers", "customers").
		AddSource("hopped", "orders-by-customer").
		AddProcessor("enrich", "customers", "hopped").
		AddStateStore(topology.Store{Name: "customers", SourceTopic: "customers"}, "enrich").
		AddSink("enriched", "enriched-orders", "enrich").
		Copartition("customers", "hopped").
		Subtopology("enrich", "enrich").
		Build("shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(t.Describe())
	// Output:
	// Topologies:
	//    Sub-topology: 1
	//     Source: orders (topics: [orders])
	//       --> by-customer
	//     Processor: by-customer (stores: [])
	//       --> hop
	//       <-- orders
	//     Sink: hop (topic: shop-orders-by-customer-repartition)
	//       <-- by-customer
	//    Sub-topology: enrich
	//     Source: customers (topics: [customers])
	//       --> enrich
	//     Source: hopped (topics: [shop-orders-by-customer-repartition])
	//       --> enrich
	//     Processor: enrich (stores: [customers])
	//       --> enriched
	//       <-- customers, hopped
	//     Sink: enriched (topic: enriched-orders)
	//       <-- enrich
	//    Global store (no tasks): rates
	//     Source: rates (topics: [rates])
	//       --> load-rates
	//     Processor: load-rates (stores: [rates])
	//       --> none
	//       <-- rates
}

func build(t *testing.T, b *topology.Builder) *topology.Topology {
	t.Helper()
	top, err := b.Build("appId")
	require.NoError(t, err)
	return top
}

func configs(i kmsg.TopicInfo) map[string]string {
	m := map[string]string{}
	for _, c := range i.Configs {
		m[c.Key] = c.Value
	}
	return m
}

func TestInternalTopicSettings(t *testing.T) {
	t.Parallel()
	const created = "CreateTime"
	repartition := func(partitions int32) kmsg.TopicInfo {
		w := build(t, new(topology.Builder).AddSource("in", "in").AddInternalTopic("foo", partitions).
			AddSink("out", "foo", "in").AddSource("foo", "foo")).Wire()
		return w.Subtopologies[1].RepartitionSourceTopics[0]
	}
	changelog := func(b *topology.Builder, s topology.Store) kmsg.TopicInfo {
		w := build(t, b.AddSource("in", "in").AddProcessor("p", "in").AddStateStore(s, "p")).Wire()
		return w.Subtopologies[0].StateChangelogTopics[0]
	}
	t.Run("CC-148 repartition settings", func(t *testing.T) {
		t.Parallel()
		i := repartition(0)
		assert.Equal(t, "appId-foo", i.Topic)
		assert.Zero(t, i.NumPartitions)
		assert.Equal(t, int16(-1), i.ReplicationFactor)
		assert.Equal(t, map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "52428800", "message.timestamp.type": created}, configs(i))
		assert.Equal(t, int32(10), repartition(10).NumPartitions)
	})
	t.Run("CC-149 window and session changelogs", func(t *testing.T) {
		t.Parallel()
		i := changelog(new(topology.Builder).WindowRetentionExtra(10*time.Second), topology.Store{Name: "w", Kind: topology.Windowed, Retention: 30 * time.Second})
		assert.Equal(t, map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "40000", "message.timestamp.type": created}, configs(i))
	})
	t.Run("CC-150 versioned changelog", func(t *testing.T) {
		t.Parallel()
		i := changelog(new(topology.Builder).WindowRetentionExtra(10*time.Second), topology.Store{Name: "v", Kind: topology.Versioned, Retention: time.Minute})
		assert.Equal(t, map[string]string{"cleanup.policy": "compact", "min.compaction.lag.ms": "86460000", "message.timestamp.type": created}, configs(i))
	})
	t.Run("CC-151 key-value changelog", func(t *testing.T) {
		t.Parallel()
		i := changelog(new(topology.Builder), topology.Store{Name: "k"})
		assert.Equal(t, "appId-k-changelog", i.Topic)
		assert.Equal(t, map[string]string{"cleanup.policy": "compact", "message.timestamp.type": created}, configs(i))
	})
	t.Run("CC-152 precedence", func(t *testing.T) {
		t.Parallel()
		window := topology.Store{Name: "w", Kind: topology.Windowed, Retention: time.Second}
		all := func() *topology.Builder {
			return new(topology.Builder).TopicConfig("cleanup.policy", "delete").TopicConfig("retention.ms", "1").WindowRetentionExtra(0)
		}
		got := configs(changelog(all(), window))
		assert.Equal(t, "delete", got["cleanup.policy"])
		assert.Equal(t, "1000", got["retention.ms"], "the computed retention beats a setting for all topics")
		window.ChangelogConfig = map[string]string{"retention.ms": "7", "cleanup.policy": "compact"}
		got = configs(changelog(all(), window))
		assert.Equal(t, "7", got["retention.ms"], "the store's own setting beats the computed one")
		assert.Equal(t, "compact", got["cleanup.policy"])
	})
}

func TestCC155Sorting(t *testing.T) {
	t.Parallel()
	var b topology.Builder
	for i := range 12 {
		b.AddSource(fmt.Sprintf("s%d", i), fmt.Sprintf("t%d", i))
	}
	assert.Equal(t, strings.Split("0 1 10 11 2 3 4 5 6 7 8 9", " "), build(t, &b).Subtopologies())
}

func TestTP21ExplicitIDsAndEpoch(t *testing.T) {
	t.Parallel()
	top := build(t, new(topology.Builder).AddSource("a", "a").AddSource("b", "b").Subtopology("orders", "b").Epoch(3))
	assert.Equal(t, []string{"0", "orders"}, top.Subtopologies())
	assert.Equal(t, []string{"b"}, top.Sources("orders"))
	assert.Equal(t, int32(3), top.Epoch())
	assert.Equal(t, int32(3), top.Wire().Epoch)
}

func TestExplicitIDsMayLookLikeTasks(t *testing.T) {
	t.Parallel()
	top := build(t, new(topology.Builder).AddSource("a", "a").AddSource("b", "b").
		Subtopology("x_1", "a").Subtopology("x_1_1", "b").Subtopology("x_1", "a"))
	seen := map[string]bool{}
	for _, id := range top.Subtopologies() {
		for p := range int32(12) {
			task := topology.TaskID{Subtopology: id, Partition: p}
			assert.False(t, seen[task.String()], task)
			seen[task.String()] = true
			got, err := topology.ParseTaskID(task.String())
			require.NoError(t, err)
			assert.Equal(t, task, got)
		}
	}
}

func TestTP03GlobalStoresUseUpANumber(t *testing.T) {
	t.Parallel()
	top := build(t, new(topology.Builder).AddSource("a", "a").AddGlobalStore("g", "gs", "t", "gp").AddSource("b", "b"))
	assert.Equal(t, []string{"0", "2"}, top.Subtopologies())
	assert.Equal(t, []string{"a", "b"}, top.ExternalSources(), "a global topic is no source topic")
}

func TestTP08SharedStoreAndUnusedStore(t *testing.T) {
	t.Parallel()
	top := build(t, new(topology.Builder).
		AddSource("a", "a").AddProcessor("p", "a").
		AddSource("b", "b").AddProcessor("q", "b").
		AddStateStore(topology.Store{Name: "shared"}, "p").ConnectStore("shared", "q").
		AddStateStore(topology.Store{Name: "silent", NoChangelog: true}, "p").
		AddStateStore(topology.Store{Name: "unused"}))
	assert.Equal(t, []string{"0"}, top.Subtopologies(), "a store joins what uses it")
	assert.Equal(t, []string{"appId-shared-changelog"}, top.Changelogs("0"))
}

func TestTP09SourcePatterns(t *testing.T) {
	t.Parallel()
	top := build(t, new(topology.Builder).
		AddSourcePattern("z", "z.*").AddSourcePattern("a", "a.*").AddSource("b", "b").
		AddProcessor("join", "z", "a", "b").Copartition("z", "b").Copartition("z"))
	s := top.Wire().Subtopologies[0]
	assert.Equal(t, []string{"a.*", "z.*"}, s.SourceTopicRegex)
	assert.Equal(t, []string{"b"}, s.SourceTopics)
	require.Len(t, s.CopartitionGroups, 1)
	assert.Equal(t, []int16{1}, s.CopartitionGroups[0].SourceTopicRegex)
	assert.Equal(t, []int16{0}, s.CopartitionGroups[0].SourceTopics)
	assert.Contains(t, top.Describe(), "Source: z (topics: all that match z.*)")
}

// TP-10: sums that overflow become the largest number.
func TestTP10Overflow(t *testing.T) {
	t.Parallel()
	top := build(t, new(topology.Builder).WindowRetentionExtra(time.Hour).AddSource("in", "in").AddProcessor("p", "in").
		AddStateStore(topology.Store{Name: "w", Kind: topology.Windowed, Retention: math.MaxInt64}, "p"))
	assert.Equal(t, "9223372036854775807", configs(top.Wire().Subtopologies[0].StateChangelogTopics[0])["retention.ms"])
}

func TestTP12ReplicationFactor(t *testing.T) {
	t.Parallel()
	top := build(t, new(topology.Builder).ReplicationFactor(3).AddSource("in", "in").AddProcessor("p", "in").
		AddStateStore(topology.Store{Name: "s"}, "p"))
	assert.Equal(t, int16(3), top.Wire().Subtopologies[0].StateChangelogTopics[0].ReplicationFactor)
}

// TP-14: Kafka leaves two groups that a third one bridges apart; here they are
// one.
func TestTP14BridgedCopartitionGroups(t *testing.T) {
	t.Parallel()
	top := build(t, new(topology.Builder).
		AddSource("a", "a").AddSource("b", "b").AddSource("c", "c").AddSource("d", "d").
		AddProcessor("p", "a", "b", "c", "d").
		Copartition("a", "b").Copartition("c", "d").Copartition("b", "c"))
	groups := top.Wire().Subtopologies[0].CopartitionGroups
	require.Len(t, groups, 1)
	assert.Equal(t, []int16{0, 1, 2, 3}, groups[0].SourceTopics)
}

// TP-19: groups are sorted by their first index that differs, whatever the order
// in which they were registered.
func TestTP19CopartitionGroupsAreSorted(t *testing.T) {
	t.Parallel()
	top := build(t, new(topology.Builder).
		AddSource("a", "a").AddSource("b", "b").AddSource("c", "c").AddSource("d", "d").
		AddProcessor("p", "a", "b", "c", "d").
		Copartition("d", "b").Copartition("c", "a"))
	groups := top.Wire().Subtopologies[0].CopartitionGroups
	require.Len(t, groups, 2)
	assert.Equal(t, []int16{0, 2}, groups[0].SourceTopics)
	assert.Equal(t, []int16{1, 3}, groups[1].SourceTopics)
}

// TP-13: Kafka's DSL names processors among the sources, and Kafka ignores them.
func TestTP13ProcessorsInCopartitionSets(t *testing.T) {
	t.Parallel()
	top := build(t, new(topology.Builder).AddSource("a", "a").AddSource("b", "b").
		AddProcessor("suppressed", "b").AddProcessor("join", "a", "suppressed").Copartition("suppressed", "a"))
	groups := top.Wire().Subtopologies[0].CopartitionGroups
	require.Len(t, groups, 1)
	assert.Equal(t, []int16{0}, groups[0].SourceTopics)
}

// TP-18, TD-9: Java orders text by UTF-16 code units, so that an emoji comes
// before the last characters of the first plane.
func TestTP18TextIsOrderedAsInJava(t *testing.T) {
	t.Parallel()
	names := []string{"Z", "a", "a-", "é", "\ue000", "ｆ", "ｆa", "😀"}
	ordered := []string{"Z", "a", "a-", "é", "😀", "\ue000", "ｆ", "ｆa"}
	b := new(topology.Builder).AddSource("A", "in").AddProcessor("B", "A")
	for _, name := range names {
		b.AddProcessor(name, "A").AddStateStore(topology.Store{Name: "s" + name, NoChangelog: true}, "B").TopicConfig(name, "1")
	}
	top := build(t, b.AddStateStore(topology.Store{Name: "q"}, "B"))
	nodes := top.Description().Subtopologies[0].Nodes
	var nodeNames, stores, settings []string
	for _, n := range nodes[2:] {
		nodeNames = append(nodeNames, n.Name)
	}
	for _, s := range nodes[1].Stores[1:] {
		stores = append(stores, strings.TrimPrefix(s, "s"))
	}
	for _, c := range top.Wire().Subtopologies[0].StateChangelogTopics[0].Configs {
		if c.Value == "1" {
			settings = append(settings, c.Key)
		}
	}
	assert.Equal(t, ordered, nodeNames)
	assert.Equal(t, append([]string{"B"}, ordered...), nodes[0].Successors)
	assert.Equal(t, ordered, stores)
	assert.Equal(t, ordered, settings)
}

// A builder can be used on after Build, without effect on what was built.
func TestBuilderStaysUsable(t *testing.T) {
	t.Parallel()
	b := new(topology.Builder).AddSource("a", "a").AddProcessor("p", "a").AddRepartition("r").AddSink("s", "r", "p").AddSource("r", "r")
	first := build(t, b)
	before := first.Wire()
	other, err := b.Build("other")
	require.NoError(t, err)
	assert.Equal(t, []string{"other-r-repartition"}, other.Sources("1"))
	b.AddStateStore(topology.Store{Name: "s"}, "p").TopicConfig("segment.bytes", "1").AddSource("more", "more")
	assert.Len(t, build(t, b).Subtopologies(), 3)
	assert.Equal(t, before, first.Wire())
	assert.NotContains(t, first.Describe(), "more")
}
