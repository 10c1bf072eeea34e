package main

import (
	"encoding/binary"
	"fmt"
)

// origin says which word of the text a record stands for: the place of its line
// in the source topic and its index in the line. Origins of one source
// partition arrive at one repartition partition in ascending order, so a record
// that is not above the last one is a copy, written again after a crash.
type origin struct {
	partition int32
	offset    int64
	index     int32
}

func (o origin) after(p position) bool {
	return o.offset > p.offset || o.offset == p.offset && o.index > p.index
}

const originSize = 4 + 8 + 4

func (o origin) encode() []byte {
	b := make([]byte, 0, originSize)
	b = binary.BigEndian.AppendUint32(b, uint32(o.partition))
	b = binary.BigEndian.AppendUint64(b, uint64(o.offset))
	return binary.BigEndian.AppendUint32(b, uint32(o.index))
}

func decodeOrigin(b []byte) (origin, error) {
	if len(b) != originSize {
		return origin{}, fmt.Errorf("a repartition record has %d bytes of value instead of %d: the topic was written by something else", len(b), originSize)
	}
	return origin{
		partition: int32(binary.BigEndian.Uint32(b)),
		offset:    int64(binary.BigEndian.Uint64(b[4:])),
		index:     int32(binary.BigEndian.Uint32(b[12:])),
	}, nil
}

// position is the last word counted of one source partition.
type position struct {
	offset int64
	index  int32
}

// change is one record of the changelog: the new count of a word *and* how far
// the task has come, so that a crash can never separate the two. The record
// with the highest input offset is the newest of its word, hence it survives
// compaction.
type change struct {
	count int64
	// input is the offset in the repartition topic that led to the count.
	input int64
	// seen is the last word counted, by partition of the source topic.
	seen []position
}

func (c change) encode() []byte {
	b := make([]byte, 0, 20+12*len(c.seen))
	b = binary.BigEndian.AppendUint64(b, uint64(c.count))
	b = binary.BigEndian.AppendUint64(b, uint64(c.input))
	b = binary.BigEndian.AppendUint32(b, uint32(len(c.seen)))
	for _, p := range c.seen {
		b = binary.BigEndian.AppendUint64(b, uint64(p.offset))
		b = binary.BigEndian.AppendUint32(b, uint32(p.index))
	}
	return b
}

func decodeChange(b []byte) (change, error) {
	if len(b) < 20 || uint64(len(b)-20) != 12*uint64(binary.BigEndian.Uint32(b[16:])) {
		return change{}, fmt.Errorf("a changelog record of %d bytes is not one of ours: the topic was written by something else", len(b))
	}
	c := change{
		count: int64(binary.BigEndian.Uint64(b)),
		input: int64(binary.BigEndian.Uint64(b[8:])),
		seen:  make([]position, binary.BigEndian.Uint32(b[16:])),
	}
	for i, b := 0, b[20:]; i < len(c.seen); i, b = i+1, b[12:] {
		c.seen[i] = position{int64(binary.BigEndian.Uint64(b)), int32(binary.BigEndian.Uint32(b[8:]))}
	}
	return c, nil
}

// store is the state of one count task.
type store struct {
	counts map[string]int64
	input  int64 // the highest input offset counted, -1 at first
	seen   []position
}

func newStore(sourcePartitions int) *store {
	s := &store{counts: map[string]int64{}, input: -1, seen: make([]position, sourcePartitions)}
	for i := range s.seen {
		s.seen[i] = position{offset: -1}
	}
	return s
}

// restore applies one record of the changelog.
func (s *store) restore(word string, c change) error {
	if len(c.seen) != len(s.seen) {
		return fmt.Errorf("the changelog knows %d source partitions, the source topic has %d", len(c.seen), len(s.seen))
	}
	s.counts[word] = c.count
	if c.input > s.input {
		s.input = c.input
		copy(s.seen, c.seen)
	}
	return nil
}

// count counts one word. counted is false for a copy of a word that has been
// counted before.
func (s *store) count(word string, o origin, input int64) (c change, counted bool, err error) {
	if o.partition < 0 || int(o.partition) >= len(s.seen) {
		return change{}, false, fmt.Errorf("a word comes from source partition %d of %d", o.partition, len(s.seen))
	}
	s.input = input
	if !o.after(s.seen[o.partition]) {
		return change{}, false, nil
	}
	s.seen[o.partition] = position{o.offset, o.index}
	s.counts[word]++
	return change{count: s.counts[word], input: input, seen: s.seen}, true, nil
}
