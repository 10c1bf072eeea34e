package topology_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/topology"
)

func TestBuildNamesTheFault(t *testing.T) {
	t.Parallel()
	type B = topology.Builder
	for name, c := range map[string]struct {
		b    *B
		kind topology.Kind
		at   string
		says string
	}{
		"duplicate node":           {new(B).AddSource("a", "x").AddProcessor("a", "a"), topology.KindNode, "a", "taken"},
		"unknown parent":           {new(B).AddSource("a", "x").AddProcessor("p", "q"), topology.KindNode, "p", `"q" does not exist`},
		"parent added later":       {new(B).AddSource("a", "x").AddProcessor("p", "q").AddProcessor("q", "a"), topology.KindNode, "p", `"q" was added after it`},
		"its own parent":           {new(B).AddSource("a", "x").AddProcessor("p", "a", "p"), topology.KindNode, "p", "cycle"},
		"a cycle of three":         {new(B).AddSource("a", "x").AddProcessor("p", "a", "r").AddProcessor("q", "p").AddProcessor("r", "q"), topology.KindNode, "p", `"r" takes records from it, and a graph must not have a cycle`},
		"sink as parent":           {new(B).AddSource("a", "x").AddSink("s", "y", "a").AddProcessor("p", "s"), topology.KindNode, "p", "is a sink"},
		"no parent":                {new(B).AddSource("a", "x").AddProcessor("p"), topology.KindNode, "p", "no parent"},
		"source without topic":     {new(B).AddSource("a"), topology.KindNode, "a", "no topic"},
		"illegal topic":            {new(B).AddSource("a", "x y"), topology.KindNode, "a", "' '"},
		"topic read twice":         {new(B).AddSource("a", "x").AddSource("b", "x"), topology.KindNode, "b", `read by source "a"`},
		"bad pattern":              {new(B).AddSourcePattern("a", "("), topology.KindNode, "a", "regular expression"},
		"store taken":              {new(B).AddSource("a", "x").AddStateStore(topology.Store{Name: "s"}).AddStateStore(topology.Store{Name: "s"}), topology.KindStore, "s", "taken"},
		"store of unknown":         {new(B).AddSource("a", "x").AddStateStore(topology.Store{Name: "s"}, "p"), topology.KindStore, "s", `"p", which does not exist`},
		"store of a source":        {new(B).AddSource("a", "x").AddStateStore(topology.Store{Name: "s"}, "a"), topology.KindStore, "s", "no processor"},
		"unknown source changelog": {new(B).AddSource("a", "x").AddProcessor("p", "a").AddStateStore(topology.Store{Name: "s", SourceTopic: "z"}, "p"), topology.KindStore, "s", `"z"`},
		"unread repartition":       {new(B).AddSource("a", "x").AddRepartition("r", 0).AddSink("s", "r", "a"), topology.KindTopic, "r", "no source reads"},
		"unwritten repartition":    {new(B).AddRepartition("r", 0).AddSource("a", "r"), topology.KindTopic, "r", "no sink names"},
		"negative partitions":      {new(B).AddRepartition("r", -1).AddSource("a", "r"), topology.KindTopic, "r", "-1"},
		"copartition of unknown":   {new(B).AddSource("a", "x").Copartition("a", "b"), topology.KindCopartition, "b", "no source"},
		"CC-153 lost copartition":  {new(B).AddSource("a", "x").AddSource("b", "y").Copartition("a", "b"), topology.KindCopartition, "x, y", "no subtopology"},
		"TP-17 fixed counts": {
			new(B).AddSource("a", "x").AddRepartition("r", 2).AddRepartition("q", 3).AddSink("r", "r", "a").AddSink("q", "q", "a").
				AddSource("rs", "r").AddSource("qs", "q").AddProcessor("join", "rs", "qs").Copartition("rs", "qs"),
			topology.KindCopartition, "appId-q-repartition, appId-r-repartition", "appId-q-repartition=3",
		},
		"CC-153 mixed copartition": {
			new(B).AddSource("a", "x").AddSource("b", "y").AddProcessor("p", "a", "b").AddSource("c", "z").Copartition("a", "b").Copartition("b", "c"),
			topology.KindCopartition, "x, y, z", "no subtopology",
		},
		"TP-15 copartition of a global source": {
			new(B).AddSource("a", "x").AddGlobalStore("g", "gs", "t", "gp").Copartition("a", "gs"),
			topology.KindCopartition, "t, x", "no subtopology",
		},
		"TP-16 too many topics to copartition": {
			new(B).AddSource("a", manyTopics(math.MaxInt16+2)...).AddSource("b", "x").AddProcessor("p", "a", "b").Copartition("b"),
			topology.KindSubtopology, "0", "32770 topics",
		},
		"node without name":          {new(B).AddSource("", "x"), topology.KindNode, "", "empty"},
		"node that is no text":       {new(B).AddSource("\xff", "x"), topology.KindNode, "\xff", "UTF-8"},
		"empty pattern":              {new(B).AddSourcePattern("a", ""), topology.KindNode, "a", "empty"},
		"pattern twice":              {new(B).AddSourcePattern("a", "x.*").AddSourcePattern("b", "x.*"), topology.KindNode, "b", `source "a" has the same pattern`},
		"topic twice in a source":    {new(B).AddSource("a", "x", "x"), topology.KindNode, "a", `read by source "a" already`},
		"global topic read twice":    {new(B).AddGlobalStore("g", "gs", "x", "gp").AddSource("a", "x"), topology.KindNode, "a", `read by source "gs"`},
		"topic of Kafka":             {new(B).AddSource("a", "__consumer_offsets"), topology.KindNode, "a", "belongs to Kafka"},
		"dot topic":                  {new(B).AddSource("a", ".."), topology.KindNode, "a", "may not be"},
		"long topic":                 {new(B).AddSource("a", strings.Repeat("x", 250)), topology.KindNode, "a", "249"},
		"sink without topic":         {new(B).AddSource("a", "x").AddSink("s", "", "a"), topology.KindNode, "s", "no topic"},
		"sink to an illegal topic":   {new(B).AddSource("a", "x").AddSink("s", "é", "a"), topology.KindNode, "s", "'é'"},
		"sink to unknown internal":   {new(B).AddSource("a", "x").AddSink("s", "appId-r-repartition", "a"), topology.KindNode, "s", "was not added"},
		"source of unknown internal": {new(B).AddSource("a", "appId-r-repartition"), topology.KindNode, "a", "was not added"},
		"internal by its full name":  {new(B).AddSource("a", "x").AddRepartition("r").AddSink("s", "appId-r-repartition", "a").AddSource("r", "r"), topology.KindNode, "s", `full name of the internal topic "r"`},
		"internal by another name":   {new(B).AddSource("a", "x").AddRepartition("r").AddSink("s", "r-repartition", "a").AddSource("r", "r"), topology.KindNode, "s", `use the name "r"`},
		"internal twice":             {new(B).AddSource("a", "x").AddRepartition("r").AddRepartition("r"), topology.KindTopic, "r", "added before"},
		"internal without name":      {new(B).AddSource("a", "x").AddRepartition(""), topology.KindTopic, "", "no name"},
		"internal names collide":     {new(B).AddSource("a", "x").AddRepartition("r").AddRepartition("r-repartition"), topology.KindTopic, "r-repartition", `"r" has the same full name`},
		"two counts":                 {new(B).AddSource("a", "x").AddRepartition("r", 1, 2), topology.KindTopic, "r", "2 numbers"},
		"internal fills a global store": {
			new(B).AddSource("a", "x").AddRepartition("r").AddSink("s", "r", "a").AddGlobalStore("g", "gs", "r", "gp"),
			topology.KindTopic, "r", "global store reads",
		},
		"only a sink per record writes": {
			new(B).AddSource("a", "x").AddDynamicSink("d", "a").AddRepartition("r").AddSource("b", "r"),
			topology.KindTopic, "r", "no sink names",
		},
		"counts in a circle": {
			new(B).AddRepartition("r").AddRepartition("q").AddSource("a", "r").AddSink("to-q", "q", "a").AddSource("b", "q").AddSink("to-r", "r", "b"),
			topology.KindTopic, "r", "circle",
		},
		"reads a changelog": {
			new(B).AddSource("a", "x").AddProcessor("p", "a").AddStateStore(topology.Store{Name: "s"}, "p").AddSource("b", "appId-s-changelog"),
			topology.KindNode, "b", `changelog of store "s"`,
		},
		"changelog collides": {
			new(B).AddSource("a", "x").AddProcessor("p", "a").AddInternalTopic("s-changelog").AddSink("k", "s-changelog", "a").AddSource("b", "s-changelog").AddStateStore(topology.Store{Name: "s"}, "p"),
			topology.KindStore, "s", "same full name",
		},
		"store not added":        {new(B).AddSource("a", "x").AddProcessor("p", "a").ConnectStore("s", "p"), topology.KindStore, "s", "does not exist"},
		"store without name":     {new(B).AddSource("a", "x").AddStateStore(topology.Store{}), topology.KindStore, "", "empty"},
		"store of no kind":       {new(B).AddSource("a", "x").AddStateStore(topology.Store{Name: "s", Kind: 9}), topology.KindStore, "s", "no kind"},
		"illegal changelog":      {new(B).AddSource("a", "x").AddStateStore(topology.Store{Name: "s t"}), topology.KindStore, "s t", "' '"},
		"retention of key-value": {new(B).AddSource("a", "x").AddStateStore(topology.Store{Name: "s", Retention: 1}), topology.KindStore, "s", "no retention"},
		"negative retention":     {new(B).AddSource("a", "x").AddStateStore(topology.Store{Name: "s", Kind: topology.Windowed, Retention: -time.Hour}), topology.KindStore, "s", "-1h0m0s is negative"},
		"settings, no changelog": {new(B).AddSource("a", "x").AddStateStore(topology.Store{Name: "s", NoChangelog: true, ChangelogConfig: map[string]string{"k": "v"}}), topology.KindStore, "s", "no changelog"},
		"nameless setting":       {new(B).AddSource("a", "x").AddStateStore(topology.Store{Name: "s", ChangelogConfig: map[string]string{"": "v"}}), topology.KindStore, "s", "no name"},
		"source topic as changelog, settings": {
			new(B).AddSource("a", "x").AddProcessor("p", "a").AddStateStore(topology.Store{Name: "s", SourceTopic: "x", ChangelogConfig: map[string]string{"k": "v"}}, "p"),
			topology.KindStore, "s", "takes the place of the changelog",
		},
		"source topic as changelog, internal": {
			new(B).AddSource("a", "x").AddRepartition("r").AddSink("k", "r", "a").AddSource("b", "r").AddProcessor("p", "b").AddStateStore(topology.Store{Name: "s", SourceTopic: "r"}, "p"),
			topology.KindStore, "s", "is deleted from it",
		},
		"source topic as changelog, global": {
			new(B).AddSource("a", "x").AddProcessor("p", "a").AddGlobalStore("g", "gs", "t", "gp").AddStateStore(topology.Store{Name: "s", SourceTopic: "t"}, "p"),
			topology.KindStore, "s", "belongs to a global store",
		},
		"source topic as changelog, of another subtopology": {
			new(B).AddSource("a", "x").AddProcessor("p", "a").AddSource("b", "y").AddStateStore(topology.Store{Name: "s", SourceTopic: "y"}, "p"),
			topology.KindStore, "s", "another subtopology",
		},
		"source topic as changelog, twice": {
			new(B).AddSource("a", "x").AddProcessor("p", "a").AddStateStore(topology.Store{Name: "s", SourceTopic: "x"}, "p").AddStateStore(topology.Store{Name: "t", SourceTopic: "x"}, "p"),
			topology.KindStore, "t", `of store "s" already`,
		},
		"child of a global store":          {new(B).AddSource("a", "x").AddGlobalStore("g", "gs", "t", "gp").AddSink("s", "y", "gp"), topology.KindNode, "s", "global store"},
		"connects a global store":          {new(B).AddSource("a", "x").AddProcessor("p", "a").AddGlobalStore("g", "gs", "t", "gp").ConnectStore("g", "p"), topology.KindStore, "g", "global store"},
		"connects with a global processor": {new(B).AddSource("a", "x").AddGlobalStore("g", "gs", "t", "gp").AddStateStore(topology.Store{Name: "s"}, "gp"), topology.KindStore, "s", "global store"},
		"global store taken":               {new(B).AddSource("a", "x").AddStateStore(topology.Store{Name: "s"}).AddGlobalStore("s", "gs", "t", "gp"), topology.KindStore, "s", "taken"},
		"copartition of nothing":           {new(B).AddSource("a", "x").Copartition(), topology.KindCopartition, "", "no source"},
		"copartition of processors":        {new(B).AddSource("a", "x").AddProcessor("p", "a").Copartition("p"), topology.KindCopartition, "p", "no source"},
		"copartition of a sink":            {new(B).AddSource("a", "x").AddSink("s", "y", "a").Copartition("a", "s"), topology.KindCopartition, "s", "a sink"},
		"subtopology without id":           {new(B).AddSource("a", "x").Subtopology("", "a"), topology.KindSubtopology, "", "empty"},
		"subtopology of no node":           {new(B).AddSource("a", "x").Subtopology("n", "b"), topology.KindSubtopology, "n", `"b", which does not exist`},
		"subtopology of a global store":    {new(B).AddSource("a", "x").AddGlobalStore("g", "gs", "t", "gp").Subtopology("n", "gp"), topology.KindSubtopology, "n", "global store"},
		"subtopology named twice":          {new(B).AddSource("a", "x").Subtopology("0", "a").Subtopology("n", "a"), topology.KindSubtopology, "n", `called "0" already`},
		"subtopology takes a number":       {new(B).AddSource("a", "x").AddSource("b", "y").Subtopology("1", "a"), topology.KindSubtopology, "1", "twice"},
		"prefixed setting":                 {new(B).AddSource("a", "x").TopicConfig("topic.segment.bytes", "1"), topology.KindSetting, "topic.segment.bytes", "prefix"},
		"setting without name":             {new(B).AddSource("a", "x").TopicConfig("", "1"), topology.KindSetting, "", "no name"},
		"negative window extra":            {new(B).AddSource("a", "x").WindowRetentionExtra(-1), topology.KindSetting, "window retention extra", "negative"},

		"empty":             {new(B), topology.KindApplication, "appId", "reads nothing"},
		"only global":       {new(B).AddGlobalStore("g", "gs", "t", "gp"), topology.KindApplication, "appId", "no task"},
		"subtopology taken": {new(B).AddSource("a", "x").AddSource("b", "y").Subtopology("n", "a").Subtopology("n", "b"), topology.KindSubtopology, "n", "twice"},
		"negative epoch":    {new(B).AddSource("a", "x").Epoch(-1), topology.KindSetting, "epoch", "-1"},
		"replication":       {new(B).AddSource("a", "x").ReplicationFactor(0), topology.KindSetting, "replication factor", "0"},
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
}

func TestBuildChecksTheApplicationID(t *testing.T) {
	t.Parallel()
	for app, says := range map[string]string{
		"":                       "empty",
		"no good":                "' '",
		strings.Repeat("a", 250): "249",
	} {
		_, err := new(topology.Builder).AddSource("a", "x").Build(app)
		var e *topology.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, topology.KindApplication, e.Kind)
		assert.Equal(t, app, e.Name)
		assert.Contains(t, e.Reason, says)
	}
}

