// Package timeline draws what happened to a group: who had which task when, by
// which topology epoch, and why. A [Recorder] collects the events of both cores,
// and its [Picture] is written as one page that needs nothing but a browser.
package timeline

import (
	_ "embed" // the parts of the page
	"html/template"
	"io"
	"time"
)

// Picture is what happened to a group, ready to be drawn. Times count from the
// beginning of the picture.
type Picture struct {
	Title, Summary string
	// Length is how long the picture is. What lasts longer, or is still under way
	// at the end, is cut there; 0 makes it as long as the last thing in it.
	Length time.Duration
	Claims []Claim
	Lanes  []Lane
	Epochs []Mark
	// Lines are the transcript.
	Lines []string
}

// Claim is something that was checked.
type Claim struct {
	Text  string
	Holds bool
}

// Lane is one member, through all its restarts under one name.
type Lane struct {
	Name, Process string
	Spans         []Span
	Marks         []Mark
}

// Span is one task of a member for a while, in one state.
type Span struct {
	From, To time.Duration
	Task     string
	Role     string // RoleActive, RoleStandby or RoleWarmUp
	// TopologyEpoch is what the member runs: the task is to be read by it.
	TopologyEpoch int32
	State         string // one of the states below
	Why           string
}

// The roles of a span.
const (
	RoleActive  = "active"
	RoleStandby = "standby"
	RoleWarmUp  = "warm-up"
)

// The states of a span.
const (
	// Waits is a task that the member is to get, or that nobody may have yet.
	Waits = "waits"
	// Starts is a task that the member has been given, and that its callback has
	// not taken up yet: it may restore state.
	Starts = "starts"
	// Runs is a task that the member works on.
	Runs = "runs"
	// Revoked is a task that the member has been asked to give up.
	Revoked = "being revoked"
	// Away is a task of a static member that is expected back.
	Away = "away"
	// Silent is a task of a member that is dead, which nobody knows yet.
	Silent = "silent"
)

// Mark is a moment.
type Mark struct {
	At         time.Duration
	Label, Why string
	// Minor is drawn thinner, and goes without its label where there is no room.
	Minor bool
}

//go:embed page.tmpl
var pageText string

//go:embed page.css
var style string

//go:embed page.js
var script string

var page = template.Must(template.New("page").Parse(pageText))

// WriteHTML writes the picture as one self-contained page: it loads nothing, and
// it can be read without scripts, which add the panel with the reason of what the
// pointer or the keyboard is on. The same picture gives the same bytes. The error
// is the writer's.
func (p *Picture) WriteHTML(w io.Writer) error { return WriteHTML(w, p) }

// WriteHTML writes pictures below one another on one page, which is what
// [Picture.WriteHTML] makes of one. The page has the title of the first.
func WriteHTML(w io.Writer, pictures ...*Picture) error {
	data := struct {
		Title  string
		Charts []*chart
		Style  template.CSS
		Script template.JS
	}{Style: template.CSS(style), Script: template.JS(script)} //nolint:gosec // both are ours
	spans := 0
	for i, p := range pictures {
		if i == 0 {
			data.Title = p.Title
		}
		data.Charts = append(data.Charts, p.layOut(&spans))
	}
	return page.Execute(w, data)
}
