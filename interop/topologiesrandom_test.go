package interop_test

import (
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/streamsgroup/streamsgroup/internal/kafkagraph"
)

// grower makes up a graph.
type grower struct {
	*rand.Rand
	g       kafkagraph.Graph
	parents []string            // nodes that may have children
	sources map[string][]string // by node, the sources that it takes records from
	topics  []string            // read by sources that make tasks
	reads   map[string]bool     // internal topics that have a source
	names   int
}

func (g *grower) oneIn(n int) bool { return g.IntN(n) == 0 }

func pick[T any](g *grower, of ...T) T { return of[g.IntN(len(of))] }

// name makes up a name: those of nodes and stores may be any text.
func (g *grower) name(legal bool) string {
	g.names++
	n := strconv.Itoa(g.names)
	if legal {
		return pick(g, "t", "T", "a.b", "_x-", "0", "app", "Z") + n
	}
	return pick(g, "n", "N", "", "10", "é", "ｆ", "😀", "a b", "a-", "-", "KSTREAM-SOURCE-000000000") + n
}

func randomGraph(r *rand.Rand) kafkagraph.Case {
	g := &grower{Rand: r, sources: map[string][]string{}, reads: map[string]bool{}}
	c := kafkagraph.Case{Config: g.config(), Graph: &g.g}
	g.g.Nodes, g.g.Stores, g.g.InternalTopics, g.g.Copartition = []kafkagraph.Node{}, []kafkagraph.Store{}, []kafkagraph.Topic{}, [][]string{}
	for range g.IntN(5) {
		t := kafkagraph.Topic{Name: g.name(true) + pick(g, "", "", "-repartition", "-topic", "-changelog")}
		if g.oneIn(3) {
			t.Partitions = int32(1 + g.IntN(3))
		}
		g.g.InternalTopics = append(g.g.InternalTopics, t)
	}
	g.add(kafkagraph.Node{Kind: "source", Name: g.name(false), Topics: []string{g.name(true)}})
	for range g.IntN(30) {
		switch g.IntN(12) {
		case 0, 1, 2:
			g.source()
		case 3:
			if g.oneIn(3) {
				g.globalStore()
			}
		case 4, 5:
			g.sink(nil)
		default:
			g.processor()
		}
	}
	for _, t := range g.g.InternalTopics {
		if !g.reads[t.Name] && !g.oneIn(20) {
			g.add(kafkagraph.Node{Kind: "source", Name: g.name(false), Topics: []string{t.Name}})
		}
		if !g.oneIn(10) {
			g.sink(&t.Name)
		}
	}
	for range g.IntN(6) {
		g.store()
	}
	for range g.IntN(4) {
		g.copartition()
	}
	return c
}

func (g *grower) config() map[string]string {
	config := map[string]string{}
	may := func(oneIn int, key string, values ...string) {
		if g.oneIn(oneIn) {
			config[key] = pick(g, values...)
		}
	}
	may(8, "replication.factor", "-1", "1", "3", "32767")
	may(8, "windowstore.changelog.additional.retention.ms", "0", "1", "9223372036854775807", "9223372036854")
	may(8, "topic.segment.bytes", "1000000")
	may(8, "topic.retention.ms", "-1", "17")
	may(8, "topic.cleanup.policy", "delete", "compact", "compact,delete", "")
	may(8, "topic.min.compaction.lag.ms", "3")
	may(8, "topic.message.timestamp.type", "LogAppendTime")
	may(12, "topic.message.timestamp.before.max.ms", "5")
	return config
}

func (g *grower) add(n kafkagraph.Node) {
	g.g.Nodes = append(g.g.Nodes, n)
	var from []string
	if n.Kind == "source" && !n.Global {
		from = []string{n.Name}
		for _, t := range n.Topics {
			g.reads[t] = true
			g.topics = append(g.topics, t)
		}
	}
	for _, p := range n.Parents {
		from = append(from, g.sources[p]...)
	}
	slices.Sort(from)
	g.sources[n.Name] = slices.Compact(from)
	if n.Kind != "sink" && !n.Global {
		g.parents = append(g.parents, n.Name)
	}
}

