package interop_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Requests of tools: groups as they are seen from outside, and their configs.

func (m *likeMaker) someGroups(n int) (groups []string) {
	for range n {
		groups = append(groups, m.anyGroup())
	}
	return groups
}

// likePrefixed are the ids of groups, in another list.
func likePrefixed(s *likeSide, groups []string) []string {
	ids := make([]string, len(groups))
	for i, group := range groups {
		ids[i] = s.group(group)
	}
	return ids
}

func (m *likeMaker) describe() likeSteps {
	groups, operations, description := m.someGroups(1+m.rng.IntN(3)), m.chance(30), m.chance(20)
	version := m.version(0, 1)
	return likeSteps{{
		text: fmt.Sprintf("StreamsGroupDescribe v%d of %q, operations %v", version, groups, operations), version: version, read: true,
		request: func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrStreamsGroupDescribeRequest()
			req.Groups, req.IncludeAuthorizedOperations = likePrefixed(s, groups), operations
			req.IncludeTopologyDescription = version >= 1 && description
			return req
		},
	}}
}

func (m *likeMaker) listGroups() likeSteps {
	version := m.version(0, 5)
	var states, types []string
	if version >= 4 {
		for range likeOneOf(m.rng, 0, 0, 1, 1, 2) {
			states = append(states, likeOneOf(m.rng, "Empty", "empty", "EMPTY", "NotReady", "notready", "not_ready", "NOT_READY", "Not_Ready", "not ready",
				"Assigning", "assigning", "Reconciling", "RECONCILING", " reconciling ", "Stable", "stable", "Dead", "PreparingRebalance", "preparing_rebalance", "bogus", ""))
		}
	}
	if version >= 5 {
		for range likeOneOf(m.rng, 0, 0, 1, 1, 2) {
			types = append(types, likeOneOf(m.rng, "streams", "Streams", "STREAMS", " streams", "classic", "consumer", "share", "bogus", ""))
		}
	}
	return likeSteps{{
		text: fmt.Sprintf("ListGroups v%d, states %q, types %q", version, states, types), version: version, read: true,
		request: func(*likeSide) kmsg.Request {
			req := kmsg.NewPtrListGroupsRequest()
			req.StatesFilter, req.TypesFilter = states, types
			return req
		},
		view: func(s *likeSide, resp kmsg.Response) {
			r := resp.(*kmsg.ListGroupsResponse)
			r.Groups = slices.DeleteFunc(r.Groups, func(g kmsg.ListGroupsResponseGroup) bool { return !strings.HasPrefix(g.Group, s.prefix) })
		},
	}}
}

// describeOthers are the requests for groups of other types.
func (m *likeMaker) describeOthers() likeSteps {
	groups, operations := m.someGroups(1+m.rng.IntN(3)), m.chance(30)
	step := likeStep{read: true}
	switch m.rng.IntN(3) {
	case 0:
		step.version = m.version(0, 6)
		step.text = fmt.Sprintf("DescribeGroups v%d of %q, operations %v", step.version, groups, operations)
		step.request = func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrDescribeGroupsRequest()
			req.Groups, req.IncludeAuthorizedOperations = likePrefixed(s, groups), operations
			return req
		}
	case 1:
		step.version = m.version(0, 1)
		step.text = fmt.Sprintf("ConsumerGroupDescribe v%d of %q, operations %v", step.version, groups, operations)
		step.request = func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrConsumerGroupDescribeRequest()
			req.Groups, req.IncludeAuthorizedOperations = likePrefixed(s, groups), operations
			return req
		}
	default:
		step.version = 1
		step.text = fmt.Sprintf("ShareGroupDescribe of %q, operations %v", groups, operations)
		step.request = func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrShareGroupDescribeRequest()
			req.GroupIDs, req.IncludeAuthorizedOperations = likePrefixed(s, groups), operations
			return req
		}
	}
	return likeSteps{step}
}

func (m *likeMaker) deleteGroups() likeSteps {
	groups, version := m.someGroups(likeOneOf(m.rng, 1, 1, 2, 3)), m.version(0, 3)
	if m.chance(15) {
		groups = append(groups, groups[0])
	}
	if version < 2 { // that kfake cannot be shown a part of
		groups = groups[:1]
	}
	return likeSteps{{
		text: fmt.Sprintf("DeleteGroups v%d %q", version, groups), version: version, settle: true,
		request: func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrDeleteGroupsRequest()
			req.Groups = likePrefixed(s, groups)
			return req
		},
	}}
}

