package kfakeext

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
)

// describer adds configs of streams groups to what kfake describes. The lock is
// held.
type describer struct {
	a        *adapter
	asked    []string // nil for all
	synonyms bool
}

const (
	brokerConfigPrefix = "group."
	assignorOverride   = "streams.assignor.name"
	// pluginConfig is described and otherwise without meaning: a plug-in is given
	// to the cluster in Go.
	pluginConfig = "group.streams.topology.description.plugin.class"
)

// group describes a group.
func (d *describer) group(r *kmsg.DescribeConfigsResponseResource) {
	broker := d.a.core.GroupConfigs("")
	for i, e := range d.a.core.GroupConfigs(r.ResourceName) {
		if values := d.values(i, e, broker[i]); values[0].Source != kmsg.ConfigSourceDefaultConfig || !d.hidden(e.Name) {
			d.add(r, e.Name, e, values)
		}
	}
}

// broker describes a broker. kfake takes all that it was started with for set at
// run time, and knows no types, so that what is ours takes the place of that. The
// resource without a name has what was set at run time, and only that.
func (d *describer) broker(r *kmsg.DescribeConfigsResponseResource) {
	r.Configs = slices.DeleteFunc(r.Configs, func(c kmsg.DescribeConfigsResponseResourceConfig) bool {
		known, _ := d.a.core.IsBrokerConfig(c.Name)
		return known || c.Name == pluginConfig
	})
	defaults := d.a.brokerDefaults
	for i, e := range d.a.core.BrokerConfigs() {
		values := d.brokerValues(e.Name, e.Value, defaults[i].Value)
		if r.ResourceName == "" {
			values = slices.DeleteFunc(values, func(v kmsg.DescribeConfigsResponseResourceConfigConfigSynonym) bool {
				return v.Source != kmsg.ConfigSourceDynamicDefaultBrokerConfig
			})
		}
		if len(values) == 0 || d.asked != nil && !slices.Contains(d.asked, e.Name) ||
			values[0].Source == kmsg.ConfigSourceDefaultConfig && d.hidden(strings.TrimPrefix(e.Name, brokerConfigPrefix)) {
			continue
		}
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name, c.Value, c.ConfigType = e.Name, kmsg.StringPtr(e.Value), brokerConfigType(e.Name)
		_, changeable := d.a.core.IsBrokerConfig(e.Name)
		c.ReadOnly, c.Source = !changeable, values[0].Source
		c.IsDefault = c.Source == kmsg.ConfigSourceDefaultConfig
		if d.synonyms {
			c.ConfigSynonyms = values
		}
		r.Configs = append(r.Configs, c)
	}
	if r.ResourceName != "" && (d.asked == nil || slices.Contains(d.asked, pluginConfig)) {
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name, c.ConfigType, c.ReadOnly, c.IsDefault, c.Source = pluginConfig, kmsg.ConfigTypeClass, true, true, kmsg.ConfigSourceDefaultConfig
		r.Configs = append(r.Configs, c)
	}
}

// brokerValues are all values that a config of the broker has, the one in force
// first.
func (d *describer) brokerValues(name, value, def string) (values []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym) {
	add := func(value string, source kmsg.ConfigSource) {
		s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		s.Name, s.Value, s.Source = name, kmsg.StringPtr(value), source
		values = append(values, s)
	}
	static, set := d.a.static[name]
	if d.a.dynamic[name] {
		add(value, kmsg.ConfigSourceDynamicDefaultBrokerConfig)
	}
	if set {
		add(static, kmsg.ConfigSourceStaticBrokerConfig)
	}
	add(def, kmsg.ConfigSourceDefaultConfig)
	return values
}

// hidden is whether Kafka keeps a config to itself unless it is set, on any
// level.
func (d *describer) hidden(name string) bool {
	if d.a.policy != coordinator.Kafka {
		return false
	}
	switch name {
	case "streams.assignor.offload.enable", "streams.task.offset.interval.ms", "streams.num.warmup.replicas", "streams.acceptable.recovery.lag",
		"streams.min.task.offset.interval.ms", "streams.max.warmup.replicas":
		return true
	}
	return false
}

// add adds a config that was asked for and is not there.
func (d *describer) add(r *kmsg.DescribeConfigsResponseResource, name string, e coordinator.ConfigEntry, values []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym) {
	if d.asked != nil && !slices.Contains(d.asked, name) ||
		slices.ContainsFunc(r.Configs, func(c kmsg.DescribeConfigsResponseResourceConfig) bool { return c.Name == name }) {
		return
	}
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.Value, c.ConfigType = name, kmsg.StringPtr(e.Value), groupConfigType(e.Name)
	c.IsDefault, c.Source = !e.Override, values[0].Source
	if d.synonyms {
		c.ConfigSynonyms = values
	}
	r.Configs = append(r.Configs, c)
}

// values are all values that a config of a group has, the i-th, the one in force
// first. The broker has a value for it as well.
func (d *describer) values(i int, e, broker coordinator.ConfigEntry) (values []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym) {
	add := func(name, value string, source kmsg.ConfigSource) {
		s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		s.Name, s.Value, s.Source = name, kmsg.StringPtr(value), source
		values = append(values, s)
	}
	if e.Override {
		add(e.Name, e.Value, kmsg.ConfigSourceGroupConfig)
	}
	name, value, def := brokerConfigPrefix+e.Name, broker.Value, d.a.defaults[i].Value
	if e.Name == assignorOverride {
		name = "group.streams.assignors" // of which the first is the default
		if static, set := d.a.static[name]; set {
			value = static // which is not dynamic
		} else {
			value = def
		}
	}
	return append(values, d.brokerValues(name, value, def)...)
}

func groupConfigType(name string) kmsg.ConfigType {
	switch name {
	case "streams.rack.aware.assignment.tags":
		return kmsg.ConfigTypeList
	case assignorOverride:
		return kmsg.ConfigTypeString
	case "streams.assignor.offload.enable":
		return kmsg.ConfigTypeBoolean
	case "streams.acceptable.recovery.lag":
		return kmsg.ConfigTypeLong
	}
	return kmsg.ConfigTypeInt
}

func brokerConfigType(name string) kmsg.ConfigType {
	switch name {
	case "group.streams.assignors", "group.coordinator.rebalance.protocols":
		return kmsg.ConfigTypeList
	}
	return groupConfigType(strings.TrimPrefix(name, brokerConfigPrefix))
}