func (g *grower) source() {
	n := kafkagraph.Node{Kind: "source", Name: g.name(false)}
	if g.oneIn(60) {
		n.Pattern = g.name(true) + ".*"
		g.add(n)
		return
	}
	for range 1 + g.IntN(3) {
		topic := g.name(true)
		if len(g.g.InternalTopics) > 0 && g.oneIn(5) {
			topic = pick(g, g.g.InternalTopics...).Name
		}
		if !g.reads[topic] && !slices.Contains(n.Topics, topic) {
			n.Topics = append(n.Topics, topic)
		}
	}
	if len(n.Topics) > 0 {
		g.add(n)
	}
}

func (g *grower) above() []string {
	var out []string
	for range 1 + g.IntN(1+g.IntN(4)) {
		if p := pick(g, g.parents...); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

func (g *grower) processor() {
	g.add(kafkagraph.Node{Kind: "processor", Name: g.name(false), Parents: g.above()})
}

func (g *grower) sink(topic *string) {
	n := kafkagraph.Node{Kind: "sink", Name: g.name(false), Parents: g.above(), Topic: topic}
	switch {
	case topic != nil:
	case g.oneIn(5): // chosen for each record
	case len(g.g.InternalTopics) > 0 && g.oneIn(2):
		t := pick(g, g.g.InternalTopics...).Name
		n.Topic = &t
	case g.oneIn(3):
		t := pick(g, g.topics...)
		n.Topic = &t
	default:
		t := g.name(true)
		n.Topic = &t
	}
	g.add(n)
}

func (g *grower) globalStore() {
	source, store := g.name(false), g.name(true)
	g.g.Nodes = append(g.g.Nodes,
		kafkagraph.Node{Kind: "source", Name: source, Topics: []string{g.name(true)}, Global: true},
		kafkagraph.Node{Kind: "processor", Name: g.name(false), Parents: []string{source}, GlobalStores: []string{store}})
}

func (g *grower) store() {
	s := kafkagraph.Store{Name: g.name(!g.oneIn(30)), Kind: pick(g, "keyvalue", "windowed", "versioned"), Logging: !g.oneIn(5)}
	switch s.Kind {
	case "windowed":
		s.RetentionMs = pick[int64](g, 0, 1, 86400000, 86400001, 9223372036854)
	case "versioned":
		s.HistoryRetentionMs = pick[int64](g, 0, 1, 86400000, 9223372036854)
	}
	if s.Logging && g.oneIn(3) {
		s.ChangelogConfig = map[string]string{}
		for range 1 + g.IntN(3) {
			s.ChangelogConfig[pick(g, "segment.bytes", "retention.ms", "cleanup.policy", "min.compaction.lag.ms", "message.timestamp.type", "x")] = pick(g, "1", "delete", "")
		}
	}
	var processors []int
	for i, n := range g.g.Nodes {
		if n.Kind == "processor" && len(n.GlobalStores) == 0 {
			processors = append(processors, i)
		}
	}
	if len(processors) > 0 {
		for range g.IntN(4) {
			n := &g.g.Nodes[pick(g, processors...)]
			if !slices.Contains(n.Stores, s.Name) {
				n.Stores = append(n.Stores, s.Name)
			}
			if !s.Logging && s.SourceTopicAsChangelog == "" && g.oneIn(2) {
				s.SourceTopicAsChangelog = g.topicAbove(n.Name)
			}
		}
	}
	g.g.Stores = append(g.g.Stores, s)
}

// topicAbove is a topic whose records the node takes.
func (g *grower) topicAbove(node string) string {
	source := pick(g, g.sources[node]...)
	for _, n := range g.g.Nodes {
		if n.Name == source && len(n.Topics) > 0 {
			return pick(g, n.Topics...)
		}
	}
	return ""
}

func (g *grower) copartition() {
	set := slices.Clone(g.sources[pick(g, g.parents...)])
	if g.oneIn(3) {
		g.Shuffle(len(set), func(i, j int) { set[i], set[j] = set[j], set[i] })
		set = set[:1+g.IntN(len(set))]
	}
	if g.oneIn(10) {
		for _, other := range g.sources[pick(g, g.parents...)] {
			if !slices.Contains(set, other) {
				set = append(set, other)
			}
		}
	}
	g.g.Copartition = append(g.g.Copartition, set)
}
