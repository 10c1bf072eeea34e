package kfakeext_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

// What random programs have found, of which Kafka 4.4.0 decided what is right.

// place is a partition that is committed, with so much metadata.
type place struct {
	topic     string
	partition int32
	metadata  int
}

// commitAll commits partitions and returns the error of each.
func (w *wire) commitAll(version int16, group, member string, epoch int32, places ...place) (codes []int16) {
	w.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = group, member, epoch
	for _, p := range places {
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID = p.topic, [16]byte{7}
		if info := w.cl.TopicInfo(p.topic); info != nil {
			rt.TopicID = info.TopicID
		}
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.Metadata = p.partition, 7, kmsg.StringPtr(strings.Repeat("x", p.metadata))
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
	}
	got := make(map[string][]int16)
	key := func(topic string, id [16]byte, partition int32) string {
		if topic == "" {
			topic = string(id[:])
		}
		return topic + "/" + string('0'+partition)
	}
	for _, t := range w.home(group, pinned{req, version}).(*kmsg.OffsetCommitResponse).Topics {
		for _, p := range t.Partitions {
			k := key(t.Topic, t.TopicID, p.Partition)
			got[k] = append(got[k], p.ErrorCode)
		}
	}
	for _, t := range req.Topics {
		topic := t.Topic
		if version >= 10 {
			topic = ""
		}
		k := key(topic, t.TopicID, t.Partitions[0].Partition)
		require.NotEmpty(w, got[k], "%s has no answer", k)
		codes = append(codes, got[k][0])
		got[k] = got[k][1:]
	}
	return codes
}

func codesOf(errs ...*kerr.Error) (codes []int16) {
	for _, err := range errs {
		code := int16(0)
		if err != nil {
			code = err.Code
		}
		codes = append(codes, code)
	}
	return codes
}

func TestCommitOfPartitionsThatAreNotThere(t *testing.T) {
	inBubble(t, func(w *wire) {
		epoch := w.ok(join("g", "m", "foo")).MemberEpoch
		missing := []place{{"foo", 99, 0}, {"ghost", 0, 0}}
		// 17.1-5, 17.1-8, 17.1-9: the group decides about what is there.
		for _, version := range []int16{9, 10} {
			ghost := kerr.UnknownTopicOrPartition
			if version >= 10 {
				ghost = kerr.UnknownTopicID
			}
			assert.Equal(w, codesOf(kerr.UnknownTopicOrPartition, ghost), w.commitAll(version, "g", "stranger", 0, missing...))
			assert.Equal(w, codesOf(kerr.UnknownTopicOrPartition, ghost, kerr.UnknownMemberID), w.commitAll(version, "g", "stranger", 0, append(missing, place{"foo", 0, 0})...))
			assert.Equal(w, codesOf(kerr.UnknownTopicOrPartition, ghost, kerr.StaleMemberEpoch), w.commitAll(version, "g", "m", epoch+1, append(missing, place{"foo", 0, 0})...))
			assert.Equal(w, codesOf(kerr.UnknownTopicOrPartition, ghost, nil), w.commitAll(version, "g", "m", epoch, append(missing, place{"foo", 0, 0})...))
			// 17.1-2
			assert.Equal(w, codesOf(kerr.UnknownTopicOrPartition, ghost, kerr.GroupIDNotFound), w.commitAll(version, "nobody", "m", 1, append(missing, place{"foo", 0, 0})...))
		}
		// An epoch behind commits what the member has had since then, and what is
		// not there is no task of somebody else.
		epoch = w.ok(join("g", "m", "foo")).MemberEpoch
		assert.Equal(w, codesOf(kerr.UnknownTopicOrPartition, nil), w.commitAll(9, "g", "m", epoch, place{"foo", 99, 0}, place{"foo", 0, 0}))
	})
}

