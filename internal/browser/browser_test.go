package browser_test

import (
	"bytes"
	"image/png"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/internal/browser"
)

const page = `<!doctype html><style>:root { color-scheme: light dark } @media (prefers-color-scheme: dark) { html { background: #000 } }</style>
<p id="p">before</p><script>document.getElementById("p").textContent = "after " + location.hash</script>`

func TestScriptsHaveRun(t *testing.T) {
	t.Parallel()
	dom := browser.Elements(browser.DOM(t, []byte(page), "#here"))
	assert.Contains(t, dom, `<p id="p">after #here</p>`)
	assert.NotContains(t, dom, "before")
	assert.NotContains(t, dom, "color-scheme")
}

func TestScreenshotHasTheScheme(t *testing.T) {
	t.Parallel()
	for dark, want := range map[bool]uint32{true: 0, false: 0xffff} {
		picture, err := png.Decode(bytes.NewReader(browser.Screenshot(t, []byte(page), dark, "300,200")))
		require.NoError(t, err)
		red, _, _, _ := picture.At(250, 150).RGBA()
		assert.Equal(t, want, red, "dark: %v", dark)
	}
}

func TestLoads(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		`<img alt="">`, `<script src="x.js">`, `<link rel=x>`, `url(x)`, `@import "x"`, `"https://x.org"`, `"//cdn.org/x"`, `fetch('http://x')`,
	} {
		assert.NotEmpty(t, browser.Loads(s), s)
	}
	for _, s := range []string{page, `a / b // c`, "  // https://example.org is a comment", `<p>data-src</p>`} {
		assert.Empty(t, browser.Loads(s), s)
	}
}
