// Package topics matches a group's topology against the topics of the cluster:
// it decides partition counts, finds what is missing or wrong, and says which
// internal topics to create. Everything in it is a pure function.
//
// A group whose topology may have source patterns looks at its topics in three
// steps, as often as the image's version grows: [RequiredIn] names the topics
// that count, [Hash] tells whether any of them changed, and only then
// [Configure] is worth its time.
package topics

import (
	"maps"
	"slices"
)

// Topic is what the coordinator knows of one topic of the cluster.
type Topic struct {
	ID         [16]byte
	Name       string
	Partitions int32
	// ReplicationFactor is 0 where it is not known.
	ReplicationFactor int16
	// Configs are the topic's own settings, for the comparison with what the
	// topology asks for. Nil where they are not known.
	Configs map[string]string
}

// Image is an immutable picture of the cluster's topics. Two images with the
// same version are equal; a newer one has a higher version. It need only hold
// the topics that some group asks for, unless a topology has source patterns:
// these take an image that is complete.
type Image struct {
	version  uint64
	topics   map[string]Topic
	complete bool
	names    []string // ascending, only if complete
}

// NewImage makes an image. It copies the map.
func NewImage(version uint64, byName map[string]Topic) *Image {
	return &Image{version: version, topics: maps.Clone(byName)}
}

// NewCompleteImage makes an image that holds every topic of the cluster, so that
// source patterns can be resolved. It copies the map.
func NewCompleteImage(version uint64, byName map[string]Topic) *Image {
	i := NewImage(version, byName)
	i.complete = true
	i.names = slices.Sorted(maps.Keys(i.topics))
	return i
}

// Complete is whether the image holds every topic of the cluster.
func (i *Image) Complete() bool { return i.complete }

// Version grows whenever a topic of the image was created, changed or deleted.
func (i *Image) Version() uint64 { return i.version }

// Topic returns the topic of that name, if it exists.
func (i *Image) Topic(name string) (Topic, bool) {
	t, ok := i.topics[name]
	return t, ok
}

// Names returns the names of all topics of the image, ascending.
func (i *Image) Names() []string {
	if i.complete {
		return slices.Clone(i.names)
	}
	return slices.Sorted(maps.Keys(i.topics))
}
