package kfakeext

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

func replayed(t require.TestingT, l recordLog, group string) (out []record.Record) {
	require.NoError(t, l.replay(group, func(r record.Record) error {
		out = append(out, r)
		return nil
	}))
	return out
}

func TestLogReplaysTheLastOfEachKeyInOrder(t *testing.T) {
	t.Parallel()
	l := newMemoryLog()
	meta := func(epoch int32) record.Record {
		return &record.GroupMetadata{Group: "g", Epoch: epoch, ValidatedTopologyEpoch: -1, StoredDescriptionTopologyEpoch: -1, FailedDescriptionTopologyEpoch: -1}
	}
	member := func(id string) record.Record { return &record.MemberMetadata{Group: "g", Member: id} }
	require.NoError(t, l.append([]record.Record{member("a"), member("b"), meta(1)}))
	require.NoError(t, l.append([]record.Record{&record.GroupMetadata{Group: "other", Epoch: 9}}))
	require.NoError(t, l.append([]record.Record{member("a"), record.Tombstone{Key: member("b").RecordKey()}, meta(2)}))
	got := replayed(t, l, "g")
	require.Len(t, got, 2)
	assert.Equal(t, member("a").RecordKey(), got[0].RecordKey())
	assert.Equal(t, int32(2), got[1].(*record.GroupMetadata).Epoch)
	assert.Len(t, replayed(t, l, "other"), 1)
	assert.Empty(t, replayed(t, l, "nobody"))

	require.NoError(t, l.append([]record.Record{record.Tombstone{Key: member("a").RecordKey()}, record.Tombstone{Key: meta(0).RecordKey()}}))
	assert.False(t, l.has("g"), "nothing is left of a deleted group")
	assert.True(t, l.has("other"))
}

func TestLogAppendsAllOrNone(t *testing.T) {
	t.Parallel()
	l := newMemoryLog()
	long := strings.Repeat("m", 1<<16)
	require.Error(t, l.append([]record.Record{&record.GroupMetadata{Group: "g"}, &record.MemberMetadata{Group: "g", Member: long}}))
	assert.False(t, l.has("g"))
}

// Whatever is appended: what is replayed is the last value of each key, in the
// order of those, and the log does not grow with the number of appends.
func TestLogCompaction(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newMemoryLog()
		type entry struct {
			id    string
			epoch int32
		}
		var model []entry
		for i := range rapid.IntRange(0, 300).Draw(t, "records") {
			id := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "member")
			for j, e := range model {
				if e.id == id {
					model = append(model[:j:j], model[j+1:]...)
					break
				}
			}
			if rapid.IntRange(0, 4).Draw(t, "tombstone") == 0 {
				require.NoError(t, l.append([]record.Record{record.Tombstone{Key: record.Key{Type: record.TypeMemberMetadata, Group: "g", Member: id}}}))
				continue
			}
			require.NoError(t, l.append([]record.Record{&record.MemberMetadata{Group: "g", Member: id, TopologyEpoch: int32(i)}}))
			model = append(model, entry{id, int32(i)})
		}
		records := replayed(t, l, "g")
		got := make([]entry, 0, len(records))
		for _, r := range records {
			m := r.(*record.MemberMetadata)
			got = append(got, entry{m.Member, m.TopologyEpoch})
		}
		require.Equal(t, fmt.Sprint(append([]entry{}, model...)), fmt.Sprint(got))
		if g := l.groups["g"]; g != nil {
			require.LessOrEqual(t, len(g.entries), 2*len(model)+17)
		}
	})
}

// brokenLog fails as long as err is set.
type brokenLog struct {
	recordLog
	err error
}

func (l *brokenLog) append(records []record.Record) error {
	if l.err != nil {
		return l.err
	}
	return l.recordLog.append(records)
}

func TestV24V25V26FailedAppends(t *testing.T) {
	// rules 4-21, 4-23
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cl := Start(t, Topic("foo", 1))
		broken := &brokenLog{recordLog: cl.adapter.log}
		cl.adapter.log = broken
		client, err := kgo.NewClient(cl.KgoOpts()...)
		require.NoError(t, err)
		t.Cleanup(client.Close)
		join := kmsg.NewPtrStreamsGroupHeartbeatRequest()
		join.Group, join.MemberID, join.RebalanceTimeoutMillis = "g", "m1", 1500
		join.ActiveTasks, join.StandbyTasks, join.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		join.Topology = &kmsg.StreamsGroupHeartbeatRequestTopology{}
		for _, tt := range []struct {
			fails error
			want  *kerr.Error
		}{
			{kerr.UnknownTopicOrPartition, kerr.CoordinatorNotAvailable},
			{kerr.NotEnoughReplicas, kerr.CoordinatorNotAvailable},
			{kerr.RequestTimedOut, kerr.CoordinatorNotAvailable},
			{kerr.NotLeaderForPartition, kerr.NotCoordinator},
			{kerr.KafkaStorageError, kerr.NotCoordinator},
			{kerr.MessageTooLarge, kerr.UnknownServerError},
			{errors.New("disk on fire"), kerr.UnknownServerError},
			{nil, nil},
		} {
			broken.err = tt.fails
			resp, err := client.Broker(0).Request(t.Context(), join)
			require.NoError(t, err)
			got := kerr.ErrorForCode(resp.(*kmsg.StreamsGroupHeartbeatResponse).ErrorCode)
			if tt.want == nil {
				require.NoError(t, got)
				continue
			}
			require.ErrorIs(t, got, tt.want, "%v", tt.fails)
			_, known := cl.StreamsGroupState("g")
			assert.False(t, known, "nothing has happened")
		}
	})
}
