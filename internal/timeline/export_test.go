package timeline

import "testing"

// SamplePage is the page of the sample, for the tests outside the package.
func SamplePage(t *testing.T) string {
	t.Helper()
	return write(t, sample())
}
