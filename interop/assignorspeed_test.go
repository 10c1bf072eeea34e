package interop_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/coordinator/assignor"
	"github.com/streamsgroup/streamsgroup/topology"
)

var (
	wholeGrid = flag.Bool("assignor.grid", false, "measure the whole grid of TestAssignorSpeed, which takes minutes, and say where its goals are missed")
	gridTable = flag.String("assignor.table", "", "the file for the table of TestAssignorSpeed instead of the log")
)

// speedPoint is one combination of the parameters of Kafka's
// StreamsStickyAssignorBenchmark.
type speedPoint struct {
	MemberCount       int    `json:"memberCount"`
	PartitionCount    int    `json:"partitionCount"`
	SubtopologyCount  int    `json:"subtopologyCount"`
	StandbyReplicas   int    `json:"standbyReplicas"`
	MembersPerProcess int    `json:"membersPerProcess"`
	AssignmentType    string `json:"assignmentType"`
	ReportedOffsets   string `json:"reportedOffsets"`
}

func (p speedPoint) tasks() int { return p.PartitionCount * p.SubtopologyCount }

func speedGrid() []speedPoint {
	out := make([]speedPoint, 0, 128)
	for _, members := range []int{100, 1000} {
		for _, partitions := range []int{10, 100} {
			for _, subtopologies := range []int{10, 100} {
				for _, standbys := range []int{0, 1} {
					for _, perProcess := range []int{1, 50} {
						for _, typ := range []string{"FULL", "INCREMENTAL"} {
							for _, offsets := range []string{"NONE", "OWNED_AND_DORMANT"} {
								out = append(out, speedPoint{members, partitions, subtopologies, standbys, perProcess, typ, offsets})
							}
						}
					}
				}
			}
		}
	}
	return out
}

// group is the group that is assigned at the point, after the given assignor has
// assigned what is there before. As the coordinator does, it names the members
// by id.
func (p speedPoint) group(t *testing.T, a assignor.Assignor) *assignor.Group {
	t.Helper()
	g := &assignor.Group{StandbyReplicas: p.StandbyReplicas}
	for i := range p.SubtopologyCount {
		id := "topic-" + strconv.Itoa(i) + "_subtopology"
		g.Subtopologies = append(g.Subtopologies, assignor.Subtopology{ID: id, Tasks: int32(p.PartitionCount), Stateful: i%2 == 0})
	}
	slices.SortFunc(g.Subtopologies, func(a, b assignor.Subtopology) int { return strings.Compare(a.ID, b.ID) })
	incremental := p.AssignmentType == "INCREMENTAL"
	before := p.MemberCount
	if incremental {
		before--
	}
	for i := range before {
		g.Members = append(g.Members, assignor.Member{ID: "member-" + strconv.Itoa(i), ProcessID: "process-" + strconv.Itoa(i/p.MembersPerProcess)})
	}
	slices.SortFunc(g.Members, func(a, b assignor.Member) int { return strings.Compare(a.ID, b.ID) })
	if incremental {
		first, err := a.Assign(g)
		require.NoError(t, err)
		for i := range g.Members {
			m := first[g.Members[i].ID]
			g.Members[i].Prior = assignor.Tasks{Active: m.Active, Standby: m.Standby}
		}
	}
	if p.ReportedOffsets != "NONE" {
		reportTwoCopies(g)
	}
	if incremental {
		g.Members = append(g.Members, assignor.Member{ID: "newMember", ProcessID: "process-newMember"})
	}
	return g
}

// reportTwoCopies lets two neighbours report each stateful task, the second one
// with the older copy.
func reportTwoCopies(g *assignor.Group) {
	n := 0
	for _, s := range g.Subtopologies {
		for p := int32(0); s.Stateful && p < s.Tasks; p++ {
			for k, base := range []int64{2_000_000, 1_000_000} {
				m := &g.Members[(n+k)%len(g.Members)]
				if m.Offsets == nil {
					m.Offsets = make(map[topology.TaskID]int64)
				}
				m.Offsets[topology.TaskID{Subtopology: s.ID, Partition: p}] = base + int64(n)
			}
			n++
		}
	}
}

// timing is what one assignment costs: the times of all that were made, and the
// bytes and allocations of each.
type timing struct {
	nanos         []float64
	bytes, allocs uint64
}

func (m *timing) median() time.Duration {
	slices.Sort(m.nanos)
	return time.Duration(m.nanos[len(m.nanos)/2])
}

// timeOurs assigns again and again for a while.
func (m *timing) timeOurs(t *testing.T, a assignor.Assignor, g *assignor.Group, d time.Duration) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n := uint64(0)
	for begin := time.Now(); n == 0 || time.Since(begin) < d; n++ {
		start := time.Now()
		_, err := a.Assign(g)
		m.nanos = append(m.nanos, float64(time.Since(start)))
		require.NoError(t, err)
	}
	runtime.ReadMemStats(&after)
	m.bytes, m.allocs = (after.TotalAlloc-before.TotalAlloc)/n, (after.Mallocs-before.Mallocs)/n
}

func (m *timing) timeKafkas(t *testing.T, k *kafkasAssignor, d time.Duration) {
	t.Helper()
	var answer struct {
		Nanos []float64 `json:"nanos"`
		Bytes uint64    `json:"bytes"`
	}
	k.ask(t, map[string]any{"run": d.Milliseconds()}, &answer)
	m.nanos, m.bytes = append(m.nanos, answer.Nanos...), answer.Bytes
}

