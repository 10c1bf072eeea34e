package coverage

import (
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scenariosRequired makes a rule that clients can see broken fail the check if no
// conformance scenario bears its ID.
const scenariosRequired = true

var root = path.Join("..", "..")

// found says which tests and which scenarios bear an ID, as "file: name".
type found struct {
	tests, scenarios map[string][]string
	unknown          []string // IDs of scenarios that the document does not have
}

// scan reads all tests of the project, and the scenarios.
func scan(t *testing.T, d *document) *found {
	t.Helper()
	f := &found{tests: map[string][]string{}, scenarios: map[string][]string{}}
	files := gotoken.NewFileSet()
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (name == "internal/coverage" || name != "." && strings.HasPrefix(e.Name(), ".")):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		isTest := strings.HasSuffix(name, "_test.go")
		if !isTest && path.Dir(name) != "conformance" {
			return nil
		}
		tree, err := parser.ParseFile(files, path.Join(root, name), nil, parser.ParseComments)
		if err != nil {
			return err
		}
		if isTest {
			f.scanTests(d, name, tree)
		} else {
			f.scanScenarios(d, name, tree)
		}
		return nil
	})
	require.NoError(t, err)
	return f
}

func note(m map[string][]string, id, where string) {
	if !slices.Contains(m[id], where) {
		m[id] = append(m[id], where)
	}
}

func (f *found) scanTests(d *document, file string, tree *ast.File) {
	for _, decl := range tree.Decls {
		function, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := function.Name.Name
		for _, id := range d.namedIn(name) {
			note(f.tests, id, file+": "+name)
		}
		ast.Inspect(function, func(n ast.Node) bool {
			if s, ok := literal(n); ok {
				for _, id := range d.named(s) {
					note(f.tests, id, file+": "+name)
				}
			}
			return true
		})
	}
	for _, group := range tree.Comments {
		for _, c := range group.List {
			text := strings.TrimSpace(strings.TrimPrefix(c.Text, "//"))
			if !directive(d, text) {
				continue
			}
			for _, id := range d.named(text) {
				note(f.tests, id, file+": "+enclosing(tree, c.Pos()))
			}
		}
	}
}

// directive is whether a comment says what a test covers: it begins with an ID or
// with the word rule. Others only talk about rules.
func directive(d *document, text string) bool {
	first, _, _ := strings.Cut(text, " ")
	return first == "rule" || first == "rules" || len(d.named(strings.TrimRight(first, ":,."))) > 0
}

func enclosing(tree *ast.File, pos gotoken.Pos) string {
	for _, decl := range tree.Decls {
		function, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		begin := function.Pos()
		if function.Doc != nil {
			begin = function.Doc.Pos()
		}
		if begin <= pos && pos <= function.End() {
			return function.Name.Name
		}
	}
	return "(file)"
}

// scanScenarios looks at the string literals of fields with the name IDs.
func (f *found) scanScenarios(d *document, file string, tree *ast.File) {
	ast.Inspect(tree, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		var ids []string
		title := ""
		for _, e := range lit.Elts {
			kv, ok := e.(*ast.KeyValueExpr)
			if !ok {
				continue
			}
			switch key, _ := kv.Key.(*ast.Ident); {
			case key == nil:
			case key.Name == "IDs":
				ast.Inspect(kv.Value, func(n ast.Node) bool {
					if s, ok := literal(n); ok {
						ids = append(ids, strings.Fields(s)...)
					}
					return true
				})
			case key.Name == "Title" || key.Name == "Name":
				title, _ = literal(kv.Value)
			}
		}
		for _, id := range ids {
			if !d.knows(id) {
				f.unknown = append(f.unknown, fmt.Sprintf("%s: %q names %s", file, title, id))
				continue
			}
			note(f.scenarios, id, file+": "+title)
		}
		return true
	})
}

func literal(n ast.Node) (string, bool) {
	l, ok := n.(*ast.BasicLit)
	if !ok || l.Kind != gotoken.STRING {
		return "", false
	}
	s, err := strconv.Unquote(l.Value)
	return s, err == nil
}

