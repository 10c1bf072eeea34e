package topics

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

func TestRepartitionCounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		top  *record.Topology
		have counts
		want counts
	}{
		{
			"T-14 RP-05 count from an external source",
			topologyOf(sub("0", reads("source1"), fixed("r2", 2), writes("r1", "rx")), sub("1", fixed("r1", 4), flex("rx"))),
			counts{"source1": 3},
			counts{"r1": 4, "r2": 2, "rx": 3},
		},
		{
			"T-15 count from an upstream repartition topic",
			topologyOf(sub("0", reads("source1"), fixed("r1", 4), writes("rx")), sub("1", flex("rx"), writes("r1"))),
			counts{"source1": 3},
			counts{"r1": 4, "rx": 4},
		},
		{
			"RP-07 no repartition topics",
			topologyOf(sub("0", reads("source1"))),
			counts{"source1": 3},
			counts{},
		},
		{
			"RP-08 chain in the order of the ids",
			topologyOf(sub("0", reads("source1"), writes("a")), sub("1", flex("a"), writes("b")), sub("2", flex("b"), writes("c")), sub("3", flex("c"))),
			counts{"source1": 3},
			counts{"a": 3, "b": 3, "c": 3},
		},
		{
			"RP-08 chain in reverse order of the ids",
			topologyOf(sub("3", reads("source1"), writes("a")), sub("2", flex("a"), writes("b")), sub("1", flex("b"), writes("c")), sub("0", flex("c"))),
			counts{"source1": 3},
			counts{"a": 3, "b": 3, "c": 3},
		},
		{
			"RP-09 the first visit decides",
			topologyOf(sub("0", reads("a"), flex("r1"), writes("r2")), sub("1", reads("b"), writes("r1")), sub("2", flex("r2"))),
			counts{"a": 2, "b": 10},
			counts{"r1": 10, "r2": 2},
		},
		{
			"RP-09 with ids that turn the order of visits",
			topologyOf(sub("10", reads("a"), flex("r1"), writes("r2")), sub("9", reads("b"), writes("r1")), sub("x", flex("r2"))),
			counts{"a": 2, "b": 10},
			counts{"r1": 10, "r2": 10},
		},
		{
			"RP-10 two writers of one topic",
			topologyOf(sub("0", reads("source1"), writes("rx")), sub("1", reads("wide"), writes("rx")), sub("2", flex("rx"))),
			counts{"source1": 3, "wide": 8},
			counts{"rx": 3},
		},
		{
			"RP-12 ring with a source outside",
			topologyOf(sub("0", reads("source1"), flex("x"), writes("y")), sub("1", flex("y"), writes("x"))),
			counts{"source1": 3},
			counts{"y": 3, "x": 3},
		},
		{
			"RP-14 fixed topic that nobody writes",
			topologyOf(sub("0", fixed("r1", 4))),
			counts{},
			counts{"r1": 4},
		},
		{
			"a topic that loops back to its own subtopology",
			topologyOf(sub("0", reads("source1"), flex("back"), writes("back", "on")), sub("1", flex("on"))),
			counts{"source1": 3},
			counts{"back": 3, "on": 3},
		},
		{
			"B89 fed by repartition topics only",
			topologyOf(sub("0", reads("in"), writes("r")), sub("1", flex("r"), logs("c"))),
			counts{"in": 6},
			counts{"r": 6, "c": 6},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			eachPolicy(t, func(t policyT) {
				got := configure(t, c.top, c.have, t.o)
				assert.Equal(t, c.want, got.internal())

				other := topologyOf(slices.Clone(c.top.Subtopologies)...)
				slices.Reverse(other.Subtopologies)
				assert.Equal(t, got, configure(t, other, c.have, t.o), "the order of the list is irrelevant")
			})
		})
	}
}

func TestRP02MissingSourceComesFirst(t *testing.T) {
	t.Parallel()
	eachPolicy(t, func(t policyT) {
		status, detail := problem(t, topologyOf(sub("0", reads("source1"), fixed("r2", 2), writes("rx")), sub("1", flex("rx"))), nil, t.o)
		assert.Equal(t, StatusMissingSourceTopics, status)
		assert.Equal(t, "Source topics do not exist: source1", detail)
	})
}

