package kfakeext

import (
	"fmt"
	"maps"
	"slices"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// recordLog keeps what coordinators decide. It is called under the adapter's
// lock, and from control functions: it must not wait for anything.
type recordLog interface {
	// append adds records in order, all or none.
	append(records []record.Record) error
	// replay calls fn for the group's records in the order in which they were
	// appended. Records that a later one of the same key replaced may be left
	// out, and so may tombstones.
	replay(group string, fn func(record.Record) error) error
	// has is whether there is anything to replay.
	has(group string) bool
	// names returns the groups that have anything to replay, ascending.
	names() []string

	// setGroupConfig and setBrokerConfig keep what was configured at run time:
	// all overrides of a group, and a dynamic broker config, nil for its default.
	setGroupConfig(group string, overrides map[string]string) error
	setBrokerConfig(name string, value *string) error
	// configs returns what was kept with these, by group and by name.
	configs() (groups map[string]map[string]string, broker map[string]string, err error)

	// close writes out what is not on disk yet. Nothing can be appended after it.
	close()
}

// memoryLog keeps encoded records in memory, compacted by key. It stands for
// the shard of __consumer_offsets that all nodes of a cluster share.
type memoryLog struct {
	end    int64 // offset of the next record
	bytes  int64 // size of what would be replayed
	groups map[string]*groupLog
}

// groupLog holds one group's entries in order of their offsets. An entry that
// was replaced leaves a hole until there are more holes than entries.
type groupLog struct {
	entries []logEntry
	last    map[string]int // index of the entry by key
}

type logEntry struct {
	offset     int64
	key, value []byte // both nil for a hole
}

func newMemoryLog() *memoryLog { return &memoryLog{groups: make(map[string]*groupLog)} }

func (l *memoryLog) append(records []record.Record) error {
	if err := checkKeys(records); err != nil {
		return err
	}
	for _, r := range records {
		key := r.RecordKey()
		l.put(key.Group, record.AppendKey(nil, key), record.AppendValue(nil, r))
	}
	return nil
}

func checkKeys(records []record.Record) error {
	for _, r := range records {
		if err := r.RecordKey().Check(); err != nil {
			return err
		}
	}
	return nil
}

func (l *memoryLog) put(group string, key, value []byte) {
	g := l.groups[group]
	if g == nil {
		g = &groupLog{last: make(map[string]int)}
		l.groups[group] = g
	}
	l.bytes += g.put(l.end, key, value)
	l.end++
	if len(g.last) == 0 {
		delete(l.groups, group)
	}
}

// put adds an entry, or removes one if there is no value. A tombstone need not
// be kept: nothing of its key is left in front of it. It returns how many bytes
// there are more than before.
func (g *groupLog) put(offset int64, key, value []byte) (grown int64) {
	if i, ok := g.last[string(key)]; ok {
		grown -= g.entries[i].size()
		g.entries[i] = logEntry{}
		delete(g.last, string(key))
	}
	if value != nil {
		g.last[string(key)] = len(g.entries)
		e := logEntry{offset, key, value}
		g.entries = append(g.entries, e)
		grown += e.size()
	}
	if len(g.entries) > 2*len(g.last)+16 {
		g.entries = slices.DeleteFunc(g.entries, func(e logEntry) bool { return e.key == nil })
		for i, e := range g.entries {
			g.last[string(e.key)] = i
		}
	}
	return grown
}

func (e logEntry) size() int64 { return int64(entry{key: e.key, value: e.value}.size()) }

// Configs of a cluster that keeps nothing on disk are the core's to remember.
func (*memoryLog) setGroupConfig(string, map[string]string) error { return nil }
func (*memoryLog) setBrokerConfig(string, *string) error          { return nil }
func (*memoryLog) close()                                         {}

func (*memoryLog) configs() (groups map[string]map[string]string, broker map[string]string, err error) {
	return nil, nil, nil
}

func (l *memoryLog) names() []string { return slices.Sorted(maps.Keys(l.groups)) }

func (l *memoryLog) has(group string) bool { return l.groups[group] != nil }

func (l *memoryLog) replay(group string, fn func(record.Record) error) error {
	g := l.groups[group]
	if g == nil {
		return nil
	}
	for _, e := range g.entries {
		if e.key == nil {
			continue
		}
		r, err := record.Decode(e.key, e.value)
		if err == nil {
			err = fn(r)
		}
		if err != nil {
			return fmt.Errorf("kfakeext: replay of group %q, offset %d: %w", group, e.offset, err)
		}
	}
	return nil
}
