package topology_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/streamsgroup/streamsgroup/topology"
)

// A new version of the shop passes its orders on by town, and audits as well.
func ExampleCluster_Diff() {
	shop := func(epoch int32, b *topology.Builder, hop string) *topology.Topology {
		t, err := b.Epoch(epoch).
			AddSource("orders", "orders").
			AddRepartition(hop).
			AddSink("hop", hop, "orders").
			AddSource("hopped", hop).
			AddProcessor("count", "hopped").
			AddStateStore(topology.Store{Name: "counts"}, "count").
			Subtopology("count", "count").
			Build("shop")
		if err != nil {
			panic(err)
		}
		return t
	}
	older := shop(1, new(topology.Builder), "by-customer")
	newer := shop(2, new(topology.Builder).AddSource("audit", "audit"), "by-town")
	topics := topology.Side{Partitions: map[string]int32{
		"orders": 4, "audit": 1, "shop-by-customer-repartition": 4, "shop-by-town-repartition": 4, "shop-counts-changelog": 4,
	}}
	fmt.Print(topology.Cluster{Older: topics, Newer: topics}.Diff(older, newer))
	// Output:
	// Topology epoch 1 -> 2: not safe to roll
	//   unsafe: nobody will read what members with the older topology still write to the repartition topic shop-by-customer-repartition
	//       remedy: roll out a version first that reads the topic and does not write it, wait until all of it is read, then drop it
	//   warning: shop-counts-changelog moves from subtopology "count" to "count", which does not go on with its work: a partition that a member with the older topology works on is taken over when that member has been restarted
	//       remedy: nothing, if that is meant; restart the members one by one without long pauses
	//   warning: the id "0" stands for another subtopology from now on, and so do task ids in logs, metrics and directories
	//       remedy: give subtopologies ids of their own (Builder.Subtopology), so that numbers do not move
	//   warning: subtopology "count" has no successor: its tasks are taken from all members as soon as the first one joins with the newer topology
	//       remedy: nothing, if that is meant
	//   warning: the id "count" stands for another subtopology from now on, and so do task ids in logs, metrics and directories
	//       remedy: give what is new another id
	//   note: nothing needs shop-by-customer-repartition any more
	//       remedy: delete it once no member with the older topology is left
	// Subtopologies:
	//   renumbered 0 -> 1 (4 tasks)
	//       + sink shop-by-town-repartition
	//       - sink shop-by-customer-repartition
	//   orphaned   count (4 tasks)
	//       - source shop-by-customer-repartition
	//       - changelog shop-counts-changelog
	//   new        0 (1 task)
	//       + source audit
	//   new        count (4 tasks)
	//       + source shop-by-town-repartition
	//       + changelog shop-counts-changelog
	// Topics:
	//   + audit (source topic, 1 partition)
	//   - shop-by-customer-repartition (repartition topic, 4 partitions)
	//   + shop-by-town-repartition (repartition topic, 4 partitions)
}

// counted is the base of the cases: orders are passed on, and counted.
func counted(b *topology.Builder, partitions ...int32) *topology.Builder {
	return b.AddSource("orders", "orders").
		AddRepartition("hop", partitions...).
		AddSink("to-hop", "hop", "orders").
		AddSource("hopped", "hop").
		AddProcessor("count", "hopped").
		AddStateStore(topology.Store{Name: "counts"}, "count")
}

