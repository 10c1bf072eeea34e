package timeline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamsgroup/streamsgroup/topology"
)

// Sizes of the page in pixels; page.css has the same.
const (
	assumedWidth = 1000 // of the time axis, to tell which labels would overlap
	labelChar    = 6.4
	labelPadding = 14
	rowHeight    = 22
	labelHeight  = 16
	lanePadding  = 8
	labelRows    = 8 // minor labels beyond are left out
)

// chart is a picture with everything in its place.
type chart struct {
	Title, Summary string
	Claims         []Claim
	Held, Broken   int
	Ticks          []placedMark
	Epochs         []placedMark
	EpochsHeight   int
	Lanes          []placedLane
	Tasks          []legendTask
	States         []legendState // and the roles besides the active one
	Lines          []string
}

type placedMark struct {
	Left   string // in percent, as all that is horizontal
	Label  string
	Text   string // the whole of it, for the panel and for screen readers
	Top    int
	Hidden bool // there is no room for the label
	Ends   bool // the label ends at the mark rather than begins there
	Minor  bool
}

type placedLane struct {
	Name, Process string
	Height        int
	Marks         []placedMark
	Spans         []placedSpan
}

type placedSpan struct {
	ID, Left, Width string
	Top, Hue        int
	Task, Role      string
	TopologyEpoch   int32
	State, Class    string
	Text            string
}

type legendState struct{ State, Class string }

type legendTask struct {
	Task string
	Hue  int
}

// layOut puts everything in its place. spans counts those of the whole page, for
// their ids.
func (p *Picture) layOut(spans *int) *chart {
	length := p.length()
	scale := func(at time.Duration) float64 { return 100 * float64(min(max(at, 0), length)) / float64(length) }
	c := &chart{Title: p.Title, Summary: p.Summary, Claims: p.Claims, Lines: p.Lines}
	for _, claim := range p.Claims {
		if claim.Holds {
			c.Held++
		} else {
			c.Broken++
		}
	}
	for step, at := tickStep(length), time.Duration(0); at <= length; at += step {
		c.Ticks = append(c.Ticks, placedMark{Left: percent(scale(at)), Label: at.String()})
	}
	c.Epochs, c.EpochsHeight = placeMarks(p.Epochs, scale)
	c.EpochsHeight += lanePadding

	hues, tasks := p.hues()
	for _, t := range tasks {
		c.Tasks = append(c.Tasks, legendTask{t, hues[t]})
	}
	used := map[string]bool{}
	for _, lane := range p.Lanes {
		placed := placedLane{Name: lane.Name, Process: lane.Process}
		var top int
		placed.Marks, top = placeMarks(lane.Marks, scale)
		top += lanePadding
		rows := 0
		for _, s := range stack(lane.Spans) {
			to := min(cmp.Or(s.To, length), length)
			rows = max(rows, s.row+1)
			used[s.State], used[s.Role] = true, true
			*spans++
			placed.Spans = append(placed.Spans, placedSpan{
				ID:   "s" + strconv.Itoa(*spans),
				Left: percent(scale(s.From)), Width: percent(scale(to) - scale(s.From)), Top: top + s.row*rowHeight, Hue: hues[s.Task],
				Task: s.Task, Role: s.Role, TopologyEpoch: s.TopologyEpoch, State: s.State, Class: class(s.State) + " " + class(s.Role),
				Text: s.text(lane.Name, to),
			})
		}
		placed.Height = top + max(rows, 1)*rowHeight + lanePadding
		c.Lanes = append(c.Lanes, placed)
	}
	for _, s := range []string{Runs, Starts, Waits, Revoked, Away, Silent} {
		if used[s] {
			c.States = append(c.States, legendState{s, class(s)})
		}
	}
	for _, role := range []string{RoleStandby, RoleWarmUp} {
		if used[role] {
			c.States = append(c.States, legendState{role, Runs + " " + role})
		}
	}
	return c
}

func (s *Span) text(lane string, to time.Duration) string {
	t := fmt.Sprintf("%s, task %s, %s, topology epoch %d: %s from %s to %s", lane, s.Task, s.Role, s.TopologyEpoch, s.State, seconds(s.From), seconds(to))
	if s.Why != "" {
		t += ": " + s.Why
	}
	return t
}

// length is how long the picture is, never 0.
func (p *Picture) length() time.Duration {
	length := p.Length
	if length <= 0 {
		for _, m := range p.Epochs {
			length = max(length, m.At)
		}
		for _, l := range p.Lanes {
			for _, m := range l.Marks {
				length = max(length, m.At)
			}
			for _, s := range l.Spans {
				length = max(length, s.From, s.To)
			}
		}
	}
	return max(length, time.Millisecond)
}

