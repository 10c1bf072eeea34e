package topics

import (
	"cmp"
	"strings"
)

// compareIDs is the order in which subtopologies are visited where the result
// depends on it: ids of digits only come first, as numbers, then the others as
// text. Kafka visits in the order of a hash map, which is the same for the ids
// "0" to "9", so the counts of topics that either created are the same, too.
func compareIDs(a, b string) int {
	an, bn := isNumber(a), isNumber(b)
	switch {
	case an && bn:
		x, y := strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
		return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y), strings.Compare(a, b))
	case an:
		return -1
	case bn:
		return 1
	}
	return strings.Compare(a, b)
}

func isNumber(id string) bool {
	for i := range len(id) {
		if id[i] < '0' || id[i] > '9' {
			return false
		}
	}
	return id != ""
}
