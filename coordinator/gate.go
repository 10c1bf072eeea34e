package coordinator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
)

// refusal is an error answer: a Kafka error code and a text for people.
type refusal struct {
	err  *kerr.Error
	text string
}

func refuse(err *kerr.Error, format string, args ...any) *refusal {
	return &refusal{err, fmt.Sprintf(format, args...)}
}

// silent refuses without a text, as Kafka does where the text could tell too
// much.
func silent(err *kerr.Error) *refusal { return &refusal{err: err} }

func allowed(a Access, op kmsg.ACLOperation, kind kmsg.ACLResourceType, name string) bool {
	return a == nil || a.Allowed(op, kind, name)
}

// speaksStreams is whether the broker is configured to know streams groups.
func (c *coordinatorState) speaksStreams() bool {
	return slices.Contains(c.broker.protocols, "streams")
}

// gate checks what can be checked without the group, in Kafka's order: the first
// failing check answers.
func (h *heartbeat) gate() *refusal {
	req := h.req
	if !h.c.speaksStreams() {
		return silent(kerr.UnsupportedVersion)
	}
	if !allowed(req.Access, kmsg.ACLOperationRead, kmsg.ACLResourceTypeGroup, req.Group) {
		return silent(kerr.GroupAuthorizationFailed)
	}
	if req.Topology != nil {
		h.sent = record.FromWire(req.Group, req.Topology)
		if r := h.gateTopology(); r != nil {
			return r
		}
	}
	if r := gateNames(req.StreamsGroupHeartbeatRequest); r != nil {
		return r
	}
	switch {
	case req.MemberEpoch == 0:
		if r := h.gateJoin(); r != nil {
			return r
		}
	case req.MemberEpoch == -2 && req.InstanceID == nil:
		return refuse(kerr.InvalidRequest, "MemberEpoch -2 is for static members, and InstanceId is null")
	case req.MemberEpoch < -2:
		return refuse(kerr.InvalidRequest, "MemberEpoch %d has no meaning: want 0 to join, -1 or -2 to leave, or an epoch that the coordinator gave", req.MemberEpoch)
	}
	if (req.ActiveTasks == nil) != (req.StandbyTasks == nil) || (req.ActiveTasks == nil) != (req.WarmupTasks == nil) {
		return refuse(kerr.InvalidRequest, "ActiveTasks, StandbyTasks and WarmupTasks are sent together or not at all")
	}
	if req.MemberEpoch != 0 && req.Topology != nil {
		return refuse(kerr.InvalidRequest, "Topology is sent with MemberEpoch 0 only, not with %d", req.MemberEpoch)
	}
	return h.gateRepetitions()
}

// Check makes the checks of a heartbeat that need no group, for a node that does
// not coordinate the group: Kafka refuses a malformed request wherever it
// arrives, and says only then that another node is in charge. If a check fails
// it fills resp (every field) and returns false.
func (c *Coordinator) Check(req *Request, resp *kmsg.StreamsGroupHeartbeatResponse) bool {
	h := heartbeat{c: &c.coordinatorState, req: req}
	r := h.gate()
	if r != nil {
		respondRefusal(resp, r)
	}
	return r == nil
}

// gateTopology looks at the names of all topics, then at what the sender may
// see.
func (h *heartbeat) gateTopology() *refusal {
	if err := topics.ValidateNames(h.sent); err != nil {
		return refuse(kerr.StreamsInvalidTopology, "%v", err)
	}
	if h.req.Access != nil {
		for _, name := range topics.Named(h.sent) {
			if !allowed(h.req.Access, kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeTopic, name) {
				return silent(kerr.TopicAuthorizationFailed)
			}
		}
	}
	if h.c.policy == Kafka {
		for i := range h.sent.Subtopologies {
			if s := &h.sent.Subtopologies[i]; len(s.SourceTopicRegex) > 0 {
				return refuse(kerr.InvalidRequest, "subtopology %q subscribes by pattern, which Kafka does not support", s.ID)
			}
		}
	}
	return nil
}

// blank is whether there is nothing but what Java's trim takes away: control
// characters and the ASCII space, but not the other spaces of Unicode.
func blank(s string) bool {
	return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' }) == ""
}

