package kfakeext

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/streamsgroup/streamsgroup/coordinator/topics"
)

// topicCache owns the image of the cluster's topics that the core sees. kfake
// tells nobody when topics change, so topics are read again when something
// hints at a change. A version is only spent if something differs.
type topicCache struct {
	fake *kfake.Cluster

	// mu serializes reading and publishing, so that an older reading never
	// replaces a newer one. kfake answers while it is held.
	mu      sync.Mutex
	byName  map[string]topics.Topic
	all     bool // every topic has been in byName once
	version uint64
	image   atomic.Pointer[topics.Image]
}

func (c *topicCache) init(fake *kfake.Cluster) {
	c.fake = fake
	c.byName = make(map[string]topics.Topic)
	c.image.Store(topics.NewImage(0, nil))
}

func (c *topicCache) current() *topics.Image { return c.image.Load() }

// read looks at topics again. It calls the cluster.
func (c *topicCache) read(names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := false
	for _, name := range names {
		changed = c.readOne(name) || changed
	}
	if changed {
		c.publish()
	}
}

// complete takes over a list of all topics. What it says of known topics may be
// out of date already, so these are read again where they differ. It calls the
// cluster.
func (c *topicCache) complete(list []topics.Topic) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := !c.all
	c.all = true
	listed := make(map[string]bool, len(list))
	for _, t := range list {
		listed[t.Name] = true
		before, had := c.byName[t.Name]
		switch {
		case !had:
			c.byName[t.Name] = t
			changed = true
		case before.ID != t.ID || before.Partitions != t.Partitions:
			changed = c.readOne(t.Name) || changed
		}
	}
	for name := range c.byName {
		if !listed[name] {
			changed = c.readOne(name) || changed
		}
	}
	if changed {
		c.publish()
	}
}

func (c *topicCache) publish() {
	c.version++
	if c.all {
		c.image.Store(topics.NewCompleteImage(c.version, c.byName))
	} else {
		c.image.Store(topics.NewImage(c.version, c.byName))
	}
}

// readOne returns whether the topic has changed.
func (c *topicCache) readOne(name string) bool {
	before, had := c.byName[name]
	info := c.fake.TopicInfo(name)
	if info == nil {
		delete(c.byName, name)
		return had
	}
	after := topics.Topic{
		ID: info.TopicID, Name: name, Partitions: int32(len(c.fake.PartitionInfos(name))), ReplicationFactor: int16(info.NumReplicas),
	}
	for k, v := range info.Configs {
		if v == nil {
			continue
		}
		if after.Configs == nil {
			after.Configs = make(map[string]string)
		}
		after.Configs[k] = *v
	}
	c.byName[name] = after
	return !had || before.ID != after.ID || before.Partitions != after.Partitions ||
		before.ReplicationFactor != after.ReplicationFactor || !maps.Equal(before.Configs, after.Configs)
}