// likeConfig is a config with a value to be set.
type likeConfig struct {
	name  string
	value *string
	op    kmsg.IncrementalAlterConfigOp
}

func (c likeConfig) String() string {
	value := "null"
	if c.value != nil {
		value = fmt.Sprintf("%q", *c.value)
	}
	return fmt.Sprintf("%s %d %s", c.name, c.op, value)
}

// likeGroupValues are values of group configs around their bounds.
var likeGroupValues = map[string][]string{
	"streams.session.timeout.ms":         {"200", "199", "45000", "60000", "60001", "5000", "5001", "-1", "0"},
	"streams.heartbeat.interval.ms":      {"100", "99", "5000", "15000", "15001", "44999", "200"},
	"streams.num.standby.replicas":       {"0", "1", "2", "3", "-1"},
	"streams.initial.rebalance.delay.ms": {"0", "0", "-1"},
	"streams.assignment.interval.ms":     {"0", "0", "-1", "15001"},
	"streams.task.offset.interval.ms":    {"100", "99", "60000", "999999999", "-1"},
	"streams.num.warmup.replicas":        {"0", "2", "20", "21", "-1"},
	"streams.acceptable.recovery.lag":    {"0", "10000", "9223372036854775807", "9223372036854775808", "-1"},
	"streams.rack.aware.assignment.tags": {"", "zone", "zone,rack", "zone,zone", "zone,", ",", " zone , rack ", "a b"},
	"streams.assignor.name":              {"sticky", "Sticky", "highly_available", "", " sticky", "bogus"},
	"streams.assignor.offload.enable":    {"true", "false", "TRUE", "yes", ""},
	"streams.bogus":                      {"1"},
	"bogus":                              {"1"},
	"streams.max.size":                   {"1"},
}

var likeGroupConfigs = likeSortedKeys(likeGroupValues)

var likeBrokerValues = map[string][]string{
	"group.streams.assignment.interval.ms":            {"0", "15001", "-1", "x"},
	"group.streams.assignor.offload.enable":           {"true", "false", "x"},
	"group.streams.session.timeout.ms":                {"45000", "50000"},
	"group.streams.num.standby.replicas":              {"0", "1"},
	"group.streams.max.size":                          {"5"},
	"group.streams.assignors":                         {"sticky"},
	"group.streams.min.session.timeout.ms":            {"200"},
	"group.streams.max.warmup.replicas":               {"30"},
	"group.streams.rack.aware.assignment.tags":        {"zone"},
	"group.streams.acceptable.recovery.lag":           {"1"},
	"group.streams.min.assignment.interval.ms":        {"0"},
	"group.streams.initial.rebalance.delay.ms":        {"0"},
	"group.streams.task.offset.interval.ms":           {"60000"},
	"group.coordinator.rebalance.protocols":           {"classic,consumer,streams"},
	"group.streams.heartbeat.interval.ms":             {"5000"},
	"group.streams.num.warmup.replicas":               {"2"},
	"group.streams.max.standby.replicas":              {"2"},
	"group.streams.max.session.timeout.ms":            {"60000"},
	"group.streams.min.heartbeat.interval.ms":         {"100"},
	"group.streams.max.heartbeat.interval.ms":         {"15000"},
	"group.streams.max.assignment.interval.ms":        {"15000"},
	"group.streams.min.task.offset.interval.ms":       {"100"},
	"group.streams.topology.description.plugin.class": {""},
}

var likeBrokerConfigs = likeSortedKeys(likeBrokerValues)

