package client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// GroupDescription is what the coordinator of a group knows of it.
type GroupDescription struct {
	// Group and the other fields of the response. The list of subtopologies may be nil.
	kmsg.StreamsGroupDescribeResponseGroup
	// Coordinator is the broker that was asked.
	Coordinator kgo.BrokerMetadata
	// Description is the graph of the topology, nil unless the status is
	// [DescriptionAvailable].
	Description *TopologyDescription
	// Err is why the group cannot be described, nil if it can: a *[GroupError], a
	// *[MalformedDescriptionError] or an *[UnsupportedError]. Other fields than
	// Group mean nothing then.
	Err error
}

// GroupState is the state, [GroupUnknown] if the broker's name for it is new.
func (d *GroupDescription) GroupState() GroupState { return groupState(d.State) }

// TopologyEpoch is the epoch of the group's topology, -1 if it has none.
func (d *GroupDescription) TopologyEpoch() int32 {
	if d.Topology == nil {
		return -1
	}
	return d.Topology.Epoch
}

// Subtopologies are those of the group's topology, in the broker's order.
func (d *GroupDescription) Subtopologies() []kmsg.StreamsGroupDescribeResponseGroupTopologySubtopology {
	if d.Topology == nil {
		return nil
	}
	return d.Topology.Subtopologies
}

// DescriptionStatus is whether there is a description of the topology (KIP-1331).
func (d *GroupDescription) DescriptionStatus() DescriptionStatus {
	return DescriptionStatus(d.TopologyDescriptionStatus)
}

// Operations are what the principal may do with the group, ascending. ok is false
// if that was not asked for.
func (d *GroupDescription) Operations() (ops []kmsg.ACLOperation, ok bool) {
	const notRequested = -1 << 31
	if d.AuthorizedOperations == notRequested {
		return nil, false
	}
	for bit := range 31 {
		if d.AuthorizedOperations&(1<<bit) != 0 {
			ops = append(ops, kmsg.ACLOperation(bit))
		}
	}
	return ops, true
}

// DescriptionStatus is what a broker says about the description of a topology.
type DescriptionStatus int8

// The statuses of descriptions.
const (
	DescriptionNotRequested DescriptionStatus = iota
	// DescriptionNotStored is that no member has sent one, or that the broker has no
	// plug-in that stores it.
	DescriptionNotStored
	// DescriptionFailed is that the broker could not fetch it.
	DescriptionFailed
	DescriptionAvailable
)

// TopologyDescription is the graph of a topology.
type TopologyDescription struct {
	Subtopologies []SubtopologyDescription
	GlobalStores  []GlobalStoreDescription
}

// SubtopologyDescription is the graph of one subtopology, in the broker's order.
type SubtopologyDescription struct {
	ID    string
	Nodes []TopologyNode
}

// GlobalStoreDescription is a store that every process fills for itself.
type GlobalStoreDescription struct{ Source, Processor TopologyNode }

// TopologyNode is a node, with the names of those that pass records to it, ascending.
type TopologyNode struct {
	kmsg.TopologyDescriptionNode
	Predecessors []string
}

// The types of nodes, as in TopologyNode.NodeType.
const (
	SourceNode    int8 = 1
	ProcessorNode int8 = 2
	SinkNode      int8 = 3
)

// DescribeOption is an option of [DescribeGroupsWith].
type DescribeOption func(*kmsg.StreamsGroupDescribeRequest)

// WithAuthorizedOperations asks what the client's principal may do with the groups.
func WithAuthorizedOperations() DescribeOption {
	return func(r *kmsg.StreamsGroupDescribeRequest) { r.IncludeAuthorizedOperations = true }
}

// WithTopologyDescription asks for the graphs of the topologies (KIP-1331). It takes
// a broker of Apache Kafka 4.4 or later: with an older one, each group fails with
// UNSUPPORTED_VERSION.
func WithTopologyDescription() DescribeOption {
	return func(r *kmsg.StreamsGroupDescribeRequest) { r.IncludeTopologyDescription = true }
}

