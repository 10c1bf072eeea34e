package coordinator

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Describe describes one group; ErrorCode says if there is none.
func (c *Coordinator) Describe(group string, access Access) kmsg.StreamsGroupDescribeResponseGroup {
	out, g := c.describe(group, access)
	if g != nil {
		for _, id := range g.memberIDs() {
			out.Members = append(out.Members, g.members[id].describe())
		}
	}
	return out
}

// describe is a description without the members. The group is nil if it may not
// be described.
func (c *Coordinator) describe(id string, access Access) (kmsg.StreamsGroupDescribeResponseGroup, *group) {
	out := kmsg.NewStreamsGroupDescribeResponseGroup()
	out.Group = id
	out.Members = []kmsg.StreamsGroupDescribeResponseGroupMember{}
	out.AuthorizedOperations = math.MinInt32
	fail := func(err *kerr.Error, text string) (kmsg.StreamsGroupDescribeResponseGroup, *group) {
		out.ErrorCode = err.Code
		if text != "" {
			out.ErrorMessage = &text
		}
		return out, nil
	}
	if !allowed(access, kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeGroup, id) {
		return fail(kerr.GroupAuthorizationFailed, "")
	}
	if id == "" {
		return fail(kerr.InvalidGroupID, "")
	}
	g := c.groups[id]
	if g == nil {
		return fail(kerr.GroupIDNotFound, "there is no streams group "+id)
	}
	if g.topology != nil && access != nil {
		for _, topic := range topics.Named(g.topology) {
			if !allowed(access, kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeTopic, topic) {
				return fail(kerr.TopicAuthorizationFailed, "the topology names a topic that may not be described")
			}
		}
	}
	out.State = g.state().String()
	out.Epoch, out.AssignmentEpoch = g.epoch, g.assignmentEpoch
	name := c.effectiveConfig(id).assignor
	out.AssignorName = &name
	out.Topology = g.describeTopology()
	return out, g
}

// describeTopology shows decided partition counts while the topology is ready,
// and the topology as it was sent otherwise.
func (g *group) describeTopology() *kmsg.StreamsGroupDescribeResponseGroupTopology {
	if g.topology == nil {
		return nil
	}
	out := kmsg.NewStreamsGroupDescribeResponseGroupTopology()
	out.Epoch = g.topology.Epoch
	out.Subtopologies = []kmsg.StreamsGroupDescribeResponseGroupTopologySubtopology{}
	configured := g.configured()
	for i := range g.topology.Subtopologies {
		s := &g.topology.Subtopologies[i]
		d := kmsg.NewStreamsGroupDescribeResponseGroupTopologySubtopology()
		d.SubtopologyID = s.ID
		sources := s.SourceTopics
		d.RepartitionSinkTopics = slices.Sorted(slices.Values(s.RepartitionSinkTopics))
		repartition, changelogs := s.RepartitionSourceTopics, s.StateChangelogTopics
		if configured != nil && configured.Ready() {
			if c := subtopology(configured, s.ID); c != nil {
				repartition, changelogs = c.Repartition, c.Changelogs
				sources = slices.Concat(sources, c.Matched)
			}
		}
		d.SourceTopics = slices.Sorted(slices.Values(sources))
		if configured != nil && configured.Ready() { // what is named twice is one topic
			d.SourceTopics, d.RepartitionSinkTopics = slices.Compact(d.SourceTopics), slices.Compact(d.RepartitionSinkTopics)
		}
		d.RepartitionSourceTopics, d.StateChangelogTopics = describeTopics(repartition), describeTopics(changelogs)
		out.Subtopologies = append(out.Subtopologies, d)
	}
	slices.SortFunc(out.Subtopologies, func(a, b kmsg.StreamsGroupDescribeResponseGroupTopologySubtopology) int {
		return strings.Compare(a.SubtopologyID, b.SubtopologyID)
	})
	return &out
}

func describeTopics(in []record.TopicInfo) []kmsg.TopicInfo {
	out := make([]kmsg.TopicInfo, len(in))
	for i, t := range in {
		w := kmsg.NewTopicInfo()
		w.Topic, w.NumPartitions, w.ReplicationFactor = t.Name, t.Partitions, t.ReplicationFactor
		w.Configs = []kmsg.TopicInfoConfig{}
		for _, kv := range t.Configs {
			w.Configs = append(w.Configs, kmsg.TopicInfoConfig{Key: kv.Key, Value: kv.Value})
		}
		out[i] = w
	}
	slices.SortFunc(out, func(a, b kmsg.TopicInfo) int { return strings.Compare(a.Topic, b.Topic) })
	return out
}

