package coverage

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rule is a line of one of the documents: a rule, a deviation, a quirk or a case.
type rule struct {
	id, text string
	wire     bool // a client could see it broken
}

// exception says why an ID has no test or no scenario.
type exception struct {
	test, scenario bool // what it lacks
	why            string
}

type document struct {
	rules      []rule
	index      map[string]int // id to rules
	exceptions map[string]exception
}

func (d *document) knows(id string) bool { _, ok := d.index[id]; return ok }

// An ID is that of a case (J-01), of a deviation, quirk or rule of updates (D9, Q3,
// X1), or of a rule: a section with or without a number (12.3, 7-13, 14.1-0) or
// the name of a config (25-group.streams.max.size). Rules and cases of the member
// have two letters or three (SM-4, CC-049, CLI-7); B77 is a report from the field.
var idPattern = regexp.MustCompile(`^([A-Z]-\d\d|[A-Z]{2,3}-\d{1,3}|B\d{2,3}|[DQX]\d{1,2}|\d+(\.\d+)?(-[a-z0-9.]+)?)$`)

// readRules reads the tables of a document.
func readRules(t *testing.T, file string) *document {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	d, err := parseRules(string(text))
	require.NoError(t, err)
	return d
}

func parseRules(text string) (*document, error) {
	d := &document{index: map[string]int{}, exceptions: map[string]exception{}}
	rules, exceptions, _ := strings.Cut(text, "\n## Exceptions\n")
	for _, cells := range rows(rules) {
		id, last := cells[0], cells[len(cells)-1]
		if !idPattern.MatchString(id) {
			continue // the head of a table
		}
		if d.knows(id) {
			return nil, fmt.Errorf("%s is there twice", id)
		}
		if last != "" && last != "wire" {
			return nil, fmt.Errorf("%s: the last column says %q, want wire or nothing", id, last)
		}
		d.index[id] = len(d.rules)
		d.rules = append(d.rules, rule{id: id, text: strings.Join(cells[1:len(cells)-1], " / "), wire: last == "wire"})
	}
	for _, cells := range rows(exceptions) {
		for id := range strings.SplitSeq(cells[0], ",") {
			if id = strings.TrimSpace(id); !idPattern.MatchString(id) {
				continue
			}
			e := exception{test: strings.Contains(cells[1], "test"), scenario: strings.Contains(cells[1], "scenario"), why: cells[len(cells)-1]}
			switch {
			case !d.knows(id):
				return nil, fmt.Errorf("an exception for %s, which is no rule", id)
			case len(cells) != 3 || e.why == "" || !e.test && !e.scenario:
				return nil, fmt.Errorf("the exception for %s does not say what is lacking, and why", id)
			}
			have := d.exceptions[id]
			if have.test && e.test || have.scenario && e.scenario {
				return nil, fmt.Errorf("two exceptions for %s", id)
			}
			d.exceptions[id] = exception{have.test || e.test, have.scenario || e.scenario, strings.TrimPrefix(have.why+"; "+e.why, "; ")}
		}
	}
	return d, nil
}

// rows are the cells of the lines of all tables.
func rows(text string) [][]string {
	var out [][]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || !strings.HasSuffix(line, "|") || len(line) < 2 {
			continue
		}
		cells := strings.Split(line[1:len(line)-1], "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) >= 3 {
			out = append(out, cells)
		}
	}
	return out
}

// token is something that may be an ID, as a whole: 4-1 is not in 4-10.
var token = regexp.MustCompile(`[A-Za-z0-9][A-Za-z0-9._-]*`)

// mentioned is a list of rules after the word: "rule 7-13", "rules 4-1, 4-2 and
// 4-3".
var mentioned = regexp.MustCompile(`\brules? ((?:[0-9A-Z][A-Za-z0-9.-]*)(?:(?:, | and |, and | )[0-9A-Z][A-Za-z0-9.-]*)*)`)

