package kfakeext

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
)

const groupType = "streams"

// ListGroups: v0-5
//
// Version notes:
//   - v4: filter by state
//   - v5: filter by type
//
// kfake lists the group that holds our offsets; ours takes its place. Its
// filters would decide by the wrong state and type, so all filtering is done
// here.
func (a *adapter) listGroups(s sender, req *kmsg.ListGroupsRequest) {
	if s.who == nil {
		return // without tags: the tap has shown it to us
	}
	node := a.fake.CurrentNode()
	s.edit(req, a.groupsListed(s, req, func(group string) bool { return a.fake.CoordinatorFor(group) == node }))
	req.StatesFilter, req.TypesFilter = nil, nil
}

// alone is whether there is one node, which coordinates all groups. While a
// request is read it is not known which node it is for.
func (a *adapter) alone() bool { return len(a.fake.ListenAddrs()) == 1 }

func (a *adapter) groupsListed(s sender, req *kmsg.ListGroupsRequest, here func(group string) bool) func(kmsg.Response) {
	ours := make(map[string]coordinator.Listed)
	a.mu.Lock()
	listed := a.core.List()
	a.mu.Unlock()
	for _, l := range listed {
		if here(l.Group) {
			ours[l.Group] = l
		}
	}
	states, types := req.StatesFilter, req.TypesFilter
	acl := a.access(s)
	return func(resp kmsg.Response) {
		r, ok := resp.(*kmsg.ListGroupsResponse)
		if !ok || r.ErrorCode != 0 {
			return
		}
		r.Groups = slices.DeleteFunc(r.Groups, func(g kmsg.ListGroupsResponseGroup) bool {
			_, mine := ours[g.Group]
			return mine || !hasState(states, g.GroupState) || !hasType(types, g.GroupType)
		})
		for _, l := range listed {
			if _, here := ours[l.Group]; !here || !hasState(states, stateFilter(l.State)) || !hasType(types, groupType) {
				continue
			}
			if acl != nil && !acl.Allowed(kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeGroup, l.Group) {
				continue
			}
			g := kmsg.NewListGroupsResponseGroup()
			g.Group, g.ProtocolType, g.GroupState, g.GroupType = l.Group, groupType, l.State.String(), groupType
			r.Groups = append(r.Groups, g)
		}
	}
}

// stateFilter is the text that a filter has to name: Kafka compares with the
// name of its constant, not with what it prints.
func stateFilter(s coordinator.State) string {
	if s == coordinator.NotReady {
		return "not_ready"
	}
	return s.String()
}

// hasState: as in Kafka, a filter for states is trimmed and one for types not.
func hasState(filter []string, state string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool {
		return strings.EqualFold(strings.TrimSpace(f), state)
	})
}

func hasType(filter []string, kind string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, kind) })
}

// DescribeGroups: v0-6. A streams group is no classic group.
func (a *adapter) describeGroups(s sender, req *kmsg.DescribeGroupsRequest) {
	if s.who == nil {
		return // without tags: the tap has shown it to us
	}
	if edit := a.groupsDescribed(s, req, a.owns); edit != nil {
		s.edit(req, edit)
	}
}

// groupsDescribed returns nil if no group of ours is asked for.
func (a *adapter) groupsDescribed(s sender, req *kmsg.DescribeGroupsRequest, here func(group string) bool) func(kmsg.Response) {
	ours := make(map[string]bool)
	for _, group := range req.Groups {
		if here(group) {
			ours[group] = true
		}
	}
	if len(ours) == 0 {
		return nil
	}
	return func(resp kmsg.Response) {
		r, ok := resp.(*kmsg.DescribeGroupsResponse)
		if !ok {
			return
		}
		for i := range r.Groups {
			g := &r.Groups[i]
			if !ours[g.Group] || g.ErrorCode != 0 && g.ErrorCode != kerr.GroupIDNotFound.Code {
				continue
			}
			group := g.Group
			*g = kmsg.NewDescribeGroupsResponseGroup()
			g.Group = group
			g.State = coordinator.Dead.String()
			if r.Version >= 6 {
				g.ErrorCode = kerr.GroupIDNotFound.Code
				g.ErrorMessage = streamsGroupText(g.Group)
			} else if req.IncludeAuthorizedOperations {
				g.AuthorizedOperations = a.operations(s, g.Group)
			}
		}
	}
}

