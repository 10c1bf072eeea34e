package assignor

import "math/bits"

// subTable finds subtopologies by id. It is asked for almost every task that
// anybody holds. Ids of one topology mostly differ in a few bytes after a common
// beginning, so that those are all that has to be hashed.
type subTable struct {
	prefix int     // length of the common beginning
	shift  uint8   // of the product, to get a slot
	slots  []int32 // open addressing: the number of a subtopology plus one, or 0
	// byText is used instead if the bytes after the beginning do not tell them
	// apart: ids come from users.
	byText map[string]int32
}

func newSubTable(subs []indexedSub) subTable {
	if len(subs) == 0 {
		return subTable{slots: make([]int32, 1), shift: 64}
	}
	// They are in order: what the first and the last share, all share.
	t := subTable{prefix: commonPrefix(subs[0].id, subs[len(subs)-1].id)}
	for i := range subs[1:] {
		if textKey(subs[i].id[t.prefix:]) == textKey(subs[i+1].id[t.prefix:]) {
			t.byText = make(map[string]int32, len(subs))
			for i := range subs {
				t.byText[subs[i].id] = int32(i)
			}
			return t
		}
	}
	size := bits.Len(uint(2 * len(subs)))
	t.shift, t.slots = uint8(64-size), make([]int32, 1<<size)
	for i := range subs {
		at := t.slot(subs[i].id)
		for t.slots[at] != 0 {
			at = (at + 1) & uint64(len(t.slots)-1)
		}
		t.slots[at] = int32(i) + 1
	}
	return t
}

func (t *subTable) slot(id string) uint64 {
	const golden = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio, as usual
	return textKey(id[t.prefix:]) * golden >> t.shift
}

func (t *subTable) find(subs []indexedSub, id string) *indexedSub {
	if t.byText != nil {
		if i, ok := t.byText[id]; ok {
			return &subs[i]
		}
		return nil
	}
	if len(id) < t.prefix {
		return nil
	}
	for at := t.slot(id); ; at = (at + 1) & uint64(len(t.slots)-1) {
		n := t.slots[at]
		if n == 0 {
			return nil
		}
		if s := &subs[n-1]; s.id == id {
			return s
		}
	}
}
