package kfakeext

import (
	"fmt"
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
	code     int16        // of the refusal
	apply    func() error // under the lock; nil if there is nothing to do
}

// configResource is what a resource is told by.
type configResource struct {
	kind kmsg.ConfigResourceType
	name string
}

// configChanges are the changes of a request by resource.
type configChanges map[configResource][]configChange

func byResource(changes []configChange) configChanges {
	all := make(configChanges, len(changes))
	for _, c := range changes {
		r := configResource{c.kind, c.resource}
		all[r] = append(all[r], c)
	}
	return all
}

// IncrementalAlterConfigs: v0-1
func (a *adapter) incrementalAlterConfigs(s sender, req *kmsg.IncrementalAlterConfigsRequest) {
	var changes []configChange
	times := make(map[configResource]int, len(req.Resources))
	for _, r := range req.Resources {
		times[configResource{r.ResourceType, r.ResourceName}]++
	}
	twice := func(r *kmsg.IncrementalAlterConfigsRequestResource) bool {
		return times[configResource{r.ResourceType, r.ResourceName}] > 1
	}
	for i := range req.Resources {
		r := &req.Resources[i]
		var c *configChange
		switch r.ResourceType {
		case kmsg.ConfigResourceTypeGroupConfig:
			c = a.alterGroup(r, twice(r))
		case kmsg.ConfigResourceTypeBroker:
			c = a.alterBroker(r, twice(r))
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
		all := byResource(changes)
		for i := range r.Resources {
			rr := &r.Resources[i]
			a.settleChange(all, rr.ResourceName, rr.ResourceType, &rr.ErrorCode, &rr.ErrorMessage)
		}
	}) {
		return
	}
	a.applyUnseen(changes)
}

