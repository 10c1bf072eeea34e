package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// simulated runs "streamsgroup sim".
func simulated(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"sim"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func TestSimOneSeed(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "run.html")
	code, told, errs := simulated(t, "-seed", "4", "-html", page)
	require.Zero(t, code, errs)
	require.Contains(t, told, "seed 4: ")
	require.Contains(t, told, "everything is mended")
	require.Contains(t, told, "the group has come to rest")
	_, again, _ := simulated(t, "-seed", "4")
	require.Equal(t, told, again, "a run follows from its seed, with a page or without")

	html, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, want := range []string{"simulation, seed 4", "process 0/0", "no rule was broken", "group epoch 2"} {
		assert.Contains(t, string(html), want)
	}

	code, _, errs = simulated(t, "-seed", "4", "-html", filepath.Join(t.TempDir(), "no", "such", "directory"))
	require.Equal(t, 1, code)
	require.Contains(t, errs, "-html")
}

func TestSimManySeeds(t *testing.T) {
	t.Parallel()
	code, told, errs := simulated(t, "-steps", "20000", "-for", "10m", "-first", "100", "-parallel", "2")
	require.Zero(t, code, errs)
	require.Contains(t, told, "seeds 100 to ")
	require.Contains(t, told, " 0 violations")

	code, told, errs = simulated(t, "-steps", "1000000000000", "-for", "1ms")
	require.Equal(t, 1, code, "there is no time for so many steps: %s", told)
	require.Contains(t, errs, "1000000000000 were wanted")

	code, told, errs = simulated(t, "-steps", "1", "-parallel", "1", "-free", "-first", "7")
	require.Zero(t, code, errs)
	require.Contains(t, told, "seeds 7 to 7: 1 runs")

	over, stop := context.WithCancel(t.Context())
	stop()
	var out bytes.Buffer
	require.Zero(t, run(over, []string{"sim", "-for", "1h"}, &out, io.Discard), "it can be interrupted")
	require.Contains(t, out.String(), "no seed was played")
}

func TestSimBrokenRule(t *testing.T) {
	t.Parallel()
	const mutant = "never ends a session"
	_, list, _ := simulated(t, "-mutant", "list")
	require.Contains(t, strings.Split(list, "\n"), mutant)

	page := filepath.Join(t.TempDir(), "run.html")
	code, told, errs := simulated(t, "-mutant", mutant, "-minimize", "-html", page)
	require.Equal(t, 1, code)
	require.Contains(t, told, "VIOLATION of liveness")
	require.Contains(t, errs, "breaks a rule")
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(html), "liveness")

	code, told, errs = simulated(t, "-mutant", mutant, "-steps", "1000000000", "-stop", "-parallel", "1")
	require.Equal(t, 1, code)
	require.Contains(t, told, " 1 violations")
	require.Contains(t, told, "the smallest plan")
	require.Contains(t, errs, `streamsgroup sim -seed 1 -minimize -mutant "never ends a session"`)
}
