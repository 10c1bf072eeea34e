package kfakeext

import (
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// faultyFile fails on demand.
type faultyFile struct {
	logFile
	room         int // how much of a write succeeds, below 0 for all
	failTruncate error
	failSync     error
	syncs        atomic.Int32
	hold         chan struct{} // if not nil, Sync waits for it
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	if f.room >= 0 && f.room < len(p) {
		n, _ := f.logFile.WriteAt(p[:f.room], off)
		return n, syscall.ENOSPC
	}
	return f.logFile.WriteAt(p, off)
}

func (f *faultyFile) Truncate(size int64) error {
	if f.failTruncate != nil {
		return f.failTruncate
	}
	return f.logFile.Truncate(size)
}

func (f *faultyFile) Sync() error {
	f.syncs.Add(1)
	if f.hold != nil {
		<-f.hold
	}
	if f.failSync != nil {
		return f.failSync
	}
	return f.logFile.Sync()
}

func openFaulty(t *testing.T) (*durableLog, *faultyFile, *said) {
	t.Helper()
	l, s := open(t, t.TempDir())
	t.Cleanup(l.close)
	f := &faultyFile{logFile: l.file, room: -1}
	l.file = f
	return l, f, s
}

// Of a write that fails, nothing stays: not in memory and not in the file,
// however much of it had been written.
func TestDurableLogOnAFullDisk(t *testing.T) {
	t.Parallel()
	l, f, s := openFaulty(t)
	require.NoError(t, l.append([]record.Record{memberOf("g", "m", 1)}))
	before, size := content(t, l), l.end
	next := []record.Record{memberOf("g", "m", 2), memberOf("h", "m", 2)}
	for room := range 2 * batchHeader {
		f.room = room
		err := l.append(next)
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorIs(t, err, kerr.NotEnoughReplicasAfterAppend)
		require.Equal(t, before, content(t, l))
		info, err := os.Stat(l.path)
		require.NoError(t, err)
		require.Equal(t, size, info.Size())
		require.Error(t, l.setGroupConfig(strings.Repeat("g", 100), nil))
	}
	assert.Equal(t, 1, strings.Count(s.all(), "ERROR"), "said once: %s", s.all())
	f.room = -1
	require.NoError(t, l.append(next))
	after := content(t, l)
	l.close()
	l, _ = open(t, l.dir)
	assert.Equal(t, after, content(t, l))
	l.close()
}

func TestDurableLogThatCannotTakeBack(t *testing.T) {
	t.Parallel()
	l, f, s := openFaulty(t)
	require.NoError(t, l.append([]record.Record{memberOf("g", "m", 1)}))
	before := content(t, l)
	f.room, f.failTruncate = 40, syscall.EIO
	require.ErrorIs(t, l.append([]record.Record{memberOf("g", "m", 2)}), syscall.ENOSPC)
	f.room = -1
	require.ErrorIs(t, l.append([]record.Record{memberOf("g", "m", 2)}), syscall.EIO)
	assert.Contains(t, s.all(), "stand still")
	l.close()
	l, _ = open(t, l.dir)
	assert.Equal(t, before, content(t, l), "what was written in part is cut off")
	l.close()
}

// What cannot be kept is not done: neither a heartbeat nor a change of configs.
func TestFullDiskIsNotSeenAsSuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cl := Start(t, Topic("foo", 1), DataDir(t.TempDir()))
		l := cl.adapter.log.(*durableLog)
		f := &faultyFile{logFile: l.file, room: 0}
		l.file = f
		client, err := kgo.NewClient(cl.KgoOpts()...)
		require.NoError(t, err)
		t.Cleanup(client.Close)
		join := kmsg.NewPtrStreamsGroupHeartbeatRequest()
		join.Group, join.MemberID, join.RebalanceTimeoutMillis = "g", "m1", 1500
		join.ActiveTasks, join.StandbyTasks, join.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		join.Topology = &kmsg.StreamsGroupHeartbeatRequestTopology{}
		alter := func(kind kmsg.ConfigResourceType, resource, name, value string) *kmsg.IncrementalAlterConfigsRequest {
			req := kmsg.NewPtrIncrementalAlterConfigsRequest()
			r := kmsg.NewIncrementalAlterConfigsRequestResource()
			r.ResourceType, r.ResourceName = kind, resource
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			c.Name, c.Value = name, &value
			r.Configs = append(r.Configs, c)
			req.Resources = append(req.Resources, r)
			return req
		}
		ask := func(req kmsg.Request) error {
			resp, err := client.Broker(0).Request(t.Context(), req)
			require.NoError(t, err)
			switch r := resp.(type) {
			case *kmsg.StreamsGroupHeartbeatResponse:
				return kerr.ErrorForCode(r.ErrorCode)
			case *kmsg.IncrementalAlterConfigsResponse:
				return kerr.ErrorForCode(r.Resources[0].ErrorCode)
			}
			return nil
		}
		group := alter(kmsg.ConfigResourceTypeGroupConfig, "g", "streams.num.standby.replicas", "1")
		broker := alter(kmsg.ConfigResourceTypeBroker, "", "group.streams.assignment.interval.ms", "5")
		require.ErrorIs(t, ask(join), kerr.CoordinatorNotAvailable)
		_, known := cl.StreamsGroupState("g")
		assert.False(t, known)
		require.ErrorIs(t, ask(group), kerr.KafkaStorageError)
		require.ErrorIs(t, ask(broker), kerr.KafkaStorageError)
		require.ErrorIs(t, cl.SetGroupConfig("g", map[string]string{"streams.num.standby.replicas": "1"}), syscall.ENOSPC)
		assert.Empty(t, cl.adapter.core.GroupOverrides("g"))
		f.room = -1
		require.NoError(t, ask(join))
		require.NoError(t, ask(group))
		require.NoError(t, ask(broker))
		groups, brokers, err := l.configs()
		require.NoError(t, err)
		assert.Equal(t, map[string]map[string]string{"g": {"streams.num.standby.replicas": "1"}}, groups)
		assert.Equal(t, map[string]string{"group.streams.assignment.interval.ms": "5"}, brokers)
	})
}