func likeSortedKeys(of map[string][]string) (names []string) {
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (m *likeMaker) configs(names []string, values map[string][]string) (configs []likeConfig) {
	for range likeOneOf(m.rng, 1, 1, 1, 2, 3) {
		name := likeOneOf(m.rng, names...)
		c := likeConfig{name, kmsg.StringPtr(likeOneOf(m.rng, values[name]...)), likeOneOf(m.rng, kmsg.IncrementalAlterConfigOpSet, 0, 0, 0, 0, 1, 1, 2, 3)}
		if m.chance(5) {
			c.value = kmsg.StringPtr("no number")
		}
		if name == "bogus" { // kfake does not delete what it does not know
			c.op = kmsg.IncrementalAlterConfigOpSet
		}
		if c.op == kmsg.IncrementalAlterConfigOpDelete || m.chance(3) {
			c.value = nil
		}
		configs = append(configs, c)
		if m.chance(5) {
			configs = append(configs, c)
		}
	}
	return configs
}

func (m *likeMaker) groupConfigs() likeSteps {
	group := m.anyGroup()
	if m.chance(35) {
		return likeSteps{m.describeConfigs(kmsg.ConfigResourceTypeGroupConfig, group, likeGroupConfigs, "streams.")}
	}
	return likeSteps{m.alter(kmsg.ConfigResourceTypeGroupConfig, group, m.configs(likeGroupConfigs, likeGroupValues))}
}

func (m *likeMaker) brokerConfigs() likeSteps {
	node := likeOneOf(m.rng, "", "", "1")
	if m.chance(50) {
		return likeSteps{m.describeConfigs(kmsg.ConfigResourceTypeBroker, node, likeBrokerConfigs, "group.streams.")}
	}
	// For all brokers: ours keeps one level of dynamic configs.
	return likeSteps{m.alter(kmsg.ConfigResourceTypeBroker, "", m.configs(likeBrokerConfigs, likeBrokerValues))}
}

// likeResource is the name of a config resource.
func likeResource(s *likeSide, kind kmsg.ConfigResourceType, name string) string {
	if kind == kmsg.ConfigResourceTypeGroupConfig {
		return s.group(name)
	}
	if name == "1" && s.name == "ours" {
		return "0" // kfake counts from 0
	}
	return name
}

func (m *likeMaker) alter(kind kmsg.ConfigResourceType, name string, configs []likeConfig) likeStep {
	validate, twice := m.chance(15), m.chance(4)
	// A replacement of what all brokers have is refused by Kafka's controller.
	if m.chance(15) && (kind == kmsg.ConfigResourceTypeGroupConfig || name != "") {
		return m.alterAll(kind, name, configs, validate)
	}
	version := m.version(0, 1)
	return likeStep{
		text: fmt.Sprintf("IncrementalAlterConfigs v%d %v %q, validate %v, twice %v: %v", version, kind, name, validate, twice, configs), version: version,
		request: func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrIncrementalAlterConfigsRequest()
			req.ValidateOnly = validate
			r := kmsg.NewIncrementalAlterConfigsRequestResource()
			r.ResourceType, r.ResourceName = kind, likeResource(s, kind, name)
			for _, c := range configs {
				rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
				rc.Name, rc.Op, rc.Value = c.name, c.op, c.value
				r.Configs = append(r.Configs, rc)
			}
			req.Resources = append(req.Resources, r)
			if twice {
				req.Resources = append(req.Resources, r)
			}
			return req
		},
		learn: func(s *likeSide, _ kmsg.Response) { s.configsSeen() },
		view: func(s *likeSide, resp kmsg.Response) {
			for i := range resp.(*kmsg.IncrementalAlterConfigsResponse).Resources {
				likeViewResource(s, &resp.(*kmsg.IncrementalAlterConfigsResponse).Resources[i].ResourceName)
			}
		},
	}
}

func likeViewResource(s *likeSide, name *string) {
	if s.name == "ours" && *name == "0" {
		*name = "1"
	}
}

func (m *likeMaker) alterAll(kind kmsg.ConfigResourceType, name string, configs []likeConfig, validate bool) likeStep {
	version := m.version(0, 2)
	return likeStep{
		text: fmt.Sprintf("AlterConfigs v%d %v %q, validate %v: %v", version, kind, name, validate, configs), version: version,
		request: func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrAlterConfigsRequest()
			req.ValidateOnly = validate
			r := kmsg.NewAlterConfigsRequestResource()
			r.ResourceType, r.ResourceName = kind, likeResource(s, kind, name)
			for _, c := range configs {
				rc := kmsg.NewAlterConfigsRequestResourceConfig()
				rc.Name, rc.Value = c.name, c.value
				r.Configs = append(r.Configs, rc)
			}
			req.Resources = append(req.Resources, r)
			return req
		},
		learn: func(s *likeSide, _ kmsg.Response) { s.configsSeen() },
		view: func(s *likeSide, resp kmsg.Response) {
			for i := range resp.(*kmsg.AlterConfigsResponse).Resources {
				likeViewResource(s, &resp.(*kmsg.AlterConfigsResponse).Resources[i].ResourceName)
			}
		},
	}
}

