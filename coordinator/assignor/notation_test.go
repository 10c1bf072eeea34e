package assignor

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/streamsgroup/streamsgroup/topology"

	"github.com/stretchr/testify/require"
)

// The cases describe groups and assignments in one line of text:
//
//	R=1 s(4,sf) l(2,sl) m1{s:0,1;l:0|s:2|s:3} P2/m2{}
//
// is a group with one standby replica, four stateful tasks of subtopology s and
// two stateless ones of l, and two members: active, standby and warm-up tasks.
// Without a name in front a partition belongs to s; 0-3 is a range. A member is
// alone in a process of its own id unless the process is written in front.
// After the braces may stand:
//
//	@0=7,1=max   reported offsets
//	!0,1         active tasks in the previous target
//	+cluster=x   client tags, several with further plus signs
//	#0           its topology epoch; the group's is 1 and the default
//
// keys=cluster,zone sets the tag keys.
func parseGroup(tb testing.TB, text string) *Group {
	tb.Helper()
	g := &Group{TopologyEpoch: 1}
	for _, word := range strings.Fields(text) {
		switch {
		case strings.HasPrefix(word, "R="):
			n, err := strconv.Atoi(word[2:])
			require.NoError(tb, err)
			g.StandbyReplicas = n
		case strings.HasPrefix(word, "keys="):
			g.RackAwareTags = strings.Split(word[5:], ",")
		case strings.Contains(word, "{"):
			g.Members = append(g.Members, parseMember(tb, word))
		default:
			m := regexp.MustCompile(`^(\w+)\((\d+),(sf|sl)\)$`).FindStringSubmatch(word)
			require.NotNil(tb, m, word)
			n, err := strconv.ParseInt(m[2], 10, 32)
			require.NoError(tb, err)
			g.Subtopologies = append(g.Subtopologies, Subtopology{ID: m[1], Tasks: int32(n), Stateful: m[3] == "sf"})
		}
	}
	return g
}

var memberNotation = regexp.MustCompile(`^(?:(\w+)/)?(\w+)\{([^|}]*)(?:\|([^|}]*))?(?:\|([^|}]*))?\}(.*)$`)

func parseMember(tb testing.TB, word string) Member {
	tb.Helper()
	p := memberNotation.FindStringSubmatch(word)
	require.NotNil(tb, p, word)
	m := Member{
		ID: p[2], ProcessID: p[1], TopologyEpoch: 1,
		Prior: Tasks{Active: parseTasks(tb, p[3]), Standby: parseTasks(tb, p[4]), Warmup: parseTasks(tb, p[5])},
	}
	if m.ProcessID == "" {
		m.ProcessID = m.ID
	}
	for _, part := range regexp.MustCompile(`[@!+#][^@!+#]*`).FindAllString(p[6], -1) {
		switch part[0] {
		case '@':
			m.Offsets = map[topology.TaskID]int64{}
			for _, o := range strings.Split(part[1:], ",") {
				name, value, _ := strings.Cut(o, "=")
				n := int64(math.MaxInt64)
				if value != "max" {
					var err error
					n, err = strconv.ParseInt(value, 10, 64)
					require.NoError(tb, err)
				}
				for _, id := range parseTasks(tb, name) {
					m.Offsets[id] = n
				}
			}
		case '!':
			m.PriorTarget = parseTasks(tb, part[1:])
		case '+':
			if m.ClientTags == nil {
				m.ClientTags = map[string]string{}
			}
			key, value, _ := strings.Cut(part[1:], "=")
			m.ClientTags[key] = value
		case '#':
			n, err := strconv.ParseInt(part[1:], 10, 32)
			require.NoError(tb, err)
			m.TopologyEpoch = int32(n)
		}
	}
	return m
}

func parseTasks(tb testing.TB, text string) TaskSet {
	tb.Helper()
	if text == "" {
		return nil
	}
	var out TaskSet
	for _, part := range strings.Split(text, ";") {
		sub, list, named := strings.Cut(part, ":")
		if !named {
			sub, list = "s", part
		}
		for _, item := range strings.Split(list, ",") {
			from, to, isRange := strings.Cut(item, "-")
			if !isRange {
				to = from
			}
			a, err := strconv.Atoi(from)
			require.NoError(tb, err)
			b, err := strconv.Atoi(to)
			require.NoError(tb, err)
			for ; a <= b; a++ {
				out = append(out, topology.TaskID{Subtopology: sub, Partition: int32(a)})
			}
		}
	}
	return out
}

// bySubtopology is a set as Kafka's JSON has it.
func bySubtopology(s TaskSet) map[string][]int32 {
	out := map[string][]int32{}
	for _, t := range s {
		out[t.Subtopology] = append(out[t.Subtopology], t.Partition)
	}
	return out
}

func setOf(in map[string][]int32) TaskSet {
	var out TaskSet
	for sub, partitions := range in {
		for _, p := range partitions {
			out = append(out, topology.TaskID{Subtopology: sub, Partition: p})
		}
	}
	return sorted(out)
}

func formatTasks(s TaskSet) string {
	parts := make([]string, 0, len(s))
	for sub, partitions := range bySubtopology(s) {
		texts := make([]string, len(partitions))
		for i, p := range partitions {
			texts[i] = strconv.Itoa(int(p))
		}
		part := strings.Join(texts, ",")
		if sub != "s" {
			part = sub + ":" + part
		}
		parts = append(parts, part)
	}
	slices.Sort(parts)
	return strings.Join(parts, ";")
}

// formatAssignment writes m1{0|1} m2{} in the order of the group.
func formatAssignment(g *Group, a Assignment) string {
	parts := make([]string, len(g.Members))
	for i, m := range g.Members {
		text := formatTasks(a[m.ID].Active)
		if standby := formatTasks(a[m.ID].Standby); standby != "" {
			text += "|" + standby
		}
		parts[i] = fmt.Sprintf("%s{%s}", m.ID, text)
	}
	return strings.Join(parts, " ")
}

// assign runs the assignor on a group in every order of its members, up to a
// limit, and checks the rules and that the order does not matter.
func assign(tb testing.TB, a Assignor, g *Group) Assignment {
	tb.Helper()
	want, err := a.Assign(g)
	require.NoError(tb, err)
	require.NoError(tb, Verify(g, want), formatAssignment(g, want))
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		other := *g
		other.Members, other.Subtopologies = slices.Clone(g.Members), slices.Clone(g.Subtopologies)
		shuffle(rng, &other)
		got, err := a.Assign(&other)
		require.NoError(tb, err)
		require.Equal(tb, want, got)
	}
	return want
}

// continued is the group after everybody has taken what was assigned.
func continued(g *Group, a Assignment) *Group {
	out := *g
	out.Members = slices.Clone(g.Members)
	for i := range out.Members {
		m := &out.Members[i]
		m.Prior = Tasks{Active: a[m.ID].Active, Standby: a[m.ID].Standby}
	}
	return &out
}

func sorted(s TaskSet) TaskSet {
	slices.SortFunc(s, topology.TaskID.Compare)
	return s
}

func size(s TaskSet) int { return len(s) }
