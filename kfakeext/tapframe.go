package kfakeext

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The smallest header: key, version and correlation id.
const headerSize = 2 + 2 + 4

// header is the header of one request. clientID aliases the frame.
type header struct {
	key, version int16
	corr         int32
	clientID     []byte
	body         int // where the body starts
}

// keys is what the tap knows of each request key. A request of a key outside of
// it makes kfake dereference nil, so such connections are closed.
var keys = func() (table []keyInfo) {
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		info := keyInfo{flexibleFrom: -1}
		if r := kmsg.RequestForKey(key); r != nil {
			info.known = true
			info.maxVersion = r.MaxVersion()
			for v := r.MaxVersion(); v >= 0; v-- {
				if r.SetVersion(v); r.IsFlexible() {
					info.flexibleFrom = v
				}
			}
		}
		table = append(table, info)
	}
	return table
}()

type keyInfo struct {
	known        bool
	maxVersion   int16
	flexibleFrom int16 // first version with tagged fields, or -1
}

func lookupKey(key int16) keyInfo {
	if key < 0 || int(key) >= len(keys) {
		return keyInfo{}
	}
	return keys[key]
}

func (k keyInfo) flexible(version int16) bool {
	return k.flexibleFrom >= 0 && version >= k.flexibleFrom
}

// parseHeader reads the header of a frame without its size.
func parseHeader(frame []byte) (h header, ok bool) {
	if len(frame) < headerSize {
		return h, false
	}
	h.key = int16(binary.BigEndian.Uint16(frame))
	h.version = int16(binary.BigEndian.Uint16(frame[2:]))
	h.corr = int32(binary.BigEndian.Uint32(frame[4:]))
	c := cursor{src: frame, at: headerSize, ok: true}
	if n := int16(c.uint16()); n > 0 {
		h.clientID = c.span(int(n))
	}
	if lookupKey(h.key).flexible(h.version) {
		c.skipTags()
	}
	h.body = c.at
	return h, c.ok
}

// cursor skips over encoded fields. After a failure ok is false, and nothing
// moves any more.
type cursor struct {
	src []byte
	at  int
	ok  bool
}

func (c *cursor) span(n int) []byte {
	if !c.ok || n < 0 || n > len(c.src)-c.at {
		c.ok = false
		return nil
	}
	c.at += n
	return c.src[c.at-n : c.at]
}

func (c *cursor) uint8() uint8 {
	if b := c.span(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) uint16() uint16 {
	if b := c.span(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

// length reads a length prefix. A length of 0 stands for null in nullable
// fields; all others are one more than what follows.
func (c *cursor) length() int {
	if !c.ok {
		return 0
	}
	n, size := kbin.Uvarint(c.src[c.at:])
	if size <= 0 || size > 5 {
		c.ok = false
		return 0
	}
	c.at += size
	return int(n)
}

func (c *cursor) compactString() []byte {
	if n := c.length(); n > 1 {
		return c.span(n - 1)
	}
	return nil
}

func (c *cursor) skipTags() {
	for n := c.length(); n > 0 && c.ok; n-- {
		c.length()
		c.span(c.length())
	}
}

// skipArray calls element for each element of a compact array. Elements are at
// least one byte long, which bounds the loop.
func (c *cursor) skipArray(element func(*cursor)) {
	for n := c.length(); n > 1 && c.ok; n-- {
		element(c)
	}
}

func skipTasks(c *cursor) {
	c.compactString()
	if n := c.length(); n > 1 {
		if n-1 > len(c.src)/4 {
			c.ok = false
			return
		}
		c.span(4 * (n - 1))
	}
	c.skipTags()
}

func skipOffset(c *cursor) {
	c.compactString()
	c.span(4 + 8)
	c.skipTags()
}

func skipClientTag(c *cursor) {
	c.compactString()
	c.compactString()
	c.skipTags()
}

// heartbeatTags finds the trailing tag section of a StreamsGroupHeartbeat
// without topology by skipping over all the fields before it. Heartbeats with a
// topology are rare, and so left to kmsg.
func heartbeatTags(frame []byte, body int) (at int, ok bool) {
	c := cursor{src: frame, at: body, ok: body <= len(frame)}
	c.compactString()                          // group
	c.compactString()                          // member
	c.span(4 + 4)                              // member epoch, endpoint epoch
	c.compactString()                          // instance
	c.compactString()                          // rack
	c.span(4)                                  // rebalance time-out
	if present := c.uint8(); present != 0xff { // topology
		return 0, false
	}
	c.skipArray(skipTasks)                     // active
	c.skipArray(skipTasks)                     // standby
	c.skipArray(skipTasks)                     // warm-up
	c.compactString()                          // process
	if present := c.uint8(); present != 0xff { // endpoint
		c.compactString()
		c.span(2)
		c.skipTags()
	}
	c.skipArray(skipClientTag)
	c.skipArray(skipOffset) // task offsets
	c.skipArray(skipOffset) // task end offsets
	c.span(1)               // shutdown
	at = c.at
	c.skipTags()
	return at, c.ok && c.at == len(frame)
}

// heartbeatMember reads the first two fields of a StreamsGroupHeartbeat. The
// results alias the frame.
func heartbeatMember(frame []byte, body int) (group, member []byte, ok bool) {
	c := cursor{src: frame, at: body, ok: body <= len(frame)}
	group, member = c.compactString(), c.compactString()
	return group, member, c.ok
}

// privateTag is the number of the tagged field that carries the identity of the
// sender from the tap to the control function. Kafka counts its own from 0.
const privateTag = 1071

// identitySize is the length of the private tag: secret, caller, correlation.
const identitySize = 8 + 8 + 4

func putIdentity(dst *[identitySize]byte, secret, caller uint64, corr int32) {
	binary.BigEndian.PutUint64(dst[:], secret)
	binary.BigEndian.PutUint64(dst[8:], caller)
	binary.BigEndian.PutUint32(dst[16:], uint32(corr))
}

// appendTag appends the private tag to a frame whose trailing tag section starts
// at tags. It fails if the section cannot grow by one without moving.
func appendTag(frame []byte, tags int, identity []byte) ([]byte, bool) {
	if frame[tags] >= 0x7f {
		return frame, false
	}
	frame[tags]++
	frame = kbin.AppendUvarint(frame, privateTag)
	frame = kbin.AppendUvarint(frame, uint32(len(identity)))
	return append(frame, identity...), true
}
