package kfakeext

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// ErrDataDirInUse is that another cluster, in this process or another one, has
// the data directory.
var ErrDataDirInUse = errors.New("kfakeext: the data directory belongs to a cluster that runs: close that one first, or use another directory")

const (
	logName  = "streams_groups.log"
	lockName = "streams_groups.lock"
	newName  = logName + ".tmp"

	// flushEvery is how long something that has been answered may be in memory
	// of the system only. A process that is killed loses nothing, a machine
	// that goes down at most this.
	flushEvery = time.Second
)

// durableLog is a memoryLog whose content is also in a file, so that it is
// there when a process is started again. What is appended is handed to the
// system with one write before append returns. It is on disk a second later,
// which no append waits for: kfake stands still as long as a control function
// runs.
type durableLog struct {
	*memoryLog // changed with mu held, on top of the lock of the adapter

	dir, path string
	logf      func(level kgo.LogLevel, format string, args ...any)
	lock      *os.File
	// compactAbove is how many bytes of what nobody needs the file may hold, in
	// addition to as many as it needs.
	compactAbove int64

	// flushing is held while the file is flushed or exchanged for another one.
	// It is taken before mu, never with mu held.
	flushing sync.Mutex
	compacts sync.WaitGroup

	mu      sync.Mutex
	file    logFile
	end     int64 // of the file
	flushed int64 // how much of the file is known to be on disk
	broken  error // why nothing can be appended
	failing bool  // the last write did not succeed
	closed  bool
	timer   *time.Timer // armed if there is something to flush
	batch   []byte
	// settings are the entries that are no records. Keys begin with the kind.
	settings *groupLog
	// While a compaction writes the new file: what it does not have yet.
	compacting bool
	behind     []entry
	retryAt    int64 // size at which a compaction that failed is tried again
}

// logFile is what is needed of an [os.File].
type logFile interface {
	WriteAt(p []byte, off int64) (int, error)
	Truncate(size int64) error
	Sync() error
	Close() error
}

// storageError says that something could not be kept. It answers a request with
// COORDINATOR_NOT_AVAILABLE: the client is to try again, here or elsewhere.
type storageError struct {
	path, what string
	err        error
}

func (e *storageError) Error() string {
	return fmt.Sprintf("kfakeext: %s: %s: %v", e.path, e.what, e.err)
}

// Unwrap tells the coordinator what the failure is to clients, in the terms of a
// broker: what was appended is not safe.
func (e *storageError) Unwrap() []error { return []error{e.err, kerr.NotEnoughReplicasAfterAppend} }

// openDurableLog opens the log in a directory, or makes one. Nobody else can
// have it until it is closed.
func openDurableLog(dir string, logf func(kgo.LogLevel, string, ...any)) (_ *durableLog, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("kfakeext: data directory: %w", err)
	}
	lock, err := lockFile(filepath.Join(dir, lockName))
	if errors.Is(err, ErrDataDirInUse) {
		return nil, fmt.Errorf("%w (%s)", err, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("kfakeext: data directory: %w", err)
	}
	l := &durableLog{
		memoryLog: newMemoryLog(), dir: dir, path: filepath.Join(dir, logName), logf: logf, lock: lock,
		compactAbove: 1 << 20,
		settings:     &groupLog{last: make(map[string]int)},
	}
	defer func() {
		if err != nil {
			if l.file != nil {
				_ = l.file.Close()
			}
			_ = lock.Close()
		}
	}()
	if err := os.Remove(filepath.Join(dir, newName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("kfakeext: data directory: %w", err) // a compaction was cut short
	}
	content, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := l.rewrite(); err != nil {
			return nil, fmt.Errorf("kfakeext: data directory: %w", err)
		}
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("kfakeext: data directory: %w", err)
	}
	if err := l.read(content); err != nil {
		return nil, err
	}
	if l.garbage() {
		if err := l.rewrite(); err != nil {
			l.logf(kgo.LogLevelWarn, "compaction of %s: %v", l.path, err)
		}
	}
	return l, nil
}

// read takes over what the file holds, and cuts off what is not whole.
func (l *durableLog) read(content []byte) error {
	var bad error
	c, err := readLog(l.path, content, func(e entry) {
		if err := l.take(e); err != nil && bad == nil {
			bad = err
		}
	})
	if err == nil {
		err = bad
	}
	if err == nil {
		err = l.check()
	}
	if err != nil {
		return err
	}
	file, err := os.OpenFile(l.path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("kfakeext: data directory: %w", err)
	}
	l.file, l.end = file, c.end
	if c.torn != "" {
		l.logf(kgo.LogLevelWarn, "%s: %s: cutting off the last %d bytes, from byte %d on (%d whole batches behind it): they were not on disk when the machine went down",
			l.path, c.torn, int64(len(content))-c.end, c.end, c.lost)
		if err := file.Truncate(c.end); err != nil {
			return fmt.Errorf("kfakeext: data directory: %w", err)
		}
	}
	// What a killed process wrote may be in memory of the system only.
	if err := file.Sync(); err != nil {
		return fmt.Errorf("kfakeext: data directory: %w", err)
	}
	l.flushed = l.end
	return nil
}

