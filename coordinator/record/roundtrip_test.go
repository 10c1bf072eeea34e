package record

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// lists draws lists in the form in which decoding returns them: nil if empty.
func lists[T any](one *rapid.Generator[T]) *rapid.Generator[[]T] {
	return rapid.Custom(func(t *rapid.T) []T {
		l := rapid.SliceOfN(one, 0, 4).Draw(t, "list")
		if len(l) == 0 {
			return nil
		}
		return l
	})
}

var (
	anyString  = rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z0-9._-]{0,200}`))
	anyPointer = rapid.OneOf(rapid.Just[*string](nil), rapid.Ptr(anyString, false))
	anyStrings = lists(anyString)
	anyInt16s  = lists(rapid.Int16())
	anyInt32s  = lists(rapid.Int32())
	anyKVs     = lists(rapid.Custom(func(t *rapid.T) KeyValue {
		return KeyValue{anyString.Draw(t, "key"), anyString.Draw(t, "value")}
	}))
	anyTasks = lists(rapid.Custom(func(t *rapid.T) TaskIDs {
		return TaskIDs{anyString.Draw(t, "subtopology"), anyInt32s.Draw(t, "partitions")}
	}))
	anyActive = lists(rapid.Custom(func(t *rapid.T) ActiveTaskIDs {
		return ActiveTaskIDs{anyString.Draw(t, "subtopology"), anyInt32s.Draw(t, "partitions"), anyInt32s.Draw(t, "epochs")}
	}))
	anyTopicInfos = lists(rapid.Custom(func(t *rapid.T) TopicInfo {
		return TopicInfo{anyString.Draw(t, "name"), rapid.Int32().Draw(t, "partitions"), rapid.Int16().Draw(t, "factor"), anyKVs.Draw(t, "configs")}
	}))
	anyGroups = lists(rapid.Custom(func(t *rapid.T) CopartitionGroup {
		return CopartitionGroup{anyInt16s.Draw(t, "sources"), anyInt16s.Draw(t, "patterns"), anyInt16s.Draw(t, "repartition")}
	}))
	anySubtopologies = lists(rapid.Custom(func(t *rapid.T) Subtopology {
		return Subtopology{
			ID: anyString.Draw(t, "id"), SourceTopics: anyStrings.Draw(t, "sources"), SourceTopicRegex: anyStrings.Draw(t, "patterns"),
			StateChangelogTopics: anyTopicInfos.Draw(t, "changelogs"), RepartitionSinkTopics: anyStrings.Draw(t, "sinks"),
			RepartitionSourceTopics: anyTopicInfos.Draw(t, "repartition"), CopartitionGroups: anyGroups.Draw(t, "groups"),
		}
	}))
	anyOlderEpochs = lists(rapid.Custom(func(t *rapid.T) OlderEpoch {
		return OlderEpoch{rapid.Int32().Draw(t, "epoch"), lists(rapid.Custom(func(t *rapid.T) OlderSubtopology {
			return OlderSubtopology{anyString.Draw(t, "id"), anyStrings.Draw(t, "sources"), anyStrings.Draw(t, "changelogs")}
		})).Draw(t, "subtopologies")}
	}))
	anyRecord = rapid.Custom(func(t *rapid.T) Record {
		group, member := anyString.Draw(t, "group"), anyString.Draw(t, "member")
		switch rapid.SampledFrom([]Type{0, 17, 19, 20, 21, 22, 23}).Draw(t, "type") {
		case TypeGroupMetadata:
			configs := anyKVs.Draw(t, "configs")
			if configs == nil && rapid.Bool().Draw(t, "empty") {
				configs = []KeyValue{} // written in another way than nil
			}
			epoch := rapid.OneOf(rapid.Just(noTopologyEpoch), rapid.Int32())
			return &GroupMetadata{
				group, rapid.Int32().Draw(t, "epoch"), rapid.Int64().Draw(t, "hash"),
				epoch.Draw(t, "validated"), configs, epoch.Draw(t, "stored"), epoch.Draw(t, "failed"),
			}
		case TypeMemberMetadata:
			r := &MemberMetadata{
				Group: group, Member: member, InstanceID: anyPointer.Draw(t, "instance"), RackID: anyPointer.Draw(t, "rack"),
				ClientID: anyString.Draw(t, "client"), ClientHost: anyString.Draw(t, "host"),
				RebalanceTimeoutMillis: rapid.Int32().Draw(t, "timeout"), TopologyEpoch: rapid.Int32().Draw(t, "epoch"),
				ProcessID: anyString.Draw(t, "process"), ClientTags: anyKVs.Draw(t, "tags"),
			}
			if rapid.Bool().Draw(t, "endpoint") {
				r.UserEndpoint = &Endpoint{anyString.Draw(t, "endpoint host"), rapid.Uint16().Draw(t, "port")}
			}
			return r
		case TypeTargetAssignmentMetadata:
			return &TargetAssignmentMetadata{group, rapid.Int32().Draw(t, "epoch"), rapid.OneOf(rapid.Just[int64](0), rapid.Int64()).Draw(t, "time")}
		case TypeTargetAssignment:
			return &TargetAssignment{group, member, anyTasks.Draw(t, "active"), anyTasks.Draw(t, "standby"), anyTasks.Draw(t, "warm-up")}
		case TypeCurrentAssignment:
			return &CurrentAssignment{
				group, member, rapid.Int32().Draw(t, "epoch"), rapid.Int32().Draw(t, "previous"), rapid.Int8().Draw(t, "state"),
				anyActive.Draw(t, "active"), anyTasks.Draw(t, "standby"), anyTasks.Draw(t, "warm-up"),
				anyActive.Draw(t, "active p"), anyTasks.Draw(t, "standby p"), anyTasks.Draw(t, "warm-up p"),
			}
		case TypeTopology:
			return &Topology{group, rapid.Int32().Draw(t, "epoch"), anySubtopologies.Draw(t, "subtopologies"), anyOlderEpochs.Draw(t, "older")}
		}
		k := Key{Type: rapid.SampledFrom([]Type{17, 19, 20, 21, 22, 23}).Draw(t, "tombstone"), Group: group}
		if k.Type.hasMember() {
			k.Member = member
		}
		return Tombstone{k}
	})
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := anyRecord.Draw(t, "record")
		prefix := []byte("what was there before")

		key := AppendKey(bytes.Clone(prefix), want.RecordKey())
		require.Equal(t, prefix, key[:len(prefix)])
		key = key[len(prefix):]
		value := AppendValue(bytes.Clone(prefix), want)
		if _, ok := want.(Tombstone); ok {
			require.Nil(t, value)
		} else {
			require.Equal(t, prefix, value[:len(prefix)])
			value = value[len(prefix):]
		}

		got, err := Decode(key, value)
		require.NoError(t, err)
		require.Equal(t, want, got)

		k, err := DecodeKey(key)
		require.NoError(t, err)
		require.Equal(t, want.RecordKey(), k)
		require.NoError(t, k.Check())
	})
}

func TestDecodedRecordsShareNoMemory(t *testing.T) {
	t.Parallel()
	for name, want := range golden {
		key, value := AppendKey(nil, want.RecordKey()), AppendValue(nil, want)
		got, err := Decode(key, value)
		require.NoError(t, err, name)
		for i := range key {
			key[i] = 0xff
		}
		for i := range value {
			value[i] = 0xff
		}
		assert.Equal(t, want, got, name)
	}
}
