package record

// The fewest bytes that an element of a list takes: one per string, list and
// set of tags, plus its numbers.
const (
	minString           = 1
	minInt16            = 2
	minInt32            = 4
	minKeyValue         = 3
	minTaskIDs          = 3
	minTopicInfo        = 9
	minCopartitionGroup = 4
	minSubtopology      = 8
	minOlderSubtopology = 4
	minOlderEpoch       = 6
)

// DecodeKey decodes a key. The error is an *[UnknownTypeError] if the key is
// of something other than a streams group, else a *[DecodeError].
func DecodeKey(key []byte) (Key, error) {
	d := decoder{src: key}
	k := Key{Type: Type(d.int16("Type"))}
	if d.err == nil && !k.Type.known() {
		return Key{}, &UnknownTypeError{Type: k.Type}
	}
	k.Group = d.keyString("GroupId")
	if k.Type.hasMember() {
		k.Member = d.keyString("MemberId")
	}
	d.finish()
	if d.err != nil {
		d.err.Part, d.err.Type = "key", k.Type
		return Key{}, d.err
	}
	return k, nil
}

// Decode decodes a record. A nil value is a [Tombstone]. Lists that are empty
// come back as nil unless the field says otherwise. The result shares no memory
// with the arguments. Errors are those of [DecodeKey].
func Decode(key, value []byte) (Record, error) {
	k, err := DecodeKey(key)
	if err != nil {
		return nil, err
	}
	if value == nil {
		return Tombstone{Key: k}, nil
	}
	d := decoder{src: value}
	if v := d.int16("Version"); d.err == nil && v != valueVersion {
		d.off = 0
		d.fail("Version", "is %d, only %d is known: something newer wrote this record", v, valueVersion)
	}
	r := d.value(k)
	d.finish()
	if d.err != nil {
		d.err.Part, d.err.Type = "value", k.Type
		return nil, d.err
	}
	return r, nil
}

func (d *decoder) value(k Key) Record {
	switch k.Type {
	case TypeGroupMetadata:
		return d.groupMetadata(k)
	case TypeMemberMetadata:
		return d.memberMetadata(k)
	case TypeTargetAssignmentMetadata:
		return d.targetAssignmentMetadata(k)
	case TypeTargetAssignment:
		return d.targetAssignment(k)
	case TypeCurrentAssignment:
		return d.currentAssignment(k)
	default: // DecodeKey lets no other type pass
		return d.topology(k)
	}
}

func (d *decoder) groupMetadata(k Key) *GroupMetadata {
	r := &GroupMetadata{
		Group:                          k.Group,
		Epoch:                          d.int32("Epoch"),
		MetadataHash:                   d.int64("MetadataHash"),
		ValidatedTopologyEpoch:         noTopologyEpoch,
		LastAssignmentConfigs:          []KeyValue{},
		StoredDescriptionTopologyEpoch: noTopologyEpoch,
		FailedDescriptionTopologyEpoch: noTopologyEpoch,
	}
	d.tags(func(d *decoder, tag uint32) bool {
		switch tag {
		case tagValidatedTopologyEpoch:
			r.ValidatedTopologyEpoch = d.int32("ValidatedTopologyEpoch")
		case tagLastAssignmentConfigs:
			r.LastAssignmentConfigs = readNullableList(d, "LastAssignmentConfigs", minKeyValue, readKeyValue)
		case tagStoredDescriptionTopologyEpoch:
			r.StoredDescriptionTopologyEpoch = d.int32("StoredDescriptionTopologyEpoch")
		case tagFailedDescriptionTopologyEpoch:
			r.FailedDescriptionTopologyEpoch = d.int32("FailedDescriptionTopologyEpoch")
		default:
			return false
		}
		return true
	})
	return r
}

func (d *decoder) memberMetadata(k Key) *MemberMetadata {
	r := &MemberMetadata{
		Group:                  k.Group,
		Member:                 k.Member,
		InstanceID:             d.nullableString("InstanceId"),
		RackID:                 d.nullableString("RackId"),
		ClientID:               d.string("ClientId"),
		ClientHost:             d.string("ClientHost"),
		RebalanceTimeoutMillis: d.int32("RebalanceTimeoutMs"),
		TopologyEpoch:          d.int32("TopologyEpoch"),
		ProcessID:              d.string("ProcessId"),
	}
	if d.int8("UserEndpoint") >= 0 { // the marker of a nullable struct, negative for null
		r.UserEndpoint = &Endpoint{Host: d.string("Host"), Port: d.uint16("Port")}
		d.tags(nil)
	}
	r.ClientTags = readList(d, "ClientTags", minKeyValue, readKeyValue)
	d.tags(nil)
	return r
}

func (d *decoder) targetAssignmentMetadata(k Key) *TargetAssignmentMetadata {
	r := &TargetAssignmentMetadata{Group: k.Group, AssignmentEpoch: d.int32("AssignmentEpoch")}
	d.tags(func(d *decoder, tag uint32) bool {
		if tag != tagAssignmentTimestamp {
			return false
		}
		r.AssignmentTimestampMillis = d.int64("AssignmentTimestamp")
		return true
	})
	return r
}

func (d *decoder) targetAssignment(k Key) *TargetAssignment {
	r := &TargetAssignment{
		Group:   k.Group,
		Member:  k.Member,
		Active:  readList(d, "ActiveTasks", minTaskIDs, readTaskIDs),
		Standby: readList(d, "StandbyTasks", minTaskIDs, readTaskIDs),
		Warmup:  readList(d, "WarmupTasks", minTaskIDs, readTaskIDs),
	}
	d.tags(nil)
	return r
}

