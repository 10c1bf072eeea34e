package kfakeext

import (
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kfake keeps broker configs of any name, and describes them; of group configs
// it knows those of the other group types. The streams.* configs of groups live
// in the core. What the core refuses stays in, or is put into, the request in a
// form that kfake refuses, so that a resource succeeds or fails as a whole.

const groupConfigPrefix = "streams."

// refusedOp is no operation of IncrementalAlterConfigs.
const refusedOp kmsg.IncrementalAlterConfigOp = -1

// configChange is what follows from one resource once kfake has accepted it.
type configChange struct {
	resource string
	kind     kmsg.ConfigResourceType
	reason   string       // why it is refused, empty if it is not
	apply    func() error // under the lock; nil if there is nothing to do
}

// IncrementalAlterConfigs: v0-1
func (a *adapter) incrementalAlterConfigs(s sender, req *kmsg.IncrementalAlterConfigsRequest) {
	var changes []configChange
	for i := range req.Resources {
		r := &req.Resources[i]
		var c *configChange
		switch r.ResourceType {
		case kmsg.ConfigResourceTypeGroupConfig:
			c = a.alterGroup(r)
		case kmsg.ConfigResourceTypeBroker:
			c = a.alterBroker(r)
		}
		if c == nil {
			continue
		}
		c.resource, c.kind = r.ResourceName, r.ResourceType
		if req.ValidateOnly {
			c.apply = nil
		}
		changes = append(changes, *c)
	}
	if len(changes) == 0 {
		return
	}
	if s.edit(req, func(resp kmsg.Response) {
		r, ok := resp.(*kmsg.IncrementalAlterConfigsResponse)
		if !ok {
			return
		}
		for i := range r.Resources {
			rr := &r.Resources[i]
			a.settleChange(changes, rr.ResourceName, rr.ResourceType, &rr.ErrorCode, &rr.ErrorMessage)
		}
	}) {
		return
	}
	a.applyUnseen(changes)
}

// settleChange acts on kfake's verdict about one resource.
func (a *adapter) settleChange(changes []configChange, resource string, kind kmsg.ConfigResourceType, code *int16, message **string) {
	for _, c := range changes {
		switch {
		case c.resource != resource || c.kind != kind:
		case *code != 0:
			if c.reason != "" && *message == nil {
				*message = kmsg.StringPtr(c.reason)
			}
		case c.apply != nil:
			a.mu.Lock()
			err := c.apply()
			a.mu.Unlock()
			if err != nil {
				*code, *message = kerr.KafkaStorageError.Code, kmsg.StringPtr(err.Error())
			}
		}
	}
}

// applyUnseen is for requests whose response cannot be followed.
func (a *adapter) applyUnseen(changes []configChange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range changes {
		if c.apply != nil {
			_ = c.apply() // which has been logged; the answer is kfake's
		}
	}
}

// alterGroup takes the streams.* entries out of a resource if all of them may
// be set. If not they stay, and kfake answers INVALID_CONFIG.
func (a *adapter) alterGroup(r *kmsg.IncrementalAlterConfigsRequestResource) *configChange {
	a.mu.Lock()
	defer a.mu.Unlock()
	overrides := maps.Clone(a.core.GroupOverrides(r.ResourceName))
	if overrides == nil {
		overrides = make(map[string]string)
	}
	found := false
	for _, c := range r.Configs {
		if !strings.HasPrefix(c.Name, groupConfigPrefix) {
			continue
		}
		found = true
		switch {
		case c.Op == kmsg.IncrementalAlterConfigOpSet && c.Value != nil:
			overrides[c.Name] = *c.Value
		case c.Op == kmsg.IncrementalAlterConfigOpDelete:
			delete(overrides, c.Name)
		default:
			return &configChange{reason: "config " + c.Name + " can be set to a value or deleted, nothing else"}
		}
	}
	if !found {
		return nil
	}
	if err := a.core.CheckGroupConfig(overrides); err != nil {
		return &configChange{reason: err.Error()}
	}
	r.Configs = slices.DeleteFunc(r.Configs, func(c kmsg.IncrementalAlterConfigsRequestResourceConfig) bool {
		return strings.HasPrefix(c.Name, groupConfigPrefix)
	})
	group := r.ResourceName
	return &configChange{apply: func() error { return a.setGroupConfig(group, overrides) }}
}

// alterBroker checks the entries that concern streams groups. As in Kafka, most
// of them are fixed while a broker runs.
func (a *adapter) alterBroker(r *kmsg.IncrementalAlterConfigsRequestResource) *configChange {
	values := make(map[string]*string)
	for i := range r.Configs {
		c := &r.Configs[i]
		value := c.Value
		if c.Op == kmsg.IncrementalAlterConfigOpDelete {
			value = nil
		}
		known, reason := a.brokerChange(c.Name, value)
		switch {
		case !known:
		case reason != "":
			c.Op = refusedOp
			return &configChange{reason: reason}
		case c.Op != kmsg.IncrementalAlterConfigOpSet && c.Op != kmsg.IncrementalAlterConfigOpDelete:
			return nil // kfake refuses
		default:
			values[c.Name] = value
		}
	}
	return a.brokerChanges(values)
}

func (a *adapter) brokerChanges(values map[string]*string) *configChange {
	if len(values) == 0 {
		return nil
	}
	return &configChange{apply: func() error {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if err := a.setBrokerConfig(name, values[name]); err != nil {
				return err
			}
		}
		return nil
	}}
}

