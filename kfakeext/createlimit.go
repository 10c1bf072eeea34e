package kfakeext

import (
	"fmt"
	"maps"

	"github.com/streamsgroup/streamsgroup/coordinator/topics"
)

// maxPartitions is how many partitions an internal topic may have. A member
// chooses the number, kfake makes as many as it is asked for, and one request
// could take all memory. Kafka's controller takes no more than that in a request.
const maxPartitions = 10_000

// createTopics is the topicCreator.
func (a *adapter) createTopics(wanted []topics.NewTopic) map[string]string {
	failed := make(map[string]string)
	var modest []topics.NewTopic
	for _, t := range wanted {
		if t.Partitions > maxPartitions {
			failed[t.Name] = fmt.Sprintf("%d partitions are too many, the limit is %d", t.Partitions, maxPartitions)
			continue
		}
		modest = append(modest, t)
	}
	if len(modest) > 0 {
		maps.Copy(failed, a.createModest(modest))
	}
	return failed
}
