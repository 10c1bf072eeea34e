// Package browser opens pages in a real browser, for tests: headless Chromium, which
// is another process. Tests skip where it is not installed, unless the environment
// says STREAMSGROUP_BROWSER=required.
package browser

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is for a machine that is very busy; a page takes a second.
const patience = 2 * time.Minute

var programs = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// DOM writes a page to a file, opens it at a fragment such as "#s1", and returns the
// document as it is once its scripts have run.
func DOM(t *testing.T, page []byte, fragment string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "page.html")
	require.NoError(t, os.WriteFile(file, page, 0o600))
	return string(run(t, "--dump-dom", "file://"+file+fragment))
}

// Screenshot opens a page, and returns it as a PNG of so many pixels. Dark is what
// the user prefers.
func Screenshot(t *testing.T, page []byte, dark bool, size string) []byte {
	t.Helper()
	dir := t.TempDir()
	file, png := filepath.Join(dir, "page.html"), filepath.Join(dir, "page.png")
	require.NoError(t, os.WriteFile(file, page, 0o600))
	scheme := map[bool]string{true: "0", false: "1"}[dark]
	run(t, "--hide-scrollbars", "--blink-settings=preferredColorScheme="+scheme, "--window-size="+size, "--screenshot="+png, "file://"+file)
	picture, err := os.ReadFile(png)
	require.NoError(t, err)
	return picture
}

func run(t *testing.T, args ...string) []byte {
	t.Helper()
	program := find()
	if program == "" {
		if os.Getenv("STREAMSGROUP_BROWSER") == "required" {
			require.Fail(t, "STREAMSGROUP_BROWSER=required, and there is no Chromium: install the package chromium")
		}
		t.Skip("there is no Chromium to open the page in: install the package chromium")
	}
	// Not t.TempDir: a part of the browser may still write when it has ended, and that
	// must not fail the test.
	profile, err := os.MkdirTemp("", "browser")
	require.NoError(t, err)
	defer func() { _ = os.RemoveAll(profile) }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--user-data-dir=" + profile,
	}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.Output()
	require.NoError(t, err, "%s", &stderr)
	return out
}

func find() string {
	for _, p := range programs {
		if path, err := exec.LookPath(p); err == nil {
			return path
		}
	}
	return ""
}

var (
	inert    = regexp.MustCompile(`(?s)<style>.*?</style>|<script>.*?</script>`)
	comments = regexp.MustCompile(`(?m)^\s*//.*$`)
	fetched  = regexp.MustCompile(`(?i)(?:https?:|["'(=\s])//[a-z0-9]|@import|url\(|<link|<img|<iframe|\ssrc\s*=`)
)

// Elements is a document without its style sheet and its script, so that what is
// looked for is found in elements only.
func Elements(dom string) string { return inert.ReplaceAllString(dom, "") }

// Loads is what in a page would make a browser fetch something.
func Loads(page string) []string {
	return fetched.FindAllString(comments.ReplaceAllString(page, ""), -1)
}
