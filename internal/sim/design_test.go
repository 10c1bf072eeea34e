package sim

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDesigns draws many lines: all of them are topologies, and they have whatever
// an update can do.
func TestDesigns(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for seed := range uint64(300) {
		line := drawLine(seed, true)
		for epoch, d := range line {
			v := d.build(epoch)
			require.NotEmpty(t, v.topo.Subtopologies())
			require.Equal(t, int32(epoch), v.topo.Epoch())
			if len(v.matches) > 0 {
				seen["a pattern"]++
			}
			if epoch == 0 {
				continue
			}
			before := line[epoch-1].build(epoch - 1)
			kind(seen, before, v)
		}
	}
	for _, what := range []string{"a pattern", "merge", "split", "renumbering", "new store", "dropped store", "store moves", "new source", "dropped source", "no change"} {
		require.Greater(t, seen[what], 20, what)
	}
}

// kind counts what an update does.
func kind(seen map[string]int, before, after *version) {
	old, now := places(before), places(after)
	if len(before.topo.Subtopologies()) > len(after.topo.Subtopologies()) && len(old) <= len(now) {
		seen["merge"]++
	}
	if len(before.topo.Subtopologies()) < len(after.topo.Subtopologies()) && len(old) >= len(now) {
		seen["split"]++
	}
	same := len(old) == len(now)
	for topic, at := range now {
		was, had := old[topic]
		same = same && was == at
		switch {
		case had && was != at && topic < externals:
			seen["renumbering"]++
		case had && was != at:
			seen["store moves"]++
		case !had && topic < externals:
			seen["new source"]++
		case !had:
			seen["new store"]++
		}
	}
	for topic := range old {
		if _, has := now[topic]; !has && topic < externals {
			seen["dropped source"]++
		} else if !has {
			seen["dropped store"]++
		}
	}
	if same {
		seen["no change"]++
	}
}

// places are the subtopologies that work on topics.
func places(v *version) map[int]string {
	out := map[int]string{}
	for sub, works := range v.works {
		for _, topic := range works {
			out[topic] = sub
		}
	}
	for sub, matches := range v.matches {
		for _, topic := range matches {
			out[topic] = sub
		}
	}
	return out
}

func BenchmarkDesign(b *testing.B) {
	d := drawLine(1, true)[5]
	for b.Loop() {
		d.build(5)
	}
}
