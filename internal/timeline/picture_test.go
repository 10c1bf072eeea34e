package timeline

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite-page", false, "write the golden page anew")

const ms = time.Millisecond

func sample() *Picture {
	return &Picture{
		Title: "An update", Summary: "two members, <one> of each version", Length: 4 * time.Second,
		Claims: []Claim{{"no task was worked on twice", true}, {"nothing & nobody <waits>", false}},
		Epochs: []Mark{
			{At: 0, Label: "topology epoch 0", Why: "first"},
			{At: 10 * ms, Label: "group epoch 1", Why: "A joins", Minor: true},
			{At: 2 * time.Second, Label: "topology epoch 1", Why: `B brings "it"`},
			{At: 2010 * ms, Label: "group epoch 2", Why: "topology", Minor: true},
			{At: 3900 * ms, Label: "group epoch 3", Why: "at the end", Minor: true},
		},
		Lanes: []Lane{
			{
				Name: "A", Process: "host-1",
				Spans: []Span{
					{From: 100 * ms, To: 150 * ms, Task: "0_0", Role: RoleActive, State: Starts, Why: "given at epoch 1"},
					{From: 150 * ms, To: 4 * time.Second, Task: "0_0", Role: RoleActive, State: Runs, Why: "given at epoch 1"},
					{From: 100 * ms, To: 2300 * ms, Task: "0_1", Role: RoleActive, State: Runs, Why: "given at epoch 1"},
					{From: 2300 * ms, To: 2600 * ms, Task: "0_1", Role: RoleActive, State: Revoked, Why: "to be given up within 5m0s"},
				},
				Marks: []Mark{{At: 10 * ms, Label: "joins @0"}, {At: 2300 * ms, Label: "STALE_TOPOLOGY", Why: "the group is at 1"}},
			},
			{
				Name: "B", Process: "host-2",
				Spans: []Span{
					{From: 2 * time.Second, To: 2600 * ms, Task: "0_1", Role: RoleActive, TopologyEpoch: 1, State: Waits, Why: "until A gives it up"},
					{From: 2600 * ms, To: 4 * time.Second, Task: "0_1", Role: RoleActive, TopologyEpoch: 1, State: Runs},
					{From: 2601 * ms, To: 2602 * ms, Task: "0_0", Role: RoleStandby, TopologyEpoch: 1, State: Runs},
					{From: 2605 * ms, To: 3500 * ms, Task: "1_0", Role: RoleWarmUp, TopologyEpoch: 1, State: Runs},
				},
				Marks: []Mark{{At: 2 * time.Second, Label: "joins @1"}},
			},
			{Name: Nobody, Spans: []Span{{From: 2 * time.Second, To: 4 * time.Second, Task: "1_1", Role: RoleActive, TopologyEpoch: 1, State: Waits, Why: "</script><script>alert(1)</script>"}}},
		},
		Lines: []string{"  0.010s  A            joins", "  2.300s  A            <b>STALE</b>"},
	}
}

func write(t *testing.T, p *Picture) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, p.WriteHTML(&b))
	return b.String()
}

func TestPageIsGolden(t *testing.T) {
	t.Parallel()
	got := write(t, sample())
	assert.Equal(t, got, write(t, sample()), "the same picture, the same bytes")
	golden := filepath.Join("testdata", "sample.html")
	if *rewrite {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "run the test with -rewrite-page and read the difference")
}

var external = regexp.MustCompile(`(?i)(https?:)?//[a-z]|@import|url\(|<link|src=`)

func TestPageLoadsNothingAndEscapesAll(t *testing.T) {
	t.Parallel()
	got := write(t, sample())
	withoutComments := regexp.MustCompile(`(?m)^ *// .*$`).ReplaceAllString(got, "")
	assert.Empty(t, external.FindAllString(withoutComments, -1))
	assert.Equal(t, 1, strings.Count(got, "<script>"), "its own")
	assert.NotContains(t, got, "<one>")
	assert.NotContains(t, got, "<waits>")
	assert.NotContains(t, got, "<b>STALE")
	assert.NotContains(t, got, "ZgotmplZ", "what the template took for dangerous")
}

func TestEmptyPicture(t *testing.T) {
	t.Parallel()
	assert.Contains(t, write(t, &Picture{Title: "nothing"}), "<h1>nothing</h1>")
}
