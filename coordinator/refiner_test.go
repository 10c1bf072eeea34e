package coordinator

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/streamsgroup/streamsgroup/topology"
)

// The cases write a member as process/id{active|standby|warm-up}, with offset
// reports @task=offset/end, v0 for a member on heartbeat version 0, v? for one
// that was not heard of, and #0 for one with an older topology. Tasks are
// partitions of the stateful subtopology s; those of l are stateless.
var refineNotation = regexp.MustCompile(`^(?:(\w+)/)?(\w+)\{([^|}]*)(?:\|([^|}]*))?(?:\|([^|}]*))?\}(.*)$`)

func parseRefineMember(tb require.TestingT, word string) (m refineMember, tasks roles) {
	p := refineNotation.FindStringSubmatch(word)
	require.NotNil(tb, p, word)
	list := func(text string) taskList {
		var out taskList
		for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
			sub, n := "s", part
			if rest, ok := strings.CutPrefix(part, "l:"); ok {
				sub, n = "l", rest
			}
			partition, err := strconv.Atoi(n)
			require.NoError(tb, err)
			out = append(out, topology.TaskID{Subtopology: sub, Partition: int32(partition)})
		}
		return out.sorted()
	}
	m = refineMember{id: p[2], process: p[1], warms: warmsYes}
	if m.process == "" {
		m.process = m.id
	}
	rest := p[6]
	for _, flag := range []struct {
		text string
		set  func()
	}{
		{"v0", func() { m.warms = warmsNo }},
		{"v?", func() { m.warms = warmsUnknown }},
		{"#0", func() { m.stale = true }},
	} {
		if before, after, ok := strings.Cut(rest, flag.text); ok {
			flag.set()
			rest = before + after
		}
	}
	if reports, ok := strings.CutPrefix(rest, "@"); ok {
		m.offsets, m.ends = map[topology.TaskID]int64{}, map[topology.TaskID]int64{}
		number := func(text string) int64 {
			if text == "max" {
				return math.MaxInt64
			}
			n, err := strconv.ParseInt(text, 10, 64)
			require.NoError(tb, err)
			return n
		}
		for _, r := range strings.Split(reports, ",") {
			name, value, _ := strings.Cut(r, "=")
			offset, end, hasEnd := strings.Cut(value, "/")
			m.offsets[list(name)[0]] = number(offset)
			if hasEnd {
				m.ends[list(name)[0]] = number(end)
			}
		}
	}
	return m, roles{list(p[3]), list(p[4]), list(p[5])}
}

// parseRefine reads holdings and targets. A target of somebody who is not there
// is dropped, and its tasks stay where they are.
func parseRefine(tb require.TestingT, held, target string) refineInput {
	in := refineInput{warmups: 2, lag: 100, stateful: func(s string) bool { return s == "s" }, keepOrphans: true}
	for _, word := range strings.Fields(held) {
		m, tasks := parseRefineMember(tb, word)
		m.held = tasks
		in.members = append(in.members, m)
	}
	slices.SortFunc(in.members, func(a, b refineMember) int { return strings.Compare(a.id, b.id) })
	for _, word := range strings.Fields(target) {
		m, tasks := parseRefineMember(tb, word)
		for i := range in.members {
			if in.members[i].id == m.id {
				in.members[i].target = tasks
			}
		}
	}
	return in
}

// format writes what everybody is to have.
func (in *refineInput) format(out refined) string {
	parts := make([]string, len(in.members))
	for i := range in.members {
		parts[i] = in.members[i].id + "{" + formatRoles(in.slice(out, i)) + "}"
	}
	return strings.Join(parts, " ")
}

func (in *refineInput) slice(out refined, i int) roles {
	if t, ok := out.tasks[in.members[i].id]; ok {
		return t
	}
	return in.members[i].target
}

func formatRoles(r roles) string {
	text := func(l taskList) string {
		parts := make([]string, len(l))
		for i, t := range l {
			parts[i] = strconv.Itoa(int(t.Partition))
			if t.Subtopology != "s" {
				parts[i] = t.Subtopology + ":" + parts[i]
			}
		}
		return strings.Join(parts, ",")
	}
	return strings.TrimRight(text(r.active)+"|"+text(r.standby)+"|"+text(r.warmup), "|")
}

