package assignor

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/streamsgroup/streamsgroup/topology"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// vector is a group with the decision of the sticky assignor of Apache Kafka
// 4.4.0.
type vector struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	In   struct {
		StandbyReplicas int      `json:"standby_replicas"`
		RackAwareTags   []string `json:"rack_aware_tags"`
		Subtopologies   []struct {
			ID       string `json:"id"`
			Tasks    int32  `json:"tasks"`
			Stateful bool   `json:"stateful"`
		} `json:"subtopologies"`
		Members []struct {
			ID         string                      `json:"id"`
			Process    string                      `json:"process"`
			Instance   string                      `json:"instance"`
			Rack       string                      `json:"rack"`
			Tags       map[string]string           `json:"tags"`
			Active     map[string][]int32          `json:"active"`
			Standby    map[string][]int32          `json:"standby"`
			Warmup     map[string][]int32          `json:"warmup"`
			Offsets    map[string]map[string]int64 `json:"offsets"`
			EndOffsets map[string]map[string]int64 `json:"end_offsets"`
		} `json:"members"`
	} `json:"in"`
	Out map[string]struct {
		Active  map[string][]int32 `json:"active"`
		Standby map[string][]int32 `json:"standby"`
	} `json:"out"`
	Error   string             `json:"error"`
	Quality map[string]float64 `json:"quality"`
	// Plain: nothing in the input that the default mode treats in another way.
	Plain bool `json:"plain"`
	// Determined: no tie decides anything, so Kafka's answer is the only one.
	Determined bool `json:"determined"`
	// QualityRange is over the outcomes that other decisions at ties had.
	QualityRange map[string][2]float64 `json:"quality_range"`
}

func readVectors(tb testing.TB) []vector {
	tb.Helper()
	f, err := os.Open("testdata/kafka-sticky.jsonl.gz")
	require.NoError(tb, err)
	defer func() { require.NoError(tb, f.Close()) }()
	z, err := gzip.NewReader(f)
	require.NoError(tb, err)
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<22)
	var out []vector
	for lines.Scan() {
		var v vector
		require.NoError(tb, json.Unmarshal(lines.Bytes(), &v))
		out = append(out, v)
	}
	require.NoError(tb, lines.Err())
	require.Len(tb, out, 600)
	return out
}

func (v *vector) group(tb testing.TB) *Group {
	tb.Helper()
	g := &Group{StandbyReplicas: v.In.StandbyReplicas, RackAwareTags: v.In.RackAwareTags}
	for _, s := range v.In.Subtopologies {
		g.Subtopologies = append(g.Subtopologies, Subtopology{ID: s.ID, Tasks: s.Tasks, Stateful: s.Stateful})
	}
	for _, m := range v.In.Members {
		g.Members = append(g.Members, Member{
			ID: m.ID, ProcessID: m.Process, InstanceID: m.Instance, RackID: m.Rack, ClientTags: m.Tags,
			Prior:   Tasks{Active: setOf(m.Active), Standby: setOf(m.Standby), Warmup: setOf(m.Warmup)},
			Offsets: offsetsOf(tb, m.Offsets), EndOffsets: offsetsOf(tb, m.EndOffsets),
		})
	}
	return g
}

func offsetsOf(tb testing.TB, in map[string]map[string]int64) map[topology.TaskID]int64 {
	tb.Helper()
	out := map[topology.TaskID]int64{}
	for sub, partitions := range in {
		for text, offset := range partitions {
			p, err := strconv.ParseInt(text, 10, 32)
			require.NoError(tb, err)
			out[topology.TaskID{Subtopology: sub, Partition: int32(p)}] = offset
		}
	}
	return out
}

// want is Kafka's decision.
func (v *vector) want() Assignment {
	out := Assignment{}
	for id, a := range v.Out {
		out[id] = MemberAssignment{Active: setOf(a.Active), Standby: setOf(a.Standby)}
	}
	return out
}

// acceptable says whether a number is within what Kafka's rules allow: no
// worse than the worst that was seen.
func (v *vector) acceptable(name string, got float64) bool {
	span, varies := v.QualityRange[name]
	if !varies {
		span = [2]float64{v.Quality[name], v.Quality[name]}
	}
	switch {
	case lowerIsBetter[name]:
		return got <= span[1]+0.00011
	case higherIsBetter[name]:
		return got >= span[0]-0.00011
	}
	return true
}

