package conformance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Member is a member as a test drives it: one heartbeat at a time. It remembers
// its epoch and its tasks from the answers.
type Member struct {
	c       *C
	ID      string
	Process string
	Group   string
	Epoch   int32
	// Tasks by role, as last received: [Answer.Active] and so on.
	Active, Standby, Warmup string
	EndpointEpoch           int32
	RebalanceTimeoutMillis  int32
	// Instance makes the member static. Its heartbeats carry it.
	Instance *string
}

// Member makes a member of the scenario's group, with a process of its own. It
// does not join.
func (c *C) Member(id string) *Member {
	return &Member{c: c, ID: id, Process: "p-" + id, Group: c.group, RebalanceTimeoutMillis: 60_000}
}

// Static makes a member with an instance id.
func (c *C) Static(id, instance string) *Member {
	m := c.Member(id)
	m.Instance = &instance
	return m
}

// Change changes a request before it is sent.
type Change func(*kmsg.StreamsGroupHeartbeatRequest)

// Request is a heartbeat that says nothing: every field that may be null is.
func (m *Member) Request(epoch int32) *kmsg.StreamsGroupHeartbeatRequest {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = m.Group, m.ID, epoch
	req.EndpointInformationEpoch = m.EndpointEpoch
	req.RebalanceTimeoutMillis = -1
	req.InstanceID = m.Instance
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks, req.ClientTags = nil, nil, nil, nil
	req.TaskOffsets, req.TaskEndOffsets = nil, nil
	return req
}

// Join joins, or joins again, with a topology.
func (m *Member) Join(t Topo, changes ...Change) *Answer {
	req := m.Request(0)
	req.RebalanceTimeoutMillis = m.RebalanceTimeoutMillis
	req.ProcessID = &m.Process
	req.Topology = m.c.wire(t)
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	return m.Send(req, changes...)
}

// Beat sends a heartbeat that says nothing but the epoch.
func (m *Member) Beat(changes ...Change) *Answer { return m.Send(m.Request(m.Epoch), changes...) }

// Ack sends a heartbeat that reports the tasks last received as owned.
func (m *Member) Ack(changes ...Change) *Answer {
	return m.Beat(append([]Change{OwnedAll(m.Active, m.Standby, m.Warmup)}, changes...)...)
}

// Leave leaves for good.
func (m *Member) Leave(changes ...Change) *Answer { return m.Send(m.Request(-1), changes...) }

// LeaveForNow is the temporary leave of a static member.
func (m *Member) LeaveForNow(changes ...Change) *Answer { return m.Send(m.Request(-2), changes...) }

// Send sends a request to the coordinator of the member's group.
func (m *Member) Send(req *kmsg.StreamsGroupHeartbeatRequest, changes ...Change) *Answer {
	for _, change := range changes {
		change(req)
	}
	resp := m.c.AskCoordinatorOf(m.Group, req).(*kmsg.StreamsGroupHeartbeatResponse)
	a := &Answer{resp, m.c}
	m.c.note("%s: %s -> %s", m.ID, describeRequest(req), a)
	if resp.ErrorCode != 0 || req.MemberEpoch < 0 {
		return a
	}
	m.Epoch, m.EndpointEpoch = resp.MemberEpoch, resp.EndpointInformationEpoch
	if resp.ActiveTasks != nil {
		m.Active, m.Standby, m.Warmup = a.Active(), a.Standby(), a.Warmup()
	}
	return a
}

func describeRequest(req *kmsg.StreamsGroupHeartbeatRequest) string {
	var b strings.Builder
	fmt.Fprintf(&b, "heartbeat epoch=%d", req.MemberEpoch)
	if req.InstanceID != nil {
		fmt.Fprintf(&b, " instance=%q", *req.InstanceID)
	}
	if req.Topology != nil {
		fmt.Fprintf(&b, " topology(epoch %d)", req.Topology.Epoch)
	}
	if req.ActiveTasks != nil {
		fmt.Fprintf(&b, " owned=[%s|%s|%s]", responseTasks(req.ActiveTasks), responseTasks(req.StandbyTasks), responseTasks(req.WarmupTasks))
	}
	return b.String()
}

// Owned reports active tasks as owned, and no others.
func Owned(active string) Change { return OwnedAll(active, none, none) }

// OwnedAll reports tasks of each role as owned.
func OwnedAll(active, standby, warmup string) Change {
	return func(req *kmsg.StreamsGroupHeartbeatRequest) {
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = requestTasks(active), requestTasks(standby), requestTasks(warmup)
	}
}

// Endpoint announces a user endpoint.
func Endpoint(host string, port uint16) Change {
	return func(req *kmsg.StreamsGroupHeartbeatRequest) {
		e := kmsg.NewStreamsGroupHeartbeatRequestUserEndpoint()
		e.Host, e.Port = host, port
		req.UserEndpoint = &e
	}
}