func TestRefinerCases(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, held, target, want string
		w                        int // default 2, -1 for 0
		lag                      int64
		ends                     map[string]int64 // log ends
	}{
		{name: "RF-01 the owner goes on while the next one warms up", held: "A{0,1,2} B{3}", target: "A{0,1} B{2,3}", want: "A{0,1,2} B{3||2}"},
		{name: "RF-01 caught up", held: "A{0,1,2} B{3||2}@2=1000/1100", target: "A{0,1} B{2,3}", want: "A{0,1} B{2,3}"},
		{name: "one record too far behind", held: "A{0,1,2} B{3||2}@2=1000/1101", target: "A{0,1} B{2,3}", want: "A{0,1,2} B{3||2}"},
		{name: "RF-04 the state is on the same disk", held: "p/A{0} p/B{}", target: "A{} B{0}", want: "A{} B{0}"},
		{name: "RF-07 no end offset and no log end", held: "A{0} B{||0}@0=1000", target: "A{} B{0}", want: "A{0} B{||0}"},
		{name: "RF-07 unknown end offset", held: "A{0} B{||0}@0=1000/max", target: "A{} B{0}", want: "A{0} B{||0}"},
		{name: "RF-07 no end offset, log end near", held: "A{0} B{||0}@0=1000", target: "A{} B{0}", want: "A{} B{0}", ends: map[string]int64{"s_0": 1100}},
		{name: "RF-07 unknown end offset, log end near", held: "A{0} B{||0}@0=1000/max", target: "A{} B{0}", want: "A{} B{0}", ends: map[string]int64{"s_0": 1100}},
		{name: "RF-07 no end offset, log end far", held: "A{0} B{||0}@0=1000", target: "A{} B{0}", want: "A{0} B{||0}", ends: map[string]int64{"s_0": 1101}},
		{name: "RF-07 unknown offset", held: "A{0} B{||0}@0=max/1000", target: "A{} B{0}", want: "A{0} B{||0}", ends: map[string]int64{"s_0": 1000}},
		{name: "RF-08 a lag below zero", held: "A{0} B{||0}@0=1000/999", target: "A{} B{0}", want: "A{} B{0}"},
		{name: "RF-09 a standby waits while its member runs the task", held: "A{0,1} B{}", target: "A{0|1} B{1|0}", want: "A{0,1} B{|0|1}"},
		{name: "RF-10 a standby is borrowed instead of a warm-up", held: "A{0,1} B{|1} C{}", target: "A{0} B{1} C{|1}", want: "A{0,1} B{|1} C{}"},
		{name: "RF-11 and promoted", held: "A{0,1} B{|1}@1=1000/1000 C{}", target: "A{0} B{1} C{|1}", want: "A{0} B{1} C{|1}"},
		{name: "RF-12 the owner is gone", held: "A{0,1}", target: "A{0} Z{1}", want: "A{0,1}"},
		{name: "RF-13 the standby that has caught up takes over", held: "A{|0}@0=990/1000 B{}", target: "A{|0} B{0}", want: "A{0} B{||0}"},
		{name: "RF-14 the owner has the state on disk", held: "A{|0}@0=990/1000 B{}@0=1", target: "A{|0} B{0}", want: "A{|0} B{0}"},
		{name: "nobody has anything", held: "A{} B{}", target: "A{0} B{1}", want: "A{0} B{1}"},
		{name: "RF-17 an owner that restores has nothing to lose", held: "A{0}@0=1000/6000 B{}", target: "A{} B{0}", want: "A{} B{0}"},
		{name: "an owner that has nearly restored", held: "A{0}@0=5950/6000 B{}", target: "A{} B{0}", want: "A{0} B{||0}"},
		{name: "RF-18 a sibling's standby makes way for a warm-up", held: "A{0} pB/B1{} pB/B2{|0}", target: "A{} B1{0} B2{}", w: 1, want: "A{0} B1{||0} B2{}"},
		{name: "RF-18 without a slot it stays", held: "A{0,1} pB/B1{||1}@1=5/5000 pB/B2{|0} C{}", target: "A{} B1{0,1} B2{} C{|0}", w: 1, want: "A{0,1} B1{||1} B2{|0} C{}"},
		{name: "RF-20 no warm-ups", held: "A{0,1} B{}", target: "A{0} B{1}", w: -1, want: "A{0} B{1}"},
		{name: "no lag limit", held: "A{0,1} B{}", target: "A{0} B{1}", lag: math.MaxInt64, want: "A{0} B{1}"},
		{name: "RF-22 who cannot report gets the task cold", held: "A{0,1} B{}v0", target: "A{0} B{1}", want: "A{0} B{1}"},
		{name: "RF-23 who was not heard of gets nothing yet", held: "A{0,1} B{}v?", target: "A{0} B{1}", want: "A{0,1} B{}"},
		{name: "RF-23 but keeps what it has", held: "A{0,1,2} B{||1}v? pC/C1{}v? pC/C2{|2}v?", target: "A{0} B{1} C1{2} C2{}", want: "A{0,1,2} B{||1} C1{} C2{|2}"},
		{name: "RF-25 the idle destination first", held: "A{0,1} X{5}@5=1/9000 Y{}", target: "A{} X{0,5} Y{1}", w: 1, want: "A{0,1} X{5} Y{||1}"},
		{name: "RF-26 a warm-up that cannot start makes way", held: "A{0,1} X{5||0}@5=1/9000 Y{}", target: "A{} X{0,5} Y{1}", w: 1, want: "A{0,1} X{5} Y{||1}"},
		{name: "RF-26 one that has started does not", held: "A{0,1} X{5||0}@5=1/9000,0=1/9000 Y{}", target: "A{} X{0,5} Y{1}", w: 1, want: "A{0,1} X{5||0} Y{}"},
		{name: "RF-27 the busier source first", held: "A{0,2,3} B{1,4,5,6,7} X{} Y{}", target: "A{2,3} B{4,5,6,7} X{0} Y{1}", w: 1, want: "A{0,2,3} B{1,4,5,6,7} X{} Y{||1}"},
		{name: "RF-29 only standbys differ", held: "A{0|1} B{1|}", target: "A{0} B{1|0}", want: "A{0} B{1|0}"},
		{name: "stateless tasks go at once", held: "A{l:0,l:1} B{}", target: "A{l:0} B{l:1}", want: "A{l:0} B{l:1}"},
		{name: "the budget is for the group", held: "A{0,1,2,3,4,5} B{} C{}", target: "A{0,1} B{2,3} C{4,5}", want: "A{0,1,2,3,4,5} B{||2} C{||4}"},
		{name: "a stale owner takes nothing", held: "A{} B{0}#0 C{1}", target: "A{} B{0,1}#0 C{}", want: "A{} B{0} C{1}"},
		{name: "RF-39 no entries without tasks", held: "A{0} B{}", target: "A{} B{0}", want: "A{0} B{||0}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			in := parseRefine(t, tc.held, tc.target)
			if tc.w != 0 {
				in.warmups = max(0, tc.w)
			}
			if tc.lag != 0 {
				in.lag = tc.lag
			}
			if tc.ends != nil {
				in.logEnd = func(id topology.TaskID) (int64, bool) { n, ok := tc.ends[id.String()]; return n, ok }
			}
			out := refine(in)
			assert.Equal(t, tc.want, in.format(out))
			assert.True(t, in.sameActive(out))
			if in.format(out) == in.format(refined{}) {
				assert.Nil(t, out.tasks)
			}
		})
	}
}

