package kfakeext

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// At no point of a compaction does a process that is killed, or a machine that
// goes down, leave anything behind but the log as it was or is.
func TestDurableLogCompactionCutShort(t *testing.T) {
	t.Parallel()
	l, s := open(t, t.TempDir())
	defer l.close()
	for i := range 10 {
		require.NoError(t, l.append([]record.Record{memberOf("g", strconv.Itoa(i%2), i), memberOf(fmt.Sprint("h", i), "m", i)}))
	}
	for i := range 9 {
		require.NoError(t, l.append([]record.Record{tombstone(memberOf(fmt.Sprint("h", i), "m", i))}))
	}
	require.NoError(t, l.setGroupConfig("g", map[string]string{"streams.num.standby.replicas": "1"}))
	check := func(point, dir, want string) {
		again, s := open(t, dir)
		defer again.close()
		require.Equal(t, want, content(t, again), point)
		require.Empty(t, s.all(), point)
		require.NoFileExists(t, filepath.Join(dir, newName), point)
	}
	l.mu.Lock()
	l.compacting = true
	l.mu.Unlock()
	before, size := content(t, l), l.end
	next, err := createLog(filepath.Join(l.dir, newName), l.live())
	require.NoError(t, err)
	written, err := os.ReadFile(next.path)
	require.NoError(t, err)
	for cut := 0; cut <= len(written); cut++ {
		dir := copyLog(t, l.dir)
		require.NoError(t, os.Truncate(filepath.Join(dir, newName), int64(cut)))
		check(fmt.Sprint("new file cut at ", cut), dir, before)
	}
	require.NoError(t, l.append([]record.Record{memberOf("g", "during", 1)}))
	during := content(t, l)
	check("written, appended to the old one", copyLog(t, l.dir), during)
	require.NoError(t, l.catchUp(next))
	check("caught up", copyLog(t, l.dir), during)
	require.NoError(t, l.append([]record.Record{memberOf("g", "late", 1)}))
	after := content(t, l)
	require.NoError(t, l.exchange(next))
	check("exchanged", copyLog(t, l.dir), after)
	require.Equal(t, after, content(t, l))
	require.Less(t, l.end, size)
	require.Equal(t, l.end, l.flushed)
	require.NoError(t, l.append([]record.Record{memberOf("g", "behind", 1)}))
	check("appended to the new one", copyLog(t, l.dir), content(t, l))
	require.Empty(t, s.all())
}

// A compaction that cannot be leaves everything as it is.
func TestDurableLogCompactionFails(t *testing.T) {
	t.Parallel()
	l, s := open(t, t.TempDir())
	defer l.close()
	require.NoError(t, l.append([]record.Record{memberOf("g", "m", 1)}))
	require.NoError(t, os.Mkdir(filepath.Join(l.dir, newName), 0o755))
	before := content(t, l)
	compact(l)
	assert.Contains(t, s.all(), "WARN compaction of "+l.path)
	require.NoError(t, l.append([]record.Record{tombstone(memberOf("g", "m", 1)), memberOf("g", "m", 1)}))
	require.NoError(t, os.Remove(filepath.Join(l.dir, newName)))
	assert.Equal(t, before, content(t, l))
	l.close()
	l, _ = open(t, l.dir)
	assert.Equal(t, before, content(t, l))
}

// The file stays in proportion to what it has to hold, however long it is
// appended to, and appends go on while it is compacted.
func TestDurableLogStaysSmall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, s := open(t, t.TempDir())
		defer func() { l.close() }()
		l.compactAbove = 1 << 12
		var largest int64
		for i := range 2000 {
			require.NoError(t, l.append([]record.Record{memberOf("g", strconv.Itoa(i%50), i)}))
			if i%100 == 0 {
				require.NoError(t, l.setGroupConfig("g", map[string]string{"streams.num.standby.replicas": strconv.Itoa(i)}))
			}
			time.Sleep(flushEvery / 8)
			l.mu.Lock()
			largest = max(largest, l.end)
			l.mu.Unlock()
		}
		synctest.Wait()
		assert.Less(t, largest, 2*l.bytes+l.compactAbove+20*100)
		want := content(t, l)
		l.close()
		assert.Empty(t, s.all())
		l, _ = open(t, l.dir)
		assert.Equal(t, want, content(t, l))
	})
}

// What is opened is compacted if it needs to be.
func TestDurableLogCompactsAtTheStart(t *testing.T) {
	t.Parallel()
	l, _ := open(t, t.TempDir())
	for i := range 3 {
		require.NoError(t, l.append([]record.Record{&record.MemberMetadata{Group: "g", Member: "m", ClientID: strings.Repeat("x", 1<<20), TopologyEpoch: int32(i)}}))
	}
	require.NoError(t, l.append([]record.Record{memberOf("g", "m", 1)}))
	want := content(t, l)
	l.close()
	l, _ = open(t, l.dir)
	defer l.close()
	assert.Less(t, l.end, int64(1000))
	assert.Equal(t, want, content(t, l))
	require.NoError(t, l.append([]record.Record{memberOf("g", "m", 2)}))
	check, _, err := openFile(t, func() []byte { data, _ := os.ReadFile(l.path); return data }())
	require.NoError(t, err)
	assert.Equal(t, content(t, l), content(t, check))
}

// Appends, flushes, compactions and the end of the log at the same time.
func TestDurableLogConcurrently(t *testing.T) {
	t.Parallel()
	l, s := open(t, t.TempDir())
	l.compactAbove = -1 << 30
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				l.flush()
			}
		}
	}()
	for i := range 500 {
		require.NoError(t, l.append([]record.Record{memberOf("g", strconv.Itoa(i%7), i)}))
	}
	want := content(t, l)
	l.close()
	close(stop)
	<-stopped
	assert.Empty(t, s.all())
	l, _ = open(t, l.dir)
	assert.Equal(t, want, content(t, l))
	l.close()
}