func TestDiffFindings(t *testing.T) {
	t.Parallel()
	type B = topology.Builder
	type kinds = map[topology.FindingKind]topology.Severity
	b := func() *B { return counted(new(B)).Epoch(1) }
	c := func(n ...int32) *B { return counted(new(B), n...).Epoch(2) }
	const hop, counts = "appId-hop-repartition", "appId-counts-changelog"
	drop := func() *B {
		return new(B).Epoch(2).AddSource("orders", "orders").AddProcessor("count", "orders").AddStateStore(topology.Store{Name: "counts"}, "count")
	}
	drained := func() *B {
		// The version in between: it still reads the topic and does not write it.
		return new(B).Epoch(1).AddSource("orders", "orders").AddRepartition("hop", 2).AddSource("hopped", "hop").AddProcessor("count", "orders", "hopped").
			AddStateStore(topology.Store{Name: "counts"}, "count")
	}
	offsets := func(n ...int64) map[string]map[int32]int64 {
		m := map[int32]int64{}
		for p, at := range n {
			m[int32(p)] = at
		}
		return map[string]map[int32]int64{hop: m}
	}
	sizes := func(n int32, topics ...string) topology.Side {
		s := topology.Side{Partitions: map[string]int32{}}
		for _, topic := range topics {
			s.Partitions[topic] = n
		}
		return s
	}
	for name, c := range map[string]struct {
		older, newer *B
		cluster      topology.Cluster
		safe         bool
		want         kinds
		says         string
	}{
		"the same, the next epoch":     {b(), c(), topology.Cluster{}, true, nil, "nothing changes"},
		"the same, a lower epoch":      {b(), c().Epoch(0), topology.Cluster{}, false, kinds{topology.WrongEpoch: topology.Unsafe}, "roll forward"},
		"the same, two epochs further": {b(), c().Epoch(3), topology.Cluster{}, false, kinds{topology.WrongEpoch: topology.Unsafe}, "3 is not the one after 1: give it the topology epoch 2"},
		"another one, the same epoch":  {b(), c().Epoch(1).AddSource("x", "x"), topology.Cluster{}, false, kinds{topology.WrongEpoch: topology.Unsafe}, "same topology epoch 1"},
		"another one, the same epoch, only the settings of a topic": {
			b(), c().Epoch(1).TopicConfig("segment.ms", "1"),
			topology.Cluster{},
			false,
			kinds{topology.WrongEpoch: topology.Unsafe, topology.SettingsChanged: topology.Note},
			"segment.ms is not set, asked for is 1",
		},
		"a source more at the end": {b(), c().AddSource("x", "x"), topology.Cluster{}, true, nil, "new        2 (an unknown number of tasks)"},
		"a source more in front": {
			b(), counted(new(B).Epoch(2).AddSource("x", "x")),
			topology.Cluster{},
			true,
			kinds{topology.MeaningChanged: topology.Warning, topology.StateUnderOtherID: topology.Warning},
			`subtopology "1" is "2" from now on`,
		},
		"a source more in front, ids by name": {
			b().Subtopology("in", "orders").Subtopology("out", "count"),
			counted(new(B).Epoch(2).AddSource("x", "x")).Subtopology("in", "orders").Subtopology("out", "count"),
			topology.Cluster{},
			true, nil, "stays      out",
		},
		"a store more": {
			b(), c().AddStateStore(topology.Store{Name: "more"}, "count"),
			topology.Cluster{},
			true,
			kinds{topology.StoresChanged: topology.Warning, topology.TopicsMissing: topology.Note},
			"state logged to appId-more-changelog starts empty",
		},
		"a store renamed": {
			b(), new(B).Epoch(2).AddSource("orders", "orders").AddRepartition("hop").AddSink("to-hop", "hop", "orders").AddSource("hopped", "hop").
				AddProcessor("count", "hopped").AddStateStore(topology.Store{Name: "totals"}, "count"),
			topology.Cluster{},
			true,
			kinds{topology.StoresChanged: topology.Warning, topology.TopicsMissing: topology.Note, topology.TopicsOrphaned: topology.Note},
			"state logged to appId-counts-changelog is left behind",
		},
		"a store of another kind": {
			b(), new(B).Epoch(2).AddSource("orders", "orders").AddRepartition("hop").AddSink("to-hop", "hop", "orders").AddSource("hopped", "hop").
				AddProcessor("count", "hopped").AddStateStore(topology.Store{Name: "counts", Kind: topology.Windowed, Retention: time.Hour}, "count"),
			topology.Cluster{},
			true,
			kinds{topology.SettingsChanged: topology.Note},
			"cleanup.policy is compact, asked for is compact,delete; retention.ms is not set, asked for is 90000000",
		},
		"another replication factor": {
			b(), c().ReplicationFactor(3),
			topology.Cluster{},
			true,
			kinds{topology.SettingsChanged: topology.Note},
			"replication.factor is -1, asked for is 3",
		},
		"another fixed count": {
			counted(new(B), 4).Epoch(1), c(6),
			topology.Cluster{},
			false,
			kinds{topology.PartitionsChanged: topology.Unsafe},
			hop + " has 4 partitions and needs 6: the newer topology never becomes ready",
		},
		"the source topic has grown": {
			b(), c(),
			topology.Cluster{Older: sizes(4, "orders", hop, counts), Newer: sizes(8, "orders", hop, counts)},
			false,
			kinds{topology.PartitionsChanged: topology.Unsafe},
			counts + " has 4 partitions and needs 8",
		},
		"a new topic that exists already": {
			b(), c().AddStateStore(topology.Store{Name: "more"}, "count"),
			topology.Cluster{Older: sizes(3, "appId-more-changelog"), Newer: sizes(4, "appId-more-changelog")},
			false,
			kinds{topology.PartitionsChanged: topology.Unsafe, topology.StoresChanged: topology.Warning},
			"appId-more-changelog has 3 partitions and needs 4",
		},
		"a changelog that exists already": {
			b(), c().AddStateStore(topology.Store{Name: "more"}, "count"),
			topology.Cluster{Older: sizes(4, "appId-more-changelog")},
			true,
			kinds{topology.StoresChanged: topology.Warning},
			"state logged to appId-more-changelog starts with what is there already",
		},
		"a store that goes to another subtopology": {
			b().AddSource("audit", "audit").AddProcessor("audited", "audit"),
			new(B).Epoch(2).AddSource("orders", "orders").AddRepartition("hop").AddSink("to-hop", "hop", "orders").AddSource("hopped", "hop").
				AddProcessor("count", "hopped").AddSource("audit", "audit").AddProcessor("audited", "audit").AddStateStore(topology.Store{Name: "counts"}, "audited"),
			topology.Cluster{},
			true,
			kinds{topology.StoresChanged: topology.Warning, topology.TopicMoved: topology.Warning},
			"state logged to appId-counts-changelog goes to another subtopology",
		},
		"a repartition topic dropped that is written": {
			b(), drop(),
			topology.Cluster{},
			false,
			kinds{topology.UnreadRecords: topology.Unsafe, topology.TopicMoved: topology.Warning, topology.WorkEnds: topology.Warning, topology.StoresChanged: topology.Warning, topology.TopicsOrphaned: topology.Note},
			"still write to the repartition topic",
		},
		"drained, not known": {
			drained(), drop(),
			topology.Cluster{},
			false,
			kinds{topology.UnreadRecords: topology.Unsafe, topology.TopicsOrphaned: topology.Note},
			"it is not known whether it has unread records",
		},
		"drained": {
			drained(), drop(),
			topology.Cluster{EndOffsets: offsets(10, 7), Committed: offsets(10, 7)},
			true,
			kinds{topology.UnreadRecords: topology.Note, topology.TopicsOrphaned: topology.Note},
			"is read to its end",
		},
		"drained but for three records": {
			drained(), drop(),
			topology.Cluster{EndOffsets: offsets(10, 7), Committed: offsets(9, 5)},
			false,
			kinds{topology.UnreadRecords: topology.Unsafe, topology.TopicsOrphaned: topology.Note},
			"which has 3 unread records",
		},
		"nothing committed": {
			drained(), drop(),
			topology.Cluster{EndOffsets: offsets(10)},
			false,
			kinds{topology.UnreadRecords: topology.Unsafe, topology.TopicsOrphaned: topology.Note},
			"which has 10 unread records",
		},
		"a source topic dropped": {
			b().AddSource("x", "x"), c(),
			topology.Cluster{},
			true,
			kinds{topology.SourceDropped: topology.Warning, topology.WorkEnds: topology.Warning},
			"no subtopology reads x any more",
		},
		"a topic moves": {
			b().AddSource("x", "x", "m").AddSource("y", "y"), c().AddSource("x", "x").AddSource("y", "y", "m"),
			topology.Cluster{},
			true,
			kinds{topology.TopicMoved: topology.Warning},
			`m moves from subtopology "2" to "3":`,
		},
		"other groups": {
			b().AddSource("x", "x").AddSource("y", "y").AddProcessor("join", "x", "y"),
			c().AddSource("x", "x").AddSource("y", "y").AddProcessor("join", "x", "y").Copartition("x", "y"),
			topology.Cluster{},
			true, nil, "other copartition groups",
		},
		"a pattern": {
			b().AddSourcePattern("x", "x.*"), c().AddSourcePattern("x", "y.*"),
			topology.Cluster{},
			true,
			kinds{topology.PatternsUnresolved: topology.Note, topology.WorkEnds: topology.Warning, topology.MeaningChanged: topology.Warning},
			"- source /x.*/",
		},
		"a pattern with the same matches": {
			b().AddSourcePattern("x", "x.*"), c().AddSourcePattern("x", "x[ab]"),
			topology.Cluster{Older: topology.Side{Matches: map[string][]string{"2": {"xa", "xb"}}}, Newer: topology.Side{Matches: map[string][]string{"2": {"xb", "xa"}}}},
			true, nil, "stays      2",
		},
		"a pattern with other matches": {
			b().AddSourcePattern("x", "x.*"), c().AddSourcePattern("x", "x[ab]"),
			topology.Cluster{Older: topology.Side{Matches: map[string][]string{"2": {"xa", "xb", "xc"}}}, Newer: topology.Side{Matches: map[string][]string{"2": {"xa", "xb"}}}},
			true,
			kinds{topology.SourceDropped: topology.Warning},
			"no subtopology reads xc any more",
		},
		"an internal topic becomes one of somebody else": {
			counted(new(B).Epoch(1).AddInternalTopic("rest", 2).AddSource("rest", "rest")), counted(new(B).Epoch(2).AddSource("rest", "appId-rest")),
			topology.Cluster{},
			true, nil, "~ appId-rest (repartition topic, 2 partitions -> source topic)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			older, newer := build(t, c.older), build(t, c.newer)
			d := c.cluster.Diff(older, newer)
			got := kinds{}
			for _, f := range d.Findings {
				got[f.Kind] = max(got[f.Kind], f.Severity)
				assert.NotEmpty(t, f.Remedy)
				assert.Equal(t, f.Severity.String()+": "+f.Reason+": "+f.Remedy, f.String())
			}
			if c.want == nil {
				c.want = kinds{}
			}
			assert.Equal(t, c.want, got, "%s", d)
			assert.Equal(t, c.safe, d.SafeToRoll())
			text := strings.ReplaceAll(d.String(), "\n      remedy", "")
			assert.Contains(t, text, c.says)
			assert.True(t, slices.IsSortedFunc(d.Findings, func(a, b topology.Finding) int { return int(b.Severity - a.Severity) }))
		})
	}
}

