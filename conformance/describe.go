package conformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Described is a group as StreamsGroupDescribe shows it.
type Described struct {
	kmsg.StreamsGroupDescribeResponseGroup
	c *C
}

// Describe describes the scenario's group. The answer may be an error.
func (c *C) Describe() *Described { return c.DescribeGroup(c.group) }

// DescribeGroup describes any group at its coordinator.
func (c *C) DescribeGroup(group string) *Described {
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups = []string{group}
	resp := c.AskCoordinatorOf(group, req).(*kmsg.StreamsGroupDescribeResponse)
	require.Len(c, resp.Groups, 1, "described groups")
	d := &Described{resp.Groups[0], c}
	c.note("describe -> %s %s epoch=%d assignment epoch=%d members=%d", CodeName(d.ErrorCode), d.State, d.Epoch, d.AssignmentEpoch, len(d.Members))
	return d
}

// Is requires an error code by its name.
func (d *Described) Is(name string) *Described {
	require.Equal(d.c, name, CodeName(d.ErrorCode), "error code of describe")
	return d
}

// In requires the group's state and epoch.
func (d *Described) In(state string, epoch int32) *Described {
	d.Is("NONE")
	require.Equal(d.c, state, d.State, "group state")
	require.Equal(d.c, epoch, d.Epoch, "group epoch")
	return d
}

// Member finds a member, which must be there.
func (d *Described) Member(id string) *kmsg.StreamsGroupDescribeResponseGroupMember {
	i := slices.IndexFunc(d.Members, func(m kmsg.StreamsGroupDescribeResponseGroupMember) bool { return m.MemberID == id })
	require.GreaterOrEqual(d.c, i, 0, "member %s is not described", id)
	return &d.Members[i]
}

// IDs are the ids of the members, ascending.
func (d *Described) IDs() []string {
	ids := []string{}
	for _, m := range d.Members {
		ids = append(ids, m.MemberID)
	}
	slices.Sort(ids)
	return ids
}

// AssignedActive are the active tasks of a member as the broker has them.
func (d *Described) AssignedActive(id string) string {
	return responseTasks(d.Member(id).Assignment.ActiveTasks)
}

// FormatOffsets writes task offsets as "s1:0=10 s1:1=20", ascending.
func FormatOffsets(list []kmsg.TaskOffset) string {
	out := make([]string, 0, len(list))
	for _, o := range list {
		out = append(out, fmt.Sprintf("%s:%d=%d", o.SubtopologyID, o.Partition, o.Offset))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