func (d *decoder) currentAssignment(k Key) *CurrentAssignment {
	r := &CurrentAssignment{
		Group:                    k.Group,
		Member:                   k.Member,
		MemberEpoch:              d.int32("MemberEpoch"),
		PreviousMemberEpoch:      d.int32("PreviousMemberEpoch"),
		State:                    d.int8("State"),
		Active:                   readList(d, "ActiveTasks", minTaskIDs, readActiveTaskIDs),
		Standby:                  readList(d, "StandbyTasks", minTaskIDs, readTaskIDs),
		Warmup:                   readList(d, "WarmupTasks", minTaskIDs, readTaskIDs),
		ActivePendingRevocation:  readList(d, "ActiveTasksPendingRevocation", minTaskIDs, readActiveTaskIDs),
		StandbyPendingRevocation: readList(d, "StandbyTasksPendingRevocation", minTaskIDs, readTaskIDs),
		WarmupPendingRevocation:  readList(d, "WarmupTasksPendingRevocation", minTaskIDs, readTaskIDs),
	}
	d.tags(nil)
	return r
}

func (d *decoder) topology(k Key) *Topology {
	r := &Topology{
		Group:         k.Group,
		Epoch:         d.int32("Epoch"),
		Subtopologies: readList(d, "Subtopologies", minSubtopology, readSubtopology),
	}
	d.tags(func(d *decoder, tag uint32) bool {
		if tag != tagOlderEpochs {
			return false
		}
		r.OlderEpochs = readList(d, "OlderEpochs", minOlderEpoch, readOlderEpoch)
		return true
	})
	return r
}

func readString(d *decoder, field string) string { return d.string(field) }
func readInt16(d *decoder, field string) int16   { return d.int16(field) }
func readInt32(d *decoder, field string) int32   { return d.int32(field) }

func readKeyValue(d *decoder, _ string) KeyValue {
	kv := KeyValue{Key: d.string("Key"), Value: d.string("Value")}
	d.tags(nil)
	return kv
}

// readTaskIDs skips assignment epochs: Kafka's schema allows them for standby
// and warm-up tasks too, but nothing writes or reads them there.
func readTaskIDs(d *decoder, _ string) TaskIDs {
	t := TaskIDs{
		Subtopology: d.string("SubtopologyId"),
		Partitions:  readList(d, "Partitions", minInt32, readInt32),
	}
	d.tags(nil)
	return t
}

func readActiveTaskIDs(d *decoder, _ string) ActiveTaskIDs {
	t := ActiveTaskIDs{
		Subtopology: d.string("SubtopologyId"),
		Partitions:  readList(d, "Partitions", minInt32, readInt32),
	}
	d.tags(func(d *decoder, tag uint32) bool {
		if tag != tagAssignmentEpochs {
			return false
		}
		// Null, empty and missing mean the same, and Kafka writes the last.
		if t.Epochs = readNullableList(d, "AssignmentEpochs", minInt32, readInt32); len(t.Epochs) == 0 {
			t.Epochs = nil
		}
		return true
	})
	return t
}

func readSubtopology(d *decoder, _ string) Subtopology {
	s := Subtopology{
		ID:                      d.string("SubtopologyId"),
		SourceTopics:            readList(d, "SourceTopics", minString, readString),
		SourceTopicRegex:        readList(d, "SourceTopicRegex", minString, readString),
		StateChangelogTopics:    readList(d, "StateChangelogTopics", minTopicInfo, readTopicInfo),
		RepartitionSinkTopics:   readList(d, "RepartitionSinkTopics", minString, readString),
		RepartitionSourceTopics: readList(d, "RepartitionSourceTopics", minTopicInfo, readTopicInfo),
		CopartitionGroups:       readList(d, "CopartitionGroups", minCopartitionGroup, readCopartitionGroup),
	}
	d.tags(nil)
	return s
}

func readTopicInfo(d *decoder, _ string) TopicInfo {
	t := TopicInfo{
		Name:              d.string("Name"),
		Partitions:        d.int32("Partitions"),
		ReplicationFactor: d.int16("ReplicationFactor"),
		Configs:           readList(d, "TopicConfigs", minKeyValue, readKeyValue),
	}
	d.tags(nil)
	return t
}

func readCopartitionGroup(d *decoder, _ string) CopartitionGroup {
	g := CopartitionGroup{
		SourceTopics:            readList(d, "SourceTopics", minInt16, readInt16),
		SourceTopicRegex:        readList(d, "SourceTopicRegex", minInt16, readInt16),
		RepartitionSourceTopics: readList(d, "RepartitionSourceTopics", minInt16, readInt16),
	}
	d.tags(nil)
	return g
}

func readOlderEpoch(d *decoder, _ string) OlderEpoch {
	e := OlderEpoch{
		Epoch:         d.int32("Epoch"),
		Subtopologies: readList(d, "Subtopologies", minOlderSubtopology, readOlderSubtopology),
	}
	d.tags(nil)
	return e
}

func readOlderSubtopology(d *decoder, _ string) OlderSubtopology {
	s := OlderSubtopology{
		ID:         d.string("SubtopologyId"),
		Sources:    readList(d, "SourceTopics", minString, readString),
		Changelogs: readList(d, "StateChangelogTopics", minString, readString),
	}
	d.tags(nil)
	return s
}