// RF-30: a result that lost one task and has another twice has the right number
// of tasks.
func TestRF30CountsAreNotEnough(t *testing.T) {
	t.Parallel()
	in := parseRefine(t, "A{0,1} B{}", "A{0} B{1}")
	_, wrong := parseRefineMember(t, "A{1}")
	assert.False(t, in.sameActive(refined{tasks: map[string]roles{"A": wrong}}))
	assert.True(t, in.sameActive(refine(in)))
}

// RF-36: one slot, two moves, step by step.
func TestRF36StepByStep(t *testing.T) {
	t.Parallel()
	target := "a{0,2} b{1,3}"
	for _, step := range []struct{ held, want string }{
		{"pA/a{0,1,2,3} pB/b{}", "a{0,1,2,3} b{||1}"},
		{"pA/a{0,1,2,3} pB/b{||1}@1=10/5000", "a{0,1,2,3} b{||1}"},
		{"pA/a{0,1,2,3} pB/b{||1}@1=4950/5000", "a{0,2,3} b{1||3}"},
		{"pA/a{0,2,3} pB/b{1||3}@3=5000/5000", "a{0,2} b{1,3}"},
		{"pA/a{0,2} pB/b{1,3}", "a{0,2} b{1,3}"},
	} {
		in := parseRefine(t, step.held, target)
		in.warmups = 1
		assert.Equal(t, step.want, in.format(refine(in)), step.held)
	}
}

