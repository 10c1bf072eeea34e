package kfakeext

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
)

// creations remembers which internal topics could not be created, so that a
// heartbeat tries again only after a while and says why in its status. It is
// shared by all groups. Nothing is ever in flight: kfake creates at once.
type creations struct {
	failed map[string]failure
}

type failure struct {
	text  string
	until time.Duration
}

// maxFailures bounds the memory of failures; those that expire soonest go first.
const maxFailures = 1000

// create creates the internal topics that a group lacks, and tells in the
// response what stands in the way. It is called without the lock, from the
// control function.
func (a *adapter) create(now coordinator.Now, s sender, wanted []topics.NewTopic, resp *kmsg.StreamsGroupHeartbeatResponse) {
	if denied := a.denied(s, wanted); len(denied) > 0 {
		appendDetail(resp, "not authorized to create "+strings.Join(denied, ", "))
		return
	}
	var earlier, names []string
	for _, t := range wanted {
		if f, ok := a.creating.failed[t.Name]; ok && now.Mono < f.until {
			earlier = append(earlier, t.Name+": "+f.text)
			continue
		}
		delete(a.creating.failed, t.Name)
		configs := make(map[string]string, len(t.Configs))
		for _, kv := range t.Configs {
			configs[kv.Key] = kv.Value
		}
		// The replication factor is the cluster's in any case: kfake keeps one
		// copy.
		if err := a.fake.CreateTopic(t.Name, t.Partitions, configs); err != nil {
			a.creating.add(t.Name, failure{
				text:  err.Error(),
				until: now.Mono + 2*time.Duration(resp.HeartbeatIntervalMillis)*time.Millisecond,
			})
			continue
		}
		names = append(names, t.Name)
	}
	if len(names) > 0 {
		a.topics.read(names)
		a.topicGen++
	}
	if len(earlier) > 0 {
		appendDetail(resp, "creation failed: "+firstThree(earlier))
	}
}

// denied returns the topics that the sender may not create. One of them keeps
// all from being created.
func (a *adapter) denied(s sender, wanted []topics.NewTopic) (names []string) {
	if a.allowed(s, kmsg.ACLOperationCreate, kmsg.ACLResourceTypeCluster, "kafka-cluster") {
		return nil
	}
	for _, t := range wanted {
		if !a.allowed(s, kmsg.ACLOperationCreate, kmsg.ACLResourceTypeTopic, t.Name) {
			names = append(names, t.Name)
		}
	}
	return names
}

func (c *creations) add(topic string, f failure) {
	if c.failed == nil {
		c.failed = make(map[string]failure)
	}
	if len(c.failed) >= maxFailures {
		type entry struct {
			topic string
			until time.Duration
		}
		all := make([]entry, 0, len(c.failed))
		for t, f := range c.failed {
			all = append(all, entry{t, f.until})
		}
		first := slices.MinFunc(all, func(a, b entry) int {
			return cmp.Or(cmp.Compare(a.until, b.until), strings.Compare(a.topic, b.topic))
		})
		delete(c.failed, first.topic)
	}
	c.failed[topic] = f
}

func firstThree(s []string) string {
	if len(s) <= 3 {
		return strings.Join(s, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(s[:3], "; "), len(s)-3)
}

// appendDetail adds to the status that tells about missing internal topics. The
// status may be shared with the core's state, so the list is copied.
func appendDetail(resp *kmsg.StreamsGroupHeartbeatResponse, text string) {
	resp.Status = slices.Clone(resp.Status)
	for i := range resp.Status {
		if resp.Status[i].StatusCode == topics.StatusMissingInternalTopics {
			resp.Status[i].StatusDetail += "; " + text
			return
		}
	}
	status := kmsg.NewStreamsGroupHeartbeatResponseStatus()
	status.StatusCode, status.StatusDetail = topics.StatusMissingInternalTopics, text
	resp.Status = append(resp.Status, status)
}
