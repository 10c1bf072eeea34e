package topology

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	changelogSuffix   = "-changelog"
	repartitionSuffix = "-repartition"

	defaultWindowExtra = 24 * time.Hour
	// versionedExtra is added to the history retention of a versioned store. It
	// is fixed, other than the one of windows (rule TP-10).
	versionedExtra = 24 * time.Hour
)

func repartitionName(name string) string {
	return strings.TrimSuffix(name, repartitionSuffix) + repartitionSuffix
}

// illegalTopicName says what is wrong with a topic name, or nothing.
func illegalTopicName(name string) string {
	switch {
	case name == "":
		return "it is empty"
	case name == "." || name == "..":
		return "it may not be . or .."
	case len(name) > 249:
		return "it is longer than 249 characters"
	case name == "__consumer_offsets" || name == "__transaction_state" || name == "__share_group_state":
		return "the topic belongs to Kafka itself"
	}
	for _, r := range name {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
		default:
			return "it contains " + strconv.QuoteRune(r) + ": only letters, digits, '.', '_' and '-' are allowed"
		}
	}
	return ""
}

// compareText orders text as Java does, by UTF-16 code units: what lies beyond
// the first 65 536 characters comes before U+E000. Topic names are ASCII, so it
// makes no difference there; nodes, stores and settings may have any name.
func compareText(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return cmp.Compare(utf16Rank(a[i]), utf16Rank(b[i]))
		}
	}
	return cmp.Compare(len(a), len(b))
}

// utf16Rank moves the first bytes of U+E000 to U+FFFF behind those of longer
// sequences.
func utf16Rank(b byte) byte {
	if b == 0xee || b == 0xef {
		return b + 0x10
	}
	return b
}

// settings is a set of topic settings in layers: library defaults, settings for
// all internal topics, then settings computed or given for this topic.
type settings map[string]string

func (b *Builder) baseSettings(defaults settings) settings {
	s := settings{"message.timestamp.type": "CreateTime"}
	maps.Copy(s, defaults)
	maps.Copy(s, b.topicConfig)
	return s
}

func (b *Builder) repartitionSettings() settings {
	return b.baseSettings(settings{
		"cleanup.policy": "delete",
		"segment.bytes":  "52428800",
		"retention.ms":   "-1",
	})
}

// changelogSettings follows rule TP-10: what is computed from a store's
// retention gives way only to the store's own settings.
func (b *Builder) changelogSettings(s *store) settings {
	var out settings
	switch s.Kind {
	case Windowed:
		extra := defaultWindowExtra
		if b.extraWindow != nil {
			extra = *b.extraWindow
		}
		out = b.baseSettings(settings{"cleanup.policy": "compact,delete"})
		out["retention.ms"] = addMillis(s.Retention, extra)
	case Versioned:
		out = b.baseSettings(settings{"cleanup.policy": "compact"})
		out["min.compaction.lag.ms"] = addMillis(s.Retention, versionedExtra)
	default:
		out = b.baseSettings(settings{"cleanup.policy": "compact"})
	}
	maps.Copy(out, s.ChangelogConfig)
	return out
}

// addMillis adds two durations as milliseconds. The largest duration stands for
// ever: it becomes the largest number, as does a sum that overflows in Kafka.
func addMillis(a, b time.Duration) string {
	if a == math.MaxInt64 || b == math.MaxInt64 {
		return strconv.FormatInt(math.MaxInt64, 10)
	}
	return strconv.FormatInt(a.Milliseconds()+b.Milliseconds(), 10)
}

func (b *Builder) topicInfo(name string, partitions int32, s settings) kmsg.TopicInfo {
	info := kmsg.NewTopicInfo()
	info.Topic = name
	info.NumPartitions = partitions
	info.ReplicationFactor = -1
	if b.replication != nil {
		info.ReplicationFactor = *b.replication
	}
	info.Configs = []kmsg.TopicInfoConfig{}
	for _, k := range slices.SortedFunc(maps.Keys(s), compareText) {
		info.Configs = append(info.Configs, kmsg.TopicInfoConfig{Key: k, Value: s[k]})
	}
	return info
}
