package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/topology"
)

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Task lists in the notation of the cases: "s1:0,1 s2:0-2".

func parseTasks(s string) taskList { l, _ := parseActive(s, 0); return l }

// parseActive reads "s1:0,1@9 s1:2@8"; tasks without an epoch get the given one.
func parseActive(s string, epoch int32) (taskList, []int32) {
	epochs := map[topology.TaskID]int32{}
	for _, f := range strings.Fields(s) {
		e := epoch
		f, at, ok := strings.Cut(f, "@")
		if ok {
			n, err := strconv.Atoi(at)
			if err != nil {
				panic(err)
			}
			e = int32(n)
		}
		id, list, ok := strings.Cut(f, ":")
		if !ok {
			panic("no task: " + f)
		}
		for _, p := range strings.Split(list, ",") {
			from, to, ranged := strings.Cut(p, "-")
			if !ranged {
				to = from
			}
			a, err1 := strconv.Atoi(from)
			b, err2 := strconv.Atoi(to)
			if err1 != nil || err2 != nil {
				panic("no partition: " + p)
			}
			for i := a; i <= b; i++ {
				epochs[topology.TaskID{Subtopology: id, Partition: int32(i)}] = e
			}
		}
	}
	var l taskList
	var out []int32
	for _, t := range slices.SortedFunc(maps.Keys(epochs), topology.TaskID.Compare) {
		l, out = append(l, t), append(out, epochs[t])
	}
	return l, out
}

// parseRoles reads "s1:0 | standby s2:0 | warmup s2:1".
func parseRoles(s string) roles { return parseCurrent(s, "", 0).assigned }

func parseCurrent(tasks, pending string, epoch int32) current {
	var c current
	read := func(s string, r *roles, epochs *[]int32) {
		for _, part := range strings.Split(s, "|") {
			part = strings.TrimSpace(part)
			if rest, ok := strings.CutPrefix(part, "standby"); ok {
				r.standby = parseTasks(rest)
			} else if rest, ok := strings.CutPrefix(part, "warmup"); ok {
				r.warmup = parseTasks(rest)
			} else if part != "-" {
				r.active, *epochs = parseActive(part, epoch)
			}
		}
	}
	read(tasks, &c.assigned, &c.epochs)
	read(pending, &c.pending, &c.pendingEpochs)
	return c
}

func showTasks(l taskList) string { return showActive(l, nil) }

func showActive(l taskList, epochs []int32) string {
	var out []string
	for i := 0; i < len(l); {
		j := i + 1
		for j < len(l) && l[j].Subtopology == l[i].Subtopology && (epochs == nil || epochs[j] == epochs[i]) {
			j++
		}
		var ps []string
		for k := i; k < j; {
			n := k + 1
			for n < j && l[n].Partition == l[n-1].Partition+1 {
				n++
			}
			switch {
			case n-k > 2:
				ps = append(ps, fmt.Sprintf("%d-%d", l[k].Partition, l[n-1].Partition))
			default:
				for m := k; m < n; m++ {
					ps = append(ps, strconv.Itoa(int(l[m].Partition)))
				}
			}
			k = n
		}
		s := l[i].Subtopology + ":" + strings.Join(ps, ",")
		if epochs != nil {
			s += fmt.Sprintf("@%d", epochs[i])
		}
		out = append(out, s)
		i = j
	}
	return strings.Join(out, " ")
}

func showRoles(r roles, epochs []int32) string {
	var out []string
	if len(r.active) > 0 {
		out = append(out, showActive(r.active, epochs))
	}
	if len(r.standby) > 0 {
		out = append(out, "standby "+showTasks(r.standby))
	}
	if len(r.warmup) > 0 {
		out = append(out, "warmup "+showTasks(r.warmup))
	}
	if out == nil {
		return "-"
	}
	return strings.Join(out, " | ")
}

func (s memberState) String() string {
	switch s {
	case stable:
		return "STABLE"
	case unrevokedTasks:
		return "UNREVOKED_TASKS"
	case unreleasedTasks:
		return "UNRELEASED_TASKS"
	case unknownState:
		return "UNKNOWN"
	}
	return strconv.Itoa(int(s))
}

func (c current) String() string {
	s := fmt.Sprintf("%s ME %d PME %d %s", c.state, c.epoch, c.previousEpoch, showRoles(c.assigned, c.epochs))
	if !c.pending.empty() {
		s += " pending " + showRoles(c.pending, c.pendingEpochs)
	}
	return s
}

// showRecord is the notation of the cases: "17(GE 11)", "22(m1 STABLE …)",
// "t22(m1)".
func showRecord(r record.Record, now int64) string {
	key := r.RecordKey()
	switch r := r.(type) {
	case record.Tombstone:
		if key.Member == "" {
			return fmt.Sprintf("t%d", key.Type)
		}
		return fmt.Sprintf("t%d(%s)", key.Type, key.Member)
	case *record.GroupMetadata:
		return fmt.Sprintf("17(GE %d VTE %d)", r.Epoch, r.ValidatedTopologyEpoch)
	case *record.TargetAssignmentMetadata:
		at := strconv.FormatInt(r.AssignmentTimestampMillis, 10)
		if r.AssignmentTimestampMillis == now {
			at = "now"
		}
		return fmt.Sprintf("20(%d, %s)", r.AssignmentEpoch, at)
	case *record.TargetAssignment:
		return fmt.Sprintf("21(%s %s)", r.Member, showRoles(roles{listFromRecord(r.Active), listFromRecord(r.Standby), listFromRecord(r.Warmup)}, nil))
	case *record.CurrentAssignment:
		return fmt.Sprintf("22(%s %s)", r.Member, currentFromRecord(r))
	case *record.Topology:
		return fmt.Sprintf("23(TE %d)", r.Epoch)
	}
	return fmt.Sprintf("%d(%s)", key.Type, key.Member)
}
