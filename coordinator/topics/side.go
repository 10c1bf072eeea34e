package topics

import "github.com/streamsgroup/streamsgroup/topology"

// Side is what a comparison of topologies has to know of this one
// ([topology.Cluster]): the number of partitions that each topic has or will
// have, and what source patterns match. Under statuses 1 and 2 nothing is known.
func (c *Configured) Side() topology.Side {
	s := topology.Side{Partitions: map[string]int32{}, Matches: map[string][]string{}}
	for i := range c.Subtopologies {
		sub := &c.Subtopologies[i]
		for j := range sub.Changelogs {
			s.Partitions[sub.Changelogs[j].Name] = sub.Changelogs[j].Partitions
		}
		for _, t := range sub.Sources {
			s.Partitions[t.Name] = t.Partitions
		}
		if len(sub.Matched) > 0 {
			s.Matches[sub.ID] = sub.Matched
		}
	}
	if len(c.Subtopologies) == 0 {
		s.Matches = nil // patterns are compared as text, then
	}
	return s
}
