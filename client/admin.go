package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// GroupConfigError is a group config that the broker refuses.
type GroupConfigError struct {
	Group string
	// Message is the broker's.
	Message string
	Cause   error
}

func (e *GroupConfigError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("client: group %q: the broker refuses the config: %v", e.Group, e.Cause)
	}
	return fmt.Sprintf("client: group %q: the broker refuses the config: %s (%v)", e.Group, e.Message, e.Cause)
}

func (e *GroupConfigError) Unwrap() error { return e.Cause }

// AlterGroupConfigs sets configs of a group, by Kafka's names: for example
// streams.session.timeout.ms. They are set together or not at all, and the group
// need not exist. The error is a *[GroupConfigError] if the broker refuses them:
// its bounds (group.streams.min.session.timeout.ms and so on) are set by whoever
// runs it.
func AlterGroupConfigs(ctx context.Context, cl *kgo.Client, group string, configs map[string]string) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = name, kmsg.StringPtr(configs[name])
		res.Configs = append(res.Configs, c)
	}
	req.Resources = append(req.Resources, res)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return fmt.Errorf("client: configs of group %q: %w", group, err)
	}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			e := &GroupConfigError{Group: group, Cause: err}
			if r.ErrorMessage != nil {
				e.Message = *r.ErrorMessage
			}
			return e
		}
	}
	return nil
}

// DescribeGroups describes streams groups, each asked of its coordinator. A group
// that cannot be described has its ErrorCode set; the error is for requests that
// failed as a whole.
func DescribeGroups(ctx context.Context, cl *kgo.Client, groups ...string) ([]kmsg.StreamsGroupDescribeResponseGroup, error) {
	var out []kmsg.StreamsGroupDescribeResponseGroup
	var errs []error
	for _, group := range groups {
		g, err := describeGroup(ctx, cl, group)
		if err != nil {
			errs = append(errs, fmt.Errorf("client: describe group %q: %w", group, err))
			continue
		}
		out = append(out, g...)
	}
	return out, errors.Join(errs...)
}

func describeGroup(ctx context.Context, cl *kgo.Client, group string) ([]kmsg.StreamsGroupDescribeResponseGroup, error) {
	node, err := findCoordinator(ctx, cl, group)
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups = []string{group}
	kresp, err := cl.Broker(int(node)).Request(ctx, req)
	if err != nil {
		var unsupported *UnsupportedError // kgo's own error does not say what is missing
		if _, verr := heartbeatVersion(ctx, cl, node); errors.As(verr, &unsupported) {
			return nil, verr
		}
		return nil, err
	}
	return kresp.(*kmsg.StreamsGroupDescribeResponse).Groups, nil
}

// ListedGroup is one group of ListGroups.
type ListedGroup struct{ Group, State string }

// ListGroups lists the streams groups of the cluster, ascending.
func ListGroups(ctx context.Context, cl *kgo.Client) ([]ListedGroup, error) {
	req := kmsg.NewPtrListGroupsRequest()
	req.TypesFilter = []string{"streams"}
	var out []ListedGroup
	var errs []error
	for _, shard := range cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			errs = append(errs, fmt.Errorf("client: list groups of broker %d: %w", shard.Meta.NodeID, shard.Err))
			continue
		}
		resp := shard.Resp.(*kmsg.ListGroupsResponse)
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			errs = append(errs, fmt.Errorf("client: list groups of broker %d: %w", shard.Meta.NodeID, err))
			continue
		}
		for _, g := range resp.Groups {
			if g.GroupType == "streams" {
				out = append(out, ListedGroup{g.Group, g.GroupState})
			}
		}
	}
	slices.SortFunc(out, func(a, b ListedGroup) int { return strings.Compare(a.Group, b.Group) })
	return out, errors.Join(errs...)
}
