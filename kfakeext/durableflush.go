package kfakeext

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// arm sees to it that what has been appended is flushed. mu is held. There is
// no timer, and no goroutine, while there is nothing to flush.
func (l *durableLog) arm() {
	if l.timer == nil && !l.closed && l.broken == nil {
		l.timer = time.AfterFunc(flushEvery, l.flush)
	}
}

// flush writes the file out to disk. If that fails, nothing is appended any
// more: the system may have dropped what it could not write, and a later flush
// would succeed without it.
func (l *durableLog) flush() {
	l.flushing.Lock()
	defer l.flushing.Unlock()
	l.mu.Lock()
	l.timer = nil
	file, end := l.file, l.end
	done := l.closed || l.broken != nil || end <= l.flushed
	l.mu.Unlock()
	if done {
		return
	}
	err := file.Sync()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.breakOff(&storageError{l.path, "flush", err})
		return
	}
	l.flushed = end
	if !l.closed && !l.compacting && l.garbage() && l.end >= l.retryAt {
		l.compacting = true
		l.compacts.Go(l.compact)
	}
}

// garbage is whether most of the file is what nobody needs. mu is held.
func (l *durableLog) garbage() bool { return l.end > 2*l.bytes+l.compactAbove }

// live returns what the file has to hold at least, in an order in which it can
// be replayed. mu is held.
func (l *durableLog) live() []entry {
	var entries []entry
	for _, e := range l.settings.entries {
		if e.key != nil {
			entries = append(entries, entry{entryKind(e.key[0]), e.key[1:], e.value})
		}
	}
	for _, group := range l.names() {
		for _, e := range l.groups[group].entries {
			if e.key != nil {
				entries = append(entries, entry{recordEntry, e.key, e.value})
			}
		}
	}
	return entries
}

// compact exchanges the file for one without garbage. Appends go on meanwhile,
// to the old file; what they add is carried over. At no moment is there no file
// that holds everything, and only the exchange itself, a rename, keeps appends
// waiting.
func (l *durableLog) compact() {
	l.mu.Lock()
	entries := l.live()
	l.behind = nil
	l.mu.Unlock()
	next, err := createLog(filepath.Join(l.dir, newName), entries)
	if err == nil {
		err = l.catchUp(next)
	}
	if err == nil {
		err = l.exchange(next)
	}
	if err != nil && next != nil {
		_ = next.file.Close()
		_ = os.Remove(next.path)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.compacting, l.behind = false, nil
	if err != nil && !errors.Is(err, fs.ErrClosed) {
		l.retryAt = 2 * l.end
		l.logf(kgo.LogLevelWarn, "compaction of %s: %v", l.path, err)
	}
}

// catchUp brings the new file so close to the old one that less than what comes
// in during a flush is missing on disk.
func (l *durableLog) catchUp(next *newLog) error {
	for range 8 {
		l.mu.Lock()
		behind, closed := l.behind, l.closed
		l.behind = nil
		l.mu.Unlock()
		if closed {
			return fs.ErrClosed
		}
		if len(behind) == 0 {
			break
		}
		if err := next.append(behind); err != nil {
			return err
		}
		if err := next.sync(); err != nil {
			return err
		}
	}
	return nil
}

// exchange gives the new file the name of the old one.
func (l *durableLog) exchange(next *newLog) error {
	l.flushing.Lock()
	defer l.flushing.Unlock()
	old, err := l.swap(next)
	if err != nil {
		return err
	}
	_ = old.Close()
	err = errors.Join(syncDir(l.dir), next.sync())
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.breakOff(&storageError{l.path, "flush", err})
		return nil
	}
	l.flushed = max(l.flushed, next.flushed)
	return nil
}

func (l *durableLog) swap(next *newLog) (old logFile, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, fs.ErrClosed
	}
	if err := next.append(l.behind); err != nil {
		return nil, err
	}
	if err := os.Rename(next.path, l.path); err != nil {
		return nil, err
	}
	l.behind, l.compacting = nil, false
	old = l.file
	l.file, l.end, l.flushed = next.file, next.end, next.flushed
	return old, nil
}

// rewrite is a compaction while nobody appends.
func (l *durableLog) rewrite() error {
	next, err := createLog(filepath.Join(l.dir, newName), l.live())
	if err != nil {
		return err
	}
	if err := os.Rename(next.path, l.path); err != nil {
		_ = next.file.Close()
		return err
	}
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file, l.end, l.flushed = next.file, next.end, next.flushed
	return syncDir(l.dir)
}

// newLog is a file that is to become the log.
type newLog struct {
	path         string
	file         logFile
	end, flushed int64
	batch        []byte
}

// createLog writes a file with the entries out to disk.
func createLog(path string, entries []entry) (*newLog, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	n := &newLog{path: path, file: file, end: logHeaderSize}
	err = n.append(entries)
	if err == nil {
		_, err = file.WriteAt(appendHeader(nil, n.end), 0)
	}
	if err == nil {
		err = n.sync()
	}
	if err != nil {
		_ = file.Close()
		_ = os.Remove(path)
		return nil, err
	}
	return n, nil
}

// append writes entries, in several batches if they are many.
func (n *newLog) append(entries []entry) error {
	const enough = 1 << 18
	n.batch = startBatch(n.batch)
	for i, e := range entries {
		n.batch = appendEntry(n.batch, e)
		if len(n.batch) < enough && i < len(entries)-1 {
			continue
		}
		sealBatch(n.batch, n.end, n.flushed)
		if _, err := n.file.WriteAt(n.batch, n.end); err != nil {
			return err
		}
		n.end += int64(len(n.batch))
		n.batch = startBatch(n.batch)
	}
	return nil
}

func (n *newLog) sync() error {
	end := n.end
	if err := n.file.Sync(); err != nil {
		return err
	}
	n.flushed = end
	return nil
}

// syncDir makes a rename last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	_ = d.Close()
	return err
}