// hues gives every task a colour: neighbours get colours that are far apart.
func (p *Picture) hues() (byTask map[string]int, sorted []string) {
	byTask = map[string]int{}
	for _, l := range p.Lanes {
		for _, s := range l.Spans {
			byTask[s.Task] = 0
		}
	}
	sorted = slices.SortedFunc(maps.Keys(byTask), compareTasks)
	for i, t := range sorted {
		byTask[t] = int(float64(i)*137.508+205) % 360
	}
	return byTask, sorted
}

func compareTasks(a, b string) int {
	x, errA := topology.ParseTaskID(a)
	y, errB := topology.ParseTaskID(b)
	if errA != nil || errB != nil {
		return strings.Compare(a, b)
	}
	return cmp.Or(x.Compare(y), strings.Compare(a, b))
}

type stackedSpan struct {
	Span
	row int
}

// stack gives spans that overlap rows of their own. What one task goes through
// without a gap stays in one row. The result is in the order of time.
func stack(spans []Span) []stackedSpan {
	out := make([]stackedSpan, len(spans))
	for i, s := range spans {
		out[i] = stackedSpan{Span: s}
	}
	slices.SortStableFunc(out, func(a, b stackedSpan) int {
		return cmp.Or(cmp.Compare(a.From, b.From), compareTasks(a.Task, b.Task), strings.Compare(a.Role, b.Role))
	})
	var rows []*stackedSpan // the last span of each row
	free := func(r, s *stackedSpan) bool { return r.To != 0 && r.To <= s.From }
	for i := range out {
		s := &out[i]
		s.row = slices.IndexFunc(rows, func(r *stackedSpan) bool { return free(r, s) && r.Task == s.Task && r.To == s.From })
		if s.row < 0 {
			s.row = slices.IndexFunc(rows, func(r *stackedSpan) bool { return free(r, s) && !goesOn(out[i+1:], r) })
		}
		if s.row < 0 {
			s.row = len(rows)
			rows = append(rows, nil)
		}
		rows[s.row] = s
	}
	return out
}

// goesOn is whether one of the later spans is what becomes of r.
func goesOn(later []stackedSpan, r *stackedSpan) bool {
	for i := range later {
		if later[i].From > r.To {
			return false
		}
		if later[i].From == r.To && later[i].Task == r.Task {
			return true
		}
	}
	return false
}

// placeMarks finds a row for each label in which it overlaps no other, and the
// height of all of them.
func placeMarks(marks []Mark, scale func(time.Duration) float64) ([]placedMark, int) {
	marks = slices.Clone(marks)
	slices.SortStableFunc(marks, func(a, b Mark) int { return cmp.Compare(a.At, b.At) })
	// Important labels choose first, so that they are near the axis and never hidden.
	order := make([]int, len(marks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(boolInt(marks[a].Minor), boolInt(marks[b].Minor))
	})
	type extent struct{ from, to float64 }
	var rows [][]extent
	placed := make([]placedMark, len(marks))
	for _, i := range order {
		m := marks[i]
		left := scale(m.At)
		width := 100 * (float64(len([]rune(m.Label)))*labelChar + labelPadding) / assumedWidth
		e := extent{left, left + width}
		ends := e.to > 100
		if ends {
			e = extent{left - width, left}
		}
		row := 0
		for row < len(rows) && slices.ContainsFunc(rows[row], func(o extent) bool { return e.from < o.to && o.from < e.to }) {
			row++
		}
		hidden := m.Minor && row >= labelRows
		if !hidden {
			if row == len(rows) {
				rows = append(rows, nil)
			}
			rows[row] = append(rows[row], e)
		} else {
			row = 0
		}
		text := seconds(m.At) + ": " + m.Label
		if m.Why != "" {
			text += ": " + m.Why
		}
		placed[i] = placedMark{Left: percent(left), Label: m.Label, Text: text, Top: row * labelHeight, Hidden: hidden, Ends: ends, Minor: m.Minor}
	}
	return placed, len(rows) * labelHeight
}

// tickStep is a round time that gives a dozen ticks at most.
func tickStep(length time.Duration) time.Duration {
	for unit := time.Millisecond; ; unit *= 10 {
		for _, n := range []time.Duration{1, 2, 5} {
			if length/(n*unit) <= 12 {
				return n * unit
			}
		}
	}
}

func percent(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) + "%" }

func seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }

// class is a role or a state as the name of a class.
func class(s string) string { return strings.ReplaceAll(s, " ", "-") }

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
