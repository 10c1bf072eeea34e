package conformance

import (
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// describeWith describes groups of the scenario, with the options of a request.
func (c *C) describeWith(change func(*kmsg.StreamsGroupDescribeRequest), groups ...string) []kmsg.StreamsGroupDescribeResponseGroup {
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups = groups
	change(req)
	return c.AskCoordinator(req).(*kmsg.StreamsGroupDescribeResponse).Groups
}

func plainly(*kmsg.StreamsGroupDescribeRequest) {}

// beside is an id of a further group with the coordinator of the scenario's.
func (c *C) beside(word string) string { return c.probeGroup(word) }

// inStates are the groups among the scenario's own that ListGroups has in states.
func (c *C) inStates(states ...string) int {
	req := kmsg.NewPtrListGroupsRequest()
	req.StatesFilter = states
	return len(c.list(req, c.group))
}

// notDeletable requires that the scenario's group cannot be deleted in a state.
func (c *C) notDeletable(state string) {
	require.Equal(c, state, c.Describe().State)
	require.Equal(c, "NON_EMPTY_GROUP", c.tryDelete(), "deletion while %s", state)
	require.Equal(c, state, c.Describe().State)
}

// tryDelete deletes the scenario's group and returns the name of the error code.
func (c *C) tryDelete() string {
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{c.group}
	resp := c.AskCoordinator(req).(*kmsg.DeleteGroupsResponse)
	require.Len(c, resp.Groups, 1, "deleted groups")
	c.note("delete group -> %s", CodeName(resp.Groups[0].ErrorCode))
	return CodeName(resp.Groups[0].ErrorCode)
}

var listing = []Scenario{
	{
		IDs: []string{"Q-02", "18.1-6", "18.1-7", "18.1-8", "18.1-10", "18.1-11", "2.1-4", "D17", "20-5"}, Title: "everything that describe says",
		Run: func(c *C) {
			c.Need44()
			c.AtOnce()
			c.Topic("foo", 2)
			c.Topic("bar", 1)
			t := Topology(Reads("s2", "foo"), Reads("s1", "bar"))
			a1 := c.Static("a1", "i1")
			a1.Join(t, Rack("r1"), Endpoint("host", 65535), Tags("zone", "z", "cluster", "c")).OK(2).Has("s1:0 s2:0-1")
			m2 := c.Member("m2")
			m2.Join(t).OK(3)
			a1.Beat().OK(2)
			d := c.Describe().In("Reconciling", 3)
			require.Equal(c, int32(3), d.AssignmentEpoch)
			require.Equal(c, c.group, d.Group)
			require.NotNil(c, d.AssignorName)
			require.Equal(c, "sticky", *d.AssignorName)
			require.Nil(c, d.TopologyDescription)

			require.NotNil(c, d.Topology)
			require.Zero(c, d.Topology.Epoch)
			require.Len(c, d.Topology.Subtopologies, 2)
			require.Equal(c, "s1", d.Topology.Subtopologies[0].SubtopologyID, "by name")
			require.Equal(c, []string{c.Named("bar")}, d.Topology.Subtopologies[0].SourceTopics)

			m := d.Member("a1")
			require.Equal(c, "i1", *m.InstanceID)
			require.Equal(c, "r1", *m.RackID)
			require.Equal(c, clientID, m.ClientID)
			require.Regexp(c, "^/", m.ClientHost)
			require.Equal(c, a1.Process, m.ProcessID)
			require.Equal(c, int32(2), m.MemberEpoch)
			require.Zero(c, m.TopologyEpoch)
			require.False(c, m.IsClassic)
			require.NotNil(c, m.UserEndpoint)
			require.Equal(c, "host", m.UserEndpoint.Host)
			require.Equal(c, uint16(65535), m.UserEndpoint.Port)
			tags := map[string]string{}
			for _, t := range m.ClientTags {
				tags[t.Key] = t.Value
			}
			require.Equal(c, map[string]string{"zone": "z", "cluster": "c"}, tags)
			require.Equal(c, a1.Active, responseTasks(m.Assignment.ActiveTasks), "without what is pending")
			require.Equal(c, a1.Active, responseTasks(m.TargetAssignment.ActiveTasks))

			other := d.Member("m2")
			require.Nil(c, other.InstanceID)
			require.Nil(c, other.RackID)
			require.Nil(c, other.UserEndpoint)
			require.Equal(c, int32(3), other.MemberEpoch)
			require.Empty(c, other.Assignment.ActiveTasks)
			require.Equal(c, without("s1:0 s2:0-1", a1.Active), responseTasks(other.TargetAssignment.ActiveTasks))
		},
	},
	{
		IDs: []string{"Q-04", "18.1-7", "Q14", "D18"}, Title: "the described topology has the decided partition counts", Deviation: "Q14",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 3)
			t := Keeps("s1", "foo", "log")
			t.Sinks = []string{"r"}
			topo := Topology(t, Sub{ID: "s2", Repartitions: []Internal{{Word: "r"}}})
			counts := func() [2]int32 {
				subs := c.Describe().Topology.Subtopologies
				require.Len(c, subs, 2)
				return [2]int32{subs[0].StateChangelogTopics[0].NumPartitions, subs[1].RepartitionSourceTopics[0].NumPartitions}
			}
			m := c.Member("m1")
			c.Expect("log", "r")
			m.Join(topo).OK(2).Says("3")
			require.Equal(c, [2]int32{0, 0}, counts(), "as stored while topics are missing")
			c.await("the internal topics", func() bool {
				c.Sleep(50 * time.Millisecond)
				return m.Beat().Is("NONE").Statuses() == "-"
			})
			// Kafka shows them once something else has been written.
			require.Contains(c, [][2]int32{{3, 3}, {0, 0}}, counts())
			m.Beat(Rack("r1")).Is("NONE")
			require.Equal(c, [2]int32{3, 3}, counts())
		},
	},
	{
		IDs: []string{"Q-05", "18.1-8", "7-9"}, Title: "described offsets",
		Run: func(c *C) {
			c.Need44()
			c.Topic("foo", 3)
			m := c.Member("m1")
			m.Join(T1()).OK(2)
			m.Beat(func(req *kmsg.StreamsGroupHeartbeatRequest) {
				req.TaskOffsets = []kmsg.TaskOffset{{SubtopologyID: "s1", Partition: 2, Offset: 12}, {SubtopologyID: "s1", Partition: 0, Offset: 5}}
				req.TaskEndOffsets = []kmsg.TaskOffset{{SubtopologyID: "s1", Partition: 0, Offset: 20}}
			}).OK(2)
			d := c.Describe().Member("m1")
			require.Equal(c, "s1:0=5 s1:2=12", FormatOffsets(d.TaskOffsets))
			require.Equal(c, "s1:0=20", FormatOffsets(d.TaskEndOffsets))
		},
	},
	{
		IDs: []string{"18.1-3", "18.1-4", "18.1-5", "D19"}, Title: "describe of ids that are empty or unknown",
		Run: func(c *C) {
			c.Topic("foo", 1)
			c.Member("m1").Join(T1()).OK(2)
			unknown := c.beside("nobody")
			got := c.describeWith(plainly, unknown, "", c.group)
			require.Len(c, got, 3)
			require.Equal(c, []string{"", unknown, c.group}, []string{got[0].Group, got[1].Group, got[2].Group}, "the order of the answer")
			require.Equal(c, []string{"INVALID_GROUP_ID", "GROUP_ID_NOT_FOUND", "NONE"},
				[]string{CodeName(got[0].ErrorCode), CodeName(got[1].ErrorCode), CodeName(got[2].ErrorCode)})
			require.NotNil(c, got[1].ErrorMessage)
			require.NotEmpty(c, *got[1].ErrorMessage)
			for _, g := range got[:2] {
				require.Zero(c, g.Epoch)
				require.Zero(c, g.AssignmentEpoch)
				require.Empty(c, g.Members)
				require.Nil(c, g.Topology)
				require.Nil(c, g.AssignorName)
			}
		},
	},
	{
		IDs: []string{"18.1-4"}, Title: "describe of a group of another type",
		Run: func(c *C) {
			c.Topic("foo", 1)
			c.committed("NONE", Commit{Epoch: -1}, "foo:0", 5)
			c.Describe().Is("GROUP_ID_NOT_FOUND")
		},
	},
	{
		IDs: []string{"Q-11", "18.1-9"}, Title: "authorized operations",
		Run: func(c *C) {
			c.Topic("foo", 1)
			c.Member("m1").Join(T1()).OK(2)
			const unasked = -2147483648
			asked := func(req *kmsg.StreamsGroupDescribeRequest) { req.IncludeAuthorizedOperations = true }
			require.Equal(c, int32(unasked), c.describeWith(plainly, c.group)[0].AuthorizedOperations)
			ops := c.describeWith(asked, c.group)[0].AuthorizedOperations
			for _, op := range []kmsg.ACLOperation{kmsg.ACLOperationRead, kmsg.ACLOperationDelete, kmsg.ACLOperationDescribe} {
				require.NotZero(c, ops&(1<<op), "operation %s in %b", op, ops)
			}
			require.Equal(c, int32(unasked), c.describeWith(asked, c.beside("nobody"))[0].AuthorizedOperations, "with an error")
		},
	},
	{
		IDs: []string{"Q-08", "18.2", "Q11", "3-2", "3-4"}, Title: "list, with filters",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 2)
			m1, m2 := c.Member("m1"), c.Member("m2")
			t := T2()
			m1.Join(t).OK(2).Says("1")
			for _, filter := range []string{"not_ready", "NOT_READY", " Not_Ready "} {
				require.Equal(c, 1, c.inStates(filter), "state filter %q", filter)
			}
			require.Zero(c, c.inStates("Stable"))
			c.Topic("bar", 2)
			m1.Beat().OK(3)
			m2.Join(t).OK(4)
			mine := c.list(kmsg.NewPtrListGroupsRequest(), c.group)
			require.Len(c, mine, 1)
			require.Equal(c, []string{"streams", "streams", "Reconciling"}, []string{mine[0].GroupType, mine[0].ProtocolType, mine[0].GroupState})
			for _, filter := range []string{"reconciling", " Reconciling ", "RECONCILING"} {
				require.Equal(c, 1, c.inStates(filter), "state filter %q", filter)
			}
			require.Zero(c, c.inStates("stable", "empty", "not_ready", "assigning"))
			require.Equal(c, 1, c.inStates("stable", "reconciling"))
			for filter, want := range map[string]int{"streams": 1, "Streams": 1, "consumer": 0, "classic": 0} {
				req := kmsg.NewPtrListGroupsRequest()
				req.TypesFilter = []string{filter}
				require.Len(c, c.list(req, c.group), want, "type filter %q", filter)
			}
		},
	},
	{
		IDs: []string{"18.2", "Q11"}, Title: "the filter for groups that are not ready has an underscore",
		Run: func(c *C) {
			c.Member("m1").Join(T1()).OK(2).Says("1")
			require.Zero(c, c.inStates("NotReady"))
			require.Equal(c, 1, c.inStates("not_ready"))
		},
	},
	{
		IDs: []string{"Q-09", "18.3-3", "3-2", "3-3", "3-4", "3-5"}, Title: "a group with members cannot be deleted, in any state",
		Run: func(c *C) {
			c.AtOnce()
			m1, m2, m3 := c.Member("m1"), c.Member("m2"), c.Member("m3")
			m1.Join(T1()).OK(2)
			c.notDeletable("NotReady")
			c.Topic("foo", 4)
			m1.Beat().OK(3).Has("s1:0-3")
			c.notDeletable("Stable")
			m2.Join(T1()).OK(4)
			c.notDeletable("Reconciling")
			m3.Join(T1()).OK(5)
			m3.Leave().OK(-1)
			c.notDeletable("Assigning")
		},
	},
	{
		IDs: []string{"Q-09", "18.3-2", "18.3-5", "2.1-1"}, Title: "an empty group is deleted, with its offsets",
		Run: func(c *C) {
			require.Equal(c, "GROUP_ID_NOT_FOUND", c.tryDelete())
			c.Topic("foo", 1)
			m := c.Member("m1")
			m.Join(T1().At(7)).OK(2)
			c.committed("NONE", Commit{Member: "m1", Epoch: 2}, "foo:0", 5)
			m.Leave().OK(-1)
			require.Equal(c, "NONE", c.tryDelete())
			require.Equal(c, "GROUP_ID_NOT_FOUND", c.tryDelete())
			c.Describe().Is("GROUP_ID_NOT_FOUND")
			c.fetched("foo:0=-1", "foo:0")
			kind, _ := c.typeOf(c.group)
			require.Empty(c, kind)
			m.Join(T1()).OK(2) // another topology, from the beginning
		},
	},
	{
		IDs: []string{"18.3-5", "13-3"}, Title: "the initial delay ends with the group",
		Run: func(c *C) {
			c.Config("streams.initial.rebalance.delay.ms", "20000")
			c.Topic("foo", 1)
			m := c.Member("m1")
			m.Join(T1()).OK(1).Says("5")
			m.Leave().OK(-1)
			require.Equal(c, "NONE", c.tryDelete())
			c.Config("streams.initial.rebalance.delay.ms", "0")
			m.Join(T1()).OK(2).Says("-").Has("s1:0")
		},
	},
	{
		IDs: []string{"18.1-10", "25-group.streams.assignors"}, Title: "the described assignor is the one to be used next",
		Run: func(c *C) {
			c.Need44()
			c.Topic("foo", 1)
			c.Member("m1").Join(T1()).OK(2)
			c.Config("streams.assignor.name", "sticky")
			d := c.Describe()
			require.NotNil(c, d.AssignorName)
			require.Equal(c, "sticky", *d.AssignorName)
		},
	},
	{
		IDs: []string{"20-5", "18.1-11", "14-9", "20-2", "20-3"}, Title: "topology descriptions without a plug-in",
		Run: func(c *C) {
			c.Need44()
			c.Topic("foo", 1)
			m := c.Member("m1")
			if m.Join(T1()).OK(2).TopologyDescriptionRequired {
				c.Skip("the broker has a plug-in for topology descriptions")
			}
			require.Equal(c, "UNSUPPORTED_VERSION", c.push(c.description("m1")))
			asked := func(req *kmsg.StreamsGroupDescribeRequest) { req.IncludeTopologyDescription = true }
			const notAsked, notStored = int8(0), int8(1)
			require.Equal(c, notAsked, c.describeWith(plainly, c.group)[0].TopologyDescriptionStatus)
			got := c.describeWith(asked, c.group)[0]
			require.Equal(c, notStored, got.TopologyDescriptionStatus)
			require.Nil(c, got.TopologyDescription)
		},
	},
}
