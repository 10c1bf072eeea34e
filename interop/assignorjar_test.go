package interop_test

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/coordinator/assignor"
	"github.com/streamsgroup/streamsgroup/topology"
)

var (
	jarChecks = flag.Int("checks", 1500, "how many groups TestAssignorAgainstJar tries")
	jarSeed   = flag.Uint64("seed", 1, "the seed of the groups of TestAssignorAgainstJar")
)

// Random groups are assigned by the assignor of Apache Kafka and by ours. Ours
// has to be what Kafka's rules allow, where ours are the same: at every tie one of
// the equals was taken, so that the two are equal where there is no tie. Where
// ours differ on purpose, no member gets more than Kafka could have given it.
func TestAssignorAgainstJar(t *testing.T) {
	t.Parallel()
	k := startKafkasAssignor(t, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")
	rng := rand.New(rand.NewPCG(*jarSeed, 71))
	var plain, determined, equal, open int
	for i := range *jarChecks {
		g, kind := randomGroup(rng)
		var kafkas struct {
			Error string                                   `json:"error"`
			Out   map[string]map[string]map[string][]int32 `json:"out"`
		}
		k.ask(t, map[string]any{"assign": groupJSON(g)}, &kafkas)
		require.Empty(t, kafkas.Error)
		model := newStickyModel(g)
		theirs := model.assignment(fromJSON(kafkas.Out))
		fail := func(who string, a assignor.Assignment) {
			t.Errorf("group %d (%s) of seed %d: %s of ours is not among what Kafka could decide\n%s\nKafka: %s\nours:  %s",
				i, kind, *jarSeed, who, describeGroup(g), describeAssignment(g, fromJSON(kafkas.Out)), describeAssignment(g, a))
		}
		switch model.judge(theirs) {
		case impossible:
			t.Fatalf("group %d (%s) of seed %d: the model does not know Kafka's answer\n%s\nKafka: %s", i, kind, *jarSeed, describeGroup(g), describeAssignment(g, fromJSON(kafkas.Out)))
		case undecided:
			open++
		case possible:
		}
		strict := assign(t, assignor.NewSticky(assignor.StrictKafka()), g)
		switch model.judge(model.assignment(strict)) {
		case impossible:
			fail("the strict mode", strict)
		case undecided:
			open++
		case possible:
		}
		if _, certain := model.sample(rng); certain {
			determined++
			if !theirs.equal(model.assignment(strict)) {
				fail("the strict mode, without a tie,", strict)
			}
		}
		if theirs.equal(model.assignment(strict)) {
			equal++
		}
		normal := assign(t, assignor.NewSticky(), g)
		if isPlain(g) {
			plain++
			if model.judge(model.assignment(normal)) == impossible {
				fail("the normal mode", normal)
			}
		} else {
			active, stateful := model.most(model.assignment(normal))
			worstActive, worstStateful := model.most(theirs)
			for range 20 {
				s, _ := model.sample(rng)
				a, b := model.most(&s)
				worstActive, worstStateful = max(worstActive, a), max(worstStateful, b)
			}
			assert.LessOrEqual(t, active, worstActive, "active tasks of a member, group %d (%s) of seed %d\n%s", i, kind, *jarSeed, describeGroup(g))
			assert.LessOrEqual(t, stateful, worstStateful, "stateful tasks of a member, group %d (%s) of seed %d\n%s", i, kind, *jarSeed, describeGroup(g))
		}
		assign(t, assignor.NewHighlyAvailable(), g)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d groups: in %d there was no tie, in %d ours and Kafka's answer are equal; %d are plain, %d answers have too many ties to be judged", *jarChecks, determined, equal, plain, open)
	if *jarChecks >= 1000 {
		assert.Greater(t, determined, *jarChecks/10, "groups without a tie")
		assert.Greater(t, plain, *jarChecks/5, "plain groups")
		assert.Less(t, open, *jarChecks/20, "answers that are not judged")
	}
}

func assign(t *testing.T, a assignor.Assignor, g *assignor.Group) assignor.Assignment {
	t.Helper()
	out, err := a.Assign(g)
	require.NoError(t, err)
	require.NoError(t, assignor.Verify(g, out), "%s\n%s", a.Name(), describeGroup(g))
	return out
}

// isPlain is whether there is nothing in a group that our normal mode treats in
// another way than Kafka on purpose.
func isPlain(g *assignor.Group) bool {
	for i := range g.Subtopologies {
		if g.Subtopologies[i].Stateful != g.Subtopologies[0].Stateful {
			return false
		}
	}
	for i := range g.Members {
		m := &g.Members[i]
		if len(m.Prior.Warmup) > 0 || slices.Contains(slices.Collect(maps.Values(m.Offsets)), math.MaxInt64) {
			return false
		}
	}
	return len(g.RackAwareTags) == 0
}

// groupMaker makes groups of all kinds and ages.
type groupMaker struct {
	rng *rand.Rand
	g   *assignor.Group
	// size is a rough number of members.
	size      int
	processes int
	made      int
	tags      bool
}

// randomGroup returns a group and what has become of it.
func randomGroup(rng *rand.Rand) (*assignor.Group, string) {
	m := &groupMaker{rng: rng, g: &assignor.Group{StandbyReplicas: rng.IntN(4)}, tags: rng.IntN(8) == 0}
	m.size = 1 + rng.IntN([]int{3, 8, 8, 15, 40, 120}[rng.IntN(6)])
	most := []int{1, 4, 12, 30}[rng.IntN(4)]
	if rng.IntN(40) == 0 {
		m.size, most = 100+rng.IntN(300), 200
	}
	m.processes = 1 + rng.IntN(2*m.size)
	m.addSubtopologies(most)
	for range m.size {
		m.join()
	}
	if m.tags {
		m.g.RackAwareTags = []string{"zone", "cluster"}[:1+rng.IntN(2)]
	}
	kinds := []string{}
	for range rng.IntN(5) {
		before := assignor.Assignor(assignor.NewSticky(assignor.StrictKafka()))
		if rng.IntN(3) == 0 {
			before = assignor.NewHighlyAvailable()
		}
		a, err := before.Assign(m.g)
		if err != nil {
			panic(err)
		}
		for i := range m.g.Members {
			in := &m.g.Members[i]
			in.Prior = assignor.Tasks{Active: a[in.ID].Active, Standby: a[in.ID].Standby}
		}
		kind := slices.Sorted(maps.Keys(changes))[rng.IntN(len(changes))]
		changes[kind](m)
		kinds = append(kinds, kind)
	}
	if len(kinds) == 0 {
		kinds = append(kinds, "cold start")
	}
	rng.Shuffle(len(m.g.Members), func(i, j int) { m.g.Members[i], m.g.Members[j] = m.g.Members[j], m.g.Members[i] })
	return m.g, strings.Join(kinds, ", ")
}

func (m *groupMaker) addSubtopologies(most int) {
	flavour := m.rng.IntN(4) // all stateful, all stateless or mixed
	for i := range 1 + m.rng.IntN(5) {
		id := strconv.Itoa(i * 5)
		if m.rng.IntN(5) == 0 {
			id = "a-subtopology-with-a-name-" + id + "-of-its-own"
		}
		m.g.Subtopologies = append(m.g.Subtopologies, assignor.Subtopology{
			ID: id, Tasks: int32(m.rng.IntN(most + 1)), Stateful: flavour < 2 || flavour == 2 && m.rng.IntN(2) == 0,
		})
	}
}

func (m *groupMaker) join() {
	m.made++
	in := assignor.Member{ID: fmt.Sprintf("%x-%d", m.rng.IntN(1<<16), m.made), ProcessID: fmt.Sprintf("process-%d", m.rng.IntN(m.processes))}
	if m.tags {
		in.ClientTags = map[string]string{"zone": strconv.Itoa(m.rng.IntN(3)), "cluster": strconv.Itoa(m.rng.IntN(2))}
	}
	m.g.Members = append(m.g.Members, in)
}

func (m *groupMaker) any() *assignor.Member { return &m.g.Members[m.rng.IntN(len(m.g.Members))] }

func (m *groupMaker) task() topology.TaskID {
	s := m.g.Subtopologies[m.rng.IntN(len(m.g.Subtopologies))]
	return topology.TaskID{Subtopology: s.ID, Partition: m.rng.Int32N(s.Tasks + 2)} // may not exist
}

func report(m *assignor.Member, id topology.TaskID, offset int64) {
	reported := maps.Clone(m.Offsets)
	if reported == nil {
		reported = make(map[topology.TaskID]int64)
	}
	reported[id] = offset
	m.Offsets = reported
}

func with(s assignor.TaskSet, id topology.TaskID) assignor.TaskSet {
	return slices.CompactFunc(slices.SortedFunc(slices.Values(append(slices.Clone(s), id)), topology.TaskID.Compare), func(a, b topology.TaskID) bool { return a == b })
}

// changes are what may become of a group.
var changes = map[string]func(m *groupMaker){
	"nothing": func(*groupMaker) {},
	"members joined": func(m *groupMaker) {
		for range 1 + m.rng.IntN(1+m.size/3) {
			m.join()
		}
	},
	"members left": func(m *groupMaker) {
		for range 1 + m.rng.IntN(1+m.size/3) {
			if i := m.rng.IntN(len(m.g.Members)); len(m.g.Members) > 1 {
				m.g.Members = slices.Delete(m.g.Members, i, i+1)
			}
		}
	},
	"few stayed, others came": func(m *groupMaker) {
		a, err := assignor.NewSticky().Assign(&assignor.Group{StandbyReplicas: m.g.StandbyReplicas, Subtopologies: m.g.Subtopologies, Members: m.g.Members[:1]})
		if err != nil {
			panic(err)
		}
		m.g.Members = m.g.Members[:1]
		in := &m.g.Members[0]
		in.Prior = assignor.Tasks{Active: a[in.ID].Active} // it had taken over everything
		for range 1 + m.rng.IntN(1+m.size) {
			m.join()
		}
	},
	"a process left": func(m *groupMaker) {
		p := m.any().ProcessID
		if left := slices.DeleteFunc(slices.Clone(m.g.Members), func(in assignor.Member) bool { return in.ProcessID == p }); len(left) > 0 {
			m.g.Members = left
		}
	},
	"a process restarted": func(m *groupMaker) {
		p := m.any().ProcessID
		disk := make(map[topology.TaskID]int64)
		for i := range m.g.Members {
			if in := &m.g.Members[i]; in.ProcessID == p {
				for _, id := range slices.Concat(in.Prior.Active, in.Prior.Standby) {
					disk[id] = m.rng.Int64N(4) * 100
				}
			}
		}
		for i := range m.g.Members {
			if in := &m.g.Members[i]; in.ProcessID == p {
				m.made++
				in.ID, in.Prior, in.Offsets = fmt.Sprintf("restarted-%d", m.made), assignor.Tasks{}, disk
			}
		}
	},
	"offsets reported": func(m *groupMaker) {
		for range 1 + m.rng.IntN(30) {
			report(m.any(), m.task(), m.rng.Int64N(5)*100)
		}
	},
	"standbys reported": func(m *groupMaker) {
		for i := range m.g.Members {
			for _, id := range m.g.Members[i].Prior.Standby {
				report(&m.g.Members[i], id, m.rng.Int64N(50))
			}
		}
	},
	"unknown offsets": func(m *groupMaker) {
		for range 1 + m.rng.IntN(5) {
			report(m.any(), m.task(), math.MaxInt64)
		}
	},
	"partitions changed": func(m *groupMaker) {
		s := &m.g.Subtopologies[m.rng.IntN(len(m.g.Subtopologies))]
		s.Tasks = m.rng.Int32N(2*s.Tasks + 3)
	},
	"a subtopology came and one went": func(m *groupMaker) {
		m.g.Subtopologies[m.rng.IntN(len(m.g.Subtopologies))].ID = fmt.Sprintf("new-%d", m.made)
		m.made++
	},
	"standbys changed": func(m *groupMaker) { m.g.StandbyReplicas = m.rng.IntN(5) },
	"mid-rebalance": func(m *groupMaker) {
		for i := range m.g.Members {
			in := &m.g.Members[i]
			drop := func(topology.TaskID) bool { return m.rng.IntN(3) == 0 }
			in.Prior.Active = slices.DeleteFunc(slices.Clone(in.Prior.Active), drop)
			in.Prior.Standby = slices.DeleteFunc(slices.Clone(in.Prior.Standby), drop)
		}
	},
	"holdings anywhere": func(m *groupMaker) {
		for range 1 + m.rng.IntN(20) {
			in := m.any()
			switch m.rng.IntN(3) {
			case 0:
				in.Prior.Standby = with(in.Prior.Standby, m.task())
			case 1:
				in.Prior.Warmup = with(in.Prior.Warmup, m.task())
			default:
				in.Prior.Active = with(in.Prior.Active, m.task())
			}
		}
	},
	"two owners": func(m *groupMaker) {
		for range 1 + m.rng.IntN(3) {
			if from, to := m.any(), m.any(); len(from.Prior.Active) > 0 {
				to.Prior.Active = with(to.Prior.Active, from.Prior.Active[m.rng.IntN(len(from.Prior.Active))])
			}
		}
	},
}

// groupJSON is a group as the process with Kafka's assignor reads it.
func groupJSON(g *assignor.Group) map[string]any {
	subs, members := []any{}, []any{}
	for _, s := range g.Subtopologies {
		subs = append(subs, map[string]any{"id": s.ID, "tasks": s.Tasks, "stateful": s.Stateful})
	}
	for i := range g.Members {
		m := &g.Members[i]
		offsets := make(map[string]map[int32]int64)
		for id, offset := range m.Offsets {
			if offsets[id.Subtopology] == nil {
				offsets[id.Subtopology] = make(map[int32]int64)
			}
			offsets[id.Subtopology][id.Partition] = offset
		}
		members = append(members, map[string]any{
			"id": m.ID, "process": m.ProcessID, "offsets": offsets,
			"active": bySubtopology(m.Prior.Active), "standby": bySubtopology(m.Prior.Standby), "warmup": bySubtopology(m.Prior.Warmup),
		})
	}
	return map[string]any{"standby_replicas": g.StandbyReplicas, "subtopologies": subs, "members": members}
}

func bySubtopology(s assignor.TaskSet) map[string][]int32 {
	out := make(map[string][]int32)
	for _, id := range s {
		out[id.Subtopology] = append(out[id.Subtopology], id.Partition)
	}
	return out
}

func fromJSON(in map[string]map[string]map[string][]int32) assignor.Assignment {
	set := func(by map[string][]int32) assignor.TaskSet {
		var out assignor.TaskSet
		for sub, partitions := range by {
			for _, p := range partitions {
				out = append(out, topology.TaskID{Subtopology: sub, Partition: p})
			}
		}
		return slices.SortedFunc(slices.Values(out), topology.TaskID.Compare)
	}
	out := make(assignor.Assignment, len(in))
	for id, roles := range in {
		out[id] = assignor.MemberAssignment{Active: set(roles["active"]), Standby: set(roles["standby"])}
	}
	return out
}

func describeGroup(g *assignor.Group) string {
	var out strings.Builder
	fmt.Fprintf(&out, "R=%d keys=%v %+v", g.StandbyReplicas, g.RackAwareTags, g.Subtopologies)
	for i := range g.Members {
		m := &g.Members[i]
		fmt.Fprintf(&out, "\n  %s/%s {%v | %v | %v} @%v %v", m.ProcessID, m.ID, m.Prior.Active, m.Prior.Standby, m.Prior.Warmup, m.Offsets, m.ClientTags)
	}
	return out.String()
}

func describeAssignment(g *assignor.Group, a assignor.Assignment) string {
	var out strings.Builder
	for i := range g.Members {
		id := g.Members[i].ID
		fmt.Fprintf(&out, "\n  %s {%v | %v}", id, a[id].Active, a[id].Standby)
	}
	return out.String()
}
