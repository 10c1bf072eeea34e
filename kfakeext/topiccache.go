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
		before, had := c.byName[name]
		info := c.fake.TopicInfo(name)
		if info == nil {
			if had {
				delete(c.byName, name)
				changed = true
			}
			continue
		}
		after := topics.Topic{ID: info.TopicID, Name: name, Partitions: int32(len(c.fake.PartitionInfos(name)))}
		for k, v := range info.Configs {
			if v == nil {
				continue
			}
			if after.Configs == nil {
				after.Configs = make(map[string]string)
			}
			after.Configs[k] = *v
		}
		if had && before.ID == after.ID && before.Partitions == after.Partitions && maps.Equal(before.Configs, after.Configs) {
			continue
		}
		c.byName[name] = after
		changed = true
	}
	if changed {
		c.version++
		c.image.Store(topics.NewImage(c.version, c.byName))
	}
}
