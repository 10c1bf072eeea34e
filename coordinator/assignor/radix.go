package assignor

import (
	"cmp"
	"slices"
	"strings"
)

// keyed is a number with what it is ordered by.
type keyed struct {
	key    uint64
	number int32
}

// sortKeyed orders by key, and equal ones as they were: numbers have to ascend.
// It returns the result and may overwrite the input. Sorting by bytes, those that
// are equal everywhere left out, takes a third of the time of sorting by
// comparison, and sorting is much of what a group of many members and few tasks
// costs.
func sortKeyed(items []keyed) []keyed {
	differ := uint64(0)
	ordered := true
	for i := 1; i < len(items); i++ {
		differ |= items[i].key ^ items[i-1].key
		ordered = ordered && items[i-1].key <= items[i].key
	}
	if ordered {
		return items
	}
	const worthwhile = 64
	if len(items) < worthwhile {
		slices.SortFunc(items, func(a, b keyed) int {
			return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.number, b.number))
		})
		return items
	}
	spare := make([]keyed, len(items))
	for shift := 0; shift < 64; shift += 8 {
		if byte(differ>>shift) == 0 {
			continue
		}
		var start [256]int32
		for i := range items {
			start[byte(items[i].key>>shift)]++
		}
		sum := int32(0)
		for b, n := range start {
			start[b] = sum
			sum += n
		}
		for i := range items {
			at := &start[byte(items[i].key>>shift)]
			spare[*at] = items[i]
			*at++
		}
		items, spare = spare, items
	}
	return items
}

// textOrder is an order of numbers by their texts.
type textOrder struct {
	order []int32
	same  []bool // by place: the text is that of the place before
}

// sortByText orders the numbers 0 to n-1 by their texts, and equal ones ascending.
func sortByText(n int, text func(number int32) string) textOrder {
	o := textOrder{make([]int32, n), make([]bool, n)}
	ascending, last := true, ""
	for i := range o.order {
		o.order[i] = int32(i)
		if t := text(int32(i)); ascending {
			c := strings.Compare(last, t)
			ascending, o.same[i], last = c <= 0, c == 0 && i > 0, t
		}
	}
	if !ascending {
		s := textSort{texts: make([]string, n)}
		for i := range s.texts {
			s.texts[i] = text(int32(i))
		}
		clear(o.same)
		s.sort(o, 0)
	}
	return o
}

type textSort struct{ texts []string }

// sort orders numbers whose texts are equal in the bytes before from: by the
// eight bytes after those that all of them share, and those that do not differ
// there by later ones.
func (s *textSort) sort(o textOrder, from int) {
	const worthwhile = 12
	if len(o.order) < worthwhile {
		s.compare(o)
		return
	}
	first := s.texts[o.order[0]]
	shared := len(first)
	for _, n := range o.order[1:] {
		t := s.texts[n]
		if len(t) < shared || t[from:shared] != first[from:shared] {
			shared = from + commonPrefix(t[from:], first[from:shared])
		}
	}
	items := make([]keyed, len(o.order))
	for i, n := range o.order {
		items[i] = keyed{textKey(s.texts[n][shared:]), n}
	}
	items = sortKeyed(items)
	var unclear [][2]int32
	for i := 0; i < len(items); {
		start, differ, text := i, false, s.texts[items[i].number]
		o.order[i] = items[i].number
		for i++; i < len(items) && items[i].key == items[start].key; i++ {
			o.order[i], o.same[i] = items[i].number, true
			differ = differ || s.texts[items[i].number] != text
		}
		if differ {
			unclear = append(unclear, [2]int32{int32(start), int32(i)})
		}
	}
	for _, u := range unclear {
		part := textOrder{o.order[u[0]:u[1]], o.same[u[0]:u[1]]}
		clear(part.same)
		if len(part.order) == len(o.order) {
			s.compare(part) // zero bytes at the end are all that differs
			return
		}
		s.sort(part, shared)
	}
}

func (s *textSort) compare(o textOrder) {
	slices.SortFunc(o.order, func(a, b int32) int {
		return cmp.Or(strings.Compare(s.texts[a], s.texts[b]), cmp.Compare(a, b))
	})
	for i := 1; i < len(o.order); i++ {
		o.same[i] = s.texts[o.order[i]] == s.texts[o.order[i-1]]
	}
}

func commonPrefix(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return i
}

// textKey is the first eight bytes of a text as a number that is ordered as the
// text is, except for texts that differ in later bytes or in zero bytes at the
// end.
func textKey(s string) uint64 {
	if len(s) >= 8 {
		return uint64(s[7]) | uint64(s[6])<<8 | uint64(s[5])<<16 | uint64(s[4])<<24 |
			uint64(s[3])<<32 | uint64(s[2])<<40 | uint64(s[1])<<48 | uint64(s[0])<<56
	}
	k := uint64(0)
	for i := range len(s) {
		k |= uint64(s[i]) << (56 - 8*i)
	}
	return k
}
