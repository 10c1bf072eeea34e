package topics

import "strings"

// missingSources is the first problem that the cluster can cause: source topics
// that do not exist, which the application must not create, and patterns
// without a match.
func (p *plan) missingSources(m matched) *Problem {
	var missing []int
	for i := range p.subs {
		for _, n := range p.subs[i].listed {
			if p.topics[n].exists == absent {
				missing = append(missing, n)
			}
		}
	}
	var parts []string
	if len(missing) > 0 {
		parts = append(parts, "Source topics do not exist: "+p.options.enumerate(p.namesOf(missing)))
	}
	if len(m.without) > 0 {
		parts = append(parts, "Source patterns match no topic: "+p.options.enumerate(m.without))
	}
	if len(m.unresolved) > 0 {
		parts = append(parts, "Source patterns cannot be resolved, the topics of the cluster are not all known yet: "+p.options.enumerate(m.unresolved))
	}
	if len(parts) == 0 {
		return nil
	}
	return &Problem{Status: StatusMissingSourceTopics, Detail: strings.Join(parts, ". ")}
}
