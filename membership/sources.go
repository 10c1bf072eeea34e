package membership

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/topology"
)

func hasPatterns(t *topology.Topology) bool {
	return slices.ContainsFunc(t.Wire().Subtopologies, func(s kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) bool {
		return len(s.SourceTopicRegex) > 0
	})
}

// takeResolution reads which topics the source patterns stand for. The coordinator
// decides that for all members: it sends them whenever the member does not name
// what it has already. ok is false if the membership has ended.
func (m *Member) takeResolution(resp *kmsg.StreamsGroupHeartbeatResponse) (ok bool) {
	var field []byte
	resp.UnknownTags.Each(func(tag uint32, value []byte) {
		if tag == topology.ResolutionTag {
			field = value
		}
	})
	if field == nil {
		return true
	}
	r, err := topology.ParseResolution(field)
	if err != nil {
		m.known = true
		m.fail(m.problem(err, "the coordinator's answer breaks the protocol", "check what the broker is"), true)
		return false
	}
	if m.resolved != nil && m.resolved.Epoch == r.Epoch {
		return true
	}
	m.resolved = &r
	m.newSources = r.Topics
	m.event(SourcesResolved{Topics: cloneTopics(r.Topics)})
	return true
}

// buildResolution says which topics the member reads for its source patterns.
func (m *Member) buildResolution(req *kmsg.StreamsGroupHeartbeatRequest) {
	if m.resolved != nil {
		req.UnknownTags.Set(topology.ResolutionTag, topology.AppendResolutionEpoch(nil, m.resolved.Epoch))
	}
}

// Sources are the topics that a task of a subtopology reads its partition of,
// ascending: those that the topology names, and those that its source patterns
// stand for so far. It is nil for an unknown subtopology.
func (m *Member) Sources(subtopology string) []string {
	named := m.cfg.Topology.Sources(subtopology)
	if m.resolved == nil {
		return named
	}
	all := slices.Concat(named, m.resolved.Topics[subtopology])
	slices.Sort(all)
	return slices.Compact(all)
}

func cloneTopics(in map[string][]string) map[string][]string {
	out := maps.Clone(in)
	for k, v := range out {
		out[k] = slices.Clone(v)
	}
	return out
}
