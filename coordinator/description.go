package coordinator

import (
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Members push descriptions of their topologies to the coordinator (KIP-1331):
// every node of the processing graph, for people and their tools. The coordinator
// itself has no use for them. Its driver keeps them in a store, which is called
// Set, Get and Delete here. The core never calls it: it says when to, and decides
// what the outcome means. For one group, the driver makes only one push or
// removal at a time, from its begin to its end.

// DescriptionRefusedError is the answer of a store that will never take a
// description: members are not asked for that topology epoch again.
// Reason is sent to the member.
type DescriptionRefusedError struct{ Reason string }

func (e *DescriptionRefusedError) Error() string {
	return "coordinator: topology description refused: " + e.Reason
}

// What group metadata records say about the description that the store has,
// besides the topology epoch that it belongs to.
const (
	noDescription        = -1
	uncertainDescription = -2 // it may have one, or not
)

// BeginDescriptionPush decides about a pushed description before it goes to the
// store. It fills resp, and drops from the description what kinds of nodes do not
// have. If ok, the driver treats fx as for a request, calls Set and then
// EndDescriptionPush; the request must not change until then. If the append fails
// it calls DescriptionNotRecorded instead, here as well as at the end.
//
// What is written first is that the store's content is uncertain, so that a
// coordinator that stops halfway leaves nothing behind that nobody knows of.
func (c *Coordinator) BeginDescriptionPush(req *kmsg.StreamsGroupTopologyDescriptionUpdateRequest, access Access, resp *kmsg.StreamsGroupTopologyDescriptionUpdateResponse, fx *Effects) (ok bool) {
	fx.reset()
	r := c.gateDescription(req, access)
	if r == nil {
		r = c.checkDescription(req)
	}
	respondDescription(resp, r)
	if r != nil {
		return false
	}
	g := c.groups[req.Group]
	c.setDescriptions(g, uncertainDescription, g.failedDescription, fx)
	return true
}

// CheckDescriptionPush makes the checks of BeginDescriptionPush that need no
// group and fills resp. A node that does not coordinate the group answers what
// passes them with NOT_COORDINATOR.
func (c *Coordinator) CheckDescriptionPush(req *kmsg.StreamsGroupTopologyDescriptionUpdateRequest, access Access, resp *kmsg.StreamsGroupTopologyDescriptionUpdateResponse) (ok bool) {
	r := c.gateDescription(req, access)
	respondDescription(resp, r)
	return r == nil
}

func (c *coordinatorState) gateDescription(req *kmsg.StreamsGroupTopologyDescriptionUpdateRequest, access Access) *refusal {
	switch {
	case !c.speaksStreams():
		return silent(kerr.UnsupportedVersion)
	case !allowed(access, kmsg.ACLOperationRead, kmsg.ACLResourceTypeGroup, req.Group):
		return silent(kerr.GroupAuthorizationFailed)
	case !c.descriptions:
		return refuse(kerr.UnsupportedVersion, "this broker does not keep descriptions of topologies")
	case blank(req.MemberID):
		return refuse(kerr.InvalidRequest, "MemberId is empty")
	case blank(req.Group):
		return refuse(kerr.InvalidRequest, "GroupId is empty")
	}
	return nil
}

func (c *coordinatorState) checkDescription(req *kmsg.StreamsGroupTopologyDescriptionUpdateRequest) *refusal {
	g := c.groups[req.Group]
	switch {
	case g == nil:
		return noGroup(req.Group)
	case g.members[req.MemberID] == nil:
		return refuse(kerr.UnknownMemberID, "%q is not a member of group %q", req.MemberID, req.Group)
	case g.topology == nil:
		return refuse(kerr.InvalidRequest, "TopologyEpoch %d: group %q has no topology", req.TopologyEpoch, req.Group)
	case g.topology.Epoch != req.TopologyEpoch:
		return refuse(kerr.InvalidRequest, "TopologyEpoch %d is not the group's, which is %d", req.TopologyEpoch, g.topology.Epoch)
	}
	return checkNodes(&req.TopologyDescription)
}

// Types of nodes in a description.
const (
	sourceNode    = 1
	processorNode = 2
	sinkNode      = 3
)

// checkNodes refuses what is not a topology, and drops what kinds of nodes do not
// have, as Kafka does.
func checkNodes(d *kmsg.TopologyDescription) *refusal {
	for i := range d.Subtopologies {
		s := &d.Subtopologies[i]
		for j := range s.Nodes {
			if n := &s.Nodes[j]; n.NodeType < sourceNode || n.NodeType > sinkNode {
				return refuse(kerr.InvalidRequest, "node %q of subtopology %q has the NodeType %d: want 1 to 3", n.Name, s.SubtopologyID, n.NodeType)
			}
			tidyNode(&s.Nodes[j])
		}
	}
	for i := range d.GlobalStores {
		s := &d.GlobalStores[i]
		if s.Source.NodeType != sourceNode || s.Processor.NodeType != processorNode {
			return refuse(kerr.InvalidRequest, "the nodes %q and %q of a global store have the NodeTypes %d and %d: want 1 and 2", s.Source.Name, s.Processor.Name, s.Source.NodeType, s.Processor.NodeType)
		}
		tidyNode(&s.Source)
		tidyNode(&s.Processor)
	}
	return nil
}

func tidyNode(n *kmsg.TopologyDescriptionNode) {
	out := kmsg.NewTopologyDescriptionNode()
	out.Name, out.NodeType, out.Successors = n.Name, n.NodeType, withoutRepetitions(n.Successors)
	switch n.NodeType {
	case sourceNode:
		out.SourceTopics = withoutRepetitions(n.SourceTopics)
	case processorNode:
		out.Stores = withoutRepetitions(n.Stores)
	case sinkNode:
		out.SinkTopic = n.SinkTopic
	}
	*n = out
}

// withoutRepetitions keeps the order.
func withoutRepetitions(names []string) []string {
	seen := make(map[string]bool, len(names))
	return slices.DeleteFunc(names, func(name string) bool {
		before := seen[name]
		seen[name] = true
		return before
	})
}

// EndDescriptionPush decides what the outcome of Set means and fills resp. The
// driver treats fx as for a request.
func (c *Coordinator) EndDescriptionPush(now Now, req *kmsg.StreamsGroupTopologyDescriptionUpdateRequest, outcome error, resp *kmsg.StreamsGroupTopologyDescriptionUpdateResponse, fx *Effects) {
	fx.reset()
	g, epoch := c.groups[req.Group], req.TopologyEpoch
	if g == nil { // deleted meanwhile
		respondDescription(resp, noGroup(req.Group))
		return
	}
	fx.soft.g = g
	stored, failed := g.storedDescription, g.failedDescription
	var refused *DescriptionRefusedError
	switch {
	case outcome == nil:
		if stored == noDescription {
			// It was deleted meanwhile, and who knows in which order.
			stored = uncertainDescription
		} else {
			stored = max(stored, epoch)
		}
		respondDescription(resp, nil)
		fx.soft.descriptionRetry = g.descriptionRetry.ended(epoch)
		fx.Events = append(fx.Events, DescriptionStored{Group: g.id, TopologyEpoch: epoch})
	case errors.As(outcome, &refused):
		failed = max(failed, epoch)
		fx.soft.descriptionRetry = g.descriptionRetry.ended(epoch)
		pushFailed(g, epoch, refused.Reason, true, resp, fx)
	default:
		fx.soft.descriptionRetry = g.descriptionRetry.again(g.id, epoch, now)
		pushFailed(g, epoch, outcome.Error(), false, resp, fx)
	}
	c.setDescriptions(g, stored, failed, fx)
}

func pushFailed(g *group, epoch int32, reason string, permanent bool, resp *kmsg.StreamsGroupTopologyDescriptionUpdateResponse, fx *Effects) {
	respondDescription(resp, &refusal{kerr.StreamsTopologyDescriptionUpdateFailed, reason})
	fx.Events = append(fx.Events, DescriptionFailed{Group: g.id, TopologyEpoch: epoch, Permanent: permanent, Reason: reason})
}

// DescriptionNotRecorded takes the place of AppendFailed for a push, at its begin
// or end. It fills resp and has members asked again later, so the driver calls
// Apply once more.
func (c *Coordinator) DescriptionNotRecorded(now Now, req *kmsg.StreamsGroupTopologyDescriptionUpdateRequest, err error, resp *kmsg.StreamsGroupTopologyDescriptionUpdateResponse, fx *Effects) {
	fx.reset()
	code := appendError(err)
	respondDescription(resp, silent(code))
	g := c.groups[req.Group]
	if g == nil || code == kerr.NotCoordinator || code == kerr.CoordinatorNotAvailable || code == kerr.CoordinatorLoadInProgress {
		return // another coordinator will know
	}
	fx.soft.g = g
	fx.soft.descriptionRetry = g.descriptionRetry.again(g.id, req.TopologyEpoch, now)
}

func respondDescription(resp *kmsg.StreamsGroupTopologyDescriptionUpdateResponse, r *refusal) {
	*resp = kmsg.StreamsGroupTopologyDescriptionUpdateResponse{Version: resp.Version}
	if r == nil {
		return
	}
	resp.ErrorCode = r.err.Code
	if r.text != "" {
		resp.ErrorMessage = &r.text
	}
}

func noGroup(id string) *refusal {
	return refuse(kerr.GroupIDNotFound, "there is no streams group %q", id)
}

// setDescriptions writes what the store has and what it has refused, in a group
// metadata record with the same group epoch.
func (c *coordinatorState) setDescriptions(g *group, stored, failed int32, fx *Effects) {
	fx.soft.g = g
	if g.storedDescription == stored && g.failedDescription == failed {
		return
	}
	r := g.metadata(g.epoch)
	r.StoredDescriptionTopologyEpoch, r.FailedDescriptionTopologyEpoch = stored, failed
	fx.Records = append(fx.Records, r)
}

// BeginDescriptionRemoval comes before Delete or Convert, and whenever an empty
// group is to be removed: none is as long as the store may have a description of
// it. If needed, the driver treats fx as for a request, calls the store's Delete
// and then EndDescriptionRemoval. A conversion waits out the back-off after a
// failure, because clients repeat the request that asks for it at once.
func (c *Coordinator) BeginDescriptionRemoval(now Now, group string, conversion bool, fx *Effects) (needed bool) {
	fx.reset()
	g := c.groups[group]
	if g == nil || len(g.members) > 0 || !c.mayHaveDescription(g) || conversion && g.descriptionRetry.running(uncertainDescription, now) {
		return false
	}
	c.setDescriptions(g, uncertainDescription, g.failedDescription, fx)
	return true
}

// EndDescriptionRemoval decides what the outcome of the store's Delete means.
// The driver treats fx as for a request.
func (c *Coordinator) EndDescriptionRemoval(now Now, group string, conversion bool, outcome error, fx *Effects) {
	fx.reset()
	g := c.groups[group]
	if g == nil {
		return
	}
	if outcome != nil {
		fx.soft.g = g
		if conversion && !g.descriptionRetry.running(uncertainDescription, now) {
			fx.soft.descriptionRetry = g.descriptionRetry.next(g.id, uncertainDescription, now)
		}
		fx.Events = append(fx.Events, DescriptionFailed{Group: g.id, TopologyEpoch: noDescription, Reason: outcome.Error()})
		return
	}
	stored := int32(noDescription)
	if g.storedDescription >= 0 {
		// A member came back and pushed meanwhile, and who knows in which order.
		stored = uncertainDescription
	}
	fx.soft.descriptionRetry = &descriptionRetry{}
	c.setDescriptions(g, stored, g.failedDescription, fx)
}

// mayHaveDescription is whether the store has to be asked before the group can be
// removed.
func (c *coordinatorState) mayHaveDescription(g *group) bool {
	return c.descriptions && g.storedDescription != noDescription
}

// StoredDescription is the epoch of the group's topology if the store has its
// description.
func (c *Coordinator) StoredDescription(group string) (topologyEpoch int32, ok bool) {
	g := c.groups[group]
	if g == nil || !c.descriptions || g.topology == nil || g.storedDescription != g.topology.Epoch {
		return 0, false
	}
	return g.topology.Epoch, true
}

// askForDescription asks the member for the description of its topology, unless
// the store has it or will not take it, or somebody was asked a short while ago.
func (h *heartbeat) askForDescription(resp *kmsg.StreamsGroupHeartbeatResponse) {
	g := h.g
	if !h.c.descriptions || h.req.Version < 1 || h.topology == nil || h.stale() {
		return
	}
	epoch := h.topology.Epoch
	if g.storedDescription == epoch || g.failedDescription == epoch || g.descriptionRetry.running(epoch, h.now) {
		return
	}
	resp.TopologyDescriptionRequired = true
	h.fx.soft.descriptionRetry = g.descriptionRetry.next(g.id, epoch, h.now)
	h.event(DescriptionRequested{Group: g.id, Member: h.meta.Member, TopologyEpoch: epoch})
}
