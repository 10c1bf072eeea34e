package topology_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/streamsgroup/streamsgroup/topology"
)

// graph is a random application. Maps hold what has no order.
type graph struct {
	nodes        []graphNode
	repartitions map[string]int32
	stores       map[string]graphStore
	copartition  map[string][]string
	settings     map[string]string
}

type graphNode struct {
	name    string
	source  bool
	sink    string // its topic
	parents []string
	topics  []string
}

type graphStore struct {
	store topology.Store
	users []string
}

func drawGraph(t *rapid.T) graph {
	g := graph{
		repartitions: map[string]int32{},
		stores:       map[string]graphStore{},
		copartition:  map[string][]string{},
		settings:     map[string]string{},
	}
	var sources, parents, processors []string
	addSource := func(topics ...string) {
		name := fmt.Sprintf("source-%d", len(g.nodes))
		g.nodes = append(g.nodes, graphNode{name: name, source: true, topics: topics})
		sources, parents = append(sources, name), append(parents, name)
	}
	addSource("first")
	for i := range rapid.IntRange(1, 25).Draw(t, "steps") {
		switch rapid.IntRange(0, 4).Draw(t, "step") {
		case 0:
			topics := make([]string, rapid.IntRange(1, 3).Draw(t, "topics"))
			for j := range topics {
				topics[j] = fmt.Sprintf("topic-%d-%d", 40-i, j)
			}
			addSource(topics...)
		case 1, 2:
			name := fmt.Sprintf("processor-%d", i)
			from := rapid.SliceOfNDistinct(rapid.SampledFrom(parents), 1, min(3, len(parents)), rapid.ID[string]).Draw(t, "parents")
			g.nodes = append(g.nodes, graphNode{name: name, parents: from})
			parents, processors = append(parents, name), append(processors, name)
		case 3:
			topic := fmt.Sprintf("hop-%d", i)
			g.repartitions[topic] = rapid.SampledFrom([]int32{0, 0, 0, 4}).Draw(t, "partitions")
			from := rapid.SampledFrom(parents).Draw(t, "parent")
			g.nodes = append(g.nodes, graphNode{name: "sink-" + topic, sink: topic, parents: []string{from}})
			addSource(topic)
		case 4:
			// A join: the sources meet in one processor, so the set has a place.
			from := rapid.SliceOfNDistinct(rapid.SampledFrom(sources), 1, min(4, len(sources)), rapid.ID[string]).Draw(t, "joined")
			name := fmt.Sprintf("join-%d", i)
			g.nodes = append(g.nodes, graphNode{name: name, parents: from})
			g.copartition[name] = from
			parents, processors = append(parents, name), append(processors, name)
		}
	}
	if len(processors) > 0 {
		for i := range rapid.IntRange(0, 5).Draw(t, "stores") {
			g.stores[fmt.Sprintf("store-%d", i)] = graphStore{
				store: topology.Store{
					Kind:            topology.StoreKind(rapid.IntRange(0, 2).Draw(t, "kind")),
					ChangelogConfig: map[string]string{"segment.bytes": "1", "retention.bytes": "2", "flush.ms": strconv.Itoa(i)},
				},
				users: rapid.SliceOfNDistinct(rapid.SampledFrom(processors), 0, min(3, len(processors)), rapid.ID[string]).Draw(t, "users"),
			}
		}
	}
	for _, s := range []string{"segment.ms", "min.insync.replicas", "retention.ms", "cleanup.policy"} {
		if rapid.Bool().Draw(t, s) {
			g.settings[s] = "1"
		}
	}
	return g
}

// builder adds the graph in an order of its own wherever order has no meaning:
// that of Go's maps, and shuffled lists.
func (g graph) builder(t *rapid.T) *topology.Builder {
	shuffled := func(in []string) []string { return rapid.Permutation(in).Draw(t, "order") }
	var b topology.Builder
	addSettings := func() {
		for k, v := range g.settings {
			b.TopicConfig(k, v)
		}
	}
	addRepartitions := func() {
		for name, n := range g.repartitions {
			b.AddRepartition(name, n)
		}
	}
	settingsFirst := rapid.Bool().Draw(t, "settings first")
	if settingsFirst {
		addSettings()
		addRepartitions()
	}
	for _, n := range g.nodes {
		switch {
		case n.source:
			b.AddSource(n.name, shuffled(n.topics)...)
		case n.sink != "":
			b.AddSink(n.name, n.sink, n.parents...)
		default:
			b.AddProcessor(n.name, shuffled(n.parents)...)
		}
	}
	for name, s := range g.stores {
		s.store.Name = name
		b.AddStateStore(s.store, shuffled(s.users)...)
	}
	for _, sources := range g.copartition {
		b.Copartition(shuffled(sources)...)
	}
	if !settingsFirst {
		addSettings()
		addRepartitions()
	}
	return &b
}

// bytes is what the application sends when it joins, and when it is asked for
// its description.
func bytes(top *topology.Topology) []byte {
	join := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	join.Topology = top.Wire()
	push := kmsg.NewPtrStreamsGroupTopologyDescriptionUpdateRequest()
	push.TopologyDescription = *top.Description()
	return push.AppendTo(join.AppendTo(nil))
}

// TP-20: instances that register the same graph put the same bytes on the wire,
// whatever the order of maps (CC-155).
func TestTP20Determinism(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		one, err := g.builder(t).Build("app")
		other, otherErr := g.builder(t).Build("app")
		require.Equal(t, err == nil, otherErr == nil, "%v / %v", err, otherErr)
		if err != nil {
			// Counts fixed at random may contradict each other: nothing else can.
			require.ErrorContains(t, err, "differ")
			return
		}
		require.Equal(t, bytes(one), bytes(other))
		require.Equal(t, one.Describe(), other.Describe())
	})
}

