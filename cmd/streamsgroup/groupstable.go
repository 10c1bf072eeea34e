package main

import (
	"io"
	"strings"
	"unicode/utf8"
)

// column is a column of a table, as wide as its widest value and at least width.
type column struct {
	title string
	width int
}

const (
	nameWidth      = 15
	partitionWidth = 10
	wideWidth      = 25
)

// writeTable writes left-aligned columns, one blank between them.
func writeTable(w io.Writer, columns []column, rows [][]string) {
	widths := make([]int, len(columns))
	head := make([]string, len(columns))
	for i, c := range columns {
		head[i], widths[i] = c.title, max(c.width, len(c.title))
		for _, r := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i]))
		}
	}
	writeRow(w, widths, head)
	for _, r := range rows {
		writeRow(w, widths, r)
	}
}

func writeRow(w io.Writer, widths []int, values []string) {
	var b strings.Builder
	for i, v := range values {
		b.WriteString(v)
		b.WriteString(strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(v))+1))
	}
	_, _ = io.WriteString(w, strings.TrimRight(b.String(), " ")+"\n")
}
