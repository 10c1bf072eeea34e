package membership

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOffsetReport(t *testing.T) {
	t.Parallel()
	t.Run("CC-107 TO-1 TO-4 what is on the disk and what runs", func(t *testing.T) {
		report := func(caughtUp bool) OffsetReport {
			var r OffsetReport
			for name, offset := range map[string]int64{"0_0": 10, "0_1": 20, "0_2": 30, "0_3": 40} {
				r.Stored(tasks(name)[0], offset)
			}
			r.CaughtUp(tasks("0_0")[0])
			require.NoError(t, r.Running(tasks("0_1")[0], 20, 5))
			require.NoError(t, r.Running(tasks("0_2")[0]))
			if caughtUp {
				r.CaughtUp(tasks("0_1")[0])
			}
			return r
		}
		require.Equal(t, offsets("0_1", 25, "0_2", 30, "0_3", 40), report(false).Offsets)
		require.Equal(t, offsets("0_2", 30, "0_3", 40), report(true).Offsets)
	})
	t.Run("TO-1 a task with its state in memory only", func(t *testing.T) {
		var r OffsetReport
		require.NoError(t, r.Running(tasks("0_0")[0], 7))
		require.Equal(t, offsets("0_0", 7), r.Offsets)
	})
	t.Run("TO-2 unknown and impossible positions", func(t *testing.T) {
		var r OffsetReport
		require.NoError(t, r.Running(tasks("0_0")[0], 7, -1, 3))
		require.Equal(t, offsets("0_0", 10), r.Offsets)
		require.ErrorContains(t, r.Running(tasks("0_0")[0], 7, -2), "0_0")
		require.Equal(t, offsets("0_0", 10), r.Offsets)
	})
	t.Run("TO-3 sums that are too large", func(t *testing.T) {
		var r OffsetReport
		require.NoError(t, r.Running(tasks("0_0")[0], math.MaxInt64, 1))
		r.Replaying(tasks("0_0")[0], math.MaxInt64-1, 2)
		require.Equal(t, int64(math.MaxInt64), r.Offsets[tasks("0_0")[0]])
		require.Equal(t, int64(math.MaxInt64), r.Ends[tasks("0_0")[0]])
	})
	t.Run("CC-110 TO-5 ends", func(t *testing.T) {
		var r OffsetReport
		r.Replaying(tasks("0_0")[0], 70, -1)
		r.Replaying(tasks("0_1")[0], 70, 30)
		require.Equal(t, offsets("0_0", math.MaxInt64, "0_1", 100), r.Ends)
	})
}
