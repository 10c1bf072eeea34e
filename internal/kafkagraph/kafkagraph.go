// Package kafkagraph rebuilds with this project's builder what Kafka Streams
// built: graphs, node by node as they were registered, with what Kafka Streams
// puts on the wire for them.
package kafkagraph

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamsgroup/streamsgroup/topology"
)

// Case is one graph, and Kafka's answer to it.
type Case struct {
	Name   string            `json:"name"`
	Config map[string]string `json:"config"`
	// Graph is absent where Kafka refuses the program before there is a graph.
	Graph *Graph `json:"graph,omitempty"`
	// Topology and Description are what Kafka sends, in the names of its schemas.
	Topology    any       `json:"topology,omitempty"`
	Description any       `json:"description,omitempty"`
	Rejected    *Rejected `json:"rejected,omitempty"`
}

// Rejected says that Kafka refuses a graph: when it is built, or when the
// instance starts.
type Rejected struct {
	When      string `json:"when"`
	Exception string `json:"exception"`
	Message   string `json:"message"`
}

// Graph holds topics without the application's prefix.
type Graph struct {
	Nodes          []Node     `json:"nodes"`
	Stores         []Store    `json:"stores"`
	InternalTopics []Topic    `json:"internalTopics"`
	Copartition    [][]string `json:"copartition"` // names of source nodes
}

// Node is a source, a processor or a sink.
type Node struct {
	Kind         string   `json:"kind"`
	Name         string   `json:"name"`
	Topics       []string `json:"topics,omitempty"`
	Pattern      string   `json:"pattern,omitempty"`
	Global       bool     `json:"global,omitempty"`
	Parents      []string `json:"parents,omitempty"`
	Stores       []string `json:"stores,omitempty"`
	GlobalStores []string `json:"globalStores,omitempty"`
	// Topic is nil if a sink chooses it for each record.
	Topic *string `json:"topic,omitempty"`
}

// Store is a state store of kind keyvalue, windowed or versioned.
type Store struct {
	Name                   string            `json:"name"`
	Kind                   string            `json:"kind"`
	Logging                bool              `json:"logging"`
	RetentionMs            int64             `json:"retentionMs,omitempty"`
	HistoryRetentionMs     int64             `json:"historyRetentionMs,omitempty"`
	ChangelogConfig        map[string]string `json:"changelogConfig,omitempty"`
	SourceTopicAsChangelog string            `json:"sourceTopicAsChangelog,omitempty"`
}

// Topic is an internal topic. Without a number of partitions the coordinator
// decides.
type Topic struct {
	Name       string `json:"name"`
	Partitions int32  `json:"partitions,omitempty"`
}

