package client_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

func TestCC158StateFilter(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]client.GroupState{
		"empty": client.GroupEmpty, "EMPTY": client.GroupEmpty, "notready": client.GroupNotReady, "NOT_READY": client.GroupNotReady,
		"reconCILING": client.GroupReconciling, "stable": client.GroupStable, "assigning": client.GroupAssigning, "dead": client.GroupDead,
	} {
		states, err := client.ParseGroupStates(name)
		require.NoError(t, err, name)
		assert.Equal(t, []client.GroupState{want}, states)
	}
	states, err := client.ParseGroupStates(" stable , Empty")
	require.NoError(t, err)
	assert.Equal(t, []client.GroupState{client.GroupStable, client.GroupEmpty}, states)
	for _, names := range []string{"preparingRebalance", "bad, wrong", " , ,", "", "Stable,", "Unknown"} {
		_, err := client.ParseGroupStates(names)
		var e *client.GroupStateError
		require.ErrorAs(t, err, &e, names)
		assert.ErrorContains(t, err, "use Empty, NotReady")
	}
}

// rule CLI-1: a broker compares filters with "not_ready".
func TestCLI01ListGroupsInStates(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.startOn(w.dial(), "a", new(app))
		w.startOn(w.dial(), "b", new(app))
		c := w.startOn(w.dial(), "c", new(app))
		pass(2 * interval)
		a.leave()
		require.NoError(w, a.result())
		require.NoError(w, w.cl.DeleteTopic("in"))
		pass(2 * interval)
		_ = c
		in := func(states ...client.GroupState) (groups []string) {
			listed, err := client.ListGroups(w.Context(), w.client, states...)
			require.NoError(w, err)
			for _, g := range listed {
				groups = append(groups, g.Group+" "+string(g.State))
			}
			return groups
		}
		assert.Equal(w, []string{"a Empty", "b NotReady", "c NotReady"}, in())
		assert.Equal(w, []string{"b NotReady", "c NotReady"}, in(client.GroupNotReady))
		assert.Equal(w, []string{"a Empty"}, in(client.GroupEmpty, client.GroupStable))
		assert.Empty(w, in(client.GroupStable))
	}, kfakeext.Nodes(3))
}

// rule CLI-1: what a broker lists that cannot choose by type is not taken for streams groups.
func TestListGroupsOfAnOldBroker(t *testing.T) {
	inBubble(t, func(w *world) {
		_, err := client.ListGroups(w.Context(), w.client)
		var e *client.UnsupportedError
		require.ErrorAs(w, err, &e)
	}, kfakeext.KfakeOpts(kfake.MaxVersions(kversion.V3_0_0())))
}

func TestDescribeGroupsWith(t *testing.T) {
	inBubble(t, func(w *world) {
		w.startOn(w.dial(), "g", new(app), client.InstanceID("i"))
		pass(2 * interval)
		found := client.DescribeGroupsWith(w.Context(), w.client, []string{"none", "g"}, client.WithAuthorizedOperations())
		require.Len(w, found, 2)
		var refused *client.GroupError
		require.ErrorAs(w, found[0].Err, &refused)
		require.ErrorIs(w, found[0].Err, kerr.GroupIDNotFound)
		require.ErrorContains(w, found[0].Err, `describe group "none"`)
		assert.Equal(w, "none", found[0].Group)
		g := found[1]
		require.NoError(w, g.Err)
		assert.Equal(w, "g", g.Group)
		assert.Equal(w, client.GroupStable, g.GroupState())
		assert.Zero(w, g.TopologyEpoch())
		assert.Len(w, g.Subtopologies(), 1)
		assert.Equal(w, client.DescriptionNotRequested, g.DescriptionStatus())
		assert.NotEmpty(w, g.Coordinator.Host)
		assert.Positive(w, g.Coordinator.Port)
		ops, ok := g.Operations()
		assert.True(w, ok)
		assert.Contains(w, ops, kmsg.ACLOperationDescribe)
		_, ok = client.DescribeGroupsWith(w.Context(), w.client, []string{"g"})[0].Operations()
		assert.False(w, ok)
	}, kfakeext.Nodes(3))
}