// RF-37: a coordinator that knows no offsets comes to what the members hold.
func TestRF37NothingMovesAfterAFailover(t *testing.T) {
	t.Parallel()
	for _, held := range []string{"pA/a{0,1,2,3}v? pB/b{||1}v?", "pA/a{0,2,3}v? pB/b{1||3}v?", "pA/a{0,2}v? pB/b{1,3}v?"} {
		in := parseRefine(t, held, "a{0,2} b{1,3}")
		in.warmups = 1
		out := refine(in)
		for i := range in.members {
			assert.True(t, in.members[i].held.equal(in.slice(out, i)), "%s: %s", held, in.format(out))
		}
	}
}

func drawRefine(t *rapid.T) refineInput {
	tasks := rapid.IntRange(1, 8).Draw(t, "tasks")
	members := rapid.IntRange(1, 6).Draw(t, "members")
	processes := rapid.IntRange(1, members).Draw(t, "processes")
	in := refineInput{
		warmups: rapid.IntRange(1, 3).Draw(t, "W"), lag: 100,
		stateful: func(s string) bool { return s == "s" },
	}
	for i := range members {
		in.members = append(in.members, refineMember{
			id: fmt.Sprintf("m%d", i), process: fmt.Sprintf("p%d", i%processes),
			stale: rapid.IntRange(0, 5).Draw(t, "stale") == 0,
			warms: rapid.SampledFrom([]warms{warmsYes, warmsYes, warmsYes, warmsUnknown, warmsNo}).Draw(t, "warms"),
		})
	}
	add := func(l *taskList, id topology.TaskID) { *l = append(*l, id).sorted() }
	for n := range tasks {
		id := topology.TaskID{Subtopology: "s", Partition: int32(n)}
		if rapid.IntRange(0, 4).Draw(t, "stateless") == 0 {
			id.Subtopology = "l"
		}
		used := map[string]bool{}
		if h := rapid.IntRange(-1, members-1).Draw(t, "holder"); h >= 0 {
			add(&in.members[h].held.active, id)
			used[in.members[h].process] = true
		}
		if id.Subtopology == "s" {
			for range rapid.IntRange(0, 2).Draw(t, "copies") {
				m := &in.members[rapid.IntRange(0, members-1).Draw(t, "copy")]
				if used[m.process] {
					continue
				}
				used[m.process] = true
				if rapid.Bool().Draw(t, "warm-up") && !m.stale {
					add(&m.held.warmup, id)
				} else {
					add(&m.held.standby, id)
				}
			}
		}
		// The target keeps the rules of an assignment: fresh owners, or stale ones
		// that hold the task; a process has a task once.
		var could []int
		for i := range in.members {
			if m := &in.members[i]; !m.stale || m.held.active.has(id) {
				could = append(could, i)
			}
		}
		if len(could) == 0 {
			continue
		}
		o := &in.members[rapid.SampledFrom(could).Draw(t, "owner")]
		add(&o.target.active, id)
		taken := map[string]bool{o.process: true}
		if id.Subtopology == "s" && rapid.Bool().Draw(t, "standby") {
			if m := &in.members[rapid.IntRange(0, members-1).Draw(t, "standby of")]; !taken[m.process] && (!m.stale || m.held.standby.has(id)) {
				add(&m.target.standby, id)
			}
		}
	}
	for i := range in.members {
		m := &in.members[i]
		m.offsets, m.ends = map[topology.TaskID]int64{}, map[topology.TaskID]int64{}
		for n := range tasks {
			id := topology.TaskID{Subtopology: "s", Partition: int32(n)}
			if rapid.IntRange(0, 2).Draw(t, "reports") > 0 {
				continue
			}
			m.offsets[id] = rapid.SampledFrom([]int64{0, 900, 1000, math.MaxInt64}).Draw(t, "offset")
			if rapid.Bool().Draw(t, "reports end") {
				m.ends[id] = rapid.SampledFrom([]int64{1000, 9000, math.MaxInt64}).Draw(t, "end")
			}
		}
	}
	return in
}

