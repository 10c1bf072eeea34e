package kfakeext

import "github.com/twmb/franz-go/pkg/kmsg"

// marks is whether requests of the key carry the identity of their sender: the
// keys the coordinator answers or whose responses it edits. Where SASL is on,
// those that it might refuse need it as well, because nothing may be answered
// to a connection that is not authenticated.
func (t *Tap) marks(key int16) bool {
	switch kmsg.Key(key) {
	case kmsg.StreamsGroupHeartbeat, kmsg.StreamsGroupDescribe, kmsg.StreamsGroupTopologyDescriptionUpdate,
		kmsg.ApiVersions, kmsg.OffsetFetch, kmsg.ListGroups, kmsg.DescribeGroups, kmsg.DeleteGroups,
		kmsg.IncrementalAlterConfigs, kmsg.AlterConfigs, kmsg.DescribeConfigs, kmsg.ListConfigResources,
		kmsg.UpdateFeatures, kmsg.CreateTopics, kmsg.DescribeTopicPartitions, kmsg.OffsetForLeaderEpoch,
		kmsg.InitProducerID, kmsg.ConsumerGroupDescribe, kmsg.ShareGroupDescribe:
		return true
	case kmsg.OffsetCommit, kmsg.TxnOffsetCommit, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.LeaveGroup,
		kmsg.ConsumerGroupHeartbeat, kmsg.ShareGroupHeartbeat:
		return t.sasl.Load()
	}
	return false
}

// observed is whether requests of the key are shown to the adapter before kfake
// sees them: some whatever their version, some if they cannot carry a tag.
func observed(key int16, tagged bool) bool {
	switch kmsg.Key(key) {
	case kmsg.SASLHandshake, kmsg.SASLAuthenticate, kmsg.OffsetDelete, kmsg.CreateACLs, kmsg.DeleteACLs:
		return true
	case kmsg.OffsetFetch, kmsg.ListGroups, kmsg.DescribeGroups, kmsg.DescribeConfigs:
		return !tagged
	}
	return false
}

// long is whether a commit may have more metadata than Kafka takes. What is
// refused of it is added to kfake's response.
func long(key int16, size int64) bool {
	return size > maxOffsetMetadata && (key == kmsg.OffsetCommit.Int16() || key == kmsg.TxnOffsetCommit.Int16())
}

// tagsOf returns the tagged fields of the requests that marks names, else nil.
func tagsOf(req kmsg.Request) *kmsg.Tags {
	switch r := req.(type) {
	case *kmsg.StreamsGroupHeartbeatRequest:
		return &r.UnknownTags
	case *kmsg.StreamsGroupDescribeRequest:
		return &r.UnknownTags
	case *kmsg.StreamsGroupTopologyDescriptionUpdateRequest:
		return &r.UnknownTags
	case *kmsg.ApiVersionsRequest:
		return &r.UnknownTags
	case *kmsg.OffsetFetchRequest:
		return &r.UnknownTags
	case *kmsg.ListGroupsRequest:
		return &r.UnknownTags
	case *kmsg.DescribeGroupsRequest:
		return &r.UnknownTags
	case *kmsg.DeleteGroupsRequest:
		return &r.UnknownTags
	case *kmsg.IncrementalAlterConfigsRequest:
		return &r.UnknownTags
	case *kmsg.AlterConfigsRequest:
		return &r.UnknownTags
	case *kmsg.DescribeConfigsRequest:
		return &r.UnknownTags
	case *kmsg.ListConfigResourcesRequest:
		return &r.UnknownTags
	case *kmsg.UpdateFeaturesRequest:
		return &r.UnknownTags
	case *kmsg.CreateTopicsRequest:
		return &r.UnknownTags
	case *kmsg.DescribeTopicPartitionsRequest:
		return &r.UnknownTags
	case *kmsg.OffsetForLeaderEpochRequest:
		return &r.UnknownTags
	case *kmsg.InitProducerIDRequest:
		return &r.UnknownTags
	case *kmsg.OffsetCommitRequest:
		return &r.UnknownTags
	case *kmsg.TxnOffsetCommitRequest:
		return &r.UnknownTags
	case *kmsg.JoinGroupRequest:
		return &r.UnknownTags
	case *kmsg.SyncGroupRequest:
		return &r.UnknownTags
	case *kmsg.HeartbeatRequest:
		return &r.UnknownTags
	case *kmsg.LeaveGroupRequest:
		return &r.UnknownTags
	case *kmsg.ConsumerGroupHeartbeatRequest:
		return &r.UnknownTags
	case *kmsg.ShareGroupHeartbeatRequest:
		return &r.UnknownTags
	case *kmsg.ConsumerGroupDescribeRequest:
		return &r.UnknownTags
	case *kmsg.ShareGroupDescribeRequest:
		return &r.UnknownTags
	}
	return nil
}