func TestDescriptionOfAnOldBroker(t *testing.T) {
	inBubble(t, func(w *world) {
		w.cl.Intercept(func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			req, ok := kreq.(*kmsg.StreamsGroupDescribeRequest)
			if !ok {
				return nil, nil, false
			}
			assert.Zero(w, req.Version)
			resp := req.ResponseKind().(*kmsg.StreamsGroupDescribeResponse)
			resp.Groups = append(resp.Groups, describedAs("g", nil))
			return resp, nil, true
		})
		found := client.DescribeGroupsWith(w.Context(), w.client, []string{"g"}, client.WithTopologyDescription())
		require.ErrorIs(w, found[0].Err, kerr.UnsupportedVersion)
		assert.NoError(w, client.DescribeGroupsWith(w.Context(), w.client, []string{"g"})[0].Err)
	}, kfakeext.KfakeOpts(kfake.MaxVersions(kversion.V4_2_0())))
}

// describedAs is a group with a topology, changed.
func describedAs(name string, change func(*kmsg.StreamsGroupDescribeResponseGroup)) kmsg.StreamsGroupDescribeResponseGroup {
	g := kmsg.NewStreamsGroupDescribeResponseGroup()
	g.Group, g.State = name, "Stable"
	topo := kmsg.NewStreamsGroupDescribeResponseGroupTopology()
	g.Topology = &topo
	if change != nil {
		change(&g)
	}
	return g
}

func node(kind int8, name string, successors ...string) kmsg.TopologyDescriptionNode {
	n := kmsg.NewTopologyDescriptionNode()
	n.Name, n.NodeType, n.Successors = name, kind, successors
	return n
}

// A status without a description is fine, and what makes no sense fails only the group
// that it is about.
func TestCC157DescriptionStatus(t *testing.T) {
	graph := func(kinds ...int8) func(*kmsg.StreamsGroupDescribeResponseGroup) {
		return func(g *kmsg.StreamsGroupDescribeResponseGroup) {
			d := kmsg.NewStreamsGroupDescribeResponseGroupTopologyDescription()
			s := kmsg.NewTopologyDescriptionSubtopology()
			s.SubtopologyID = "0"
			s.Nodes = []kmsg.TopologyDescriptionNode{node(1, "a", "c", "b"), node(1, "x", "c"), node(kinds[0], "b", "c"), node(3, "c")}
			d.Subtopologies = append(d.Subtopologies, s)
			global := kmsg.NewTopologyDescriptionGlobalStore()
			global.Source, global.Processor = node(kinds[1], "gs", "gp"), node(kinds[2], "gp")
			d.GlobalStores = append(d.GlobalStores, global)
			g.TopologyDescription, g.TopologyDescriptionStatus = &d, 3
		}
	}
	status := func(s int8) func(*kmsg.StreamsGroupDescribeResponseGroup) {
		return func(g *kmsg.StreamsGroupDescribeResponseGroup) { g.TopologyDescriptionStatus = s }
	}
	answers := map[string]func(*kmsg.StreamsGroupDescribeResponseGroup){
		"not requested": status(0), "not stored": status(1), "error": status(2), "there": graph(2, 1, 2),
		"unknown status": status(99), "negative status": status(-1), "missing": status(3),
		"node type 9": graph(9, 1, 2), "global store of sinks": graph(2, 1, 3), "global store without a source": graph(2, 2, 2),
		"no topology": func(g *kmsg.StreamsGroupDescribeResponseGroup) { g.Topology = nil },
	}
	inBubble(t, func(w *world) {
		w.cl.Intercept(func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			req, ok := kreq.(*kmsg.StreamsGroupDescribeRequest)
			if !ok {
				return nil, nil, false
			}
			resp := req.ResponseKind().(*kmsg.StreamsGroupDescribeResponse)
			for _, g := range req.Groups {
				resp.Groups = append(resp.Groups, describedAs(g, answers[g]))
			}
			return resp, nil, true
		})
		names := []string{
			"not requested", "unknown status", "not stored", "negative status", "error", "missing", "there",
			"node type 9", "global store of sinks", "global store without a source", "no topology",
		}
		found := map[string]client.GroupDescription{}
		for i, d := range client.DescribeGroupsWith(w.Context(), w.client, names, client.WithTopologyDescription()) {
			assert.Equal(w, names[i], d.Group)
			found[d.Group] = d
		}
		for name, want := range map[string]client.DescriptionStatus{
			"not requested": client.DescriptionNotRequested, "not stored": client.DescriptionNotStored, "error": client.DescriptionFailed,
		} {
			require.NoError(w, found[name].Err)
			assert.Nil(w, found[name].Description)
			d := found[name]
			assert.Equal(w, want, d.DescriptionStatus())
		}
		for name, says := range map[string]string{
			"unknown status": "99 is no status", "negative status": "-1 is no status", "missing": "said to be there and is not",
			"node type 9": `node "b" is of the unknown type 9`, "global store of sinks": "not a source and a processor",
			"global store without a source": "not a source and a processor", "no topology": "there is no topology",
		} {
			var e *client.MalformedDescriptionError
			require.ErrorAs(w, found[name].Err, &e, name)
			assert.Equal(w, name, e.Group)
			require.ErrorContains(w, found[name].Err, says)
		}
		there := found["there"]
		require.NoError(w, there.Err)
		nodes := there.Description.Subtopologies[0].Nodes
		assert.Empty(w, nodes[0].Predecessors)
		assert.Equal(w, []string{"a"}, nodes[2].Predecessors)
		assert.Equal(w, []string{"a", "b", "x"}, nodes[3].Predecessors)
		assert.Equal(w, []string{"gs"}, there.Description.GlobalStores[0].Processor.Predecessors)
	})
}

