package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// String returns the difference as text for people, the judgement first. The
// form of the text is not part of the API.
func (d *Difference) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Topology epoch %d -> %d: ", d.OlderEpoch, d.NewerEpoch)
	switch {
	case !d.SafeToRoll():
		b.WriteString("not safe to roll\n")
	case d.Empty():
		b.WriteString("nothing changes\n")
	default:
		b.WriteString("safe to roll\n")
	}
	for _, f := range d.Findings {
		fmt.Fprintf(&b, "  %s: %s\n      remedy: %s\n", f.Severity, f.Reason, f.Remedy)
	}
	if len(d.Subtopologies) > 0 {
		b.WriteString("Subtopologies:\n")
	}
	for i := range d.Subtopologies {
		d.Subtopologies[i].write(&b)
	}
	if len(d.Topics) > 0 {
		b.WriteString("Topics:\n")
	}
	for i := range d.Topics {
		d.Topics[i].write(&b)
	}
	return b.String()
}

func (c *SubtopologyChange) write(b *strings.Builder) {
	id := c.Older
	switch c.Kind {
	case Added:
		id = c.Newer
	case Renumbered:
		id += " -> " + c.Newer
	case Stays, Changed, Orphaned:
	}
	fmt.Fprintf(b, "  %-10s %s (%s)\n", c.Kind, id, c.taskCount())
	for _, l := range []struct {
		sign, what string
		names      []string
	}{
		{"+", "source", c.SourcesGained},
		{"-", "source", c.SourcesLost},
		{"+", "sink", c.SinksGained},
		{"-", "sink", c.SinksLost},
		{"+", "changelog", c.ChangelogsGained},
		{"-", "changelog", c.ChangelogsLost},
	} {
		if len(l.names) > 0 {
			fmt.Fprintf(b, "      %s %s %s\n", l.sign, l.what, list(l.names))
		}
	}
	if c.Copartition {
		b.WriteString("      other copartition groups\n")
	}
}

func (c *SubtopologyChange) taskCount() string {
	if c.Kind == Added {
		return count(c.NewerTasks, "task")
	}
	if c.Kind == Orphaned || c.OlderTasks == c.NewerTasks {
		return count(c.OlderTasks, "task")
	}
	return unknownOr(c.OlderTasks) + " -> " + count(c.NewerTasks, "task")
}

func (c *TopicChange) write(b *strings.Builder) {
	switch {
	case c.Older == nil:
		fmt.Fprintf(b, "  + %s (%s)\n", c.Name, c.Newer.describe())
	case c.Newer == nil:
		fmt.Fprintf(b, "  - %s (%s)\n", c.Name, c.Older.describe())
	default:
		before, after := c.Older.describe(), c.Newer.describe()
		if before == after {
			fmt.Fprintf(b, "  ~ %s (%s)\n", c.Name, before)
		} else {
			fmt.Fprintf(b, "  ~ %s (%s -> %s)\n", c.Name, before, after)
		}
		for _, s := range c.SettingsChanged() {
			fmt.Fprintf(b, "      %s: %s -> %s\n", s.Name, orUnset(s.Older), orUnset(s.Newer))
		}
	}
}

func (u *TopicUse) describe() string {
	text := string(u.Role)
	if u.Changelog {
		text += " that serves as a changelog"
	}
	if u.Partitions > 0 {
		text += ", " + count(u.Partitions, "partition")
	}
	return text
}

func count(n int32, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return unknownOr(n) + " " + of + "s"
}

func unknownOr(n int32) string {
	if n == UnknownTasks {
		return "an unknown number of"
	}
	return strconv.Itoa(int(n))
}
