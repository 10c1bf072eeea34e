package client

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// lookAtTopics asks brokers for what the comparison has to know of topics. The error is
// for what makes it worthless, or is worth another attempt; what only is not known then
// is logged.
func (u *upgrade) lookAtTopics(ctx context.Context) error {
	older, newer := u.older.Wire(), u.newer.Wire()
	patterns := hasPatterns(u.newer)
	var external, owned, dropped []string
	read := map[string]bool{}
	for i := range newer.Subtopologies {
		s := &newer.Subtopologies[i]
		for _, topic := range u.newer.Sources(s.SubtopologyID) {
			read[topic] = true
		}
		for _, t := range slices.Concat(s.RepartitionSourceTopics, s.StateChangelogTopics) {
			owned = append(owned, t.Topic)
		}
	}
	for i := range older.Subtopologies {
		s := &older.Subtopologies[i]
		external = append(external, s.SourceTopics...)
		for _, t := range slices.Concat(s.RepartitionSourceTopics, s.StateChangelogTopics) {
			owned = append(owned, t.Topic)
		}
		for _, t := range s.RepartitionSourceTopics {
			if !read[t.Topic] {
				dropped = append(dropped, t.Topic)
			}
		}
	}
	external = append(external, u.newer.ExternalSources()...)
	ask := slices.Concat(external, owned)
	if patterns {
		ask = nil // all
	}
	topics, err := topicsOf(ctx, u.cl.Broker(int(u.node)), ask)
	switch {
	case err != nil && patterns:
		return fmt.Errorf("client: topics that source patterns match: %w", err)
	case err != nil && u.patient(ctx, err):
		return fmt.Errorf("client: topics of the two topologies: %w", err)
	case err != nil:
		u.log(kgo.LogLevelWarn, "cannot look at the topics of the two topologies", "err", err)
		return nil
	}
	if patterns {
		u.cluster.Older.Matches, u.cluster.Newer.Matches = map[string][]string{}, matches(newer, topics)
		for _, matched := range u.cluster.Newer.Matches {
			external = append(external, matched...)
		}
	}
	u.cluster.Older.Partitions = partitionsOf(topics, slices.Concat(external, owned))
	u.cluster.Newer.Partitions = partitionsOf(topics, external) // what it needs of its own, it says itself
	if err := u.count(ctx, topics, dropped); err != nil {
		if u.patient(ctx, err) {
			return fmt.Errorf("client: unread records of %v: %w", dropped, err)
		}
		u.log(kgo.LogLevelWarn, "cannot count unread records of repartition topics", "topics", dropped, "err", err)
	}
	return nil
}

func partitionsOf(topics map[string]kmsg.MetadataResponseTopic, names []string) map[string]int32 {
	out := map[string]int32{}
	for _, name := range names {
		if t, ok := topics[name]; ok {
			out[name] = int32(len(t.Partitions))
		}
	}
	return out
}

// matches are the topics that source patterns match, as the coordinator sees it: whole
// names, and none that is internal to the cluster.
func matches(t *kmsg.StreamsGroupHeartbeatRequestTopology, topics map[string]kmsg.MetadataResponseTopic) map[string][]string {
	out := map[string][]string{}
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		for _, pattern := range s.SourceTopicRegex {
			whole, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
			if err != nil {
				continue // the coordinator will say so
			}
			for name := range topics {
				if whole.MatchString(name) && !strings.HasPrefix(name, "__") {
					out[s.SubtopologyID] = append(out[s.SubtopologyID], name)
				}
			}
		}
		slices.Sort(out[s.SubtopologyID])
	}
	return out
}

// topicsOf asks one broker for topics. Those that do not exist, or may not
// be described, are left out. nil names stand for all topics. It goes past kgo's own
// metadata, which would remember for a while that an internal topic does not exist
// that is about to be created.
func topicsOf(ctx context.Context, broker *kgo.Broker, names []string) (map[string]kmsg.MetadataResponseTopic, error) {
	req := kmsg.NewPtrMetadataRequest()
	if names != nil {
		req.Topics = []kmsg.MetadataRequestTopic{}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	kresp, err := broker.Request(ctx, req)
	if err != nil {
		return nil, err
	}
	out := map[string]kmsg.MetadataResponseTopic{}
	for _, t := range kresp.(*kmsg.MetadataResponse).Topics {
		if t.Topic != nil && t.ErrorCode == 0 {
			out[*t.Topic] = t
		}
	}
	return out, nil
}

// patient is whether topics may still become known: a connection broke, or a leader
// moves. To go on without them at once would let through, or refuse, what came at a bad
// moment. What has no leader is not waited for longer than a changelog would be.
func (u *upgrade) patient(ctx context.Context, err error) bool {
	if u.patienceEnds.IsZero() {
		u.patienceEnds = time.Now().Add(topicPatience)
	}
	return passing(err) && ctx.Err() == nil && time.Now().Before(u.patienceEnds)
}

// count finds out how many records of repartition topics that are not read any more the
// group has not read: the offsets between the committed one and the end, and where they
// are few, the records that there are at these offsets.
func (u *upgrade) count(ctx context.Context, topics map[string]kmsg.MetadataResponseTopic, dropped []string) error {
	dropped = slices.DeleteFunc(dropped, func(topic string) bool { return len(topics[topic].Partitions) == 0 })
	if len(dropped) == 0 {
		return nil
	}
	starts, err := listOffsets(ctx, u.cl, topics, dropped, earliest)
	if err != nil {
		return err
	}
	ends, err := listOffsets(ctx, u.cl, topics, dropped, latest)
	if err != nil {
		return err
	}
	committed, err := committedOf(ctx, u.cl, u.name, topics, dropped)
	if err != nil {
		return err
	}
	u.unread = map[string]int64{}
	for topic, of := range ends {
		for p, end := range of {
			// What was deleted is not left. Kafka Streams deletes what it has read.
			at := max(committed[topic][p], starts[topic][p])
			left := max(0, end-at)
			if left > 0 && left <= peekLimit {
				if n, err := peek(ctx, u.cl, topics[topic], p, at, end); err == nil {
					left = n
				}
			}
			committed[topic][p] = end - left
			u.unread[topic] += left
		}
	}
	u.cluster.EndOffsets, u.cluster.Committed = ends, committed
	return nil
}