func TestRP13ExistingCountIsNotConsulted(t *testing.T) {
	t.Parallel()
	eachPolicy(t, func(t policyT) {
		status, detail := problem(t, topologyOf(sub("0", reads("source1"), writes("rx")), sub("1", flex("rx"))), counts{"source1": 3, "rx": 5}, t.o)
		assert.Equal(t, StatusIncorrectlyPartitionedTopics, status)
		assert.Equal(t, "Internal topics have the wrong number of partitions: rx has 5, needs 3", detail)
	})
}

// sweep is the rule of the protocol, word for word: sweeps over all
// subtopologies until nothing is open or one makes no progress.
func sweep(subs []record.Subtopology, external counts) (decided counts, cycle bool) {
	decided = counts{}
	for _, s := range subs {
		for _, r := range s.RepartitionSourceTopics {
			if r.Partitions != 0 {
				decided[r.Name] = r.Partitions
			}
		}
	}
	for {
		progress, open := false, false
		for _, s := range subs {
			for _, sink := range s.RepartitionSinkTopics {
				if decided[sink] != 0 {
					continue
				}
				var n int32
				for _, r := range s.RepartitionSourceTopics {
					n = max(n, decided[r.Name])
				}
				for _, e := range s.SourceTopics {
					n = max(n, external[e])
				}
				if n == 0 {
					open = true
					continue
				}
				decided[sink] = n
				progress = true
			}
		}
		if !open {
			return decided, false
		}
		if !progress {
			return decided, true
		}
	}
}

func TestWorkListEqualsSweeps(t *testing.T) {
	t.Parallel()
	cycles, ready := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "subtopologies")
		subs := make([]record.Subtopology, n)
		external := counts{}
		for i := range subs {
			subs[i].ID = strconv.Itoa(i)
		}
		for i := range rapid.IntRange(0, 8).Draw(t, "sources") {
			name, s := fmt.Sprint("e", i), rapid.IntRange(0, n-1).Draw(t, "reader")
			external[name] = rapid.Int32Range(1, 20).Draw(t, "count")
			subs[s].SourceTopics = append(subs[s].SourceTopics, name)
		}
		for i := range rapid.IntRange(0, 14).Draw(t, "repartition") {
			name := fmt.Sprint("r", i)
			reader := rapid.IntRange(0, n-1).Draw(t, "reader")
			count := rapid.SampledFrom([]int32{0, 0, 0, 0, 5, 30}).Draw(t, "fixed")
			subs[reader].RepartitionSourceTopics = append(subs[reader].RepartitionSourceTopics, record.TopicInfo{Name: name, Partitions: count})
			for range rapid.IntRange(1, 2).Draw(t, "writers") {
				w := rapid.IntRange(0, n-1).Draw(t, "writer")
				subs[w].RepartitionSinkTopics = append(subs[w].RepartitionSinkTopics, name)
			}
		}
		for i := range subs {
			if len(subs[i].SourceTopics)+len(subs[i].RepartitionSourceTopics) == 0 {
				subs[i].SourceTopics = []string{"own" + subs[i].ID}
				external["own"+subs[i].ID] = 1
			}
		}
		want, cycle := sweep(subs, external)

		shuffled := rapid.Permutation(subs).Draw(t, "order of the list")
		got, err := Configure(topologyOf(shuffled...), external.image(), kip)
		if cycle {
			cycles++
			require.Error(t, err)
			return
		}
		ready++
		require.NoError(t, err)
		for name, n := range got.internal() {
			require.Equal(t, want[name], n, name)
		}
	})
	if !testing.Short() { // a few topologies may all be of one kind
		assert.Positive(t, cycles)
		assert.Positive(t, ready)
	}
}

func TestCanonicalOrder(t *testing.T) {
	t.Parallel()
	sorted := []string{"0", "01", "1", "2", "10", "99999999999999999999", "100000000000000000000", "", "-1", "0a", "1.5", "a", "b10", "b2"}
	for i, a := range sorted {
		for j, b := range sorted {
			switch got := compareIDs(a, b); {
			case i < j:
				assert.Negative(t, got, "%q, %q", a, b)
			case i > j:
				assert.Positive(t, got, "%q, %q", a, b)
			default:
				assert.Zero(t, got, "%q", a)
			}
		}
	}
}