func (m *member) describe() kmsg.StreamsGroupDescribeResponseGroupMember {
	out := kmsg.NewStreamsGroupDescribeResponseGroupMember()
	out.MemberID, out.MemberEpoch = m.meta.Member, m.cur.epoch
	out.InstanceID, out.RackID = m.meta.InstanceID, m.meta.RackID
	out.ClientID, out.ClientHost = m.meta.ClientID, m.meta.ClientHost
	out.TopologyEpoch, out.ProcessID = m.meta.TopologyEpoch, m.meta.ProcessID
	if e := m.meta.UserEndpoint; e != nil {
		w := kmsg.NewStreamsGroupDescribeResponseGroupMemberUserEndpoint()
		w.Host, w.Port = e.Host, e.Port
		out.UserEndpoint = &w
	}
	out.ClientTags = []kmsg.StreamsGroupDescribeResponseGroupMemberClientTag{}
	for _, t := range m.meta.ClientTags {
		w := kmsg.NewStreamsGroupDescribeResponseGroupMemberClientTag()
		w.Key, w.Value = t.Key, t.Value
		out.ClientTags = append(out.ClientTags, w)
	}
	out.TaskOffsets, out.TaskEndOffsets = offsetsToWire(m.offsets), offsetsToWire(m.ends)
	out.Assignment.ActiveTasks, out.Assignment.StandbyTasks, out.Assignment.WarmupTasks = listToWire(m.cur.assigned.active), listToWire(m.cur.assigned.standby), listToWire(m.cur.assigned.warmup)
	var target roles
	if m.target != nil {
		target = *m.target
	}
	out.TargetAssignment.ActiveTasks, out.TargetAssignment.StandbyTasks, out.TargetAssignment.WarmupTasks = listToWire(target.active), listToWire(target.standby), listToWire(target.warmup)
	return out
}

func offsetsToWire(m map[topology.TaskID]int64) []kmsg.TaskOffset {
	out := []kmsg.TaskOffset{}
	for _, t := range slices.SortedFunc(maps.Keys(m), topology.TaskID.Compare) {
		o := kmsg.NewTaskOffset()
		o.SubtopologyID, o.Partition, o.Offset = t.Subtopology, t.Partition, m[t]
		out = append(out, o)
	}
	return out
}

// Listed is one group of List.
type Listed struct {
	Group string
	State State
}

// List returns the groups in ascending order of their ids.
func (c *Coordinator) List() []Listed {
	var out []Listed
	for _, id := range slices.Sorted(maps.Keys(c.groups)) {
		out = append(out, Listed{id, c.groups[id].state()})
	}
	return out
}

// FilterName is how state filters of ListGroups spell a state. They are compared
// after trimming and lower-casing.
func (s State) FilterName() string {
	if s == NotReady {
		return "not_ready"
	}
	return strings.ToLower(s.String())
}

// State is the state of a group.
func (c *Coordinator) State(group string) (State, bool) {
	g := c.groups[group]
	if g == nil {
		return Empty, false
	}
	return g.state(), true
}

// Has is whether a streams group of this id is known.
func (c *Coordinator) Has(group string) bool { return c.groups[group] != nil }

// Required calls fn for each topic that the group's topology needs to exist, in
// ascending order, and returns whether the group is ready. The driver keeps these
// in the image.
func (c *Coordinator) Required(group string, fn func(topic string)) (ready bool) {
	g := c.groups[group]
	if g == nil {
		return false
	}
	required := g.required
	if g.configured() != nil {
		required = g.topics.required
	}
	for _, t := range required {
		fn(t)
	}
	return g.topology != nil && g.validatedEpoch == g.topology.Epoch
}

// HasPatterns is whether the group's topology has source patterns: these can be
// resolved only in an image that is complete.
func (c *Coordinator) HasPatterns(group string) bool {
	g := c.groups[group]
	return g != nil && g.topology != nil && hasPatterns(g.topology)
}

func hasPatterns(t *record.Topology) bool {
	return slices.ContainsFunc(t.Subtopologies, func(s record.Subtopology) bool { return len(s.SourceTopicRegex) > 0 })
}

// Delete decides the removal of an empty group and returns 0 or an error code;
// handled is false if there is no such group. The driver treats fx as for a
// request. What BeginDescriptionRemoval asks for comes first: if it has failed,
// the code is GROUP_DELETION_FAILED.
func (c *Coordinator) Delete(group string, fx *Effects) (code int16, handled bool) {
	fx.reset()
	g := c.groups[group]
	if g == nil {
		return 0, false
	}
	if len(g.members) > 0 {
		return kerr.NonEmptyGroup.Code, true
	}
	if c.mayHaveDescription(g) {
		return kerr.GroupDeletionFailed.Code, true
	}
	c.tombstones(g, fx)
	return 0, true
}

// Convert decides what a classic JoinGroup meets: an empty streams group is
// tombstoned (0), one with members refuses (INCONSISTENT_GROUP_PROTOCOL), and one
// whose description the store could not forget has the client try again
// (REBALANCE_IN_PROGRESS).
func (c *Coordinator) Convert(group string, fx *Effects) (code int16, handled bool) {
	switch code, handled = c.Delete(group, fx); code {
	case 0:
		return 0, handled
	case kerr.GroupDeletionFailed.Code:
		return kerr.RebalanceInProgress.Code, handled
	}
	return kerr.InconsistentGroupProtocol.Code, handled
}

func (c *coordinatorState) tombstones(g *group, fx *Effects) {
	fx.Records = append(fx.Records,
		tombstone(record.TypeTargetAssignmentMetadata, g.id, ""),
		tombstone(record.TypeGroupMetadata, g.id, ""),
		tombstone(record.TypeTopology, g.id, ""))
	fx.Events = append(fx.Events, GroupDeleted{Group: g.id})
	fx.soft.g = g
}
