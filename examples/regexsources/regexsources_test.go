package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output collects what a run prints.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func virtual(pattern string) options {
	return options{pattern: pattern, cluster: []kfakeext.Opt{kfakeext.InProcess()}}
}

// The whole program in virtual time.
func TestWholeRun(t *testing.T) {
	t.Parallel()
	o := virtual(`orders-.*`)
	o.html = filepath.Join(t.TempDir(), "page.html")
	var out output
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.NoError(t, regexSources(t.Context(), o, &out), "%s", &out)
		assert.Less(t, time.Since(began), 20*time.Second)
	})
	assert.Contains(t, out.String(), "ok: 40 records were written to orders-eu, and 40 processed, 40 of them different ones")
	assert.Contains(t, out.String(), "ok: 60 records were written to orders-us, and 60 processed, 60 of them different ones")
	assert.Contains(t, out.String(), "ok: the group had tasks 0_0-1 and has 0_0-2, each of them once")
	assert.Contains(t, out.String(), "ok: no record of invoices-us was read")
	assert.Contains(t, out.String(), "ok: B was told to read orders-eu and orders-us")
	page, err := os.ReadFile(o.html)
	require.NoError(t, err)
	assert.Equal(t, 6, strings.Count(string(page), `data-claim="holds"`))
	assert.Contains(t, string(page), `data-task="0_2"`)
}

func TestBrokenClaims(t *testing.T) {
	t.Parallel()
	for pattern, says := range map[string][]string{
		`orders-eu`:            {"FAILED: 60 records were written to orders-us, and 0 processed", "FAILED: the group had tasks 0_0-1 and has 0_0-1", "FAILED: A was told to read orders-eu\n"},
		`(orders|invoices)-.*`: {"FAILED: no record of invoices-us was read"},
	} {
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			var out output
			synctest.Test(t, func(t *testing.T) {
				assert.ErrorContains(t, regexSources(t.Context(), virtual(pattern), &out), "claims do not hold")
			})
			for _, s := range says {
				assert.Contains(t, out.String(), s)
			}
		})
	}
}

// Apache Kafka takes no patterns, and the member says so.
func TestRefusedPattern(t *testing.T) {
	t.Parallel()
	o := virtual(`orders-.*`)
	o.cluster = append(o.cluster, kfakeext.Policy(coordinator.Kafka))
	synctest.Test(t, func(t *testing.T) {
		assert.ErrorContains(t, regexSources(t.Context(), o, io.Discard), "A: ")
	})
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, after := range []time.Duration{0, 100 * time.Millisecond, 320 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			assert.Error(t, regexSources(ctx, virtual(`orders-.*`), io.Discard), after)
			cancel()
		}
	})
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"unknown flag": {[]string{"-nope"}, 2, "-nope"},
		"argument":     {[]string{"page.html"}, 2, `"page.html"`},
		"help":         {[]string{"-h"}, 0, "-html"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			assert.Equal(t, c.code, run(t.Context(), c.args, &stdout, &stderr))
			assert.Contains(t, stderr.String(), c.says)
		})
	}
}
