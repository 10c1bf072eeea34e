package kfakeext_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
)

func (w *wire) alter(kind kmsg.ConfigResourceType, name string, validate bool, configs ...string) (int16, string) {
	w.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = validate
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for i := 0; i < len(configs); i += 2 {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = configs[i], kmsg.StringPtr(configs[i+1])
		if configs[i+1] == "" {
			c.Op, c.Value = kmsg.IncrementalAlterConfigOpDelete, nil
		}
		r.Configs = append(r.Configs, c)
	}
	req.Resources = append(req.Resources, r)
	got := w.ask(0, req).(*kmsg.IncrementalAlterConfigsResponse).Resources
	require.Len(w, got, 1)
	return got[0].ErrorCode, text(got[0].ErrorMessage)
}

type described struct {
	value    string
	override bool
}

func (w *wire) configs(kind kmsg.ConfigResourceType, name string, names []string) map[string]described {
	w.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kind, name, names
	req.Resources = append(req.Resources, r)
	got := w.ask(0, req).(*kmsg.DescribeConfigsResponse).Resources
	require.Len(w, got, 1)
	code(w.T, nil, got[0].ErrorCode)
	m := make(map[string]described)
	for _, c := range got[0].Configs {
		_, twice := m[c.Name]
		assert.False(w, twice, c.Name)
		m[c.Name] = described{text(c.Value), c.Source == kmsg.ConfigSourceGroupConfig}
	}
	return m
}

func TestGroupConfigs(t *testing.T) {
	const group = kmsg.ConfigResourceTypeGroupConfig
	inBubble(t, func(w *wire) {
		w.ok(join("g", "m1", "foo"))
		for _, tt := range []struct {
			name    string
			configs []string
			message string
		}{
			{"out of bounds", []string{"streams.session.timeout.ms", "999999"}, "60000"},
			{"not a number", []string{"streams.num.standby.replicas", "many"}, "many"},
			{"unknown", []string{"streams.no.such.thing", "1"}, "streams.no.such.thing"},
			{"J-38", []string{"streams.rack.aware.assignment.tags", "zone,,cluster"}, "zone,,cluster"},
			{"J-38", []string{"streams.rack.aware.assignment.tags", "zone,zone"}, "zone"},
			{"unknown assignor", []string{"streams.assignor.name", "nobody"}, "nobody"},
			{"one bad among good", []string{"streams.heartbeat.interval.ms", "6000", "streams.num.standby.replicas", "99"}, "99"},
			{"bad of another kind", []string{"streams.heartbeat.interval.ms", "6000", "no.such.config", "1"}, ""},
		} {
			got, message := w.alter(group, "g", false, tt.configs...)
			code(w.T, kerr.InvalidConfig, got)
			assert.Contains(w, message, tt.message, tt.name)
		}
		assert.EqualValues(w, 5000, w.ok(beat("g", "m1", 2)).HeartbeatIntervalMillis, "nothing was set")

		got, _ := w.alter(group, "g", true, "streams.heartbeat.interval.ms", "6000")
		code(w.T, nil, got)
		assert.EqualValues(w, 5000, w.ok(beat("g", "m1", 2)).HeartbeatIntervalMillis, "only validated")
		got, _ = w.alter(group, "g", false, "streams.heartbeat.interval.ms", "6000", "share.auto.offset.reset", "earliest")
		code(w.T, nil, got)
		assert.EqualValues(w, 6000, w.ok(beat("g", "m1", 2)).HeartbeatIntervalMillis)

		all := w.configs(group, "g", nil)
		assert.Equal(w, described{"6000", true}, all["streams.heartbeat.interval.ms"])
		assert.Equal(w, described{"45000", false}, all["streams.session.timeout.ms"])
		assert.Equal(w, described{"earliest", true}, all["share.auto.offset.reset"])
		some := w.configs(group, "g", []string{"streams.session.timeout.ms", "share.auto.offset.reset"})
		assert.Len(w, some, 2)

		got, _ = w.alter(group, "g", false, "streams.heartbeat.interval.ms", "")
		code(w.T, nil, got)
		assert.EqualValues(w, 5000, w.ok(beat("g", "m1", 2)).HeartbeatIntervalMillis)

		require.NoError(w, w.cl.SetGroupConfig("g", map[string]string{"streams.heartbeat.interval.ms": "100", "share.auto.offset.reset": "latest"}))
		assert.EqualValues(w, 100, w.ok(beat("g", "m1", 2)).HeartbeatIntervalMillis)
		require.ErrorContains(w, w.cl.SetGroupConfig("g", map[string]string{"streams.num.standby.replicas": "3"}), "streams.num.standby.replicas")
		assert.Equal(w, described{"latest", true}, w.configs(group, "g", nil)["share.auto.offset.reset"])

		require.NoError(w, w.cl.SetGroupConfig("never.seen", map[string]string{"streams.heartbeat.interval.ms": "100"}))
		list := kmsg.NewPtrListConfigResourcesRequest()
		list.ResourceTypes = []int8{int8(group)}
		listed := w.ask(0, list).(*kmsg.ListConfigResourcesResponse).ConfigResources
		names := make([]string, 0, len(listed))
		for _, r := range listed {
			names = append(names, r.Name)
		}
		assert.ElementsMatch(w, []string{"g", "never.seen"}, names)
		list.ResourceTypes = []int8{int8(kmsg.ConfigResourceTypeTopic)}
		assert.Len(w, w.ask(0, list).(*kmsg.ListConfigResourcesResponse).ConfigResources, 2)

		// Overrides survive the group.
		w.ok(beat("g", "m1", -1))
		code(w.T, nil, w.delete("g")[0])
		assert.EqualValues(w, 100, w.ok(join("g", "m1", "foo")).HeartbeatIntervalMillis)
	})
}

