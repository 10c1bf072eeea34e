package topics

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// shape makes n subtopologies, all stateful, that are linked by repartition
// topics, and the image in which only the sources exist.
func shape(kind string, n int, reverse bool) (*record.Topology, *Image) {
	id := func(i int) string {
		if reverse {
			i = n - 1 - i
		}
		return strconv.Itoa(i)
	}
	subs := make([]record.Subtopology, n)
	have := counts{}
	for i := range subs {
		subs[i] = sub(id(i), logs(fmt.Sprintf("changelog-%d", i)))
	}
	link := func(from, to int) {
		name := fmt.Sprintf("repartition-%d-%d", from, to)
		writes(name)(&subs[from])
		flex(name)(&subs[to])
	}
	source := func(i int) {
		name := fmt.Sprintf("source-%d", i)
		reads(name)(&subs[i])
		have[name] = int32(1 + i%12)
	}
	source(0)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := 1; i < n; i++ {
		switch kind {
		case "chain":
			link(i-1, i)
		case "star":
			link(0, i)
		case "random":
			for range 1 + rng.IntN(3) {
				if from := rng.IntN(i); len(subs[i].RepartitionSourceTopics) < 3 {
					link(from, i)
				}
			}
			if rng.IntN(4) == 0 {
				source(i)
			}
		}
	}
	if reverse {
		for i, j := 0, n-1; i < j; i, j = i+1, j-1 {
			subs[i], subs[j] = subs[j], subs[i]
		}
	}
	return topologyOf(subs...), have.image()
}

func BenchmarkTopicConfiguration(b *testing.B) {
	for _, kind := range []string{"chain", "star", "random"} {
		for _, n := range []int{10, 100, 1000} {
			for _, reverse := range []bool{false, true} {
				top, image := shape(kind, n, reverse)
				order := "forward"
				if reverse {
					order = "reverse"
				}
				b.Run(fmt.Sprintf("graph=%s/subtopologies=%d/ids=%s", kind, n, order), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						c, err := Configure(top, image, kip)
						require.NoError(b, err)
						require.Len(b, c.Subtopologies, n)
					}
				})
			}
		}
	}
}

func BenchmarkHash(b *testing.B) {
	for _, n := range []int{10, 1000} {
		have := counts{}
		for i := range n {
			have[fmt.Sprintf("topic-%d", i)] = 12
		}
		image := have.image()
		names := image.Names()
		b.Run(fmt.Sprintf("topics=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Hash(names, image)
			}
		})
	}
}

func BenchmarkPatternResolution(b *testing.B) {
	for _, topics := range []int{10_000, 100_000} {
		have := counts{}
		for i := range topics {
			have[fmt.Sprintf("team-%d-topic-%d", i%100, i)] = 12
		}
		image := have.image()
		for _, patterns := range []int{1, 10, 100} {
			list := make([]record.Subtopology, 0, patterns)
			for i := range patterns {
				list = append(list, sub(strconv.Itoa(i), matches(fmt.Sprintf("team-%d-.*", i))))
			}
			top := topologyOf(list...)
			b.Run(fmt.Sprintf("topics=%d/patterns=%d", topics, patterns), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					RequiredIn(top, image, kip)
				}
			})
		}
	}
}
