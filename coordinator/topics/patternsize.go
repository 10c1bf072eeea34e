package topics

import (
	"regexp/syntax"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// maxPatterns is how large the source patterns of a topology may be together.
// To match a name takes time in proportion to it, and so does the memory of what
// a pattern has been compiled to: a few bytes like ((a{1000})){1} stand for a
// great deal. It is enough for hundreds of patterns as people write them.
const maxPatterns = 10_000

// eachPattern is what a pattern costs however simple it is.
const eachPattern = 20

// patternsSize is the size of the patterns together, or a number above
// maxPatterns. What does not compile counts for little.
func patternsSize(s *record.Subtopology) (size int) {
	for _, pattern := range s.SourceTopicRegex {
		if size += patternSize(pattern); size > maxPatterns {
			break
		}
	}
	return size
}

// patternSize is about how many instructions a pattern compiles to. It does not
// compile it.
func patternSize(pattern string) int {
	if len(pattern) > maxPatterns {
		return len(pattern) // not even parsed
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return eachPattern
	}
	return eachPattern + expressionSize(parsed)
}

// expressionSize has no need to mind overflows: the parser refuses repetitions
// of more than 1000 in all, and patterns that nest too deeply.
func expressionSize(e *syntax.Regexp) int {
	size := 1
	switch e.Op {
	case syntax.OpLiteral:
		size = len(e.Rune)
	case syntax.OpCharClass:
		size += len(e.Rune) / 8 // ranges, side by side in one instruction
	}
	for _, sub := range e.Sub {
		size += expressionSize(sub)
	}
	if e.Op == syntax.OpRepeat {
		size *= max(e.Max, e.Min+1)
	}
	return size
}