func TestBuildReportsAllFaults(t *testing.T) {
	t.Parallel()
	_, err := new(topology.Builder).AddSource("a").AddProcessor("p").Build("x")
	var joined interface{ Unwrap() []error }
	require.True(t, errors.As(err, &joined))
	assert.Len(t, joined.Unwrap(), 2)
}

// A count that is fixed, or comes from outside, anchors a circle.
func TestBuildTakesAnchoredCircles(t *testing.T) {
	t.Parallel()
	circle := func(b *topology.Builder) *topology.Builder {
		return b.AddRepartition("q").AddSource("a", "r").AddSink("to-q", "q", "a").AddSource("b", "q").AddSink("to-r", "r", "b")
	}
	build(t, circle(new(topology.Builder).AddRepartition("r", 3)))
	build(t, circle(new(topology.Builder).AddRepartition("r")).AddSource("in", "in").AddSink("in-r", "r", "in"))
	build(t, circle(new(topology.Builder).AddRepartition("r")).AddSourcePattern("in", "in.*").AddSink("in-r", "r", "in"))
}

// TP-17: counts conflict only if all of them are fixed.
func TestTP17OneCountLeftOpen(t *testing.T) {
	t.Parallel()
	build(t, new(topology.Builder).AddSource("a", "x").
		AddRepartition("r", 2).AddRepartition("q", 3).AddRepartition("o").
		AddSink("r", "r", "a").AddSink("q", "q", "a").AddSink("o", "o", "a").
		AddSource("rs", "r").AddSource("qs", "q").AddSource("os", "o").
		AddProcessor("join", "rs", "qs", "os").Copartition("rs", "qs", "os"))
}

// Another application's topics may begin with our application id.
func TestBuildTakesTopicsOfOthers(t *testing.T) {
	t.Parallel()
	build(t, new(topology.Builder).AddSource("a", "appId-2-s-changelog"))
}

func manyTopics(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("t%05d", i)
	}
	return out
}
