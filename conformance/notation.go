package conformance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// none is a list of tasks that is present and empty, as [formatTasks] writes it.
const none = ""

// absent is a list of tasks that is null.
const absent = "null"

// parseTasks reads "s1:0,2-4 s2:0". The subtopologies come out in the order in
// which they are written.
func parseTasks(s string) (map[string][]int32, []string) {
	tasks := map[string][]int32{}
	var order []string
	for field := range strings.FieldsSeq(s) {
		sub, list, ok := strings.Cut(field, ":")
		if !ok {
			panic(fmt.Sprintf("conformance: tasks %q: want subtopology:partitions", s))
		}
		if !slices.Contains(order, sub) {
			order = append(order, sub)
		}
		for part := range strings.SplitSeq(list, ",") {
			from, to, isRange := strings.Cut(part, "-")
			if !isRange {
				to = from
			}
			first, err1 := strconv.Atoi(from)
			last, err2 := strconv.Atoi(to)
			if err1 != nil || err2 != nil {
				panic(fmt.Sprintf("conformance: tasks %q: %q is no partition", s, part))
			}
			for p := first; p <= last; p++ {
				tasks[sub] = append(tasks[sub], int32(p))
			}
		}
	}
	return tasks, order
}

// formatTasks writes partitions one by one, subtopologies and partitions
// ascending: "s1:0,2,3,4 s2:0".
func formatTasks(tasks map[string][]int32) string {
	var b strings.Builder
	subs := make([]string, 0, len(tasks))
	for sub, ps := range tasks {
		if len(ps) > 0 {
			subs = append(subs, sub)
		}
	}
	slices.Sort(subs)
	for i, sub := range subs {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(sub + ":")
		ps := slices.Sorted(slices.Values(tasks[sub]))
		for j, p := range ps {
			if j > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strconv.Itoa(int(p)))
		}
	}
	return b.String()
}

// canonical rewrites tasks in the form of formatTasks.
func canonical(s string) string {
	if s == absent {
		return absent
	}
	tasks, _ := parseTasks(s)
	return formatTasks(tasks)
}

func responseTasks(list []kmsg.TaskIDs) string {
	if list == nil {
		return absent
	}
	tasks := map[string][]int32{}
	for _, t := range list {
		tasks[t.SubtopologyID] = append(tasks[t.SubtopologyID], t.Partitions...)
	}
	return formatTasks(tasks)
}

func requestTasks(s string) []kmsg.TaskIDs {
	if s == absent {
		return nil
	}
	list := []kmsg.TaskIDs{}
	tasks, order := parseTasks(s)
	for _, sub := range order {
		t := kmsg.NewTaskIDs()
		t.SubtopologyID, t.Partitions = sub, tasks[sub]
		list = append(list, t)
	}
	return list
}
