package timeline

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A narrow claim about many things: nothing overlaps that has a label, and no label
// is lost without a trace.
func TestCrowdedMarks(t *testing.T) {
	t.Parallel()
	p := &Picture{Title: "crowd", Length: 1000 * ms}
	for i := range 200 {
		p.Epochs = append(p.Epochs, Mark{At: ms * 5 * 200 / 1000 * 5, Label: "group epoch " + strings.Repeat("x", i%5), Minor: i > 3})
	}
	got := p.layOut(new(int))
	hidden := 0
	tops := map[int]int{}
	for _, m := range got.Epochs {
		if m.Hidden {
			hidden++
		} else {
			tops[m.Top]++
		}
		assert.NotEmpty(t, m.Text)
	}
	assert.Len(t, tops, labelRows)
	assert.Equal(t, 200-labelRows, hidden)
	for top, n := range tops {
		assert.Equal(t, 1, n, "labels at one moment in the row at %d", top)
	}
}

func TestStackKeepsWhatOverlapsApart(t *testing.T) {
	t.Parallel()
	spans := sample().Lanes[0].Spans
	rows := map[string]int{}
	stacked := stack(spans)
	for i, a := range stacked {
		rows[a.Task+a.State] = a.row
		for _, b := range stacked[i+1:] {
			if a.row == b.row {
				assert.True(t, a.To <= b.From || b.To <= a.From, "%v and %v", a, b)
			}
		}
	}
	assert.Equal(t, rows["0_0starts"], rows["0_0runs"], "what one task goes through is in one row")
	assert.Equal(t, rows["0_1runs"], rows["0_1being revoked"])
	assert.Equal(t, []int{0, 1, 0, 1}, []int{stacked[0].row, stacked[1].row, stacked[2].row, stacked[3].row})
}
