package topology

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTaskIDOrder(t *testing.T) {
	t.Parallel()
	var ids []TaskID
	for _, s := range []string{"2_0", "10_1", "0_10", "0_9", "a_b_3"} {
		id, err := ParseTaskID(s)
		require.NoError(t, err)
		assert.Equal(t, s, id.String())
		ids = append(ids, id)
	}
	slices.SortFunc(ids, TaskID.Compare)
	var got []string
	for _, id := range ids {
		got = append(got, id.String())
	}
	assert.Equal(t, []string{"0_9", "0_10", "10_1", "2_0", "a_b_3"}, got)
}

func TestParseTaskIDRefuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "0", "0_", "0_x", "0_-1", "0_01", "0_+1", "0_2147483648"} {
		_, err := ParseTaskID(s)
		assert.ErrorContains(t, err, "<subtopology>_<partition>", s)
	}
}

func FuzzParseTaskID(f *testing.F) {
	f.Add("0_3")
	f.Add("a_b_0")
	f.Add("_")
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := ParseTaskID(s); err == nil {
			assert.Equal(t, s, id.String())
			assert.GreaterOrEqual(t, id.Partition, int32(0))
		}
	})
}
