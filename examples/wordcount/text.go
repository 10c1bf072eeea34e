package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode"
)

// opticks is a real text that comes with every ordinary Go installation.
const opticks = "src/testdata/Isaac.Newton-Opticks.txt"

// loadText returns the non-empty lines of the text and where it comes from.
func loadText(path string, seed uint64) (lines []string, from string, err error) {
	from = path
	if path == "" {
		root := goRoot()
		if root == "" {
			return generateText(seed), "a generated text (there is no go command to ask for its test data)", nil
		}
		from = filepath.Join(root, filepath.FromSlash(opticks))
	}
	raw, err := os.ReadFile(from)
	switch {
	case err == nil:
	case path == "" && errors.Is(err, fs.ErrNotExist):
		return generateText(seed), "a generated text (this Go installation has no " + opticks + ")", nil
	default:
		return nil, "", fmt.Errorf("cannot read the text: %w: name a readable file with -text", err)
	}
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return nil, "", fmt.Errorf("the text %s has no words: name another file with -text", from)
	}
	return lines, from, nil
}

// goRoot is where Go is installed, empty if there is no go command.
func goRoot() string {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(out))
}

// generateText makes a text in which word frequencies fall off as they do in a
// natural language.
func generateText(seed uint64) []string {
	rng := rand.New(rand.NewPCG(seed, 1))
	zipf := rand.NewZipf(rng, 1.1, 3, 4000)
	lines := make([]string, 10_000)
	for i := range lines {
		words := make([]string, 4+rng.IntN(12))
		for j := range words {
			words[j] = fmt.Sprintf("word%d", zipf.Uint64())
		}
		lines[i] = strings.Join(words, " ")
	}
	return lines
}

// splitWords is what both the topology and the check mean by a word.
func splitWords(line string) []string {
	return strings.FieldsFunc(strings.ToLower(line), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// countWords counts without Kafka.
func countWords(lines []string) map[string]int64 {
	counts := map[string]int64{}
	for _, line := range lines {
		for _, w := range splitWords(line) {
			counts[w]++
		}
	}
	return counts
}