// speed is the comparison at one point.
type speed struct {
	speedPoint
	kafkas, sticky, highlyAvailable timing
}

func (s *speed) ratio() float64 { return float64(s.kafkas.median()) / float64(s.sticky.median()) }

// measure times the assignors in turns, so that what else the machine does hits
// all of them.
func measure(t *testing.T, k *kafkasAssignor, p speedPoint, warm time.Duration, rounds int, each time.Duration) *speed {
	t.Helper()
	s := &speed{speedPoint: p}
	sticky, highlyAvailable := assignor.NewSticky(), assignor.NewHighlyAvailable()
	g, h := p.group(t, sticky), p.group(t, highlyAvailable)
	var prepared struct{}
	k.ask(t, map[string]any{"point": p}, &prepared)
	new(timing).timeKafkas(t, k, warm)
	new(timing).timeOurs(t, sticky, g, warm/10)
	for range rounds {
		s.kafkas.timeKafkas(t, k, each)
		s.sticky.timeOurs(t, sticky, g, each)
		s.highlyAvailable.timeOurs(t, highlyAvailable, h, each/2)
	}
	return s
}

// How long our assignors take beside the one of Apache Kafka, on the grid of
// Kafka's own benchmark and beyond, from the description of the group to the
// assignment. All points are measured in one run of two processes, in turns,
// Kafka's after a warm-up that has every point in it. A normal run only sees that
// it works.
func TestAssignorSpeed(t *testing.T) {
	k := startKafkasAssignor(t, "-Xms1g", "-Xmx1g")
	points, warm, rounds, each := speedGrid(), 500*time.Millisecond, 5, 200*time.Millisecond
	if !*wholeGrid {
		t.Parallel()
		points, warm, rounds, each = points[:2], 0, 1, time.Millisecond
	} else {
		for _, p := range points {
			measure(t, k, p, 200*time.Millisecond, 0, 0)
		}
	}
	results := make([]*speed, 0, len(points)+2)
	for _, p := range points {
		results = append(results, measure(t, k, p, warm, rounds, each))
	}
	table := speedTable(results)
	if *wholeGrid {
		large := []*speed{
			measure(t, k, speedPoint{1000, 1000, 100, 1, 1, "INCREMENTAL", "NONE"}, 8*time.Second, 3, 2*time.Second),
			measure(t, k, speedPoint{10_000, 1000, 100, 1, 1, "INCREMENTAL", "NONE"}, 8*time.Second, 3, 2*time.Second),
			measure(t, k, speedPoint{10_000, 1000, 100, 1, 1, "FULL", "NONE"}, 4*time.Second, 3, 2*time.Second),
		}
		table += "\nBeyond the grid:\n\n" + speedRows(large)
	}
	if *gridTable == "" {
		t.Log("\n" + table)
		return
	}
	require.NoError(t, os.WriteFile(*gridTable, []byte(table), 0o600))
}

// speedTable is a table in Markdown, and what it comes to: the geometric mean of
// the ratios, the lowest ratio for each number of tasks, and the points that
// miss a goal.
func speedTable(results []*speed) string {
	var out strings.Builder
	logs, goals := 0.0, map[int]float64{100: 2, 1000: 5, 10_000: 10}
	lowest, missed := make(map[int]*speed), []string(nil)
	for _, s := range results {
		logs += math.Log(s.ratio())
		if l := lowest[s.tasks()]; l == nil || s.ratio() < l.ratio() {
			lowest[s.tasks()] = s
		}
		if s.ratio() < goals[s.tasks()] {
			missed = append(missed, fmt.Sprintf("* %.1f instead of %.0f: %+v", s.ratio(), goals[s.tasks()], s.speedPoint))
		}
	}
	fmt.Fprintf(&out, "Geometric mean over %d points: %.2f times Kafka's speed.\n\n", len(results), math.Exp(logs/float64(len(results))))
	out.WriteString("| tasks | lowest ratio | goal | at |\n|---|---|---|---|\n")
	for _, tasks := range []int{100, 1000, 10_000} {
		if s := lowest[tasks]; s != nil {
			fmt.Fprintf(&out, "| %d | %.1f | %.0f | %+v |\n", tasks, s.ratio(), goals[tasks], s.speedPoint)
		}
	}
	fmt.Fprintf(&out, "\nPoints that miss their goal: %d\n%s\n\n", len(missed), strings.Join(missed, "\n"))
	return out.String() + speedRows(results)
}

func speedRows(results []*speed) string {
	var out strings.Builder
	out.WriteString("| memberCount | partitionCount | subtopologyCount | standbyReplicas | membersPerProcess | assignmentType | reportedOffsets " +
		"| Kafka µs | ours µs | ratio | Kafka kB | ours kB | ours allocations | highly_available µs | kB |\n|" + strings.Repeat("---|", 15) + "\n")
	micros := func(m *timing) float64 { return float64(m.median().Nanoseconds()) / 1000 }
	for _, s := range results {
		fmt.Fprintf(&out, "| %d | %d | %d | %d | %d | %s | %s | %.1f | %.1f | %.1f | %d | %d | %d | %.1f | %d |\n",
			s.MemberCount, s.PartitionCount, s.SubtopologyCount, s.StandbyReplicas, s.MembersPerProcess, s.AssignmentType, s.ReportedOffsets,
			micros(&s.kafkas), micros(&s.sticky), s.ratio(), s.kafkas.bytes/1000, s.sticky.bytes/1000, s.sticky.allocs,
			micros(&s.highlyAvailable), s.highlyAvailable.bytes/1000)
	}
	return out.String()
}
