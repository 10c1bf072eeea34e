package topology_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/streamsgroup/streamsgroup/topology"
)

// The classic word count: lines are split into words, the words are passed on
// by word through a repartition topic, and counted in a store.
func ExampleBuilder() {
	t, err := new(topology.Builder).
		AddSource("lines", "lines").
		AddProcessor("split", "lines").
		AddRepartition("words", 0).
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

func TestExplicitSubtopologyIDs(t *testing.T) {
	t.Parallel()
	top := build(t, new(topology.Builder).AddSource("a", "a").AddSource("b", "b").Subtopology("orders", "b").Epoch(3))
	assert.Equal(t, []string{"0", "orders"}, top.Subtopologies())
	assert.Equal(t, []string{"b"}, top.Sources("orders"))
	assert.Equal(t, int32(3), top.Epoch())
	assert.Equal(t, int32(3), top.Wire().Epoch)
}

func TestBuildNamesTheFault(t *testing.T) {
	t.Parallel()
	type B = topology.Builder
	for name, c := range map[string]struct {
		b    *B
		kind topology.Kind
		at   string
		says string
	}{
		"duplicate node":           {new(B).AddSource("a", "x").AddProcessor("a", "a"), topology.Nodes, "a", "taken"},
		"unknown parent":           {new(B).AddSource("a", "x").AddProcessor("p", "q"), topology.Nodes, "p", `"q" does not exist`},
		"sink as parent":           {new(B).AddSource("a", "x").AddSink("s", "y", "a").AddProcessor("p", "s"), topology.Nodes, "p", "is a sink"},
		"no parent":                {new(B).AddSource("a", "x").AddProcessor("p"), topology.Nodes, "p", "no parent"},
		"source without topic":     {new(B).AddSource("a"), topology.Nodes, "a", "no topic"},
		"illegal topic":            {new(B).AddSource("a", "x y"), topology.Nodes, "a", "' '"},
		"topic read twice":         {new(B).AddSource("a", "x").AddSource("b", "x"), topology.Nodes, "b", `read by source "a"`},
		"bad pattern":              {new(B).AddSourcePattern("a", "("), topology.Nodes, "a", "regular expression"},
		"store taken":              {new(B).AddSource("a", "x").AddStateStore(topology.Store{Name: "s"}).AddStateStore(topology.Store{Name: "s"}), topology.Stores, "s", "taken"},
		"store of unknown":         {new(B).AddSource("a", "x").AddStateStore(topology.Store{Name: "s"}, "p"), topology.Stores, "s", `"p", which does not exist`},
		"store of a source":        {new(B).AddSource("a", "x").AddStateStore(topology.Store{Name: "s"}, "a"), topology.Stores, "s", "no processor"},
		"unknown source changelog": {new(B).AddSource("a", "x").AddProcessor("p", "a").AddStateStore(topology.Store{Name: "s", SourceTopic: "z"}, "p"), topology.Stores, "s", `"z"`},
		"unread repartition":       {new(B).AddSource("a", "x").AddRepartition("r", 0).AddSink("s", "r", "a"), topology.Topics, "r", "no source reads"},
		"unwritten repartition":    {new(B).AddRepartition("r", 0).AddSource("a", "r"), topology.Topics, "r", "no sink writes"},
		"negative partitions":      {new(B).AddRepartition("r", -1).AddSource("a", "r"), topology.Topics, "r", "-1"},
		"copartition of unknown":   {new(B).AddSource("a", "x").Copartition("a", "b"), topology.Copartition, "b", "no source"},
		"CC-153 lost copartition":  {new(B).AddSource("a", "x").AddSource("b", "y").Copartition("a", "b"), topology.Copartition, "x, y", "no subtopology"},
		"TP-17 fixed counts": {
			new(B).AddSource("a", "x").AddRepartition("r", 2).AddRepartition("q", 3).AddSink("r", "r", "a").AddSink("q", "q", "a").
				AddSource("rs", "r").AddSource("qs", "q").AddProcessor("join", "rs", "qs").Copartition("rs", "qs"),
			topology.Copartition, "appId-q-repartition, appId-r-repartition", "appId-q-repartition=3",
		},
		"empty":             {new(B), topology.Application, "appId", "reads nothing"},
		"only global":       {new(B).AddGlobalStore("g", "gs", "t", "gp"), topology.Application, "appId", "no task"},
		"subtopology taken": {new(B).AddSource("a", "x").AddSource("b", "y").Subtopology("n", "a").Subtopology("n", "b"), topology.Subtopologies, "n", "twice"},
		"negative epoch":    {new(B).AddSource("a", "x").Epoch(-1), topology.Setting, "epoch", "-1"},
		"replication":       {new(B).AddSource("a", "x").ReplicationFactor(0), topology.Setting, "replication factor", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top, err := c.b.Build("appId")
			assert.Nil(t, top)
			var e *topology.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, c.kind, e.Kind)
			assert.Equal(t, c.at, e.Name)
			assert.Contains(t, e.Error(), c.says)
			assert.NotEmpty(t, e.Remedy)
		})
	}
	_, err := new(B).AddSource("a", "x").Build("no good")
	assert.ErrorContains(t, err, `application id "no good"`)
	_, err = new(B).AddSource("a").AddProcessor("p").Build("x")
	var joined interface{ Unwrap() []error }
	require.True(t, errors.As(err, &joined))
	assert.Len(t, joined.Unwrap(), 2, "all faults at once")
}

// TP-20: instances that register the same things in another order, where order
// carries no meaning, put the same bytes on the wire.
func TestTP20Determinism(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		topics := []string{"a", "b", "c", "d"}
		settings := []string{"segment.bytes", "retention.bytes", "flush.ms"}
		make := func() []byte {
			var b topology.Builder
			for _, s := range rapid.Permutation(settings).Draw(t, "settings") {
				b.TopicConfig(s, "1")
			}
			b.AddSource("s", rapid.Permutation(topics).Draw(t, "topics")...)
			b.AddProcessor("p", "s")
			for _, s := range rapid.Permutation([]string{"x", "y", "z"}).Draw(t, "stores") {
				b.AddStateStore(topology.Store{Name: s, ChangelogConfig: map[string]string{"k1": "1", "k2": "2"}}, "p")
			}
			top, err := b.Build("app")
			require.NoError(t, err)
			req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
			req.Topology = top.Wire()
			return req.AppendTo(nil)
		}
		assert.Equal(t, make(), make())
	})
}

func TestFromWire(t *testing.T) {
	t.Parallel()
	top := build(t, new(topology.Builder).AddSource("a", "x", "w").AddProcessor("p", "a").AddStateStore(topology.Store{Name: "s"}, "p"))
	w := top.Wire()
	again, err := topology.FromWire(w)
	require.NoError(t, err)
	w.Subtopologies[0].SourceTopics[0] = "changed"
	assert.Equal(t, top.Wire(), again.Wire(), "the argument is copied")
	assert.Equal(t, []string{"w", "x"}, again.ExternalSources())
	assert.Nil(t, again.Description())
	assert.True(t, again.Has("0"))
	assert.False(t, again.Has("1"))
	assert.Nil(t, again.Sources("1"))

	w = top.Wire()
	w.Subtopologies = append(w.Subtopologies, w.Subtopologies[0])
	_, err = topology.FromWire(w)
	assert.ErrorContains(t, err, `subtopology "0": the id is used twice`)
}