func TestCC161InternalTopics(t *testing.T) {
	t.Parallel()
	topics := func(names ...string) (out []kmsg.TopicInfo) {
		for _, n := range names {
			info := kmsg.NewTopicInfo()
			info.Topic = n
			out = append(out, info)
		}
		return out
	}
	d := client.GroupDescription{StreamsGroupDescribeResponseGroup: describedAs("foo-group", func(g *kmsg.StreamsGroupDescribeResponseGroup) {
		a, b := kmsg.NewStreamsGroupDescribeResponseGroupTopologySubtopology(), kmsg.NewStreamsGroupDescribeResponseGroupTopologySubtopology()
		a.SourceTopics = []string{"in", "foo-group-table-changelog"}
		a.StateChangelogTopics = topics("foo-group-1-changelog", "some-prefix-changelog", "foo-group-table-changelog")
		b.RepartitionSourceTopics = topics("foo-group-1-repartition", "foo-group-some-thing")
		b.StateChangelogTopics = topics("foo-group-1-changelog")
		g.Topology.Subtopologies = append(g.Topology.Subtopologies, a, b)
	})}
	internal, others := client.InternalTopics(&d)
	assert.Equal(t, []string{"foo-group-1-changelog", "foo-group-1-repartition"}, internal)
	assert.Equal(t, []string{"foo-group-some-thing", "some-prefix-changelog"}, others)

	// rule CLI-13
	for topic, want := range map[string]bool{
		"g-a-changelog": true, "g-a-repartition": true, "g-a-subscription-registration-topic": true, "g-a-subscription-response-topic": true,
		"g-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000006-topic": true, "g-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000014-topic": true,
		"g-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-x-topic": false, "h-a-changelog": false, "g-a-changelog-2": false, "g": false, "g-topic": false,
	} {
		assert.Equal(t, want, client.LooksInternal("g", topic), topic)
	}
}

