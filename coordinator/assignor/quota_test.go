package assignor

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestQuota(t *testing.T) {
	t.Parallel()
	t.Run("QT-01 a full member leaves with its tasks", func(t *testing.T) {
		t.Parallel()
		q := newQuota(10, 3)
		for count := int32(1); count < 4; count++ {
			q.told(count)
			assert.Equal(t, quota{tasks: 10, members: 3, limit: 4}, q)
		}
		q.told(4)
		assert.Equal(t, quota{tasks: 6, members: 2, limit: 3}, q)
	})
	t.Run("QT-03 fewer tasks than members", func(t *testing.T) {
		t.Parallel()
		q := newQuota(3, 5)
		for range 3 {
			assert.EqualValues(t, 1, q.limit)
			q.told(1)
		}
		assert.Equal(t, quota{tasks: 0, members: 2, limit: 0}, q)
	})
	t.Run("QT-04 a count above the quota", func(t *testing.T) {
		t.Parallel()
		q := newQuota(6, 3)
		q.told(3)
		assert.Equal(t, quota{tasks: 6, members: 3, limit: 2}, q)
	})
	t.Run("QT-05 nothing to share or nobody", func(t *testing.T) {
		t.Parallel()
		assert.Zero(t, newQuota(0, 4).limit)
		assert.Zero(t, newQuota(5, 0).limit)
	})
	t.Run("QT-06 the total counts all configured standbys", func(t *testing.T) {
		t.Parallel()
		x, err := newIndex(parseGroup(t, "R=5 s(4,sf) m1{} m2{}"))
		assert.NoError(t, err)
		r := newRun(x, newPriors(x, priorRules{}))
		r.startQuotas()
		assert.Equal(t, quota{tasks: 24, members: 2, limit: 12}, r.totalQuota)
	})
}

func TestWaterFill(t *testing.T) {
	t.Parallel()
	// Of 12 tasks on 4 members those with 1 and 3 stay, the one with 5 does not:
	// it owns more than the average of the others.
	q := newQuota(12, 4)
	fixed := make([]bool, 4)
	q.waterFill([]int32{0, 1, 2}, []int64{5, 3, 1, 0}, fixed)
	assert.Equal(t, []bool{false, true, true, false}, fixed)
	assert.Equal(t, quota{tasks: 8, members: 2, limit: 4}, q)
}
