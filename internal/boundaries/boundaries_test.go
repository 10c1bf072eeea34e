package boundaries

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/streamsgroup/streamsgroup"

// anything is for the rooms at the top of the house.
var anything = []string{"..."}

// allowed lists, per package, the packages of this project that it and its
// in-package tests may import. External test packages may in addition import
// kfakeext, coordinator, whose types its options take, and internal/*.
var allowed = map[string][]string{
	"topology":                {},
	"membership":              {"topology"},
	"coordinator/record":      {},
	"coordinator/assignor":    {"topology"},
	"coordinator/topics":      {"topology", "coordinator/record"},
	"coordinator":             {"topology", "coordinator/assignor", "coordinator/record", "coordinator/topics"},
	"client":                  {"topology", "membership"},
	"kfakeext":                {"topology", "coordinator", "coordinator/assignor", "coordinator/record", "coordinator/topics"},
	"conformance":             {"topology"},
	"internal/story":          {"topology", "membership", "coordinator"},
	"internal/sim":            {"topology", "membership", "coordinator", "coordinator/record", "coordinator/topics", "internal/story"},
	"internal/timeline":       {"topology", "membership", "coordinator", "internal/story"},
	"internal/kafkagraph":     {"topology"},
	"internal/browser":        {},
	"internal/chaos":          {"topology", "membership", "client", "kfakeext"},
	"internal/boundaries":     {},
	"internal/coverage":       {},
	"internal/e2e":            anything,
	"interop":                 anything,
	"cmd/streamsgroup":        anything,
	"examples/hello":          anything,
	"examples/exactlyonce":    anything,
	"examples/regexsources":   anything,
	"examples/rollingupgrade": anything,
	"examples/wordcount":      anything,
}

// pure are the packages that neither do input or output nor know kgo or kfake.
var pure = []string{"topology", "membership", "coordinator", "coordinator/record", "coordinator/assignor", "coordinator/topics"}

// impure are imports that a pure package must not have.
var impure = []string{
	"github.com/twmb/franz-go/pkg/kgo",
	"github.com/twmb/franz-go/pkg/kfake",
	"math/rand", "math/rand/v2", "sync", "net", "os", "context", "log", "log/slog",
}

// clientModules are the modules that a program which embeds client inherits.
var clientModules = []string{
	"github.com/twmb/franz-go",
	"github.com/twmb/franz-go/pkg/kmsg",
	"golang.org/x/sync",
	// What franz-go itself brings.
	"github.com/klauspost/compress",
	"github.com/pierrec/lz4/v4",
}

type pkg struct {
	ImportPath   string
	Standard     bool
	Imports      []string
	TestImports  []string
	XTestImports []string
	Module       *struct{ Path string }
}

func list(t *testing.T, args ...string) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json=ImportPath,Standard,Imports,TestImports,XTestImports,Module"}, args...)...)
	cmd.Dir = path.Join("..", "..")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var pkgs []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		require.NoError(t, err)
		pkgs = append(pkgs, p)
	}
}

func within(imp string) (string, bool) { return strings.CutPrefix(imp, module+"/") }

func TestImportsFollowTheTable(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range list(t, "./...") {
		name, ok := within(p.ImportPath)
		require.True(t, ok, "package %s: there is no package at the root", p.ImportPath)
		seen[name] = true
		may, known := allowed[name]
		if !assert.True(t, known, "package %s has no line in the table of DESIGN.md and here", name) {
			continue
		}
		if slices.Equal(may, anything) {
			continue
		}
		for _, imp := range slices.Concat(p.Imports, p.TestImports) {
			if to, ok := within(imp); ok {
				assert.Contains(t, may, to, "%s imports %s", name, to)
			}
		}
		for _, imp := range p.XTestImports {
			if to, ok := within(imp); ok && to != name && to != "kfakeext" && to != "coordinator" && !strings.HasPrefix(to, "internal/") {
				assert.Contains(t, may, to, "the external tests of %s import %s", name, to)
			}
		}
	}
	for name := range allowed {
		assert.True(t, seen[name], "the table names %s, which does not exist", name)
	}
}

func TestCoresArePure(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "./...") {
		name, _ := within(p.ImportPath)
		if !slices.Contains(pure, name) {
			continue
		}
		for _, imp := range p.Imports {
			assert.NotContains(t, impure, imp, "%s is pure: it may not import %s", name, imp)
		}
	}
}

// A clock is read through package time, which the cores need for durations. So
// look for the calls.
func TestCoresReadNoClock(t *testing.T) {
	t.Parallel()
	calls := []string{"time.Now(", "time.Since(", "time.Until(", "time.Sleep(", "time.After(", "time.AfterFunc(", "time.NewTimer(", "time.NewTicker(", "time.Tick("}
	for _, dir := range pure {
		entries, err := os.ReadDir(path.Join("..", "..", dir))
		require.NoError(t, err)
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
				continue
			}
			src, err := os.ReadFile(path.Join("..", "..", dir, e.Name()))
			require.NoError(t, err)
			for _, call := range calls {
				assert.NotContains(t, string(src), call, "%s/%s", dir, e.Name())
			}
			assert.NotRegexp(t, `(?m)^\s*go\s+(func|\w+[.(])`, string(src), "%s/%s starts a goroutine", dir, e.Name())
		}
	}
}

func TestClientBringsFewModules(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "-deps", "./client") {
		if p.Standard || p.Module == nil || p.Module.Path == module {
			continue
		}
		assert.Contains(t, clientModules, p.Module.Path, "client depends on %s through %s", p.Module.Path, p.ImportPath)
	}
}
