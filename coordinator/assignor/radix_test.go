package assignor

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Ids come from users: whatever they share or differ in, they are ordered as
// strings.Compare orders them, and equal ones stay as they are.
func TestSortByText(t *testing.T) {
	t.Parallel()
	part := rapid.SampledFrom([]string{"", "a", "b", "\x00", "\x00\x00", "\xff", "member-", "12345678", "12345679", "eight by"})
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.Map(rapid.SliceOfN(part, 0, 4), func(p []string) string { return strings.Join(p, "") }), 0, 200).Draw(t, "texts")
		want := make([]int32, len(texts))
		for i := range want {
			want[i] = int32(i)
		}
		slices.SortStableFunc(want, func(a, b int32) int { return cmp.Compare(texts[a], texts[b]) })
		got := sortByText(len(texts), func(i int32) string { return texts[i] })
		require.Equal(t, want, got.order)
		for i, same := range got.same {
			require.Equal(t, i > 0 && texts[want[i]] == texts[want[max(i, 1)-1]], same)
		}

		subs := make([]indexedSub, 0, len(texts))
		for _, i := range slices.CompactFunc(want, func(a, b int32) bool { return texts[a] == texts[b] }) {
			subs = append(subs, indexedSub{id: texts[i]})
		}
		table := newSubTable(subs)
		for i := range subs {
			require.Same(t, &subs[i], table.find(subs, subs[i].id))
			require.Nil(t, table.find(subs, subs[i].id+"c"))
			require.Nil(t, table.find(subs, "c"+subs[i].id))
		}
	})
}
