package conformance

import (
	"maps"
	"slices"
)

// Sets of tasks, in the notation "s1:0,1 s2:0". Absent lists count as empty.

// union are the tasks of several lists.
func union(lists ...string) string {
	all := map[string][]int32{}
	for _, list := range lists {
		tasks, _ := parseTasks(present(list))
		for sub, ps := range tasks {
			all[sub] = append(all[sub], ps...)
		}
	}
	for sub, ps := range all {
		slices.Sort(ps)
		all[sub] = slices.Compact(ps)
	}
	return formatTasks(all)
}

// minus are the tasks of a that are not in b.
func minus(a, b string) string { return filter(a, b, false) }

// common are the tasks of a that are in b as well.
func common(a, b string) string { return filter(a, b, true) }

func filter(a, b string, in bool) string {
	out := map[string][]int32{}
	left, _ := parseTasks(present(a))
	right, _ := parseTasks(present(b))
	for sub, ps := range left {
		for _, p := range ps {
			if slices.Contains(right[sub], p) == in {
				out[sub] = append(out[sub], p)
			}
		}
	}
	return formatTasks(out)
}

// count is the number of tasks in a list.
func count(list string) int {
	n := 0
	tasks, _ := parseTasks(present(list))
	for _, ps := range tasks {
		n += len(ps)
	}
	return n
}

// first are the first n tasks of a list.
func first(n int, list string) string {
	out := map[string][]int32{}
	tasks, _ := parseTasks(present(list))
	for _, sub := range slices.Sorted(maps.Keys(tasks)) {
		for _, p := range tasks[sub] {
			if n > 0 {
				out[sub] = append(out[sub], p)
				n--
			}
		}
	}
	return formatTasks(out)
}

func present(list string) string {
	if list == absent {
		return none
	}
	return list
}
