package topology

import (
	"fmt"
	"strings"
)

// Mermaid returns the topology as a Mermaid flowchart, which GitHub and others
// draw in Markdown. It shows what [Topology.DOT] shows. The same topology always
// yields the same text. Which shapes it has is not part of the API.
func (t *Topology) Mermaid() string {
	d := t.draw()
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for _, n := range d.outside {
		writeMermaidNode(&b, "  ", n)
	}
	for i, g := range d.groups {
		fmt.Fprintf(&b, "  subgraph group%d[%s]\n", i, mermaidQuote(g.label))
		for _, n := range g.nodes {
			writeMermaidNode(&b, "    ", n)
		}
		b.WriteString("  end\n")
	}
	for _, e := range d.edges {
		arrow := "-->"
		if e.dashed {
			arrow = "-.-"
		}
		fmt.Fprintf(&b, "  %s %s %s\n", e.from, arrow, e.to)
	}
	return b.String()
}

func writeMermaidNode(b *strings.Builder, indent string, n drawnNode) {
	s := mermaidShapes[n.shape]
	b.WriteString(indent + n.id + s[0] + mermaidQuote(n.label) + s[1] + "\n")
}

var mermaidShapes = [...][2]string{
	sourceShape:        {"[/", "/]"},
	processorShape:     {"[", "]"},
	sinkShape:          {`[\`, `\]`},
	storeShape:         {"[(", ")]"},
	topicShape:         {"([", "])"},
	internalTopicShape: {"{{", "}}"},
}

// mermaidQuote leaves what has no meaning to Mermaid, HTML or Markdown as it is
// and writes all else as the entities that Mermaid knows.
func mermaidQuote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == ' ', r == '-', r == '_', r == '.', r == ',', r == ':', r == '/', r > 0x9f:
			b.WriteRune(r)
		case r > ' ' && r < 0x7f:
			fmt.Fprintf(&b, "#%d;", r)
		default: // a control character
			b.WriteByte(' ')
		}
	}
	b.WriteByte('"')
	return b.String()
}
