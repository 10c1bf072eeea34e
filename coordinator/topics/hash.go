package topics

import (
	"crypto/sha256"
	"encoding/binary"
)

// Hash digests the required topics that exist in the image, each with its id,
// name and partition count. It is 0 if none does and only then. It is stable
// across processes. The racks of replicas do not count: no assignor looks at
// them, so a moved replica is no reason to compute anything again.
func Hash(required []string, image *Image) int64 {
	h := sha256.New()
	found := false
	var buf []byte
	for _, name := range required {
		t, ok := image.Topic(name)
		if !ok {
			continue
		}
		found = true
		buf = append(buf[:0], t.ID[:]...)
		buf = binary.BigEndian.AppendUint32(buf, uint32(t.Partitions))
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(name)))
		buf = append(buf, name...)
		h.Write(buf)
	}
	if !found {
		return 0
	}
	sum := int64(binary.BigEndian.Uint64(h.Sum(nil)))
	if sum == 0 {
		return 1
	}
	return sum
}
