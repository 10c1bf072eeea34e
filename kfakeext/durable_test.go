package kfakeext

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// said collects what a log has to say.
type said struct {
	mu    sync.Mutex
	lines []string
}

func (s *said) logf(level kgo.LogLevel, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, level.String()+" "+fmt.Sprintf(format, args...))
}

func (s *said) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

func open(t require.TestingT, dir string) (*durableLog, *said) {
	var s said
	l, err := openDurableLog(dir, s.logf)
	require.NoError(t, err)
	return l, &s
}

// content is everything that a log holds, as text.
func content(t require.TestingT, l recordLog) string {
	var b strings.Builder
	for _, group := range l.names() {
		require.NoError(t, l.replay(group, func(r record.Record) error {
			fmt.Fprintf(&b, "%s %x %x\n", group, record.AppendKey(nil, r.RecordKey()), record.AppendValue(nil, r))
			return nil
		}))
	}
	groups, broker, err := l.configs()
	require.NoError(t, err)
	fmt.Fprint(&b, groups, broker) // maps print sorted
	return b.String()
}

func memberOf(group, id string, n int) record.Record {
	return &record.MemberMetadata{Group: group, Member: id, TopologyEpoch: int32(n), ClientID: strings.Repeat("x", n%40)}
}

func tombstone(r record.Record) record.Record { return record.Tombstone{Key: r.RecordKey()} }

func copyLog(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range []string{logName, newName} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, name), data, 0o644))
	}
	return to
}

// Whatever happens to a log, when it is opened again it holds the same.
func TestDurableLogHoldsWhatTheMemoryLogHolds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		_ = os.Remove(filepath.Join(dir, logName))
		l, _ := open(t, dir)
		defer func() { l.close() }()
		memory := newMemoryLog()
		groups, broker := make(map[string]map[string]string), make(map[string]string)
		expected := func() string {
			none := fmt.Sprint(map[string]string{}, map[string]string{})
			return strings.TrimSuffix(content(t, memory), none) + fmt.Sprint(groups, broker)
		}
		group := rapid.SampledFrom([]string{"a", "b", "c"})
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				l.close()
				l, _ = open(t, dir)
			case 1:
				compact(l)
			case 2:
				l.compactAbove = -1 << 20
				l.flush()
			case 3:
				g, n := group.Draw(t, "group"), rapid.IntRange(0, 3).Draw(t, "configs")
				settings := make(map[string]string)
				for j := range n {
					settings[fmt.Sprint("streams.", j)] = strconv.Itoa(i)
				}
				require.NoError(t, l.setGroupConfig(g, settings))
				if groups[g] = settings; n == 0 {
					delete(groups, g)
				}
			case 4:
				value := new(strconv.Itoa(i))
				if i%2 == 0 {
					value = nil
				}
				require.NoError(t, l.setBrokerConfig("b", value))
				if broker["b"] = strconv.Itoa(i); value == nil {
					delete(broker, "b")
				}
			default:
				var records []record.Record
				for range rapid.IntRange(1, 4).Draw(t, "records") {
					r := memberOf(group.Draw(t, "group"), rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "member"), i)
					if rapid.IntRange(0, 3).Draw(t, "tombstone") == 0 {
						r = tombstone(r)
					}
					records = append(records, r)
				}
				require.NoError(t, l.append(records))
				require.NoError(t, memory.append(records))
			}
			require.Equal(t, expected(), content(t, l))
		}
		l.close()
		require.Equal(t, memory.bytes, l.bytes-l.settingsBytes())
		l, _ = open(t, dir)
		require.Equal(t, expected(), content(t, l))
	})
}

// compact compacts a log now, and no other compaction runs meanwhile.
func compact(l *durableLog) {
	l.compacts.Wait()
	l.mu.Lock()
	l.compacting = true
	l.mu.Unlock()
	l.compact()
}

func (l *durableLog) settingsBytes() (n int64) {
	for _, e := range l.settings.entries {
		if e.key != nil {
			n += e.size()
		}
	}
	return n
}

// story writes a log of some batches and returns the file, where each batch
// ends, and what the log held at those points.
func story(t testing.TB, flushAfter int) (file []byte, ends []int64, states []string) {
	t.Helper()
	dir := t.TempDir()
	l, _ := open(t, dir)
	defer l.close()
	note := func() {
		ends, states = append(ends, l.end), append(states, content(t, l))
		if len(ends)-1 == flushAfter {
			l.flush()
		}
	}
	note()
	for i := range 4 {
		records := []record.Record{memberOf("g", fmt.Sprint("m", i%3), i)}
		if i == 3 {
			records = append(records, tombstone(memberOf("g", "m0", 0)))
		}
		require.NoError(t, l.append(records))
		note()
		if i == 2 {
			require.NoError(t, l.setGroupConfig("g", map[string]string{"streams.num.standby.replicas": "1"}))
			note()
		}
	}
	file, err := os.ReadFile(filepath.Join(dir, logName))
	require.NoError(t, err)
	return file, ends, states
}

