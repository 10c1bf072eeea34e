package timeline_test

import (
	"bytes"
	"image/png"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/internal/browser"
	"github.com/streamsgroup/streamsgroup/internal/timeline"
)

func TestPageInABrowser(t *testing.T) {
	t.Parallel()
	dom := browser.Elements(browser.DOM(t, []byte(timeline.SamplePage(t)), "#s5"))
	count := func(expr string) int { return len(regexp.MustCompile(expr).FindAllString(dom, -1)) }
	assert.Equal(t, 3, count(`class="row lane"`), "lanes")
	assert.Equal(t, 9, count(`class="span [^"]*"`), "spans")
	assert.Equal(t, 9, count(` id="s\d+"`), "each can be linked to")
	assert.Equal(t, 5, count(`class="epoch-line( minor)?"`), "epochs")
	assert.Equal(t, 2, count(`class="epoch-line"`), "topology epochs")
	assert.Equal(t, 1, count(`data-claim="holds"`))
	assert.Equal(t, 1, count(`data-claim="broken"`))
	assert.Contains(t, dom, `data-task="0_1" data-role="active" data-state="waits" data-topology-epoch="1"`)

	assert.Contains(t, dom, `<html lang="en" data-ready="17">`, "the script has gone through spans, epochs and marks")
	assert.Contains(t, dom, `aria-live="polite" class="set">B, task 0_1, active, topology epoch 1: waits from 2.000s to 2.600s: until A gives it up</p>`, "the reason")
	assert.Equal(t, 0, count(` title="`), "the panel takes the place of titles")
	assert.Equal(t, 17, count(`aria-label="[^"]*" style="left`), "but they can be read out")
	assert.Equal(t, 4, count(`class="(span|mark)[^>]*tabindex="0"`), "one stop for Tab in the epochs and in each lane")
	assert.Regexp(t, `id="s5"[^>]*tabindex="0"`, dom, "the one that was last in focus")
	assert.Contains(t, dom, `<label>Zoom`, "which needs the script, is shown")
	assert.Empty(t, browser.Loads(dom))
}

func TestPageIsLegibleInLightAndDark(t *testing.T) {
	t.Parallel()
	page := []byte(timeline.SamplePage(t))
	for _, dark := range []bool{false, true} {
		picture, err := png.Decode(bytes.NewReader(browser.Screenshot(t, page, dark, "1200,800")))
		require.NoError(t, err)
		red, green, blue, _ := picture.At(5, 600).RGBA()
		assert.Equal(t, dark, red+green+blue < 3*0x4000, "the background follows the user")
	}
}
