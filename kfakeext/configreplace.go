package kfakeext

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterConfigs: v0-2. It replaces all configs of a resource: those that are not
// named fall back to their defaults. kfake refuses groups. Those whose configs
// are all of ours are answered here, if nothing else is in the request.
func (a *adapter) alterConfigs(s sender, req *kmsg.AlterConfigsRequest) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
	if len(req.Resources) > 0 && !slices.ContainsFunc(req.Resources, func(r kmsg.AlterConfigsRequestResource) bool { return !onlyOurs(r) }) {
		return a.replaceGroups(s, req), nil, true
	}
	var changes []configChange
	for i := range req.Resources {
		r := &req.Resources[i]
		if r.ResourceType != kmsg.ConfigResourceTypeBroker {
			continue
		}
		c := a.replaceBroker(r)
		if c.reason != "" {
			// kfake refuses a number that is none.
			bad := kmsg.NewAlterConfigsRequestResourceConfig()
			bad.Name, bad.Value = "group.max.size", kmsg.StringPtr("refused")
			r.Configs = append(r.Configs, bad)
		}
		c.resource, c.kind = r.ResourceName, r.ResourceType
		if req.ValidateOnly {
			c.apply = nil
		}
		changes = append(changes, *c)
	}
	if len(changes) == 0 {
		return nil, nil, false
	}
	if !s.edit(req, func(resp kmsg.Response) {
		r, ok := resp.(*kmsg.AlterConfigsResponse)
		if !ok {
			return
		}
		all := byResource(changes)
		for i := range r.Resources {
			rr := &r.Resources[i]
			a.settleChange(all, rr.ResourceName, rr.ResourceType, &rr.ErrorCode, &rr.ErrorMessage)
		}
	}) {
		a.applyUnseen(changes)
	}
	return nil, nil, false
}

func onlyOurs(r kmsg.AlterConfigsRequestResource) bool {
	return r.ResourceType == kmsg.ConfigResourceTypeGroupConfig &&
		!slices.ContainsFunc(r.Configs, func(c kmsg.AlterConfigsRequestResourceConfig) bool {
			return !strings.HasPrefix(c.Name, groupConfigPrefix)
		})
}

// asIncremental is what the entries of a replacement set.
func asIncremental(r *kmsg.AlterConfigsRequestResource) (configs []kmsg.IncrementalAlterConfigsRequestResourceConfig) {
	for _, c := range r.Configs {
		rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		rc.Name, rc.Value = c.Name, c.Value
		configs = append(configs, rc)
	}
	return configs
}

// replaceBroker is what a replacement of a broker's configs comes to.
func (a *adapter) replaceBroker(r *kmsg.AlterConfigsRequestResource) *configChange {
	values := map[string]*string{"group.streams.assignment.interval.ms": nil, "group.streams.assignor.offload.enable": nil}
	if c := malformed(asIncremental(r)); c != nil {
		return c
	}
	for _, c := range r.Configs {
		if known, _ := a.isBrokerConfig(c.Name); !known {
			continue
		}
		if reason := a.brokerChange(c.Name, c.Value); reason != "" {
			return invalidRequest("%s", reason)
		}
		values[c.Name] = c.Value
	}
	return a.brokerChanges(values)
}

// replaceGroups answers a request for groups.
func (a *adapter) replaceGroups(s sender, req *kmsg.AlterConfigsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	for i := range req.Resources {
		r := &req.Resources[i]
		rr := kmsg.NewAlterConfigsResponseResource()
		rr.ResourceType, rr.ResourceName = r.ResourceType, r.ResourceName
		if !a.allowed(s, kmsg.ACLOperationAlterConfigs, kmsg.ACLResourceTypeGroup, r.ResourceName) {
			rr.ErrorCode = kerr.GroupAuthorizationFailed.Code
		} else {
			a.replaceGroup(r, req.ValidateOnly, &rr)
		}
		resp.Resources = append(resp.Resources, rr)
	}
	return resp
}

func (a *adapter) replaceGroup(r *kmsg.AlterConfigsRequestResource, validateOnly bool, rr *kmsg.AlterConfigsResponseResource) {
	c := malformed(asIncremental(r))
	if c == nil && r.ResourceName == "" {
		c = invalidRequest("the group has no id")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	overrides := make(map[string]string)
	if c == nil {
		for _, rc := range r.Configs {
			overrides[rc.Name] = *rc.Value
		}
		if err := a.core.CheckGroupConfig(overrides); err != nil {
			c = invalidConfig(err.Error())
		}
	}
	if c != nil {
		rr.ErrorCode, rr.ErrorMessage = c.code, kmsg.StringPtr(c.reason)
		return
	}
	if validateOnly {
		return
	}
	if err := a.setGroupConfig(r.ResourceName, overrides); err != nil {
		rr.ErrorCode, rr.ErrorMessage = kerr.KafkaStorageError.Code, kmsg.StringPtr(err.Error())
	}
}
