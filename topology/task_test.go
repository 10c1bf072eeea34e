package topology

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTaskIDOrder(t *testing.T) {
	t.Parallel()
	texts := []string{"2_0", "10_1", "0_10", "0_9", "a_b_3"}
	ids := make([]TaskID, 0, len(texts))
	for _, s := range texts {
		id, err := ParseTaskID(s)
		require.NoError(t, err)
		assert.Equal(t, s, id.String())
		ids = append(ids, id)
	}
	slices.SortFunc(ids, TaskID.Compare)
	got := make([]string, 0, len(ids))
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

// Any id will do for a subtopology: the text of a task stays unambiguous.
func FuzzTaskIDRoundTrip(f *testing.F) {
	f.Add("0", int32(3))
	f.Add("a_1", int32(0))
	f.Add("_", int32(math.MaxInt32))
	f.Fuzz(func(t *testing.T, subtopology string, partition int32) {
		id := TaskID{Subtopology: subtopology, Partition: max(partition, 0)}
		got, err := ParseTaskID(id.String())
		require.NoError(t, err)
		assert.Equal(t, id, got)
		assert.Zero(t, id.Compare(got))
	})
}

func TestTaskIDCompareIsATotalOrder(t *testing.T) {
	t.Parallel()
	task := rapid.Custom(func(t *rapid.T) TaskID {
		return TaskID{
			Subtopology: rapid.SampledFrom([]string{"", "0", "1", "10", "2", "a", "a_1"}).Draw(t, "subtopology"),
			Partition:   rapid.Int32Range(0, 11).Draw(t, "partition"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := task.Draw(t, "a"), task.Draw(t, "b"), task.Draw(t, "c")
		assert.Equal(t, a == b, a.Compare(b) == 0)
		assert.Equal(t, a.Compare(b), -b.Compare(a))
		if a.Compare(b) <= 0 && b.Compare(c) <= 0 {
			assert.LessOrEqual(t, a.Compare(c), 0)
		}
	})
}