func gateNames(req *kmsg.StreamsGroupHeartbeatRequest) *refusal {
	switch {
	case blank(req.MemberID):
		return refuse(kerr.InvalidRequest, "MemberId is empty: a member chooses its own id")
	case blank(req.Group):
		return refuse(kerr.InvalidRequest, "GroupId is empty")
	case req.InstanceID != nil && blank(*req.InstanceID):
		return refuse(kerr.InvalidRequest, "InstanceId is empty: leave it null for a dynamic member")
	case req.RackID != nil && blank(*req.RackID):
		return refuse(kerr.InvalidRequest, "RackId is empty: leave it null if there is none")
	}
	if err := (record.Key{Type: record.TypeMemberMetadata, Group: req.Group, Member: req.MemberID}).Check(); err != nil {
		return refuse(kerr.InvalidRequest, "%v", err)
	}
	return nil
}

// gateJoin are the checks of a join.
func (h *heartbeat) gateJoin() *refusal {
	req := h.req
	// Kafka takes a time-out of 0 and removes the member when it has to revoke.
	if req.RebalanceTimeoutMillis == -1 || h.c.policy == KIP1071 && req.RebalanceTimeoutMillis <= 0 {
		return refuse(kerr.InvalidRequest, "RebalanceTimeoutMs %d: a join needs one above 0", req.RebalanceTimeoutMillis)
	}
	for i, l := range [...][]kmsg.TaskIDs{req.ActiveTasks, req.StandbyTasks, req.WarmupTasks} {
		if l == nil || len(l) > 0 {
			return refuse(kerr.InvalidRequest, "the list of %s tasks must be empty in a join", allRoles[i])
		}
	}
	if h.sent == nil {
		return refuse(kerr.InvalidRequest, "Topology is null in a join")
	}
	for i := range h.sent.Subtopologies {
		for _, t := range h.sent.Subtopologies[i].StateChangelogTopics {
			if t.Partitions != 0 {
				return refuse(kerr.StreamsInvalidTopology, "changelog topic %q asks for %d partitions: the number follows from the source topics", t.Name, t.Partitions)
			}
		}
	}
	if h.c.policy == KIP1071 {
		return h.checkTopologyEpoch()
	}
	return nil
}

func (h *heartbeat) checkTopologyEpoch() *refusal {
	if h.sent != nil && h.sent.Epoch < 0 {
		return refuse(kerr.InvalidRequest, "topology epoch %d is negative", h.sent.Epoch)
	}
	return nil
}

// gateRepetitions refuses what is there twice. Kafka stumbles over it later, with
// an unknown server error, and only where it makes a map of it: so does policy
// Kafka, with a refusal.
func (h *heartbeat) gateRepetitions() *refusal {
	if h.c.policy == KIP1071 {
		if r := h.checkTags(); r != nil {
			return r
		}
		if r := h.checkReported(); r != nil {
			return r
		}
	}
	if h.req.ActiveTasks == nil {
		return nil
	}
	h.reported = roles{listFromWire(h.req.ActiveTasks), listFromWire(h.req.StandbyTasks), listFromWire(h.req.WarmupTasks)}
	h.owned = &h.reported
	if h.c.policy == KIP1071 && !h.owned.disjoint() {
		return refuse(kerr.InvalidRequest, "a task is reported in two roles at once")
	}
	return nil
}

func (h *heartbeat) checkTags() *refusal {
	if t := repeated(h.req.ClientTags, func(t *wireTag) string { return t.Key }); t != nil {
		return refuse(kerr.InvalidRequest, "client tag %q is there twice", t.Key)
	}
	return nil
}

func (h *heartbeat) checkReported() *refusal {
	for i, l := range [...][]kmsg.TaskIDs{h.req.ActiveTasks, h.req.StandbyTasks, h.req.WarmupTasks} {
		if s := repeated(l, func(s *kmsg.TaskIDs) string { return s.SubtopologyID }); s != nil {
			return refuse(kerr.InvalidRequest, "subtopology %q is there twice among the %s tasks", s.SubtopologyID, allRoles[i])
		}
	}
	return nil
}

type wireTag = kmsg.StreamsGroupHeartbeatRequestClientTag

// repeated returns an element whose key was there before, nil if there is none.
func repeated[T any](l []T, key func(*T) string) *T {
	if len(l) < 2 {
		return nil
	}
	seen := make(map[string]struct{}, len(l))
	for i := range l {
		k := key(&l[i])
		if _, ok := seen[k]; ok {
			return &l[i]
		}
		seen[k] = struct{}{}
	}
	return nil
}
