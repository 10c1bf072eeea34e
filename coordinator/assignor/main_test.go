package assignor

import (
	"flag"
	"os"
	"testing"
)

// TestMain has the properties checked on thousands of groups, unless told
// otherwise: one takes microseconds.
func TestMain(m *testing.M) {
	flag.Parse()
	told := false
	flag.Visit(func(f *flag.Flag) { told = told || f.Name == "rapid.checks" })
	if !told && !testing.Short() {
		if err := flag.Set("rapid.checks", "2000"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
