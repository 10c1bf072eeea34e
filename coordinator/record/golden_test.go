package record

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func ptr[T any](v T) *T { return &v }

func group(r GroupMetadata) *GroupMetadata {
	r.Group = "app"
	return &r
}

func member(r MemberMetadata) *MemberMetadata {
	r.Group, r.Member = "app", "m-1"
	return &r
}

func current(r CurrentAssignment) *CurrentAssignment {
	r.Group, r.Member = "app", "m-1"
	return &r
}

// golden are our values for the records that testdata/Golden.java builds with
// Kafka's own classes, by the same names.
var golden = map[string]Record{
	"group-tombstone":    Tombstone{Key{Type: TypeGroupMetadata, Group: "app"}},
	"group-defaults":     group(GroupMetadata{ValidatedTopologyEpoch: -1, LastAssignmentConfigs: []KeyValue{}, StoredDescriptionTopologyEpoch: -1, FailedDescriptionTopologyEpoch: -1}),
	"group-validated":    group(GroupMetadata{Epoch: 2, MetadataHash: -6148914691236517206, LastAssignmentConfigs: []KeyValue{}, StoredDescriptionTopologyEpoch: -1, FailedDescriptionTopologyEpoch: -1}),
	"group-null-configs": group(GroupMetadata{Epoch: 7, ValidatedTopologyEpoch: -1, StoredDescriptionTopologyEpoch: -1, FailedDescriptionTopologyEpoch: -1}),
	"group-all": group(GroupMetadata{
		Epoch: math.MaxInt32, MetadataHash: math.MinInt64, ValidatedTopologyEpoch: 3,
		LastAssignmentConfigs:          []KeyValue{{"num.standby.replicas", "1"}, {"rack.aware.assignment.tags", "zone,cluster"}},
		StoredDescriptionTopologyEpoch: 2, FailedDescriptionTopologyEpoch: 1,
	}),
	"group-long-configs": group(GroupMetadata{
		Epoch: 1, ValidatedTopologyEpoch: -1,
		LastAssignmentConfigs:          []KeyValue{{"k", strings.Repeat("v", 200)}, {"l", strings.Repeat("w", 300)}},
		StoredDescriptionTopologyEpoch: -1, FailedDescriptionTopologyEpoch: -1,
	}),

	"member-tombstone": Tombstone{Key{Type: TypeMemberMetadata, Group: "app", Member: "m-1"}},
	"member-nulls":     member(MemberMetadata{ClientID: "client", ClientHost: "/127.0.0.1", RebalanceTimeoutMillis: 1500, ProcessID: "p-1"}),
	"member-defaults":  member(MemberMetadata{InstanceID: ptr(""), RackID: ptr(""), RebalanceTimeoutMillis: -1}),
	"member-all": member(MemberMetadata{
		InstanceID: ptr("i-1"), RackID: ptr("rack-a"), ClientID: "cliént", ClientHost: "/10.0.0.1",
		RebalanceTimeoutMillis: 300000, TopologyEpoch: 4, ProcessID: "3f0c6a5e-9d3b-4d55-8d3e-8c6b1d2a7f10",
		UserEndpoint: &Endpoint{Host: "host.example", Port: 65535},
		ClientTags:   []KeyValue{{"cluster", "k1"}, {"zone", ""}},
	}),

	"target-metadata-tombstone": Tombstone{Key{Type: TypeTargetAssignmentMetadata, Group: "app"}},
	"target-metadata-defaults":  &TargetAssignmentMetadata{Group: "app"},
	"target-metadata-all":       &TargetAssignmentMetadata{Group: "app", AssignmentEpoch: 11, AssignmentTimestampMillis: 1767225600000},

	"target-tombstone": Tombstone{Key{Type: TypeTargetAssignment, Group: "app", Member: "m-1"}},
	"target-empty":     &TargetAssignment{Group: "app", Member: "m-1"},
	"target-all": &TargetAssignment{
		Group: "app", Member: "m-1",
		Active:  []TaskIDs{{"0", []int32{0, 1, 2}}, {"1", []int32{7}}},
		Standby: []TaskIDs{{"0", []int32{3}}},
		Warmup:  []TaskIDs{{"10", []int32{math.MaxInt32}}, {"no-partition", nil}},
	},

	"current-tombstone":      Tombstone{Key{Type: TypeCurrentAssignment, Group: "app", Member: "m-1"}},
	"current-defaults":       current(CurrentAssignment{}),
	"current-without-epochs": current(CurrentAssignment{MemberEpoch: 5, PreviousMemberEpoch: 4, Active: []ActiveTaskIDs{{Subtopology: "0", Partitions: []int32{0, 1}}}}),
	"current-null-epochs":    current(CurrentAssignment{MemberEpoch: 5, Active: []ActiveTaskIDs{{Subtopology: "0", Partitions: []int32{0, 1}}}}),
	"current-empty-epochs":   current(CurrentAssignment{MemberEpoch: 5, Active: []ActiveTaskIDs{{Subtopology: "0", Partitions: []int32{0, 1}}}}),
	"current-absent-static":  current(CurrentAssignment{MemberEpoch: -2, PreviousMemberEpoch: 9}),
	"current-all": current(CurrentAssignment{
		MemberEpoch: 11, PreviousMemberEpoch: 10, State: 2,
		Active:                   []ActiveTaskIDs{{"0", []int32{0, 1}, []int32{10, 11}}, {"1", []int32{4}, []int32{3}}},
		Standby:                  []TaskIDs{{"0", []int32{2}}},
		Warmup:                   []TaskIDs{{"0", []int32{3}}},
		ActivePendingRevocation:  []ActiveTaskIDs{{"0", []int32{4, 5}, []int32{8, 9}}},
		StandbyPendingRevocation: []TaskIDs{{"1", []int32{0}}},
		WarmupPendingRevocation:  []TaskIDs{{"1", []int32{1}}},
	}),

	"topology-tombstone": Tombstone{Key{Type: TypeTopology, Group: "app"}},
	"topology-empty":     &Topology{Group: "app"},
	"topology-all":       sampleTopology(),
}