// One topic with two readers is refused by a coordinator. A builder does not
// make such a topology, but others may.
func TestDiffTwoReaders(t *testing.T) {
	t.Parallel()
	w := build(t, counted(new(topology.Builder))).Wire()
	w.Subtopologies[1].SourceTopics = []string{"orders"}
	w.Epoch = 1
	newer, err := topology.FromWire(w)
	require.NoError(t, err)
	d := topology.Diff(build(t, counted(new(topology.Builder))), newer)
	require.Len(t, d.Reasons(), 1)
	assert.Equal(t, topology.TwoReaders, d.Reasons()[0].Kind)
	assert.Equal(t, []string{"0", "1"}, d.Reasons()[0].Subtopologies)
	assert.Equal(t, []string{"orders"}, d.Reasons()[0].Topics)
}

func TestDiffTasks(t *testing.T) {
	t.Parallel()
	type B = topology.Builder
	older := build(t, new(B).AddSource("a", "a").AddSource("b", "b").AddSource("c", "c").AddSource("d", "d").Subtopology("d", "d").AddSource("u", "u"))
	newer := build(t, new(B).AddSource("x", "x").AddSource("a", "a").AddSource("d", "d", "e").Subtopology("d", "d").AddSource("b", "b").AddSource("u", "u"))
	d := topology.Cluster{
		Older: topology.Side{Partitions: map[string]int32{"a": 2, "b": 1, "c": 1, "d": 1}},
		Newer: topology.Side{Partitions: map[string]int32{"a": 1, "b": 1, "d": 1, "e": 2, "x": 1}},
	}.Diff(older, newer)
	var got []string
	for c := range d.Tasks() {
		got = append(got, fmt.Sprintf("%s %s > %s", c.Kind, c.Older, c.Newer))
	}
	assert.Equal(t, []string{
		"renumbered 0_0 > 1_0", "orphaned 0_1 > _0",
		"renumbered 1_0 > 3_0",
		"orphaned 2_0 > _0",
		"changed d_0 > d_0", "new _0 > d_1",
		"new _0 > 0_0",
	}, got)
	assert.Equal(t, topology.UnknownTasks, d.Subtopologies[3].OlderTasks, "u is of unknown size")
	for range d.Tasks() {
		break
	}
}

