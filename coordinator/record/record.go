// Package record holds the durable records of a streams group, in the schemas
// that Apache Kafka uses in __consumer_offsets: keys of types 17 and 19 to 23,
// values of version 0. Encoding is byte-exact with Kafka's.
//
// [AppendKey] and [AppendValue] encode, [Decode] and [DecodeKey] decode. All of
// them are pure functions, safe for concurrent use.
package record

import "strconv"

// Record is one change of a group's durable state. It is one of the pointer
// types [*GroupMetadata], [*MemberMetadata], [*TargetAssignmentMetadata],
// [*TargetAssignment], [*CurrentAssignment] and [*Topology], or, for the
// deletion of the value under a key, a [Tombstone].
//
// Records are immutable once they have been appended.
type Record interface {
	// RecordKey is the key that the record is stored under.
	RecordKey() Key

	appendValue(dst []byte) []byte
}

// Type is the number of a record's key type.
type Type int16

// The key types of streams groups. 18 is unused.
const (
	TypeGroupMetadata            Type = 17
	TypeMemberMetadata           Type = 19
	TypeTargetAssignmentMetadata Type = 20
	TypeTargetAssignment         Type = 21
	TypeCurrentAssignment        Type = 22
	TypeTopology                 Type = 23
)

// String returns what a record of the type holds, for example "topology".
func (t Type) String() string {
	switch t {
	case TypeGroupMetadata:
		return "group metadata"
	case TypeMemberMetadata:
		return "member metadata"
	case TypeTargetAssignmentMetadata:
		return "target assignment metadata"
	case TypeTargetAssignment:
		return "target assignment"
	case TypeCurrentAssignment:
		return "current assignment"
	case TypeTopology:
		return "topology"
	}
	return "record type " + strconv.Itoa(int(t))
}

// known is whether the type is one of the six of streams groups.
func (t Type) known() bool {
	return t.hasMember() || t == TypeGroupMetadata || t == TypeTargetAssignmentMetadata || t == TypeTopology
}

// hasMember is whether keys of the type name a member beside the group.
func (t Type) hasMember() bool {
	return t == TypeMemberMetadata || t == TypeTargetAssignment || t == TypeCurrentAssignment
}

// Key names what a record is about. Member is empty for the types that have
// only a group. Keys are comparable and usable as map keys.
type Key struct {
	Type   Type
	Group  string
	Member string
}

// Tombstone deletes the value under a key.
type Tombstone struct{ Key Key }

// RecordKey is the key whose value is deleted.
func (t Tombstone) RecordKey() Key { return t.Key }

// RecordKey is the group under type 17.
func (r *GroupMetadata) RecordKey() Key { return Key{Type: TypeGroupMetadata, Group: r.Group} }

// RecordKey is group and member under type 19.
func (r *MemberMetadata) RecordKey() Key {
	return Key{Type: TypeMemberMetadata, Group: r.Group, Member: r.Member}
}

// RecordKey is the group under type 20.
func (r *TargetAssignmentMetadata) RecordKey() Key {
	return Key{Type: TypeTargetAssignmentMetadata, Group: r.Group}
}

// RecordKey is group and member under type 21.
func (r *TargetAssignment) RecordKey() Key {
	return Key{Type: TypeTargetAssignment, Group: r.Group, Member: r.Member}
}

// RecordKey is group and member under type 22.
func (r *CurrentAssignment) RecordKey() Key {
	return Key{Type: TypeCurrentAssignment, Group: r.Group, Member: r.Member}
}

// RecordKey is the group under type 23.
func (r *Topology) RecordKey() Key { return Key{Type: TypeTopology, Group: r.Group} }

// GroupMetadata is record type 17.
type GroupMetadata struct {
	Group        string
	Epoch        int32
	MetadataHash int64
	// ValidatedTopologyEpoch is the topology epoch whose topics were all found
	// right, else -1.
	ValidatedTopologyEpoch int32
	// LastAssignmentConfigs are sorted by key. Nil is written as null and an
	// empty list, the schema's default, not at all; decoding tells the two apart.
	LastAssignmentConfigs          []KeyValue
	StoredDescriptionTopologyEpoch int32
	FailedDescriptionTopologyEpoch int32
}

// KeyValue is one setting or one client tag.
type KeyValue struct{ Key, Value string }

// MemberMetadata is record type 19.
type MemberMetadata struct {
	Group, Member          string
	InstanceID             *string
	RackID                 *string
	ClientID               string
	ClientHost             string
	RebalanceTimeoutMillis int32
	TopologyEpoch          int32
	ProcessID              string
	UserEndpoint           *Endpoint
	ClientTags             []KeyValue // sorted by key
}

// Endpoint is where a member answers interactive queries.
type Endpoint struct {
	Host string
	Port uint16
}

// TargetAssignmentMetadata is record type 20.
type TargetAssignmentMetadata struct {
	Group           string
	AssignmentEpoch int32
	// AssignmentTimestampMillis is wall time, 0 if there is none.
	AssignmentTimestampMillis int64
}

// TaskIDs are tasks of one subtopology, partitions ascending.
type TaskIDs struct {
	Subtopology string
	Partitions  []int32
}

// ActiveTaskIDs are active tasks of one subtopology with the assignment epoch
// of each. Epochs is nil in records written before epochs existed, and in
// records that something else wrote it may be of another length than Partitions.
type ActiveTaskIDs struct {
	Subtopology string
	Partitions  []int32
	Epochs      []int32
}

// TargetAssignment is record type 21. Lists are sorted by subtopology.
type TargetAssignment struct {
	Group, Member           string
	Active, Standby, Warmup []TaskIDs
}

// CurrentAssignment is record type 22. Lists are sorted by subtopology.
type CurrentAssignment struct {
	Group, Member                    string
	MemberEpoch, PreviousMemberEpoch int32
	State                            int8
	Active                           []ActiveTaskIDs
	Standby, Warmup                  []TaskIDs
	ActivePendingRevocation          []ActiveTaskIDs
	StandbyPendingRevocation         []TaskIDs
	WarmupPendingRevocation          []TaskIDs
}

// Topology is record type 23.
type Topology struct {
	Group         string
	Epoch         int32
	Subtopologies []Subtopology
	// OlderEpochs is what the replaced topologies read, for members that still
	// run them: our own tagged field 10000, unknown to Kafka and skipped there.
	OlderEpochs []OlderEpoch
}

// OlderEpoch is what a replaced topology reads and logs to.
type OlderEpoch struct {
	Epoch         int32
	Subtopologies []OlderSubtopology
}

// OlderSubtopology is one subtopology of a replaced topology.
type OlderSubtopology struct {
	ID string
	// Sources are the source and repartition source topics, patterns resolved.
	Sources []string
	// Changelogs are the changelog topics.
	Changelogs []string
}

// Subtopology is one subtopology as the member sent it.
type Subtopology struct {
	ID                      string
	SourceTopics            []string
	SourceTopicRegex        []string
	StateChangelogTopics    []TopicInfo
	RepartitionSinkTopics   []string
	RepartitionSourceTopics []TopicInfo
	CopartitionGroups       []CopartitionGroup
}

// TopicInfo describes an internal topic.
type TopicInfo struct {
	Name              string
	Partitions        int32
	ReplicationFactor int16
	Configs           []KeyValue
}

// CopartitionGroup holds indexes into the lists of its subtopology.
type CopartitionGroup struct {
	SourceTopics            []int16
	SourceTopicRegex        []int16
	RepartitionSourceTopics []int16
}