func sampleTopology() *Topology {
	return &Topology{
		Group: "app", Epoch: 3,
		Subtopologies: []Subtopology{
			{
				ID: "0", SourceTopics: []string{"lines", "more-lines"}, SourceTopicRegex: []string{"in-.*"},
				RepartitionSinkTopics: []string{"app-words-repartition"},
			},
			{
				ID: "1", SourceTopics: []string{"users"},
				StateChangelogTopics: []TopicInfo{{
					Name: "app-counts-changelog", ReplicationFactor: -1,
					Configs: []KeyValue{{"cleanup.policy", "compact"}, {"segment.bytes", "52428800"}},
				}},
				RepartitionSourceTopics: []TopicInfo{{Name: "app-words-repartition", Partitions: 6, ReplicationFactor: 3}},
				CopartitionGroups: []CopartitionGroup{
					{SourceTopics: []int16{0}, SourceTopicRegex: []int16{math.MaxInt16}, RepartitionSourceTopics: []int16{0}},
					{},
				},
			},
		},
	}
}

type encoded struct {
	name       string
	key, value []byte // value nil for null
}

func readGolden(tb testing.TB) []encoded {
	tb.Helper()
	b, err := os.ReadFile("testdata/golden.txt")
	require.NoError(tb, err)
	var list []encoded
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		require.Len(tb, f, 3)
		e := encoded{name: f[0]}
		e.key, err = hex.DecodeString(f[1])
		require.NoError(tb, err)
		if f[2] != "-" {
			e.value, err = hex.DecodeString(f[2])
			require.NoError(tb, err)
		}
		list = append(list, e)
	}
	return list
}

// notWritten are encodings that Kafka's classes can produce and we read, but
// never write: null assignment epochs.
var notWritten = map[string]bool{"current-null-epochs": true}

func TestGoldenBytesOfKafka(t *testing.T) {
	// rules 24-17, 24-19, 24-20, 24-21, 24-22, 24-23
	t.Parallel()
	list := readGolden(t)
	require.Len(t, list, len(golden))
	for _, e := range list {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			want, ok := golden[e.name]
			require.True(t, ok, "no value of ours for this record")

			got, err := Decode(e.key, e.value)
			require.NoError(t, err)
			assert.Equal(t, want, got)

			assert.Equal(t, e.key, AppendKey(nil, want.RecordKey()))
			if !notWritten[e.name] {
				assert.Equal(t, e.value, AppendValue(nil, want))
			}
		})
	}
}
