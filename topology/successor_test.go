package topology_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/streamsgroup/streamsgroup/topology"
)

// reads makes a footprint without changelogs.
func reads(id string, topics ...string) topology.Footprint {
	return topology.Footprint{ID: id, Sources: topics}
}

func logs(f topology.Footprint, changelogs ...string) topology.Footprint {
	f.Changelogs = changelogs
	return f
}

// Rule X2: who goes on with the work of a replaced topology. Rule X1: who works
// on the same topics without being that.
func TestX2Successors(t *testing.T) {
	t.Parallel()
	type prints = []topology.Footprint
	for name, c := range map[string]struct {
		older, newer prints
		want         map[string]string
		standbys     []string // older ids whose copies are of use
		overlaps     []topology.Overlap
	}{
		"nothing changes": {
			prints{reads("0", "a"), logs(reads("1", "b"), "c")},
			prints{reads("0", "a"), logs(reads("1", "b"), "c")},
			map[string]string{"0": "0", "1": "1"},
			[]string{"0", "1"},
			nil,
		},
		"a source in front renumbers": {
			prints{reads("0", "a"), logs(reads("1", "b"), "c")},
			prints{reads("0", "x"), reads("1", "a"), logs(reads("2", "b"), "c")},
			map[string]string{"0": "1", "1": "2"},
			[]string{"0", "1"},
			nil,
		},
		"two swap their ids": {
			prints{reads("0", "a"), reads("1", "b")},
			prints{reads("0", "b"), reads("1", "a")},
			map[string]string{"0": "1", "1": "0"},
			[]string{"0", "1"},
			nil,
		},
		"the order of lists has no meaning": {
			prints{reads("0", "b", "a"), reads("1", "c")},
			prints{reads("1", "c"), reads("0", "a", "b")},
			map[string]string{"0": "0", "1": "1"},
			[]string{"0", "1"},
			nil,
		},
		"one reads another topic as well": {
			prints{reads("0", "a")},
			prints{reads("0", "a", "b")},
			map[string]string{"0": "0"},
			[]string{"0"},
			nil,
		},
		"another store": {
			prints{logs(reads("0", "a"), "c")},
			prints{logs(reads("0", "a"), "d")},
			map[string]string{"0": "0"},
			nil, nil,
		},
		"reads something else": {
			prints{reads("0", "a")},
			prints{reads("0", "b")},
			map[string]string{},
			nil, nil,
		},
		"a topic moves": {
			prints{reads("0", "a", "m"), reads("1", "b")},
			prints{reads("0", "a"), reads("1", "b", "m")},
			map[string]string{"0": "0", "1": "1"},
			[]string{"0", "1"},
			[]topology.Overlap{{"0", "1", []string{"m"}}},
		},
		"a merge under the first id": {
			prints{reads("0", "a"), reads("1", "b")},
			prints{reads("0", "a", "b")},
			map[string]string{"0": "0"},
			[]string{"0"},
			[]topology.Overlap{{"1", "0", []string{"b"}}},
		},
		"a split": {
			prints{reads("0", "a", "b")},
			prints{reads("0", "a"), reads("1", "b")},
			map[string]string{"0": "0"},
			[]string{"0"},
			[]topology.Overlap{{"0", "1", []string{"b"}}},
		},
		"a changed one that is renumbered too has none": {
			prints{reads("0", "a"), reads("1", "b")},
			prints{reads("0", "x"), reads("1", "a"), reads("2", "b", "y")},
			map[string]string{"0": "1"},
			[]string{"0"},
			[]topology.Overlap{{"1", "2", []string{"b"}}},
		},
		"a changelog moves": {
			prints{logs(reads("0", "a"), "c"), reads("1", "b")},
			prints{reads("0", "a"), logs(reads("1", "b"), "c")},
			map[string]string{"0": "0", "1": "1"},
			nil,
			[]topology.Overlap{{"0", "1", []string{"c"}}},
		},
		"patterns without a match read nothing": {
			prints{reads("0"), reads("1")},
			prints{reads("0"), reads("1", "a")},
			map[string]string{},
			nil, nil,
		},
		"two read one topic: the first has the successor": {
			prints{reads("1", "a"), reads("0", "a")},
			prints{reads("2", "a")},
			map[string]string{"0": "2"},
			[]string{"0"},
			[]topology.Overlap{{"1", "2", []string{"a"}}},
		},
		"two read one topic in both": {
			prints{reads("0", "a"), reads("1", "a")},
			prints{reads("0", "a"), reads("1", "a")},
			map[string]string{"0": "0", "1": "1"},
			[]string{"0", "1"},
			[]topology.Overlap{{"0", "1", []string{"a"}}, {"1", "0", []string{"a"}}},
		},
		"an empty id": {
			prints{reads("", "a")},
			prints{reads("", "a", "b")},
			map[string]string{"": ""},
			[]string{""},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ids := map[string]string{}
			var standbys []string
			got := topology.Successors(c.older, c.newer)
			for _, older := range slices.Sorted(maps.Keys(got)) {
				ids[older] = got[older].ID
				if got[older].SameChangelogs {
					standbys = append(standbys, older)
				}
			}
			assert.Equal(t, c.want, ids)
			assert.Equal(t, c.standbys, standbys)
			assert.Equal(t, c.overlaps, topology.Overlaps(c.older, c.newer))
		})
	}
}

