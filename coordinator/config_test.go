package coordinator

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/topics"
)

func TestBrokerConfigs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, KIP1071)
	heartbeatInterval := func() int32 { return w.hb("m1", 10).ok(10).resp.HeartbeatIntervalMillis }
	w.g10(memberSpec{id: "m1", tasks: allNine})

	w.brokerConfig("group.streams.heartbeat.interval.ms", "7000")
	assert.EqualValues(t, 7000, heartbeatInterval(), "a change holds from the next heartbeat")
	require.NoError(t, w.c.SetBrokerConfig("group.streams.heartbeat.interval.ms", nil))
	delete(w.broker, "group.streams.heartbeat.interval.ms")
	assert.EqualValues(t, 5000, heartbeatInterval(), "the default again")

	before := w.c.GroupConfigs(groupID)
	for name, value := range map[string]string{
		"group.streams.heartbeat.interval.ms":      "45000",
		"group.streams.session.timeout.ms":         "2147483648",
		"group.streams.max.session.timeout.ms":     "44000",
		"group.streams.assignors":                  "sticky,none",
		"group.streams.assignor.offload.enable":    "maybe",
		"group.streams.rack.aware.assignment.tags": "a,,b",
	} {
		var e *ConfigError
		require.ErrorAs(t, w.c.SetBrokerConfig(name, &value), &e, name)
	}
	assert.Equal(t, before, w.c.GroupConfigs(groupID), "a refused change changes nothing")

	for name, value := range map[string]string{
		"group.streams.assignors":                  "other",
		"group.streams.assignor.offload.enable":    "false",
		"group.streams.rack.aware.assignment.tags": "zone",
		"group.coordinator.rebalance.protocols":    "classic",
		"some.other.config":                        "is none of ours",
	} {
		require.NoError(t, w.c.SetBrokerConfig(name, &value))
		require.NoError(t, w.c.SetBrokerConfig(name, nil))
	}
	entry := func(name string) ConfigEntry {
		all := w.c.GroupConfigs(groupID)
		require.True(t, slices.IsSortedFunc(all, func(a, b ConfigEntry) int { return strings.Compare(a.Name, b.Name) }))
		return all[slices.IndexFunc(all, func(e ConfigEntry) bool { return e.Name == name })]
	}
	assert.Equal(t, ConfigEntry{Name: "streams.assignor.offload.enable", Value: "true"}, entry("streams.assignor.offload.enable"))
	assert.Equal(t, ConfigEntry{Name: "streams.rack.aware.assignment.tags"}, entry("streams.rack.aware.assignment.tags"))
	assert.Equal(t, "sticky", entry("streams.assignor.name").Value)

	for name, want := range map[string][2]bool{
		"group.streams.assignment.interval.ms":  {true, true},
		"group.streams.assignor.offload.enable": {true, true},
		"group.streams.session.timeout.ms":      {true, false},
		"group.streams.assignors":               {true, false},
		"log.retention.ms":                      {false, false},
	} {
		known, dynamic := w.c.IsBrokerConfig(name)
		assert.Equal(t, want, [2]bool{known, dynamic}, name)
	}
}

func TestRequiredTopics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, KIP1071)
	w.topo = topo(0, sub("s1", reads("bar"), pattern("fo+"), changelog("log")))
	required := func() (names []string, ready bool) {
		ready = w.c.Required(groupID, func(topic string) { names = append(names, topic) })
		return names, ready
	}
	names, ready := required()
	assert.Empty(t, names)
	assert.False(t, ready)
	assert.False(t, w.c.HasPatterns(groupID))

	w.join("m1").ok(2).status(3)
	names, ready = required()
	assert.Equal(t, []string{"bar", "foo", "log"}, names)
	assert.False(t, ready)
	assert.True(t, w.c.HasPatterns(groupID))

	// A setting of an existing internal topic is not what it should be: that is
	// told once and otherwise ignored (D25).
	w.topo.Subtopologies[0].StateChangelogTopics[0].Configs = []kmsg.TopicInfoConfig{{Key: "cleanup.policy", Value: "compact"}}
	w.topo.Epoch = 1
	w.topics["log"] = topics.Topic{Name: "log", Partitions: 6, Configs: map[string]string{"cleanup.policy": "delete"}}
	w.topic("fooo", 2)
	w.target("m1", "s1:0-5")
	a := w.join("m1").ok(3).status()
	assert.Equal(t, TopicSettingDiffers{Group: groupID, Topic: "log", Name: "cleanup.policy", Want: "compact", Have: "delete"}, the[TopicSettingDiffers](a))
	names, ready = required()
	assert.Equal(t, []string{"bar", "foo", "fooo", "log"}, names)
	assert.True(t, ready)
	w.topic("fooo", 3)
	assert.Zero(t, count[TopicSettingDiffers](w.hb("m1", 3).ok(4)))

	// After a move the patterns are not resolved yet.
	w.move()
	names, _ = required()
	assert.Equal(t, []string{"bar", "log"}, names)
}

func TestEventsNameTheirGroup(t *testing.T) {
	t.Parallel()
	for _, e := range []Event{
		GroupCreated{Group: "g"},
		GroupDeleted{Group: "g"},
		StateChanged{Group: "g"},
		EpochBumped{Group: "g"},
		TargetComputed{Group: "g"},
		AssignmentFailed{Group: "g"},
		AssignmentDelayed{Group: "g"},
		MemberJoined{Group: "g"},
		MemberReplaced{Group: "g"},
		MemberLeft{Group: "g"},
		MemberFenced{Group: "g"},
		EpochReached{Group: "g"},
		TasksGranted{Group: "g"},
		RevocationAsked{Group: "g"},
		RevocationAcknowledged{Group: "g"},
		TasksWaiting{Group: "g"},
		TopologySet{Group: "g"},
		TopicsNotReady{Group: "g"},
		TopicsReady{Group: "g"},
		TopicsRequested{Group: "g"},
		TopicSettingDiffers{Group: "g"},
		ShutdownRequested{Group: "g"},
		ConfigClamped{Group: "g"},
	} {
		assert.Equal(t, "g", e.GroupID(), "%T", e)
	}
}
