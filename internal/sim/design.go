package sim

import (
	"strings"

	"github.com/streamsgroup/streamsgroup/topology"
)

// design is a topology that is drawn: which topics are read together, in which
// order, and where the stores are. It can be compared.
type design struct {
	// block is the subtopology that reads a topic, -1 if none does.
	block [externals]int8
	// order is the order in which topics are added, which numbers the subtopologies.
	order [externals]int8
	// stores belong to the subtopology that reads the topic, -1 if there is no such
	// store.
	stores [2]int8
	// named subtopologies have a name after their first topic instead of a number.
	named bool
	// pattern has the last topic read by a pattern.
	pattern bool
}

var storeNames = [2]string{"bills", "counts"}

// drawn is the family whose topologies are drawn.
const drawn = len(families)

// redesign draws the next topology of a line: now and then another one altogether,
// most often the last one with a change or two.
func (d design) redesign(r *stream, patterns bool) design {
	changes := pick(r, 0, 1, 1, 2, 10)
	if changes == 10 {
		d.named = r.one(4)
		d.pattern = patterns && r.one(3)
	}
	for range changes {
		switch r.below(3) {
		case 0: // merged, split, moved; now and then not read any more
			d.block[r.below(externals)] = int8(r.below(externals+1)) - int8(r.below(6)/5)*externals
		case 1: // renumbered
			i, j := r.below(externals), r.below(externals)
			d.order[i], d.order[j] = d.order[j], d.order[i]
		case 2: // stores come, go and move
			d.stores[r.below(len(d.stores))] = int8(r.below(externals+1) - 1)
		}
	}
	for i, b := range d.block {
		if b < 0 || b >= externals {
			d.block[i] = -1
		}
	}
	if d.block == [externals]int8{-1, -1, -1} {
		d.block[r.below(externals)] = 0
	}
	for i, topic := range d.stores {
		if topic >= 0 && d.block[topic] < 0 {
			d.stores[i] = -1
		}
	}
	return d
}

// firstDesign is where every line begins, before its first change.
func firstDesign() design {
	return design{block: [externals]int8{0, 1, -1}, order: [externals]int8{0, 1, 2}, stores: [2]int8{0, -1}}
}

// build makes a topology of it. The topics of a block meet in one processor.
func (d design) build(epoch int) *version {
	var b topology.Builder
	done := [externals]bool{}
	for _, first := range d.order {
		if done[first] || d.block[first] < 0 {
			continue
		}
		var sources []string
		for topic, name := range worked[:externals] {
			if d.block[topic] != d.block[first] {
				continue
			}
			done[topic] = true
			sources = append(sources, name+"-source")
			if d.pattern && topic == externals-1 {
				b.AddSourcePattern(name+"-source", name+".*")
			} else {
				b.AddSource(name+"-source", name)
			}
		}
		work := "work-on-" + strings.Join(sources, "-")
		b.AddProcessor(work, sources...)
		for i, topic := range d.stores {
			if topic >= 0 && d.block[topic] == d.block[first] {
				b.AddStateStore(topology.Store{Name: storeNames[i]}, work)
			}
		}
		if d.named {
			b.Subtopology(strings.TrimSuffix(sources[0], "-source"), work)
		}
	}
	return buildVersion(&b, epoch)
}

// drawLine draws the versions of an application.
func drawLine(seed uint64, patterns bool) (out [maxEpochs]design) {
	r := newStream(seed, 5)
	d := firstDesign()
	for epoch := range maxEpochs {
		d = d.redesign(&r, patterns)
		out[epoch] = d
	}
	return out
}