var lowerIsBetter = map[string]bool{
	"active_max_per_member": true, "active_load_max": true, "stateful_max_per_member": true, "total_max_per_member": true,
	"total_load_max": true, "moved_active": true, "moved_stateful_active": true, "moved_active_process": true,
	"moved_stateful_process": true, "cold_active": true, "older_active": true, "standby_missing": true, "standby_short": true,
	"standby_moved": true, "cold_standby": true,
}

var higherIsBetter = map[string]bool{
	"active_min_per_member": true, "active_load_min": true, "stateful_min_per_member": true, "total_min_per_member": true,
	"total_load_min": true,
}

// The numbers that judge an assignment are checked against those that come
// with the vectors first.
func TestVectorsNumbers(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t) {
		if v.Error != "" {
			continue
		}
		got := quality(v.group(t), v.want())
		for name, want := range v.Quality {
			assert.InDelta(t, want, got[name], 0.00011, "%s (%s): %s", v.ID, v.Kind, name)
		}
	}
}

func TestVectorsStrictKafka(t *testing.T) {
	t.Parallel()
	a := NewSticky(StrictKafka())
	determined := 0
	for _, v := range readVectors(t) {
		g := v.group(t)
		got, err := a.Assign(g)
		if v.Error != "" {
			require.ErrorIs(t, err, ErrNoMembers, v.ID)
			continue
		}
		require.NoError(t, err, v.ID)
		checkAgainstKafka(t, &v, g, got)
		if v.Determined {
			determined++
		}
	}
	require.Equal(t, 388, determined)
}

func TestVectorsDefault(t *testing.T) {
	t.Parallel()
	a := NewSticky()
	others, worse := 0, map[string]int{}
	for _, v := range readVectors(t) {
		g := v.group(t)
		got, err := a.Assign(g)
		if v.Error != "" {
			require.ErrorIs(t, err, ErrNoMembers, v.ID)
			continue
		}
		require.NoError(t, err, v.ID)
		if v.Plain {
			checkAgainstKafka(t, &v, g, got)
			continue
		}
		require.NoError(t, Verify(g, got), v.ID)
		others++
		q := quality(g, got)
		assert.Zero(t, q["standby_short"], v.ID)
		for name := range q {
			if v.acceptable(name, q[name]) {
				continue
			}
			worse[name]++
			if name == "active_max_per_member" || name == "stateful_max_per_member" {
				assert.Failf(t, "worse than Kafka", "%s (%s): %s is %v", v.ID, v.Kind, name, q[name])
			}
		}
	}
	t.Logf("worse than the worst of Kafka's possible outcomes in %d vectors where the default mode decides on purpose in another way: %v", others, worse)
}

func checkAgainstKafka(t *testing.T, v *vector, g *Group, got Assignment) {
	t.Helper()
	require.NoError(t, Verify(g, got), v.ID)
	if v.Determined {
		assert.Equal(t, normal(v.want()), normal(got), "%s (%s)", v.ID, v.Kind)
	}
	for name, n := range quality(g, got) {
		assert.True(t, v.acceptable(name, n), "%s (%s): %s is %v, Kafka has %v in %v", v.ID, v.Kind, name, n, v.Quality[name], v.QualityRange[name])
	}
}

func TestVectorsInputOrder(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, v := range readVectors(t) {
		if v.Error != "" {
			continue
		}
		for _, a := range []Assignor{NewSticky(), NewSticky(StrictKafka())} {
			want, err := a.Assign(v.group(t))
			require.NoError(t, err)
			for range 3 {
				g := v.group(t)
				shuffle(rng, g)
				got, err := a.Assign(g)
				require.NoError(t, err)
				require.Equal(t, want, got, v.ID)
			}
		}
	}
}

func shuffle(rng *rand.Rand, g *Group) {
	rng.Shuffle(len(g.Members), func(i, j int) { g.Members[i], g.Members[j] = g.Members[j], g.Members[i] })
	rng.Shuffle(len(g.Subtopologies), func(i, j int) {
		g.Subtopologies[i], g.Subtopologies[j] = g.Subtopologies[j], g.Subtopologies[i]
	})
}

// normal makes assignments comparable: members with nothing have an entry with
// nil sets.
func normal(a Assignment) Assignment {
	out := Assignment{}
	for id, m := range a {
		if len(m.Active) == 0 {
			m.Active = nil
		}
		if len(m.Standby) == 0 {
			m.Standby = nil
		}
		out[id] = m
	}
	return out
}

func round4(f float64) float64 { return math.Round(f*10000) / 10000 }