// TestDiffOfWhatABrokerTells compares the topology of a running group, as a
// describe request shows it, with a new one.
func TestDiffOfWhatABrokerTells(t *testing.T) {
	t.Parallel()
	running := func() *topology.Topology {
		return build(t, counted(new(topology.Builder)).AddSource("x", "x").AddSource("y", "y").AddProcessor("join", "x", "y").Copartition("x", "y"))
	}
	group := describeResponse(running())
	older, err := topology.FromDescribe(group)
	require.NoError(t, err)
	for name, newer := range map[string]*topology.Topology{"built": running(), "described": older} {
		d := topology.Diff(older, newer)
		assert.True(t, d.Empty(), name)
		assert.Empty(t, d.Findings, name)
		d = topology.Diff(newer, older)
		assert.True(t, d.Empty(), name)
		assert.Empty(t, d.Findings, name)
	}
}

// drawVersions draws two versions of an application. The second is another
// graph, or the first one with another source in front.
func drawVersions(t *rapid.T) (older, newer *topology.Topology, shifted bool) {
	g := drawGraph(t)
	for name := range g.repartitions {
		g.repartitions[name] = 0
	}
	older, err := g.builder(t).Build("app")
	require.NoError(t, err)
	if shifted = rapid.Bool().Draw(t, "shifted"); shifted {
		g.nodes = slices.Insert(g.nodes, 0, graphNode{name: "front", source: true, topics: []string{"front"}})
	} else {
		g = drawGraph(t)
		for name := range g.repartitions {
			g.repartitions[name] = 0
		}
	}
	newer, err = g.builder(t).Epoch(1).Build("app")
	require.NoError(t, err)
	return older, newer, shifted
}

func TestDiffProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		older, newer, shifted := drawVersions(t)
		same := topology.Diff(older, older)
		require.True(t, same.Empty(), "%s", same)
		require.Empty(t, same.Findings)
		require.True(t, same.SafeToRoll())
		bare, err := topology.FromWire(older.Wire())
		require.NoError(t, err)
		require.Equal(t, same, topology.Diff(older, bare), "nodes have no part in it")

		side := func(label string) topology.Side {
			s := topology.Side{Partitions: map[string]int32{}}
			for _, top := range []*topology.Topology{older, newer} {
				for _, id := range top.Subtopologies() {
					for _, topic := range slices.Concat(top.Sources(id), top.Changelogs(id)) {
						if _, ok := s.Partitions[topic]; !ok {
							s.Partitions[topic] = rapid.Int32Range(0, 3).Draw(t, label)
						}
					}
				}
			}
			return s
		}
		c := topology.Cluster{Older: side("older"), Newer: side("newer")}
		d := c.Diff(older, newer)
		require.Equal(t, d, c.Diff(older, newer))
		require.Equal(t, d.String(), c.Diff(older, newer).String())
		requireMirrored(t, d, topology.Cluster{Older: c.Newer, Newer: c.Older}.Diff(newer, older))
		requireEveryTask(t, d, older, newer)
		if shifted {
			requireOnlyRenumbered(t, topology.Diff(older, newer))
		}
	})
}

