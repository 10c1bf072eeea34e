package kfakeext_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

// values asks for a config of a group, with the values it has on all levels.
func (w *wire) values(group, name string) (values []string) {
	w.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms = true
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeGroupConfig, group, []string{name}
	req.Resources = append(req.Resources, r)
	got := w.ask(0, req).(*kmsg.DescribeConfigsResponse).Resources
	require.Len(w, got, 1)
	for _, c := range got[0].Configs {
		assert.Equal(w, c.Source, c.ConfigSynonyms[0].Source)
		assert.Equal(w, c.Value, c.ConfigSynonyms[0].Value)
		for _, s := range c.ConfigSynonyms {
			values = append(values, s.Source.String()+" "+s.Name+"="+*s.Value)
		}
	}
	return values
}

func TestDescribeGroupConfigOnAllLevels(t *testing.T) {
	const interval = "streams.assignment.interval.ms"
	inBubble(t, func(w *wire) {
		require.NoError(w, w.cl.SetGroupConfig("g", map[string]string{interval: "300"}))
		got, _ := w.alter(kmsg.ConfigResourceTypeBroker, "", false, "group."+interval, "200")
		code(w.T, nil, got)
		assert.Equal(w, []string{
			"GROUP_CONFIG " + interval + "=300",
			"DYNAMIC_DEFAULT_BROKER_CONFIG group." + interval + "=200",
			"STATIC_BROKER_CONFIG group." + interval + "=100",
			"DEFAULT_CONFIG group." + interval + "=1000",
		}, w.values("g", interval))
		assert.Equal(w, []string{"DEFAULT_CONFIG group.streams.assignors=sticky"}, w.values("g", "streams.assignor.name"))
		assert.Equal(w, []string{"DEFAULT_CONFIG group.streams.session.timeout.ms=45000"}, w.values("h", "streams.session.timeout.ms"))
	}, kfakeext.BrokerConfig("group."+interval, "100"))
}

// Four configs are internal in Kafka 4.4.
func TestDescribeInternalGroupConfigs(t *testing.T) {
	const internal = "streams.num.warmup.replicas"
	inBubble(t, func(w *wire) {
		assert.Empty(w, w.values("g", internal))
		assert.NotContains(w, w.configs(kmsg.ConfigResourceTypeGroupConfig, "g", nil), internal)
		require.NoError(w, w.cl.SetGroupConfig("g", map[string]string{internal: "1"}))
		assert.Equal(w, []string{"GROUP_CONFIG " + internal + "=1", "DEFAULT_CONFIG group." + internal + "=2"}, w.values("g", internal))
	}, kfakeext.Policy(coordinator.Kafka))
}
