package topology_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/streamsgroup/streamsgroup/topology"
)

// drawn is an application in which everything occurs that a picture shows, some
// of it with names that mean something to the language of the picture.
func drawn(t *testing.T) *topology.Topology {
	t.Helper()
	return build(t, new(topology.Builder).
		AddGlobalStore("rates", "rates", "rates", `load "rates"`).
		AddSource("orders", "orders", "returns").
		AddProcessor("end", "orders").
		AddRepartition("orders-by-customer", 8).
		AddSink("hop", "orders-by-customer", "end").
		AddDynamicSink(`rest \N &amp; more`, "end").
		AddSourcePattern("customers", `cust[a-z]+\.eu`).
		AddSource("hopped", "orders-by-customer").
		AddProcessor("enrich\nwith #1; <b>`x`</b>", "customers", "hopped").
		AddStateStore(topology.Store{Name: "customers"}, "enrich\nwith #1; <b>`x`</b>").
		AddStateStore(topology.Store{Name: "cache", NoChangelog: true}, "enrich\nwith #1; <b>`x`</b>").
		AddSink("enriched", "enriched-orders", "enrich\nwith #1; <b>`x`</b>"))
}

func TestPictures(t *testing.T) {
	t.Parallel()
	top := drawn(t)
	bare, err := topology.FromWire(top.Wire())
	require.NoError(t, err)
	for file, got := range map[string]string{
		"drawn.dot":            top.DOT(),
		"drawn.mmd":            top.Mermaid(),
		"drawn-from-wire.dot":  bare.DOT(),
		"drawn-from-wire.mmd":  bare.Mermaid(),
		"drawn-from-wire.txt":  bare.Describe(),
		"drawn-with-nodes.txt": top.Describe(),
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("testdata", file)
			if os.Getenv("UPDATE_GOLDEN") != "" {
				require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err, "UPDATE_GOLDEN=1 writes the file")
			assert.Equal(t, string(want), got)
		})
	}
}

// What Graphviz reads: a quoted string ends at the first quote that is not
// escaped, and the only escapes used are those of a quote, a backslash and a new
// line.
const dotString = `"(?:[^"\\\n\r\x00]|\\["\\n])*"`

var (
	dotLine = regexp.MustCompile(`^ *(?:` + strings.Join([]string{
		`digraph topology \{`, `\}`, `rankdir=LR;`, `node \[fontname="sans-serif"\];`,
		`subgraph cluster_\d+ \{`, `label=` + dotString + `;`,
		`((?:node|topic)\d+) \[label=` + dotString + `(?:, [a-z]+=[a-z]+)+\];`,
		`((?:node|topic)\d+) -> ((?:node|topic)\d+)(?: \[style=dashed, dir=none\])?;`,
	}, "|") + `)$`)
	dotOpens  = regexp.MustCompile(`^(?:digraph topology|  subgraph cluster_\d+) \{$`)
	dotEntity = regexp.MustCompile(`&([^;"]*;?)`)

	// What Mermaid reads: no name has a character in it with a meaning of its
	// own, but for the entities.
	mermaidText  = `"(?:[^\x00-\x1f"\\` + "`" + `<>&#;\[\](){}|]|#\d+;)*"`
	mermaidOpens = regexp.MustCompile(`^  subgraph `)
	mermaidLine  = regexp.MustCompile(`^ *(?:` + strings.Join([]string{
		`flowchart LR`, `subgraph group\d+\[` + mermaidText + `\]`, `end`,
		`((?:node|topic)\d+)(?:\[/` + mermaidText + `/\]|\[` + mermaidText + `\]|\[\\` + mermaidText + `\\\]|\[\(` + mermaidText + `\)\]|\(\[` + mermaidText + `\]\)|\{\{` + mermaidText + `\}\})`,
		`((?:node|topic)\d+) (?:-->|-\.-) ((?:node|topic)\d+)`,
	}, "|") + `)$`)
)

type failer interface {
	require.TestingT
	Helper()
}

// checkPicture checks every line of a picture, that blocks are closed, and that
// what is connected exists exactly once.
func checkPicture(t failer, picture string, line, opens *regexp.Regexp, closes string) {
	t.Helper()
	exist := map[string]int{}
	depth := 0
	lines := strings.Split(strings.TrimSuffix(picture, "\n"), "\n")
	for i, l := range lines {
		m := line.FindStringSubmatch(l)
		require.NotNil(t, m, "line %d: %s", i+1, l)
		if opens.MatchString(l) {
			depth++
		}
		if strings.TrimSpace(l) == closes {
			depth--
			require.GreaterOrEqual(t, depth, 0)
		}
		if m[1] != "" {
			exist[m[1]]++
		}
		if m[2] != "" {
			require.Equal(t, 1, exist[m[2]], "line %d: %s", i+1, l)
			require.Equal(t, 1, exist[m[3]], "line %d: %s", i+1, l)
		}
	}
	require.Zero(t, depth)
}

func checkPictures(t failer, top *topology.Topology) {
	t.Helper()
	dot := top.DOT()
	checkPicture(t, dot, dotLine, dotOpens, "}")
	for _, m := range dotEntity.FindAllStringSubmatch(dot, -1) {
		require.Equal(t, "amp;", m[1])
	}
	checkPicture(t, top.Mermaid(), mermaidLine, mermaidOpens, "end")
}

func TestPicturesAreWellFormed(t *testing.T) {
	t.Parallel()
	t.Run("everything", func(t *testing.T) {
		t.Parallel()
		top := drawn(t)
		checkPictures(t, top)
		bare, err := topology.FromWire(top.Wire())
		require.NoError(t, err)
		checkPictures(t, bare)
	})
	t.Run("random graphs", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			g := drawGraph(t)
			top, err := g.builder(t).Build("app")
			if err != nil {
				return
			}
			other, err := g.builder(t).Build("app")
			require.NoError(t, err)
			checkPictures(t, top)
			require.Equal(t, top.DOT(), other.DOT())
			require.Equal(t, top.Mermaid(), other.Mermaid())
		})
	})
	t.Run("random names", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			name := rapid.StringN(1, 20, -1)
			one, two := name.Draw(t, "source"), name.Draw(t, "processor")
			top, err := new(topology.Builder).AddSource("s"+one, "in").AddProcessor("p"+two, "s"+one).
				AddSourcePattern("x", regexp.QuoteMeta(one)).Subtopology("sub "+one, "p"+two).Build("app")
			require.NoError(t, err)
			checkPictures(t, top)
			bare, err := topology.FromWire(top.Wire())
			require.NoError(t, err)
			checkPictures(t, bare)
		})
	})
}

func ExampleTopology_Mermaid() {
	t, err := new(topology.Builder).AddSource("orders", "orders").AddProcessor("count", "orders").
		AddStateStore(topology.Store{Name: "counts"}, "count").Build("shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(t.Mermaid())
	// Output:
	// flowchart LR
	//   topic0(["orders"])
	//   subgraph group0["Sub-topology 0"]
	//     node0["count"]
	//     node1[/"orders"/]
	//     node2[("counts")]
	//   end
	//   node0 -.- node2
	//   topic0 --> node1
	//   node1 --> node0
}