// DescribeGroupsWith describes streams groups, as [DescribeGroups] does, with
// options, and says for each group which broker was asked or what went wrong with it.
// The descriptions are in the order of the arguments.
func DescribeGroupsWith(ctx context.Context, cl *kgo.Client, groups []string, opts ...DescribeOption) []GroupDescription {
	out := make([]GroupDescription, 0, len(groups))
	for _, group := range groups {
		out = append(out, describeGroup(ctx, cl, group, opts))
	}
	return out
}

func describeGroup(ctx context.Context, cl *kgo.Client, group string, opts []DescribeOption) GroupDescription {
	d := describer{cl: cl, group: group, node: -1, opts: opts}
	var found []kmsg.StreamsGroupDescribeResponseGroup
	err := repeat(ctx, func(ctx context.Context) (err error) {
		found, err = d.describe(ctx)
		return err
	})
	out := GroupDescription{}
	i := slices.IndexFunc(found, func(g kmsg.StreamsGroupDescribeResponseGroup) bool { return g.Group == group })
	switch unsupported, ok := errors.AsType[*UnsupportedError](err); {
	case ok:
		out.Err = unsupported
	case i >= 0:
		out.StreamsGroupDescribeResponseGroup = found[i]
		out.Coordinator = d.asked
		out.Description, out.Err = checkedDescription(&found[i])
	case err != nil:
		out.Err = &GroupError{Group: group, Call: "describe", Cause: err}
	default:
		out.Err = &MalformedDescriptionError{group, "the response leaves the group out"}
	}
	out.Group = group
	return out
}

// checkedDescription reads the graph, and says what is wrong with a group.
func checkedDescription(g *kmsg.StreamsGroupDescribeResponseGroup) (*TopologyDescription, error) {
	if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
		e := &GroupError{Group: g.Group, Call: "describe", Cause: err}
		if g.ErrorMessage != nil {
			e.Message = *g.ErrorMessage
		}
		return nil, e
	}
	fail := func(format string, args ...any) (*TopologyDescription, error) {
		return nil, &MalformedDescriptionError{g.Group, fmt.Sprintf(format, args...)}
	}
	status := DescriptionStatus(g.TopologyDescriptionStatus)
	switch {
	case g.Topology == nil:
		return fail("there is no topology")
	case status < DescriptionNotRequested || status > DescriptionAvailable:
		return fail("%d is no status of a topology description", status)
	case status != DescriptionAvailable:
		return nil, nil
	case g.TopologyDescription == nil:
		return fail("the topology description is said to be there and is not")
	}
	out := &TopologyDescription{}
	for _, s := range g.TopologyDescription.Subtopologies {
		for i := range s.Nodes {
			if t := s.Nodes[i].NodeType; t < SourceNode || t > SinkNode {
				return fail("node %q is of the unknown type %d", s.Nodes[i].Name, t)
			}
		}
		out.Subtopologies = append(out.Subtopologies, SubtopologyDescription{s.SubtopologyID, withPredecessors(s.Nodes)})
	}
	for _, s := range g.TopologyDescription.GlobalStores {
		if s.Source.NodeType != SourceNode || s.Processor.NodeType != ProcessorNode {
			return fail("a global store has the nodes %q, of type %d, and %q, of type %d, and not a source and a processor",
				s.Source.Name, s.Source.NodeType, s.Processor.Name, s.Processor.NodeType)
		}
		n := withPredecessors([]kmsg.TopologyDescriptionNode{s.Source, s.Processor})
		out.GlobalStores = append(out.GlobalStores, GlobalStoreDescription{n[0], n[1]})
	}
	return out, nil
}

// withPredecessors inverts the lists of successors.
func withPredecessors(nodes []kmsg.TopologyDescriptionNode) []TopologyNode {
	before := map[string][]string{}
	for i := range nodes {
		for _, next := range nodes[i].Successors {
			before[next] = append(before[next], nodes[i].Name)
		}
	}
	out := make([]TopologyNode, len(nodes))
	for i := range nodes {
		p := before[nodes[i].Name]
		slices.Sort(p)
		out[i] = TopologyNode{nodes[i], slices.Compact(p)}
	}
	return out
}
