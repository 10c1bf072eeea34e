package kfakeext

import (
	"fmt"
	"maps"

	"github.com/streamsgroup/streamsgroup/coordinator/topics"
)

// maxPartitions is how many partitions internal topics may get at a time. A
// member chooses the numbers, kfake makes as many as it is asked for, and one
// request could take all memory. Kafka's controller takes no more than that in a
// request. What is beyond it has to wait for a retry.
const maxPartitions = 10_000

// createTopics is the topicCreator.
func (a *adapter) createTopics(wanted []topics.NewTopic) map[string]string {
	modest, failed := withinLimit(wanted)
	if len(modest) > 0 {
		maps.Copy(failed, a.createModest(modest))
	}
	return failed
}

// withinLimit returns the topics that can be created at once, and why the others
// cannot.
func withinLimit(wanted []topics.NewTopic) (modest []topics.NewTopic, failed map[string]string) {
	failed = make(map[string]string)
	room := int32(maxPartitions)
	for _, t := range wanted {
		switch {
		case t.Partitions > maxPartitions:
			failed[t.Name] = fmt.Sprintf("%d partitions are too many, the limit is %d", t.Partitions, maxPartitions)
		case t.Partitions > room:
			failed[t.Name] = fmt.Sprintf("its turn comes later, the limit is %d partitions at a time", maxPartitions)
		default:
			room -= t.Partitions
			modest = append(modest, t)
		}
	}
	return modest, failed
}