// The documents with rules. Scenarios are for the coordinator only.
const (
	coordinatorRules = "rules.md"
	memberRules      = "member-rules.md"
)

func load(t *testing.T, file string) (*document, *found) {
	t.Helper()
	d := readRules(t, path.Join(root, "docs", file))
	require.NotEmpty(t, d.rules)
	return d, scan(t, d)
}

func TestEveryRuleHasATest(t *testing.T) {
	t.Parallel()
	for _, file := range []string{coordinatorRules, memberRules} {
		t.Run(file, func(t *testing.T) { everyRuleHasATest(t, file) })
	}
}

func everyRuleHasATest(t *testing.T, file string) {
	d, f := load(t, file)
	var missing []string
	for _, r := range d.rules {
		switch tested, excused := len(f.tests[r.id]) > 0, d.exceptions[r.id].test; {
		case !tested && !excused:
			missing = append(missing, r.id+"  "+r.text)
		case tested && excused:
			assert.Fail(t, "exception without need", "%s is tested in %v: drop its exception", r.id, f.tests[r.id])
		}
	}
	assert.Empty(t, missing, "%d of %d IDs have neither a test nor an exception in docs/%s:\n%s", len(missing), len(d.rules), file, strings.Join(missing, "\n"))
}

func TestEveryVisibleRuleHasAScenario(t *testing.T) {
	t.Parallel()
	d, f := load(t, coordinatorRules)
	missing := withoutScenario(d, f)
	if !scenariosRequired {
		t.Skipf("%d IDs lack a scenario, %d IDs of scenarios are not known", len(missing), len(f.unknown))
	}
	assert.Empty(t, missing, "%d IDs that clients can see broken have neither a scenario nor an exception", len(missing))
	assert.Empty(t, f.unknown, "scenarios name IDs that docs/rules.md does not have")
	for id, e := range d.exceptions {
		assert.False(t, e.scenario && len(f.scenarios[id]) > 0, "%s has a scenario: drop its exception", id)
	}
}

func withoutScenario(d *document, f *found) []string {
	var missing []string
	for _, r := range d.rules {
		if r.wire && len(f.scenarios[r.id]) == 0 && !d.exceptions[r.id].scenario {
			missing = append(missing, r.id)
		}
	}
	return missing
}

// TestListing prints what covers what: run it with -v.
func TestListing(t *testing.T) {
	t.Parallel()
	for _, file := range []string{coordinatorRules, memberRules} {
		t.Run(file, func(t *testing.T) { listing(t, file) })
	}
}

func listing(t *testing.T, file string) {
	d, f := load(t, file)
	tests, scenarios := 0, 0
	var b strings.Builder
	for _, r := range d.rules {
		wire := "    "
		if r.wire {
			wire = "wire"
		}
		fmt.Fprintf(&b, "%-8s %s  %s\n", r.id, wire, r.text)
		for _, where := range f.tests[r.id] {
			fmt.Fprintf(&b, "            test      %s\n", where)
		}
		for _, where := range f.scenarios[r.id] {
			fmt.Fprintf(&b, "            scenario  %s\n", where)
		}
		if e, ok := d.exceptions[r.id]; ok {
			fmt.Fprintf(&b, "            exception %s\n", e.why)
		}
		if len(f.tests[r.id]) > 0 {
			tests++
		}
		if len(f.scenarios[r.id]) > 0 {
			scenarios++
		}
	}
	missing := withoutScenario(d, f)
	fmt.Fprintf(&b, "\n%d IDs: %d with a test, %d with a scenario\n%d IDs that clients can see broken lack a scenario: %s\n", len(d.rules), tests, scenarios, len(missing), strings.Join(missing, " "))
	if len(f.unknown) > 0 {
		fmt.Fprintf(&b, "scenarios name IDs that docs/rules.md does not have:\n%s\n", strings.Join(f.unknown, "\n"))
	}
	t.Log("\n" + b.String())
}
