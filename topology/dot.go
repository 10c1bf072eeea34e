package topology

import (
	"fmt"
	"strings"
)

// DOT returns the topology as a picture in the language of Graphviz: topics, and
// subtopologies with their nodes and stores, or one box for each where there is
// no description. The same topology always yields the same text. Which shapes
// and colours it has is not part of the API.
func (t *Topology) DOT() string {
	d := t.draw()
	var b strings.Builder
	b.WriteString("digraph topology {\n  rankdir=LR;\n  node [fontname=\"sans-serif\"];\n")
	for _, n := range d.outside {
		fmt.Fprintf(&b, "  %s [label=%s, %s];\n", n.id, dotQuote(n.label), dotShapes[n.shape])
	}
	for i, g := range d.groups {
		fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=%s;\n", i, dotQuote(g.label))
		for _, n := range g.nodes {
			fmt.Fprintf(&b, "    %s [label=%s, %s];\n", n.id, dotQuote(n.label), dotShapes[n.shape])
		}
		b.WriteString("  }\n")
	}
	for _, e := range d.edges {
		fmt.Fprintf(&b, "  %s -> %s", e.from, e.to)
		if e.dashed {
			b.WriteString(" [style=dashed, dir=none]")
		}
		b.WriteString(";\n")
	}
	b.WriteString("}\n")
	return b.String()
}

var dotShapes = [...]string{
	sourceShape:        "shape=invhouse",
	processorShape:     "shape=box",
	sinkShape:          "shape=house",
	storeShape:         "shape=cylinder",
	topicShape:         "shape=oval",
	internalTopicShape: "shape=oval, style=dashed",
}

// dotEscapes keeps names from being read as the end of the string, as an escape
// such as \N, which is the node's name, or as an HTML entity.
var dotEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "&", "&amp;", "\n", `\n`, "\r", " ", "\x00", "\uFFFD")

func dotQuote(s string) string {
	return `"` + dotEscapes.Replace(strings.ToValidUTF8(s, "\uFFFD")) + `"`
}