// configsSeen waits until Kafka's broker has seen what its controller has
// written: a config of a group of its own is set after it, and comes after it.
func (s *likeSide) configsSeen() {
	if s.name == "ours" {
		return
	}
	s.corr++
	marker := strconv.Itoa(200 + int(s.corr)%14000)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, "settle"
	rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	rc.Name, rc.Value = "streams.heartbeat.interval.ms", &marker
	r.Configs = append(r.Configs, rc)
	req.Resources = append(req.Resources, r)
	if _, err := s.ask(req, 1); err != nil {
		return
	}
	for range 1000 {
		req := kmsg.NewPtrDescribeConfigsRequest()
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeGroupConfig, "settle", []string{rc.Name}
		req.Resources = append(req.Resources, r)
		resp, err := s.ask(req, 4)
		if err != nil {
			return
		}
		if c := resp.(*kmsg.DescribeConfigsResponse).Resources[0].Configs; len(c) > 0 && c[0].Value != nil && *c[0].Value == marker {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	time.Sleep(2 * time.Millisecond)
}

func (m *likeMaker) describeConfigs(kind kmsg.ConfigResourceType, name string, names []string, prefix string) likeStep {
	version, synonyms, documentation := m.version(1, 4), m.chance(50), m.chance(20)
	var asked []string
	if m.chance(60) {
		for range 1 + m.rng.IntN(3) {
			asked = append(asked, likeOneOf(m.rng, names...))
		}
	}
	return likeStep{
		text: fmt.Sprintf("DescribeConfigs v%d %v %q, synonyms %v, documentation %v: %v", version, kind, name, synonyms, documentation, asked), version: version, read: true,
		request: func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrDescribeConfigsRequest()
			req.IncludeSynonyms, req.IncludeDocumentation = synonyms, documentation && version >= 3
			r := kmsg.NewDescribeConfigsRequestResource()
			r.ResourceType, r.ResourceName, r.ConfigNames = kind, likeResource(s, kind, name), asked
			req.Resources = append(req.Resources, r)
			return req
		},
		view: func(s *likeSide, resp kmsg.Response) {
			for i := range resp.(*kmsg.DescribeConfigsResponse).Resources {
				r := &resp.(*kmsg.DescribeConfigsResponse).Resources[i]
				likeViewResource(s, &r.ResourceName)
				r.Configs = slices.DeleteFunc(r.Configs, func(c kmsg.DescribeConfigsResponseResourceConfig) bool {
					return !strings.HasPrefix(c.Name, prefix)
				})
			}
		},
	}
}

func (m *likeMaker) topologyDescription() likeSteps {
	group, member := m.anyGroup(), likeOneOf(m.rng, "m1", "stranger", "")
	return likeSteps{{
		text: fmt.Sprintf("StreamsGroupTopologyDescriptionUpdate of %q by %q", group, member),
		request: func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrStreamsGroupTopologyDescriptionUpdateRequest()
			req.Group, req.MemberID = s.group(group), member
			return req
		},
	}}
}

func (m *likeMaker) findCoordinator() likeSteps {
	version := m.version(0, 6)
	kind := int8(0)
	if version >= 1 {
		kind = likeOneOf(m.rng, int8(0), 0, 0, 1, 3, 9, -1)
	}
	keys := []string{m.anyGroup()}
	if version >= 4 {
		keys = m.someGroups(m.rng.IntN(4))
		if m.chance(20) && len(keys) > 0 {
			keys = append(keys, keys[0])
		}
	}
	return likeSteps{{
		text: fmt.Sprintf("FindCoordinator v%d, type %d, %q", version, kind, keys), version: version, read: true,
		request: func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.CoordinatorType = kind
			if version >= 4 {
				req.CoordinatorKeys = likePrefixed(s, keys)
			} else {
				req.CoordinatorKey = s.group(keys[0])
			}
			return req
		},
	}}
}
