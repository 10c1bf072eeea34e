package kfakeext

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// The file of a durable log is a header and then batches, each the entries of
// one append. Numbers are big-endian, CRCs are CRC-32C.
//
//	header  magic [8]byte | version uint32 | base uint64 | crc uint32
//	batch   position uint64 | flushed uint64 | length uint32 | crc uint32 | payload
//	entry   kind byte | uvarint length, key | uvarint length+1 or 0 for none, value
//
// base is where the compacted part ends, all of which was on disk before the
// file got its name. A batch says where it starts and up to where the file was
// known to be on disk when it was written. So a broken batch tells what became
// of it: if anything says that it was on disk, the disk has lost it; if not, the
// machine went down before it got there, and nobody was promised more than that
// it would get there within [flushEvery]. CRCs cover everything in front of them
// and the payload.
const (
	logMagic      = "SGROUPS\n"
	logVersion    = 1
	logHeaderSize = 8 + 4 + 8 + 4
	batchHeader   = 8 + 8 + 4 + 4
	maxBatch      = 1 << 30
	maxEntryHead  = 1 + 2*binary.MaxVarintLen32
)

// entryKind says what an entry is about.
type entryKind byte

const (
	recordEntry       entryKind = iota // as in __consumer_offsets
	groupConfigEntry                   // a group's streams.* overrides, by group
	brokerConfigEntry                  // a dynamic broker config, by name
)

// entry is a value under a key, nil if there is none any more.
type entry struct {
	kind       entryKind
	key, value []byte
}