func TestCC159Lag(t *testing.T) {
	inBubble(t, func(w *world) {
		w.produce("in", 0, 0, 30)
		w.produce("in", 1, 0, 30)
		admin := kadm.NewClient(w.client)
		first := kadm.Offsets{}
		for p := range int32(2) {
			first.Add(kadm.Offset{Topic: "in", Partition: p, At: 10})
		}
		_, err := admin.DeleteRecords(w.Context(), first)
		require.NoError(w, err)
		committed := kadm.Offsets{}
		committed.Add(kadm.Offset{Topic: "in", Partition: 0, At: 12, LeaderEpoch: 0})
		require.NoError(w, admin.CommitAllOffsets(w.Context(), "g", committed))
		w.joined(new(app))
		g := client.DescribeGroupsWith(w.Context(), w.client, []string{"g"})[0]
		require.NoError(w, g.Err)
		lags, err := client.GroupLag(w.Context(), w.client, &g)
		require.NoError(w, err)
		require.Len(w, lags, 4, "of the tasks that the member runs")
		assert.Equal(w, client.PartitionLag{Topic: "in", Partition: 0, Committed: &client.CommittedOffset{Offset: 12}, Start: 10, End: 30, Lag: 18}, lags[0])
		assert.Equal(w, client.PartitionLag{Topic: "in", Partition: 1, Start: 10, End: 30, Lag: 20}, lags[1])
		assert.Equal(w, client.PartitionLag{Topic: "in", Partition: 3}, lags[3])
	})
}

func TestGroupOffsetsAndDeletion(t *testing.T) {
	inBubble(t, func(w *world) {
		w.produce("in", 0, 0, 5)
		r := w.joined(new(app))
		offsets := map[string]map[int32]int64{"in": {0: 3, 2: 0}, "nowhere": {1: 4}}

		// While there are members.
		_, err := client.AlterGroupOffsets(w.Context(), w.client, "g", offsets)
		var e *client.GroupError
		require.ErrorAs(w, err, &e)
		require.ErrorIs(w, err, kerr.UnknownMemberID)
		require.ErrorContains(w, err, "stop all members")
		results, err := client.DeleteGroupOffsets(w.Context(), w.client, "g", map[string][]int32{"in": {0}})
		require.NoError(w, err)
		require.ErrorIs(w, results["in"][0], kerr.GroupSubscribedToTopic)
		require.ErrorIs(w, client.DeleteGroups(w.Context(), w.client, "g")["g"], kerr.NonEmptyGroup)

		r.leave()
		require.NoError(w, r.result())
		results, err = client.AlterGroupOffsets(w.Context(), w.client, "g", offsets)
		require.NoError(w, err)
		assert.Equal(w, client.PartitionErrors{"in": {0: nil, 2: nil}, "nowhere": {1: kerr.UnknownTopicOrPartition}}, results)
		require.ErrorContains(w, results.Err(), "partition 1 of nowhere")
		found, err := client.FetchGroupOffsets(w.Context(), w.client, "g", client.RequireStable())
		require.NoError(w, err)
		assert.Equal(w, client.GroupOffsets{"in": {0: {Offset: 3, LeaderEpoch: -1}, 2: {Offset: 0, LeaderEpoch: -1}}}, found)

		results, err = client.DeleteGroupOffsets(w.Context(), w.client, "g", map[string][]int32{"in": {0}, "nowhere": {0}})
		require.NoError(w, err)
		assert.Equal(w, client.PartitionErrors{"in": {0: nil}, "nowhere": {0: kerr.UnknownTopicOrPartition}}, results)
		_, err = client.DeleteGroupOffsets(w.Context(), w.client, "none", map[string][]int32{"in": {0}})
		require.ErrorIs(w, err, kerr.GroupIDNotFound)

		deleted := client.DeleteGroups(w.Context(), w.client, "g", "none")
		require.NoError(w, deleted["g"])
		require.ErrorIs(w, deleted["none"], kerr.GroupIDNotFound)
		found, err = client.FetchGroupOffsets(w.Context(), w.client, "g")
		require.NoError(w, err)
		assert.Empty(w, found)
	})
}
