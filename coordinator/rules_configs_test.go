package coordinator

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/coordinator/assignor"
)

// configRow is a config of the table of rule 25: its default, and the least and
// the greatest value that an override may have. An empty bound is not tried.
type configRow struct {
	rule, override  string
	def             string
	least, greatest string
	dynamic         bool
}

func TestRulesConfigs(t *testing.T) {
	t.Parallel()
	for _, row := range []configRow{
		{"rule 25-group.streams.session.timeout.ms", "streams.session.timeout.ms", "45000", "45000", "60000", false},
		{"rule 25-group.streams.heartbeat.interval.ms", "streams.heartbeat.interval.ms", "5000", "5000", "15000", false},
		{"rule 25-group.streams.num.standby.replicas", "streams.num.standby.replicas", "0", "0", "2", false},
		{"rule 25-group.streams.initial.rebalance.delay.ms", "streams.initial.rebalance.delay.ms", "3000", "0", "", false},
		{"rule 25-group.streams.assignment.interval.ms", "streams.assignment.interval.ms", "1000", "0", "15000", true},
		{"rule 25-group.streams.task.offset.interval.ms", "streams.task.offset.interval.ms", "60000", "15000", "", false},
		{"rule 25-group.streams.num.warmup.replicas", "streams.num.warmup.replicas", "2", "0", "20", false},
		{"rule 25-group.streams.acceptable.recovery.lag", "streams.acceptable.recovery.lag", "10000", "0", "9223372036854775807", false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			t.Parallel()
			broker := strings.TrimPrefix(row.rule, "rule 25-")
			c, err := New(Config{})
			require.NoError(t, err)
			assert.Equal(t, row.def, entryOf(c, row.override).Value)
			check := func(value string, ok bool) {
				t.Helper()
				err := c.CheckGroupConfig(map[string]string{row.override: value})
				_, brokerErr := New(Config{Broker: map[string]string{broker: value}})
				if ok {
					require.NoError(t, err)
					require.NoError(t, brokerErr)
					return
				}
				for name, err := range map[string]error{row.override: err, broker: brokerErr} {
					var e *ConfigError
					require.ErrorAs(t, err, &e)
					assert.Equal(t, name, e.Name)
					assert.Equal(t, value, e.Value)
				}
			}
			check(row.least, true)
			n, _ := strconv.ParseInt(row.least, 10, 64)
			check(strconv.FormatInt(n-1, 10), false)
			if row.greatest != "" {
				check(row.greatest, true)
				if n, _ = strconv.ParseInt(row.greatest, 10, 64); n < math.MaxInt64 {
					check(strconv.FormatInt(n+1, 10), false)
				}
			}
			for _, wrong := range []string{"", "x", "1.5", "99999999999999999999"} {
				check(wrong, false)
			}
			known, dynamic := c.IsBrokerConfig(broker)
			assert.True(t, known)
			assert.Equal(t, row.dynamic, dynamic)
		})
	}
	for _, c := range []struct {
		name, config, value string
		ok                  bool
	}{
		{"rule 25-group.streams.max.size one", "group.streams.max.size", "1", true},
		{"rule 25-group.streams.max.size none", "group.streams.max.size", "0", false},
		{"rule 25-group.streams.rack.aware.assignment.tags", "group.streams.rack.aware.assignment.tags", "a,b", true},
		{"rule 25-group.streams.rack.aware.assignment.tags twice", "group.streams.rack.aware.assignment.tags", "a,b,a", false},
		{"rule 25-group.streams.rack.aware.assignment.tags empty element", "group.streams.rack.aware.assignment.tags", "a,,b", false},
		{"rule 25-group.streams.rack.aware.assignment.tags none", "group.streams.rack.aware.assignment.tags", "", true},
		{"rule 25-group.streams.assignors two", "group.streams.assignors", "mine,sticky", true},
		{"rule 25-group.streams.assignors twice", "group.streams.assignors", "sticky,sticky", false},
		{"rule 25-group.streams.assignors none", "group.streams.assignors", "", false},
		{"rule 25-group.streams.assignors unknown", "group.streams.assignors", "nobody", false},
		{"rule 25-group.streams.assignor.offload.enable", "group.streams.assignor.offload.enable", "false", true},
		{"rule 25-group.streams.assignor.offload.enable wrong", "group.streams.assignor.offload.enable", "perhaps", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := New(Config{Broker: map[string]string{c.config: c.value}, Assignors: []assignor.Assignor{&stubAssignor{t: t, name: "mine"}}})
			if c.ok {
				require.NoError(t, err)
				return
			}
			var e *ConfigError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, c.config, e.Name)
		})
	}
	t.Run("rules 25-group.coordinator.rebalance.protocols 25-group.streams.max.size 25-group.streams.assignors defaults", func(t *testing.T) {
		t.Parallel()
		c, err := New(Config{Policy: Kafka})
		require.NoError(t, err)
		assert.Equal(t, []string{"classic", "consumer", "streams"}, c.broker.protocols)
		assert.EqualValues(t, 2147483647, c.broker.ints[cfgMaxSize])
		assert.Equal(t, []string{"sticky"}, c.broker.assignors)
		assert.True(t, c.broker.offload)
		assert.Empty(t, c.broker.tags)
	})
	t.Run("rule 25-group.streams.heartbeat.interval.ms below the session time-out", func(t *testing.T) {
		t.Parallel()
		_, err := New(Config{Broker: map[string]string{"group.streams.min.session.timeout.ms": "1000", "group.streams.session.timeout.ms": "5000"}})
		var e *ConfigError
		require.ErrorAs(t, err, &e)
	})
}

