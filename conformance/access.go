package conformance

import (
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// streamsFeature is the feature that switches streams groups on and off.
const streamsFeature = "streams.version"

// feature is the level of the feature, 0 if it is not finalized.
func (c *C) feature() int16 {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "streamsgroup-conformance", "1"
	for _, f := range c.AskCoordinator(Pin(req, 3)).(*kmsg.ApiVersionsResponse).FinalizedFeatures {
		if f.Name == streamsFeature {
			return f.MaxVersionLevel
		}
	}
	return 0
}

// setFeature sets the level of the feature and returns the name of the error
// code.
func (c *C) setFeature(level int16) string {
	c.note("%s becomes %d", streamsFeature, level)
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel = streamsFeature, level
	const upgrade, safeDowngrade = 1, 2
	u.UpgradeType, u.AllowDowngrade = upgrade, level == 0
	if level == 0 {
		u.UpgradeType = safeDowngrade
	}
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.TimeoutMillis = 10_000
	req.FeatureUpdates = append(req.FeatureUpdates, u)
	resp := c.AskController(Pin(req, 1)).(*kmsg.UpdateFeaturesResponse)
	codes := codes{}
	codes.add(resp.ErrorCode)
	if resp.ErrorCode == 0 && len(resp.Results) > 0 {
		codes = codes[:0]
		for _, r := range resp.Results {
			codes.add(r.ErrorCode)
		}
	}
	return codes.String()
}

// anyTopology is one that nobody may have: with an illegal name.
func anyTopology() Topo {
	return Topology(Sub{ID: "s1", Sources: []string{"a b"}, Verbatim: true})
}

var access = []Scenario{
	{
		IDs: []string{"V-01", "4-1", "18.1-1"}, Title: "streams groups are switched off and on again", Alone: true,
		Run: func(c *C) {
			c.Topic("foo", 1)
			m := c.Member("m1")
			m.Join(T1()).OK(2)
			if code := c.setFeature(0); code != "NONE" {
				c.Skip("the broker refuses to set %s to 0: %s", streamsFeature, code)
			}
			on := func() {
				c.setFeature(1)
				c.await("the feature", func() bool { return c.feature() == 1 })
			}
			c.onEnd(on)
			c.await("the end of the feature", func() bool {
				return c.feature() == 0 && CodeName(m.Beat().ErrorCode) == "UNSUPPORTED_VERSION"
			})
			a := m.Beat().Is("UNSUPPORTED_VERSION").NoLists().Says("-")
			require.Nil(c, a.ErrorMessage)
			c.Member("m2").Join(anyTopology()).Is("UNSUPPORTED_VERSION")
			m.Leave().Is("UNSUPPORTED_VERSION")
			nobody := c.beside("nobody")
			got := c.describeWith(plainly, nobody, "", c.group)
			require.Len(c, got, 3)
			for i, id := range []string{nobody, "", c.group} {
				require.Equal(c, id, got[i].Group, "the order of the request")
				require.Equal(c, "UNSUPPORTED_VERSION", CodeName(got[i].ErrorCode))
			}
			c.Reconnect() // ApiVersions still has the requests
			require.True(c, c.Has(kmsg.NewPtrStreamsGroupHeartbeatRequest(), 0))
			on()
			c.await("an answer", func() bool { return m.Beat().ErrorCode == 0 })
			m.Beat().OK(2)
		},
	},
	{
		IDs: []string{"V-03", "4-2"}, Title: "no READ on the group, looked at before the topology",
		Run: func(c *C) {
			c.Deny(c.onGroup(kmsg.ACLOperationRead))
			m := c.Member("m1")
			a := m.Join(anyTopology()).Is("GROUP_AUTHORIZATION_FAILED").NoLists().Says("-")
			require.Nil(c, a.ErrorMessage)
			m.Send(m.Request(5)).Is("GROUP_AUTHORIZATION_FAILED")
			m.Leave().Is("GROUP_AUTHORIZATION_FAILED")
			c.Describe().Is("GROUP_ID_NOT_FOUND")
		},
	},
	{
		IDs: []string{"V-06", "4-5"}, Title: "no DESCRIBE on a topic of the topology",
		Run: func(c *C) {
			c.Topic("foo", 1)
			c.Deny(c.onTopic(kmsg.ACLOperationDescribe, "bar"), c.onTopic(kmsg.ACLOperationDescribe, "log"), c.onTopic(kmsg.ACLOperationDescribe, "r"))
			sink := Reads("s1", "foo")
			sink.Sinks = []string{"r"}
			for _, t := range []Topo{T2(), Topology(Keeps("s1", "foo", "log")), Topology(sink)} {
				a := c.Member("m1").Join(t).Is("TOPIC_AUTHORIZATION_FAILED").NoLists()
				require.Nil(c, a.ErrorMessage)
			}
			c.Describe().Is("GROUP_ID_NOT_FOUND")
			c.Member("m1").Join(T1()).OK(2)
		},
	},
	{
		IDs: []string{"4-3", "4-4", "4-5"}, Title: "names that are illegal or Kafka's own, before those that may not be described",
		Run: func(c *C) {
			c.Deny(c.onTopic(kmsg.ACLOperationDescribe, "bar"))
			for _, bad := range []string{"a b", "__transaction_state"} {
				t := Topology(Reads("s1", "bar"), Sub{ID: "s2", Sources: []string{bad}, Verbatim: true})
				c.Member("m1").Join(t).Is("STREAMS_INVALID_TOPOLOGY")
			}
		},
	},
	{
		IDs: []string{"Q-06", "18.1-2", "18.1-3", "18.1-4", "18.1-5", "D19"}, Title: "describe of ids that are empty, unknown and not to be seen",
		Run: func(c *C) {
			c.Deny(c.onGroup(kmsg.ACLOperationDescribe))
			unknown := c.beside("nobody")
			got := c.describeWith(plainly, "", unknown, c.group)
			require.Len(c, got, 3)
			require.Equal(c, []string{c.group, "", unknown}, []string{got[0].Group, got[1].Group, got[2].Group}, "the order of the answer")
			require.Equal(c, []string{"GROUP_AUTHORIZATION_FAILED", "INVALID_GROUP_ID", "GROUP_ID_NOT_FOUND"},
				[]string{CodeName(got[0].ErrorCode), CodeName(got[1].ErrorCode), CodeName(got[2].ErrorCode)})
		},
	},
	{
		IDs: []string{"Q-07", "18.1-12", "D19"}, Title: "describe of a group with a topic that is not to be seen",
		Run: func(c *C) {
			c.Topic("foo", 1)
			c.Topic("bar", 1)
			c.Member("m1").Join(T2()).OK(2)
			other := c.Member("m1")
			other.Group = c.beside("other")
			other.Join(T1()).OK(2)
			c.Deny(c.onTopic(kmsg.ACLOperationDescribe, "bar"))
			got := c.describeWith(plainly, c.group, other.Group)
			require.Len(c, got, 2)
			require.Equal(c, c.group, got[0].Group)
			require.Equal(c, "TOPIC_AUTHORIZATION_FAILED", CodeName(got[0].ErrorCode))
			require.Empty(c, got[0].Members)
			require.Nil(c, got[0].Topology)
			require.Equal(c, "NONE", CodeName(got[1].ErrorCode))
			require.Len(c, got[1].Members, 1)
		},
	},
	{
		IDs: []string{"Q-11", "18.1-9"}, Title: "authorized operations of somebody who may not do everything",
		Run: func(c *C) {
			c.Topic("foo", 1)
			c.Member("m1").Join(T1()).OK(2)
			c.Deny(c.onGroup(kmsg.ACLOperationDelete))
			ops := c.describeWith(func(req *kmsg.StreamsGroupDescribeRequest) { req.IncludeAuthorizedOperations = true }, c.group)[0].AuthorizedOperations
			require.NotZero(c, ops&(1<<kmsg.ACLOperationRead), "READ in %b", ops)
			require.NotZero(c, ops&(1<<kmsg.ACLOperationDescribe), "DESCRIBE in %b", ops)
			require.Zero(c, ops&(1<<kmsg.ACLOperationDelete), "DELETE in %b", ops)
		},
	},
	{
		IDs: []string{"18.3-1"}, Title: "no DELETE on the group",
		Run: func(c *C) {
			c.emptied()
			c.Deny(c.onGroup(kmsg.ACLOperationDelete))
			require.Equal(c, "GROUP_AUTHORIZATION_FAILED", c.tryDelete())
			c.Describe().In("Empty", 3)
		},
	},
	{
		IDs: []string{"I-01", "9.3-1"}, Title: "CREATE on the cluster is enough", Alone: true,
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 2)
			c.Expect("c1", "c2")
			c.Deny(c.onTopic(kmsg.ACLOperationCreate, "c1"), c.onTopic(kmsg.ACLOperationCreate, "c2"))
			m := c.Member("m1")
			require.Regexp(c, "c1.*c2|c2.*c1", m.Join(twoStores()).OK(2).Has(none).Says("3").Detail(3))
			c.Created("c1", 2)
			c.Created("c2", 2)
			m.Ready().OK(3).Has("s1:0-1")
		},
	},
	{
		IDs: []string{"I-02", "9.3-1"}, Title: "CREATE on each topic instead of the cluster", Alone: true,
		Run: func(c *C) {
			c.Topic("foo", 2)
			c.Expect("c1", "c2")
			c.Deny(Right{kmsg.ACLOperationCreate, kmsg.ACLResourceTypeCluster, clusterName})
			m := c.Member("m1")
			m.Join(twoStores()).OK(2).Says("3")
			c.Created("c1", 2)
			c.Created("c2", 2)
			m.Ready()
		},
	},
	{
		IDs: []string{"I-03", "9.3-1", "D26"}, Title: "CREATE on one topic of two", Alone: true,
		Run: func(c *C) {
			c.Topic("foo", 2)
			c.Expect("c1", "c2")
			c.Deny(Right{kmsg.ACLOperationCreate, kmsg.ACLResourceTypeCluster, clusterName}, c.onTopic(kmsg.ACLOperationCreate, "c2"))
			m := c.Member("m1")
			a := m.Join(twoStores()).OK(2).Says("3")
			require.Regexp(c, "(?is)(unauth|right|permission|authoriz).*c2", a.Detail(3))
			c.Sleep(time.Second)
			m.Beat().OK(2).Says("3")
			require.Zero(c, c.partitions("c1"), "nothing is created")
		},
	},
}

// twoStores is a topology with two changelogs.
func twoStores() Topo {
	s := Reads("s1", "foo")
	s.Changelogs = []Internal{{Word: "c1"}, {Word: "c2"}}
	return Topology(s)
}
