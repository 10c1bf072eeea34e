package timeline_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/internal/timeline"
)

// Names and reasons come from the wire: on the page they are text, whatever is in them.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	evil := "\"></title></pre></style><script>alert(1)</script><img src=x onerror=alert(2)> ' onmouseover='x` {{.}} --> </main>\x00\xff\u2028"
	p := &timeline.Picture{
		Title: evil, Summary: evil, Claims: []timeline.Claim{{Text: evil}}, Lines: []string{evil},
		Epochs: []timeline.Mark{{At: 1, Label: evil, Why: evil}},
		Lanes:  []timeline.Lane{{Name: evil, Process: evil + "p", Marks: []timeline.Mark{{Label: evil, Why: evil}}, Spans: []timeline.Span{{To: time.Second, Task: evil, Role: evil, State: evil, Why: evil}}}},
	}
	var b bytes.Buffer
	require.NoError(t, p.WriteHTML(&b))
	s := b.String()
	assert.Equal(t, 1, strings.Count(s, "<script"), "ours")
	assert.NotContains(t, s, "<img")
	assert.NotContains(t, s, "onmouseover='")
	assert.NotContains(t, s, "ZgotmplZ")
}