func openFile(t testing.TB, file []byte) (*durableLog, *said, error) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, logName), file, 0o644))
	var s said
	l, err := openDurableLog(dir, s.logf)
	if err == nil {
		t.Cleanup(l.close)
	}
	return l, &s, err
}

// whole is how many of the batches are whole in front of an offset.
func whole(ends []int64, offset int64) (n int) {
	for n+1 < len(ends) && ends[n+1] <= offset {
		n++
	}
	return n
}

// A machine that goes down leaves any beginning of the file: the log goes on
// with the last whole batch.
func TestDurableLogCutAtEachByte(t *testing.T) {
	t.Parallel()
	file, ends, states := story(t, 0)
	for cut := range file {
		l, s, err := openFile(t, file[:cut])
		if cut < logHeaderSize { // which is on disk before the file has its name
			corrupt := (*CorruptLogError)(nil)
			require.ErrorAs(t, err, &corrupt)
			continue
		}
		require.NoError(t, err, "cut at %d", cut)
		n := whole(ends, int64(cut))
		require.Equal(t, states[n], content(t, l), "cut at %d", cut)
		require.Equal(t, ends[n] != int64(cut), strings.Contains(s.all(), "WARN"), s.all())
		if cut%5 > 0 { // each opened log costs a flush
			l.close()
			continue
		}
		require.NoError(t, l.append([]record.Record{memberOf("later", "m", 1)}))
		want := content(t, l)
		l.close()
		again, s := open(t, l.dir)
		require.Equal(t, want, content(t, again), "cut at %d", cut)
		require.Empty(t, s.all())
		again.close()
	}
}

// Blocks of a file may reach the disk in any order. What was not flushed may be
// broken anywhere when the machine has gone down.
func TestDurableLogBrokenAtEachByte(t *testing.T) {
	t.Parallel()
	const flushedBatches = 3
	for _, flushAfter := range []int{0, flushedBatches} {
		file, ends, states := story(t, flushAfter)
		for at := logHeaderSize; at < len(file); at++ {
			broken := append([]byte(nil), file...)
			broken[at] ^= 0x55
			n := whole(ends, int64(at))
			l, s, err := openFile(t, broken)
			// The first batch that says how much was flushed comes after the flush.
			if flushAfter > 0 && n < flushedBatches {
				corrupt := (*CorruptLogError)(nil)
				require.ErrorAs(t, err, &corrupt, "broken at %d", at)
				assert.Equal(t, ends[n], corrupt.Offset)
				assert.True(t, strings.HasSuffix(corrupt.File, logName), corrupt.File)
				assert.Contains(t, err.Error(), fmt.Sprintf("on disk up to byte %d", ends[flushAfter]))
				continue
			}
			require.NoError(t, err, "broken at %d", at)
			require.Equal(t, states[n], content(t, l), "broken at %d", at)
			require.Contains(t, s.all(), fmt.Sprintf("from byte %d on (%d whole batches behind it)", ends[n], len(ends)-2-n), "broken at %d", at)
		}
	}
}

func TestDurableLogDamage(t *testing.T) {
	t.Parallel()
	file, ends, states := story(t, 2)
	header := func(change func(h []byte)) []byte {
		h := append([]byte(nil), file...)
		change(h)
		copy(h, appendHeaderVersion(h))
		return h
	}
	compacted := func() []byte {
		l, _, err := openFile(t, file)
		require.NoError(t, err)
		compact(l)
		l.close()
		data, err := os.ReadFile(l.path)
		require.NoError(t, err)
		return data
	}()
	batch := func(payload ...byte) []byte {
		b := append(startBatch(nil), payload...)
		sealBatch(b, int64(len(file)), 0)
		return append(append([]byte(nil), file...), b...)
	}
	for name, c := range map[string]struct {
		file []byte
		says string // empty if the log can be opened
	}{
		"empty":                    {nil, "does not start as such a log does"},
		"something else":           {[]byte(strings.Repeat("ssh-rsa AAAA", 10)), "does not start as such a log does"},
		"header":                   {append([]byte(logMagic+"xxxx"), file[12:]...), "checksum of the header"},
		"newer":                    {header(func(h []byte) { h[11] = 2 }), "version 2"},
		"zeros at the end":         {append(append([]byte(nil), file...), make([]byte, 5000)...), ""},
		"more at the end":          {append(append([]byte(nil), file...), file[logHeaderSize:]...), ""},
		"compacted part cut":       {compacted[:len(compacted)-1], "on disk up to byte"},
		"compacted part short":     {compacted[:logHeaderSize], "were on disk"},
		"unknown kind":             {batch(9, 1, 'k', 0), "kind 9"},
		"key too long":             {batch(0, 200), "a key is longer"},
		"value too long":           {batch(0, 1, 'k', 200), "a value is longer"},
		"key of another group":     {batch(0, 2, 0, 3, 0), "record: key type 3"},
		"value that is none":       {batch(append(append([]byte{0, 5}, 0, 17, 0, 1, 'g'), 2, 0)...), `replay of group "g"`},
		"configs that are none":    {batch(1, 1, 'g', 2, 9), `configs of group "g"`},
		"a batch that is too long": {append(append([]byte(nil), file...), func() []byte { b := batch(0)[len(file):]; binary.BigEndian.PutUint32(b[16:], 1<<31); return b }()...), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, _, err := openFile(t, c.file)
			if c.says == "" {
				require.NoError(t, err)
				assert.Equal(t, states[len(ends)-1], content(t, l))
				assert.Equal(t, ends[len(ends)-1], l.end)
				return
			}
			require.ErrorContains(t, err, c.says)
			assert.ErrorContains(t, err, logName)
		})
	}
}

