package topology

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// ResolutionTag is the number of a tagged field in StreamsGroupHeartbeat that is
// not Kafka's. A response to a member whose topology has source patterns carries
// a [Resolution] in it; a request carries the epoch of the last one that the
// member has seen ([AppendResolutionEpoch]), and without it the resolution comes
// with every response. Whoever does not know the tag skips it.
const ResolutionTag = 10000

// Resolution says which topics the source patterns of a topology stand for. The
// coordinator decides that for all members: members that look for themselves
// would disagree about the partitions of a task.
type Resolution struct {
	// Epoch differs between two resolutions that differ. Newer ones are not
	// greater.
	Epoch int64
	// Topics are the topics that the patterns of each subtopology match,
	// ascending. Subtopologies without patterns are missing.
	Topics map[string][]string
}

// NewResolution returns a resolution whose epoch follows from the topics.
func NewResolution(topics map[string][]string) Resolution {
	r := Resolution{Topics: topics}
	sum := sha256.Sum256(r.Append(nil))
	r.Epoch = int64(binary.BigEndian.Uint64(sum[:]))
	return r
}

// Append appends the value of the tagged field of a response: the epoch as eight
// bytes, then a compact array of subtopologies, each a compact string and a
// compact array of compact strings, in Kafka's terms.
func (r Resolution) Append(dst []byte) []byte {
	dst = AppendResolutionEpoch(dst, r.Epoch)
	dst = binary.AppendUvarint(dst, uint64(len(r.Topics))+1)
	for _, id := range slices.Sorted(maps.Keys(r.Topics)) {
		dst = appendCompact(dst, id)
		dst = binary.AppendUvarint(dst, uint64(len(r.Topics[id]))+1)
		for _, topic := range r.Topics[id] {
			dst = appendCompact(dst, topic)
		}
	}
	return dst
}

func appendCompact(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))+1), s...)
}

var errResolution = errors.New("topology: malformed resolution of source patterns")

// ParseResolution reads what [Resolution.Append] writes.
func ParseResolution(src []byte) (Resolution, error) {
	epoch, ok := ParseResolutionEpoch(src[:min(8, len(src))])
	if !ok {
		return Resolution{}, errResolution
	}
	p := resolutionParser{src: src[8:]}
	r := Resolution{Epoch: epoch, Topics: make(map[string][]string)}
	for range p.length() {
		id := p.text()
		topics := []string{}
		for range p.length() {
			topics = append(topics, p.text())
		}
		r.Topics[id] = topics
	}
	if p.failed || len(p.src) > 0 {
		return Resolution{}, errResolution
	}
	return r, nil
}

// resolutionParser reads compact strings and arrays. After a failure all lengths
// are 0.
type resolutionParser struct {
	src    []byte
	failed bool
}

// length reads the length of something whose parts have at least one byte each.
func (p *resolutionParser) length() int {
	n, size := binary.Uvarint(p.src)
	if p.failed || size <= 0 || n == 0 || n-1 > uint64(len(p.src)-size) {
		p.failed = true
		return 0
	}
	p.src = p.src[size:]
	return int(n - 1)
}

func (p *resolutionParser) text() string {
	n := p.length()
	s := string(p.src[:n])
	p.src = p.src[n:]
	return s
}

// AppendResolutionEpoch appends the value of the tagged field of a request.
func AppendResolutionEpoch(dst []byte, epoch int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(epoch))
}

// ParseResolutionEpoch reads what [AppendResolutionEpoch] writes.
func ParseResolutionEpoch(src []byte) (epoch int64, ok bool) {
	if len(src) != 8 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(src)), true
}
