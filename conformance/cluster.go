package conformance

import (
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupResource is the config resource type of groups.
const groupResource = kmsg.ConfigResourceTypeGroupConfig

// Topic creates a topic and returns once the broker knows it.
func (c *C) Topic(word string, partitions int32) {
	c.note("topic %s with %d partitions", word, partitions)
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = c.Named(word), partitions, 1
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10_000
	req.Topics = append(req.Topics, topic)
	resp := c.AskController(req).(*kmsg.CreateTopicsResponse)
	require.NoError(c, kerr.ErrorForCode(resp.Topics[0].ErrorCode), "create topic %s", word)
	c.onEnd(func() { _ = c.deleteTopics(c.Named(word)) })
	c.prepared("topic "+word, func() bool { return c.partitions(word) == int(partitions) })
	c.known(word, partitions)
}

// Grow sets the number of partitions of a topic.
func (c *C) Grow(word string, partitions int32) {
	c.note("topic %s grows to %d partitions", word, partitions)
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = c.Named(word), partitions
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = 10_000
	req.Topics = append(req.Topics, topic)
	resp := c.AskController(req).(*kmsg.CreatePartitionsResponse)
	require.NoError(c, kerr.ErrorForCode(resp.Topics[0].ErrorCode), "grow topic %s", word)
	c.prepared("partitions of "+word, func() bool { return c.partitions(word) == int(partitions) })
	c.known(word, partitions)
}

// DeleteTopic deletes a topic and returns once the broker has forgotten it.
func (c *C) DeleteTopic(word string) {
	c.note("topic %s is deleted", word)
	require.NoError(c, c.deleteTopics(c.Named(word)), "delete topic %s", word)
	c.prepared("end of topic "+word, func() bool { return c.partitions(word) == 0 })
	c.known(word, 0)
}

func (c *C) deleteTopics(names ...string) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 10_000
	for _, name := range names {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
		req.TopicNames = append(req.TopicNames, name)
	}
	for _, t := range c.AskController(req).(*kmsg.DeleteTopicsResponse).Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return err
		}
	}
	return nil
}

// partitions is the number of partitions that have a leader.
func (c *C) partitions(word string) int {
	name := c.Named(word)
	req := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &name
	req.Topics = append(req.Topics, topic)
	for _, t := range c.Ask(req).(*kmsg.MetadataResponse).Topics {
		if t.ErrorCode == 0 {
			n := 0
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 && p.Leader >= 0 {
					n++
				}
			}
			return n
		}
	}
	return 0
}

// settle waits for a change of configs that began then to reach all parts of
// the broker. On a busy machine that takes longer, as the change itself did.
func (c *C) settle(began time.Time) {
	if c.target.Settle > 0 {
		require.NoError(c, c.target.Clock.Sleep(c.ctx, c.target.Settle+c.target.Clock.Now().Sub(began)))
	}
}

// await polls until something is so that the scenario is about.
func (c *C) await(what string, so func() bool) { c.awaitWithin(20*time.Second, what, so) }

// prepared polls until something is so that the scenario needs. That may take long
// at a broker on a busy machine, and is no fault.
func (c *C) prepared(what string, so func() bool) { c.awaitWithin(2*time.Minute, what, so) }

func (c *C) awaitWithin(patience time.Duration, what string, so func() bool) {
	for began := c.target.Clock.Now(); !so(); {
		require.Less(c, c.target.Clock.Now().Sub(began), patience, "waiting for %s", what)
		require.NoError(c, c.target.Clock.Sleep(c.ctx, 20*time.Millisecond))
	}
}

// Config sets group configs of the scenario's group: pairs of name and value.
// A broker that refuses a value skips the scenario: it needs a broker with wider
// bounds.
func (c *C) Config(pairs ...string) {
	if err := c.TryConfig(pairs...); err != nil {
		c.Skip("the broker refuses %v of a group: %v", pairs, err)
	}
}

// TryConfig sets group configs and returns how the broker answers.
func (c *C) TryConfig(pairs ...string) error {
	c.note("group config %v", pairs)
	began := c.target.Clock.Now()
	values := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		values[pairs[i]] = pairs[i+1]
	}
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = groupResource, c.group
	for _, name := range slices.Sorted(maps.Keys(values)) {
		cfg := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		value := values[name]
		cfg.Name, cfg.Value, cfg.Op = name, &value, kmsg.IncrementalAlterConfigOpSet
		res.Configs = append(res.Configs, cfg)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, res)
	resp := c.AskController(req).(*kmsg.IncrementalAlterConfigsResponse)
	if err := kerr.ErrorForCode(resp.Resources[0].ErrorCode); err != nil {
		return err
	}
	c.prepared("group configs", func() bool {
		shown := c.GroupConfigs()
		for name, value := range values {
			if shown[name] != value {
				return false
			}
		}
		return true
	})
	c.settle(began)
	return nil
}

// GroupConfigs are the configs of the scenario's group as the broker describes
// them.
func (c *C) GroupConfigs() map[string]string {
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName = groupResource, c.group
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = append(req.Resources, res)
	values := map[string]string{}
	for _, r := range c.AskCoordinator(req).(*kmsg.DescribeConfigsResponse).Resources {
		for _, cfg := range r.Configs {
			if cfg.Value != nil {
				values[cfg.Name] = *cfg.Value
			}
		}
	}
	return values
}