// requireOnlyRenumbered is what a source in front means: all others go on.
func requireOnlyRenumbered(t *rapid.T, d *topology.Difference) {
	t.Helper()
	added := 0
	for _, c := range d.Subtopologies {
		if c.Kind == topology.Added {
			added++
			require.Equal(t, []string{"front"}, c.SourcesGained)
			continue
		}
		require.Contains(t, []topology.ChangeKind{topology.Stays, topology.Renumbered}, c.Kind)
		require.Empty(t, slices.Concat(c.SourcesGained, c.SourcesLost, c.ChangelogsGained, c.ChangelogsLost, c.SinksGained, c.SinksLost))
	}
	require.Equal(t, 1, added)
	require.Empty(t, d.Overlaps)
	require.Len(t, d.Topics, 1)
	require.True(t, d.SafeToRoll(), "%s", d)
}

// requireMirrored is that the way back is the same change, the other way round.
func requireMirrored(t *rapid.T, d, back *topology.Difference) {
	t.Helper()
	mirrored := make([]topology.SubtopologyChange, 0, len(d.Subtopologies))
	for _, c := range back.Subtopologies {
		switch c.Kind {
		case topology.Added:
			c.Kind = topology.Orphaned
		case topology.Orphaned:
			c.Kind = topology.Added
		case topology.Stays, topology.Renumbered, topology.Changed:
		}
		c.Older, c.Newer = c.Newer, c.Older
		c.OlderTasks, c.NewerTasks = c.NewerTasks, c.OlderTasks
		c.SourcesGained, c.SourcesLost = c.SourcesLost, c.SourcesGained
		c.SinksGained, c.SinksLost = c.SinksLost, c.SinksGained
		c.ChangelogsGained, c.ChangelogsLost = c.ChangelogsLost, c.ChangelogsGained
		mirrored = append(mirrored, c)
	}
	require.ElementsMatch(t, d.Subtopologies, mirrored)
	topics := slices.Clone(back.Topics)
	for i := range topics {
		topics[i].Older, topics[i].Newer = topics[i].Newer, topics[i].Older
	}
	require.Equal(t, d.Topics, topics)
	overlaps := slices.Clone(back.Overlaps)
	for i := range overlaps {
		overlaps[i].Older, overlaps[i].Newer = overlaps[i].Newer, overlaps[i].Older
	}
	require.ElementsMatch(t, d.Overlaps, overlaps)
}

// requireEveryTask is that each subtopology of both sides is told of once, and
// each of its tasks.
func requireEveryTask(t *rapid.T, d *topology.Difference, older, newer *topology.Topology) {
	t.Helper()
	var before, after []string
	tasks := 0
	for _, c := range d.Subtopologies {
		if c.Kind != topology.Added {
			before = append(before, c.Older)
		}
		if c.Kind != topology.Orphaned {
			after = append(after, c.Newer)
		}
		if c.OlderTasks != topology.UnknownTasks && c.NewerTasks != topology.UnknownTasks {
			tasks += int(max(c.OlderTasks, c.NewerTasks))
		}
	}
	require.ElementsMatch(t, older.Subtopologies(), before)
	require.ElementsMatch(t, newer.Subtopologies(), after)
	seen := map[topology.TaskChange]bool{}
	for c := range d.Tasks() {
		require.False(t, seen[c])
		seen[c] = true
	}
	require.Len(t, seen, tasks)
}