// Tags sends client tags: pairs of key and value.
func Tags(pairs ...string) Change {
	return func(req *kmsg.StreamsGroupHeartbeatRequest) {
		req.ClientTags = []kmsg.StreamsGroupHeartbeatRequestClientTag{}
		for i := 0; i < len(pairs); i += 2 {
			t := kmsg.NewStreamsGroupHeartbeatRequestClientTag()
			t.Key, t.Value = pairs[i], pairs[i+1]
			req.ClientTags = append(req.ClientTags, t)
		}
	}
}

// Rack sends a rack id.
func Rack(rack string) Change {
	return func(req *kmsg.StreamsGroupHeartbeatRequest) { req.RackID = &rack }
}

// ProcessID sends another process id.
func ProcessID(id string) Change {
	return func(req *kmsg.StreamsGroupHeartbeatRequest) { req.ProcessID = &id }
}

// Shutdown asks for the shutdown of the application.
func Shutdown(req *kmsg.StreamsGroupHeartbeatRequest) { req.ShutdownApplication = true }

// Answer is the response to a heartbeat.
type Answer struct {
	*kmsg.StreamsGroupHeartbeatResponse
	c *C
}

// Active are the active tasks, in the form "s1:0,1 s2:0", or "null".
func (a *Answer) Active() string { return responseTasks(a.ActiveTasks) }

// Standby are the standby tasks, or "null".
func (a *Answer) Standby() string { return responseTasks(a.StandbyTasks) }

// Warmup are the warm-up tasks, or "null".
func (a *Answer) Warmup() string { return responseTasks(a.WarmupTasks) }

// Statuses are the status codes in their order, "1,4", or "-" for none.
func (a *Answer) Statuses() string {
	if len(a.Status) == 0 {
		return "-"
	}
	codes := make([]string, 0, len(a.Status))
	for _, s := range a.Status {
		codes = append(codes, strconv.Itoa(int(s.StatusCode)))
	}
	return strings.Join(codes, ",")
}

// Detail is the detail of a status, with the scenario's prefix taken off the
// names in it.
func (a *Answer) Detail(code int8) string {
	i := slices.IndexFunc(a.Status, func(s kmsg.StreamsGroupHeartbeatResponseStatus) bool { return s.StatusCode == code })
	require.GreaterOrEqual(a.c, i, 0, "status %d is not among %s", code, a.Statuses())
	return strings.ReplaceAll(a.Status[i].StatusDetail, a.c.prefix, "")
}

func (a *Answer) String() string {
	if a.ErrorCode != 0 {
		text := "null"
		if a.ErrorMessage != nil {
			text = strconv.Quote(*a.ErrorMessage)
		}
		return CodeName(a.ErrorCode) + " " + text
	}
	s := fmt.Sprintf("epoch=%d status=%s", a.MemberEpoch, a.Statuses())
	if a.ActiveTasks != nil {
		s += fmt.Sprintf(" tasks=[%s|%s|%s]", a.Active(), a.Standby(), a.Warmup())
	}
	if a.PartitionsByUserEndpoint != nil {
		s += fmt.Sprintf(" endpoints=%d", len(a.PartitionsByUserEndpoint))
	}
	return s
}

// Is requires an error code by its name; NONE is success.
func (a *Answer) Is(name string) *Answer {
	require.Equal(a.c, name, CodeName(a.ErrorCode), "error code of %s", a)
	return a
}

// OK requires success and a member epoch.
func (a *Answer) OK(epoch int32) *Answer {
	a.Is("NONE")
	require.Equal(a.c, epoch, a.MemberEpoch, "member epoch")
	return a
}

// Has requires lists of tasks, present in all roles: these active ones and no
// others.
func (a *Answer) Has(active string) *Answer { return a.HasAll(active, none, none) }

// HasAll requires lists of tasks in all roles.
func (a *Answer) HasAll(active, standby, warmup string) *Answer {
	require.Equal(a.c, canonical(active), a.Active(), "active tasks")
	require.Equal(a.c, canonical(standby), a.Standby(), "standby tasks")
	require.Equal(a.c, canonical(warmup), a.Warmup(), "warm-up tasks")
	return a
}

// NoLists requires that the answer carries no tasks.
func (a *Answer) NoLists() *Answer {
	require.Equal(a.c, absent, a.Active(), "active tasks")
	require.Equal(a.c, absent, a.Standby(), "standby tasks")
	require.Equal(a.c, absent, a.Warmup(), "warm-up tasks")
	return a
}

// Says requires the status codes, in order: "1,4", or "-" for none. The list
// itself is never null.
func (a *Answer) Says(codes string) *Answer {
	require.Equal(a.c, codes, a.Statuses(), "statuses")
	require.NotNil(a.c, a.Status, "the list of statuses")
	return a
}