func TestBrokerConfigs(t *testing.T) {
	const broker = kmsg.ConfigResourceTypeBroker
	inBubble(t, func(w *wire) {
		w.ok(join("g", "m1", "foo"))
		got, message := w.alter(broker, "0", false, "group.streams.heartbeat.interval.ms", "6000")
		code(w.T, kerr.InvalidRequest, got)
		assert.Contains(w, message, "cannot be changed")
		got, message = w.alter(broker, "0", false, "group.streams.assignment.interval.ms", "999999")
		code(w.T, kerr.InvalidRequest, got)
		assert.Contains(w, message, "999999")
		got, _ = w.alter(broker, "5", false, "group.streams.assignment.interval.ms", "2000") // another node's
		code(w.T, kerr.InvalidRequest, got)
		assert.Equal(w, "1000", w.configs(broker, "0", nil)["group.streams.assignment.interval.ms"].value)

		got, _ = w.alter(broker, "", false, "group.streams.assignment.interval.ms", "2000")
		code(w.T, nil, got)
		assert.Equal(w, "2000", w.configs(broker, "0", nil)["group.streams.assignment.interval.ms"].value)
		assert.Equal(w, "2000", w.configs(kmsg.ConfigResourceTypeGroupConfig, "g", nil)["streams.assignment.interval.ms"].value)
		assert.Equal(w, "45000", w.configs(broker, "0", nil)["group.streams.session.timeout.ms"].value)
		assert.Equal(w, "0", w.configs(broker, "0", nil)["group.streams.initial.rebalance.delay.ms"].value)
		assert.Len(w, w.configs(broker, "0", []string{"group.streams.session.timeout.ms"}), 1)
		resp := w.ok(join("g", "m2", "foo"))
		require.NotEmpty(w, resp.Status, "the interval holds back the assignment")
		time.Sleep(1500 * time.Millisecond)
		w.ok(beat("g", "m2", resp.MemberEpoch))
		w.state("g", coordinator.Assigning)

		set := kmsg.NewPtrAlterConfigsRequest()
		r := kmsg.NewAlterConfigsRequestResource()
		r.ResourceType = broker
		c := kmsg.NewAlterConfigsRequestResourceConfig()
		c.Name, c.Value = "group.streams.assignment.interval.ms", kmsg.StringPtr("0")
		r.Configs = append(r.Configs, c)
		set.Resources = append(set.Resources, r)
		code(w.T, nil, w.ask(0, set).(*kmsg.AlterConfigsResponse).Resources[0].ErrorCode)
		w.ok(beat("g", "m2", resp.MemberEpoch))
		w.state("g", coordinator.Reconciling)

		set.Resources[0].Configs[0].Name, set.Resources[0].Configs[0].Value = "group.streams.max.size", kmsg.StringPtr("1")
		refused := w.ask(0, set).(*kmsg.AlterConfigsResponse).Resources[0]
		code(w.T, kerr.InvalidRequest, refused.ErrorCode)
		assert.Contains(w, text(refused.ErrorMessage), "group.streams.max.size")
	})
}