// settleChange acts on kfake's verdict about one resource.
func (a *adapter) settleChange(changes configChanges, resource string, kind kmsg.ConfigResourceType, code *int16, message **string) {
	for _, c := range changes[configResource{kind, resource}] {
		switch {
		case c.reason != "":
			// kfake has refused, for its own reason or to our order.
			if *code == kerr.InvalidConfig.Code || *code == kerr.InvalidRequest.Code {
				*code, *message = c.code, kmsg.StringPtr(c.reason)
			}
		case *code == 0 && c.apply != nil:
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

// invalidRequest refuses what no value could put right.
func invalidRequest(format string, args ...any) *configChange {
	return &configChange{reason: fmt.Sprintf(format, args...), code: kerr.InvalidRequest.Code}
}

// invalidConfig refuses a value.
func invalidConfig(reason string) *configChange {
	return &configChange{reason: reason, code: kerr.InvalidConfig.Code}
}

// malformed is what Kafka refuses before it looks at names and values.
func malformed(configs []kmsg.IncrementalAlterConfigsRequestResourceConfig) *configChange {
	seen := make(map[string]bool, len(configs))
	for _, c := range configs {
		if c.Value == nil && c.Op != kmsg.IncrementalAlterConfigOpDelete {
			return invalidRequest("config %s has no value", c.Name)
		}
		if seen[c.Name] {
			return invalidRequest("config %s is there twice", c.Name)
		}
		seen[c.Name] = true
	}
	return nil
}

// alterGroup takes the streams.* entries out of a resource if all of them may
// be set. If not they stay, and kfake answers INVALID_CONFIG.
func (a *adapter) alterGroup(r *kmsg.IncrementalAlterConfigsRequestResource, twice bool) *configChange {
	ours := func(c kmsg.IncrementalAlterConfigsRequestResourceConfig) bool {
		return strings.HasPrefix(c.Name, groupConfigPrefix)
	}
	if !slices.ContainsFunc(r.Configs, ours) {
		return nil
	}
	if twice {
		return invalidRequest("group %s is there twice", r.ResourceName)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	change := a.groupChange(r)
	if change.reason != "" {
		// kfake knows no streams.* config. It would take a list without any.
		return change
	}
	r.Configs = slices.DeleteFunc(r.Configs, ours)
	return change
}

// groupChange is what the streams.* entries of a resource come to. The lock is
// held.
func (a *adapter) groupChange(r *kmsg.IncrementalAlterConfigsRequestResource) *configChange {
	if c := malformed(r.Configs); c != nil {
		return c
	}
	overrides := maps.Clone(a.core.GroupOverrides(r.ResourceName))
	if overrides == nil {
		overrides = make(map[string]string)
	}
	for _, c := range r.Configs {
		if !strings.HasPrefix(c.Name, groupConfigPrefix) {
			continue
		}
		switch c.Op {
		case kmsg.IncrementalAlterConfigOpSet:
			overrides[c.Name] = *c.Value
		case kmsg.IncrementalAlterConfigOpDelete:
			delete(overrides, c.Name)
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			return invalidConfig("config " + c.Name + " can be set as a whole only") // the tags too, as in Kafka
		default:
			return invalidRequest("config %s: there is no operation %d", c.Name, c.Op)
		}
	}
	if r.ResourceName == "" {
		return invalidRequest("the group has no id")
	}
	if err := a.core.CheckGroupConfig(overrides); err != nil {
		return invalidConfig(err.Error())
	}
	group := r.ResourceName
	return &configChange{apply: func() error { return a.setGroupConfig(group, overrides) }}
}

// alterBroker checks the entries that concern streams groups. As in Kafka, most
// of them are fixed while a broker runs, and to delete what cannot have been set
// is no error.
func (a *adapter) alterBroker(r *kmsg.IncrementalAlterConfigsRequestResource, twice bool) *configChange {
	known := func(c kmsg.IncrementalAlterConfigsRequestResourceConfig) bool {
		known, _ := a.isBrokerConfig(c.Name)
		return known
	}
	i := slices.IndexFunc(r.Configs, known)
	if i < 0 {
		return nil
	}
	refused := func(c *configChange) *configChange {
		r.Configs[i].Op = refusedOp
		return c
	}
	if twice {
		return refused(invalidRequest("broker %s is there twice", r.ResourceName))
	}
	if c := malformed(r.Configs); c != nil {
		return refused(c)
	}
	for _, c := range r.Configs {
		switch c.Op {
		case kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete:
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			if known(c) && brokerConfigType(c.Name) != kmsg.ConfigTypeList {
				return refused(invalidConfig("config " + c.Name + " is no list"))
			}
		default:
			return refused(invalidRequest("config %s: there is no operation %d", c.Name, c.Op))
		}
	}
	values := make(map[string]*string)
	for _, c := range r.Configs {
		if !known(c) {
			continue
		}
		_, dynamic := a.isBrokerConfig(c.Name)
		value := c.Value
		if c.Op == kmsg.IncrementalAlterConfigOpDelete {
			if value = nil; !dynamic {
				continue
			}
		}
		if reason := a.brokerChange(c.Name, value); reason != "" {
			return refused(invalidRequest("%s", reason))
		}
		values[c.Name] = value
	}
	r.Configs = slices.DeleteFunc(r.Configs, func(c kmsg.IncrementalAlterConfigsRequestResourceConfig) bool {
		_, changes := values[c.Name]
		return known(c) && !changes
	})
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

// isBrokerConfig is whether a broker config is one of the core's, and whether it
// can be changed while the broker runs.
func (a *adapter) isBrokerConfig(name string) (known, dynamic bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if name == pluginConfig {
		return true, false
	}
	return a.core.IsBrokerConfig(name)
}

// brokerChange is why a broker config of the core's may not be changed to a
// value, nil for what the broker was started with.
func (a *adapter) brokerChange(name string, value *string) (reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, dynamic := a.core.IsBrokerConfig(name); !dynamic {
		return "config " + name + " cannot be changed while the broker runs: set it at its start"
	}
	if err := a.core.Clone().SetBrokerConfig(name, a.orStatic(name, value)); err != nil {
		return err.Error()
	}
	return ""
}

// DescribeConfigs: v0-4
func (a *adapter) describeConfigs(s sender, req *kmsg.DescribeConfigsRequest) {
	if s.who == nil {
		return // without tags: the tap has shown it to us
	}
	if edit := a.configsDescribed(req); edit != nil {
		s.edit(req, edit)
	}
}

// configsDescribed returns nil if none of the resources has configs of ours.
func (a *adapter) configsDescribed(req *kmsg.DescribeConfigsRequest) func(kmsg.Response) {
	asked := slices.Clone(req.Resources)
	if !slices.ContainsFunc(asked, func(r kmsg.DescribeConfigsRequestResource) bool {
		return r.ResourceType == kmsg.ConfigResourceTypeGroupConfig || r.ResourceType == kmsg.ConfigResourceTypeBroker
	}) {
		return nil
	}
	return func(resp kmsg.Response) {
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
				if rr.ResourceName == "" {
					rr.ErrorCode, rr.ErrorMessage, rr.Configs = kerr.InvalidRequest.Code, kmsg.StringPtr("the group has no id"), nil
					continue
				}
				d.group(rr)
			case kmsg.ConfigResourceTypeBroker:
				d.broker(rr)
			}
		}
	}
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