// take makes an entry part of what is in memory.
func (l *durableLog) take(e entry) error {
	switch e.kind {
	case recordEntry:
		key, err := record.DecodeKey(e.key)
		if err != nil {
			return fmt.Errorf("kfakeext: %s: %w", l.path, err)
		}
		l.put(key.Group, e.key, e.value)
	case groupConfigEntry, brokerConfigEntry:
		l.bytes += l.settings.put(0, append([]byte{byte(e.kind)}, e.key...), e.value)
	}
	return nil
}

// configs returns what was configured at run time: the overrides of groups and
// the configs of brokers.
func (l *durableLog) configs() (groups map[string]map[string]string, broker map[string]string, err error) {
	groups, broker = make(map[string]map[string]string), make(map[string]string)
	for _, e := range l.settings.entries {
		switch {
		case e.key == nil:
		case entryKind(e.key[0]) == brokerConfigEntry:
			broker[string(e.key[1:])] = string(e.value)
		default:
			settings, ok := readSettings(e.value)
			if !ok {
				return nil, nil, fmt.Errorf("kfakeext: %s: the configs of group %q cannot be read", l.path, e.key[1:])
			}
			groups[string(e.key[1:])] = settings
		}
	}
	return groups, broker, nil
}

// check is whether everything can be read, so that no group is found to be half
// readable later on.
func (l *durableLog) check() error {
	if _, _, err := l.configs(); err != nil {
		return err
	}
	for _, group := range l.names() {
		if err := l.replay(group, func(record.Record) error { return nil }); err != nil {
			return fmt.Errorf("%w (in %s)", err, l.path)
		}
	}
	return nil
}

func (l *durableLog) append(records []record.Record) error {
	if err := checkKeys(records); err != nil {
		return err
	}
	entries := make([]entry, len(records))
	for i, r := range records {
		entries[i] = entry{recordEntry, record.AppendKey(nil, r.RecordKey()), record.AppendValue(nil, r)}
	}
	return l.write(entries)
}

func (l *durableLog) setGroupConfig(group string, overrides map[string]string) error {
	e := entry{kind: groupConfigEntry, key: []byte(group)}
	if len(overrides) > 0 {
		e.value = appendSettings([]byte{}, slices.Sorted(maps.Keys(overrides)), overrides)
	}
	return l.write([]entry{e})
}

func (l *durableLog) setBrokerConfig(name string, value *string) error {
	e := entry{kind: brokerConfigEntry, key: []byte(name)}
	if value != nil {
		e.value = []byte(*value)
	}
	return l.write([]entry{e})
}

// write appends entries to the file and then to what is in memory: all of them
// or, if the error is not nil, none.
func (l *durableLog) write(entries []entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return &storageError{l.path, "append", fs.ErrClosed}
	case l.broken != nil:
		return l.broken
	}
	l.batch = startBatch(l.batch)
	for _, e := range entries {
		l.batch = appendEntry(l.batch, e)
	}
	if len(l.batch)-batchHeader > maxBatch {
		return fmt.Errorf("kfakeext: %s: append of %d bytes: %w", l.path, len(l.batch), kerr.MessageTooLarge)
	}
	sealBatch(l.batch, l.end, l.flushed)
	if _, err := l.file.WriteAt(l.batch, l.end); err != nil {
		return l.failed(err)
	}
	l.failing = false
	l.end += int64(len(l.batch))
	if cap(l.batch) > 1<<20 {
		l.batch = nil
	}
	for _, e := range entries {
		if err := l.take(e); err != nil { // of what has been encoded just now
			return err
		}
	}
	if l.compacting {
		l.behind = append(l.behind, entries...)
	}
	l.arm()
	return nil
}

// failed takes back a write that did not succeed, on a full disk for example.
func (l *durableLog) failed(err error) error {
	failure := &storageError{l.path, "append", err}
	if !l.failing {
		l.failing = true
		l.logf(kgo.LogLevelError, "%v: nothing is changed until this succeeds again", failure)
	}
	if err := l.file.Truncate(l.end); err != nil {
		l.breakOff(&storageError{l.path, "take back an append that failed", err})
	}
	return failure
}

// breakOff ends all appends: what the file will hold is not known any more.
func (l *durableLog) breakOff(err error) {
	if l.broken == nil {
		l.broken = err
		l.logf(kgo.LogLevelError, "%v: streams groups stand still until the cluster is started again", err)
	}
}

// close flushes what there is and gives the directory free.
func (l *durableLog) close() {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	l.compacts.Wait()

	l.flushing.Lock()
	defer l.flushing.Unlock()
	if l.end > l.flushed {
		if err := l.file.Sync(); err != nil {
			l.logf(kgo.LogLevelError, "%v", &storageError{l.path, "flush", err})
		}
	}
	_ = l.file.Close()
	_ = l.lock.Close()
}