// brokerChange is whether a broker config is one of the core's, and why it may
// not be changed to a value, nil for its default.
func (a *adapter) brokerChange(name string, value *string) (known bool, reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, dynamic := a.core.IsBrokerConfig(name)
	if !known {
		return false, ""
	}
	if !dynamic {
		return true, "config " + name + " cannot be changed while the broker runs: set it at its start"
	}
	if err := a.core.Clone().SetBrokerConfig(name, value); err != nil {
		return true, err.Error()
	}
	return true, ""
}

// AlterConfigs: v0-2. It replaces all configs of a broker: those that are not
// named fall back to their defaults. kfake refuses groups.
func (a *adapter) alterConfigs(s sender, req *kmsg.AlterConfigsRequest) {
	var changes []configChange
	for i := range req.Resources {
		r := &req.Resources[i]
		if r.ResourceType != kmsg.ConfigResourceTypeBroker {
			continue
		}
		values := map[string]*string{"group.streams.assignment.interval.ms": nil, "group.streams.assignor.offload.enable": nil}
		var c *configChange
		for _, rc := range r.Configs {
			known, reason := a.brokerChange(rc.Name, rc.Value)
			if known && reason != "" {
				c = &configChange{reason: reason}
				// kfake refuses a number that is none.
				bad := kmsg.NewAlterConfigsRequestResourceConfig()
				bad.Name, bad.Value = "group.max.size", kmsg.StringPtr("refused")
				r.Configs = append(r.Configs, bad)
				break
			}
			if known {
				values[rc.Name] = rc.Value
			}
		}
		if c == nil {
			c = a.brokerChanges(values)
		}
		c.resource, c.kind = r.ResourceName, r.ResourceType
		if req.ValidateOnly {
			c.apply = nil
		}
		changes = append(changes, *c)
	}
	if len(changes) == 0 {
		return
	}
	if !s.edit(req, func(resp kmsg.Response) {
		r, ok := resp.(*kmsg.AlterConfigsResponse)
		if !ok {
			return
		}
		for i := range r.Resources {
			rr := &r.Resources[i]
			a.settleChange(changes, rr.ResourceName, rr.ResourceType, &rr.ErrorCode, &rr.ErrorMessage)
		}
	}) {
		a.applyUnseen(changes)
	}
}

// DescribeConfigs: v0-4 (edited from v4 on)
func (a *adapter) describeConfigs(s sender, req *kmsg.DescribeConfigsRequest) {
	asked := slices.Clone(req.Resources)
	if !slices.ContainsFunc(asked, func(r kmsg.DescribeConfigsRequestResource) bool {
		return r.ResourceType == kmsg.ConfigResourceTypeGroupConfig || r.ResourceType == kmsg.ConfigResourceTypeBroker
	}) {
		return
	}
	s.edit(req, func(resp kmsg.Response) {
		r, ok := resp.(*kmsg.DescribeConfigsResponse)
		if !ok {
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		for i := range r.Resources {
			rr := &r.Resources[i]
			if rr.ErrorCode != 0 || i >= len(asked) {
				continue
			}
			d := describer{a, asked[i].ConfigNames, req.IncludeSynonyms}
			switch rr.ResourceType {
			case kmsg.ConfigResourceTypeGroupConfig:
				d.group(rr)
			case kmsg.ConfigResourceTypeBroker:
				d.broker(rr)
			}
		}
	})
}

// ListConfigResources: v0-1. From v1 on groups are listed: ours are those that
// exist and those that have configs.
func (a *adapter) listConfigResources(s sender, req *kmsg.ListConfigResourcesRequest) {
	if req.Version < 1 || len(req.ResourceTypes) > 0 && !slices.Contains(req.ResourceTypes, int8(kmsg.ConfigResourceTypeGroupConfig)) {
		return
	}
	a.mu.Lock()
	names := a.core.ConfiguredGroups()
	for _, l := range a.core.List() {
		names = append(names, l.Group)
	}
	a.mu.Unlock()
	s.edit(req, func(resp kmsg.Response) {
		r, ok := resp.(*kmsg.ListConfigResourcesResponse)
		if !ok || r.ErrorCode != 0 {
			return
		}
		for _, name := range names {
			c := kmsg.NewListConfigResourcesResponseConfigResource()
			c.Name, c.Type = name, int8(kmsg.ConfigResourceTypeGroupConfig)
			if !slices.ContainsFunc(r.ConfigResources, func(o kmsg.ListConfigResourcesResponseConfigResource) bool {
				return o.Name == c.Name && o.Type == c.Type
			}) {
				r.ConfigResources = append(r.ConfigResources, c)
			}
		}
	})
}
