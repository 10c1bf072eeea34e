package record

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
)

// decoder reads the primitive types of Kafka's schemas. After the first error
// every read returns a zero value, so callers look at err once, at the end. It
// trusts no length: nothing is allocated before the bytes for it are there.
type decoder struct {
	src  []byte
	base int // offset of src[0] in what is being decoded
	off  int
	err  *DecodeError
}

func (d *decoder) fail(field, format string, args ...any) {
	if d.err == nil {
		d.err = &DecodeError{Field: field, Offset: d.base + d.off, Reason: fmt.Sprintf(format, args...)}
	}
	d.src, d.off = nil, 0
}

func (d *decoder) left() int { return len(d.src) - d.off }

func (d *decoder) take(field string, n int) []byte {
	if n < 0 || n > d.left() { // negative: overflow where int has 32 bits
		d.fail(field, "needs %d bytes, %d are left", n, d.left())
		return nil
	}
	b := d.src[d.off : d.off+n]
	d.off += n
	return b
}

func (d *decoder) int8(field string) int8 {
	if b := d.take(field, 1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (d *decoder) uint16(field string) uint16 {
	if b := d.take(field, 2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (d *decoder) int16(field string) int16 { return int16(d.uint16(field)) }

func (d *decoder) int32(field string) int32 {
	if b := d.take(field, 4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *decoder) int64(field string) int64 {
	if b := d.take(field, 8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (d *decoder) uvarint(field string) uint32 {
	if d.err != nil {
		return 0
	}
	v, n := kbin.Uvarint(d.src[d.off:])
	if n <= 0 {
		d.fail(field, "is not a variable-length number of at most 32 bits")
		return 0
	}
	d.off += n
	return v
}

// keyString is a string as keys have it: with a 16-bit length, never null.
func (d *decoder) keyString(field string) string {
	n := d.int16(field)
	if n < 0 {
		d.fail(field, "has the length %d", n)
		return ""
	}
	return string(d.take(field, int(n)))
}

func (d *decoder) nullableString(field string) *string {
	n := d.uvarint(field)
	if n == 0 || d.err != nil {
		return nil
	}
	s := string(d.take(field, int(n-1)))
	if d.err != nil {
		return nil
	}
	return &s
}

func (d *decoder) string(field string) string {
	n := d.uvarint(field)
	if n == 0 {
		d.fail(field, "is null")
		return ""
	}
	return string(d.take(field, int(n-1)))
}

// listLen reads the length of a list whose elements take at least size bytes.
func (d *decoder) listLen(field string, size int) (n int, null bool) {
	v := d.uvarint(field)
	if v == 0 {
		return 0, true
	}
	if uint64(v-1) > uint64(d.left()/size) {
		d.fail(field, "has %d elements of at least %d bytes, %d bytes are left", v-1, size, d.left())
		return 0, false
	}
	return int(v - 1), false
}

// readNullableList returns nil for null and an empty list for an empty one.
func readNullableList[T any](d *decoder, field string, size int, one func(*decoder, string) T) []T {
	n, null := d.listLen(field, size)
	if null || d.err != nil {
		return nil
	}
	list := make([]T, 0, n)
	for range n {
		list = append(list, one(d, field))
		if d.err != nil {
			return nil
		}
	}
	return list
}

// readList returns nil for an empty list and refuses null.
func readList[T any](d *decoder, field string, size int, one func(*decoder, string) T) []T {
	list := readNullableList(d, field, size, one)
	if list == nil {
		d.fail(field, "is null")
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

// tags reads the tagged fields at the end of a struct. known, which may be nil,
// reads the fields that it has a name for and returns false for the others,
// which are skipped. As in Kafka a field that comes twice counts as the last.
func (d *decoder) tags(known func(d *decoder, tag uint32) bool) {
	for n := d.uvarint("TaggedFields"); n > 0 && d.err == nil; n-- {
		tag := d.uvarint("TaggedFields")
		size := d.uvarint("TaggedFields")
		if uint64(size) > uint64(d.left()) {
			d.fail("TaggedFields", "tag %d has %d bytes, %d are left", tag, size, d.left())
			return
		}
		body := decoder{base: d.base + d.off}
		body.src = d.take("TaggedFields", int(size))
		if d.err != nil || known == nil || !known(&body, tag) {
			continue
		}
		body.finish()
		if body.err != nil {
			d.err, d.src, d.off = body.err, nil, 0
		}
	}
}

// finish refuses what is left over: it would be lost when the record is written
// again, and in a format that only grows by tags it is a sign of corruption.
func (d *decoder) finish() {
	if d.left() > 0 {
		d.fail("end", "%d bytes too many", d.left())
	}
}
