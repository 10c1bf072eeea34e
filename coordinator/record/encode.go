package record

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kbin"
)

// MaxKeyString is the longest group or member id, in bytes, that a key can hold.
const MaxKeyString = math.MaxInt16

// valueVersion is the only version of any value so far.
const valueVersion = 0

// The tagged fields of the schemas. A tagged field is written only if its value
// is not the default.
const (
	tagValidatedTopologyEpoch         = 0
	tagLastAssignmentConfigs          = 1
	tagStoredDescriptionTopologyEpoch = 2
	tagFailedDescriptionTopologyEpoch = 3

	tagAssignmentTimestamp = 0

	tagAssignmentEpochs = 0

	// tagOlderEpochs is not Kafka's. Numbers from 10000 on keep clear of what
	// Kafka may add, and its readers skip tags that they do not know.
	tagOlderEpochs = 10000
)

const noTopologyEpoch int32 = -1

// Check returns an error if the key cannot be stored: its type is unknown or an
// id is longer than [MaxKeyString].
func (k Key) Check() error {
	switch {
	case !k.Type.known():
		return &UnknownTypeError{Type: k.Type}
	case len(k.Group) > MaxKeyString:
		return fmt.Errorf("record: group id of %d bytes is longer than the %d bytes that a record key can hold: use a shorter one", len(k.Group), MaxKeyString)
	case len(k.Member) > MaxKeyString:
		return fmt.Errorf("record: member id of %d bytes is longer than the %d bytes that a record key can hold: use a shorter one", len(k.Member), MaxKeyString)
	}
	return nil
}

// AppendKey appends the encoded key and returns the extended slice. A key that
// [Key.Check] refuses is encoded as something that [DecodeKey] refuses.
func AppendKey(dst []byte, k Key) []byte {
	dst = kbin.AppendInt16(dst, int16(k.Type))
	dst = appendKeyString(dst, k.Group)
	if k.Type.hasMember() {
		dst = appendKeyString(dst, k.Member)
	}
	return dst
}

// appendKeyString writes null rather than a length that has overflowed, which
// could be taken for another, valid key.
func appendKeyString(dst []byte, s string) []byte {
	if len(s) > MaxKeyString {
		return kbin.AppendInt16(dst, -1)
	}
	return kbin.AppendString(dst, s)
}

// AppendValue appends the encoded value and returns the extended slice. For a
// [Tombstone] it returns nil whatever dst is: there is no value, and a log must
// be given null, not an empty value.
func AppendValue(dst []byte, r Record) []byte {
	if _, ok := r.(Tombstone); ok {
		return nil
	}
	return r.appendValue(kbin.AppendInt16(dst, valueVersion))
}

func (Tombstone) appendValue([]byte) []byte { return nil }

func (r *GroupMetadata) appendValue(dst []byte) []byte {
	dst = kbin.AppendInt32(dst, r.Epoch)
	dst = kbin.AppendInt64(dst, r.MetadataHash)

	configs := r.LastAssignmentConfigs == nil || len(r.LastAssignmentConfigs) > 0
	var tags uint32
	for _, written := range [...]bool{
		r.ValidatedTopologyEpoch != noTopologyEpoch,
		configs,
		r.StoredDescriptionTopologyEpoch != noTopologyEpoch,
		r.FailedDescriptionTopologyEpoch != noTopologyEpoch,
	} {
		if written {
			tags++
		}
	}
	dst = kbin.AppendUvarint(dst, tags)
	dst = appendEpochTag(dst, tagValidatedTopologyEpoch, r.ValidatedTopologyEpoch)
	if configs {
		dst = appendTag(dst, tagLastAssignmentConfigs, func(dst []byte) []byte {
			if r.LastAssignmentConfigs == nil {
				return kbin.AppendCompactNullableArrayLen(dst, 0, true)
			}
			return appendList(dst, r.LastAssignmentConfigs, appendKeyValue)
		})
	}
	dst = appendEpochTag(dst, tagStoredDescriptionTopologyEpoch, r.StoredDescriptionTopologyEpoch)
	return appendEpochTag(dst, tagFailedDescriptionTopologyEpoch, r.FailedDescriptionTopologyEpoch)
}