func TestR17LongMetadata(t *testing.T) {
	inBubble(t, func(w *wire) {
		epoch := w.ok(join("g", "m", "foo")).MemberEpoch
		for _, version := range []int16{9, 10} {
			got := w.commitAll(version, "g", "m", epoch, place{"foo", 0, 4097}, place{"foo", 1, 4096}, place{"foo", 2, 5000})
			assert.Equal(w, codesOf(kerr.OffsetMetadataTooLarge, nil, kerr.OffsetMetadataTooLarge), got)
			assert.Equal(w, codesOf(kerr.OffsetMetadataTooLarge), w.commitAll(version, "g", "m", epoch, place{"foo", 0, 4097}))
			assert.Equal(w, codesOf(kerr.UnknownMemberID), w.commitAll(version, "g", "stranger", epoch, place{"foo", 0, 4097}))
		}
		info := w.cl.GroupInfo("g")
		require.NotNil(w, info)
		assert.Len(w, info.Commits["foo"], 1)
		assert.Contains(w, info.Commits["foo"], int32(1))
	})
}

func TestR17DeletionOfOffsetsThatAreNotThere(t *testing.T) {
	inBubble(t, func(w *wire) { // 17.3-1
		w.ok(join("g", "m", "foo"))
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = "g"
		for _, p := range []place{{"foo", 99, 0}, {"foo", 0, 0}, {"bar", 0, 0}, {"bar", 99, 0}, {"ghost", 0, 0}} {
			rt := kmsg.NewOffsetDeleteRequestTopic()
			rt.Topic = p.topic
			rp := kmsg.NewOffsetDeleteRequestTopicPartition()
			rp.Partition = p.partition
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
		}
		resp := w.home("g", req).(*kmsg.OffsetDeleteResponse)
		code(w.T, nil, resp.ErrorCode)
		var got []int16
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				got = append(got, p.ErrorCode)
			}
		}
		unknown := kerr.UnknownTopicOrPartition
		assert.Equal(w, codesOf(unknown, kerr.GroupSubscribedToTopic, nil, unknown, unknown), got)
	})
}

