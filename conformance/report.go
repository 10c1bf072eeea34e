package conformance

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Write writes a result as text: one line, and beneath a failure what was
// expected, what was observed, and the exchange that led there.
func (r Result) Write(w io.Writer) error {
	line := fmt.Sprintf("%s  %s", r.Status, r.Scenario.Name())
	if r.Scenario.Deviation != "" {
		line += " (" + r.Scenario.Deviation + ")"
	}
	switch r.Status {
	case Pass:
		line += fmt.Sprintf("  %s", r.Took.Round(time.Millisecond))
	case Skip:
		line += ": " + r.Message
	case Fail:
		line += "\n" + indent(r.Message) + "\n" + indent(strings.Join(r.Trace, "\n"))
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

func indent(s string) string {
	return "      " + strings.ReplaceAll(s, "\n", "\n      ")
}

// Summary counts results, as in "118 pass, 0 fail, 2 skip".
func Summary(results []Result) string {
	n := map[Status]int{}
	for _, r := range results {
		n[r.Status]++
	}
	return fmt.Sprintf("%d pass, %d fail, %d skip", n[Pass], n[Fail], n[Skip])
}
