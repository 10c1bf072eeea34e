package assignor

import (
	"cmp"
	"slices"
)

// quota says how many tasks a member may have so that the counts stay even. It
// starts with the rounded-up average. A member that reaches the quota is full
// and leaves the calculation together with its tasks, so that of 10 tasks and 3
// members one may keep 4 and then no other more than 3.
type quota struct {
	tasks, members, limit int64
}

func newQuota(tasks int64, members int) quota {
	q := quota{tasks: tasks, members: int64(members)}
	q.limit = q.average()
	return q
}

func (q *quota) average() int64 {
	if q.members <= 0 {
		return 0
	}
	return (q.tasks + q.members - 1) / q.members
}

// told takes the count that a member has after an assignment. A count above the
// limit changes nothing: limits shrink, and a member that has passed one by the
// deal of the rest was not full at any.
func (q *quota) told(count int32) {
	if int64(count) != q.limit || q.members == 0 {
		return
	}
	q.members--
	q.tasks -= int64(count)
	q.limit = q.average()
}

// waterFill takes stale members out of the calculation that own no more than
// the average: they will not grow, so the others have to take more. Those
// members are marked in fixed, and keep all they own. Members are visited by
// what they own, then by id.
func (q *quota) waterFill(stale []int32, own []int64, fixed []bool) {
	stale = slices.Clone(stale)
	slices.SortFunc(stale, func(a, b int32) int {
		return cmp.Or(cmp.Compare(own[a], own[b]), cmp.Compare(a, b))
	})
	for _, m := range stale {
		if fixed[m] = own[m] <= q.limit; fixed[m] {
			q.tasks -= own[m]
			q.members--
			q.limit = q.average()
		}
	}
}
