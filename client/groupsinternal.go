package client

import (
	"regexp"
	"slices"
	"strings"
)

var internalTopicForm = regexp.MustCompile(`(-changelog|-repartition|-subscription-registration-topic|-subscription-response-topic|.-KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic)$`)

// LooksInternal is whether a topic has the form that Kafka Streams gives to the
// internal topics of a group: the group's id, and an ending like -changelog or
// -repartition.
func LooksInternal(group, topic string) bool {
	return strings.HasPrefix(topic, group+"-") && internalTopicForm.MatchString(topic)
}

// InternalTopics are the repartition and changelog topics of a group, ascending, as
// its description has them: what may be deleted with the group. Others are such
// topics whose names have not the form of internal ones: somebody else may use them,
// and they should be kept.
func InternalTopics(d *GroupDescription) (internal, others []string) {
	sources := map[string]bool{}
	for _, s := range d.Subtopologies() {
		for _, t := range s.SourceTopics {
			sources[t] = true
		}
	}
	for _, s := range d.Subtopologies() {
		for _, t := range slices.Concat(s.RepartitionSourceTopics, s.StateChangelogTopics) {
			switch {
			case sources[t.Topic]:
			case LooksInternal(d.Group, t.Topic):
				internal = append(internal, t.Topic)
			default:
				others = append(others, t.Topic)
			}
		}
	}
	slices.Sort(internal)
	slices.Sort(others)
	return slices.Compact(internal), slices.Compact(others)
}