// Rules TP-1 to TP-8 and TP-14 to TP-19 on random graphs, against definitions
// that are as plain as can be.
func TestBuildProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		for name := range g.repartitions {
			g.repartitions[name] = 0
		}
		top, err := g.builder(t).Build("app")
		require.NoError(t, err)
		groups := g.connected()

		require.Len(t, top.Subtopologies(), len(groups), "TP-1")
		w := top.Wire()
		require.True(t, slices.IsSorted(top.Subtopologies()), "TP-18")
		attached := 0
		for i := range w.Subtopologies {
			s := &w.Subtopologies[i]
			number, err := strconv.Atoi(s.SubtopologyID)
			require.NoError(t, err)
			want := g.topics(groups[number])
			assert.Equal(t, want.external, s.SourceTopics, "TP-2, TP-5")
			assert.Equal(t, want.repartition, names(s.RepartitionSourceTopics), "TP-6")
			assert.Equal(t, want.sinks, s.RepartitionSinkTopics, "TP-7")
			assert.Equal(t, want.changelogs, names(s.StateChangelogTopics), "TP-8")
			for _, topic := range slices.Concat(s.StateChangelogTopics, s.RepartitionSourceTopics) {
				assert.True(t, slices.IsSortedFunc(topic.Configs, func(a, b kmsg.TopicInfoConfig) int { return strings.Compare(a.Key, b.Key) }), "TP-18")
			}
			seen := map[string]bool{}
			for _, c := range s.CopartitionGroups {
				attached++
				assert.True(t, slices.IsSorted(c.SourceTopics) && slices.IsSorted(c.RepartitionSourceTopics), "TP-19")
				for _, topic := range copartitioned(s, c) {
					assert.False(t, seen[topic], "TP-14: groups that share a topic are one")
					seen[topic] = true
				}
			}
			for _, sources := range g.copartition {
				assert.True(t, g.together(sources, s), "TP-15: no set is torn apart or lost")
			}
		}
		assert.LessOrEqual(t, attached, len(g.copartition))

		again, err := topology.FromWire(w)
		require.NoError(t, err)
		assert.Equal(t, w, again.Wire())
	})
}

// connected are the names of the nodes of each connected part, in the order of
// their first nodes.
func (g graph) connected() [][]string {
	label := map[string]int{}
	for i, n := range g.nodes {
		label[n.name] = i
	}
	for changed := true; changed; {
		changed = false
		join := func(a, b string) {
			if low := min(label[a], label[b]); label[a] != low || label[b] != low {
				label[a], label[b], changed = low, low, true
			}
		}
		for _, n := range g.nodes {
			for _, p := range n.parents {
				join(n.name, p)
			}
		}
		for _, s := range g.stores {
			for _, u := range s.users {
				join(u, s.users[0])
			}
		}
	}
	firsts := slices.Compact(slices.Sorted(maps.Values(label)))
	groups := make([][]string, 0, len(firsts))
	for _, first := range firsts {
		var group []string
		for _, n := range g.nodes {
			if label[n.name] == first {
				group = append(group, n.name)
			}
		}
		groups = append(groups, group)
	}
	return groups
}

type topicLists struct{ external, repartition, sinks, changelogs []string }

func (g graph) topics(group []string) topicLists {
	l := topicLists{[]string{}, []string{}, []string{}, []string{}}
	for _, n := range g.nodes {
		if !slices.Contains(group, n.name) {
			continue
		}
		for _, topic := range n.topics {
			if _, ok := g.repartitions[topic]; ok {
				l.repartition = append(l.repartition, "app-"+topic+"-repartition")
			} else {
				l.external = append(l.external, topic)
			}
		}
		if n.sink != "" {
			l.sinks = append(l.sinks, "app-"+n.sink+"-repartition")
		}
	}
	for name, s := range g.stores {
		if slices.ContainsFunc(s.users, func(u string) bool { return slices.Contains(group, u) }) {
			l.changelogs = append(l.changelogs, "app-"+name+"-changelog")
		}
	}
	for _, list := range [][]string{l.external, l.repartition, l.sinks, l.changelogs} {
		slices.Sort(list)
	}
	return l
}

// together is whether all topics of some sources are in one copartition group,
// or none of them is in this subtopology.
func (g graph) together(sources []string, s *kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) bool {
	var topics []string
	for _, n := range g.nodes {
		if slices.Contains(sources, n.name) {
			for _, topic := range n.topics {
				if _, ok := g.repartitions[topic]; ok {
					topic = "app-" + topic + "-repartition"
				}
				topics = append(topics, topic)
			}
		}
	}
	if !slices.Contains(s.SourceTopics, topics[0]) && !slices.Contains(names(s.RepartitionSourceTopics), topics[0]) {
		return true
	}
	return slices.ContainsFunc(s.CopartitionGroups, func(c kmsg.StreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup) bool {
		in := copartitioned(s, c)
		return !slices.ContainsFunc(topics, func(t string) bool { return !slices.Contains(in, t) })
	})
}

func copartitioned(s *kmsg.StreamsGroupHeartbeatRequestTopologySubtopology, c kmsg.StreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup) []string {
	out := make([]string, 0, len(c.SourceTopics)+len(c.RepartitionSourceTopics))
	for _, i := range c.SourceTopics {
		out = append(out, s.SourceTopics[i])
	}
	for _, i := range c.RepartitionSourceTopics {
		out = append(out, s.RepartitionSourceTopics[i].Topic)
	}
	return out
}

func names(infos []kmsg.TopicInfo) []string {
	out := make([]string, len(infos))
	for i := range infos {
		out[i] = infos[i].Topic
	}
	return out
}