// named finds the IDs in a text. Those that begin with a digit count only after
// the word rule: other numbers look the same.
func (d *document) named(text string) []string {
	var out []string
	add := func(id string) {
		id = strings.TrimRight(id, ".-_")
		if !d.knows(id) {
			// A step of a case (K-07.3), a row of it (T-19a).
			if id = caseOf.FindString(id); !d.knows(id) {
				return
			}
		}
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	for _, m := range mentioned.FindAllStringSubmatch(text, -1) {
		for _, id := range token.FindAllString(m[1], -1) {
			add(id)
		}
	}
	for _, id := range token.FindAllString(text, -1) {
		if id[0] < '0' || id[0] > '9' {
			add(id)
		}
	}
	return out
}

var caseOf = regexp.MustCompile(`^[A-Z]-\d\d`)

// inName are cases and deviations in the name of a test: TestV24V25FailedAppends,
// TestD20SourcePatterns, TestCC066LastLeave, TestOC02StaleCommit (OC-2).
var inName = regexp.MustCompile(`([A-Z]{2})(\d{1,3})|([A-Z])(\d{2,3})`)

func (d *document) namedIn(function string) []string {
	var out []string
	for _, m := range inName.FindAllStringSubmatch(function, -1) {
		letters, number := m[1]+m[3], m[2]+m[4]
		for _, id := range []string{letters + "-" + number, letters + number, letters + "-" + strings.TrimLeft(number, "0")} {
			if d.knows(id) && !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	return out
}

func TestParseRules(t *testing.T) {
	t.Parallel()
	d, err := parseRules("| rule | | |\n|---|---|---|\n| 4-1 | first | wire |\n| 4-10 | tenth | |\n| T-19 | x | |\n| D9 | a | b | wire |\n| D20 | a | |\n| 15 | shutdown | |\n| 25-a.b | config | |\n" +
		"\n## Exceptions\n| IDs | without | why |\n| 4-10, D9 | test | so |\n| D9 | scenario | that |\n")
	require.NoError(t, err)
	assert.Equal(t, []rule{{"4-1", "first", true}, {"4-10", "tenth", false}, {"T-19", "x", false}, {"D9", "a / b", true}, {"D20", "a", false}, {"15", "shutdown", false}, {"25-a.b", "config", false}}, d.rules)
	assert.Equal(t, map[string]exception{"4-10": {test: true, why: "so"}, "D9": {test: true, scenario: true, why: "so; that"}}, d.exceptions)

	for text, want := range map[string][]string{
		"rule 4-10 and so on":          {"4-10"},
		"rules 4-1, 4-10 and 15":       {"4-1", "4-10", "15"},
		"rule 25-a.b.":                 {"25-a.b"},
		"4-1 is a number":              nil,
		"rule 14-1":                    nil,
		"T-19a the first row, see D9.": {"T-19", "D9"},
		"T-19.2 a step":                {"T-19"},
		"XT-19 D90 T-190x":             nil,
		"rule 4-1: what it says":       {"4-1"},
		"a rule of 15 members":         nil,
	} {
		if text == "XT-19 D90 T-190x" {
			assert.NotContains(t, d.named(text), "D9")
			continue
		}
		assert.Equal(t, want, d.named(text), text)
	}
	assert.Equal(t, []string{"T-19"}, d.namedIn("TestT19Rows"))
	assert.Equal(t, []string{"D20", "T-19"}, d.namedIn("TestD20T19Rows"))
	assert.Empty(t, d.namedIn("TestRT19Rows"))
	assert.Empty(t, d.namedIn("TestT190Rows"))

	d, err = parseRules("| SM-4 | a | |\n| CC-049 | b | |\n| B77 | c | |\n")
	require.NoError(t, err)
	assert.Equal(t, []string{"CC-049", "SM-4"}, d.named("CC-049 SM-4 TM-1 leave with tasks"))
	assert.Equal(t, []string{"B77"}, d.named("B77: numbers, B770"))
	assert.Equal(t, []string{"CC-049", "SM-4", "B77"}, d.namedIn("TestCC049SM04B77"))

	for _, wrong := range []string{
		"| 4-1 | a | |\n| 4-1 | b | |\n",
		"| 4-1 | a | yes |\n",
		"| 4-1 | a | |\n\n## Exceptions\n| 4-2 | test | b |\n",
		"| 4-1 | a | |\n\n## Exceptions\n| 4-1 | test | |\n",
		"| 4-1 | a | |\n\n## Exceptions\n| 4-1 | nothing | b |\n",
		"| 4-1 | a | |\n\n## Exceptions\n| 4-1 | test | b |\n| 4-1 | test | c |\n",
	} {
		_, err := parseRules(wrong)
		require.Error(t, err, wrong)
	}
}
