package main

import (
	"bytes"
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/streamsgroup/streamsgroup/kfakeext"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func virtual(exactly bool) options {
	return options{records: 2000, crashes: 5, feed: 5 * time.Second, exactly: exactly, cluster: []kfakeext.Opt{kfakeext.InProcess()}}
}

// The whole program in virtual time.
func TestWholeRun(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.NoError(t, exactlyOnce(t.Context(), virtual(true), &out), "%s", &out)
		assert.Less(t, time.Since(began), 20*time.Second)
	})
	assert.Contains(t, out.String(), "ok: 2000 records, each exactly once")
	assert.Contains(t, out.String(), "B crashes, and comes back")
}

// The check can fail: without transactions a crash leaves records that are there twice.
func TestWithoutTransactions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		assert.ErrorContains(t, exactlyOnce(t.Context(), virtual(false), io.Discard), "are there more than once")
	})
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, after := range []time.Duration{0, 100 * time.Millisecond, 2 * time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			assert.Error(t, exactlyOnce(ctx, virtual(true), io.Discard), after)
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
		"unknown flag":     {[]string{"-nope"}, 2, "-nope"},
		"argument":         {[]string{"topic"}, 2, `"topic"`},
		"no records":       {[]string{"-records", "0"}, 2, "-records 0"},
		"negative crashes": {[]string{"-crashes", "-1"}, 2, "-crashes -1"},
		"negative time":    {[]string{"-feed", "-1s"}, 2, "-feed -1s"},
		"help":             {[]string{"-h"}, 0, "-exactly-once"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			assert.Equal(t, c.code, run(t.Context(), c.args, &stdout, &stderr))
			assert.Contains(t, stderr.String(), c.says)
		})
	}
}