func (r *MemberMetadata) appendValue(dst []byte) []byte {
	dst = kbin.AppendCompactNullableString(dst, r.InstanceID)
	dst = kbin.AppendCompactNullableString(dst, r.RackID)
	dst = kbin.AppendCompactString(dst, r.ClientID)
	dst = kbin.AppendCompactString(dst, r.ClientHost)
	dst = kbin.AppendInt32(dst, r.RebalanceTimeoutMillis)
	dst = kbin.AppendInt32(dst, r.TopologyEpoch)
	dst = kbin.AppendCompactString(dst, r.ProcessID)
	if r.UserEndpoint == nil {
		dst = kbin.AppendInt8(dst, -1)
	} else {
		dst = kbin.AppendInt8(dst, 1)
		dst = kbin.AppendCompactString(dst, r.UserEndpoint.Host)
		dst = kbin.AppendUint16(dst, r.UserEndpoint.Port)
		dst = appendNoTags(dst)
	}
	dst = appendList(dst, r.ClientTags, appendKeyValue)
	return appendNoTags(dst)
}

func (r *TargetAssignmentMetadata) appendValue(dst []byte) []byte {
	dst = kbin.AppendInt32(dst, r.AssignmentEpoch)
	if r.AssignmentTimestampMillis == 0 {
		return appendNoTags(dst)
	}
	dst = kbin.AppendUvarint(dst, 1)
	return appendTag(dst, tagAssignmentTimestamp, func(dst []byte) []byte {
		return kbin.AppendInt64(dst, r.AssignmentTimestampMillis)
	})
}

func (r *TargetAssignment) appendValue(dst []byte) []byte {
	dst = appendList(dst, r.Active, appendTaskIDs)
	dst = appendList(dst, r.Standby, appendTaskIDs)
	dst = appendList(dst, r.Warmup, appendTaskIDs)
	return appendNoTags(dst)
}

func (r *CurrentAssignment) appendValue(dst []byte) []byte {
	dst = kbin.AppendInt32(dst, r.MemberEpoch)
	dst = kbin.AppendInt32(dst, r.PreviousMemberEpoch)
	dst = kbin.AppendInt8(dst, r.State)
	dst = appendList(dst, r.Active, appendActiveTaskIDs)
	dst = appendList(dst, r.Standby, appendTaskIDs)
	dst = appendList(dst, r.Warmup, appendTaskIDs)
	dst = appendList(dst, r.ActivePendingRevocation, appendActiveTaskIDs)
	dst = appendList(dst, r.StandbyPendingRevocation, appendTaskIDs)
	dst = appendList(dst, r.WarmupPendingRevocation, appendTaskIDs)
	return appendNoTags(dst)
}

func (r *Topology) appendValue(dst []byte) []byte {
	dst = kbin.AppendInt32(dst, r.Epoch)
	dst = appendList(dst, r.Subtopologies, appendSubtopology)
	if len(r.OlderEpochs) == 0 {
		return appendNoTags(dst)
	}
	dst = kbin.AppendUvarint(dst, 1)
	return appendTag(dst, tagOlderEpochs, func(dst []byte) []byte {
		return appendList(dst, r.OlderEpochs, appendOlderEpoch)
	})
}

func appendKeyValue(dst []byte, kv KeyValue) []byte {
	dst = kbin.AppendCompactString(dst, kv.Key)
	dst = kbin.AppendCompactString(dst, kv.Value)
	return appendNoTags(dst)
}

func appendTaskIDs(dst []byte, t TaskIDs) []byte {
	dst = kbin.AppendCompactString(dst, t.Subtopology)
	dst = appendList(dst, t.Partitions, kbin.AppendInt32)
	return appendNoTags(dst)
}

