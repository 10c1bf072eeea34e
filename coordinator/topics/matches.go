package topics

import (
	"slices"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// Matches returns the topics of the image that the source patterns of each
// subtopology match, by subtopology id, ascending, whether or not the topology is
// ready. It is nil without patterns and for an image that is not complete.
func Matches(t *record.Topology, image *Image, o Options) map[string][]string {
	if o.Kafka || !hasPatterns(t) || !image.complete {
		return nil
	}
	p := numberTopics(t, o)
	out := map[string][]string{}
	for i, patterns := range p.match(image).bySubtopology {
		if names := slices.Concat(patterns...); len(names) > 0 {
			slices.Sort(names)
			out[p.subs[i].ID] = slices.Compact(names)
		}
	}
	return out
}
