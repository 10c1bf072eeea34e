package topology

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TopicRole says what a topic is to an application.
type TopicRole string

const (
	// SourceTopic is one that the application does not own.
	SourceTopic TopicRole = "source topic"
	// RepartitionTopic connects two subtopologies.
	RepartitionTopic TopicRole = "repartition topic"
	// ChangelogTopic keeps the state of a store.
	ChangelogTopic TopicRole = "changelog"
)

// TopicUse is what a topology does with a topic.
type TopicUse struct {
	Role TopicRole
	// Subtopology reads the topic, or has the store.
	Subtopology string
	// Partitions is 0 where it is not known.
	Partitions int32
	// Changelog is whether a source topic serves as a changelog too.
	Changelog bool
	// ReplicationFactor and Settings are those of topics that the application
	// owns, as the topology asks for them.
	ReplicationFactor int16
	Settings          map[string]string
}

func (u *TopicUse) equal(o *TopicUse) bool {
	counts := u.Partitions == 0 || o.Partitions == 0 || u.Partitions == o.Partitions
	return counts && u.Role == o.Role && u.Changelog == o.Changelog &&
		u.ReplicationFactor == o.ReplicationFactor && maps.Equal(u.Settings, o.Settings)
}

// TopicChange is a topic that comes, goes, or is used in another way. That
// another subtopology reads it is not among this: see [Difference.Overlaps].
type TopicChange struct {
	Name string
	// Older is nil for a topic that comes, Newer for one that goes.
	Older, Newer *TopicUse
}

// SettingsChanged returns the settings that differ between the two uses, the
// replication factor among them as "replication.factor", ascending. A setting
// that one side does not have is empty there.
func (c *TopicChange) SettingsChanged() []SettingChange {
	if c.Older == nil || c.Newer == nil {
		return nil
	}
	older, newer := c.Older.settings(), c.Newer.settings()
	names := map[string]bool{}
	for name := range older {
		names[name] = true
	}
	for name := range newer {
		names[name] = true
	}
	var out []SettingChange
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if older[name] != newer[name] {
			out = append(out, SettingChange{name, older[name], newer[name]})
		}
	}
	return out
}

// SettingChange is a topic setting that a topology asks for in another way.
type SettingChange struct{ Name, Older, Newer string }

func (u *TopicUse) settings() map[string]string {
	out := maps.Clone(u.Settings)
	if out == nil {
		out = map[string]string{}
	}
	if u.Role != SourceTopic {
		out["replication.factor"] = strconv.Itoa(int(u.ReplicationFactor))
	}
	return out
}

func (k *comparison) topics() []TopicChange {
	older, newer := uses(k.older, k.olderCounts, k.olderPrints), uses(k.newer, k.newerCounts, k.newerPrints)
	var out []TopicChange
	for name, o := range older {
		n := newer[name]
		if n == nil || !o.equal(n) {
			out = append(out, TopicChange{Name: name, Older: o, Newer: n})
		}
	}
	for name, n := range newer {
		if older[name] == nil {
			out = append(out, TopicChange{Name: name, Newer: n})
		}
	}
	slices.SortFunc(out, func(a, b TopicChange) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// uses returns all that a topology does with topics, by topic.
func uses(t *Topology, counts map[string]int32, prints []Footprint) map[string]*TopicUse {
	out := map[string]*TopicUse{}
	add := func(name, id string, role TopicRole, info *kmsg.TopicInfo) *TopicUse {
		u := &TopicUse{Role: role, Subtopology: id, Partitions: counts[name]}
		if info != nil {
			u.ReplicationFactor = info.ReplicationFactor
			u.Settings = make(map[string]string, len(info.Configs))
			for _, c := range info.Configs {
				u.Settings[c.Key] = c.Value
			}
		}
		out[name] = u
		return u
	}
	for i := range prints {
		s := &t.subs[t.byID[prints[i].ID]]
		for _, name := range prints[i].Sources {
			add(name, s.SubtopologyID, SourceTopic, nil)
		}
		for j := range s.RepartitionSourceTopics {
			r := &s.RepartitionSourceTopics[j]
			add(r.Topic, s.SubtopologyID, RepartitionTopic, r)
		}
	}
	for i := range t.subs {
		s := &t.subs[i]
		for j := range s.StateChangelogTopics {
			l := &s.StateChangelogTopics[j]
			if u := out[l.Topic]; u != nil && u.Role != ChangelogTopic {
				u.Changelog = true
				continue
			}
			add(l.Topic, s.SubtopologyID, ChangelogTopic, l)
		}
	}
	return out
}
