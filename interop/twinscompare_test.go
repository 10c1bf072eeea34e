package interop_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The texts below have every field of a message: what is equal in text is equal,
// up to the order in what is a set.

func errorName(code int16) string {
	if code == 0 {
		return "ok"
	}
	if e := kerr.TypedErrorForCode(code); e != nil {
		return e.Message
	}
	return strconv.Itoa(int(code))
}

func showPointer(s *string) string {
	if s == nil {
		return "null"
	}
	return strconv.Quote(*s)
}

// showTasks keeps what is there twice.
func showTasks(ids []kmsg.TaskIDs, sorted bool) string {
	if ids == nil {
		return "null"
	}
	var parts []string
	for _, id := range ids {
		partitions := id.Partitions
		parts = append(parts, id.SubtopologyID+":"+strings.Trim(strings.ReplaceAll(fmt.Sprint(partitions), " ", ","), "[]"))
	}
	if sorted {
		slices.Sort(parts)
	}
	return "[" + strings.Join(parts, " ") + "]"
}

func showLists(active, standby, warmup []kmsg.TaskIDs, sorted bool) string {
	return showTasks(active, sorted) + " " + showTasks(standby, sorted) + " " + showTasks(warmup, sorted)
}

func showHeartbeat(r *kmsg.StreamsGroupHeartbeatResponse) string {
	var codes []int
	for _, s := range r.Status {
		codes = append(codes, int(s.StatusCode))
	}
	slices.Sort(codes)
	status := fmt.Sprint(codes)
	if r.Status == nil {
		status = "null"
	}
	return fmt.Sprintf("%s text=%t member=%q epoch=%d tasks=%s status=%s endpoints=%d %s\nintervals=%d,%d lag=%d,%d description=%t throttle=%d tags=%d",
		errorName(r.ErrorCode), r.ErrorMessage != nil, r.MemberID, r.MemberEpoch, showLists(r.ActiveTasks, r.StandbyTasks, r.WarmupTasks, true), status,
		r.EndpointInformationEpoch, showEndpoints(r.PartitionsByUserEndpoint),
		r.HeartbeatIntervalMillis, r.TaskOffsetIntervalMillis, r.AcceptableRecoveryLag, r.AcceptableRecoveryLagLegacy, r.TopologyDescriptionRequired, r.ThrottleMillis, r.UnknownTags.Len())
}

func showEndpoints(list []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint) string {
	if list == nil {
		return "null"
	}
	var entries []string
	for _, e := range list {
		var active, standby []string
		for _, t := range e.ActivePartitions {
			active = append(active, fmt.Sprint(t.Topic, t.Partitions))
		}
		for _, t := range e.StandbyPartitions {
			standby = append(standby, fmt.Sprint(t.Topic, t.Partitions))
		}
		slices.Sort(active)
		slices.Sort(standby)
		entries = append(entries, fmt.Sprintf("%s:%d active %v standby %v", e.UserEndpoint.Host, e.UserEndpoint.Port, active, standby))
	}
	slices.Sort(entries)
	return "{" + strings.Join(entries, ", ") + "}"
}

func showOffsets(list []kmsg.TaskOffset) string {
	if list == nil {
		return "null"
	}
	var out []string
	for _, o := range list {
		out = append(out, fmt.Sprintf("%s_%d=%d", o.SubtopologyID, o.Partition, o.Offset))
	}
	return fmt.Sprint(out)
}

func showInfos(list []kmsg.TopicInfo) string {
	var out []string
	for i := range list {
		t := &list[i]
		words := []string{fmt.Sprintf("%s/%d/%d", t.Topic, t.NumPartitions, t.ReplicationFactor)}
		for _, c := range t.Configs {
			words = append(words, c.Key+"="+c.Value)
		}
		out = append(out, strings.Join(words, ","))
	}
	return fmt.Sprint(out)
}

// showDescribed is a description without the topology.
func showDescribed(d *kmsg.StreamsGroupDescribeResponseGroup) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s text=%t group=%q state=%q epoch=%d assigned=%d operations=%d assignor=%s description=%t,%d",
		errorName(d.ErrorCode), d.ErrorMessage != nil, d.Group, d.State, d.Epoch, d.AssignmentEpoch, d.AuthorizedOperations,
		showPointer(d.AssignorName), d.TopologyDescription != nil, d.TopologyDescriptionStatus)
	members := slices.Clone(d.Members)
	slices.SortFunc(members, func(a, b kmsg.StreamsGroupDescribeResponseGroupMember) int {
		return strings.Compare(a.MemberID, b.MemberID)
	})
	for i := range members {
		m := &members[i]
		endpoint := "null"
		if m.UserEndpoint != nil {
			endpoint = fmt.Sprintf("%s:%d", m.UserEndpoint.Host, m.UserEndpoint.Port)
		}
		var tags []string
		for _, t := range m.ClientTags {
			tags = append(tags, t.Key+"="+t.Value)
		}
		slices.Sort(tags)
		fmt.Fprintf(&out, "\n%q epoch=%d instance=%s rack=%s client=%q at %q topology=%d process=%q endpoint=%s tags=%q offsets=%s ends=%s has=%s target=%s classic=%t",
			m.MemberID, m.MemberEpoch, showPointer(m.InstanceID), showPointer(m.RackID), m.ClientID, m.ClientHost, m.TopologyEpoch, m.ProcessID, endpoint, tags,
			showOffsets(m.TaskOffsets), showOffsets(m.TaskEndOffsets),
			showLists(m.Assignment.ActiveTasks, m.Assignment.StandbyTasks, m.Assignment.WarmupTasks, false),
			showLists(m.TargetAssignment.ActiveTasks, m.TargetAssignment.StandbyTasks, m.TargetAssignment.WarmupTasks, false), m.IsClassic)
	}
	return out.String()
}