func (e entry) size() int { return maxEntryHead + len(e.key) + len(e.value) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CorruptLogError is a log of streams groups that does not hold what was once
// written to disk. Nothing has been changed: copies of the file can be compared
// or put in its place.
type CorruptLogError struct {
	File   string
	Offset int64 // of the header or batch at fault
	Reason string
}

func (e *CorruptLogError) Error() string {
	return fmt.Sprintf("kfakeext: log of streams groups %s is damaged at byte %d: %s: put a copy in its place, or remove it to start without streams groups and their configs", e.File, e.Offset, e.Reason)
}

func appendHeader(dst []byte, base int64) []byte {
	start := len(dst)
	dst = append(dst, logMagic...)
	dst = binary.BigEndian.AppendUint32(dst, logVersion)
	dst = binary.BigEndian.AppendUint64(dst, uint64(base))
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// startBatch makes room for the header of a batch at the start of dst.
func startBatch(dst []byte) []byte { return append(dst[:0], make([]byte, batchHeader)...) }

func appendEntry(dst []byte, e entry) []byte {
	dst = append(dst, byte(e.kind))
	dst = binary.AppendUvarint(dst, uint64(len(e.key)))
	dst = append(dst, e.key...)
	if e.value == nil {
		return append(dst, 0)
	}
	dst = binary.AppendUvarint(dst, uint64(len(e.value))+1)
	return append(dst, e.value...)
}

// sealBatch completes a batch that goes to a position of the file.
func sealBatch(batch []byte, position, flushed int64) {
	binary.BigEndian.PutUint64(batch, uint64(position))
	binary.BigEndian.PutUint64(batch[8:], uint64(flushed))
	binary.BigEndian.PutUint32(batch[16:], uint32(len(batch)-batchHeader))
	binary.BigEndian.PutUint32(batch[20:], batchCRC(batch))
}

func batchCRC(batch []byte) uint32 {
	return crc32.Update(crc32.Checksum(batch[:20], castagnoli), castagnoli, batch[batchHeader:])
}

// batchAt is the batch at a position of the file, if there is a whole one.
func batchAt(file []byte, position int64) (batch []byte, flushed int64, reason string) {
	rest := file[position:]
	if len(rest) < batchHeader {
		return nil, 0, "the file ends within a batch"
	}
	length := binary.BigEndian.Uint32(rest[16:])
	switch {
	case binary.BigEndian.Uint64(rest) != uint64(position) || length == 0 || length > maxBatch:
		return nil, 0, "no batch starts here"
	case int64(length) > int64(len(rest)-batchHeader):
		return nil, 0, "the file ends within a batch"
	}
	batch = rest[:batchHeader+int(length)]
	if batchCRC(batch) != binary.BigEndian.Uint32(batch[20:]) {
		return nil, 0, "the checksum of the batch does not match"
	}
	// Nothing is known to be on disk before it is written.
	return batch, min(int64(binary.BigEndian.Uint64(batch[8:])&(1<<63-1)), position), ""
}

// logFileContent is what readLog makes of a file.
type logFileContent struct {
	end  int64  // of the whole batches
	torn string // what is wrong behind that, if there is anything
	lost int    // batches behind that which were written but must be given up, too
}

// readLog calls fn for each entry of a file, in order. The entries share no
// memory with it. What follows the last whole batch is left out if it may stem
// from a machine that went down; anything else is a [*CorruptLogError]. What is
// allocated is in proportion to the file, whatever lengths it claims.
func readLog(name string, file []byte, fn func(entry)) (logFileContent, error) {
	corrupt := func(at int64, format string, args ...any) (logFileContent, error) {
		return logFileContent{}, &CorruptLogError{name, at, fmt.Sprintf(format, args...)}
	}
	switch {
	case len(file) < logHeaderSize || string(file[:8]) != logMagic:
		return corrupt(0, "it does not start as such a log does")
	case crc32.Checksum(file[:logHeaderSize-4], castagnoli) != binary.BigEndian.Uint32(file[logHeaderSize-4:]):
		return corrupt(0, "the checksum of the header does not match")
	}
	if v := binary.BigEndian.Uint32(file[8:]); v != logVersion {
		return corrupt(0, "it has version %d of the format and only %d is known: something newer wrote it", v, logVersion)
	}
	durable := int64(binary.BigEndian.Uint64(file[12:]) & (1<<63 - 1))
	at := int64(logHeaderSize)
	for at < int64(len(file)) {
		batch, flushed, reason := batchAt(file, at)
		if reason != "" {
			return brokenTail(name, file, at, durable, reason)
		}
		durable = max(durable, flushed)
		if reason := readEntries(batch[batchHeader:], fn); reason != "" {
			return corrupt(at, "%s", reason)
		}
		at += int64(len(batch))
	}
	if at < durable {
		return corrupt(at, "the file ends, %d bytes were on disk", durable)
	}
	return logFileContent{end: at}, nil
}

// brokenTail decides about a file whose batches are whole only up to a position.
func brokenTail(name string, file []byte, at, durable int64, reason string) (logFileContent, error) {
	content := logFileContent{end: at, torn: reason}
	// Each byte may be looked at a few times, so that no content can make this
	// quadratic.
	budget := 4*len(file) + 1<<16
	for p := at + 1; durable <= at && p+batchHeader <= int64(len(file)); p++ {
		if binary.BigEndian.Uint64(file[p:]) != uint64(p) {
			continue
		}
		batch, flushed, reason := batchAt(file, p)
		if reason == "" {
			durable = max(durable, flushed)
			content.lost++
			p += int64(len(batch)) - 1
			continue
		}
		if length := binary.BigEndian.Uint32(file[p+16:]); int64(length) <= int64(len(file))-p {
			if budget -= int(length); budget < 0 {
				return logFileContent{}, &CorruptLogError{name, at, reason + ", and what follows looks like nothing that this program writes"}
			}
		}
	}
	if durable > at {
		return logFileContent{}, &CorruptLogError{name, at, fmt.Sprintf("%s, although the file was on disk up to byte %d", reason, durable)}
	}
	return content, nil
}

func readEntries(payload []byte, fn func(entry)) (reason string) {
	field := func(less uint64) ([]byte, bool) {
		n, used := binary.Uvarint(payload)
		if used <= 0 || n < less || n-less > uint64(len(payload)-used) {
			return nil, false
		}
		field := payload[used : used+int(n-less)]
		payload = payload[used+int(n-less):]
		return bytes.Clone(field), true
	}
	for len(payload) > 0 {
		e := entry{kind: entryKind(payload[0])}
		if e.kind > brokerConfigEntry {
			return fmt.Sprintf("an entry is of kind %d, which is not known: something newer wrote it", e.kind)
		}
		payload = payload[1:]
		var ok bool
		if e.key, ok = field(0); !ok {
			return "a key is longer than its batch"
		}
		if len(payload) > 0 && payload[0] == 0 {
			payload = payload[1:]
		} else if e.value, ok = field(1); !ok {
			return "a value is longer than its batch"
		}
		fn(e)
	}
	return ""
}

// appendSettings encodes configs, sorted by name.
func appendSettings(dst []byte, names []string, settings map[string]string) []byte {
	for _, name := range names {
		for _, s := range [...]string{name, settings[name]} {
			dst = binary.AppendUvarint(dst, uint64(len(s)))
			dst = append(dst, s...)
		}
	}
	return dst
}

func readSettings(src []byte) (map[string]string, bool) {
	settings := make(map[string]string)
	var pair [2]string
	for len(src) > 0 {
		for i := range pair {
			n, used := binary.Uvarint(src)
			if used <= 0 || n > uint64(len(src)-used) {
				return nil, false
			}
			pair[i] = string(src[used : used+int(n)])
			src = src[used+int(n):]
		}
		settings[pair[0]] = pair[1]
	}
	return settings, true
}