// Builder rebuilds the graph.
func (c *Case) Builder() (*topology.Builder, error) {
	var b topology.Builder
	for key, value := range c.Config {
		if err := set(&b, key, value); err != nil {
			return nil, fmt.Errorf("setting %s: %w", key, err)
		}
	}
	for _, t := range c.Graph.InternalTopics {
		b.AddInternalTopic(t.Name, t.Partitions)
	}
	users, fills := map[string][]string{}, map[string]Node{}
	for _, n := range c.Graph.Nodes {
		for _, s := range n.Stores {
			users[s] = append(users[s], n.Name)
		}
		if len(n.GlobalStores) > 0 {
			fills[n.Parents[0]] = n
		}
	}
	for _, n := range c.Graph.Nodes {
		switch {
		case n.Global:
			p := fills[n.Name]
			b.AddGlobalStore(p.GlobalStores[0], n.Name, n.Topics[0], p.Name)
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
	kinds := map[string]topology.StoreKind{"keyvalue": topology.KeyValue, "windowed": topology.Windowed, "versioned": topology.Versioned}
	for _, s := range c.Graph.Stores {
		b.AddStateStore(topology.Store{
			Name:            s.Name,
			Kind:            kinds[s.Kind],
			Retention:       millis(max(s.RetentionMs, s.HistoryRetentionMs)),
			NoChangelog:     !s.Logging,
			ChangelogConfig: s.ChangelogConfig,
			SourceTopic:     s.SourceTopicAsChangelog,
		}, users[s.Name]...)
	}
	for _, set := range c.Graph.Copartition {
		if set := c.Graph.registered(set); len(set) > 0 {
			b.Copartition(set...)
		}
	}
	return &b, nil
}

// registered drops from a copartition set what is no source and the names of
// sources that were merged with others: Kafka's DSL leaves both behind, and
// Kafka ignores them. A builder has to take a name that it does not know for a
// mistake.
func (g *Graph) registered(set []string) []string {
	return slices.DeleteFunc(slices.Clone(set), func(name string) bool {
		return !slices.ContainsFunc(g.Nodes, func(n Node) bool { return n.Name == name && n.Kind == "source" })
	})
}

// set takes the settings of an application that reach the wire. What others
// change is in the graph already.
func set(b *topology.Builder, key, value string) error {
	switch {
	case strings.HasPrefix(key, "topic."):
		b.TopicConfig(strings.TrimPrefix(key, "topic."), value)
	case key == "replication.factor":
		n, err := strconv.ParseInt(value, 10, 16)
		if err != nil {
			return err
		}
		b.ReplicationFactor(int16(n))
	case key == "windowstore.changelog.additional.retention.ms":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return err
		}
		b.WindowRetentionExtra(millis(n))
	}
	return nil
}

func millis(n int64) time.Duration {
	if n > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Millisecond
}

// Canonical returns a Topology of Kafka with its copartition groups in this
// project's form. Their order follows from Java's hashing; and groups that
// overlap, which Kafka may keep apart, become one (rule TP-14).
func Canonical(wire any) (any, error) {
	raw, err := json.Marshal(wire)
	if err != nil {
		return nil, err
	}
	var t object
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, err
	}
	subs, _ := t["subtopologies"].([]any)
	for _, s := range subs {
		if sub, ok := s.(object); ok {
			groups, _ := sub["copartitionGroups"].([]any)
			sub["copartitionGroups"] = canonical(groups)
		}
	}
	return t, nil
}

// lists are what a copartition group consists of.
var lists = []string{"sourceTopics", "sourceTopicRegex", "repartitionSourceTopics"}

func canonical(groups []any) []any {
	sets := []map[string][]int{}
	for _, g := range groups {
		group, _ := g.(object)
		set := map[string][]int{}
		for _, list := range lists {
			indexes, _ := group[list].([]any)
			for _, i := range indexes {
				set[list] = append(set[list], int(i.(float64)))
			}
		}
		sets = slices.DeleteFunc(sets, func(other map[string][]int) bool {
			if !overlap(set, other) {
				return false
			}
			for _, list := range lists {
				set[list] = append(set[list], other[list]...)
			}
			return true
		})
		sets = append(sets, set)
	}
	for _, set := range sets {
		for _, list := range lists {
			slices.Sort(set[list])
			set[list] = slices.Compact(set[list])
		}
	}
	slices.SortFunc(sets, func(a, b map[string][]int) int {
		return cmp.Or(
			slices.Compare(a["sourceTopics"], b["sourceTopics"]),
			slices.Compare(a["repartitionSourceTopics"], b["repartitionSourceTopics"]),
		)
	})
	out := make([]any, 0, len(sets))
	for _, set := range sets {
		group := object{}
		for _, list := range lists {
			indexes := make([]any, 0, len(set[list]))
			for _, i := range set[list] {
				indexes = append(indexes, float64(i))
			}
			group[list] = indexes
		}
		out = append(out, group)
	}
	return out
}

func overlap(a, b map[string][]int) bool {
	for _, list := range lists {
		if slices.ContainsFunc(a[list], func(i int) bool { return slices.Contains(b[list], i) }) {
			return true
		}
	}
	return false
}