func showDescribedTopology(t *kmsg.StreamsGroupDescribeResponseGroupTopology) string {
	if t == nil {
		return "null"
	}
	var out strings.Builder
	fmt.Fprintf(&out, "epoch=%d", t.Epoch)
	if t.Subtopologies == nil {
		out.WriteString(" null")
	}
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		fmt.Fprintf(&out, "\n%q reads %q writes %q from %s keeps %s", s.SubtopologyID, s.SourceTopics, s.RepartitionSinkTopics, showInfos(s.RepartitionSourceTopics), showInfos(s.StateChangelogTopics))
	}
	return out.String()
}

// asSent is how a topology is described that is not ready, or not known to be.
func asSent(t *wireTopology) *kmsg.StreamsGroupDescribeResponseGroupTopology {
	if t == nil {
		return nil
	}
	out := kmsg.NewStreamsGroupDescribeResponseGroupTopology()
	out.Epoch, out.Subtopologies = t.Epoch, []kmsg.StreamsGroupDescribeResponseGroupTopologySubtopology{}
	byName := func(list []kmsg.TopicInfo) []kmsg.TopicInfo {
		return slices.SortedStableFunc(slices.Values(list), func(a, b kmsg.TopicInfo) int { return strings.Compare(a.Topic, b.Topic) })
	}
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		d := kmsg.NewStreamsGroupDescribeResponseGroupTopologySubtopology()
		d.SubtopologyID = s.SubtopologyID
		d.SourceTopics, d.RepartitionSinkTopics = slices.Sorted(slices.Values(s.SourceTopics)), slices.Sorted(slices.Values(s.RepartitionSinkTopics))
		d.RepartitionSourceTopics, d.StateChangelogTopics = byName(s.RepartitionSourceTopics), byName(s.StateChangelogTopics)
		out.Subtopologies = append(out.Subtopologies, d)
	}
	slices.SortFunc(out.Subtopologies, func(a, b kmsg.StreamsGroupDescribeResponseGroupTopologySubtopology) int {
		return strings.Compare(a.SubtopologyID, b.SubtopologyID)
	})
	return &out
}

func showRequest(r *kmsg.StreamsGroupHeartbeatRequest, version int16, client int) string {
	out := fmt.Sprintf("v%d %q epoch=%d", version, r.MemberID, r.MemberEpoch)
	add := func(format string, args ...any) { out += " " + fmt.Sprintf(format, args...) }
	if client != 0 {
		add("client=%d", client)
	}
	if r.InstanceID != nil {
		add("instance=%q", *r.InstanceID)
	}
	if r.RackID != nil {
		add("rack=%q", *r.RackID)
	}
	if r.RebalanceTimeoutMillis != -1 {
		add("timeout=%d", r.RebalanceTimeoutMillis)
	}
	if r.ProcessID != nil {
		add("process=%q", *r.ProcessID)
	}
	if r.UserEndpoint != nil {
		add("endpoint=%s:%d", r.UserEndpoint.Host, r.UserEndpoint.Port)
	}
	if r.ClientTags != nil {
		var tags []string
		for _, t := range r.ClientTags {
			tags = append(tags, t.Key+"="+t.Value)
		}
		add("tags=%q", tags)
	}
	add("endpoints=%d owns=%s", r.EndpointInformationEpoch, showLists(r.ActiveTasks, r.StandbyTasks, r.WarmupTasks, false))
	if r.TaskOffsets != nil || r.TaskEndOffsets != nil {
		add("offsets=%s ends=%s", showOffsets(r.TaskOffsets), showOffsets(r.TaskEndOffsets))
	}
	if r.ShutdownApplication {
		add("shutdown")
	}
	if r.Topology != nil {
		add("topology %s", showTopology(r.Topology))
	}
	return out
}

func showTopology(t *kmsg.StreamsGroupHeartbeatRequestTopology) string {
	var out strings.Builder
	fmt.Fprintf(&out, "epoch=%d", t.Epoch)
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		fmt.Fprintf(&out, "\n        %q reads %q", s.SubtopologyID, s.SourceTopics)
		if len(s.SourceTopicRegex) > 0 {
			fmt.Fprintf(&out, " patterns %q", s.SourceTopicRegex)
		}
		if len(s.RepartitionSinkTopics) > 0 {
			fmt.Fprintf(&out, " writes %q", s.RepartitionSinkTopics)
		}
		if len(s.RepartitionSourceTopics) > 0 {
			out.WriteString(" from " + showInfos(s.RepartitionSourceTopics))
		}
		if len(s.StateChangelogTopics) > 0 {
			out.WriteString(" keeps " + showInfos(s.StateChangelogTopics))
		}
		for _, g := range s.CopartitionGroups {
			fmt.Fprintf(&out, " together(%v %v %v)", g.SourceTopics, g.SourceTopicRegex, g.RepartitionSourceTopics)
		}
	}
	return out.String()
}