// appendHeaderVersion is the header with the checksum that it should have.
func appendHeaderVersion(h []byte) []byte {
	version, base := binary.BigEndian.Uint32(h[8:]), int64(binary.BigEndian.Uint64(h[12:]))
	good := appendHeader(nil, base)
	if version == logVersion {
		return good
	}
	h = append([]byte(nil), h[:logHeaderSize-4]...)
	return binary.BigEndian.AppendUint32(h, crc32.Checksum(h, castagnoli))
}

// hostileLog is a file in which a batch seems to start every few bytes, each as
// long as the rest of the file.
func hostileLog(batches int) []byte {
	file := appendHeader(nil, 0)
	end := logHeaderSize + batches*batchHeader
	for range batches {
		at := len(file)
		file = binary.BigEndian.AppendUint64(file, uint64(at))
		file = binary.BigEndian.AppendUint64(file, 0)
		file = binary.BigEndian.AppendUint32(file, uint32(end-at-batchHeader))
		file = binary.BigEndian.AppendUint32(file, 0)
	}
	return file
}

// No content has the checksums of all that may be a batch computed over and over.
func TestDurableLogOfHostileContent(t *testing.T) {
	t.Parallel()
	_, err := readLog("file", hostileLog(100_000), func(entry) {})
	require.ErrorContains(t, err, "looks like nothing that this program writes")
}

func TestDataDirInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, s := open(t, dir)
	_, err := openDurableLog(dir, s.logf)
	require.ErrorIs(t, err, ErrDataDirInUse)
	assert.ErrorContains(t, err, dir)
	l.close()
	l.close()
	l, _ = open(t, dir)
	l.close()
	require.ErrorIs(t, l.append([]record.Record{memberOf("g", "m", 1)}), os.ErrClosed)

	_, err = openDurableLog(filepath.Join(dir, logName, "below"), s.logf)
	require.ErrorContains(t, err, logName)
}

// Whatever bytes a file has, it is opened or refused, at a cost in proportion to
// it.
func FuzzOpenLog(f *testing.F) {
	file, _, _ := story(f, 2)
	f.Add(file)
	f.Add(file[:len(file)-3])
	f.Add([]byte(logMagic))
	f.Add(append(file[:len(file):len(file)], make([]byte, 100)...))
	middle := append([]byte(nil), file...)
	middle[logHeaderSize+batchHeader]++
	f.Add(middle)
	f.Add(appendEntry(nil, entry{recordEntry, []byte{0, 17, 0, 1, 'g'}, []byte{}}))
	f.Add(appendEntry(nil, entry{groupConfigEntry, []byte("g"), []byte{1, 'k', 1, 'v'}}))
	f.Add(hostileLog(200))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, data := range [][]byte{data, append(appendHeader(nil, 0), data...), append(appendHeader(nil, logHeaderSize), reseal(data)...)} {
			l := &durableLog{memoryLog: newMemoryLog(), settings: &groupLog{last: make(map[string]int)}}
			total := 0
			c, err := readLog("file", data, func(e entry) {
				total += len(e.key) + len(e.value)
				_ = l.take(e)
			})
			if total > len(data) {
				t.Fatalf("%d bytes of entries out of %d", total, len(data))
			}
			if err != nil {
				corrupt := (*CorruptLogError)(nil)
				require.ErrorAs(t, err, &corrupt)
				continue
			}
			require.LessOrEqual(t, c.end, int64(len(data)))
			require.GreaterOrEqual(t, c.end, int64(logHeaderSize))
			if l.check() == nil {
				_ = l.live()
			}
			again, err := readLog("file", data[:c.end], func(entry) {})
			require.NoError(t, err)
			require.Equal(t, logFileContent{end: c.end}, again)
		}
	})
}

// reseal makes a batch out of bytes, so that fuzzing gets past the checksum.
func reseal(data []byte) []byte {
	batch := append(startBatch(nil), data...)
	sealBatch(batch, logHeaderSize, 0)
	return batch
}

func BenchmarkDurableAppend(b *testing.B) {
	l, _ := open(b, b.TempDir())
	defer l.close()
	records := []record.Record{&record.CurrentAssignment{Group: "g", Member: "member", Active: []record.ActiveTaskIDs{{Subtopology: "0", Partitions: []int32{1, 2, 3}, Epochs: []int32{1, 1, 1}}}}}
	b.ReportAllocs()
	for b.Loop() {
		if err := l.append(records); err != nil {
			b.Fatal(err)
		}
	}
}