// The invariants of every refined assignment, I1 to I12.
func TestRefinerInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawRefine(t)
		out := refine(in)
		require.True(t, in.sameActive(out), "I1")
		checkRefined(t, &in, out)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		other := in
		other.members = slices.Clone(in.members)
		rng.Shuffle(len(other.members), func(i, j int) { other.members[i], other.members[j] = other.members[j], other.members[i] })
		slices.SortFunc(other.members, func(a, b refineMember) int { return strings.Compare(a.id, b.id) })
		require.Equal(t, in.format(out), other.format(refine(other)), "I12")
	})
}

func checkRefined(t require.TestingT, in *refineInput, out refined) {
	warmups, staged := 0, map[topology.TaskID]bool{}
	where := map[topology.TaskID]map[string]int{} // holders by process
	standbys, targetStandbys := map[topology.TaskID]int{}, map[topology.TaskID]int{}
	targetOwner := map[topology.TaskID]int{}
	for i := range in.members {
		for _, id := range in.members[i].target.active {
			targetOwner[id] = i
		}
	}
	for i := range in.members {
		m := &in.members[i]
		got := in.slice(out, i)
		require.True(t, got.disjoint())
		for _, role := range allRoles {
			for _, id := range *got.of(role) {
				if where[id] == nil {
					where[id] = map[string]int{}
				}
				where[id][m.process]++
			}
		}
		for _, id := range got.warmup {
			warmups++
			require.Equal(t, "s", id.Subtopology, "I3")
			require.False(t, m.stale, "I3")
			require.Equal(t, i, targetOwner[id], "I3")
		}
		for _, id := range got.active {
			if m.target.active.has(id) {
				continue
			}
			staged[id] = true
			require.Equal(t, "s", id.Subtopology, "I4")
			require.True(t, m.held.active.has(id) || (m.held.standby.has(id) || m.held.warmup.has(id)) && in.caughtUp(m, id), "I6, I7")
		}
		for _, id := range got.standby {
			standbys[id]++
			require.True(t, m.target.standby.has(id) || m.held.standby.has(id) || m.held.warmup.has(id), "I6")
		}
		for _, id := range m.target.standby {
			targetStandbys[id]++
		}
	}
	require.LessOrEqual(t, warmups, in.warmups, "I3")
	for id, processes := range where {
		for p, n := range processes {
			require.Equal(t, 1, n, "I2: task %v at %s", id, p)
		}
		require.LessOrEqual(t, standbys[id], targetStandbys[id]+1, "I11")
	}
	if len(staged) == 0 {
		require.Nil(t, out.tasks, "I10")
	}
	r := &refiner{refineInput: *in}
	r.findMoves()
	r.index()
	for i := range in.members {
		m := &in.members[i]
		for _, id := range m.held.active {
			o, named := targetOwner[id]
			if !named || o == i || id.Subtopology != "s" {
				continue
			}
			owner := &in.members[o]
			if !r.hot(m, id) || staged[id] || owner.warms == warmsNo {
				continue
			}
			ready := m.process == owner.process
			for j := range in.members {
				c := &in.members[j]
				ready = ready || c.process == owner.process && (c.held.standby.has(id) || c.held.warmup.has(id)) && in.caughtUp(c, id)
			}
			require.True(t, ready, "I8: %v leaves %s", id, m.id)
		}
	}
	if warmups < in.warmups {
		for id := range staged {
			o := &in.members[targetOwner[id]]
			require.True(t, o.stale || o.warms == warmsUnknown || where[id][o.process] > 0, "I9: %v", id)
		}
	}
}

// I13: with members that catch up and nothing else happening a group comes to its
// target, in about moves/W steps.
func TestRefinerReachesTheTarget(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawRefine(t)
		for i := range in.members {
			m := &in.members[i]
			if m.warms == warmsUnknown {
				m.warms = warmsYes
			}
			m.stale = false
		}
		for step := 0; ; step++ {
			require.Less(t, step, 12)
			out := refine(in)
			checkRefined(t, &in, out)
			done := true
			next := slices.Clone(in.members)
			for i := range next {
				next[i].held = in.slice(out, i)
				next[i].offsets, next[i].ends = map[topology.TaskID]int64{}, map[topology.TaskID]int64{}
				for _, l := range []taskList{next[i].held.standby, next[i].held.warmup} {
					for _, id := range l {
						next[i].offsets[id], next[i].ends[id] = 1000, 1000
					}
				}
				done = done && next[i].held.equal(next[i].target)
			}
			in.members = next
			if done {
				return
			}
		}
	})
}