// Nothing is pretended after a flush that failed.
func TestDurableLogFlushFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, f, s := openFaulty(t)
		f.failSync = syscall.EIO
		require.NoError(t, l.append([]record.Record{memberOf("g", "m", 1)}))
		time.Sleep(flushEvery)
		synctest.Wait()
		err := l.append([]record.Record{memberOf("g", "m", 2)})
		require.ErrorIs(t, err, syscall.EIO)
		require.ErrorIs(t, err, kerr.NotEnoughReplicasAfterAppend)
		assert.Equal(t, 1, strings.Count(s.all(), "ERROR"), s.all())
		f.failSync = nil
		time.Sleep(time.Hour)
		require.Error(t, l.append([]record.Record{memberOf("g", "m", 2)}), "for good")
		assert.EqualValues(t, 1, f.syncs.Load())
	})
}

// Whatever is appended is on disk a second later; where nothing is, nothing runs.
func TestDurableLogFlushesEachSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, f, _ := openFaulty(t)
		time.Sleep(time.Hour)
		assert.Zero(t, f.syncs.Load())
		for i := range 5 {
			require.NoError(t, l.append([]record.Record{memberOf("g", "m", i)}))
			time.Sleep(flushEvery / 5)
		}
		synctest.Wait()
		assert.EqualValues(t, 1, f.syncs.Load())
		assert.Equal(t, l.end, l.flushed)
		time.Sleep(time.Hour)
		assert.EqualValues(t, 1, f.syncs.Load())
		require.NoError(t, l.append([]record.Record{memberOf("g", "m", 9)}))
		l.close()
		assert.EqualValues(t, 2, f.syncs.Load(), "flushed on close")
	})
}

// kfake stands still while something is appended, so that must not wait for the
// disk.
func TestAppendDoesNotWaitForAFlush(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, f, _ := openFaulty(t)
		f.hold = make(chan struct{})
		require.NoError(t, l.append([]record.Record{memberOf("g", "m", 1)}))
		time.Sleep(flushEvery)
		synctest.Wait() // in Sync, for as long as we like
		for i := range 10 {
			require.NoError(t, l.append([]record.Record{memberOf("g", "m", i)}))
		}
		assert.Less(t, l.flushed, l.end)
		close(f.hold)
		time.Sleep(flushEvery)
		synctest.Wait()
		assert.Equal(t, l.end, l.flushed)
		assert.EqualValues(t, 2, f.syncs.Load())
	})
}
