package kfakeext

import (
	"slices"

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
)

// group describes a group.
func (d *describer) group(r *kmsg.DescribeConfigsResponseResource) {
	broker := d.a.core.GroupConfigs("")
	for i, e := range d.a.core.GroupConfigs(r.ResourceName) {
		if e.Override || !d.hidden(e.Name) {
			d.add(r, e.Name, i, e, broker[i])
		}
	}
}

// broker describes a broker. What is set is kfake's to describe. A group that
// sets nothing shows what is not.
func (d *describer) broker(r *kmsg.DescribeConfigsResponseResource) {
	for i, e := range d.a.core.GroupConfigs("") {
		if e.Name != assignorOverride { // no such broker config
			d.add(r, brokerConfigPrefix+e.Name, i, e, e)
		}
	}
}

// hidden is whether Kafka keeps a config to itself unless it is set.
func (d *describer) hidden(name string) bool {
	if d.a.policy != coordinator.Kafka {
		return false
	}
	switch name {
	case "streams.assignor.offload.enable", "streams.task.offset.interval.ms", "streams.num.warmup.replicas", "streams.acceptable.recovery.lag":
		return true
	}
	return false
}

// add adds a config that was asked for and is not there. It is the i-th of its
// group, and the broker has a value for it as well.
func (d *describer) add(r *kmsg.DescribeConfigsResponseResource, name string, i int, e, broker coordinator.ConfigEntry) {
	if d.asked != nil && !slices.Contains(d.asked, name) ||
		slices.ContainsFunc(r.Configs, func(c kmsg.DescribeConfigsResponseResourceConfig) bool { return c.Name == name }) {
		return
	}
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.Value, c.ConfigType = name, kmsg.StringPtr(e.Value), groupConfigType(e.Name)
	c.IsDefault = !e.Override
	synonyms := d.values(i, e, broker)
	c.Source = synonyms[0].Source
	if d.synonyms {
		c.ConfigSynonyms = synonyms
	}
	r.Configs = append(r.Configs, c)
}

// values are all values that a config has, the one in force first.
func (d *describer) values(i int, e, broker coordinator.ConfigEntry) (values []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym) {
	add := func(name, value string, source kmsg.ConfigSource) {
		s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		s.Name, s.Value, s.Source = name, kmsg.StringPtr(value), source
		values = append(values, s)
	}
	if e.Override {
		add(e.Name, e.Value, kmsg.ConfigSourceGroupConfig)
	}
	name, def := brokerConfigPrefix+e.Name, d.a.defaults[i].Value
	if e.Name == assignorOverride {
		name = "group.streams.assignors" // of which the first is the default
	}
	static, set := d.a.static[name]
	before := def
	if set {
		before = static
	}
	if broker.Value != before && e.Name != assignorOverride {
		add(name, broker.Value, kmsg.ConfigSourceDynamicDefaultBrokerConfig)
	}
	if set {
		add(name, static, kmsg.ConfigSourceStaticBrokerConfig)
	}
	add(name, def, kmsg.ConfigSourceDefaultConfig)
	return values
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
