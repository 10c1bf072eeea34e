package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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

// DescribeGroups describes streams groups, each asked of its coordinator. While a
// coordinator moves or loads, it is asked again, for a minute at most. A group that
// cannot be described has its ErrorCode set; the error is for requests that failed
// as a whole.
func DescribeGroups(ctx context.Context, cl *kgo.Client, groups ...string) ([]kmsg.StreamsGroupDescribeResponseGroup, error) {
	var out []kmsg.StreamsGroupDescribeResponseGroup
	var errs []error
	for _, group := range groups {
		var found []kmsg.StreamsGroupDescribeResponseGroup
		d := describer{cl: cl, group: group, node: -1}
		err := repeat(ctx, func(ctx context.Context) (err error) {
			found, err = d.describe(ctx)
			return err
		})
		if err != nil && len(found) == 0 {
			errs = append(errs, fmt.Errorf("client: describe group %q: %w", group, err))
			continue
		}
		out = append(out, found...)
	}
	return out, errors.Join(errs...)
}

// describer asks for one group and remembers its coordinator between attempts.
type describer struct {
	cl    *kgo.Client
	group string
	opts  []DescribeOption
	node  int32              // -1 while it is not known
	asked kgo.BrokerMetadata // the broker that was looked up last
}

func (d *describer) describe(ctx context.Context) ([]kmsg.StreamsGroupDescribeResponseGroup, error) {
	if d.node < 0 {
		found, err := coordinatorOf(ctx, d.cl, d.group)
		if err != nil {
			return nil, err
		}
		d.node, d.asked = found.NodeID, found
	}
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups = []string{d.group}
	for _, o := range d.opts {
		o(req)
	}
	kresp, err := d.cl.Broker(int(d.node)).Request(ctx, req)
	if err != nil {
		node := d.node
		d.node = -1
		// kgo's own error does not say what is missing.
		if _, verr := heartbeatVersion(ctx, d.cl, node); verr != nil {
			if _, ok := errors.AsType[*UnsupportedError](verr); ok {
				return nil, verr
			}
		}
		return nil, err
	}
	resp := kresp.(*kmsg.StreamsGroupDescribeResponse)
	if req.IncludeTopologyDescription && resp.Version < 1 {
		return nil, kerr.UnsupportedVersion // what kgo has left out
	}
	groups := resp.Groups
	for _, g := range groups {
		code := kerr.ErrorForCode(g.ErrorCode)
		switch {
		case errors.Is(code, kerr.NotCoordinator), errors.Is(code, kerr.CoordinatorNotAvailable):
			d.node = -1
			return groups, code
		case errors.Is(code, kerr.CoordinatorLoadInProgress):
			return groups, code
		}
	}
	return groups, nil
}

const (
	// adminTimeout bounds the attempts of one call, as Kafka's
	// default.api.timeout.ms does.
	adminTimeout = time.Minute
	adminBackoff = 100 * time.Millisecond
)

// repeat calls fn until it succeeds, or fails with something that another attempt
// would not mend.
func repeat(ctx context.Context, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	for wait := adminBackoff; ; wait = min(2*wait, time.Second) {
		err := fn(ctx)
		_, unsupported := errors.AsType[*UnsupportedError](err)
		if err == nil || unsupported || !passing(err) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// ListedGroup is one group of ListGroups.
type ListedGroup struct {
	Group string
	State GroupState
}

// ListGroups lists the streams groups of the cluster, ascending: those in the given
// states, or all. A broker that is loading groups is asked again, for a minute at
// most. What other brokers know is returned even if one fails. The error is an
// *[UnsupportedError] for brokers that cannot list groups by type, before Apache
// Kafka 3.8.
func ListGroups(ctx context.Context, cl *kgo.Client, in ...GroupState) ([]ListedGroup, error) {
	states := map[string]GroupState{}
	var errs []error
	err := repeat(ctx, func(ctx context.Context) error {
		errs = nil
		var again error
		req := kmsg.NewPtrListGroupsRequest()
		req.TypesFilter, req.StatesFilter = []string{"streams"}, filterNames(in)
		for _, shard := range cl.RequestSharded(ctx, req) {
			err := shard.Err
			if resp, ok := shard.Resp.(*kmsg.ListGroupsResponse); ok && err == nil {
				err = kerr.ErrorForCode(resp.ErrorCode)
				if resp.Version < 5 { // what it lists, it has not chosen by type
					err, resp.Groups = &UnsupportedError{Node: shard.Meta.NodeID}, nil
				}
				for _, g := range resp.Groups {
					if s := groupState(g.GroupState); strings.EqualFold(g.GroupType, "streams") && (len(in) == 0 || slices.Contains(in, s)) {
						states[g.Group] = s
					}
				}
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("client: list groups of broker %d: %w", shard.Meta.NodeID, err))
				if passing(err) {
					again = err
				}
			}
		}
		return again
	})
	if err != nil && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("client: list groups: %w", err))
	}
	var out []ListedGroup
	for _, group := range slices.Sorted(maps.Keys(states)) {
		out = append(out, ListedGroup{group, states[group]})
	}
	return out, errors.Join(errs...)
}
