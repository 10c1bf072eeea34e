package coordinator

import (
	"slices"

	"github.com/streamsgroup/streamsgroup/coordinator/topics"
)

// Members that run an older topology read, and serve queries for, the topics of
// that topology.

// sourcesOf are the source topics of a subtopology, ascending by name.
type sourcesOf func(subtopology string) []topics.TopicCount

// olderSources are the source topics of an older topology as they are now.
type olderSources struct {
	epoch int32
	of    map[string][]topics.TopicCount
}

// sources returns the source topics for the members of a topology epoch. While
// topics are missing or wrong there are none for those of the group's own, and
// never for those of a topology that is not known.
func (v *topicView) sources(topologyEpoch int32) sourcesOf {
	for i := range v.older {
		if o := &v.older[i]; o.epoch == topologyEpoch {
			return func(id string) []topics.TopicCount { return o.of[id] }
		}
	}
	return func(id string) []topics.TopicCount {
		if v.configured == nil || slices.ContainsFunc(v.successions, func(s *succession) bool { return s.epoch == topologyEpoch }) {
			return nil
		}
		if s := subtopology(v.configured, id); s != nil {
			return s.Sources
		}
		return nil
	}
}

// lookAtOlder completes a new look at the topics for members that are behind.
// What it finds has no part in the hash, which is about the group's topology.
func (h *heartbeat) lookAtOlder(view *topicView) {
	view.successions = h.findSuccessions()
	if len(view.successions) == 0 {
		return
	}
	var older []olderTopology
	for _, o := range h.olderTopologies() {
		if h.g.owners.at(o.epoch) != nil {
			older = append(older, o)
			view.older = append(view.older, h.sourcesNow(&o))
		}
	}
	view.required = withOlder(view.required, older)
	if h.configured == h.g.topics.configured && !slices.EqualFunc(view.older, h.g.topics.older, olderSources.equal) {
		c := *h.configured // a new one, so that what depends on it is done anew
		h.configured, view.configured = &c, &c
	}
}

func (h *heartbeat) sourcesNow(o *olderTopology) olderSources {
	out := olderSources{o.epoch, map[string][]topics.TopicCount{}}
	for i := range o.footprints {
		f := &o.footprints[i]
		for _, name := range f.Sources {
			if t, ok := h.image.Topic(name); ok {
				out.of[f.ID] = append(out.of[f.ID], topics.TopicCount{Name: name, Partitions: t.Partitions})
			}
		}
	}
	return out
}

func (o olderSources) equal(other olderSources) bool {
	if o.epoch != other.epoch || len(o.of) != len(other.of) {
		return false
	}
	for id, list := range o.of {
		if !slices.Equal(list, other.of[id]) {
			return false
		}
	}
	return true
}

// withOlder adds the topics of older topologies to a sorted list of names.
func withOlder(names []string, older []olderTopology) []string {
	if len(older) == 0 {
		return names
	}
	names = slices.Clip(names)
	for i := range older {
		for j := range older[i].footprints {
			f := &older[i].footprints[j]
			names = append(names, f.Sources...)
			names = append(names, f.Changelogs...)
		}
	}
	return sortedSet(names)
}