// drawFootprints draws what two versions of an application read: a topic has one
// reader in each of them.
func drawFootprints(t *rapid.T) (older, newer []topology.Footprint) {
	side := func(label string) []topology.Footprint {
		by := map[string]*topology.Footprint{}
		get := func(id string) *topology.Footprint {
			if by[id] == nil {
				by[id] = &topology.Footprint{ID: id}
			}
			return by[id]
		}
		id := rapid.SampledFrom([]string{"0", "1", "2", "3", "x", ""})
		for i := range rapid.IntRange(0, 8).Draw(t, label+" topics") {
			f := get(id.Draw(t, "reader"))
			f.Sources = append(f.Sources, fmt.Sprintf("topic-%d", i))
		}
		for i := range rapid.IntRange(0, 3).Draw(t, label+" changelogs") {
			f := get(id.Draw(t, "logger"))
			f.Changelogs = append(f.Changelogs, fmt.Sprintf("changelog-%d", i))
		}
		ids := slices.Sorted(maps.Keys(by))
		out := make([]topology.Footprint, 0, len(ids))
		for _, id := range ids {
			out = append(out, *by[id])
		}
		return rapid.Permutation(out).Draw(t, label)
	}
	return side("older"), side("newer")
}

func TestX2Properties(t *testing.T) {
	t.Parallel()
	related := 0
	rapid.Check(t, func(t *rapid.T) {
		older, newer := drawFootprints(t)
		forward, back := topology.Successors(older, newer), topology.Successors(newer, older)
		require.Len(t, back, len(forward))
		for o, n := range forward {
			related++
			require.Equal(t, topology.Successor{ID: o, SameChangelogs: n.SameChangelogs}, back[n.ID], "no two have one successor, and the way back is the same")
		}
		mirrored := topology.Overlaps(newer, older)
		for i := range mirrored {
			mirrored[i].Older, mirrored[i].Newer = mirrored[i].Newer, mirrored[i].Older
		}
		require.ElementsMatch(t, topology.Overlaps(older, newer), mirrored)

		// Against the plain definition of two workers: any topic in common.
		all := func(f topology.Footprint) []string { return slices.Concat(f.Sources, f.Changelogs) }
		var pairs []string
		for _, o := range older {
			for _, n := range newer {
				s, has := forward[o.ID]
				if has && s.ID == n.ID {
					continue
				}
				if slices.ContainsFunc(all(o), func(topic string) bool { return slices.Contains(all(n), topic) }) {
					pairs = append(pairs, o.ID+"/"+n.ID)
				}
			}
		}
		var got []string
		for _, o := range topology.Overlaps(older, newer) {
			got = append(got, o.Older+"/"+o.Newer)
		}
		require.ElementsMatch(t, pairs, got)
	})
	assert.Positive(t, related)
}

// Renumbering moves nothing: whatever ids the subtopologies get, each is its own
// successor, and nobody waits for anybody.
func TestX2RenumberingMovesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		older, _ := drawFootprints(t)
		newer := slices.Clone(older)
		ids := rapid.Permutation([]string{"0", "1", "2", "3", "4", "x", "y"}).Draw(t, "ids")
		want := map[string]topology.Successor{}
		for i := range newer {
			newer[i].ID = ids[i]
			if len(older[i].Sources) > 0 {
				want[older[i].ID] = topology.Successor{ID: ids[i], SameChangelogs: true}
			}
		}
		newer = append(newer, reads("added", "topic-of-its-own"))
		got := topology.Successors(older, newer)
		require.Equal(t, want, got)
		for _, o := range topology.Overlaps(older, newer) {
			require.NotContains(t, want, o.Older, "only what reads nothing has no successor")
		}
	})
}

func BenchmarkSuccessors(b *testing.B) {
	for _, n := range []int{10, 1000} {
		var older, newer []topology.Footprint
		for i := range n {
			f := reads(strconv.Itoa(i), fmt.Sprintf("in-%d", i), fmt.Sprintf("repartition-%d", i))
			f.Changelogs = []string{fmt.Sprintf("changelog-%d", i)}
			older = append(older, f)
			f.ID = strconv.Itoa(i + 1)
			newer = append(newer, f)
		}
		b.Run(fmt.Sprintf("subtopologies=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				topology.Successors(older, newer)
			}
		})
	}
}