// Versions without tagged fields are answered as the others are.
func TestAnswersToOldVersions(t *testing.T) {
	inBubble(t, func(w *wire) {
		w.ok(join("g", "m", "foo"))
		for version := range int16(6) { // 18.2
			groups := w.ask(0, pinned{kmsg.NewPtrListGroupsRequest(), version}).(*kmsg.ListGroupsResponse).Groups
			require.Len(w, groups, 1, "version %d", version)
			assert.Equal(w, "streams", groups[0].ProtocolType)
		}
		for version := range int16(7) { // 19-4
			req := kmsg.NewPtrDescribeGroupsRequest()
			req.Groups, req.IncludeAuthorizedOperations = []string{"g"}, true
			g := w.home("g", pinned{req, version}).(*kmsg.DescribeGroupsResponse).Groups[0]
			assert.Equal(w, "Dead", g.State, "version %d", version)
			want := int32(-1 << 31)
			if version >= 3 && version < 6 {
				want = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11
			}
			assert.Equal(w, want, g.AuthorizedOperations, "version %d", version)
			assert.Equal(w, version >= 6, g.ErrorMessage != nil, "version %d", version)
		}
		for version := int16(1); version < 8; version++ { // 17.2-4
			req := kmsg.NewPtrOffsetFetchRequest()
			req.Group = "nobody"
			rt := kmsg.NewOffsetFetchRequestTopic()
			rt.Topic, rt.Partitions = "foo", []int32{3}
			req.Topics = append(req.Topics, rt)
			got := w.home("nobody", pinned{req, version}).(*kmsg.OffsetFetchResponse)
			code(w.T, nil, got.ErrorCode)
			require.Len(w, got.Topics, 1, "version %d", version)
			p := got.Topics[0].Partitions[0]
			assert.Equal(w, int64(-1), p.Offset)
			assert.Empty(w, *p.Metadata)
			code(w.T, nil, p.ErrorCode)
		}
		for version := int16(1); version < 5; version++ { // 25-5
			req := kmsg.NewPtrDescribeConfigsRequest()
			r := kmsg.NewDescribeConfigsRequestResource()
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, "g"
			r.ConfigNames = []string{"streams.session.timeout.ms"}
			req.Resources = append(req.Resources, r)
			require.Len(w, w.ask(0, pinned{req, version}).(*kmsg.DescribeConfigsResponse).Resources[0].Configs, 1, "version %d", version)
		}
		// 18.3-5: of a group without offsets kfake knows nothing.
		w.ok(beat("g", "m", -1))
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{"g"}
		code(w.T, nil, w.home("g", pinned{req, 1}).(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode)
	}, kfakeext.Nodes(1))
}

func TestR18TypesAreNotTrimmed(t *testing.T) {
	inBubble(t, func(w *wire) { // 18.2
		w.ok(join("g", "m", "foo"))
		assert.Len(w, w.list([]string{" STABLE "}, []string{"Streams"}), 1)
		assert.Empty(w, w.list(nil, []string{" streams"}))
	})
}

func TestR18GroupNamedTwiceIsDeletedOnce(t *testing.T) {
	inBubble(t, func(w *wire) { // 18.3-2
		w.ok(join("g", "m", "foo"))
		w.ok(beat("g", "m", -1))
		for _, version := range []int16{1, 3} {
			req := kmsg.NewPtrDeleteGroupsRequest()
			req.Groups = []string{"nobody", "g", "nobody", "g"}
			got := w.home("g", pinned{req, version}).(*kmsg.DeleteGroupsResponse).Groups
			assert.Len(w, got, 2, "version %d", version)
		}
	}, kfakeext.Nodes(1))
}

func TestR19OtherTypesAreToldWhatTheyMet(t *testing.T) {
	inBubble(t, func(w *wire) {
		w.ok(join("g", "m", "foo"))
		consumer := w.home("g", consumerBeat("c", 0)).(*kmsg.ConsumerGroupHeartbeatResponse) // 19-1
		code(w.T, kerr.GroupIDNotFound, consumer.ErrorCode)
		assert.Contains(w, text(consumer.ErrorMessage), "streams group")
		share := kmsg.NewPtrShareGroupHeartbeatRequest()
		share.GroupID, share.MemberID, share.SubscribedTopicNames = "g", "s", []string{"foo"}
		shared := w.home("g", share).(*kmsg.ShareGroupHeartbeatResponse)
		code(w.T, kerr.GroupIDNotFound, shared.ErrorCode)
		assert.Contains(w, text(shared.ErrorMessage), "streams group")

		consumers := kmsg.NewPtrConsumerGroupDescribeRequest() // 19-5
		consumers.Groups, consumers.IncludeAuthorizedOperations = []string{"g"}, true
		cg := w.home("g", consumers).(*kmsg.ConsumerGroupDescribeResponse).Groups[0]
		assert.Contains(w, text(cg.ErrorMessage), "streams group")
		assert.Equal(w, int32(-1<<31), cg.AuthorizedOperations)
		shares := kmsg.NewPtrShareGroupDescribeRequest()
		shares.GroupIDs, shares.IncludeAuthorizedOperations = []string{"g"}, true
		sg := w.home("g", shares).(*kmsg.ShareGroupDescribeResponse).Groups[0]
		assert.Contains(w, text(sg.ErrorMessage), "streams group")
		assert.Equal(w, int32(-1<<31), sg.AuthorizedOperations)
	})
}

func TestR19OnlyAJoinMakesAConsumerGroup(t *testing.T) {
	inBubble(t, func(w *wire) {
		for _, epoch := range []int32{-1, 5} {
			code(w.T, kerr.GroupIDNotFound, w.home("g", consumerBeat("c", epoch)).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode)
		}
		w.ok(join("g", "m", "foo")) // the id is still free
		code(w.T, nil, w.commit("simple", "", -1, 10, "foo", 1))
		code(w.T, kerr.GroupIDNotFound, w.home("simple", consumerBeat("c", -1)).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode)
		w.ok(join("simple", "m", "foo"))
	})
}

// change is one entry of an alteration.
type change struct {
	name  string
	op    kmsg.IncrementalAlterConfigOp
	value *string
}

func (w *wire) change(kind kmsg.ConfigResourceType, resources []string, changes ...change) int16 {
	w.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	for _, name := range resources {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kind, name
		for _, c := range changes {
			rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			rc.Name, rc.Op, rc.Value = c.name, c.op, c.value
			r.Configs = append(r.Configs, rc)
		}
		req.Resources = append(req.Resources, r)
	}
	return w.ask(0, req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode
}

func TestR25RefusalsOfConfigs(t *testing.T) {
	const (
		set, del, add, sub = kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete, kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract
		standbys           = "streams.num.standby.replicas"
	)
	one := kmsg.StringPtr("1")
	inBubble(t, func(w *wire) {
		for _, c := range []struct {
			what     string
			kind     kmsg.ConfigResourceType
			resource []string
			want     *kerr.Error
			changes  []change
		}{
			{"25-2 a group without id", kmsg.ConfigResourceTypeGroupConfig, []string{""}, kerr.InvalidRequest, []change{{standbys, set, one}}},
			{"25-2 without a value", kmsg.ConfigResourceTypeGroupConfig, []string{"g"}, kerr.InvalidRequest, []change{{standbys, set, nil}}},
			{"25-2 a config twice", kmsg.ConfigResourceTypeGroupConfig, []string{"g"}, kerr.InvalidRequest, []change{{standbys, set, one}, {standbys, del, nil}}},
			{"25-2 a group twice", kmsg.ConfigResourceTypeGroupConfig, []string{"g", "g"}, kerr.InvalidRequest, []change{{standbys, set, one}}},
			{"25-2 not even the tags are a list", kmsg.ConfigResourceTypeGroupConfig, []string{"g"}, kerr.InvalidConfig, []change{{"streams.rack.aware.assignment.tags", add, one}}},
			{"25-2 an unknown name is deleted", kmsg.ConfigResourceTypeGroupConfig, []string{"g"}, nil, []change{{"streams.bogus", del, nil}}},
			{"25-2 spaces", kmsg.ConfigResourceTypeGroupConfig, []string{"g"}, nil, []change{{"streams.assignor.name", set, kmsg.StringPtr(" sticky ")}}},
			{"25-3 fixed", kmsg.ConfigResourceTypeBroker, []string{"0"}, kerr.InvalidRequest, []change{{"group.streams.max.size", set, one}}},
			{"25-3 fixed, and so there is nothing to delete", kmsg.ConfigResourceTypeBroker, []string{"0"}, nil, []change{{"group.streams.max.size", del, nil}}},
			{"25-3 no list", kmsg.ConfigResourceTypeBroker, []string{"0"}, kerr.InvalidConfig, []change{{"group.streams.max.size", sub, one}}},
			{"25-3 a broker twice", kmsg.ConfigResourceTypeBroker, []string{"0", "0"}, kerr.InvalidRequest, []change{{"group.streams.assignment.interval.ms", set, one}}},
			{"25-3 the plug-in", kmsg.ConfigResourceTypeBroker, []string{"0"}, kerr.InvalidRequest, []change{{"group.streams.topology.description.plugin.class", set, one}}},
		} {
			got := w.change(c.kind, c.resource, c.changes...)
			assert.Equal(w, codesOf(c.want)[0], got, c.what)
		}
		assert.Equal(w, map[string]string{"streams.assignor.name": "sticky"}, overridesOf(w, "g"))
	}, kfakeext.Nodes(1))
}

// overridesOf are what a group sets itself.
func overridesOf(w *wire, group string) map[string]string {
	w.Helper()
	found := make(map[string]string)
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	req.Resources = append(req.Resources, r)
	for _, c := range w.ask(0, req).(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
		if c.Source == kmsg.ConfigSourceGroupConfig {
			found[c.Name] = *c.Value
		}
	}
	return found
}

func TestR25ReplacementOfGroupConfigs(t *testing.T) {
	const standbys, warmups = "streams.num.standby.replicas", "streams.num.warmup.replicas"
	inBubble(t, func(w *wire) { // 25-2
		require.NoError(w, w.cl.SetGroupConfig("g", map[string]string{standbys: "1"}))
		replace := func(version int16, validate bool, name, value string) int16 {
			req := kmsg.NewPtrAlterConfigsRequest()
			req.ValidateOnly = validate
			r := kmsg.NewAlterConfigsRequestResource()
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, "g"
			rc := kmsg.NewAlterConfigsRequestResourceConfig()
			rc.Name, rc.Value = name, &value
			r.Configs = append(r.Configs, rc)
			req.Resources = append(req.Resources, r)
			return w.ask(0, pinned{req, version}).(*kmsg.AlterConfigsResponse).Resources[0].ErrorCode
		}
		for version := range int16(3) {
			code(w.T, kerr.InvalidConfig, replace(version, false, warmups, "99"))
			code(w.T, nil, replace(version, true, warmups, "3"))
			assert.Equal(w, map[string]string{standbys: "1"}, overridesOf(w, "g"))
		}
		code(w.T, nil, replace(1, false, warmups, "3"))
		assert.Equal(w, map[string]string{warmups: "3"}, overridesOf(w, "g"))
	})
}

func TestR25BrokerConfigsAreDescribedAsKafkaDoes(t *testing.T) {
	const interval, offload = "group.streams.assignment.interval.ms", "group.streams.assignor.offload.enable"
	inBubble(t, func(w *wire) { // 25-3, 25-5
		described := func(name string) map[string]kmsg.DescribeConfigsResponseResourceConfig {
			req := kmsg.NewPtrDescribeConfigsRequest()
			r := kmsg.NewDescribeConfigsRequestResource()
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, name
			req.Resources = append(req.Resources, r)
			found := make(map[string]kmsg.DescribeConfigsResponseResourceConfig)
			for _, c := range w.ask(0, req).(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
				if strings.HasPrefix(c.Name, "group.streams.") {
					found[c.Name] = c
				}
			}
			return found
		}
		assert.Empty(w, described(""), "nothing is set at run time")
		assert.NotContains(w, described("0"), offload, "it is internal")
		c := described("0")[interval]
		assert.Equal(w, "100", *c.Value)
		assert.Equal(w, kmsg.ConfigSourceStaticBrokerConfig, c.Source)
		assert.Equal(w, kmsg.ConfigTypeInt, c.ConfigType)
		assert.False(w, c.ReadOnly)
		assert.True(w, described("0")["group.streams.max.size"].ReadOnly)

		value := kmsg.StringPtr("200")
		code(w.T, nil, w.change(kmsg.ConfigResourceTypeBroker, []string{""}, change{interval, kmsg.IncrementalAlterConfigOpSet, value}))
		assert.Len(w, described(""), 1)
		assert.Equal(w, "200", *described("0")[interval].Value)
		// What is not set at run time any more is what the broker was started with.
		code(w.T, nil, w.change(kmsg.ConfigResourceTypeBroker, []string{""}, change{interval, kmsg.IncrementalAlterConfigOpDelete, nil}))
		assert.Equal(w, "100", *described("0")[interval].Value)
		assert.Empty(w, described(""))
	}, kfakeext.Nodes(1), kfakeext.Policy(coordinator.Kafka), kfakeext.BrokerConfig(interval, "100"))
}