// DeleteGroups: v0-3. Requests before v2 have no identity; one that names a
// group of ours is answered without kfake.
func (a *adapter) deleteGroups(s sender, req *kmsg.DeleteGroupsRequest) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
	codes := make(map[string]int16) // of our groups
	var deletable []string
	req.Groups = distinct(req.Groups) // a group that is named twice is answered once
	for _, group := range req.Groups {
		if _, seen := codes[group]; !seen && a.owns(group) {
			codes[group] = 0
			if a.allowed(s, kmsg.ACLOperationDelete, kmsg.ACLResourceTypeGroup, group) {
				deletable = append(deletable, group)
			} else {
				codes[group] = kerr.GroupAuthorizationFailed.Code
			}
		}
		a.forgetKind(group)
	}
	if len(codes) == 0 {
		return nil, nil, false
	}
	if !a.forgetDescriptions(deletable, false) {
		return nil, ErrClosed, true
	}
	for _, group := range deletable {
		codes[group] = a.deleteGroup(group)
		if codes[group] == kerr.GroupDeletionFailed.Code && req.Version < 3 {
			codes[group] = kerr.UnknownServerError.Code // the other one is new in version 3
		}
	}
	asked := slices.Clone(req.Groups)
	edit := func(resp kmsg.Response) {
		r, ok := resp.(*kmsg.DeleteGroupsResponse)
		if !ok {
			return
		}
		answered := make(map[string]kmsg.DeleteGroupsResponseGroup, len(r.Groups))
		for _, g := range r.Groups {
			answered[g.Group] = g
		}
		r.Groups = make([]kmsg.DeleteGroupsResponseGroup, 0, len(asked))
		for _, group := range asked {
			code, mine := codes[group]
			g := kmsg.NewDeleteGroupsResponseGroup()
			g.Group, g.ErrorCode = group, code
			if code == kerr.GroupDeletionFailed.Code {
				g.ErrorMessage = deletionText(group)
			}
			if theirs, ok := answered[group]; ok {
				// kfake has deleted the offsets, or never had any.
				if !mine || theirs.ErrorCode != kerr.GroupIDNotFound.Code {
					g = theirs
				}
			} else if !mine {
				g.ErrorCode = kerr.CoordinatorNotAvailable.Code // ask again
			}
			r.Groups = append(r.Groups, g)
		}
	}
	// kfake only sees what it may delete.
	req.Groups = slices.DeleteFunc(req.Groups, func(group string) bool { return codes[group] != 0 })
	if len(req.Groups) > 0 && s.edit(req, edit) {
		return nil, nil, false
	}
	// Its response stays as it is, and so a group without offsets, which kfake
	// does not know, is not to be in it.
	req.Groups = slices.DeleteFunc(req.Groups, func(group string) bool {
		_, mine := codes[group]
		return mine && a.fake.GroupInfo(group) == nil
	})
	if len(req.Groups) == len(asked) {
		return nil, nil, false // nothing to add to kfake's response
	}
	resp := req.ResponseKind()
	edit(resp)
	return resp, nil, true
}

func distinct(names []string) (once []string) {
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if !seen[name] {
			seen[name] = true
			once = append(once, name)
		}
	}
	return once
}

func (a *adapter) deleteGroup(group string) int16 {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	code, handled := a.core.Delete(group, &a.fx)
	if !handled || code != 0 {
		return code
	}
	if err := a.commit(now, &a.fx); err != nil {
		return kerr.UnknownServerError.Code
	}
	delete(a.sweeper.transactional, group)
	a.drop(group)
	a.arm(now)
	return 0
}

// StreamsGroupDescribe: v0-1 (KIP-1071)
func (a *adapter) describe(s sender, req *kmsg.StreamsGroupDescribeRequest) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
	if err, refused := a.features.check(req); refused {
		return nil, err, err != nil
	}
	resp := req.ResponseKind().(*kmsg.StreamsGroupDescribeResponse)
	failed := func(group string, err *kerr.Error) kmsg.StreamsGroupDescribeResponseGroup {
		g := kmsg.NewStreamsGroupDescribeResponseGroup()
		g.Group, g.ErrorCode = group, err.Code
		return g
	}
	if a.features.off() {
		for _, group := range req.Groups {
			resp.Groups = append(resp.Groups, failed(group, kerr.UnsupportedVersion))
		}
		return resp, nil, true
	}
	// In Kafka's order: groups that may not be seen, then empty ids, then the
	// rest.
	var unauthorized, invalid, rest []kmsg.StreamsGroupDescribeResponseGroup
	members := make(map[string][]byte, len(req.Groups))
	acl := a.access(s)
	for _, group := range req.Groups {
		switch {
		case !a.allowed(s, kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeGroup, group):
			unauthorized = append(unauthorized, failed(group, kerr.GroupAuthorizationFailed))
		case group == "":
			invalid = append(invalid, failed(group, kerr.InvalidGroupID))
		case !a.coordinates(group):
			rest = append(rest, failed(group, kerr.NotCoordinator))
		default:
			a.mu.Lock()
			g, encoded := a.core.DescribeEncoded(group, acl)
			a.mu.Unlock()
			members[group] = encoded
			if req.IncludeAuthorizedOperations && g.ErrorCode == 0 {
				g.AuthorizedOperations = a.operations(s, group)
			}
			rest = append(rest, g)
		}
	}
	if req.IncludeTopologyDescription && !a.attachDescriptions(rest) {
		return nil, ErrClosed, true
	}
	resp.Groups = slices.Concat(unauthorized, invalid, rest)
	return &describeResponse{resp, members}, nil, true
}

// operations is the set of what the sender may do with a group, as bits.
func (a *adapter) operations(s sender, group string) (bits int32) {
	for _, op := range []kmsg.ACLOperation{
		kmsg.ACLOperationRead, kmsg.ACLOperationDelete, kmsg.ACLOperationDescribe,
		kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs,
	} {
		if a.allowed(s, op, kmsg.ACLResourceTypeGroup, group) {
			bits |= 1 << op
		}
	}
	return bits
}
