package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// account prints what happens as it happens, one line at a time.
type account struct {
	mu    sync.Mutex
	out   io.Writer
	began time.Time
	names map[string]string // member and process ids by the name we print
}

func newAccount(out io.Writer) *account {
	return &account{out: out, began: time.Now(), names: map[string]string{}}
}

// call makes the account print name for id.
func (a *account) call(id, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names[id] = name
}

// name is what the account calls an id.
func (a *account) name(id string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.names[id]
}

// say prints a line with the time since the start. Empty lines are left out.
func (a *account) say(who, line string) {
	if line == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	fmt.Fprintf(a.out, "%6.2fs  %-11s  %s\n", time.Since(a.began).Seconds(), who, line)
}

func (a *account) sayf(who, format string, args ...any) { a.say(who, fmt.Sprintf(format, args...)) }

// table prints rows of words and numbers under a heading.
func (a *account) table(heading string, rows []wordCount) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fmt.Fprintf(a.out, "\n%s\n", heading)
	for _, r := range rows {
		fmt.Fprintf(a.out, "  %7d  %s\n", r.count, r.word)
	}
}

func (a *account) print(lines ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fmt.Fprintln(a.out, strings.Join(lines, "\n"))
}