func appendActiveTaskIDs(dst []byte, t ActiveTaskIDs) []byte {
	dst = kbin.AppendCompactString(dst, t.Subtopology)
	dst = appendList(dst, t.Partitions, kbin.AppendInt32)
	if len(t.Epochs) == 0 {
		return appendNoTags(dst)
	}
	dst = kbin.AppendUvarint(dst, 1)
	return appendTag(dst, tagAssignmentEpochs, func(dst []byte) []byte {
		return appendList(dst, t.Epochs, kbin.AppendInt32)
	})
}

func appendSubtopology(dst []byte, s Subtopology) []byte {
	dst = kbin.AppendCompactString(dst, s.ID)
	dst = appendList(dst, s.SourceTopics, kbin.AppendCompactString)
	dst = appendList(dst, s.SourceTopicRegex, kbin.AppendCompactString)
	dst = appendList(dst, s.StateChangelogTopics, appendTopicInfo)
	dst = appendList(dst, s.RepartitionSinkTopics, kbin.AppendCompactString)
	dst = appendList(dst, s.RepartitionSourceTopics, appendTopicInfo)
	dst = appendList(dst, s.CopartitionGroups, appendCopartitionGroup)
	return appendNoTags(dst)
}

func appendTopicInfo(dst []byte, t TopicInfo) []byte {
	dst = kbin.AppendCompactString(dst, t.Name)
	dst = kbin.AppendInt32(dst, t.Partitions)
	dst = kbin.AppendInt16(dst, t.ReplicationFactor)
	dst = appendList(dst, t.Configs, appendKeyValue)
	return appendNoTags(dst)
}

func appendCopartitionGroup(dst []byte, g CopartitionGroup) []byte {
	dst = appendList(dst, g.SourceTopics, kbin.AppendInt16)
	dst = appendList(dst, g.SourceTopicRegex, kbin.AppendInt16)
	dst = appendList(dst, g.RepartitionSourceTopics, kbin.AppendInt16)
	return appendNoTags(dst)
}

// appendOlderEpoch and appendOlderSubtopology follow the rules of Kafka's
// flexible structs, tagged fields at the end included, so that they can grow.
func appendOlderEpoch(dst []byte, e OlderEpoch) []byte {
	dst = kbin.AppendInt32(dst, e.Epoch)
	dst = appendList(dst, e.Subtopologies, appendOlderSubtopology)
	return appendNoTags(dst)
}

func appendOlderSubtopology(dst []byte, s OlderSubtopology) []byte {
	dst = kbin.AppendCompactString(dst, s.ID)
	dst = appendList(dst, s.Sources, kbin.AppendCompactString)
	dst = appendList(dst, s.Changelogs, kbin.AppendCompactString)
	return appendNoTags(dst)
}

func appendList[T any](dst []byte, list []T, appendOne func([]byte, T) []byte) []byte {
	dst = kbin.AppendCompactArrayLen(dst, len(list))
	for _, v := range list {
		dst = appendOne(dst, v)
	}
	return dst
}

func appendNoTags(dst []byte) []byte { return kbin.AppendUvarint(dst, 0) }

// appendTag writes one tagged field. The size that precedes the body is of
// variable length and not known before the body is: a long body moves up.
func appendTag(dst []byte, tag uint32, body func([]byte) []byte) []byte {
	dst = kbin.AppendUvarint(dst, tag)
	at := len(dst)
	dst = body(append(dst, 0))
	size := uint32(len(dst) - at - 1)
	if extra := kbin.UvarintLen(size) - 1; extra > 0 {
		dst = append(dst, make([]byte, extra)...)
		copy(dst[at+1+extra:], dst[at+1:])
	}
	kbin.AppendUvarint(dst[:at], size)
	return dst
}

func appendEpochTag(dst []byte, tag uint32, epoch int32) []byte {
	if epoch == noTopologyEpoch {
		return dst
	}
	return appendTag(dst, tag, func(dst []byte) []byte { return kbin.AppendInt32(dst, epoch) })
}
