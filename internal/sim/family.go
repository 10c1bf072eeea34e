package sim

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/topology"
)

const application = "shop"

// families are the lines of topologies that an application goes through, one
// version after the other. The last one is rolled out again and again under new
// epochs.
var families = [...][]func(*topology.Builder){
	{one},
	{two},
	{two, audited},        // everything is renumbered
	{two, merged, two},    // topics move between subtopologies
	{one, withStore, two}, // a store is added, then a source
	{named, namedAudited, named},
}

func one(b *topology.Builder) {
	b.AddSource("orders-source", "orders").AddProcessor("bill", "orders-source")
}

func withStore(b *topology.Builder) {
	one(b)
	b.AddStateStore(topology.Store{Name: "bills"}, "bill")
}

func two(b *topology.Builder) {
	withStore(b)
	b.AddSource("items-source", "items").AddProcessor("count", "items-source")
}

func audited(b *topology.Builder) {
	b.AddSource("audit-source", "audit").AddProcessor("audit", "audit-source")
	two(b)
}

func merged(b *topology.Builder) {
	withStore(b)
	b.AddSource("items-source", "items").AddProcessor("count", "items-source", "bill")
}

func named(b *topology.Builder) {
	two(b)
	b.Subtopology("billing", "bill").Subtopology("counting", "count")
}

func namedAudited(b *topology.Builder) {
	audited(b)
	b.Subtopology("billing", "bill").Subtopology("counting", "count")
}

// version is one version of the application.
type version struct {
	topo *topology.Topology
	wire *kmsg.StreamsGroupHeartbeatRequestTopology
	// works is what the tasks of a subtopology work on: source and changelog
	// topics, as numbers. What source patterns match is not among them.
	works map[string][]int
	// matches are the topics that source patterns match, if they exist.
	matches map[string][]int
}

// worked are the topics of all families. Their places stand for them.
var worked = []string{"orders", "items", "audit", application + "-bills-changelog", application + "-counts-changelog"}

// externals are the topics that nobody creates but the operator.
const externals = 3

// versions are all versions of all families.
var versions = func() (out [len(families)][maxEpochs]*version) {
	for family := range families {
		for epoch := range maxEpochs {
			out[family][epoch] = newVersion(family, epoch)
		}
	}
	return out
}()

// stateful is a family for searches: one subtopology, with state.
const stateful = len(families)

// scopeVersions are the versions of all families and of stateful.
var scopeVersions = func() [len(families) + 1][maxEpochs]*version {
	var out [len(families) + 1][maxEpochs]*version
	copy(out[:], versions[:])
	for epoch := range maxEpochs {
		var b topology.Builder
		withStore(&b)
		out[stateful][epoch] = buildVersion(&b, epoch)
	}
	return out
}()

// maxEpochs bounds the number of upgrades in one world.
const maxEpochs = 12

func newVersion(family, epoch int) *version {
	f := families[family]
	var b topology.Builder
	f[min(epoch, len(f)-1)](&b)
	return buildVersion(&b, epoch)
}

func buildVersion(b *topology.Builder, epoch int) *version {
	topo, err := b.Epoch(int32(epoch)).Build(application)
	if err != nil {
		panic(err)
	}
	v := &version{topo: topo, wire: topo.Wire(), works: map[string][]int{}, matches: map[string][]int{}}
	for _, s := range topo.Subtopologies() {
		for _, topic := range slices.Concat(topo.Sources(s), topo.Changelogs(s)) {
			v.works[s] = append(v.works[s], slices.Index(worked, topic))
		}
	}
	for _, s := range v.wire.Subtopologies {
		for _, pattern := range s.SourceTopicRegex {
			v.matches[s.SubtopologyID] = append(v.matches[s.SubtopologyID], slices.Index(worked, strings.TrimSuffix(pattern, ".*")))
		}
	}
	return v
}