func entryOf(c *Coordinator, name string) ConfigEntry {
	for _, e := range c.GroupConfigs(groupID) {
		if e.Name == name {
			return e
		}
	}
	return ConfigEntry{}
}

func TestRulesConfigsInUse(t *testing.T) {
	interval := func(w *world) int32 { return w.hb("m1", 10).ok(10).resp.HeartbeatIntervalMillis }
	runCases(t, []testCase{
		{"rules 25-1 25-8 override, else the broker's value at the time of use", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			assert.EqualValues(w.t, 5000, interval(w))
			w.brokerConfig("group.streams.heartbeat.interval.ms", "7000")
			assert.EqualValues(w.t, 7000, interval(w))
			w.groupConfig("streams.heartbeat.interval.ms", "8000")
			assert.EqualValues(w.t, 8000, interval(w))
			w.brokerConfig("group.streams.heartbeat.interval.ms", "9000")
			assert.EqualValues(w.t, 8000, interval(w))
			w.groupConfig()
			assert.EqualValues(w.t, 9000, interval(w))
		}},
		{"rule 25-8 a session time-out with the next heartbeat, standbys with a new epoch", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.hb("m1", 10).ok(10)
			w.groupConfig("streams.session.timeout.ms", "50000", "streams.num.standby.replicas", "2")
			w.target("m1", allNine)
			w.after(44 * time.Second)
			w.hb("m1", 10).ok(11)
			w.after(50*time.Second - time.Millisecond).records()
			w.after(time.Millisecond).records("t22", "t21", "t19", "17", "20")
		}},
		{"rule 25-2 refused overrides", bothModes, func(w *world) {
			for _, o := range []map[string]string{
				{"streams.session.timeout.ms": "60001"},
				{"streams.assignor.name": "nobody"},
				{"streams.no.such": "1"},
				{"streams.num.standby.replicas": "many"},
				{"streams.assignor.offload.enable": "2x"},
				{"streams.rack.aware.assignment.tags": "a,a"},
				{"group.streams.max.size": "1"},
				{"streams.heartbeat.interval.ms": "6000", "streams.task.offset.interval.ms": "1"},
			} {
				var e *ConfigError
				require.ErrorAs(w.t, w.c.CheckGroupConfig(o), &e)
				assert.True(w.t, strings.Contains(e.Error(), e.Name) && strings.Contains(e.Error(), e.Value))
			}
			// A session has to be longer than the interval, whoever sets which.
			w.brokerConfig("group.streams.min.session.timeout.ms", "1")
			w.brokerConfig("group.streams.min.heartbeat.interval.ms", "1")
			require.Error(w.t, w.c.CheckGroupConfig(map[string]string{"streams.session.timeout.ms": "5000"}))
			require.NoError(w.t, w.c.CheckGroupConfig(map[string]string{"streams.session.timeout.ms": "5001"}))
			require.Error(w.t, w.c.CheckGroupConfig(map[string]string{"streams.session.timeout.ms": "5001", "streams.heartbeat.interval.ms": "5001"}))
		}},
		{"rules 25-3 25-group.streams.topology.description.plugin.class 25-group.streams.assignor.offload.enable which are dynamic", bothModes, func(w *world) {
			for name, want := range map[string]bool{
				"group.streams.assignment.interval.ms": true, "group.streams.assignor.offload.enable": true,
				"group.streams.session.timeout.ms": false, "group.streams.max.size": false, "group.streams.assignors": false,
				"group.streams.rack.aware.assignment.tags": false, "group.coordinator.rebalance.protocols": false,
			} {
				known, dynamic := w.c.IsBrokerConfig(name)
				assert.True(w.t, known, name)
				assert.Equal(w.t, want, dynamic, name)
			}
			known, _ := w.c.IsBrokerConfig("group.streams.topology.description.plugin.class")
			assert.False(w.t, known, "a plug-in is no config here")
		}},
		{"rules 25-4 25-5 out of bounds when loaded", bothModes, func(w *world) {
			w.groupConfig("streams.heartbeat.interval.ms", "1", "streams.acceptable.recovery.lag", "-5", "streams.num.standby.replicas", "77")
			w.target("m1", allNine)
			a := w.join("m1").ok(2)
			assert.EqualValues(w.t, 5000, a.resp.HeartbeatIntervalMillis)
			assert.EqualValues(w.t, 0, a.resp.AcceptableRecoveryLag)
			assert.Equal(w.t, 2, w.stub.calls[0].StandbyReplicas)
			assert.Equal(w.t, 3, count[ConfigClamped](a))
			assert.Contains(w.t, a.events, ConfigClamped{Group: groupID, Name: "streams.heartbeat.interval.ms", Value: "1", Used: "5000"})
			assert.Zero(w.t, count[ConfigClamped](w.hb("m1", 2).ok(2)), "told once")
			assert.Equal(w.t, ConfigEntry{Name: "streams.heartbeat.interval.ms", Value: "1", Override: true}, entryOf(w.c, "streams.heartbeat.interval.ms"))
			assert.Equal(w.t, ConfigEntry{Name: "streams.session.timeout.ms", Value: "45000"}, entryOf(w.c, "streams.session.timeout.ms"))
			assert.Equal(w.t, ConfigEntry{Name: "streams.assignor.name", Value: "stub"}, entryOf(w.c, "streams.assignor.name"))
		}},
		{"rule 25-6 overrides outlive the group", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: allNine})
			w.groupConfig("streams.heartbeat.interval.ms", "8000")
			w.hb("m1", -1).ok(-1)
			code, _ := w.delete()
			assert.Zero(w.t, code)
			w.target("m1", allNine)
			assert.EqualValues(w.t, 8000, w.join("m1").ok(2).resp.HeartbeatIntervalMillis)
		}},
		{"rule 25-group.coordinator.rebalance.protocols without streams", bothModes, func(w *world) {
			w.brokerConfig("group.coordinator.rebalance.protocols", "classic")
			assert.EqualValues(w.t, 35, w.join("m1").resp.ErrorCode)
		}},
	})
}
