package main

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/internal/story"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// application is what the members of one run share.
type application struct {
	group    string
	topology *topology.Topology
	kgoOpts  []kgo.Opt
	account  *account
	ledger   *ledger
	teller   story.Teller
	// membersTell is whether the members' own events are printed: where the
	// coordinator is not ours, nobody else can say why tasks move.
	membersTell bool
	played      bool // the text was counted to the end

	linesPartitions              int
	linesTopic, repartitionTopic string
	changelogTopic, countsTopic  string
	linesSplit, wordsCounted     atomic.Int64
}

func (a *application) processed(subtopology string, n int) {
	if subtopology == splitTask {
		a.linesSplit.Add(int64(n))
	} else {
		a.wordsCounted.Add(int64(n))
	}
}

func (a *application) memberEvent(name string, e membership.Event) {
	if a.membersTell {
		a.account.say(name, a.teller.Member(name, e))
	}
}

// buildTopology is the classic word count:
//
//	lines -> split -> (repartition) -> count with a store and changelog -> counts
func buildTopology(group, lines, counts string) (*topology.Topology, error) {
	var b topology.Builder
	b.AddSource("lines", lines)
	b.AddProcessor("split", "lines")
	b.AddRepartition("words")
	b.AddSink("words-out", "words", "split")
	b.AddSource("words", "words")
	b.AddProcessor("count", "words")
	b.AddStateStore(topology.Store{Name: "word-counts"}, "count")
	b.AddSink("counts-out", counts, "count")
	return b.Build(group)
}
